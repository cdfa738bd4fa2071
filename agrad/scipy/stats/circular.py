"""Distributions on the circle."""

import math

import agrad
from agrad import Tensor, special
from agrad.scipy.stats.kinds import Continuous

__all__ = ["vonmises", "wrapcauchy"]

_LOG_TWO_PI = math.log(2 * math.pi)


class VonMises(Continuous):
    """The von Mises distribution of angles.

    ``pdf(x, kappa, loc=0, scale=1)`` with z = (x - loc) / scale::

        exp(kappa * cos(z)) / (2 * pi * i0(kappa)) / scale

    Its density is periodic. The distribution function is not supported.

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.vonmises.pdf(np.asarray([0.0, 1.0]), 1.5).round(6)
    array([0.433153, 0.217358])
    >>> round(float(agrad.grad(lambda x: stats.vonmises.logpdf(x, 1.5))(1.0)), 6)
    -1.262206
    """

    shapes: tuple[str, ...] = ("kappa",)
    point: float = 0.0

    def _valid(self, *shapes: Tensor) -> Tensor:
        return shapes[0] >= 0

    def _logpdf(self, z: Tensor, kappa: Tensor) -> Tensor:
        # kappa (cos z - 1), which does not cancel near 0
        return -2 * kappa * agrad.sin(0.5 * z) ** 2 - _LOG_TWO_PI - agrad.log(special.i0e(kappa))

    def _entropy(self, kappa: Tensor) -> Tensor:
        even, odd = special.i0e(kappa), special.i1e(kappa)
        return kappa * (even - odd) / even + _LOG_TWO_PI + agrad.log(even)


class WrapCauchy(Continuous):
    """The wrapped Cauchy distribution.

    ``pdf(x, c, loc=0, scale=1)`` with z = (x - loc) / scale::

        (1 - c**2) / (2 * pi * (1 + c**2 - 2 * c * cos(z))) / scale for 0 <= z <= 2 * pi

    Distribution of angles from 0 to 2 pi.

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.wrapcauchy.pdf(np.asarray([0.0, 1.0]), 0.5).round(6)
    array([0.477465, 0.168193])
    >>> round(float(agrad.grad(lambda x: stats.wrapcauchy.logpdf(x, 0.5))(1.0)), 6)
    -1.185675
    """

    shapes: tuple[str, ...] = ("c",)
    low: float = 0.0
    high: float = 2 * math.pi
    safe: tuple[float] = (0.5,)

    def _valid(self, *shapes: Tensor) -> Tensor:
        return (shapes[0] > 0) & (shapes[0] < 1)

    def _logpdf(self, z: Tensor, c: Tensor) -> Tensor:
        # 1 + c**2 - 2 c cos z, which does not cancel near 0
        spread = (1 - c) ** 2 + 4 * c * agrad.sin(0.5 * z) ** 2
        return agrad.log1p(c) + agrad.log1p(-c) - _LOG_TWO_PI - agrad.log(spread)

    def _cdf(self, z: Tensor, c: Tensor) -> Tensor:
        # the angle of (cos(z / 2), ratio sin(z / 2)), from 0 to pi
        return agrad.atan2((1 + c) / (1 - c) * agrad.sin(0.5 * z), agrad.cos(0.5 * z)) / math.pi

    def _sf(self, z: Tensor, c: Tensor) -> Tensor:
        return agrad.atan2((1 + c) / (1 - c) * agrad.sin(0.5 * z), -agrad.cos(0.5 * z)) / math.pi

    def _ppf(self, q: Tensor, c: Tensor) -> Tensor:
        return 2 * agrad.atan2((1 - c) / (1 + c) * agrad.sin(math.pi * q), agrad.cos(math.pi * q))

    def _entropy(self, c: Tensor) -> Tensor:
        return _LOG_TWO_PI + agrad.log1p(-c * c)


vonmises: VonMises = VonMises()
wrapcauchy: WrapCauchy = WrapCauchy()
