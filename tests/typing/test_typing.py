"""Type checkers accept right uses and the README's programs, and find each wrong use."""

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CHECKERS = {
    "mypy": ("mypy", "--strict", "--allow-untyped-calls", "--no-warn-return-any"),
    "basedpyright": ("basedpyright", "--level", "error"),
}


def errors(checker: str, files: Iterable[Path], *options: str) -> list[tuple[str, int]]:
    """Return the file names and lines of the errors that a checker finds."""
    command = [sys.executable, "-m", *CHECKERS[checker], *options, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"([\w-]+\.py):(\d+)\S*(?: -)? error", done.stdout)
    return sorted({(name, int(line)) for name, line in found})


@pytest.mark.parametrize("checker", [pytest.param(c, marks=pytest.mark.needs(c)) for c in CHECKERS])
def test_right_uses_are_accepted_and_wrong_ones_found(checker: str) -> None:
    lines = (HERE / "wrong.py").read_text().splitlines()
    marked = [("wrong.py", number) for number, line in enumerate(lines, 1) if line.endswith("# wrong")]
    assert len(marked) >= 30
    assert errors(checker, [HERE / "right.py", HERE / "wrong.py"]) == marked


@pytest.mark.parametrize("checker", [pytest.param(c, marks=pytest.mark.needs(c)) for c in CHECKERS])
def test_the_programs_of_the_readme_are_accepted(checker: str, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    file = tmp_path / "readme.py"
    file.write_text("\n".join(blocks))
    unannotated = ["--allow-untyped-defs"] if checker == "mypy" else []
    assert errors(checker, [file], *unannotated) == []
