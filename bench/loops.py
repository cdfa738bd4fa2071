"""Common loops: an LSTM, a Kalman filter, Monte Carlo, a differential equation, Newton.

    python -m bench loops --json bench/results/loops.json

An LSTM over 256 characters (64 hidden units, float32), value and gradient; the log-likelihood of a Kalman filter of 500
steps, and its gradient; 1,000 steps of Hamiltonian Monte Carlo with 10 parameters, 5 leaps each; 10,000 steps of the
Runge-Kutta method; the Newton method for 1,000 systems of 3 equations. All except the LSTM compute in float64. The
loops are ``scan``, ``fori_loop`` and ``while_loop``, and the programs are the same for agrad and JAX.

Each candidate has a separate process. All must agree before they are timed. The first call traces and compiles, and is
timed once.
"""

import time
from typing import Any

import numpy as np

from bench import common, limits, loops_jobs
from bench.common import Candidate, Job, Missing, Remote, Timing
from bench.loops_jobs import COMPILED, EAGER, JITTED, PEER, Loop
from bench.suites import Options, Report, Suite

PEERS = (PEER,)
TOLERANCE, SINGLE = 1e-8, 1e-4
"""Maximum difference of results from the eager ones, relative to their size: in float64, and float32 for the LSTM."""
REST = 0.1
"""Seconds of rest before a process runs a row, until the threads of other processes sleep."""
GOAL_TIMES, GOAL_LOOPS = 3.0, 2
"""The compiler remains an option if it makes at least this many loops this many times as fast."""


def job(quick: bool, only: tuple[str, ...], name: str) -> Job:
    """Return all loops of a candidate as parts of one job.

    A step returns, by row, the values to compare, and the seconds of the first call or the reason why there is none.
    """
    parts: dict[str, Any] = {}
    found: dict[str, dict[str, Any]] = {}
    loops_jobs.function(name, Loop(lambda m, x: x + 1, (np.ones(1),)))()  # so that no first call loads libraries
    for row, loop in loops_jobs.loops(quick).items():
        if only and row.partition(",")[0] not in only:
            continue
        try:
            call = loops_jobs.function(name, loop)
            start = time.perf_counter()
            values = np.asarray(loops_jobs.leaves(call()))
            seconds = time.perf_counter() - start
        except (AttributeError, NotImplementedError, TypeError, ValueError) as reason:
            found[row] = {"reason": f"{type(reason).__name__}: {reason}"}
            continue
        parts[row] = call
        mixed = float(values @ np.cos(np.arange(values.size)))
        found[row] = {"mixed": mixed, "size": float(np.sum(np.abs(values))), "first": seconds}
    return Job(lambda: found, read=lambda found: found, parts=parts)


def check(prints: dict[str, dict[str, Any]]) -> None:
    """Raise ``Missing`` if a candidate does not compute the same as the eager one."""
    for name, found in prints.items():
        for row, got in found.items():
            right = prints[EAGER].get(row, {})
            if "mixed" not in got or "mixed" not in right:
                continue
            off = (SINGLE if row.startswith("LSTM") else TOLERANCE) * (1 + right["size"])
            if not (abs(got["mixed"] - right["mixed"]) <= off and abs(got["size"] - right["size"]) <= off):
                raise Missing(f"{row}: {name} computes {got}, {EAGER} {right}")


def measure(options: Options) -> tuple[dict[str, dict[str, Timing]], dict[str, dict[str, Any]], Any, Any]:
    """Return timings by row and candidate, results of the first calls, and two reports.

    The reports are the omitted candidates, and the libraries of each candidate.
    """
    compiled = (COMPILED,) if options.peers else ()
    names = (EAGER, JITTED, *compiled, *options.peers)
    libraries = {COMPILED: ("numpy", "jax"), PEER: ("jax",)}
    candidates = [
        Candidate(n, job, (options.quick, options.only, n), libraries.get(n, ("numpy",)), required=n == EAGER)
        for n in names
    ]
    started = {c.name: Remote(c) for c in candidates}
    timings: dict[str, dict[str, Timing]] = {}
    ready: dict[str, Any] = {}
    left_out: dict[str, Any] = {}
    reports: dict[str, Any] = {}
    try:
        for name, runner in started.items():  # one after the other, as first calls are timed
            built: Any = common.build({name: runner})
            for whole, part in zip((ready, left_out, reports), built, strict=True):
                whole.update(part)
        prints = {name: runner.results(1)[0] for name, runner in ready.items()}
        check(prints)
        numbers = {name: runner.calibrate(options.sample) for name, runner in ready.items()}
        for _ in range(options.repeat):
            for row in prints[EAGER]:
                for name, runner in ready.items():
                    if row in numbers[name]:
                        seconds = runner.samples({row: numbers[name][row]}, REST)[row]
                        timings.setdefault(row, {}).setdefault(name, Timing()).samples.append(seconds)
    finally:
        for runner in started.values():
            runner.close()
    return timings, prints, left_out, reports


def gains(timings: dict[str, dict[str, Timing]]) -> dict[str, float]:
    """Return by loop how many times as fast the compiler makes it, the minimum of its rows."""
    found: dict[str, float] = {}
    for row, by_name in timings.items():
        loop = row.partition(",")[0]
        both = {JITTED, COMPILED} <= by_name.keys()
        times = common.ratio(by_name[JITTED], by_name[COMPILED])[0] if both else 0.0
        found[loop] = min(times, found.get(loop, times))
    return found


def table(timings: dict[str, dict[str, Timing]], prints: dict[str, dict[str, Any]]) -> str:
    """Return the milliseconds of a warm call by row and candidate, and of first calls."""
    names = list(prints)

    def cell(row: str, name: str) -> str:
        timing = timings.get(row, {}).get(name)
        if timing is None:
            return "none"
        beside = timings[row].get(PEER)
        more = "" if beside is None or name == PEER else f" ({common.ratio(timing, beside)[0]:.1f} x)"
        return f"{timing.median * 1e3:.3g}{more}"

    def first(row: str, name: str) -> str:
        seconds = prints[name].get(row, {}).get("first")
        return "none" if seconds is None else f"{seconds:.2g}"

    warm = [[row, *(cell(row, name) for name in names)] for row in prints[EAGER]]
    cold = [[row, *(first(row, name) for name in names)] for row in prints[EAGER]]
    absent = [
        f"- {row}, {name}: {got['reason'].splitlines()[0]}"
        for name, found in prints.items()
        for row, got in found.items()
        if "reason" in got
    ]
    return (
        common.table(["a warm call, ms", *names], warm)
        + "\n\n"
        + common.table(["the first call, s", *names], cold)
        + ("\n\nNone of these:\n\n" + "\n".join(absent) if absent else "")
    )


def run(options: Options) -> Report:
    """Check that all compute the same, and time them alternately."""
    about = common.machine()
    best = limits.measure("float64", quick=options.quick)
    timings, prints, left_out, reports = measure(options)
    about["load average after"] = common.load_average()
    found = gains(timings)
    fast = [loop for loop, times in found.items() if times >= GOAL_TIMES]
    verdict = ", ".join(f"{loop} {times:.1f}" for loop, times in found.items())
    text = (
        "# Loops\n\n"
        f"Medians of {options.repeat} rounds in which all alternated, each in a separate process; in brackets the "
        f"ratio to `jax.jit`, round by round.\n\n{table(timings, prints)}\n\n"
        f"Times as fast as `agrad.jit` with the compiler: {verdict}. At least {GOAL_TIMES:g}: {len(fast)} of "
        f"{len(found)}; goal {GOAL_LOOPS}: {'met' if len(fast) >= GOAL_LOOPS else 'NOT met'}.\n\n- {best.text()}\n"
        + common.environment_text(about, reports, left_out)
    )
    record = {
        "suite": "loops",
        "machine": about,
        "computed_with": reports,
        "left_out": left_out,
        "seconds": {row: {n: t.samples for n, t in by_name.items()} for row, by_name in timings.items()},
        "first": {row: {n: prints[n][row]["first"] for n in by_name} for row, by_name in timings.items()},
        "limits": best.record(),
        "gains": found,
    }
    return Report(text, record)


NAMES = tuple(dict.fromkeys(row.partition(",")[0] for row in loops_jobs.loops(quick=True)))

SUITE = Suite(
    about="loops that people write, eager, traced and compiled",
    run=run,
    repeat=7,
    peers=PEERS,
    dtypes=("float64",),
    only=NAMES,
    sample=0.2,
)
