"""``cond`` and ``switch`` as operations with sub-programs."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from agrad.control.bodies import compiled
from agrad.control.derived import mapped, ones_like, pulled, pushed
from agrad.control.steps import (
    ControlFlow,
    constant_of,
    may_raise,
    of_members,
    or_zeros,
    program_of,
    shared_constants,
    typed,
)
from agrad.engine.batching import Batch
from agrad.engine.calls import lift_all
from agrad.engine.layouts import apart_by_rows
from agrad.engine.namespaces import namespace_of
from agrad.engine.tensor import strip_constant_levels
from agrad.jit.program import Variable, interpret, variable_like
from agrad.registry import namespace
from agrad.transforms.arguments import zeros
from agrad.transforms.calling import Back, Values, call, differentiable, wrapped
from agrad.transforms.custom import stop_gradient
from agrad.transforms.trees import replaced


class Switch(ControlFlow):
    """One of several programs, selected by the first operand."""

    def looped(self, kind: type | None) -> Callable[..., Any]:
        branches = [(compiled(program, kind), shared_constants(program)) for program in self.programs]

        def switch(which: Any, *operands: Any) -> tuple[Any, ...]:
            run, shared = branches[_place(int(which), len(branches))]
            return tuple([apart_by_rows(x, shared) for x in run(operands)])

        return switch

    def traced_by_jax(self, kind: Any) -> Callable[..., Any]:
        jax = sys.modules["jax"]
        dtypes = [x.dtype for x in self.results]

        def branch(run: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *operands: typed(jax, run(operands), dtypes)

        branches = [branch(compiled(program, kind)) for program in self.programs]

        def switch(which: Any, *operands: Any) -> tuple[Any, ...]:
            number = jax.lax.convert_element_type(jax.numpy.reshape(which, ()), "int32")
            found: tuple[Any, ...] = jax.lax.switch(number, branches, *operands)
            return found

        return switch

    def _active(self, traced: Sequence[int]) -> tuple[int, ...]:
        return tuple([i - 1 for i in traced if i > 0])

    def forward(self, leaves: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
        active = self._active(traced)
        wide, having = self.once(("jvp", active), self._with_tangents, active)
        ts = [t for i, t in zip(traced, tangents, strict=True) if i > 0]
        found = call(wide, lift_all([*leaves, *ts]))
        count = len(self.results)
        return found[:count], replaced([None] * count, having, found[count:])

    def _with_tangents(self, active: tuple[int, ...]) -> tuple["Switch", list[int]]:
        branches = [pushed(program, self.examples, active, self.name) for program in self.programs]
        having = [k for k in range(len(self.results)) if any(b.pushed[k] is not None for b in branches)]
        programs = []
        for b in branches:
            constants, examples = dict(b.body.program.constants), dict(b.body.examples)
            ts = [or_zeros(b.pushed[k], self.results[k], constants, examples) for k in having]
            programs.append(program_of(b.body, [*b.inputs, *b.tangents], [*b.outputs, *ts], constants))
        inputs = [branches[0].body.examples[v] for v in (*branches[0].inputs, *branches[0].tangents)]
        results = [*self.results, *[zeros(self.results[k]) for k in having]]
        return Switch(self.name, programs, inputs, results), having

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        active = self._active(traced)
        forward, backward, given = self.once(("vjp", active), _pullback, self, active)
        found = call(forward, leaves)
        count = len(self.results)
        floating = self.floating()

        def back(gs: list[Any]) -> list[Any]:
            by_output = dict(zip(floating, gs, strict=True))
            operands = [*leaves, *found[count:], *[by_output[k] for k in given]]
            pulled_back = call(backward, lift_all(operands))
            return replaced([None] * len(leaves), [i + 1 for i in active], pulled_back)

        return found[:count], back

    def map(self, level: Batch, flags: Sequence[bool], leaves: Values) -> list[Any]:
        """Compute all batch elements, by all branches if the index is mapped."""
        if flags[0]:
            return self._all_branches(level, flags, leaves)
        key = ("map", level.members, tuple(flags))
        made, wanted = self.once(key, self._for_all, flags, level.members)
        outs = call(made, leaves)
        return wrapped(level, outs, [k in wanted for k in range(len(outs))])

    def _for_all(self, flags: Sequence[bool], members: int) -> tuple["Switch", list[int]]:
        run = [mapped(p, self.examples, flags[1:], members, self.name) for p in self.programs]
        wanted = [k for k in range(len(self.results)) if any(found.flags[k] for found in run)]
        run = [mapped(p, self.examples, flags[1:], members, self.name, wanted) for p in self.programs]
        body = run[0].body
        results = [body.examples[v] for v in body.program.outputs]
        return Switch(self.name, [found.body.program for found in run], body.inputs(), results), wanted

    def _all_branches(self, level: Batch, flags: Sequence[bool], leaves: Values) -> list[Any]:
        which = level.wrap(leaves[0])
        outs: list[Any] = []
        for k in range(len(self.programs)):
            last = k == len(self.programs) - 1
            chosen = which <= 0 if k == 0 else which >= k if last else which == k
            found = self._of_members(k, level, chosen, flags, leaves)
            given, count = lift_all([chosen, *outs, *found]), len(outs)
            xp = namespace_of(given)
            outs = [xp.where(given[0], given[1 + count + i], given[1 + i]) for i in range(count)] or found
        return outs

    def _of_members(self, k: int, level: Batch, chosen: Any, flags: Sequence[bool], leaves: Values) -> list[Any]:
        """Return the results of a branch for its own batch elements, and any values for the others.

        If no element takes the branch, a branch that could raise does not run.
        """
        program, members = self.programs[k], level.members
        (mine, *leaves) = lift_all([strip_constant_levels(chosen).data, *leaves])
        operands = of_members(program, mine, leaves[1:], flags[1:])
        xp = namespace_of([mine])
        some = xp.reshape(xp.any(mine, keepdims=True), ())
        if may_raise(program):
            made = self.once(("members", k, members, tuple(flags)), self._or_nothing, k, flags, members)
            return wrapped(level, call(made, lift_all([xp.astype(some, leaves[0].dtype), *operands])))
        pairs = zip(operands, flags[1:], strict=True)
        shared = [x if m else namespace.where(some, x, stop_gradient(x)) for x, m in pairs]
        return interpret(program, wrapped(level, shared, flags[1:]))

    def _or_nothing(self, k: int, flags: Sequence[bool], members: int) -> "Switch":
        """Return the choice between zeros and a branch for all batch elements."""
        wanted = range(len(self.results))
        body = mapped(self.programs[k], self.examples, flags[1:], members, self.name, wanted).body
        results = [body.examples[v] for v in body.program.outputs]
        constants, examples = dict(body.program.constants), dict(body.examples)
        nothing = [or_zeros(None, like, constants, examples) for like in results]
        programs = [program_of(body, body.program.inputs, nothing, constants, []), body.program]
        return Switch(self.name, programs, body.inputs(), results)


def _place(which: int, count: int) -> int:
    """Return the index of the nearest branch."""
    return min(max(which, 0), count - 1)


def _pullback(own: Switch, active: tuple[int, ...]) -> tuple[Switch, Switch, list[int]]:
    """Return the choice with residuals, the choice of the pullbacks, and the indices of outputs with cotangents.

    Each branch returns its residuals, and constants for the residuals of the other branches.
    """
    branches = [pulled(program, own.examples, active, 0, own.name) for program in own.programs]
    made = [[v for v in b.residuals() if v not in b.inputs] for b in branches]
    given = sorted({k for b in branches for k in b.given})
    examples = [{**b.body.examples} for b in branches]
    likes = [examples[j][v] for j, some in enumerate(made) for v in some]
    forward, backward = [], []
    for j, b in enumerate(branches):
        constants = dict(b.body.program.constants)
        outputs = list(b.outputs)
        inputs = list(b.inputs)
        for i, some in enumerate(made):
            for v in some:
                outputs.append(v if i == j else _unused(examples[i][v], constants, examples[j]))
                inputs.append(v if i == j else v.twin())
        forward.append(program_of(b.body, b.inputs, outputs, constants, b.forward))
        inputs += [b.given.get(k) or variable_like(own.results[k]) for k in given]
        found = [or_zeros(v, own.examples[i], constants, examples[j]) for i, v in zip(active, b.found, strict=True)]
        backward.append(program_of(b.body, inputs, found, constants, b.backward))
    results = [*own.results, *likes]
    back_examples = [*own.examples, *likes, *[own.results[k] for k in given]]
    back_results = [own.examples[i] for i in active]
    return (
        Switch(own.name, forward, own.examples, results),
        Switch(f"backward of {own.name}", backward, back_examples, back_results),
        given,
    )


def _unused(like: Any, constants: dict[Variable, Any], examples: dict[Variable, Any]) -> Variable:
    """Return the variable of a constant for an unused residual.

    It is not 0, because all branches run under ``vmap``, and could divide by it.
    """
    return constant_of(ones_like(like) if differentiable(like) else zeros(like), constants, examples)
