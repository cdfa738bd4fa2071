"""A plot of the results of a suite: ``python -m bench plot RESULTS.json PLOT.svg``.

Each row shows the median of each candidate on a logarithmic axis, with its quartiles: seconds, or with ``--ratios``
the time divided by the time of agrad.
"""

import argparse
import statistics
import sys
from pathlib import Path

from bench import common, diff
from bench.common import Missing, load

ROWS = 60
"""Maximum number of lines of a plot."""
LIBRARIES = {"agrad": ("C0", "oDs*"), "PyTorch": ("C3", "^v"), "torch": ("C3", "^v"), "JAX": ("C2", "<>")}
LIBRARIES |= {"jax": ("C2", "<>"), "autograd": ("C1", "P"), "MyGrad": ("C4", "X"), "NumPy": ("0.5", "hp8")}
"""The color and the marks of the candidates of a library, by the beginning of their names."""


def styles(who: list[str]) -> dict[str, tuple[str, str]]:
    """Return the color and the mark of each candidate, in all plots the same color for a library."""
    seen: dict[str, int] = {}
    found = {}
    for name in who:
        library = next((library for library in LIBRARIES if name.startswith(library)), "")
        color, marks = LIBRARIES.get(library, ("C5", "1234"))
        found[name] = color, marks[seen.get(library, 0) % len(marks)]
        seen[library] = seen.get(library, 0) + 1
    return found


def colors(dark: bool) -> dict[str, str]:
    """Return Matplotlib settings for a light or a dark page with a transparent background."""
    ink = "#ced6dd" if dark else "#222832"
    clear = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
    return dict.fromkeys(clear, "none") | dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink
    )


def over_agrad(samples: dict[tuple[str, ...], list[float]]) -> dict[tuple[str, ...], list[float]]:
    """Return samples divided by the median of the first candidate of agrad in their row."""
    base: dict[tuple[str, ...], float] = {}
    for path, times in samples.items():
        if path[-1].startswith("agrad"):
            base.setdefault(path[:-1], statistics.median(times))
    return {path: [t / base[path[:-1]] for t in times] for path, times in samples.items() if path[:-1] in base}


def draw(
    samples: dict[tuple[str, ...], list[float]], title: str, file: Path, ratios: bool = False, dark: bool = False
) -> None:
    """Draw medians and quartiles of samples by row and candidate, the last part of a path.

    Raises ``Missing`` without matplotlib, and ``BadRun`` for more rows than a plot shows.
    """
    if all(len(path) == 1 for path in samples):  # the work is after the candidate: "agrad: forward"
        samples = {tuple(reversed(path[0].split(": "))): times for path, times in samples.items()}
    samples = over_agrad(samples) if ratios else samples
    try:
        matplotlib = load("matplotlib")
        figure = load("matplotlib.figure").Figure
    except ImportError:
        raise Missing("a plot needs matplotlib: pip install 'agrad[plot]'") from None
    rows = list(dict.fromkeys(path[:-1] for path in samples))
    if len(rows) > ROWS:
        raise diff.BadRun(f"{len(rows)} rows are more than the {ROWS} that a plot shows")
    who = list(dict.fromkeys(path[-1] for path in samples))
    file.parent.mkdir(parents=True, exist_ok=True)
    # no date, and fixed names of parts: the same results create the same file
    with matplotlib.rc_context({**colors(dark), "svg.hashsalt": "agrad"}):
        page = figure(figsize=(7.5, 1.4 + 0.32 * max(len(rows), 3) + 0.2 * len(who)), layout="constrained")
        axes = page.subplots()
        look = styles(who)
        for name in who:
            places = [k for k, row in enumerate(rows) if (*row, name) in samples]
            found = [samples[*rows[k], name] for k in places]
            middle = [statistics.median(times) for times in found]
            ends = [common.quartiles(times) for times in found]
            errors = [[m - low for m, (low, _) in zip(middle, ends, strict=True)]]
            errors.append([high - m for m, (_, high) in zip(middle, ends, strict=True)])
            axes.errorbar(
                *(middle, places, None, errors),
                color=look[name][0],
                fmt=look[name][1],
                label=name,
                markersize=5,
                elinewidth=0.8,
                alpha=0.85,
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_yticks(range(len(rows)), [", ".join(row) or title for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel("time / time of agrad (right of 1: slower than agrad)" if ratios else "seconds")
        page.suptitle(title)
        axes.grid(visible=True, axis="x", which="major", alpha=0.3)
        page.legend(loc="outside lower center", ncols=3, fontsize="small")
        page.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def main(arguments: list[str]) -> int:
    """Draw the plot of a file of results. Return the exit code, 2 if it could not be drawn."""
    parser = argparse.ArgumentParser(prog="python -m bench plot", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path, metavar="RESULTS.json")
    parser.add_argument("plot", type=Path, metavar="PLOT.svg", help="or .png, .pdf")
    parser.add_argument("--title", help="default: the name of the file")
    parser.add_argument("--ratios", action="store_true", help="divide by the time of agrad")
    parser.add_argument("--dark", action="store_true", help="for a page with a dark background")
    given = parser.parse_args(arguments)
    try:
        draw(diff.read(given.results), given.title or given.results.stem, given.plot, given.ratios, given.dark)
    except (diff.BadRun, Missing) as error:
        print(f"bench plot: {error}", file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:
        print(f"bench plot: {given.plot}: {error}", file=sys.stderr)
        return 2
    print(f"written: {given.plot}")
    return 0
