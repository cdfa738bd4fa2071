"""Products joined with the operations after them, as cuBLASLt computes both.

These are a bias, a ReLU, its mask, and the sum for a bias. The pass and its operations know nothing of CuPy: on any
arrays an operation computes what it was made of.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.engine.operation import Operation
from agrad.jit.program import Instruction, Program, Variable
from agrad.registry import PRIMITIVES

NARROW = {"e", "H"}
"""Dtypes of the factors of a product whose result is float32: float16, and the bits of bfloat16."""


class Joined(Operation):
    """A product and what follows it, as the operation of an instruction.

    relu: after the bias. mask: give also where the result of ReLU is positive. masked: the last operand is such a mask,
    and the result is 0 where it is false. sums: give also a sum over rows, of the masked result, or, without a mask,
    of the second factor.
    """

    def __init__(self, product: Any, *, relu: bool = False, mask: bool = False, masked: bool = False) -> None:
        self.product, self.relu, self.mask, self.masked = product, relu, mask, masked
        self.sums = False
        self.outputs = ("y", "mask") if mask else None
        self._take_name()

    def summing(self) -> "Joined":
        """Return the same operation with a sum over rows as its second output."""
        made = Joined(self.product, relu=self.relu, masked=self.masked)
        made.sums, made.outputs = True, ("product", "bias")
        made._take_name()
        return made

    def _take_name(self) -> None:
        """Set the name for programs' text: ``linear_relu``, ``matmul_masked_sum``."""
        parts = {"relu": self.relu, "mask": self.mask, "masked": self.masked, "sum": self.sums}
        self.name = "_".join([self.product.name, *(part for part, there in parts.items() if there)])

    def bind(self, *args: Any) -> Any:
        """Call the operations one by one, as a user does."""
        *factors, mask = args if self.masked else (*args, None)
        found = self.product.bind(*factors)
        return self.followed(found, factors[1], mask, lambda name, *given, **by: PRIMITIVES[name].bind(*given, **by))

    def followed(self, found: Any, weight: Any, mask: Any, call: Callable[..., Any]) -> Any:
        """Compute the operations after the product, which is ``found`` here.

        ``call`` takes the name of an operation, its arguments and its settings.
        """
        if self.relu:
            found = call("relu", found)
        if self.masked:
            found = call("where", mask, found, 0.0)
        if self.mask:
            return found, call("greater", found, 0)
        if self.sums:
            return found, call("sum", found if self.masked else weight, axis=(0,), keepdims=False)
        return found


def shape_of(instruction: Instruction) -> tuple[int, int, int] | None:
    """Return (m, k, n) of a product of matrices that cuBLASLt takes, or None.

    Factors and result are of one real dtype, or narrow ones with a result in float32; a bias is like the result.
    """
    x, weight, *more = instruction.operands
    if len(x.shape) != 2 or len(weight.shape) != 2 or instruction.outputs[0] is None:
        return None
    factors = {np.dtype(v.dtype).char for v in (x, weight)}
    result = np.dtype(instruction.outputs[0].dtype).char
    same = factors == {result} and result in "fde"
    if not same and not (len(factors) == 1 and factors < NARROW and result == "f"):
        return None
    (m, k), n = x.shape, weight.shape[1]
    operation = instruction.operation
    bias = more[: len(more) - bool(getattr(operation, "masked", False))]
    if not m * k * n or any(v.shape != (n,) or np.dtype(v.dtype).char != result for v in bias):
        return None
    return m, k, n


def with_epilogues(program: Program) -> Program:
    """Join products with the operations that alone read their results.

    These are a ReLU, the mask of a ReLU, and a sum over rows. A joined instruction stands where the product did; the
    mask of a ReLU is taken from the product that it is joined with. What is not float32 gets no mask and no sum.
    """
    uses = Counter(v for i in program.instructions for v in i.reads())
    uses.update(v for v in program.outputs if isinstance(v, Variable))
    made = {v: at for at, i in enumerate(program.instructions) for v in i.results}
    table: dict[int, Instruction | None] = {}

    def sole(v: Any, name: str) -> int | None:
        """Return the number of the product that gives ``v`` to one reader, or None."""
        at = made.get(v) if isinstance(v, Variable) else None
        if at is None or uses[v] != 1 or program.instructions[at].name != name:
            return None
        return at if shape_of(program.instructions[at]) is not None else None

    relus: dict[Variable, int] = {}
    for here, i in enumerate(program.instructions):
        at = sole(i.operands[0], "linear") if i.name == "relu" else None
        if at is not None:
            source = program.instructions[at]
            table[at] = Instruction(Joined(source.operation, relu=True), source.operands, {}, i.outputs)
            table[here] = None
            assert i.outputs[0] is not None
            relus[i.outputs[0]] = at
    joined: dict[Variable, int] = {}
    for here, i in enumerate(program.instructions):
        if i.name != "relu.vjp:x" or i.operands[1] not in relus:
            continue
        at, forward = sole(i.operands[0], "matmul"), relus[i.operands[1]]
        if at is None or at < forward or not _wide(i):
            continue
        first, source = table[forward], program.instructions[at]
        assert first is not None
        if not first.operation.mask:
            y = i.operands[1]
            mask = Variable(y.shape, np.dtype(np.uint8), y.kind)
            operation = Joined(first.operation.product, relu=True, mask=True)
            first = table[forward] = Instruction(operation, first.operands, {}, (y, mask))
        operands = (*source.operands, first.outputs[1])
        table[at] = Instruction(Joined(source.operation, masked=True), operands, {}, i.outputs)
        table[here] = None
        assert i.outputs[0] is not None
        joined[i.outputs[0]] = at
    _join_sums(program, made, joined, table)
    found = [table.get(at, i) for at, i in enumerate(program.instructions)]
    return program.with_instructions([i for i in found if i is not None])


def _wide(instruction: Instruction) -> bool:
    out = instruction.outputs[0]
    return out is not None and np.dtype(out.dtype).char == "f"


def _join_sums(
    program: Program, made: dict[Variable, int], joined: dict[Variable, int], table: dict[int, Instruction | None]
) -> None:
    """Join sums over rows of a masked product, or of a second factor, to the product."""
    factors: dict[Variable, int] = {}
    first_read: dict[Variable, int] = {}
    for at, i in enumerate(program.instructions):
        for v in i.reads():
            first_read.setdefault(v, at)
        if i.name == "matmul" and at not in table and shape_of(i) is not None and _wide(i):
            factors.setdefault(i.operands[1], at)
    for here, i in enumerate(program.instructions):
        if not _sums_rows(i):
            continue
        x, out = i.operands[0], i.outputs[0]
        assert out is not None
        at = joined[x] if x in joined else factors.get(x, -1)
        if at < 0 or first_read.get(out, here) <= at:
            continue
        source = table.get(at) or program.instructions[at]
        operation = source.operation if isinstance(source.operation, Joined) else Joined(source.operation)
        if operation.sums:
            continue
        table[at] = Instruction(operation.summing(), source.operands, {}, (source.outputs[0], out))
        table[here] = None


def _sums_rows(i: Instruction) -> bool:
    """Return whether an instruction sums the rows of a float32 matrix."""
    x = i.operands[0] if i.operands else None
    if not isinstance(x, Variable) or len(x.shape) != 2 or not _wide(i) or i.outputs[0] is None:
        return False
    plain = i.settings == {"axis": (0,), "keepdims": False} and i.name == "sum"
    return (plain or i.name == "linear.vjp:bias") and i.outputs[0].shape == x.shape[1:]
