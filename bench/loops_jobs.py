"""The work of the suite of loops: five programs that are loops, implemented once for agrad and JAX.

A program is a function of a namespace (agrad, or JAX functions under the same names) and of arrays. The loops have the
same names in both libraries: ``scan``, ``while_loop``, ``fori_loop``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from bench.common import load

EAGER, JITTED, COMPILED, PEER = "agrad", "agrad.jit", "agrad.jit, compiler='jax'", "jax.jit"


@dataclass(frozen=True)
class Loop:
    """A program and its arguments."""

    f: Callable[..., Any]
    data: tuple[Any, ...]
    gradient: bool = False
    """True to compute the value and the gradient with respect to the first argument."""
    settings: dict[str, int] = field(default_factory=dict)


# ------------------------------------------------------------------ the programs

SYMBOLS, HIDDEN = 32, 64


def lstm(m: Any, weights: Any, text: Any) -> Any:
    """Return the mean loss of predicting each character of a text from the previous ones."""
    enter, turn, bias, leave = weights

    def step(state: Any, given: Any) -> Any:
        h, c = state
        gates = given + h @ turn + bias
        forget, new, out = (m.sigmoid(gates[i * HIDDEN : (i + 1) * HIDDEN]) for i in range(3))
        c = forget * c + new * m.tanh(gates[3 * HIDDEN :])
        h = out * m.tanh(c)
        return (h, c), h

    zero = m.zeros(HIDDEN, dtype=m.float32)
    _, states = m.scan(step, (zero, zero), enter[text[:-1]])
    logits = states @ leave
    rows = m.arange(text.shape[0] - 1)
    return m.mean(m.logsumexp(logits, axis=1) - logits[rows, text[1:]])


def kalman(m: Any, logs: Any, seen: Any) -> Any:
    """Return the log-likelihood of a point that moves in the plane, seen with noise.

    logs: the logarithms of the standard deviations of the movement and of the observation.
    """
    move = m.asarray(np.eye(4) + np.eye(4, k=2) * 0.1)
    see = m.asarray(np.eye(2, 4))
    noise = m.asarray(np.diag([1e-4, 1e-4, 1e-2, 1e-2])) * m.exp(2 * logs[0])
    error = m.asarray(np.eye(2)) * m.exp(2 * logs[1])

    def step(state: Any, z: Any) -> Any:
        x, p = move @ state[0], move @ state[1] @ move.T + noise
        off, s = z - see @ x, see @ p @ see.T + error
        gain = m.linalg.solve(s, see @ p).T
        density = off @ m.linalg.solve(s, off) + m.linalg.slogdet(s)[1]
        return (x + gain @ off, p - gain @ see @ p), density

    _, densities = m.scan(step, (m.zeros(4), m.asarray(np.eye(4))), seen)
    return -0.5 * m.sum(densities)


LEAPS = 5


def hamiltonian(m: Any, start: Any, features: Any, labels: Any, kicks: Any, chances: Any) -> Any:
    """Return the mean of a chain of Hamiltonian Monte Carlo, a step for each row of ``kicks``.

    The density is a logistic regression. kicks, chances: the normal and the uniform numbers of each step.
    """

    def energy(w: Any) -> Any:
        z = features @ w
        return m.sum(m.log1p(m.exp(z)) - labels * z) + 0.5 * m.sum(w * w)

    slope, rate = m.grad(energy), 0.05

    def leap(_: Any, state: Any) -> Any:
        w, p = state
        p = p - 0.5 * rate * slope(w)
        w = w + rate * p
        return w, p - 0.5 * rate * slope(w)

    def step(w: Any, given: Any) -> Any:
        kick, chance = given
        new, p = m.fori_loop(0, LEAPS, leap, (w, kick))
        gain = energy(w) + 0.5 * m.sum(kick * kick) - energy(new) - 0.5 * m.sum(p * p)
        w = m.where(m.log(chance) < gain, new, w)
        return w, w

    _, chain = m.scan(step, start, (kicks, chances))
    return m.mean(chain, axis=0)


def runge_kutta(m: Any, start: Any, *, steps: int) -> Any:
    """Return the prey and the predators of Lotka and Volterra after some steps."""
    rate = 1e-3

    def slope(y: Any) -> Any:
        both = y[0] * y[1]
        return m.stack([1.1 * y[0] - 0.4 * both, 0.1 * both - 0.4 * y[1]])

    def step(_: Any, y: Any) -> Any:
        a = slope(y)
        b = slope(y + 0.5 * rate * a)
        c = slope(y + 0.5 * rate * b)
        d = slope(y + rate * c)
        return y + rate / 6 * (a + 2 * b + 2 * c + d)

    return m.fori_loop(0, steps, step, start)


def newton(m: Any, start: Any, matrix: Any, right: Any) -> Any:
    """Solve a system of equations for each row of ``right``, until no step is large."""

    def system(x: Any, b: Any) -> Any:
        return x**3 + matrix @ x - b

    slopes, values = m.vmap(m.jacfwd(system)), m.vmap(system)

    def going(state: Any) -> Any:
        _, step = state
        return m.max(m.abs(step)) > 1e-10

    def next_state(state: Any) -> Any:
        x, _ = state
        step = m.linalg.solve(slopes(x, right), values(x, right)[..., None])[..., 0]
        return x - step, step

    return m.while_loop(going, next_state, (start, m.ones_like(start)))[0]


# ------------------------------------------------------------------ the rows

WORDS = {
    "abs", "arange", "asarray", "exp", "float32", "fori_loop", "grad", "jacfwd", "linalg", "log", "log1p", "logsumexp",
    "max", "mean", "ones_like", "scan", "sigmoid", "stack", "sum", "tanh", "vmap", "where", "while_loop", "zeros",
}  # fmt: skip
"""The functions that a program reads from its namespace. In JAX they are in several modules."""


def loops(quick: bool = False) -> dict[str, Loop]:
    """Return all loops by name. ``quick``: few steps."""
    rng = np.random.default_rng(0)
    weights = [
        (rng.standard_normal(shape) * 0.2).astype(np.float32)
        for shape in ((SYMBOLS, 4 * HIDDEN), (HIDDEN, 4 * HIDDEN), (4 * HIDDEN,), (HIDDEN, SYMBOLS))
    ]
    text = rng.integers(0, SYMBOLS, 8 if quick else 257)
    seen = np.cumsum(rng.standard_normal((5 if quick else 500, 2)), axis=0) * 0.1
    logs = np.asarray([0.1, -0.2])
    features, steps = rng.standard_normal((100, 10)), 3 if quick else 1000
    labels = (rng.uniform(size=100) < 0.5).astype(np.float64)
    chain = (np.zeros(10), features, labels, rng.standard_normal((steps, 10)), rng.uniform(0.01, 1, steps))
    half = rng.standard_normal((3, 3))
    right = rng.standard_normal((10 if quick else 1000, 3))
    return {
        "LSTM, value and gradient": Loop(lstm, (weights, text), gradient=True),
        "Kalman filter, value": Loop(kalman, (logs, seen)),
        "Kalman filter, value and gradient": Loop(kalman, (logs, seen), gradient=True),
        "HMC": Loop(hamiltonian, chain),
        "RK4": Loop(runge_kutta, (np.asarray([10.0, 5.0]),), settings={"steps": 5 if quick else 10_000}),
        "Newton, batched": Loop(newton, (np.zeros_like(right), half @ half.T + np.eye(3), right)),
    }


def function(name: str, loop: Loop) -> Callable[[], Any]:
    """Return a candidate's call of a loop, which returns when the result is ready."""
    if name == PEER:
        jax = load("jax")
        jax.config.update("jax_enable_x64", True)
        places = (jax, jax.lax, jax.nn, load("jax.numpy"))
        words = SimpleNamespace(**{word: getattr(place, word) for place in places for word in WORDS & set(dir(place))})
        value_and_grad, compiled = jax.value_and_grad, jax.jit
        data = jax.tree.map(words.asarray, loop.data)
        ready = jax.block_until_ready
    else:
        words = agrad = load("agrad")
        value_and_grad, data = agrad.value_and_grad, loop.data
        options = {JITTED: {}, COMPILED: {"compiler": "jax"}}
        compiled = (lambda f: f) if name == EAGER else (lambda f: agrad.jit(f, **options[name]))
        ready = lambda found: found  # noqa: E731

    def program(*data: Any) -> Any:
        return loop.f(words, *data, **loop.settings)

    run = compiled(value_and_grad(program) if loop.gradient else program)
    return lambda: ready(run(*data))


def leaves(found: Any) -> list[float]:
    """Return all numbers of a result, in order."""
    if isinstance(found, (tuple, list)):
        return [x for part in found for x in leaves(part)]
    return np.asarray(found, dtype=np.float64).reshape(-1).tolist()
