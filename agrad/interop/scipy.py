"""SciPy ufuncs for Tensors, and their names in ``agrad.special``.

``agrad.special`` contains the functions that are primitives. This module contains compositions of them with the SciPy
names: distributions, Box-Cox transformations, losses. All are differentiable in every order with respect to
floating-point arguments. Counts (``k`` of ``bdtr``, ``nbdtr``, ``pdtr``) are rounded down and not differentiable.
"""

import functools
import inspect
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import Tensor, special
from agrad.errors import RefusedFunctionError
from agrad.interop.arguments import alike, constant, operands
from agrad.interop.table import UFUNCS

Function = Callable[..., Any]

WORDS: dict[str, Function] = {}
"""Functions with SciPy names that ``agrad.special`` lacks."""

_OTHER_NAMES = {"psi": special.digamma, "jv": special.jn}
"""Functions that have another name in ``agrad.special``."""

_DEGREE = math.pi / 180


def scipy_name(name: str, what: str = "", arguments: str = "", result: str = "") -> Callable[[Function], Function]:
    """Register a function of Tensors of one floating dtype by its SciPy name.

    Its docstring has the first line and the examples of the function's, or what it returns and one call.
    """
    first, examples = f"Return {what}.", f"\n>>> special.{name}({arguments}).round(6)\narray({result})"

    def file(function: Function) -> Function:
        def on_tensors(*values: Any) -> Any:
            return function(*alike(*values, floating=True))

        described = (inspect.getdoc(function) or "").partition("\n\nExamples\n--------")[::2]
        text = (first, examples) if what else described
        on_tensors.__name__, on_tensors.__doc__ = name, documentation(*text)
        WORDS[name] = on_tensors
        return function

    return file


def documentation(first: str, examples: str) -> str:
    """Return the docstring of a function of ``scipy.special``."""
    return f"""{first}

Parameters
----------
*values : arrays
    Real arguments of the SciPy function, by position. They must broadcast.

Returns
-------
array
    Array of the broadcast shape and a floating dtype.

Examples
--------
>>> from agrad.scipy import special{examples}"""


def special_function(name: str) -> Function | None:
    """Return a function with a SciPy name that ``agrad.special`` lacks, or None."""
    return WORDS.get(name) or _OTHER_NAMES.get(name)


def find_ufunc(ufunc: np.ufunc) -> Function | None:
    """Register and return the handler of a SciPy ufunc, or None for others.

    Raises ``RefusedFunctionError``, a ``TypeError``, for a SciPy ufunc without a counterpart.
    """
    name = ufunc.__name__
    if getattr(sys.modules.get("scipy.special._ufuncs"), name, None) is not ufunc:
        return None
    function = special_function(name) or special.__dict__.get(name)
    if function is None:
        raise RefusedFunctionError(
            f"scipy.special.{name} has no counterpart in agrad.special. Write it as an @agrad.primitive with its "
            "derivative, or call it on x.detach().numpy()."
        )

    def handler(*values: Any) -> Any:
        if name in ("iv", "jv"):
            # the order of a Bessel function is not differentiable; jn accepts one number as its order
            order = values[0]
            if isinstance(order, Tensor) and order.requires_grad:
                raise RefusedFunctionError(
                    f"scipy.special.{name} is not differentiable with respect to its order. Detach it: x.detach()."
                )
            if name == "jv":
                return function(np.asarray(order).item(), values[1])
        return function(*operands(*values, floating=True))

    UFUNCS[ufunc] = handler
    return handler


def _over(function: Function, x: Any, radius: float, coefficients: list[float]) -> Any:
    """Return function(x) / x, by its series nearer to 0 than ``radius``."""
    near = agrad.abs(x) < radius
    inside = agrad.where(near, x, agrad.zeros_like(x))
    outside = agrad.where(near, agrad.ones_like(x), x)
    series: Any = coefficients[-1]
    for c in coefficients[-2::-1]:
        series = series * inside + c
    return agrad.where(near, series, function(outside) / outside)


def _exp_minus_1_over(x: Any) -> Any:
    """Return (exp(x) - 1) / x, by its series near 0, because the quotient cancels there."""
    end = x == math.inf
    return agrad.where(end, x, _exp_over(agrad.where(end, agrad.zeros_like(x), x)))


def _exp_over(x: Any) -> Any:
    return _over(agrad.expm1, x, 0.5, [1 / math.factorial(n + 1) for n in range(16)])


def _log1p_over(x: Any) -> Any:
    """Return log(1 + x) / x, by its series near 0, because the quotient cancels there."""
    return _over(agrad.log1p, x, 0.1, [(-1.0) ** n / (n + 1) for n in range(18)])


def _within(domain: Any, value: Any) -> Any:
    """Return ``value`` in its domain; elsewhere it and its derivative are nan."""
    return agrad.where(domain, value, value * math.nan)


def _turned(x: Any) -> tuple[Any, Any, Any]:
    """Split degrees into quarter turns and a rest; return its sine and cosine."""
    turns = agrad.round(x / 90)
    rest = (x - 90 * turns) * _DEGREE
    return agrad.remainder(turns, 4.0), agrad.sin(rest), agrad.cos(rest)


def _sine(turns: Any, sine: Any, cosine: Any) -> Any:
    value = agrad.where(agrad.remainder(turns, 2.0) == 0, sine, cosine)
    return agrad.where(turns >= 2, -value, value)


@scipy_name("sindg")
def _sindg(x: Any) -> Any:
    """Return the sine of an angle in degrees.

    Examples
    --------
    >>> special.sindg(np.asarray([30.0, 90.0])).round(6)
    array([0.5, 1. ])
    >>> round(float(agrad.grad(special.sindg)(0.0)), 6)
    0.017453
    """
    return _sine(*_turned(x))


@scipy_name("cosdg")
def _cosdg(x: Any) -> Any:
    """Return the cosine of an angle in degrees.

    Examples
    --------
    >>> special.cosdg(np.asarray([60.0, 0.0])).round(6)
    array([0.5, 1. ])
    >>> round(float(agrad.grad(special.cosdg)(90.0)), 6)
    -0.017453
    """
    turns, sine, cosine = _turned(x)
    return _sine(agrad.remainder(turns + 1, 4.0), sine, cosine)


@scipy_name("tandg")
def _tandg(x: Any) -> Any:
    """Return the tangent of an angle in degrees.

    Examples
    --------
    >>> special.tandg(np.asarray([30.0, 45.0])).round(6)
    array([0.57735, 1.     ])
    >>> round(float(agrad.grad(special.tandg)(45.0)), 6)
    0.034907
    """
    return _sindg(x) / _cosdg(x)


@scipy_name("cotdg")
def _cotdg(x: Any) -> Any:
    """Return the cotangent of an angle in degrees.

    Examples
    --------
    >>> special.cotdg(np.asarray([30.0, 45.0])).round(6)
    array([1.732051, 1.      ])
    >>> round(float(agrad.grad(special.cotdg)(45.0)), 6)
    -0.034907
    """
    return _cosdg(x) / _sindg(x)


@scipy_name("rgamma")
def _rgamma(x: Any) -> Any:
    """Return 1 / gamma(x).

    Examples
    --------
    >>> special.rgamma(np.asarray([0.5, 1.0])).round(6)
    array([0.56419, 1.     ])
    >>> round(float(agrad.grad(special.rgamma)(0.5)), 6)
    1.107792
    """
    # by reflection below 1/2: at the zeros 0, -1, -2, ... the derivative of 1 / gamma(x) would be NaN
    right = x > 0.5
    above = agrad.where(right, x, agrad.ones_like(x))
    below = agrad.where(right, agrad.zeros_like(x), x)
    mirrored = _waved(special.gamma(1 - below), below) / math.pi
    return agrad.where(right, agrad.exp(-special.gammaln(above)), mirrored)


def _waved(size: Any, x: Any) -> Any:
    """Return size * sin(pi * x), which is 0 at integers even if ``size`` is infinite."""
    whole = agrad.round(x)
    sine = agrad.sin(math.pi * (x - whole)) * (1 - 2 * agrad.remainder(whole, 2.0))
    return agrad.where(sine == 0, agrad.minimum(size, agrad.finfo(size.dtype).max), size) * sine


@functools.cache
def _alternating(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return factors and logarithms of 1, ..., n: the factors times 1, 2**-x, ..., n**-x sum to 1 - 2**-x + ..."""
    powers = [math.factorial(n + i - 1) * 4**i / (math.factorial(n - i) * math.factorial(2 * i)) for i in range(n + 1)]
    rest = 1 - np.cumsum(powers)[:n] / sum(powers)
    return rest * (-1.0) ** np.arange(n), np.log(np.arange(1.0, n + 1))


def riemann_zeta(x: Any, less: float = 0.0) -> Any:
    """Return Riemann's zeta function minus 0 or 1."""
    # from -1/2 to 1 by the alternating series (P. Borwein, "An efficient algorithm for the Riemann zeta function",
    # 2000, algorithm 2), below by the functional equation
    left, right = x < -0.5, x >= 1
    zero = agrad.zeros_like(x)
    middle, below = agrad.where(left | right, zero, x), agrad.where(left, x, zero - 1.0)
    factors, logs = (constant(v.astype(x.dtype.name), x) for v in _alternating(25))
    eta = agrad.sum(factors * agrad.exp(-logs * agrad.expand_dims(middle, axis=-1)), axis=-1)
    between = -eta / agrad.expm1((1 - middle) * math.log(2.0)) - less
    size = agrad.exp(special.gammaln(1 - below) + (below - 1) * math.log(2 * math.pi)) * special.zeta(1 - below, 1.0)
    mirrored = 2 * _waved(size, below / 2) - less
    above = special.zeta(agrad.where(right, x, zero + 2.0), 1.0 + less)
    return agrad.where(right, above, agrad.where(left, mirrored, between))


_AT = "np.asarray([0.5, 1.0])"
_ROWS: tuple[tuple[str, str, str, str, Function], ...] = (
    ("expm1", "exp(x) - 1, accurate near 0", _AT, "[0.648721, 1.718282]", agrad.expm1),
    ("log1p", "log(1 + x), accurate near 0", _AT, "[0.405465, 0.693147]", agrad.log1p),
    ("cbrt", "the cube root", "np.asarray([8.0, 27.0])", "[2., 3.]", lambda x: UFUNCS[np.cbrt](x)),
    ("exp2", "2 raised to the power x", _AT, "[1.414214, 2.      ]", lambda x: UFUNCS[np.exp2](x)),
    ("exp10", "10 raised to the power x", _AT, "[ 3.162278, 10.      ]", lambda x: agrad.pow(10.0, x)),
    ("softplus", "log(1 + exp(x))", _AT, "[0.974077, 1.313262]", lambda x: agrad.logaddexp(x, agrad.zeros_like(x))),
    ("exprel", "(exp(x) - 1) / x, accurate near 0", _AT, "[1.297443, 1.718282]", _exp_minus_1_over),
    ("cosm1", "cos(x) - 1, accurate near 0", _AT, "[-0.122417, -0.459698]", lambda x: -2 * agrad.sin(x / 2) ** 2),
    ("radian", "an angle of degrees, minutes and seconds in radians", "np.asarray([180.0, 90.0]), 30.0, 0.0",
     "[3.150319, 1.579523]", lambda d, m, s: (d + (m + s / 60.0) / 60.0) * _DEGREE),
    ("loggamma", "the logarithm of the gamma function, NaN for negative numbers", _AT, "[0.572365, 0.      ]",
     lambda x: _within(x >= 0, special.gammaln(x))),
    ("zetac", "Riemann's zeta function minus 1", "np.asarray([2.0, 4.0])", "[0.644934, 0.082323]",
     lambda x: riemann_zeta(x, 1.0)),
    ("chdtr", "the distribution function of the chi-squared distribution", "2.0, np.asarray([1.0, 4.0])",
     "[0.393469, 0.864665]", lambda v, x: special.gammainc(v / 2, x / 2)),
    ("chdtrc", "the survival function of the chi-squared distribution", "2.0, np.asarray([1.0, 4.0])",
     "[0.606531, 0.135335]", lambda v, x: special.gammaincc(v / 2, x / 2)),
)  # fmt: skip
for _row in _ROWS:
    scipy_name(*_row[:4])(_row[4])


@scipy_name("gammasgn")
def _gammasgn(x: Any) -> Any:
    """Return the sign of the gamma function.

    Examples
    --------
    >>> special.gammasgn(np.asarray([-0.5, 1.0])).round(6)
    array([-1.,  1.])
    """
    down = agrad.floor(x)
    sign = agrad.where(agrad.remainder(down, 2.0) == 0, agrad.ones_like(x), -agrad.ones_like(x))
    sign = agrad.where((x < 0) & (down == x), agrad.full_like(x, math.nan), sign)
    sign = agrad.where(x > 0, agrad.ones_like(x), agrad.where(x == 0, agrad.copysign(agrad.ones_like(x), x), sign))
    return _within(x == x, sign)


@scipy_name("multigammaln")
def _multigammaln(a: Any, d: Any) -> Any:
    """Return the logarithm of the multivariate gamma function of dimension d.

    Examples
    --------
    >>> special.multigammaln(np.asarray([2.0, 3.0]), 2).round(6)
    array([0.451583, 1.550195])
    """
    d = int(d)
    constant = d * (d - 1) / 4 * math.log(math.pi)
    return sum((special.gammaln(a - j / 2) for j in range(1, d)), special.gammaln(a)) + constant


@scipy_name("binom")
def _binom(n: Any, k: Any) -> Any:
    """Return the binomial coefficient of real n and k.

    Examples
    --------
    >>> special.binom(5.0, np.asarray([1.0, 2.0])).round(6)
    array([ 5., 10.])
    >>> round(float(agrad.grad(special.binom)(5.0, 2.0)), 6)
    4.5
    """
    plain = (n - k > -1) & (k > -1) & (n > -1)
    one = agrad.ones_like(plain, dtype=n.dtype)
    top, low = agrad.where(plain, n, one), agrad.where(plain, k, one)
    by_beta = agrad.exp(-special.betaln(top - low + 1, low + 1)) / (top + 1)
    return agrad.where(plain, by_beta, special.gamma(n + 1) * _rgamma(k + 1) * _rgamma(n - k + 1))


@scipy_name("poch")
def _poch(z: Any, m: Any) -> Any:
    """Return the rising factorial, gamma(z + m) / gamma(z).

    Examples
    --------
    >>> special.poch(2.0, np.asarray([1.0, 3.0])).round(6)
    array([ 2., 24.])
    >>> round(float(agrad.grad(special.poch)(2.0, 3.0)), 6)
    26.0
    """
    # for integers up to 0 by reflection: (-1)**m times the value for 1 - z - m. The derivative in m is NaN, as the
    # gamma function has poles on both sides of the quotient
    whole = (z <= 0) & (z + m <= 0) & (z == agrad.floor(z)) & (m == agrad.floor(m))
    one = agrad.ones_like(whole, dtype=z.dtype)
    still = agrad.stop_gradient(m)
    jump = agrad.sqrt(agrad.abs(agrad.where(whole, m - still, one)))
    sign = agrad.where(whole, 1 - 2 * agrad.remainder(still, 2.0) + jump, one)
    return sign * _quotient(agrad.where(whole, 1 - z - still, z), agrad.where(whole, still, m))


def _quotient(z: Any, m: Any) -> Any:
    """Return gamma(z + m) / gamma(z), not of two poles."""
    plain = (z > 0) & (z + m > 0)
    one = agrad.ones_like(plain, dtype=z.dtype)
    low, high = agrad.where(plain, z, one), agrad.where(plain, z + m, one)
    # of large numbers the difference cancels, but gamma(a) / beta(a, low) does not
    least = agrad.where(high < low, high, low)
    wide = (least > 100) & (m != 0)
    a, b = agrad.where(wide, agrad.abs(m), one), agrad.where(wide, least, one)
    log = agrad.sign(m) * (special.gammaln(a) - special.betaln(a, b))
    ratio = agrad.exp(agrad.where(wide, log, special.gammaln(high) - special.gammaln(low)))
    z, m = agrad.where(plain, one, z), agrad.where(plain, agrad.zeros_like(one), m)
    return agrad.where(plain, ratio, special.gamma(z + m) * _rgamma(z))


@scipy_name("boxcox")
def _boxcox(x: Any, lmbda: Any) -> Any:
    """Return the Box-Cox transformation, (x**lmbda - 1) / lmbda.

    Examples
    --------
    >>> special.boxcox(np.asarray([1.0, 4.0]), 0.5).round(6)
    array([0., 2.])
    >>> round(float(agrad.grad(special.boxcox)(4.0, 0.5)), 6)
    0.5
    """
    return _boxcoxed(x, lmbda, agrad.log, 0.0)


@scipy_name("boxcox1p")
def _boxcox1p(x: Any, lmbda: Any) -> Any:
    """Return the Box-Cox transformation of 1 + x.

    Examples
    --------
    >>> special.boxcox1p(np.asarray([0.0, 3.0]), 0.5).round(6)
    array([0., 2.])
    >>> round(float(agrad.grad(special.boxcox1p)(3.0, 0.5)), 6)
    0.5
    """
    return _boxcoxed(x, lmbda, agrad.log1p, -1.0)


def _boxcoxed(x: Any, lmbda: Any, log: Function, start: float) -> Any:
    """Return ((x - start)**lmbda - 1) / lmbda, given the logarithm of the base."""
    # the ends at which the power is 0, and the ends at which the result is infinite
    flat = ((x == start) & (lmbda > 0)) | ((x == math.inf) & (lmbda < 0))
    one = agrad.ones_like(x + lmbda)
    base = agrad.where(flat, agrad.where(x == math.inf, 0 * one, x - start), one)
    power = agrad.where(flat, lmbda, one)
    found = log(agrad.where(flat, one, x))
    far = agrad.isinf(found)
    inside = agrad.where(far, agrad.zeros_like(found), found)
    found = agrad.where(far, found, inside * _exp_minus_1_over(lmbda * inside))
    return agrad.where(flat, (base ** agrad.abs(power) - 1) / power, found)


@scipy_name("inv_boxcox")
def _inv_boxcox(y: Any, lmbda: Any) -> Any:
    """Return the inverse of the Box-Cox transformation.

    Examples
    --------
    >>> special.inv_boxcox(np.asarray([0.0, 2.0]), 0.5).round(6)
    array([1., 4.])
    >>> round(float(agrad.grad(special.inv_boxcox)(2.0, 0.5)), 6)
    2.0
    """
    return agrad.exp(y * _log1p_over(lmbda * y))


@scipy_name("inv_boxcox1p")
def _inv_boxcox1p(y: Any, lmbda: Any) -> Any:
    """Return the inverse of the Box-Cox transformation of 1 + x.

    Examples
    --------
    >>> special.inv_boxcox1p(np.asarray([0.0, 2.0]), 0.5).round(6)
    array([0., 3.])
    >>> round(float(agrad.grad(special.inv_boxcox1p)(2.0, 0.5)), 6)
    2.0
    """
    return agrad.expm1(y * _log1p_over(lmbda * y))


@scipy_name("huber")
def _huber(delta: Any, r: Any) -> Any:
    """Return the Huber loss of r: quadratic up to delta, then linear.

    Examples
    --------
    >>> special.huber(1.0, np.asarray([0.5, 3.0])).round(6)
    array([0.125, 2.5  ])
    >>> round(float(agrad.grad(special.huber, argnums=1)(1.0, 0.5)), 6)
    0.5
    """
    size = agrad.abs(r)
    loss = agrad.where(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta))
    return agrad.where(delta < 0, agrad.full_like(loss, math.inf), loss)


@scipy_name("pseudo_huber")
def _pseudo_huber(delta: Any, r: Any) -> Any:
    """Return the pseudo-Huber loss of r, a smooth form of the Huber loss.

    Examples
    --------
    >>> special.pseudo_huber(1.0, np.asarray([0.5, 3.0])).round(6)
    array([0.118034, 2.162278])
    >>> round(float(agrad.grad(special.pseudo_huber, argnums=1)(1.0, 0.5)), 6)
    0.447214
    """
    ratio = r / agrad.where(delta > 0, delta, agrad.ones_like(delta))
    loss = delta * delta * agrad.expm1(0.5 * agrad.log1p(ratio * ratio))
    loss = agrad.where(delta == 0, agrad.zeros_like(loss), loss)
    return agrad.where(delta < 0, agrad.full_like(loss, math.inf), loss)


# distribution functions, each by a formula that does not cancel in its tail


@scipy_name("betaincc")
def _betaincc(a: Any, b: Any, x: Any) -> Any:
    """Return the complement of the regularized incomplete beta function.

    Examples
    --------
    >>> special.betaincc(2.0, 3.0, np.asarray([0.25, 0.5])).round(6)
    array([0.738281, 0.3125  ])
    >>> round(float(agrad.grad(special.betaincc, argnums=2)(2.0, 3.0, 0.5)), 6)
    -1.5
    """
    tiny = x < 1e-8  # of which 1 - x keeps few digits
    near, far = agrad.where(tiny, x, 0.5 * agrad.ones_like(x)), agrad.where(tiny, 0.5 * agrad.ones_like(x), x)
    return agrad.where(tiny, 1 - special.betainc(a, b, near), special.betainc(b, a, 1 - far))


def _share(n: Any, d: Any, x: Any) -> Any:
    """Return n x / (d + n x), and 1 at infinity."""
    end = x == math.inf
    finite = agrad.where(end, agrad.ones_like(x), x)
    return agrad.where(end, agrad.ones_like(x), n * finite / (d + n * finite))


def _binomial(k: Any, n: Any, p: Any, upper: bool) -> Any:
    k = agrad.floor(k)
    inside = (k >= 0) & (k < n)
    one = agrad.ones_like(inside, dtype=p.dtype)
    more, rest = agrad.where(inside, k + 1, one), agrad.where(inside, n - k, one)
    found = special.betainc(more, rest, p) if upper else special.betainc(rest, more, 1 - p)
    every = agrad.full_like(found, 0.0 if upper else 1.0)
    none = agrad.full_like(found, 1.0 if upper else math.nan)
    return agrad.where(inside, found, agrad.where(k < 0, none, every))


def _distribution(name: str, what: str, arguments: str, results: str, domain: Any, *functions: Function) -> None:
    """Register a distribution function, and the survival function, whose name ends with c."""
    for suffix, kind, result, function in zip(
        ("", "c"), ("distribution", "survival"), results.split("; "), functions, strict=True
    ):

        def within(*values: Any, function: Function = function) -> Any:
            return _within(domain(*values), function(*values))

        scipy_name(name + suffix, f"the {kind} function of the {what} distribution", arguments, result)(within)


_distribution(
    "gdtr", "gamma", "0.5, 2.0, np.asarray([1.0, 4.0])", "[0.090204, 0.593994]; [0.909796, 0.406006]",
    lambda a, b, x: x >= 0, lambda a, b, x: special.gammainc(b, a * x), lambda a, b, x: special.gammaincc(b, a * x),
)  # fmt: skip
_distribution(
    "fdtr", "F", "3.0, 5.0, np.asarray([1.0, 4.0])", "[0.535145, 0.915123]; [0.464855, 0.084877]",
    lambda n, d, x: (n > 0) & (d > 0) & (x >= 0),
    lambda n, d, x: special.betainc(n / 2, d / 2, _share(n, d, x)),
    lambda n, d, x: special.betainc(d / 2, n / 2, d / (d + n * x)),
)  # fmt: skip
_distribution(
    "pdtr", "Poisson", "np.asarray([1.0, 2.0]), 1.5", "[0.557825, 0.808847]; [0.442175, 0.191153]",
    lambda k, m: (k >= 0) & (m >= 0),
    lambda k, m: special.gammaincc(agrad.floor(k) + 1, m), lambda k, m: special.gammainc(agrad.floor(k) + 1, m),
)  # fmt: skip
_distribution(
    "nbdtr", "negative binomial", "np.asarray([1.0, 2.0]), 4, 0.5", "[0.1875 , 0.34375]; [0.8125 , 0.65625]",
    lambda k, n, p: (k >= 0) & (n > 0),
    lambda k, n, p: special.betainc(n, agrad.floor(k) + 1, p),
    lambda k, n, p: special.betainc(agrad.floor(k) + 1, n, 1 - p),
)  # fmt: skip
_distribution(
    "bdtr", "binomial", "np.asarray([1.0, 2.0]), 4, 0.5", "[0.3125, 0.6875]; [0.6875, 0.3125]",
    lambda k, n, p: (agrad.floor(k) <= n) & (p >= 0) & (p <= 1),
    lambda k, n, p: _binomial(k, n, p, False), lambda k, n, p: _binomial(k, n, p, True),
)  # fmt: skip


@scipy_name("stdtr")
def _stdtr(df: Any, t: Any) -> Any:
    """Return the distribution function of Student's t distribution.

    Examples
    --------
    >>> special.stdtr(3.0, np.asarray([0.0, 2.0])).round(6)
    array([0.5     , 0.930337])
    >>> round(float(agrad.grad(special.stdtr, argnums=1)(3.0, 0.0)), 6)
    0.367553
    """
    domain, one = df > 0, agrad.ones_like(df + t)
    # for large df the argument of the beta function is rounded to 1: the normal number of the same probability, with an
    # error of t**7 / df**3. Abramowitz and Stegun 26.7.5, inverted
    wide = (df > 1e3) & (agrad.abs(t) < 0.03 * df**0.375)
    n, z = agrad.where(wide, df, one), agrad.where(wide, t, one)
    normal = z - z * (z * z + 1) / (4 * n) + z * ((13 * z * z + 8) * z * z + 3) / (96 * n * n)
    df, t = agrad.where(wide, one, df), agrad.where(wide, one, t)
    # the incomplete beta function of t * t has no derivative with respect to t at 0: a series in t there
    square = t * t / df
    near = square * (df + 1) < 1e-6
    away = agrad.where(near, one, t)
    tail = 0.5 * special.betainc(df / 2, 0.5, df / (away * away + df))
    outer = agrad.where(away < 0, tail, 1 - tail)
    scale = agrad.exp(-special.betaln(df / 2, 0.5)) / agrad.sqrt(df)
    u = agrad.where(near, square, agrad.zeros_like(square))
    series = 1 - (df + 1) * u / 6 + (df + 1) * (df + 3) * u * u / 40
    out = agrad.where(near, 0.5 + scale * agrad.where(near, t, agrad.zeros_like(t)) * series, outer)
    return _within(domain, agrad.where(wide, special.ndtr(normal), out))
