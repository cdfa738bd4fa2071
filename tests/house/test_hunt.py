"""The command ``python tests/hunt``: its rounds, and what it takes for a failure."""

import sys

import pytest
from hunt import __main__ as hunt


def test_a_round_has_other_seeds_than_the_next() -> None:
    first, second = hunt.jobs(3, 1), hunt.jobs(4, 1)
    assert [job.name for job in first] == [job.name for job in second]
    assert all(a.command != b.command for a, b in zip(first, second, strict=True))
    assert "random programs" in [job.name for job in first]
    assert any(job.name.startswith("the table on numpy") for job in first)
    assert len(hunt.table_of_cases()) > 10


@pytest.mark.parametrize(
    ("program", "seconds", "status", "text"),
    [
        ("print('2 passed')", 20, 0, "2 passed"),
        ("raise SystemExit('1 failed')", 20, 1, "1 failed"),
        ("import time; print('1 failed, 2 passed', flush=True); time.sleep(60)", 2, None, "1 failed"),
    ],
)
def test_commands_end_in_time(program: str, seconds: float, status: int | None, text: str) -> None:
    found, output = hunt.run(hunt.Job("a program", [sys.executable, "-c", program]), seconds)
    assert found == status
    assert text in output


def test_failures_are_seen_in_the_output_of_a_stopped_command() -> None:
    assert hunt.FAILURE.search("3 failed, 20 passed in 4 s")
    assert not hunt.FAILURE.search("20 passed, 3 skipped in 4 s")


def test_a_run_fails_if_a_command_does(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    failing = hunt.Job("a program", [sys.executable, "-c", "raise SystemExit('broken')"])
    monkeypatch.setattr(hunt, "jobs", lambda round_, processes: [failing] if round_ == 7 else [])
    monkeypatch.setattr(hunt, "rounds", lambda first, processes: iter([(first, failing)]))
    assert hunt.main(["--minutes", "1", "--round", "7"]) == 1
    printed = capsys.readouterr().out
    assert "round 7, a program: FAILED" in printed
    assert "broken" in printed
    assert "To repeat: " in printed
