"""Products joined with the operations that follow them, as cuBLASLt computes them.

The operations are a bias, a ReLU, its mask, the sum for a bias, and the rounding to a narrow dtype. Neither the passes
nor ``FusedEpilogue`` needs CuPy: for other arrays, the operation calls the operations that it consists of.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agrad.engine.operation import Operation
from agrad.jit.passes.precision import Rounding
from agrad.jit.passes.tiling import is_reshape, reduction_of
from agrad.jit.program import Instruction, Program, Variable, rule_of
from agrad.ops import composites, discrete, selection, statistical

RELU, WHERE, GREATER, SUM = (
    f.primitive for f in (composites.relu, selection.where_p, discrete.greater, statistical.sum_p)
)

NARROW = {"e", "H"}
"""Dtypes of rounded factors, and of rounded results of their products: float16, and the bits of bfloat16."""


@dataclass(eq=False, repr=False)
class FusedEpilogue(Operation):
    """A product and the operations that follow it, as one operation.

    relu: apply a ReLU after the bias. mask: also return the mask of positive results of ReLU. masked: the last operand
    is such a mask, and the result is 0 for its false elements. sums: also return a sum over rows, of the masked result,
    or, without a mask, of the second factor. rounding: the operation that rounds the first result, after all others.
    """

    product: Any
    relu: bool = False
    mask: bool = False
    masked: bool = False
    sums: bool = False
    rounding: Rounding | None = None

    def __post_init__(self) -> None:
        self.outputs = ("y", "mask") if self.mask else ("product", "bias") if self.sums else None
        parts = [RELU.name] * self.relu + ["mask"] * self.mask + ["masked"] * self.masked + [SUM.name] * self.sums
        self.name: str = "_".join([self.product.name, *parts, *(["rounded"] if self.rounding else [])])

    @classmethod
    def of(cls, operation: Any, **more: Any) -> "FusedEpilogue":
        """Return a product, joined or not, with more operations."""
        return replace(operation, **more) if isinstance(operation, cls) else cls(operation, **more)

    def bind(self, *args: Any) -> Any:
        """Call the operations one by one, as user code does."""
        *factors, mask = args if self.masked else (*args, None)
        found = self.product.bind(*factors)
        return self.followed(found, factors[1], mask, lambda operation, *given, **by: operation.bind(*given, **by))

    def followed(self, found: Any, weight: Any, mask: Any, call: Callable[..., Any]) -> Any:
        """Compute the operations after the product ``found``.

        ``call`` is called with an operation, its arguments and its keyword arguments.
        """
        if self.relu:
            found = call(RELU, found)
        if self.masked:
            found = call(WHERE, mask, found, 0.0)
        more: Any = None
        if self.mask:
            more = call(GREATER, found, 0)
        elif self.sums:
            summed = found if self.masked else weight
            more = call(SUM, summed, axis=tuple(range(len(summed.shape) - 1)), keepdims=False)
        if self.rounding is not None:
            found = call(self.rounding, found)
        return found if more is None else (found, more)


def is_any_product(instruction: Instruction) -> bool:
    """Return True for a product of matrices, joined or not."""
    return isinstance(instruction.operation, FusedEpilogue) or is_product(instruction)


def is_product(instruction: Instruction, operands: int | None = None) -> bool:
    """Return True for a product of matrices that is not joined.

    operands: the required number of its operands.
    """
    operation = instruction.operation
    is_one = operation.kind == "product" and operation.is_own and not isinstance(operation, FusedEpilogue)
    return is_one and operands in (None, len(instruction.operands))


def shape_of(instruction: Instruction) -> tuple[int, int, int] | None:
    """Return (m, k, n) of a product of matrices that cuBLASLt supports, or None.

    Leading axes of the first factor are rows. Factors and result have one real dtype, or the factors a narrow one and
    the result, before it is rounded, float32. A bias has the dtype of that result.
    """
    x, weight, *more = instruction.operands
    out = instruction.outputs[0]
    if len(x.shape) < 2 or len(weight.shape) != 2 or out is None or not has_dtypes(instruction):
        return None
    result = _result(instruction)
    (*rows, k), n = x.shape, weight.shape[1]
    m = math.prod(rows)
    operation = instruction.operation
    bias = more[: len(more) - bool(getattr(operation, "masked", False))]
    if not m * k * n or any(v.shape != (n,) or np.dtype(v.dtype).char != result for v in bias):
        return None
    return m, k, n


def has_dtypes(instruction: Instruction) -> bool:
    """Return True if cuBLASLt multiplies the dtypes of a product."""
    if instruction.outputs[0] is None:
        return False
    x, weight = instruction.operands[:2]
    factors = {np.dtype(v.dtype).char for v in (x, weight)}
    result = _result(instruction)
    same = factors == {result} and result in "fde"
    return same or (len(factors) == 1 and factors < NARROW and result == "f")


def _result(instruction: Instruction) -> str:
    """Return the character of the dtype of a product before it is rounded."""
    rounded = getattr(instruction.operation, "rounding", None) is not None
    return "f" if rounded else np.dtype(instruction.results[0].dtype).char


def is_batch(instruction: Instruction) -> bool:
    """Return True for a product of batches of matrices that cuBLASLt supports."""
    if not is_any_product(instruction) or len(instruction.operands) != 2:
        return False
    axes = [len(v.shape) for v in instruction.operands]
    empty = any(0 in v.shape for v in instruction.operands)
    return min(axes) >= 2 and max(axes) > 2 and not empty and has_dtypes(instruction)


def with_epilogues(program: Program) -> Program:
    """Join products with a ReLU, the mask of a ReLU, or a sum over rows.

    The operation must be the only reader of the product. The joined instruction replaces the product. The
    mask of a ReLU is a further result of the product that computes the ReLU. Masks and sums are joined in float32 only.
    """
    kept: list[Instruction | None] = list(program.instructions)
    uses, made = program.uses, dict(program.makers)

    def sole(v: Any, operands: int | None = None) -> tuple[int, Instruction] | None:
        """Return the number of the product that makes ``v``, and the product, or None.

        It has this number of operands, by default any, and only one instruction reads ``v``.
        """
        at = made.get(v, -1) if isinstance(v, Variable) and uses[v] == 1 else -1
        found = kept[at] if at >= 0 else None
        return (at, found) if found is not None and is_product(found, operands) and shape_of(found) else None

    def mask_of(y: Any, end: int) -> Variable | None:
        """Return the mask of the ReLU ``y`` of a product before ``end``, or None."""
        at = made.get(y, end) if isinstance(y, Variable) else end
        found = kept[at]
        if at >= end or found is None or not (isinstance(found.operation, FusedEpilogue) and found.operation.relu):
            return None
        if not found.operation.mask:
            operation = FusedEpilogue.of(found.operation, mask=True)
            mask = Variable(y.shape, np.dtype(np.uint8), y.kind)
            found = kept[at] = Instruction(operation, found.operands, {}, (y, mask))
        return found.outputs[1]

    for here, i in enumerate(program.instructions):
        product = None
        masked = rule_of(i) == (RELU, "vjp:x")
        if i.operation is RELU:
            product = sole(i.operands[0], None if _wide(i) else 3)
        elif masked and _wide(i):
            product = sole(i.operands[0], 2)
        if product is None:
            continue
        at, source = product
        operands = source.operands
        if masked:
            mask = mask_of(i.operands[1], at)
            if mask is None:
                continue
            operands = (*operands, mask)
        kept[at] = Instruction(FusedEpilogue(source.operation, relu=not masked, masked=masked), operands, {}, i.outputs)
        kept[here] = None
        made[i.results[0]] = at
    _join_sums(program, made, kept)
    return program.with_instructions(kept)


def _wide(instruction: Instruction) -> bool:
    out = instruction.outputs[0]
    return out is not None and np.dtype(out.dtype).char == "f"


def _join_sums(program: Program, made: dict[Variable, int], kept: list[Instruction | None]) -> None:
    """Join sums over rows, of a masked product or of a second factor, to the product."""
    factors: dict[Variable, int] = {}
    for at, i in enumerate(program.instructions):
        if is_product(i, 2) and kept[at] is i and shape_of(i) is not None and _wide(i):
            factors.setdefault(i.operands[1], at)
            maker = kept[made.get(i.operands[1], at)]
            if maker is not None and is_reshape(maker) and maker.operands[0].shape[-1:] == maker.results[0].shape[-1:]:
                factors.setdefault(maker.operands[0], at)
    for here, i in enumerate(program.instructions):
        if not _sums_rows(i):
            continue
        (x, *_), (out,) = i.operands, i.results
        at = made.get(x, -1)
        masked = at >= 0 and _is_masked(kept[at])
        at = at if masked else factors.get(x, -1)
        source = kept[at] if at >= 0 else None
        if source is None or program.readers.get(out, [here])[0] <= at or getattr(source.operation, "sums", False):
            continue
        operation = FusedEpilogue.of(source.operation, sums=True)
        kept[at] = Instruction(operation, source.operands, {}, (source.outputs[0], out))
        kept[here] = None


def with_narrow_results(program: Program, adds_bias: Callable[[np.dtype], bool]) -> Program:
    """Let products round their results if nothing else reads these.

    The values are the same: cuBLASLt rounds each sum once. Excluded are products that also sum rows of their result,
    as it is not known if the sum is over rounded elements. adds_bias: a test for dtypes of results before whose
    rounding a float32 bias can be added.
    """
    kept: list[Instruction | None] = list(program.instructions)
    for here, i in enumerate(program.instructions):
        if not isinstance(i.operation, Rounding) or program.uses[i.operands[0]] > 1:
            continue
        at = program.makers.get(i.operands[0], -1)
        source = kept[at] if at >= 0 else None
        if source is None or not is_any_product(source) or not (shape_of(source) or is_batch(source)):
            continue
        joined, dtype = FusedEpilogue.of(source.operation, rounding=i.operation), i.results[0].dtype
        has_bias = len(source.operands) - joined.masked == 3
        if not joined.sums and source.operands[0].dtype == dtype and (not has_bias or adds_bias(dtype)):
            kept[at] = Instruction(joined, source.operands, {}, (i.results[0], *source.outputs[1:]))
            kept[here] = None
    return program.with_instructions(kept)


def _is_masked(instruction: Instruction | None) -> bool:
    return instruction is not None and getattr(instruction.operation, "masked", False)


def _sums_rows(i: Instruction) -> bool:
    """Return True for an instruction that sums a float32 array over all axes except the last."""
    found = reduction_of(i)
    leading = tuple(range(len(i.operands[0].shape) - 1)) if found is not None else ()
    return bool(leading) and found == (SUM.combine.primitive, False, leading, False) and _wide(i)
