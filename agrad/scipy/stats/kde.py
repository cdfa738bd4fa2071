"""Density estimates by Gaussian kernels."""

import math
from typing import Any

import agrad
from agrad.errors import OperandError, ShapeError
from agrad.scipy.shared import arrays, method


class gaussian_kde:
    """A density estimate by Gaussian kernels, differentiable in points and data.

    Like ``scipy.stats.gaussian_kde``, differentiable with respect to points, data, weights and a bandwidth factor:
    ``dataset`` has shape (n,) or (d, n), ``weights`` (n,), and points (m,) or (d, m).

    Notes
    -----
    The covariance of the kernels is the covariance of the data times the squared factor. With n = 1 / (sum of squared
    weights), the Scott factor is n**(-1 / (d + 4)), and the Silverman factor is (n (d + 2) / 4)**(-1 / (d + 4)).

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> density = stats.gaussian_kde(np.asarray([0.0, 1.0, 3.0]))
    >>> density(np.asarray([0.0, 2.0])).round(6)
    array([0.191656, 0.184215])
    >>> agrad.grad(lambda x: density(x)[0])(np.asarray([2.0])).round(6)
    array([-0.038146])
    """

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        self._given = (dataset, weights)
        data, weight = arrays(dataset, 1.0 if weights is None else weights)
        data = agrad.reshape(data, (1, -1)) if data.ndim < 2 else data
        if data.ndim != 2 or weight.ndim > 1 or (weight.ndim and weight.shape[0] != data.shape[1]):
            raise ShapeError(f"gaussian_kde: shapes must be (d, n) and (n,), got {data.shape} and {weight.shape}")
        self.d: int = int(data.shape[0])
        self.n: int = int(data.shape[1])
        if self.n < 2:
            raise OperandError("gaussian_kde: dataset must have at least two points")
        weight = agrad.broadcast_to(weight, (self.n,))
        self._data, self._weights = data, weight / agrad.sum(weight)
        self._neff = 1 / agrad.sum(self._weights * self._weights)
        self.set_bandwidth(bw_method)

    @property
    @method
    def dataset(self) -> Any:
        """Return the data, (dimensions, points)."""
        return self._data

    @property
    @method
    def weights(self) -> Any:
        """Return the weights, whose sum is 1."""
        return self._weights

    @property
    @method
    def neff(self) -> Any:
        """Return the effective number of points."""
        return self._neff

    @property
    @method
    def factor(self) -> Any:
        """Return the factor of the bandwidth."""
        return self._factor

    @property
    @method
    def covariance(self) -> Any:
        """Return the covariance matrix of the kernels."""
        return self._covariance

    @method
    def scotts_factor(self) -> Any:
        """Return Scott's factor.

        Examples
        --------
        >>> from agrad.scipy import stats
        >>> density = stats.gaussian_kde(np.asarray([0.0, 1.0, 3.0]))
        >>> round(float(density.scotts_factor()), 4)
        0.8027
        """
        return self._neff ** (-1.0 / (self.d + 4))

    @method
    def silverman_factor(self) -> Any:
        """Return Silverman's factor.

        Examples
        --------
        >>> from agrad.scipy import stats
        >>> density = stats.gaussian_kde(np.asarray([0.0, 1.0, 3.0]))
        >>> round(float(density.silverman_factor()), 4)
        0.8503
        """
        return (self._neff * (self.d + 2.0) / 4.0) ** (-1.0 / (self.d + 4))

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Set the bandwidth.

        ``bw_method`` is "scott", "silverman", a number, or a callable that receives the estimate and returns the
        factor.

        Examples
        --------
        >>> from agrad.scipy import stats
        >>> density = stats.gaussian_kde(np.asarray([0.0, 1.0, 3.0]))
        >>> density.set_bandwidth("silverman")
        >>> density(np.asarray([0.0, 2.0])).round(4)
        array([0.1856, 0.1835])
        """
        if bw_method is None or (isinstance(bw_method, str) and bw_method == "scott"):
            factor = self.scotts_factor()
        elif isinstance(bw_method, str) and bw_method == "silverman":
            factor = self.silverman_factor()
        elif callable(bw_method):
            factor = bw_method(self)
        elif isinstance(bw_method, str) or getattr(bw_method, "shape", ()) != ():
            raise OperandError(
                f"gaussian_kde: bw_method must be 'scott', 'silverman', a number or a callable, got {bw_method!r}"
            )
        else:
            factor = bw_method
        (self._factor,) = arrays(self._data, factor)[1:]
        center = agrad.sum(self._data * self._weights, axis=1, keepdims=True)
        offset = self._data - center
        free = 1 - agrad.sum(self._weights * self._weights)
        spread = agrad.matmul(offset * self._weights, agrad.matrix_transpose(offset)) / free
        self._covariance = spread * (self._factor * self._factor)

    @method
    def logpdf(self, x: Any) -> Any:
        """Return the logarithm of the density at m points, shape (m,).

        Examples
        --------
        >>> from agrad.scipy import stats
        >>> density = stats.gaussian_kde(np.asarray([0.0, 1.0, 3.0]))
        >>> density.logpdf(np.asarray([0.0, 2.0])).round(4)
        array([-1.6521, -1.6916])
        """
        x, data, weights, covariance = arrays(x, self._data, self._weights, self._covariance)
        x = agrad.reshape(x, (1, -1)) if x.ndim < 2 and self.d == 1 else x
        if x.ndim == 1 and x.shape[0] == self.d:
            x = agrad.expand_dims(x, axis=1)
        if x.ndim != 2 or x.shape[0] != self.d:
            raise ShapeError(f"gaussian_kde: points must have shape ({self.d}, m), like the dataset, got {x.shape}")
        root = agrad.linalg.cholesky(covariance)
        x, data = (agrad.linalg.solve_triangular(root, v, lower=True) for v in (x, data))
        offset = agrad.expand_dims(x, axis=2) - agrad.expand_dims(data, axis=1)
        none = weights <= 0
        log_weights = agrad.log(agrad.where(none, agrad.ones_like(weights), weights))
        terms = log_weights - 0.5 * agrad.sum(offset * offset, axis=0)
        terms = agrad.where(none, agrad.full_like(terms, -agrad.inf), terms)
        norm = agrad.sum(agrad.log(agrad.linalg.diagonal(root))) + 0.5 * self.d * math.log(2 * math.pi)
        return agrad.logsumexp(terms, axis=1) - norm

    @method
    def evaluate(self, points: Any) -> Any:
        """Return the density at m points, shape (m,).

        Examples
        --------
        >>> from agrad.scipy import stats
        >>> density = stats.gaussian_kde(np.asarray([0.0, 1.0, 3.0]))
        >>> density.evaluate(np.asarray([0.0, 2.0])).round(4)
        array([0.1917, 0.1842])
        """
        return agrad.exp(agrad.asarray(self.logpdf(points)))

    def pdf(self, x: Any) -> Any:
        """Return the density at m points, shape (m,)."""
        return self.evaluate(x)

    __call__ = evaluate
