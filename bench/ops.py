"""Every function with a derivative, at three sizes, compared with PyTorch and autograd.

agrad, autograd and plain NumPy alternate in one process, PyTorch in another. If the NumPy forward pass is slower than
PyTorch, faster rules cannot help. Linear algebra is computed on one thread by all, everything else on as many threads
as each library chooses.
"""

import contextlib
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench import common, limits
from bench.common import Candidate, Missing, Remote, Timing
from bench.limits import Limits
from bench.ops_cases import CASES, matrix_side
from bench.ops_jobs import ALONE, FORWARD, GRADIENT, arguments, build, key
from bench.ops_reasons import AUTOGRAD_REASONS, REASONS
from bench.suites import Options, Report, Suite

AGRAD, TORCH, AUTOGRAD = "agrad", "PyTorch eager", "autograd"
NAMES = {"agrad": AGRAD, "torch": TORCH, "autograd": AUTOGRAD}
"""The names of the libraries in the table."""
LARGE = 1_000_000
"""The size whose rows are evaluated."""
SLOW, CLEAR = 1.5, 1.2
"""Ratios to PyTorch: above the first, a reason is required; below the second, a reason is outdated."""
SLOWER_THAN_AUTOGRAD = 1.1
"""Ratio to autograd above which a row is slow; the NumPy forward pass, which both call, varies by as much."""
BATCHES = 10
"""Parts of a sample. The fastest one counts."""
ALL_CORES, ONE_THREAD = "all cores", "one thread"
TOLERANCE = {"float64": 1e-6, "float32": 1e-2}
REST = 0.04
"""Seconds until the threads of the previous candidate sleep, if it uses any."""
ALONE_AT = 32_768
"""Elements up to which no library here uses more than one thread, except in linear algebra."""
PLACES = {key(library, part): (name, part) for library, name in NAMES.items() for part in (FORWARD, GRADIENT)}
PLACES[key("agrad", ALONE)] = "NumPy", ALONE
"""The library, by its name in the table, and the part that are timed under a name."""


@dataclass
class Row:
    """The timings of one function at one size."""

    name: str
    size: int
    seconds: dict[str, dict[str, Timing]] = field(default_factory=dict)
    """By part, then by candidate."""

    def ratio(self, part: str, other: str) -> float | None:
        """Return the best agrad time divided by the other's, or None if there is none."""
        timings = self.seconds.get(part, {})
        return timings[AGRAD].best / timings[other].best if AGRAD in timings and other in timings else None

    def numpys_share(self) -> float | None:
        """Return the time of the NumPy forward pass divided by the time of PyTorch."""
        alone, theirs = self.seconds.get(ALONE, {}).get("NumPy"), self.seconds[FORWARD].get(TORCH)
        return None if alone is None or theirs is None else alone.best / theirs.best

    def worst(self) -> float:
        """Return the larger of the two ratios to PyTorch; 0 if it has none."""
        return max(self.ratio(FORWARD, TORCH) or 0.0, self.ratio(GRADIENT, TORCH) or 0.0)

    def beyond_autograd(self) -> list[str]:
        """Return the parts that are slower than in autograd."""
        return [part for part in (FORWARD, GRADIENT) if (self.ratio(part, AUTOGRAD) or 0.0) > SLOWER_THAN_AUTOGRAD]

    def beyond_torch(self) -> bool:
        """Return True if it is slow compared with PyTorch at the size that is evaluated."""
        return self.size == LARGE and self.worst() > SLOW

    def unexplained(self) -> bool:
        """Return True if it would be reported as slow without a reason."""
        return (self.beyond_torch() and self.name not in REASONS) or any(
            (self.name, part) not in AUTOGRAD_REASONS for part in self.beyond_autograd()
        )


def measure(
    runners: dict[str, Remote], name: str, size: int, options: Options
) -> tuple[Row, dict[str, str], dict[str, Any]]:
    """Time one function at one size.

    Also returned: the omitted candidates with the reasons, and the libraries of each.
    """
    ready, left_out, reports = common.build(dict(runners), name, size, options.dtype)
    prints = {library: found for runner in ready.values() for library, found in runner.results(1)[0].items()}
    for library, found in prints.items():
        if isinstance(found, str):
            left_out[NAMES[library]] = found
        elif CASES[name].unique and not np.allclose(found, prints["agrad"], *[TOLERANCE[options.dtype]] * 2):
            raise Missing(
                f"{name} at {size}: {NAMES[library]} has another derivative than agrad: {found}, {prints['agrad']}"
            )
    rest = REST if size > ALONE_AT and not CASES[name].one_thread else 0.0
    sample = options.sample if size > ALONE_AT else options.sample / 4
    numbers = {n: runner.calibrate(sample) for n, runner in ready.items()}
    row = Row(name, size)
    for turn in range(2 * options.repeat):
        # other load on a machine only increases a time, so a row that seems slow is measured longer
        if turn == options.repeat and not row.unexplained():
            break
        for process, runner in ready.items():
            for timed, seconds in runner.samples(numbers[process], rest, BATCHES).items():
                library, part = PLACES[timed]
                row.seconds.setdefault(part, {}).setdefault(library, Timing()).samples.append(seconds)
    return row, left_out, reports


def needed(name: str, size: int, dtype: str) -> tuple[float, float, float]:
    """Return the minimum bytes of both passes, and floating-point operations.

    The forward pass reads the arguments and writes the result. The backward pass reads the cotangent and writes the
    gradients. The operations of the forward pass count if they are many.
    """
    raw, constants = arguments(CASES[name], size, dtype)
    word = CASES[name].numpy
    outputs = raw if word is None else word(np, *raw, *constants)
    made = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    inputs, written = sum(a.nbytes for a in raw), sum(np.asarray(a).nbytes for a in made)
    forward = inputs + written + sum(a.nbytes for a in constants if CASES[name].draws != CASES[name].constants)
    return forward, forward + inputs + written, CASES[name].flops(matrix_side(size))


# ------------------------------------------------------------------ tables


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def size_text(rows: list[Row], best: dict[str, Limits], dtype: str) -> str:
    """Return the table of one size.

    ``best``: the limits of all cores and of one thread.
    """
    lines = []
    for row in rows:
        forward, both, flops = needed(row.name, row.size, dtype)
        ours = row.seconds[FORWARD][AGRAD], row.seconds[GRADIENT][AGRAD]
        limit = best[threads_of(row.name)]
        least, by = limit.seconds(forward, flops)
        least_both, _ = limit.seconds(both, flops)
        beside = [
            _number(row.ratio(part, other))
            for part, other in ((FORWARD, TORCH), (GRADIENT, TORCH), (FORWARD, AUTOGRAD), (GRADIENT, AUTOGRAD))
        ]
        times = [f"{common.microseconds(t.best)} ({common.microseconds(max(t.samples))})" for t in ours]
        reached = f"{least / ours[0].best:.0%} / {least_both / ours[1].best:.0%}"
        lines.append([row.name, *times, *beside, _number(row.numpys_share()), f"{by} {reached}"])
    head = [
        f"{rows[0].size:,} elements",
        "forward, us (worst round)",
        "forward + backward, us (worst round)",
        "fwd x PyTorch",
        "both x PyTorch",
        "fwd x autograd",
        "both x autograd",
        "NumPy fwd x PyTorch",
        "limit: reached fwd / both",
    ]
    return common.table(head, lines)


HEADS = {
    "unexplained": f"Slower than {SLOW} x PyTorch on large arrays without a reason",
    "slower than autograd": f"Slower than autograd (more than {SLOWER_THAN_AUTOGRAD} x) without a reason",
    "stale": f"Outdated reasons, for functions below {CLEAR} x PyTorch, or no slower than autograd",
    "slower, with the reason": f"Slower than autograd (more than {SLOWER_THAN_AUTOGRAD} x), with the reason",
    "slow": f"Slower than {SLOW} x PyTorch on large arrays, with the reason",
}
"""The headings of the evaluation, problems first."""


def judge(rows: list[Row]) -> dict[str, list[str]]:
    """Return the evaluation of the rows: slow ones with their reason, and errors."""
    found: dict[str, list[str]] = {key: [] for key in HEADS}
    worst: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.size == LARGE:
            reason = REASONS.get(row.name)
            figures = (
                f"{_number(row.ratio(FORWARD, TORCH))} forward, {_number(row.ratio(GRADIENT, TORCH))} both; "
                f"plain NumPy {_number(row.numpys_share())} forward"
            )
            if row.beyond_torch():
                found["slow" if reason else "unexplained"].append(f"`{row.name}` ({figures}): {reason or 'no reason'}")
            elif reason and 0 < row.worst() < CLEAR:
                found["stale"].append(f"`{row.name}` ({figures}): {reason}")
        for part in (FORWARD, GRADIENT):
            ratio = row.ratio(part, AUTOGRAD)
            if ratio is None:
                continue
            worst[row.name, part] = max(worst.get((row.name, part), 0.0), ratio)
            if part in row.beyond_autograd():
                reason = AUTOGRAD_REASONS.get((row.name, part))
                found["slower, with the reason" if reason else "slower than autograd"].append(
                    f"`{row.name}`, {row.size:,} elements, {part}: {ratio:.2f}" + (f": {reason}" if reason else "")
                )
    for place in AUTOGRAD_REASONS:
        if 0 < worst.get(place, 0.0) <= 1:
            found["stale"].append(f"`{place[0]}`, {place[1]}, compared with autograd: {worst[place]:.2f} at most")
    return found


def verdict_text(found: dict[str, list[str]], judged: bool) -> str:
    """Return the evaluation as Markdown."""
    if not judged:
        return f"Not judged: PyTorch and autograd did not both run, or not at {LARGE:,} elements."
    return "\n\n".join(
        f"### {head}\n\n" + ("\n".join(f"- {line}" for line in found[key]) or "None.") for key, head in HEADS.items()
    )


def summary_text(rows: list[Row]) -> str:
    """Return the median ratio of each size."""
    lines = []
    for size in dict.fromkeys(row.size for row in rows):
        here = [row for row in rows if row.size == size]
        cells = []
        for other in (TORCH, AUTOGRAD):
            for part in (FORWARD, GRADIENT):
                ratios = [r for row in here if (r := row.ratio(part, other)) is not None]
                cells.append(f"{statistics.median(ratios):.2f} ({len(ratios)})" if ratios else "")
        lines.append([f"{size:,}", *cells])
    head = ["elements", "fwd x PyTorch", "both x PyTorch", "fwd x autograd", "both x autograd"]
    return common.table(head, lines)


# ------------------------------------------------------------------ the run


def candidates(options: Options, absent: dict[str, str]) -> dict[str, Candidate]:
    """Return the processes: one computes with NumPy, one with PyTorch."""
    libraries = ["agrad", *(["autograd"] if "autograd" in options.peers and AUTOGRAD not in absent else [])]
    name = " / ".join(NAMES[library] for library in libraries)
    found = {name: Candidate(name, build, tuple(libraries), ("agrad", "numpy"), required=True)}
    if "torch" in options.peers and TORCH not in absent:
        found[TORCH] = Candidate(TORCH, build, ("torch",), ("torch",))
    return found


def threads_of(name: str) -> str:
    """Return the threads on which all compute a function."""
    return ONE_THREAD if CASES[name].one_thread else ALL_CORES


@contextlib.contextmanager
def _started(options: Options, absent: dict[str, str]) -> Iterator[dict[str, dict[str, Remote]]]:
    """Return the processes, each twice: on all cores and on one thread."""
    present = candidates(options, absent)
    with contextlib.ExitStack() as stack:
        started: dict[str, dict[str, Remote]] = {}
        for threads in dict.fromkeys(map(threads_of, options.only or CASES)):
            runners = started[threads] = {}
            for name, candidate in present.items():
                runners[name] = Remote(candidate, one_thread=threads == ONE_THREAD)
                stack.callback(runners[name].close)
        yield started


def _absent(options: Options) -> dict[str, str]:
    """Return the peers that are not installed, with the reason."""
    out = {}
    for peer in options.peers:
        try:
            common.load(peer)
        except ImportError as reason:
            out[NAMES[peer]] = str(reason)
    return out


def run(options: Options) -> Report:
    """Measure and evaluate.

    The exit code is 1 if a slow row has no reason or agrad is slower than autograd.
    """
    about = common.machine()
    best = {
        threads: limits.measure(options.dtype, quick=options.quick, one_thread=threads == ONE_THREAD)
        for threads in (ALL_CORES, ONE_THREAD)
    }
    absent = _absent(options)
    rows, reports, without = [], {}, {}
    start = time.monotonic()
    with _started(options, absent) as runners:
        for size in options.sizes:
            for name in options.only or CASES:
                threads = threads_of(name)
                row, left_out, computed = measure(runners[threads], name, size, options)
                rows.append(row)
                reports.update({f"{who} on {threads}": report for who, report in computed.items()})
                without.update({f"{who} of {name}": reason for who, reason in left_out.items()})
            print(f"ops: {size:,} elements done after {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    about["load average after"] = common.load_average()
    judged = LARGE in options.sizes and not absent and {NAMES[peer] for peer in options.peers} == {TORCH, AUTOGRAD}
    found = judge(rows)
    by_size = [[row for row in rows if row.size == size] for size in options.sizes]
    text = (
        "# Every function with a derivative\n\n"
        f"{options.dtype}; matrices of side {', '.join(str(matrix_side(n)) for n in options.sizes)} in linear algebra. "
        f"The fastest of {options.repeat} rounds; ratios of the fastest. agrad on NumPy, autograd and plain NumPy "
        "alternated in one process, and PyTorch eager in another process with them. A row that would be reported below "
        "was measured for as many additional rounds. All computed the same derivative before they were timed.\n\n"
        "Linear algebra (`matmul`, `tensordot`, `vecdot`, `linalg`) is computed by all three on one thread. Everything "
        "else uses the threads that each library chooses: NumPy one core, PyTorch all cores for large arrays."
        "\n\n## Summary\n\nMedian of the ratio over the functions, and the number of functions.\n\n"
        f"{summary_text(rows)}\n\n## Evaluation\n\n{verdict_text(found, judged)}\n\n"
        + "\n\n".join(f"## {part[0].size:,} elements\n\n{size_text(part, best, options.dtype)}" for part in by_size)
        + "\n\n## Machine\n\n"
        + "".join(f"- {limit.text()}\n" for limit in best.values())
        + common.environment_text(about, reports, absent | without)
    )
    seconds = {
        f"{row.name}, {row.size}, {part}": {who: timing.samples for who, timing in timings.items()}
        for row in rows
        for part, timings in row.seconds.items()
    }
    record = {
        "suite": "ops",
        "machine": about,
        "limits": {threads: limit.record() for threads, limit in best.items()},
        "computed_with": reports,
        "left_out": absent | without,
        "judgement": found if judged else {},
        "seconds": seconds,
    }
    bad = judged and (found["unexplained"] or found["slower than autograd"])
    return Report(text, record, code=1 if bad else 0)


SUITE = Suite(
    about="every function with a derivative, compared with PyTorch eager and autograd",
    run=run,
    repeat=3,
    peers=("torch", "autograd"),
    sizes=(100, 10_000, LARGE),
    quick_sizes=(100,),
    dtypes=("float64", "float32"),
    only=tuple(CASES),
    quick_only=("sin", "add", "sum", "take", "linalg.matmul", "linalg.svd", "fft.rfft"),
    sample=0.02,
)
