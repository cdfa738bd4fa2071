"""``odeint``: initial value problems, differentiated through the solution.

The steps are never recorded. Forward mode integrates the tangent along with the state. Reverse mode integrates the
adjoint back, a' = -a df/dy, and with it the integrals of a df/dp for every array p that the equation uses (Chen et al.,
Neural Ordinary Differential Equations, NeurIPS 2018). The tape of one call of the equation shows these arrays, also
those that it closes over. The same solver integrates these systems, on Tensors of older levels: this gives derivatives
of every order and mode.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from agrad.backends import backend_of
from agrad.dtypes import is_complex, is_floating
from agrad.engine.backward import backward_pass
from agrad.engine.batching import Batch
from agrad.engine.calls import lift_all, newest_level, record_call, recorded_part
from agrad.engine.gradients import nodes_before, starting_cotangents
from agrad.engine.levels import Forward, lift, namespace_of
from agrad.engine.tape import Node, leaf_node, mode, next_id, no_grad, recording_from
from agrad.engine.tensor import Tensor, settle, wrap
from agrad.errors import ConvergenceError, DtypeError, NotDifferentiableError, RuleError, ShapeError, TracedValueError
from agrad.solvers.implicit import checked, given_back, on_tape, state_leaves
from agrad.solvers.linear import Packing, computed, greatest, minus, plain, precision, raw_of
from agrad.transforms.arguments import paired, split, zeros
from agrad.transforms.calling import spread
from agrad.transforms.trees import unflatten

Leaves = Sequence[Any]
Equation = Callable[[Leaves, Any], list[Any]]
"""The time derivative of a list of arrays, at a time of shape ()."""


class _Options(NamedTuple):
    rtol: float | None
    atol: float | None
    maxsteps: int


def odeint(
    f: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float | None = None,
    atol: float | None = None,
    maxsteps: int = 10_000,
) -> Any:
    """Return the solution of ``dy/dt = f(y, t, *args)`` at the times ``t``.

    It is differentiable in ``y0``, ``t``, ``args`` and whatever ``f`` closes over, in any mode and order, to about the
    accuracy asked for. Under ``vmap`` all members take the same steps.

    Parameters
    ----------
    f : callable
        Takes y, the time as an array of shape () and ``args``, and returns a container like ``y0``, by agrad's
        functions.
    y0 : nested container of floating arrays
        The value of y at the first time.
    t : array of shape (n,)
        Two or more real floating times that increase or decrease.
    *args
        Further arguments of ``f``.
    rtol, atol : float, optional
        The local error of a step stays below atol + rtol * abs(y) in the mean square. By default the square root of
        the dtype's precision for both.
    maxsteps : int
        The number of steps allowed between two times.

    Returns
    -------
    container like ``y0``
        Its arrays have the times as their first axis: shape (n, *shape).

    Raises
    ------
    ConvergenceError
        After ``maxsteps`` steps between two times, or where the step becomes too small.
    ShapeError, DtypeError
        For times of another shape, order or dtype.

    Notes
    -----
    The method is that of Dormand and Prince, A family of embedded Runge-Kutta formulae, J. Comput. Appl. Math. 6
    (1980). The adjoint is that of Chen et al., Neural Ordinary Differential Equations, NeurIPS 2018.
    """
    leaves, spec = state_leaves(y0, "odeint: y0")
    if not hasattr(t, "shape") or len(t.shape) != 1 or int(t.shape[0]) < 2:
        raise ShapeError("odeint: t is an array of one axis, of two or more times, the first of which is that of y0")
    if not is_floating(t.dtype) or is_complex(t.dtype):
        raise DtypeError(f"odeint: t has dtype {t.dtype}; times are real floating: agrad.astype(t, agrad.float64)")

    def equation(ys: Leaves, s: Any) -> list[Any]:
        out = f(unflatten(spec, [lift(y) for y in ys]), lift(s), *args)
        return checked(out, leaves, spec, "odeint: f")

    found = _solve(equation, leaves, t, _Options(rtol, atol, maxsteps))
    return unflatten(spec, given_back([y if isinstance(y, Tensor) else t for y in leaves], found))


def _times(t: Any) -> list[float]:
    raw = raw_of(t)
    if len(raw.shape) != 1:
        raise TracedValueError("odeint: the times may not be mapped by vmap, as they decide the steps")
    times = [float(s) for s in np.asarray(backend_of(raw).to_host(raw))]
    steps = np.diff(times)
    if not (np.all(steps > 0) or np.all(steps < 0)):
        raise ShapeError("odeint: the times must increase, or decrease, each from the one before")
    return times


def _solve(equation: Equation, y0: Leaves, t: Any, options: _Options) -> list[Any]:
    """Return the solution by leaf, with the times first, of operands of any levels."""
    y0, t = [recorded_part(y) for y in y0], recorded_part(t)
    since = next_id()
    with_closures = [recorded_part(r) for k in (0, -1) for r in equation([plain(y) for y in y0], plain(t)[k])]
    level = newest_level([*y0, t, *with_closures])
    if level is None or not (level.derivative or isinstance(level, Batch)):
        return _integrate(equation, y0, t, options)  # raises an error if a trace could not replay the steps
    if isinstance(level, Batch):
        return _of_members(equation, y0, t, options, level)
    if isinstance(level, Forward):
        return _with_tangents(equation, y0, t, options, level)
    if not level.tape:
        raise NotDifferentiableError(f"odeint has no derivative that the level {level.name!r} could carry")
    return _recorded(equation, y0, t, options, level, since, with_closures)


def _of_members(equation: Equation, y0: Leaves, t: Any, options: _Options, level: Batch) -> list[Any]:
    if isinstance(t, Tensor) and t.level is level:
        raise TracedValueError("odeint: the times may not be mapped by vmap, as they decide the steps")

    def of_all(ys: Leaves, s: Any) -> list[Any]:
        return [spread(level, recorded_part(r)) for r in equation([level.wrap(settle(y)) for y in ys], s)]

    found = _solve(of_all, [spread(level, y) for y in y0], t, options)
    return [level.wrap(settle(namespace_of((y,)).moveaxis(y, 1, 0))) for y in found]


def _with_tangents(equation: Equation, y0: Leaves, t: Any, options: _Options, level: Forward) -> list[Any]:
    """Solve for the state and its tangent as one system."""
    n = len(y0)

    def both(state: Leaves, s: Any) -> list[Any]:
        ys = [wrap(settle(y), level, settle(v)) for y, v in zip(state[:n], state[n:], strict=True)]
        with recording_from(level.id):  # the solver records nothing else
            found = [split(recorded_part(r), level) for r in equation(ys, s)]
        slopes = [zeros(v) if t is None else t for (_, t), v in zip(found, state[n:], strict=True)]
        return lift_all([*[settle(r) for r, _ in found], *slopes])

    below = _inside(equation, level)
    inner = [level.inside(y) for y in y0]
    slopes = [split(y, level)[1] for y in y0]
    slopes = [zeros(x) if v is None else v for v, x in zip(slopes, inner, strict=True)]
    dt = split(t, level)[1]
    t = level.inside(t)
    if dt is not None:
        at_start = below(inner, t[0])
        slopes = [minus(v, _scaled(r, dt[0])) for v, r in zip(slopes, at_start, strict=True)]
    found = _solve(both, lift_all([*inner, *slopes]), t, options)
    ys, vs = found[:n], found[n:]
    if dt is not None:
        rows = [below([y[(i, ...)] for y in ys], t[i]) for i in range(int(t.shape[0]))]
        for k in range(n):
            moved = lift_all([_scaled(row[k], dt[i]) for i, row in enumerate(rows)])
            a, b = lift_all([vs[k], namespace_of(moved).stack(moved)])
            vs[k] = a + b
    return [wrap(settle(y), level, settle(v)) for y, v in zip(ys, vs, strict=True)]


def _scaled(a: Any, by: Any) -> Any:
    a, by = lift_all([a, by])
    return a * by


def _inside(equation: Equation, level: Any) -> Equation:
    """Return an equation without a level on its results."""
    return lambda ys, s: [level.inside(recorded_part(r)) for r in equation(ys, s)]


def _recorded(
    equation: Equation, y0: Leaves, t: Any, options: _Options, level: Any, since: int, closures: Leaves
) -> list[Any]:
    """Record the solution as one operation. Its pullback solves the adjoint system."""
    ends = [node for _, node in (split(r, level) for r in closures) if node is not None]
    used = nodes_before(ends, since)
    starts = [split(y, level)[1] for y in y0]
    t_node = split(t, level)[1]
    inner_t = level.inside(t)
    below = _inside(equation, level)
    found = _solve(below, [level.inside(y) for y in y0], inner_t, options)
    parents = list(dict.fromkeys([*[n for n in (*starts, t_node) if n is not None], *used]))

    def pull(node: Node, given: list[Any]) -> list[Any]:
        again = any(isinstance(g, Tensor) and g.level is level for g in given)
        ys = on_tape(found, level, node) if again else found
        gs = lift_all([zeros(y) if g is None else g for g, y in zip(given, found, strict=True)])
        adjoint = _Adjoint(equation if again else below, equation, level, used, again)
        back_y, back_t, back_used = adjoint.back(ys, t if again else inner_t, gs, options, t_node is not None)
        total = starting_cotangents([*starts, t_node, *used], [*back_y, back_t, *back_used])
        return [settle(total[p]) if p in total else None for p in parents]

    nodes = record_call("odeint", parents, len(found), pull)
    return [wrap(y, level, node) for y, node in zip(found, nodes, strict=True)]


class _Adjoint:
    """The system of state, adjoint and integrals of a backward pass at one level."""

    def __init__(self, value: Equation, equation: Equation, level: Any, used: Sequence[Node], again: bool) -> None:
        self.value, self.equation, self.level, self.used, self.again = value, equation, level, used, again

    def _pulled(self, ys: Leaves, adjoints: Leaves, s: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the equation's value, and the state's and used nodes' cotangents.

        None stands for zero.
        """
        level = self.level
        with recording_from(level.id):
            starts = [self._start(y) for y in ys]
            since = next_id()
            outs = [recorded_part(r) for r in self.equation(starts, s)]
            seeds = starting_cotangents([split(r, level)[1] for r in outs], [settle(a) for a in adjoints])
            found = backward_pass(seeds, retain=self.again, level=level if self.again else None, since=since)
        begun = [y.node for y in starts]
        known = {*begun, *self.used}
        if any(node not in known and node.id <= since for node in found):
            raise RuleError("odeint: f uses Tensors between the first and the last time that it does not use at either")
        values = outs if self.again else [level.inside(r) for r in outs]
        return values, [found.get(node) for node in begun], [found.get(node) for node in self.used]

    def _start(self, y: Any) -> Tensor:
        """Return the state with a node at which the pass ends.

        The node is a leaf, or a new node before the state's own.
        """
        if self.again and isinstance(y, Tensor) and y.level is self.level and y.node is not None:
            return wrap(y.data, self.level, record_call("state", [y.node], 1, lambda _, gs: gs, linear=True)[0])
        y = recorded_part(y)
        if isinstance(y, Tensor) and y.level is self.level:
            y = y.data
        return wrap(y, self.level, leaf_node())

    def back(
        self, ys: Leaves, t: Any, gs: Leaves, options: _Options, wants_t: bool
    ) -> tuple[list[Any], Any, list[Any]]:
        """Return the cotangents of the first state, the times and the used nodes."""
        n, last = len(ys), int(gs[0].shape[0]) - 1
        adjoints = [g[(last, ...)] for g in gs]
        state = [y[(last, ...)] for y in ys]
        # the first cotangents of the used nodes have the shapes of the integrals
        _, _, shapes = self._pulled(state, adjoints, plain(t)[last])
        if any(s is None for s in shapes):
            _, _, at_start = self._pulled([y[(0, ...)] for y in ys], adjoints, plain(t)[0])
            shapes = [b if a is None else a for a, b in zip(shapes, at_start, strict=True)]
        integrals = [None if s is None else zeros(plain(s)) for s in shapes]
        kept = [k for k, s in enumerate(integrals) if s is not None]

        def system(values: Leaves, s: Any) -> list[Any]:
            slopes, back_y, back_used = self._pulled(values[:n], values[n : 2 * n], s)
            out = list(slopes)
            for c, like in zip([*back_y, *[back_used[k] for k in kept]], values[n:], strict=True):
                out.append(zeros(like) if c is None else -c)
            return lift_all(out)

        back_t: list[Any] = [None] * (last + 1)
        for i in range(last, 0, -1):
            here = [y[(i, ...)] for y in ys]
            if wants_t:
                back_t[i] = paired(self.value(here, t[i]), [g[(i, ...)] for g in gs])
            values = lift_all([*here, *adjoints, *[integrals[k] for k in kept]])
            xp = namespace_of((t,))
            times = xp.stack([t[i], t[i - 1]])
            found = [v[(1, ...)] for v in _solve(system, values, times, options)]
            before = found[n : 2 * n]
            for k, v in zip(kept, found[2 * n :], strict=True):
                integrals[k] = v
            adjoints = [a + b for a, b in (lift_all([a, g[(i - 1, ...)]]) for a, g in zip(before, gs, strict=True))]
        if not wants_t:
            return adjoints, None, integrals
        back_t[0] = -paired(self.value([y[(0, ...)] for y in ys], t[0]), before)
        parts = lift_all(back_t)
        return adjoints, namespace_of(parts).stack(parts), integrals


# ---------------------------------------------------------------- the numerical method

# Dormand and Prince, A family of embedded Runge-Kutta formulae, J. Comput. Appl. Math. 6 (1980)
_NODES = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_WEIGHTS: tuple[tuple[float, ...], ...] = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def _sum(weights: Sequence[float], slopes: Leaves) -> Any:
    parts = [k * w for w, k in zip(weights, slopes, strict=True) if w]
    return sum(parts[1:], parts[0])


def _mean_square(v: Any) -> float:
    """Return the root mean square, the greatest of all members; 0 if empty."""
    if 0 in v.shape:
        return 0.0
    xp = namespace_of((v,))
    return greatest(xp.sqrt(xp.mean(xp.abs(v) ** 2)))


def _integrate(equation: Equation, y0: Leaves, t: Any, options: _Options) -> list[Any]:
    """Return the solution for plain values, by adaptive steps to each time."""
    oldest = mode().oldest
    with no_grad():
        times = _times(t)
        packing = Packing(y0)
        y = packing.pack(y0)
        zero = plain(t)[0] * 0

        def slope(v: Any, s: float, whole: bool = False) -> Any:
            ys = [lift(p) for p in packing.unpack(v)]
            if whole:  # once a step at all levels, to detect a derivative that would be lost
                with recording_from(oldest):
                    found = [recorded_part(r) for r in equation(ys, zero + s)]
                if any(isinstance(r, Tensor) and r.level.derivative for r in found):
                    raise RuleError(
                        "odeint: f uses a Tensor between the first and the last time that it uses at neither, so that "
                        "the derivative by it would be lost; multiply it by 0 there instead of leaving it out"
                    )
            else:
                found = equation(ys, zero + s)
            return packing.pack(found)

        small = precision(y) ** 0.5
        rtol, atol = (small if given is None else given for given in (options.rtol, options.atol))
        options = _Options(rtol, atol, options.maxsteps)
        rows = [packing.unpack(y)]
        k = slope(y, times[0])
        y, k = lift_all([y, k])
        step = None
        for start, end in itertools.pairwise(times):
            y, k, step = _between(slope, plain(y), plain(k), start, end, step, options)
            rows.append(packing.unpack(y))
        columns = [lift_all(parts) for parts in zip(*rows, strict=True)]
        return [plain(namespace_of(parts).stack(parts)) for parts in columns]


def _between(
    slope: Callable[..., Any], y: Any, k: Any, start: float, end: float, step: float | None, options: _Options
) -> tuple[Any, Any, float]:
    """Return the solution at ``end``, its slope there, and the size of the next step."""
    rtol, atol, maxsteps = options
    y, k = lift_all([y, k])
    xp = namespace_of((y, k))
    if step is None:
        # Hairer, Norsett and Wanner, Solving Ordinary Differential Equations I, section II.4, its first guess
        scale = atol + rtol * xp.abs(y)
        size, speed = _mean_square(y / scale), _mean_square(k / scale)
        step = 1e-6 if min(size, speed) < 1e-5 else 0.01 * size / speed
    s, sign = start, 1.0 if end > start else -1.0
    for _ in range(maxsteps):
        left = abs(end - s)
        last = step >= left
        h = sign * (left if last else step)
        slopes = [k]
        for node, weights in zip(_NODES[1:], _WEIGHTS[1:], strict=True):
            moved = y + _sum(weights, slopes) * h
            slopes.append(slope(moved, end if last and node == 1.0 else s + node * h, len(slopes) == 6))
        scale = atol + rtol * xp.maximum(xp.abs(y), xp.abs(moved))
        off, moved, slope_there = computed(_sum(_ERROR, slopes) * h / scale, moved, slopes[-1])
        error = _mean_square(off)
        if not np.isfinite(error):
            step = abs(h) * 0.2
        else:
            # the fifth root, as the error is of the fifth order in the step
            taken = step if last and error <= 1 else abs(h)
            grown = abs(h) * min(10.0, max(0.2, 0.9 * max(error, 1e-10) ** -0.2))
            step = max(taken, grown) if last and error <= 1 else grown
        if np.isfinite(error) and error <= 1:
            y, k = moved, slope_there
            if last:
                return y, k, step
            s += h
        if step <= 4 * np.finfo(float).eps * max(abs(s), abs(end)):
            break
    raise ConvergenceError(
        f"odeint: the step from {start:g} to {end:g} has become {step:.3g} at {s:.6g} without reaching the end; the "
        "equation may be stiff or singular there: give a greater rtol, atol or maxsteps"
    )
