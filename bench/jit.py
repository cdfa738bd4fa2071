"""Twenty operations in float32, forward and backward: by agrad.jit, by jax.jit, and eager.

    python -m bench jit --json bench/results/jit.json

Every candidate has a separate process. They alternate. Before the timing, all must compute the same gradient. The copy
of an array of that size, to memory that was written before, measures the minimum traffic: the argument is read once and
the gradient is written once.
"""

import contextlib
from typing import Any

from bench import common, limits
from bench.common import Candidate, Job, Missing, Remote, load
from bench.suites import Options, Report, Suite

SIZES = (1_000, 100_000, 10_000_000)
PEERS = ("jax", "torch")
TOLERANCE = 1e-4
ROUNDS = 4
"""Each round has five operations: sin, a product, exp of a negated square, a product and a sum."""

COPY, JITTED, JAX = "copy of one array", "agrad.jit, numpy", "JAX, jit"
COPY_GPU = "copy of one array, CuPy"
BACKENDS = ("numpy", "cupy")


def data(size: int) -> Any:
    np = load("numpy")
    return np.random.default_rng(0).standard_normal(size).astype(np.float32)


def chain(xp: Any, x: Any) -> Any:
    """Return the sum of the results of twenty operations on each element."""
    for _ in range(ROUNDS):
        x = xp.sin(x) * 0.9 + xp.exp(-(x * x))
    return xp.sum(x)


def cheap_chain(xp: Any, x: Any) -> Any:
    """Return the sum of the results of twenty operations that need one or two instructions each."""
    for _ in range(6):
        x = xp.abs(x * 0.9 - 0.5)
    return xp.sum(x * 2.0 + 1.0)


def agrad(size: int, jitted: bool, backend: str = "numpy", cheap: bool = False) -> Job:
    agrad = load("agrad")
    step = agrad.value_and_grad(lambda x: (cheap_chain if cheap else chain)(agrad, x))
    step = agrad.jit(step) if jitted else step
    x = data(size)
    if backend == "numpy":
        return Job(lambda: step(x), read=lambda out: [float(out[0]), *out[1][:100].tolist()])
    try:
        x = agrad.asarray(x).to(backend)
    except (agrad.errors.BackendUnavailableError, agrad.errors.DeviceUnavailableError) as reason:
        raise Missing(str(reason)) from None
    return Job(
        lambda: step(x.data),
        read=lambda out: [float(out[0]), *out[1][:100].tolist()],
        wait=load("agrad.backends").load(backend).synchronize,
        device="cuda",
    )


def jax(size: int) -> Job:
    jax, jnp = load("jax"), load("jax.numpy")
    step = jax.jit(jax.value_and_grad(lambda x: chain(jnp, x)))
    x = jnp.asarray(data(size))
    return Job(
        lambda: jax.block_until_ready(step(x)), read=lambda out: [float(out[0]), *map(float, out[1][:100].tolist())]
    )


def torch(size: int) -> Job:
    torch = load("torch")
    x = torch.from_numpy(data(size)).requires_grad_()

    def step() -> Any:
        value = chain(torch, x)
        (gradient,) = torch.autograd.grad(value, x)
        return value, gradient

    return Job(step, read=lambda out: [out[0].item(), *out[1][:100].tolist()])


def copy(size: int, library: str = "numpy") -> Job:
    if library == "cupy":
        limits.check_gpu()
    np = load(library)
    x, out = np.asarray(data(size)), np.ones(size, np.float32)
    if library == "numpy":
        return Job(lambda: np.copyto(out, x))
    return Job(lambda: np.copyto(out, x), wait=np.cuda.get_current_stream().synchronize, device="cuda")


def candidates(peers: tuple[str, ...], backends: tuple[str, ...] = ("numpy",)) -> list[Candidate]:
    found = []
    if "numpy" in backends:
        found.append(Candidate(JITTED, agrad, (True,), ("agrad", "numpy"), True))
        found.append(Candidate("agrad, numpy", agrad, (False,), ("agrad", "numpy"), True))
        found.append(Candidate(COPY, copy, (), ("numpy",), True))
    if "cupy" in backends:
        found.append(Candidate("agrad.jit, cupy", agrad, (True, "cupy"), ("agrad", "cupy")))
        found.append(Candidate("agrad, cupy", agrad, (False, "cupy"), ("agrad", "cupy")))
        found.append(Candidate(COPY_GPU, copy, ("cupy",), ("cupy",)))
    if "jax" in peers:
        found.append(Candidate(JAX, jax, (), ("jax",)))
    if "torch" in peers:
        found.append(Candidate("PyTorch eager", torch, (), ("torch",)))
    return found


def check(runners: dict[str, Any]) -> None:
    """Raise ``Missing`` if the value or gradient of a candidate differs from the others."""
    results = {name: runner.results(1)[0] for name, runner in runners.items() if name not in (COPY, COPY_GPU)}
    first = JITTED if JITTED in results else next(iter(results), JITTED)
    for name, got in results.items():
        if any(abs(a - b) > TOLERANCE * max(1.0, abs(b)) for a, b in zip(got, results[first], strict=True)):
            raise Missing(f"{name} computes another gradient than {first}")


def run(options: Options) -> Report:
    """Check that all compute one gradient, and time them at each size."""
    about = common.machine()
    best = limits.measure("float32", quick=options.quick)
    texts: list[str] = []
    seconds: dict[str, dict[str, list[float]]] = {}
    left_out: dict[str, str] = {}
    reports: dict[str, dict[str, Any]] = {}
    with contextlib.ExitStack() as stack:
        started = {c.name: Remote(c) for c in candidates(options.peers, options.backends)}
        for runner in started.values():
            stack.callback(runner.close)
        for size in options.sizes:
            runners, left_out, reports = common.build(started, size)
            check(runners)
            timings = common.alternate(runners, repeat=options.repeat, sample_seconds=options.sample)
            seconds[str(size)] = {name: timing.samples for name, timing in timings.items()}
            beside = {
                name: short
                for name, short in ((COPY, "x copy"), (COPY_GPU, "x copy, CuPy"), (JAX, "x JAX"))
                if name in timings
            }
            rows = [
                [
                    name,
                    common.microseconds(timing.median),
                    common.spread(timing),
                    *(f"{common.ratio(timing, timings[other])[0]:.2f}" for other in beside),
                ]
                for name, timing in timings.items()
            ]
            texts.append(common.table([f"{size:,} elements", "us", "quartiles", *beside.values()], rows))
    about["load average after"] = common.load_average()
    text = (
        "# Twenty operations on each element, and back\n\n"
        f"float32, value and gradient. Medians of {options.repeat} rounds in which all alternated, each in a separate "
        "process; ratios round by round. Goals, at ten million elements: no slower than JAX, and at most twice the "
        "necessary traffic.\n\n"
        + "\n\n".join(texts)
        + f"\n\n- {best.text()}\n"
        + common.environment_text(about, reports, left_out)
    )
    record = {
        "suite": "jit",
        "machine": about,
        "limits": best.record(),
        "computed_with": reports,
        "left_out": left_out,
        "seconds": seconds,
    }
    return Report(text, record)


SUITE = Suite(
    about="twenty operations on each element, traced and eager",
    run=run,
    repeat=15,
    backends=BACKENDS,
    default_backends=BACKENDS[:1],
    peers=PEERS,
    sizes=SIZES,
    quick_sizes=SIZES[:1],
)
