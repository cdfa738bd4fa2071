"""Interpolation by radial functions."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, ShapeError
from agrad.expect import one_of
from agrad.interop.arguments import constant
from agrad.scipy.interpolate.nodes import real_beside, real_places
from agrad.scipy.shared import method, unsupported


def _where_apart(f: Callable[[Any], Any]) -> Callable[[Any], Tensor]:
    """Return a function of squared distances that is 0, with its derivative, where they are 0."""

    def of(s: Any) -> Tensor:
        zero = s == 0
        return agrad.where(zero, agrad.zeros_like(s), f(agrad.where(zero, agrad.ones_like(s), s)))

    return of


_KERNELS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "linear": (_where_apart(lambda s: -agrad.sqrt(s)), 0),
    "thin_plate_spline": (_where_apart(lambda s: 0.5 * s * agrad.log(s)), 1),
    "cubic": (_where_apart(lambda s: s * agrad.sqrt(s)), 1),
    "quintic": (_where_apart(lambda s: -s * s * agrad.sqrt(s)), 2),
    "multiquadric": (lambda s: -agrad.sqrt(s + 1), 0),
    "inverse_multiquadric": (lambda s: 1 / agrad.sqrt(s + 1), -1),
    "inverse_quadratic": (lambda s: 1 / (s + 1), -1),
    "gaussian": (lambda s: agrad.exp(-s), -1),
}
"""Functions of the squared distance, and the smallest degree of the added polynomial."""
_FREE_OF_SCALE = ("linear", "thin_plate_spline", "cubic", "quintic")


class RBFInterpolator:
    """Sum of radial functions around points, and a polynomial.

    Like ``scipy.interpolate.RBFInterpolator``: points ``y`` of shape (n, k), values ``d`` of shape (n, ...),
    ``smoothing`` of shape () or (n,), and ``epsilon`` of shape (). All are differentiable. ``neighbors`` is not
    supported. A ``degree`` below the minimum raises ``ConfigurationError``, whereas SciPy warns.

    If an evaluation point coincides with a data point, the kernel around it has derivative 0 in every order.
    Mathematically, "linear" has no derivative there and "thin_plate_spline" no second derivative.

    Notes
    -----
    Solves a dense system with one equation for each point and term, in O(n**3) time. The differences of all points form
    an array of shape (n, n, k).

    Examples
    --------
    >>> from agrad.scipy import interpolate
    >>> places = np.asarray([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> surface = interpolate.RBFInterpolator(places, np.asarray([0.0, 1.0, 1.0, 2.0]))
    >>> surface(np.asarray([[0.25, 0.5]])).round(4)
    array([0.75])
    >>> agrad.grad(lambda x: surface(x)[0])(np.asarray([[0.25, 0.5]])).round(4)
    array([[1., 1.]])
    """

    @unsupported("neighbors", fix="Leave it out to use all points")
    def __init__(
        self,
        y: Any,
        d: Any,
        neighbors: Any = None,
        smoothing: Any = 0.0,
        kernel: str = "thin_plate_spline",
        epsilon: Any = None,
        degree: int | None = None,
    ) -> None:
        self._kernel, least = _KERNELS[one_of("RBFInterpolator", "kernel", kernel, _KERNELS)]
        if epsilon is None and kernel not in _FREE_OF_SCALE:
            raise ConfigurationError(f"RBFInterpolator: the kernel {kernel!r} requires epsilon. Pass epsilon=.")
        degree = max(least, 0) if degree is None else degree
        if degree < -1 or -1 < degree < least:
            raise ConfigurationError(f"RBFInterpolator: degree must be -1 or at least {least}, got {degree}")
        self._given = (y, d, smoothing, epsilon)
        y, d, smoothing, epsilon = real_beside(y, d, smoothing, 1.0 if epsilon is None else epsilon)
        if y.ndim != 2 or d.ndim == 0 or d.shape[0] != y.shape[0] or smoothing.shape not in ((), (y.shape[0],)):
            raise ShapeError("RBFInterpolator: shapes must be (n, k) for y, (n, ...) for d, () or (n,) for smoothing")
        n, k = y.shape
        self._terms = [t for size in range(degree + 1) for t in itertools.combinations_with_replacement(range(k), size)]
        if len(self._terms) > n:
            raise ShapeError(
                f"RBFInterpolator: degree {degree} in {k} dimensions requires {len(self._terms)} points, got {n}"
            )
        # the span of the polynomials does not depend on their center, so the derivative with respect to it is 0
        low, high = (agrad.stop_gradient(f(y, axis=0)) for f in (agrad.min, agrad.max))
        half = (high - low) / 2
        self._centre, self._half = (low + high) / 2, agrad.where(half == 0, agrad.ones_like(half), half)
        self._y, self._epsilon, self._shape = (
            y,
            agrad.real(epsilon) if epsilon.dtype != y.dtype else epsilon,
            d.shape[1:],
        )
        self._factors = self._solved(agrad.reshape(d, (n, -1)), smoothing)

    def _solved(self, d: Any, smoothing: Any) -> Tensor:
        n, m = self._y.shape[0], len(self._terms)
        eye = constant(np.eye(n, dtype=d.dtype.name), d)
        matrix = agrad.astype(self._radial(self._y), d.dtype) + agrad.broadcast_to(smoothing, (n,)) * eye
        if m:
            side = agrad.astype(self._polynomial(self._y), d.dtype)
            corner = constant(np.zeros((m, m), dtype=d.dtype.name), d)
            below = agrad.concat([agrad.matrix_transpose(side), corner], axis=1)
            matrix = agrad.concat([agrad.concat([matrix, side], axis=1), below], axis=0)
            d = agrad.concat([d, constant(np.zeros((m, d.shape[1]), dtype=d.dtype.name), d)], axis=0)
        return agrad.linalg.solve(matrix, d)

    def _radial(self, x: Any) -> Any:
        off = (agrad.expand_dims(x, axis=1) - agrad.expand_dims(self._y, axis=0)) * self._epsilon
        return self._kernel(agrad.sum(off * off, axis=-1))

    def _polynomial(self, x: Any) -> Tensor:
        x = (x - self._centre) / self._half
        one = agrad.ones_like(x[:, 0])
        columns = []
        for term in self._terms:
            value = one
            for i in term:
                value = value * x[:, i]
            columns.append(value)
        return agrad.stack(columns, axis=1)

    @method
    def __call__(self, x: Any) -> Any:
        """Evaluate the interpolant at points.

        ``x`` is real and has shape (q, k), the result (q, ...).
        """
        x, _ = real_places(x, self._y)
        if x.ndim != 2 or x.shape[1] != self._y.shape[1]:
            raise ShapeError(f"RBFInterpolator: x must have shape (q, {self._y.shape[1]}), got {tuple(x.shape)}")
        parts = [self._radial(x), *([self._polynomial(x)] if self._terms else [])]
        rows = agrad.astype(agrad.concat(parts, axis=1), agrad.result_type(x, self._factors))
        out = rows @ agrad.astype(self._factors, rows.dtype)
        return agrad.reshape(out, (x.shape[0], *self._shape))
