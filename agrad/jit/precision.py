"""Products of matrices in a lower precision: operands rounded to a narrow dtype, sums and results in float32.

As in mixed precision training, parameters, activations and gradients stay float32; only what a product reads is
narrow. TF32 is no dtype but a way in which a GPU multiplies: that a product may is left to each lowering.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from agrad.dtypes import dtype_name
from agrad.engine.operation import Operation
from agrad.errors import ConfigurationError
from agrad.jit.ir import Instruction, Program, Variable

PRECISIONS = ("tf32", "bfloat16", "float16")


class Way(NamedTuple):
    """How a backend multiplies in a narrow dtype."""

    narrow: Callable[[Any], Any]
    """A float32 array rounded to the narrow dtype."""
    product: Callable[[Any, Any], Any] | None
    """The product of two such arrays in float32; None where rounded arrays are float32 and multiplied as all others."""
    dtype: Any
    """The dtype of the rounded arrays."""


WAYS: dict[str, Callable[[str], Way]] = {}
"""By a backend's name the function from a narrow dtype's name to its way, which may raise ``ConfigurationError``."""


def way(backend: str) -> Callable[[Callable[[str], Way]], Callable[[str], Way]]:
    """File a backend's ways."""

    def file(function: Callable[[str], Way]) -> Callable[[str], Way]:
        WAYS[backend] = function
        return function

    return file


class Rounding(Operation):
    """An array rounded to a narrow dtype, as the operation of an instruction."""

    def __init__(self, precision: str, found: Way) -> None:
        self.name = f"rounded[{precision}]"
        self._narrow = found.narrow

    def bind(self, x: Any, **settings: Any) -> Any:
        """See ``Operation.bind``."""
        return self._narrow(x)


class NarrowProduct(Operation):
    """``matmul`` of rounded arrays, or ``linear`` of two and a float32 bias, as the operation of an instruction."""

    def __init__(self, name: str, product: Callable[[Any, Any], Any], precision: str) -> None:
        self.name, self.product, self.precision = name, product, precision

    def bind(self, x: Any, weight: Any, bias: Any = None) -> Any:
        """The product in float32, and the bias added."""
        found = self.product(x, weight)
        return found if bias is None else found + bias


def _is_float32(v: Any) -> bool:
    return isinstance(v, Variable) and not v.on_host and dtype_name(v.dtype) == "float32"


def with_precision(program: Program) -> Program:
    """The pass: products of float32 arrays read them rounded to the dtype that ``notes["precision"]`` names.

    An array is rounded once, however many products read it, and before it is transposed. Raises
    ``ConfigurationError`` where there are products and their backend does not have the dtype.
    """
    precision = program.notes.get("precision")
    if precision in (None, "tf32"):
        return program
    made = {v: i for i in program.instructions for v in i.results}
    rounded: dict[Variable, Variable] = {}
    kept: list[Instruction] = []
    found: Way | None = None

    def narrow(v: Variable, found: Way) -> Variable:
        if v not in rounded:
            source = made.get(v)
            rounded[v] = new = Variable(v.shape, found.dtype, v.kind)
            if source is not None and source.operation.kind == "transpose" and _is_float32(source.operands[0]):
                turned = source.replaced({source.operands[0]: narrow(source.operands[0], found)})
                kept.append(Instruction(turned.operation, turned.operands, turned.settings, (new,)))
            else:
                kept.append(Instruction(Rounding(precision, found), (v,), {}, (new,)))
        return rounded[v]

    for instruction in program.instructions:
        floats = all(map(_is_float32, (*instruction.operands, *instruction.results)))
        if instruction.operation.kind != "product" or not floats or instruction.settings:
            kept.append(instruction)
            continue
        found = found or _way_of(program, precision)
        x, weight, *bias = instruction.operands
        operands = (narrow(x, found), narrow(weight, found), *bias)
        operation = instruction.operation
        if found.product is not None:
            operation = NarrowProduct(instruction.name, found.product, precision)
        kept.append(Instruction(operation, operands, {}, instruction.outputs))
    return program.with_instructions(kept)


def _way_of(program: Program, precision: str) -> Way:
    backends = sorted(program.backends())
    if len(backends) != 1 or backends[0] not in WAYS:
        raise ConfigurationError(
            f"jit: precision={precision!r} is not offered for arrays of {' and '.join(backends)}; leave it out, or use "
            f"arrays of {', '.join(sorted(WAYS))}"
        )
    return WAYS[backends[0]](precision)


# ------------------------------------------------------------------ the backends' ways


@way("numpy")
def _numpy(precision: str) -> Way:
    if precision != "float16":
        raise ConfigurationError(
            f"jit: NumPy has no {precision}; ask for precision='float16', or compute on cupy, jax or torch"
        )

    def narrow(x: Any) -> Any:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, which loss scaling looks for
            return x.astype(np.float16).astype(np.float32)

    return Way(narrow, None, np.dtype(np.float32))


@way("jax")
def _jax(precision: str) -> Way:
    jnp = sys.modules["jax.numpy"]
    dtype = getattr(jnp, precision)

    def product(x: Any, weight: Any) -> Any:
        return jnp.matmul(x, weight, preferred_element_type=jnp.float32)

    return Way(lambda x: x.astype(dtype), product, np.dtype(dtype))


@way("torch")
def _torch(precision: str) -> Way:
    """On CUDA devices products of narrow matrices with results in float32.

    Elsewhere PyTorch would round the results too, so that they are products of rounded float32 matrices there.
    """
    torch = sys.modules["torch"]
    dtype = getattr(torch, precision)
    widens = "dtype" in torch.ops.aten.mm.overloads()

    def narrow(x: Any) -> Any:
        x = x.to(dtype)
        return x if x.is_cuda and widens else x.float()

    def product(x: Any, weight: Any) -> Any:
        if x.dtype != dtype:
            return torch.matmul(x, weight)
        if x.ndim >= 2 and weight.ndim == 2:
            rows = torch.mm(x.reshape(-1, x.shape[-1]), weight, out_dtype=torch.float32)
            return rows.reshape(*x.shape[:-1], weight.shape[-1])
        if x.ndim == weight.ndim == 3 and x.shape[0] == weight.shape[0]:
            return torch.bmm(x, weight, out_dtype=torch.float32)
        return torch.matmul(x.float(), weight.float())

    return Way(narrow, product, dtype)
