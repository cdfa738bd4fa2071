"""Step counts of parameters, one for each group with equal counts."""

from collections.abc import Collection, Sequence

from agrad.optim.groups import Choice


def grouped(steps: Sequence[int]) -> tuple[list[Choice], list[int]]:
    """Return the indices of the parameters of equal steps, and the steps."""
    members: dict[int, list[int]] = {}
    for i, n in enumerate(steps):
        members.setdefault(n, []).append(i)
    return [Choice(tuple(some)) for some in members.values()], list(members)


def each(members: Sequence[Choice], values: Sequence[int]) -> list[int]:
    """Return the value of each parameter from the values of the groups."""
    found = {i: n for some, n in zip(members, values, strict=True) for i in some.values}
    return [found[i] for i in sorted(found)]


def split(members: Sequence[Choice], stepped: Collection[int]) -> tuple[list[Choice], list[int]]:
    """Split the groups into parameters that take a step and parameters that do not.

    Return the indices of the parameters of each new group, and the old index of each count.
    """
    parts, before = [], []
    for place, some in enumerate(members):
        for part in ([i for i in some.values if i in stepped], [i for i in some.values if i not in stepped]):
            if part:
                parts.append(Choice(tuple(part)))
                before.append(place)
    return parts, before
