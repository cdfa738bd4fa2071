"""The backward passes of ``odeint``.

``through_steps`` goes back through the steps that were taken, whose stages it evaluates again: the derivative of the
computed values, on plain arrays. ``Adjoint`` integrates the adjoint equation back, a' = -a df/dy, and with it the
integrals of a df/dp (Chen et al., Neural Ordinary Differential Equations, NeurIPS 2018), where an older level records
or maps the pass. What ``f`` closes over is in both found on the tape of one call.
"""

from collections.abc import Callable, Sequence
from typing import Any

from agrad.backends import backend_of
from agrad.engine.backward import backward_pass
from agrad.engine.calls import lift_all, record_call, recorded_part
from agrad.engine.gradients import starting_cotangents
from agrad.engine.levels import lift
from agrad.engine.namespaces import namespace_of
from agrad.engine.tape import Node, leaf_node, next_id, recording_from
from agrad.engine.tensor import Tensor, strip_constant_levels, wrap
from agrad.errors import RuleError
from agrad.solvers.linear import Packing, computed, plain
from agrad.solvers.runge_kutta import Options, Slopes, Step, Tableau
from agrad.solvers.traced import in_trace, scan
from agrad.transforms.arguments import paired, split_level, zeros

Leaves = Sequence[Any]
Equation = Callable[[Leaves, Any], list[Any]]
"""The time derivative of a list of arrays, at a time of shape ()."""
Solve = Callable[[Equation, Leaves, Any, Options], list[Any]]


def _check_known(found: dict[Node, Any], begun: Sequence[Node], used: set[Node], since: int) -> None:
    """Raise ``RuleError`` if a pass has come to older nodes than the known ones."""
    if any(node not in begun and node not in used and node.id <= since for node in found):
        raise RuleError("odeint: f uses Tensors between the first and the last time that it does not use at either")


def of_times(value: Equation, ys: Leaves, t: Any, gs: Leaves, at_start: Any) -> Any:
    """Return the cotangents of the times.

    ``ys`` and their cotangents ``gs`` have the times as their first axis. ``at_start``: the cotangent that comes back
    from later times to the state at the first.
    """
    slopes = [value([y[(i, ...)] for y in ys], t[i]) for i in range(int(t.shape[0]))]
    parts = [paired(row, [g[(i, ...)] for g in gs]) for i, row in enumerate(slopes)]
    parts = lift_all([-paired(slopes[0], at_start), *parts[1:]])
    return namespace_of(parts).stack(parts)


def _added(a: Any, b: Any) -> Any:
    """Return a + b, where None stands for zero."""
    if a is None or b is None:
        return b if a is None else a
    a, b = lift_all([a, b])
    return a + b


class Adjoint:
    """The system of state, adjoint and integrals of a backward pass at one level."""

    def __init__(self, equation: Equation, level: Any, used: Sequence[Node], again: bool, solve: Solve) -> None:
        self.equation, self.level, self.used, self.again, self.solve = equation, level, used, again, solve

    def _pulled(self, ys: Leaves, adjoints: Leaves, s: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the equation's value, and the state's and used nodes' cotangents.

        None stands for zero.
        """
        level = self.level
        with recording_from(level.id):
            starts = [self._start(y) for y in ys]
            since = next_id()
            outs = [recorded_part(r) for r in self.equation(starts, s)]
            seeds = starting_cotangents(
                [split_level(r, level)[1] for r in outs], [strip_constant_levels(a) for a in adjoints]
            )
            found = backward_pass(seeds, retain=self.again, level=level if self.again else None, since=since)
        begun = [y.node for y in starts]
        _check_known(found, begun, set(self.used), since)
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

    def back(self, ys: Leaves, t: Any, gs: Leaves, options: Options) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the cotangents of the first state and of the used nodes.

        Of the first state there are two: without and with its own.
        """
        n, last = len(ys), int(gs[0].shape[0]) - 1
        state = [y[(last, ...)] for y in ys]
        # the first cotangents of the used nodes have the shapes of the integrals
        _, _, shapes = self._pulled(state, [g[(last, ...)] for g in gs], plain(t)[last])
        if any(s is None for s in shapes):
            _, _, at_start = self._pulled([y[(0, ...)] for y in ys], [g[(last, ...)] for g in gs], plain(t)[0])
            shapes = [b if a is None else a for a, b in zip(shapes, at_start, strict=True)]
        kept = [k for k, s in enumerate(shapes) if s is not None]

        def system(values: Leaves, s: Any) -> list[Any]:
            slopes, back_y, back_used = self._pulled(values[:n], values[n : 2 * n], s)
            out = list(slopes)
            for c, like in zip([*back_y, *[back_used[k] for k in kept]], values[n:], strict=True):
                out.append(zeros(like) if c is None else -c)
            return lift_all(out)

        def interval(carry: Leaves, rows: Leaves) -> tuple[list[Any], None]:
            """Go back from a time; ``rows``: its state and cotangents, it and the one before."""
            adjoints = [a + b for a, b in (lift_all(pair) for pair in zip(carry[:n], rows[n : 2 * n], strict=True))]
            times = lift_all(rows[-2:])
            values = lift_all([*rows[:n], *adjoints, *carry[n:]])
            found = self.solve(system, values, namespace_of(times).stack(times), options)
            return [v[(1, ...)] for v in found[n:]], None

        before: Any = [*[zeros(g[(last, ...)]) for g in gs], *[zeros(plain(shapes[k])) for k in kept]]
        if in_trace() and not self.again:
            xs = [*[x[1:, ...] for x in (*ys, *gs)], t[1:], t[:-1]]
            before, _ = scan(interval, before, lift_all(xs), reverse=True)
        else:
            for i in range(last, 0, -1):
                before, _ = interval(before, [*[x[(i, ...)] for x in (*ys, *gs)], t[i], t[i - 1]])
        integrals: list[Any] = [None] * len(shapes)
        for k, v in zip(kept, before[n:], strict=True):
            integrals[k] = v
        first = [lift_all([a, g[(0, ...)]]) for a, g in zip(before[:n], gs, strict=True)]
        return before[:n], [a + b for a, b in first], integrals


class _Stage:
    """A stage of a step, recorded."""

    def __init__(self, equation: Equation, level: Any, state: Leaves, s: Any) -> None:
        starts = [wrap(y, level, leaf_node()) for y in state]
        self.begun, self.state = [y.node for y in starts], state
        self.since = next_id()
        found = [split_level(recorded_part(r), level) for r in equation(starts, s)]
        self.nodes, self.slope = [node for _, node in found], [r for r, _ in found]

    def pulled(self, gs: Leaves, used: set[Node]) -> dict[Node, Any]:
        """Return the cotangents of the state's and the used nodes."""
        seeds = starting_cotangents(self.nodes, gs)
        found = backward_pass(seeds, retain=False, since=self.since) if seeds else {}
        _check_known(found, self.begun, used, self.since)
        return found


class ThroughSteps:
    """The pass back through the steps of an integration, of plain values."""

    def __init__(
        self, equation: Equation, level: Any, used: Sequence[Node], taken: Sequence[Step], method: str, as_time: Any
    ) -> None:
        self.equation, self.level, self.used, self.taken, self.as_time = equation, level, used, taken, as_time
        self.tableau = Tableau(method, taken[0].state)
        self.known = set(used)
        self.totals: list[Any] = [None] * len(used)

    def back(self, ys: Leaves, gs: Leaves) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the cotangents of the first state and of the used nodes.

        Of the first state there are two: without and with its own. A used node has None where nothing has come
        back.
        """
        self.packing = Packing([y[(0, ...)] for y in ys])
        rows = self.packing.join(gs, (int(gs[0].shape[0]),))
        self.xp, self.lift = namespace_of((rows,)), lift if isinstance(rows, Tensor) else lambda x: x
        adjoint = rows[:1, :] * 0
        lazy = backend_of(self.taken[0].state).lazy
        for step in reversed(self.taken):
            if step.ends is not None:
                adjoint = adjoint + rows[step.ends : step.ends + 1, :]
            adjoint = self._before(step, adjoint, rows)
            if lazy:
                self.totals = [None if v is None else computed(v)[0] for v in self.totals]
                adjoint = computed(adjoint)[0]
        return self.packing.part(adjoint), self.packing.part(adjoint + rows[:1, :]), self.totals

    def _stages(self, step: Step, count: int) -> list[_Stage]:
        """Return the stages of a step, recorded."""
        stages, slopes = [], Slopes(self.tableau, step.state)
        with recording_from(self.level.id):
            for i in range(count):
                state = self.tableau.moved(step.state, slopes, i, step.size) if i else step.state
                s = self.as_time(step.start + self.tableau.nodes[i] * step.size)
                stages.append(_Stage(self.equation, self.level, self.packing.unpack(state), s))
                slopes.add(self.tableau.cast(self.packing.pack(stages[-1].slope, (1,))))
        return stages

    def _before(self, step: Step, adjoint: Any, rows: Any) -> Any:
        """Return the cotangent of the state before a step, given that of the state after it."""
        xp, tableau, h = self.xp, self.tableau, step.size
        count = len(tableau.nodes) if step.inside else len(tableau.nodes) - 1
        of_slopes = self.lift(tableau.solution(count)) @ adjoint
        if step.inside:
            inside = rows[step.inside.start : step.inside.stop, :]
            of_slopes = of_slopes + self.lift(tableau.xp.matrix_transpose(step.parts)) @ inside
            adjoint = adjoint + xp.sum(inside, axis=0, keepdims=True)
        of_slopes = of_slopes * h
        stages = self._stages(step, count)
        pulled: list[Any] = []
        for i in reversed(range(count)):
            g = of_slopes[i : i + 1, :]
            if pulled:
                g = g + (self.lift(tableau.column(i, count)) @ xp.concat(pulled, axis=0)) * h
            stage = stages.pop()
            found = stage.pulled(self.packing.part(g), self.known)
            back = [found.get(node) for node in stage.begun]
            back = [zeros(y) if c is None else c for c, y in zip(back, stage.state, strict=True)]
            pulled.insert(0, self.lift(self.packing.join(lift_all(back), (1,))))
            self.totals = [_added(total, found.get(node)) for total, node in zip(self.totals, self.used, strict=True)]
        return adjoint + xp.sum(xp.concat(pulled, axis=0), axis=0, keepdims=True)
