"""The rows of the draws, compared with the generic code on NumPy.

NumPy itself draws by its own Philox. The draws that it has no kernel for are held to another form of their method.
"""

import math
from typing import Any

import numpy as np
from table import between, constant, elementwise, ex, row, slow, values

from agrad import philox
from agrad.backends import load
from agrad.registry import PRIMITIVES

KEY = constant([1, 2**31, 3, 2**32 - 1], dtype=np.uint32)
ZERO = constant([0, 0, 0, 0], dtype=np.uint32)


def _by_definition(name: str) -> Any:
    def draw(xp: Any, *args: Any, **settings: Any) -> Any:
        host = [a if isinstance(a, np.ndarray) else np.asarray(a) for a in args]
        return PRIMITIVES[name].forward(load("numpy").xp, *host, **settings)

    return draw


def _draws(name: str, *examples: Any, reference: Any = None, **more: Any) -> None:
    row(name, *examples, call=PRIMITIVES[name].bind, reference=reference or _by_definition(name), **more)


def _log_gamma(xp: Any, key: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Draw by Marsaglia's and Tsang's method, attempt by attempt.

    Concentrations below 1 are boosted.
    """
    flat = alpha.ravel()
    keys, normal, uniform = (PRIMITIVES[f"random_{name}"].bind for name in ("keys", "normal", "uniform"))
    d = np.where(flat < 1, flat + 1, flat) - 1 / 3
    out, left = np.empty_like(d), np.arange(d.size)
    for attempt in range(16):
        pair = keys(key, count=2, domain=philox.ATTEMPT, data=attempt)
        z = normal(pair[0], shape=left.shape, dtype="float64")
        u = uniform(pair[1], shape=left.shape, dtype="float64", interior=True)
        v = (1 + z / np.sqrt(9 * d[left])) ** 3
        log_v = np.log(np.where(v > 0, v, 1))
        accepted = (v > 0) & (np.log(u) < z * z / 2 + d[left] * (1 - v + log_v))
        out[left[accepted]] = (np.log(d[left]) + log_v)[accepted]
        left = left[~accepted]
    boost = keys(key, count=2, domain=philox.ATTEMPT, data=16)[0]
    u = uniform(boost, shape=d.shape, dtype="float64", interior=True)
    return np.where(flat < 1, out + np.log(u) / flat, out).reshape(alpha.shape)


@elementwise
def _truncated_normal(u: float, low: float, high: float) -> float:
    """Return the quantile by bisection, in the tail with small probabilities."""
    if low > -high:
        return -_bisected(1 - u, -high, -low)
    return _bisected(u, low, high)


def _bisected(u: float, low: float, high: float) -> float:
    def below(x: float) -> float:
        return math.erfc(-x / math.sqrt(2))

    wanted = (1 - u) * below(low) + u * below(high)
    low, high = max(low, -40.0), min(high, 40.0)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < wanted else (low, middle)
    return low


_draws(
    "random_keys",
    ex("one", KEY, count=1, domain=philox.SPLIT, data=0),
    ex("many", KEY, count=5, domain=philox.SPLIT, data=0),
    ex("folded", ZERO, count=1, domain=philox.FOLD, data=2**127 + 2**64 + 5),
    constant=True,
)
_draws(
    "random_bits",
    *[ex(dtype, KEY, shape=(3, 5), dtype=dtype) for dtype in philox.WIDTHS],
    ex("0-d", ZERO, shape=(), dtype="uint32"),
    ex("empty", ZERO, shape=(0, 2), dtype="uint64"),
    ex("many", KEY, shape=(40_000,), dtype="uint16"),
    constant=True,
)
_draws(
    "random_uniform",
    ex("double", KEY, shape=(3, 5), dtype="float64", interior=False),
    ex("double, interior", KEY, shape=(3, 5), dtype="float64", interior=True),
    ex("single", KEY, shape=(7,), dtype="float32", interior=False),
    ex("single, interior", KEY, shape=(7,), dtype="float32", interior=True),
    ex("0-d", ZERO, shape=(), dtype="float64", interior=False),
    ex("empty", ZERO, shape=(2, 0), dtype="float32", interior=False),
    ex("many", KEY, shape=(3, 15_000), dtype="float64", interior=True),
    ex("many in single", KEY, shape=(40_003,), dtype="float32", interior=True),
    constant=True,
)
_draws(
    "random_mask",
    ex("a third", KEY, shape=(3, 5), threshold=2**32 // 3),
    ex("never", KEY, shape=(4,), threshold=0),
    ex("always", KEY, shape=(4,), threshold=2**32),
    ex("many", KEY, shape=(40_003,), threshold=2**31 + 5),
    ex("empty", KEY, shape=(0,), threshold=5),
    constant=True,
)
_draws(
    "random_integers",
    ex("small", KEY, low=-3, high=8, shape=(3, 5), dtype="int64"),
    ex("power of two", KEY, low=0, high=256, shape=(9,), dtype="uint8"),
    ex("drawn again", KEY, low=-(2**62), high=5, shape=(40,), dtype="int64"),
    ex("half of all", KEY, low=-(2**63), high=0, shape=(4,), dtype="int64"),
    ex("one", ZERO, low=7, high=8, shape=(), dtype="int32"),
    ex("empty", ZERO, low=0, high=3, shape=(0,), dtype="int32"),
    constant=True,
)
_few = (ex("of one", ZERO, n=1), ex("of none", ZERO, n=0))
_draws("random_permutation", ex("of a thousand", KEY, n=1000), *_few, constant=True)
_draws(
    "random_normal",
    ex("double", KEY, shape=(3, 5), dtype="float64"),
    ex("0-d", ZERO, shape=(), dtype="float64"),
    ex("empty", ZERO, shape=(0, 2), dtype="float64"),
    ex("many", KEY, shape=(40_001,), dtype="float64"),
    constant=True,
)
# the derivative is that of the quantile and not of the drawing, which jumps where another proposal is accepted
_draws(
    "random_log_gamma",
    ex("matrix", KEY, between(0.5, 4.0)(2, 3), implicit=True),
    ex("small", KEY, values([0.02, 0.2, 0.7, 0.99]), implicit=True),
    ex("large", KEY, values([7.0, 40.0, 300.0]), implicit=True),
    ex("0-d", ZERO, between(0.5, 4.0)(), implicit=True),
    ex("empty", ZERO, between(0.5, 4.0)(0, 2), implicit=True),
    reference=_log_gamma,
)
_U = constant([[0.1, 0.5, 0.9], [0.02, 0.7, 0.3]])
_draws(
    "random_truncated_normal",
    ex("around zero", _U, between(-2.0, -0.5)(2, 3), between(0.5, 2.0)(2, 3)),
    ex("above", _U, between(0.4, 1.0)(2, 3), between(1.5, 3.0)(2, 3)),
    ex("below", _U, between(-9.0, -7.0)(2, 3), between(-6.0, -3.0)(2, 3)),
    ex("infinite above", _U, between(-1.0, 3.0)(2, 3), constant(np.full((2, 3), np.inf))),
    ex("infinite below", _U, constant(np.full((2, 3), -np.inf)), between(-1.0, 3.0)(2, 3)),
    ex("far out", constant([0.2, 0.8]), values([12.0, 25.0]), values([13.0, 40.0])),
    ex("0-d", constant(0.3), between(-2.0, -0.5)(), between(0.5, 2.0)()),
    ex("empty", constant(np.zeros((0, 2))), between(-2.0, -0.5)(0, 2), between(0.5, 2.0)(0, 2)),
    reference=lambda xp, *args: _truncated_normal(*args),
)
slow("random_log_gamma")
