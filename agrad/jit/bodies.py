"""Bodies: what an operation is made of, as a program, had from the one place where its formula stands.

The body of a primitive, or a rule of derivatives, is run against agrad's namespace on arrays that have the operands'
shapes and dtypes and no elements of their own: all are one number in memory. Nothing is computed at size.
"""

from typing import Any

import numpy as np

from agrad.engine.tensor import Tensor, wrap
from agrad.errors import TracedValueError
from agrad.jit.fusion import with_single_values
from agrad.jit.ir import Instruction, Program, Variable
from agrad.jit.trace import Trace
from agrad.registry import namespace
from agrad.shapes import kept_shape


class _Unknown(Exception):
    """An operation was met of whose result the shape is not known without computing it."""


class _Shapes(Trace):
    """A trace that knows shapes and dtypes alone."""

    __slots__ = ()

    def evaluate(self, primitive: Any, values: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """An array like the result: its dtype is that of a result of single elements, its shape follows from theirs."""
        shapes = [v.shape for v in values if hasattr(v, "shape")]
        if primitive.kind == "elementwise":
            shape = np.broadcast_shapes(*shapes)
        elif primitive.kind == "reduction":
            ((given,), axis) = shapes, settings["axis"]
            shape = kept_shape(given, axis)
            if not settings["keepdims"]:
                shape = tuple([n for a, n in enumerate(given) if a not in axis])
        elif primitive.kind == "product" and len(shapes) == 2:
            a, b = shapes
            shape = (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
        elif primitive.is_view:
            return primitive.evaluate(values, settings)
        else:
            raise _Unknown
        elements = [np.ones((1,) * v.ndim, v.dtype) if hasattr(v, "shape") else v for v in values]
        with np.errstate(all="ignore"):
            out = primitive.evaluate(tuple(elements), settings)
        return _filled(out, shape) if shape else out


def _filled(element: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array of one element in memory, as ``numpy.broadcast_to`` makes in ten times the time."""
    return np.ndarray(shape, element.dtype, element, strides=(0,) * len(shape))


def body_of(instruction: Instruction) -> Program | None:
    """The operations that an instruction on NumPy's arrays is made of: a program of its arrays with one output.

    None where the operation is one word of the libraries, has several results, reads anything but arrays and what
    stands in the program, or asks for more than shapes and dtypes.
    """
    operation = instruction.operation
    arrays = list(dict.fromkeys(instruction.reads()))
    if operation.outputs is not None or not arrays or not all(map(_is_numpys, arrays)):
        return None
    trace = _Shapes(instruction.name)
    given = {v: wrap(_filled(np.ones(1, v.dtype), v.shape), trace, v) for v in arrays}
    values = tuple([given[v] if isinstance(v, Variable) else v for v in instruction.operands])
    try:
        out = operation.decomposed(namespace, values, dict(instruction.settings))
    except (_Unknown, TracedValueError):
        return None
    finally:
        trace.closed = True
    if not isinstance(out, Tensor) or out.node is None or out.node in given:
        return None
    constants = {variable: raw for raw, variable in trace.constants.values()}
    body = Program(arrays, constants, trace.instructions, [out.node])
    return with_single_values(body) if constants else body


def _is_numpys(v: Variable) -> bool:
    """Whether it is one of NumPy's arrays or scalars."""
    return v.kind is not None and issubclass(v.kind, (np.ndarray, np.generic))


def in_place_of(instruction: Instruction, body: Program) -> list[Instruction]:
    """The body's instructions, which give the instruction's own result."""
    (made,), (out,) = body.outputs, instruction.results
    kept = [i.replaced({made: out}) for i in body.instructions]
    for i in kept:
        i.outputs = tuple([out if v is made else v for v in i.outputs])
    return kept
