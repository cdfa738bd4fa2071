"""Module: a function with parameters, found among its own attributes."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError, DataError, DtypeError, listed

_FLOATING = ("real floating", "complex floating")


def _join(prefix: str, name: object) -> str:
    return f"{prefix}.{name}" if prefix else str(name)


def _held(members: Iterable[tuple[Any, Any]], prefix: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield the Tensors and Modules among attributes and in their containers, by name."""
    for key, value in members:
        name = _join(prefix, key)
        if isinstance(value, (agrad.Tensor, Module)):
            yield name, value
        elif isinstance(value, (list, tuple, dict)) and id(value) not in seen:
            seen.add(id(value))
            yield from _held(value.items() if isinstance(value, dict) else enumerate(value), name, seen)


def _walk(module: "Module", prefix: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield a Module and all Modules and leaf Tensors below it, once each, by name."""
    seen.add(id(module))
    yield prefix, module
    for name, value in _held(module.members(), prefix, seen):
        if id(value) in seen:
            continue
        if isinstance(value, Module):
            yield from _walk(value, name, seen)
        elif value.is_leaf:
            seen.add(id(value))
            yield name, value


class Module:
    """A function with parameters, set in ``__init__`` and used in ``forward``.

    Among its attributes, a leaf Tensor that requires a gradient is a parameter, and any other leaf Tensor a buffer,
    which is saved and moved but not trained. Modules are found in the same way, and both also in lists, tuples and
    dicts. Names that start with an underscore are left out. A Tensor or Module found twice counts once.
    """

    traced_attributes: tuple[str, ...] = ()
    """The attributes besides Tensors that calls change.

    A function made by ``agrad.jit`` reads and writes them at each call. It is traced again if another one changes.
    """

    training: bool = True
    """True while the module is trained. Set it with ``train()`` and ``eval()``."""

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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    # ------------------------------------------------------------------ parts

    def members(self) -> Iterator[tuple[str, Any]]:
        """Return the attributes, by name, that may hold parameters, buffers and modules.

        Returns
        -------
        iterator of (str, object)
            Names and values.
        """
        return ((name, value) for name, value in vars(self).items() if not name.startswith("_"))

    def named_modules(self) -> list[tuple[str, "Module"]]:
        """Return this module, named ``""``, and all below it, by names as ``"encoder.0"``.

        Returns
        -------
        list of (str, Module)
            Each module once, in the order of attributes.
        """
        return [(name, value) for name, value in _walk(self, "", set()) if isinstance(value, Module)]

    def _tensors(self) -> list[tuple[str, agrad.Tensor]]:
        return [(name, value) for name, value in _walk(self, "", set()) if isinstance(value, agrad.Tensor)]

    def named_parameters(self) -> list[tuple[str, agrad.Tensor]]:
        """Return the parameters by names like ``"0.weight"``, in the order of attributes.

        Returns
        -------
        list of (str, Tensor)
            The leaf Tensors that require a gradient.
        """
        return [(name, tensor) for name, tensor in self._tensors() if tensor.requires_grad]

    def parameters(self) -> list[agrad.Tensor]:
        """Return the parameters, as an optimizer takes them.

        Returns
        -------
        list of Tensor
            The leaf Tensors that require a gradient.
        """
        return [tensor for _, tensor in self.named_parameters()]

    def named_buffers(self) -> list[tuple[str, agrad.Tensor]]:
        """Return the leaf Tensors that require no gradient, by name.

        Returns
        -------
        list of (str, Tensor)
            The buffers. Frozen parameters are among them.
        """
        return [(name, tensor) for name, tensor in self._tensors() if not tensor.requires_grad]

    def buffers(self) -> list[agrad.Tensor]:
        """Return the leaf Tensors that require no gradient.

        Returns
        -------
        list of Tensor
            The buffers. Frozen parameters are among them.
        """
        return [tensor for _, tensor in self.named_buffers()]

    # ------------------------------------------------------------------ modes

    def train(self, mode: bool = True) -> "Module":
        """Set ``training`` here and in all modules below.

        Parameters
        ----------
        mode : bool
            True to train, False to evaluate.

        Returns
        -------
        Module
            The module itself.
        """
        for _, module in self.named_modules():
            module.training = bool(mode)
        return self

    def eval(self) -> "Module":
        """Switch to evaluation, as ``train(False)`` does.

        Returns
        -------
        Module
            The module itself.
        """
        return self.train(False)

    def zero_grad(self) -> None:
        """Set the gradients of all parameters to None."""
        for tensor in self.parameters():
            tensor.grad = None

    # ------------------------------------------------------------------ state

    def host_state(self) -> dict[str, int]:
        """Return the saved state of this module besides Tensors.

        Returns
        -------
        dict of str to int
            Integers of 0 or more by name.
        """
        return {}

    def load_host_state(self, state: Mapping[str, int]) -> None:
        """Load a state that ``host_state`` returned.

        Parameters
        ----------
        state : mapping of str to int
            The integers by name.
        """

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return parameters, buffers and host state by name, as NumPy arrays.

        Returns
        -------
        dict of str to numpy.ndarray
            Arrays on the host that share no memory with the module.
        """
        state = {name: np.array(tensor.detach().numpy()) for name, tensor in self._tensors()}
        for prefix, module in self.named_modules():
            for key, number in module.host_state().items():
                state[_join(prefix, key)] = np.array(number, dtype=np.int64)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load values of ``state_dict``, saved on any backend.

        The values are put where the module's Tensors are now.

        Parameters
        ----------
        state : mapping of str to array
            Arrays with the names, shapes and dtypes of ``state_dict()``.

        Raises
        ------
        DataError
            If names, shapes or dtypes do not fit. The message lists them, and the module is unchanged.
        """
        arrays = {name: np.asarray(value) for name, value in state.items()}
        tensors = dict(self._tensors())
        counted = [(prefix, m, list(m.host_state())) for prefix, m in self.named_modules()]
        expected: dict[str, tuple[tuple[int, ...], str]] = {
            name: (tensor.shape, tensor.dtype.name) for name, tensor in tensors.items()
        }
        counts = [_join(prefix, key) for prefix, _, keys in counted for key in keys]
        check_state(f"the state of {type(self).__name__}", arrays, expected, counts)
        fresh = {name: on_device_of(tensor, arrays[name]) for name, tensor in tensors.items()}
        for name, tensor in tensors.items():
            tensor.assign(fresh[name])
        for prefix, module, keys in counted:
            if keys:
                module.load_host_state({key: int(arrays[_join(prefix, key)]) for key in keys})

    # ------------------------------------------------------------------ device and dtype

    def to(self, target: Any, /) -> "Module":
        """Move parameters and buffers to a backend or device, and return the module.

        They stay the same Tensors, without their gradients. An optimizer that has taken a step holds state beside them:
        make it after moving.

        Parameters
        ----------
        target : str or device
            The name of a backend, or a device, as ``Tensor.to`` takes it.

        Returns
        -------
        Module
            The module itself.

        Raises
        ------
        BackendUnavailableError, DeviceUnavailableError
            If the target cannot be used. Nothing is moved then.
        """
        tensors = [tensor for _, tensor in self._tensors()]
        return self._replace(tensors, [tensor.detach().to(target).raw for tensor in tensors])

    def astype(self, dtype: Any, /) -> "Module":
        """Cast floating parameters and buffers to another dtype, and return the module.

        They stay the same Tensors, without their gradients.

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
        """
        new = agrad.zeros((1,), dtype=dtype, backend="numpy").dtype
        kind = new.kind
        if kind not in _FLOATING:
            raise DtypeError(f"a module is cast to a floating dtype, which can be trained, not to {new}")
        found = [(name, tensor) for name, tensor in self._tensors() if tensor.dtype.kind in _FLOATING]
        for name, tensor in found:
            if tensor.dtype.kind != kind and kind == "real floating":
                raise DtypeError(f"{name} is {tensor.dtype}, so a cast to {new} would lose its imaginary part")
        tensors = [tensor for _, tensor in found]
        return self._replace(tensors, [agrad.astype(tensor.detach(), new).raw for tensor in tensors])

    def _replace(self, tensors: list[agrad.Tensor], raws: list[Any]) -> "Module":
        for tensor, raw in zip(tensors, raws, strict=True):
            tensor.data = raw
            tensor.grad = None
        return self

    # ------------------------------------------------------------------ display

    def settings(self) -> str:
        """Return the text in parentheses of the ``repr`` of a module without modules.

        Returns
        -------
        str
            The settings, such as ``"p=0.5"``.
        """
        return ""

    def _text(self, indent: str) -> str:
        inner = indent + "  "
        held = _held(self.members(), "", set())
        lines = [f"{inner}{name}: {value._text(inner)}" for name, value in held if isinstance(value, Module)]
        if not lines:
            return f"{type(self).__name__}({self.settings()})"
        return f"{type(self).__name__}(\n" + "\n".join(lines) + f"\n{indent})"

    def __repr__(self) -> str:
        count = sum(tensor.size for tensor in self.parameters())
        return self._text("") + (f"  # {count:,} parameters" if count else "")


def check_state(
    what: str,
    arrays: Mapping[str, np.ndarray],
    expected: Mapping[str, tuple[tuple[int, ...], str]],
    counts: Collection[str],
) -> None:
    """Raise ``DataError`` unless arrays have the expected names, shapes and dtypes.

    Those named in ``counts`` are one integer of 0 or more each.
    """
    expected = {**expected, **dict.fromkeys(counts, ((), "int64"))}
    problems = []
    for name, (shape, dtype) in expected.items():
        found = arrays.get(name)
        if found is None:
            problems.append(f"{name}: expected {dtype} of shape {shape}, found none")
        elif found.shape != shape or found.dtype.name != dtype:
            problems.append(f"{name}: expected {dtype} of shape {shape}, found {found.dtype.name} of {found.shape}")
        elif name in counts and found < 0:
            problems.append(f"{name}: expected 0 or more, found {found}")
    problems += [f"{name}: not expected" for name in arrays if name not in expected]
    if problems:
        raise DataError(f"{what} was not loaded:\n  " + listed(problems, 8, "\n  ", 150))


def on_device_of(tensor: agrad.Tensor, values: np.ndarray) -> Any:
    """Return a new raw array of ``values`` where the Tensor's array is."""
    return agrad.asarray(values, backend=tensor.backend, device=tensor.device, copy=True).raw
