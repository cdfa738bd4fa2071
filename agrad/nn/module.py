"""Module: a function with parameters, found among its own attributes."""

from typing import TYPE_CHECKING, Any, Self

import agrad
from agrad.engine.scalars import Stateful
from agrad.errors import ConfigurationError, DtypeError
from agrad.nn.hooks import Hooked
from agrad.nn.html import represent_html
from agrad.nn.parameter import Parameter, marked
from agrad.nn.parts import Parts, walk
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
"""Names of dtypes, each equal to the dtype of that name of any library."""


class Module(Stateful, Parts, State, Hooked):
    """A function with parameters, set in ``__init__`` and used in ``forward``.

    Among its attributes, a ``Parameter``, or another leaf Tensor that requires a gradient, is a parameter, and any
    other leaf Tensor a buffer, which is saved and moved but not trained. Modules are found in the same way, and both
    also in lists, tuples and dicts. Attributes whose names start with an underscore are left out, unless they are a
    Module, a ``Parameter`` or a ``Buffer``. A Tensor or Module found twice counts once.

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

    traced_attributes: tuple[str, ...] = ()
    """The attributes besides Tensors that calls change.

    A function made by ``agrad.jit`` reads and writes them at each call. It is traced again if another one changes.
    """

    torch_transposed: tuple[str, ...] = ()
    """Names of own parameters with the last two axes in the other order in PyTorch."""

    training: bool = True
    """True while the module is trained. Set it with ``train()`` and ``eval()``."""

    def torch_counts(self) -> dict[str, int]:
        """Return the counts that PyTorch's module of this name saves.

        Returns
        -------
        dict of str to int
            By name. Those that ``host_state`` has as well are loaded with PyTorch's weights.
        """
        return {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of a call of the module; each subclass defines its own.

        Parameters
        ----------
        *args, **kwargs : any
            The arguments of the call.

        Returns
        -------
        any
            The result, an array in most modules.
        """
        raise ConfigurationError(f"{type(self).__name__} defines no forward(self, x), so it cannot be called")

    def __call__(self: "_HasForward[P, R]", *args: "P.args", **kwargs: "P.kwargs") -> "R":
        return self.forward(*args, **kwargs) if self._hooks is None else self._hooks.call(self, args, kwargs)

    # ------------------------------------------------------------------ modes

    def train(self, mode: bool = True) -> Self:
        """Set ``training`` here and in all modules below.

        Parameters
        ----------
        mode : bool
            True to train, False to evaluate.

        Returns
        -------
        Module
            The module itself.

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
        """Switch to evaluation, as ``train(False)`` does.

        Returns
        -------
        Module
            The module itself.

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(2, 2), agrad.nn.Dropout(0.5))
        >>> model.eval()[1].training
        False
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Train all parameters, or freeze them.

        A frozen parameter stays one: it is among ``parameters()``, and gets no gradient.

        Parameters
        ----------
        requires_grad : bool
            False to freeze.

        Returns
        -------
        Module
            The module itself.

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
            False for zeros, where there is a gradient.

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
        """Move parameters and buffers to a backend or device, and cast floating ones.

        They stay the same Tensors, without their gradients. An optimizer that has taken a step holds state beside them:
        make it after moving.

        Parameters
        ----------
        target : str, device or dtype, optional
            The name of a backend, or a device, as ``Tensor.to`` takes it; or a dtype.
        dtype : dtype, optional
            A floating dtype. Integers and truth values keep theirs.

        Returns
        -------
        Module
            The module itself.

        Raises
        ------
        BackendUnavailableError, DeviceUnavailableError
            If the target cannot be used. Nothing is changed then.
        DtypeError
            If the dtype is not floating, or real where there are complex values. Nothing is changed then.

        Examples
        --------
        >>> layer = agrad.nn.Linear(2, 1).to(dtype=np.float64)
        >>> layer.weight.dtype
        agrad.float64
        """
        if target is not None and any(known == target for known in _DTYPES):
            if dtype is not None:
                raise ConfigurationError(f"to takes one dtype, not {target!r} and {dtype!r}")
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
        """Cast floating parameters and buffers, as ``to(dtype=dtype)`` does.

        Parameters
        ----------
        dtype : dtype
            A floating dtype.

        Returns
        -------
        Module
            The module itself.

        Raises
        ------
        DtypeError
            If the dtype is not floating, or real where there are complex values. Nothing is cast then.

        Examples
        --------
        >>> agrad.nn.Linear(2, 1).astype(np.float64).weight.dtype
        agrad.float64
        """
        return self.to(None, dtype)

    def float(self) -> Self:
        """Cast floating parameters and buffers to float32.

        Returns
        -------
        Module
            The module itself.

        Examples
        --------
        >>> agrad.nn.Linear(2, 1, dtype=np.float64).float().weight.dtype
        agrad.float32
        """
        return self.to(None, "float32")

    def double(self) -> Self:
        """Cast floating parameters and buffers to float64.

        Returns
        -------
        Module
            The module itself.

        Examples
        --------
        >>> agrad.nn.Linear(2, 1).double().weight.dtype
        agrad.float64
        """
        return self.to(None, "float64")

    def half(self) -> Self:
        """Cast floating parameters and buffers to float16.

        Returns
        -------
        Module
            The module itself.

        Examples
        --------
        >>> agrad.nn.Linear(2, 1).half().weight.dtype
        agrad.float16
        """
        return self.to(None, "float16")

    def bfloat16(self) -> Self:
        """Cast floating parameters and buffers to bfloat16, on backends that have it.

        Returns
        -------
        Module
            The module itself.
        """
        return self.to(None, "bfloat16")

    # ------------------------------------------------------------------ display

    def settings(self) -> str:
        """Return the text in parentheses of the ``repr`` of a module without modules.

        Returns
        -------
        str
            The settings, such as ``"p=0.5"``.
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
    """A module of one array, whose result is a Tensor where the array is one.

    The difference from ``Module`` is for type checkers alone.
    """

    if TYPE_CHECKING:
        _overloaded: None

        @overload
        def __call__(self, x: agrad.Tensor, /) -> agrad.Tensor: ...
        @overload
        def __call__(self, x: Any, /) -> Any: ...
        def __call__(self, x: Any, /) -> Any: ...


def _cast(names: list[str], tensors: list[agrad.Tensor], dtype: Any) -> list[agrad.Tensor]:
    """Return constant Tensors, the floating ones with another dtype."""
    backend = tensors[0].backend if tensors else "numpy"
    try:
        new = agrad.zeros((1,), dtype=dtype, backend=backend).dtype
    except (AttributeError, TypeError) as error:
        raise DtypeError(f"{backend} has no dtype {dtype!r}") from error
    if new.kind not in _FLOATING:
        raise DtypeError(f"a module is cast to a floating dtype, which can be trained, not to {new}")
    for name, tensor in zip(names, tensors, strict=True):
        if tensor.dtype.kind == "complex floating" and new.kind == "real floating":
            raise DtypeError(f"{name} is {tensor.dtype}, so a cast to {new} would lose its imaginary part")
    return [agrad.astype(t, new, copy=False) if t.dtype.kind in _FLOATING else t for t in tensors]
