"""Random rows of jitted training steps, and of writes between them, give what eager steps give."""

import pytest
from random_steps import World, differ, recipe

COUNT, FEW = 60, 3
"""The rows that are taken on NumPy, and on libraries that compile each operation."""


def first_fault(seed: int) -> str | None:
    """Return how a jitted run of a recipe differs from the eager one, or None.

    The row ends where both raise an error of the same class.
    """
    made = recipe(seed)
    tolerance = 1e-3 if made.dtype == "float32" else 1e-8
    worlds = World(made, jitted=False), World(made, jitted=True)
    for at, (kind, i, *more) in enumerate(made.actions):
        outs, errors = [], []
        for world in worlds:
            try:
                outs.append(world.act(kind, i, *more))
            except AssertionError:
                raise
            except Exception as error:
                errors.append(error)
        if errors:
            return None if len({*map(type, errors)}) == 1 and len(errors) == 2 else f"{at}: {errors}"
        found = differ(*outs, tolerance) or differ(*[world.state() for world in worlds], tolerance)
        kept = [differ(was, is_now, 0) for was, is_now in worlds[1].unchanged()]
        if found or any(kept):
            return f"{at} ({kind}): {found or f'a result changed: {kept}'}"
    return None


def test_jitted_steps_are_the_eager_ones(backend: str, pytestconfig: pytest.Config) -> None:
    count = COUNT if backend == "numpy" else FEW
    first = pytestconfig.getoption("--round") * COUNT
    found = {seed: fault for seed in range(first, first + count) if (fault := first_fault(seed))}
    assert not found, "\n\n".join(f"{seed}: {fault}\n{recipe(seed)}" for seed, fault in found.items())
