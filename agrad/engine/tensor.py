"""Tensor: an array that knows the operation that made it.

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
"""What NumPy makes of an object that is no array."""


class Tensor(NumPyOperand):
    """An array of the array API standard that knows the operation that made it.

    ``data`` is the raw array of the backend (or, inside nested transforms, a Tensor of an older level), ``level``
    is the level that records it, and ``node`` its place on the tape, None for a constant.
    Make one with ``agrad.asarray``; the class takes no arguments.

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
    """The operation without a derivative that made this constant of a recorded Tensor; unset on all others."""
    _grad: "Tensor | Callable[[], Tensor] | None"
    """The gradient, or a function that computes it when it is first read."""
    _link: Any
    """The link of a view to its base (see ``views``), unset on results that are none."""
    _role: type
    """The role of a leaf in a module, ``nn.Parameter`` or ``nn.Buffer``; unset on all others."""

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

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return CALLS["array_namespace"](self, api_version)

    def numpy(self) -> np.ndarray:
        """Return the values as a NumPy array, copied from the device if necessary.

        Returns
        -------
        numpy.ndarray
            Of the same shape and dtype.

        Raises
        ------
        DetachError
            If the Tensor requires a gradient: use ``.detach().numpy()``.

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
            It carries no gradient.

        Raises
        ------
        DetachError
            If a transform differentiates the Tensor: use ``.detach().item()``. The result of recorded operations
            outside of transforms, such as a loss, may be read.

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
        """True if operations on this Tensor are recorded. Settable on leaves."""
        if type(self) is Tensor and not self.level.ended:
            return self.node is not None
        return self._recorded() is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
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

    def _recorded(self) -> "Tensor | None":
        """Return the newest Tensor inside, or this one, on which a derivative is recorded."""
        found = strip_constant_levels(self)
        while isinstance(found, BatchedTensor):
            found = strip_constant_levels(found.data)
        return found if isinstance(found, Tensor) and found.level.derivative else None

    @property
    def is_leaf(self) -> bool:
        """True if no recorded operation made this Tensor."""
        return self.node is None or (type(self.node) is Node and self.node.plan is LEAF)

    @property
    def grad(self) -> "Tensor | Any":
        """The sum of the gradients of all backward passes, or None before the first.

        Kept on leaves, and on other Tensors after ``retain_grad()``.
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
        """Add this Tensor's gradient to ``.grad`` of every leaf that it was made from.

        Parameters
        ----------
        gradient : array, optional
            The cotangent of this Tensor, of its shape and dtype. None: 1, for a Tensor of one element.
        retain_graph : bool
            Keep the values on the tape for another pass.
        create_graph : bool
            Record the pass itself: gradients can be differentiated again. Implies ``retain_graph``.

        Raises
        ------
        NotDifferentiableError
            If nothing recorded this Tensor, or it belongs to a transform.
        GraphFreedError
            If an earlier pass freed the values.
        ShapeError, DtypeError, MixedBackendsError
            If ``gradient`` is not like this Tensor.

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
        """Make backward passes keep the gradient of this non-leaf Tensor in ``.grad``.

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
        """Call ``hook`` in backward passes with the whole gradient of this Tensor.

        Parameters
        ----------
        hook : callable
            A function of the gradient. A result other than None replaces it, and has its shape and dtype.

        Returns
        -------
        HookHandle
            Its ``remove()`` removes the hook.

        Raises
        ------
        NotDifferentiableError
            If this Tensor requires no gradient.

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
        """Return the present values as a constant for every derivative.

        Inside of nested transforms it is a constant for all of them. Members that ``vmap`` maps over stay mapped.

        Returns
        -------
        Tensor
            Later writes to either Tensor do not change the other.

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
        """The operation that made this Tensor, or None for a leaf.

        It has the attributes ``.name``, ``.args`` and ``.settings``.
        """
        return CALLS["op"](self)

    @property
    def parents(self) -> "tuple[Tensor, ...]":
        """The operands of ``op`` that a derivative flows to."""
        return CALLS["parents"](self)

    @property
    def grad_fn(self) -> Any:
        """The pullback of ``op``, or None for a leaf.

        Called with a cotangent, it returns those of ``parents``.
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
        """Raise for a value without a number, and for one that a transform differentiates."""
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
        # a test in Python selects a branch and enters no value, so no gradient is lost: requires_grad is allowed
        if self.size != 1:
            raise TypeError(
                f"bool(): the Tensor must have one element, got shape {self.shape}. Use agrad.any or agrad.all."
            )
        self._check_concrete("bool()")
        return bool(self._item())

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory on a CUDA device, for Numba, CuPy and others.

        The attribute does not exist for any other memory. Raises ``HiddenMemoryError``, a ``DetachError``, for a Tensor
        that requires a gradient or is traced: ``hasattr`` is then False, and CuPy's arrays leave their operators to the
        Tensor instead of computing on its memory.
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
        if CALLS["is_no_array_to"](sys._getframe(1)):
            return _NO_ARRAY
        self._check_detached("numpy.asarray()")
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

    # ------------------------------------------------------------------ indexing and change in place

    def assign(self, raw: Any) -> None:
        """Replace the values by an array of the same shape and dtype.

        Optimizers update leaves in this way. Nothing is recorded and the leaf remains the same leaf; graphs recorded
        before keep the old values.

        Parameters
        ----------
        raw : array or Tensor
            An array of the Tensor's backend, shape and dtype. Of a Tensor, the values.

        Raises
        ------
        OperandError
            If shape or dtype differ, or ``vmap`` maps the array.

        Examples
        --------
        >>> x = agrad.asarray([1.0, 2.0], requires_grad=True)
        >>> x.assign(np.asarray([3.0, 4.0]))
        >>> x
        Tensor([3.0, 4.0], dtype=float64, backend=numpy, device=cpu, requires_grad=True)
        """
        if not hasattr(raw, "shape"):
            raise OperandError(f"assign: raw must be an array, got {described(raw)}")
        if isinstance(raw, Tensor):
            raw = raw.bare
            if isinstance(raw, BatchedTensor):
                raise OperandError("assign: raw must not be mapped by vmap. Write the values: x[...] = values.")
        if raw.shape != self.data.shape or raw.dtype != self.data.dtype:
            raise OperandError(
                f"assign: raw must have dtype {self.dtype} and shape {self.shape}, got {as_dtype(raw.dtype)} and "
                f"{tuple(raw.shape)}"
            )
        trace = mode().trace
        if trace is not None:
            trace.check_known((self,))
        self.data = raw


class RecordedTensor(Tensor):
    """A Tensor that the short call path does not take.

    Its level is not a tape, or its data is another Tensor. Only its class distinguishes it, because the short path
    reads the type anyway and needs no further test.
    """

    __slots__ = ()


class BatchedTensor(RecordedTensor):
    """A Tensor of a batch level.

    Its data has one axis more than its ``shape``: the mapped axis, which comes first.
    """

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

    @property
    def requires_grad(self) -> bool:
        return self._recorded() is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._check_concrete("requires_grad")

    @property
    def is_leaf(self) -> bool:
        return False


RecordedTensor.__name__ = RecordedTensor.__qualname__ = BatchedTensor.__name__ = BatchedTensor.__qualname__ = "Tensor"


def wrap(data: Any, level: Any, node: Node | Any = None) -> Tensor:
    """Return a Tensor of ``data`` at a level.

    ``node`` is the level's record of it, None for a constant.
    """
    tensor = Tensor() if level.short and not isinstance(data, Tensor) else level.kind()
    tensor.data = data
    tensor.level = level
    tensor.node = node
    return tensor


def strip_constant_levels(value: Any) -> Any:
    """Strip the levels at which ``value`` is constant.

    Returns the raw array, or the Tensor that is recorded. A Tensor is returned in a new wrapper, because the user may
    change theirs in place before the tape is read.
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
    """Return a value without the levels that have ended (see ``Level.outlived``)."""
    while isinstance(value, Tensor) and is_over(value.level):
        value = value.level.outlived(value)
    return value
