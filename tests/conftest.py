"""Backends and cases of a run, what a test needs installed, and what did not run."""

import gc
import importlib
import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import blas_threads  # noqa: F401 - first, as the others import NumPy
import crossing
import pytest
import table  # noqa: F401 - it files every operation
from crossing import SECOND_DEVICE
from generic_faults import KNOWN

import agrad
from agrad.backends import available_backends, selected
from agrad.errors import BackendUnavailableError, DeviceUnavailableError, MissingFunctionError

DEFAULT = ("numpy", "array_api_strict")
EVERY = ("numpy", "array_api_strict", "torch", "jax", "dask", "cupy")
SKIPS_SHOWN = 9

BACKENDS = pytest.StashKey[list[Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        action="append",
        metavar="NAME",
        help="a backend to run the tests on; may be repeated or a comma list; 'all': every one that is installed "
        f"(default: {', '.join(DEFAULT)})",
    )
    parser.addoption(
        "--only",
        metavar="NAME,...",
        help="only the tests that run on one of these backends, or need one of these packages; each must have some",
    )
    parser.addoption(
        "--round",
        type=int,
        default=0,
        metavar="N",
        help=f"which part of the table of cases to take: of every test and row one case in {crossing.FEW}, each on one "
        "backend; and on which backend beside NumPy the other tests run (default: 0)",
    )
    parser.addoption(
        "--few",
        type=int,
        default=crossing.FEW,
        metavar="N",
        help=f"take one case in N instead of one in {crossing.FEW}, and of the parameters of other tests one in "
        f"N / {crossing.FEW}: for libraries that compile every operation",
    )
    parser.addoption("--thorough", action="store_true", help="take every case of the table on every backend")


def pytest_configure(config: pytest.Config) -> None:
    # threads take half as much processor time again for small tasks; test_dask.py and the cluster have them
    os.environ.setdefault("DASK_SCHEDULER", "synchronous")
    config.addinivalue_line("markers", "cases(cases, whole, elsewhere, least): the part of a table; see crossing.each")
    config.addinivalue_line("markers", "needs(*packages): skip the test where one of these packages is not installed")
    asked = config.getoption("--backend") or [",".join(DEFAULT)]
    names = [name.strip() for entry in asked for name in entry.split(",") if name.strip()]
    names = list(dict.fromkeys(name for given in names for name in (EVERY if given == "all" else (given,))))
    chosen: list[Any] = []
    for name in names:
        reason = _unavailable(name)
        if reason is None:
            chosen += [name, SECOND_DEVICE[name]] if name in SECOND_DEVICE else [name]
        elif "all" in asked:
            chosen.append(pytest.param(name, marks=pytest.mark.skip(reason=reason)))
        else:
            raise pytest.UsageError(f"--backend {name}: {reason}")
    config.stash[BACKENDS] = chosen
    for name in _only(config):
        if name not in names and not _installed(name):
            raise pytest.UsageError(f"--only {name}: no backend of this run, and no package that is installed")
    config.pluginmanager.register(Served(_only(config)), "served")


def _unavailable(name: str) -> str | None:
    """Return why a backend cannot run here, or None.

    It makes arrays on it and computes with them.
    """
    try:
        with agrad.use_backend(*name.split(":")):
            float(agrad.sum(agrad.ones(2)))
    except (BackendUnavailableError, DeviceUnavailableError) as error:
        return str(error)
    return None


@cache
def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _only(config: pytest.Config) -> list[str]:
    return [name.strip() for name in (config.getoption("--only") or "").split(",") if name.strip()]


# ---------------------------------------------------------------- cases and backends


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    config, round_ = metafunc.config, metafunc.config.getoption("--round")
    backends = config.stash[BACKENDS]
    # a module with a fixture of this name has its own list
    placed = "backend" in metafunc.fixturenames and not hasattr(metafunc.module, "backend")
    name = metafunc.function.__name__
    mark = metafunc.definition.get_closest_marker("cases")
    if mark is not None:
        places = crossing.places(backends, mark.kwargs["elsewhere"]) if placed else ["numpy"]
        round_ = None if config.getoption("--thorough") else round_
        few = config.getoption("--few")
        how = mark.kwargs
        pairs = list(crossing.crossed(name, mark.args[0], places, round_, how["whole"], few, how["least"]))
        if how["on_numpy"] and "numpy" in places and round_ is not None:
            pairs += [("numpy", case) for place, case in pairs if place != "numpy"]
        pairs = pairs if all(map(_installed, _needs(metafunc.definition))) else pairs[:1]
        _parametrize_with_cases(metafunc, pairs, placed)
    elif placed:
        if not config.getoption("--thorough"):
            others = [b for b in backends if b != "numpy"]
            taken = others[crossing.turn(name, round_, len(others))] if others else None
            backends = [b for b in backends if b == "numpy" or b is taken]
        metafunc.parametrize("backend", backends, indirect=True)


def _parametrize_with_cases(metafunc: pytest.Metafunc, pairs: list[tuple[Any, Any]], placed: bool) -> None:
    rows: dict[tuple[str, str], tuple[list[Any], Any]] = {}
    for backend, case in pairs:
        name, marks = (backend, ()) if isinstance(backend, str) else (backend.values[0], backend.marks)
        # a library without an adapter may lack a function for some cases of a row
        label = getattr(case, "item", case.group) if name.partition(":")[0] in EVERY else case.name
        rows.setdefault((name, label.replace(" ", "_")), ([], marks))[0].append(case)
    bundles = {row: crossing.Bundle(cases[0].group, tuple(cases)) for row, (cases, _) in rows.items()}
    if placed:
        sets = [
            pytest.param(name, bundles[name, label], marks=marks, id=f"{name}-{label}")
            for (name, label), (_, marks) in rows.items()
        ]
        metafunc.parametrize("backend,case", sets, indirect=["backend"])
    else:
        metafunc.parametrize("case", list(bundles.values()), ids=[label for _, label in bundles])


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Select a backend for the test, and return its name.

    A device stands behind a colon.
    """
    name, _, device = request.param.partition(":")
    with agrad.use_backend(name, device or None):
        yield name


@pytest.fixture
def place(backend: str) -> Any:
    """Return a function that moves a NumPy array to the test's backend and device."""
    here = selected()
    return lambda array: array if backend == "numpy" else here.backend.from_host(array, here.device)


PACKAGES = {"torch", "cupy", "cuda_on_cpu"}


@pytest.fixture
def torch() -> Any:
    """Return the package; a test that takes it needs it."""
    return importlib.import_module("torch")


@pytest.fixture
def cupy() -> Any:
    return importlib.import_module("cupy")


@pytest.fixture
def cuda_on_cpu() -> Any:
    return importlib.import_module("cuda_on_cpu")


@pytest.fixture(autouse=True, scope="module")
def _programs_of_jax() -> Iterator[None]:
    """Free what JAX compiled for a module, where JAX_COMPILATION_CACHE_DIR keeps it: all tests together need 5 GB."""
    yield
    jax = sys.modules.get("jax")
    if jax is not None and jax.config.jax_compilation_cache_dir:
        jax.clear_caches()


def pytest_collection_finish() -> None:
    """Keep what collection made out of the collections of garbage, and make these rare: they take a tenth of a run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


# ---------------------------------------------------------------- packages that tests need


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    told: set[tuple[str, ...]] = set()
    kept: list[pytest.Item] = []
    for item in items:
        absent = sorted(name for name in _needs(item) if not _installed(name))
        if absent:
            item.add_marker(pytest.mark.skip(reason=f"{', '.join(absent)} is not installed"))
        test = (item.nodeid.partition("[")[0], *absent)
        if not absent or test not in told:
            kept.append(item)
        told.add(test)
    items[:] = kept  # what cannot run for any parameter is told once
    only = set(_only(config))
    if only:
        for item in items:
            item.user_properties += [("only", name) for name in _served(item) & only]
        _keep(config, items, {item.nodeid for item in items if _served(item) & only})
    one_in = config.getoption("--few") // crossing.FEW
    if one_in > 1 and not config.getoption("--thorough"):
        # a test comes to a backend once in as many rounds as there are backends beside NumPy
        others = sum(b != "numpy" for b in config.stash[BACKENDS])
        _keep(config, items, _part(items, config.getoption("--round") // max(others, 1), one_in))


def _keep(config: pytest.Config, items: list[pytest.Item], kept: set[str]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


def _part(items: list[pytest.Item], visit: int, one_in: int) -> set[str]:
    """Return the ids of a part of the parameters of each test and backend.

    Those of the table are a part already.
    """
    tests: dict[tuple[str, ...], list[str]] = {}
    for item in items:
        places = _backend_of(item) if item.get_closest_marker("cases") is None else set()
        test = (item.nodeid.partition("[")[0], *places) if places else (item.nodeid,)
        tests.setdefault(test, []).append(item.nodeid)
    return set().union(*(crossing.part(names, visit, one_in) for names in tests.values()))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Item) -> Any:
    """Skip a test of a library without an adapter of all functions, if the library lacks one or computes it wrong."""
    try:
        return (yield)
    except Exception as error:
        why = _lost(pyfuncitem, error)
        if why is None:
            raise
    pytest.skip(why)


def _lost(item: Any, error: BaseException | None) -> str | None:
    libraries = _backend_of(item) - set(EVERY)
    if not libraries:
        return None
    case = item.callspec.params.get("case")
    for fault in (KNOWN.get((name, getattr(case, "group", ""))) for name in libraries):
        if fault is not None:
            return f"{fault.library}: {fault.call}: {fault.result}"
    while error is not None:
        if isinstance(error, MissingFunctionError):
            return str(error).partition(". ")[0].rpartition("failed: ")[2]
        error = error.__cause__ or error.__context__
    return None


class Served:
    """Fail a run in which no test ran for one of the names given to ``--only``."""

    def __init__(self, names: list[str]) -> None:
        self.counts = dict.fromkeys(names, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and not report.skipped:
            for kind, name in report.user_properties:
                if kind == "only":
                    self.counts[name] += 1

    def absent(self, config: pytest.Config) -> list[str]:
        if config.getoption("collectonly") or hasattr(config, "workerinput"):
            return []
        return [name for name, count in self.counts.items() if not count]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.absent(session.config):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        for name in self.absent(config):
            terminalreporter.write_line(f"--only {name}: no test ran on it or needs it", red=True)


def _served(item: pytest.Item) -> set[str]:
    return _needs(item) | _backend_of(item)


def _needs(item: pytest.Item) -> set[str]:
    taken = PACKAGES & {*getattr(item, "fixturenames", ())}
    return taken | {name for mark in item.iter_markers("needs") for name in mark.args}


def _backend_of(item: pytest.Item) -> set[str]:
    params = getattr(getattr(item, "callspec", None), "params", {})
    return {params["backend"].partition(":")[0]} if isinstance(params.get("backend"), str) else set()


# ---------------------------------------------------------------- what a run says of itself


def pytest_report_header(config: pytest.Config) -> str:
    reports = available_backends() if "all" in (config.getoption("--backend") or []) else {}
    absent = [f"{name} ({report.reason})" for name, report in reports.items() if not report.available]
    names = [p if isinstance(p, str) else p.values[0] for p in config.stash[BACKENDS]]
    environment = os.environ.get("AGRAD_BACKEND")
    round_, few = config.getoption("--round"), config.getoption("--few")
    part = f"round {round_}: one case in {few}, each on one backend (--thorough: all)"
    return (
        f"backends: {', '.join(names)}"
        + (f"; absent: {', '.join(absent)}" if absent else "")
        + (f"; AGRAD_BACKEND={environment}" if environment else "")
        + f"\ncases: {'all' if config.getoption('--thorough') else part}"
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Count the skipped tests by reason."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    if not reasons:
        return
    terminalreporter.write_sep("-", f"not run: {sum(reasons.values())} tests")
    for reason, count in reasons.most_common(SKIPS_SHOWN):
        terminalreporter.write_line(f"{count:6} {reason.splitlines()[0][:110]}")
    others = reasons.most_common()[SKIPS_SHOWN:]
    if others:
        terminalreporter.write_line(f"{sum(c for _, c in others):6} for {len(others)} other reasons (-rs names them)")


def _reason(report: Any) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
