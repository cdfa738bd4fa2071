"""Gradients, Jacobians, Hessians and products with them, compared with other libraries.

    python -m bench transforms --json bench/results/transforms.json

The objectives are common benchmarks: Rosenbrock's function of 1,000 variables, logistic regression on 10,000 x 100,
the likelihood of a Gaussian mixture (1,000 points, 32 dimensions, 25 components), a step of an LSTM, the residuals of
bundle adjustment, and the gradient of each of 256 samples of a digits perceptron. All compute in float64 (the
perceptron in float32) and must agree before they are timed. Each library has a separate process.

The limit for a row is the bandwidth: its inputs must be read, and its result written, once.
"""

from typing import Any

import numpy as np

from bench import common, limits, transforms_jobs
from bench.common import Candidate, Job, Missing, Remote, Timing, load
from bench.limits import Limits
from bench.suites import Options, Report, Suite
from bench.transforms_jobs import COMPILED, JITTED, LIBRARIES, LOOP, SAMPLES

AGRAD = "agrad"
PEERS = LIBRARIES[1:]
TOLERANCE, SINGLE = 1e-8, 1e-4
"""Maximum difference of derivatives from agrad, relative to their size: in float64, and float32 for the perceptron."""
REST = 0.1
"""Seconds of rest before a process runs a row, until threads sleep: of other processes, and its own OpenBLAS threads,
which spin after the previous row."""
GOAL_OF_SAMPLES = 10.0

JIT_GOAL = 1.1
"""Maximum ratio of a jitted function to eager: the noise."""
COMPILER_GOAL = 1.1
"""Maximum ratio to ``jax.jit`` of a function that XLA compiled for agrad."""

Row = tuple[str, str]
JOBS = "bench.transforms_jobs"
"""The module with the ``problems``."""


def job(jobs: str, quick: bool, only: tuple[str, ...], name: str) -> Job:
    """Return all rows of a library as parts of one job.

    A step returns the values to compare, by row.
    """
    parts, readers, absent = {}, {}, {}
    for row, problem in load(jobs).problems(quick).items():
        if only and row[0] not in only:
            continue
        label = ": ".join(row)
        try:
            made = transforms_jobs.job(name, problem)
        except Missing as reason:
            absent[label] = str(reason)
            continue
        parts[label], readers[label] = made.step, made.read

    def fingerprints() -> dict[str, list[float]]:
        found = {}
        for label, step in parts.items():
            values = np.asarray(readers[label](step()), dtype=np.float64).reshape(-1)
            weights = np.cos(np.arange(values.size))
            found[label] = [float(values @ weights), float(np.sum(np.abs(values))), values.size]
        return found

    return Job(fingerprints, read=lambda found: found, parts=parts)


def _check(prints: dict[str, dict[str, list[float]]]) -> None:
    for name, found in prints.items():
        for label, (mixed, size, _) in found.items():
            wanted, scale, _ = prints[AGRAD][label]
            off = (SINGLE if label.startswith("digits") else TOLERANCE) * (1 + scale)
            if abs(mixed - wanted) > off or abs(size - scale) > off:
                raise Missing(f"{label}: {name} has another derivative than agrad: {mixed}, {size}; {wanted}, {scale}")


def _traffic(jobs: str, options: Options, results: dict[str, list[float]]) -> dict[str, int]:
    """Return the bytes of the inputs and the result of each row."""
    found = {}
    for row, problem in load(jobs).problems(options.quick).items():
        given = [*(problem.x if isinstance(problem.x, tuple) else (problem.x,)), *problem.data, *problem.rows]
        if (label := ": ".join(row)) in results:
            found[label] = sum(np.asarray(a).nbytes for a in given) + int(results[label][2]) * given[0].itemsize
    return found


def measure(
    options: Options, jobs: str = JOBS, one_thread: bool = False
) -> tuple[dict[str, dict[str, Timing]], dict[str, int], dict[str, str], dict[str, dict[str, Any]]]:
    """Return timings by row and library, minimum bytes, and omitted candidates.

    Also returned: the libraries of each candidate.
    """
    libraries = {"torch.func": "torch", "jax": "jax", "jax.jit": "jax", COMPILED: "jax"}
    compiled = (COMPILED,) if "jax.jit" in options.peers else ()
    candidates = [
        Candidate(
            name,
            job,
            (jobs, options.quick, options.only, name),
            ("numpy", libraries[name]) if name in libraries else ("numpy",),
            required=name == AGRAD,
        )
        for name in (AGRAD, JITTED, *compiled, *options.peers)
    ]
    started = {c.name: Remote(c, one_thread=one_thread) for c in candidates}
    try:
        ready, left_out, reports = common.build(started)
        prints = {name: runner.results(1)[0] for name, runner in ready.items()}
        _check(prints)
        numbers = {name: runner.calibrate(options.sample) for name, runner in ready.items()}
        timings: dict[str, dict[str, Timing]] = {}
        for _ in range(options.repeat):
            for label in prints[AGRAD]:
                for name, runner in ready.items():
                    if label in numbers[name]:
                        seconds = runner.samples({label: numbers[name][label]}, REST)[label]
                        timings.setdefault(label, {}).setdefault(name, Timing()).samples.append(seconds)
    finally:
        for runner in started.values():
            runner.close()
    return timings, _traffic(jobs, options, prints[AGRAD]), left_out, reports


def table(
    timings: dict[str, dict[str, Timing]], peers: list[str], traffic: dict[str, int], best: Limits
) -> tuple[str, list[str]]:
    """Return agrad's milliseconds by row, divided by the time of each peer, and missed goals."""
    rows, short = [], []
    peer_of_compiled = "jax.jit" in peers and any(COMPILED in by_name for by_name in timings.values())
    for label, by_name in timings.items():
        own = by_name[AGRAD]
        cells = [label, f"{own.median * 1e3:.3g}"]
        for peer in peers:
            if peer not in by_name:
                cells.append("")
                continue
            middle, low, high = common.ratio(own, by_name[peer])
            cells.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
            if peer in ("torch.func", "autograd") and middle > 1.0:
                short.append(f"{label}: {middle:.2f} x {peer}")
        if JITTED in by_name:
            jitted = common.ratio(by_name[JITTED], own)
            cells.insert(2, f"{jitted[0]:.2f} ({jitted[1]:.2f} to {jitted[2]:.2f})")
            if jitted[1] > JIT_GOAL:
                short.append(f"{label}: jitted {jitted[0]:.2f} x eager")
        else:
            cells.insert(2, "")
        if peer_of_compiled:
            cells.insert(3, "")
            if COMPILED in by_name and "jax.jit" in by_name:
                compiled = common.ratio(by_name[COMPILED], by_name["jax.jit"])
                cells[3] = f"{compiled[0]:.2f} ({compiled[1]:.2f} to {compiled[2]:.2f})"
                if compiled[1] > COMPILER_GOAL:
                    short.append(f"{label}: compiled by XLA {compiled[0]:.2f} x jax.jit")
        rows.append([*cells, f"{best.seconds(traffic[label])[0] / own.median:.2%}"])
    compiled_head = ["by XLA, x jax.jit"] if peer_of_compiled else []
    text = common.table(
        ["", "agrad, ms", "jitted, x eager", *compiled_head, *(f"x {peer}" for peer in peers), "of the bandwidth"], rows
    )
    each, loop = (timings.get(f"digits perceptron: {task}", {}).get(AGRAD) for task in (SAMPLES, LOOP))
    if each is not None and loop is not None:
        middle, low, high = common.ratio(loop, each)
        text += (
            f"\n\nThe gradient of each of {transforms_jobs.SAMPLE_COUNT} samples by `vmap` is {middle:.0f} "
            f"({low:.0f} to {high:.0f}) times as fast as by a loop; goal {GOAL_OF_SAMPLES:.0f}."
        )
        if middle < GOAL_OF_SAMPLES:
            short.append(f"gradients of samples: {middle:.1f} times as fast as a loop")
    return text, short


def run(options: Options) -> Report:
    """Check that all agree, and time them alternately."""
    return report(options, "transforms", "Transforms", JOBS)


def report(options: Options, suite: str, title: str, jobs: str, one_thread: bool = False) -> Report:
    """Return the report of a module's problems; ``one_thread``: all compute on one thread."""
    about = common.machine()
    best = limits.measure("float64", quick=options.quick, one_thread=one_thread)
    timings, traffic, left_out, reports = measure(options, jobs, one_thread)
    about["load average after"] = common.load_average()
    text, short = table(timings, [p for p in options.peers if p not in left_out], traffic, best)
    verdict = (
        "Goals (no slower than autograd and eager torch.func, jitted no slower than eager, and by XLA at most "
        f"{COMPILER_GOAL} x jax.jit): "
        + ("met in every row." if not short else "NOT met in:\n\n" + "\n".join(f"- {line}" for line in short))
        if timings
        else ""
    )
    written = (
        f"# {title}\n\n"
        f"Milliseconds, and ratios to the time of each peer; medians of {options.repeat} rounds in which all "
        f"alternated, each in a separate process{', on one thread' if one_thread else ''}. If a cell is empty, the "
        f"peer has no `vmap`, or would compile for minutes. The bandwidth is the "
        f"time to read the arguments and write the result once.\n\n{text}\n\n{verdict}\n\n- {best.text()}\n"
        + common.environment_text(about, reports, left_out)
    )
    seconds = {label: {n: t.samples for n, t in by_name.items()} for label, by_name in timings.items()}
    record = {
        "suite": suite,
        "machine": about,
        "computed_with": reports,
        "left_out": left_out,
        "seconds": seconds,
        "limits": best.record(),
        "short": short,
    }
    return Report(written, record)


NAMES = tuple(dict.fromkeys(name for name, _ in transforms_jobs.problems(quick=True)))

SUITE = Suite(
    about="derivatives of standard objectives against other libraries' transforms",
    run=run,
    repeat=7,
    peers=PEERS,
    dtypes=("float64",),
    only=NAMES,
    quick_only=("Rosenbrock",),
)
