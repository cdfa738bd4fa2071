"""The training step of the MLP at batch 128, compared with PyTorch and JAX; see ``clocks``."""

import contextlib
import json
import time
from typing import Any

from bench import common, mlp, mlp_peers
from bench.common import Candidate, Job, Missing, Remote, Timing
from bench.gpu import clocks
from bench.gpu.goals import MLP_CLOCKS
from bench.gpu.parts import Work
from bench.gpu.probe import brief

BATCH, SMALL_BATCH = 128, 8
ROUNDS, SMALL_ROUNDS = 15, 2
OURS, EAGER = "agrad.jit, cupy", "agrad, cupy"
CURVE_STEPS, TOLERANCE = 10, 1e-3
KEEP = 25.0
"""Seconds reserved for measuring, which building must not use."""


def metered(batch: int, small: bool, library: str, name: str) -> Job:
    """Return a job with the losses first, then a sample of times at each step."""
    job = _built(batch, library, name)
    curve = [job.read(job.step()) for _ in range(CURVE_STEPS)]
    side, count = (clocks.SMALL_SIDE, clocks.SMALL_COUNT) if small else (clocks.SIDE, clocks.COUNT)
    held: list[clocks.Meter] = []

    def step() -> Any:
        if held:
            return held[0].sample()
        made = {"cupy": clocks.of_cupy, "torch": clocks.of_torch}
        clock = clocks.of_jax(side, job.wait) if library == "jax" else made[library](side)
        held.append(clocks.Meter(job, clock, count))
        return curve

    return Job(step, read=lambda found: found, wait=lambda: None, device=job.device)


def _built(batch: int, library: str, name: str) -> Job:
    if library == "cupy":
        return mlp.agrad(batch, "cupy", "cuda", name == OURS)
    if library == "jax":
        return mlp.jax(batch, "cuda")
    fast = {c.name: c for c in mlp_peers.candidates("cuda")}
    return fast[name].build(batch, "cuda") if name in fast else mlp.torch(batch, "cuda")


def candidates(small: bool) -> list[Candidate]:
    """Return the two candidates of agrad, and the peers."""
    found = [(OURS, "cupy"), (EAGER, "cupy"), (mlp.NAMES["jax"], "jax"), (mlp.NAMES["torch"], "torch")]
    found += [(c.name, "torch") for c in mlp_peers.candidates("cuda")]
    return [Candidate(name, metered, (small, library, name), (library,)) for name, library in found]


def build(started: dict[str, Remote], batch: int, seconds: float) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Return the first losses of jobs built in time, and why others were not."""
    end = time.monotonic() + seconds
    curves: dict[str, list[float]] = {}
    absent: dict[str, str] = {}
    for runner in started.values():
        runner.begin((batch,))
    for name, runner in started.items():
        try:
            if not runner.pipe.poll(max(0.0, end - time.monotonic())):
                raise Missing(f"not ready in {seconds:.0f} s")
            runner.built()
            curves[name] = runner.results(1)[0]
        except (Missing, ImportError, RuntimeError, OSError) as reason:
            absent[name] = brief(reason) if isinstance(reason, RuntimeError) else str(reason)
            print(f"-- left out, {name}: {reason}", flush=True)
    return curves, absent


def differing(curve: list[float], right: list[float]) -> bool:
    return any(not abs(a - b) <= TOLERANCE * max(1.0, abs(b)) for a, b in zip(curve, right, strict=True))


def measure(runners: dict[str, Remote], rounds: int, seconds: float) -> dict[str, dict[str, Timing]]:
    """Return samples by clock and candidate, alternately until the time is over."""
    end = time.monotonic() + seconds
    found: dict[str, dict[str, Timing]] = {clock: {name: Timing() for name in runners} for clock in MLP_CLOCKS}
    for turn in range(rounds + 1):
        samples = {name: runner.results(1)[0] for name, runner in runners.items()}
        if turn:  # the first round warms up
            for name, sample in samples.items():
                for clock, value in sample.items():
                    found[clock][name].samples.append(value)
        if turn and time.monotonic() > end:
            break
    return found


def answer(work: Work, timings: dict[str, dict[str, Timing]], absent: dict[str, str]) -> None:
    """Compare the step of agrad with the best peer by each clock."""
    reasons = "; ".join(dict.fromkeys(absent.values()))
    for clock, by_name in timings.items():
        question = f"MLP step, batch 128, {clock}"
        peers = {name: timing for name, timing in by_name.items() if name not in (OURS, EAGER)}
        ours = f"{common.microseconds(by_name[OURS].median)} us"
        if not peers:
            work.answers.absent(question, f"no peer: {reasons}", f"agrad {ours}")
            continue
        best = min(peers, key=lambda name: peers[name].median)
        middle, low, high = common.ratio(by_name[OURS], peers[best])
        measured = f"{middle:.2f} ({low:.2f} to {high:.2f}) x {best}; {ours}"
        work.answers.give(question, middle, measured, f"slower than {best}")


def table(timings: dict[str, dict[str, Timing]], absent: dict[str, str], batch: int) -> str:
    names = list(next(iter(timings.values())))
    cells = lambda t: f"{common.microseconds(t.median)} ({common.spread(t)})"  # noqa: E731
    rows = [[name, *(cells(timings[clock][name]) for clock in MLP_CLOCKS)] for name in names]
    head = [f"MLP step, batch {batch}", *(f"{clock}, us (quartiles)" for clock in MLP_CLOCKS)]
    missing = "".join(f"\n- left out, {name}: {why}" for name, why in absent.items())
    return f"# The MLP step by three clocks\n\n{common.table(head, rows)}\n{missing}\n"


def run(work: Work) -> None:
    batch = SMALL_BATCH if work.small else BATCH
    right = Remote(Candidate("NumPy by hand", mlp.plain))
    started = {c.name: Remote(c) for c in candidates(work.small)}
    with contextlib.ExitStack() as stack:
        for runner in (right, *started.values()):
            stack.callback(runner.process.terminate)
        right.begin((batch,))
        right.built()
        curve = right.results(CURVE_STEPS)
        curves, absent = build(started, batch, work.left() - KEEP)
        for name in [name for name in curves if differing(curves[name], curve)]:
            absent[name] = f"goes down another loss curve: {curves.pop(name)}, not {curve}"
        if OURS not in curves:
            for clock in MLP_CLOCKS:
                work.answers.give(f"MLP step, batch 128, {clock}", float("nan"), "", f"{OURS}: {absent[OURS]}")
            return
        runners = {name: started[name] for name in curves}
        rounds = SMALL_ROUNDS if work.small else ROUNDS
        timings = measure(runners, rounds, work.left() - KEEP / 3)
    answer(work, timings, absent)
    seconds = {clock: {name: t.samples for name, t in by.items()} for clock, by in timings.items()}
    record = {"suite": "mlp", "batch": batch, "left_out": absent, "seconds": seconds, "machine": common.machine()}
    (work.logs / "mlp.json").write_text(json.dumps(record), encoding="utf-8")
    (work.logs / "mlp.md").write_text(table(timings, absent, batch), encoding="utf-8")
