"""Generic forms of the incomplete gamma and beta functions and their derivatives.

Both are integrals of a density. Their derivatives with respect to the parameters are integrals of the density times a
polynomial in its logarithmic derivatives. In the variable log(t), or logit(t), the density falls monotonically from the
argument away from the mode. The smaller of the two tails is integrated with Gauss-Legendre nodes, up to the point at
which the integrand has fallen by exp(-FALL): nothing cancels.
"""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from agrad.ops.special.coefficients import GAMMALN
from agrad.ops.special.gamma_forms import DIGAMMA_TAIL, by_library, digamma, polygamma, stirling_rest
from agrad.ops.special.nodes import legendre_nodes
from agrad.ops.special.series import chebyshev, log1p_minus, log1p_minus_near, nan_where, polynomial

FALL = 40.0
NODES = 48
AT_ONCE = 1 << 14
"""The maximum number of elements, at all nodes together, computed at once. Fewer calls need less time."""


def bell(n: int, slopes: Callable[[int], Any]) -> Any:
    """Return the n-th derivative of exp(f), divided by it.

    ``slopes(k)`` is the (k + 1)-th derivative of f.
    """
    return bell_pair(n, 0, lambda i, _: slopes(i - 1))


def bell_pair(n: int, m: int, slopes: Callable[[int, int], Any]) -> Any:
    """Return the mixed derivative of exp(f(a, b)) of orders n and m, divided by it.

    n counts derivatives with respect to a, m with respect to b. ``slopes(i, j)`` is the derivative of f.
    """
    known: dict[tuple[int, int], Any] = {(0, 0): 1.0}
    for j in range(1, m + 1):
        known[0, j] = sum(math.comb(j - 1, k) * known[0, j - 1 - k] * slopes(0, k + 1) for k in range(j))
    for i in range(1, n + 1):
        for j in range(m + 1):
            known[i, j] = sum(
                math.comb(i - 1, k) * math.comb(j, q) * known[i - 1 - k, j - q] * slopes(k + 1, q)
                for k in range(i)
                for q in range(j + 1)
            )
    return known[n, m]


def _expm1_minus(xp: Any, s: Any) -> Any:
    """Return exp(s) - 1 - s."""
    small = xp.abs(s) < 0.5
    near = xp.where(small, s, xp.zeros_like(s))
    series = near * near * polynomial([1 / math.factorial(k) for k in range(17, 1, -1)], near)
    return xp.where(small, series, xp.expm1(s) - s)


def log_digamma_gap(xp: Any, z: Any) -> Any:
    """Return log(z) - digamma(z) for z > 0, accurate for large z."""
    large = z >= 10
    far = xp.where(large, z, xp.full_like(z, 10.0))
    square = 1 / (far * far)
    near = xp.where(large, xp.ones_like(z), z)
    gap = xp.log(near) - by_library(xp, "digamma", digamma, near)
    return xp.where(large, 0.5 / far + square * polynomial(DIGAMMA_TAIL, square), gap)


def _log_quotient(xp: Any, u: Any, exactly: Any) -> tuple[Any, Any]:
    """Return log(1 + u) - u and log(1 + u).

    log(1 + u) is ``exactly`` for u far from 0.
    """
    small = xp.abs(u) < 0.5
    near = xp.where(small, u, xp.zeros_like(u))
    return xp.where(small, log1p_minus_near(near), exactly - u), xp.where(small, xp.log1p(near), exactly)


def _nodes_beside(xp: Any, x: Any) -> Iterator[tuple[Any, Any]]:
    """Yield nodes and weights along a new first axis, for an integral at each element: all at once of few elements."""
    pairs = legendre_nodes(NODES)
    some, zero = max(1, AT_ONCE // max(1, math.prod(x.shape))), xp.zeros_like(x)
    for start in range(0, NODES, some):
        parts = zip(*pairs[start : start + some], strict=True)
        nodes, weights = (xp.stack([zero + number for number in part]) for part in parts)
        yield nodes, weights


# ------------------------------------------------------------------ gamma


def _gamma_front(xp: Any, a: Any, x: Any) -> tuple[Any, Any]:
    """Return x**a exp(-x) / gamma(a), and log(x / a), for a, x > 0."""
    exponent, quotient = _gamma_exponent(xp, a, x)
    return xp.sqrt(a / (2 * math.pi)) * xp.exp(exponent), quotient


def _gamma_exponent(xp: Any, a: Any, x: Any) -> tuple[Any, Any]:
    less, quotient = _log_quotient(xp, (x - a) / a, xp.log(x) - xp.log(a))
    return a * less - stirling_rest(xp, a), quotient


def log_gamma_density(xp: Any, a: Any, x: Any) -> Any:
    """Return the logarithm of ``gamma_density``, for a, x > 0; nothing cancels."""
    return 0.5 * xp.log(a / (2 * math.pi)) + _gamma_exponent(xp, a, x)[0] - xp.log(x)


def gamma_density(xp: Any, a: Any, x: Any) -> Any:
    """Return x**(a - 1) exp(-x) / gamma(a), for a > 0 and x >= 0."""
    valid = (a > 0) & (x > 0) & (x < math.inf)
    a1, x1 = xp.where(valid, a, xp.ones_like(a)), xp.where(valid, x, xp.ones_like(x))
    scale, exponent = a1 / (2 * math.pi), _gamma_exponent(xp, a1, x1)[0]
    front = xp.sqrt(scale) * xp.exp(exponent)
    # where the front underflows the density may not
    inside = xp.where(front > 1e-290, front / x1, xp.exp(0.5 * xp.log(scale) + exponent - xp.log(x1)))
    zero = xp.zeros_like(inside)
    at_zero = xp.where(a < 1, math.inf, xp.where(a == 1, zero + 1, zero))
    edge = xp.where(x == 0, at_zero, zero)
    return nan_where(xp, (a <= 0) | (x < 0) | xp.isnan(a) | xp.isnan(x), xp.where(valid, inside, edge))


def _alternating_powers(xp: Any, x: Any) -> Iterator[tuple[Any, Any, Callable[[Any], Any]]]:
    """Yield k from 1 on, (-x)**k / k!, and the function that adds the terms of several k: on NumPy of all."""
    if isinstance(x, np.ndarray):
        k = np.arange(1.0, 20.0).reshape(-1, *[1] * x.ndim)
        yield k, np.cumprod(-x / k, axis=0), functools.partial(np.sum, axis=0)
        return
    power = xp.ones_like(x)
    for k in range(1, 20):
        power = power * (-x) / k
        yield k, power, lambda term: term


def _small_gamma(xp: Any, a: Any, x: Any, n: int) -> tuple[Any, Any]:
    """Return P and Q, or their n-th derivatives in a, for 0 < a <= 1, 0 < x <= 1.

    P = x**a / gamma(1 + a) S, S = 1 + the sum of (-x)**k / k! a / (a + k); Abramowitz and Stegun 6.5.29.
    """
    sums = [xp.zeros_like(a) for _ in range(n + 1)]
    for k, power, added in _alternating_powers(xp, x):
        sums[0] = sums[0] + added(power * a / (a + k))
        for j in range(1, n + 1):
            sums[j] = sums[j] - added(power * (k * (-1) ** j * math.factorial(j)) / (a + k) ** (j + 1))
    half = a < 0.5
    low, high = xp.where(half, a, xp.zeros_like(a)), xp.where(half, xp.ones_like(a), a)
    # log(gamma(1 + a)), without rounding 1 + a for small a
    near = (1 + low) * low * chebyshev(GAMMALN, 1.5, 2.5, 2 + low) - xp.log1p(low)
    log_gamma = xp.where(half, near, high * (high - 1) * chebyshev(GAMMALN, 1.5, 2.5, 1 + high))
    log_x = xp.log(x)
    log_front = a * log_x - log_gamma
    if n == 0:
        log_p = log_front + xp.log1p(sums[0])
        return xp.exp(log_p), -xp.expm1(log_p)
    sums[0] = 1 + sums[0]
    digammas = by_library(xp, "digamma", digamma, 1 + a)
    slopes = [log_x - digammas, *(-polygamma(xp, xp.full_like(a, float(k)), 1 + a) for k in range(1, n))]
    total = sum(math.comb(n, k) * bell(n - k, lambda i: slopes[i]) * sums[k] for k in range(n + 1))
    out = xp.exp(log_front) * total
    return out, -out


def _gamma_tail(xp: Any, a: Any, x: Any, lower: Any, n: int) -> Any:
    """Return the integral of the density, or of its n-th derivative in a.

    It is over t < x if ``lower``, otherwise over t > x. It is below the mode in log(t), x < a, if ``lower``, otherwise
    above it.
    """
    front, quotient = _gamma_front(xp, a, x)
    side = xp.where(lower, -1.0, xp.ones_like(x))
    slope = xp.abs(x - a)

    def fall(s: Any) -> Any:
        # of a log(t) - t from t = x to t = x exp(side s)
        return slope * s + x * _expm1_minus(xp, side * s)

    # Newton's method from an upper bound: the fall is convex
    k = FALL / a
    below = 0.5 * (k + xp.sqrt(k * k + 8 * k))
    above = xp.minimum(xp.sqrt(2 * FALL / x), xp.log(10 + FALL / x))
    end = xp.where(lower, below, above)
    for _ in range(8):
        end = end - (fall(end) - FALL) / (slope + x * side * xp.expm1(side * end))
    gap = log_digamma_gap(xp, a) if n else None
    higher = [-polygamma(xp, xp.full_like(a, float(k)), a) for k in range(1, n)]
    total = xp.zeros_like(x)
    for nodes, weights in _nodes_beside(xp, x):
        s = end * nodes
        value = xp.exp(-fall(s))
        if n:
            first = quotient + side * s + gap
            value = value * bell(n, lambda i, first=first: first if i == 0 else higher[i - 1])
        total = total + xp.sum(weights * value, axis=0)
    return front * end * total


NEAR, TERMS = 2.5, 28
"""The longest integral whose exponents are polynomials of the nodes, with so many terms."""

BLOCK = 1 << 10
"""The elements of NumPy arrays that are integrated at once: with all nodes they fit into the cache."""


@functools.cache
def _node_matrices() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the nodes, their powers from the first on, and the weights of two moments."""
    nodes, weights = np.asarray(legendre_nodes(NODES)).T
    return nodes, nodes[:, None] ** np.arange(1, TERMS + 1), np.stack([weights, weights * nodes])


def _gamma_moments(slope: np.ndarray, x: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return the integrals over s from 0 to 1 of exp(-fall(abs(step) s)), and of that times s.

    The exponents are sums of powers if all steps are short, otherwise they are exponential functions.
    """
    nodes, powers, weights = _node_matrices()
    if np.abs(step).max() <= NEAR:
        terms, term = np.empty((TERMS, x.size)), x * step
        np.multiply(slope, np.abs(step), out=terms[0])
        for k in range(1, TERMS):
            np.multiply(term, step / (k + 1), out=term)
            terms[k] = term
        fall = powers @ terms
    else:
        fall = np.multiply.outer(nodes, step)
        rise = np.exp(fall) - 1 - fall
        np.multiply(np.abs(fall, out=fall), slope, out=fall)
        np.add(fall, np.multiply(rise, x, out=rise), out=fall)
    return weights @ np.exp(np.negative(fall, out=fall), out=fall)


def _gamma_tail_of_vector(xp: Any, a: np.ndarray, x: np.ndarray, n: int) -> np.ndarray:
    """Return ``_gamma_tail`` for n of 0 or 1, and NumPy vectors."""
    front, quotient = _gamma_front(xp, a, x)
    side, slope, k = np.where(x < a, -1.0, 1.0), np.abs(x - a), FALL / a
    with np.errstate(divide="ignore"):
        end = np.minimum(np.where(x < a, 0.5 * (k + np.sqrt(k * k + 8 * k)), np.log(10 + FALL / x)), FALL / slope)
    end = np.where(x < a, end, np.minimum(end, np.sqrt(2 * FALL / x)))
    for _ in range(2):  # roughly: the integrals are precise for every end
        step = side * end
        push = np.expm1(step)
        rise = np.where(end < 1e-3, step * step / 2, push - step)
        end = end - (slope * end + x * rise - FALL) / (slope + x * side * push)
    step, moments = side * end, np.empty((2, x.size))
    for part in (np.flatnonzero(end <= NEAR), np.flatnonzero(end > NEAR)):
        for k in range(0, part.size, BLOCK):
            some = part[k : k + BLOCK]
            moments[:, some] = _gamma_moments(slope[some], x[some], step[some])
    if n:
        return front * end * ((quotient + log_digamma_gap(xp, a)) * moments[0] + step * moments[1])
    return front * end * moments[0]


def _gamma_both(xp: Any, a: Any, x: Any, n: int) -> tuple[Any, Any]:
    """Return P and Q, or their n-th derivatives with respect to a."""
    a, x = a + xp.zeros_like(x), x + xp.zeros_like(a)
    valid = (a > 0) & (x > 0) & (a < math.inf) & (x < math.inf)
    one = xp.ones_like(a)
    small = valid & (a <= 1) & (x <= 1)
    known = isinstance(small, np.ndarray)
    if known:
        p, q = np.zeros((2, *small.shape))
        if small.any():
            p[small], q[small] = _small_gamma(xp, a[small], x[small], n)
    else:
        p, q = _small_gamma(xp, xp.where(small, a, one), xp.where(small, x, one), n)
    whole = valid & ~small
    a1, x1 = xp.where(whole, a, 2 * one), xp.where(whole, x, one)
    lower = x1 < a1
    if known and n < 2:
        tail = _gamma_tail_of_vector(xp, a1.reshape(-1), x1.reshape(-1), n).reshape(a.shape)
    else:
        tail = _gamma_tail(xp, a1, x1, lower, n)
    other = 1 - tail if n == 0 else -tail
    p = xp.where(small, p, xp.where(lower, tail, other))
    q = xp.where(small, q, xp.where(lower, other, tail))
    if n == 0:
        zero = xp.zeros_like(a)
        full = ((x > 0) & (a == 0)) | ((x == math.inf) & (a < math.inf))
        p = xp.where(valid, p, xp.where(full, one, zero))
        q = xp.where(valid, q, xp.where(full, zero, one))
    else:
        p, q = (xp.where(valid, value, xp.zeros_like(a)) for value in (p, q))
    bad = (a < 0) | (x < 0) | xp.isnan(a) | xp.isnan(x) | ((a == 0) & (x == 0)) | ((a == math.inf) & (x == math.inf))
    return nan_where(xp, bad, p), nan_where(xp, bad, q)


def gammainc(xp: Any, a: Any, x: Any) -> Any:
    """Return the regularized lower incomplete gamma function.

    It is 1/gamma(a) times the integral of t**(a - 1) exp(-t) from 0 to x, the distribution function of the gamma
    distribution.

    Examples
    --------
    >>> agrad.special.gammainc(2.0, np.asarray([0.0, 1.0, 10.0])).round(6)
    array([0.      , 0.264241, 0.999501])
    >>> slopes = agrad.grad(agrad.special.gammainc, argnums=(0, 1))(2.0, 1.0)
    >>> [round(float(slope), 6) for slope in slopes]
    [-0.276196, 0.367879]
    """
    return _gamma_both(xp, a, x, 0)[0]


def gammaincc(xp: Any, a: Any, x: Any) -> Any:
    """Return the regularized upper incomplete gamma function.

    It is 1 - gammainc(a, x), accurate if the result is small.

    Examples
    --------
    >>> agrad.special.gammaincc(2.0, np.asarray([0.0, 1.0, 10.0])).round(6)
    array([1.00000e+00, 7.35759e-01, 4.99000e-04])
    """
    return _gamma_both(xp, a, x, 0)[1]


def gammainc_by_a(xp: Any, a: Any, x: Any, *, n: int) -> Any:
    """Return the n-th derivative of ``gammainc`` by a."""
    return _gamma_both(xp, a, x, n)[0]


# ------------------------------------------------------------------ beta


def _beta_front(xp: Any, a: Any, b: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
    """Return x**a y**b / beta(a, b) and two logarithms, for y = 1 - x.

    They are the logarithms of x (a + b) / a and of y (a + b) / b.
    """
    exponent, *quotients = _beta_exponent(xp, a, b, x, y)
    scale = xp.sqrt(a / (2 * math.pi)) * xp.sqrt(b / (a + b))
    return scale * xp.exp(exponent), *quotients


def _beta_exponent(xp: Any, a: Any, b: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
    off = x * b - y * a
    log_sum = xp.log(a + b)
    less_a, quotient_a = _log_quotient(xp, off / a, xp.log(x) + log_sum - xp.log(a))
    less_b, quotient_b = _log_quotient(xp, -off / b, xp.log(y) + log_sum - xp.log(b))
    rest = stirling_rest(xp, a + b) - stirling_rest(xp, a) - stirling_rest(xp, b)
    return a * less_a + b * less_b + rest, quotient_a, quotient_b


def log_beta_density(xp: Any, a: Any, b: Any, x: Any) -> Any:
    """Return the logarithm of ``beta_density``, for 0 < x < 1; nothing cancels."""
    y = 1 - x
    scale = 0.5 * xp.log(a / (2 * math.pi)) + 0.5 * xp.log(b / (a + b))
    return scale + _beta_exponent(xp, a, b, x, y)[0] - xp.log(x) - xp.log(y)


def beta_density(xp: Any, a: Any, b: Any, x: Any) -> Any:
    """Return x**(a - 1) (1 - x)**(b - 1) / beta(a, b).

    For a, b > 0 and 0 <= x <= 1.
    """
    a, b, x = (v + xp.zeros_like(a + b + x) for v in (a, b, x))
    valid = (a > 0) & (b > 0) & (x > 0) & (x < 1)
    one = xp.ones_like(a)
    a1, b1, x1 = xp.where(valid, a, one), xp.where(valid, b, one), xp.where(valid, x, 0.5 * one)
    y1, scale = 1 - x1, a1 / (2 * math.pi) * (b1 / (a1 + b1))
    exponent = _beta_exponent(xp, a1, b1, x1, y1)[0]
    front, log = xp.sqrt(scale) * xp.exp(exponent), 0.5 * xp.log(scale) + exponent - xp.log(x1) - xp.log(y1)
    inside = xp.where(front > 1e-290, front / (x1 * y1), xp.exp(log))
    zero = xp.zeros_like(inside)
    first = xp.where(a < 1, math.inf, xp.where(a == 1, b, zero))
    last = xp.where(b < 1, math.inf, xp.where(b == 1, a, zero))
    edge = xp.where(x == 0, first, xp.where(x == 1, last, zero))
    bad = ~((a > 0) & (b > 0) & (x >= 0) & (x <= 1))
    return nan_where(xp, bad, xp.where(valid, inside, edge))


_RAISED = 3
"""The steps by which a parameter is raised before the integration: then exp(a s) falls fast enough."""


def _log_slopes(
    xp: Any, at: Any, top: Any, b: Any, quotients: list[Any], swapped: Any, orders: int
) -> Callable[..., Any]:
    """Return the derivatives in the parameters of the logarithm of a beta term.

    The term is x**at y**b gamma(at + b) / (gamma(top) gamma(b)); the parameters are those before the exchange.
    ``quotients``: the logarithms that ``_beta_front`` returns. ``orders``: the highest order that is requested.
    """
    gap_sum = log_digamma_gap(xp, at + b)
    by_a = quotients[0] + log_digamma_gap(xp, at) - gap_sum - (0 if top is at else 1 / at)
    by_b = quotients[1] + log_digamma_gap(xp, b) - gap_sum
    count = range(1, orders)
    whole = {k: xp.full_like(b, float(k)) for k in count}
    of_sum = {k: polygamma(xp, whole[k], at + b) for k in count}
    of_a = {k: of_sum[k] - polygamma(xp, whole[k], top) for k in count}
    of_b = {k: of_sum[k] - polygamma(xp, whole[k], b) for k in count}

    def slopes(i: int, j: int, shift_a: Any = 0.0, shift_b: Any = 0.0) -> Any:
        if i and j:
            return of_sum[i + j - 1]
        if i + j == 1:
            mine, other = by_a + shift_a, by_b + shift_b
            return xp.where(swapped, other, mine) if i else xp.where(swapped, mine, other)
        k = i + j - 1
        return xp.where(swapped, of_b[k], of_a[k]) if i else xp.where(swapped, of_a[k], of_b[k])

    return slopes


def _beta_tail(xp: Any, a: Any, b: Any, x: Any, y: Any, swapped: Any, n: int, m: int) -> Any:
    """Return the integral from 0 to x of the density (a, b), or its derivative.

    For x at or below the mean. I(a, b) = x**a y**b / (a beta(a, b)) + I(a + 1, b) raises a first; Abramowitz and Stegun
    26.5.16. ``swapped``: True if a and b are exchanged, and ``n`` counts derivatives with respect to b.
    """
    total = xp.zeros_like(x)
    derivative = n + m > 0

    for k in range(_RAISED):
        at = a + k
        front, *quotients = _beta_front(xp, at, b, x, y)
        term = front / at
        if derivative:
            term = term * bell_pair(n, m, _log_slopes(xp, at, at + 1, b, quotients, swapped, n + m))
        total = total + term
    at = a + _RAISED
    front, *quotients = _beta_front(xp, at, b, x, y)
    whole = at + b
    slope = xp.maximum(y * at - x * b, xp.zeros_like(x))

    def parts(s: Any) -> tuple[Any, Any]:
        """Return the fall from logit(t) = logit(x) to logit(x) - s, and log(x / t)."""
        growth = y * xp.expm1(s)
        fall = slope * s + whole * (log1p_minus(xp, growth) + y * _expm1_minus(xp, s))
        return fall, xp.log1p(growth)

    end = xp.clip((FALL - whole * xp.log(y)) / at, 0.0, 600.0)
    for _ in range(12):
        fall, _log = parts(end)
        steep = slope + whole * y * xp.expm1(end) * x / (1 + y * xp.expm1(end))
        end = end - (fall - FALL) / steep
    # the integral is split at t = 1/2, the point nearest to the poles of the integrand
    middle = xp.maximum(xp.log(x) - xp.log(y), xp.zeros_like(x))
    middle = xp.minimum(middle, end)
    slopes = _log_slopes(xp, at, at, b, quotients, swapped, n + m) if derivative else None
    inner = xp.zeros_like(x)
    for start, length in ((xp.zeros_like(x), middle), (middle, end - middle)):
        for nodes, weights in _nodes_beside(xp, x):
            s = start + length * nodes
            fall, log = parts(s)
            value = weights * length * xp.exp(-fall)
            if slopes is not None:
                value = value * bell_pair(n, m, lambda i, j, s=s, log=log: slopes(i, j, -log, s - log))
            inner = inner + xp.sum(value, axis=0)
    return total + front * inner


def _beta_lower(xp: Any, a: Any, b: Any, x: Any, n: int, m: int) -> Any:
    a, b, x = (v + xp.zeros_like(a + b + x) for v in (a, b, x))
    valid = (a > 0) & (b > 0) & (x > 0) & (x < 1) & (a < math.inf) & (b < math.inf)
    one = xp.ones_like(a)
    a1, b1, x1 = xp.where(valid, a, one), xp.where(valid, b, one), xp.where(valid, x, 0.5 * one)
    y1 = 1 - x1
    swapped = x1 * b1 > y1 * a1
    tail = _beta_tail(
        xp,
        xp.where(swapped, b1, a1),
        xp.where(swapped, a1, b1),
        xp.where(swapped, y1, x1),
        xp.where(swapped, x1, y1),
        swapped,
        n,
        m,
    )
    inside = xp.where(swapped, 1 - tail if n + m == 0 else -tail, tail)
    edge = xp.zeros_like(x)
    if n + m == 0:
        full = (x == 1) | ((a == 0) & (b > 0) & (x > 0)) | ((b == math.inf) & (x > 0))
        edge = xp.where(full, one, edge)
    bad = ~((a >= 0) & (b >= 0) & (x >= 0) & (x <= 1)) | ((a == 0) & (b == 0))
    return nan_where(xp, bad, xp.where(valid, inside, edge))


def betainc(xp: Any, a: Any, b: Any, x: Any) -> Any:
    """Return the regularized incomplete beta function.

    It is 1/beta(a, b) times the integral of t**(a - 1) (1 - t)**(b - 1) from 0 to x, the distribution function of the
    beta distribution.

    Examples
    --------
    >>> agrad.special.betainc(2.0, 3.0, np.asarray([0.0, 0.5, 1.0])).round(6)
    array([0.    , 0.6875, 1.    ])
    >>> slopes = agrad.grad(agrad.special.betainc, argnums=(0, 1, 2))(2.0, 3.0, 0.5)
    >>> [round(float(slope), 6) for slope in slopes]
    [-0.195289, 0.154108, 1.5]
    """
    return _beta_lower(xp, a, b, x, 0, 0)


def betainc_by_parameters(xp: Any, a: Any, b: Any, x: Any, *, n: int, m: int) -> Any:
    """Return the derivative of ``betainc``, n times by a and m times by b."""
    return _beta_lower(xp, a, b, x, n, m)
