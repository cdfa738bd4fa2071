"""A trainer's steps by the number of BLAS threads, alone and with a busy process.

Random values in two shapes: the table of wines, 178 examples of 13 numbers, 1800 steps of 32; and MNIST, 200 steps of
128. An MLP with layers of 256 and 128, float32, Adam. The step is traced before. In each run, "auto" measures its
candidates again.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from bench import common, limits
from bench.common import Candidate, Job, Missing, Remote, Timing, load
from bench.suites import Options, Report, Suite

SHAPES = {"wine": (178, 13, 3, 32, 300), "mnist": (12_800, 784, 10, 128, 2)}
"""By name: the numbers of examples, features, classes, examples per step and epochs."""
SETTINGS: tuple[str | int, ...] = ("auto", 1, 2)
STATES = ("alone", "beside a busy process")
GOAL = 1.2


def train(name: str, quick: bool, threads: str | int) -> Job:
    """Return a job that trains for some epochs, and reads the seconds per step."""
    np, nn, optim, errors = load("numpy"), load("agrad.nn"), load("agrad.optim"), load("agrad.errors")
    n, features, classes, batch, epochs = SHAPES[name]
    n, epochs = (4 * batch, 1) if quick else (n, epochs)
    rng = np.random.default_rng(0)
    X, y = rng.random((n, features), dtype=np.float32), np.arange(n) % classes
    nn.manual_seed(0)
    layers = (nn.Linear(features, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, classes))
    model = nn.Sequential(*layers)
    try:
        optimizer = optim.Adam(model.parameters(), lr=1e-3)
        trainer = load("agrad.train").Trainer(model, nn.CrossEntropyLoss(), optimizer, threads=threads)
        trainer.fit(X, y, epochs=1, batch_size=batch, progress=False)
    except errors.ConfigurationError as reason:
        raise Missing(str(reason)) from None

    def step() -> float:
        start = time.perf_counter()
        trainer.fit(X, y, epochs=epochs, batch_size=batch, progress=False)
        return (time.perf_counter() - start) / (epochs * -(-n // batch))

    return Job(step)


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Keep one processor busy meanwhile."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.terminate()
        other.wait()


def measure(runners: dict[str, Any], repeat: int) -> dict[str, dict[str, Timing]]:
    """Return the seconds per step by state and candidate, from rounds in which all alternate."""
    found = {state: {who: Timing() for who in runners} for state in STATES}
    for _ in range(repeat):
        for state in STATES:
            with contextlib.nullcontext() if state == STATES[0] else busy():
                for who, runner in runners.items():
                    time.sleep(common.SETTLE)
                    found[state][who].samples += runner.results(1)
    return found


def row(name: str, timings: dict[str, Timing]) -> list[str]:
    """Return times, and the time of "auto" divided by the best of the others."""
    auto, *fixed = timings.values()
    cells = [f"{common.microseconds(t.median)} ({common.spread(t)})" for t in timings.values()]
    beside = auto.median / min(t.median for t in fixed) if fixed else 1.0
    return [name, *cells, f"{beside:.2f}{'' if beside <= GOAL else ' !'}"]


def run(options: Options) -> Report:
    """Train with each number of threads, alone and with a busy process."""
    about = common.machine()
    best = limits.measure("float32", quick=options.quick)
    rows, left_out, reports = [], {}, {}
    seconds: dict[str, dict[str, list[float]]] = {}
    with contextlib.ExitStack() as stack:
        candidates = [Candidate(f"agrad, threads={s}", train, (options.quick, s)) for s in SETTINGS]
        started = {candidate.name: Remote(candidate) for candidate in candidates}
        for runner in started.values():
            stack.callback(runner.close)
        for name in options.only or SHAPES:
            print(f"threads: {name} ...", file=sys.stderr, flush=True)
            runners, missing, described = common.build(started, name)
            left_out |= missing
            reports |= described
            for state, timings in measure(runners, options.repeat).items():
                rows.append(row(f"{name}, {state}", timings))
                seconds[f"{name}, {state}"] = {who: timing.samples for who, timing in timings.items()}
    about["load average after"] = common.load_average()
    about_it = " ".join((__doc__ or "").partition("\n\n")[2].split())
    head = ["us a step (quartiles)", *runners, "auto / best"]
    text = (
        "# Threads of training steps\n\n"
        f"{about_it} Medians of {options.repeat} rounds in which all alternated; the busy process is a Python loop. "
        f"The goal is at most {GOAL} for auto divided by the best of the other numbers.\n\n"
        f"{common.table(head, rows)}\n\n## Machine\n\n- {best.text()}\n"
        + common.environment_text(about, reports, left_out)
    )
    record = {
        "suite": "threads",
        "machine": about,
        "limits": best.record(),
        "computed_with": reports,
        "left_out": left_out,
        "seconds": seconds,
    }
    return Report(text, record)


SUITE = Suite(
    about="a trainer's steps by the number of BLAS threads, alone and with a busy process",
    run=run,
    repeat=5,
    only=tuple(SHAPES),
)
