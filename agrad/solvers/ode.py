"""``odeint``: initial value problems, differentiated through the solution.

The steps are never recorded. Forward mode integrates the tangent together with the state. Reverse mode goes back
through the steps, or integrates the adjoint equation (see ``adjoint``), for every array that the equation uses or
closes over, which the tape of one call of the equation contains. The same solver integrates these systems on Tensors of
outer transforms, which computes derivatives of every order and mode.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from agrad.backends import backend_of
from agrad.dtypes import is_complex, is_floating
from agrad.engine.batching import Batch
from agrad.engine.calls import lift_all, newest_level, record_call, recorded_part
from agrad.engine.gradients import nodes_before, starting_cotangents
from agrad.engine.joining import started
from agrad.engine.levels import Forward, lift
from agrad.engine.namespaces import namespace_of
from agrad.engine.tape import Node, mode, next_id, no_grad, recording_from
from agrad.engine.tensor import Tensor, strip_constant_levels, wrap
from agrad.errors import (
    DtypeError,
    NotDifferentiableError,
    RuleError,
    ShapeError,
    TracedValueError,
    check_functions,
    described,
)
from agrad.ops.conversion import asarray
from agrad.solvers import adjoint
from agrad.solvers.adjoint import LOST, Adjoint, Equation, Leaves, ThroughSteps, of_times
from agrad.solvers.implicit import checked, on_tape, state_leaves, tensors_like
from agrad.solvers.linear import Packing, minus
from agrad.solvers.loops import in_trace, plain, raw_of
from agrad.solvers.runge_kutta import Options, Solver, Tableau
from agrad.transforms.arguments import split_level, zeros
from agrad.transforms.calling import spread
from agrad.transforms.trees import flatten, unflatten


def odeint(
    f: Callable[..., Any],
    y0: Any,
    t: Any,
    *more: Any,
    args: Any = (),
    method: Literal["dopri5", "tsit5", "rk4"] = "dopri5",
    rtol: float | None = None,
    atol: float | None = None,
    maxsteps: int = 10_000,
    first_step: float | None = None,
    max_step: float | None = None,
    steps: int | None = None,
) -> Any:
    """Solve the initial value problem ``dy/dt = f(y, t, *more, *args)``.

    The solution at the times ``t`` is differentiable in any mode and order with respect to ``y0``, ``t``, ``more``,
    ``args`` and all values that ``f`` closes over. Derivatives are about as accurate as the solution. Under ``vmap``,
    all batch elements take the same steps.

    Parameters
    ----------
    f : callable
        Function of y, the time as an array of shape () and the further arguments, which consists of agrad functions. It
        returns a pytree like ``y0``. A list or tuple can replace a 1-D array or each other, and a number an array of
        shape ().
    y0 : pytree of floating-point arrays
        Value of y at the first time.
    t : array of shape (n,)
        At least two real floating-point times that increase or decrease.
    *more
        Further arguments of ``f``.
    args : tuple, default ()
        Last arguments of ``f``. Any value except a tuple or list is a single argument.
    method : {"dopri5", "tsit5", "rk4"}, default "dopri5"
        Pairs of order 5 by Dormand and Prince, and by Tsitouras, or the classical Runge-Kutta method of order 4 with
        equal steps.
    rtol, atol : float, optional
        Tolerances: the root mean square of the local error of a step, divided by atol + rtol * abs(y), is at most 1. By
        default, the square root of the machine epsilon of the dtype. Not used by "rk4".
    maxsteps : int, default 10000
        Maximum number of steps between two times. Not used by "rk4".
    first_step : float, optional
        Size of the first step. By default, it is estimated.
    max_step : float, optional
        Maximum size of a step. "rk4" uses the smallest number of steps between two times that satisfies it.
    steps : int, optional
        Number of steps of "rk4" between two times.

    Returns
    -------
    pytree like ``y0``
        Solution. The first axis of its arrays has the length of ``t``: shape ``(n, *shape)``.

    Raises
    ------
    ConvergenceError
        If ``maxsteps`` is exceeded or the steps become too small. Inside ``jit`` the later values are NaN instead.

    Notes
    -----
    Values inside a step are interpolated with an error of the fifth order in its size. First derivatives in reverse
    mode are the derivatives of the computed values. In higher orders, and inside ``jit`` with at most 64 times, they
    solve the adjoint equation of Chen et al., Neural Ordinary Differential Equations, NeurIPS 2018. Methods: Dormand
    and Prince, A family of embedded Runge-Kutta formulae, J. Comput. Appl. Math. 6 (1980), with the interpolation by
    Shampine; Tsitouras, Comput. Math. Appl. 62 (2011).

    Examples
    --------
    >>> def decayed(rate):
    ...     return agrad.odeint(lambda y, t: -rate * y, np.asarray(1.0), np.asarray([0.0, 1.0, 2.0]))
    >>> decayed(0.5).round(4)
    array([1.    , 0.6065, 0.3679])
    >>> round(float(agrad.grad(lambda rate: decayed(rate)[-1])(0.5)), 4)
    -0.7358
    """
    check_functions("odeint", f=f)
    options = Options(method, rtol, atol, maxsteps, first_step, max_step, steps)
    options.check()
    leaves, spec = state_leaves(y0, "odeint: y0")
    if not hasattr(t, "shape") or len(t.shape) != 1 or int(t.shape[0]) < 2:
        raise ShapeError(f"odeint: t must be a 1-D array of two or more times, got {described(t)}")
    if not is_floating(t.dtype) or is_complex(t.dtype):
        raise DtypeError(
            f"odeint: t must have a real floating-point dtype, got {t.dtype}. Cast it: agrad.astype(t, agrad.float64)."
        )
    given = (*more, *args) if isinstance(args, (tuple, list)) else (*more, args)
    kind, single = type(y0), spec.is_leaf()
    shape = tuple(leaves[0].shape)

    def equation(ys: Leaves, s: Any) -> list[Any]:
        y = lift(ys[0]) if single else unflatten(spec, [lift(y) for y in ys])
        out = f(y, lift(s), *given)
        if single and type(out) is Tensor and out.shape == shape:
            return [out]
        if isinstance(out, (list, tuple)) and type(out) is not kind:
            out = kind(out) if kind in (list, tuple) else _joined(out, leaves[0]) if single else out
        found, found_spec = flatten(out)
        if found_spec == spec:
            out = unflatten(spec, [_entry(r, y) for r, y in zip(found, leaves, strict=True)])
        return checked(out, leaves, spec, "odeint: the result of f")

    *leaves, t = started([*leaves, t], lambda given: equation(given[:-1], given[-1][0]))
    found = _solve(equation, leaves, t, options, bare=True)
    return unflatten(spec, tensors_like([y if isinstance(y, Tensor) else t for y in leaves], found))


def _joined(entries: Sequence[Any], like: Any) -> Any:
    """Return the array of a list of entries. A list of only numbers gets the device and dtype of ``like``."""
    if any(hasattr(entry, "shape") for entry in flatten(entries)[0]):
        return asarray(entries)
    backend = backend_of(raw := like.raw if isinstance(like, Tensor) else like)
    return asarray(entries, dtype=like.dtype, device=backend.device_of(raw), backend=backend.name)


def _entry(value: Any, like: Any) -> Any:
    """Return a number as an array like ``like``, if that has shape (), and any other value itself."""
    return _joined(value, like) if type(value) in (int, float, complex) and not like.shape else value


def _times(t: Any) -> list[float]:
    raw = raw_of(t)
    if len(raw.shape) != 1:
        raise _mapped_times()
    times = [float(s) for s in np.asarray(backend_of(raw).to_host(raw))]
    steps = np.diff(times)
    if not (np.all(steps > 0) or np.all(steps < 0)):
        raise ShapeError(f"odeint: t must increase or decrease, got {described(times)}")
    return times


def _mapped_times() -> TracedValueError:
    return TracedValueError("odeint: t must not be mapped by vmap, because all batch elements take the same steps")


def _as_time(t: Any) -> Callable[[float], Any]:
    """Return a function that converts a time to an array like ``t``."""
    raw = raw_of(t)
    backend = backend_of(raw)
    return functools.partial(backend.xp.asarray, dtype=raw.dtype, device=backend.device_of(raw))


def _solve(
    equation: Equation, y0: Leaves, t: Any, options: Options, taken: list[Any] | None = None, bare: bool = False
) -> list[Any]:
    """Return the solution for operands of any transform: arrays with the times as their first axis.

    ``taken`` receives the steps if no transform records or maps the operands. ``bare`` is True for the user's equation,
    from whose results no nesting level was removed.
    """
    y0, t = [recorded_part(y) for y in y0], recorded_part(t)
    since = next_id()
    with_closures = [recorded_part(r) for k in (0, -1) for r in equation([plain(y) for y in y0], plain(t)[k])]
    level = newest_level([*y0, t, *with_closures])
    if level is not None and level.keeps_rules:

        def flat(given: Leaves) -> list[Any]:
            return [recorded_part(r) for r in equation(given[:-1], given[-1])]

        found = _integrate(equation, y0, t, options, None, bare)
        return level.defined(
            "odeint", found, flat, [*y0, lift(t)[0]], [*y0, t], functools.partial(_solved_again, options)
        )
    if level is None or not (level.derivative or isinstance(level, Batch)):
        return _integrate(equation, y0, t, options, taken, bare)
    if isinstance(level, Batch):
        return _of_members(equation, y0, t, options, level)
    if isinstance(level, Forward):
        return _with_tangents(equation, y0, t, options, level)
    if not level.tape:
        raise NotDifferentiableError(f"odeint cannot be differentiated by the transform {level.name!r}")
    return _recorded(equation, y0, t, options, level, since, with_closures)


def _solved_again(options: Options, slope: Callable[[Leaves], Leaves], _: Leaves, given: Leaves) -> list[Any]:
    """Return the solution with its derivative when a program is interpreted."""
    return _solve(lambda ys, s: list(slope(lift_all([*ys, s]))), given[:-1], given[-1], options)


def _of_members(equation: Equation, y0: Leaves, t: Any, options: Options, level: Batch) -> list[Any]:
    if isinstance(t, Tensor) and t.level is level:
        raise _mapped_times()

    def of_all(ys: Leaves, s: Any) -> list[Any]:
        return [
            spread(level, recorded_part(r)) for r in equation([level.wrap(strip_constant_levels(y)) for y in ys], s)
        ]

    found = _solve(of_all, [spread(level, y) for y in y0], t, options)
    return [level.wrap(strip_constant_levels(namespace_of((y,)).moveaxis(y, 1, 0))) for y in found]


def _with_tangents(equation: Equation, y0: Leaves, t: Any, options: Options, level: Forward) -> list[Any]:
    """Integrate the state and its tangent as one system."""
    n = len(y0)

    def both(state: Leaves, s: Any) -> list[Any]:
        ys = [
            wrap(strip_constant_levels(y), level, strip_constant_levels(v))
            for y, v in zip(state[:n], state[n:], strict=True)
        ]
        with recording_from(level.id):  # the solver records nothing itself
            found = [split_level(recorded_part(r), level) for r in equation(ys, s)]
        slopes = [zeros(v) if t is None else t for (_, t), v in zip(found, state[n:], strict=True)]
        return lift_all([*[strip_constant_levels(r) for r, _ in found], *slopes])

    below = _inside(equation, level)
    inner = [level.inside(y) for y in y0]
    slopes = [split_level(y, level)[1] for y in y0]
    slopes = [zeros(x) if v is None else v for v, x in zip(slopes, inner, strict=True)]
    dt = split_level(t, level)[1]
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
    return [wrap(strip_constant_levels(y), level, strip_constant_levels(v)) for y, v in zip(ys, vs, strict=True)]


def _scaled(a: Any, by: Any) -> Any:
    a, by = lift_all([a, by])
    return a * by


def _inside(equation: Equation, level: Any) -> Equation:
    """Return an equation without a nesting level on its results."""
    return lambda ys, s: [level.inside(recorded_part(r)) for r in equation(ys, s)]


def _recorded(
    equation: Equation, y0: Leaves, t: Any, options: Options, level: Any, since: int, closures: Leaves
) -> list[Any]:
    """Record the solution as one operation; see ``adjoint`` for its pullback."""
    ends = [node for _, node in (split_level(r, level) for r in closures) if node is not None]
    used = nodes_before(ends, since)
    starts = [split_level(y, level)[1] for y in y0]
    t_node = split_level(t, level)[1]
    inner_t = level.inside(t)
    below = _inside(equation, level)
    taken: list[Any] | None = [] if not in_trace() or int(inner_t.shape[0]) > adjoint.FEW else None
    found = _solve(below, [level.inside(y) for y in y0], inner_t, options, taken)
    parents = list(dict.fromkeys([*[n for n in (*starts, t_node) if n is not None], *used]))

    def pull(node: Node, given: list[Any]) -> list[Any]:
        again = any(isinstance(g, Tensor) and g.level is level for g in given)
        ys = on_tape(found, level, node) if again else found
        gs = lift_all([zeros(y) if g is None else g for g, y in zip(given, found, strict=True)])
        if taken and not again:
            through = ThroughSteps(
                equation, level, used, taken, options.method, lift if in_trace() else _as_time(inner_t)
            )
            before, back_y, back_used = through.back(ys, gs)
        else:
            integrals = Adjoint(equation, level, used, again, _solve)
            before, back_y, back_used = integrals.back(ys, t if again else inner_t, gs, options)
        back_t = None
        if t_node is not None:
            back_t = of_times(equation if again else below, ys, t if again else inner_t, gs, before)
        total = starting_cotangents([*starts, t_node, *used], [*back_y, back_t, *back_used])
        return [strip_constant_levels(total[p]) if p in total else None for p in parents]

    nodes = record_call("odeint", parents, len(found), pull)
    return [wrap(y, level, node) for y, node in zip(found, nodes, strict=True)]


def _integrate(
    equation: Equation, y0: Leaves, t: Any, options: Options, taken: list[Any] | None, bare: bool
) -> list[Any]:
    """Return the solution for plain values."""
    staged, oldest = in_trace(), mode().oldest
    with no_grad() if staged or not bare else contextlib.nullcontext():
        times = t if staged and isinstance(t, Tensor) else _times(t)
        packing = Packing(y0)
        tableau = Tableau(options.method, packing.pack(y0))
        y, cast = packing.pack(y0, tableau.before), tableau.cast
        if staged:

            def traced(v: Any, s: Any, whole: bool) -> Any:
                return lift(cast(packing.pack(equation(packing.unpack(v), s))))

            rows = strip_constant_levels(Solver(traced, y, t, options, taken).solve())
            return packing.unpack(rows, (int(t.shape[0]),))
        y, as_time = raw_of(y), _as_time(t)
        reshape, kind, row = backend_of(y).xp.reshape, type(y), (1, int(y.shape[1]))
        single = packing.shapes[0] if len(y0) == 1 else None

        # to detect a lost derivative, all transforms record one stage of each step, or a bare equation is checked at
        # each
        def slope(v: Any, s: float, whole: bool) -> Any:
            ys = packing.unpack(v) if single is None else [reshape(v, single)]
            if bare and single is not None:  # the usual call, without the following checks
                (out,) = found = equation(ys, as_time(s))
                if type(out) is Tensor and out.node is None and type(out.data) is kind:
                    return cast(reshape(out.data, row))
            elif whole and not bare:
                with recording_from(oldest):
                    found = [recorded_part(r) for r in equation(ys, as_time(s))]
            else:
                found = equation(ys, as_time(s))
            if (whole or bare) and any(_is_recorded(r) for r in found):
                raise RuleError(LOST)
            if single is not None and type(found[0]) is kind:
                return cast(reshape(found[0], row))
            return cast(raw_of(packing.pack(found, (1,))))

        return packing.unpack(Solver(slope, y, times, options, taken).solve(), (len(times),))


def _is_recorded(value: Any) -> bool:
    """Return True for a Tensor whose derivative a transform records."""
    if not isinstance(value, Tensor) or (value.node is None and not isinstance(value.data, Tensor)):
        return False
    value = recorded_part(value)
    return isinstance(value, Tensor) and value.level.derivative
