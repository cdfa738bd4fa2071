"""Counts of the steps of parameters: one for all that took the same ones."""

from collections.abc import Collection, Sequence

from agrad.optim.groups import Choice


def grouped(steps: Sequence[int]) -> tuple[list[Choice], list[int]]:
    """Return the numbers of the parameters of equal steps, and the steps."""
    members: dict[int, list[int]] = {}
    for i, n in enumerate(steps):
        members.setdefault(n, []).append(i)
    return [Choice(tuple(some)) for some in members.values()], list(members)


def each(members: Sequence[Choice], values: Sequence[int]) -> list[int]:
    """Return the value of each parameter.

    values: one for all that are counted together.
    """
    found = {i: n for some, n in zip(members, values, strict=True) for i in some.values}
    return [found[i] for i in sorted(found)]


def split(members: Sequence[Choice], stepped: Collection[int]) -> tuple[list[Choice], list[int]]:
    """Count parameters that take a step apart from those that do not.

    Returns the numbers of the parameters that are counted together, and the place that each count had before.
    """
    parts, before = [], []
    for place, some in enumerate(members):
        for part in ([i for i in some.values if i in stepped], [i for i in some.values if i not in stepped]):
            if part:
                parts.append(Choice(tuple(part)))
                before.append(place)
    return parts, before
