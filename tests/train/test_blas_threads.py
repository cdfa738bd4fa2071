"""The choice of the number of BLAS threads by the time of steps."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import fails

from agrad.errors import ConfigurationError
from agrad.train import threads
from agrad.train.threads import AGAIN, Choice, candidates


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine of four processors on which steps take the time that a function of the number of threads says."""

    class Machine:
        """A machine, and its BLAS, whose number of threads is a number."""

        number, now = 7, 0.0

        def __init__(self) -> None:
            self.used: list[int] = []

        def get_num_threads(self) -> int:
            return self.number

        def set_num_threads(self, number: int) -> None:
            self.number = number

        def run(self, choice: Choice, seconds: Callable[[int], float], steps: int) -> None:
            for _ in range(steps):
                self.used.append(self.number)
                took = seconds(self.number)
                self.now += took
                choice.step(took)

    made = Machine()
    monkeypatch.setattr(threads, "_libraries", lambda _: [made])
    monkeypatch.setattr(threads, "cores", lambda: 4)
    monkeypatch.setattr(time, "perf_counter", lambda: made.now)
    return made


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        (lambda n: 0.01 * n, 1),
        (lambda n: 0.04 / n, 4),
        (lambda n: 0.01 * (1 + abs(n - 2)), 2),
        (lambda n: 0.01 * (1 - 0.01 * n), 1),
    ],
    ids=["fewer", "more", "two", "alike"],
)
def test_the_fastest_number_is_held_and_given_back(machine: Any, seconds: Callable[[int], float], best: int) -> None:
    with Choice() as choice:
        machine.run(choice, seconds, 100)
        assert choice.number == machine.number == best
        assert set(machine.used) == {1, 2, 4}
    assert machine.number == 7


def test_a_number_that_is_far_slower_is_given_up_at_once(machine: Any) -> None:
    with Choice() as choice:
        machine.run(choice, lambda n: 0.01 if n == 1 else 1.0, 30)
        assert choice.number == 1
    assert machine.used.count(2) == machine.used.count(4) == 1


def test_steps_that_become_slower_are_measured_again(machine: Any) -> None:
    with Choice() as choice:
        machine.run(choice, lambda n: 0.04 / n, 1000)
        assert choice.number == 4
        machine.used.clear()
        machine.run(choice, lambda n: 0.04 if n == 1 else 0.2, 300)
        assert choice.number == 1
        assert machine.used.count(4) < 150


def test_all_are_tried_again_after_a_while_and_rarely(machine: Any) -> None:
    with Choice() as choice:
        machine.run(choice, lambda n: 0.01 * n, 100)
        machine.used.clear()
        machine.run(choice, lambda n: 0.01 * n, round(4 * AGAIN / 0.01))
        assert 2 <= machine.used.count(4) <= 40
        assert machine.used.count(1) > 0.95 * len(machine.used)


def test_a_limit_of_the_users_is_kept(machine: Any) -> None:
    machine.number = 2
    with Choice() as choice:
        machine.run(choice, lambda n: 0.04 / n, 100)
        assert choice.number == 2
    assert set(machine.used) == {1, 2}
    machine.number = 1
    with Choice() as choice:
        machine.run(choice, lambda n: 0.04 / n, 10)
        assert choice.number is None


def test_a_number_is_held_and_given_back_after_an_error(machine: Any) -> None:
    with pytest.raises(KeyError, match="mine"), Choice(3) as choice:
        machine.run(choice, lambda n: 0.01, 100)
        assert set(machine.used) == {3}
        raise KeyError("mine")
    assert machine.number == 7
    with Choice(None) as choice:
        machine.run(choice, lambda n: 0.01, 10)
        assert choice.number is None
    assert machine.number == 7


def test_candidates_go_from_one_to_all() -> None:
    for count in (1, 2, 3, 4, 6, 16):
        found = candidates(count)
        assert (found[0], found[-1]) == (1, count) and found == sorted(set(found))


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "all"])
def test_other_numbers_are_refused(wrong: Any) -> None:
    fails(ConfigurationError, "threads must be 'auto', an integer", lambda: Choice(wrong))


@pytest.mark.needs("threadpoolctl")
def test_numpys_own_blas_is_told() -> None:
    from threadpoolctl import threadpool_info

    def numbers() -> list[int]:
        return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]

    threads._controllers.cache_clear()  # a library that another test loaded since is not in it
    before = numbers()
    x = np.ones((50, 50))
    other = 2 if set(before) == {1} else 1
    with Choice(other):
        assert float((x @ x)[0, 0]) == 50
        assert set(numbers()) == {other}
    assert numbers() == before
