"""Convolutions, pooling and normalizations, forward and backward, compared with PyTorch and JAX.

    python -m bench conv --json bench/results/conv.json

All data are float32. Each candidate has a separate process. They alternate, on all cores. Before the timing, all must
compute the same values and gradients. Backward passes receive the cotangents of the result, and compute the gradients
of all arguments.
"""

from typing import Any

from bench import common, conv_jobs, limits
from bench.common import Candidate, Missing, Remote, Timing
from bench.conv_jobs import BOTH, EAGER, ELSEWHERE, FORWARD, JAX, JITTED, LARGE, SMALL, TORCH
from bench.suites import Options, Report, Suite

PEERS = {"torch": TORCH, "jax": JAX}
TOLERANCE = 1e-4
"""Maximum difference of sums from the agrad sums, relative to the sum of the magnitudes."""
REST = 0.1
"""Seconds of rest before a process runs a row, until the threads of other processes sleep."""
GOALS = {
    **{f"{row}: {part}": (EAGER, 3.0) for row in (SMALL, LARGE) for part in (FORWARD, BOTH)},
    **{f"{row}: {part}": (JITTED, 1.5) for row in ("layer_norm", "rms_norm", "batch_norm") for part in (FORWARD, BOTH)},
}
"""The candidate and its maximum time as a multiple of the PyTorch time, by row."""


def check(prints: dict[str, dict[str, list[list[float]]]]) -> None:
    """Raise ``Missing`` if a candidate does not compute the same as the eager one."""
    for name, found in prints.items():
        for row, sums in found.items():
            for (mixed, size), (right, scale) in zip(sums, prints[EAGER][row], strict=True):
                if not (abs(mixed - right) <= TOLERANCE * scale and abs(size - scale) <= TOLERANCE * scale):
                    raise Missing(f"{row}: {name} computes sums of {mixed}, {size}; {EAGER} of {right}, {scale}")


def _candidates(options: Options) -> list[Candidate]:
    names = [EAGER, JITTED]
    names += [name for name, backend in ELSEWHERE.items() if backend in options.backends]
    names += [PEERS[peer] for peer in options.peers]
    libraries = {TORCH: "torch", JAX: "jax", **ELSEWHERE}
    return [
        Candidate(
            name, conv_jobs.job, (options.quick, options.only, name), (libraries.get(name, "numpy"),), name == EAGER
        )
        for name in names
    ]


def measure(options: Options) -> tuple[dict[str, dict[str, Timing]], dict[str, str], dict[str, dict[str, Any]]]:
    """Return timings by row and candidate, omitted candidates, and their libraries."""
    started = {c.name: Remote(c) for c in _candidates(options)}
    timings: dict[str, dict[str, Timing]] = {}
    try:
        ready, left_out, reports = common.build(started)
        prints = {name: runner.results(1)[0] for name, runner in ready.items()}
        check(prints)
        numbers = {name: runner.calibrate(options.sample) for name, runner in ready.items()}
        for _ in range(options.repeat):
            for row in prints[EAGER]:
                for name, runner in ready.items():
                    seconds = runner.samples({row: numbers[name][row]}, REST)[row]
                    timings.setdefault(row, {}).setdefault(name, Timing()).samples.append(seconds)
    finally:
        for runner in started.values():
            runner.close()
    return timings, left_out, reports


def table(timings: dict[str, dict[str, Timing]]) -> tuple[str, list[str]]:
    """Return the milliseconds by row and candidate, their ratios to PyTorch, and missed goals."""
    names = list(next(iter(timings.values()), {}))
    rows, short = [], []
    for row, by_name in timings.items():
        beside = by_name.get(TORCH)
        cells = [row]
        for name, timing in by_name.items():
            times = "" if beside is None or name == TORCH else f" ({common.ratio(timing, beside)[0]:.2f} x)"
            cells.append(f"{timing.median * 1e3:.3g}{times}")
        rows.append(cells)
        name, most = GOALS.get(row, (None, 0.0))
        if beside is not None and name in by_name and (middle := common.ratio(by_name[name], beside)[0]) > most:
            short.append(f"{row}: {name} needs {middle:.2f} x the {TORCH} time, goal {most:g}")
    return common.table(["ms", *names], rows), short


def run(options: Options) -> Report:
    """Check that all compute the same, and time them alternately."""
    about = common.machine()
    best = limits.measure("float32", quick=options.quick)
    timings, left_out, reports = measure(options)
    about["load average after"] = common.load_average()
    text, short = table(timings)
    verdict = "Goals: met." if not short else "Goals, NOT met:\n\n" + "\n".join(f"- {line}" for line in short)
    written = (
        f"# Layers of convolutional networks\n\n"
        f"Milliseconds, float32; medians of {options.repeat} rounds in which all alternated, each in a separate "
        f"process; in brackets the ratio to PyTorch, round by round.\n\n{text}\n\n"
        + (f"{verdict}\n\n" if "torch" in options.peers and TORCH not in left_out and not options.quick else "")
        + f"- {best.text()}\n"
        + common.environment_text(about, reports, left_out)
    )
    record = {
        "suite": "conv",
        "machine": about,
        "computed_with": reports,
        "left_out": left_out,
        "seconds": {row: {n: t.samples for n, t in by_name.items()} for row, by_name in timings.items()},
        "limits": best.record(),
        "short": short,
    }
    return Report(written, record)


SUITE = Suite(
    about="convolutions, pooling and normalizations compared with PyTorch and JAX",
    run=run,
    repeat=9,
    backends=("numpy", "torch", "jax"),
    default_backends=("numpy",),
    peers=tuple(PEERS),
    only=tuple(dict.fromkeys(map(conv_jobs.family, conv_jobs.calls(quick=True)))),
    quick_only=("conv2d", "max_pool2d", "layer_norm"),
)
