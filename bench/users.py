"""Slow cases, compared with the usual alternative library, and the growth of times.

    python -m bench users --json bench/results/users.json

The rows and the library to compare each with are in ``users_jobs``. Each candidate has a separate process with one BLAS
thread. All must agree. Ratios are of lower quartiles. An exponent describes the growth of the time with the number of
nodes, steps, times, parameters or signatures, from two numbers of them. Start-up is the processor time of a new
process.
"""

import math
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from bench import common, limits, users_jobs
from bench.common import Candidate, Job, Missing, Remote, Timing, load
from bench.loops_jobs import COMPILED, EAGER, JITTED, leaves
from bench.suites import Options, Report, Suite
from bench.users_jobs import JAX, NUMPY, ROWS, SCIPY, TORCH

PEERS = (TORCH, JAX, SCIPY, NUMPY)
REST = 0.05
REFUSED = (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError)
STARTS = {
    "numpy": ("-c", "import numpy"),
    "agrad": ("-c", "import agrad"),
    "agrad, a first gradient": (
        "-c",
        "import agrad; agrad.grad(lambda x: agrad.sum(x * x))(agrad.asarray([1.0, 2.0]))",
    ),
    "agrad --help": ("-m", "agrad", "--help"),
    "agrad info": ("-m", "agrad", "info"),
    "autograd": ("-c", "import autograd.numpy"),
    "jax": ("-c", "import jax.numpy"),
    "torch": ("-c", "import torch"),
}
"""New processes whose time is measured."""


def job(quick: bool, only: tuple[str, ...], name: str) -> Job:
    """Return all rows of a candidate as parts of a job. A step returns, by row, values or a reason."""
    parts: dict[str, Callable[[], Any]] = {}
    found: dict[str, dict[str, Any]] = {}
    for row, work in ROWS.items():
        takes_part = name in (EAGER, JITTED, work.peer) or (name == COMPILED and work.compiler)
        if not takes_part or (only and row not in only):
            continue
        try:
            call = work.make(name, quick)
            values = np.abs(np.asarray(leaves([call()])))
        except REFUSED as reason:
            found[row] = {"reason": f"{type(reason).__name__}: {reason}".splitlines()[0]}
            continue
        parts[row] = call
        found[row] = {"size": float(values.sum()), "count": values.size}
    return Job(lambda: found, read=lambda found: found, parts=parts)


def check(prints: dict[str, dict[str, Any]]) -> None:
    """Raise ``Missing`` if a candidate does not compute the same as the eager one."""
    for name, found in prints.items():
        for row, got in found.items():
            right = prints[EAGER].get(row, {})
            if "size" in got and "size" in right:
                off = abs(got["size"] - right["size"])
                if got["count"] != right["count"] or not off <= ROWS[row].apart * (
                    right["size"] + 1e-6 * right["count"]
                ):
                    raise Missing(f"{row}: {name} computes {got}, {EAGER} {right}")


def measure(options: Options) -> tuple[dict[str, dict[str, Timing]], dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return timings by row and candidate, first results, omitted candidates, and the libraries."""
    compiled = (COMPILED,) if JAX in options.peers else ()
    names = (EAGER, JITTED, *compiled, *options.peers)
    libraries = {COMPILED: ("numpy", "jax"), JAX: ("jax",), TORCH: ("torch",)}
    started = {
        n: Remote(
            Candidate(n, job, (options.quick, options.only, n), libraries.get(n, ("numpy",)), required=n == EAGER),
            one_thread=True,
        )
        for n in names
    }
    timings: dict[str, dict[str, Timing]] = {}
    try:
        ready, left_out, reports = common.build(started)
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


# ------------------------------------------------------------------ growth, memory, start-up


def chain(count: int) -> Callable[[], Any]:
    agrad = load("agrad")
    x = agrad.asarray(np.ones(8), requires_grad=True)

    def call() -> None:
        y = x
        for _ in range(count):
            y = y * 1.0001
        agrad.sum(y).backward()

    return call


def scanned(count: int) -> Callable[[], Any]:
    agrad = load("agrad")
    f = agrad.grad(lambda x, xs: agrad.scan(lambda c, x: (c * 0.999 + x, None), x, xs)[0])
    return lambda: f(1.0, np.ones(count))


def signatures(count: int) -> Callable[[], Any]:
    """Return a call of a compiled function for as many shapes."""
    agrad = load("agrad")
    f = agrad.jit(lambda x: agrad.sum(x * 2.0), cache_size=2 * count)
    arrays = [np.ones(n + 1) for n in range(count)]
    return lambda: [f(x) for x in arrays]


GROWTH: dict[str, tuple[Callable[[int], Callable[[], Any]], int, int]] = {
    "nodes, forward and backward": (chain, 10_000, 80_000),
    "steps of an eager scan, gradient": (scanned, 2_000, 16_000),
    "times of a compiled `odeint`": (lambda n: users_jobs.forward(JITTED, False, n), 50, 400),
    "parameters of a compiled SGD step": (lambda n: users_jobs.parameters("sgd")(JITTED, False, n), 125, 1_000),
    "signatures of a compiled function": (signatures, 16, 128),
}
"""Functions whose time grows with a number: a call for that number, and two numbers."""


def seconds_of(call: Callable[[], Any], repeat: int) -> float:
    """Return the minimum processor time of a call, after a first one."""
    call()
    found = []
    for _ in range(repeat):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found)


def exponents(quick: bool, repeat: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for what, (make, few, many) in GROWTH.items():
        few, many = (few // 100 + 2, few // 50 + 4) if quick else (few, many)
        try:
            low, high = (seconds_of(make(n), repeat) for n in (few, many))
            found[what] = {"numbers": [few, many], "exponent": math.log(high / low) / math.log(many / few)}
        except REFUSED as reason:
            found[what] = {"reason": str(reason).splitlines()[0]}
    return found


def memory(quick: bool) -> float:
    """Return the ratio of peak memory of a first compiled call to the second, for 40 operations."""
    agrad = load("agrad")

    def f(x: Any) -> Any:
        for _ in range(20):
            x = agrad.sin(x) * 1.01
        return agrad.sum(x)

    call, x, peaks = agrad.jit(f), np.linspace(0.0, 1.0, 10_000 if quick else 500_000), []
    for _ in range(2):
        tracemalloc.start()
        call(x)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return peaks[0] / peaks[1]


def starts(repeat: int) -> dict[str, list[float]]:
    """Return the processor time of new processes, except for missing libraries."""
    found: dict[str, list[float]] = {}
    for _ in range(repeat + 1):  # the first one writes bytecode
        for name, words in STARTS.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run([sys.executable, *words], capture_output=True, cwd=common.ROOT, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if done.returncode == 0:
                spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                found.setdefault(name, []).append(spent)
    return {name: times[1:] for name, times in found.items()}


# ------------------------------------------------------------------ the report


def over(timings: dict[str, Timing], name: str, peer: str) -> float | None:
    """Return the lower quartile of a candidate divided by the other library's."""
    both = name in timings and peer in timings
    return timings[name].quartiles[0] / timings[peer].quartiles[0] if both else None


def tables(record: dict[str, Any]) -> str:
    """Return the tables of a record in Markdown."""
    rows = []
    for row, work in ROWS.items():
        ratios = record["ratios"].get(row)
        if ratios is not None:
            shown = ["-" if ratios.get(n) is None else f"{ratios[n]:.2g}" for n in (EAGER, JITTED, COMPILED)]
            rows.append([row, *shown, work.peer])
    start = [[name, f"{common.quartiles(times)[0]:.2f}"] for name, times in record["seconds"]["start-up"].items()]
    growth = [
        [what, *(f"{n:,}" for n in got["numbers"]), f"{got['exponent']:.2f}"]
        for what, got in record["growth"].items()
        if "exponent" in got
    ]
    refused = [
        f"- {row}, {name}: {text}" for row, by_name in record["refused"].items() for name, text in by_name.items()
    ]
    return "\n\n".join(
        [
            "Time divided by the time of the other library:",
            common.table(["work", "eager", "jit", 'compiler="jax"', "peer"], rows),
            "Processor seconds of a new process:",
            common.table(["start", "s"], start),
            "Time as a power of the number:",
            common.table(["number of", "from", "to", "exponent"], growth),
            f"Peak memory of a first compiled call divided by the next call: {record['memory']:.2f}.",
            *(["Refused:", "\n".join(refused)] if refused else []),
        ]
    )


SLOW = 1.5
"""The ratio from which a row is on the page of benchmarks."""


def advised(record: dict[str, Any]) -> str:
    """Return the table of slow rows, with advice for each."""
    rows = []
    for row, ratios in record["ratios"].items():
        if max(ratios.values(), default=0.0) > SLOW:
            known = [ratios.get(n) for n in (EAGER, JITTED, COMPILED)]
            shown = ["-" if r is None else f"{r:.0f}" if r >= 100 else f"{r:.2g}" for r in known]
            rows.append([row, *shown, ROWS[row].peer, ROWS[row].advice])
    return common.table(["work", "eager", "jit", "XLA", "compared with", "what to do"], rows, left=True)


def run(options: Options) -> Report:
    """Check that all compute the same, and time them alternately."""
    about = common.machine()
    best = limits.measure("float64", quick=options.quick)
    timings, prints, left_out, reports = measure(options)
    seconds: dict[str, Any] = {row: {n: t.samples for n, t in by_name.items()} for row, by_name in timings.items()}
    ratios = {
        row: {n: r for n in (EAGER, JITTED, COMPILED) if (r := over(by_name, n, ROWS[row].peer)) is not None}
        for row, by_name in timings.items()
    }
    refused: dict[str, dict[str, str]] = {}
    for name, found in prints.items():
        for row, got in found.items():
            if "reason" in got:
                refused.setdefault(row, {})[name] = got["reason"]
    record = {
        "suite": "users",
        "machine": about,
        "computed_with": reports,
        "left_out": left_out,
        "limits": best.record(),
        "seconds": seconds | {"start-up": starts(1 if options.quick else options.repeat)},
        "ratios": ratios,
        "refused": refused,
        "growth": exponents(options.quick, 1 if options.quick else 3),
        "memory": memory(options.quick),
    }
    about["load average after"] = common.load_average()
    head = "# Slow cases\n\n"
    head += f"Lower quartiles of {options.repeat} rounds in which all alternated, on one thread.\n\n"
    return Report(head + tables(record) + "\n\n" + common.environment_text(about, reports, left_out), record)


SUITE = Suite(
    about="slow cases, compared with the usual alternative library",
    run=run,
    repeat=5,
    peers=PEERS,
    dtypes=("float64",),
    only=tuple(ROWS),
    sample=0.05,
)
