"""The operators of a Tensor, and its methods that are operations."""

import sys
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from agrad.engine.explain import NOT_IN_BLOCKS
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.tape import is_recording, mode
from agrad.engine.tensor import BatchedTensor, Tensor, strip_constant_levels, wrap
from agrad.engine.views import check_writable, is_scalar, write
from agrad.errors import AxesError, OperandError, ReadOnlyViewError, RefusedFunctionError
from agrad.ops import discrete, elementwise
from agrad.ops.casting import astype
from agrad.ops.indexing import get_at, set_at
from agrad.ops.linear_algebra import matmul
from agrad.ops.manipulation import matrix_transpose, permute_dims
from agrad.ops.searching import any as any_
from agrad.ops.transfer import rebuild, to, to_device
from agrad.registry import CALLS

Method = Callable[..., Any]

ARITHMETIC: dict[str, Method] = {
    "add": elementwise.add,
    "sub": elementwise.subtract,
    "mul": elementwise.multiply,
    "truediv": elementwise.divide,
    "floordiv": discrete.floor_divide,
    "mod": elementwise.remainder,
    "pow": elementwise.pow,
    "matmul": matmul,
    "and": discrete.bitwise_and,
    "or": discrete.bitwise_or,
    "xor": discrete.bitwise_xor,
    "lshift": discrete.bitwise_left_shift,
    "rshift": discrete.bitwise_right_shift,
}
"""Operators with a reflected and an in-place form."""

COMPARISONS: dict[str, Method] = {
    "lt": discrete.less,
    "le": discrete.less_equal,
    "gt": discrete.greater,
    "ge": discrete.greater_equal,
    "eq": discrete.equal,
    "ne": discrete.not_equal,
}


def install(kind: type[Tensor]) -> None:
    """Define the operators of the class of Tensors."""
    methods: dict[str, Any] = {
        "__neg__": elementwise.negative,
        "__pos__": elementwise.positive,
        "__abs__": elementwise.abs,
        "__invert__": discrete.bitwise_invert,
        "__getitem__": get_at,
        "__setitem__": _setitem,
        "__contains__": _contains,
        "__reduce__": _reduce,
        "__dask_graph__": _dask_graph,
        "__copy__": _copy,
        "__deepcopy__": _copy,
        "T": property(_transposed),
        "mT": property(matrix_transpose, doc="The last two axes exchanged."),
        "to": to,
        "to_device": to_device,
    }
    for name, function in ARITHMETIC.items():
        methods[f"__{name}__"] = _forward(function)
        methods[f"__r{name}__"] = _reflected(function)
        methods[f"__i{name}__"] = _in_place(function)
    for name, function in COMPARISONS.items():
        methods[f"__{name}__"] = _forward(function)
    methods |= {name: getattr(kind, name).setter(_set_part(name)) for name in ("real", "imag")}
    for name, method in methods.items():
        setattr(kind, name, method)
    for each in (kind, BatchedTensor):
        setattr(each, "shape", vars(each)["shape"].setter(_set_shape))  # noqa: B010


# after NotImplemented Python asks the class of the other operand, which may know the Tensor


def _forward(function: Method) -> Method:
    def method(self: Tensor, other: Any, /) -> Any:
        try:
            return function(self, other)
        except OperandError:
            pass  # so that an error of the next call does not name this one
        return CALLS["operator_beside"](function, self, other)

    return method


def _reflected(function: Method) -> Method:
    def method(self: Tensor, other: Any, /) -> Any:
        try:
            return function(other, self)
        except OperandError:
            pass  # so that an error of the next call does not name this one
        return CALLS["operator_beside"](function, other, self)

    return method


def _in_place(function: Method) -> Method:
    what = f"in-place {function.__name__}"

    def method(self: Tensor, other: Any, /) -> Any:
        try:
            result = function(self, other)
        except OperandError:
            result = CALLS["operator_beside"](function, self, other)
        if result is not NotImplemented and not self.shape and is_scalar(self):
            if not _keeps_derivative(self):
                return result
            self = wrap(self.data, self.level, self.node)  # other names keep their value
        return write(self, result, what)

    return method


def _keeps_derivative(scalar: Tensor) -> bool:
    """Return True if ``scalar += v`` changes only the value, because nothing is recorded."""
    held = strip_constant_levels(scalar)
    while isinstance(held, BatchedTensor):
        held = strip_constant_levels(held.data)
    recorded = isinstance(held, Tensor) and (held.level.derivative or held.level.keeps_rules)
    return recorded and not is_recording(held.level.id)


def _setitem(self: Tensor, index: Any, value: Any, /) -> None:
    check_writable(self, "x[i] = v")
    write(self, set_at(self, value, index), "x[i] = v")
    self._link = getattr(self, "_link", None)  # after a write it is an array, also a 0-D one, and not a scalar


def _set_shape(self: Tensor, value: Any, /) -> None:
    raise AttributeError(f"x.shape = s must not reshape a Tensor in place. Write x = x.reshape({value!r}).")


def _set_part(name: str) -> Method:
    what = f"x.{name} = v"

    def set_part(self: Tensor, value: Any, /) -> None:
        if self.dtype.kind == "complex floating":
            parts = {"real": elementwise.real(self), "imag": elementwise.imag(self)}
            parts[name] = set_at(parts[name], value, ...)
            write(self, elementwise.from_parts(parts["real"], parts["imag"]), what)
        elif name == "real":
            self[...] = value
        else:
            raise ReadOnlyViewError(
                f"{what}: x must be complex, got dtype {self.dtype}. Cast it to a complex dtype first."
            )

    return set_part


def _contains(self: Tensor, value: Any, /) -> bool:
    return bool(any_(discrete.equal(self, value)))


def _transposed(self: Tensor) -> Any:
    """The axes of a matrix exchanged; arrays of fewer axes are returned as they are."""
    if self.ndim > 2:
        raise AxesError(
            f".T: x must have at most 2 axes, got shape {self.shape}. Write x.mT, or agrad.permute_dims(x, axes)."
        )
    if self.ndim < 2:
        return self
    return permute_dims(self, (1, 0))


def _reduce(self: Tensor) -> tuple[Any, ...]:
    if self.level is GLOBAL_TAPE and self.is_leaf:
        self._check_concrete("pickle")
    else:
        self._check_detached("pickle")
    return rebuild, (self.raw, self.requires_grad, getattr(self, "_role", None))


def _dask_graph(self: Tensor) -> None:
    """Tell Dask that a Tensor is not a Dask collection; raise for the blocks of ``map_blocks``."""
    if sys._getframe(2).f_code.co_name == "normalize_arg":
        raise RefusedFunctionError(f"{NOT_IN_BLOCKS[0]} {NOT_IN_BLOCKS[1]}")


def _copy(self: Tensor, memo: Any = None) -> Tensor:
    """Copy a leaf into another leaf, any other Tensor as an operation does."""
    made = astype(self, self.dtype, copy=True)
    trace = mode().trace
    if not (self.is_leaf and self.level is GLOBAL_TAPE is made.level) or (trace and trace.is_stand_in(self)):
        return made
    twin = rebuild(made.data, self.node is not None, getattr(self, "_role", None))
    if self.grad is not None:
        twin.grad = deepcopy(self.grad, memo)
    return twin
