"""``python -m bench diff``: it flags what got slower, is silent on noise, and takes the machine's own change out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import diff, plot


def samples(middle: float, spread: float = 0.02, seed: int = 0) -> list[float]:
    rng = np.random.default_rng(seed)
    return (middle * rng.uniform(1 - spread, 1 + spread, 9)).tolist()


def run(file: Path, ours: dict[str, float], machine: float = 1.0, spread: float = 0.02, seed: int = 0) -> Path:
    """A run with a row of agrad and one of a peer, which always takes 1e-3, for each entry."""
    seconds = {
        name: {
            "agrad": samples(value * machine, spread, seed + 2 * i),
            "PyTorch eager": samples(1e-3 * machine, spread, seed + 2 * i + 1),
        }
        for i, (name, value) in enumerate(ours.items())
    }
    file.write_text(json.dumps({"suite": "ops", "seconds": seconds}))
    return file


ROWS = {"sin": 1e-3, "cos": 2e-3, "exp": 3e-3, "log": 4e-3}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return run(tmp_path / "old.json", ROWS)


@pytest.mark.parametrize(
    ("ours", "machine", "options", "code", "said"),
    [
        ({"cos": 3e-3}, 1.0, [], 1, ["Slower than 1.25 x", "cos / agrad", "1.5"]),
        ({"cos": 3e-3}, 1.0, ["--threshold", "1.8"], 0, []),
        ({"cos": 1e-3}, 1.0, [], 0, ["Faster than"]),
        ({}, 2.0, [], 0, ["a factor of 2.0"]),
        ({}, 2.0, ["--absolute"], 1, []),
        ({"tan": 1e-3}, 1.0, [], 0, ["4 rows of agrad compared; 1 are in one run only"]),
    ],
)
def test_runs_are_compared(
    ours: Any, machine: float, options: Any, code: int, said: Any, old: Path, tmp_path: Path, capsys: Any
) -> None:
    new = run(tmp_path / "new.json", ROWS | ours, machine, seed=50)
    assert diff.main([str(old), str(new), *options]) == code
    out = capsys.readouterr().out
    assert all(text in out for text in said)
    assert ("sin / agrad" in out) is ("--absolute" in options)


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_not_flagged(tmp_path: Path, seed: int) -> None:
    old, new = (run(tmp_path / f"{i}.json", ROWS, spread=0.4, seed=100 * seed + 10 * i) for i in (0, 1))
    assert diff.main([str(old), str(new)]) == 0


def test_wide_quartiles_are_noise_whatever_the_medians_say() -> None:
    path = ("sin", "agrad")
    old, new = {path: [1.0, 1.0, 2.0, 3.0, 3.0]}, {path: [1.0, 1.0, 3.0, 3.0, 3.0]}
    changes, _ = diff.compare(old, new)
    assert changes[0].ratio == 1.5
    assert not diff.slower(changes, 1.25)


def test_the_committed_runs_can_be_compared() -> None:
    folder = Path(__file__).parents[2] / "bench" / "results"
    files = [file for file in sorted(folder.glob("*.json")) if file.stem != "kernels"]  # gains, and no times
    assert len(files) > 1
    for file in files:
        found = diff.read(file)
        assert any(path[-1].startswith("agrad") for path in found), file
        changes, machine = diff.compare(found, found)
        assert machine == 1.0 and not diff.slower(changes, 1.25)


@pytest.mark.parametrize(
    ("content", "options", "what"),
    [
        (None, [], "No such file"),
        ("{", [], "no JSON"),
        ("[1]", [], "no run of a suite"),
        ('{"seconds": {}}', [], "no run of a suite"),
        ('{"seconds": {"a": {"PyTorch eager": [1.0]}}}', [], "no row of agrad in common"),
        ("", ["--threshold", "0.9"], "above 1"),
    ],
)
def test_bad_input_is_a_clear_error(
    content: Any, options: list[str], what: str, old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.json"
    if content is not None:
        file.write_text(content)
    assert diff.main([str(old), str(file), *options]) == 2
    assert what in capsys.readouterr().err


@pytest.mark.needs("matplotlib")
def test_a_plot_is_drawn_and_bad_input_is_told(old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new folder" / "plot.svg"
    assert plot.main([str(old), str(file)]) == 0
    first = file.read_text()
    assert all(text in first for text in ("<svg", *ROWS, "PyTorch eager"))
    assert plot.main([str(old), str(file)]) == 0 and file.read_text() == first
    capsys.readouterr()
    many = run(tmp_path / "many.json", {f"row {i}": 1e-3 for i in range(61)})
    for results, at, said in (
        (many, file, "61 rows"),
        (tmp_path / "none.json", file, "none.json"),
        (old, tmp_path / "plot.text", "plot.text"),
    ):
        assert plot.main([str(results), str(at)]) == 2
        assert said in capsys.readouterr().err
