"""An operation and its rule as one instruction, if a kernel computes both at once.

The cotangent must be known before the operation's results. A constant is, for example.
"""

from collections.abc import Callable
from typing import Any

from agrad.backends import backend_of_type
from agrad.engine.operation import Operation
from agrad.engine.rulecalls import RulePrimitive
from agrad.jit.passes.aliasing import overwritten
from agrad.jit.program import Instruction, Program, Variable
from agrad.registry import KERNELS


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
        """Call the two operations, as a user does."""
        return self._computed(args, lambda operation, given: operation.bind(*given))

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Compute the two operations on raw arrays."""
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
    """Return the number of the operation that a rule can be joined to and the names of the cotangents, or None."""
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
    """Return instructions, each behind those that ``early`` names for it."""
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
    """Return the instructions behind one that compute cotangents, by number; None if they need its result."""
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
