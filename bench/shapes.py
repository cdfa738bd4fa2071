"""Common forms of training steps, by agrad.jit on NumPy and by jax.jit.

    python -m bench shapes --json bench/results/shapes.json

The MLP 784-256-128-10 of ``bench mlp``, cross entropy, float32, by SGD with momentum and by Adam. The JAX steps are
functional, as JAX users write them, with the state donated. Each library has a separate process. They alternate. Before
the timing, both must compute the same losses.
"""

import contextlib
import itertools
import math
import sys
from collections.abc import Callable
from typing import Any

from bench import common, limits
from bench.common import Candidate, Job, Missing, Remote, Timing, load
from bench.mlp import MOMENTUM, SIZES, batches, initial
from bench.suites import Options, Report, Suite

BATCHES = (1, 32, 128, 512, 2048)
RATES = {"SGD": 0.1, "Adam": 1e-3}
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
LARGEST_NORM, PARTS, TOTAL = 1.0, 4, 10_000
NOISE, SLOWER = 16, 1e-2
"""The size of the generator's input, and the factor of the rate of two networks, which diverge with the others'
rate."""
CURVE_STEPS, CURVE_TOLERANCE = 6, 1e-3
OURS, JAX = "agrad.jit, numpy", "JAX, jit"

SHAPES = {
    "zero last": "forward, backward, step, zero_grad",
    "zero first": "zero_grad, forward, backward, step: gradients outlive the call",
    "zeros": "as zero first, with gradients set to zeros",
    "functional": "parameters and state in, new ones out, donated",
    "functional, kept": "the same without donation",
    "loss read": "zero last, and float(loss) at each step",
    "raw arrays": "zero last, with batches of NumPy arrays",
    "schedule": "zero last, with a cosine as learning rate",
    "clipping": "zero last, with gradients clipped by their global norm",
    "micro-batches": f"one function that adds up the gradients of {PARTS} batches",
    "accumulation": f"a function that adds a gradient, called {PARTS} times, and one that steps",
    "evaluation": "zero last, and a function that evaluates the same model",
    "two networks": "a step of a discriminator and a step of a generator, functions that share both",
}


def goal(size: int) -> float:
    """Return the maximum ratio of the agrad time to the JAX time."""
    return {1: 1.2, 2048: 1.1}.get(size, 1.0)


def mirrored() -> list[tuple[Any, Any]]:
    """Return the generator's weights and biases, from noise to images."""
    np = load("numpy")
    rng = np.random.default_rng(2)
    return [
        ((rng.standard_normal((m, n)) * (2 / m) ** 0.5).astype(np.float32), np.zeros(n, np.float32))
        for m, n in itertools.pairwise((NOISE, *SIZES[-2:0:-1], SIZES[0]))
    ]


def noise(size: int) -> Any:
    np = load("numpy")
    return np.random.default_rng(3).standard_normal((size, NOISE)).astype(np.float32)


def cosine(step: Any, cos: Callable[[Any], Any]) -> Any:
    """Return the fraction of the rate at a step."""
    return 0.5 * (1 + cos(math.pi * step / TOTAL))


# ------------------------------------------------------------------ agrad


def _network(weights: list[tuple[Any, Any]]) -> Any:
    agrad, nn = load("agrad"), load("agrad.nn")
    layers = []
    for w, _ in weights:
        layers += [nn.Linear(*w.shape, dtype=agrad.float32), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    model.load_state_dict(
        {
            f"{2 * i}.{name}": values
            for i, pair in enumerate(weights)
            for name, values in zip(("weight", "bias"), pair, strict=True)
        }
    )
    return model


def _optimizer(kind: str, model: Any, lr: Any = None) -> Any:
    optim = load("agrad.optim")
    lr = RATES[kind] if lr is None else lr
    if kind == "SGD":
        return optim.SGD(model.parameters(), lr=lr, momentum=MOMENTUM)
    return optim.Adam(model.parameters(), lr=lr, betas=(BETA1, BETA2), eps=EPS)


def agrad(size: int, shape: str, kind: str) -> Job:
    """Return a step of a form as agrad users write it."""
    agrad, nn, optim = load("agrad"), load("agrad.nn"), load("agrad.optim")
    if shape.startswith("functional"):
        return _functional(size, kind, donates=shape == "functional")
    if shape == "two networks":
        return _two_networks(size, kind)
    model, criterion = _network(initial()), nn.CrossEntropyLoss()
    rate = RATES[kind]
    optimizer = _optimizer(kind, model, (lambda n: rate * cosine(n, math.cos)) if shape == "schedule" else None)
    parameters = list(model.parameters())
    wrap = (lambda array: array) if shape == "raw arrays" else agrad.asarray
    source = itertools.cycle([(wrap(x), wrap(t)) for x, t in batches(size)])

    def train(x: Any, labels: Any) -> Any:
        if shape == "zero first":
            optimizer.zero_grad()
        elif shape == "zeros":
            for p in parameters:
                p.grad = agrad.zeros_like(p.detach())
        loss = criterion(model(x), labels)
        loss.backward()
        if shape == "clipping":
            optim.clip_grad_norm(parameters, LARGEST_NORM)
        optimizer.step()
        if shape not in ("zero first", "zeros"):
            optimizer.zero_grad()
        return loss

    def accumulate(x: Any, labels: Any) -> Any:
        loss = criterion(model(x), labels) / PARTS
        loss.backward()
        return loss

    def update() -> None:
        optimizer.step()
        optimizer.zero_grad()

    def together(parts: Any) -> Any:
        total = sum(accumulate(x, labels) for x, labels in parts)
        update()
        return total

    def evaluate(x: Any, labels: Any) -> Any:
        with agrad.no_grad():
            scores = model(x)
            return criterion(scores, labels), agrad.mean(
                agrad.astype(agrad.argmax(scores, axis=1) == labels, agrad.float32)
            )

    run = agrad.jit(train)
    if shape == "loss read":
        return Job(lambda: float(run(*next(source)).item()))
    if shape == "micro-batches":
        run = agrad.jit(together)
        return Job(lambda: run([next(source) for _ in range(PARTS)]), read=_item)
    if shape == "accumulation":
        add, apply = agrad.jit(accumulate), agrad.jit(update)

        def step() -> Any:
            losses = [add(*next(source)) for _ in range(PARTS)]
            apply()
            return losses[-1]

        return Job(step, read=_item)
    if shape == "evaluation":
        look = agrad.jit(evaluate)

        def both() -> Any:
            x, labels = next(source)
            run(x, labels)
            return look(x, labels)[0]

        return Job(both, read=_item)
    return Job(lambda: run(*next(source)), read=_item)


def _item(loss: Any) -> float:
    return float(loss.item())


def _functional(size: int, kind: str, donates: bool) -> Job:
    agrad, criterion = load("agrad"), load("agrad.nn").CrossEntropyLoss()

    def loss_of(weights: Any, x: Any, labels: Any) -> Any:
        h = x
        for i, layer in enumerate(weights):
            h = h @ layer["w"] + layer["b"]
            if i < len(weights) - 1:
                h = agrad.relu(h)
        return criterion(h, labels)

    def step(weights: Any, state: Any, x: Any, labels: Any) -> Any:
        loss, gradients = agrad.value_and_grad(loss_of)(weights, x, labels)
        weights, state = stepped(kind, layer_map, agrad.sqrt, weights, gradients, state)
        return weights, state, loss

    run = agrad.jit(step, donate_argnums=(0, 1) if donates else ())
    weights = [{"w": w, "b": b} for w, b in initial()]
    kept = [weights, started(kind, layer_map, load("numpy"), weights)]
    source = itertools.cycle(batches(size))

    def call() -> Any:
        kept[0], kept[1], loss = run(*kept, *next(source))
        return loss

    return Job(call)


def _two_networks(size: int, kind: str) -> Job:
    agrad = load("agrad")
    judge, maker = _network([*initial()[:-1], _last()]), _network(mirrored())
    of_judge, of_maker = (_optimizer(kind, model, RATES[kind] * SLOWER) for model in (judge, maker))
    source = itertools.cycle([agrad.asarray(x) for x, _ in batches(size)])
    z = agrad.asarray(noise(size))

    def judged(real: Any, z: Any) -> Any:
        with agrad.no_grad():
            made = maker(z)
        loss = agrad.mean(agrad.logaddexp(-judge(real), 0.0)) + agrad.mean(agrad.logaddexp(judge(made), 0.0))
        of_judge.zero_grad()
        loss.backward()
        of_judge.step()
        return loss

    def deceived(z: Any) -> Any:
        loss = agrad.mean(agrad.logaddexp(-judge(maker(z)), 0.0))
        of_maker.zero_grad()
        loss.backward()
        of_maker.step()
        return loss

    first, second = agrad.jit(judged), agrad.jit(deceived)

    def step() -> Any:
        first(next(source), z)
        return second(z)

    return Job(step, read=_item)


def _last() -> tuple[Any, Any]:
    w, b = initial()[-1]
    return w[:, :1], b[:1]


# ------------------------------------------------------------------ the formulas of functional steps


def layer_map(function: Callable[..., Any], *trees: Any) -> Any:
    """Return the results of a function of the arrays in lists of dictionaries."""
    return [
        {name: function(*[layer[name] for layer in layers]) for name in layers[0]}
        for layers in zip(*trees, strict=True)
    ]


def started(kind: str, tree_map: Any, xp: Any, weights: Any) -> Any:
    """Return the optimizer's state before the first step."""
    if kind == "SGD":
        return tree_map(xp.zeros_like, weights)
    return (tree_map(xp.zeros_like, weights), tree_map(xp.zeros_like, weights), xp.zeros((), xp.float32))


def stepped(kind: str, tree_map: Any, sqrt: Any, weights: Any, gradients: Any, state: Any, share: Any = 1.0) -> Any:
    """Return new weights and state; ``share`` is a factor of the rate."""
    rate = RATES[kind] * share
    if kind == "SGD":
        state = tree_map(lambda v, g: MOMENTUM * v + g, state, gradients)
        return tree_map(lambda p, v: p - rate * v, weights, state), state
    first, second, count = state
    count = count + 1
    first = tree_map(lambda m, g: BETA1 * m + (1 - BETA1) * g, first, gradients)
    second = tree_map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, second, gradients)
    of_first, of_second = 1 - BETA1**count, 1 - BETA2**count
    weights = tree_map(lambda p, m, v: p - rate * (m / of_first) / (sqrt(v / of_second) + EPS), weights, first, second)
    return weights, (first, second, count)


# ------------------------------------------------------------------ JAX


def jax(size: int, shape: str, kind: str) -> Job:
    """Return a step of a form as JAX users write it."""
    jax, jnp = load("jax"), load("jax.numpy")
    tree_map = jax.tree.map

    def forward(weights: Any, h: Any) -> Any:
        for i, (w, b) in enumerate(weights):
            h = h @ w + b
            if i < len(weights) - 1:
                h = jax.nn.relu(h)
        return h

    def loss_of(weights: Any, x: Any, labels: Any) -> Any:
        scores = jax.nn.log_softmax(forward(weights, x))
        return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], axis=1))

    def apply(held: Any, gradients: Any) -> Any:
        weights, state, count = held
        share = {"schedule": cosine(count, jnp.cos), "two networks": SLOWER}.get(shape, 1.0)
        if shape == "clipping":
            norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradients)))
            factor = jnp.minimum(1.0, LARGEST_NORM / (norm + 1e-6))
            gradients = tree_map(lambda g: g * factor, gradients)
        weights, state = stepped(kind, tree_map, jnp.sqrt, weights, gradients, state, share)
        return weights, state, count + 1

    def placed(pairs: Any) -> Any:
        weights = tree_map(jnp.asarray, pairs)
        return weights, started(kind, tree_map, jnp, weights), jnp.zeros((), jnp.int32)

    def train(held: Any, x: Any, labels: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(held[0], x, labels)
        return apply(held, gradients), loss

    def together(held: Any, parts: Any) -> Any:
        loss, gradients = jax.value_and_grad(lambda w: sum(loss_of(w, *part) for part in parts) / PARTS)(held[0])
        return apply(held, gradients), loss

    def accumulate(gradients: Any, weights: Any, x: Any, labels: Any) -> Any:
        loss, found = jax.value_and_grad(lambda w: loss_of(w, x, labels) / PARTS)(weights)
        return tree_map(jnp.add, gradients, found), loss

    def evaluate(weights: Any, x: Any, labels: Any) -> Any:
        scores = forward(weights, x)
        return loss_of(weights, x, labels), jnp.mean((jnp.argmax(scores, axis=1) == labels).astype(jnp.float32))

    held = [placed(initial())]
    wrap = (lambda array: array) if shape in ("raw arrays", "functional", "functional, kept") else jnp.asarray
    source = itertools.cycle([(wrap(x), wrap(t.astype("int32"))) for x, t in batches(size)])
    run = jax.jit(train, donate_argnums=() if shape == "functional, kept" else 0)

    def step() -> Any:
        held[0], loss = run(held[0], *next(source))
        return loss

    def read() -> float:
        return float(step())

    if shape == "micro-batches":
        at_once = jax.jit(together, donate_argnums=0)

        def step() -> Any:
            held[0], loss = at_once(held[0], [next(source) for _ in range(PARTS)])
            return loss

    elif shape == "accumulation":
        add, update = jax.jit(accumulate, donate_argnums=0), jax.jit(apply, donate_argnums=0)
        zeros = jax.jit(lambda weights: tree_map(jnp.zeros_like, weights))

        def step() -> Any:
            gradients = zeros(held[0][0])
            for _ in range(PARTS):
                gradients, loss = add(gradients, held[0][0], *next(source))
            held[0] = update(held[0], gradients)
            return loss

    elif shape == "evaluation":
        look = jax.jit(evaluate)

        def step() -> Any:
            x, labels = next(source)
            held[0], _ = run(held[0], x, labels)
            return look(held[0][0], x, labels)[0]

    elif shape == "two networks":
        step = _jax_networks(held, forward, apply, placed, source, jnp.asarray(noise(size)))
    return Job(
        read if shape == "loss read" else step,
        wait=lambda: jax.block_until_ready(held) and None,
        device=", ".join(map(str, jax.devices())),
    )


def _jax_networks(held: list[Any], forward: Any, apply: Any, placed: Any, source: Any, z: Any) -> Callable[[], Any]:
    jax, jnp = load("jax"), load("jax.numpy")
    softplus = jax.nn.softplus

    def judging(judge: Any, maker: Any, real: Any, z: Any) -> Any:
        made = forward(maker, z)
        return jnp.mean(softplus(-forward(judge, real))) + jnp.mean(softplus(forward(judge, made)))

    def deceiving(maker: Any, judge: Any, z: Any) -> Any:
        return jnp.mean(softplus(-forward(judge, forward(maker, z))))

    def judged(judge: Any, maker: Any, real: Any, z: Any) -> Any:
        loss, gradients = jax.value_and_grad(judging)(judge[0], maker, real, z)
        return apply(judge, gradients), loss

    def deceived(maker: Any, judge: Any, z: Any) -> Any:
        loss, gradients = jax.value_and_grad(deceiving)(maker[0], judge, z)
        return apply(maker, gradients), loss

    first, second = jax.jit(judged, donate_argnums=0), jax.jit(deceived, donate_argnums=0)
    held[:] = [placed([*initial()[:-1], _last()]), placed(mirrored())]

    def step() -> Any:
        held[0], _ = first(held[0], held[1][0], next(source)[0], z)
        held[1], loss = second(held[1], held[0][0], z)
        return loss

    return step


# ------------------------------------------------------------------ the run


def check(runners: dict[str, Any]) -> None:
    """Raise ``Missing`` if the two compute different losses."""
    if len(runners) < 2:
        return
    ours, theirs = (runners[name].results(CURVE_STEPS) for name in (OURS, JAX))
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True), 1):
        if not abs(a - b) <= CURVE_TOLERANCE * max(1.0, abs(b)):
            raise Missing(f"the losses differ at step {i}: {OURS} {a!r}, {JAX} {b!r}")


def row(shape: str, kind: str, size: int, timings: dict[str, Timing]) -> list[str]:
    """Return a row of the table of a batch size."""
    ours, theirs = timings[OURS], timings.get(JAX)
    cells = [shape, kind, common.microseconds(ours.median), common.spread(ours)]
    if theirs is None:
        return [*cells, "", "", ""]
    middle, low, high = common.ratio(ours, theirs)
    met = "met" if middle <= goal(size) else "NOT met"
    return [*cells, common.microseconds(theirs.median), f"{middle:.2f} ({low:.2f} to {high:.2f})", met]


def run(options: Options) -> Report:
    """Check that both compute the same losses in every form, and time their steps."""
    about = common.machine()
    texts: list[str] = []
    seconds: dict[str, dict[str, dict[str, list[float]]]] = {}
    left_out: dict[str, str] = {}
    reports: dict[str, dict[str, Any]] = {}
    offered = [Candidate(OURS, agrad, (), ("agrad", "numpy"), required=True)]
    if "jax" in options.peers:
        offered.append(Candidate(JAX, jax, (), ("jax",)))
    with contextlib.ExitStack() as stack:
        started_ = {c.name: Remote(c) for c in offered}
        for runner in started_.values():
            stack.callback(runner.close)
        for size in options.sizes:
            rows = []
            for shape, kind in itertools.product(options.only or SHAPES, RATES):
                print(f"shapes: batch {size}, {shape}, {kind} ...", file=sys.stderr, flush=True)
                runners, left_out, reports = common.build(started_, size, shape, kind)
                check(runners)
                timings = common.alternate(runners, repeat=options.repeat, sample_seconds=options.sample)
                rows.append(row(shape, kind, size, timings))
                found = seconds.setdefault(str(size), {})
                found[f"{shape}, {kind}"] = {name: timing.samples for name, timing in timings.items()}
            head = [f"batch {size}", "optimizer", "agrad us", "quartiles", "JAX us", "ratio (quartiles)"]
            texts.append(common.table([*head, f"at most {goal(size)}"], rows))
    about["load average after"] = common.load_average()
    text = (
        "# The shapes of training steps\n\n"
        f"MLP {'-'.join(map(str, SIZES))}, float32, cross entropy; SGD with momentum {MOMENTUM}, and Adam. agrad.jit "
        f"on NumPy compared with jax.jit, microseconds per step. Medians of {options.repeat} rounds in which both "
        f"alternated, each in a separate process; ratios round by round. Both computed the same losses ({CURVE_STEPS} "
        f"steps, to {CURVE_TOLERANCE:g}) before they were timed.\n\n"
        + "".join(f"- {name}: {what}\n" for name, what in SHAPES.items())
        + "\n"
        + "\n\n".join(texts)
        + "\n\n## Machine\n\n"
        + common.environment_text(about, reports, left_out)
    )
    record = {
        "suite": "shapes",
        "machine": about,
        "computed_with": reports,
        "left_out": left_out,
        "limits": limits.measure("float32", quick=options.quick).record(),
        "seconds": seconds,
    }
    return Report(text, record)


SUITE = Suite(
    about="common forms of training steps, compared with jax.jit",
    run=run,
    repeat=10,
    peers=("jax",),
    sizes=BATCHES,
    quick_sizes=(1,),
    only=tuple(SHAPES),
)
