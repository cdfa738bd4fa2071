"""One program on NumPy and CuPy over sizes, with its plot: the suite ``compare``."""

from typing import Any

from bench import compare
from bench.common import Missing, Timing
from bench.gpu.parts import Work
from bench.gpu.probe import answering
from bench.gpu.records import Records, options
from bench.ops_jobs import GRADIENT

SAME, PLOT = "NumPy and CuPy, same derivatives", "plot"
SIZES, SMALL_SIZES = (1_000, 10_000, 100_000, 1_000_000), (100, 1_000)
SMALL_ONLY = ("elementwise", "matmul", "softmax")
NUMPY, CUPY = "agrad, numpy", "agrad, cupy"


def wins(record: dict[str, Any]) -> str:
    """Return the sizes from which CuPy is faster, forward and backward, by work."""
    found = []
    for key, by_size in record["seconds"].items():
        name, _, part = key.partition(", ")
        if part != GRADIENT:
            continue
        sizes = [int(n) for n in by_size]
        ratios: list[float | None] = [Timing(t[NUMPY]).median / Timing(t[CUPY]).median for t in by_size.values()]
        start = compare.wins_from(sizes, ratios)
        found.append(f"{name} {start:,}" if start else f"{name} never")
    return "faster from: " + ", ".join(found)


def run(work: Work) -> None:
    given = options(
        compare.SUITE, work.small, backends=("numpy", "cupy"), sizes=SMALL_SIZES if work.small else SIZES,
        repeat=2 if work.small else 3, sample=0.001 if work.small else 0.02, only=SMALL_ONLY if work.small else (),
    )  # fmt: skip
    with answering(work, SAME):
        report = Records(work, "compare").add(compare.SUITE.run(given))
        left_out = report.record["left_out"]
        measured = "at small sizes" if work.small else wins(report.record) if not left_out else ""
        work.answers.give(SAME, not left_out, measured, "; ".join(left_out.values()))
    if SAME in work.answers.given and report.draw is not None:
        try:
            report.draw(work.out / "compare.png")
        except Missing as reason:
            work.answers.absent(PLOT, str(reason))
        else:
            work.answers.give(PLOT, True, "compare.png")
