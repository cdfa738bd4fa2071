"""The committed counts of launches are those of today's code."""

import json
from pathlib import Path
from typing import Any

import pytest

import agrad
from bench import launches

pytestmark = pytest.mark.needs("cupy", "cuda_on_cpu")

COMMITTED = json.loads((Path(launches.__file__).parent / "results" / "launches.json").read_text())["counts"]
EXACT = ("launches", "graphs", "nodes", "copies", "transfers", "memsets", "syncs", "moved", "necessary")


def test_every_row_is_committed() -> None:
    assert list(COMMITTED) == [launches.title(*row) for row in launches.rows(())]


@pytest.mark.parametrize(("name", "precision"), [(name, p) for name, p in launches.rows(()) if p in (None, "float32")])
def test_counts(name: str, precision: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "CALLS", 1)
    with agrad.use_backend("cupy"):
        found: Any = vars(launches.count(name, precision)[0])
    right = COMMITTED[launches.title(name, precision)]
    assert {key: found[key] for key in EXACT} == {key: right[key] for key in EXACT}
    # other versions of CuPy and NumPy make a few calls more or less
    assert found["calls"] <= 1.1 * right["calls"]
