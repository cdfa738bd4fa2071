"""Which backends the tests run on, and what each test is given of them."""

import os
import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

import agrad
from agrad.backends import available_backends, selected
from agrad.errors import BackendUnavailableError, DeviceUnavailableError

DEFAULT = ("numpy", "array_api_strict")
EVERY = ("numpy", "array_api_strict", "torch", "jax", "dask", "cupy")
SECOND_DEVICE = {"array_api_strict": "array_api_strict:device1"}
"""Backends with a second device on any machine, whose arrays refuse to mix with the first's."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        action="append",
        metavar="NAME",
        help="a backend to run the tests on; may be repeated or a comma list; 'all': every one that is installed "
        f"(default: {', '.join(DEFAULT)})",
    )

    parser.addoption(
        "--only-backends",
        action="store_true",
        help="leave out the tests that are not about a backend given by --backend: they say the same on every machine",
    )
    parser.addoption(
        "--one-in",
        type=int,
        default=1,
        metavar="N",
        help="of every test function, one in N of its parameters (at least one), chosen by their names: for libraries "
        "that compile each operation for each shape",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = items
    if config.getoption("--only-backends"):
        kept = [item for item in kept if "backend" in getattr(item, "fixturenames", ())]
    kept = one_in(config.getoption("--one-in"), kept)
    chosen = set(map(id, kept))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
    items[:] = kept


def one_in(n: int, items: list[Any]) -> list[Any]:
    """One in ``n`` of the items of each function, by a checksum of their names: the same ones in every process."""
    functions: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    chosen: set[int] = set()
    for group in functions.values():
        group.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        chosen.update(id(item) for item in group[: -(-len(group) // n)])
    return [item for item in items if id(item) in chosen]


def _named(config: pytest.Config) -> list[str]:
    given = config.getoption("--backend") or [",".join(DEFAULT)]
    names = [name.strip() for entry in given for name in entry.split(",") if name.strip()]
    return list(dict.fromkeys(name for given in names for name in (EVERY if given == "all" else (given,))))


def _unavailable(name: str) -> str | None:
    """Why a backend cannot run here, None where it can: arrays are made on it and computed with."""
    try:
        with agrad.use_backend(*name.split(":")):
            float(agrad.sum(agrad.ones(2)))
    except (BackendUnavailableError, DeviceUnavailableError) as error:
        return str(error)
    return None


def pytest_configure(config: pytest.Config) -> None:
    asked_all = "all" in ",".join(config.getoption("--backend") or []).split(",")
    chosen: list[Any] = []
    for name in _named(config):
        reason = _unavailable(name)
        if reason is None:
            chosen.append(name)
            if name in SECOND_DEVICE:
                chosen.append(SECOND_DEVICE[name])
        elif asked_all:
            chosen.append(pytest.param(name, marks=pytest.mark.skip(reason=reason)))
        else:
            raise pytest.UsageError(f"--backend {name}: {reason}")
    config.stash[BACKENDS] = chosen


BACKENDS = pytest.StashKey[list[Any]]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    # a module with a fixture of this name has its own list
    if "backend" in metafunc.fixturenames and not hasattr(metafunc.module, "backend"):
        metafunc.parametrize("backend", metafunc.config.stash[BACKENDS], indirect=True)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a backend; inside the test it is selected, with the device behind a colon where there is one."""
    name, _, device = request.param.partition(":")
    with agrad.use_backend(name, device or None):
        yield name


@pytest.fixture
def place(backend: str) -> Any:
    """A function that puts a NumPy array on the test's backend and device, as a raw array."""
    here = selected()
    return lambda array: array if backend == "numpy" else here.backend.from_host(array, here.device)


def pytest_report_header(config: pytest.Config) -> str:
    reports = available_backends() if "all" in (config.getoption("--backend") or []) else {}
    absent = [f"{name} ({report.reason})" for name, report in reports.items() if not report.available]
    names = [p if isinstance(p, str) else p.values[0] for p in config.stash[BACKENDS]]
    environment = os.environ.get("AGRAD_BACKEND")
    return (
        f"backends: {', '.join(names)}"
        + (f"; absent: {', '.join(absent)}" if absent else "")
        + (f"; AGRAD_BACKEND={environment}" if environment else "")
    )
