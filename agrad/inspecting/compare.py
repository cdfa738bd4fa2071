"""``compare_backends``: find the first operation that differs between backends."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from agrad.backends import load, use_backend
from agrad.dtypes import dtype_name, is_floating
from agrad.engine.anomalies import users_line
from agrad.engine.levels import GLOBAL_TAPE, OutputCotangents
from agrad.engine.observing import Observer, Proceed
from agrad.engine.tape import Mode, Node, _ModeChange
from agrad.engine.tensor import Tensor, raw_of, wrap
from agrad.errors import ConfigurationError, OperandError, described
from agrad.inspecting.text import host
from agrad.transforms.arguments import is_array
from agrad.transforms.grad import vjp
from agrad.transforms.trees import flatten, paths, unflatten

_SINGLE = ("float32", "complex64")


class Entry(NamedTuple):
    """One operation of a run, with its results on the host, None for a zero cotangent."""

    operation: str
    direction: str
    """``"forward"``; ``"tangent"`` or ``"backward"`` for derivative rules; ``"result"`` for results of the function."""
    names: tuple[str, ...]
    """Names of the results: outputs, or the arguments of the cotangents."""
    values: tuple[Any, ...]
    where: str | None


class Difference(NamedTuple):
    """An operation with different results on two backends."""

    number: int
    """The index of the operation in the run, in both directions together."""
    operation: str
    direction: str
    result: str
    """The name of the result: an output, or the argument of the cotangent."""
    backends: tuple[str, str]
    what: str
    """The difference in words: of values, shape, dtype or operation."""
    absolute: float = math.nan
    """The largest absolute difference; nan if the values cannot be compared."""
    relative: float = math.nan
    """The same, relative to the largest value."""
    element: tuple[int, ...] | None = None
    """The index of the largest difference."""
    values: tuple[Any, Any] = (None, None)
    """The two numbers at that index."""
    where: str | None = None
    """``file:line: text`` of your code."""

    def __str__(self) -> str:
        kind = {
            "forward": f"the value of {self.operation}",
            "tangent": f"the tangent of {self.operation}",
            "backward": f"the gradient of {self.operation} with respect to {self.result}",
            "result": f"the {self.result}",
            "path": "the function",
        }[self.direction]
        place = f"\n  at {self.where}" if self.where else ""
        return f"operation {self.number}: {kind} differs on {' and '.join(self.backends)}: {self.what}{place}"


class Comparison:
    """The result of ``compare_backends``.

    ``str`` is the report, ``bool`` is True if all results agree.
    """

    def __init__(self, backends: tuple[str, ...], operations: int, differences: Sequence[Difference]) -> None:
        self.backends = backends
        self.operations = operations
        """The number of compared results on each backend."""
        self.differences: tuple[Difference, ...] = tuple(differences)
        """All results that differ, in the order of computation, including consequences of the first."""

    @property
    def first(self) -> Difference | Any:
        """The first operation that differs, None if all agree."""
        return min(self.differences, key=lambda d: d.number, default=None)

    def __bool__(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        names = ", ".join(self.backends)
        if self.first is None:
            return f"{names}: the same in all {self.operations} operations"
        more = len(self.differences) - 1
        rest = f"\n{more} later results differ too" if more else ""
        return f"{names}: {self.first}{rest}"

    __repr__ = __str__


class _Watch(_ModeChange, Observer):
    """A mode that records the results of every operation."""

    looks = True
    lines = True

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

    def _change(self, now: Mode) -> Mode:
        return now._replace(observers=(*now.observers, self))

    def call(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], proceed: Proceed) -> Any:
        out = proceed()
        parts = out if isinstance(out, tuple) else (out,)
        self._add(primitive.name, "forward", _names(primitive, parts), parts, users_line())
        return out

    def pushforward(self, primitive: Any, proceed: Proceed) -> Any:
        out = proceed()
        self._add(primitive.name, "tangent", _names(primitive, out), out, users_line())
        return out

    def pullback(self, node: Node, g: Any, proceed: Proceed) -> Any:
        parts = proceed()
        shown = [None if isinstance(part, OutputCotangents) else part for part in parts]
        self._add(node.plan.primitive.name, "backward", node.plan.arguments, shown, getattr(node, "where", None))
        return parts

    def _add(self, operation: str, direction: str, names: Any, parts: Sequence[Any], where: str | None) -> None:
        values = tuple([None if part is None else np.array(host(raw_of(part))) for part in parts])
        self.entries.append(Entry(operation, direction, names, values, where))


def _names(primitive: Any, outputs: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple([primitive.output_name(i) for i in range(len(outputs))])


def _run(f: Callable[..., Any], args: tuple[Any, ...], name: str, grad: bool) -> list[Entry]:
    """Return every result of ``f`` and of its pullback on one backend."""
    leaves, spec = flatten(args)
    backend_name, _, device_name = name.partition(":")
    with use_backend(backend_name, device_name or None):
        backend = load(backend_name)
        device = backend.device(device_name or None)
        placed = [backend.from_host(host(raw_of(leaf)), device) if is_array(leaf) else leaf for leaf in leaves]
        chosen = [i for i, leaf in enumerate(placed) if is_array(leaf) and is_floating(leaf.dtype)]
        results: list[Any] = []
        names: list[str] = []

        def on_leaves(*at: Any) -> Any:
            filled = [wrap(leaf, GLOBAL_TAPE) if is_array(leaf) else leaf for leaf in placed]
            for i, x in zip(chosen, at, strict=True):
                filled[i] = x
            out = f(*unflatten(spec, filled))
            found = [(path, leaf) for path, leaf in zip(paths(out), flatten(out)[0], strict=True) if is_array(leaf)]
            names[:] = [f"result{path}" for path, _ in found]
            results[:] = [leaf for _, leaf in found]
            return tuple([leaf for leaf in results if is_floating(leaf.dtype)])

        with _Watch() as watch:
            if grad and chosen:
                value, pull = vjp(on_leaves, *[placed[i] for i in chosen])
            else:
                value, pull = on_leaves(*[wrap(placed[i], GLOBAL_TAPE) for i in chosen]), None
            for name, result in zip(names, results, strict=True):
                watch._add("", "result", (name,), (result,), None)
            if pull is not None and value:
                rng = np.random.default_rng(0)
                pull(tuple([backend.from_host(_cotangent(y, rng), backend.device_of(raw_of(y))) for y in value]))
    return watch.entries


def _cotangent(y: Any, rng: np.random.Generator) -> np.ndarray:
    """Return random numbers with the shape and dtype of a result."""
    kind = dtype_name(y.dtype)
    drawn = rng.uniform(0.5, 1.5, tuple(y.shape)) + (1j * rng.uniform(0.5, 1.5, y.shape) if "complex" in kind else 0)
    return np.asarray(drawn).astype(kind)


def compare_backends(
    f: Callable[..., Any],
    *args: Any,
    backends: Sequence[str],
    rtol: float | None = None,
    atol: float = 0.0,
    grad: bool = True,
    check: bool = False,
) -> Comparison:
    """Run a function on several backends and compare the result of every operation.

    Two arrays agree if no element differs by more than ``atol`` plus ``rtol`` times the largest finite absolute value
    of the first array. NaN agrees with NaN, and an infinity with the same infinity. All results are copied to the host.

    Parameters
    ----------
    f : callable
        Function of pytrees of Tensors that returns such a pytree. Create new arrays in it with agrad functions, which
        use each backend in turn.
    *args
        Arguments of ``f``, with arrays of any backend. They are copied to each backend.
    backends : sequence of str
        Names of at least two backends, such as ``"numpy"``, or with a device ``"torch:cuda"``. All are compared with
        the first.
    rtol, atol : float, optional
        Tolerances. ``rtol`` is 1e-9 by default, or 1e-4 in single precision.
    grad : bool, default True
        True to compare the result of each derivative rule too, for a random cotangent.
    check : bool, default False
        True to raise an error if results differ.

    Returns
    -------
    Comparison
        Report. ``print`` shows it, and ``bool`` of it is True if all results agree.

    Raises
    ------
    AssertionError
        With ``check``, if results differ. The message is the report.
    BackendUnavailableError, ConfigurationError
        If a backend is not available, or there are fewer than two.

    Examples
    --------
    >>> def f(x):
    ...     return agrad.softmax(x) @ agrad.arange(3.0)
    >>> x = np.asarray([1.0, 2.0, 3.0])
    >>> bool(agrad.compare_backends(f, x, backends=("numpy", "array_api_strict"), grad=True))
    True
    """
    chosen = tuple(backends) if not isinstance(backends, str) else (backends,)
    if len(set(chosen)) < 2 or len(set(chosen)) != len(chosen):
        raise ConfigurationError(
            f"compare_backends: backends must be two or more different names, got {backends!r}. Pass, for example, "
            "backends=('numpy', 'torch')."
        )
    if not callable(f) or isinstance(f, Tensor):
        raise OperandError(f"compare_backends: f must be a function, got {described(f)}")
    expected = _run(f, args, chosen[0], grad)
    differences: list[Difference] = []
    for name in chosen[1:]:
        differences += _differences(expected, _run(f, args, name, grad), (chosen[0], name), rtol, atol)
    report = Comparison(chosen, len(expected), sorted(differences, key=lambda d: d.number))
    if check and not report:
        raise AssertionError(str(report))
    return report


def _differences(
    expected: list[Entry], found: list[Entry], backends: tuple[str, str], rtol: float | None, atol: float
) -> list[Difference]:
    out: list[Difference] = []
    for index, (a, b) in enumerate(zip(expected, found, strict=False)):
        if (a.operation, a.direction, a.names) != (b.operation, b.direction, b.names):
            what = f"{_called(a)} on the first, {_called(b)} on the second, so it took another path"
            return [*out, _difference(index, a._replace(direction="path"), backends, what)]
        for name, x, y in zip(a.names, a.values, b.values, strict=True):
            difference = _compare(index, a, name, x, y, backends, rtol, atol)
            if difference is not None:
                out.append(difference)
                break
    if len(expected) != len(found):
        longer = max(expected, found, key=len)
        index = min(len(expected), len(found))
        what = f"{len(expected)} operations on the first and {len(found)} on the second"
        out.append(_difference(index, longer[index]._replace(direction="path"), backends, what))
    return out


def _called(entry: Entry) -> str:
    return f"the gradient of {entry.operation}" if entry.direction == "backward" else entry.operation or "the result"


def _difference(index: int, a: Entry, backends: tuple[str, str], what: str, name: str = "", **rest: Any) -> Difference:
    return Difference(index, a.operation, a.direction, name or a.names[0], backends, what, where=a.where, **rest)


def _compare(
    index: int, a: Entry, name: str, x: Any, y: Any, backends: tuple[str, str], rtol: float | None, atol: float
) -> Difference | None:
    if x is None or y is None:
        return None if x is y else _difference(index, a, backends, "a cotangent on only one of them", name)
    if x.shape != y.shape:
        return _difference(index, a, backends, f"shape {x.shape} and {y.shape}", name)
    if dtype_name(x.dtype) != dtype_name(y.dtype):
        return _difference(index, a, backends, f"dtype {dtype_name(x.dtype)} and {dtype_name(y.dtype)}", name)
    if rtol is None:
        rtol = 1e-4 if dtype_name(x.dtype) in _SINGLE else 1e-9
    if not x.size:
        return None
    exact = x.dtype.kind in "biu"
    wide = complex if x.dtype.kind == "c" else float
    with np.errstate(all="ignore"):
        gap = (x != y).astype(float) if exact else np.abs(x.astype(wide) - y.astype(wide))
    finite = np.isfinite(x) & np.isfinite(y)
    same = (x == y) | (np.isnan(x) & np.isnan(y) if not exact else False)
    gap = np.where(same, 0.0, np.where(finite, gap, np.inf))
    size = float(np.max(np.abs(x[finite].astype(wide)), initial=0.0))
    worst = float(np.max(gap))
    if worst <= (0.0 if exact else atol + rtol * size):
        return None
    element = tuple(int(i) for i in np.unravel_index(int(np.argmax(gap)), gap.shape))
    relative = worst / size if size else math.inf
    pair = (x[element].item(), y[element].item())
    place = f" at element {list(element)}" if element else ""
    amount = "" if exact or math.isinf(worst) else f", off by {worst:.3g} ({relative:.2g} of the largest value)"
    what = f"{_number(pair[0])} and {_number(pair[1])}{place}{amount}"
    numbers = {"absolute": worst, "relative": relative, "element": element or None, "values": pair}
    return _difference(index, a, backends, what, name, **numbers)


def _number(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, (float, complex)) else str(value)
