"""Tensor: an array that remembers how it was made. Its operators look operations up by name on the lowest floor."""

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np

from agrad.backends import backend_of
from agrad.dtypes import DType, as_dtype, is_floating
from agrad.engine.protocols import NumPyOperand
from agrad.engine.tape import LEAF, Node, leaf_node, mode
from agrad.errors import AxesError, DetachError, DtypeError, HiddenMemoryError, NotDifferentiableError, OperandError
from agrad.registry import CALLS, namespace


def _binary(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    # OperandError means that agrad does not know the other operand: its own class may, so Python is told to ask it
    def method(self: "Tensor", other: Any, /) -> Any:
        try:
            return CALLS[name](self, other)
        except OperandError:
            return NotImplemented

    def reflected(self: "Tensor", other: Any, /) -> Any:
        try:
            return CALLS[name](other, self)
        except OperandError:
            return NotImplemented

    return method, reflected


def _unary(name: str) -> Callable[["Tensor"], Any]:
    def method(self: "Tensor") -> Any:
        return CALLS[name](self)

    return method


def _in_place(name: str) -> Callable[["Tensor", Any], Any]:
    def method(self: "Tensor", other: Any, /) -> Any:
        try:
            result = CALLS[name](self, other)
        except OperandError:
            return NotImplemented
        return self._rebind(result, f"in-place {name}")

    return method


class Tensor(NumPyOperand):
    """An array of the array API standard that knows the operation that made it.

    ``data`` is the raw array of the backend (or, inside nested transforms, a Tensor of an older level), ``level``
    the recording it belongs to, and ``node`` its place on the tape, None for a constant.
    Make one with ``agrad.asarray``; the class takes no arguments.
    """

    __slots__ = ("__weakref__", "_grad", "_link", "data", "level", "node")

    data: Any
    level: Any
    node: Any
    _grad: "Tensor | None"
    _link: Any
    """What makes this Tensor a view of another one (see ``views``); unset on results that never are."""

    __array_priority__: ClassVar[float] = 1e6

    # ------------------------------------------------------------------ the array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def dtype(self) -> DType:
        return as_dtype(self.data.dtype)

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def size(self) -> int:
        return math.prod(self.data.shape)

    @property
    def device(self) -> Any:
        raw = self.raw
        return backend_of(raw).device_of(raw)

    @property
    def backend(self) -> str:
        """The name of the backend that holds the array."""
        return backend_of(self.raw).name

    @property
    def raw(self) -> Any:
        """The array library's own array, under all levels. It carries no gradient."""
        data = self.data
        while isinstance(data, Tensor):
            data = data.data
        return data

    @property
    def bare(self) -> Any:
        """The array without the levels that record derivatives: raw, or traced by ``jit``."""
        data: Any = self
        while isinstance(data, Tensor) and data.level.derivative:
            data = data.data
        return data

    @property
    def T(self) -> "Tensor":
        if self.ndim != 2:
            raise AxesError(f".T is of two axes, not of shape {self.shape}; write x.mT, or agrad.permute_dims(x, axes)")
        return CALLS["permute_dims"](self, (1, 0))

    @property
    def mT(self) -> "Tensor":
        return CALLS["matrix_transpose"](self)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return namespace.module(api_version)

    def to_device(self, device: Any, /, *, stream: Any = None) -> "Tensor":
        """The same values on another device of the same backend; differentiable."""
        return CALLS["to_device"](self, device, stream=stream)

    def to(self, target: Any, /) -> "Tensor":
        """The same values on another backend (``"cupy"``) or device; differentiable."""
        return CALLS["to"](self, target)

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array, copied from the device where need be.

        Raises ``DetachError`` for a Tensor that requires a gradient: use ``.detach().numpy()``.
        """
        self._check_detached("numpy()")
        raw = self.raw
        return np.asarray(backend_of(raw).to_host(raw))

    def item(self) -> bool | int | float | complex:
        """The one value of a Tensor of one element, as a Python number. Carries no gradient."""
        self._check_concrete("item()")
        raw = self.raw
        return backend_of(raw).to_host(raw).item()

    # ------------------------------------------------------------------ the derivative

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this Tensor are recorded. Settable on leaves."""
        return self.node is not None and self.level.id >= 0

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not value:
            if not self.is_leaf:
                raise NotDifferentiableError(
                    f"requires_grad=False on the result of {self.op.name}: only leaves can be told; use .detach()"
                )
            self.node = None
        elif self.node is None:
            if not is_floating(self.data.dtype):
                raise DtypeError(
                    f"a Tensor of dtype {self.dtype} has no derivative; cast it first: agrad.astype(x, agrad.float64)"
                )
            self.node = leaf_node(self)

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this Tensor."""
        return self.node is None or (type(self.node) is Node and self.node.plan is LEAF)

    @property
    def grad(self) -> "Tensor | None":
        """The gradient that backward passes have added up, or None before the first.

        Kept on leaves, and on other Tensors after ``retain_grad()``.
        """
        return getattr(self, "_grad", None)

    @grad.setter
    def grad(self, value: "Tensor | None") -> None:
        if self.node is None:
            if value is None:
                return
            raise NotDifferentiableError("a Tensor that requires no gradient holds none; set requires_grad=True first")
        if value is not None and (not isinstance(value, Tensor) or value.shape != self.shape):
            raise OperandError(f"the gradient of a Tensor of shape {self.shape} is a Tensor of that shape")
        self._grad = value

    def zero_grad(self) -> None:
        """Forget the gradient added up so far."""
        self.grad = None

    def backward(self, gradient: Any = None, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Add the gradient of this Tensor to ``.grad`` of every leaf that it was made from.

        ``gradient`` is the cotangent of this Tensor, an array of its shape; it may be left out for a Tensor of one
        element. The values the tape keeps are freed unless ``retain_graph`` is set (``create_graph`` sets it);
        with ``create_graph`` the pass is itself recorded, so that gradients can be differentiated again.
        Raises ``NotDifferentiableError`` for a Tensor that nothing recorded, ``GraphFreedError`` on a second pass.
        """
        CALLS["backward"](self, gradient, retain_graph or create_graph, create_graph)

    def retain_grad(self) -> None:
        """Have backward passes keep this Tensor's gradient in ``.grad`` although it is no leaf."""
        CALLS["retain_grad"](self)

    def register_hook(self, hook: Any) -> Any:
        """Have backward passes call ``hook`` with this Tensor's whole gradient; what it returns, if not None, replaces
        it. Gives a handle, whose ``remove()`` takes the hook away."""
        return CALLS["register_hook"](self, hook)

    def detach(self) -> "Tensor":
        """The values as they are now, as a constant. What is written into either later does not show in the other."""
        return constant(self.data, self.level) if self.level.id >= 0 else self

    @property
    def op(self) -> Any:
        """The operation that made this Tensor (``.name``, ``.args``, ``.settings``), or None for a leaf."""
        return CALLS["inspect_op"](self)

    @property
    def parents(self) -> "tuple[Tensor, ...]":
        """The operands of ``op`` that a derivative flows to."""
        return CALLS["inspect_parents"](self)

    @property
    def grad_fn(self) -> Any:
        """The pullback of ``op``: called with a cotangent, it gives those of ``parents``. None for a leaf."""
        return CALLS["inspect_grad_fn"](self)

    # ------------------------------------------------------------------ conversions

    def _check_concrete(self, what: str) -> None:
        self.level.check_concrete(self, what)

    def _check_detached(self, what: str) -> None:
        self._check_concrete(what)
        if self.node is not None:
            raise CALLS["detach_error"](what)

    def _number(self, what: str) -> Any:
        self._check_detached(what)
        if self.ndim:
            raise TypeError(f"{what} takes a Tensor of no dimensions, not one of shape {self.shape}")
        return self.item()

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    def __index__(self) -> int:
        if is_floating(self.data.dtype) or self.dtype.kind == "bool":
            raise TypeError(f"a Tensor of dtype {self.dtype} is no index; it takes an integer one")
        return int(self._number("an index"))

    def __bool__(self) -> bool:
        # a comparison or a test steers Python and not a value, so nothing of a gradient is lost by it
        if self.size != 1:
            raise TypeError(f"the truth of a Tensor of shape {self.shape} is ambiguous; use agrad.any() or agrad.all()")
        self._check_concrete("bool()")
        return bool(self.item())

    def __dlpack__(
        self, /, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """The memory as a DLPack capsule, for another library's ``from_dlpack``; the settings are the standard's.

        Raises ``DetachError`` for a Tensor that requires a gradient, which the capsule cannot carry.
        """
        self._check_detached("__dlpack__()")
        asked = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        # what is not asked for is left out, as libraries differ in what they know
        return self._dlpack("__dlpack__")(**{name: value for name, value in asked.items() if value is not None})

    def __dlpack_device__(self) -> tuple[Any, int]:
        """The kind of device and its number, by DLPack's own count."""
        self._check_concrete("__dlpack_device__()")
        return self._dlpack("__dlpack_device__")()

    def _dlpack(self, name: str) -> Any:
        found = getattr(self.raw, name, None)
        if found is None:
            raise BufferError(f"arrays of {self.backend!r} hand out no memory; move this one first: x.to('numpy')")
        return found

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory on a CUDA device, for Numba, CuPy and others; there is no such attribute for any other memory.

        Raises ``HiddenMemoryError``, a ``DetachError``, for a Tensor that requires a gradient: there ``hasattr`` says
        no, so that CuPy's arrays leave their operators to the Tensor and do not compute on its memory.
        """
        found = getattr(self.raw, "__cuda_array_interface__", None)
        if found is None:
            raise AttributeError(f"a Tensor on {self.backend!r} has no __cuda_array_interface__ here")
        try:
            self._check_detached("__cuda_array_interface__")
        except DetachError as error:
            raise HiddenMemoryError(str(error)) from None
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self._check_detached("numpy.asarray()")
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a Tensor of no dimensions has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator["Tensor"]:
        if not self.ndim:
            raise TypeError("a Tensor of no dimensions cannot be iterated over")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool(CALLS["any"](CALLS["equal"](self, value)))

    def __repr__(self) -> str:
        return CALLS["inspect_repr"](self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.size == 1 else repr(self)

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.is_leaf:
            raise DetachError("a Tensor made by a recorded operation cannot be copied or pickled; use .detach()")
        return CALLS["inspect_rebuild"], (self.raw, self.requires_grad)

    def __deepcopy__(self, memo: Any) -> "Tensor":
        """A copy of the values: of a leaf another leaf, of a recorded result a result that is recorded too."""
        if not self.is_leaf:
            return CALLS["astype"](self, self.dtype, copy=True)
        return CALLS["inspect_rebuild"](deepcopy(self.raw, memo), self.requires_grad)

    # ------------------------------------------------------------------ indexing and change in place

    def __getitem__(self, index: Any, /) -> "Tensor":
        return CALLS["getitem"](self, index)

    def __setitem__(self, index: Any, value: Any, /) -> None:
        CALLS["check_writable"](self, "x[i] = v")
        self._rebind(CALLS["setitem"](self, value, index), "x[i] = v")
        self._link = getattr(self, "_link", None)  # from now on an array, of no dimensions too

    def _rebind(self, result: Any, what: str) -> Any:
        return CALLS["write"](self, result, what)

    def assign(self, raw: Any) -> None:
        """Put a raw array of the same shape and dtype in the place of the values: how an optimizer updates a leaf.

        Nothing is recorded and the leaf stays the leaf it is; graphs recorded before keep the old values.
        """
        if raw.shape != self.data.shape or raw.dtype != self.data.dtype:
            raise OperandError(
                f"assign takes an array like the one it replaces, {self.dtype}{self.shape}, "
                f"not {as_dtype(raw.dtype)}{tuple(raw.shape)}"
            )
        trace = mode().trace
        if trace is not None:
            trace.meet((self,))
        self.data = raw

    # ------------------------------------------------------------------ operators

    __hash__ = object.__hash__

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("subtract")
    __mul__, __rmul__ = _binary("multiply")
    __truediv__, __rtruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide")
    __mod__, __rmod__ = _binary("remainder")
    __pow__, __rpow__ = _binary("pow")
    __matmul__, __rmatmul__ = _binary("matmul")
    __and__, __rand__ = _binary("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor")
    __lshift__, __rlshift__ = _binary("bitwise_left_shift")
    __rshift__, __rrshift__ = _binary("bitwise_right_shift")
    __lt__, _ = _binary("less")
    __le__, _ = _binary("less_equal")
    __gt__, _ = _binary("greater")
    __ge__, _ = _binary("greater_equal")
    __eq__, _ = _binary("equal")
    __ne__, _ = _binary("not_equal")
    del _

    __neg__ = _unary("negative")
    __pos__ = _unary("positive")
    __abs__ = _unary("abs")
    __invert__ = _unary("bitwise_invert")

    __iadd__ = _in_place("add")
    __isub__ = _in_place("subtract")
    __imul__ = _in_place("multiply")
    __itruediv__ = _in_place("divide")
    __ifloordiv__ = _in_place("floor_divide")
    __imod__ = _in_place("remainder")
    __ipow__ = _in_place("pow")
    __imatmul__ = _in_place("matmul")
    __iand__ = _in_place("bitwise_and")
    __ior__ = _in_place("bitwise_or")
    __ixor__ = _in_place("bitwise_xor")
    __ilshift__ = _in_place("bitwise_left_shift")
    __irshift__ = _in_place("bitwise_right_shift")


class Lifted(Tensor):
    """A Tensor that the short call path does not take: of another level than a tape, or around another Tensor.

    Only its class tells it apart, so that the short path pays nothing for the question.
    """

    __slots__ = ()


class Batched(Lifted):
    """A Tensor of a batch level: its data has one more axis than it shows, the mapped one, in front."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        data, axes = self, 0
        while type(data) is Batched:
            data, axes = data.data, axes + 1
        return tuple(data.shape)[axes:]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def requires_grad(self) -> bool:
        """Whether an older level records what becomes of the members."""
        return isinstance(self.data, Tensor) and self.data.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._check_concrete("requires_grad")

    @property
    def is_leaf(self) -> bool:
        return False

    def detach(self) -> "Tensor":
        """The same members as constants; they stay mapped."""
        return wrap(self.data.detach() if isinstance(self.data, Tensor) else self.data, self.level, self.node)


Lifted.__name__ = Lifted.__qualname__ = Batched.__name__ = Batched.__qualname__ = "Tensor"


def wrap(data: Any, level: Any, node: Node | Any = None) -> Tensor:
    """A Tensor of ``data`` at a level; ``node`` is what the level records, None for a constant."""
    tensor = Tensor() if level.short and not isinstance(data, Tensor) else level.kind()
    tensor.data = data
    tensor.level = level
    tensor.node = node
    return tensor


def constant(data: Any, level: Any) -> Tensor:
    """A Tensor that no derivative flows to."""
    return wrap(data, level)


def settle(value: Any) -> Any:
    """``value`` without the levels at which it is a constant: the raw array, or the Tensor that is recorded.

    The latter as another object: the given one is the user's, and may stand for something else before the tape is read.
    """
    while isinstance(value, Tensor):
        if value.node is not None:
            return wrap(value.data, value.level, value.node)
        value = value.data
    return value
