"""Microseconds per operation, in a chain of 1,000 on 8 numbers, forward and backward.

    python -m bench overhead --json bench/results/overhead.json

The arrays are so small that the time is spent in the library and not in arithmetic. All candidates alternate in one
process, because nothing here uses more than one thread.
"""

from collections.abc import Callable
from typing import Any

from bench import common, limits
from bench.common import Candidate, Job, Local, Missing, Timing, load
from bench.suites import Options, Report, Suite

OPERATIONS = 1_000
SIZE = 8
BYTES = 8 * SIZE * 5 // 2
"""Bytes that an operation moves: x * c reads and writes one array, y + x reads two and writes one."""
GOAL = 0.65
PEERS = ("torch", "autograd", "mygrad", "numpy")
GRADIENT = "forward + backward"
FORWARD = "forward"


def chain(x: Any) -> Any:
    y = x
    for _ in range(OPERATIONS // 2):
        y = y * 1.0001
        y = y + x
    return y


def expected() -> float:
    """Return the derivative of the chain, by its own recurrence."""
    slope = 1.0
    for _ in range(OPERATIONS // 2):
        slope = slope * 1.0001 + 1.0
    return slope


def _values() -> Any:
    np = load("numpy")
    return np.linspace(0.5, 1.5, SIZE)


def _job(
    part: str, forward: Callable[[], Any], gradient: Callable[[], Any] | None, first: Callable[[Any], float]
) -> Job:
    if part == FORWARD:
        return Job(forward, read=lambda result: None)
    assert gradient is not None
    return Job(gradient, read=first)


def agrad_tensors(part: str, backend: str = "numpy") -> Job:
    agrad = load("agrad")
    with agrad.use_backend(backend):
        x, g = (
            agrad.asarray(_values().tolist(), dtype=agrad.float64, requires_grad=True),
            agrad.ones(SIZE, dtype=agrad.float64),
        )
    if x.backend != backend or x.dtype != agrad.float64:
        raise TypeError(f"meant float64 on {backend}, got {x.dtype} on {x.backend}")

    def gradient() -> Any:
        chain(x).backward(g)
        result = x.grad
        x.zero_grad()
        return result

    return _job(part, lambda: chain(x), gradient, lambda result: float(result[0]))


def agrad_function(part: str) -> Job:
    agrad = load("agrad")
    x = _values()
    of = agrad.grad(lambda x: agrad.sum(chain(x)))
    return _job(part, lambda: None, lambda: of(x), lambda result: float(result[0]))


def torch(part: str) -> Job:
    torch = load("torch")
    x, g = torch.tensor(_values(), requires_grad=True), torch.ones(SIZE, dtype=torch.float64)

    def gradient() -> Any:
        chain(x).backward(g)
        result = x.grad
        x.grad = None
        return result

    return _job(part, lambda: chain(x), gradient, lambda result: float(result[0]))


def autograd(part: str) -> Job:
    make_vjp = load("autograd").make_vjp
    x = _values()
    g = x * 0 + 1
    return _job(part, lambda: make_vjp(chain)(x), lambda: make_vjp(chain)(x)[0](g), lambda result: float(result[0]))


def mygrad(part: str) -> Job:
    tensor = load("mygrad").tensor
    values = _values()
    g = values * 0 + 1

    def gradient() -> Any:
        # a new leaf each time: a leaf keeps every operation on it, and slows down with them
        x = tensor(values)
        chain(x).backward(g)
        return x.grad

    return _job(part, lambda: chain(tensor(values)), gradient, lambda result: float(result[0]))


def numpy(part: str) -> Job:
    x = _values()
    return Job(lambda: chain(x), read=lambda result: None)


AGRAD, FUNCTION, ON_TORCH = "agrad", "agrad.grad of the chain", "agrad on PyTorch"
NAMES = {
    "torch": "PyTorch eager",
    "autograd": "autograd",
    "mygrad": "MyGrad",
    "numpy": "NumPy, no derivative",
}


def candidates(peers: list[str]) -> list[Candidate]:
    found = [
        Candidate(f"{AGRAD}: {part}", agrad_tensors, (part,), ("agrad", "numpy"), required=True)
        for part in (FORWARD, GRADIENT)
    ]
    found.append(Candidate(f"{FUNCTION}: {GRADIENT}", agrad_function, (GRADIENT,), ("agrad", "numpy"), required=True))
    for peer in peers:
        build = {"torch": torch, "autograd": autograd, "mygrad": mygrad, "numpy": numpy}[peer]
        parts = (FORWARD,) if peer == "numpy" else (FORWARD, GRADIENT)
        found += [Candidate(f"{NAMES[peer]}: {part}", build, (part,), (peer,)) for part in parts]
    if "torch" in peers:
        found += [
            Candidate(f"{ON_TORCH}: {part}", agrad_tensors, (part, "torch"), ("torch",)) for part in (FORWARD, GRADIENT)
        ]
    return found


def report(timings: dict[str, Timing]) -> tuple[str, dict[str, Any]]:
    rows = []
    base = timings.get(f"{NAMES['torch']}: {GRADIENT}")
    verdict: dict[str, Any] = {}
    for name in dict.fromkeys(name.partition(":")[0] for name in timings):
        forward, both = (timings.get(f"{name}: {part}") for part in (FORWARD, GRADIENT))
        times = [
            text
            for timing in (forward, both)
            for text in (
                ("", "")
                if timing is None
                else (f"{timing.median * 1e6 / OPERATIONS:.2f}", common.spread(timing, OPERATIONS))
            )
        ]
        beside = ""
        if both is not None and base is not None:
            middle, low, high = common.ratio(both, base)
            beside = f"{middle:.2f} ({low:.2f} to {high:.2f})"
            if name == AGRAD:
                verdict = {"ratio": middle, "goal": GOAL, "met": middle <= GOAL}
        rows.append([name, *times, beside])
    head = ["us an operation", "forward", "quartiles", "forward + backward", "quartiles", "x PyTorch eager"]
    text = common.table(head, rows)
    if verdict:
        text += (
            f"\n\nGoal: forward + backward at most {GOAL} x PyTorch eager. "
            f"agrad needs {verdict['ratio']:.2f} x: " + ("met." if verdict["met"] else "NOT met.")
        )
    else:
        text += f"\n\nGoal: forward + backward at most {GOAL} x PyTorch eager. PyTorch did not run: not judged."
    return text, verdict


def limits_text(best: limits.Limits, timings: dict[str, Timing]) -> str:
    """Return the cost of the traffic of an operation, and its fraction of the time."""
    least, _ = best.seconds(BYTES)
    rows = []
    for name, timing in timings.items():
        if name.endswith(f": {FORWARD}"):
            rows.append([name.partition(":")[0], f"{least * OPERATIONS / timing.median:.1%}"])
    return (
        f"The physical limit is the copy bandwidth: an operation moves {BYTES} bytes, {least * 1e9:.1f} ns. Reached in "
        f"the forward pass:\n\n" + common.table(["", "of the bandwidth"], rows)
    )


def run(options: Options) -> Report:
    """Check that all compute the same derivative, and time them."""
    about = common.machine()
    best = limits.measure("float64", quick=options.quick)
    started = {c.name: Local(c) for c in candidates(list(options.peers))}
    runners, left_out, reports = common.build(started)
    slope = expected()
    for name, runner in runners.items():
        if name.endswith(GRADIENT) and abs(runner.results(1)[0] - slope) > 1e-9 * slope:
            raise Missing(f"{name} computes another derivative: {runner.results(1)[0]}, not {slope}")
    timings = common.alternate(runners, repeat=options.repeat, sample_seconds=options.sample)
    about["load average after"] = common.load_average()
    table, verdict = report(timings)
    text = (
        "# The cost of an operation\n\n"
        f"A chain of {OPERATIONS:,} operations (`y = y * 1.0001; y = y + x`) on {SIZE} numbers of float64; "
        f"medians of {options.repeat} rounds in which all alternated.\n\n{table}\n\n{limits_text(best, timings)}\n\n"
        f"- {best.text()}\n" + common.environment_text(about, {"all": next(reversed(reports.values()))}, left_out)
    )
    record = {
        "suite": "overhead",
        "machine": about,
        "limits": best.record(),
        "computed_with": reports,
        "left_out": left_out,
        "operations": OPERATIONS,
        "seconds": {name: timing.samples for name, timing in timings.items()},
        "verdict": verdict,
    }
    return Report(text, record)


SUITE = Suite(about="microseconds an operation", run=run, repeat=30, peers=PEERS, dtypes=("float64",))
