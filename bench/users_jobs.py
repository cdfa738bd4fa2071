"""The work of the suite of users: slow cases, and the usual alternative library.

A row is a function of a candidate's name. It returns a call, which returns when its result is ready, or None if the
candidate does not support the work. Programs of networks are written once, because agrad has the PyTorch names.
"""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from bench import loops_jobs
from bench.common import load
from bench.loops_jobs import COMPILED, EAGER, JITTED, Loop

JAX, TORCH, SCIPY, NUMPY = "jax.jit", "PyTorch", "SciPy", "NumPy"
OURS = (EAGER, JITTED)
Call = Callable[[], Any]


def compiled(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of agrad as a candidate runs it."""
    jit = load("agrad").jit
    return {EAGER: lambda f: f, JITTED: jit, COMPILED: partial(jit, compiler="jax")}[name](f)


def words(name: str) -> Any:
    """Return agrad, or JAX functions under the same names."""
    if name != JAX:
        return load("agrad")
    jax = load("jax")
    jax.config.update("jax_enable_x64", True)
    found = SimpleNamespace(**vars(load("jax.numpy")), grad=jax.grad, odeint=load("jax.experimental.ode").odeint)
    return found


def run(name: str, f: Callable[..., Any], *data: Any) -> Call:
    """Return the call of a function of arrays, by agrad or JAX."""
    if name != JAX:
        call = compiled(name, f)
        return lambda: call(*data)
    jax = load("jax")
    call, data = jax.jit(f), jax.tree.map(load("jax.numpy").asarray, data)
    return lambda: jax.block_until_ready(call(*data))


# ------------------------------------------------------------------ loops

TIMES = np.linspace(0.0, 2.0, 20)
TIGHT = {"rtol": 1e-6, "atol": 1e-6}


def fit(name: str, quick: bool) -> Call:
    m = words(name)

    def loss(rates: Any, seen: Any) -> Any:
        def slope(y: Any, t: Any) -> Any:
            both = y[0] * y[1]
            return m.stack([rates[0] * y[0] - rates[1] * both, rates[2] * both - rates[3] * y[1]])

        found = m.odeint(slope, m.asarray([10.0, 5.0]), m.asarray(TIMES), **TIGHT)
        return m.sum((found - seen) ** 2)

    return run(name, m.grad(loss), np.asarray([1.1, 0.4, 0.1, 0.4]), np.ones((20, 2)))


def kalman(name: str, quick: bool) -> Call:
    seen = np.cumsum(np.random.default_rng(0).standard_normal((5 if quick else 200, 2)), axis=0) * 0.1
    return loops_jobs.function(name, Loop(loops_jobs.kalman, (np.asarray([0.1, -0.2]), seen), gradient=True))


def forward(name: str, quick: bool, times: int = 400) -> Call:
    grid, start = np.linspace(0.0, 10.0, 10 if quick else times), np.asarray([1.0, 0.0])
    if name == SCIPY:
        solve = load("scipy.integrate").solve_ivp
        return lambda: solve(lambda t, y: np.stack([y[1], -y[0]]), (0.0, 10.0), start, t_eval=grid, **TIGHT).y.T
    agrad = load("agrad")
    f = compiled(name, lambda y: agrad.odeint(lambda y, t: agrad.stack([y[1], -y[0]]), y, grid, **TIGHT))
    return lambda: f(start)


# ------------------------------------------------------------------ functions


def interp(name: str, quick: bool) -> Call:
    x, grid, values = np.linspace(0.1, 3.9, 8), np.arange(5.0), np.arange(5.0) ** 2
    if name == NUMPY:
        return lambda: np.interp(x, grid, values)
    x = load("agrad").asarray(x)
    f = compiled(name, lambda x: np.interp(x, grid, values))
    return lambda: f(x)


def cross(name: str, quick: bool) -> Call:
    a, b = np.asarray([1.0, 2.0, 3.0]), np.asarray([0.5, -1.0, 2.0])
    if name == TORCH:
        torch = load("torch")
        a, b = torch.asarray(a), torch.asarray(b)
        return lambda: torch.linalg.cross(a, b)
    a, b = load("agrad").asarray(a), load("agrad").asarray(b)
    f = compiled(name, lambda a, b: np.cross(a, b))
    return lambda: f(a, b)


def rosenbrock(name: str, quick: bool) -> Call:
    m = words(name)

    def f(x: Any) -> Any:
        return m.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    return run(name, m.grad(f), np.linspace(-1.0, 1.0, 100 if quick else 10**6))


def logistic(name: str, quick: bool) -> Call:
    rng = np.random.default_rng(0)
    features, labels, w = rng.standard_normal((1000, 20)), rng.integers(0, 2, 1000) * 1.0, np.linspace(-1.0, 1.0, 20)
    if name == NUMPY:

        def by_hand() -> Any:
            z = features @ w
            return np.mean(np.logaddexp(0.0, z) - labels * z), features.T @ (1 / (1 + np.exp(-z)) - labels) / 1000

        return by_hand
    m = load("agrad")

    def loss(w: Any, features: Any, labels: Any) -> Any:
        z = features @ w
        return m.mean(m.logaddexp(0.0, z) - labels * z)

    return run(name, m.value_and_grad(loss), w, features, labels)


def gammainc(name: str, quick: bool) -> Call:
    a, x, h = np.linspace(0.5, 20.0, 163), np.linspace(0.4, 22.0, 163), 1e-6
    if name == SCIPY:
        f = load("scipy.special").gammainc
        return lambda: (np.log(f(a + h, x)) - np.log(f(a - h, x))) / (2 * h)
    m = load("agrad")
    return run(name, m.grad(lambda a, x: m.sum(m.log(m.special.gammainc(a, x)))), a, x)


# ------------------------------------------------------------------ networks, with PyTorch names


def library(name: str) -> tuple[Any, Callable[[Any], Any]]:
    """Return PyTorch or agrad, and its function that creates arrays."""
    if name == TORCH:
        torch = load("torch")
        return torch, torch.from_numpy
    agrad = load("agrad")
    return agrad, agrad.asarray


def values(*shape: int) -> np.ndarray:
    """Return numbers that are symmetric for two axes, because Linear of PyTorch transposes its weight."""
    places = np.add.outer(*map(np.arange, shape)) if len(shape) == 2 else np.arange(np.prod(shape)).reshape(shape)
    return (np.cos(places * 1.7) * 0.3).astype(np.float32)


def back(f: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[str, bool], Call]:
    """Return the row of the gradients of the sum of squares of ``f(library, *arrays)``."""

    def row(name: str, quick: bool) -> Call:
        m, array = library(name)
        arrays = [array(values(*shape)) for shape in shapes]
        if name == TORCH:
            leaves = [x.requires_grad_() for x in arrays]
            return lambda: [g.numpy() for g in m.autograd.grad((f(m, *leaves) ** 2).sum(), leaves)]
        places = tuple(range(len(arrays)))
        return run(name, m.grad(lambda *xs: m.sum(f(m, *xs) ** 2), argnums=places), *arrays)

    return row


def convolution(channels: int, side: int) -> Callable[[str, bool], Call]:
    shapes = (64, channels, side, side), (channels, channels, 3, 3)
    return back(lambda m, x, w: m.nn.functional.conv2d(x, w, padding=1), *shapes)


def trained(make: Callable[[Any], Any], *shape: int) -> Callable[[str, bool], Call]:
    """Return the row of a step of training a classifier of ten classes by SGD."""

    def row(name: str, quick: bool) -> Call:
        m, array = library(name)
        model = make(m)
        model.load_state_dict({key: array(values(*was.shape)) for key, was in model.state_dict().items()})
        optimizer, loss = m.optim.SGD(model.parameters(), lr=0.01), m.nn.CrossEntropyLoss()

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            found = loss(model(x), y)
            found.backward()
            optimizer.step()
            return found.detach()

        step = step if name == TORCH else compiled(name, step)
        x, y = array(values(*shape)), array(np.arange(shape[0]) % 10)
        return lambda: step(x, y)

    return row


def digits(m: Any) -> Any:
    n = m.nn
    return n.Sequential(
        *(n.Conv2d(1, 16, 3, padding=1), n.ReLU(), n.Conv2d(16, 32, 3, padding=1), n.ReLU()),
        *(n.MaxPool2d(2), n.Flatten(), n.Linear(512, 10)),
    )


def recurrent(m: Any) -> Any:
    class Classifier(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.out = m.nn.LSTM(8, 32, batch_first=True), m.nn.Linear(32, 10)

        def forward(self, x: Any) -> Any:
            return self.out(self.lstm(x)[0][:, -1])

    return Classifier()


def parameters(what: str) -> Callable[..., Call]:
    """Return the row of an SGD step for 1,000 parameters of 8 numbers, or of clipping their gradients."""

    def row(name: str, quick: bool, count: int = 1000) -> Call:
        m, array = library(name)
        made = [m.nn.Parameter(array(values(8))) for _ in range(10 if quick else count)]
        optimizer = m.optim.SGD(made, lr=1e-3, momentum=0.9)
        clip = m.nn.utils.clip_grad_norm_
        for p in made:
            p.grad = array(np.ones(8, np.float32))

        def step() -> Any:
            if what == "clip":
                return clip(made, 1e9)
            optimizer.step()
            return made[0].detach()

        return step if name == TORCH else compiled(name, step)

    return row


class Work(NamedTuple):
    """A row: its function, the library to compare with, the tolerance of results, and the advice of the page."""

    make: Callable[..., Call]
    peer: str
    advice: str
    compiler: bool = False
    """True to measure it with ``compiler="jax"`` too."""
    apart: float = 1e-3


LOOP = 'Compile it: `agrad.jit(f, compiler="jax")`, or `compiler="auto"`.'
STEP = "Compile the whole training step with `agrad.jit`."
FEW = "Each call costs microseconds of Python. Pass more numbers to one call, or compile the caller."

ROWS: dict[str, Work] = {
    "fit of an ODE at 20 times, gradient": Work(fit, JAX, LOOP, True, 1e-2),
    "Kalman filter of 200 steps, gradient": Work(kalman, JAX, LOOP, True),
    "`odeint` at 400 times": Work(forward, SCIPY, LOOP, True),
    "`np.interp` of 8 numbers": Work(interp, NUMPY, FEW),
    "`np.cross` of 3 numbers": Work(cross, TORCH, FEW),
    "convolution and back, 64x16x4x4": Work(convolution(16, 4), TORCH, STEP),
    "convolution and back, 64x32x8x8": Work(convolution(32, 8), TORCH, STEP),
    "convolutional network on digits, a step": Work(trained(digits, 64, 1, 8, 8), TORCH, STEP),
    "GELU and back, 2048x512": Work(back(lambda m, x: m.nn.functional.gelu(x), (2048, 512)), TORCH, STEP),
    "gradient of Rosenbrock's function, 10^6": Work(rosenbrock, JAX, "Compile it with `agrad.jit`.", True),
    "SGD, 1,000 parameters of 8": Work(parameters("sgd"), TORCH, STEP),
    "clipping 1,000 gradients of 8": Work(parameters("clip"), TORCH, STEP),
    "logistic regression, value and gradient": Work(logistic, NUMPY, "Compile it with `agrad.jit`."),
    "LSTM classifier, a step": Work(trained(recurrent, 32, 16, 8), TORCH, STEP + " " + LOOP),
    "layer norm and back, 32x64": Work(back(lambda m, x: m.nn.functional.layer_norm(x, (64,)), (32, 64)), TORCH, STEP),
    "batch norm and back, 32x64": Work(
        back(lambda m, x: m.nn.functional.batch_norm(x, None, None, training=True), (32, 64)), TORCH, STEP
    ),
    "gradient of `log(gammainc)`, 163 numbers": Work(gammainc, SCIPY, "It is exact; differences are not.", apart=1e-2),
}
