"""Containers of modules and parameters, with the PyTorch names and methods."""

from collections.abc import Iterable, Iterator, Mapping
from operator import index
from typing import Any, ClassVar, Self

import agrad
from agrad.errors import ConfigurationError, OperandError
from agrad.nn.module import ArrayModule, Module
from agrad.nn.parameter import Buffer, Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]

Pairs = Mapping[str, Any] | Iterable[tuple[str, Any]]


class _Container(Module):
    """Ordered parts by name."""

    _parts: dict[str, Any]
    holds: ClassVar[type] = Module

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        container = super().__new__(cls)
        container.__dict__["_parts"] = {}
        return container

    def members(self) -> Iterator[tuple[str, Any]]:
        yield from self._parts.items()
        yield from super().members()

    def _checked(self, name: Any, value: Any) -> Any:
        if not isinstance(value, Module):
            raise ConfigurationError(
                f"{type(self).__name__}: entry {name} must be a Module, got {type(value).__name__}"
            )
        return value

    def _name(self, name: Any) -> str:
        if not isinstance(name, str) or not name or "." in name:
            raise ConfigurationError(f"{type(self).__name__}: keys must be strings without a dot, got {name!r}")
        return name

    def __getattr__(self, name: str) -> Any:
        parts = self.__dict__.get("_parts", {})
        if name in parts:
            return parts[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name) and (name in self._parts or isinstance(value, self.holds)):
            self._parts[self._name(name)] = self._checked(name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name in self._parts:
            del self._parts[name]
        else:
            super().__delattr__(name)

    def __len__(self) -> int:
        return len(self._parts)

    def __bool__(self) -> bool:
        return True


class _Row(_Container):
    """Sequence of parts, named by their indices unless they have names."""

    def _set(self, pairs: Iterable[tuple[str, Any]]) -> None:
        """Set all parts and renumber those that are named by an index."""
        parts = {str(i) if name.isdecimal() else name: value for i, (name, value) in enumerate(pairs)}
        self.__dict__["_parts"] = parts

    def _place(self, i: Any, end: int) -> int:
        place = index(i)
        if not -len(self) <= place < end:
            raise IndexError(f"{type(self).__name__}: index {place} is out of range for {len(self)} entries")
        return place % len(self) if place < 0 else place

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts.values())

    def __contains__(self, value: object) -> bool:
        return any(held is value for held in self)

    def __getitem__(self, i: Any) -> Any:
        pairs = list(self._parts.items())
        if not isinstance(i, slice):
            return pairs[self._place(i, len(self))][1]
        part = type(self).__new__(type(self))
        part.training = self.training
        part.__dict__["_parts"] = dict(pairs[i]) if isinstance(self, Sequential) else {}
        return part if isinstance(self, Sequential) else part.extend(value for _, value in pairs[i])

    def __setitem__(self, i: Any, value: Any) -> None:
        names = list(self._parts)
        if not isinstance(i, slice):
            name = names[self._place(i, len(self))]
            self._parts[name] = self._checked(name, value)
            return
        values = list(value)
        if len(values) != len(names[i]):
            raise ConfigurationError(
                f"{type(self).__name__}: values must have length {len(names[i])}, got {len(values)}"
            )
        self._parts.update({name: self._checked(name, v) for name, v in zip(names[i], values, strict=True)})

    def __delitem__(self, i: Any) -> None:
        pairs = list(self._parts.items())
        del pairs[i if isinstance(i, slice) else self._place(i, len(self))]
        self._set(pairs)

    def append(self, module: Any) -> Self:
        """Append an entry, and return this container.

        Parameters
        ----------
        module : Module or Tensor

        Returns
        -------
        this container

        Examples
        --------
        >>> len(agrad.nn.Sequential(agrad.nn.Linear(2, 3)).append(agrad.nn.ReLU()))
        2
        """
        return self.extend([module])

    def extend(self, modules: Iterable[Any]) -> Self:
        """Append entries, and return this container.

        Parameters
        ----------
        modules : iterable of Module or Tensor

        Returns
        -------
        this container

        Examples
        --------
        >>> len(agrad.nn.ModuleList([agrad.nn.Linear(2, 3)]).extend([agrad.nn.ReLU(), agrad.nn.Linear(3, 1)]))
        3
        """
        if isinstance(modules, (Mapping, agrad.Tensor, str)) or not isinstance(modules, Iterable):
            raise OperandError(f"{type(self).__name__}: modules must be a list, got {type(modules).__name__}")
        new = [("0", self._checked(len(self) + i, value)) for i, value in enumerate(list(modules))]
        self._set([*self._parts.items(), *new])
        return self

    def insert(self, index: int, module: Any) -> Self:
        """Insert an entry before an index, and return this container.

        Parameters
        ----------
        index : int
            Index, from -len to len.
        module : Module or Tensor

        Returns
        -------
        this container

        Examples
        --------
        >>> agrad.nn.Sequential(agrad.nn.Linear(2, 3), agrad.nn.Linear(3, 1)).insert(1, agrad.nn.ReLU())[1]
        ReLU()
        """
        pairs = list(self._parts.items())
        pairs.insert(self._place(index, len(self) + 1), ("0", self._checked(index, module)))
        self._set(pairs)
        return self

    def pop(self, key: int = -1) -> Any:
        """Remove an entry and return it.

        Parameters
        ----------
        key : int
            Index of the entry. By default, the last entry.

        Returns
        -------
        Module or Tensor

        Examples
        --------
        >>> agrad.nn.Sequential(agrad.nn.Linear(2, 3), agrad.nn.ReLU()).pop()
        ReLU()
        """
        value = self[key]
        del self[key]
        return value

    def __iadd__(self, other: Iterable[Any]) -> Self:
        return self.extend(other)

    def __add__(self, other: Iterable[Any]) -> Self:
        made = type(self).__new__(type(self))
        return made.extend(self).extend(other)


class Sequential(_Row, ArrayModule):
    """Chain of modules, each called with the result of the previous one.

    Input and output have the shapes of the first and the last module. A slice is a chain of the same modules with the
    same names. A module that is set as an attribute is appended to the chain.

    Parameters
    ----------
    *modules : Module
        Modules in order, or one dict of modules by name.

    Examples
    --------
    >>> model = agrad.nn.Sequential(agrad.nn.Linear(4, 8), agrad.nn.ReLU(), agrad.nn.Linear(8, 3))
    >>> model
    Sequential(
      0: Linear(4, 8)
      1: ReLU()
      2: Linear(8, 3)
    )  # 67 parameters
    >>> model(np.ones((2, 4), np.float32)).shape
    (2, 3)
    """

    def __init__(self, *modules: Any) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            self._parts.update({self._name(name): self._checked(name, m) for name, m in modules[0].items()})
        else:
            self.extend(modules)

    def forward(self, x: Any, /) -> Any:
        """Call the modules in order and return the result of the last one."""
        for module in self._parts.values():
            x = module(x)
        return x


class ModuleList(_Row):
    """List of modules.

    Parameters
    ----------
    modules : iterable of Module, or None

    Examples
    --------
    >>> x = np.ones((2, 4), np.float32)
    >>> for layer in agrad.nn.ModuleList([agrad.nn.Linear(4, 4) for _ in range(3)]):
    ...     x = layer(x)
    >>> x.shape
    (2, 4)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        self.extend(() if modules is None else modules)


def _parameter(value: Any) -> agrad.Tensor:
    has_role = isinstance(value, (Parameter, Buffer))
    return value if has_role else Parameter(value)


class ParameterList(_Row):
    """List of parameters.

    Parameters
    ----------
    values : iterable of array, or None
        Parameters and buffers. Other arrays become parameters.

    Examples
    --------
    >>> weights = agrad.nn.ParameterList([np.ones(2), np.zeros(3)])
    >>> [(name, p.shape) for name, p in weights.named_parameters()]
    [('0', (2,)), ('1', (3,))]
    """

    holds: ClassVar[type] = agrad.Tensor

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        self.extend(() if values is None else values)

    def _checked(self, name: Any, value: Any) -> Any:
        return _parameter(value)


class _Dict(_Container):
    """Base class of parts by key, with the methods of a dict."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __contains__(self, key: object) -> bool:
        return key in self._parts

    def __getitem__(self, key: str) -> Any:
        if key not in self._parts:
            raise KeyError(f"the key must be one of {', '.join(map(repr, self._parts)) or '(none)'}, got {key!r}")
        return self._parts[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._parts[self._name(key)] = self._checked(key, value)

    def __delitem__(self, key: str) -> None:
        self[key]
        del self._parts[key]

    def keys(self) -> Iterable[str]:
        """Return the keys in insertion order.

        Returns
        -------
        iterable of str

        Examples
        --------
        >>> list(agrad.nn.ModuleDict({"a": agrad.nn.ReLU(), "b": agrad.nn.Tanh()}).keys())
        ['a', 'b']
        """
        return self._parts.keys()

    def values(self) -> Iterable[Any]:
        """Return the entries in insertion order.

        Returns
        -------
        iterable of Module or Tensor

        Examples
        --------
        >>> list(agrad.nn.ModuleDict({"a": agrad.nn.ReLU(), "b": agrad.nn.Tanh()}).values())
        [ReLU(), Tanh()]
        """
        return self._parts.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return (key, entry) pairs in insertion order.

        Returns
        -------
        iterable of (str, Module or Tensor)

        Examples
        --------
        >>> dict(agrad.nn.ModuleDict({"a": agrad.nn.ReLU()}).items())
        {'a': ReLU()}
        """
        return self._parts.items()

    def get(self, key: str, default: Any = None) -> Any:
        """Return the entry of a key.

        Parameters
        ----------
        key : str
        default : any
            Value to return if the key is missing.

        Returns
        -------
        Module or Tensor, or ``default``

        Examples
        --------
        >>> agrad.nn.ModuleDict({"a": agrad.nn.ReLU()}).get("b", "none")
        'none'
        """
        return self._parts.get(key, default)

    def update(self, parts: Pairs) -> None:
        """Set entries.

        Parameters
        ----------
        parts : mapping or iterable of pairs
            Entries by key. If one entry cannot be set, nothing changes.

        Examples
        --------
        >>> parts = agrad.nn.ModuleDict({"a": agrad.nn.ReLU()})
        >>> parts.update({"b": agrad.nn.Tanh()})
        >>> list(parts)
        ['a', 'b']
        """
        pairs = parts.items() if isinstance(parts, (Mapping, _Dict)) else parts
        self._parts.update({self._name(key): self._checked(key, value) for key, value in pairs})

    def pop(self, key: str) -> Any:
        """Remove an entry and return it.

        Parameters
        ----------
        key : str

        Returns
        -------
        Module or Tensor

        Examples
        --------
        >>> agrad.nn.ModuleDict({"a": agrad.nn.ReLU()}).pop("a")
        ReLU()
        """
        value = self[key]
        del self._parts[key]
        return value

    def clear(self) -> None:
        """Remove all entries.

        Examples
        --------
        >>> parts = agrad.nn.ModuleDict({"a": agrad.nn.ReLU()})
        >>> parts.clear()
        >>> len(parts)
        0
        """
        self._parts.clear()


class ModuleDict(_Dict):
    """Dict of modules.

    Parameters
    ----------
    modules : mapping, iterable of pairs, or None
        Modules by key, a string without a dot.

    Examples
    --------
    >>> heads = agrad.nn.ModuleDict({"mean": agrad.nn.Linear(4, 1), "class": agrad.nn.Linear(4, 3)})
    >>> heads["class"](np.ones((2, 4), np.float32)).shape
    (2, 3)
    >>> [name for name, _ in heads.named_parameters()]
    ['mean.weight', 'mean.bias', 'class.weight', 'class.bias']
    """

    def __init__(self, modules: Pairs | None = None) -> None:
        self.update(modules or {})


class ParameterDict(_Dict):
    """Dict of parameters.

    Parameters
    ----------
    parameters : mapping, iterable of pairs, or None
        Parameters and buffers by key, a string without a dot. Other arrays become parameters.

    Examples
    --------
    >>> weights = agrad.nn.ParameterDict({"left": agrad.nn.Parameter(np.ones(2))})
    >>> weights["right"] = agrad.nn.Parameter(np.zeros(3))
    >>> [(name, p.shape) for name, p in weights.named_parameters()]
    [('left', (2,)), ('right', (3,))]
    """

    holds: ClassVar[type] = agrad.Tensor

    def __init__(self, parameters: Pairs | None = None) -> None:
        self.update(parameters or {})

    def _checked(self, name: Any, value: Any) -> Any:
        return _parameter(value)
