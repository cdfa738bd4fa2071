"""A plot of a suite's results: ``python -m bench plot RESULTS.json PLOT.svg``.

One line a row: the median of each candidate in seconds on a logarithmic axis, with its quartiles.
"""

import argparse
import statistics
import sys
from pathlib import Path

from bench import common, diff
from bench.common import Missing, load

ROWS = 60
"""Lines that a plot has at most."""
MARKS = "osD^v<>Ph*"


def draw(samples: dict[tuple[str, ...], list[float]], title: str, file: Path) -> None:
    """Draw medians and quartiles of samples by row and candidate, the last part of a path.

    Raises ``Missing`` without matplotlib, and ``BadRun`` for more rows than a plot shows.
    """
    try:
        matplotlib = load("matplotlib")
        figure = load("matplotlib.figure").Figure
    except ImportError:
        raise Missing("a plot needs matplotlib: pip install 'agrad[plot]'") from None
    rows = list(dict.fromkeys(path[:-1] for path in samples))
    if len(rows) > ROWS:
        raise diff.BadRun(f"{len(rows)} rows are more than the {ROWS} that a plot shows")
    who = list(dict.fromkeys(path[-1] for path in samples))
    page = figure(figsize=(9, 1.4 + 0.32 * max(len(rows), 3) + 0.2 * len(who)), layout="constrained")
    axes = page.subplots()
    for i, name in enumerate(who):
        places = [k for k, row in enumerate(rows) if (*row, name) in samples]
        found = [samples[*rows[k], name] for k in places]
        middle = [statistics.median(times) for times in found]
        ends = [common.quartiles(times) for times in found]
        errors = [[m - low for m, (low, _) in zip(middle, ends, strict=True)]]
        errors.append([high - m for m, (_, high) in zip(middle, ends, strict=True)])
        axes.errorbar(
            *(middle, places, None, errors),
            fmt=MARKS[i % len(MARKS)],
            color=f"C{i % 10}",
            label=name,
            markersize=5,
            elinewidth=0.8,
            alpha=0.85,
        )
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [", ".join(row) or title for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.set_title(title)
    axes.grid(visible=True, axis="x", which="major", alpha=0.3)
    page.legend(loc="outside lower center", ncols=3, fontsize="small")
    file.parent.mkdir(parents=True, exist_ok=True)
    # no date and fixed names of parts: the same results give the same file
    with matplotlib.rc_context({"svg.hashsalt": "agrad"}):
        page.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def main(arguments: list[str]) -> int:
    """Draw the plot of a file of results. Return the exit code, 2 if it could not be drawn."""
    parser = argparse.ArgumentParser(prog="python -m bench plot", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path, metavar="RESULTS.json")
    parser.add_argument("plot", type=Path, metavar="PLOT.svg", help="or .png, .pdf")
    given = parser.parse_args(arguments)
    try:
        draw(diff.read(given.results), given.results.stem, given.plot)
    except (diff.BadRun, Missing) as error:
        print(f"bench plot: {error}", file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:
        print(f"bench plot: {given.plot}: {error}", file=sys.stderr)
        return 2
    print(f"written: {given.plot}")
    return 0
