"""The work of the suite ``conv``: calls, and how each library makes them.

A call is a function of a library's functions and of float32 arrays. The functions have their PyTorch names and
arguments.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from bench.common import Job, Missing, load

FORWARD, BOTH = "forward", "forward + backward"
EAGER, JITTED = "agrad", "agrad.jit"
TORCH, JAX = "PyTorch", "JAX, jit"
ELSEWHERE = {"agrad, torch": "torch", "agrad, jax": "jax"}
"""Eager candidates on a backend other than NumPy."""


@dataclass(frozen=True)
class Call:
    """A function of a library's functions and of arrays of these shapes."""

    f: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]

    def arrays(self) -> list[np.ndarray]:
        """Return normal random numbers; parameters are as small as initial weights."""
        rng = np.random.default_rng(0)
        drawn = [rng.standard_normal(shape, dtype=np.float32) for shape in self.shapes]
        return drawn[:1] + [a / np.float32(math.sqrt(math.prod(a.shape[1:]))) for a in drawn[1:]]


def _conv(x: tuple[int, ...], w: tuple[int, ...], **how: Any) -> Call:
    name = f"conv{len(x) - 2}d"
    return Call(lambda m, x, w: getattr(m, name)(x, w, **how), (x, w))


def _pool(name: str, x: tuple[int, ...], kernel: int, stride: int) -> Call:
    return Call(lambda m, x: getattr(m, name)(x, kernel, stride), (x,))


def _layer_norm(m: Any, x: Any, w: Any, b: Any) -> Any:
    return m.layer_norm(x, (x.shape[-1],), w, b)


def _rms_norm(m: Any, x: Any, w: Any) -> Any:
    return m.rms_norm(x, (x.shape[-1],), w, 1e-6)


def _batch_norm(m: Any, x: Any, w: Any, b: Any) -> Any:
    return m.batch_norm(x, None, None, w, b, training=True)


SMALL, LARGE = "conv2d 8x8x28x28 by 16x8x3x3", "conv2d 32x64x56x56 by 128x64x3x3, padding 1"


def calls(quick: bool = False) -> dict[str, Call]:
    """Return the rows of the suite by name."""
    n, side = (1, 14) if quick else (32, 56)
    image, rows = (n, 64, side, side), (64, 32) if quick else (4096, 512)
    c = rows[1]
    return {
        SMALL: _conv((8, 8, 28, 28), (16, 8, 3, 3)),
        LARGE: _conv(image, (128, 64, 3, 3), padding=1),
        "conv2d, stride 2": _conv(image, (128, 64, 3, 3), padding=1, stride=2),
        "conv2d, 1x1": _conv(image, (128, 64, 1, 1)),
        "conv2d, depthwise": _conv(image, (64, 1, 3, 3), padding=1, groups=64),
        "conv2d, 5x5": _conv((n, 16, side, side), (32, 16, 5, 5), padding=2),
        "conv2d, 7x7 images": _conv((n, 128, 7, 7), (128, 128, 3, 3), padding=1),
        "conv1d, k 5": _conv((n, 64, side * 16), (64, 64, 5), padding=2),
        "max_pool2d, 2x2": _pool("max_pool2d", image, 2, 2),
        "max_pool2d, 3x3, stride 1": _pool("max_pool2d", image, 3, 1),
        "avg_pool2d, 2x2": _pool("avg_pool2d", image, 2, 2),
        "avg_pool2d, 3x3, stride 1": _pool("avg_pool2d", image, 3, 1),
        "layer_norm": Call(_layer_norm, (rows, (c,), (c,))),
        "rms_norm": Call(_rms_norm, (rows, (c,))),
        "batch_norm": Call(_batch_norm, (rows, (c,), (c,))),
        "batch_norm, images": Call(_batch_norm, (image, (64,), (64,))),
    }


def _jax_words() -> Any:
    """Return the functions that the calls use, implemented for JAX."""
    jnp, lax = load("jax.numpy"), load("jax").lax

    def conv(x: Any, w: Any, padding: int = 0, stride: int = 1, groups: int = 1) -> Any:
        m = x.ndim - 2
        return lax.conv_general_dilated(x, w, (stride,) * m, [(padding, padding)] * m, feature_group_count=groups)

    def pool(x: Any, start: float, word: Any, k: int, s: int) -> Any:
        return lax.reduce_window(x, np.float32(start), word, (1, 1, k, k), (1, 1, s, s), "VALID")

    def standardized(x: Any, axes: Any, eps: float = 1e-5) -> Any:
        return (x - jnp.mean(x, axes, keepdims=True)) / jnp.sqrt(jnp.var(x, axes, keepdims=True) + eps)

    def batch_norm(x: Any, mean: Any, var: Any, w: Any, b: Any, training: bool) -> Any:
        around = (1, -1, *(1,) * (x.ndim - 2))
        return standardized(x, (0, *range(2, x.ndim))) * w.reshape(around) + b.reshape(around)

    return SimpleNamespace(
        conv1d=conv,
        conv2d=conv,
        max_pool2d=lambda x, k, s: pool(x, -math.inf, lax.max, k, s),
        avg_pool2d=lambda x, k, s: pool(x, 0.0, lax.add, k, s) / (k * k),
        layer_norm=lambda x, shape, w, b: standardized(x, -1) * w + b,
        rms_norm=lambda x, shape, w, eps: x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * w,
        batch_norm=batch_norm,
    )


def cotangent(y: Any) -> np.ndarray:
    """Return normal random numbers in the shape of a result."""
    return np.random.default_rng(1).standard_normal(tuple(y.shape), dtype=np.float32)


def _agrad(call: Call, arrays: list[np.ndarray], name: str) -> tuple[Any, Any]:
    agrad = load("agrad")
    backend = ELSEWHERE.get(name, "numpy")
    given = [agrad.asarray(a).to(backend).data for a in arrays]
    jitted = agrad.jit if name == JITTED else lambda f: f
    ready = load("jax").block_until_ready if backend == "jax" else lambda found: found

    def forward(*given: Any) -> Any:
        return call.f(agrad.nn.functional, *given)

    def both(g: Any, *given: Any) -> Any:
        y, pull = agrad.vjp(forward, *given)
        return [y, *pull(g)]

    forward_, both_ = jitted(forward), jitted(both)
    g = agrad.asarray(cotangent(forward(*given))).to(backend).data
    return lambda: [ready(forward_(*given))], lambda: ready(both_(g, *given))


def _torch(call: Call, arrays: list[np.ndarray], name: str) -> tuple[Any, Any]:
    torch = load("torch")
    given = [torch.from_numpy(a).requires_grad_() for a in arrays]
    words = torch.nn.functional

    def forward() -> Any:
        with torch.no_grad():
            return [call.f(words, *given)]

    g = torch.from_numpy(cotangent(forward()[0]))

    def both() -> Any:
        y = call.f(words, *given)
        return [y.detach(), *torch.autograd.grad(y, given, g)]

    return forward, both


def _jax(call: Call, arrays: list[np.ndarray], name: str) -> tuple[Any, Any]:
    jax, words = load("jax"), _jax_words()
    given = [jax.numpy.asarray(a) for a in arrays]

    def forward(*given: Any) -> Any:
        return [call.f(words, *given)]

    def both(g: Any, *given: Any) -> Any:
        y, pull = jax.vjp(lambda *given: call.f(words, *given), *given)
        return [y, *pull(g)]

    forward_, both_ = jax.jit(forward), jax.jit(both)
    g = jax.numpy.asarray(cotangent(forward(*given)[0]))
    return lambda: jax.block_until_ready(forward_(*given)), lambda: jax.block_until_ready(both_(g, *given))


MAKERS = {TORCH: _torch, JAX: _jax}


def job(quick: bool, only: tuple[str, ...], name: str) -> Job:
    """Return all rows of a candidate as parts of one job.

    A step returns, by row, sums of the value and of each gradient to compare.
    """
    parts: dict[str, Any] = {}
    make = MAKERS.get(name, _agrad)
    if name in ELSEWHERE:
        try:
            load("agrad.backends").load(ELSEWHERE[name])
        except load("agrad.errors").BackendUnavailableError as reason:
            raise Missing(str(reason)) from None
    for row, call in calls(quick).items():
        if only and family(row) not in only:
            continue
        parts[f"{row}: {FORWARD}"], parts[f"{row}: {BOTH}"] = make(call, call.arrays(), name)

    def fingerprints() -> dict[str, list[list[float]]]:
        return {row: [fingerprint(np.asarray(found)) for found in step()] for row, step in parts.items()}

    return Job(fingerprints, read=lambda found: found, parts=parts)


def fingerprint(values: np.ndarray) -> list[float]:
    """Return a weighted sum of the elements, and the sum of their magnitudes."""
    flat = values.reshape(-1).astype(np.float64)
    return [float(flat @ np.cos(np.arange(flat.size))), float(np.sum(np.abs(flat)))]


def family(row: str) -> str:
    """Return the function's name of a row."""
    return row.replace(",", " ").split(" ")[0]
