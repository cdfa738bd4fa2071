"""A training step of a wide MLP that keeps a GPU's matrix units busy.

The precisions are TF32, bfloat16 and float16.

    python -m bench wide --backends cupy,torch --device cuda --json bench/results/wide_gpu.json

Four layers as wide as the batch is large, SGD with momentum. Each precision is compared with the rate of one plain
product of matrices of that size, with operands already narrow, measured in the same run. Without a GPU, a few small
sizes check that the suite works; products on a processor are in float32.
"""

import contextlib
import sys
from typing import Any

from bench import common
from bench.common import Candidate, Job, Missing, Remote, Timing, load
from bench.suites import Options, Report, Suite

LAYERS = 4
SIZES, QUICK_SIZES = (256, 8192), (256,)
"""Widths, which are also the numbers of rows of a batch."""
BACKENDS = ("cupy", "torch", "jax", "numpy")
PRECISIONS = ("tf32", "bfloat16", "float16")
GOAL = 0.85
JUDGED = ("tf32", "bfloat16")
CURVE_STEPS, CURVE_TOLERANCE = 3, 0.05
PLAIN, PEER = "plain product", "PyTorch eager"


def place(backend: str, device: str | None) -> Any:
    """Return agrad, with backend and device selected, or raise ``Missing``."""
    agrad = load("agrad")
    try:
        agrad.set_backend(backend, device if backend != "numpy" else None)
    except (agrad.errors.BackendUnavailableError, agrad.errors.DeviceUnavailableError) as reason:
        raise Missing(str(reason)) from None
    return agrad


def waiter(backend: str, found: Any) -> Any:
    """Return a function that waits for all work on the backend.

    ``found`` is a Tensor that each step computes.
    """
    record = load("agrad.backends").load(backend)

    def wait() -> None:
        record.synchronize()
        if backend == "jax":
            found.data.block_until_ready()

    return wait


def step(size: int, backend: str, device: str | None, precision: str) -> Job:
    """Return the training step, traced."""
    agrad = place(backend, device)
    nn, optim, random = load("agrad.nn"), load("agrad.optim"), load("agrad.random")
    rng = random.Generator(0)
    layers = []
    for _ in range(LAYERS):
        layers += [nn.Linear(size, size, dtype=agrad.float32, rng=rng), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    optimizer = optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    scale = optim.LossScale(optimizer) if precision == "float16" else None
    x, target = (random.normal(random.key(k), (size, size), dtype=agrad.float32) for k in (1, 2))

    def train(x: Any, target: Any) -> Any:
        loss = agrad.mean(agrad.square(model(x) - target))
        if scale is None:
            loss.backward()
            optimizer.step()
        else:
            scale(loss).backward()
            scale.step()
        optimizer.zero_grad()
        return loss

    try:
        run = agrad.jit(train, precision=precision)
        run(x, target)
    except agrad.errors.ConfigurationError as reason:
        raise Missing(str(reason)) from None
    parameter = next(iter(model.parameters()))
    return Job(
        lambda: run(x, target),
        read=lambda loss: loss.item(),
        wait=waiter(backend, parameter),
        device=str(parameter.device),
    )


def torch(size: int, device: str | None, precision: str) -> Job:
    """Return the same step in PyTorch: TF32 allowed, or autocast."""
    torch = load("torch")
    where = torch.device(device or "cpu")
    if where.type == "cuda" and not torch.cuda.is_available():
        raise Missing("this PyTorch sees no CUDA GPU")
    torch.manual_seed(0)
    layers: list[Any] = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(size, size, device=where), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, fused=True)
    x, target = (torch.randn(size, size, device=where) for _ in range(2))
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    narrow = None if precision == "tf32" else getattr(torch, precision)

    def train() -> Any:
        optimizer.zero_grad()
        with torch.autocast(where.type, dtype=narrow, enabled=narrow is not None):
            out = model(x)
        loss = (out.float() - target).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    wait = torch.cuda.synchronize if where.type == "cuda" else (lambda: None)
    return Job(train, read=lambda loss: loss.item(), wait=wait, device=str(where))


def plain(size: int, backend: str, device: str | None, precision: str) -> Job:
    """Return one product of matrices that are narrow already."""
    agrad = place(backend, device)
    random = load("agrad.random")
    x, w = (random.normal(random.key(k), (size, size), dtype=agrad.float32).data for k in (1, 2))
    if backend == "cupy":
        from agrad.jit.lower.cuda.products import cupy_narrow_matmul, gemm

        factors = [x, w] if precision == "tf32" else [cupy_narrow_matmul(precision).narrow(a) for a in (x, w)]
        product = lambda: gemm(*factors, x.dtype, precision == "tf32")  # noqa: E731
    elif backend == "torch" and x.is_cuda:
        torch = load("torch")
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        factors = [a.to(getattr(torch, {"tf32": "float32"}.get(precision, precision))) for a in (x, w)]
        product = lambda: torch.mm(*factors)  # noqa: E731
    elif backend == "jax":
        jax = load("jax")
        narrow = {"tf32": "float32"}.get(precision, precision)
        factors = [a.astype(narrow) for a in (x, w)]
        with jax.default_matmul_precision("high"):
            multiply = jax.jit(lambda a, b: jax.numpy.matmul(a, b, preferred_element_type="float32"))
            multiply(*factors)
        product = lambda: multiply(*factors).block_until_ready()  # noqa: E731
    else:
        product = lambda: x @ w  # noqa: E731
    wait = load("agrad.backends").load(backend).synchronize
    return Job(product, wait=wait, device=str(device or "cpu"))


def candidates(options: Options) -> list[Candidate]:
    found = []
    for backend in options.backends:
        for precision in PRECISIONS:
            if (backend, precision) == ("numpy", "bfloat16"):  # NumPy has no such dtype
                continue
            arguments = (backend, options.device, precision)
            found.append(Candidate(f"agrad.jit, {backend}, {precision}", step, arguments, ("agrad", backend)))
            found.append(Candidate(f"{PLAIN}, {backend}, {precision}", plain, arguments, ("agrad", backend)))
    if "torch" in options.peers:
        for precision in PRECISIONS:
            found.append(Candidate(f"{PEER}, {precision}", torch, (options.device, precision), ("torch",)))
    return found


def operations(size: int) -> float:
    """Return the operations of the products of a step: three for each layer, except two for the first one."""
    return (3 * LAYERS - 1) * 2.0 * size**3


def check(runners: dict[str, Any]) -> None:
    """Raise ``Missing`` if two backends compute different losses at one precision."""
    right: dict[str, tuple[str, list[float]]] = {}
    for name, runner in runners.items():
        if name.startswith((PLAIN, PEER)):  # random numbers of PyTorch differ
            continue
        curve = runner.results(CURVE_STEPS)
        first, known = right.setdefault(name.rpartition(", ")[2], (name, curve))
        if any(not abs(a - b) <= CURVE_TOLERANCE * max(1.0, abs(b)) for a, b in zip(curve, known, strict=True)):
            raise Missing(f"{name} goes down other losses than {first}: {curve}, not {known}")


def verdicts(size: int, timings: dict[str, Timing]) -> list[dict[str, Any]]:
    """Return the fraction of the matrix rate that each step reaches.

    The rate is measured by the best plain product at its precision.
    """
    found = []
    for name, timing in timings.items():
        who, _, precision = name.rpartition(", ")
        rivals = [t for n, t in timings.items() if n.startswith(PLAIN) and n.endswith(f", {precision}")]
        if name.startswith(PLAIN) or not rivals:
            continue
        best = min(rivals, key=lambda t: t.median)
        middle, low, high = common.ratio(best, timing)
        share = operations(size) / (2.0 * size**3)
        judged = precision in JUDGED and who == "agrad.jit, cupy"
        found.append(
            {"width": size, "who": who, "precision": precision, "share": middle * share}
            | {"quartiles": [low * share, high * share], "rate": 2.0 * size**3 / best.median}
            | ({"goal": GOAL, "met": middle * share >= GOAL} if judged else {})
        )
    return found


def run(options: Options) -> Report:
    """Check that backends agree, and time steps and products."""
    about = common.machine()
    texts, found, left_out, reports = [], [], {}, {}
    seconds: dict[str, dict[str, list[float]]] = {}
    for size in options.sizes:
        # one precision after the other, because all of them together would not fit into GPU memory
        for precision in options.only or PRECISIONS:
            print(f"wide: {size}, {precision} ...", file=sys.stderr, flush=True)
            with contextlib.ExitStack() as stack:
                chosen = [c for c in candidates(options) if c.name.endswith(f", {precision}")]
                started = {c.name: Remote(c) for c in chosen}
                for runner in started.values():
                    stack.callback(runner.close)
                if not started:
                    continue
                runners, missing, described = common.build(started, size)
                left_out |= missing
                reports |= described
                check(runners)
                timings = common.alternate(runners, repeat=options.repeat, sample_seconds=options.sample)
            seconds[f"{size}, {precision}"] = {name: timing.samples for name, timing in timings.items()}
            judged = verdicts(size, timings)
            found += judged
            rows = [[n, common.microseconds(t.median), common.spread(t)] for n, t in timings.items()]
            texts.append(common.table([f"{size} wide, {precision}", "us", "quartiles"], rows))
            rows = [
                [v["who"], f"{v['share']:.1%}", f"{v['rate'] / 1e12:.1f}", _goal(v)]
                for v in judged
                if v["width"] == size
            ]
            texts.append(common.table(["step", "of the matrix rate", "TFLOP/s of that", "goal"], rows))
    about["load average after"] = common.load_average()
    text = (
        f"# A training step of {LAYERS} layers as wide as the batch is large\n\n"
        f"Parameters of float32, SGD with momentum. Medians of {options.repeat} rounds in which all alternated. The "
        "fraction is the time of the step's products at the rate of the best plain product of that precision, divided "
        "by the step's time, round by round.\n\n"
        + "\n\n".join(texts)
        + "\n\n"
        + common.environment_text(about, reports, left_out)
    )
    record = {
        "suite": "wide",
        "machine": about,
        "limits": {v["precision"]: {"flops": v["rate"]} for v in found},
        "computed_with": reports,
        "left_out": left_out,
        "seconds": seconds,
        "goals": found,
    }
    return Report(text, record)


def _goal(verdict: dict[str, Any]) -> str:
    if "goal" not in verdict:
        return ""
    return f"at least {verdict['goal']:.0%}: {'met' if verdict['met'] else 'NOT met'}"


SUITE = Suite(
    about="a training step of a wide MLP in TF32, bfloat16 and float16",
    run=run,
    repeat=8,
    backends=BACKENDS,
    default_backends=BACKENDS[:2],
    peers=("torch",),
    sizes=SIZES,
    quick_sizes=QUICK_SIZES,
    devices=True,
    only=PRECISIONS,
)
