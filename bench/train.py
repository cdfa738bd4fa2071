"""Samples per second of ``agrad train``, traced and not, compared with a loop in PyTorch.

Handwritten digits, a part of MNIST from the folder ``AGRAD_MNIST_DIR`` if it is set, and random examples in the shape
of MNIST. An MLP with layers of 256 and 128, ReLU and dropout, Adam at a constant rate. Loss and accuracy are summed in
every step, as in ``agrad train``. The seconds are for whole epochs, including shuffling and batching; the first one,
which warms up and traces, is omitted.
"""

import contextlib
import io
import itertools
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import common, limits
from bench.common import Candidate, Job, Missing, Remote, Timing, load
from bench.suites import Options, Report, Suite

HIDDEN, CLASSES, PIXELS = (256, 128), 10, 784
EXAMPLES, QUICK_EXAMPLES = 12_000, 500
DATA = ("digits", "mnist", "random")
EPOCHS, PASSED = 3, 20_000
"""Minimum number of epochs of a run, and of examples that it processes: an epoch of digits lasts milliseconds."""
RATE, DROPOUT = 1e-3, 0.2
BACKENDS = ("numpy", "cupy", "torch", "jax")
PEERS = ("torch",)
TORCH = "PyTorch eager"
FUSED = "PyTorch eager, fused Adam"


def write_examples(file: Path, name: str, count: int) -> tuple[int, int]:
    """Write examples (n, d) of float32 and classes; return n and d.

    n is at most ``count``.
    """
    np = load("numpy")
    if name == "random":
        rng = np.random.default_rng(0)
        X, y = rng.random((count, PIXELS), dtype=np.float32), np.arange(count) % CLASSES
    else:
        data, folder = load("agrad.data"), os.environ.get("AGRAD_MNIST_DIR")
        if name == "mnist" and folder is None:
            raise Missing("AGRAD_MNIST_DIR names no folder with MNIST")
        held = data.load_digits() if name == "digits" else data.load_mnist(folder)
        X, y = held.X_train[:count], held.y_train[:count]
    np.savez(file, X=X, y=y)
    return X.shape


def epochs(count: int) -> int:
    """Return the epochs of a run of so many examples."""
    return max(EPOCHS, 1 + PASSED // count)


def agrad(batch: int, file: str, backend: str, device: str | None, *options: str) -> Job:
    """Return a job that runs the command line once in this process.

    It reads the seconds per epoch from the log of the run.
    """
    cli, agrad = load("agrad.cli"), load("agrad")
    try:
        agrad.set_backend(backend, device)
        agrad.ones(1)
    except (agrad.errors.BackendUnavailableError, agrad.errors.DeviceUnavailableError) as reason:
        raise Missing(str(reason)) from None
    with load("numpy").load(file) as held:
        count = held["y"].size
    place = ["--backend", backend, *(["--device", device] if device else [])]

    def step() -> list[float]:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log.jsonl"
            settings = {
                "--data": file,
                "--hidden": ",".join(map(str, HIDDEN)),
                "--dropout": DROPOUT,
                "--optimizer": "adam",
                "--lr": RATE,
                "--schedule": "constant",
                "--batch-size": batch,
                "--epochs": epochs(count),
                "--log": log,
            }
            given = [str(part) for pair in settings.items() for part in pair]
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = cli.main(["train", *given, *place, *options, "--quiet"])
            if code:
                raise RuntimeError(f"agrad train ended with code {code}: {said.getvalue()}")
            records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        return [1 / r["samples_per_second"] for r in records if r["event"] == "epoch"][1:]

    return Job(step, read=list, device=device or "cpu")


def torch(batch: int, file: str, device: str | None, fused: bool) -> Job:
    """Return a job of the same loop in ``torch.nn``; ``fused``: the fastest optimizer."""
    torch, np = load("torch"), load("numpy")
    where = torch.device(device or "cpu")
    if where.type == "cuda" and not torch.cuda.is_available():
        raise Missing("this PyTorch sees no CUDA GPU")
    with np.load(file) as opened:
        held = dict(opened)
    times = epochs(held["y"].size)
    count = held["X"].shape[0] * 4 // 5  # agrad train tests on a fifth
    X, y = torch.from_numpy(held["X"][:count]).to(where), torch.from_numpy(held["y"][:count]).to(where)
    wait = torch.cuda.synchronize if where.type == "cuda" else (lambda: None)

    def step() -> list[float]:
        torch.manual_seed(0)
        layers: list[Any] = []
        for m, n in itertools.pairwise((X.shape[1], *HIDDEN, CLASSES)):
            layers += [torch.nn.Linear(m, n), torch.nn.ReLU(), torch.nn.Dropout(DROPOUT)]
        model = torch.nn.Sequential(*layers[:-2]).to(where)
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE, fused=fused or None)
        found = []
        for _ in range(times):
            start = time.perf_counter()
            order = torch.randperm(count, device=where)
            total, hits = torch.zeros((), device=where), torch.zeros((), dtype=torch.int64, device=where)
            for first in range(0, count, batch):
                rows = order[first : first + batch]
                labels = y[rows]
                scores = model(X[rows])
                loss = torch.nn.functional.cross_entropy(scores, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.detach() * len(labels)
                hits += (scores.detach().argmax(1) == labels).sum()
            total.item(), hits.item()
            wait()
            found.append((time.perf_counter() - start) / count)
        return found[1:]

    return Job(step, read=list, wait=wait, device=str(where))


def needed(features: int) -> float:
    """Return the floating-point operations per sample.

    They are the products of the step, with two in the backward pass except one for the first layer.
    """
    parts = [2.0 * m * n for m, n in itertools.pairwise((features, *HIDDEN, CLASSES))]
    return 3 * sum(parts) - parts[0]


def batch_text(title: str, features: int, timings: dict[str, Timing], best: limits.Limits, device: str | None) -> str:
    """Return the table of one data set at one batch size."""
    rows = []
    for name, timing in timings.items():
        low, high = timing.quartiles
        beside = f"{common.ratio(timing, timings[TORCH])[0]:.2f}" if TORCH in timings else ""
        reached = "" if device or "cupy" in name else f"{needed(features) / best.flops / timing.median:.0%}"
        rows.append([name, f"{1 / timing.median:,.0f}", f"{1 / high:,.0f} to {1 / low:,.0f}", beside, reached])
    return common.table([title, "samples/s", "quartiles", "time x PyTorch", "of the matrix rate"], rows)


def candidates(options: Options, file: str) -> list[Candidate]:
    """Return agrad on every backend, traced and not, and PyTorch."""
    found = []
    for backend in options.backends:
        on = options.device if backend in ("torch", "jax", "cupy") else None
        for option in ("--jit", "--no-jit"):
            name = f"agrad train {option}, {backend}"
            found.append(Candidate(name, agrad, (file, backend, on, option), ("agrad", backend)))
    if "torch" in options.peers:
        found.append(Candidate(TORCH, torch, (file, options.device, False), ("torch",)))
        found.append(Candidate(FUSED, torch, (file, options.device, True), ("torch",)))
    return found


def run(options: Options) -> Report:
    """Train on every backend that can run, and in PyTorch."""
    about = common.machine()
    best = limits.measure("float32", quick=options.quick)
    texts, left_out, reports = [], {}, {}
    seconds: dict[str, dict[str, list[float]]] = {}
    for name in options.only or DATA:
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            file = Path(folder) / "examples.npz"
            try:
                count, features = write_examples(file, name, QUICK_EXAMPLES if options.quick else EXAMPLES)
            except Missing as reason:
                left_out[name] = str(reason)
                continue
            started = {candidate.name: Remote(candidate) for candidate in candidates(options, str(file))}
            for runner in started.values():
                stack.callback(runner.close)
            for batch in options.sizes:
                print(f"train: {name}, batch {batch} ...", file=sys.stderr, flush=True)
                runners, missing, described = common.build(started, batch)
                left_out |= missing
                reports |= described
                if not runners:
                    raise Missing("nothing could run: " + "; ".join(f"{n}: {why}" for n, why in missing.items()))
                timings = {runner: Timing() for runner in runners}
                for _ in range(options.repeat):
                    for who, runner in runners.items():
                        time.sleep(common.SETTLE)
                        timings[who].samples += runner.results(1)[0]
                title = f"{name}, {count:,} examples, batch {batch}"
                texts.append(batch_text(title, features, timings, best, options.device))
                seconds[f"{name}, {batch}"] = {who: timing.samples for who, timing in timings.items()}
    about["load average after"] = common.load_average()
    text = (
        "# agrad train\n\n"
        f"Four fifths of the examples to train on; an MLP with layers of {' and '.join(map(str, HIDDEN))}, ReLU and "
        f"dropout {DROPOUT}, float32, Adam. Medians over the epochs of {options.repeat} runs, in which all alternated: "
        f"of each {EPOCHS} epochs, or as many as pass {PASSED:,} examples, without the first. The physical limit is "
        "the processor's matrix rate.\n\n"
        + "\n\n".join(texts)
        + f"\n\n## Machine\n\n- {best.text()}\n"
        + common.environment_text(about, reports, left_out)
    )
    record = {
        "suite": "train",
        "machine": about,
        "limits": best.record(),
        "computed_with": reports,
        "left_out": left_out,
        "seconds": seconds,
    }
    return Report(text, record)


SUITE = Suite(
    about="samples a second of agrad train",
    run=run,
    repeat=3,
    backends=BACKENDS,
    default_backends=("numpy", "cupy"),
    peers=PEERS,
    sizes=(32, 128, 512),
    quick_sizes=(128,),
    only=DATA,
    quick_only=("digits",),
    devices=True,
)
