"""Tensor: an array that records the operation that computed it.

Its methods find functions of upper modules by name in ``registry.CALLS``.
"""

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from agrad.backends import backend_of
from agrad.dtypes import DType, as_dtype, is_floating
from agrad.engine.protocols import NumPyOperand
from agrad.engine.tape import LEAF, Node, is_over, leaf_node, mode
from agrad.errors import (
    DetachError,
    DtypeError,
    HiddenMemoryError,
    NotDifferentiableError,
    OperandError,
    TracedValueError,
    described,
)
from agrad.registry import CALLS

_NO_ARRAY = np.array(None, dtype=object)
"""The NumPy array for an object that is not an array."""


class Tensor(NumPyOperand):
    """Array of the array API standard that records the operation that computed it.

    Create Tensors with ``agrad.asarray``. ``data`` is the array of the library, or, inside nested transforms, a Tensor
    of an outer transform. ``level`` is the transform that records it, and ``node`` its node on the tape, None for a
    constant.

    Examples
    --------
    >>> x = agrad.asarray([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> y = (x.T @ x).sum()
    >>> y.backward()
    >>> x.grad
    Tensor([[ 6.0,  6.0],
            [14.0, 14.0]], dtype=float64, backend=numpy, device=cpu)
    >>> isinstance(y, agrad.Tensor), y.op.name, y.item()
    (True, 'sum', 58.0)
    """

    __slots__ = ("__weakref__", "_ended", "_grad", "_link", "_role", "data", "level", "node")

    data: Any
    level: Any
    node: Any
    _ended: Any
    """The operation without a derivative that computed this constant from a recorded Tensor. Otherwise unset."""
    _grad: "Tensor | Callable[[], Tensor] | None"
    """The gradient, or a function that computes it at the first read."""
    _link: Any
    """The link of a view to its base (``views``). Otherwise unset."""
    _role: type
    """The role of a leaf in a module, ``nn.Parameter`` or ``nn.Buffer``. Otherwise unset."""

    __array_priority__: ClassVar[float] = 1e6
    __hash__ = object.__hash__

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
        """The name of the backend of the array."""
        return backend_of(self.raw).name

    @property
    def raw(self) -> Any:
        """The array of the array library, inside all transforms, without gradient."""
        data = self.data
        while isinstance(data, Tensor):
            data = data.data
        return data

    @property
    def bare(self) -> Any:
        """The plain or traced array, without the transforms that record derivatives."""
        data: Any = self
        while isinstance(data, Tensor) and data.level.derivative:
            data = data.data
        return data

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return CALLS["array_namespace"](self, api_version)

    def numpy(self) -> np.ndarray:
        """Return the values as a NumPy array, copied from the device if necessary.

        Returns
        -------
        numpy.ndarray
            Array of the same shape and dtype.

        Raises
        ------
        DetachError
            If the Tensor requires a gradient. Call ``.detach().numpy()``.

        Examples
        --------
        >>> agrad.asarray([1.0, 2.0], backend="array_api_strict").numpy()
        array([1., 2.])
        """
        self._check_detached("numpy()")
        raw = self.raw
        return np.asarray(backend_of(raw).to_host(raw))

    def item(self) -> Any:
        """Return the value of a Tensor of one element as a Python number.

        Returns
        -------
        bool, int, float or complex
            Value, without gradient.

        Raises
        ------
        DetachError
            If a transform differentiates the Tensor. Call ``.detach().item()``. Outside of transforms, you can read
            recorded results such as a loss.

        Examples
        --------
        >>> agrad.sum(agrad.asarray([1.0, 2.0])).item()
        3.0
        """
        self._check_read("item()")
        return self._item()

    def _item(self) -> Any:
        raw = self.raw
        return backend_of(raw).to_host(raw).item()

    # ------------------------------------------------------------------ the derivative

    @property
    def requires_grad(self) -> bool:
        """True if operations on this Tensor are recorded. You can set it on leaves."""
        if type(self) is Tensor and not self.level.ended:
            return self.node is not None
        return self._recorded() is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if type(self) is BatchedTensor:
            self._check_concrete("requires_grad")
        if not value:
            if not self.is_leaf:
                raise NotDifferentiableError(
                    f"requires_grad must not be set to False on the result of {self.op.name}, which is not a leaf. Use "
                    ".detach()."
                )
            self.node = None
        elif self.node is None:
            if not is_floating(self.data.dtype):
                raise DtypeError(
                    f"requires_grad: the Tensor must have a floating-point dtype, got {self.dtype}. Cast it first: "
                    "agrad.astype(x, agrad.float64)."
                )
            self.node = leaf_node(self)
            self._link = getattr(self, "_link", None)  # a 0-D leaf is an array, and no scalar

    def _recorded(self) -> "Tensor | None":
        """Return the newest Tensor, this or inside, with a recorded derivative, or None."""
        found = strip_constant_levels(self)
        while isinstance(found, BatchedTensor):
            found = strip_constant_levels(found.data)
        return found if isinstance(found, Tensor) and found.level.derivative else None

    @property
    def is_leaf(self) -> bool:
        """True if this Tensor is not the result of a recorded operation."""
        return self.node is None or (type(self.node) is Node and self.node.plan is LEAF)

    @property
    def grad(self) -> "Tensor | Any":
        """The sum of the gradients of all backward passes, or None before the first.

        It is stored for leaves, and for other Tensors after ``retain_grad()``.
        """
        found: Tensor | Callable[[], Tensor] | None = getattr(self, "_grad", None)
        if found is None:
            if not self.is_leaf and self.level.id >= 0:
                CALLS["warn_of_no_leaf"](self)
            return None
        if isinstance(found, Tensor):
            return found
        made = self._grad = found()
        return made

    @grad.setter
    def grad(self, value: "Tensor | None") -> None:
        if self.node is None:
            if value is None:
                return
            raise NotDifferentiableError("grad: the Tensor must require a gradient. Set requires_grad=True first.")
        if value is not None and (not isinstance(value, Tensor) or value.shape != self.shape):
            raise OperandError(f"grad: value must be a Tensor of shape {self.shape}, got {described(value)}")
        self._grad = value

    def zero_grad(self) -> None:
        """Set ``.grad`` to None.

        Examples
        --------
        >>> x = agrad.asarray(2.0, requires_grad=True)
        >>> (x * x).backward()
        >>> x.zero_grad()
        >>> x.grad is None
        True
        """
        self.grad = None

    def backward(self, gradient: Any = None, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Add the gradient of this Tensor to ``.grad`` of every leaf that it depends on.

        Parameters
        ----------
        gradient : array, optional
            Cotangent of this Tensor, with its shape and dtype. By default 1, for a Tensor of one element.
        retain_graph : bool
            True to keep the values on the tape for another pass.
        create_graph : bool
            True to record the pass, so that gradients can be differentiated. Implies ``retain_graph``.

        Raises
        ------
        NotDifferentiableError
            If this Tensor is not recorded, or it belongs to a transform.
        GraphFreedError
            If an earlier pass freed the values.

        Examples
        --------
        >>> x = agrad.asarray([1.0, 2.0], requires_grad=True)
        >>> agrad.sum(x**2).backward()
        >>> agrad.sum(x).backward()
        >>> x.grad
        Tensor([3.0, 5.0], dtype=float64, backend=numpy, device=cpu)
        """
        CALLS["backward"](self, gradient, retain_graph or create_graph, create_graph)

    def retain_grad(self) -> None:
        """Store the gradient of this non-leaf Tensor in ``.grad`` in backward passes.

        Examples
        --------
        >>> x = agrad.asarray([1.0, 2.0], requires_grad=True)
        >>> y = x**2
        >>> y.retain_grad()
        >>> agrad.sum(y**2).backward()
        >>> y.grad
        Tensor([2.0, 8.0], dtype=float64, backend=numpy, device=cpu)
        """
        CALLS["retain_grad"](self)

    def register_hook(self, hook: Any) -> Any:
        """Call ``hook`` in backward passes with the complete gradient of this Tensor.

        Parameters
        ----------
        hook : callable
            Function of the gradient. A result other than None replaces the gradient, with the same shape and dtype.

        Returns
        -------
        HookHandle
            Object with the method ``remove()``.

        Raises
        ------
        NotDifferentiableError
            If this Tensor does not require a gradient.

        Examples
        --------
        >>> x = agrad.asarray([1.0, 2.0], requires_grad=True)
        >>> y = x**2
        >>> handle = y.register_hook(lambda gradient: 10 * gradient)
        >>> agrad.sum(y).backward()
        >>> x.grad
        Tensor([20.0, 40.0], dtype=float64, backend=numpy, device=cpu)
        """
        return CALLS["register_hook"](self, hook)

    def detach(self) -> "Tensor":
        """Return the present values as a constant in all transforms.

        Values that ``vmap`` maps over remain mapped.

        Returns
        -------
        Tensor
            Constant. Later writes to either Tensor do not change the other.

        Examples
        --------
        >>> x = agrad.asarray(3.0, requires_grad=True)
        >>> (x * x.detach()).backward()
        >>> x.grad
        Tensor(3.0, dtype=float64, backend=numpy, device=cpu)
        """
        return CALLS["stopped"](self)

    @property
    def op(self) -> Any:
        """The operation of this Tensor, with ``name``, ``args`` and ``settings``.

        None for a leaf.
        """
        return CALLS["op"](self)

    @property
    def parents(self) -> "tuple[Tensor, ...]":
        """The operands of ``op`` with a derivative."""
        return CALLS["parents"](self)

    @property
    def grad_fn(self) -> Any:
        """The pullback of ``op``: a function that returns the cotangents of ``parents``.

        None for a leaf.
        """
        return CALLS["grad_fn"](self)

    # ------------------------------------------------------------------ conversions

    def _check_concrete(self, what: str) -> None:
        self.level.check_concrete(self, what)

    def _check_detached(self, what: str) -> None:
        try:
            self._check_concrete(what)
        except TracedValueError as error:
            CALLS["note_asker"](error, what)
            raise
        if self.requires_grad:
            raise CALLS["detach_error"](what)

    def _check_read(self, what: str) -> None:
        """Raise an error for a traced value, or one that a transform differentiates."""
        self._check_concrete(what)
        found = self._recorded()
        if found is not None and found.level.id:
            raise CALLS["detach_error"](what, f"write x.detach().{what}")

    def _number(self, what: str) -> Any:
        self._check_detached(what)
        if self.ndim:
            raise TypeError(f"{what}: the Tensor must have shape (), got {self.shape}")
        return self._item()

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    def __index__(self) -> int:
        if is_floating(self.data.dtype) or self.dtype.kind == "bool":
            raise TypeError(f"an index must have an integer dtype, got a Tensor of dtype {self.dtype}")
        return int(self._number("an index"))

    def __bool__(self) -> bool:
        # a condition selects a branch and is not part of a value, so that no gradient is lost
        if self.size != 1:
            raise TypeError(
                f"bool(): the Tensor must have one element, got shape {self.shape}. Use agrad.any or agrad.all."
            )
        self._check_concrete("bool()")
        return bool(self._item())

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory on a CUDA device, for Numba, CuPy and others.

        The attribute does not exist for other memory. For a Tensor that requires a gradient or is traced, ``hasattr``
        is False, so that operators of CuPy arrays defer to the Tensor.
        """
        found = getattr(self.raw, "__cuda_array_interface__", None)
        if found is None:
            raise AttributeError(f"a Tensor on {self.backend!r} has no __cuda_array_interface__")
        try:
            self._check_detached("__cuda_array_interface__")
        except (DetachError, TracedValueError) as error:
            raise HiddenMemoryError(str(error)) from None
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        asker = sys._getframe(1)
        if CALLS["is_no_array_to"](asker, self):
            return _NO_ARRAY
        self._check_read("numpy()") if CALLS["only_compares"](asker) else self._check_detached("numpy.asarray()")
        raw = self.raw
        return np.array(backend_of(raw).to_host(raw), dtype=dtype, copy=copy)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a Tensor of shape () is not defined")
        return self.shape[0]

    def __iter__(self) -> Iterator["Tensor"]:
        if not self.ndim:
            raise TypeError("iter() of a Tensor of shape () is not defined")
        return (self[i] for i in range(self.shape[0]))

    def __repr__(self) -> str:
        return CALLS["represent"](self)

    def _repr_html_(self) -> str:
        return CALLS["represent_html"](self)

    def __format__(self, spec: str) -> str:
        if not spec or self.size != 1:
            return repr(self)
        self._check_concrete("format()")
        return format(self._item(), spec)

    # ------------------------------------------------------------------ change in place

    def assign(self, raw: Any) -> None:
        """Replace the values by an array of the same shape and dtype.

        Optimizers update leaves with this method. It is not recorded, and graphs keep the old values.

        Parameters
        ----------
        raw : array or Tensor
            New values, of the same backend, shape and dtype.

        Examples
        --------
        >>> x = agrad.asarray([1.0, 2.0], requires_grad=True)
        >>> x.assign(np.asarray([3.0, 4.0]))
        >>> x
        Tensor([3.0, 4.0], dtype=float64, backend=numpy, device=cpu, requires_grad=True)
        """
        raw = raw.bare if isinstance(raw, Tensor) else raw
        if not hasattr(raw, "shape") or isinstance(raw, BatchedTensor):
            raise OperandError(f"assign: raw must be an array that vmap does not map, got {described(raw)}")
        if raw.shape != self.data.shape or raw.dtype != self.data.dtype:
            raise OperandError(
                f"assign: raw must have dtype {self.dtype} and shape {self.shape}, got {as_dtype(raw.dtype)} and "
                f"{tuple(raw.shape)}"
            )
        if (trace := mode().trace) is not None:
            trace.check_known((self,))
        self.data = raw


class RecordedTensor(Tensor):
    """A Tensor that the short call path does not process.

    Its level is not a tape, or its data is a Tensor. The short path tests only the class.
    """

    __slots__ = ()


class BatchedTensor(RecordedTensor):
    """A Tensor of a batch level, whose data has a batch axis before its ``shape``."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        data, axes = self, 0
        while type(data) is BatchedTensor:
            data, axes = data.data, axes + 1
        return tuple(data.shape)[axes:]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


RecordedTensor.__name__ = RecordedTensor.__qualname__ = BatchedTensor.__name__ = BatchedTensor.__qualname__ = "Tensor"


def wrap(data: Any, level: Any, node: Node | Any = None) -> Tensor:
    """Return a Tensor at a level with its record ``node`` (None: constant)."""
    tensor = Tensor() if level.short and not isinstance(data, Tensor) else level.kind()
    tensor.data = data
    tensor.level = level
    tensor.node = node
    return tensor


def strip_constant_levels(value: Any) -> Any:
    """Return the plain array, or the recorded Tensor, inside constant levels.

    A Tensor is returned in a new wrapper, because the user may write to theirs before the tape is read.
    """
    while isinstance(value, Tensor):
        level = value.level
        if level.ended and is_over(level):
            value = level.outlived(value)
        elif value.node is not None:
            return wrap(value.data, level, value.node)
        else:
            value = value.data
    return value


def present(value: Any) -> Any:
    """Return a value without the levels that have ended (``Level.outlived``)."""
    while isinstance(value, Tensor) and is_over(value.level):
        value = value.level.outlived(value)
    return value


def raw_of(value: Any) -> Any:
    """Return the plain array under all transforms; other objects unchanged."""
    return value.raw if isinstance(value, Tensor) else value
