"""``jacrev``, ``jacfwd``, ``jacobian`` and ``hessian``: whole matrices of derivatives, many rows or columns at a time.

One pass carries a batch of cotangents back, or of tangents forward: the unit vectors. ``chunk_size`` bounds how many
there are at once, and so the memory. Of a container of outputs by a container of inputs the result is a container like
the outputs', at each leaf of which stands one like the inputs', of arrays of shape (*output, *input).
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agrad.backends import backend_of, selected
from agrad.dtypes import dtype_name, is_complex, is_floating
from agrad.engine.batching import Batch
from agrad.engine.levels import Forward, Level, Reverse, namespace_of
from agrad.engine.sweep import sweep
from agrad.engine.tape import Node, leaf_node
from agrad.engine.tensor import Tensor
from agrad.engine.twoway import TwoWay, push_along
from agrad.errors import ConfigurationError, DtypeError, NotDifferentiableError
from agrad.shapes import size
from agrad.transforms.inputs import ArgNums, Chosen, Inputs, aux_of, check_complex, leave_tree, owned_tree, split
from agrad.transforms.trees import Place, flatten, paths, place_of, unflatten

Function = Callable[..., Any]


class _Outputs:
    """What a function returned at a level: its structure, and of each leaf the value and what the level recorded."""

    def __init__(self, out: Any, level: Level, what: str) -> None:
        self.what = what
        leaves, self.spec = flatten(out)
        self.places = [
            Place(lambda: [place_of(p, "output", whole="its output") for p in paths(out)], i)
            for i in range(len(leaves))
        ]
        pairs = [split(_as_array(leaf, place, what), level) for leaf, place in zip(leaves, self.places, strict=True)]
        self.values, self.records = [y for y, _ in pairs], [record for _, record in pairs]
        for y, place in zip(self.values, self.places, strict=True):
            if not is_floating(y.dtype):
                raise DtypeError(
                    f"{what}: {place} has dtype {dtype_name(y.dtype)}, which has no derivative; cast it, or return it "
                    "as aux with has_aux=True"
                )

    @property
    def size(self) -> int:
        return sum(size(y.shape) for y in self.values)

    @property
    def any_complex(self) -> bool:
        return any(is_complex(y.dtype) for y in self.values)

    def check(self, holomorphic: bool) -> None:
        """Raise where an output is complex that should be real, or the other way round."""
        for y, place in zip(self.values, self.places, strict=True):
            if is_complex(y.dtype) and not holomorphic:
                raise DtypeError(
                    f"{self.what}: {place} is complex; set holomorphic=True if the function is, use agrad.jacfwd for "
                    "one of real arguments, or agrad.vjp along one cotangent"
                )
            if holomorphic and not is_complex(y.dtype):
                raise DtypeError(f"{self.what}: holomorphic=True, but {place} has dtype {dtype_name(y.dtype)}")


def _as_array(leaf: Any, place: Place, what: str) -> Any:
    if hasattr(leaf, "shape"):
        return leaf
    if type(leaf) in (float, complex):
        return selected().backend.xp.asarray(leaf)
    raise NotDifferentiableError(
        f"{what}: {place} is a {type(leaf).__name__}, not an array; return it as aux with has_aux=True"
    )


def _chunks(total: int, chunk_size: int | None) -> Iterator[tuple[int, int]]:
    step = total if chunk_size is None else chunk_size
    for start in range(0, total, step or 1):
        yield start, min(start + step, total)


def _check_chunk_size(chunk_size: int | None, name: str) -> None:
    if chunk_size is not None and (type(chunk_size) is not int or chunk_size < 1):
        raise ConfigurationError(f"{name}: chunk_size is a number of rows or columns, 1 or more, not {chunk_size!r}")


class _Units:
    """Some of the unit vectors, ``start`` to ``stop``: the members of a batch level, or one alone, which needs none."""

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop
        self.count = stop - start
        self.batch = None if self.count == 1 else Batch(self.count)

    def of(self, leaves: Sequence[Any]) -> list[Any]:
        """What each leaf has of them, as if all leaves were one vector; None where that is 0."""
        out, offset = [], 0
        for leaf in leaves:
            out.append(self._leaf(leaf, offset))
            offset += size(leaf.shape)
        return out

    def _leaf(self, like: Any, offset: int) -> Any:
        count = size(like.shape)
        if self.start >= offset + count or self.stop <= offset:
            return None
        raw = like.raw if isinstance(like, Tensor) else like
        backend = backend_of(raw)
        xp, device = backend.xp, backend.device_of(raw)
        eye = xp.eye(self.count, count, k=self.start - offset, dtype=raw.dtype, device=device)
        if self.batch is None:
            return xp.reshape(eye, tuple(like.shape))
        return self.batch.wrap(xp.reshape(eye, (self.count, *like.shape)))

    def rows(self, value: Any, like: Any) -> Any:
        """What came of each, as an array with one more axis in front than ``like``."""
        if self.batch is not None and isinstance(value, Tensor) and value.level is self.batch:
            return value.data
        if value is None:
            value = namespace_of((like,)).zeros_like(like)
        xp, shape = namespace_of((value,)), (self.count, *value.shape)
        return xp.broadcast_to(value, shape) if self.batch is not None else xp.reshape(value, shape)


def _joined(parts: list[Any], like: Any) -> Any:
    if not parts:
        zero = namespace_of((like,)).zeros_like(like)
        return namespace_of((zero,)).broadcast_to(zero, (0, *like.shape))
    return parts[0] if len(parts) == 1 else namespace_of(parts).concat(parts, axis=0)


def _part(rows: Any, start: int, stop: int) -> Any:
    return rows if stop - start == rows.shape[0] else rows[start:stop, ...]


def _shaped(value: Any, shape: tuple[int, ...]) -> Any:
    return value if tuple(value.shape) == shape else namespace_of((value,)).reshape(value, shape)


def _pulled(outs: _Outputs, roots: list[Node], inputs: Inputs, chunk_size: int | None) -> list[list[Any]]:
    """By output and input leaf, the Jacobian of shape (*output, *input), by carrying cotangents back."""
    total = outs.size
    rows: list[list[Any]] = [[] for _ in roots]
    for start, stop in _chunks(total, chunk_size):
        units = _Units(start, stop)
        starts: dict[Node, Any] = {}
        for node, g in zip(outs.records, units.of(outs.values), strict=True):
            if node is not None and g is not None:
                starts[node] = starts[node] + g if node in starts else g
        found = sweep(starts, retain=stop < total) if starts else {}
        for part, root, value in zip(rows, roots, inputs.values, strict=True):
            part.append(units.rows(found.get(root), value))
    whole = [_joined(part, value) for part, value in zip(rows, inputs.values, strict=True)]
    blocks, offset = [], 0
    for y in outs.values:
        stop = offset + size(y.shape)
        blocks.append(
            [
                _shaped(_part(rows, offset, stop), (*y.shape, *value.shape))
                for rows, value in zip(whole, inputs.values, strict=True)
            ]
        )
        offset = stop
    return blocks


def _pushed(
    chosen: Chosen, inputs: Inputs, chunk_size: int | None, has_aux: bool, holomorphic: bool
) -> tuple[_Outputs, list[list[Any]], Any]:
    """The outputs, by output and input leaf the Jacobian, by carrying tangents forward, and aux."""
    if not holomorphic:
        _check_real(inputs)
    total = sum(size(value.shape) for value in inputs.values)
    columns: list[list[Any]] = []
    outs, aux = None, None
    for start, stop in _chunks(total, chunk_size) if total else [(0, 0)]:
        units = _Units(start, stop)  # their level is older than the one that carries them as tangents
        level = Forward()
        out = chosen.call(inputs.lift(level, units.of(inputs.values)))
        out, seen = aux_of(out, inputs.what) if has_aux else (out, None)
        found = _Outputs(out, level, inputs.what)
        if outs is None:
            outs, aux = found, leave_tree(seen, level, inputs) if has_aux else None
            columns = [[] for _ in outs.values]
        for part, t, y in zip(columns, found.records, found.values, strict=True):
            part.append(units.rows(t, y))
    assert outs is not None
    if holomorphic:
        outs.check(holomorphic)
    whole = [_joined(part, y) for part, y in zip(columns, outs.values, strict=True)]
    return outs, [_by_input(columns, y, inputs) for columns, y in zip(whole, outs.values, strict=True)], aux


def _pushed_along(
    level: TwoWay, roots: list[Node], outs: _Outputs, inputs: Inputs, chunk_size: int | None
) -> list[list[Any]] | None:
    """By output and input leaf, the Jacobian, by carrying tangents along a tape; None where it cannot be."""
    entries = level.reaching(outs.records)
    if entries is None:
        return None
    columns: list[list[Any]] = [[] for _ in outs.values]
    for start, stop in _chunks(sum(size(value.shape) for value in inputs.values), chunk_size):
        units = _Units(start, stop)
        starts = {root: t for root, t in zip(roots, units.of(inputs.values), strict=True) if t is not None}
        for part, t, y in zip(columns, push_along(entries, starts, outs.records), outs.values, strict=True):
            part.append(units.rows(t, y))
    whole = [_joined(part, y) for part, y in zip(columns, outs.values, strict=True)]
    return [_by_input(columns, y, inputs) for columns, y in zip(whole, outs.values, strict=True)]


def _by_input(columns: Any, y: Any, inputs: Inputs) -> list[Any]:
    """Tangents of one output, all inputs' behind one another, as one array an input with the output's axes in front."""
    xp = namespace_of((columns,))
    ndim, out, offset = len(y.shape), [], 0
    for value in inputs.values:
        stop = offset + size(value.shape)
        block = _part(columns, offset, stop)
        if ndim:
            block = xp.permute_dims(block, (*range(1, ndim + 1), 0))
        out.append(_shaped(block, (*y.shape, *value.shape)))
        offset = stop
    return out


def _check_real(inputs: Inputs) -> None:
    for value, place in zip(inputs.values, inputs.places, strict=True):
        if is_complex(value.dtype):
            raise DtypeError(
                f"{inputs.what}: {place} is complex; set holomorphic=True if the function is, or use agrad.jacrev for "
                "one that gives real numbers, agrad.jvp along one tangent"
            )


def _assembled(outs: _Outputs, blocks: list[list[Any]], chosen: Chosen, inputs: Inputs) -> Any:
    leaves = [chosen.result(unflatten(inputs.spec, [inputs.leave(block) for block in row])) for row in blocks]
    return unflatten(outs.spec, leaves)


def _jacobian(
    f: Function, argnums: ArgNums, has_aux: bool, holomorphic: bool, chunk_size: int | None, mode: str, name: str
) -> Function:
    _check_chunk_size(chunk_size, name)

    @functools.wraps(f)
    def matrix(*args: Any, **kwargs: Any) -> Any:
        what = f"the {name} of {getattr(f, '__name__', 'a function')}"
        chosen = Chosen(f, args, kwargs, argnums, what)
        inputs = Inputs(chosen.values, chosen.places, what)
        if holomorphic:
            check_complex(inputs)
        aux = blocks = None
        if mode != "forward":
            level = Reverse() if mode == "reverse" else TwoWay()
            roots = [leaf_node() for _ in inputs.values]
            out = chosen.call(inputs.lift(level, roots))
            out, aux = aux_of(out, what) if has_aux else (out, None)
            outs = _Outputs(out, level, what)
            if isinstance(level, TwoWay) and _forward_is_less(inputs, outs, holomorphic):
                if holomorphic:
                    outs.check(holomorphic)
                blocks = _pushed_along(level, roots, outs, inputs, chunk_size)
            else:
                outs.check(holomorphic)
                blocks = _pulled(outs, roots, inputs, chunk_size)
            if blocks is not None:
                aux = leave_tree(aux, level, inputs) if has_aux else None
        if blocks is None:
            outs, blocks, aux = _pushed(chosen, inputs, chunk_size, has_aux, holomorphic)
        whole = _assembled(outs, blocks, chosen, inputs)
        return owned_tree((whole, aux) if has_aux else whole, args, kwargs)

    return matrix


def _forward_is_less(inputs: Inputs, outs: _Outputs, holomorphic: bool) -> bool:
    if not holomorphic:
        if any(is_complex(value.dtype) for value in inputs.values):
            return False
        if outs.any_complex:
            return True
    return sum(size(value.shape) for value in inputs.values) < outs.size


_SETTINGS = """
    f: gives nested containers of floating arrays, or with ``has_aux`` a pair (that, aux). ``argnums``: which arguments,
    by position or name, as for ``grad``. The new function takes ``f``'s arguments and gives a container like the
    outputs', at each leaf one like the arguments', of arrays of shape (*output, *input), or (that, aux).
    ``chunk_size``: at most so many {of} at once, so that memory is bounded. ``holomorphic``: complex arguments
    and outputs of a holomorphic function. Raises ``DtypeError`` for {refused}, and for integers.
"""


def _documented(refused: str, of: str) -> Callable[[Function], Function]:
    def document(function: Function) -> Function:
        function.__doc__ = f"{function.__doc__}\n{_SETTINGS.format(refused=refused, of=of)}"
        return function

    return document


@_documented("complex outputs", "rows")
def jacrev(
    f: Function,
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Function:
    """The function that gives the Jacobian of ``f``, in reverse: as many cotangents as outputs have elements."""
    return _jacobian(f, argnums, has_aux, holomorphic, chunk_size, "reverse", "jacrev")


@_documented("complex arguments", "columns")
def jacfwd(
    f: Function,
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Function:
    """The function that gives the Jacobian of ``f``, forward: as many tangents as arguments have elements."""
    return _jacobian(f, argnums, has_aux, holomorphic, chunk_size, "forward", "jacfwd")


@_documented("complex arguments of complex outputs", "rows or columns")
def jacobian(
    f: Function,
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Function:
    """The function that gives the Jacobian of ``f``, forward where arguments have fewer elements, else in reverse.

    Real functions of complex arguments are differentiated in reverse, complex ones of real arguments forward. ``f`` is
    called once, whichever it is, and twice where it is forward and calls functions with derivatives of their own
    (``custom_vjp``, ``checkpoint``). Until it is known which, all that ``f`` computes is kept; ``jacfwd`` keeps none.
    """
    return _jacobian(f, argnums, has_aux, holomorphic, chunk_size, "any", "Jacobian")


def hessian(
    f: Function,
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Function:
    """The function that gives the second derivatives of ``f``: forward over reverse, ``jacfwd(jacrev(f))``.

    f: gives a real array, mostly of shape (). The arguments are those of ``jacfwd``; of containers the result is a
    container like the first argument's of containers like it, of arrays of shape (*output, *input, *input).
    """
    return jacfwd(jacrev(f, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic, chunk_size)
