"""The tables of README and of slow cases: ``python -m bench summary``; the picture of the site.

All are from the committed results in ``bench/results``. A test compares the tables with them.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from bench import common, diff, plot, users
from bench.common import Missing, load

RESULTS = common.ROOT / "bench" / "results"
README = common.ROOT / "README.md"
PAGE = common.ROOT / "docs" / "benchmarks.md"
BEGIN = "<!-- begin: python -m bench summary -->\n"
END = "<!-- end -->\n"


class Row(NamedTuple):
    """A comparison: the work in words, a file of results, a row of it, and two of its candidates."""

    work: str
    suite: str
    path: tuple[str, ...]
    ours: str
    theirs: str
    name: str
    """The other library's name in the table."""


_TRAINING = "training step of a perceptron, batch 128"
ROWS = (
    *[
        Row(
            "1,000 operations on 8 numbers, forward and backward",
            "overhead",
            (),
            "agrad: forward + backward",
            theirs,
            name,
        )
        for theirs, name in (
            ("PyTorch eager: forward + backward", "PyTorch"),
            ("autograd: forward + backward", "autograd"),
        )
    ],
    Row(
        "gradient of a Gaussian mixture", "adbench", ("mixture: d=64, k=25, gradient",), "agrad", "autograd", "autograd"
    ),
    Row(
        "Jacobian of bundle adjustment",
        "adbench",
        ("bundle adjustment: set 2, Jacobian",),
        "agrad",
        "torch.func",
        "torch.func",
    ),
    Row(_TRAINING, "mlp", ("128",), "agrad, numpy", "PyTorch eager", "PyTorch"),
    Row(f"{_TRAINING}, compiled", "mlp", ("128",), "agrad.jit, numpy", "JAX, jit", "jax.jit"),
    Row(
        "training step of a perceptron, batch 2,048, compiled",
        "mlp",
        ("2048",),
        "agrad.jit, numpy",
        "JAX, jit",
        "jax.jit",
    ),
    Row(
        "20 operations on 10,000,000 numbers, compiled", "jit", ("10000000",), "agrad.jit, numpy", "JAX, jit", "jax.jit"
    ),
    Row(
        "LSTM over 256 characters, compiled", "loops", ("LSTM, value and gradient",), "agrad.jit", "jax.jit", "jax.jit"
    ),
    Row(
        "LSTM over 256 characters, compiled with XLA",
        "loops",
        ("LSTM, value and gradient",),
        "agrad.jit, compiler='jax'",
        "jax.jit",
        "jax.jit",
    ),
)


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def compared() -> list[tuple[Row, float, float]]:
    """Return the rows with the median times of agrad and the other, in seconds. Raises ``BadRun``."""
    samples = {row.suite: diff.read(RESULTS / f"{row.suite}.json") for row in ROWS}
    found = []
    for row in ROWS:
        try:
            ours, theirs = (samples[row.suite][*row.path, who] for who in (row.ours, row.theirs))
        except KeyError as error:
            raise diff.BadRun(f"{row.suite}.json has no row {error.args[0]}") from None
        found.append((row, statistics.median(ours), statistics.median(theirs)))
    return found


def table(rows: list[tuple[Row, float, float]]) -> str:
    """Return the table in Markdown."""
    cells = [(row.work, _time(ours), row.name, _time(theirs), f"{ours / theirs:.2g}") for row, ours, theirs in rows]
    return common.table(("work", "agrad on NumPy", "compared with", "time", "ratio"), cells)


def draw(rows: list[tuple[Row, float, float]], file: Path, dark: bool = False) -> None:
    """Draw the ratios as bars. Raises ``Missing`` without matplotlib."""
    try:
        matplotlib = load("matplotlib")
        figure = load("matplotlib.figure").Figure
    except ImportError:
        raise Missing("a picture needs matplotlib: pip install 'agrad[plot]'") from None
    ratios = [ours / theirs for _, ours, theirs in rows]
    file.parent.mkdir(parents=True, exist_ok=True)
    # no date, and fixed names of parts: the same results create the same file
    with matplotlib.rc_context({**plot.colors(dark), "svg.hashsalt": "agrad"}):
        page = figure(figsize=(6, 0.8 + 0.45 * len(rows)), layout="constrained")
        axes = page.subplots()
        bars = axes.barh(
            range(len(rows)),
            [r - 1 for r in ratios],
            left=1,
            height=0.4,
            color=["C0" if r <= 1 else "C3" for r in ratios],
        )
        axes.bar_label(bars, [f" {r:.2g} " for r in ratios], fontsize="small")
        for k, (row, _, _) in enumerate(rows):  # above its bar: narrow screens have no space next to it
            label = axes.annotate(
                f"{row.work}, compared with {row.name}",
                (0.0, k - 0.28),
                xycoords=("axes fraction", "data"),
                fontsize="small",
            )
            label.set_in_layout(False)
        axes.axvline(1, color="0.5", linewidth=1)
        axes.set_xscale("log")
        axes.set_yticks([])
        axes.set_ylim(len(rows) - 0.6, -0.8)
        axes.set_xlim(min(ratios) / 1.5, max(ratios) * 1.5)
        axes.spines[["top", "left", "right"]].set_visible(False)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(
            "time of agrad on NumPy / time of the other library (left of 1: agrad is faster)", fontsize="small"
        )
        page.savefig(file, metadata={"Date": None})


def main(arguments: list[str]) -> int:
    """Write the tables. Return the exit code, 2 if it could not be done."""
    parser = argparse.ArgumentParser(prog="python -m bench summary", description=(__doc__ or "").partition("\n")[0])
    parser.parse_args(arguments)
    try:
        _write()
    except (diff.BadRun, Missing) as error:
        print(f"bench summary: {error}", file=sys.stderr)
        return 2
    print(f"written: {README}, {PAGE}")
    return 0


def slow() -> str:
    """Return the table of slow cases, from the results of the suite of users."""
    return users.advised(json.loads((RESULTS / "users.json").read_text(encoding="utf-8")))


def _write() -> None:
    _fill(README, table(compared()))
    _fill(PAGE, slow())


def _fill(file: Path, table: str) -> None:
    """Write a table between two marker lines of a page. Raises ``BadRun`` if they are missing."""
    text = file.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise diff.BadRun(f"{file} has no lines {BEGIN.strip()} and {END.strip()}")
    file.write_text(f"{before}{begin}\n{table}\n\n{end}{after}", encoding="utf-8")
