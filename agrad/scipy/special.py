"""Special functions with the names of ``scipy.special``.

The elementwise functions call ``agrad.special``, with the same derivatives. As in SciPy, they accept numbers, lists and
mixed dtypes. They accept only real values, whereas ``gamma``, ``erf`` and others in SciPy also accept complex values.
"""

import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import OperandError
from agrad.interop.arguments import as_complex, is_complex
from agrad.interop.scipy import WORDS, documentation, riemann_zeta
from agrad.ops.special import complex
from agrad.scipy.shared import array, arrays, function, is_array, unsupported

_ORDERED = ("jn", "jv")
"""Functions whose order is one number of the host."""

_HERE = (
    "comb", "factorial", "lambertw", "log_softmax", "logsumexp", "multigammaln", "perm", "softmax", "wofz", "yn",
    "zeta",
)  # fmt: skip
_ELEMENTWISE = sorted(({name for name in vars(agrad.special) if name[0] != "_"} | {*WORDS, "jv", "psi"}) - {*_HERE})
__all__ = [*_HERE, *_ELEMENTWISE]


def _elementwise(name: str) -> Callable[..., Any]:
    """Return the function of ``agrad.special`` with SciPy promotion."""
    found = getattr(agrad.special, name)

    def call(*values: Any) -> Any:
        if name in _ORDERED:
            n, x = values
            return found(n.item() if isinstance(n, np.generic | np.ndarray) and n.ndim == 0 else n, array(x))
        return found(*arrays(*values))

    call.__name__ = call.__qualname__ = name
    text = inspect.getdoc(found) or ""
    first, examples = text.partition("\n\nParameters\n")[0], text.partition("\nExamples\n--------")[2]
    renamed = examples.replace(f"agrad.special.{found.__name__}", f"special.{name}")
    call.__doc__ = text if name in WORDS else documentation(first, renamed)
    return function(call)


if TYPE_CHECKING:
    from agrad.special import *
else:

    def __getattr__(name: str) -> Any:
        if name not in _ELEMENTWISE:
            raise AttributeError(f"module 'agrad.scipy.special' has no attribute {name!r}")
        return globals().setdefault(name, _elementwise(name))


def __dir__() -> list[str]:
    return sorted(__all__)


@function
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """Return the logarithm of the sum of exponentials.

    Like ``scipy.special.logsumexp``, for real or complex ``a`` and real weights ``b``. It is ``m + log|sum(b exp(a -
    m))|`` with the largest logarithm m of the terms.

    Examples
    --------
    >>> from agrad.scipy import special
    >>> special.logsumexp(np.asarray([1000.0, 1000.0])).round(4)
    np.float64(1000.6931)
    >>> agrad.grad(special.logsumexp)(np.asarray([0.0, 0.0]))
    array([0.5, 0.5])
    """
    given = (array(a), None) if b is None else arrays(a, b)
    return agrad.special.logsumexp(given[0], axis, given[1], keepdims, return_sign)


@function
def softmax(x: Any, axis: Any = None) -> Tensor:
    """Return exponentials over their sum.

    Like ``scipy.special.softmax``: the result has the shape of ``x``, and its sums over the axes are 1.

    Examples
    --------
    >>> from agrad.scipy import special
    >>> special.softmax(np.asarray([0.0, 0.0]))
    array([0.5, 0.5])
    >>> agrad.jacobian(special.softmax)(np.asarray([0.0, 0.0]))
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    return agrad.special.softmax(array(x), axis)


@function
def log_softmax(x: Any, axis: Any = None) -> Tensor:
    """Return the logarithm of ``softmax``.

    Like ``scipy.special.log_softmax``: the result has the shape of ``x``.

    Examples
    --------
    >>> from agrad.scipy import special
    >>> special.log_softmax(np.asarray([0.0, 1000.0]))
    array([-1000.,     0.])
    >>> agrad.grad(lambda x: special.log_softmax(x)[0])(np.asarray([0.0, 0.0]))
    array([ 0.5, -0.5])
    """
    return agrad.special.log_softmax(array(x), axis)


@unsupported("exact", fix="Call math.comb for integers", error=OperandError)
@function
def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Tensor:
    """Return the number of combinations of k out of N things.

    Like ``scipy.special.comb``, of the broadcast shape and differentiable with respect to ``N`` and ``k``. It is 0 for
    ``k > N``, ``N < 0`` or ``k < 0`` unless ``repetition`` is True. ``exact=True`` is not supported.

    Examples
    --------
    >>> from agrad.scipy import special
    >>> special.comb(np.asarray([4.0, 5.0]), 2).round(6)
    array([ 6., 10.])
    >>> round(float(agrad.grad(special.comb)(5.0, 2.0)), 6)
    4.5
    """
    N, k = arrays(N, k)
    one = agrad.ones_like(N + k)
    if repetition:
        # of no things there is one combination, the empty one
        none = (k < 0) | (N < 0) | ((N == 0) & (k > 0))
        empty, other = ((k == 0) & (N >= 0)) | none, agrad.where(none, agrad.zeros_like(one), one)
        N = N + k - 1
    else:
        empty, other = ~((k <= N) & (N >= 0) & (k >= 0)), agrad.zeros_like(one)
    found = agrad.special.binom(agrad.where(empty, one, N), agrad.where(empty, one, k))
    return agrad.where(empty, other, found)


@unsupported("exact", fix="Call math.perm for integers", error=OperandError)
@function
def perm(N: Any, k: Any, exact: bool = False) -> Tensor:
    """Return the number of permutations of k out of N things.

    Like ``scipy.special.perm``, of the broadcast shape and differentiable with respect to ``N`` and ``k``. It is 0 for
    ``k > N``, ``N < 0`` or ``k < 0``. ``exact=True`` is not supported.

    Examples
    --------
    >>> from agrad.scipy import special
    >>> special.perm(np.asarray([4.0, 5.0]), 2).round(6)
    array([12., 20.])
    >>> round(float(agrad.grad(special.perm)(5.0, 2.0)), 6)
    9.0
    """
    N, k = arrays(N, k)
    inside = (k <= N) & (N >= 0) & (k >= 0)
    one = agrad.ones_like(N + k)
    top, low = agrad.where(inside, N, one), agrad.where(inside, k, one)
    found = agrad.special.poch(top - low + 1, low)
    return agrad.where(inside, found, agrad.zeros_like(found))


@unsupported("exact", fix="Call math.factorial for integers", error=OperandError)
@unsupported("extend", fix="Call gamma(n + 1) for other extensions", error=OperandError)
@function
def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Tensor:
    """Return the factorial, as the gamma function of n + 1.

    Like ``scipy.special.factorial``, for real numbers, with the shape of ``n``; 0 for negative numbers. ``exact=True``
    and other values of ``extend`` are not supported.

    Examples
    --------
    >>> from agrad.scipy import special
    >>> special.factorial(np.asarray([0.0, 3.0, 5.0])).round(6)
    array([  1.,   6., 120.])
    >>> round(float(agrad.grad(special.factorial)(0.0)), 6)
    -0.577216
    """
    n = array(n)
    inside = ~(n < 0)
    found = agrad.special.gamma(agrad.where(inside, n, agrad.zeros_like(n)) + 1)
    return agrad.where(inside, found, agrad.zeros_like(found))


@function
def multigammaln(a: Any, d: Any) -> Tensor:
    """Return the logarithm of the multivariate gamma function.

    Like ``scipy.special.multigammaln``, with the shape of ``a``. It is NaN if ``a`` is not greater than (d - 1) / 2,
    whereas SciPy raises an error. ``d`` must be an integer.

    Examples
    --------
    >>> from agrad.scipy import special
    >>> special.multigammaln(np.asarray([2.0, 3.0]), 2).round(6)
    array([0.451583, 1.550195])
    >>> round(float(agrad.grad(lambda a: special.multigammaln(a, 2))(2.0)), 6)
    0.459274
    """
    if is_array(d) or int(d) != d:
        raise OperandError(f"multigammaln: d must be an integer, got {d!r}")
    a, d = array(a), int(d)
    inside = a > (d - 1) / 2
    plain = agrad.where(inside, a, agrad.full_like(a, d))
    total = sum((agrad.special.gammaln(plain - j / 2) for j in range(1, d)), agrad.special.gammaln(plain))
    total = total + d * (d - 1) / 4 * math.log(math.pi)
    return agrad.where(inside, total, agrad.full_like(total, math.nan))


@function
def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Tensor:
    """Return Lambert's function, the solution w of ``w * exp(w) = z``.

    Like ``scipy.special.lambertw``, with the shape of ``z``. The result is complex for a complex ``z`` and for branches
    other than 0 and -1. Otherwise it is real, unlike in SciPy: NaN below -1 / e, and above 0 for the branch -1. ``tol``
    is ignored: results have full precision.

    Examples
    --------
    >>> from agrad.scipy import special
    >>> special.lambertw(np.asarray([0.0, 1.0, 5.0])).round(6)
    array([0.      , 0.567143, 1.326725])
    >>> special.lambertw(np.asarray([-1.0 + 0.0j])).round(6)
    array([-0.318132+1.337236j])
    >>> round(float(agrad.grad(special.lambertw)(0.0)), 6)
    1.0
    """
    z, k = array(z), k.item() if isinstance(k, np.generic | np.ndarray) and k.size == 1 else k
    if is_complex(z) or not isinstance(k, int | float) or k not in (0, -1):
        return complex.lambertw(as_complex(z), k)
    return agrad.special.lambertw(z, int(k))


@function
def wofz(z: Any) -> Tensor:
    """Return the Faddeeva function, ``exp(-z**2) * erfc(-1j * z)``.

    Like ``scipy.special.wofz``: complex, with the shape of ``z``.

    Notes
    -----
    The error is at most 1e-14 relative to the absolute value, and 1e-13 for the first two derivatives. M. Al Azah and
    S. N. Chandler-Wilde, "Computation of the complex error function using modified trapezoidal rules" (2021).

    Examples
    --------
    >>> from agrad.scipy import special
    >>> special.wofz(np.asarray([0.0, 1.0 + 1.0j])).round(6)
    array([1.      +0.j      , 0.304744+0.208219j])
    >>> voigt = lambda x: agrad.real(special.wofz(x + 0.5j))
    >>> round(float(agrad.grad(voigt)(1.0)), 6)
    -0.366929
    """
    return complex.wofz(as_complex(array(z)), n=0)


@function
def zeta(x: Any, q: Any = None) -> Tensor:
    """Return the Riemann or the Hurwitz zeta function.

    Like ``scipy.special.zeta``, of the broadcast shape: the sum over k >= 0 of ``(q + k)**-x``, for positive ``q``. It
    is infinite at ``x = 1``, and NaN for ``x < 1`` if ``q`` is given. By default, it is the Riemann zeta function,
    defined for every ``x`` except 1.

    Examples
    --------
    >>> from agrad.scipy import special
    >>> special.zeta(np.asarray([-1.0, 0.5, 2.0])).round(6)
    array([-0.083333, -1.460355,  1.644934])
    >>> round(float(agrad.grad(special.zeta)(2.0, 1.0)), 6)
    -0.937548
    """
    return riemann_zeta(array(x)) if q is None else agrad.special.zeta(*arrays(x, q))


@function
def yn(n: Any, x: Any) -> Tensor:
    """Return the Bessel function of the second kind of integer order.

    Like ``scipy.special.yn``, with the shape of ``x``: -inf at 0 and NaN below. ``n`` must be one integer.

    Notes
    -----
    Upward recurrence from ``y0`` and ``y1``, which loses no digits: Abramowitz and Stegun 9.1.27 and 9.1.5.

    Examples
    --------
    >>> from agrad.scipy import special
    >>> special.yn(2, np.asarray([1.0, 2.0])).round(6)
    array([-1.650683, -0.617408])
    >>> round(float(agrad.grad(lambda x: special.yn(2, x))(1.0)), 6)
    2.520152
    """
    if (is_array(n) and n.shape) or int(n) != n:
        raise OperandError(f"yn: n must be an integer, got {n!r}")
    n, x = int(n), array(x)
    before, now = agrad.special.y0(x), agrad.special.y1(x)
    if n == 0:
        return before
    inside = x > 0
    place = agrad.where(inside, x, agrad.ones_like(x))
    for k in range(1, abs(n)):
        before, now = now, agrad.where(inside, 2 * k / place * now - before, now)
    return -now if n < 0 and n % 2 else now
