"""Random numbers as operations, functions of a key.

Derivatives flow through their other parameters. ``agrad.random`` has the public functions. ``agrad.philox`` defines the
random bits; a backend may register a kernel that computes the same bits faster. Keyword arguments have one form here: a
shape is a tuple, a dtype its name.
"""

import math
from typing import Any

from agrad import philox
from agrad.backends.base import check_digits
from agrad.dtypes import dtype_name
from agrad.ops.definition import primitive
from agrad.ops.special.nodes import legendre_nodes
from agrad.ops.special.normal_forms import erfcx_right
from agrad.shapes import ARRAY, size

SPLIT, FOLD, PAIR = philox.SPLIT, philox.FOLD, philox.PAIR


@primitive(constant="key", batch="loop", name="random_keys")
def keys(xp: Any, key: Any, /, *, count: int, domain: int, data: int) -> Any:
    """Return ``count`` new keys, uint32 of shape (count, 4).

    They are a function of the key, a domain and an integer.
    """
    return philox.keys(xp, philox.generic(xp, key), count, domain, data)


@primitive(constant="key", batch="loop", name="random_bits")
def bits(xp: Any, key: Any, /, *, shape: tuple[int, ...], dtype: str) -> Any:
    """Return unsigned integers of random bits."""
    return philox.bits(xp, philox.generic(xp, key), shape, dtype)


@primitive(constant="key", batch="loop", name="random_uniform")
def uniform(xp: Any, key: Any, /, *, shape: tuple[int, ...], dtype: str, interior: bool) -> Any:
    """Return uniform numbers on [0, 1), or with ``interior`` on the open interval."""
    return philox.uniform(xp, philox.generic(xp, key), shape, dtype, interior)


@primitive(constant="key", batch="loop", name="random_mask")
def mask(xp: Any, key: Any, /, *, shape: tuple[int, ...], threshold: int) -> Any:
    """Return booleans, true with the probability ``threshold`` / 2**32."""
    return philox.mask(xp, philox.generic(xp, key), shape, threshold)


@primitive(constant="key", batch="loop", name="random_integers")
def integers(xp: Any, key: Any, /, *, low: int, high: int, shape: tuple[int, ...], dtype: str) -> Any:
    """Return integers from ``low`` to before ``high``, all of the same probability."""
    return philox.integers(xp, philox.generic(xp, key), low, high, shape, dtype)


@primitive(constant="key", batch="loop", name="random_permutation")
def permutation(xp: Any, key: Any, /, *, n: int) -> Any:
    """Return the integers from 0 to n - 1 in random order."""
    return philox.permutation(xp, philox.generic(xp, key), n)


@primitive(constant="key", batch="loop", name="random_normal")
def normal(xp: Any, key: Any, /, *, shape: tuple[int, ...], dtype: str) -> Any:
    """Return standard normal numbers."""
    n = size(shape)
    pairs = uniform(key, shape=(2, philox.half(n)), dtype=dtype, interior=False)
    return xp.reshape(philox.normal(xp, pairs[0, :], pairs[1, :], n), shape)


# ------------------------------------------------------------------ the gamma distribution

_GAMMA_ROUNDS = 16
"""Rounds of proposals. One is accepted with probability 0.95 or more: all 16 fail for one number in 1e21."""


@primitive(constant="key", batch="loop", name="random_log_gamma")
def log_gamma(xp: Any, key: Any, alpha: Any, /) -> Any:
    """Return the logarithm of gamma distributed numbers.

    ``alpha``: the concentrations, a floating array. G. Marsaglia and W. W. Tsang, "A simple method for generating gamma
    variables", ACM Trans. Math. Softw. 26 (2000). The numbers themselves underflow for a
    small concentration.
    """
    shape = tuple(alpha.shape)
    n = size(shape)
    # in double precision for every dtype: in single, the rounding of backends would accept different proposals
    double = "float64" in xp.__array_namespace_info__().dtypes()
    dtype = "float64" if double else dtype_name(alpha.dtype)
    flat = xp.astype(xp.reshape(alpha, (n,)), getattr(xp, dtype))
    d = xp.where(flat < 1, flat + 1, flat) - 1 / 3
    log_v, accepted = _propose(xp, key, 0, d, dtype)
    for attempt in range(1, _GAMMA_ROUNDS):
        known = philox.truth(xp.all(accepted))
        if known:
            break
        if known is None:  # under another library's trace: proposals for all, those not needed are dropped
            more, success = _propose(xp, key, attempt, d, dtype, ~accepted)
            log_v = xp.where(accepted, log_v, more)
            accepted = accepted | success
        else:
            (left,) = xp.nonzero(~accepted)
            more, success = _propose(xp, key, attempt, xp.getitem(d, left, index=(ARRAY,)), dtype)
            log_v = xp.setitem(log_v, more, left, index=(ARRAY,))
            accepted = xp.setitem(accepted, success, left, index=(ARRAY,))
    out = xp.log(d) + log_v
    if philox.truth(xp.any(flat < 1)) is not False:
        boost = uniform(_attempt_keys(key, _GAMMA_ROUNDS)[0, :], shape=(n,), dtype=dtype, interior=True)
        out = out + xp.where(flat < 1, xp.log(boost) / flat, xp.zeros_like(flat))
    return xp.reshape(xp.astype(out, alpha.dtype), shape)


def _attempt_keys(key: Any, attempt: int) -> Any:
    return keys(key, count=2, domain=philox.ATTEMPT, data=attempt)


def _propose(xp: Any, key: Any, attempt: int, d: Any, dtype: str, refused: Any = None) -> tuple[Any, Any]:
    """Return proposals of log(x / d), and Booleans that are true for accepted ones.

    ``refused``: Booleans of a trace; a number is drawn only for the elements at which they are true.
    """
    pair, (n,) = _attempt_keys(key, attempt), d.shape
    u = uniform(pair[1, :], shape=(n,), dtype=dtype, interior=True)
    if refused is None:
        z = normal(pair[0, :], shape=(n,), dtype=dtype)
    else:
        count = xp.sum(xp.astype(refused, xp.int32))
        rank = xp.where(refused, xp.cumulative_sum(xp.astype(refused, xp.int32)) - 1, 0)
        uniforms = uniform(pair[0, :], shape=(2 * philox.half(n),), dtype=dtype, interior=False)
        half = 4 * ((count + 7) // 8)  # as philox.half
        place = xp.where(rank < half, rank, rank - half)
        both = philox.normal(xp, xp.take(uniforms, place), xp.take(uniforms, place + half), 2 * n)
        z, u = xp.where(rank < half, both[:n], both[n:]), xp.take(u, rank)
    base = 1 + z / (3 * xp.sqrt(d))
    possible = base > 0
    base = xp.where(possible, base, xp.ones_like(base))
    log_v = 3 * xp.log(base)
    accepted = possible & (xp.log(u) < 0.5 * z * z + d * (1 - base * base * base + log_v))
    return xp.where(accepted, log_v, xp.zeros_like(log_v)), accepted


@log_gamma.vjp("alpha")
@log_gamma.jvp("alpha")
def log_gamma_alpha(xp: Any, g: Any, y: Any, alpha: Any) -> Any:
    return g * _slope(xp, alpha, y)


_NODES = [
    (start + (end - start) * node, (end - start) * weight)
    for start, end, count in ((0, 8, 32), (8, 24, 16), (24, 72, 12))
    for node, weight in legendre_nodes(count)
]
"""Nodes and weights for integrands that fall between exp(-s / 2) and a normal density."""


def _slope(xp: Any, a: Any, y: Any) -> Any:
    """Return dy/da of the logarithm y of a gamma-distributed number.

    It is the derivative at a fixed quantile; a is the concentration. M. Figurnov, S. Mohamed and A. Mnih, "Implicit
    reparameterization gradients", NeurIPS 2018: it is minus dP/da / dP/dy, where P(a, exp(y)) is the distribution
    function. With x = exp(y) and psi the digamma function, differentiating P, or 1 - P, under the integral sign and
    substituting t = x exp(-w) yields for x > a + 1

        dy/da = integral over v > 0 of (y - psi(a) + v) exp(a v - x (exp(v) - 1)),

    and otherwise, after one integration by parts, which removes the cancellation for small a,

        a dy/da = psi(a + 1) - y + x integral over v > 0 of (psi(a + 1) - y + v) exp(x (1 - exp(-v)) - (a + 1) v).

    Both integrands fall from the start, at a rate by which v is scaled. All are array operations, so higher derivatives
    follow from them.
    """
    check_digits("the derivative of random.gamma", a)
    x = xp.exp(y)
    beyond = x > a + 1
    rate = xp.where(beyond, a, a + 1)
    sign = xp.where(beyond, -xp.ones_like(x), xp.ones_like(x))
    scale = 1 / (xp.abs(rate - x) + xp.sqrt(xp.where(beyond, x, rate)))
    flat, first = xp.zeros_like(x), xp.zeros_like(x)
    for s, weight in _NODES:
        w = sign * scale * s
        part = weight * xp.exp(-x * xp.expm1(-w) - rate * w)
        flat = flat + part
        first = first + s * part
    flat, first = scale * flat, scale * scale * first
    gap = _digamma_gap(xp, a, y, x)
    return xp.where(beyond, (1 / a - gap) * flat + first, (gap + x * (gap * flat + first)) / a)


def _digamma_gap(xp: Any, a: Any, y: Any, x: Any) -> Any:
    """Return the digamma function of a + 1, for a >= 0, less y = log(x).

    By eight steps of its recurrence, then its series. NIST Digital Library of Mathematical Functions, 5.5.2 and 5.11.2.
    The logarithms are combined if possible, because their difference is small relative to them for large a.
    """
    t = a + 9
    inverse = 1 / (t * t)
    series = -1 / 12
    for coefficient in (691 / 32760, -1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12):
        series = coefficient + series * inverse
    together = x > 0.1
    logarithms = xp.where(together, xp.log(t / xp.where(together, x, xp.ones_like(x))), xp.log(t) - y)
    out = logarithms - 0.5 / t + series * inverse
    for k in range(1, 9):
        out = out - 1 / (a + k)
    return out


# ------------------------------------------------------------------ the truncated normal distribution


@primitive(constant="u", batch="leading", broadcasts=True, name="random_truncated_normal")
def truncated_normal(xp: Any, u: Any, low: Any, high: Any, /) -> Any:
    """Return the number at a quantile of a normal distribution between two bounds.

    ``u``: the quantile, in the interior of [0, 1]; the distribution is the standard normal one. All three are arrays of
    one shape and dtype. Solved in the logarithm of the distribution function, by Newton's method: bounds
    may be as far out in the tails as their squares are finite.
    """
    check_digits("random_truncated_normal", u)
    above = low > -high  # the mirror image is solved if more of the interval is above 0
    a, b = xp.where(above, -high, low), xp.where(above, -low, high)
    p = xp.where(above, 1 - u, u)
    # the logarithms of the distribution function at z and of its difference to 1
    log_a = _log_tail(xp, -a)
    inside = xp.minimum(b, -b)
    log_inside = _log_tail(xp, -inside)
    log_b = xp.where(b < 0, log_inside, xp.log1p(-xp.exp(log_inside)))
    log_rest_b = xp.where(b < 0, xp.zeros_like(b), log_inside)
    log_below = log_b + xp.log(p + (1 - p) * xp.exp(log_a - log_b))
    rest = (1 - p) * (1 - xp.exp(log_a)) + p * xp.exp(log_rest_b)
    right = log_below > math.log(0.5)
    log_q = xp.where(right, xp.log(xp.where(right, rest, xp.ones_like(rest))), log_below)
    z = _quantile(xp, xp.minimum(log_q, xp.full_like(log_q, math.log(0.5))))
    z = xp.where(right, -z, z)
    z = xp.minimum(xp.maximum(z, a), b)
    return xp.where(above, -z, z)


def _log_tail(xp: Any, x: Any) -> Any:
    """Return the logarithm of the probability of a standard normal number above x.

    x >= 0; -inf at infinity.
    """
    far = xp.isinf(x)
    s = xp.where(far, xp.ones_like(x), x) / math.sqrt(2)
    # exp(s * s) erfc(s) does not underflow
    return xp.where(far, -x, xp.log(erfcx_right(xp, s)) - s * s - math.log(2))


def _quantile(xp: Any, log_p: Any) -> Any:
    """Return the z <= 0 whose distribution function has this logarithm (<= log(1/2)).

    From the rational approximation 26.2.22 of Abramowitz and Stegun by Newton's method, which converges from either
    side as the logarithm is concave.
    """
    t = xp.sqrt(-2 * log_p)
    z = (2.30753 + 0.27061 * t) / (1 + (0.99229 + 0.04481 * t) * t) - t
    for _ in range(4):
        z = xp.minimum(z, xp.zeros_like(z))
        log_phi = _log_tail(xp, -z)
        z = z - (log_phi - log_p) * xp.exp(log_phi + 0.5 * z * z) * math.sqrt(2 * math.pi)
    return z


@truncated_normal.vjp("low")
@truncated_normal.jvp("low")
def truncated_normal_low(xp: Any, g: Any, y: Any, u: Any, low: Any) -> Any:
    return g * (1 - u) * _density_ratio(xp, low, y)


@truncated_normal.vjp("high")
@truncated_normal.jvp("high")
def truncated_normal_high(xp: Any, g: Any, y: Any, u: Any, high: Any) -> Any:
    return g * u * _density_ratio(xp, high, y)


def _density_ratio(xp: Any, bound: Any, z: Any) -> Any:
    """Return the normal density at a bound over that at z; 0 at an infinite bound."""
    finite = xp.isfinite(bound)
    near = xp.where(finite, bound, z)
    return xp.where(finite, xp.exp(0.5 * (z - near) * (z + near)), xp.zeros_like(z))
