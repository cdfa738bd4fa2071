"""Random draws under ``vmap``: the keys of the batch elements.

This concerns only keys from a state, of a ``Generator`` or of a module such as ``Dropout``. A key that the user passes
is an ordinary array.
"""

from collections.abc import Callable, Iterable
from typing import Any

from agrad.engine.batching import Batch
from agrad.engine.states import note_state
from agrad.engine.tape import change_mode, mode
from agrad.engine.tensor import Tensor, strip_constant_levels
from agrad.errors import ConfigurationError
from agrad.ops import sampling

RANDOMNESS = ("error", "different", "same")
"""The values of ``randomness`` of ``vmap``."""


class Map:
    """One call of a function under ``vmap``, and how its batch elements draw.

    ``members``: the batch elements of the nesting level, or a single one, among the whole batch of ``size``. ``keys``:
    the keys drawn so far, the same list for all chunks of a map, because each chunk draws with the same ones.
    """

    def __init__(self, level: Batch, randomness: str, members: Any, size: int, keys: list[Any]) -> None:
        self.level, self.randomness, self.members, self.size, self.keys = level, randomness, members, size, keys
        self.place: int = 0

    def member(self, number: int) -> "Map":
        """Return the map for a call with one batch element, at the current position."""
        found = Map(self.level, self.randomness, self.members.start + number, self.size, self.keys)
        found.place = self.place
        return found

    def next(self, make: Callable[[], Any]) -> Any:
        """Return the next key, which another chunk may have drawn."""
        note_state(self, lambda: self.place, lambda place: setattr(self, "place", place))
        if self.place == len(self.keys):
            self.keys.append(make())
        self.place += 1
        return self.keys[self.place - 1]

    def own(self, key: Any) -> Any:
        """Return the keys of the batch elements, mapped, or the key of a single one."""
        keys = sampling.keys(key, count=self.size, domain=sampling.SPLIT, data=0)[self.members, :]
        return self.level.wrap(strip_constant_levels(keys)) if isinstance(self.members, slice) else keys


def key_under_maps(what: str, make: Callable[[], Tensor]) -> Tensor:
    """Return a key that ``make`` draws from a state.

    Under ``vmap`` there is one for each batch element if they draw differently. ``what`` draws, for the error.
    """
    maps = mode().maps
    if not maps:
        return make()
    if any(each.randomness == "error" for each in maps):
        raise ConfigurationError(
            f'{what}: vmap must know how batch elements draw random numbers, got randomness="error". Call '
            'agrad.vmap(f, randomness="different") for separate draws, or "same" for one draw that all of them share.'
        )
    for each in maps:
        make = _next(each, make)
    key: Any = make()
    for each in maps:
        if each.randomness == "different":
            key = each.own(key)
    return key


def _next(each: Map, make: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: each.next(make)


def each_member(level: Batch, call: Callable[..., Any], rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Call a function for each batch element, with its row of the arguments.

    Inside, random draws belong to that batch element.
    """
    maps = last = mode().maps
    found = []
    for k, row in enumerate(rows):
        last = tuple([each.member(k) if each.level is level else each for each in maps])
        with change_mode(maps=last):
            found.append(call(*row))
    for each, done in zip(maps, last, strict=True):
        each.place = done.place
    return found
