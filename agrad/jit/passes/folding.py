"""Folding: merge operations that a kernel computes together.

An operation is merged into the only operation that reads its result. For example, a momentum step that computes a
product as its gradient neither writes nor reads the gradient. A gradient that outlives the program as ``.grad`` is
merged too, if the operands of its product are much smaller than the gradient. Copies of the operands are then outputs
instead, and the gradient is computed when it is first read (``LazyGradient``).

An operation and its rule are merged if the cotangent is known before the results, for example a constant.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from agrad.backends import backend_of_type, load
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.operation import Operation
from agrad.engine.rulecalls import RulePrimitive
from agrad.engine.tensor import Tensor, wrap
from agrad.jit.passes.aliasing import Aliases, aliases_of, overwritten
from agrad.jit.program import FunctionOperation, Instruction, Program, Variable
from agrad.registry import KERNELS, PRIMITIVES, Kernel

SMALLER = 4
"""How many times as many elements as the operands of its product a gradient has to be computed when it is read."""


class Folded(Operation):
    """An operation that computes one of its operands.

    The operands of the inner operation replace that operand.
    """

    no_alias = True

    def __init__(self, outer: Any, inner: Any, place: int, count: int) -> None:
        self.outer, self.inner, self.place, self.count = outer, inner, place, count
        self.outputs: tuple[str, ...] | None = outer.outputs
        self.overwrites: tuple[int, ...] = tuple([i if i < place else i + count - 1 for i in outer.overwrites])
        self.name: str = f"{outer.name} of a {inner.kind}"

    def split(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        """Return the operands before, in and after the inner operation."""
        end = self.place + self.count
        return args[: self.place], args[self.place : end], args[end:]

    def bind(self, *args: Any, **settings: Any) -> Any:
        """Call the two operations, as user code does."""
        before, given, after = self.split(args)
        return self.outer.bind(*before, self.inner.bind(*given), *after, **settings)

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Compute the two operations on plain arrays."""
        before, given, after = self.split(args)
        return self.outer.evaluate((*before, self.inner.evaluate(given, {}), *after), settings)

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        return lambda *args, **settings: self.evaluate(args, settings)


class LazyGradient(NamedTuple):
    """A gradient that is left as the operands of its product.

    They are outputs of the program.
    """

    operation: Operation
    place: int
    """The number of the output that is the second operand. The first operand replaces the gradient."""

    def of(self, a: Any, b: Any) -> Callable[[], Tensor]:
        """Return the function that computes the gradient."""
        return lambda: wrap(self.operation.evaluate((a, b), {}), GLOBAL_TAPE)


COPY = FunctionOperation("copy", np.array)
COPY.no_alias = True


def folded(backend: str) -> Callable[[Program], Program]:
    """Return the pass that folds what the kernels of a backend compute in one."""
    return lambda program: _Folding(program, backend).run()


class _Folding:
    """One run of the pass."""

    def __init__(self, program: Program, backend: str) -> None:
        self.program, self.array = program, load(backend).array_types[0]
        self.kernels: dict[Operation, list[tuple[int, str, Kernel]]] = {}
        """By operation: the operand positions that kernels compute, with the kinds of operations that compute them."""
        operations = {i.operation for i in program.instructions}
        for (owner, name, part), kernel in KERNELS.items():
            if owner == backend and part.startswith("forward(") and PRIMITIVES[name] in operations:
                argument, _, kind = part.removeprefix("forward(").removesuffix(")").partition("=")
                place = PRIMITIVES[name].arrays.index(argument)
                self.kernels.setdefault(PRIMITIVES[name], []).append((place, kind, kernel))

    def run(self) -> Program:
        program = self.program
        if not self.kernels:
            return program
        writes: dict[Variable, list[int]] = {}
        for i, instruction in enumerate(program.instructions):
            for v in overwritten(instruction):
                writes.setdefault(v, []).append(i)
        aliases = aliases_of(program)
        outputs = list(program.outputs)
        gradients = {outputs[place]: place for place in program.notes.get("gradients", ())}
        lazy: dict[int, LazyGradient] = {}
        new: dict[int, list[Instruction]] = {}
        dropped: set[int] = set()
        for i, instruction in enumerate(program.instructions):
            kernels = self.kernels.get(instruction.operation)
            for place, at in self._fitting(instruction, kernels, aliases) if kernels else ():
                v, inner = instruction.operands[place], program.instructions[at]
                is_lazy = program.uses[v] == 2 and v in gradients and _is_small(inner, v)
                read = aliases.of(*inner.reads())
                between = any(at <= k < i for x in read for k in writes.get(x, ()))
                if (program.uses[v] != 1 and not is_lazy) or between or at in dropped:
                    continue
                operation = Folded(instruction.operation, inner.operation, place, len(inner.operands))
                operands = _with_operands(instruction, place, inner)
                new[i] = [Instruction(operation, operands, instruction.settings, instruction.outputs)]
                dropped.add(at)
                if is_lazy:
                    a, b = inner.operands
                    copies = [a.twin(), b.twin()]
                    new[i][:0] = [Instruction(COPY, (x,), {}, (y,)) for x, y in zip((a, b), copies, strict=True)]
                    lazy[gradients[v]] = LazyGradient(inner.operation, len(outputs))
                    outputs[gradients[v]] = copies[0]
                    outputs.append(copies[1])
                break
        kept = [
            part
            for i, instruction in enumerate(program.instructions)
            if i not in dropped
            for part in new.get(i, (instruction,))
        ]
        found = program.with_instructions(kept, outputs)
        return replace(found, notes={**program.notes, "lazy_gradients": lazy}) if lazy else found

    def _fitting(
        self, instruction: Instruction, kernels: list[tuple[int, str, Kernel]], aliases: Aliases
    ) -> Iterator[tuple[int, int]]:
        """Yield the position of each operand that a kernel computes, and the index of the instruction before it."""
        program, operands = self.program, instruction.operands
        if None in instruction.outputs:
            return
        for place, kind, kernel in kernels:
            v = operands[place]
            at = program.makers.get(v, -1) if isinstance(v, Variable) else -1
            inner = program.instructions[at]
            if at < 0 or inner.operation.kind != kind or inner.settings:
                continue
            given = _with_operands(instruction, place, inner)
            kinds = {x.kind for x in given if isinstance(x, Variable)}
            over = aliases.of(*inner.reads()).intersection(overwritten(instruction))
            distinct = len(inner.operands) == 2 and len(set(operands)) == len(operands)
            if over or not distinct or kinds != {self.array}:
                continue
            if kernel.when is None or kernel.when(*given, **instruction.settings):
                yield place, at


def _with_operands(instruction: Instruction, place: int, inner: Instruction) -> tuple[Any, ...]:
    """Return the operands, one of which is replaced by the operands of another instruction."""
    return (*instruction.operands[:place], *inner.operands, *instruction.operands[place + 1 :])


def _is_small(gradient: Instruction, out: Variable) -> bool:
    """Return True for a product whose operands are much smaller than it is."""
    return gradient.operation.kind == "product" and SMALLER * sum(v.size for v in gradient.reads()) <= out.size


# ------------------------------------------------------------------ rules


class ForwardWithRule(Operation):
    """A primitive and its rule as one operation.

    Its operands are the operands of the primitive and the cotangents. It returns the results of both.
    """

    no_alias = True

    def __init__(self, rule: RulePrimitive, cotangents: tuple[str, ...]) -> None:
        self.rule, self.forward, self.cotangents = rule, rule.primitive, cotangents
        self.results: Any | tuple[str, ...] = self.forward.outputs or ("y",)
        self.outputs = (*self.results, *(f"g_{target}" for target in rule.rule.targets))
        self.name: str = f"{self.forward.name} and its rule"

    def bind(self, *args: Any) -> Any:
        """Call the two operations, as user code does."""
        return self._computed(args, lambda operation, given: operation.bind(*given))

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Compute the two operations on plain arrays."""
        return self._computed(args, lambda operation, given: operation.evaluate(given, {}))

    def _computed(self, args: tuple[Any, ...], call: Callable[[Any, tuple[Any, ...]], Any]) -> tuple[Any, ...]:
        arrays = self.forward.all_arrays
        known = dict(zip((*arrays, *self.cotangents), args, strict=True))
        found = call(self.forward, args[: len(arrays)])
        found = (found,) if self.forward.outputs is None else tuple(found)
        known.update(zip(self.results, found, strict=True))
        derivative = call(self.rule, tuple([known.get(name) for name in self.rule.names]))
        return (*found, *((derivative,) if self.rule.outputs is None else derivative))


def with_rules_joined(program: Program) -> Program:
    """Join rules to their operations, if a kernel computes both.

    The cotangents must not depend on the results.
    """
    kept: list[Instruction | None] = list(program.instructions)
    early: dict[int, list[int]] = {}
    """For an instruction the numbers of those behind it that must come before it."""
    for i, instruction in enumerate(program.instructions):
        found = _forward_of(instruction, program) if isinstance(instruction.operation, RulePrimitive) else None
        if found is None:
            continue
        at, cotangents = found
        given = dict(zip(instruction.operation.names, instruction.operands, strict=True))
        moved = _needed_for([given[name] for name in cotangents], at, program)
        forward = program.instructions[at]
        if moved is None or kept[at] is not forward:
            continue
        early[at] = moved
        # the rule is one of those who read the results
        read = set(instruction.reads())
        outputs = [None if v in read and program.uses[v] == 1 else v for v in forward.outputs]
        operation = ForwardWithRule(instruction.operation, cotangents)
        operands = (*forward.operands, *(given[name] for name in cotangents))
        kept[at] = Instruction(operation, operands, {}, (*outputs, *instruction.outputs))
        kept[i] = None
    return program.with_instructions(_in_order(kept, early)) if early else program


def _forward_of(instruction: Instruction, program: Program) -> tuple[int, tuple[str, ...]] | None:
    """Return the index of the operation to join a rule to and the names of the cotangents, or None."""
    rule = instruction.operation
    if instruction.settings:
        return None
    given = dict(zip(rule.names, instruction.operands, strict=True))
    kinds = {v.kind for v in given.values() if isinstance(v, Variable)}
    kind = kinds.pop() if len(kinds) == 1 else None
    backend = None if kind is None else backend_of_type(kind)
    kernel = None if backend is None else KERNELS.get((backend.name, rule.primitive.name, f"forward+{rule.rule.part}"))
    if kernel is None or (kernel.when is not None and not kernel.when(*instruction.operands)):
        return None
    results = [given[name] for name in rule.primitive.outputs or ("y",) if name in given]
    numbers = {program.makers.get(v, -1) for v in results}
    at = numbers.pop() if len(numbers) == 1 else -1
    forward = program.instructions[at]
    alike = all(given.get(name, v) is v for name, v in zip(rule.primitive.all_arrays, forward.operands, strict=False))
    if at < 0 or forward.operation is not rule.primitive or forward.settings or not alike:
        return None
    known = (*rule.primitive.all_arrays, *(rule.primitive.outputs or ("y",)))
    return at, tuple([name for name, v in given.items() if name not in known and v is not None])


def _in_order(kept: list[Instruction | None], early: dict[int, list[int]]) -> list[Instruction]:
    """Return instructions, each after the instructions that ``early`` lists for it."""
    done: set[int] = set()
    ordered: list[Instruction] = []

    def write(number: int) -> None:
        if number not in done:
            done.add(number)
            for needed in early.get(number, ()):
                write(needed)
            if (instruction := kept[number]) is not None:
                ordered.append(instruction)

    for number in range(len(kept)):
        write(number)
    return ordered


def _needed_for(cotangents: list[Variable], at: int, program: Program) -> list[int] | None:
    """Return the later instructions that compute cotangents, by index, or None if they need the result."""
    found: set[int] = set()
    waiting = list(cotangents)
    while waiting:
        number = program.makers.get(waiting.pop(), -1)
        if number < at or number in found:
            continue
        if number == at or overwritten(program.instructions[number]):
            return None
        found.add(number)
        waiting.extend(program.instructions[number].reads())
    return sorted(found)
