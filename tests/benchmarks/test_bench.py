"""The benchmarks' command line: quick runs of every suite, tables that parse, missing libraries named, clear errors."""

import functools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import fails, refuses
from standard_names import STANDARD, WITHOUT_DERIVATIVE

from bench import common, diff, ops
from bench.common import Timing
from bench.compare import wins_from
from bench.limits import Limits
from bench.ops_cases import CASES
from bench.ops_jobs import build
from bench.ops_reasons import AUTOGRAD_REASONS, REASONS
from bench.suites import MODULES, Options, UsageError, load_suite, options_for, parser

pytest_plugins = ["bench_fixtures"]

ROOT = Path(__file__).parents[2]


def bench(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A run of ``python -m bench`` from the checkout."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "AGRAD_"))} | more
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


def options(*given: str) -> dict[str, Options]:
    parsed = parser().parse_args(given)
    return options_for(parsed, {name: load_suite(name) for name in parsed.suites})


def tables(text: str) -> list[list[list[str]]]:
    """The Markdown tables of a text, as cells; all rows of one must be as long as its head."""
    found: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("|"):
            if not inside:
                found.append([])
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        inside = line.startswith("|")
    for rows in found:
        assert {len(row) for row in rows} == {len(rows[0])}
        assert set("".join(rows[1])) <= {"-", ":"}
    return found


def check_files(file: Path, name: str | None = None) -> dict[str, Any]:
    """A run's record and its tables, all of a suite if named; every sample is a positive number of seconds."""
    assert tables(file.with_suffix(".md").read_text(encoding="utf-8"))
    record = json.loads(file.read_text(encoding="utf-8"))
    samples = [v for _, values in diff.read(file).items() for v in values]
    assert samples and min(samples) > 0
    assert {"suite", "machine", "left_out", "seconds", "computed_with", "limits"} <= set(record)
    assert name is None or (record["suite"], not record["left_out"]) == (name, True)
    return record


# ------------------------------------------------------------------ quick runs


def test_a_quick_run_in_processes_of_their_own(tmp_path: Path) -> None:
    done = bench("overhead", "--quick", "--peers", "none", "--json", str(tmp_path / "run.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    check_files(tmp_path / "run.json", "overhead")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.needs("threadpoolctl")) if n in ("tables", "threads") else n
        for n in MODULES
        if n not in ("compare", "overhead", "ops", "transforms", "launches", "kernels")
    ],
)
def test_a_quick_run_without_peers(run: Callable, name: str, tmp_path: Path) -> None:
    choice = ["--backends", "numpy"] if load_suite(name).backends else []
    choice += ["--peers", "none"] if load_suite(name).peers else []
    choice += ["--repeat", "1", *(["--only", "wine"] if name == "threads" else [])]
    code, out, err = run(name, "--quick", "--json", str(tmp_path / "run.json"), *choice)
    assert code == 0, out + err
    check_files(tmp_path / "run.json", name)


@pytest.mark.needs("matplotlib")
def test_a_quick_run_of_compare(run: Callable, tmp_path: Path) -> None:
    file, plot = tmp_path / "run.json", tmp_path / "plot.png"
    given = ("--backends", "numpy", "--sizes", "100", "--only", "matmul,softmax")
    code, out, err = run("compare", "--quick", *given, "--json", str(file), "--plot", str(plot))
    assert code == 0, out + err
    record = check_files(file)
    assert set(record["seconds"]) == {f"{w}, {p}" for w in ("matmul", "softmax") for p in (ops.FORWARD, ops.GRADIENT)}
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "nothing to compare it with" in out


def without(monkeypatch: pytest.MonkeyPatch, folder: Path, library: str) -> None:
    """A folder before all others holds a module that cannot be imported, as a missing one cannot."""
    (folder / f"{library}.py").write_text(f"raise ImportError('No module named {library}, for the test')")
    monkeypatch.syspath_prepend(folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)


def test_a_backend_that_cannot_run_is_named_and_left_out(
    run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, tmp_path, "cupy")
    given = ("compare", "--quick", "--sizes", "100", "--only", "reduction", "--backends")
    code, out, err = run(*given, "numpy,cupy")
    assert code == 0, out + err
    assert "left out, agrad, cupy: Backend 'cupy' is not available" in out
    code, _, err = run(*given, "cupy")
    assert code == 2 and "no backend could run" in err


def test_a_missing_peer_is_named_and_left_out(run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, tmp_path, "autograd")
    file = tmp_path / "run.json"
    code, out, err = run("ops", "--quick", "--only", "sin", "--peers", "autograd", "--json", str(file))
    assert code == 0, out + err
    assert "left out, autograd: No module named autograd, for the test" in out and "Not judged" in out
    assert set(check_files(file)["seconds"]["sin, 100, forward"]) == {"agrad"}


def test_several_suites_write_a_folder(run: Callable, tmp_path: Path) -> None:
    given = ("ops", "overhead", "--quick", "--peers", "none", "--only", "exp", "--json", str(tmp_path / "runs"))
    code, out, err = run(*given)
    assert code == 0, out + err
    for name in ("ops", "overhead"):
        check_files(tmp_path / "runs" / f"{name}.json", name)


def test_the_pins_of_openblas_are_cleared() -> None:
    done = bench("nosuch", OPENBLAS_CORETYPE="Haswell")
    assert done.returncode == 2 and "there is no suite 'nosuch'" in done.stderr


# ------------------------------------------------------------------ what is asked for


test_wrong_words_are_clear_errors = refuses([(UsageError, text, lambda words=words: options(*words.split()))
    for words, text in (
        ("nosuch", "there is no suite 'nosuch'; there are overhead"),
        ("mlp --backends nosuch", "--backends nosuch: unknown; there are numpy"),
        ("ops --backends numpy", "ops: there is no choice of --backends"),
        ("ops --peers torch,nosuch", "--peers nosuch: unknown"),
        ("ops --only sine", "--only sine: unknown"),
        ("ops --dtype int8", "--dtype int8: unknown; there are float64, float32"),
        ("ops --sizes many", "sizes must be numbers"),
        ("ops --sizes 0", "1 or more"),
        ("overhead --sizes 10", "overhead: there is no choice of --sizes"),
        ("overhead --plot a.png", "there is no choice of --plot"),
        ("ops --device cuda", "there is no choice of --device"),
        ("ops --repeat 0", "at least one round"),
        ("ops --sample -1", "more than 0 seconds"),
        ("ops mlp --json a.json", "pass a folder"),
    )])  # fmt: skip


def test_options_go_to_the_suites_that_take_them() -> None:
    found = options("ops", "mlp", "--peers", "jax,torch", "--sizes", "1e3,64", "--quick")
    assert found["ops"].peers == ("torch",)
    assert found["mlp"].peers == ("jax", "torch")
    assert found["ops"].sizes == found["mlp"].sizes == (1000, 64)
    assert found["ops"].repeat == 2 and found["ops"].only == load_suite("ops").quick_only
    assert options("ops")["ops"].only == () and options("ops")["ops"].dtype == "float64"
    assert options("mlp", "--device", "cpu")["mlp"].device is None


# ------------------------------------------------------------------ limits and judgement


def test_limits_are_set_by_what_takes_longer() -> None:
    limits = Limits(flops=1e9, bytes=1e10, where="here")
    assert limits.seconds(1e10) == (1.0, "bandwidth")
    assert limits.seconds(1e10, 2e9) == (2.0, "matrix rate")
    assert "1 GFLOP/s" in limits.text() and "10.0 GB/s" in limits.text()


def test_the_size_from_which_one_wins() -> None:
    for ratios, size in (
        ([0.5, 1.5, 3.0], 10), ([1.5, 0.5, 3.0], 100), ([1.5, 1.5, 0.9], None), ([1.1, 1.2], 1), ([1.1, None], None),
    ):  # fmt: skip
        assert wins_from([1, 10, 100][: len(ratios)], ratios) == size


def row(name: str, ours: float, torch: float, autograd: float, size: int = ops.LARGE) -> ops.Row:
    timings = {ops.AGRAD: Timing([ours] * 3), ops.TORCH: Timing([torch] * 3), ops.AUTOGRAD: Timing([autograd] * 3)}
    return ops.Row(name, size, dict.fromkeys((ops.FORWARD, ops.GRADIENT), timings))


def test_slow_rows_need_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "REASONS", {"cos": "NumPy's own", "tan": "none any more"})
    rows = [row("sin", 2.0, 1.0, 3.0), row("cos", 2.0, 1.0, 3.0), row("tan", 1.0, 1.0, 0.5), row("exp", 1.3, 1.0, 2.0)]
    found = ops.judge([*rows, row("log", 9.0, 1.0, 10.0, size=100)])
    for key, name in (("unexplained", "sin"), ("slow", "cos"), ("stale", "tan")):
        assert [line.split("`")[1] for line in found[key]] == [name]
    assert len(found["slower than autograd"]) == 2 and "`tan`" in found["slower than autograd"][0]
    text = ops.verdict_text(found, True)
    assert "NumPy's own" in text and "no reason" in text


def test_ratios_are_those_of_the_fastest_rounds() -> None:
    timings = {ops.AGRAD: Timing([3.0, 1.0, 9.0]), ops.TORCH: Timing([2.0, 8.0, 4.0])}
    assert ops.Row("sin", 100, {ops.FORWARD: timings}).ratio(ops.FORWARD, ops.TORCH) == 0.5


def pools() -> common.Job:
    """A job for a process of its own, which loads NumPy's BLAS there."""
    return common.Job(lambda: 0.0)


@pytest.mark.needs("threadpoolctl")
def test_a_process_of_one_thread_computes_on_one_and_leaves_the_environment() -> None:
    before = dict(os.environ)
    runner = common.Remote(common.Candidate("numpy", pools), one_thread=True)
    try:
        runner.begin(())
        report = runner.built()
    finally:
        runner.close()
    assert report["pools"] and all(pool.endswith(" 1 threads") for pool in report["pools"])
    assert dict(os.environ) == before


def test_every_differentiable_function_is_measured_and_reasons_are_of_these() -> None:
    assert set(CASES) == set(STANDARD) - set(WITHOUT_DERIVATIVE)
    assert set(REASONS) | {name for name, _ in AUTOGRAD_REASONS} <= set(CASES)
    assert {part for _, part in AUTOGRAD_REASONS} <= {ops.FORWARD, ops.GRADIENT}
    assert all(len(reason) > 20 for reason in (*REASONS.values(), *AUTOGRAD_REASONS.values()))


@pytest.mark.parametrize("name", CASES)
def test_every_case_runs(name: str) -> None:
    job = build(name, 100, "float64", "agrad")
    for step in job.parts.values():
        step()
    found = np.asarray(job.read(job.step())["agrad"])
    assert found.size and np.isfinite(found).all()


@pytest.mark.needs("autograd")
def test_a_library_without_the_function_is_named() -> None:
    job = build("sort", 100, "float64", "agrad", "autograd")
    assert "autograd has no" in job.step()["autograd"]
    assert not any(name.startswith("autograd") for name in job.parts)
    fails(common.Missing, "autograd has none", build, "sort", 100, "float64", "autograd")


def test_calibration_and_samples_of_parts() -> None:
    calls: Counter[str] = Counter()
    parts = {name: functools.partial(calls.update, name) for name in "ab"}
    local = common.Local(common.Candidate("two", lambda: common.Job(parts["a"], parts=parts)))
    local.build(())
    numbers = local.calibrate(1e-4)
    assert set(numbers) == {"a", "b"} and min(numbers.values()) >= 1
    for numbers, options, expected in (
        ({"a": 5, "b": 1}, {}, {"a": 6, "b": 1}),
        ({"a": 50, "b": 1}, {"batches": 10}, {"a": 60, "b": 6}),
    ):
        calls.clear()
        assert min(local.samples(numbers, **options).values()) > 0
        assert calls == expected
