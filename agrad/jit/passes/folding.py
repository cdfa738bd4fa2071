"""Folding: a gradient that only a step of momentum reads becomes part of the step.

``v = momentum * v + a @ b`` is one call of BLAS, which neither writes nor reads a gradient, and ``p -= lr * v`` is
another. The update then takes one pass over the memory of the parameter, and two over that of the velocity. The
gradient of a bias is a sum over rows, which NumPy computes, without the tests of an ordinary update.

A gradient that outlives the program as ``.grad`` is folded too, if the operands of its product are much smaller than it
is. Copies of them are outputs in its place, and it is computed when somebody reads it (``LateGradient``).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.operation import Operation
from agrad.engine.tensor import Tensor, wrap
from agrad.jit.passes.aliasing import aliases_of, overwritten
from agrad.jit.program import Instruction, Program, Variable
from agrad.kernels.numpy.blas import ROUTINES
from agrad.registry import PRIMITIVES

UPDATE = PRIMITIVES["sgd_update"]

SMALLER = 4
"""How many times as many elements as the operands of its product a gradient has to be computed when it is read."""

FEWEST = 1 << 13
"""The fewest elements of a product that is folded; below, the calls take longer than the passes over memory."""


class FoldedStep(Operation):
    """``sgd_update`` that computes its gradient; operands p, the gradient's two, v.

    The gradient is ``matmul`` of two matrices, or the sum over the rows of one (``linear.vjp:bias``).
    """

    overwrites = (0, 3)

    def __init__(self, gradient: Any) -> None:
        self.gradient = gradient
        self.update = UPDATE
        self.outputs = self.update.outputs
        self.sums = gradient.kind == "row_sum"
        self.name = f"sgd_update of a {'sum' if self.sums else 'product'}"

    def bind(self, p: Any, a: Any, b: Any, v: Any, **settings: Any) -> Any:
        """Call the two operations, as a user does."""
        return self.update.bind(p, self.gradient.bind(a, b), v, **settings)

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Compute the two operations on raw arrays."""
        p, a, b, v = args
        return self.update.evaluate((p, self.gradient.evaluate((a, b), {}), v), settings)

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        return lambda *args, **settings: self.evaluate(args, settings)


class LateGradient(NamedTuple):
    """A gradient that is left as the operands of its product.

    They are outputs of the program.
    """

    operation: Operation
    place: int
    """The number of the output that is the second operand; the first stands in the gradient's place."""

    def of(self, a: Any, b: Any) -> Callable[[], Tensor]:
        """Return the function that computes the gradient."""
        return lambda: wrap(self.operation.evaluate((a, b), {}), GLOBAL_TAPE)


class Copy(Operation):
    """A new array with the elements of another."""

    name = "copy"
    no_alias = True

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Copy a NumPy array."""
        return np.array(args[0])

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        return np.array


COPY = Copy()


def is_plain(settings: Mapping[str, Any]) -> bool:
    """Return True for ``v = momentum * v + g; p -= lr * v`` that may be in place."""
    momentum = settings["momentum"]
    numbers = ("dampening", "nesterov", "weight_decay", "maximize")
    # a number of the host may be anything at the next call
    known = not any(isinstance(settings[name], Variable) for name in numbers) and type(momentum) is float
    return (
        known
        and momentum != 0
        and not any(settings[name] for name in numbers)
        and isinstance(settings["donate"], Variable)
    )


def with_folded_updates(program: Program) -> Program:
    """Fold products and sums of rows into the one step of momentum that reads them."""
    if UPDATE not in [instruction.operation for instruction in program.instructions]:
        return program
    uses, made = program.uses, program.makers
    writes: dict[Variable, list[int]] = {}
    for i, instruction in enumerate(program.instructions):
        for v in overwritten(instruction):
            writes.setdefault(v, []).append(i)
    aliases = aliases_of(program)
    outputs = list(program.outputs)
    gradients = {outputs[place]: place for place in program.notes.get("gradients", ())}
    late: dict[int, LateGradient] = {}
    folded: dict[int, list[Instruction]] = {}
    dropped: set[int] = set()
    for i, instruction in enumerate(program.instructions):
        if instruction.operation is not UPDATE or not is_plain(instruction.settings) or None in instruction.outputs:
            continue
        p, g, v = instruction.operands
        at = made.get(g) if isinstance(g, Variable) else None
        if at is None or p is v or not _fits(program.instructions[at], p, v):
            continue
        is_late = uses[g] == 2 and g in gradients and _is_small(program.instructions[at], g)
        if uses[g] != 1 and not is_late:
            continue
        a, b = program.instructions[at].operands
        read = aliases.of(a, b)
        if p in read or v in read or any(at <= k < i for x in read for k in writes.get(x, ())):
            continue
        product = program.instructions[at].operation
        folded[i] = [Instruction(FoldedStep(product), (p, a, b, v), instruction.settings, instruction.outputs)]
        dropped.add(at)
        if is_late:
            copies = [Variable(x.shape, x.dtype, x.kind) for x in (a, b)]
            folded[i][:0] = [Instruction(COPY, (x,), {}, (y,)) for x, y in zip((a, b), copies, strict=True)]
            late[gradients[g]] = LateGradient(product, len(outputs))
            outputs[gradients[g]] = copies[0]
            outputs.append(copies[1])
    kept = [
        new
        for i, instruction in enumerate(program.instructions)
        if i not in dropped
        for new in folded.get(i, (instruction,))
    ]
    return replace(program.with_instructions(kept, outputs), notes={**program.notes, "late": late})


def _is_small(gradient: Instruction, out: Variable) -> bool:
    """Return True for a product whose operands are much smaller than it is."""
    return gradient.operation.kind == "product" and SMALLER * sum(v.size for v in gradient.reads()) <= out.size


def _fits(gradient: Instruction, p: Variable, v: Variable) -> bool:
    """Return True for a product or a sum of rows like p that BLAS can add to v."""
    if gradient.operation.kind not in ("product", "row_sum") or gradient.settings:
        return False
    count = 1 if gradient.operation.kind == "row_sum" else 2
    arrays = [x for x in gradient.operands if isinstance(x, Variable)]
    (out,) = gradient.outputs
    return (
        len(arrays) == count
        and len(gradient.operands) == 2
        and {x.kind for x in (*arrays, p, v)} == {np.ndarray}
        and all(len(x.shape) == 2 for x in arrays)
        and out is not None
        and out.shape == p.shape == v.shape
        and len(p.shape) == len(arrays)
        and out.size >= (FEWEST if len(arrays) == 2 else 1)
        and len({np.dtype(x.dtype) for x in (*arrays, p, v)}) == 1
        and np.dtype(p.dtype) in ROUTINES
    )
