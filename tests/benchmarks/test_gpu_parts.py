"""The parts of the acceptance run for a GPU: what they count, compare and measure, without a GPU."""

import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import agrad
from bench import mlp as bench_mlp
from bench.common import Job, Timing
from bench.gpu import chain, clocks, compare, goals, mlp, probe, progress, steps, tests
from bench.gpu.goals import MET, NOT_MET, Answers, Verdict
from bench.gpu.parts import Work
from bench.gpu.runner import DONE

ROOT = Path(__file__).parents[2]
NAN = float("nan")


def work(tmp_path: Path, part: str, small: bool = False) -> Work:
    (tmp_path / "logs").mkdir(exist_ok=True)
    return Work(tmp_path, Answers(part, tmp_path / "logs" / f"{part}.jsonl", small), small, time.monotonic() + 60)


def answered(given: Work) -> dict[str, Verdict]:
    return {v.name: v for v in goals.read(given.answers.file)}


def test_an_error_is_the_answer_to_its_question_alone(tmp_path: Path) -> None:
    given = work(tmp_path, "streams")
    for name in goals.STREAM_CHECKS:
        with probe.answering(given, name):
            if name == goals.STREAM_CHECKS[0]:
                raise KeyError("T")
            given.answers.give(name, 0.0, "")
    found = answered(given)
    assert [found[name].text for name in goals.STREAM_CHECKS] == ["NOT met: KeyError: 'T'", "met"]
    far = RuntimeError("agrad failed:\nTraceback (most recent call last):\n  File\nKeyError: 'T'\nin agrad's matmul")
    assert probe.brief(far) == "agrad failed: KeyError: 'T'"
    assert probe.brief(ValueError("")) == "ValueError: "


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


def test_curves_apart() -> None:
    assert steps.furthest([1.0, 4.0], [1.5, 2.0]) == 1.0
    assert math.isnan(steps.furthest([1.0, NAN, 3.0], [1.0, 2.0, 9.0]))


def test_a_meter_tells_the_clocks_apart() -> None:
    log: list[str] = []

    def between(fills: int, issue: Callable[[], None]) -> float:
        log.append(f"{fills} fills")
        issue()
        return 0.006

    def step() -> None:
        time.sleep(0.001)
        log.append("step")

    job = Job(step, wait=lambda: time.sleep(0.02))
    found = clocks.Meter(job, clocks.DeviceClock(between, 0.005), 2).sample()
    assert found["device"] == 0.003
    assert 0.001 <= found["host"] < 0.01 <= found["together"]
    assert log[:3] == ["step"] * 3  # one ahead, and two that are issued
    fills = int(log[3].split()[0])
    assert fills >= 1 + math.ceil(clocks.AHEAD * 2 * 0.001 / 0.005)
    assert log[4:] == ["step"] * 2


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


def timings(**medians: float) -> dict[str, dict[str, Timing]]:
    return {clock: {name: Timing([m] * 3) for name, m in medians.items()} for clock in goals.MLP_CLOCKS}


@pytest.mark.parametrize(("ours", "verdict"), [(1.0, MET), (1.01, NOT_MET)])
def test_the_step_is_held_against_the_best_peer(tmp_path: Path, ours: float, verdict: str) -> None:
    given = work(tmp_path, "mlp")
    mlp.answer(given, timings(**{mlp.OURS: ours, mlp.EAGER: 0.1, "JAX, jit": 1.0, "PyTorch eager": 2.0}), {})
    found = answered(given)
    assert {v.verdict for v in found.values()} == {verdict}
    assert all("x JAX, jit; " in v.measured for v in found.values())


def test_without_peers_the_step_is_not_measured(tmp_path: Path) -> None:
    given = work(tmp_path, "mlp")
    mlp.answer(given, timings(**{mlp.OURS: 1.0, mlp.EAGER: 2.0}), {"JAX, jit": "no jax", "PyTorch eager": "no torch"})
    assert {v.text for v in answered(given).values()} == {"not measured: no peer: no jax; no torch"}


def test_a_peer_that_learns_otherwise_is_left_out() -> None:
    right = np.linspace(2.0, 1.0, 10)
    assert not mlp.differing((right + 1e-4).tolist(), right.tolist())
    assert mlp.differing((right + 1e-2).tolist(), right.tolist())
    assert mlp.differing([NAN] * 10, right.tolist())


@pytest.mark.parametrize(
    ("name", "ours", "verdict", "said"),
    [
        ("20 operations on 10^8, and back", 1.0, MET, "85.0% (85.0% to 85.0%) of 283 instructions an element, which"),
        ("20 operations on 10^8, and back", 1.2, NOT_MET, "70.8%"),
        ("20 cheap operations on 10^8, and back", 0.25, MET, "100.0% (100.0% to 100.0%) of a copy at 3,200 GB/s"),
        ("20 cheap operations on 10^8, and back", 1.0, NOT_MET, "25.0%"),
    ],
)
def test_a_chain_is_held_against_the_slower_of_a_copy_and_its_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, ours: float, verdict: str, said: str
) -> None:
    monkeypatch.setattr(chain, "instruction_seconds", lambda instructions, size: instructions * 0.85e-3 / 283)
    given = work(tmp_path, "chain")
    chain.answer(given, name, 10**8, Timing([1e-3 * ours] * 3), Timing([0.25e-3] * 3))
    assert answered(given)[name].verdict == verdict
    assert answered(given)[name].measured.startswith(said)


def test_from_which_size_on_cupy_wins() -> None:
    seconds = {
        "matmul, forward": {"10": {compare.NUMPY: [1.0], compare.CUPY: [9.0]}},
        "matmul, forward + backward": {
            "10": {compare.NUMPY: [1.0, 1.0], compare.CUPY: [2.0, 2.0]},
            "1000": {compare.NUMPY: [5.0, 5.0], compare.CUPY: [2.0, 2.0]},
        },
        "solve, forward + backward": {"10": {compare.NUMPY: [1.0], compare.CUPY: [2.0]}},
    }
    assert compare.wins({"seconds": seconds}) == "faster from: matmul 1,000, solve never"


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


def test_pytest_is_ended_by_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tests, "GRACE", 0.1)
    ignores = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
    assert tests.run_for([sys.executable, "-S", "-c", ignores], 0.2) == "ended after 0 s"
    assert tests.run_for([sys.executable, "-S", "-c", "import sys; sys.exit(5)"], 20.0) == "exit code 5"


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
