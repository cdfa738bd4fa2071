"""Parameter groups and their options."""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import agrad
from agrad.engine.scalars import mark_state_used, refuse_trace
from agrad.errors import ConfigurationError, OperandError
from agrad.optim.checks import leaves

if TYPE_CHECKING:
    from agrad.optim.optimizer import Optimizer


class Choice:
    """Options that are not numbers.

    A compiled function is retraced if they change.
    """

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choice) and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.values)


class Part:
    """Parameters of one group and its options that seldom change."""

    def __init__(self, tensors: list[agrad.Tensor], options: dict[str, Any], extra: dict[str, Any]) -> None:
        self.tensors = tensors
        self.names: tuple[str, ...] = ("lr",)
        """Names of the numeric options that may change: the rate, and options that were set."""
        self.schedule: Any = None
        """Function from the number of steps to the rate, or None."""
        self.options = options
        """Other options."""
        self.made: dict[str, Any] = dict(options)
        """Initial options of the group, except for the rate."""
        self.slots: tuple[str, ...] = ()
        self.extra = extra
        """Custom keys of users and schedulers."""

    def choice(self) -> Choice:
        """Return the schedule and the options that are not numbers."""
        return Choice((self.schedule, *[v for v in self.options.values() if not isinstance(v, (float, tuple))]))


def given_groups(params: Any, what: str) -> list[dict[str, Any]]:
    """Return the given parameter groups as dictionaries with ``params``."""
    if isinstance(params, Mapping):
        raise OperandError(f"{what}: groups must be a list, got one dictionary. Pass [group].")
    if isinstance(params, agrad.Tensor) or not isinstance(params, Iterable):
        return [{"params": leaves(params, what)}]
    found = list(params)
    if not any(isinstance(group, Mapping) for group in found):
        return [{"params": found}]
    for k, group in enumerate(found):
        if not isinstance(group, Mapping):
            raise OperandError(f"{what}: all groups must be dictionaries, got {type(group).__name__} for group {k}")
    return [dict(group) for group in found]


def without_names(params: Any, what: str) -> tuple[Any, list[str] | None]:
    """Return Tensors, and their names if they are given as pairs."""
    if isinstance(params, agrad.Tensor):
        return [params], None
    if not isinstance(params, Iterable):
        return params, None
    found = list(params)
    paired = [isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in found]
    if not any(paired):
        return found, None
    if not all(paired):
        raise OperandError(f"{what}: parameter {paired.index(False)} has no name. Name all or none.")
    return [tensor for _, tensor in found], [name for name, _ in found]


class Group(MutableMapping[str, Any]):
    """Options of one parameter group by name.

    ``optimizer.param_groups`` returns a list of them.

    It contains ``params``, ``lr``, the other options, ``param_names`` for named parameters, and custom entries. A
    changed number takes effect in the next step. A changed learning rate does not retrace a compiled function. Another
    number retraces it only the first time it is set. A new Boolean or schedule always retraces it.

    optimizer: the optimizer of the group. place: the index of the group.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, optimizer: "Optimizer", place: int) -> None:
        self._optimizer, self._place = optimizer, place

    @property
    def _part(self) -> Part:
        return self._optimizer.parts[self._place]

    def __getitem__(self, name: str) -> Any:
        part = self._part
        if name == "params":
            return list(part.tensors)
        if name in part.names:
            if name == "lr" and part.schedule is not None:
                return part.schedule
            mark_state_used(self._optimizer)
            return self._optimizer.numbers[self._place][part.names.index(name)]
        return part.options[name] if name in part.options else part.extra[name]

    def __setitem__(self, name: str, value: Any) -> None:
        optimizer, part = self._optimizer, self._part
        what = type(optimizer).__name__
        if name == "params":
            raise ConfigurationError(f"{what}: params of a group cannot be changed. Call add_param_group.")
        if name not in part.names and name not in part.options:
            part.extra[name] = value
            return
        mark_state_used(optimizer)
        numbers = optimizer.numbers[self._place]
        kept = {n: self[n] for n in (*part.names, *part.options)}
        new = optimizer.checked({**kept, name: value})
        slots = optimizer.slots_of(new)
        if slots != part.slots and slots and any(optimizer.arrays[i] for i in optimizer.indices(self._place)):
            raise ConfigurationError(f"{what}: {name}={value!r} requires another state. Create a new optimizer.")
        value = new[name]
        if callable(value) or isinstance(value, bool):
            refuse_trace(f"{what}: {name}={value!r} set", "Set it outside; numbers may be set in it.")
        if name == "lr":
            part.schedule = value if callable(value) else None
            numbers[0] = 0.0 if callable(value) else value
        elif name in part.names:
            numbers[part.names.index(name)] = value
        elif isinstance(value, (float, tuple)):
            del part.options[name]
            part.names = (*part.names, name)
            numbers.append(value)
        else:
            part.options[name] = value
        part.slots = slots
        optimizer.choices[self._place] = part.choice()

    def __delitem__(self, name: str) -> None:
        if name not in self._part.extra:
            raise ConfigurationError(
                f"{type(self._optimizer).__name__}: the option {name!r} of a group cannot be deleted"
            )
        del self._part.extra[name]

    def __iter__(self) -> Iterator[str]:
        part = self._part
        return iter(("params", *part.names, *part.options, *part.extra))

    def __len__(self) -> int:
        part = self._part
        return 1 + len(part.names) + len(part.options) + len(part.extra)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.items() if name != "params")
        return f"Group({len(self._part.tensors)} parameters, {shown})"


def shared(name: str) -> property:
    """Return the attribute of an optimizer for an option of its groups.

    Reading requires that all groups agree. Setting changes all groups.
    """

    def get(self: "Optimizer") -> Any:
        first, *rest = [group[name] for group in self.param_groups]
        if any(value != first for value in rest):
            raise ConfigurationError(
                f"{type(self).__name__}: groups differ in {name}. Read optimizer.param_groups[i][{name!r}]."
            )
        return first

    def put(self: "Optimizer", value: Any) -> None:
        for group in self.param_groups:
            group[name] = value

    return property(get, put, doc=f"The option ``{name}`` of all groups.")
