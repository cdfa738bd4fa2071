"""The pages in docs: programs print what they say; every transform is listed; links lead somewhere."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import agrad

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "transforms"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "README.md")
OTHERS = [
    FOLDER.parent / f"{name}.md"
    for name in (
        "index",
        "quickstart",
        "testing",
        "inspecting",
        "operations",
        "jit",
        "architecture",
        "data",
        "optim",
        "train",
        "installation",
        "explanation/how_it_works",
    )
]
NEEDED = {"threads": "threadpoolctl", "fit_with_scipy": "scipy", "constrained_problems": "ipax"}
GUIDES = [
    pytest.param(page, marks=pytest.mark.needs(NEEDED[page.stem]) if page.stem in NEEDED else ())
    for name in ("howto", "coming_from")
    for page in sorted((FOLDER.parent / name).glob("*.md"))
    if page.stem not in ("index", "other_libraries")  # tests/backends/test_libraries.py runs the programs of the latter
]
WITH_TORCH = pytest.param(FOLDER.parent / "nn.md", marks=pytest.mark.needs("torch"))
WITH_DASK = pytest.param(FOLDER.parent / "parallel.md", marks=pytest.mark.needs("dask", "scipy"))
WITH_SKLEARN = pytest.param(FOLDER.parent / "sklearn.md", marks=pytest.mark.needs("sklearn"))


NEEDING = [pytest.param(page, marks=pytest.mark.needs("scipy")) if page.stem == "sparse" else page for page in PAGES]
SHOWN = [*NEEDING, *OTHERS, *GUIDES, WITH_TORCH, WITH_SKLEARN, WITH_DASK]


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.stem)
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
    pages = {page for page in FOLDER.parent.rglob("*.md") if "_" not in page.relative_to(FOLDER.parent).parts[0][:1]}
    listed = {FOLDER.parent / "index.md"}
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


ROOT = FOLDER.parent.parent
DOCUMENTS = [*sorted((ROOT / "docs").rglob("*.md")), *ROOT.glob("*.md"), *sorted((ROOT / "bench").rglob("*.md"))]
FENCED = re.compile(r"^ *```.*?^ *```$", flags=re.S | re.M)


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_somewhere(page: Path, target: str) -> bool:
    """Return whether a relative link of a page names a file, and a heading of it where it has an anchor."""
    path, _, anchor = target.partition("#")
    found = page.parent / path if path else page
    return found.exists() and (not anchor or anchor in anchors_of(found))


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    targets = re.findall(r"\]\((?!https?:)([^)\s]+)\)", text)
    assert not [target for target in targets if not leads_somewhere(page, target)]


BY_HAND = [page for page in DOCUMENTS if "results" not in page.parts or page.name == "README.md"]
"""Without the tables that the benchmarks write."""


@pytest.mark.parametrize("page", BY_HAND, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_fit_into_120_columns(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert not [n for n, line in enumerate(lines, 1) if len(line) > 120 and not line.lstrip().startswith("|")]
