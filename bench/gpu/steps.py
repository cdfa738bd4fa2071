"""Check jitted training steps of the MLP against eager ones, by optimizer and precision.

A step must be one graph, and the losses must be equal.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.gpu.goals import OPTIMIZERS, PRECISIONS
from bench.gpu.parts import Work
from bench.gpu.probe import answering, cublaslt

SIZES = (784, 256, 128, 10)
ROWS, SMALL_ROWS = 128, 16
STEPS, SCALED_STEPS = 12, 64
SCALE = 2.0**40
"""Initial scale that overflows float16."""


def build(optimizer: str, scale: float | None = None) -> Callable[..., Any]:
    """Return a training step of the MLP, from the same weights each time.

    ``scale`` is the first scale of the loss.
    """
    from agrad import nn, optim

    layers: list[Any] = []
    for m, n in itertools.pairwise(SIZES):
        layers += [nn.Linear(m, n), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    rng = np.random.default_rng(0)
    state = {k: v.shape for k, v in model.state_dict().items()}
    model.load_state_dict({k: (rng.normal(size=s) * (2 / s[0]) ** 0.5).astype(np.float32) for k, s in state.items()})
    parameters = model.parameters()
    made = optim.Adam(parameters, lr=1e-3) if optimizer == "Adam" else optim.SGD(parameters, lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    scaler = None if scale is None else optim.LossScale(made, init_scale=scale)

    def step(x: Any, labels: Any) -> Any:
        loss = criterion(model(x), labels)
        (loss if scaler is None else scaler(loss)).backward()
        (made if scaler is None else scaler).step()
        made.zero_grad()
        return loss

    return step


def batches(rows: int) -> list[tuple[Any, Any]]:
    """Return four batches on the GPU.

    One has rows of zeros, whose pre-activations are the biases.
    """
    import agrad

    rng = np.random.default_rng(1)
    given = [(rng.normal(size=(rows, SIZES[0])).astype(np.float32) / 4, rng.integers(0, 10, rows)) for _ in range(4)]
    given[3][0][:4] = 0
    return [(agrad.asarray(x, backend="cupy"), agrad.asarray(t, backend="cupy")) for x, t in given]


def losses(step: Callable[..., Any], data: list[tuple[Any, Any]], count: int = STEPS) -> list[float]:
    return [step(*batch).item() for batch in itertools.islice(itertools.cycle(data), count)]


def furthest(found: list[float], right: list[float]) -> float:
    """Return the largest difference of two curves, relative for values above 1.

    It is NaN if a value is not finite.
    """
    return max((abs(a - b) / max(1.0, abs(b)) for a, b in zip(found, right, strict=True)), key=lambda v: (v != v, v))


def shape_of(code: str) -> tuple[bool, str]:
    """Return True if a lowered program is one graph, and its description."""
    lines = [line for line in code.splitlines() if line and not line.startswith(" ")]
    graphs = lines.count("graph:")
    others = len(lines) - graphs
    return graphs == 1 and not others, f"{graphs} graph{'s' * (graphs != 1)}, {others} between"


def compare(work: Work, optimizer: str, precision: str, right: list[float], data: list[tuple[Any, Any]]) -> None:
    """Answer whether a step at a precision is one graph with the losses of the eager step."""
    import agrad

    step = build(optimizer, 2.0**10 if precision == "float16" else None)
    fast = agrad.jit(step, precision=None if precision == "float32" else precision)
    off = furthest(losses(fast, data), right)
    code = fast.lower(*data[0]).code
    print(f"-- {optimizer}, {precision}\n{code}")
    whole, shape = shape_of(code)
    refused = cublaslt().refused
    if refused:
        shape += f"; cuBLASLt does not support {len(refused)}"
        print("refused by cuBLASLt:", *refused, sep="\n    ")
    why = "the losses differ" if whole else "not one graph"
    work.answers.give(f"{optimizer}, {precision}", off if whole else float("inf"), f"{shape}; off by {off:.1e}", why)


def scaled(work: Work, data: list[tuple[Any, Any]]) -> None:
    """Answer whether a scale that overflows float16 decreases, and the loss then falls."""
    import agrad

    train = agrad.jit(build("SGD", SCALE), precision="float16")
    found = losses(train, data, SCALED_STEPS)
    held, falls = found[0] == found[len(data)], sum(found[-4:]) < sum(found[:4])
    name = "loss scale from 2**40, float16"
    why = "the loss does not fall" if held else "a step that overflowed changed the weights"
    work.answers.give(name, held and falls, f"loss {found[0]:.3f} to {found[-1]:.3f} in {SCALED_STEPS} steps", why)


def run(work: Work) -> None:
    import agrad

    agrad.set_backend("cupy")
    data = batches(SMALL_ROWS if work.small else ROWS)
    for optimizer in OPTIMIZERS:
        right: list[float] = []
        for precision in PRECISIONS:
            with answering(work, f"{optimizer}, {precision}"):
                right = right or losses(build(optimizer), data)
                compare(work, optimizer, precision, right, data)
    with answering(work, "loss scale from 2**40, float16"):
        scaled(work, data)
