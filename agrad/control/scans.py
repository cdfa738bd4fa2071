"""``scan`` as an operation with sub-programs."""

import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agrad.control.bodies import invariant_part, repeated
from agrad.control.derived import pulled
from agrad.control.results import copy_raw_if_aliased
from agrad.control.steps import Counts, Loop, Step, mapped_carry, numpy_loop, or_zeros, program_of, typed, with_axis
from agrad.engine.batching import Batch
from agrad.engine.calls import lift_all
from agrad.engine.namespaces import NAMESPACES, namespace_of
from agrad.jit.program import Instruction, Program, Variable, variable_like
from agrad.transforms.arguments import zeros
from agrad.transforms.calling import Back, Values, call, wrapped


def _steps_by_python(operation: "Scan", kind: type | None, in_graph: bool = False) -> Callable[..., Any]:
    """Return a scan as a Python loop.

    In a CUDA graph, rows are written into the stacked results at once: their temporary memory is then free for the next
    step.
    """
    counts, program, length = operation.counts, operation.program, operation.length
    reverse, results = operation.reversed, operation.results[counts.carried :]
    order = range(length - 1, -1, -1) if reverse else range(length)
    step, carried = operation.step(kind), counts.carried

    def scan(*operands: Any) -> tuple[Any, ...]:
        fixed, carry, slices = counts.split(operands)
        fixed = list(step.first(fixed))
        run, rows = step.run, []
        stacked = [NAMESPACES[type(x)].empty(x.shape, dtype=x.dtype) for x in results] if in_graph else []
        run_into = getattr(run, "run_into", None) if in_graph else None
        for i in order:
            given = [*fixed, *carry, *[x[i, ...] for x in slices]]
            places = [array[i, ...] for array in stacked]
            out = run_into(given, dict(enumerate(places, carried))) if run_into else run(given)
            carry = list(out[:carried])
            if not in_graph:
                rows.append(out[carried:])
                continue
            for array, place, value in zip(stacked, places, out[carried:], strict=True):
                if value is not place:  # otherwise the step has written it there
                    array[i] = value
        if not in_graph:
            rows = rows[::-1] if reverse else rows
            stacked = [NAMESPACES[type(parts[0])].stack(parts) for parts in zip(*rows, strict=True)]
        return (*copy_raw_if_aliased(carry, [*operands, *program.constants.values(), *stacked]), *stacked)

    return scan


def _steps_on_numpy(operation: "Scan", kind: type | None) -> Callable[..., Any] | None:
    program, carried = operation.program, operation.counts.carried
    loop = numpy_loop(program, operation.counts, kind, operation.length, operation.reversed)
    if loop is None:
        return None

    def scan(*operands: Any) -> tuple[Any, ...]:
        found, fresh = loop(operands)
        stacked = found[carried:]
        known = [*operands, *program.constants.values(), *stacked]
        return (*copy_raw_if_aliased(found[:carried], known, fresh), *stacked)

    return scan


class Scan(Loop):
    """``length`` steps of a program; see ``Loop``."""

    may_alias = False
    no_alias = True
    length: int

    def __init__(
        self,
        name: str,
        program: Program,
        counts: Counts,
        length: int,
        reverse: bool,
        body_examples: Mapping[Variable, Any],
        recompute: bool = False,
    ) -> None:
        self.counts, self.length, self.reversed = counts, length, reverse
        self.recompute = recompute
        """True to recompute the steps in the backward pass, instead of storing residuals."""
        examples = [body_examples[v] for v in program.inputs]
        outs = [body_examples[v] for v in program.outputs]
        carried = counts.split(examples)[1] if not length else outs[: counts.carried]
        rows = [repeated(x, length) for x in outs[counts.carried :]]
        super().__init__(name, [program], examples, [*carried, *rows])

    def repeated_programs(self) -> list[tuple[Program, int]]:
        """See ``ControlFlow.repeated_programs``."""
        return [(self.program, self.length)]

    def looped(self, kind: type | None) -> Callable[..., Any]:
        return _steps_on_numpy(self, kind) or _steps_by_python(self, kind)

    def function_in_graph(self, kind: type) -> Callable[..., Any]:
        """See ``Operation.function_in_graph``."""
        return _steps_by_python(self, kind, in_graph=True)

    def step(self, kind: type | None) -> Step:
        """Return a step as a function, compiled once for each type of array."""
        found: Step = self.once(("step", kind), Step, self.program, self.counts, kind)
        return found

    def traced_by_jax(self, kind: Any) -> Callable[..., Any]:
        jax = sys.modules["jax"]
        counts = self.counts
        step, dtypes = Step(self.program, counts, kind), [x.dtype for x in self.results[: counts.carried]]

        def scan(*operands: Any) -> tuple[Any, ...]:
            fixed, carry, slices = counts.split(operands)
            fixed = list(step.first(fixed))

            def one(carry: Any, x: Any) -> Any:
                out = step.run([*fixed, *carry, *x])
                return typed(jax, out[: counts.carried], dtypes), tuple(map(jax.numpy.asarray, out[counts.carried :]))

            last, ys = jax.lax.scan(
                one, typed(jax, carry, dtypes), tuple(slices), length=self.length, reverse=self.reversed
            )
            return (*last, *ys)

        return scan

    # ------------------------------------------------------------------ derivatives

    def widened(self, program: Program, counts: Counts, examples: Mapping[Variable, Any]) -> "Scan":
        """See ``Loop.widened``."""
        return Scan(self.name, program, counts, self.length, self.reversed, examples)

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        if self.recompute:
            keeping = copy.copy(self)
            keeping.recompute = False
            return call(self, leaves), lambda gs: keeping.reverse(lift_all(leaves), traced)[1](gs)
        active = self.active(traced)
        made = self.once(("vjp", active), _Pullback, self, active)
        found = call(made.forward, leaves)
        count = len(self.results)
        outs, residuals = found[:count], found[count:]
        floating = self.floating()

        def back(gs: list[Any]) -> list[Any]:
            by_output = dict(zip(floating, gs, strict=True))
            operands = [leaves[i] for i in made.kept]
            operands += [by_output[k] for k in made.carry_outputs]
            operands += [zeros(leaves[i]) for i in made.fixed]
            operands += [*residuals, *[leaves[i] for i in made.slices], *[by_output[k] for k in made.row_outputs]]
            pulled_back = call(made.backward, lift_all(operands))
            places = [*made.carried, *made.fixed, *made.sliced]
            by_operand = dict(zip(places, pulled_back, strict=True))
            return [by_operand[i] if i in traced else None for i in range(len(leaves))]

        return outs, back

    def map(self, level: Batch, flags: Sequence[bool], leaves: Values) -> list[Any]:
        """Compute all batch elements by one loop."""
        counts = self.counts
        edge = counts.fixed + counts.carried
        made, wide, having = self.once(("map", level.members, tuple(flags)), self._for_all, flags, level.members)
        operands = with_axis(leaves, flags, wide, level.members)
        for i in range(edge, len(operands)):
            if wide[i]:
                operands[i] = namespace_of((operands[i],)).moveaxis(operands[i], 0, 1)
        outs = call(made, operands)
        for k in range(counts.carried, len(outs)):
            if having[k]:
                outs[k] = namespace_of((outs[k],)).moveaxis(outs[k], 1, 0)
        return wrapped(level, outs, having)

    def _for_all(self, flags: Sequence[bool], members: int) -> tuple["Scan", list[bool], list[bool]]:
        found, wide = mapped_carry(self.program, self.examples, flags, self.counts, members, self.name)
        program, examples = found.body.program, found.body.examples
        made = Scan(self.name, program, self.counts, self.length, self.reversed, examples, self.recompute)
        return made, wide, found.flags


class _Pullback:
    """The two loops of the reverse-mode derivative of a scan.

    ``forward`` stacks the residuals of each step too. ``backward`` loops in the other direction. It carries the
    cotangents of carried values and the sums of the cotangents of fixed values, and stacks the cotangents of slices.
    """

    def __init__(self, scan: Scan, active: tuple[int, ...]) -> None:
        counts, n = scan.counts, scan.counts.carried
        edge = counts.fixed + n
        fixed = [i for i in active if i < counts.fixed]
        carried = [i for i in active if counts.fixed <= i < edge]
        sliced = [i for i in active if i >= edge]
        found = pulled(scan.program, scan.examples, active, len(fixed), scan.name)
        constants, examples = dict(found.body.program.constants), dict(found.body.examples)
        places = {v: i for i, v in enumerate(found.inputs)}

        early, _ = invariant_part(Program(found.inputs, constants, found.forward, []), found.inputs[: counts.fixed])
        cheap = {v for i in early for v in i.results}
        residuals = found.residuals()
        if not cheap.isdisjoint(residuals):  # recomputed once before the loop
            needed = _needed(early, [v for v in residuals if v in cheap])
            found = found._replace(backward=[*needed, *found.backward])
            residuals = found.residuals()
        views = _views_of(found.forward, residuals)
        if views:  # they need no memory in the backward loop
            found = found._replace(backward=[*views, *found.backward])
            residuals = found.residuals()
        made = [v for v in residuals if v not in places or counts.fixed <= places[v] < edge]
        kept = [v for v in residuals if places.get(v, edge) < counts.fixed]
        slices = [v for v in residuals if v in places and places[v] >= edge]
        self.kept, self.slices = [places[v] for v in kept], [places[v] for v in slices]
        self.fixed, self.carried, self.sliced = fixed, carried, sliced
        """The active operands of each kind."""

        forward = program_of(found.body, found.inputs, [*found.outputs, *made], constants, found.forward)
        wide = Counts(*counts)
        self.forward = Scan(scan.name, forward, wide, scan.length, scan.reversed, examples)

        self.carry_outputs = [i - counts.fixed for i in carried]
        self.row_outputs = [k for k in found.given if k >= n]
        gs = []
        for k in self.carry_outputs:
            g = found.given.get(k)
            if g is None:
                like = examples[found.outputs[k]]
                g = variable_like(like)
                examples[g] = like
            gs.append(g)
        g_rows = [found.given[k] for k in self.row_outputs]
        by_input = dict(zip(active, found.found, strict=True))

        def cotangent(i: int) -> Any:
            return or_zeros(by_input[i], examples[found.inputs[i]], constants, examples)

        inputs = [*kept, *gs, *found.added, *made, *slices, *g_rows]
        outputs = [*[cotangent(i) for i in carried], *found.sums, *[cotangent(i) for i in sliced]]
        backward = program_of(found.body, inputs, outputs, constants, found.backward)
        back = Counts(len(kept), len(gs) + len(found.added), len(made) + len(slices) + len(g_rows))
        self.backward = Scan(f"backward of {scan.name}", backward, back, scan.length, not scan.reversed, examples)


def _needed(instructions: Sequence[Instruction], wanted: Sequence[Variable]) -> list[Instruction]:
    needed, kept = set(wanted), []
    for instruction in reversed(instructions):
        if not needed.isdisjoint(instruction.results):
            kept.append(instruction)
            needed.update(instruction.reads())
    kept.reverse()
    return kept


def _views_of(instructions: Sequence[Instruction], residuals: Sequence[Variable]) -> list[Instruction]:
    """Return the instructions whose results are residuals and views of residuals or of arrays of the same size."""
    known = set(residuals)
    return [
        i
        for i in instructions
        if i.operation.is_view
        and len(i.reads()) == 1
        and known.issuperset(i.results)
        and (i.reads()[0] in known or i.reads()[0].size == i.results[0].size)
    ]
