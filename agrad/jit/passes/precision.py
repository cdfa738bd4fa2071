"""Products in a lower precision: narrow operands, sums and results in float32.

As in mixed precision training, parameters, activations and gradients stay float32; only what a product reads is
narrow. TF32 is no dtype but a way in which a GPU multiplies: that a product may is left to each lowering.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agrad.dtypes import dtype_name
from agrad.engine.operation import Operation
from agrad.errors import ConfigurationError
from agrad.jit.program import FunctionOperation, Instruction, Program, Variable

PRECISIONS = ("tf32", "bfloat16", "float16")


class Way(NamedTuple):
    """The functions with which a backend multiplies in a narrow dtype."""

    narrow: Callable[[Any], Any]
    """A float32 array rounded to the narrow dtype."""
    product: Callable[[Any, Any], Any] | None
    """The product of two such arrays in float32; None where rounded arrays are float32 and multiplied as all others."""
    dtype: Any
    """The dtype of the rounded arrays."""


class NarrowProduct(Operation):
    """``matmul`` of rounded arrays, or ``linear`` of two and a float32 bias."""

    def __init__(self, name: str, product: Callable[[Any, Any], Any], precision: str) -> None:
        self.name, self.product, self.precision = name, product, precision

    def bind(self, x: Any, weight: Any, bias: Any = None) -> Any:
        """Return the product in float32, with the bias added."""
        found = self.product(x, weight)
        return found if bias is None else found + bias


def _is_float32(v: Any) -> bool:
    return isinstance(v, Variable) and not v.on_host and dtype_name(v.dtype) == "float32"


def with_precision(ways: Mapping[str, Callable[[str], Way]]) -> Callable[[Program], Program]:
    """Return the pass that rounds float32 operands to ``notes["precision"]``.

    ways: by the name of a backend the function from a dtype's name to the way in which products are computed. The pass
    raises ``ConfigurationError`` where there are products and their backend does not have the dtype.
    """

    def narrow_products(program: Program) -> Program:
        if program.notes["precision"] == "tf32":
            return program
        return _Narrowing(program, ways).run()

    return narrow_products


class _Narrowing:
    """One run of the pass.

    An array is rounded once, however many products read it, and before it is transposed.
    """

    def __init__(self, program: Program, ways: Mapping[str, Callable[[str], Way]]) -> None:
        self.program, self.ways = program, ways
        self.precision: str = program.notes["precision"]
        self.made = {v: i for i in program.instructions for v in i.results}
        self.rounded: dict[Variable, Variable] = {}
        self.kept: list[Instruction] = []

    def run(self) -> Program:
        way: Way | None = None
        for instruction in self.program.instructions:
            operation, settings = instruction.operation, instruction.settings
            floats = all(map(_is_float32, (*instruction.operands, *instruction.results)))
            if operation.kind != "product" or not floats or settings:
                self.kept.append(instruction)
                continue
            way = way or self._way()
            x, weight, *bias = instruction.operands
            operands = (self._narrow(x, way), self._narrow(weight, way), *bias)
            if way.product is not None:
                operation = NarrowProduct(instruction.name, way.product, self.precision)
            self.kept.append(Instruction(operation, operands, {}, instruction.outputs))
        return self.program.with_instructions(self.kept)

    def _narrow(self, v: Variable, way: Way) -> Variable:
        if v not in self.rounded:
            source = self.made.get(v)
            self.rounded[v] = new = Variable(v.shape, way.dtype, v.kind)
            if source is not None and source.operation.kind == "transpose" and _is_float32(source.operands[0]):
                turned = source.replaced({source.operands[0]: self._narrow(source.operands[0], way)})
                self.kept.append(Instruction(turned.operation, turned.operands, turned.settings, (new,)))
            else:
                rounding = FunctionOperation(f"rounded[{self.precision}]", way.narrow)
                self.kept.append(Instruction(rounding, (v,), {}, (new,)))
        return self.rounded[v]

    def _way(self) -> Way:
        backends = sorted(self.program.backends())
        if len(backends) != 1 or backends[0] not in self.ways:
            raise ConfigurationError(
                f"jit: precision={self.precision!r} is not offered for arrays of {' and '.join(backends)}; leave it "
                f"out, or use arrays of {', '.join(sorted(self.ways))}"
            )
        return self.ways[backends[0]](self.precision)
