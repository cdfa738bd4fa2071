"""Captured state: values that a function reads and writes besides its arguments.

The search begins at the function's closure, the globals it uses, its defaults, its ``self`` and its arguments. It
follows attributes that code uses, and containers. It finds

- Tensors, whose values and gradients may change from call to call, and to which derivatives flow;
- objects that declare ``traced_attributes`` (an optimizer: its step count, its moments), which may change too;
- arrays of more than a few elements, which are read at each call;
- all other values on the way, which must be unchanged for a program to be valid.
"""

import copyreg
import dis
import functools
import operator
import sys
import types
from argparse import Namespace
from array import array
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import Any

from agrad.backends import backend_of, backend_of_type
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.tensor import Tensor
from agrad.errors import ConfigurationError
from agrad.jit.guards import (
    PLAIN,
    Contents,
    Items,
    Keys,
    RetraceGuards,
    is_library,
    is_library_module,
    is_value,
    root_of,
)
from agrad.transforms.arguments import content_of

LIMIT = 1000
"""The most Python values that are compared at each call."""

_SPACES = (types.SimpleNamespace, Namespace, UserDict, UserList, ChainMap)
"""Classes of the standard library whose attributes are followed like the elements of a container."""

_MAKING = ("__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__")
_PARTS = ("the code", "the defaults", "the keyword defaults")


class CapturedState(RetraceGuards):
    """The state that a function can reach, and guards of the values on the way to it.

    title: the name of the function in errors.
    """

    def __init__(self, function: Any, *arguments: Any, title: str = "jit") -> None:
        super().__init__()
        self.tensors: list[Tensor] = []
        self.holders: list[tuple[Any, tuple[str, ...]]] = []
        """Objects, with the names of the attributes that are state."""
        self.places: dict[int, str] = {}
        """The paths of Tensors and holders, by their ids."""
        self.arrays: list[Any] = []
        """Arrays that programs read at each call."""
        self._title = title
        self._home = root_of(getattr(function, "__module__", None))
        self._seen: dict[int, Any] = {}
        self._names: set[str] = set()
        self.sized: list[tuple[Any, str]] = []
        """Spaces whose number of attributes is guarded, with their titles."""
        self._queue: deque[tuple[Any, str]] = deque([(function, "the function")])
        self._queue.extend((value, "an argument") for value in arguments)
        self._objects: list[_Space] = []
        self._classes: dict[type, _Class] = {}
        self._typed: list[Any] = []
        """Objects whose class is guarded."""
        self._absent: dict[int, tuple[Any, dict[str, None]]] = {}
        """Globals and attributes of modules that code names and that do not exist."""
        self._written: list[tuple[Any, Any, str]] = []
        self._count = 0
        self._follow()

    def changed(self) -> list[str]:
        """Return the descriptions of what the function has changed."""
        return super().changed() + [what for raw, kept, what in self._written if content_of(raw) != kept]

    def is_read_at_call(self, raw: Any) -> bool:
        """Return True if an array is one of ``arrays``, or a view of one."""
        backend = backend_of(raw)
        shares = backend.shares_memory or operator.is_
        return any(raw is held or (backend_of(held) is backend and shares(raw, held)) for held in self.arrays)

    # ------------------------------------------------------------------ state

    def add(self, value: Any, place: str | None = None) -> None:
        """Add a Tensor, or an object with ``traced_attributes``."""
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        self.places[id(value)] = place or f"a {type(value).__name__} that the trace met"
        if isinstance(value, Tensor):
            self.tensors.append(value)
        else:
            self.holders.append((value, _state_of(value)))

    # ------------------------------------------------------------------ the walk

    def _follow(self) -> None:
        """Visit all reachable objects, until neither an object nor a name is new."""
        known = -1
        while self._queue or known != len(self._names):
            while self._queue:
                self._visit(*self._queue.popleft())
            known = len(self._names)
            for kind in list(self._classes):
                self._methods(kind)
            for space in list(self._objects):
                self._queue.extend(space.take(self._names))
        for found in [*self._objects, *self._classes.values()]:
            found.guard(self)  # type: ignore[attr-defined]
        self._guard_kinds()
        self.close()

    def _guard_kinds(self) -> None:
        """Guard the classes of objects, the numbers of attributes, and the names that do not exist."""
        if self._typed:
            kinds = functools.partial(map, type, self._typed)
            self.guard_each(kinds, [f"the class of a {type(value).__name__}" for value in self._typed])
        for base in [base for kind in self._classes for base in kind.__mro__ if not is_library(base)]:
            copyreg._slotnames(base)  # type: ignore[attr-defined]  # Python files it when an instance is first copied
            self.sized.append((vars(base), f"an attribute of {base.__name__}"))
        spaces, titles = [space for space, _ in self.sized], [f"{title} (which it has)" for _, title in self.sized]
        if spaces:
            self.guard_values(lambda: (*map(len, spaces),), titles, numbers=True)
        for found in self._objects:
            if isinstance(found.value, types.ModuleType):
                self._is_absent(found.space, self._names)
        for space, names in self._absent.values():
            if names:
                absent = functools.partial(map, space.__contains__, [*names])
                self.guard_each(absent, [f"the global {name}" for name in names])

    def _is_absent(self, space: dict[str, Any], names: Iterable[str]) -> None:
        known = self._absent.setdefault(id(space), (space, {}))[1]
        known.update(dict.fromkeys(name for name in names if name not in space))

    def _visit(self, value: Any, place: str) -> None:
        kind = type(value)
        if is_value(value) or id(value) in self._seen:
            return
        if isinstance(value, Tensor):
            if value.level is GLOBAL_TAPE and not isinstance(value.data, Tensor):
                self.add(value, place)
            return
        self._seen[id(value)] = value
        if isinstance(value, type):
            self._class(value, is_made=True)
        elif isinstance(value, types.ModuleType):
            if root_of(value.__name__) != "agrad" and not is_library_module(value.__name__):
                self._objects.append(_Space(value, vars(value), place))
        elif isinstance(value, types.FunctionType):
            self._function(value, place)
        elif isinstance(value, types.BuiltinMethodType):
            self._queue.append((value.__self__, place))
        elif isinstance(value, types.MethodType):
            self._queue += [(value.__func__, place), (value.__self__, f"{place}.__self__")]
        else:
            self._data(value, kind, place)

    def _data(self, value: Any, kind: type, place: str) -> None:
        """Visit an object that is neither code nor a Tensor."""
        if not hasattr(kind, "traced_attributes"):
            self._counted(1, place)
        if backend_of_type(kind) is not None:
            self._array(value, place)
        elif isinstance(value, functools.partial):
            self._queue += [(value.func, place), (value.args, place), (value.keywords, place)]
        elif isinstance(value, (dict, types.MappingProxyType, list, tuple, set, frozenset, deque)):
            self._container(value, place)
        elif isinstance(value, (bytearray, memoryview, array)):
            self.guard_content(functools.partial(bytes, value), Contents(place))
        elif isinstance(value, _SPACES):
            self._visit(vars(value), place)
        space = getattr(value, "__dict__", {})
        self._queue.append((space.get("__wrapped__"), place))
        if root_of(kind.__module__) == "agrad" and not hasattr(kind, "traced_attributes"):
            # the functions of a custom derivative
            self._queue += [(v, place) for v in space.values() if isinstance(v, types.FunctionType)]
        elif not is_library(kind):
            self._object(value, kind, place)

    def _counted(self, count: int, place: str) -> None:
        self._count += count
        if self._count > LIMIT:
            raise ConfigurationError(
                f"{self._title} reaches {place}, and with it more than {LIMIT:,} Python values, which would be "
                "compared at each call. To avoid that, pass it as an argument, or hold the values in an array or tuple."
            )

    def _array(self, value: Any, place: str) -> None:
        """Guard the content of an array, or let programs read it at each call.

        A write to it during the trace raises.
        """
        backend = backend_of(value)
        look = backend.content(value)
        if look is not None:
            self.guard_content(look, Contents(place))
        elif backend.shares_memory is not None:
            self.arrays.append(value)
            self._written.append((value, content_of(value), place))

    def _container(self, value: Any, place: str) -> None:
        if isinstance(value, (dict, types.MappingProxyType)):
            members = [(member, f"{place}[{key!r}]") for key, member in value.items()]
        else:
            members = [(member, f"{place}[{i}]") for i, member in enumerate(value)]
        rest = [pair for pair in members if not is_value(pair[0])]
        if not isinstance(value, (tuple, frozenset)):
            self._counted(len(members) - len(rest), place)
            ordered = Keys if isinstance(value, (dict, types.MappingProxyType)) else Items
            self.guard_members(value, place if isinstance(value, set) else ordered(place))
        self._queue += rest

    # ------------------------------------------------------------------ code

    def _function(self, function: types.FunctionType, place: str) -> None:
        code, defaults = function.__code__, function.__defaults__ or ()
        made_by_engine = str(function.__globals__.get("__name__")).startswith("agrad.engine")
        for name, cell in [] if made_by_engine else zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                self._queue.append((cell.cell_contents, name))
            except ValueError:  # not bound yet
                continue
            self.guard_cell(cell, f"the variable {name}")
        self._queue += zip(defaults, code.co_varnames[code.co_argcount - len(defaults) :], strict=False)
        self._queue += [(part, place) for part in (function.__kwdefaults__, vars(function).get("__wrapped__"))]
        primitive = vars(function).get("primitive")
        if primitive is not None and not self._is_trusted(getattr(primitive.forward, "__module__", "agrad")):
            rules = (*primitive.vjps.values(), *primitive.jvps.values())
            self._queue += [(part, place) for part in (primitive.forward, *[rule.function for rule in rules])]
        # functools.wraps overwrites the wrapper's own module
        if self._is_trusted(function.__globals__.get("__name__")) or code.co_filename.startswith("<agrad "):
            return
        look = operator.attrgetter("__code__", "__defaults__", "__kwdefaults__")
        self.guard_values(functools.partial(look, function), [f"{what} of {place}" for what in _PARTS])
        (names, attributes), space = _names_in(code), function.__globals__
        self._names.update(attributes)
        named = [name for name in names if name in space]
        self._is_absent(space, names)
        if named:
            self.guard_values(functools.partial(_chosen(named), space), [f"the global {name}" for name in named])
        self._queue += [(space[name], name) for name in named]
        self._objects.append(_Space(function, vars(function), place, whole=True))

    def _is_trusted(self, module: str | None) -> bool:
        """Return True for code of agrad or of a library, which does not change."""
        root = root_of(module)
        if root == "agrad":
            return not str(module).startswith(("agrad.cli", "agrad.data"))
        return is_library_module(module) or (root != self._home and _is_installed(root))

    def _is_trusted_class(self, kind: type) -> bool:
        return is_library(kind) or (not is_library_module(kind.__module__) and self._is_trusted(kind.__module__))

    def _class(self, kind: type, is_made: bool = False) -> None:
        if not is_library(kind):
            found = self._classes.setdefault(kind, _Class(kind))
            found.is_made = found.is_made or is_made

    def _methods(self, kind: type) -> None:
        """Visit the named attributes and the special methods of a class."""
        for base in kind.__mro__:
            if is_library(base) or base.__module__.startswith("agrad.engine"):
                continue
            trusted = self._is_trusted_class(base)
            for name, member in list(vars(base).items()):
                functions = _functions_of(member)
                known = name in self._names or name in ("__call__", "forward")
                by_syntax = name[:2] == name[-2:] == "__" and (name not in _MAKING or self._classes[kind].is_made)
                if not known and (trusted or not functions or not by_syntax):
                    continue
                if trusted:
                    self._names.update(*[_names_in(function.__code__)[1] for function in functions])
                elif name not in self._classes[kind].found:
                    self._classes[kind].found[name] = base
                    self._queue += [(part, f"{kind.__name__}.{name}") for part in functions or [member]]

    def _object(self, value: Any, kind: type, place: str) -> None:
        self._typed.append(value)
        declared, trusted = hasattr(kind, "traced_attributes"), self._is_trusted_class(kind)
        if not (declared and trusted):
            self._class(kind)
        state = _state_of(value) if declared else ()
        if state:
            self.holders.append((value, state))
            self.places[id(value)] = place
        spaces = [getattr(value, "__dict__", None), _Slots(value) if _slots_of(kind) else None]
        follows = _all if declared and trusted else _unless_log if declared else _named
        for space in spaces:
            if space is not None:
                self._objects.append(_Space(value, space, place, follows, state, declared or not trusted, trusted))


class _Space:
    """The attributes of one object, some of which are followed and guarded.

    follows: from a value, and from True if code uses the attribute, to True if it is followed. whole: the number of
    attributes is guarded too. trusted: ``==`` is sufficient for numbers.
    """

    def __init__(
        self,
        value: Any,
        space: Any,
        place: str,
        follows: Callable[[Any, bool], bool] | None = None,
        state: tuple[str, ...] = (),
        whole: bool = False,
        trusted: bool = False,
    ) -> None:
        has_name = isinstance(value, (types.ModuleType, types.FunctionType))
        self.title = f"an attribute of {value.__name__ if has_name else type(value).__name__}"
        self.value, self.space, self.place, self.state = value, space, place, state
        self.whole, self.trusted = whole, trusted
        self.follows = follows or _named
        self.taken: list[str] = []

    def take(self, names: set[str]) -> list[tuple[Any, str]]:
        """Add the attributes to follow; return the values and paths of new ones."""
        known = {*self.taken, *self.state}
        new = [n for n in list(self.space) if n not in known and self.follows(self.space[n], n in names)]
        self.taken += new
        return [(self.space[name], f"{self.place}.{name}") for name in new]

    def guard(self, guards: CapturedState) -> None:
        """Guard the attributes that were followed."""
        if self.trusted and self.whole and len(self.taken) == len(self.space):
            guards.guard_members(self.space, f"{self.title} ({', '.join(self.taken)})", self.trusted)
            return
        if self.whole:
            guards.sized.append((self.space, self.title))
        if self.taken:
            look = functools.partial(_chosen(self.taken), self.space)
            guards.guard_values(look, [f"{self.title} ({name})" for name in self.taken], self.trusted)


class _Slots:
    """The attributes of an object that are stored in slots, as a mapping."""

    def __init__(self, value: Any) -> None:
        self.value, self.names = value, _slots_of(type(value))

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.names if hasattr(self.value, name))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Any:
        return getattr(self.value, name)


class _Class:
    """The attributes of a class that code uses, each with the class that defines it."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.is_made = False
        """True if the function can make objects of it."""
        self.found: dict[str, type] = {}

    def guard(self, guards: RetraceGuards) -> None:
        """Guard the attributes; descriptors by the class that defines them."""
        plain: list[str] = []
        made: list[str] = []
        for name, base in self.found.items():
            member = vars(base)[name]
            is_made = hasattr(type(member), "__get__") and not isinstance(member, types.FunctionType)
            (made if is_made else plain).append(name)
        what = f"an attribute of {self.kind.__name__}"
        if plain:
            look = functools.partial(operator.attrgetter(*plain, plain[0]), self.kind)
            guards.guard_values(look, [f"{what} ({name})" for name in plain])
        for name in made:
            look = functools.partial(_chosen([name]), vars(self.found[name]))
            guards.guard_values(look, [f"{what} ({name})"])


def _all(value: Any, named: bool) -> bool:
    return True


def _named(value: Any, named: bool) -> bool:
    return named


def _unless_log(value: Any, named: bool) -> bool:
    """Return False for plain values that no code uses, such as a list of losses."""
    return named or not _is_plain(value)


def _is_plain(value: Any, depth: int = 4) -> bool:
    if isinstance(value, (list, tuple, dict, set, frozenset, deque)) and depth:
        return all(_is_plain(member, depth - 1) for member in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, PLAIN)


def _chosen(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    # one name more than needed, because for a single one the result is not a tuple
    return operator.itemgetter(*names, names[0])


def _state_of(value: Any) -> tuple[str, ...]:
    """Return the declared attributes that are state: numbers and pytrees.

    A schedule instead of a number is not state.
    """
    space = vars(value)
    found = [(name, space.get(name)) for name in type(value).traced_attributes]
    return tuple([n for n, v in found if isinstance(v, (int, float, list, tuple)) and not isinstance(v, bool)])


@functools.lru_cache(maxsize=1024)
def _names_in(code: types.CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the globals and attributes that code and the functions in it use.

    Literal names, such as arguments of ``getattr``, are included.
    """
    global_names: dict[str, None] = {}
    attributes: dict[str, None] = {}
    for instruction in dis.get_instructions(code):
        name, operation = instruction.argval, instruction.opname
        if operation.endswith(_GLOBAL):
            global_names[name] = None
        elif operation.endswith(_ATTRIBUTE) and isinstance(name, str) and name.isidentifier():
            attributes[name] = None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names_in(constant)
            global_names.update(dict.fromkeys(inner[0]))
            attributes.update(dict.fromkeys(inner[1]))
    return tuple(global_names), tuple(attributes)


_GLOBAL = ("_GLOBAL", "_NAME", "_GLOBALS")
"""Endings of the names of instructions that look a global up or set it."""

_ATTRIBUTE = ("_ATTR", "_METHOD", "_CONST")
"""Endings for instructions that look an attribute up or set it, or load a literal."""


def _functions_of(member: Any) -> list[types.FunctionType]:
    """Return the functions of a class attribute: a method, or the functions of a descriptor."""
    parts = [member, *(getattr(member, name, None) for name in ("fget", "fset", "__func__", "func"))]
    return [part for part in parts if isinstance(part, types.FunctionType)]


def _slots_of(kind: type) -> tuple[str, ...]:
    found: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        found += (slots,) if isinstance(slots, str) else slots
    return tuple([name for name in found if name not in ("__dict__", "__weakref__")])


@functools.lru_cache(maxsize=256)
def _is_installed(root: str) -> bool:
    """Return True for packages in the folders that installers use."""
    file = getattr(sys.modules.get(root), "__file__", None)
    return file is not None and not {"site-packages", "dist-packages"}.isdisjoint(PurePath(file).parts)
