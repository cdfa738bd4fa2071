"""Products in a lower precision: narrow operands, sums and results in float32.

As in mixed-precision training, parameters, activations and gradients remain float32. Only the operands of products are
narrow. TF32 is not a dtype but a mode of matrix multiplication on GPUs, which each lowering sets.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from agrad.dtypes import dtype_name
from agrad.engine.operation import Operation
from agrad.errors import ConfigurationError
from agrad.jit.program import FunctionOperation, Instruction, Program, Variable

Precision = Literal["tf32", "bfloat16", "float16"]
PRECISIONS = get_args(Precision)


class NarrowMatmul(NamedTuple):
    """Matrix multiplication with operands in a narrow dtype, as a backend computes it."""

    narrow: Callable[[Any], Any]
    """A float32 array rounded to the narrow dtype."""
    product: Callable[[Any, Any], Any] | None
    """The product of two such arrays in float32; None if rounded arrays are float32, multiplied as usual."""
    dtype: Any
    """The dtype of the rounded arrays."""


class Rounding(FunctionOperation):
    """A float32 array rounded to a narrow dtype."""

    kind = "elementwise"
    grouped = True

    def __init__(self, precision: str, function: Callable[[Any], Any]) -> None:
        super().__init__(f"rounded[{precision}]", function)


class NarrowProduct(Operation):
    """``matmul`` of rounded arrays, or ``linear`` of two and a float32 bias."""

    kind = "product"

    def __init__(self, name: str, product: Callable[[Any, Any], Any], precision: str) -> None:
        self.name, self.product, self.precision = name, product, precision

    def bind(self, x: Any, weight: Any, bias: Any = None) -> Any:
        """Return the product in float32, with the bias added."""
        found = self.product(x, weight)
        return found if bias is None else found + bias


def _is_float32(v: Any) -> bool:
    return isinstance(v, Variable) and not v.on_host and dtype_name(v.dtype) == "float32"


def _is_whole_view(instruction: Instruction) -> bool:
    """Return True for a view of one float32 array, with all its elements."""
    operation, operands = instruction.operation, instruction.operands
    moves = operation.is_own and operation.is_view and operation.kind != "elementwise"
    return moves and len(operands) == 1 and _is_float32(operands[0]) and operands[0].size <= instruction.results[0].size


def with_precision(program: Program, matmuls: Mapping[str, Callable[[str], NarrowMatmul]]) -> Program:
    """Round the float32 operands of products to ``notes["precision"]``.

    matmuls: by the name of a backend, the function from a dtype's name to the backend's ``NarrowMatmul``. Raises
    ``ConfigurationError`` if there are products and their backend does not have the dtype. An array is rounded once,
    for all products that read it or a view with all its elements. Inputs are rounded first, so that a lowering can
    round all of them at once.
    """
    precision: str = program.notes["precision"]
    if precision == "tf32":
        return program
    rounded: dict[Variable, Variable] = {}
    first: list[Instruction] = []
    kept: list[Instruction] = []
    matmul: NarrowMatmul | None = None

    def narrow(v: Variable, matmul: NarrowMatmul) -> Variable:
        if v in rounded:
            return rounded[v]
        rounded[v] = new = Variable(v.shape, matmul.dtype, v.kind)
        source = program.instructions[program.makers[v]] if v in program.makers else None
        if source is not None and _is_whole_view(source):
            kept.append(source.replaced({source.operands[0]: narrow(source.operands[0], matmul)}).giving(new))
        else:
            place = first if source is None else kept
            place.append(Instruction(Rounding(precision, matmul.narrow), (v,), {}, (new,)))
        return new

    for instruction in program.instructions:
        operation = instruction.operation
        floats = all(map(_is_float32, (*instruction.operands, *instruction.results)))
        if operation.kind != "product" or not floats or instruction.settings:
            kept.append(instruction)
            continue
        matmul = matmul or _narrow_matmul(program, precision, matmuls)
        x, weight, *bias = instruction.operands
        operands = (narrow(x, matmul), narrow(weight, matmul), *bias)
        if matmul.product is not None:
            operation = NarrowProduct(instruction.name, matmul.product, precision)
        kept.append(Instruction(operation, operands, {}, instruction.outputs))
    return program.with_instructions([*first, *kept])


def _narrow_matmul(
    program: Program, precision: str, matmuls: Mapping[str, Callable[[str], NarrowMatmul]]
) -> NarrowMatmul:
    backends = sorted(program.backends())
    if len(backends) != 1 or backends[0] not in matmuls:
        raise ConfigurationError(
            f"jit: precision={precision!r} is not supported for arrays of {' and '.join(backends)}. Omit it, or use "
            f"arrays of {', '.join(sorted(matmuls))}."
        )
    return matmuls[backends[0]](precision)
