"""Twenty operations on 10^8 elements, forward and backward: the suite ``jit``, and cheap operations.

The bound is the slower of a copy and of the instructions, as fast as the device can issue them.
"""

import contextlib

from bench import common, jit
from bench.common import Candidate, Remote, Timing
from bench.gpu.goals import CHAINS
from bench.gpu.parts import Work
from bench.gpu.probe import answering
from bench.gpu.records import Records, options

SIZE, SMALL_SIZE = 100_000_000, 10_000
OURS = "agrad.jit, cupy"
ISSUED = 128
"""Instructions of threads that a multiprocessor issues per clock: four warps."""


def instruction_seconds(instructions: int, size: int) -> float:
    """Return the minimum time for this many instructions on each of ``size`` elements."""
    import cupy

    found = cupy.cuda.Device().attributes
    return instructions * size / (found["MultiProcessorCount"] * ISSUED * found["ClockRate"] * 1e3)


def answer(work: Work, name: str, size: int, ours: Timing, copy: Timing) -> None:
    """Answer with the fraction of the bound, from the rounds in which both alternated."""
    share, low, high = common.ratio(copy, ours)
    rate = f"a copy at {8.0 * size / copy.median / 1e9:,.0f} GB/s"
    least = instruction_seconds(CHAINS[name], size) if CHAINS[name] else 0.0
    longer = max(1.0, least / copy.median)
    bound = rate if longer == 1 else f"{CHAINS[name]} instructions an element, which take {longer:.1f} x {rate}"
    measured = f"{share * longer:.1%} ({low * longer:.1%} to {high * longer:.1%}) of {bound}"
    work.answers.give(name, share * longer, measured, "below the goal")


def cheap_timings(size: int, repeat: int, sample: float) -> tuple[dict[str, Timing], dict[str, str]]:
    """Return the times of the cheap chain and of a copy, and the reason why one is absent."""
    found = [
        Candidate(OURS, jit.agrad, (True, "cupy", True), ("agrad", "cupy")),
        Candidate(jit.COPY_GPU, jit.copy, ("cupy",), ("cupy",)),
    ]
    with contextlib.ExitStack() as stack:
        started = {c.name: Remote(c) for c in found}
        for runner in started.values():
            stack.callback(runner.close)
        runners, left_out, _ = common.build(started, size)
        return common.alternate(runners, repeat=repeat, sample_seconds=sample), left_out


def run(work: Work) -> None:
    size, (full, cheap) = SMALL_SIZE if work.small else SIZE, CHAINS
    given = options(jit.SUITE, work.small, backends=("cupy",), peers=(), sizes=(size,), repeat=2 if work.small else 8)
    records = Records(work, "chain")

    def suite() -> tuple[dict[str, Timing], dict[str, str]]:
        record = records.add(jit.SUITE.run(given)).record
        return {name: Timing(samples) for name, samples in record["seconds"][str(size)].items()}, record["left_out"]

    for name, measure in ((full, suite), (cheap, lambda: cheap_timings(size, given.repeat, given.sample))):
        with answering(work, name):
            timings, left_out = measure()
            if OURS in timings and jit.COPY_GPU in timings:
                answer(work, name, size, timings[OURS], timings[jit.COPY_GPU])
            else:
                work.answers.absent(name, "; ".join(left_out.values()))
