"""CUDA calls of a training step: launches, graphs, copies, bytes, and the work of the host.

    python -m bench launches --json bench/results/launches.json

It runs on emulated CUDA (tests/cupy_on_cpu), which counts and does not measure a GPU. Each row is a warm step on a
batch at another address than the previous one. Jitted steps must compute the losses of the eager ones.
"""

import gc
import itertools
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench import common
from bench.common import Missing, load
from bench.suites import Options, Report, Suite

WARM = 5
"""Calls until a jitted step replays: it is traced, runs without graphs, is captured, and its state has settled."""
CALLS = 200
"""Timed calls of the host."""
TOLERANCES = {"float32": 1e-4, "tf32": 2e-2, "bfloat16": 5e-2, "float16": 2e-2}
"""The maximum difference of losses from the losses of the eager step, relative to the loss."""
PRECISIONS = ("float32", "tf32", "bfloat16", "float16")
KINDS = {
    "products": ("cublasLt", "gemm"),
    "fused": ("group_", "finish"),
    "updates": ("agrad_adam", "agrad_sgd", "updates"),
}
"""The kinds of kernels by the beginning of their names; all others are single operations."""


@dataclass(frozen=True)
class Counted:
    """The CUDA calls of one warm step."""

    launches: int
    graphs: int
    nodes: dict[str, int]
    """Kernels by kind, in graphs and outside of graphs."""
    copies: int
    """Copies on the device: of inputs into graphs, and of results out of them."""
    transfers: int
    """Copies between host and device."""
    memsets: int
    syncs: int
    moved: int
    """Bytes that the operations read and write."""
    necessary: int
    """Bytes of the inputs, each read once, and of the results, each written once."""
    calls: int
    """Python calls."""
    microseconds: float
    """Processor time of the host, on this machine."""


# ------------------------------------------------------------------ models


def mlp() -> tuple[Any, tuple[int, ...]]:
    nn = load("agrad.nn")
    layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)]
    return nn.Sequential(*layers), (32, 784)


def conv_net() -> tuple[Any, tuple[int, ...]]:
    nn = load("agrad.nn")
    features = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*features, nn.Flatten(), nn.Linear(8 * 7 * 7, 10)), (8, 1, 14, 14)


def lstm() -> tuple[Any, tuple[int, ...]]:
    nn = load("agrad.nn")

    class Reader(nn.Module):
        """An LSTM over rows, and a linear layer on its last output."""

        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(16, 32, batch_first=True)
            self.head = nn.Linear(32, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1, :])

    return Reader(), (8, 12, 16)


def transformer() -> tuple[Any, tuple[int, ...]]:
    nn = load("agrad.nn")

    class Reader(nn.Module):
        """A transformer block, and a linear layer on the mean of its outputs."""

        def __init__(self) -> None:
            super().__init__()
            self.block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.head = nn.Linear(32, 10)

        def forward(self, x: Any) -> Any:
            return self.head(load("agrad").mean(self.block(x), axis=1))

    return Reader(), (4, 16, 32)


MODELS: dict[str, Callable[[], tuple[Any, tuple[int, ...]]]] = {
    "MLP": mlp,
    "conv net": conv_net,
    "LSTM": lstm,
    "transformer block": transformer,
}


def training_step(name: str, precision: str | None) -> tuple[Callable[..., Any], list[tuple[Any, Any]]]:
    """Return a step of Adam and four batches on the GPU. Without a precision, the step is eager."""
    agrad, nn, np = load("agrad"), load("agrad.nn"), load("numpy")
    nn.manual_seed(0)
    model, shape = MODELS[name]()
    optim = load("agrad.optim")
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    scale = optim.LossScale(optimizer) if precision == "float16" else None

    def step(x: Any, labels: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), labels)
        if scale is None:
            loss.backward()
            optimizer.step()
        else:
            scale(loss).backward()
            scale.step()
        optimizer.zero_grad()
        return loss

    if precision is not None:
        step = agrad.jit(step, precision=None if precision == "float32" else precision)
    rng = np.random.default_rng(0)
    batches = [(rng.normal(size=shape).astype(np.float32), rng.integers(0, 10, shape[0])) for _ in range(4)]
    return step, [tuple(agrad.asarray(a, backend="cupy") for a in pair) for pair in batches]


# ------------------------------------------------------------------ counting


_KERNEL = re.compile(r"cublasLt \S+(?: m\d+ n\d+ k\d+)?(?: of \d+)?(?: tf32| b?f16)?(?: narrow)?|\S+")
"""The name of a kernel in a trace. Names of products contain their sizes and precision."""


def kernels(lines: list[str]) -> dict[str, int]:
    """Return the number of kernels of each kind in a trace of CUDA, in graphs and outside of graphs."""
    found = dict.fromkeys((*KINDS, "single"), 0)
    for line in lines:
        listed = line.partition(": ")[2] if line.startswith("graphLaunch") else line
        names = _KERNEL.findall(re.sub(r" <<<[^>]*>>>", "", listed))
        if not line.startswith("graphLaunch"):
            names = names[:1]
        for name in names:
            if not name.startswith(("memcpy", "memset", "stream", "event", "device", "D2", "H2")):
                kind = next((kind for kind, begins in KINDS.items() if name.startswith(begins)), "single")
                found[kind] += 1
    return found


def size(v: Any) -> int:
    """Return the bytes of a variable of a program; 0 for a number of the host."""
    if getattr(v, "kind", None) is None:
        return 0
    count = 1
    for n in v.shape:
        count *= n
    return count * load("numpy").dtype(v.dtype).itemsize


def moved(program: Any) -> int:
    """Return the bytes that the instructions of a program read and write. Views move none."""
    arrays = [{*i.reads(), *i.results} for i in program.instructions if not i.operation.is_view]
    return sum(size(v) for some in arrays for v in some)


def necessary(program: Any) -> int:
    """Return the bytes of a program's inputs and outputs."""
    return sum(size(v) for v in {*program.inputs, *program.constants, *program.outputs} if hasattr(v, "kind"))


def python_calls(run: Callable[[], Any]) -> int:
    """Return the number of Python functions that are called."""
    calls = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls - 1


def count(name: str, precision: str | None) -> tuple[Counted, list[float]]:
    """Count a warm step. Returns the losses of the first steps too."""
    cuda_on_cpu = load("cuda_on_cpu")
    step, batches = training_step(name, precision)
    losses = [float(step(*batches[k % 4]).item()) for k in range(WARM)]
    batch = batches[WARM % 4]
    before = cuda_on_cpu.counts()
    lines = cuda_on_cpu.trace(lambda: step(*batch))
    after = cuda_on_cpu.counts()
    asked = {field: getattr(after, field) - getattr(before, field) for field in after._fields}
    with cuda_on_cpu.without_work():
        calls = python_calls(lambda: step(*batch))
        gc.collect()
        times = []
        for k in range(CALLS):
            start = time.process_time()
            step(*batches[k % 4])
            times.append(time.process_time() - start)
    program = (load("agrad").jit(step) if precision is None else step).lower(*batch).stages
    first, last = program[0][1], program[-1][1]
    return (
        Counted(
            asked["launches"],
            asked["graphs"],
            kernels(lines),
            asked["d2d"],
            asked["h2d"] + asked["d2h"],
            asked["memsets"],
            asked["syncs"],
            moved(first if precision is None else last),
            necessary(first),
            calls,
            statistics.median(times) * 1e6,
        ),
        losses,
    )


def check(row: str, losses: list[float], eager: list[float], tolerance: float) -> None:
    """Raise ``AssertionError`` if losses differ from the eager step."""
    for k, (a, b) in enumerate(zip(losses, eager, strict=True)):
        if not abs(a - b) <= tolerance * abs(b):
            raise AssertionError(f"{row}: the loss of step {k} is {a}, and the eager one {b}")


# ------------------------------------------------------------------ the suite


def rows(names: tuple[str, ...]) -> list[tuple[str, str | None]]:
    return list(itertools.product(names or MODELS, (None, *PRECISIONS)))


def title(name: str, precision: str | None) -> str:
    return f"{name}, eager" if precision is None else f"{name}, jitted, {precision}"


def table(found: dict[str, Counted]) -> str:
    """Return the counts of all rows."""
    heads = ["step", "launches", "graphs", *KINDS, "single", "copies", "transfers", "memsets", "waits"]
    heads += ["kB moved", "of the necessary", "Python calls", "host, us"]
    lines = [
        [
            row,
            *map(str, (c.launches, c.graphs, *c.nodes.values(), c.copies, c.transfers, c.memsets, c.syncs)),
            f"{c.moved / 1e3:.0f}",
            f"{c.moved / c.necessary:.1f} x",
            str(c.calls),
            f"{c.microseconds:.0f}",
        ]
        for row, c in found.items()
    ]
    return common.table(heads, lines)


def run(options: Options) -> Report:
    """Count all steps, and check that they compute the same."""
    try:
        load("cuda_on_cpu")
    except ImportError:
        raise Missing("launches are counted with emulated CUDA: tests/cupy_on_cpu/setup.sh VENV") from None
    about = common.machine()
    found: dict[str, Counted] = {}
    eager: list[float] = []
    with load("agrad").use_backend("cupy"):
        for name, precision in rows(options.only):
            row = title(name, precision)
            found[row], losses = count(name, precision)
            eager = losses if precision is None else eager
            check(row, losses, eager, TOLERANCES[precision or "float32"])
    text = (
        "# Launches\n\nAn Adam step on CuPy, with CUDA emulated on the CPU: counts, without GPU times. "
        "Kernels by kind include kernels in graphs and outside of graphs; `launches` counts the kernels outside of "
        "graphs and copies by CuPy kernels. The processor time of the host is the median of a step whose kernels do "
        "nothing.\n\n"
        f"{table(found)}\n\n" + common.environment_text(about, {}, {})
    )
    record = {
        "suite": "launches",
        "machine": about,
        "counts": {row: vars(c) for row, c in found.items()},
        "seconds": {row: {"agrad, host": [c.microseconds / 1e6]} for row, c in found.items()},
    }
    return Report(text, record)


SUITE = Suite(about="what a training step asks CUDA for", run=run, repeat=1, only=tuple(MODELS))
