"""The options of the suite itself: a backend that was named and cannot run is never silently skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import agrad

HERE = Path(__file__).parent


def collected(*options: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "AGRAD_"))}
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "-q", "--collect-only"]
    return subprocess.run(
        [*command, *options, str(HERE / "test_recording.py")],
        cwd=HERE.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_backends_of_a_plain_run() -> None:
    done = collected()
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("numpy", "array_api_strict", "array_api_strict:device1"):
        assert f"test_detach[{name}]" in done.stdout
    assert "torch" not in done.stdout


def test_lists_of_backends_and_repeated_options() -> None:
    done = collected("--backend", "array_api_strict,numpy", "--backend", "numpy")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("test_detach[numpy]") == 1
    assert done.stdout.count("test_detach[array_api_strict]") == 1


@pytest.mark.parametrize("name", ["nosuch", "array_api_strict:device9"])
def test_a_backend_that_cannot_run_fails_the_run(name: str) -> None:
    done = collected("--backend", name)
    assert done.returncode != 0
    assert f"--backend {name}:" in done.stdout + done.stderr
    assert name.split(":")[-1] in done.stderr + done.stdout


def test_the_fixture_selects_backend_and_device(backend: str, request: pytest.FixtureRequest) -> None:
    assert agrad.get_backend() == backend
    device = request.node.callspec.params["backend"].partition(":")[2]
    assert device in str(agrad.zeros(1).device)


def test_one_in_n_keeps_some_of_every_function() -> None:
    whole = [line for line in collected().stdout.splitlines() if "::" in line]
    part = [line for line in collected("--one-in", "3").stdout.splitlines() if "::" in line]
    assert set(part) < set(whole)
    assert {line.partition("[")[0] for line in part} == {line.partition("[")[0] for line in whole}
    assert part == [line for line in collected("--one-in", "3").stdout.splitlines() if "::" in line]
