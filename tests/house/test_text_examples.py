"""The models of characters in examples/text, run as a reader would, with the bits a character that they reach."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "text"
REACHED = {"lstm": (150, 0.9), "transformer": (250, 0.95)}
"""Steps of training, and the share of the baseline's bits a character of held out text that they fall below."""


def test_every_example_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {*REACHED, "characters"}


def run(name: str, backend: str, steps: int) -> tuple[float, float, str]:
    """Run an example, and return its bits a character, those of the baseline, and its text."""
    # in a process of its own, as threads of BLAS that share cores with other tests cost many times the work
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **threads, "PYTHONPATH": str(FOLDER.parents[1])}
    command = [sys.executable, "-W", "error", str(FOLDER / f"{name}.py"), "--backend", backend, "--steps", str(steps)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = re.search(r"held out text: ([\d.]+) bits a character, ([\d.]+) by counts of pairs\n", done.stdout)
    assert found is not None
    return float(found[1]), float(found[2]), done.stdout[found.end() : -1]


@pytest.mark.parametrize("name", REACHED)
def test_a_model_of_characters_is_better_than_counts(name: str) -> None:
    steps, share = REACHED[name]
    bits, baseline, text = run(name, "numpy", steps)
    assert bits < share * baseline
    assert len(text) == 300


@pytest.mark.needs("torch")
def test_on_another_backend() -> None:
    here, there = (run("transformer", backend, 5) for backend in ("numpy", "torch"))
    assert abs(here[0] - there[0]) < 1e-3
    assert here[0] < 6.5
