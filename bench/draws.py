"""Nanoseconds per random number: agrad.random compared with each backend's own generator.

    python -m bench draws --json bench/results/draws.json

Both draw a million numbers at a time, from a new key or a running state. The generators of the libraries are PCG64 in
NumPy, the Mersenne Twister in PyTorch (Philox4x32 on CUDA), Threefry2x32 in JAX and XORWOW in CuPy. agrad uses
Philox4x64-10 everywhere, with the same bits.
"""

from typing import Any

from bench import common, limits
from bench.common import Candidate, Job, Local, Missing, Timing, load
from bench.suites import Options, Report, Suite

COUNT = 1_000_000
PEERS = ("numpy", "torch", "jax", "cupy")
DRAWS = ("bits", "uniform float32", "uniform float64", "normal float32", "normal float64", "randint", "gamma")
CONCENTRATION = 2.5
MEANS = {"bits": 2.0**31, "uniform": 0.5, "normal": 0.0, "randint": 49.5, "gamma": CONCENTRATION}


def agrad_draws(backend: str, draw: str) -> Job:
    agrad = load("agrad")
    random = agrad.random
    name, _, dtype = draw.partition(" ")
    with agrad.use_backend(backend, None):
        keys = random.Generator(0)
        calls = {
            "bits": lambda key: random.bits(key, (COUNT,)),
            "uniform": lambda key: random.uniform(key, (COUNT,), dtype=dtype),
            "normal": lambda key: random.normal(key, (COUNT,), dtype=dtype),
            "randint": lambda key: random.randint(key, 0, 100, (COUNT,)),
            "gamma": lambda key: random.gamma(key, CONCENTRATION, (COUNT,), dtype="float64"),
        }
        device = str(keys.key().device)
    ready = load("jax").block_until_ready if backend == "jax" else lambda raw: raw
    wait = load("cupy").cuda.Device().synchronize if backend == "cupy" else lambda: None
    return Job(
        lambda: ready(calls[name](keys.key(backend=backend)).raw),
        read=lambda raw: float(agrad.asarray(raw).numpy().mean()),
        wait=wait,
        device=device,
    )


def numpy_draws(draw: str) -> Job:
    np = load("numpy")
    rng = np.random.default_rng(0)
    name, _, dtype = draw.partition(" ")
    calls = {
        "bits": lambda: rng.integers(0, 2**32, COUNT, dtype=np.uint32),
        "uniform": lambda: rng.random(COUNT, dtype=dtype),
        "normal": lambda: rng.standard_normal(COUNT, dtype=dtype),
        "randint": lambda: rng.integers(0, 100, COUNT),
        "gamma": lambda: rng.standard_gamma(CONCENTRATION, COUNT),
    }
    return Job(calls[name], read=lambda raw: float(raw.mean()))


def torch_draws(draw: str) -> Job:
    torch = load("torch")
    g = torch.Generator()
    name, _, dtype = draw.partition(" ")
    kind = getattr(torch, dtype or "float64")
    concentration = torch.full((COUNT,), CONCENTRATION, dtype=torch.float64)
    calls = {
        "bits": lambda: torch.randint(0, 2**32, (COUNT,), generator=g),
        "uniform": lambda: torch.rand(COUNT, generator=g, dtype=kind),
        "normal": lambda: torch.randn(COUNT, generator=g, dtype=kind),
        "randint": lambda: torch.randint(0, 100, (COUNT,), generator=g),
        "gamma": lambda: torch._standard_gamma(concentration, generator=g),
    }
    return Job(calls[name], read=lambda raw: float(raw.double().mean()))


def jax_draws(draw: str) -> Job:
    jax = load("jax")
    jax.config.update("jax_enable_x64", True)
    name, _, dtype = draw.partition(" ")
    state = [jax.random.key(0)]
    calls = {
        "bits": lambda key: jax.random.bits(key, (COUNT,), dtype="uint32"),
        "uniform": lambda key: jax.random.uniform(key, (COUNT,), dtype=dtype),
        "normal": lambda key: jax.random.normal(key, (COUNT,), dtype=dtype),
        "randint": lambda key: jax.random.randint(key, (COUNT,), 0, 100),
        "gamma": lambda key: jax.random.gamma(key, CONCENTRATION, (COUNT,), dtype="float64"),
    }

    def step() -> Any:
        state[0], key = jax.random.split(state[0])
        return calls[name](key).block_until_ready()

    return Job(step, read=lambda raw: float(raw.mean()))


def cupy_draws(draw: str) -> Job:
    cupy = load("cupy")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise Missing(f"CuPy finds no CUDA device: {error}") from error
    rng = cupy.random.default_rng(0)
    name, _, dtype = draw.partition(" ")
    calls = {
        "bits": lambda: rng.integers(0, 2**32 - 1, COUNT, dtype="uint32"),
        "uniform": lambda: rng.random(COUNT, dtype=dtype),
        "normal": lambda: rng.standard_normal(COUNT, dtype=dtype),
        "randint": lambda: rng.integers(0, 99, COUNT),
        "gamma": lambda: rng.standard_gamma(CONCENTRATION, COUNT),
    }
    wait = cupy.cuda.Device().synchronize
    return Job(calls[name], read=lambda raw: float(raw.mean()), wait=wait, device="cuda")


OWN = {"numpy": numpy_draws, "torch": torch_draws, "jax": jax_draws, "cupy": cupy_draws}


def candidates(peers: list[str]) -> list[Candidate]:
    return [
        candidate
        for peer in peers
        for draw in DRAWS
        for candidate in (
            Candidate(f"agrad on {peer}: {draw}", agrad_draws, (peer, draw), (peer,)),
            Candidate(f"{peer}: {draw}", OWN[peer], (draw,), (peer,)),
        )
    ]


def report(timings: dict[str, Timing], peers: list[str], best: limits.Limits) -> str:
    """Return nanoseconds per number, the ratio, and the fraction of the bandwidth."""
    rows = []
    for peer in peers:
        for draw in DRAWS:
            ours, own = timings.get(f"agrad on {peer}: {draw}"), timings.get(f"{peer}: {draw}")
            if ours is not None and own is not None:
                middle, low, high = common.ratio(ours, own)
                times = [f"{t.median * 1e9 / COUNT:.2f}" for t in (ours, own)]
                size = 4 if draw == "bits" or draw.endswith("float32") else 8
                reached = f"{best.seconds(size * COUNT)[0] / ours.median:.1%}"
                rows.append([f"{peer}: {draw}", *times, f"{middle:.2f} ({low:.2f} to {high:.2f})", reached])
    return common.table(["ns a number", "agrad.random", "its own", "agrad / its own", "of the bandwidth"], rows)


def run(options: Options) -> Report:
    """Check every mean, and time the draws of agrad and of the libraries alternately."""
    about = common.machine()
    best = limits.measure("float64", quick=options.quick)
    peers = [p for p in options.peers if p in OWN] or ["numpy"]  # which is always available
    runners, left_out, reports = common.build({c.name: Local(c) for c in candidates(peers)})
    for name, runner in runners.items():
        draw = name.partition(": ")[2].partition(" ")[0]
        mean, spread = runner.results(1)[0], {"bits": 2.0**31, "randint": 50.0}.get(draw, 2.0)
        if abs(mean - MEANS[draw]) > 5 * spread / COUNT**0.5:
            raise Missing(f"{name} draws another distribution: its mean is {mean}, not {MEANS[draw]}")
    timings = common.alternate(runners, repeat=options.repeat, sample_seconds=options.sample) if runners else {}
    about["load average after"] = common.load_average()
    used = {"all": next(reversed(reports.values()))} if reports else {}
    text = (
        f"# Random numbers\n\n{COUNT:,} numbers per call; medians of {options.repeat} rounds in which all alternated, "
        f"ratios round by round. The bandwidth is measured by writing the numbers once.\n\n"
        f"{report(timings, peers, best)}\n\n- {best.text()}\n" + common.environment_text(about, used, left_out)
    )
    record = {
        "suite": "draws",
        "machine": about,
        "computed_with": reports,
        "left_out": left_out,
        "count": COUNT,
        "seconds": {name: timing.samples for name, timing in timings.items()},
        "limits": best.record(),
    }
    return Report(text, record)


SUITE = Suite(about="random numbers compared with each library's own generator", run=run, repeat=9, peers=PEERS)
