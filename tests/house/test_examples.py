"""The examples in examples/: their options, bounds and table. ``.ci/run`` runs a third of them in each round."""

import ast
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import agrad

FOLDER = Path(__file__).resolve().parents[2] / "examples"
EXAMPLES = [file for file in sorted(FOLDER.glob("*.py")) if "run(main, __doc__" in file.read_text(encoding="utf-8")]


def common() -> ModuleType:
    spec = importlib.util.spec_from_file_location("examples_common", FOLDER / "common.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bound(file: Path) -> str:
    """Return the number that an example must reach, as it is written there."""
    found = re.search(r"^(LEAST|MOST) = (\S+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, file
    return ("at least " if found[1] == "LEAST" else "at most ") + found[2]


def test_the_table_has_every_example_with_its_bound() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`(\w+)\.py`\]\(\1\.py\) .* \| (at (?:least|most) [-.\d]+) \| .* \|$", text, re.MULTILINE)
    assert len(EXAMPLES) >= 7
    assert rows == [(file.stem, bound(file)) for file in EXAMPLES]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_a_page_that_says_how_it_is_run(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert f"python examples/{file.name} --backend NAME --plot FILE.png" in str(ast.get_docstring(ast.parse(text)))
    assert len(text.splitlines()) <= 160


def ended(monkeypatch: pytest.MonkeyPatch, number: float, *words: str, **bounds: float) -> Any:
    """Return the exit code of an example with that number."""
    seen, code = [], 0

    def example() -> tuple[float, Any]:
        seen.append(agrad.get_backend())
        return number, lambda plt: plt.plot([0, 1], [1, 0])

    monkeypatch.setattr(sys, "argv", ["example.py", *words])
    try:
        common().run(example, "An example.", **bounds)
    except SystemExit as end:
        code = end.code
    assert seen == ["numpy"]
    return code


@pytest.mark.parametrize(
    ("number", "bounds", "code"),
    [
        (0.9, {"least": 0.9}, 0),
        (0.8, {"least": 0.9}, 1),
        (0.1, {"most": 0.1}, 0),
        (0.2, {"most": 0.1}, 1),
        (np.nan, {"most": 0.1}, 1),
        (np.nan, {"least": 0.1}, 1),
    ],
)
def test_a_missed_number_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: float, bounds: Any, code: int
) -> None:
    assert ended(monkeypatch, number, **bounds) == code
    assert ("NOT as asked" in capsys.readouterr().out) == bool(code)


@pytest.mark.needs("matplotlib")
def test_the_picture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    assert ended(monkeypatch, 1.0, "--plot", str(path), least=0.0) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_no_picture_without_matplotlib(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert ended(monkeypatch, 1.0, "--plot", str(tmp_path / "picture.png"), least=0.0) == 0
    assert "matplotlib is not installed" in capsys.readouterr().out
