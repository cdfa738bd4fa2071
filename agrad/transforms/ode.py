"""``odeint``: initial value problems by Dormand and Prince's method, differentiated through the solution.

The steps are never recorded. Forward mode integrates the tangent along with the state; reverse mode integrates the
adjoint back, a' = -a df/dy, and beside it the integrals of a df/dp for every array p that the equation uses (Chen
et al., Neural Ordinary Differential Equations, NeurIPS 2018). What the equation uses is read off the tape of one
call of it, so closures need no care. The systems so made are solved by the same function on older levels' Tensors, so
that derivatives of every order and mode follow.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from agrad.backends import backend_of
from agrad.dtypes import is_complex, is_floating
from agrad.engine.batching import Batch
from agrad.engine.calls import alike, live, newest, record_call
from agrad.engine.levels import Forward, lift, namespace_of, select
from agrad.engine.sweep import order, sweep
from agrad.engine.tape import Node, leaf_node, mode, next_id, no_grad, recording_from
from agrad.engine.tensor import Tensor, settle, wrap
from agrad.errors import ConvergenceError, DtypeError, NotDifferentiableError, RuleError, ShapeError, TracedValueError
from agrad.transforms.implicit import checked, given_back, plain, state_leaves
from agrad.transforms.krylov import Packing, computed, greatest, precision, raw_of
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
    """The solution of ``dy/dt = f(y, t, *args)`` at the times ``t``, with ``y = y0`` at the first of them.

    y0: a nested container of floating arrays; f: gives one like it, of agrad's functions; t: a real floating array of
    one axis, of two or more times that increase or decrease. The local error of a step is kept below atol + rtol * |y|
    in the mean square, by default the square root of the dtype's precision for both. Gives a container like ``y0``
    whose arrays have the times as their first axis. Differentiable in ``y0``, ``t``, ``args`` and whatever ``f`` closes
    over, in any mode and order, to about the accuracy asked for. Under ``vmap`` all members take the same steps. Raises
    ``ConvergenceError`` after ``maxsteps`` steps between two times, or where the step becomes too small.
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
    """The solution by leaf, the times along the first axis; operands may be Tensors of any levels."""
    y0, t = [live(y) for y in y0], live(t)
    since = next_id()
    with_closures = [live(r) for k in (0, -1) for r in equation([plain(y) for y in y0], plain(t)[k])]
    level = newest([*y0, t, *with_closures])
    if level is None or not (level.derivative or isinstance(level, Batch)):
        return _integrate(equation, y0, t, options)  # which refuses what a trace could not replay
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

    def inside(value: Any) -> Any:
        value = live(value)
        if isinstance(value, Tensor) and value.level is level:
            return settle(value.data)
        return namespace_of((value,)).broadcast_to(value, (level.members, *value.shape))

    def of_all(ys: Leaves, s: Any) -> list[Any]:
        return [inside(r) for r in equation([level.wrap(settle(y)) for y in ys], s)]

    found = _solve(of_all, [inside(y) for y in y0], t, options)
    return [level.wrap(settle(namespace_of((y,)).moveaxis(y, 1, 0))) for y in found]


def _with_tangents(equation: Equation, y0: Leaves, t: Any, options: _Options, level: Forward) -> list[Any]:
    """Forward mode: state and tangent are one system."""
    n = len(y0)

    def both(state: Leaves, s: Any) -> list[Any]:
        ys = [wrap(settle(y), level, settle(v)) for y, v in zip(state[:n], state[n:], strict=True)]
        values, slopes = [], []
        with recording_from(level.id):  # the solver records nothing else
            found = [live(r) for r in equation(ys, s)]
        for r, v in zip(found, state[n:], strict=True):
            here = isinstance(r, Tensor) and r.level is level
            values.append(level.inside(r) if here else r)
            slopes.append(r.node if here else namespace_of((v,)).zeros_like(v))
        return alike([*values, *slopes])

    def value_at(ys: Leaves, s: Any) -> list[Any]:
        return [level.inside(live(r)) for r in equation(ys, s)]

    inner = [level.inside(y) for y in y0]
    slopes = [
        y.node if isinstance(y, Tensor) and y.level is level else namespace_of((x,)).zeros_like(x)
        for y, x in zip(y0, inner, strict=True)
    ]
    dt = t.node if isinstance(t, Tensor) and t.level is level else None
    t = level.inside(t)
    if dt is not None:
        at_start = value_at(inner, t[0])
        slopes = [_minus(v, _scaled(r, dt[0])) for v, r in zip(slopes, at_start, strict=True)]
    found = _solve(both, alike([*inner, *slopes]), t, options)
    ys, vs = found[:n], found[n:]
    if dt is not None:
        rows = [value_at([y[(i, ...)] for y in ys], t[i]) for i in range(int(t.shape[0]))]
        for k in range(n):
            moved = alike([_scaled(row[k], dt[i]) for i, row in enumerate(rows)])
            a, b = alike([vs[k], namespace_of(moved).stack(moved)])
            vs[k] = a + b
    return [wrap(settle(y), level, settle(v)) for y, v in zip(ys, vs, strict=True)]


def _minus(a: Any, b: Any) -> Any:
    a, b = alike([a, b])
    return a - b


def _scaled(a: Any, by: Any) -> Any:
    a, by = alike([a, by])
    return a * by


def _paired(a: Any, b: Any) -> Any:
    """The pairing of a value and a cotangent, as a real number: Re(sum(a * b))."""
    a, b = alike([a, b])
    xp = namespace_of((a, b))
    total = xp.sum(a * b)
    return xp.real(total) if is_complex(total.dtype) else total


def _recorded(
    equation: Equation, y0: Leaves, t: Any, options: _Options, level: Any, since: int, closures: Leaves
) -> list[Any]:
    """Reverse mode: the solution as one operation, whose pullback integrates the adjoint back."""

    def inside(value: Any) -> Any:
        value = live(value)
        return level.inside(value) if isinstance(value, Tensor) else value

    def below(ys: Leaves, s: Any) -> list[Any]:
        return [inside(r) for r in equation(ys, s)]

    ends = [r.node for r in closures if isinstance(r, Tensor) and r.level is level and r.node is not None]
    used = [node for node in order(ends, since) if node.id <= since] if ends else []
    on_tape = [y.node if isinstance(y, Tensor) and y.level is level else None for y in y0]
    t_node = t.node if isinstance(t, Tensor) and t.level is level else None
    inner_t = inside(t)
    found = _solve(below, [inside(y) for y in y0], inner_t, options)
    parents = list(dict.fromkeys([*[n for n in (*on_tape, t_node) if n is not None], *used]))

    def pull(node: Node, given: list[Any]) -> list[Any]:
        again = any(isinstance(g, Tensor) and g.level is level for g in given)
        nodes = [node] if len(found) == 1 else [select(node, i) for i in range(len(found))]
        ys = [wrap(y, level, n) for y, n in zip(found, nodes, strict=True)] if again else found
        gs = alike([namespace_of((y,)).zeros_like(y) if g is None else g for g, y in zip(given, found, strict=True)])
        adjoint = _Adjoint(equation if again else below, equation, level, used, again, len(ys))
        back_y, back_t, back_used = adjoint.back(ys, t if again else inner_t, gs, options, t_node is not None)
        total: dict[Node, Any] = {}
        for parent, g in [*zip(on_tape, back_y, strict=True), (t_node, back_t), *zip(used, back_used, strict=True)]:
            if parent is not None and g is not None:
                total[parent] = total[parent] + g if parent in total else g
        return [settle(total[p]) if p in total else None for p in parents]

    nodes = record_call("odeint", parents, len(found), pull)
    return [wrap(y, level, node) for y, node in zip(found, nodes, strict=True)]


class _Adjoint:
    """The system of state, adjoint and integrals of one level's backward pass."""

    def __init__(
        self, value: Equation, equation: Equation, level: Any, used: Sequence[Node], again: bool, count: int
    ) -> None:
        self.value, self.equation, self.level, self.used = value, equation, level, list(used)
        self.again, self.count = again, count

    def _pulled(self, ys: Leaves, adjoints: Leaves, s: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """The equation's value, and the cotangents of the state and of what it uses (None where there is none)."""
        level = self.level
        with recording_from(level.id):
            starts = [self._start(y) for y in ys]
            since = next_id()
            outs = [live(r) for r in self.equation(starts, s)]
            seeds: dict[Node, Any] = {}
            for r, a in zip(outs, adjoints, strict=True):
                if isinstance(r, Tensor) and r.level is level and r.node is not None:
                    a = settle(a)
                    seeds[r.node] = seeds[r.node] + a if r.node in seeds else a
            recorded = level if self.again else None
            found = sweep(seeds, retain=self.again, level=recorded, since=since) if seeds else {}
        begun = [y.node for y in starts]
        known = {*begun, *self.used}
        if any(node not in known and node.id <= since for node in found):
            raise RuleError("odeint: f uses Tensors between the first and the last time that it does not use at either")
        values = outs if self.again else [level.inside(r) if isinstance(r, Tensor) else r for r in outs]
        return values, [found.get(node) for node in begun], [found.get(node) for node in self.used]

    def _start(self, y: Any) -> Tensor:
        """The state as where a sweep ends: a leaf, or a stop on the way to the node that it has on this tape."""
        if self.again and isinstance(y, Tensor) and y.level is self.level and y.node is not None:
            return wrap(y.data, self.level, record_call("state", [y.node], 1, lambda _, gs: gs, linear=True)[0])
        y = live(y)
        if isinstance(y, Tensor) and y.level is self.level:
            y = y.data
        return wrap(y, self.level, leaf_node())

    def back(
        self, ys: Leaves, t: Any, gs: Leaves, options: _Options, wants_t: bool
    ) -> tuple[list[Any], Any, list[Any]]:
        """The cotangents of the first state, of the times, and of what the equation uses."""
        n, last = self.count, int(gs[0].shape[0]) - 1
        adjoints = [g[(last, ...)] for g in gs]
        state = [y[(last, ...)] for y in ys]
        # the shapes of what is used are known from the first cotangents of it
        _, _, shapes = self._pulled(state, adjoints, plain(t)[last])
        if any(s is None for s in shapes):
            _, _, at_start = self._pulled([y[(0, ...)] for y in ys], adjoints, plain(t)[0])
            shapes = [b if a is None else a for a, b in zip(shapes, at_start, strict=True)]
        integrals = [None if s is None else namespace_of((s,)).zeros_like(plain(s)) for s in shapes]
        kept = [k for k, s in enumerate(integrals) if s is not None]

        def system(values: Leaves, s: Any) -> list[Any]:
            slopes, back_y, back_used = self._pulled(values[:n], values[n : 2 * n], s)
            out = list(slopes)
            for c, like in zip([*back_y, *[back_used[k] for k in kept]], values[n:], strict=True):
                out.append(namespace_of((like,)).zeros_like(like) if c is None else -c)
            return alike(out)

        back_t: list[Any] = [None] * (last + 1)
        for i in range(last, 0, -1):
            here = [y[(i, ...)] for y in ys]
            if wants_t:
                back_t[i] = self._paired(here, t[i], [g[(i, ...)] for g in gs])
            values = alike([*here, *adjoints, *[integrals[k] for k in kept]])
            xp = namespace_of((t,))
            times = xp.stack([t[i], t[i - 1]])
            found = [v[(1, ...)] for v in _solve(system, values, times, options)]
            before, adjoints = found[n : 2 * n], found[n : 2 * n]
            for k, v in zip(kept, found[2 * n :], strict=True):
                integrals[k] = v
            adjoints = [a + b for a, b in (alike([a, g[(i - 1, ...)]]) for a, g in zip(before, gs, strict=True))]
        if not wants_t:
            return adjoints, None, integrals
        back_t[0] = -self._paired([y[(0, ...)] for y in ys], t[0], before)
        parts = alike(back_t)
        return adjoints, namespace_of(parts).stack(parts), integrals

    def _paired(self, ys: Leaves, s: Any, gs: Leaves) -> Any:
        total = None
        for r, g in zip(self.value(ys, s), gs, strict=True):
            part = _paired(r, g)
            total = part if total is None else total + part
        return total


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
    total = None
    for w, k in zip(weights, slopes, strict=True):
        if w:
            total = k * w if total is None else total + k * w
    return total


def _mean_square(v: Any) -> float:
    """The root of the mean square, the greatest of all members'; 0 where there is nothing."""
    if 0 in v.shape:
        return 0.0
    xp = namespace_of((v,))
    return greatest(xp.sqrt(xp.mean(xp.abs(v) ** 2)))


def _integrate(equation: Equation, y0: Leaves, t: Any, options: _Options) -> list[Any]:
    """The solution of plain values by adaptive steps that end at each of the times."""
    oldest = mode().oldest
    with no_grad():
        times = _times(t)
        packing = Packing([plain(y) for y in y0])
        y = packing.pack([plain(v) for v in y0])
        zero = plain(t)[0] * 0

        def slope(v: Any, s: float, whole: bool = False) -> Any:
            ys = [lift(p) for p in packing.unpack(v)]
            if whole:  # once a step as it was found outside, to see that no derivative is lost
                with recording_from(oldest):
                    found = [live(r) for r in equation(ys, zero + s)]
                if any(isinstance(r, Tensor) and r.level.derivative for r in found):
                    raise RuleError(
                        "odeint: f uses a Tensor between the first and the last time that it uses at neither, so that "
                        "the derivative by it would be lost; multiply it by 0 there instead of leaving it out"
                    )
            else:
                found = equation(ys, zero + s)
            return plain(packing.pack([plain(r) for r in found]))

        small = precision(y) ** 0.5
        rtol = small if options.rtol is None else options.rtol
        atol = small if options.atol is None else options.atol
        rows = [packing.unpack(y)]
        k = slope(y, times[0])
        y, k = alike([y, k])
        step = None
        for start, end in itertools.pairwise(times):
            y, k, step = _between(slope, plain(y), plain(k), start, end, step, rtol, atol, options.maxsteps)
            rows.append([plain(p) for p in packing.unpack(y)])
        columns = [alike([plain(p) for p in parts]) for parts in zip(*rows, strict=True)]
        return [plain(namespace_of(parts).stack(parts)) for parts in columns]


def _between(
    slope: Callable[..., Any],
    y: Any,
    k: Any,
    start: float,
    end: float,
    step: float | None,
    rtol: float,
    atol: float,
    maxsteps: int,
) -> tuple[Any, Any, float]:
    """The solution at ``end`` from that at ``start``, its slope there, and the size of step to go on with."""
    y, k = alike([y, k])
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
