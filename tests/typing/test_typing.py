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
    "basedpyright": ("basedpyright", "--level", "error", "--pythonpath", sys.executable),
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
    assert len(marked) >= 80
    assert errors(checker, [HERE / "right.py", HERE / "wrong.py"]) == marked


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
UNTYPED = {"einx"}
"""Pages of libraries whose functions checkers do not find."""
SCRIPTS = [*sorted((ROOT / "docs" / "tutorials").glob("*.py")), *sorted((ROOT / "examples").rglob("*.py"))]
NOT_STRICT = "# mypy: allow-untyped-defs, allow-incomplete-defs, allow-redefinition\n"
"""Programs on pages have few annotations, and use a name for one thing after the other."""


def programs(page: Path) -> str:
    """Return the programs of a page, which go on from one to the next, or nothing where they are excerpts."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return "\n".join(blocks) if blocks and re.search(r"^(from|import) agrad", blocks[0], re.MULTILINE) else ""


@pytest.mark.parametrize("checker", [pytest.param(c, marks=pytest.mark.needs(c)) for c in CHECKERS])
def test_programs_of_pages_tutorials_and_examples_are_accepted(checker: str, tmp_path: Path) -> None:
    found = {script.relative_to(ROOT): script.read_text(encoding="utf-8") for script in SCRIPTS}
    for page in PAGES:
        if page.stem not in UNTYPED and (text := programs(page)):
            found[Path("_".join(["page", *page.relative_to(ROOT).with_suffix(".py").parts]))] = text
    assert len(found) > 70
    for name, text in found.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(NOT_STRICT + text, encoding="utf-8")
    assert errors(checker, [tmp_path / name for name in found]) == []
