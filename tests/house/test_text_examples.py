"""The models of characters in examples/text, run as a reader would, with the bits a character that they reach."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "text"
BITS = {"lstm": 3.1, "transformer": 3.6}
"""Bits a character of held out text after 150 steps."""


def test_every_example_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {*BITS, "characters"}


@pytest.mark.parametrize(
    ("name", "backend"),
    [("lstm", "numpy"), ("transformer", "numpy"), pytest.param("lstm", "torch", marks=pytest.mark.needs("torch"))],
)
def test_a_model_of_characters_is_better_than_counts(name: str, backend: str) -> None:
    # in a process of its own, as threads of BLAS that share cores with other tests cost many times the work
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(FOLDER.parents[1]),
    }
    command = [sys.executable, "-W", "error", str(FOLDER / f"{name}.py"), "--backend", backend, "--steps", "150"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = re.search(r"held out text: ([\d.]+) bits a character, ([\d.]+) by counts of pairs\n", done.stdout)
    assert found is not None
    bits, baseline = map(float, found.groups())
    assert bits < BITS[name] < baseline
    assert len(done.stdout[found.end() :]) == 301
