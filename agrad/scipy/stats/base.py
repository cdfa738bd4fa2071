"""Parameters, support, location and scale of distributions."""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import MissingFunctionError, OperandError, TracedValueError
from agrad.interop.arguments import may_hold
from agrad.scipy.shared import arrays, function, named
from agrad.scipy.stats.draws import Drawing

if TYPE_CHECKING:
    from typing import Protocol, overload

    class OfPoints(Protocol):
        @overload
        def __call__(self, x: Tensor, *args: Any, **kwds: Any) -> Tensor: ...
        @overload
        def __call__(self, x: Any, *args: Any, **kwds: Any) -> Any: ...


def chosen(mask: Tensor, x: Tensor, other: Any) -> Tensor:
    """Return ``x`` if the mask is True, otherwise ``other``."""
    return agrad.where(mask, x, agrad.full_like(x, other) if isinstance(other, (int, float)) else other)


def nowhere(mask: Tensor) -> bool:
    """Return True if the mask is known to hold nowhere.

    False if values cannot be read. Dask computes the mask.
    """
    try:
        return not bool(agrad.any(mask))
    except TracedValueError:
        return False


def everywhere(mask: Tensor) -> bool:
    """Return True if the mask is True for all elements, and reading it is free."""
    return not may_hold(np.logical_not, mask)


def log_of(small: Tensor, rest: Tensor) -> Tensor:
    """Return the logarithm of a probability, given it and 1 less it."""
    less = small < 0.5
    zero = small <= 0
    direct = agrad.log(chosen(less & ~zero, small, 1.0))
    return chosen(
        zero, agrad.full_like(small, -agrad.inf), agrad.where(less, direct, agrad.log1p(-chosen(less, rest * 0, rest)))
    )


def log1mexp(x: Any) -> Any:
    """Return log(1 - exp(-x)) for x >= 0, -inf at 0 and below."""
    zero, large = x <= 0, x > 0.7
    near = agrad.log(-agrad.expm1(-chosen(zero | large, agrad.ones_like(x), x)))
    far = agrad.log1p(-agrad.exp(-chosen(large, x, 1.0)))
    return agrad.where(zero, agrad.full_like(x, -agrad.inf), agrad.where(large, far, near))


class Given(NamedTuple):
    """Arguments of a method in their common shape.

    If ``inside`` is false, ``z`` is a point of the support, and if the parameters are not valid, they are
    replaced by valid ones: formulas and their derivatives are finite everywhere.
    """

    z: Tensor
    shapes: list[Tensor]
    loc: Tensor
    scale: Tensor
    inside: Tensor
    upper: Tensor
    bad: Tensor

    def fill(self, out: Tensor, below: float, above: float) -> Tensor:
        """Return ``out`` in the support, ``below`` and ``above`` outside of it."""
        if everywhere(self.inside):
            return out
        ends = chosen(self.upper, agrad.full_like(out, above), below)
        return chosen(self.bad, agrad.full_like(out, agrad.nan), agrad.where(self.inside, out, ends))


def at_places(name: str, what: str, f: Callable[..., Any], below: float, above: float) -> "OfPoints":
    """Return a method of points and parameters, ``f(distribution, given)``.

    ``below`` and ``above`` are its values outside of the support.
    """

    @function
    def method(self: Any, x: Any, *args: Any, **kwds: Any) -> Any:
        """Return {what}.

        ``x`` and the parameters broadcast to the shape of the result.
        """
        given = self._given(x, args, kwds)
        return given.fill(f(self, given), below, above)

    return named(method, name, what)


def of_parameters(name: str, what: str, f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of only the parameters, ``f(distribution, args, kwds)``."""

    @function
    def method(self: Any, *args: Any, **kwds: Any) -> Any:
        """Return {what}.

        The parameters broadcast to the shape of the result.
        """
        return f(self, args, kwds)

    return named(method, name, what)


def moment(name: str, what: str, f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method ``f(distribution, loc, scale, *shapes)``.

    It is NaN for invalid parameters.
    """
    return of_parameters(name, what, lambda d, args, kwds: d._moment(functools.partial(f, d), args, kwds))


class Distribution(Drawing):
    """Base class: parameters by position or name, with their defaults."""

    shapes: tuple[str, ...] = ()
    """The names of the shape parameters."""
    scaled = True
    """True if there is a scale."""
    low: float = -agrad.inf
    high: float = agrad.inf
    """The ends of the standard form's support."""
    point: float = 0.5
    """A point inside of the support."""
    safe: tuple[float, ...] = (1.0, 1.0)
    """Valid shape parameters."""
    moments: tuple[float, ...] = ()
    """Mean, variance and entropy of the standard form, if they are numbers."""

    def __call__(self, *args: Any, **kwds: Any) -> "Frozen":
        """Return the distribution with fixed parameters."""
        self._bound(args, kwds)
        return Frozen(self, args, kwds)

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the name in ``agrad.scipy.stats``."""
        return type(self).__name__.lower()

    def _bound(self, args: Sequence[Any], kwds: dict[str, Any]) -> list[Any]:
        """Return shape parameters, location and scale."""
        names = (*self.shapes, "loc", "scale") if self.scaled else (*self.shapes, "loc")
        if len(args) > len(names):
            raise OperandError(f"{self.name}: there must be at most the parameters {', '.join(names)}, got {len(args)}")
        values = dict(zip(names, args, strict=False))
        for name, value in kwds.items():
            if name not in names or name in values:
                what = "is given twice" if name in values else f"must be one of {', '.join(names)}"
                raise OperandError(f"{self.name}: the parameter {name!r} {what}")
            values[name] = value
        missing = [name for name in self.shapes if name not in values]
        if missing:
            raise OperandError(f"{self.name}: the parameter {missing[0]!r} is missing")
        return [values.get(name, {"loc": 0.0, "scale": 1.0}.get(name)) for name in (*self.shapes, "loc", "scale")]

    def _parameters(self, values: Sequence[Tensor]) -> tuple[list[Tensor], Tensor, Tensor, Tensor]:
        """Return shape parameters, location, scale, and a mask of invalid ones."""
        *shapes, loc, scale = values
        ok = (scale > 0) & ~agrad.isnan(loc)
        if shapes:
            ok = ok & self._valid(*shapes)
        if not everywhere(ok):
            shapes = [chosen(ok, s, number) for s, number in zip(shapes, self.safe, strict=False)]
            scale = chosen(ok, scale, 1.0)
        return shapes, loc, scale, ~ok

    def _given(self, x: Any, args: Sequence[Any], kwds: dict[str, Any]) -> Given:
        x, *values = agrad.broadcast_arrays(*arrays(x, *self._bound(args, kwds)))
        shapes, loc, scale, bad = self._parameters(values)
        z = (x - loc) / scale if self.scaled else x - loc
        inside = self._inside(z, *shapes) & ~bad
        if everywhere(inside):  # nothing is filled outside of the support
            return Given(z, shapes, loc, scale, inside, bad, bad)
        point = self._point(z, *shapes)
        upper, bad = z > point, bad | agrad.isnan(z)
        return Given(agrad.where(inside, z, point), shapes, loc, scale, inside, upper, bad)

    def _quantile(self, q: Any, args: Sequence[Any], kwds: dict[str, Any], upper: bool) -> Tensor:
        q, *values = agrad.broadcast_arrays(*arrays(q, *self._bound(args, kwds)))
        shapes, loc, scale, bad = self._parameters(values)
        inside = (q > 0) & (q < 1) & ~bad
        inner = chosen(inside, q, 0.5)
        out = self._isf(inner, *shapes) if upper else self._ppf(inner, *shapes)
        low, high = (chosen(inside, agrad.zeros_like(out), end) for end in self._ends(*shapes))
        ends = agrad.where(q == 1, low, high) if upper else agrad.where(q == 0, low, high)
        bad = bad | agrad.isnan(q) | (q < 0) | (q > 1)
        return chosen(bad, agrad.full_like(out, agrad.nan), agrad.where(inside, out, ends) * scale + loc)

    def _moment(self, f: Callable[..., Any], args: Sequence[Any], kwds: dict[str, Any]) -> Tensor:
        """Return ``f(loc, scale, *shapes)``, NaN for invalid parameters."""
        values = agrad.broadcast_arrays(*arrays(*self._bound(args, kwds)))
        shapes, loc, scale, bad = self._parameters(values)
        return chosen(bad, agrad.full_like(loc, agrad.nan), f(loc, scale, *shapes) + agrad.zeros_like(loc))

    # ---- what a distribution defines, for the standard form

    def _valid(self, *shapes: Any, **_: Any) -> Any:
        ok = shapes[0] > 0
        for s in shapes[1:]:
            ok = ok & (s > 0)
        return ok

    def _inside(self, z: Any, *shapes: Any, **_: Any) -> Any:
        return (z >= self.low) & (z <= self.high) & agrad.isfinite(z)

    def _point(self, z: Any, *shapes: Any, **_: Any) -> Any:
        return agrad.full_like(z, self.point)

    def _ends(self, *shapes: Any, **_: Any) -> Any:
        return self.low, self.high

    def _cdf(self, z: Any, *shapes: Any, **_: Any) -> Any:
        raise MissingFunctionError(f"agrad.scipy.stats.{self.name} does not support cdf, sf and ppf")

    def _sf(self, z: Any, *shapes: Any, **_: Any) -> Any:
        return 1 - self._cdf(z, *shapes)

    def _logcdf(self, z: Any, *shapes: Any, **_: Any) -> Any:
        return log_of(self._cdf(z, *shapes), self._sf(z, *shapes))

    def _logsf(self, z: Any, *shapes: Any, **_: Any) -> Any:
        return log_of(self._sf(z, *shapes), self._cdf(z, *shapes))

    def _ppf(self, q: Any, *shapes: Any, **_: Any) -> Any:
        raise MissingFunctionError(f"agrad.scipy.stats.{self.name} does not support ppf, isf and median")

    def _isf(self, q: Any, *shapes: Any, **_: Any) -> Any:
        return self._ppf(1 - q, *shapes)

    def _mean(self, *shapes: Any, **_: Any) -> Any:
        return self._number(0, "mean")

    def _var(self, *shapes: Any, **_: Any) -> Any:
        return self._number(1, "var and std")

    def _entropy(self, *shapes: Any, **_: Any) -> Any:
        return self._number(2, "entropy. Average -logpdf.")

    def _number(self, place: int, what: str) -> float:
        if self.moments:
            return self.moments[place]
        raise MissingFunctionError(f"agrad.scipy.stats.{self.name} does not support {what}")

    # ---- methods of all distributions

    cdf: "OfPoints" = at_places(
        "cdf", "the probability of values up to ``x``", lambda d, at: d._cdf(at.z, *at.shapes), 0.0, 1.0
    )
    sf: "OfPoints" = at_places(
        "sf", "the probability of values above ``x``", lambda d, at: d._sf(at.z, *at.shapes), 1.0, 0.0
    )
    logcdf: "OfPoints" = at_places(
        "logcdf", "the logarithm of ``cdf``", lambda d, at: d._logcdf(at.z, *at.shapes), -agrad.inf, 0.0
    )
    logsf: "OfPoints" = at_places(
        "logsf", "the logarithm of ``sf``", lambda d, at: d._logsf(at.z, *at.shapes), 0.0, -agrad.inf
    )

    @function
    def ppf(self, q: Any, *args: Any, **kwds: Any) -> Any:
        """Return the point at which ``cdf`` is ``q``.

        ``q`` and the parameters broadcast to the shape of the result.
        """
        return self._quantile(q, args, kwds, upper=False)

    @function
    def isf(self, q: Any, *args: Any, **kwds: Any) -> Any:
        """Return the point at which ``sf`` is ``q``.

        ``q`` and the parameters broadcast to the shape of the result.
        """
        return self._quantile(q, args, kwds, upper=True)

    median: Callable[..., Any] = of_parameters(
        "median", "the median", lambda d, args, kwds: d._quantile(0.5, args, kwds, upper=False)
    )
    mean: Callable[..., Any] = moment("mean", "the mean", lambda d, loc, scale, *shapes: loc + scale * d._mean(*shapes))
    var: Callable[..., Any] = moment(
        "var", "the variance", lambda d, loc, scale, *shapes: scale * scale * d._var(*shapes)
    )
    std: Callable[..., Any] = moment(
        "std",
        "the standard deviation",
        lambda d, loc, scale, *s: scale * agrad.sqrt(d._var(*s) + agrad.zeros_like(scale)),
    )


class Frozen:
    """Distribution with fixed parameters, whose methods accept only points.

    ``frozen.logpdf(x)`` is ``dist.logpdf(x, *args, **kwds)``, and so on.
    """

    def __init__(self, dist: Any, args: tuple[Any, ...], kwds: dict[str, Any]) -> None:
        self.dist: Any = dist
        self.args: tuple[Any, ...] = args
        self.kwds: dict[str, Any] = kwds

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self.dist, name)
        return lambda *places, **how: method(*places, *self.args, **self.kwds, **how)

    def rvs(self, size: Any = 1, random_state: Any = None) -> Any:
        """Return random numbers of shape ``size``, drawn on the host by SciPy."""
        return self.dist.rvs(*self.args, **self.kwds, size=size, random_state=random_state)
