"""What a function reads and writes besides its arguments, found by looking at what it can reach.

From the function's closure, the globals it names, its ``self`` and its arguments: leaf Tensors, whose values and
gradients may change from call to call; objects that declare ``traced_attributes`` (an optimizer: its step count, its
moments), which may change too; and everything else on the way, which must be as it was for a program to hold.
"""

import functools
import operator
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agrad.backends import backend_of_type
from agrad.engine.levels import AMBIENT
from agrad.engine.tensor import Tensor

_FOREIGN = {"numpy", "torch", "jax", "jaxlib", "dask", "cupy", "array_api_strict", "array_api_compat", "optree"}
_OWN = (
    "agrad.engine.",
    "agrad.ops.",
    "agrad.transforms.",
    "agrad.jit.",
    "agrad.backends.",
    "agrad.nn.",
    "agrad.optim.",
)
"""agrad's own code names no state of the user's."""
_SIMPLE = (bool, int, float, complex, str, bytes, type(None))
_DEPTH = 12
"""How far from the function state is looked for."""


class Surroundings:
    """The state that a function can reach, and a check of whether it still is what the function reaches."""

    def __init__(self, *roots: Any) -> None:
        self.tensors: list[Tensor] = []
        self.holders: list[tuple[Any, tuple[str, ...]]] = []
        """Objects, with the names of their attributes that are read and written like Tensors."""
        self._checks: list[tuple[Callable[[], Any], Any]] = []
        self._what: list[str] = []
        self._live: list[tuple[Any, Any]] = []
        self._what_live: list[str] = []
        self._seen: dict[int, Any] = {}
        self._names: set[str] = set()
        self._objects: list[tuple[Any, tuple[str, ...], bool]] = []
        for root in roots:
            self._walk(root, 0)
        self._complete()

    # ------------------------------------------------------------------ whether it still holds

    def hold(self) -> bool:
        """Whether everything that was found is still in its place, and what is not state unchanged."""
        try:
            for live, kept in self._live:
                if live != kept:
                    return False
            for look, kept in self._checks:  # noqa: SIM110 - a generator would cost more than the questions
                if look() != kept:
                    return False
            return True
        except Exception:  # what is compared by identity first and is another object may refuse to be compared
            return False

    def changed(self) -> list[str]:
        """What is no longer as it was found, for an error."""
        found = []
        checks = [(functools.partial(_itself, live), kept) for live, kept in self._live] + self._checks
        for (look, kept), what in zip(checks, self._what_live + self._what, strict=True):
            try:
                same = bool(look() == kept)
            except Exception:
                same = False
            if not same:
                found.append(what)
        return found

    def _check_live(self, live: Any, what: str) -> None:
        """Note that a list or a dict must hold what it holds now."""
        self._live.append((live, live.copy()))
        self._what_live.append(what)

    def _check(self, look: Callable[[], Any], what: str) -> None:
        self._checks.append((look, look()))
        self._what.append(what)

    # ------------------------------------------------------------------ the walk

    def add_tensor(self, tensor: Tensor) -> None:
        """Take a leaf Tensor for state."""
        if id(tensor) not in self._seen:
            self._seen[id(tensor)] = tensor
            self.tensors.append(tensor)

    def add(self, value: Any) -> None:
        """Take a leaf Tensor, or an object with ``traced_attributes``, for state."""
        if isinstance(value, Tensor):
            self.add_tensor(value)
        elif id(value) not in self._seen:
            state = tuple(n for n in type(value).traced_attributes if _is_state(vars(value).get(n)))
            self._seen[id(value)] = value
            self.holders.append((value, state))

    def _walk(self, value: Any, depth: int) -> bool:
        """Look at one object; whether it matters, so that its place must still hold it."""
        if isinstance(value, _SIMPLE):
            return True
        if isinstance(value, Tensor):
            if value.level is AMBIENT and value.is_leaf and not isinstance(value.data, Tensor):
                self.add_tensor(value)
            return True
        kind = type(value)
        if isinstance(value, (types.ModuleType, type)) or depth > _DEPTH:
            return False
        if backend_of_type(kind) is not None or id(value) in self._seen:
            return True
        if isinstance(value, types.FunctionType):
            return self._function(value, depth)
        if isinstance(value, types.MethodType):
            self._walk(value.__func__, depth)
            return self._walk(value.__self__, depth)
        if isinstance(value, functools.partial):
            self._seen[id(value)] = value
            for part in (value.func, *value.args, *value.keywords.values()):
                self._walk(part, depth + 1)
            return True
        if isinstance(value, (list, tuple, dict)):
            return self._container(value, depth)
        inner = getattr(value, "__wrapped__", None)
        if inner is not None and callable(value) and kind.__module__.startswith("agrad."):
            return self._walk(inner, depth)
        root = kind.__module__.partition(".")[0]
        if root in _FOREIGN or root in sys.stdlib_module_names or not hasattr(value, "__dict__"):
            return False
        return self._object(value, depth)

    def _function(self, function: types.FunctionType, depth: int) -> bool:
        self._seen[id(function)] = function
        code = function.__code__
        inside = f"{function.__module__}.".startswith(_OWN)
        self._names |= set(_names_in(code)) if not inside else set()
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            if self._walk(content, depth + 1):
                self._check(functools.partial(_content, cell), f"the variable {name}")
        for part in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._walk(part, depth + 1)
        if not inside:
            space = function.__globals__
            named = [name for name in _names_in(code) if name in space and self._walk(space[name], depth + 1)]
            if named:
                self._check(functools.partial(_chosen(named), space), f"one of the globals {', '.join(named)}")
        return True

    def _container(self, value: Any, depth: int) -> bool:
        self._seen[id(value)] = value
        members: Iterable[Any] = value.values() if isinstance(value, dict) else value
        matters = [self._walk(member, depth + 1) for member in members]
        if any(matters) and any(not isinstance(m, _SIMPLE) for m in members) and not isinstance(value, tuple):
            self._check_live(value, f"a {type(value).__name__}")
        return True

    def _object(self, value: Any, depth: int) -> bool:
        self._seen[id(value)] = value
        space = vars(value)
        declared = getattr(type(value), "traced_attributes", None)
        state = tuple(name for name in declared or () if _is_state(space.get(name)))
        if state:
            self.holders.append((value, state))
        self._methods(type(value))
        for name, member in list(space.items()):
            if name not in state and (declared is not None or name in self._names):
                self._walk(member, depth + 1)
        self._objects.append((value, state, declared is not None))
        return True

    def _methods(self, kind: type) -> None:
        """Take up the names that methods use which the code names, or which a call of the object leads to."""
        known = -1
        while known != len(self._names):
            known = len(self._names)
            for base in kind.__mro__:
                if base is object or f"{base.__module__}.".startswith(_OWN):
                    continue
                for name, member in vars(base).items():
                    code = getattr(getattr(member, "fget", member), "__code__", None)
                    if code is not None and (name in self._names or name in ("__call__", "forward")):
                        self._names |= set(_names_in(code))

    def _complete(self) -> None:
        """Note what of the objects must not change: of those that declare their state, all else; of others, what the
        code names."""
        for value, state, declared in self._objects:
            space = vars(value)
            names = [n for n in space if n not in state and (declared or n in self._names)]
            names = [n for n in names if self._matters(space[n])]
            if names and len(names) == len(space):
                named = f"an attribute of {type(value).__name__} ({', '.join(names)})"
                self._check_live(space, named)
            elif names:
                self._check(
                    functools.partial(_chosen(names), space),
                    f"one of the attributes {', '.join(names)} of {type(value).__name__}",
                )

    def _matters(self, value: Any) -> bool:
        return isinstance(value, _SIMPLE) or id(value) in self._seen or backend_of_type(type(value)) is not None


def _itself(value: Any) -> Any:
    return value


# in tuples, which are compared by identity first, and of two, as of one these give no tuple; both without a frame
_content = operator.attrgetter("cell_contents", "cell_contents")


def _chosen(names: list[str]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    return operator.itemgetter(*names, names[0])


def _is_state(value: Any) -> bool:
    """Whether an attribute that may be state is: a schedule in the place of a number is not."""
    return isinstance(value, (int, float, list, tuple)) and not isinstance(value, bool)


def _names_in(code: types.CodeType) -> Iterator[str]:
    """The names that code and the functions defined in it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)
