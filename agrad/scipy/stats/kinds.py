"""Base classes of continuous and of discrete distributions."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import agrad
from agrad.interop.arguments import is_concrete
from agrad.scipy.shared import arrays, function
from agrad.scipy.stats.base import Distribution, Given, at_places, chosen, everywhere, moment, nowhere

if TYPE_CHECKING:
    from agrad.scipy.stats.base import OfPoints


class Continuous(Distribution):
    """Continuous distribution with the SciPy methods."""

    def _logpdf(self, z: Any, *shapes: Any, **_: Any) -> Any:
        raise NotImplementedError

    def _pdf(self, z: Any, *shapes: Any, **_: Any) -> Any:
        log = self._logpdf(z, *shapes)
        # below it the density is 0 to any precision, and its logarithm may have an infinite derivative
        low = log < -800
        return agrad.exp(log if everywhere(~low) else chosen(low, agrad.full_like(log, -800.0), log))

    logpdf: "OfPoints" = at_places(
        "logpdf",
        "the logarithm of the density, -inf outside of the support",
        lambda d, at: d._logpdf(at.z, *at.shapes) - agrad.log(at.scale),
        -agrad.inf,
        -agrad.inf,
    )
    pdf: "OfPoints" = at_places(
        "pdf",
        "the density, 0 outside of the support",
        lambda d, at: d._pdf(at.z, *at.shapes) / at.scale,
        0.0,
        0.0,
    )
    entropy: Callable[..., Any] = moment(
        "entropy",
        "the differential entropy, for distributions with a short formula",
        lambda d, loc, scale, *shapes: d._entropy(*shapes) + agrad.log(scale),
    )


class Symmetric(Continuous):
    """A continuous distribution that is symmetric about 0."""

    def _sf(self, z: Any, *shapes: Any, **_: Any) -> Any:
        return self._cdf(-z, *shapes)

    def _logsf(self, z: Any, *shapes: Any, **_: Any) -> Any:
        return self._logcdf(-z, *shapes)

    def _isf(self, q: Any, *shapes: Any, **_: Any) -> Any:
        return -self._ppf(q, *shapes)


_TRACED_BITS = 32
"""Largest quantile that is found if ``jit`` or ``vmap`` hide the size; larger ones are NaN."""


class Discrete(Distribution):
    """Distribution on integers with the SciPy methods."""

    scaled = False
    low: float = 0.0
    point: float = 0.0

    def _logpmf(self, k: Any, *shapes: Any, **_: Any) -> Any:
        raise NotImplementedError

    def _given(self, x: Any, args: Sequence[Any], kwds: dict[str, Any]) -> Given:
        given = super()._given(agrad.stop_gradient(x), args, kwds)
        return given._replace(z=agrad.floor(given.z))

    def _quantile(self, q: Any, args: Sequence[Any], kwds: dict[str, Any], upper: bool) -> Any:
        """Return the smallest point up to which the probability is sufficient; it is piecewise constant."""
        q, *values = agrad.broadcast_arrays(*arrays(q, *self._bound(args, kwds)))
        loc = values[-2]
        q, values = agrad.stop_gradient((q, values))
        shapes, _, _, bad = self._parameters(values)
        low, high = (agrad.zeros_like(q) + end for end in self._ends(*shapes))
        inside = (q > 0) & (q < 1) & ~bad
        inner = chosen(inside, q, 0.5)

        def enough(k: Any) -> Any:
            last = k >= high
            at = agrad.where(last, low, k)
            return last | (self._sf(at, *shapes) <= inner if upper else self._cdf(at, *shapes) >= inner)

        most = (23 if q.dtype == agrad.float32 else 52) if all(map(is_concrete, (q, *values))) else _TRACED_BITS
        bits = next((m for m in range(most) if nowhere(~enough(low + (2.0**m - 1)))), most)
        found = low
        for m in reversed(range(bits)):
            found = agrad.where(enough(found + (2.0**m - 1)), found, found + 2.0**m)
        found = agrad.where(enough(found), found, agrad.full_like(q, agrad.nan))
        first, last = (high, low - 1) if upper else (low - 1, high)
        found = agrad.where(inside, found, agrad.where(q == 0, first, last))
        bad = bad | agrad.isnan(q) | (q < 0) | (q > 1)
        return chosen(bad, agrad.full_like(q, agrad.nan), found) + loc

    def _whole(self, k: Any, args: Sequence[Any], kwds: dict[str, Any]) -> Given:
        """Return arguments, with numbers that are not whole outside of the support."""
        given = super()._given(agrad.stop_gradient(k), args, kwds)
        whole = given.z == agrad.floor(given.z)
        return given._replace(z=agrad.floor(given.z), inside=given.inside & whole)

    @function
    def logpmf(self, k: Any, *args: Any, **kwds: Any) -> Any:
        """Return the logarithm of the probability, -inf off the support.

        ``k`` and the parameters broadcast. Numbers that are not integers are outside of the support.
        """
        given = self._whole(k, args, kwds)
        return given.fill(self._logpmf(given.z, *given.shapes), -agrad.inf, -agrad.inf)

    @function
    def pmf(self, k: Any, *args: Any, **kwds: Any) -> Any:
        """Return the probability, 0 outside of the support.

        ``k`` and the parameters broadcast. Numbers that are not integers are outside of the support.
        """
        given = self._whole(k, args, kwds)
        return given.fill(agrad.exp(self._logpmf(given.z, *given.shapes)), 0.0, 0.0)
