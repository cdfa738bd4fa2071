"""README and the pages in docs: programs print what they say, links lead somewhere, tables fit the code."""

import contextlib
import importlib.metadata
import io
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

import agrad.backends

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FOLDER = DOCS / "transforms"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "README.md")
OTHERS = """
    index quickstart testing inspecting operations jit architecture data optim train installation nn parallel sklearn
    explanation/how_it_works random
""".split()  # noqa: SIM905
NEEDED = {
    "threads": "threadpoolctl",
    "fit_with_scipy": "scipy",
    "constrained_problems": "ipax",
    "nn": "torch",
    "parallel": "dask scipy",
    "sklearn": "sklearn",
    "sparse": "scipy",
}
"""What the programs of a page need."""
GUIDES = [page for name in ("howto", "coming_from") for page in sorted((DOCS / name).glob("*.md"))]
LEFT_OUT = ("index", "other_libraries")
"""Guides without programs, and the one whose programs tests/backends/test_libraries.py runs."""
SHOWN = [ROOT / "README.md", *PAGES, *(DOCS / f"{name}.md" for name in OTHERS)]
SHOWN += [page for page in GUIDES if page.stem not in LEFT_OUT]


@pytest.mark.parametrize(
    "page", [pytest.param(p, id=p.stem, marks=pytest.mark.needs(*NEEDED.get(p.stem, "").split())) for p in SHOWN]
)
def test_programs_print_what_the_page_says(page: Path) -> None:
    scope: dict[str, object] = {"__name__": "page"}
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


def test_the_table_of_transforms_names_functions_of_every_page() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(.*?)\]\((\w+\.md)?", text, flags=re.M)
    assert {page for _, page in rows if page} == {page.name for page in PAGES}
    names = re.findall(r"`(\w+)`", " ".join(names for names, _ in rows))
    assert len(names) > 20
    for name in names:
        assert callable(getattr(agrad, name)), name


def test_every_page_of_the_site_is_in_its_navigation() -> None:
    pages = {page for page in DOCS.rglob("*.md") if "_" not in page.relative_to(DOCS).parts[0][:1]}
    listed = {DOCS / "index.md"}
    for page in pages:
        for tree in re.findall(r"```{toctree}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S):
            for line in [line for line in tree.splitlines() if line and not line.startswith(":")]:
                target = re.sub(r".*<(.*)>", r"\1", line)
                listed |= (
                    {path.resolve() for path in page.parent.glob(f"{target}.md")}
                    if "*" in target
                    else {(page.parent / f"{target}.md").resolve()}
                )
    assert not pages - listed


DOCUMENTS = [*sorted(DOCS.rglob("*.md")), *ROOT.glob("*.md"), *sorted((ROOT / "bench").rglob("*.md"))]
FENCED = re.compile(r"^ *```.*?^ *```$", flags=re.S | re.M)


@cache
def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_somewhere(page: Path, target: str) -> bool:
    """Return whether a relative link of a page names a file, and a heading of it where it has an anchor."""
    path, _, anchor = target.partition("#")
    found = page.parent / path if path else page
    return found.exists() and (not anchor or anchor in anchors_of(found))


def test_links_lead_somewhere() -> None:
    texts = {page: FENCED.sub("", page.read_text(encoding="utf-8")) for page in DOCUMENTS}
    links = {(page, link) for page, text in texts.items() for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text)}
    assert len(links) > 300
    assert not [f"{page}: {link}" for page, link in links if not leads_somewhere(page, link)]


def test_lines_fit_into_120_columns() -> None:
    # without the tables that the benchmarks write
    by_hand = [page for page in DOCUMENTS if "results" not in page.parts or page.name == "README.md"]
    rows = [(page, n, line) for page in by_hand for n, line in enumerate(page.read_text("utf-8").splitlines(), 1)]
    assert len(rows) > 5000
    assert not [(page, n) for page, n, line in rows if len(line) > 120 and not line.lstrip().startswith("|")]


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_backends_is_the_code_s() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", README, flags=re.M)
    assert rows == list(agrad.backends._MODULES)


def test_the_extras_named_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = set(re.findall(r"agrad\[([\w,]+)\]", README)) | set(re.findall(r"'\.\[([\w,]+)\]'", README))
    assert named
    assert {extra for group in named for extra in group.split(",")} <= set(project["optional-dependencies"])


def test_the_command_line_is_installed() -> None:
    scripts = {e.name: e.value for e in importlib.metadata.entry_points(group="console_scripts")}
    assert scripts.get("agrad") == "agrad.cli:main"
