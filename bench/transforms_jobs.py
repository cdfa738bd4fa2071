"""The work of the suite of transforms: objectives, and each library's derivatives.

An objective is a function of a namespace and a vector of float64 (for the perceptron, a tuple of float32). ``Library``
has the functions and the transforms under one name in every library.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.common import Job, Missing, load

GRADIENT, HVP, JACOBIAN, HESSIAN = "gradient", "Hessian-vector product", "Jacobian", "Hessian"
SAMPLES, LOOP = "gradient of each sample", "gradient of each sample, in a loop"

LIBRARIES = ("agrad", "torch.func", "jax", "jax.jit", "autograd")
JITTED, COMPILED = "agrad.jit", "agrad.jit, compiler='jax'"


@dataclass(frozen=True)
class Problem:
    """A function and its point.

    ``rows`` are its last arguments, with an entry for each sample.
    """

    f: Callable[..., Any]
    x: Any
    data: tuple[Any, ...] = ()
    rows: tuple[Any, ...] = ()
    task: str = GRADIENT
    outputs: int = 0
    """For a Jacobian of rows: the number of results of each row, for a library that computes one gradient for each."""
    unrolled: int = 0
    """The number of steps of a Python loop."""


LONGEST = {"jax.jit": 8, COMPILED: 8, JITTED: 100}
"""Steps of an unrolled loop. Each step of the LSTM triples the time of the XLA program, which repeats shared work."""


@dataclass(frozen=True)
class Library:
    """A library's functions and transforms. ``words`` contains the functions for objectives."""

    words: Any
    array: Callable[[Any], Any]
    host: Callable[[Any], Any]
    grad: Callable[..., Any]
    hvp: Callable[..., Any]
    jacobian: Callable[..., Any]
    hessian: Callable[..., Any]
    vmap: Callable[..., Any] | None = None
    compiled: Callable[..., Any] = field(default=lambda f: f)
    wait: Callable[[Any], Any] = field(default=lambda y: y)


# ------------------------------------------------------------------ the objectives


def rosenbrock(m: Any, x: Any) -> Any:
    return m.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_residuals(m: Any, x: Any) -> Any:
    return m.concat([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])


def logistic_losses(m: Any, w: Any, features: Any, signs: Any) -> Any:
    return m.log(1.0 + m.exp(-signs * (features @ w)))


def logistic(m: Any, w: Any, features: Any, signs: Any) -> Any:
    return m.sum(logistic_losses(m, w, features, signs)) / signs.shape[0]


K, D, N = 25, 32, 1000


def mixture_points(m: Any, alphas: Any, rest: Any, points: Any, places: Any) -> Any:
    """Return the log-likelihood of each point under a mixture of Gaussians.

    Srajer, Kukelova and Fitzgibbon 2018, "A benchmark of selected algorithmic differentiation tools", section 4.1.
    ``places`` are the positions in a vector of the entries of a triangular matrix (``places_of``).
    """
    k, d = alphas.shape[0], points.shape[0]
    means = m.reshape(rest[: k * d], (k, d, 1))
    logs = m.reshape(rest[k * d : 2 * k * d], (k, d))
    lower = m.reshape(rest[2 * k * d :], (k, d * (d - 1) // 2))
    below = m.concat([lower, 0.0 * logs[:, :1]], 1)[:, places]
    centred = points - means
    scaled = m.reshape(m.exp(logs), (k, d, 1)) * centred + below @ centred
    inner = m.reshape(alphas + m.sum(logs, 1), (k, 1)) - 0.5 * m.sum(scaled**2, 1)
    return m.logsumexp(inner, 0) - m.logsumexp(alphas, 0)


def places_of(d: int) -> Any:
    """Return the positions of a lower triangle's entries in a vector, one after the last for other entries."""
    places = np.full((d, d), d * (d - 1) // 2)
    places[np.tril_indices(d, -1)] = np.arange(d * (d - 1) // 2)
    return places


def mixture(m: Any, x: Any, points: Any, places: Any) -> Any:
    return m.sum(mixture_points(m, x[:K], x[K:], points, places))


BATCH, HIDDEN = 64, 128


def lstm_step(m: Any, x: Any, state: Any, weights: Any, given: Any) -> Any:
    """Return the new hidden state after one step of an LSTM on a batch.

    state: (batch, 2 hidden) of h and c.
    """
    n = state.shape[-1] // 2
    gates = m.concat([given, state[..., :n]], -1) @ m.reshape(weights, (2 * n, 4 * n))
    forget, enter = m.sigmoid(gates[..., :n]), m.sigmoid(gates[..., n : 2 * n])
    cell = forget * state[..., n:] + enter * m.tanh(gates[..., 2 * n : 3 * n])
    return m.sigmoid(gates[..., 3 * n :]) * m.tanh(cell)


def lstm_loss(m: Any, weights: Any, state: Any, given: Any) -> Any:
    return m.sum(lstm_step(m, None, state, weights, given) ** 2)


def lstm_hidden(m: Any, state: Any, weights: Any, given: Any) -> Any:
    return lstm_step(m, None, state, weights, given)


def lstm_square(m: Any, state: Any, weights: Any, given: Any) -> Any:
    return m.sum(lstm_hidden(m, state, weights, given) ** 2)


def residual(m: Any, v: Any, feature: Any) -> Any:
    """Return the weighted distance of a projected point to a feature.

    The arguments are a camera (rotation, centre, focal length, principal point, distortion: 11), a point (3) and a
    weight: section 4.2 of the same paper.
    """
    turn, centre, point, weight = v[..., 0:3], v[..., 3:6], v[..., 11:14], v[..., 14:15]
    square = m.sum(turn * turn, -1)[..., None]
    angle = m.sqrt(square)
    axis = turn / angle
    p = point - centre
    cross = m.stack_last(
        [
            axis[..., 1] * p[..., 2] - axis[..., 2] * p[..., 1],
            axis[..., 2] * p[..., 0] - axis[..., 0] * p[..., 2],
            axis[..., 0] * p[..., 1] - axis[..., 1] * p[..., 0],
        ]
    )
    along = m.sum(axis * p, -1)[..., None] * axis
    q = m.cos(angle) * p + m.sin(angle) * cross + (1.0 - m.cos(angle)) * along
    flat = q[..., 0:2] / q[..., 2:3]
    r2 = m.sum(flat * flat, -1)[..., None]
    bent = flat * (1.0 + v[..., 9:10] * r2 + v[..., 10:11] * r2 * r2)
    return weight * (v[..., 6:7] * bent + v[..., 7:9] - feature)


OBSERVATIONS = 500


def residual_squares(m: Any, flat: Any, features: Any) -> Any:
    return 0.5 * m.sum(residual(m, m.reshape(flat, (OBSERVATIONS, 15)), features) ** 2)


def residual_square(m: Any, v: Any, feature: Any) -> Any:
    return 0.5 * m.sum(residual(m, v, feature) ** 2)


SAMPLE_COUNT, INPUTS, UNITS, CLASSES = 256, 64, 128, 10


def digits_loss(m: Any, layers: Any, x: Any, target: Any) -> Any:
    """Return the cross entropy of a perceptron with one hidden layer on a sample.

    ``target``: (classes,), one-hot.
    """
    first, bias, second, last = layers
    logits = m.relu(x @ first + bias) @ second + last
    return m.logsumexp(logits, 0) - m.sum(logits * target)


def problems(quick: bool = False) -> dict[tuple[str, str], Problem]:
    """Return all problems by objective and task. ``quick``: smaller ones."""
    rng = np.random.default_rng(0)
    n, rows, cols = (20, 50, 5) if quick else (1000, 10_000, 100)
    x = rng.uniform(-1, 1, n)
    features, signs = rng.standard_normal((rows, cols)), rng.choice([-1.0, 1.0], rows)
    w = rng.standard_normal(cols) * 0.1
    points = rng.standard_normal((D, 20 if quick else N))
    places = places_of(D)
    alphas = rng.standard_normal(K)
    rest = np.concatenate([rng.standard_normal(2 * K * D) * 0.3, rng.standard_normal(K * D * (D - 1) // 2) * 0.1])
    weights = rng.standard_normal(2 * HIDDEN * 4 * HIDDEN) * 0.05
    state, given = rng.standard_normal((BATCH, 2 * HIDDEN)), rng.standard_normal((BATCH, HIDDEN))
    seen = rng.standard_normal((OBSERVATIONS, 2))
    cameras = rng.standard_normal((OBSERVATIONS, 15)) * 0.3 + np.asarray([0.3] * 3 + [0.0] * 10 + [3.0, 1.0])
    sizes = ((INPUTS, UNITS), (UNITS,), (UNITS, CLASSES), (CLASSES,))
    layers = tuple((rng.standard_normal(shape) * 0.1).astype(np.float32) for shape in sizes)
    images = rng.standard_normal((SAMPLE_COUNT, INPUTS)).astype(np.float32)
    targets = np.eye(CLASSES, dtype=np.float32)[rng.integers(0, CLASSES, SAMPLE_COUNT)]

    found: dict[tuple[str, str], Problem] = {}

    def add(name: str, task: str, f: Callable[..., Any], x: Any, *data: Any, rows: tuple[Any, ...] = ()) -> None:
        found[name, task] = Problem(f, x, data, rows, task)

    for task in (GRADIENT, HVP, HESSIAN):
        add("Rosenbrock", task, rosenbrock, x)
        add("logistic regression", task, logistic, w, features, signs)
    add("Rosenbrock", JACOBIAN, rosenbrock_residuals, x)
    add("logistic regression", JACOBIAN, logistic_losses, w, features, signs)
    for task in (GRADIENT, HVP):
        add("Gaussian mixture", task, mixture, np.concatenate([alphas, rest]), points, places)
        add("LSTM step", task, lstm_loss, weights, state, given)
        add("bundle adjustment", task, residual_squares, cameras.reshape(-1), seen)
    add("Gaussian mixture", JACOBIAN, mixture_points, alphas, rest, points, places)
    add("Gaussian mixture", HESSIAN, _mixture_by_weights, alphas, rest, points, places)
    add("LSTM step", JACOBIAN, lstm_hidden, state[0], weights, given[0])
    add("LSTM step", HESSIAN, lstm_square, state[0], weights, given[0])
    add("bundle adjustment", JACOBIAN, residual, cameras, rows=(seen,))
    add("bundle adjustment", HESSIAN, residual_square, cameras, rows=(seen,))
    for task in (SAMPLES, LOOP):
        add("digits perceptron", task, digits_loss, layers, rows=(images, targets))
    return found


def _mixture_by_weights(m: Any, alphas: Any, rest: Any, points: Any, places: Any) -> Any:
    return m.sum(mixture_points(m, alphas, rest, points, places))


# ------------------------------------------------------------------ the libraries


class _Words:
    def __init__(self, **words: Any) -> None:
        self.__dict__.update(words)


def _named(module: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names}


def agrad_library(name: str = "agrad") -> Library:
    agrad = load("agrad")
    if name == COMPILED:
        load("jax")
    words = _Words(
        **_named(agrad, "sum", "exp", "log", "sqrt", "sin", "cos", "tanh", "reshape", "sigmoid", "relu"),
        concat=lambda xs, axis=0: agrad.concat(xs, axis=axis),
        stack_last=lambda xs: agrad.stack(xs, axis=-1),
        logsumexp=lambda x, axis: agrad.logsumexp(x, axis=axis),
    )
    words.sum = lambda x, axis=None: agrad.sum(x, axis=axis)
    return Library(
        words,
        lambda a: a,
        np.asarray,
        agrad.grad,
        lambda f, x, v: agrad.hvp(f, (x,), (v,))[0],
        agrad.jacobian,
        agrad.hessian,
        agrad.vmap,
        {JITTED: agrad.jit, COMPILED: lambda f: agrad.jit(f, compiler="jax")}.get(name, lambda f: f),
    )


def torch_library() -> Library:
    torch = load("torch")
    func = load("torch.func")
    words = _Words(
        **_named(torch, "exp", "log", "sqrt", "sin", "cos", "tanh", "reshape", "sigmoid", "relu", "logsumexp"),
        sum=lambda x, axis=None: torch.sum(x) if axis is None else torch.sum(x, axis),
        concat=lambda xs, axis=0: torch.cat(xs, axis),
        stack_last=lambda xs: torch.stack(xs, -1),
    )

    def jacobian(f: Any) -> Any:
        # torch.func leaves the choice of mode to the user: the one with fewer passes
        def of(x: Any) -> Any:
            with torch.no_grad():
                tall = f(x).numel() > x.numel()
            return (func.jacfwd if tall else func.jacrev)(f)(x)

        return of

    return Library(
        words,
        lambda a: torch.tensor(a),
        lambda t: t.detach().numpy(),
        func.grad,
        lambda f, x, v: func.jvp(func.grad(f), (x,), (v,))[1],
        jacobian,
        func.hessian,
        func.vmap,
    )


def jax_library(jitted: bool) -> Library:
    jax = load("jax")
    jax.config.update("jax_enable_x64", True)
    jnp, scipy = jax.numpy, load("jax.scipy.special")
    words = _Words(
        **_named(jnp, "exp", "log", "sqrt", "sin", "cos", "tanh", "reshape", "sum"),
        concat=lambda xs, axis=0: jnp.concatenate(xs, axis=axis),
        stack_last=lambda xs: jnp.stack(xs, axis=-1),
        sigmoid=jax.nn.sigmoid,
        relu=jax.nn.relu,
        logsumexp=lambda x, axis: scipy.logsumexp(x, axis=axis),
    )

    def jacobian(f: Any) -> Any:
        def of(x: Any) -> Any:
            out = jax.eval_shape(f, x)
            return (jax.jacfwd if out.size > x.size else jax.jacrev)(f)(x)

        return of

    return Library(
        words,
        jnp.asarray,
        np.asarray,
        jax.grad,
        lambda f, x, v: jax.jvp(jax.grad(f), (x,), (v,))[1],
        jacobian,
        jax.hessian,
        jax.vmap,
        jax.jit if jitted else lambda f: f,
        jax.block_until_ready,
    )


def autograd_library() -> Library:
    autograd = load("autograd")
    anp, scipy = load("autograd.numpy"), load("autograd.scipy.special")
    words = _Words(
        **_named(anp, "exp", "log", "sqrt", "sin", "cos", "tanh", "reshape", "sum"),
        concat=lambda xs, axis=0: anp.concatenate(xs, axis),
        stack_last=lambda xs: anp.stack(xs, axis=-1),
        sigmoid=lambda x: 1.0 / (1.0 + anp.exp(-x)),
        relu=lambda x: anp.maximum(x, 0.0),
        logsumexp=lambda x, axis: scipy.logsumexp(x, axis=axis),
    )
    return Library(
        words,
        lambda a: a,
        np.asarray,
        autograd.grad,
        lambda f, x, v: autograd.make_hvp(f)(x)[0](v),
        autograd.jacobian,
        autograd.hessian,
    )


def library(name: str) -> Library:
    """Return the functions and transforms of one of ``LIBRARIES``, of ``JITTED`` or of ``COMPILED``."""
    if name in ("agrad", JITTED, COMPILED):
        return agrad_library(name)
    if name == "torch.func":
        return torch_library()
    if name == "autograd":
        return autograd_library()
    return jax_library(name == "jax.jit")


def job(name: str, problem: Problem) -> Job:
    """Return the derivative of a problem by a library, to time.

    Raises ``Missing`` if it cannot.
    """
    if problem.unrolled > LONGEST.get(name, problem.unrolled):
        raise Missing("the loop is too long to compile")
    lib = library(name)
    data = tuple(map(lib.array, problem.data))
    rows = tuple(map(lib.array, problem.rows))
    several = isinstance(problem.x, tuple)
    x = tuple(map(lib.array, problem.x)) if several else lib.array(problem.x)
    v = None if several else lib.array(np.cos(np.arange(problem.x.size, dtype=np.float64)).reshape(problem.x.shape))

    def f(x: Any, *row: Any) -> Any:
        return problem.f(lib.words, x, *data, *row)

    derivative = {
        GRADIENT: lambda x: lib.grad(f)(x),
        HVP: lambda x: lib.hvp(f, x, v),
        JACOBIAN: lambda x, *row: lib.jacobian(lambda x: f(x, *row))(x),
        HESSIAN: lambda x, *row: lib.hessian(lambda x: f(x, *row))(x),
        SAMPLES: lambda x, *row: lib.grad(f)(x, *row),
        LOOP: None,
    }[problem.task]

    def read(out: Any) -> Any:
        return np.concatenate([lib.host(part).reshape(-1) for part in out]) if several else lib.host(out)

    if problem.task == LOOP:
        if name != "agrad":
            raise Missing("the loop is only for the vmap of agrad")
        one = lib.grad(f)

        def loop() -> Any:
            found = [one(x, *row) for row in zip(*rows, strict=True)]
            return tuple(np.stack(parts) for parts in zip(*found, strict=True))

        return Job(loop, read=read)
    if rows:
        if lib.vmap is None and problem.outputs:
            parts = [lib.grad(lambda x, *row, i=i: lib.words.sum(f(x, *row)[..., i])) for i in range(problem.outputs)]
            return Job(lambda: np.stack([part(x, *rows) for part in parts], axis=1), read=read)
        if lib.vmap is None:
            raise Missing("it has no vmap; a loop over samples is not comparable")
        each = (None if problem.task == SAMPLES else 0, *(0 for _ in rows))
        derivative = lib.vmap(derivative, each)
    run = lib.compiled(derivative)
    return Job(lambda: lib.wait(run(x, *rows)), read=read)
