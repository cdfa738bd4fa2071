"""The backward passes of ``odeint``.

``ThroughSteps`` goes back through the steps, whose stages it evaluates again, on plain arrays. The result is the
derivative of the computed values. If an outer transform records or maps the pass, ``Adjoint`` integrates the adjoint
equation a' = -a df/dy backwards, together with the integrals of a df/dp (Chen et al., Neural Ordinary Differential
Equations, NeurIPS 2018). Both find the values that ``f`` closes over on the tape of one call.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from agrad.backends import backend_of
from agrad.control.bodies import example
from agrad.control.steps import computed
from agrad.engine.calls import lift_all, record_call, recorded_part
from agrad.engine.joining import moved_beside, returned
from agrad.engine.levels import lift
from agrad.engine.namespaces import namespace_of
from agrad.engine.tape import Node, leaf_node, recording_from
from agrad.engine.tensor import Tensor, wrap
from agrad.errors import RuleError
from agrad.registry import namespace
from agrad.solvers.implicit import Evaluation
from agrad.solvers.linear import Packing
from agrad.solvers.loops import in_trace, plain, scan, while_loop
from agrad.solvers.runge_kutta import Options, Slopes, Step, Tableau
from agrad.transforms.arguments import paired, split_level, zeros

Leaves = Sequence[Any]
Equation = Callable[[Leaves, Any], list[Any]]
"""The time derivative of a list of arrays, at a time of shape ()."""
Solve = Callable[[Equation, Leaves, Any, Options], list[Any]]

FEW = 64
"""The largest number of times for which a traced backward pass solves the adjoint equation, from time to time.

For more times, the stops cost more than to repeat the steps.
"""
KEPT = 32
"""The number of steps that a traced backward pass stores, and of stored states between them."""
LOST = (
    "odeint: f must not use a Tensor only between the first and the last time, because its derivative would be lost. "
    "Multiply it by 0 there instead of leaving it out."
)


def _pulled(run: Evaluation, gs: Leaves, used: Collection[Node], again: bool = False) -> dict[Node, Any]:
    """Return the cotangents of the nodes of a state and of the used nodes.

    Raises ``RuleError`` if the pass reaches another old node.
    """
    found, begun = run.pulled(gs, again=again), [y.node for y in run.starts]
    if any(node.id <= run.since and node not in begun and node not in used for node in found):
        raise RuleError(LOST)
    return found


def of_times(value: Equation, ys: Leaves, t: Any, gs: Leaves, at_start: Any) -> Any:
    """Return the cotangents of the times.

    ``ys`` and their cotangents ``gs`` have the times as their first axis. ``at_start`` is the cotangent of the first
    state from later times.
    """
    slopes = [value([y[(i, ...)] for y in ys], t[i]) for i in range(int(t.shape[0]))]
    parts = [paired(row, [g[(i, ...)] for g in gs]) for i, row in enumerate(slopes)]
    parts = lift_all([-paired(slopes[0], at_start), *parts[1:]])
    return namespace_of(parts).stack(parts)


def _added(a: Any, b: Any) -> Any:
    """Return a + b; None is zero."""
    if a is None or b is None:
        return b if a is None else a
    a, b = lift_all([a, b])
    return a + b


class Adjoint:
    """The system of state, adjoint and integrals in a backward pass of one transform."""

    def __init__(self, equation: Equation, level: Any, used: Sequence[Node], again: bool, solve: Solve) -> None:
        self.equation, self.level, self.used, self.again, self.solve = equation, level, used, again, solve

    def _pulled(self, ys: Leaves, adjoints: Leaves, s: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the equation's value, and the cotangents of the state and of the used nodes, None for zero."""
        level = self.level
        with recording_from(level.id):
            run = Evaluation(lambda starts: self.equation(starts, s), level, [self._start(y) for y in ys])
            found = _pulled(run, adjoints, self.used, self.again)
        values = run.outs if self.again else [level.inside(r) for r in run.outs]
        return values, [found.get(y.node) for y in run.starts], [found.get(node) for node in self.used]

    def _start(self, y: Any) -> Tensor:
        """Return the state with a node at which the pass ends: a leaf, or a new node before the state's node."""
        if self.again and isinstance(y, Tensor) and y.level is self.level and y.node is not None:
            return wrap(y.data, self.level, record_call("state", [y.node], 1, lambda _, gs: gs, linear=True)[0])
        y = recorded_part(y)
        if isinstance(y, Tensor) and y.level is self.level:
            y = y.data
        return wrap(y, self.level, leaf_node())

    def back(self, ys: Leaves, t: Any, gs: Leaves, options: Options) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the cotangents of the first state and of the used nodes.

        The cotangents of the first state are given without and with its own cotangents.
        """
        n, last = len(ys), int(gs[0].shape[0]) - 1
        state = [y[(last, ...)] for y in ys]
        # the first cotangents of the used nodes have the shapes of the integrals
        _, _, shapes = self._pulled(state, [g[(last, ...)] for g in gs], plain(t)[last])
        if any(s is None for s in shapes):
            _, _, at_start = self._pulled([y[(0, ...)] for y in ys], [g[(last, ...)] for g in gs], plain(t)[0])
            shapes = [b if a is None else a for a, b in zip(shapes, at_start, strict=True)]
        kept = [k for k, s in enumerate(shapes) if s is not None]
        starts = moved_beside([zeros(plain(shapes[k])) for k in kept], gs)  # NumPy cotangents are integrated there too

        def system(values: Leaves, s: Any) -> list[Any]:
            slopes, back_y, back_used = self._pulled(values[:n], values[n : 2 * n], s)
            out = list(slopes)
            for c, like in zip([*back_y, *[back_used[k] for k in kept]], values[n:], strict=True):
                out.append(zeros(like) if c is None else -c)
            return lift_all(moved_beside(out, gs))

        def interval(carry: Leaves, rows: Leaves) -> tuple[list[Any], None]:
            """Integrate back; ``rows``: a time's state and cotangents, it, the time before."""
            adjoints = [a + b for a, b in (lift_all(pair) for pair in zip(carry[:n], rows[n : 2 * n], strict=True))]
            times = lift_all(rows[-2:])
            values = lift_all([*rows[:n], *adjoints, *carry[n:]])
            found = self.solve(system, values, namespace_of(times).stack(times), options)
            return [v[(1, ...)] for v in found[n:]], None

        before: Any = [*[zeros(g[(last, ...)]) for g in gs], *starts]
        xs = [*[x[1:, ...] for x in (*ys, *gs)], t[1:], t[:-1]]
        before, _ = scan(interval, before, lift_all(xs) if in_trace() else xs, reverse=True, unrolled=self.again)
        integrals: list[Any] = [None] * len(shapes)
        for k, v in zip(kept, before[n:], strict=True):
            integrals[k] = returned(v, shapes[k])
        first = [lift_all([a, g[(0, ...)]]) for a, g in zip(before[:n], gs, strict=True)]
        return before[:n], [a + b for a, b in first], integrals


class _Again:
    """Steps inside a trace, repeated for the backward pass.

    ``KEPT`` states are stored on the way, and ``KEPT`` steps after each of them.
    """

    def __init__(self, solver: Any, slopes: Any) -> None:
        self.solver, self.slopes = solver, slopes
        dtype = solver.times.dtype
        self.slots = namespace.cumulative_sum(namespace.stack([namespace.ones_like(solver.times[0])] * KEPT)) - 1
        self.slots = namespace.astype(self.slots, dtype)
        self.integers = backend_of(example(solver.times)).xp.int64

    def _put(self, kept: Leaves, where: Any, values: Leaves) -> list[Any]:
        """Return arrays of slots, with new values in the slots of a condition."""
        rows = namespace.reshape(where, (KEPT, 1))
        return [namespace.where(where if x.ndim == 1 else rows, v, x) for x, v in zip(kept, values, strict=True)]

    def _take(self, kept: Leaves, slot: Any) -> list[Any]:
        at = namespace.reshape(namespace.astype(slot, self.integers), (1,))
        return [namespace.take(x, at, axis=0)[0, ...] for x in kept]

    def _run(self, begun: Leaves, kept: Leaves, until: Any, noted: Callable[..., tuple[Any, Leaves]]) -> list[Any]:
        """Perform a number of steps, and store values in slots.

        ``noted`` maps the states before and after a step to a condition of slots, and the values to store there.
        """
        n, most = len(kept), float(self.solver.options.maxsteps)

        def goes_on(found: Leaves) -> Any:
            return (found[-1] < until) & (found[n + 4] < most)

        def advance(found: Leaves) -> list[Any]:
            before = found[n:]
            after = self.solver.attempt(before)
            where, values = noted(before, after)
            return [*self._put(found[:n], where & (after[-1] > before[-1]), values), *after]

        *state, number = begun
        first = [*kept, *state, 0 * number, namespace.ones_like(number), self.slopes, number]
        return list(while_loop(goes_on, advance, first)[:n])

    def back(self, through: Callable[..., Leaves], begun: Leaves, count: Any, last: Step, values: Leaves) -> list[Any]:
        """Go back through ``count`` steps from ``begun``. The last step is given."""
        xp, slots = namespace, self.slots

        def block(values: Leaves) -> Leaves:
            """Go back through the last steps, with stored states on the way to them."""
            left, *values = values
            low = xp.maximum(left - KEPT * KEPT, 0.0)
            first = [*begun, 0 * left]
            marks = self._put([xp.stack([xp.zeros_like(v)] * KEPT) for v in first], slots == -low, first)

            def mark(_: Leaves, after: Leaves) -> tuple[Any, Leaves]:
                return slots * KEPT == after[-1] - low, [*after[:4], after[-1]]

            marks = self._run(first, marks, low + KEPT * xp.floor((left - 1 - low) / KEPT), mark)

            def piece(values: Leaves) -> Leaves:
                """Go back through the steps after a stored state."""
                left, *values = values
                begun = self._take(marks, xp.floor((left - 1 - low) / KEPT))
                number = begun[-1]

                def note(before: Leaves, after: Leaves) -> tuple[Any, Leaves]:
                    return slots == before[-1] - number, [before[0], after[5], before[1]]

                none = [xp.stack([xp.zeros_like(v)] * KEPT) for v in last[:3]]
                kept = self._run(begun, none, xp.minimum(left, count - 1), note)
                kept = self._put(kept, slots == count - 1 - number, last[:3])

                def before(values: Leaves) -> Leaves:
                    step = Step(*self._take(kept, values[0] - number))
                    return [values[0] - 1, *through(step, values[1:])]

                return [number, *while_loop(lambda values: values[0] >= number, before, [left - 1, *values])[1:]]

            return [low, *while_loop(lambda values: values[0] > low, piece, [left, *values])[1:]]

        return list(while_loop(lambda values: values[0] > 0, block, [count, *values])[1:])


class ThroughSteps:
    """The backward pass through the steps of an integration of plain values."""

    def __init__(
        self, equation: Equation, level: Any, used: Sequence[Node], taken: Sequence[Any], method: str, as_time: Any
    ) -> None:
        self.equation, self.level, self.used, self.taken, self.as_time = equation, level, used, taken, as_time
        self.tableau: Tableau = Tableau(method, taken[0].state)
        self.known: set[Node] = set(used)

    def back(self, ys: Leaves, gs: Leaves) -> tuple[list[Any], list[Any], list[Any]]:
        """Return cotangents; see ``Adjoint.back``. None is zero."""
        self.packing: Packing = Packing([y[(0, ...)] for y in ys])
        rows = self.packing.join(gs, (int(gs[0].shape[0]),))
        self.xp, self.lift = namespace_of((rows,)), lift if isinstance(rows, Tensor) else lambda x: x
        go_back = self._traced if in_trace() else self._listed
        adjoint, totals = go_back(rows, rows[:1, :] * 0)
        return self.packing.part(adjoint), self.packing.part(adjoint + rows[:1, :]), totals

    def _listed(self, rows: Any, adjoint: Any) -> tuple[Any, list[Any]]:
        """Go back through a list of steps."""
        tableau, totals = self.tableau, [None] * len(self.used)
        for step in reversed(self.taken):
            if step.ends is not None:
                adjoint = adjoint + rows[step.ends : step.ends + 1, :]
            count = len(tableau.nodes) if step.inside else len(tableau.nodes) - 1
            of_slopes = self.lift(tableau.solution(count)) @ adjoint
            if step.inside:
                inside = rows[step.inside.start : step.inside.stop, :]
                of_slopes = of_slopes + self.lift(tableau.xp.matrix_transpose(step.parts)) @ inside
                adjoint = adjoint + self.xp.sum(inside, axis=0, keepdims=True)
            adjoint, found = self._before(step, adjoint, of_slopes, count)
            totals = [_added(total, g) for total, g in zip(totals, found, strict=True)]
            adjoint, *totals = computed([adjoint, *totals])
        return adjoint, totals

    def _traced(self, rows: Any, adjoint: Any) -> tuple[Any, list[Any]]:
        """Go back from time to time, by traced loops.

        The cotangents of the times inside a step are carried as cotangents of its stage derivatives.
        """
        xp, (steps,), stages = self.xp, self.taken, len(self.tableau.nodes)
        none = xp.concat([adjoint] * stages)
        again = _Again(steps.solver, none)

        def to_time(carry: Leaves, given: Leaves) -> tuple[Leaves, None]:
            g, *begun, count, part, start, last, state = given
            adjoint, of_slopes, *totals = carry
            g = xp.reshape(g, (1, -1))
            of_slopes = of_slopes + xp.expand_dims(self.tableau.parts(part), axis=1) * g

            def through(step: Step, values: Leaves) -> Leaves:
                adjoint, of_slopes, *totals = values
                of_slopes = of_slopes + self.tableau.solution(stages) @ adjoint
                adjoint, found = self._before(step, adjoint, of_slopes, stages)
                return [adjoint, none, *[t if g is None else t + g for t, g in zip(totals, found, strict=True)]]

            values = [adjoint + g, of_slopes, *totals]
            return again.back(through, begun, count, Step(start, last, state), values), None

        known = self.used
        totals = self._zeros(rows, [steps.row[0, ...], steps.row[-1, ...]], [steps.time[0], steps.time[-1]])
        kept = [k for k, total in enumerate(totals) if total is not None]
        self.used = [known[k] for k in kept]
        first = [adjoint, none, *[totals[k] for k in kept]]
        (adjoint, _, *found), _ = scan(to_time, first, [rows[1:, ...], *steps[1:]], reverse=True)
        self.used = known
        for k, total in zip(kept, found, strict=True):
            totals[k] = total
        return adjoint, totals

    def _zeros(self, rows: Any, states: Leaves, times: Leaves) -> list[Any]:
        """Return zeros like the cotangents of the used nodes, None if unused."""
        g = self.packing.part(rows[:1, :])
        found = [_pulled(self._stage(y, s), g, self.known) for y, s in zip(states, times, strict=True)]
        likes = [next((part[node] for part in found if node in part), None) for node in self.used]
        return [None if like is None else lift(zeros(plain(like))) for like in likes]

    def _stage(self, state: Any, s: Any) -> Evaluation:
        starts = [wrap(y, self.level, leaf_node()) for y in self.packing.unpack(state)]
        return Evaluation(lambda ys: self.equation(ys, s), self.level, starts)

    def _before(self, step: Step, adjoint: Any, of_slopes: Any, count: int) -> tuple[Any, list[Any]]:
        """Return the cotangents of the state before a step and of the used nodes.

        ``adjoint`` is the sum of the cotangents of the states in the step and after it. ``of_slopes`` are the
        cotangents of the derivatives of the first ``count`` stages, divided by the step size.
        """
        xp, tableau, h = self.xp, self.tableau, self.tableau.like(step.size)
        of_slopes = of_slopes * h
        stages, slopes = [], Slopes(tableau, step.state)
        for i in range(count):
            state = slopes.moved(step.state, i, step.size) if i else step.state
            stages.append(self._stage(state, self.as_time(step.start + tableau.nodes[i] * step.size)))
            slope = [split_level(r, self.level)[0] for r in stages[-1].outs]
            slopes.add(tableau.lifted(tableau.cast(self.packing.pack(slope, tableau.before))))
        pulled: list[Any] = []
        totals: list[Any] = [None] * len(self.used)
        for i in reversed(range(count)):
            g = of_slopes[i : i + 1, :]
            if pulled:
                g = g + (self.lift(tableau.column(i, count)) @ xp.concat(pulled, axis=0)) * h
            stage = stages.pop()
            found = _pulled(stage, self.packing.part(g), self.known)
            back = [found[y.node] if y.node in found else zeros(y.data) for y in stage.starts]
            pulled.insert(0, self.lift(self.packing.join(lift_all(back), (1,))))
            totals = [_added(total, found.get(node)) for total, node in zip(totals, self.used, strict=True)]
        return adjoint + xp.sum(xp.concat(pulled, axis=0), axis=0, keepdims=True), totals
