"""Selection of the arguments of a rule from the available values."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

Values = tuple[Any, ...]


def picker(places: Sequence[int | Sequence[int]]) -> Callable[[Sequence[Any]], Any]:
    """Return the function that selects the entries of a sequence at ``places``.

    A sequence of indices selects a tuple: ``picker([0, [1, 2]])((5, 6, 7))`` is ``(5, (6, 7))``.
    """
    if any(not isinstance(place, int) for place in places):
        pickers = [place if isinstance(place, int) else picker(place) for place in places]
        return lambda values: tuple([values[p] if isinstance(p, int) else p(values) for p in pickers])
    if not places:
        return itemgetter(slice(0))
    if len(places) == 1:
        i: Any = places[0]
        return itemgetter(slice(i, i + 1) if i != -1 else slice(i, None))
    return itemgetter(*places)


def settings_picker(names: Sequence[str], known: Sequence[str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the function that selects options by name."""
    if len(names) == len(known):
        return lambda settings: settings
    if len(names) == 1:
        (only,) = names
        return lambda settings: {only: settings[only]}
    return lambda settings: {name: settings[name] for name in names}


def first_places(entries: Sequence[str]) -> dict[str, int]:
    """Return the first index of each entry."""
    places: dict[str, int] = {}
    for i, entry in enumerate(entries):
        places.setdefault(entry, i)
    return places


def places_of(names: Sequence[str], entries: Sequence[str], primitive: Any, count: int) -> list[Any]:
    """Return the indices of the parameters of a rule among ``entries``.

    The variadic argument of the primitive, called with ``count`` arguments, has several indices.
    """
    rest = primitive.argument_names(count)[len(primitive.arrays) :]
    at = first_places(entries)
    places: list[Any] = []
    for name in names:
        base, suffix = (name[:-5], "_meta") if name.endswith("_meta") else (name, "")
        several = base == primitive.variadic and name not in at
        places.append([at[f"{a}{suffix}"] for a in rest] if several else at[name])
    return places
