"""Random programs and training steps by seed; and tests of what finds the failures.

``RANDOM_PROGRAMS=N`` runs N seeds; ``--round`` moves on to others.
"""

import os
from collections import Counter
from typing import Any

import numpy as np
import pytest
from random_programs import outcomes_of, ways_of
from random_programs.comparing import Undecided, Wrong, slope_is
from random_programs.outcomes import OK, REFUSED, UNDECIDED, UNFIT, WRONG, run
from random_programs.program import INPUT, OPERATIONS, Program, Step, generate
from random_programs.reduce import reduce_failure, script
from random_programs.steps import World, first_fault
from random_programs.ways import WAYS
from refusals import fails
from small_blocks import use_small_blocks

import agrad

SEEDS, PIECES = int(os.environ.get("RANDOM_PROGRAMS", "196")), 14
WITH_SCIPY = [pytest.param(piece, marks=pytest.mark.needs("scipy")) for piece in range(4, PIECES)]
"""Pieces of the seeds for which the operations of SciPy are needed. The others run without it, too."""
MOST_UNDECIDED = 0.01
STEPS, FEW_STEPS = 50, 3
"""The seeds of training steps on NumPy, and on libraries that compile each operation."""


@pytest.mark.parametrize("piece", [*range(4), *WITH_SCIPY])
def test_programs(piece: int, pytestconfig: pytest.Config) -> None:
    start = SEEDS * pytestconfig.getoption("--round") + piece * SEEDS // PIECES
    counts: Counter[str] = Counter()
    for seed in range(start, start + SEEDS // PIECES):
        for outcome in outcomes_of(seed, dict.fromkeys([*ways_of(seed), "loop"])):
            counts[outcome.verdict] += 1
            if outcome.fails:
                pytest.fail(f"seed {seed}\n{script(*reduce_failure(generate(seed), outcome, seed))}")
    assert set(counts) <= {OK, REFUSED, UNDECIDED, UNFIT}
    assert counts[OK] > 0.9 * sum(counts.values())
    assert counts[UNDECIDED] <= max(2, MOST_UNDECIDED * sum(counts.values()))


def test_jitted_training_steps_are_the_eager_ones(
    backend: str, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second half of the seeds on NumPy, with groups of small arrays."""
    first, found = pytestconfig.getoption("--round") * STEPS, {}
    for seed in range(first, first + (STEPS if backend == "numpy" else FEW_STEPS)):
        if seed == first + STEPS // 2:
            use_small_blocks(monkeypatch)
        found[seed] = first_fault(seed)
    faults = [f"{seed}: {fault}\n{World(seed, False).texts}" for seed, fault in found.items() if fault]
    assert not faults, "\n\n".join(faults)


def test_programs_are_reproducible_and_use_all_operations_and_ways() -> None:
    used: set[str] = set()
    for seed in range(450):
        program = generate(seed)
        used |= program.operations
        assert seed % 50 or program.source() == generate(seed).source()
    assert len(used) >= 0.9 * len(OPERATIONS) and len(used) >= 150
    assert {way for seed in range(10) for way in ways_of(seed)} == set(WAYS)
    assert all(len(ways_of(seed)) == len(set(ways_of(seed))) == 5 for seed in range(20))


# ---------------------------------------------------------------- what finds a failure


def a_wrong_sine() -> Any:
    """Return a sine whose derivative is too large by a hundredth."""
    right = agrad.sin
    sine = agrad.custom_vjp(right)
    sine.defvjp(lambda x: (right(x), x), lambda x, g: (1.01 * g * agrad.cos(x),))
    return sine


def test_a_wrong_rule_is_found_and_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agrad, "sin", a_wrong_sine())
    for seed in range(300):
        program = generate(seed)
        outcome = run(program, "reverse", seed) if "A.sin(" in program.source() else None
        if outcome is not None and outcome.verdict == WRONG:
            break
    else:
        pytest.fail("not found")
    smaller, last = reduce_failure(program, outcome, seed)
    assert last.verdict == WRONG
    assert len(smaller.operations) <= 3
    assert "A.sin(" in smaller.source()
    text = script(smaller, last)
    assert "gradient along a direction" in text
    compile(text, "<reduced>", "exec")


def one_sine() -> Program:
    x = np.array([0.3, 0.8])
    return Program((Step(0, INPUT, (), {"value": x}), Step(1, "{xp}.sin({0})", (0,), {"xp": "A"})), (1,))


def test_a_wrong_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(one_sine(), "values").verdict == OK
    monkeypatch.setattr(agrad, "sin", agrad.cos)
    outcome = run(one_sine(), "values")
    assert (outcome.verdict, outcome.kind) == (WRONG, "outside")


@pytest.mark.parametrize("way", WAYS)
def test_a_changed_input_is_found(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sine of the right value and derivative that writes into the memory of what it was given."""
    right = agrad.sin

    def writes(x: Any) -> Any:
        y = right(x)
        raw = getattr(x, "raw", x)
        raw[...] = raw + 1.0
        return y

    assert run(one_sine(), way).verdict == OK
    monkeypatch.setattr(agrad, "sin", writes)
    outcome = run(one_sine(), way)
    # these are given stacked copies, or know what a body carries
    kinds = {"vmap": "mapped gradient", "vmap_inside": "mapped tangent", "loop": "jitted scan"}
    assert (outcome.verdict, outcome.kind) == (WRONG, kinds.get(way, "an input changed"))


def test_kinks_are_undecided() -> None:
    slope_is(lambda t: float(np.sin(t)), 1.0, 1.0, 1e-6, "sine")
    for wrong in (1.001, np.nan):
        sine = lambda t: float(np.sin(t))  # noqa: E731
        fails(Wrong, f"sine: {wrong}, by finite differences 1", slope_is, sine, wrong, 1.0, 1e-6, "sine")
    fails(Undecided, "kink: differences give", lambda: slope_is(lambda t: float(abs(t + 1e-6)), 1.0, 1.0, 1e-6, "kink"))
