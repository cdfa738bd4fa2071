"""``while_loop`` as an operation with sub-programs."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from agrad.control.derived import mapped, pushed
from agrad.control.results import apart
from agrad.control.steps import (
    ControlFlow,
    ControlRules,
    Counts,
    Step,
    active_inputs,
    mapped_carry,
    or_zeros,
    program_of,
    typed,
    with_axis,
)
from agrad.engine.batching import Batch
from agrad.engine.calls import lift_all
from agrad.engine.tensor import strip_constant_levels
from agrad.errors import NotDifferentiableError
from agrad.jit.program import Program, Variable, interpret
from agrad.registry import namespace
from agrad.transforms.arguments import zeros
from agrad.transforms.calling import Back, Values, call


class While(ControlFlow):
    """Steps of a program while a condition, a program of the same inputs, holds."""

    def __init__(
        self,
        name: str,
        condition: Program,
        body: Program,
        counts: Counts,
        examples: Sequence[Any],
        results: Sequence[Any],
    ) -> None:
        super().__init__(name, [condition, body], examples, results)
        self.counts = counts

    def rules(self) -> "WhileRules":
        return WhileRules(self)

    def sketch(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """See ``Operation.sketch``."""
        return tuple(self.results)

    def looped(self, kind: type | None) -> Callable[..., Any]:
        counts = self.counts
        condition, body = (Step(program, counts, kind) for program in self.programs)

        def loop(*operands: Any) -> tuple[Any, ...]:
            fixed, carry, _ = counts.apart(operands)
            for_condition, for_body, carry = list(condition.first(fixed)), list(body.first(fixed)), body.start(carry)
            while bool(condition.run([*for_condition, *carry])[0]):
                carry = list(body.run([*for_body, *carry]))
            return tuple(apart(carry, [*operands, *self.program.constants.values()], body.own))

        return loop

    def traced_by_jax(self, kind: Any) -> Callable[..., Any]:
        jax = sys.modules["jax"]
        counts, dtypes = self.counts, [x.dtype for x in self.results]
        condition, body = (Step(program, counts, kind) for program in self.programs)

        def loop(*operands: Any) -> tuple[Any, ...]:
            fixed, carry, _ = counts.apart(operands)
            for_condition, for_body = list(condition.first(fixed)), list(body.first(fixed))
            found: tuple[Any, ...] = jax.lax.while_loop(
                lambda carry: jax.numpy.reshape(condition.run([*for_condition, *carry])[0], ()),
                lambda carry: typed(jax, body.run([*for_body, *carry]), dtypes),
                typed(jax, carry, dtypes),
            )
            return found

        return loop


class WhileRules(ControlRules):
    """One call of a loop whose number of steps depends on values."""

    operation: While

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        raise NotDifferentiableError(
            f"{self.name} inside jit or vmap has no derivative in reverse mode: the number of its steps, and so the "
            "memory for their values, is not known. Use agrad.scan or agrad.fori_loop with a fixed number of steps, "
            "forward mode (agrad.jvp, agrad.jacfwd), agrad.fixed_point or agrad.root for what a loop converges to, or "
            "call it outside of both"
        )

    def forward(self, leaves: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
        loop, counts = self.operation, self.operation.counts
        active = active_inputs(loop.program, loop.examples, loop.results, counts, traced)
        if ("jvp", active) not in loop.derived:
            loop.derived["jvp", active] = self._with_tangents(active)
        wide, having = loop.derived["jvp", active]
        given = dict(zip(traced, tangents, strict=True))
        ts = [given[i] if i in given else zeros(leaves[i]) for i in active]
        fixed = sum(i < counts.fixed for i in active)
        a = counts.fixed
        found = call(WhileRules(wide), lift_all([*leaves[:a], *ts[:fixed], *leaves[a:], *ts[fixed:]]))
        n = counts.carried
        pushed_out = dict(zip(having, found[n:], strict=True))
        return found[:n], [pushed_out.get(k) for k in range(n)]

    def _with_tangents(self, active: tuple[int, ...]) -> tuple[While, list[int]]:
        loop, (a, n, _) = self.operation, self.operation.counts
        found = pushed(loop.program, loop.examples, active, loop.name)
        examples, constants = dict(found.body.examples), dict(found.body.program.constants)
        fixed = sum(i < a for i in active)
        along, having = found.tangents, [i - a for i in active[fixed:]]
        inputs = [*found.inputs[:a], *along[:fixed], *found.inputs[a:], *along[fixed:]]
        outputs = list(found.outputs)
        for k in having:
            outputs.append(or_zeros(found.pushed[k], examples[found.outputs[k]], constants, examples))
        body = program_of(found.body, inputs, outputs, constants)
        old = loop.programs[0]
        rest = [Variable(v.shape, v.dtype, v.kind) for v in along]
        taken = [*old.inputs[:a], *rest[:fixed], *old.inputs[a:], *rest[fixed:]]
        condition = Program(taken, old.constants, old.instructions, old.outputs, old.notes)
        results = [*loop.results, *[zeros(loop.results[k]) for k in having]]
        wide = Counts(a + fixed, n + len(having), 0)
        return While(loop.name, condition, body, wide, [examples[v] for v in inputs], results), having

    def map(self, level: Batch, flags: Sequence[bool], leaves: Values) -> list[Any]:
        """Compute all members of a map by one loop, which goes on while any member does."""
        loop, members = self.operation, level.members
        key = ("map", members, tuple(flags))
        if key not in loop.derived:
            loop.derived[key] = self._for_all(flags, members)
        made, wide = loop.derived[key]
        outs = call(WhileRules(made), with_axis(leaves, flags, wide, members))
        having = wide[loop.counts.fixed :]
        return [level.wrap(strip_constant_levels(out)) if m else out for out, m in zip(outs, having, strict=True)]

    def _for_all(self, flags: Sequence[bool], members: int) -> tuple[While, list[bool]]:
        loop, counts = self.operation, self.operation.counts
        condition, body = loop.programs
        found, wide = mapped_carry(body, loop.examples, flags, counts, members, loop.name)
        of_each = mapped(condition, loop.examples, wide, members, loop.name)
        asked = of_each.body.program
        if of_each.flags[0]:
            wide = [*wide[: counts.fixed], *[True] * counts.carried]
            every = list(range(counts.carried))

            def chosen(given: list[Any], outs: Sequence[Any]) -> list[Any]:
                (goes_on,) = interpret(condition, given)
                before = given[counts.fixed :]
                return [namespace.where(goes_on, new, old) for new, old in zip(outs, before, strict=True)]

            def any_of(given: list[Any], outs: Sequence[Any]) -> list[Any]:
                return [namespace.any(strip_constant_levels(outs[0]).data)]

            found = mapped(body, loop.examples, wide, members, loop.name, every, chosen)
            asked = mapped(condition, loop.examples, wide, members, loop.name, (), any_of).body.program
        program, examples = found.body.program, found.body.examples
        inputs = [examples[v] for v in program.inputs]
        results = [examples[v] for v in program.outputs]
        return While(loop.name, asked, program, counts, inputs, results), wide
