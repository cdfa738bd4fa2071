"""Twenty operations on 10^8 elements, both passes, and a copy: the suite ``jit``."""

from bench import common, jit
from bench.common import Timing
from bench.gpu.parts import Work
from bench.gpu.probe import answering
from bench.gpu.records import Records, options

NAME = "20 operations on 10^8, and back"
SIZE, SMALL_SIZE = 100_000_000, 10_000
OURS = "agrad.jit, cupy"


def run(work: Work) -> None:
    size = SMALL_SIZE if work.small else SIZE
    with answering(work, NAME):
        given = options(
            jit.SUITE, work.small, backends=("cupy",), peers=(), sizes=(size,), repeat=2 if work.small else 8
        )
        record = Records(work, "chain").add(jit.SUITE.run(given)).record
        timings = {name: Timing(samples) for name, samples in record["seconds"][str(size)].items()}
        if OURS not in timings or jit.COPY_GPU not in timings:
            work.answers.absent(NAME, "; ".join(record["left_out"].values()))
            return
        share, low, high = common.ratio(timings[jit.COPY_GPU], timings[OURS])
        rate = 8.0 * size / timings[jit.COPY_GPU].median
        measured = f"{share:.1%} ({low:.1%} to {high:.1%}) of {rate / 1e9:,.0f} GB/s"
        work.answers.give(NAME, share, measured, "below the goal")
