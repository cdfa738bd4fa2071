"""``scan``, ``cond`` and ``while_loop``: control flow with containers, as in JAX.

They run as Python's own loops and branches. Each step is recorded as it runs: every mode and order of derivative works,
reverse mode through ``while_loop`` too. Plain Python control flow does the same wherever values are known. These
functions add the stacking, the checks of a step's results, and the checkpoints of ``scan``.
"""

import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

from agrad.dtypes import dtype_name
from agrad.engine.calls import array_of_number, lift_all
from agrad.engine.levels import namespace_of
from agrad.engine.tape import no_grad
from agrad.errors import ConfigurationError, OperandError, ShapeError
from agrad.transforms.arguments import is_array
from agrad.transforms.checkpoint import checkpoint as checkpointed
from agrad.transforms.trees import flatten, flatten_all, paths, tree_map, unflatten

Function = Callable[..., Any]


def _kind(array: Any) -> str:
    return f"{dtype_name(array.dtype)}{tuple(array.shape)}"


def _check_carry(before: Any, after: Any, what: str) -> None:
    """Raise ``ShapeError`` if a step changed the structure, a shape or a dtype."""
    (old, old_spec), (new, new_spec) = flatten_all(before), flatten_all(after)
    if old_spec != new_spec:
        raise ShapeError(f"{what} gave the carry {new_spec}; it was {old_spec}, and its structure must stay")
    for i, (a, b) in enumerate(zip(old, new, strict=True)):
        if is_array(a) and not (is_array(b) and _kind(a) == _kind(b)):
            place = paths(before, none_is_leaf=True)[i]
            if not is_array(b):
                raise ShapeError(f"{what} turned the carry{place} from an array into a {type(b).__name__}")
            raise ShapeError(
                f"{what} turned the carry{place} from {_kind(a)} into {_kind(b)}; shape and dtype must stay"
            )


def _length(xs: Any, leaves: Sequence[Any], length: int | None) -> int:
    """Return the number of steps of a scan over ``xs``, of one length."""
    for leaf, place in zip(leaves, paths(xs), strict=True):
        if not is_array(leaf):
            raise OperandError(f"scan: xs{place} is a {type(leaf).__name__}, not an array")
        if not leaf.shape:
            raise ShapeError(f"scan: xs{place} has no dimensions, so no axis to go along")
    lengths = {int(leaf.shape[0]) for leaf in leaves} | (set() if length is None else {index(length)})
    if len(lengths) != 1:
        raise (
            ShapeError(f"scan: the lengths differ: {', '.join(map(str, sorted(lengths)))}")
            if lengths
            else ConfigurationError("scan: without xs the number of steps must be said: length=...")
        )
    count = lengths.pop()
    if count < 0:
        raise ConfigurationError(f"scan: length is 0 or more, not {count}")
    return count


def scan(
    f: Function,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: bool | int = False,
) -> tuple[Any, Any]:
    """Apply ``carry, y = f(carry, x)`` along the first axis of ``xs``.

    Parameters
    ----------
    f : callable
        Takes a carry and the slices of ``xs`` at one place, and returns (carry, y).
    init : nested container
        The first carry, whose structure, shapes and dtypes must stay.
    xs : nested container of arrays, optional
        Arrays of one length along their first axis; without it ``f`` takes None.
    length : int, optional
        The number of steps, needed without ``xs``.
    reverse : bool
        Go from the last place to the first. The y's stand where their x's do.
    checkpoint : bool or int
        The number of steps of a piece. The backward pass computes pieces again, one by one, and only the carries
        between them stay in memory. True for the square root of the length.

    Returns
    -------
    tuple
        The last carry, and the y's stacked along a new first axis.

    Raises
    ------
    ShapeError
        For lengths that differ, a carry that changes, and y's that cannot be stacked.
    ConfigurationError
        Where no length is known.
    """
    leaves, spec = flatten(xs)
    count = _length(xs, leaves, length)

    def step(carry: Any, slices: Sequence[Any]) -> tuple[Any, Any]:
        out = f(carry, unflatten(spec, slices))
        if not isinstance(out, tuple) or len(out) != 2:
            raise OperandError(f"scan: f gives a pair (carry, y), not {type(out).__name__}")
        _check_carry(carry, out[0], "scan: f")
        return out

    if not count:
        return init, _no_steps(step, init, leaves)

    order = range(count - 1, -1, -1) if reverse else range(count)
    carry, ys = _steps(step, init, leaves, order, _piece(checkpoint, count))
    return carry, _stacked(ys[::-1] if reverse else ys)


def _steps(step: Function, carry: Any, leaves: Sequence[Any], order: range, size: int) -> tuple[Any, list[Any]]:
    """Return the last carry and the y's, with a checkpoint for each ``size`` steps."""

    def piece(carry: Any, parts: Sequence[Any], places: Sequence[int]) -> tuple[Any, list[Any]]:
        ys = []
        for i in places:
            carry, y = step(carry, [part[(i, ...)] for part in parts])
            ys.append(y)
        return carry, ys

    if not size:
        return piece(carry, leaves, order)
    ys: list[Any] = []
    run = checkpointed(piece)
    for start in range(0, len(order), size):
        places = order[start : start + size]
        first = min(places)
        parts = [leaf[(slice(first, max(places) + 1), ...)] for leaf in leaves]
        carry, some = run(carry, parts, [i - first for i in places])
        ys += some
    return carry, ys


def _piece(checkpoint: bool | int, count: int) -> int:
    """Return the number of steps of one checkpoint, 0 for none."""
    if checkpoint is True:
        return max(1, math.isqrt(count))
    if checkpoint is False:
        return 0
    if type(checkpoint) is not int or checkpoint < 1:
        raise ConfigurationError(f"scan: checkpoint is True, False or a number of steps, not {checkpoint!r}")
    return checkpoint


def _no_steps(step: Function, init: Any, leaves: Sequence[Any]) -> Any:
    """Return the stacked results of no steps.

    A step on zeros tells their structure, shapes and dtypes.
    """
    with no_grad():
        zeros = [namespace_of((leaf,)).sum(leaf, axis=0, dtype=leaf.dtype) for leaf in leaves]
        _, y = step(init, zeros)
        return tree_map(lambda leaf: leaf[(slice(0, 0), ...)], _stacked([y]))


def _stacked(ys: Sequence[Any]) -> Any:
    rows = [flatten(y) for y in ys]
    spec = rows[0][1]
    for i, (_, other) in enumerate(rows):
        if other != spec:
            raise ShapeError(f"scan: f gave y as {other} at step {i}, and as {spec} before; its structure must stay")
    stacked = []
    for place, parts in zip(paths(ys[0]), zip(*(leaves for leaves, _ in rows), strict=True), strict=True):
        given = _arrays(parts)
        for part in given:
            if not is_array(part):
                raise OperandError(f"scan: y{place} is a {type(part).__name__}, not an array; agrad.asarray makes one")
        if len({tuple(part.shape) for part in given}) > 1:
            raise ShapeError(f"scan: y{place} has another shape at each step, so the y's cannot be stacked")
        rows_of = lift_all(given)
        stacked.append(namespace_of(rows_of).stack(rows_of))
    return unflatten(spec, stacked)


def _arrays(parts: Sequence[Any]) -> Sequence[Any]:
    """Return the steps' results as arrays.

    Python numbers, of a carry that began as one say, become arrays like those of other steps.
    """
    like = next((part for part in parts if is_array(part)), None)
    if like is None:
        return [array_of_number(part) for part in parts]
    if tuple(like.shape) != ():
        return parts
    xp = namespace_of((like,))
    return [xp.full_like(like, part) if type(part) in (bool, int, float) else part for part in parts]


def _truth(value: Any, what: str) -> bool:
    if hasattr(value, "shape") and tuple(value.shape) != ():
        raise ShapeError(f"{what} is one truth value, not an array of shape {tuple(value.shape)}; reduce it first")
    return bool(value)


def cond(pred: Any, true_fn: Function, false_fn: Function, *operands: Any) -> Any:
    """Call ``true_fn`` on the operands if ``pred`` is true, else ``false_fn``.

    The other one does not run.

    Parameters
    ----------
    pred : bool, number, or array of shape ()
        Chooses the function. It may not be mapped by ``vmap``; use ``agrad.where`` on both results there.
    true_fn, false_fn : callable
        Take the operands.
    *operands
        The arguments of both functions.

    Returns
    -------
    object
        The result of the function that ran.

    Raises
    ------
    ShapeError
        For an array ``pred`` with axes.
    TracedValueError
        Where ``vmap`` maps ``pred``.
    """
    return true_fn(*operands) if _truth(pred, "cond: pred") else false_fn(*operands)


def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """Apply ``body_fun`` to the value while ``cond_fun`` of it is true.

    Forward mode needs no graph. Reverse mode uses the tape, whose memory grows with the number of steps that ran. Both
    give the derivative of these steps.

    Parameters
    ----------
    cond_fun : callable
        Takes the value and returns one truth value.
    body_fun : callable
        Takes the value and returns the next one.
    init_val : nested container
        The first value, whose structure, shapes and dtypes must stay.

    Returns
    -------
    nested container
        The last value.

    Raises
    ------
    ShapeError
        Where the structure, a shape or a dtype changes.
    TracedValueError
        Where ``vmap`` maps the condition.
    """
    value = init_val
    while _truth(cond_fun(value), "while_loop: what cond_fun gives"):
        after = body_fun(value)
        _check_carry(value, after, "while_loop: body_fun")
        value = after
    return value
