"""The choice of cases: a part of every row, all of them in as many rounds as are promised, no backend left out."""

from dataclasses import dataclass
from typing import Any

import pytest
from crossing import FEW, LEAST, SLOW, crossed, part, places, turn


@dataclass(frozen=True)
class Made:
    name: str
    group: str
    slow: bool = False


MADE = [Made(f"{group} {i}", group) for group, count in (("add", 30), ("exp", 5), ("single", 1)) for i in range(count)]
THREE = ("numpy", "torch", "jax")


def test_a_round_takes_a_part_of_every_row_on_one_backend_each() -> None:
    pairs = list(crossed("test_value", MADE, THREE, 0))
    cases = [case for _, case in pairs]
    assert len(set(cases)) == len(cases)
    counts = {group: sum(case.group == group for case in cases) for group in ("add", "exp", "single")}
    assert counts["single"] == 1
    assert counts["exp"] >= LEAST
    assert LEAST <= counts["add"] <= 30 / FEW * 2


def test_rounds_and_tests_differ_and_a_round_repeats() -> None:
    first = list(crossed("test_value", MADE, THREE, 0))
    assert first == list(crossed("test_value", MADE, THREE, 0))
    assert first == list(crossed("test_value", MADE, THREE, FEW * len(THREE)))
    assert first != list(crossed("test_value", MADE, THREE, 1))
    assert first != list(crossed("test_gradients", MADE, THREE, 0))


def test_without_a_round_all_are_crossed_and_whole_takes_all_once() -> None:
    assert len(list(crossed("test_value", MADE, THREE, None))) == len(MADE) * len(THREE)
    whole = list(crossed("test_value", MADE, THREE, 3, whole=True))
    assert [case for _, case in whole] == MADE
    assert {backend for backend, _ in whole} == set(THREE)


SLOWER = [Made(f"slow {i}", "slow", slow=True) for i in range(40)]


@pytest.mark.parametrize(
    ("made", "rounds", "options", "largest"),
    [
        (MADE, FEW, {}, len(MADE)),
        (SLOWER, FEW * SLOW, {"whole": True}, 9),
        (MADE, 5 * FEW, {"few": 5 * FEW}, len(MADE)),
    ],
    ids=["a round", "slow rows", "fewer"],
)
def test_in_time_every_case_meets_every_backend(
    made: list[Made], rounds: int, options: dict[str, Any], largest: int
) -> None:
    taken = [list(crossed("test_value", made, THREE, r, **options)) for r in range(rounds * len(THREE))]
    assert max(map(len, taken)) <= largest
    assert {pair for pairs in taken for pair in pairs} == {(backend, case) for backend in THREE for case in made}


def test_a_part_has_one_at_least_and_all_come_in_time() -> None:
    names = [f"test_a[{i}]" for i in range(30)]
    parts = [part(names, round_, 6) for round_ in range(6)]
    assert all(0 < len(taken) < 15 for taken in parts)
    assert set().union(*parts) == set(names)
    assert part(["test_b"], 3, 6) == {"test_b"}


def test_places() -> None:
    plain = ["numpy", "array_api_strict", "array_api_strict:device1"]
    assert places(plain) == ["numpy", "array_api_strict:device1"]
    assert places(plain, elsewhere=True) == ["array_api_strict:device1"]
    missing = pytest.param("cupy", marks=pytest.mark.skip)  # a library that is not installed, with ``--backend all``
    assert places([*plain, missing]) == ["numpy", "array_api_strict:device1", missing]


@pytest.mark.parametrize("length", [1, 2, 12])
def test_a_turn_moves_by_one(length: int) -> None:
    turns = [turn("a name", round_, length) for round_ in range(length)]
    assert sorted(turns) == list(range(length))
    assert turns[1 % length] == (turns[0] + 1) % length
