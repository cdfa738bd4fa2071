"""The NumPy and DLPack protocols, and the NumPy array methods, for Tensors.

Operators are computed directly, all others by functions that upper modules register in ``CALLS``.
"""

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from agrad.errors import OperandError
from agrad.registry import CALLS

if TYPE_CHECKING:
    from agrad.engine.tensor import Tensor

_ALIKE = (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "matmul",
    "less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
)  # fmt: skip
_OPERATORS = {np.power: "pow", **{getattr(np, name): name for name in _ALIKE}}
_LEFT = frozenset({np.ndarray, np.int64, np.float32, np.float64, np.complex128})
"""The types of left operands for which NumPy calls the ufunc of an operator with a Tensor."""

_METHODS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip", "compress", "conj",
    "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "fill", "flatten", "max", "mean", "min", "nonzero",
    "partition", "prod", "put", "ravel", "repeat", "reshape", "round", "searchsorted", "sort", "squeeze", "std", "sum",
    "swapaxes", "take", "tolist", "trace", "transpose", "var",
)  # fmt: skip
"""The NumPy array methods of Tensors, for code that calls them on any array."""


_REDUCTIONS = ("max", "mean", "min", "prod", "sum")
"""The methods that call the agrad function of the same name for real floating-point dtypes."""


def _like_numpys(name: str) -> Callable[..., Any]:
    def method(self: "NumPyOperand", *args: Any, **settings: Any) -> Any:
        return CALLS["array_method"](name, self, args, settings)

    def reduction(self: "NumPyOperand", *args: Any, **settings: Any) -> Any:
        axis_alone = not settings or (len(settings) == 1 and type(settings.get("axis")) is int)
        if not args and axis_alone and self.dtype.kind == "real floating":
            try:
                return CALLS[name](self, **settings)
            except IndexError:  # the NumPy error for an axis out of range follows
                pass
        return method(self, *args, **settings)

    found = reduction if name in _REDUCTIONS else method
    found.__name__, found.__qualname__ = name, f"Tensor.{name}"
    found.__doc__ = f"Like ``numpy.ndarray.{name}``, and differentiable if the NumPy function is."
    return found


class UfuncProtocol(property):
    """``__array_ufunc__``, which NumPy reads from the class of an operand.

    NumPy calls it with the operand. CuPy reads it from the operand. None there lets its operators defer to a Tensor
    whose memory they could read.
    """

    def __call__(self, operand: Any, ufunc: Any, method: str, /, *inputs: Any, **settings: Any) -> Any:
        """Compute a NumPy universal function, or an operator with an array on the left."""
        if method == "__call__" and not settings and type(inputs[0]) in _LEFT:
            name = _OPERATORS.get(ufunc)
            if name is not None:
                try:
                    return CALLS[name](*inputs)
                except OperandError:
                    return NotImplemented
        return CALLS["array_ufunc"](ufunc, method, inputs, settings)


def _ufuncs_of(operand: Any) -> Any:
    if hasattr(operand, "__cuda_array_interface__"):
        return None
    return functools.partial(type(operand).__array_ufunc__, operand)


class NumPyOperand:
    """The NumPy protocols and array methods of an operand."""

    __slots__ = ()

    dtype: Any

    @property
    def __pandas_priority__(self) -> int:
        """A priority above pandas classes, so that their operators defer to the Tensor.

        It is 0 for operators that write into a column, which would use NotImplemented as the result.
        """
        asker = sys._getframe(1).f_back
        return 0 if asker is not None and asker.f_code.co_name == "_inplace_method" else 5000

    __array_ufunc__: UfuncProtocol = UfuncProtocol(_ufuncs_of)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Compute any other NumPy function on Tensors."""
        return CALLS["array_function"](self, func, types, args, kwargs)

    def __divmod__(self, other: Any, /) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any, /) -> tuple[Any, Any]:
        return other // self, other % self

    @property
    def real(self) -> Any:
        """The real part, or the Tensor itself if it is real."""
        return CALLS["real"](self) if self.dtype.kind == "complex floating" else self

    @property
    def imag(self) -> Any:
        """The imaginary part, or zeros if the Tensor is real."""
        if self.dtype.kind == "complex floating":
            return CALLS["imag"](self)
        zeros = CALLS["zeros_like"](self)
        return CALLS["broadcast_to"](zeros, zeros.shape)  # read-only, as in NumPy

    @property
    def itemsize(self) -> int:
        """The number of bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self: Any) -> int:
        """The number of bytes of all elements."""
        return self.size * self.itemsize

    @property
    def strides(self: Any) -> tuple[int, ...]:
        """The bytes between neighbors along each axis, if the library has strides."""
        self._check_concrete("strides")
        return tuple(self.raw.strides)

    @property
    def flat(self) -> Any:
        """The elements in row-major order, to iterate over, read and write by index."""
        return CALLS["flat_iterator"](self)

    @flat.setter
    def flat(self, value: Any) -> None:
        CALLS["flat_iterator"](self)[:] = value

    def __round__(self: Any, digits: int | None = None) -> Any:
        return round(self._number("round()")) if digits is None else self.round(digits)

    def __dlpack__(
        self: Any, /, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """Return the memory as a DLPack capsule, for ``from_dlpack`` of another library."""
        self._check_detached("__dlpack__()")
        asked = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        # None is omitted, because not every library supports all options
        return self._dlpack("__dlpack__")(**{name: value for name, value in asked.items() if value is not None})

    def __dlpack_device__(self: Any) -> tuple[Any, int]:
        """Return the device type and device number of DLPack."""
        self._check_concrete("__dlpack_device__()")
        return self._dlpack("__dlpack_device__")()

    def _dlpack(self: Any, name: str) -> Any:
        found = getattr(self.raw, name, None)
        if found is None:
            raise BufferError(f"arrays of {self.backend!r} do not support {name}. Move this one first: x.to('numpy').")
        return found

    vars().update({name: _like_numpys(name) for name in _METHODS})

    # one assignment a line: type checkers do not declare names of chained ones
    if TYPE_CHECKING:  # the same names

        def _method(self, *args: Any, **settings: Any) -> "Tensor": ...
        def _along(self, axis: int | None = None, *args: Any, **settings: Any) -> "Tensor": ...
        def _over(self, axis: int | tuple[int, ...] | None = None, *args: Any, **settings: Any) -> "Tensor": ...

        all = _over
        any = _over
        max = _over
        mean = _over
        min = _over
        prod = _over
        squeeze = _over
        std = _over
        sum = _over
        var = _over
        argmax = _along
        argmin = _along
        cumprod = _along
        cumsum = _along
        argpartition = _method
        argsort = _method
        astype = _method
        choose = _method
        clip = _method
        compress = _method
        conj = _method
        conjugate = _method
        copy = _method
        diagonal = _method
        dot = _method
        flatten = _method
        ravel = _method
        repeat = _method
        reshape = _method
        round = _method
        searchsorted = _method
        swapaxes = _method
        take = _method
        trace = _method
        transpose = _method

        def fill(self, value: Any) -> None: ...
        def nonzero(self) -> "tuple[Tensor, ...]": ...
        def partition(self, kth: Any, axis: int = -1) -> None: ...
        def put(self, indices: Any, values: Any, mode: str = "raise") -> None: ...
        def sort(self, *args: Any, **settings: Any) -> None: ...
        def tolist(self) -> Any: ...

        # installed by agrad.ops.operators
        def _binary(self, other: Any, /) -> "Tensor": ...

        __add__ = _binary
        __radd__ = _binary
        __sub__ = _binary
        __rsub__ = _binary
        __mul__ = _binary
        __rmul__ = _binary
        __truediv__ = _binary
        __rtruediv__ = _binary
        __floordiv__ = _binary
        __rfloordiv__ = _binary
        __mod__ = _binary
        __rmod__ = _binary
        __pow__ = _binary
        __rpow__ = _binary
        __matmul__ = _binary
        __rmatmul__ = _binary
        __and__ = _binary
        __rand__ = _binary
        __or__ = _binary
        __ror__ = _binary
        __xor__ = _binary
        __rxor__ = _binary
        __lshift__ = _binary
        __rlshift__ = _binary
        __rshift__ = _binary
        __rrshift__ = _binary
        __lt__ = _binary
        __le__ = _binary
        __gt__ = _binary
        __ge__ = _binary

        def _unary(self) -> "Tensor": ...

        __neg__ = _unary
        __pos__ = _unary
        __abs__ = _unary
        __invert__ = _unary

        def __getitem__(self, index: Any, /) -> "Tensor": ...
        def __setitem__(self, index: Any, value: Any, /) -> None: ...
        def __contains__(self, value: Any, /) -> bool: ...
        def __eq__(self, other: Any, /) -> "Tensor": ...  # type: ignore[override]
        def __ne__(self, other: Any, /) -> "Tensor": ...  # type: ignore[override]
        def to(self, where: Any, /) -> "Tensor": ...
        def to_device(self, device: Any, /, *, stream: Any = None) -> "Tensor": ...
        @property
        def T(self) -> "Tensor": ...

        mT = T
