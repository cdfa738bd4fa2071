"""A base of tests for custom primitives and kernels, from a list of samples."""

import importlib.util
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import agrad
from agrad.backends import load
from agrad.dtypes import dtype_name, is_floating
from agrad.errors import ConfigurationError
from agrad.registry import KERNELS, PRIMITIVES, namespace
from agrad.testing import checks
from agrad.testing.grads import check_grads
from agrad.testing.numerics import (
    assert_all_close,
    assert_close,
    check_like,
    cotangents,
    gradients,
    host,
    outputs,
    random_like,
    scattered,
)

_MEMBERS = 3
_NARROW = {"float64": "float32", "complex128": "complex64"}


@dataclass(frozen=True)
class Sample:
    """One call of a primitive.

    Parameters
    ----------
    args : tuple
        Arguments: arrays in double precision and numbers.
    settings : dict
        Keyword arguments by name.
    constant : tuple of int
        Positions of floating-point arrays that are not differentiated.
    kink : bool
        True if the primitive has no derivative here. Only the checks without finite differences run then.
    label : str
        Name of its tests. By default, its index.

    Examples
    --------
    >>> sample = agrad.testing.Sample((np.asarray([1.0, 2.0]),), label="small")
    >>> sample.label, sample.settings
    ('small', {})
    """

    args: tuple[Any, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    constant: tuple[int, ...] = ()
    kink: bool = False
    label: str = ""


class PrimitiveTest:
    """The tests of a primitive, for pytest or unittest; a subclass lists samples.

    Each sample has one method for each check, such as ``test_vjp_0``:

    - ``forward``: the values of the reference, for plain arrays, Tensors and recorded Tensors;
    - ``vjp``, ``jvp``, ``second_order``: against finite differences, as ``check_grads`` (not at kinks);
    - ``adjoint``: <g, J t> = <J^T g, t>, to rounding; ``recorded``: the rules for plain arrays and Tensors agree;
    - ``batching``: ``vmap``, alone and with ``vjp`` inside and outside, returns the results of a loop;
    - ``dtypes``: single precision is preserved and agrees with double; gradients have their arguments' dtypes;
    - ``layouts``: arrays that are not contiguous produce the same results, and read-only arrays are not written into;
    - ``on_<backend>``: values, gradients and second order as on NumPy, with dtype and device kept.

    Each backend has a ``kernels_<backend>``: each kernel registered for the primitive agrees with the generic code, and
    at least one sample reaches it.

    Attributes
    ----------
    function : function
        The primitive, as ``staticmethod``.
    samples : sequence
        ``Sample`` objects, or tuples of arguments.
    reference : function or None
        Function of NumPy arrays and keyword arguments that returns the expected result; None means no comparison.
    backends : sequence of str
        Backends to run on. By default, NumPy, and array-api-strict if it is installed.
    without : sequence of str
        The names of checks to leave out; add a comment with the reason.
    rtol : float
        The tolerance between results of different ways, relative to the largest.

    Examples
    --------
    >>> @agrad.primitive
    ... def cube(xp, x, /):
    ...     return x**3
    >>> @cube.vjp
    ... def cube_vjp(xp, g, x):
    ...     return 3 * g * x**2
    >>> class TestCube(agrad.testing.PrimitiveTest):
    ...     function = staticmethod(cube)
    ...     samples = [agrad.testing.Sample((np.asarray([1.0, -2.0]),))]
    >>> TestCube().test_vjp_0()
    >>> sorted(name for name in dir(TestCube) if name.startswith("test_vjp"))
    ['test_vjp_0']
    """

    function: Callable[..., Any]
    samples: Sequence[Any] = ()
    reference: Callable[..., Any] | None = None
    backends: Sequence[str] = (
        ("numpy", "array_api_strict") if importlib.util.find_spec("array_api_strict") else ("numpy",)
    )
    without: Sequence[str] = ()
    rtol: float = 1e-9

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.samples:
            return
        if not hasattr(cls, "function"):
            raise ConfigurationError(
                f"{cls.__name__}: function is missing. Write function = staticmethod(my_primitive)."
            )
        names = [*_CHECKS, *(f"on_{name}" for name in cls.backends), *(f"kernels_{name}" for name in cls.backends)]
        for name in cls.without:
            if name not in names:
                raise ConfigurationError(f"{cls.__name__}: without must contain only {', '.join(names)}, got {name!r}")
        given = [sample if isinstance(sample, Sample) else Sample(tuple(sample)) for sample in cls.samples]
        for i, sample in enumerate(given):
            label = sample.label.replace(" ", "_") or str(i)
            for name, check in _CHECKS.items():
                _add(cls, name, label, lambda self, check=check, sample=sample: check(_Problem(type(self), sample)))
            for backend in cls.backends:
                _add(cls, f"on_{backend}", label, lambda self, backend=backend, sample=sample: _on_backend(
                    _Problem(type(self), sample), backend))  # fmt: skip
        for backend in cls.backends:
            _add(cls, f"kernels_{backend}", "", lambda self, backend=backend: _kernels(
                [_Problem(type(self), sample) for sample in given], backend))  # fmt: skip


def _add(cls: type[PrimitiveTest], name: str, label: str, method: Callable[..., None]) -> None:
    """Add a test method to a class, unless it is left out."""
    if name in cls.without:
        return
    full = f"test_{name}_{label}" if label else f"test_{name}"
    if full in vars(cls):
        raise ConfigurationError(f"{cls.__name__}: labels of samples must be different, got {label!r} twice")
    method.__name__, method.__qualname__ = full, f"{cls.__qualname__}.{full}"
    setattr(cls, full, method)


class _Problem:
    """A sample as a function of only its differentiated arguments."""

    def __init__(self, cls: type[PrimitiveTest], sample: Sample) -> None:
        self.function, self.reference, self.rtol = cls.function, cls.reference, cls.rtol
        self.sample = sample
        self.args = [np.asarray(a) if isinstance(a, (np.ndarray, list)) else a for a in sample.args]
        for i, arg in enumerate(self.args):
            if not isinstance(arg, (np.ndarray, bool, int, float, complex)):
                raise ConfigurationError(
                    f"{cls.__name__}: argument {i} of a sample must be a NumPy array or a number, which the tests "
                    f"move to each backend, got {type(arg).__name__}. Pass options as keyword arguments."
                )
        self.primitive = _primitive_of(self.function)
        self.places = [i for i, a in enumerate(self.args) if self._differentiated(i, a)]
        self.label = getattr(self.function, "__name__", "the function")

    def _differentiated(self, i: int, arg: Any) -> bool:
        """Return True for an argument by which the primitive is differentiated."""
        if not isinstance(arg, np.ndarray) or not is_floating(arg.dtype) or i in self.sample.constant:
            return False
        return self.primitive is None or self.primitive.differentiable(i)

    @staticmethod
    def rng() -> np.random.Generator:
        """Return a generator, the same for each check."""
        return np.random.default_rng(20)

    def call(self, *args: Any) -> Any:
        return self.function(*args, **self.sample.settings)

    def of(self, place: Callable[[Any], Any] = lambda a: a) -> tuple[Callable[..., Any], list[Any]]:
        """Return the function of the differentiated arguments, and these, on some backend."""
        args = [place(a) if isinstance(a, np.ndarray) else a for a in self.args]

        def f(*xs: Any) -> Any:
            filled = list(args)
            for i, x in zip(self.places, xs, strict=True):
                filled[i] = x
            out = self.call(*filled)
            return tuple(out) if isinstance(out, tuple) else out  # a named tuple is more than its arrays

        f.__name__ = self.label
        if self.primitive is not None:
            _sign(f, [self.primitive.argument_names(len(args))[i] for i in self.places])
        return f, [args[i] for i in self.places]


def _primitive_of(function: Any) -> Any:
    """Return the primitive of an operation or of an agrad function, or None."""
    if hasattr(function, "primitive"):
        return function.primitive
    name = getattr(function, "__name__", "")
    for section in ("", "linalg", "fft", "special"):
        place = getattr(namespace, section) if section else namespace
        if vars(place).get(name) is function:
            return PRIMITIVES.get(f"{section}.{name}" if section else name)
    return None


def _sign(f: Any, names: list[str]) -> None:
    """Set the signature of a function to argument names, for messages."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    f.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])


# ---------------------------------------------------------------- the checks


def _forward(problem: _Problem) -> None:
    """Check values for plain arrays and Tensors against the reference."""
    args = problem.args
    raw = outputs(problem.call(*args))
    wrapped = outputs(problem.call(*[agrad.asarray(a) if isinstance(a, np.ndarray) else a for a in args]))
    f, xs = problem.of()
    recorded = outputs(f(*[agrad.asarray(x, requires_grad=True) for x in xs]))
    for i, (a, b, c) in enumerate(zip(raw, wrapped, recorded, strict=True)):
        what = f"output {i} of {problem.label}"
        if isinstance(a, agrad.Tensor) or not isinstance(b, agrad.Tensor):
            raise AssertionError(f"{what}: plain arrays must return plain arrays, and Tensors must return Tensors")
        check_like(b, a, f"{what} on Tensors")
        assert_close(b, a, f"{what} on Tensors", 0.0)
        assert_close(c, a, f"{what} on recorded Tensors", problem.rtol)
    if problem.reference is not None:
        expected = outputs(problem.reference(*args, **problem.sample.settings))
        if len(expected) != len(raw):
            raise AssertionError(
                f"{problem.label} returns {len(raw)} arrays, but its reference returns {len(expected)}"
            )
        for i, (a, wanted) in enumerate(zip(raw, expected, strict=True)):
            assert_close(a, wanted, f"output {i} of {problem.label} and of its reference", problem.rtol)
            check_like(a, np.asarray(wanted), f"output {i} of {problem.label} and of its reference")


def _differences(order: int, *modes: str) -> Callable[[_Problem], None]:
    """Return the check by finite differences of an order."""

    def check(problem: _Problem) -> None:
        f, xs = problem.of()
        if xs and not problem.sample.kink:
            check_grads(f, tuple(xs), order=order, modes=modes)

    return check


def _exact(check: Callable[..., Any]) -> Callable[[_Problem], None]:
    """Return a check of ``checks`` as one of a problem."""

    def run(problem: _Problem) -> None:
        f, xs = problem.of()
        if xs:
            check(f, xs, problem.rng())

    return run


def _layouts(problem: _Problem) -> None:
    """Check arrays that are not contiguous, and read-only ones."""
    args = problem.args
    spread = [scattered(a) if isinstance(a, np.ndarray) else a for a in args]
    what = f"{problem.label}, in memory that is not contiguous, output"
    assert_all_close(outputs(problem.call(*spread)), outputs(problem.call(*args)), what, problem.rtol)
    f, xs = problem.of()
    if xs:
        checks.check_same_gradients(f, xs, [scattered(x) for x in xs], problem.rng())
        checks.check_read_only(f, xs, problem.rng())


def _single(array: np.ndarray) -> np.ndarray:
    """Return an array in single precision."""
    return array.astype(_NARROW.get(dtype_name(array.dtype), array.dtype))


def _dtypes(problem: _Problem) -> None:
    """Check that single precision is preserved and agrees with double."""
    narrow, xs = problem.of(_single)
    wide, wide_xs = problem.of()
    tolerance = max(problem.rtol, 2e-4)
    doubles = outputs(wide(*wide_xs))
    for i, (a, b) in enumerate(zip(outputs(narrow(*xs)), doubles, strict=True)):
        expected = _NARROW.get(dtype_name(b.dtype), dtype_name(b.dtype))
        if dtype_name(a.dtype) != expected:
            raise AssertionError(
                f"output {i} of {problem.label} must have dtype {expected} for arguments of single precision, got "
                f"{dtype_name(a.dtype)}"
            )
        assert_close(a, b, f"output {i} of {problem.label} in single precision", tolerance)
    if xs:
        found = checks.check_faces(narrow, xs, problem.rng())
        expected_gradients = gradients(wide, wide_xs, random_like(doubles, problem.rng()))
        for i, (a, b) in enumerate(zip(found, expected_gradients, strict=True)):
            assert_close(
                a, b, f"the gradient with respect to argument {problem.places[i]} in single precision", tolerance
            )


def _batching(problem: _Problem) -> None:
    """Check ``vmap`` over a batch: the values of the sample, each scaled slightly."""
    args, call = problem.args, problem.call
    arrays = [i for i, a in enumerate(args) if isinstance(a, np.ndarray)]
    floating = [i for i in arrays if is_floating(args[i].dtype)]
    members = {i: [args[i] * (1 + k / 64) if i in floating else args[i] for k in range(_MEMBERS)] for i in arrays}

    def filled(chosen: Sequence[int], k: int) -> list[Any]:
        return [members[i][k] if i in chosen else a for i, a in enumerate(args)]

    for chosen in [*([i] for i in arrays), arrays]:
        stacked = [np.stack(members[i]) if i in chosen else a for i, a in enumerate(args)]
        axes = tuple(0 if i in chosen else None for i in range(len(args)))
        rows = [outputs(call(*filled(chosen, k))) for k in range(_MEMBERS)]
        got = outputs(agrad.vmap(call, in_axes=axes)(*stacked))
        expected = [np.stack([host(e) for e in parts]) for parts in zip(*rows, strict=True)]
        what = f"{problem.label} under vmap over arguments {list(chosen)}, output"
        assert_all_close(got, expected, what, problem.rtol)
    if not problem.places:
        return
    places = problem.places
    f, _ = problem.of()
    xs = [np.stack(members[i]) for i in places]
    points = [[members[i][k] for i in places] for k in range(_MEMBERS)]
    ys = [f(*at) for at in points]
    rng = problem.rng()
    gs = [random_like(outputs(y), rng) for y in ys]
    pulled = [agrad.vjp(f, *at)[1](cotangents(y, g)) for at, y, g in zip(points, ys, gs, strict=True)]
    wholes = [np.stack([host(part) for part in parts]) for parts in zip(*pulled, strict=True)]
    together = cotangents(ys[0], [np.stack([host(part) for part in parts]) for parts in zip(*gs, strict=True)])
    inside: Any = agrad.vmap(lambda at, g: agrad.vjp(f, *at)[1](g))(tuple(xs), together)
    outside = agrad.vjp(agrad.vmap(f), *xs)[1](together)
    for i, wanted in enumerate(wholes):
        assert_close(inside[i], wanted, f"vmap of the vjp of {problem.label}, argument {places[i]}", problem.rtol)
        assert_close(outside[i], wanted, f"the vjp of vmap of {problem.label}, argument {places[i]}", problem.rtol)


_CHECKS: dict[str, Callable[[_Problem], None]] = {
    "forward": _forward,
    "vjp": _differences(1, "rev"),
    "jvp": _differences(1, "fwd"),
    "adjoint": _exact(checks.check_adjoint),
    "recorded": _exact(checks.check_recorded),
    "second_order": _differences(2, "fwd", "rev"),
    "batching": _batching,
    "dtypes": _dtypes,
    "layouts": _layouts,
}


def _place(name: str) -> Callable[[np.ndarray], Any]:
    """Return the function that moves a NumPy array to a backend."""
    backend = load(name)
    return lambda array: array if name == "numpy" else backend.from_host(array, backend.default_device())


def _on_backend(problem: _Problem, name: str) -> None:
    """Check values, gradients and second order on a backend against NumPy."""
    with agrad.use_backend(name):
        place = _place(name)
        args = [place(a) if isinstance(a, np.ndarray) else a for a in problem.args]
        on_host = outputs(problem.call(*problem.args))
        for i, (a, b) in enumerate(zip(outputs(problem.call(*args)), on_host, strict=True)):
            what = f"output {i} of {problem.label} on {name}"
            assert_close(a, b, what, problem.rtol)
            if dtype_name(a.dtype) != dtype_name(b.dtype):
                raise AssertionError(f"{what} has dtype {dtype_name(a.dtype)}, and {dtype_name(b.dtype)} on NumPy")
        f, xs = problem.of(place)
        if not xs:
            return
        host_f, host_xs = problem.of()
        found = checks.check_faces(f, xs, problem.rng())
        expected = gradients(host_f, host_xs, random_like(on_host, problem.rng()))
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            what = f"the gradient of {problem.label} on {name}, argument {problem.places[i]}"
            assert_close(a, b, what, problem.rtol)
        checks.check_second_elsewhere(f, xs, host_f, host_xs, problem.rng)


# ---------------------------------------------------------------- kernels


def _kernels(problems: list[_Problem], name: str) -> None:
    """Check each kernel against the generic code, called with the same values."""
    primitive = problems[0].primitive
    if primitive is None:
        return
    parts = ("forward", *dict.fromkeys(rule.part for rule in primitive.vjps.values()))
    filed = {part: KERNELS[key] for part in parts if (key := (name, primitive.name, part)) in KERNELS}
    backend, place = load(name), _place(name)
    for part, kernel in filed.items():
        reached = 0
        for problem in problems:
            args = [place(a) if isinstance(a, np.ndarray) else a for a in problem.args]
            args, settings = _bound(primitive, problem, args)
            values = _values(primitive, args, settings, backend, problem)
            if part == "forward":
                rule = primitive.generic(backend)
                names, kept = primitive.all_arrays, primitive.settings
            else:
                filed_rule = primitive.vjps[part.removeprefix("vjp:").partition(",")[0]]
                rule, names, kept = filed_rule.function, filed_rule.names, filed_rule.settings
            handed = [values[n] for n in kernel.names]
            if kernel.when is not None and not kernel.when(*handed):
                continue
            got = kernel.function(*handed, **{n: settings[n] for n in kernel.settings})
            if got is NotImplemented:
                continue
            reached += 1
            expected = rule(*[values[n] for n in names], **{n: settings[n] for n in kept})
            for i, (a, b) in enumerate(zip(outputs(got), outputs(expected), strict=True)):
                what = f"result {i} of the kernel {part} of {primitive.name} on {name}"
                check_like(a, b, what)
                assert_close(a, b, what, problem.rtol)
        if not reached:
            raise AssertionError(
                f"no sample reaches the kernel {part} of {primitive.name} on {name}: its guard rejects all of them"
            )


def _bound(primitive: Any, problem: _Problem, args: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments and options in the form that rules receive."""
    leaves = [agrad.asarray(a, requires_grad=True) if i in problem.places else a for i, a in enumerate(args)]
    for y in outputs(problem.call(*leaves)):
        if isinstance(y, agrad.Tensor) and y.op is not None and y.op.name == primitive.name:
            return [a.raw if isinstance(a, agrad.Tensor) else a for a in y.op.args], y.op.settings
    return args, {**primitive.defaults, **problem.sample.settings}


def _values(primitive: Any, args: list[Any], settings: dict[str, Any], backend: Any, problem: _Problem) -> Any:
    """Return the values that a rule may name, for one sample."""
    fixed = len(primitive.arrays)
    values = dict(zip(primitive.arrays, args, strict=False))
    if primitive.variadic:
        values[primitive.variadic] = tuple(args[fixed:])
    ys = outputs(primitive.generic(backend)(*args, **{n: settings[n] for n in primitive.settings}))
    gs = random_like(ys, problem.rng())
    if primitive.spreads:
        ys, gs = (tuple(ys),), [tuple(gs)]
    values.update(zip(primitive.outputs or ("y",), ys, strict=True))
    values.update(zip(primitive.incoming("vjp"), gs, strict=True))
    values.update({f"{name}_meta": value for name, value in values.items()})
    return {**values, "xp": backend.xp}
