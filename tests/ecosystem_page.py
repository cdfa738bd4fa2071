"""``docs/ecosystem/LIBRARY.md``: what a library's functions do with Tensors.

``python tests/ecosystem_page.py LIBRARY`` tries the samples and prints what does not work; ``--table`` writes the page,
``--only TEXT`` tries those whose name has TEXT in it.
"""

import argparse
import importlib
import importlib.metadata
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from pages import said

_NAMED_ALIKE = ("einops", "opt_einsum", "xarray", "scipy", "autoray", "cotengra", "einx", "pandas")
LIBRARIES = {name: name for name in _NAMED_ALIKE} | {"array_api_extra": "array-api-extra", "sklearn": "scikit-learn"}
LIBRARIES["batch_tensorsolve"] = "batch-tensorsolve"
"""The libraries by the name they are imported by, and that of their distribution."""

FOLDER = Path(__file__).parent.parent / "docs" / "ecosystem"
KINDS = ("works", "constant", "raises", "wrong")


def samples_of(library: str) -> Any:
    """Return the module of a library's samples."""
    if library in ("scipy", "sklearn"):
        os.environ["SCIPY_ARRAY_API"] = "1"  # read by SciPy when it is imported
    return importlib.import_module(f"ecosystem.{library}_samples")


def row(title: str, verdict: Any) -> str:
    """Return a row of the table."""
    return f"| `{title}` | {words(verdict)} |"


def head(library: str) -> str:
    """Return the text above the table of a page, which is written by hand and kept."""
    file = FOLDER / f"{library}.md"
    written = file.read_text(encoding="utf-8") if file.exists() else ""
    return written.partition(f"\n## {LIBRARIES[library]} ")[0].strip() or f"# {LIBRARIES[library]} with Tensors"


def not_tried(library: str) -> dict[str, str]:
    """Return the names without a sample, with the reasons, which are written into the page by hand."""
    file = FOLDER / f"{library}.md"
    return said(file.read_text(encoding="utf-8"), "## Not tried") if file.exists() else {}


MIXED = "## One Tensor together with plain arrays"
"""The heading of the part of a page that has the samples again, with raw arrays."""
MIXED_WAYS = ("beside raw arrays", "in grad")


def mixed_verdicts(module: Any, trial: Any, found: dict[str, Any], backend: str = "numpy") -> dict[str, list[Any]]:
    """Return the verdicts of ``MIXED_WAYS``, by title, of samples that ``found`` has no refusal of.

    They are those of several arrays.
    """
    return {
        sample.title: [trial.trial(sample, backend, way) for way in MIXED_WAYS]
        for sample in module.SAMPLES
        if trial.is_mixed(sample) and found[sample.title].kind != "raises"
    }


def mixed_lines(found: dict[str, list[Any]]) -> list[str]:
    """Return the part of a page on raw arrays: counts, and the calls that fail in one of the ways."""
    if not found:
        return []
    counts = [sum(pair[k].kind in ("works", "constant") for pair in found.values()) for k in range(len(MIXED_WAYS))]
    lines = [
        "",
        MIXED,
        "",
        f"{len(found)} calls that accept Tensors have several arrays. With a Tensor as the first and plain arrays as "
        f"the others, {counts[0]} work.",
        f"With plain arrays only, inside `agrad.grad`, {counts[1]} work.",
    ]
    alike: dict[tuple[str, ...], list[str]] = {}
    for title, pair in found.items():
        if any(verdict.kind in ("raises", "wrong") for verdict in pair):
            alike.setdefault(tuple(words(verdict) for verdict in pair), []).append(f"`{title}`")
    if alike:
        lines += ["", "| calls | with a Tensor | inside `agrad.grad` |", "|---|---|---|"]
    return lines + [f"| {', '.join(titles)} | {' | '.join(pair)} |" for pair, titles in alike.items()]


def words(verdict: Any) -> str:
    """Return a verdict as a cell of a table."""
    return f"{verdict.kind}: {verdict.remark}" if verdict.remark else verdict.kind


def page(library: str, module: Any, found: dict[str, Any], mixed: dict[str, list[Any]]) -> str:
    """Return a library's page; ``found`` and ``mixed`` have the verdicts by the samples' titles."""
    version = importlib.metadata.version(LIBRARIES[library])
    counts = {kind: sum(v.kind == kind for v in found.values()) for kind in KINDS}
    lines = [
        head(library),
        "",
        f"## {LIBRARIES[library]} {version}",
        "",
        f"{len(found)} calls: {counts['works']} work, {counts['constant']} are constant, {counts['raises']} raise an "
        f"error, {counts['wrong']} are wrong.",
        "",
        "| call | verdict |",
        "|---|---|",
        *(row(title, verdict) for title, verdict in found.items()),
    ]
    lines += mixed_lines(mixed)
    if untried := not_tried(library):
        lines += ["", "## Not tried", "", "| name | reason |", "|---|---|"]
        lines += [f"| `{name}` | {reason} |" for name, reason in untried.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Try the samples of one library; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("--table", action="store_true", help="write the page")
    parser.add_argument(
        "--only", action="append", metavar="TEXT", help="samples whose name has TEXT in it; may be repeated"
    )
    parser.add_argument("--trace", action="store_true", help="show where each refusal comes from")
    parser.add_argument("--verdicts", action="store_true", help="print the rows of the table")
    parser.add_argument("--backend", default="numpy", help="whose arrays the Tensors hold; the page is of numpy")
    asked = parser.parse_args()
    module = samples_of(asked.library)
    from ecosystem import trial

    import agrad

    if asked.trace:
        trial.told = lambda error: "".join(traceback.format_exception(error)[-4:])
    found, failed = {}, []
    for sample in module.SAMPLES:
        if not asked.only or any(text in sample.title for text in asked.only):
            try:
                with agrad.use_backend(asked.backend):  # where SciPy's own new arrays are born
                    found[sample.title] = verdict = trial.trial(sample, asked.backend)
            except Exception as error:
                failed.append(sample.title)
                print(f"{sample.title}: fails on NumPy's own arrays: {trial.told(error)}", flush=True)
                continue
            if asked.verdicts:
                print(row(sample.title, verdict))
            elif verdict.kind in ("raises", "wrong"):
                print(f"{sample.title}: {verdict.kind}: {verdict.remark}", flush=True)
    mixed = {} if asked.only or failed else mixed_verdicts(module, trial, found, asked.backend)
    for title, pair in mixed.items():
        for way, verdict in zip(MIXED_WAYS, pair, strict=True):
            if verdict.kind in ("raises", "wrong") and not asked.verdicts:
                print(f"{title}, {way}: {words(verdict)}", flush=True)
    if asked.table and not (asked.only or failed or asked.backend != "numpy"):
        (FOLDER / f"{asked.library}.md").write_text(page(asked.library, module, found, mixed), encoding="utf-8")
    print({kind: sum(v.kind == kind for v in found.values()) for kind in KINDS})
    known = {sample.name for sample in module.SAMPLES}
    known |= {name for names in not_tried(asked.library) for name in names.split(", ")}
    # most packages say what they have; of the others the samples are a choice
    missing = [name for name in module.public() if name not in known] if hasattr(module, "public") else []
    if missing:
        print("neither tried nor said why not:", " ".join(missing))
    return int(
        bool(missing)
        or bool(failed)
        or any(v.kind == "wrong" for v in (*found.values(), *(v for pair in mixed.values() for v in pair)))
    )


if __name__ == "__main__":
    sys.exit(main())
