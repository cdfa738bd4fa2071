"""The gain of each registered kernel: the time, or launches, of the general rule divided by the kernel's.

    OPENBLAS_NUM_THREADS=1 python -m bench kernels
    PYTHONPATH=tests/cupy_on_cpu VENV/bin/python -m bench kernels --backends cupy

On NumPy, both are timed alternately, by processor time, and the minimum times are compared. On CuPy, both run on
emulated CUDA (tests/cupy_on_cpu), which counts launches and does not measure a GPU. A kernel is kept if its gain is at
least ``LEAST`` at one of the sizes.
"""

import functools
import math
import time
from collections.abc import Callable
from typing import Any

from bench import common
from bench.common import load
from bench.suites import Options, Report, Suite

LEAST = 1.1
SIZES = (1 << 6, 1 << 12, 1 << 17, 1 << 21)
SAMPLE = 4e-3
"""Minimum seconds of a sample."""
DRAWS = {
    "random_keys": {"domain": 1, "data": 0},
    "random_bits": {"dtype": "uint32"},
    "random_uniform": {"dtype": "float32", "interior": False},
    "random_mask": {"threshold": 1 << 31},
    "random_integers": {"low": 0, "high": 100, "dtype": "int64"},
    "random_normal": {"dtype": "float32"},
    "random_permutation": {},
}


def registry() -> Any:
    """Return ``agrad.registry`` with the primitives of the sections that are imported on first use."""
    for section in ("fft", "linalg", "random", "special"):
        load(f"agrad.{section}")
    return load("agrad.registry")


class Case:
    """The arguments of an operation of about ``n`` elements, by name, and its keyword arguments."""

    def __init__(self, name: str, n: int, dtype: str) -> None:
        np = load("numpy")
        self.np, self.dtype, self.n = np, dtype, n
        self.rng = np.random.default_rng(0)
        self.rows, self.columns = (n // 64, 64) if n > 64 else (8, 8)
        self.values: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        make = getattr(self, name.replace(".", "_"), None)
        if make is not None:
            make()
        elif name in DRAWS:
            self.draw(name)
        else:
            names = registry().PRIMITIVES[name].all_arrays
            self.values.update({argument: self.array(self.rows, self.columns) for argument in names})

    def array(self, *shape: int) -> Any:
        return self.rng.uniform(0.5, 1.5, shape).astype(self.dtype)

    def draw(self, name: str) -> None:
        self.values["key"] = self.np.arange(4, dtype=self.np.uint32)
        counts = {"random_keys": {"count": self.n}, "random_permutation": {"n": self.n}}
        self.settings.update(DRAWS[name], **counts.get(name, {"shape": (self.n,)}))

    def along_rows(self) -> None:
        self.values["x"] = self.array(self.rows, self.columns)
        self.settings.update(axis=(1,), keepdims=False)

    prod = max = min = along_rows

    def softmax(self) -> None:
        self.values["x"] = self.array(self.rows, self.columns)
        self.settings["axis"] = 1

    log_softmax = diff = softmax

    def gelu(self) -> None:
        self.values["x"] = self.array(self.rows, self.columns)
        self.settings["approximate"] = False

    def sort(self) -> None:
        self.softmax()
        self.settings.update(descending=False, stable=True)

    def cumulative_prod(self) -> None:
        self.softmax()
        self.settings["include_initial"] = False

    def between(self) -> None:
        self.values["x"] = self.array(self.rows, self.columns)
        self.settings.update(low=0.7, high=1.2)

    def where(self) -> None:
        shape = (self.rows, self.columns)
        self.values.update(condition=self.array(*shape) > 1, x1=self.array(*shape), x2=self.array(*shape))

    def linear(self) -> None:
        rows = max(1, self.rows // 4)
        self.values.update(x=self.array(rows, 64), weight=self.array(64, 256), bias=self.array(256))

    def cross_entropy_of_labels(self) -> None:
        self.softmax_cross_entropy()
        self.settings.update(ignore=-100, smoothing=0.0, reduction="mean")

    def softmax_cross_entropy(self) -> None:
        classes = 10
        rows = max(1, self.n // classes)
        self.values.update(x=self.array(rows, classes), labels=self.rng.integers(0, classes, rows))

    def sum(self) -> None:
        self.values["x"] = self.array(self.n // 4, 4)
        self.settings["axis"] = -1

    mean = sum

    def tril(self) -> None:
        self.values["x"] = self.array(self.rows, 8, 8)

    triu = tril

    def max_pool(self) -> None:
        side = max(4, min(32, math.isqrt(self.n)))
        self.values["x"] = self.array(max(1, self.n // side**2), side, side)
        self.settings.update(kernel=(3, 3), strides=(1, 1), dilation=(1, 1))

    def matmul(self) -> None:
        rows = max(1, self.rows // 16)
        self.values.update(x1=self.array(rows, 4, 64), x2=self.array(64, 32))

    def mask_unused(self) -> None:
        self.values.update(used=self.array(self.rows, self.columns) > 1, part=self.array(self.rows, self.columns))

    def convolution(self) -> None:
        side = max(4, min(28, math.isqrt(self.n // 4)))
        self.values.update(x=self.array(max(1, self.n // side**2 // 4), 4, side, side), w=self.array(8, 4, 3, 3))
        ones = (1, 1)
        windows = load("agrad.backends.convolution").Windows
        self.settings.update(how=windows(ones, (ones, ones), ones, ones, 1))

    def square_matrices(self) -> Any:
        side = min(32, math.isqrt(self.n))
        made = self.array(max(1, self.n // side**2), side, side)
        return made + side * self.np.eye(side, dtype=self.dtype)

    def linalg_adjugate(self) -> None:
        self.values["x"] = self.square_matrices() / 8

    def linalg_det(self) -> None:
        self.values["x"] = self.square_matrices() / (8 if self.n < 100 else 32)

    def linalg_over_triangle(self) -> None:
        matrices = self.np.triu(self.square_matrices())
        self.values.update(x1=self.array(*matrices.shape), x2=matrices)
        self.settings.update(upper=True, checked=True)

    def linalg_outer(self) -> None:
        rows = max(2, self.n // 64)
        self.values.update(x1=self.array(rows, 8), x2=self.array(rows, 8))

    def linalg_vector_norm(self) -> None:
        self.along_rows()
        self.settings["ord"] = 2

    def linalg_cross(self) -> None:
        self.values.update(x1=self.array(self.n // 3, 3), x2=self.array(self.n // 3, 3))
        self.settings["axis"] = -1

    def scatter_sum(self) -> None:
        parts = [self.array(self.n // 4) for _ in range(4)]
        self.values["parts"] = parts
        quarter = self.n // 4
        self.settings.update(indices=tuple((slice(i * quarter, (i + 1) * quarter),) for i in range(4)), shape=(self.n,))

    def scatter_add(self) -> None:
        ids = self.rng.integers(0, self.n // 4 + 1, (2, self.n // 8 + 1))
        array = load("agrad.shapes").ARRAY
        self.values.update(g=self.array(ids.shape[1], 8), ids=ids[0])
        self.settings.update(index=(array,), shape=(self.n // 4 + 1, 8))

    def sgd_update(self) -> None:
        self.values.update({name: self.array(self.n) for name in ("p", "g", "v")})
        self.settings.update(lr=0.1, momentum=0.9, dampening=0.0, nesterov=False, weight_decay=0.0)
        self.settings.update(maximize=False, donate=True)

    def adam_update(self) -> None:
        self.values.update({name: self.array(self.n) for name in ("p", "g", "m", "v")})
        self.settings.update(rate=0.1, floor=1e-8, beta1=0.9, beta2=0.999, decay=0.0, shrink=None)
        self.settings.update(step=5, donate=True)


def general_function(backend: Any, name: str) -> Callable[..., Any]:
    """Return the function of the namespace that a kernel replaces, or the generic one."""
    if name == "convolution":
        return functools.partial(load("agrad.backends.convolution").convolution, backend.xp)
    if name == "scatter_add":
        return added_at
    return getattr(load(f"array_api_compat.{backend.name}"), name)


def added_at(g: Any, ids: Any, *, index: Any, shape: tuple[int, ...]) -> Any:
    np = load("numpy")
    out = np.zeros(shape, g.dtype)
    np.add.at(out, load("agrad.shapes").fill_index(index, (ids,)), g)
    return out


Call = Callable[[], Any]


def pair(backend: Any, name: str, part: str, case: Case) -> tuple[Call, Call] | None:
    """Return calls of the general rule and of the kernel, or None if its guard declines."""
    filed = registry()
    kernel = filed.KERNELS[backend.name, name, part]
    place = lambda a: a if a is None or isinstance(a, list) else backend.from_host(a, None)  # noqa: E731
    values = {key: place(a) for key, a in case.values.items()}
    arrays = [a for v in values.values() for a in (map(place, v) if isinstance(v, list) else [v])]
    settings = case.settings
    if part == "namespace":
        general = functools.partial(general_function(backend, name), *arrays, **settings)
        return general, functools.partial(kernel.function, *arrays, **settings)
    primitive = filed.PRIMITIVES[name]
    if part.startswith("forward("):
        return folded(backend, name, part, case.n)
    forward = functools.partial(primitive.generic(backend), *arrays, **settings)
    if part == "forward":
        general, given = forward, arrays
    else:
        add_results(primitive, forward(), values, case, place)
        joined, _, target = part.rpartition("vjp:")
        if joined == "forward+":  # together with the kernels of both
            return in_one(backend, name, target, values)
        rule = primitive.vjps[target]
        kept = {key: settings[key] for key in rule.settings}
        known = [backend.xp if key == "xp" else values[key] for key in rule.names]
        general, given = functools.partial(rule.function, *known, **kept), [values.get(key) for key in kernel.names]
        if joined == "masked ":  # by the value of the cotangent
            plain, g = general, values["g"]
            general = lambda: filed.CALLS["zero_masked"](g != 0, plain(), False)  # noqa: E731
    own = functools.partial(kernel.function, *given, **{key: settings[key] for key in kernel.settings})
    applies = (kernel.when is None or kernel.when(*given)) and own() is not NotImplemented
    return (general, own) if applies else None


def folded(backend: Any, name: str, part: str, n: int) -> tuple[Call, Call]:
    """Return the calls for an operation whose operand is a product of 32 rows or their sum.

    Compiled programs call the parts of these kernels, in place and with their own memory.
    """
    np = load("numpy")
    kernels, rng = registry().KERNELS, np.random.default_rng(0)
    make, dtype, rows, side = kernels[backend.name, name, part].function, np.dtype(np.float32), 32, math.isqrt(n)
    a, b = rng.random((side, rows), dtype), rng.random((rows, side), dtype)
    p, v, spare = (rng.random((side, side), dtype) for _ in range(3))
    if name == "add":
        add = make((side, rows, side), dtype)
        return lambda: np.add(p, np.matmul(a, b, out=spare), out=p), lambda: add(p, a, b, p)
    options = {"lr": 1e-9, "momentum": 0.9, "donate": True}
    options |= {"dampening": 0.0, "nesterov": False, "weight_decay": 0.0, "maximize": False}
    update = functools.partial(kernels[backend.name, name, "forward"].function, **options)
    if part.endswith("=product)"):
        step = make((side, rows, side), dtype, 0.9, None)
        return lambda: update(p, np.matmul(a, b, out=spare), v), lambda: step(p, a, b, v, True, 1e-9)
    step, ones = make(True, (), None), np.ones(rows, dtype)
    p, v, spare = p[0], v[0], spare[0]
    numbers = np.array(1e-9, dtype), np.array(0.9, dtype)
    return lambda: update(p, np.matmul(ones, b), v), lambda: step(p, b, v, spare, True, 1e-9, *numbers)


def in_one(backend: Any, name: str, target: str, values: dict[str, Any]) -> tuple[Call, Call]:
    """Return calls of the kernels of an operation and of its rule, and of the one that computes both."""
    filed = registry().KERNELS
    forward, rule, both = (
        filed[backend.name, name, part] for part in ("forward", f"vjp:{target}", f"forward+vjp:{target}")
    )
    arrays, given = [values[key] for key in forward.names], [values[key] for key in rule.names]
    together = [values[key] for key in both.names]
    return lambda: (forward.function(*arrays), rule.function(*given)), lambda: both.function(*together)


def add_results(primitive: Any, found: Any, values: dict[str, Any], case: Case, place: Callable[[Any], Any]) -> None:
    """Add the results, their cotangents and metadata of the arguments, by the names that rules use."""
    meta = load("agrad.engine.tape").Meta
    values.update({f"{key}_meta": meta(a.shape, a.dtype) for key, a in values.items()})
    if primitive.outputs is None:
        values.update(y=found, g=place(case.array(*found.shape)))
    else:
        values.update(zip(primitive.outputs, found, strict=True))
        values.update({f"g_{key}": None for key in primitive.outputs})
        values[f"g_{primitive.outputs[0]}"] = place(case.array(*found[0].shape))


def processor_time(general: Call, kernel: Call, repeat: int) -> tuple[float, float]:
    """Return the minimum processor times of one call of each, alternately."""
    least, clock = [math.inf, math.inf], time.process_time
    counts = []
    for function in (general, kernel):
        n = 1
        while True:
            start = clock()
            for _ in range(n):
                function()
            if clock() - start > SAMPLE:
                break
            n *= 2
        counts.append(n)
    for _ in range(repeat):
        for k, function in enumerate((general, kernel)):
            start = clock()
            for _ in range(counts[k]):
                function()
            least[k] = min(least[k], (clock() - start) / counts[k])
    return least[0], least[1]


def launched(general: Call, kernel: Call, repeat: int) -> tuple[float, float]:
    """Return the device work of one call of each: launches, products, copies and memory that is set."""
    found = []
    for function in (general, kernel):
        function()
        found.append(float(len(load("cuda_on_cpu").trace(function))))
    return found[0], found[1]


Costs = dict[str, dict[str, list[float]]]


def measure(backend: Any, dtype: str, sizes: tuple[int, ...], repeat: int) -> tuple[list[list[str]], Costs]:
    """Return a row for each filed kernel, and the costs by kernel and size.

    A row has the name, the gain at each size, the largest gain and the registered gain.
    """
    how = launched if backend.name == "cupy" else processor_time
    rows, costs = [], {}
    np = load("numpy")
    for (library, name, part), kernel in sorted(registry().KERNELS.items()):
        if library != backend.name:
            continue
        found: list[float] = []
        with np.errstate(all="ignore"):
            for n in sizes:
                calls = pair(backend, name, part, Case(name, n, dtype))
                general, own = (math.nan, math.nan) if calls is None else how(*calls, repeat)
                found.append(general / own)
                if calls is not None:
                    costs[f"{name} {part}, {n}"] = {"general rule": [general], "agrad, kernel": [own]}
        known = [gain for gain in found if not math.isnan(gain)]
        shown = ["-" if math.isnan(gain) else f"{gain:.2f}" for gain in (*found, max(known, default=math.nan))]
        rows.append([f"{name} {part}", *shown, str(kernel.gain or "")])
        print(*rows[-1], flush=True)
    return rows, costs


def run(options: Options) -> Report:
    """Measure all kernels of the backends."""
    about = common.machine()
    texts, record, seconds = [], {}, {}
    for name in options.backends:
        backend = load("agrad.backends").load(name)
        rows, costs = measure(backend, options.dtype, options.sizes, options.repeat)
        seconds.update(costs if name == "numpy" else {})
        heads = ["kernel", *(f"{n:,}" for n in options.sizes), "gain", "filed"]
        texts.append(f"# Kernels of {name}\n\n{common.table(heads, rows)}")
        record[name] = {row[0]: row[1:] for row in rows}
    text = "\n\n".join(texts) + "\n\n" + common.environment_text(about, {}, {})
    known = {"suite": "kernels", "machine": about, "gains": record, "seconds": seconds}
    return Report(text, {**known, "left_out": {}, "computed_with": {}, "limits": {}})


SUITE = Suite(
    about="the gain of each filed kernel",
    run=run,
    repeat=7,
    backends=("numpy", "cupy"),
    default_backends=("numpy",),
    sizes=SIZES,
    quick_sizes=SIZES[:2],
    dtypes=("float32", "float64"),
)
