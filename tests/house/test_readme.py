"""The README's programs run and print what it says, its tables are those of the code, its commands exist."""

import contextlib
import importlib.metadata
import io
import re
import tomllib
from pathlib import Path

import agrad.backends

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(python|text)\n(.*?)```", README, flags=re.S)


def test_programs_print_what_the_readme_says():
    scope: dict[str, object] = {}
    printed = None
    checked = 0
    for kind, text in BLOCKS:
        if kind == "python":
            assert not printed, f"the README does not show what this program prints: {printed}"
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, "README.md", "exec"), scope)
            printed = out.getvalue()
        else:
            assert printed == text
            printed = None
            checked += 1
    assert checked >= 1


def test_the_table_of_backends_is_the_code_s():
    rows = re.findall(r"^\| `(\w+)` \|", README, flags=re.M)
    assert rows == list(agrad.backends._MODULES)


def test_the_extras_named_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = set(re.findall(r"agrad\[([\w,]+)\]", README)) | set(re.findall(r"'\.\[([\w,]+)\]'", README))
    assert named
    assert {extra for group in named for extra in group.split(",")} <= set(project["optional-dependencies"])


def test_the_links_lead_somewhere():
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target


def test_the_command_line_is_installed():
    scripts = {e.name: e.value for e in importlib.metadata.entry_points(group="console_scripts")}
    assert scripts.get("agrad") == "agrad.cli:main"
