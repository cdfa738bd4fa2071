"""One training step of an MLP 784-256-128-10 in float32, by several libraries.

SGD with momentum 0.9, rate 0.1, cross entropy.

    python -m bench mlp --json bench/results/mlp.json
    python -m bench mlp --backends numpy,cupy,torch,jax --device cuda --json bench/results/mlp_gpu.json

Every candidate has a separate process. They alternate. Before the timing, all must have the same
loss curve.
"""

import contextlib
import itertools
import os
import sys
from collections.abc import Iterator
from typing import Any

from bench import common, limits
from bench.common import Candidate, Job, Missing, Remote, Timing, load
from bench.mlp_peers import candidates as fast_torch
from bench.suites import Options, Report, Suite

SIZES = (784, 256, 128, 10)
BATCHES = (1, 32, 128, 512, 2048)
RATE, MOMENTUM = 0.1, 0.9
BACKENDS = ("numpy", "cupy", "torch", "jax")
PEERS = ("torch", "jax", "autograd")
GOAL_HAND, GOAL_PRODUCTS, GOAL_FROM = 1.15, 1.25, 32
CURVE_STEPS, CURVE_TOLERANCE = 10, 1e-4

PLAIN, KEPT, PRODUCTS = "NumPy by hand, plain", "NumPy by hand, kept buffers", "matrix products alone"
NAMES = {"torch": "PyTorch eager", "jax": "JAX, jit", "autograd": "autograd"}


# ------------------------------------------------------------------ what all candidates start from


def initial() -> list[tuple[Any, Any]]:
    """Return weights (inputs, outputs) and biases, float32."""
    np = load("numpy")
    rng = np.random.default_rng(0)
    return [
        (
            (rng.standard_normal((m, n)) * (2 / m) ** 0.5).astype(np.float32),
            (rng.standard_normal(n) * 0.01).astype(np.float32),
        )
        for m, n in itertools.pairwise(SIZES)
    ]


def batches(size: int) -> list[tuple[Any, Any]]:
    """Return four batches: inputs (size, 784) of float32 and labels (size,) of int64."""
    np = load("numpy")
    rng = np.random.default_rng(1)
    return [
        ((rng.standard_normal((size, SIZES[0])) * 0.1).astype(np.float32), rng.integers(0, SIZES[-1], size))
        for _ in range(4)
    ]


def _endless(items: list[Any]) -> Iterator[Any]:
    return itertools.cycle(items)


# ------------------------------------------------------------------ by hand


def plain(size: int) -> Job:
    """Return the step in its simplest form: every operation creates a new array."""
    np = load("numpy")
    rate, momentum = np.float32(RATE), np.float32(MOMENTUM)
    weights = [list(pair) for pair in initial()]
    speeds = [[np.zeros_like(p) for p in pair] for pair in weights]
    source, rows, last = _endless(batches(size)), np.arange(size), len(weights) - 1

    def step() -> Any:
        x, labels = next(source)
        inputs, h = [], x
        for i, (w, b) in enumerate(weights):
            inputs.append(h)
            h = h @ w + b
            if i < last:
                h = np.maximum(h, 0)
        z = h - h.max(axis=1, keepdims=True)
        e = np.exp(z)
        total = e.sum(axis=1, keepdims=True)
        loss = np.mean(np.log(total[:, 0]) - z[rows, labels])
        g = e / total
        g[rows, labels] -= 1
        g /= size
        for i in range(last, -1, -1):
            h = inputs[i]
            gradients = h.T @ g, g.sum(axis=0)
            if i:
                g = (g @ weights[i][0].T) * (h > 0)
            for k, gradient in enumerate(gradients):
                speeds[i][k] = momentum * speeds[i][k] + gradient
                weights[i][k] = weights[i][k] - rate * speeds[i][k]
        return loss

    return Job(step)


def kept(size: int) -> Job:
    """Return the step with every array created once, and overwritten."""
    np = load("numpy")
    rate, momentum = np.float32(RATE), np.float32(MOMENTUM)
    weights = [list(pair) for pair in initial()]
    speeds, gradients, scratch = ([[np.zeros_like(p) for p in pair] for pair in weights] for _ in range(3))
    values, cotangents = ([np.empty((size, n), np.float32) for n in SIZES[1:]] for _ in range(2))
    masks = [np.empty((size, n), np.bool_) for n in SIZES[1:-1]]
    top, total = (np.empty((size, 1), np.float32) for _ in range(2))
    source, rows, last = _endless(batches(size)), np.arange(size), len(weights) - 1

    def step() -> Any:
        x, labels = next(source)
        h = x
        for i, (w, b) in enumerate(weights):
            h = np.matmul(h, w, out=values[i])
            np.add(h, b, out=h)
            if i < last:
                np.maximum(h, 0, out=h)
        np.max(h, axis=1, keepdims=True, out=top)
        np.subtract(h, top, out=h)
        g = np.exp(h, out=cotangents[last])
        np.sum(g, axis=1, keepdims=True, out=total)
        loss = np.mean(np.log(total[:, 0]) - h[rows, labels])
        np.divide(g, total, out=g)
        g[rows, labels] -= 1
        np.divide(g, size, out=g)
        for i in range(last, -1, -1):
            h = values[i - 1] if i else x
            of_weight, of_bias = gradients[i]
            np.matmul(h.T, g, out=of_weight)
            np.sum(g, axis=0, out=of_bias)
            if i:
                g = np.matmul(g, weights[i][0].T, out=cotangents[i - 1])
                np.multiply(g, np.greater(h, 0, out=masks[i - 1]), out=g)
            for parameter, speed, gradient, spare in zip(weights[i], speeds[i], gradients[i], scratch[i], strict=True):
                np.multiply(speed, momentum, out=speed)
                np.add(speed, gradient, out=speed)
                np.subtract(parameter, np.multiply(speed, rate, out=spare), out=parameter)
        return loss

    return Job(step)


def products(size: int, library: str) -> Job:
    """Return only the matrix products of the step, into existing arrays.

    No implementation of the step can be faster.
    """
    xp = load(library)
    weights = [xp.asarray(w) for w, _ in initial()]
    x = xp.asarray(batches(size)[0][0])
    values = [x, *(xp.ones((size, n), xp.float32) for n in SIZES[1:])]
    cotangents = [xp.ones_like(value) for value in values]
    gradients = [xp.empty_like(w) for w in weights]

    def step() -> Any:
        for i, w in enumerate(weights):
            xp.matmul(values[i], w, out=values[i + 1])
        for i in range(len(weights) - 1, -1, -1):
            xp.matmul(values[i].T, cotangents[i + 1], out=gradients[i])
            if i:
                xp.matmul(cotangents[i + 1], weights[i].T, out=cotangents[i])

    if library == "numpy":
        return Job(step)
    return Job(step, wait=xp.cuda.get_current_stream().synchronize, device="cuda")


# ------------------------------------------------------------------ agrad


def agrad(size: int, backend: str, device: str | None, jitted: bool = False) -> Job:
    """Return the step as a user writes it, with ``jitted`` through ``agrad.jit``."""
    agrad = load("agrad")
    nn, optim, backends = load("agrad.nn"), load("agrad.optim"), load("agrad.backends")
    if backend == "jax":
        _exact_products(load("jax"))
    try:
        agrad.set_backend(backend, device)
    except (agrad.errors.BackendUnavailableError, agrad.errors.DeviceUnavailableError) as reason:
        raise Missing(str(reason)) from None
    layers = []
    for m, n in itertools.pairwise(SIZES):
        layers += [nn.Linear(m, n, dtype=agrad.float32), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    model.load_state_dict(
        {
            f"{2 * i}.{name}": values
            for i, pair in enumerate(initial())
            for name, values in zip(("weight", "bias"), pair, strict=True)
        }
    )
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    source = _endless([(agrad.asarray(x).to(backend), agrad.asarray(t).to(backend)) for x, t in batches(size)])
    if device is not None:
        source = _endless([(x.to(device), t.to(device)) for x, t in itertools.islice(source, 4)])

    def train(x: Any, labels: Any) -> Any:
        loss = criterion(model(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    run = load("agrad").jit(train) if jitted else train

    def step() -> Any:
        return run(*next(source))

    parameter = next(iter(model.parameters()))
    if parameter.backend != backend or parameter.dtype != agrad.float32:
        raise TypeError(f"meant float32 on {backend}, got {parameter.dtype} on {parameter.backend}")

    def wait() -> None:
        record = backends.load(backend)
        record.synchronize()
        if backend == "jax":
            parameter.data.block_until_ready()

    return Job(step, read=lambda loss: loss.item(), wait=wait, device=str(parameter.device))


# ------------------------------------------------------------------ peers


def torch(size: int, device: str | None) -> Job:
    torch = load("torch")
    where = torch.device(device or "cpu")
    if where.type == "cuda" and not torch.cuda.is_available():
        raise Missing("this PyTorch sees no CUDA GPU")
    layers: list[Any] = []
    for w, b in initial():
        layer = torch.nn.Linear(*w.shape)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(w.T.copy()))
            layer.bias.copy_(torch.from_numpy(b))
        layers += [layer, torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1]).to(where)
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    source = _endless([(torch.from_numpy(x).to(where), torch.from_numpy(t).to(where)) for x, t in batches(size)])

    def step() -> Any:
        x, labels = next(source)
        optimizer.zero_grad()
        loss = criterion(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    wait = torch.cuda.synchronize if where.type == "cuda" else (lambda: None)
    return Job(step, read=lambda loss: loss.item(), wait=wait, device=str(where))


def _exact_products(jax: Any) -> None:
    # a GPU's default rounds the factors of a product to ten bits; the others compute in float32
    jax.config.update("jax_default_matmul_precision", "highest")


def jax(size: int, device: str | None) -> Job:
    jax = load("jax")
    jnp = load("jax.numpy")
    _exact_products(jax)
    if device == "cuda" and jax.default_backend() != "gpu":
        raise Missing("this JAX sees no CUDA GPU")

    def loss_of(weights: Any, x: Any, labels: Any) -> Any:
        h = x
        for i, (w, b) in enumerate(weights):
            h = h @ w + b
            if i < len(weights) - 1:
                h = jax.nn.relu(h)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(h), labels[:, None], axis=1))

    def update(state: Any, x: Any, labels: Any) -> Any:
        weights, speeds = state
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, labels)
        speeds = jax.tree.map(lambda v, g: MOMENTUM * v + g, speeds, gradients)
        return (jax.tree.map(lambda p, v: p - RATE * v, weights, speeds), speeds), loss

    update = jax.jit(update, donate_argnums=0)
    weights = [(jnp.asarray(w), jnp.asarray(b)) for w, b in initial()]
    state = [(weights, jax.tree.map(jnp.zeros_like, weights))]
    source = _endless([(jnp.asarray(x), jnp.asarray(t.astype("int32"))) for x, t in batches(size)])

    def step() -> Any:
        state[0], loss = update(state[0], *next(source))
        return loss

    return Job(
        step,
        wait=lambda: jax.block_until_ready(state[0]) and None,
        device=", ".join(map(str, weights[0][0].devices())),
    )


def autograd(size: int) -> Job:
    value_and_grad = load("autograd").value_and_grad
    np = load("autograd.numpy")
    weights = [list(pair) for pair in initial()]
    speeds = [[0.0 * p for p in pair] for pair in weights]
    source, rows = _endless(batches(size)), load("numpy").arange(size)
    rate, momentum = (load("numpy").float32(value) for value in (RATE, MOMENTUM))

    def loss_of(weights: Any, x: Any, labels: Any) -> Any:
        h = x
        for i, (w, b) in enumerate(weights):
            h = np.dot(h, w) + b
            if i < len(weights) - 1:
                h = np.maximum(h, 0)
        z = h - np.max(h, axis=1, keepdims=True)
        return np.mean(np.log(np.sum(np.exp(z), axis=1)) - z[rows, labels])

    of = value_and_grad(loss_of)

    def step() -> Any:
        loss, gradients = of(weights, *next(source))
        for pair, speed, gradient in zip(weights, speeds, gradients, strict=True):
            for k in range(2):
                speed[k] = momentum * speed[k] + gradient[k]
                pair[k] = pair[k] - rate * speed[k]
        return loss

    return Job(step)


# ------------------------------------------------------------------ the run


def candidates(options: Options) -> list[Candidate]:
    device = options.device
    found = [
        Candidate(PLAIN, plain, required=True),
        Candidate(KEPT, kept, required=True),
        Candidate(f"{PRODUCTS}, NumPy", products, ("numpy",), required=True),
    ]
    for backend in options.backends:
        on = device if backend in ("cupy", "torch", "jax") else None
        found.append(Candidate(f"agrad, {backend}", agrad, (backend, on), ("agrad", backend)))
        found.append(Candidate(f"agrad.jit, {backend}", agrad, (backend, on, True), ("agrad", backend)))
    if "cupy" in options.backends and device is not None:
        found.append(Candidate(f"{PRODUCTS}, CuPy", products, ("cupy",), ("cupy",)))
    if "torch" in options.peers:
        found.append(Candidate(NAMES["torch"], torch, (None,), ("torch",)))
        if device is not None:
            found += [Candidate(f"{NAMES['torch']}, {device}", torch, (device,), ("torch",)), *fast_torch(device)]
    if "jax" in options.peers:
        found.append(Candidate(NAMES["jax"], jax, (device,), ("jax",)))
    if "autograd" in options.peers:
        found.append(Candidate(NAMES["autograd"], autograd, (), ("autograd", "numpy")))
    return found


def check_curves(runners: dict[str, Any]) -> list[float]:
    """Return the losses of the first steps, the same for all, or raise ``Missing``."""
    curves = {name: runner.results(CURVE_STEPS) for name, runner in runners.items() if not name.startswith(PRODUCTS)}
    right = curves[PLAIN]
    for name, curve in curves.items():
        wrong = [
            f"step {i}: {a!r}, not {b!r}"
            for i, (a, b) in enumerate(zip(curve, right, strict=True), 1)
            if not abs(a - b) <= CURVE_TOLERANCE * max(1.0, abs(b))
        ]
        if wrong:
            raise Missing(f"{name} goes down another loss curve than {PLAIN}: {wrong[0]}")
    return right


def verdicts(size: int, timings: dict[str, Timing]) -> list[dict[str, Any]]:
    """Return the goals for agrad on NumPy at this batch, and the results."""
    eager, jitted, torch = "agrad, numpy", "agrad.jit, numpy", NAMES["torch"]
    if size < GOAL_FROM:
        asked = [(jitted, torch, 1.0)]
    else:
        asked = [(eager, PLAIN, GOAL_HAND), (eager, KEPT, GOAL_HAND), (eager, torch, 1.0)]
        asked += [(jitted, NAMES["jax"], 1.0), (jitted, f"{PRODUCTS}, NumPy", GOAL_PRODUCTS)]
    found = []
    for ours, name, goal in asked:
        if ours in timings and name in timings:
            middle, low, high = common.ratio(timings[ours], timings[name])
            found.append(
                {"batch": size, "who": ours, "beside": name, "ratio": middle, "quartiles": [low, high], "goal": goal}
                | {"met": middle <= goal if goal != 1.0 else middle < 1.0}
            )
    return found


def needed(size: int) -> float:
    """Return the floating-point operations of the step's products.

    There are three products for each layer, except two for the first one.
    """
    parts = [2.0 * size * m * n for m, n in itertools.pairwise(SIZES)]
    return 3 * sum(parts) - parts[0]


def batch_text(size: int, timings: dict[str, Timing], devices: dict[str, str], best: dict[str, limits.Limits]) -> str:
    beside = [name for name in (PLAIN, KEPT, NAMES["torch"]) if name in timings]
    short = {PLAIN: "x plain", KEPT: "x kept", NAMES["torch"]: "x PyTorch"}

    def reached(timing: Timing, device: str) -> str:
        found = best.get("cpu" if device.startswith(("cpu", "TFRT")) else "cuda")
        return "" if found is None else f"{needed(size) / found.flops / timing.median:.0%}"

    rows = [
        [
            name,
            devices[name],
            common.microseconds(timing.median),
            common.spread(timing),
            *(f"{common.ratio(timing, timings[other])[0]:.2f}" for other in beside),
            reached(timing, devices[name]),
        ]
        for name, timing in timings.items()
    ]
    ratios = [short[name] for name in beside]
    return common.table([f"batch {size}", "device", "us a step", "quartiles", *ratios, "of the matrix rate"], rows)


def goals_text(found: list[dict[str, Any]]) -> str:
    if not found:
        return "Goals: not judged, as none of the pairs they speak of ran."
    rows = [
        [
            str(v["batch"]),
            v["who"],
            v["beside"],
            f"{v['ratio']:.2f} ({v['quartiles'][0]:.2f} to {v['quartiles'][1]:.2f})",
            f"at most {v['goal']}" if v["goal"] != 1.0 else "below 1",
            "met" if v["met"] else "NOT met",
        ]
        for v in found
    ]
    return common.table(["batch", "who", "beside", "ratio (quartiles)", "goal", ""], rows)


def measured_limits(options: Options) -> dict[str, limits.Limits]:
    """Return the matrix rate of the processor, and of the GPU if CuPy measures it."""
    found = {"cpu": limits.measure("float32", quick=options.quick)}
    if options.device is not None:
        with contextlib.suppress(Missing, ImportError, RuntimeError):
            found["cuda"] = limits.measure("float32", library="cupy", quick=options.quick)
    return found


def run(options: Options) -> Report:
    """Check that all have the same loss curve, and time their steps."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave room for the others on the GPU
    about = common.machine()
    best = measured_limits(options)
    texts, found, left_out, reports = [], [], {}, {}
    seconds: dict[str, dict[str, list[float]]] = {}
    with contextlib.ExitStack() as stack:
        started = {c.name: Remote(c) for c in candidates(options)}
        for runner in started.values():
            stack.callback(runner.close)
        for size in options.sizes:
            print(f"mlp: batch {size} ...", file=sys.stderr, flush=True)
            runners, left_out, reports = common.build(started, size)
            check_curves(runners)
            timings = common.alternate(runners, repeat=options.repeat, sample_seconds=options.sample)
            texts.append(batch_text(size, timings, {name: r.device() for name, r in runners.items()}, best))
            found += verdicts(size, timings)
            seconds[str(size)] = {name: timing.samples for name, timing in timings.items()}
    about["load average after"] = common.load_average()
    text = (
        "# A training step\n\n"
        f"MLP {'-'.join(map(str, SIZES))}, float32, SGD with momentum {MOMENTUM}, rate {RATE}, "
        "cross entropy. "
        f"Medians of {options.repeat} rounds in which all candidates alternated, each in a separate process; "
        "ratios round by round. All had the same loss curve "
        f"({CURVE_STEPS} steps, to {CURVE_TOLERANCE:g}) before they were timed. The physical limit is the matrix rate "
        "of the device: the last column is the time of the step's products at that rate, divided by the step's time."
        "\n\n"
        + "\n\n".join(texts)
        + f"\n\n## Goals\n\n{goals_text(found)}\n\n## Machine\n\n"
        + "".join(f"- {each.text()}\n" for each in best.values())
        + common.environment_text(about, reports, left_out)
    )
    record = {
        "suite": "mlp",
        "machine": about,
        "limits": {name: each.record() for name, each in best.items()},
        "computed_with": reports,
        "left_out": left_out,
        "seconds": seconds,
        "goals": found,
    }
    return Report(text, record)


SUITE = Suite(
    about="a training step of an MLP",
    run=run,
    repeat=20,
    backends=BACKENDS,
    peers=PEERS,
    sizes=BATCHES,
    quick_sizes=(32,),
    devices=True,
)
