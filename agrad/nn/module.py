"""Module: the base class of layers and models."""

from typing import TYPE_CHECKING, Any, ClassVar, Self

import agrad
from agrad.engine.scalars import Stateful
from agrad.errors import ConfigurationError, DtypeError
from agrad.faces import complete_docstring
from agrad.nn.hooks import Hooked
from agrad.nn.html import represent_html
from agrad.nn.members import ModuleMembers, walk
from agrad.nn.parameter import Parameter, marked
from agrad.nn.state import State, check_state, encoded, on_device_of, without_options

if TYPE_CHECKING:
    from typing import ParamSpec, Protocol, TypeVar, overload

    P = ParamSpec("P")
    R = TypeVar("R")
    R_co = TypeVar("R_co", covariant=True)

    class _HasForward(Protocol[P, R_co]):
        _hooks: Any

        def forward(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


__all__ = ["ArrayModule", "Module", "check_state", "encoded", "on_device_of", "without_options"]

_FLOATING = ("real floating", "complex floating")
_DTYPES = [
    agrad.DType(name, "", 0)
    for bits in (8, 16, 32, 64, 128)
    for name in (f"int{bits}", f"uint{bits}", f"float{bits}", f"bfloat{bits}", f"complex{bits}")
]
"""Names of dtypes, which compare equal to dtypes of that name of any library."""


class _Layer:
    """Parameters that layers share.

    Parameters
    ----------
    rng : agrad.random.Generator, numpy.random.Generator or None
        Source of the initial values and of dropout seeds. By default, the generator that ``nn.manual_seed`` seeds.
    dtype, backend, device
        dtype, backend and device of parameters and buffers. By default, float32, the selected backend and its default
        device.
    """


class Module(Stateful, ModuleMembers, State, Hooked):
    """Base class of layers and models, with parameters set in ``__init__``.

    An attribute that is a ``Parameter`` or another leaf Tensor that requires a gradient is a parameter. Any other leaf
    Tensor is a buffer, which is saved and moved but not trained. Attributes can also be modules, and lists, tuples and
    dicts of modules and Tensors. Attributes whose names start with an underscore are ignored, unless they are a Module,
    a ``Parameter`` or a ``Buffer``. A Tensor or Module that occurs twice counts once.

    Examples
    --------
    >>> class Scale(agrad.nn.Module):
    ...     def __init__(self):
    ...         self.factor = agrad.nn.Parameter(np.array(2.0))
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> model = Scale()
    >>> model(np.array([1.0, 3.0])).sum().backward()
    >>> model.factor.grad
    Tensor(4.0, dtype=float64, backend=numpy, device=cpu)
    """

    traced_attributes: ClassVar[tuple[str, ...]] = ()
    """Attributes, other than Tensors, that calls change.

    A compiled function reads and writes them at each call. It is retraced if another attribute changes.
    """

    torch_transposed: tuple[str, ...] = ()
    """Names of parameters whose last two axes are swapped in PyTorch."""

    training: bool = True
    """True in training mode. Set it with ``train()`` and ``eval()``."""

    def __init_subclass__(cls, *, otherwise: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        complete_docstring(cls, *cls.__mro__[1:-1], _Layer, otherwise=otherwise)

    def torch_counts(self) -> dict[str, int]:
        """Return the counts that the PyTorch module saves.

        Returns
        -------
        dict of str to int
            Counts by name. Counts that are also in ``host_state`` are loaded with PyTorch weights.
        """
        return {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output. Each subclass defines this method.

        Parameters
        ----------
        *args, **kwargs : any
            Arguments of the call.

        Returns
        -------
        any
            Output, usually an array.
        """
        raise ConfigurationError(f"{type(self).__name__} does not define forward(self, x), so you cannot call it")

    def __call__(self: "_HasForward[P, R]", *args: "P.args", **kwargs: "P.kwargs") -> "R":
        return self.forward(*args, **kwargs) if self._hooks is None else self._hooks.call(self, args, kwargs)

    # ------------------------------------------------------------------ modes

    def train(self, mode: bool = True) -> Self:
        """Set ``training`` of this module and all its submodules.

        Parameters
        ----------
        mode : bool
            True for training mode, False for evaluation mode.

        Returns
        -------
        this module

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(2, 2), agrad.nn.Dropout(0.5)).eval()
        >>> model.train()[1].training
        True
        """
        for module in self.modules():
            module.training = bool(mode)
        return self

    def eval(self) -> Self:
        """Switch to evaluation mode, like ``train(False)``.

        Returns
        -------
        this module

        Examples
        --------
        >>> agrad.nn.Dropout(0.5).eval().training
        False
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Unfreeze or freeze all parameters.

        A frozen parameter is still included in ``parameters()``, but receives no gradient.

        Parameters
        ----------
        requires_grad : bool
            False to freeze the parameters.

        Returns
        -------
        this module

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(2, 2), agrad.nn.Linear(2, 1))
        >>> _ = model[0].requires_grad_(False)
        >>> [p.requires_grad for p in model.parameters()]
        [False, False, True, True]
        """
        for tensor in self.parameters():
            marked(tensor, Parameter).requires_grad = bool(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zeros.

        Parameters
        ----------
        set_to_none : bool
            False to replace existing gradients with zeros.

        Examples
        --------
        >>> layer = agrad.nn.Linear(2, 1, dtype=agrad.float64)
        >>> layer(np.ones(2)).sum().backward()
        >>> layer.zero_grad()
        >>> layer.weight.grad is None
        True
        """
        for tensor in self.parameters():
            kept = None if set_to_none else tensor.grad
            tensor.grad = None if kept is None else agrad.zeros_like(kept.detach())

    # ------------------------------------------------------------------ device and dtype

    def to(self, target: Any = None, dtype: Any = None) -> Self:
        """Move parameters and buffers to a backend or device, or cast them.

        The Tensor objects remain the same, without their gradients. Create optimizers after the move, because their
        state is not moved. A cast changes only floating-point values.

        Parameters
        ----------
        target : str, device or dtype, optional
            Name of a backend, a device as for ``Tensor.to``, or a dtype.
        dtype : dtype, optional
            Floating-point dtype. Integer and Boolean Tensors keep their dtypes.

        Returns
        -------
        this module

        Raises
        ------
        BackendUnavailableError, DeviceUnavailableError
            If the target is not available. Nothing is changed in this case.
        DtypeError
            If the dtype is not floating-point, or a complex value would be cast to a real dtype. Nothing is changed in
            this case.

        Examples
        --------
        >>> layer = agrad.nn.Linear(2, 1).to(dtype=np.float64)
        >>> layer.weight.dtype
        agrad.float64
        """
        if target is not None and any(known == target for known in _DTYPES):
            if dtype is not None:
                raise ConfigurationError(f"to: at most one dtype must be passed, got {target!r} and {dtype!r}")
            target, dtype = None, target
        found = self._tensors()
        moved = [tensor.detach() if target is None else tensor.detach().to(target) for _, tensor in found]
        if dtype is not None:
            names = [name for name, _ in found]
            moved = _cast(names, moved, dtype)
        for (_, tensor), value in zip(found, moved, strict=True):
            if value.raw is not tensor.data:
                tensor.data = value.raw
                tensor.grad = None
        return self

    def astype(self, dtype: Any, /) -> Self:
        """Cast floating-point parameters and buffers, like ``to(dtype=dtype)``.

        Parameters
        ----------
        dtype : dtype
            Floating-point dtype.

        Returns
        -------
        this module

        Examples
        --------
        >>> agrad.nn.Linear(2, 1).astype(np.float64).weight.dtype
        agrad.float64
        """
        return self.to(None, dtype)

    def float(self) -> Self:
        """Cast floating-point parameters and buffers to float32.

        Returns
        -------
        this module

        Examples
        --------
        >>> agrad.nn.Linear(2, 1, dtype=np.float64).float().weight.dtype
        agrad.float32
        """
        return self.to(None, "float32")

    def double(self) -> Self:
        """Cast floating-point parameters and buffers to float64.

        Returns
        -------
        this module

        Examples
        --------
        >>> agrad.nn.Linear(2, 1).double().weight.dtype
        agrad.float64
        """
        return self.to(None, "float64")

    def half(self) -> Self:
        """Cast floating-point parameters and buffers to float16.

        Returns
        -------
        this module

        Examples
        --------
        >>> agrad.nn.Linear(2, 1).half().weight.dtype
        agrad.float16
        """
        return self.to(None, "float16")

    def bfloat16(self) -> Self:
        """Cast floating-point parameters and buffers to bfloat16, where supported.

        Returns
        -------
        this module
        """
        return self.to(None, "bfloat16")

    # ------------------------------------------------------------------ display

    def settings(self) -> str:
        """Return the options of a module without submodules for its ``repr``.

        Returns
        -------
        str, such as ``"p=0.5"``
        """
        return ""

    def _text(self) -> str:
        rows = [part for part in walk(self, once=False) if isinstance(part.value, Module)]
        depths = [part.depth for part in rows[1:]] + [0]
        lines = []
        for (_, module, _, key, depth), after in zip(rows, depths, strict=True):
            label, name = f"{key}: " if depth else "", type(module).__name__
            lines.append("  " * depth + label + (f"{name}(" if after > depth else f"{name}({module.settings()})"))
            lines += ["  " * closed + ")" for closed in range(depth - 1, after - 1, -1)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        count = sum(tensor.size for tensor in self.parameters())
        return self._text() + (f"  # {count:,} parameters" if count else "")

    def _repr_html_(self) -> str:
        return represent_html(self)


class ArrayModule(Module):
    """Module of one array, whose result is a Tensor if the array is a Tensor.

    It differs from ``Module`` only for type checkers.
    """

    if TYPE_CHECKING:
        _overloaded: None

        @overload
        def __call__(self, x: agrad.Tensor, /) -> agrad.Tensor: ...
        @overload
        def __call__(self, x: Any, /) -> Any: ...
        def __call__(self, x: Any, /) -> Any: ...


def _cast(names: list[str], tensors: list[agrad.Tensor], dtype: Any) -> list[agrad.Tensor]:
    """Return constant Tensors, the floating-point ones cast to a dtype."""
    backend = tensors[0].backend if tensors else "numpy"
    try:
        new = agrad.zeros((1,), dtype=dtype, backend=backend).dtype
    except (AttributeError, TypeError) as error:
        raise DtypeError(f"backend {backend!r} does not support the dtype {dtype!r}") from error
    if new.kind not in _FLOATING:
        raise DtypeError(f"a module can be cast only to a floating-point dtype, got {new}")
    for name, tensor in zip(names, tensors, strict=True):
        if tensor.dtype.kind == "complex floating" and new.kind == "real floating":
            raise DtypeError(f"{name} cannot be cast from {tensor.dtype} to {new}, which loses its imaginary part")
    return [agrad.astype(t, new, copy=False) if t.dtype.kind in _FLOATING else t for t in tensors]
