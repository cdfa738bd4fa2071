"""``while_loop`` as an operation with sub-programs."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agrad.control.derived import mapped
from agrad.control.steps import (
    Counts,
    Loop,
    Step,
    computed,
    is_true,
    mapped_carry,
    may_raise,
    numpy_loop,
    of_members,
    shared_constants,
    typed,
    with_axis,
)
from agrad.engine.batching import Batch
from agrad.engine.calls import lift_all
from agrad.engine.layouts import apart_by_rows
from agrad.engine.tensor import strip_constant_levels
from agrad.errors import NotDifferentiableError
from agrad.jit.program import Program, Variable, interpret
from agrad.registry import namespace
from agrad.transforms.calling import Back, Values, call, wrapped


class While(Loop):
    """Steps of a program while a condition, a program with the same inputs, is true."""

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

    def repeated_programs(self) -> list[tuple[Program, int]]:
        """See ``ControlFlow.repeated_programs``."""
        return [(program, 0) for program in self.programs]

    def looped(self, kind: type | None) -> Callable[..., Any]:
        counts, shared = self.counts, shared_constants(self.program)
        steps = numpy_loop(self._rotated(), counts, kind)
        condition = Step(self.programs[0], counts, kind)
        body = Step(self.program, counts, kind) if steps is None else None

        def loop(*operands: Any) -> tuple[Any, ...]:
            fixed, carry, _ = counts.split(computed(operands))
            for_condition = computed(condition.first(fixed))
            fresh: Sequence[int] = ()
            if body is not None:
                for_body = computed(body.first(fixed))
                while True:
                    goes_on, *carry = computed([condition.run([*for_condition, *carry])[0], *carry])
                    if not is_true(goes_on):
                        break
                    carry = list(body.run([*for_body, *carry]))
            elif steps is not None and bool(condition.run([*for_condition, *carry])[0]):
                carry, fresh = steps(operands)
            return tuple([apart_by_rows(x, () if k in fresh else shared) for k, x in enumerate(carry)])

        return loop

    def _rotated(self) -> Program:
        """Return the program of a step and of the condition that follows it."""
        condition, body = self.programs
        fixed = self.counts.fixed
        table = dict(zip(condition.inputs, (*body.inputs[:fixed], *body.outputs), strict=True))
        asked = [table.get(v, v) if isinstance(v, Variable) else v for v in condition.outputs]
        constants = {**body.constants, **condition.constants}
        full = Program(body.inputs, constants, [], [*body.outputs, *asked], body.notes)
        return full.with_instructions([*body.instructions, *[i.replaced(table) for i in condition.instructions]])

    def traced_by_jax(self, kind: Any) -> Callable[..., Any]:
        jax = sys.modules["jax"]
        counts, dtypes = self.counts, [x.dtype for x in self.results]
        condition, body = (Step(program, counts, kind) for program in self.programs)

        def loop(*operands: Any) -> tuple[Any, ...]:
            fixed, carry, _ = counts.split(operands)
            for_condition, for_body = list(condition.first(fixed)), list(body.first(fixed))
            found: tuple[Any, ...] = jax.lax.while_loop(
                lambda carry: jax.numpy.reshape(condition.run([*for_condition, *carry])[0], ()),
                lambda carry: typed(jax, body.run([*for_body, *carry]), dtypes),
                typed(jax, carry, dtypes),
            )
            return found

        return loop

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        raise NotDifferentiableError(
            f"{self.name} inside jit or vmap cannot be differentiated in reverse mode, because its number of steps is "
            "unknown. Use agrad.scan or agrad.fori_loop with a fixed number of steps, forward mode (agrad.jvp, "
            "agrad.jacfwd), or agrad.fixed_point or agrad.root for the limit of an iteration."
        )

    def widened(self, program: Program, counts: Counts, examples: Mapping[Variable, Any]) -> "While":
        """See ``Loop.widened``."""
        old, (fixed, carried, _) = self.programs[0], self.counts
        inputs = [v.twin() for v in program.inputs]
        inputs[:fixed] = old.inputs[:fixed]
        inputs[counts.fixed : counts.fixed + carried] = old.inputs[fixed:]
        condition = Program(inputs, old.constants, old.instructions, old.outputs, old.notes)
        return self._with(condition, program, counts, examples)

    def _with(self, condition: Program, body: Program, counts: Counts, examples: Mapping[Variable, Any]) -> "While":
        inputs, results = ([examples[v] for v in values] for values in (body.inputs, body.outputs))
        return While(self.name, condition, body, counts, inputs, results)

    def map(self, level: Batch, flags: Sequence[bool], leaves: Values) -> list[Any]:
        """Compute all batch elements by one loop, while any condition is true."""
        members = level.members
        made, wide = self.once(("map", members, tuple(flags)), self._for_all, flags, members)
        return wrapped(level, call(made, with_axis(leaves, flags, wide, members)), wide[self.counts.fixed :])

    def _for_all(self, flags: Sequence[bool], members: int) -> tuple["While", list[bool]]:
        counts, (condition, body) = self.counts, self.programs
        found, wide = mapped_carry(body, self.examples, flags, counts, members, self.name)
        of_each = mapped(condition, self.examples, wide, members, self.name)
        asked = of_each.body.program
        if of_each.flags[0]:
            wide = [*wide[: counts.fixed], *[True] * counts.carried]
            every = list(range(counts.carried))

            def chosen(program: Program, given: list[Any]) -> list[Any]:
                (goes_on,) = map(strip_constant_levels, interpret(condition, given))
                before = given[counts.fixed :]
                if may_raise(program):
                    values = [strip_constant_levels(x.data) if m else x for x, m in zip(given, wide, strict=True)]
                    mine, *values = lift_all([goes_on.data, *values])
                    given = wrapped(goes_on.level, of_members(program, mine, values, wide), wide)
                outs = interpret(program, given)
                return [namespace.where(goes_on, new, old) for new, old in zip(outs, before, strict=True)]

            def any_of(program: Program, given: list[Any]) -> list[Any]:
                return [namespace.any(strip_constant_levels(interpret(program, given)[0]).data)]

            found = mapped(body, self.examples, wide, members, self.name, every, chosen)
            asked = mapped(condition, self.examples, wide, members, self.name, (), any_of).body.program
        return self._with(asked, found.body.program, counts, found.body.examples), wide
