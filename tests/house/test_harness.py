"""The options of the suite itself: a backend that was named and cannot run is never silently skipped."""

import os
import re
from pathlib import Path
from typing import Any

import crossing
import oldest_versions
import pytest
from refusals import fails

import agrad

pytest_plugins = ["pytester"]

HERE = Path(__file__).parents[1]
OWN = """
import types
import pytest
from crossing import each

def made(i, **more):
    return types.SimpleNamespace(name=f"made {i}", group="made", slow=False, **more)


CASES = [made(i, item=f"item {i}") for i in range(24)]


@each(CASES)
def test_placed(case, backend): ...


@each(CASES)
def test_of_numpy(case): ...


@each([made(i) for i in range(3)], whole=True)
def test_of_a_row(case):
    if case.name != "made 1":
        pytest.skip("tired")
    assert case.name == "right"


def test_on_a_backend(backend): ...


@pytest.mark.parametrize("i", range(40))
def test_of_parameters(backend, i): ...


@pytest.mark.needs("numpy")
def test_needs_numpy(): ...


@pytest.mark.needs("no_such_package")
@pytest.mark.parametrize("i", range(9))
def test_needs_what_is_not_there(i): assert False


def test_skipped():
    pytest.skip("tired")
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a small test file of its own under this suite's ``conftest.py``, in this process."""
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "AGRAD_"))]:
        monkeypatch.delenv(name)
    pytester.makeconftest((HERE / "conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(test_own=OWN)
    return lambda *options: pytester.runpytest_inprocess("-p", "no:xdist", "-p", "no:cacheprovider", *options)


def names(result: pytest.RunResult, test: str) -> list[str]:
    """The parameters in the ids of a test."""
    return re.findall(rf"::{test}\[(.+?)\](?: |$)", result.stdout.str(), re.MULTILINE)


@pytest.fixture
def collected(run: Any) -> Any:
    """Return the parameters of a test in a run with options."""
    return lambda test, *options: names(run("--collect-only", "-q", *options), test)


STRICT = ["array_api_strict", "array_api_strict:device1"]


def test_the_backends_of_a_run(collected: Any) -> None:
    first, *others = collected("test_on_a_backend")
    assert first == "numpy" and others in ([STRICT[0]], [STRICT[1]])
    assert collected("test_on_a_backend", "--thorough") == ["numpy", *STRICT]
    given = ("--backend", "array_api_strict,numpy", "--backend", "numpy", "--thorough")
    assert collected("test_on_a_backend", *given) == [*STRICT, "numpy"]


@pytest.mark.parametrize("name", ["nosuch", "array_api_strict:device9"])
def test_a_backend_that_cannot_run_fails_the_run(run: Any, name: str) -> None:
    done = run("--backend", name)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert f"--backend {name}:" in done.stderr.str()
    assert name.split(":")[-1] in done.stderr.str()


def test_the_fixture_selects_backend_and_device(backend: str, request: pytest.FixtureRequest) -> None:
    assert agrad.get_backend() == backend
    device = request.node.callspec.params["backend"].partition(":")[2]
    assert device in str(agrad.zeros(1).device)


def test_rounds_and_thorough_runs(run: Any, collected: Any) -> None:
    assert "round 0: one case in" in run("--collect-only").stdout.str()
    plain, thorough = collected("test_placed"), collected("test_placed", "--thorough")
    assert plain == collected("test_placed") != collected("test_placed", "--round", "1")
    assert set(plain) < set(thorough)
    assert len(thorough) == 2 * 24
    assert {name.partition("-")[0] for name in thorough} == {"numpy", STRICT[1]}
    assert len(collected("test_of_numpy", "--thorough")) == 24


def test_cases_of_a_row_are_one_item(run: Any) -> None:
    done = run("-k", "test_of_a_row")
    assert done.parseoutcomes()["failed"] == 1
    assert "case: made 1" in done.stdout.str()
    assert run("-k", "test_of_a_row", "--round", "1").parseoutcomes()["failed"] == 1


def test_with_fewer_other_tests_take_a_part_of_their_parameters(collected: Any) -> None:
    few = ("--few", str(2 * crossing.FEW))
    ids = [collected("test_of_parameters", *few, "--round", str(r)) for r in range(2 * 2)]
    every = collected("test_of_parameters", "--thorough")
    assert all(0 < len(taken) < len(every) / 2 for taken in ids)
    assert {name for taken in ids for name in taken} == set(every)
    assert len(collected("test_on_a_backend", *few)) == 2


def test_only_keeps_what_it_is_for(run: Any) -> None:
    done = run("--only", "numpy", "-v", "-k", "test_on_a_backend or needs or skipped")
    assert done.parseoutcomes()["passed"] == 2
    assert "skipped" not in done.parseoutcomes()
    assert names(done, "test_on_a_backend") == ["numpy"]


def test_only_of_what_is_not_there_is_an_error(run: Any) -> None:
    done = run("--only", "no_such_package")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert "--only no_such_package: no" in done.stderr.str()


@pytest.mark.parametrize("xdist", [(), ("-p", "xdist", "-n", "1")], ids=["alone", "xdist"])
def test_only_of_what_no_test_is_for_fails_the_run(run: Any, xdist: tuple[str, ...]) -> None:
    done = run("--only", "numpy,optree", *xdist)
    assert done.parseoutcomes()["passed"] > 2
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    assert "--only optree: no test ran on it or needs it" in done.stdout.str()


def test_skips_are_counted_by_reason(run: Any) -> None:
    done = run("-k", "needs or skipped")
    done.assert_outcomes(passed=1, skipped=2, deselected=done.parseoutcomes().get("deselected", 0))
    lines = done.stdout.str().partition("not run: 2 tests")[2].splitlines()
    assert [line.strip() for line in lines[1:3]] == ["1 no_such_package is not installed", "1 tired"]


def test_the_oldest_versions_are_the_lowest_bounds_of_the_project(tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "pyproject.toml"
    monkeypatch.setattr(oldest_versions, "PROJECT", file)
    head = '[project]\ndependencies = ["numpy>=2.2"]\n[project.optional-dependencies]\n'
    file.write_text(head + 'one = ["dask[array]>=2025.1", "scipy>=1.9"]\ntwo = ["agrad[one]", "scipy>=1.15"]\n')
    assert oldest_versions.lower_bounds() == {"numpy": (2, 2), "dask": (2025, 1), "scipy": (1, 9)}
    file.write_text(head + 'one = ["scipy"]\n')
    fails(SystemExit, "must be NAME>=VERSION, got 'scipy'", oldest_versions.lower_bounds)
