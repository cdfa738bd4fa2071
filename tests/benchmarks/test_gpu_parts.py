"""The parts of the acceptance run for a GPU: what they count, compare and measure, without a GPU."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import agrad
from bench import mlp as bench_mlp
from bench.common import Job
from bench.gpu import clocks, goals, probe, progress, steps, tests
from bench.gpu.goals import MET, Answers, Verdict
from bench.gpu.parts import Work
from bench.gpu.runner import DONE

ROOT = Path(__file__).parents[2]
NAN = float("nan")


def work(tmp_path: Path, part: str, small: bool = False) -> Work:
    (tmp_path / "logs").mkdir(exist_ok=True)
    return Work(tmp_path, Answers(part, tmp_path / "logs" / f"{part}.jsonl", small), small, time.monotonic() + 60)


def answered(given: Work) -> dict[str, Verdict]:
    return {v.name: v for v in goals.read(given.answers.file)}


@pytest.mark.needs("cupy", "cuda_on_cpu")
def test_the_probe_answers_all_its_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = work(tmp_path, "probe")
    monkeypatch.setattr(agrad, "set_backend", lambda name: None)  # it would last
    with agrad.use_backend("cupy"):
        probe.run(given)
    found = answered(given)
    assert {name: found[name].text for name in probe.QUESTIONS} == dict.fromkeys(probe.QUESTIONS, "met")


@pytest.mark.parametrize(
    ("code", "whole", "said"),
    [
        ("graph:\n    v0 = sin(a0)\n", True, "1 graph, 0 between"),
        ("graph:\n    v0 = sin(a0)\nbetween graphs:\n    v1 = inv(v0)\n", False, "1 graph, 1 between"),
        ("# runs without graphs: too often\ngraph:\n    v0 = sin(a0)\n", False, "1 graph, 1 between"),
        ("graph: could not be captured (no)\n    v0 = sin(a0)\n", False, "0 graphs, 1 between"),
    ],
)
def test_one_graph_with_nothing_between(code: str, whole: bool, said: str) -> None:
    assert steps.shape_of(code) == (whole, said)


@pytest.mark.needs("jax")
def test_the_clock_of_jax() -> None:
    check_times(bench_mlp.jax(8, None), lambda job: clocks.of_jax(16, job.wait))


@pytest.mark.needs("cupy")
def test_the_clock_of_cupy() -> None:
    check_times(bench_mlp.agrad(8, "cupy", None, True), lambda job: clocks.of_cupy(16))


def check_times(job: Job, clock: Callable[[Job], clocks.DeviceClock]) -> None:
    made = clock(job)
    assert 0 < made.fill_seconds < 1
    assert made.most + clocks.COUNT <= clocks.QUEUE_OF_JAX or made.most == 64
    meter = clocks.Meter(job, made, 2)
    for _ in range(2):
        found = meter.sample()
        assert set(found) == set(goals.MLP_CLOCKS)
        assert found["device"] > 0
        assert 0 < found["host"] < found["together"]


# ---------------------------------------------------------------- the sample of the tests


SAMPLE = """
import os, signal, pytest
def test_fine(): pass
def test_wrong(): assert 1 == 2
def test_left_out(): pytest.skip("not here")
@pytest.fixture
def broken(): raise ValueError("no fixture")
def test_without_fixture(broken): pass
def test_dies(): os.kill(os.getpid(), signal.SIGKILL)
def test_never(): pass
"""


def test_a_run_of_tests_that_is_cut_off_still_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE)

    def line(file: Path, small: bool) -> list[str]:
        some = ["-q", "-c", os.devnull, "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-p", progress.__name__]
        return [sys.executable, "-m", "pytest", *some, "--progress", str(file), str(tmp_path / "test_sample.py")]

    monkeypatch.setattr(tests, "command", line)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    given = work(tmp_path, "tests")
    tests.run(given)
    (verdict,) = answered(given).values()
    assert verdict.measured == "1 passed, 2 failed, 1 skipped of 6"
    assert verdict.text == "NOT met: first: test_sample.py::test_wrong"
    assert "ValueError: no fixture" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("how", "lines", "text"),
    [
        (DONE, ['{"selected": 1}', '{"outcome": "passed", "test": "a"}'], MET),
        ("ended after 9 s", ['{"selected": 9}', '{"outcome": "passed", "test": "a"}'], MET),
        ("exit code 1", ['{"outcome": "passed", "test": "a"}'], "NOT met: pytest: exit code 1"),
        ("exit code 4", [], "not measured: no test ran: exit code 4"),
    ],
)
def test_how_a_run_of_tests_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, lines: list[str], text: str
) -> None:
    given = work(tmp_path, "tests")

    def run_for(line: list[str], seconds: float) -> str:
        Path(line[line.index("--progress") + 1]).write_text("\n".join(lines) + "\n")
        return how

    monkeypatch.setattr(tests, "run_for", run_for)
    tests.run(given)
    assert answered(given)[tests.NAME].text == text


def test_the_sample_names_files_that_there_are() -> None:
    for name in {*tests.FILES, *tests.SMALL_FILES}:
        assert (ROOT / "tests" / f"{name}.py").exists()
