"""Parts: the parameters, buffers and modules among a module's attributes."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import agrad
from agrad.errors import ConfigurationError, OperandError
from agrad.nn.parameter import Buffer, Parameter, is_parameter, marked

if TYPE_CHECKING:
    from agrad.nn.module import Module


class Part(NamedTuple):
    """A module or leaf Tensor below a module."""

    name: str
    """Its name from the root, such as ``"encoder.0.weight"``."""
    value: Any
    owner: Any
    """The module that holds it, None for the root."""
    key: str
    """Its name in the owner."""
    depth: int
    """The number of modules above it."""


def join(prefix: str, name: object) -> str:
    """Return a name in a module, or in a container, with the name of that before it."""
    return f"{prefix}.{name}" if prefix else str(name)


def _held(
    members: Iterable[tuple[Any, Any]], prefix: str, seen: set[int], once: bool = True
) -> Iterator[tuple[str, Any]]:
    """Yield the Tensors and modules among attributes and in their containers, by name."""
    for key, value in members:
        name = join(prefix, key)
        if isinstance(value, (agrad.Tensor, Parts)):
            yield name, value
        elif isinstance(value, (list, tuple, dict)) and id(value) not in seen:
            seen.add(id(value))
            yield from _held(value.items() if isinstance(value, dict) else enumerate(value), name, seen, once)
            if not once:
                seen.discard(id(value))


def walk(root: "Parts", prefix: str = "", once: bool = True) -> Iterator[Part]:
    """Yield a module, and all modules and leaf Tensors below it.

    They come in the order of attributes, each once, or, without ``once``, by each of its names. A module inside of
    itself is left out.
    """
    yield Part(prefix, root, None, "", 0)
    seen = {id(root)}
    stack = [(root, prefix, _held(root.members(), "", seen, once))]
    while stack:  # no recursion, because modules may be nested deeper than Python calls
        owner, above, held = stack[-1]
        for key, value in held:
            if id(value) in seen:
                continue
            part = Part(join(above, key), value, owner, key, len(stack))
            if isinstance(value, Parts):
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


class Parts:
    """The half of ``Module`` that finds, names and adds parts."""

    _unsaved: frozenset[str] = frozenset()
    """The names of buffers that ``state_dict`` leaves out."""

    def members(self) -> Iterator[tuple[str, Any]]:
        """Return the attributes, by name, that may hold parameters, buffers and modules.

        Returns
        -------
        iterator of (str, object)
            Names and values.
        """
        known = (Parts, Parameter, Buffer)
        return ((name, value) for name, value in vars(self).items() if name[0] != "_" or isinstance(value, known))

    def _tensors(self, prefix: str = "", recurse: bool = True, once: bool = True) -> list[tuple[str, agrad.Tensor]]:
        parts = [p for p in walk(self, prefix, once) if isinstance(p.value, agrad.Tensor)]
        return [(p.name, p.value) for p in parts if recurse or p.owner is self]

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> list[tuple[str, "Module"]]:
        """Return this module and all below it, by names like ``"encoder.0"``.

        Parameters
        ----------
        prefix : str
            The name of this module, with which the others begin.
        remove_duplicate : bool
            False to list a module that is used in several places by each of its names.

        Returns
        -------
        list of (str, Module)
            The modules in the order of attributes.

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(2, 2), agrad.nn.Sequential(agrad.nn.ReLU()))
        >>> [name for name, _ in model.named_modules()]
        ['', '0', '1', '1.0']
        """
        found: list[Any] = [p for p in walk(self, prefix, remove_duplicate) if isinstance(p.value, Parts)]
        return [(part.name, part.value) for part in found]

    def modules(self) -> list["Module"]:
        """Return this module and all below it, once each.

        Returns
        -------
        list of Module
            In the order of attributes.

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(2, 2), agrad.nn.Sequential(agrad.nn.ReLU()))
        >>> [type(module).__name__ for module in model.modules()]
        ['Sequential', 'Linear', 'Sequential', 'ReLU']
        """
        return [module for _, module in self.named_modules()]

    def named_children(self) -> list[tuple[str, "Module"]]:
        """Return the modules that this one holds itself, by name.

        Returns
        -------
        list of (str, Module)
            Each once, in the order of attributes.

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(2, 2), agrad.nn.Sequential(agrad.nn.ReLU()))
        >>> [name for name, _ in model.named_children()]
        ['0', '1']
        """
        found: dict[int, tuple[str, Any]] = {}
        for name, value in _held(self.members(), "", set()):
            if isinstance(value, Parts):
                found.setdefault(id(value), (name, value))
        return list(found.values())

    def children(self) -> list["Module"]:
        """Return the modules that this one holds itself.

        Returns
        -------
        list of Module
            Each once, in the order of attributes.

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(2, 2), agrad.nn.Sequential(agrad.nn.ReLU()))
        >>> [type(module).__name__ for module in model.children()]
        ['Linear', 'Sequential']
        """
        return [module for _, module in self.named_children()]

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> list[tuple[str, agrad.Tensor]]:
        """Return the parameters by names like ``"0.weight"``, in the order of attributes.

        Parameters
        ----------
        prefix : str
            A name to begin the names with.
        recurse : bool
            False for those of this module alone.
        remove_duplicate : bool
            False to list a parameter that is used in several places by each of its names.

        Returns
        -------
        list of (str, Tensor)
            The parameters, frozen ones among them.

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(2, 3), agrad.nn.ReLU())
        >>> [(name, p.shape) for name, p in model.named_parameters()]
        [('0.weight', (2, 3)), ('0.bias', (3,))]
        """
        found = self._tensors(prefix, recurse, remove_duplicate)
        return [(name, tensor) for name, tensor in found if is_parameter(tensor)]

    def parameters(self, recurse: bool = True) -> list[agrad.Tensor]:
        """Return the parameters, as an optimizer takes them.

        Parameters
        ----------
        recurse : bool
            False for those of this module alone.

        Returns
        -------
        list of Tensor
            The parameters, once each. Frozen ones are among them; an optimizer does not change those.

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
        """Return the leaf Tensors that are no parameters, by name.

        Parameters
        ----------
        prefix : str
            A name to begin the names with.
        recurse : bool
            False for those of this module alone.
        remove_duplicate : bool
            False to list a buffer that is used in several places by each of its names.

        Returns
        -------
        list of (str, Tensor)
            The buffers.

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.BatchNorm1d(2))
        >>> [name for name, _ in model.named_buffers()]
        ['0.running_mean', '0.running_var']
        """
        found = self._tensors(prefix, recurse, remove_duplicate)
        return [(name, tensor) for name, tensor in found if not is_parameter(tensor)]

    def buffers(self, recurse: bool = True) -> list[agrad.Tensor]:
        """Return the leaf Tensors that are no parameters.

        Parameters
        ----------
        recurse : bool
            False for those of this module alone.

        Returns
        -------
        list of Tensor
            The buffers, once each.

        Examples
        --------
        >>> [tuple(b.shape) for b in agrad.nn.BatchNorm1d(2).buffers()]
        [(2,), (2,)]
        """
        return [tensor for _, tensor in self.named_buffers("", recurse)]

    # ------------------------------------------------------------------ by name

    def get_submodule(self, target: str) -> "Module":
        """Return the module of a name.

        Parameters
        ----------
        target : str
            A name as in ``named_modules``.

        Returns
        -------
        Module
            The module.

        Raises
        ------
        ConfigurationError
            If there is none of that name.

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Sequential(agrad.nn.ReLU()))
        >>> model.get_submodule("0.0")
        ReLU()
        """
        return self._get(target, "module", dict(self.named_modules(remove_duplicate=False)))

    def get_parameter(self, target: str) -> agrad.Tensor:
        """Return the parameter of a name.

        Parameters
        ----------
        target : str
            A name as in ``named_parameters``.

        Returns
        -------
        Tensor
            The parameter.

        Raises
        ------
        ConfigurationError
            If there is none of that name.

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(2, 3))
        >>> model.get_parameter("0.weight") is model[0].weight
        True
        """
        return self._get(target, "parameter", dict(self.named_parameters(remove_duplicate=False)))

    def get_buffer(self, target: str) -> agrad.Tensor:
        """Return the buffer of a name.

        Parameters
        ----------
        target : str
            A name as in ``named_buffers``.

        Returns
        -------
        Tensor
            The buffer.

        Raises
        ------
        ConfigurationError
            If there is none of that name.

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.BatchNorm1d(2))
        >>> model.get_buffer("0.running_var")
        Tensor([1.0, 1.0], dtype=float32, backend=numpy, device=cpu)
        """
        return self._get(target, "buffer", dict(self.named_buffers(remove_duplicate=False)))

    def _get(self, target: str, what: str, found: dict[str, Any]) -> Any:
        if target not in found:
            near = ", ".join(map(repr, list(found)[:8])) or "none"
            raise ConfigurationError(f"{type(self).__name__} has no {what} {target!r}; it has {near}")
        return found[target]

    # ------------------------------------------------------------------ adding

    def register_parameter(self, name: str, param: agrad.Tensor | None) -> None:
        """Add a parameter, as an assignment ``module.name = param`` does.

        Parameters
        ----------
        name : str
            The name of the attribute.
        param : Tensor or None
            A leaf Tensor, or None for a parameter that is left out.

        Raises
        ------
        ConfigurationError, OperandError
            If the name cannot be one, or ``param`` is no Tensor.

        Examples
        --------
        >>> module = agrad.nn.Module()
        >>> module.register_parameter("scale", agrad.nn.Parameter(np.ones(2)))
        >>> [name for name, _ in module.named_parameters()]
        ['scale']
        """
        self._check_name(name)
        if param is not None and not isinstance(param, agrad.Tensor):
            raise OperandError(f"{name}: a parameter is a Tensor, not {type(param).__name__}; give nn.Parameter(x)")
        setattr(self, name, None if param is None else marked(param, Parameter))

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Add a buffer, an array that is saved and moved with the module, and not trained.

        Parameters
        ----------
        name : str
            The name of the attribute.
        tensor : array or None
            A leaf Tensor, an array that becomes one, or None for a buffer that is left out.
        persistent : bool
            False to leave what the attribute holds out of ``state_dict``.

        Raises
        ------
        ConfigurationError
            If the name cannot be one.

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
        """Add a module, as an assignment ``self.name = module`` does.

        Parameters
        ----------
        name : str
            The name of the attribute.
        module : Module or None
            The module, or None for one that is left out.

        Raises
        ------
        ConfigurationError, OperandError
            If the name cannot be one, or ``module`` is no Module.

        Examples
        --------
        >>> module = agrad.nn.Module()
        >>> module.add_module("hidden", agrad.nn.Linear(2, 3))
        >>> module.hidden
        Linear(2, 3)  # 9 parameters
        """
        self._check_name(name)
        if module is not None and not isinstance(module, Parts):
            raise OperandError(f"{name}: expected a Module, found a {type(module).__name__}")
        setattr(self, name, module)

    register_module = add_module

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise ConfigurationError(f"a part has a name without a dot, as text, not {name!r}")
        other = hasattr(type(self), name) or not isinstance(vars(self).get(name), (agrad.Tensor, Parts, type(None)))
        if other:
            raise ConfigurationError(f"{type(self).__name__} has another attribute {name!r}; choose another name")

    # ------------------------------------------------------------------ for all

    def apply(self, fn: Callable[["Module"], object]) -> Self:
        """Call a function of each module below, then of this one.

        Parameters
        ----------
        fn : callable
            A function of a module, such as one that sets initial values.

        Returns
        -------
        Module
            The module itself.

        Examples
        --------
        >>> def zero(module):
        ...     if isinstance(module, agrad.nn.Linear):
        ...         _ = agrad.nn.init.zeros_(module.bias)
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(2, 2), agrad.nn.ReLU()).apply(zero)
        >>> model[0].bias.detach()
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
