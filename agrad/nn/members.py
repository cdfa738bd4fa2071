"""Parameters, buffers and submodules among the attributes of a module."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import agrad
from agrad.errors import ConfigurationError, OperandError
from agrad.nn.parameter import Buffer, Parameter, is_parameter, marked

if TYPE_CHECKING:
    from agrad.nn.module import Module


class ModuleMember(NamedTuple):
    """Submodule or leaf Tensor of a module."""

    name: str
    """Qualified name, such as ``"encoder.0.weight"``."""
    value: Any
    owner: Any
    """Module that contains it. None for the root."""
    key: str
    """Name in the owner."""
    depth: int
    """Depth: the number of modules above it."""


def join(prefix: str, name: object) -> str:
    """Return the qualified name of an attribute or of an element of a pytree."""
    return f"{prefix}.{name}" if prefix else str(name)


def _held(
    members: Iterable[tuple[Any, Any]], prefix: str, seen: set[int], once: bool = True
) -> Iterator[tuple[str, Any]]:
    """Yield the Tensors and modules among attributes and their pytrees, by name."""
    for key, value in members:
        name = join(prefix, key)
        if isinstance(value, (agrad.Tensor, ModuleMembers)):
            yield name, value
        elif isinstance(value, (list, tuple, dict)) and id(value) not in seen:
            seen.add(id(value))
            yield from _held(value.items() if isinstance(value, dict) else enumerate(value), name, seen, once)
            if not once:
                seen.discard(id(value))


def walk(root: "ModuleMembers", prefix: str = "", once: bool = True) -> Iterator[ModuleMember]:
    """Yield a module, its submodules and its leaf Tensors, in the order of attributes.

    With ``once``, each occurs once, otherwise under each of its names. A module inside itself is skipped.
    """
    yield ModuleMember(prefix, root, None, "", 0)
    seen = {id(root)}
    stack = [(root, prefix, _held(root.members(), "", seen, once))]
    while stack:  # no recursion, because modules may be nested deeper than Python calls
        owner, above, held = stack[-1]
        for key, value in held:
            if id(value) in seen:
                continue
            part = ModuleMember(join(above, key), value, owner, key, len(stack))
            if isinstance(value, ModuleMembers):
                seen.add(id(value))
                yield part
                stack.append((value, part.name, _held(value.members(), "", seen, once)))
                break
            if value.is_leaf:
                if once:
                    seen.add(id(value))
                yield part
        else:
            stack.pop()
            if not once:
                seen.discard(id(owner))


class ModuleMembers:
    """Mixin of ``Module`` that finds, names and adds parameters, buffers and modules."""

    _unsaved: frozenset[str] = frozenset()
    """Names of buffers that ``state_dict`` excludes."""

    def members(self) -> Iterator[tuple[str, Any]]:
        """Return the attributes that may contain parameters, buffers and modules.

        Returns
        -------
        iterator of (str, object)
        """
        known = (ModuleMembers, Parameter, Buffer)
        return ((name, value) for name, value in vars(self).items() if name[0] != "_" or isinstance(value, known))

    def _tensors(self, prefix: str = "", recurse: bool = True, once: bool = True) -> list[tuple[str, agrad.Tensor]]:
        parts = [p for p in walk(self, prefix, once) if isinstance(p.value, agrad.Tensor)]
        return [(p.name, p.value) for p in parts if recurse or p.owner is self]

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> list[tuple[str, "Module"]]:
        """Return this module and its submodules with names like ``"encoder.0"``.

        Parameters
        ----------
        prefix : str
            Name of this module, the prefix of the other names.
        remove_duplicate : bool
            False to list a shared module under each of its names.

        Returns
        -------
        list of (str, Module)
            Modules in the order of attributes.

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(2, 2), agrad.nn.Sequential(agrad.nn.ReLU()))
        >>> [name for name, _ in model.named_modules()]
        ['', '0', '1', '1.0']
        """
        found: list[Any] = [p for p in walk(self, prefix, remove_duplicate) if isinstance(p.value, ModuleMembers)]
        return [(part.name, part.value) for part in found]

    def modules(self) -> list["Module"]:
        """Return this module and its submodules, once each, in the order of attributes.

        Returns
        -------
        list of Module

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(2, 2), agrad.nn.Sequential(agrad.nn.ReLU()))
        >>> [type(module).__name__ for module in model.modules()]
        ['Sequential', 'Linear', 'Sequential', 'ReLU']
        """
        return [module for _, module in self.named_modules()]

    def named_children(self) -> list[tuple[str, "Module"]]:
        """Return the direct submodules by name, once each.

        Returns
        -------
        list of (str, Module)

        Examples
        --------
        >>> [name for name, _ in agrad.nn.Sequential(agrad.nn.Linear(2, 2), agrad.nn.ReLU()).named_children()]
        ['0', '1']
        """
        found: dict[int, tuple[str, Any]] = {}
        for name, value in _held(self.members(), "", set()):
            if isinstance(value, ModuleMembers):
                found.setdefault(id(value), (name, value))
        return list(found.values())

    def children(self) -> list["Module"]:
        """Return the direct submodules, once each.

        Returns
        -------
        list of Module

        Examples
        --------
        >>> agrad.nn.Sequential(agrad.nn.Tanh(), agrad.nn.ReLU()).children()
        [Tanh(), ReLU()]
        """
        return [module for _, module in self.named_children()]

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> list[tuple[str, agrad.Tensor]]:
        """Return the parameters with names like ``"0.weight"``.

        Parameters
        ----------
        prefix : str
            Prefix of the names.
        recurse : bool
            False to return only the entries of this module itself.
        remove_duplicate : bool
            False to list a shared parameter under each of its names.

        Returns
        -------
        list of (str, Tensor)
            Parameters in the order of attributes, including frozen ones.

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(2, 3), agrad.nn.ReLU())
        >>> [(name, p.shape) for name, p in model.named_parameters()]
        [('0.weight', (2, 3)), ('0.bias', (3,))]
        """
        found = self._tensors(prefix, recurse, remove_duplicate)
        return [(name, tensor) for name, tensor in found if is_parameter(tensor)]

    def parameters(self, recurse: bool = True) -> list[agrad.Tensor]:
        """Return the parameters, for example for an optimizer.

        Parameters
        ----------
        recurse : bool
            False to return only the entries of this module itself.

        Returns
        -------
        list of Tensor
            Parameters, once each, including frozen ones. Optimizers do not change frozen parameters.

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(2, 3), agrad.nn.ReLU())
        >>> sum(p.size for p in model.parameters())
        9
        """
        return [tensor for _, tensor in self.named_parameters("", recurse)]

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> list[tuple[str, agrad.Tensor]]:
        """Return the buffers by name: leaf Tensors that are not parameters.

        Parameters
        ----------
        prefix, recurse, remove_duplicate
            Same as for ``named_parameters``.

        Returns
        -------
        list of (str, Tensor)

        Examples
        --------
        >>> [name for name, _ in agrad.nn.Sequential(agrad.nn.BatchNorm1d(2)).named_buffers()]
        ['0.running_mean', '0.running_var']
        """
        found = self._tensors(prefix, recurse, remove_duplicate)
        return [(name, tensor) for name, tensor in found if not is_parameter(tensor)]

    def buffers(self, recurse: bool = True) -> list[agrad.Tensor]:
        """Return the buffers, once each: leaf Tensors that are not parameters.

        Parameters
        ----------
        recurse : bool
            False to return only the entries of this module itself.

        Returns
        -------
        list of Tensor

        Examples
        --------
        >>> [tuple(b.shape) for b in agrad.nn.BatchNorm1d(2).buffers()]
        [(2,), (2,)]
        """
        return [tensor for _, tensor in self.named_buffers("", recurse)]

    # ------------------------------------------------------------------ by name

    def get_submodule(self, target: str) -> "Module":
        """Return the module with a name.

        Parameters
        ----------
        target : str
            Name as in ``named_modules``.

        Returns
        -------
        Module

        Examples
        --------
        >>> agrad.nn.Sequential(agrad.nn.Sequential(agrad.nn.ReLU())).get_submodule("0.0")
        ReLU()
        """
        return self._get(target, "module", dict(self.named_modules(remove_duplicate=False)))

    def get_parameter(self, target: str) -> agrad.Tensor:
        """Return the parameter with a name.

        Parameters
        ----------
        target : str
            Name as in ``named_parameters``.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> agrad.nn.Sequential(agrad.nn.Linear(2, 3)).get_parameter("0.weight").shape
        (2, 3)
        """
        return self._get(target, "parameter", dict(self.named_parameters(remove_duplicate=False)))

    def get_buffer(self, target: str) -> agrad.Tensor:
        """Return the buffer with a name.

        Parameters
        ----------
        target : str
            Name as in ``named_buffers``.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> agrad.nn.Sequential(agrad.nn.BatchNorm1d(2)).get_buffer("0.running_var")
        Tensor([1.0, 1.0], dtype=float32, backend=numpy, device=cpu)
        """
        return self._get(target, "buffer", dict(self.named_buffers(remove_duplicate=False)))

    def _get(self, target: str, what: str, found: dict[str, Any]) -> Any:
        if target not in found:
            near = ", ".join(map(repr, list(found)[:8])) or "none"
            raise ConfigurationError(f"{type(self).__name__} has no {what} {target!r}. Its names are: {near}")
        return found[target]

    # ------------------------------------------------------------------ adding

    def register_parameter(self, name: str, param: agrad.Tensor | None) -> None:
        """Add a parameter, like the assignment ``module.name = param``.

        Parameters
        ----------
        name : str
            Name of the attribute.
        param : Tensor or None
            Leaf Tensor, or None for an absent parameter.

        Examples
        --------
        >>> module = agrad.nn.Module()
        >>> module.register_parameter("scale", agrad.nn.Parameter(np.ones(2)))
        >>> [name for name, _ in module.named_parameters()]
        ['scale']
        """
        self._check_name(name)
        if param is not None and not isinstance(param, agrad.Tensor):
            raise OperandError(f"{name}: param must be a Tensor, got {type(param).__name__}. Pass nn.Parameter(x).")
        setattr(self, name, None if param is None else marked(param, Parameter))

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Add a buffer: an array that is saved and moved, but not trained.

        Parameters
        ----------
        name : str
            Name of the attribute.
        tensor : array or None
            Leaf Tensor, an array that becomes one, or None for an absent buffer.
        persistent : bool
            False to exclude the attribute from ``state_dict``.

        Examples
        --------
        >>> module = agrad.nn.Module()
        >>> module.register_buffer("steps", agrad.asarray(np.zeros(2)))
        >>> module.state_dict()
        {'steps': array([0., 0.])}
        """
        self._check_name(name)
        if tensor is not None:
            tensor = marked(tensor if isinstance(tensor, agrad.Tensor) else agrad.asarray(tensor), Buffer)
        setattr(self, name, tensor)
        if persistent != (name not in self._unsaved):
            self._unsaved = self._unsaved ^ {name}

    def add_module(self, name: str, module: "Module | None") -> None:
        """Add a module, like the assignment ``self.name = module``.

        Parameters
        ----------
        name : str
            Name of the attribute.
        module : Module or None
            Module, or None for an absent module.

        Examples
        --------
        >>> module = agrad.nn.Module()
        >>> module.add_module("hidden", agrad.nn.Linear(2, 3))
        >>> module.hidden
        Linear(2, 3)  # 9 parameters
        """
        self._check_name(name)
        if module is not None and not isinstance(module, ModuleMembers):
            raise OperandError(f"{name}: module must be a Module, got {type(module).__name__}")
        setattr(self, name, module)

    register_module = add_module

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise ConfigurationError(f"names of module attributes must be strings without a dot, got {name!r}")
        other = hasattr(type(self), name) or not isinstance(
            vars(self).get(name), (agrad.Tensor, ModuleMembers, type(None))
        )
        if other:
            raise ConfigurationError(f"{type(self).__name__} already has an attribute {name!r}. Choose another name.")

    # ------------------------------------------------------------------ for all

    def apply(self, fn: Callable[["Module"], object]) -> Self:
        """Call a function on each submodule, then on this module.

        Parameters
        ----------
        fn : callable
            Function of a module, for example to set initial values.

        Returns
        -------
        this module

        Examples
        --------
        >>> def zero(module):
        ...     if isinstance(module, agrad.nn.Linear):
        ...         _ = agrad.nn.init.zeros_(module.bias)
        >>> agrad.nn.Sequential(agrad.nn.Linear(2, 2), agrad.nn.ReLU()).apply(zero)[0].bias.detach()
        Tensor([0.0, 0.0], dtype=float32, backend=numpy, device=cpu)
        """
        order: list[Any] = []
        stack, seen = [self], set()
        while stack:
            module = stack.pop()
            if id(module) not in seen:
                seen.add(id(module))
                order.append(module)
                stack.extend(module.children())  # type: ignore[arg-type]
        for module in reversed(order):
            fn(module)
        return self
