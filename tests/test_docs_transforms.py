"""The pages of transforms, of testing and of inspecting: programs print what they say; every transform is listed."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import agrad

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "transforms"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "README.md")
OTHERS = [FOLDER.parent / "testing.md", FOLDER.parent / "inspecting.md"]


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: page.stem)
def test_programs_print_what_the_page_says(page: Path) -> None:
    scope: dict[str, object] = {}
    printed, checked = "", 0
    with agrad.use_backend("numpy"):
        for kind, text in re.findall(r"```(python|text)\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S):
            if kind == "python":
                assert not printed, f"{page.name} does not show what a program prints: {printed}"
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    exec(compile(text, page.name, "exec"), scope)
                printed = out.getvalue()
            else:
                assert printed == text
                printed = ""
                checked += 1
    assert not printed
    assert checked


def test_the_list_names_every_page_and_nothing_else() -> None:
    listed = re.findall(r"^\| \[\w+\]\(([\w.]+)\)", (FOLDER / "README.md").read_text(encoding="utf-8"), flags=re.M)
    assert set(listed) <= {page.name for page in PAGES}
    named = {name for line in listed for name in [line.removesuffix(".md")]}
    assert named >= {page.stem for page in PAGES if page.stem in dir(agrad)}


def test_every_transform_listed_exists() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[\w+\]\([\w.]+\) \| (.*?) \|", text, flags=re.M)
    names = re.findall(r"`(\w+)`", " ".join(rows))
    assert len(names) > 10
    for name in names:
        assert callable(getattr(agrad, name)), name
