"""Loops of the solvers: Python loops, or operations inside a trace.

An algorithm is implemented once, as steps from a state to the next. A Python loop reads each condition. Inside a trace,
conditions have no value: the loop is one operation, and a solver returns NaN instead of raising.
"""

from collections.abc import Callable, Sequence
from typing import Any

from agrad.control.bodies import id_above
from agrad.control.staged import staged_scan, staged_while
from agrad.control.steps import computed, is_true
from agrad.engine.batching import Batch
from agrad.engine.calls import lift_all
from agrad.engine.namespaces import NAMESPACES, namespace_of
from agrad.engine.tape import mode
from agrad.engine.tensor import Tensor, strip_constant_levels
from agrad.errors import ConvergenceError
from agrad.registry import namespace
from agrad.transforms.custom import stop_gradient
from agrad.transforms.trees import flatten

State = Sequence[Any]
Condition = Callable[[Any], Any]
Advance = Callable[[Any], Any]


def in_trace() -> bool:
    """Return True while a function is traced."""
    return mode().trace is not None


def plain(value: Any) -> Any:
    """Return an array, or a batch of ``vmap``, without the transforms that record it."""
    if not isinstance(value, Tensor):
        return value
    data = value.data
    return (
        data if value.level.derivative and not isinstance(data, Tensor) else strip_constant_levels(stop_gradient(value))
    )


def raw_of(value: Any) -> Any:
    """Return the array inside all transforms, with all batch axes.

    Raises ``TracedValueError`` for a traced array, on which Python cannot branch.
    """
    while isinstance(value, Tensor):
        if not value.level.derivative and not isinstance(value.level, Batch):
            value._check_concrete("the end of an iteration")
        value = value.data
    return value


def anywhere(condition: Any) -> bool:
    """Return True if a condition holds for any batch element."""
    if type(condition) is bool:
        return condition
    raw = raw_of(condition)
    return is_true(NAMESPACES[type(raw)].any(raw) if raw.shape else raw)


def _age(values: Any) -> Any:
    """Return the number of the trace of a loop with these first values.

    Transforms newer than the values record outside the loop, because an equation may use them.
    """
    leaves = [strip_constant_levels(leaf) for leaf in flatten(values)[0] if isinstance(leaf, Tensor)]
    return id_above(mode().trace, *[leaf.level for leaf in leaves if isinstance(leaf, Tensor)])


def while_loop(goes_on: Condition, advance: Advance, state: State) -> Any:
    """Return the last state of a loop. A traced loop is as old as its first state."""
    if in_trace():
        return staged_while(goes_on, advance, state, _age(state))
    while True:
        going = goes_on(state)
        if type(going) is not bool:
            going, *state = computed([going, *state])
        if not anywhere(going):
            return state
        state = advance(state)


def iterate(goes_on: Condition, advance: Advance, state: State, limit: int) -> tuple[State, Any]:
    """Return the last state of at most ``limit`` steps, and their number."""

    def below(s: State) -> Any:
        if in_trace():
            return namespace.logical_and(goes_on(s[:-1]), s[-1] < limit)
        return s[-1] < limit and goes_on(s[:-1])

    *state, count = while_loop(below, lambda s: (*advance(s[:-1]), s[-1] + 1), (*state, 0))
    return state, count


def scan(
    step: Callable[..., Any], carry: Any, xs: Sequence[Any], reverse: bool = False, unrolled: bool = False
) -> tuple[Any, Any]:
    """Return the last carry and the rows of a scan over arrays or lists.

    Inside a trace the rows are stacked, unless the loop is ``unrolled``.
    """
    count = len(xs[0]) if isinstance(xs[0], list) else int(xs[0].shape[0])
    if in_trace() and not unrolled:
        return staged_scan(step, carry, xs, count, reverse, 0, _age((carry, xs)))
    rows: list[Any] = [None] * count
    for i in reversed(range(count)) if reverse else range(count):
        carry, rows[i] = step(carry, [x[i] if isinstance(x, list) else x[(i, ...)] for x in xs])
    return carry, rows


def within(size: Any, tolerance: Any) -> Any:
    """Return the condition that a size is within a finite tolerance."""
    size, tolerance = lift_all([size, tolerance])
    xp = namespace_of((size, tolerance))
    return xp.logical_and(size <= tolerance, xp.isfinite(tolerance))


def reached(x: Any, size: Any, tolerance: Any, error: Callable[[], str]) -> Any:
    """Return ``x`` if ``size`` is within ``tolerance``.

    Otherwise raise ``ConvergenceError`` with the text of ``error``, or return NaN inside a trace.
    """
    good = within(size, tolerance)
    if in_trace():
        good, x = lift_all([good, x])
        return namespace_of((x,)).where(good, x, float("nan"))
    if anywhere(namespace_of((good,)).logical_not(good)):
        raise ConvergenceError(error())
    return x
