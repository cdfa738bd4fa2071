"""Matrix functions and Sylvester equations with the SciPy names."""

from collections.abc import Callable
from typing import Any

import agrad
from agrad import Tensor
from agrad.errors import ShapeError
from agrad.interop.arguments import adjoint, as_complex, conjugate, is_complex
from agrad.ops import matrix_functions
from agrad.scipy.linalg.shared import identity, square
from agrad.scipy.shared import Function, arrays, function, named

__all__ = [
    "coshm", "cosm", "expm", "expm_frechet", "logm", "sinhm", "sinm", "solve_continuous_lyapunov",
    "solve_discrete_lyapunov", "solve_sylvester", "sqrtm", "tanhm", "tanm",
]  # fmt: skip


@function
def expm(A: Any) -> Tensor:
    """Return the exponential of each matrix.

    Like ``scipy.linalg.expm``: ``A`` and the result have shape (..., n, n). It is ``agrad.linalg.matrix_exp``.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a = np.asarray([[0.0, 1.0], [0.0, 0.0]])
    >>> linalg.expm(a)
    array([[1., 1.],
           [0., 1.]])
    >>> agrad.grad(lambda t: linalg.expm(t * a)[0, 1])(2.0)
    np.float64(1.0)
    """
    return agrad.linalg.matrix_exp(square(A, "expm"))


def _cos_sin(A: Tensor) -> tuple[Tensor, Tensor]:
    forward = agrad.linalg.matrix_exp(as_complex(A) * 1j)
    if not is_complex(A):
        return agrad.real(forward), agrad.imag(forward)
    backward = agrad.linalg.matrix_exp(-(as_complex(A) * 1j))
    return (forward + backward) / 2, (forward - backward) / 2j


def _cosh_sinh(A: Tensor) -> tuple[Tensor, Tensor]:
    forward, backward = agrad.linalg.matrix_exp(A), agrad.linalg.matrix_exp(-A)
    return (forward + backward) / 2, (forward - backward) / 2


def _derived(name: str, formula: Callable[[Tensor], Tensor], what: str, example: str) -> Any:
    """Return a function of matrices that comes from exponentials."""

    @function
    def of_matrices(A: Any) -> Any:
        """Return the {what} of each matrix.

        Like ``scipy.linalg.{name}``: ``A`` and the result have shape (..., n, n). It is computed with ``expm``.
        """
        return formula(square(A, name))

    return named(of_matrices, name, what, "linalg", example)


# fmt: off
cosm: Function = _derived("cosm", lambda A: _cos_sin(A)[0], "cosine", example="""
>>> a = np.asarray([[0.1, 1.0], [0.5, 0.2]])
>>> linalg.cosm(a).round(4)
array([[ 0.7574, -0.1372],
       [-0.0686,  0.7437]])
>>> agrad.grad(lambda a: agrad.sum(linalg.cosm(a)))(a).round(4)
array([[-0.7508, -0.5735],
       [-1.0097, -0.8381]])
""")
sinm: Function = _derived("sinm", lambda A: _cos_sin(A)[1], "sine", example="""
>>> a = np.asarray([[0.1, 1.0], [0.5, 0.2]])
>>> linalg.sinm(a).round(4)
array([[0.068 , 0.908 ],
       [0.454 , 0.1588]])
>>> agrad.grad(lambda a: agrad.sum(linalg.sinm(a)))(a).round(4)
array([[0.6663, 0.7219],
       [0.5358, 0.629 ]])
""")
tanm: Function = _derived("tanm", lambda A: agrad.linalg.solve(*_cos_sin(A)), "tangent", example="""
>>> a = np.asarray([[0.1, 1.0], [0.5, 0.2]])
>>> linalg.tanm(a).round(4)
array([[0.2038, 1.2585],
       [0.6293, 0.3297]])
>>> agrad.grad(lambda a: agrad.sum(linalg.tanm(a)))(a).round(4)
array([[2.2917, 2.0484],
       [2.8383, 2.4497]])
""")
coshm: Function = _derived("coshm", lambda A: _cosh_sinh(A)[0], "hyperbolic cosine", example="""
>>> a = np.asarray([[0.1, 1.0], [0.5, 0.2]])
>>> linalg.coshm(a).round(4)
array([[1.268 , 0.1635],
       [0.0817, 1.2843]])
>>> agrad.grad(lambda a: agrad.sum(linalg.coshm(a)))(a).round(4)
array([[0.9567, 0.7323],
       [1.3012, 1.0705]])
""")
sinhm: Function = _derived("sinhm", lambda A: _cosh_sinh(A)[1], "hyperbolic sine", example="""
>>> a = np.asarray([[0.1, 1.0], [0.5, 0.2]])
>>> linalg.sinhm(a).round(4)
array([[0.1351, 1.0981],
       [0.5491, 0.2449]])
>>> agrad.grad(lambda a: agrad.sum(linalg.sinhm(a)))(a).round(4)
array([[1.3773, 1.3127],
       [1.5274, 1.4203]])
""")
tanhm: Function = _derived("tanhm", lambda A: agrad.linalg.solve(*_cosh_sinh(A)), "hyperbolic tangent", example="""
>>> a = np.asarray([[0.1, 1.0], [0.5, 0.2]])
>>> linalg.tanhm(a).round(4)
array([[0.0518, 0.8484],
       [0.4242, 0.1367]])
>>> agrad.grad(lambda a: agrad.sum(linalg.tanhm(a)))(a).round(4)
array([[0.5338, 0.605 ],
       [0.3616, 0.4851]])
""")
# fmt: on


def _sylvester(a: Tensor, b: Tensor, q: Tensor) -> Tensor:
    m, n = a.shape[-1], b.shape[-1]
    batch = agrad.broadcast_shapes(a.shape[:-2], b.shape[:-2], q.shape[:-2])
    left = agrad.reshape(a, (*a.shape[:-2], m, 1, m, 1)) * agrad.reshape(identity(n, a), (1, n, 1, n))
    bt = agrad.matrix_transpose(b)
    right = agrad.reshape(identity(m, b), (m, 1, m, 1)) * agrad.reshape(bt, (*b.shape[:-2], 1, n, 1, n))
    both = left + right
    both = agrad.reshape(both, (*both.shape[:-4], m * n, m * n))
    x = agrad.linalg.solve(both, agrad.reshape(q, (*q.shape[:-2], m * n, 1)))
    return agrad.reshape(x, (*batch, m, n))


@function
def solve_sylvester(a: Any, b: Any, q: Any) -> Tensor:
    """Return the solution x of ``a @ x + x @ b = q``.

    Like ``scipy.linalg.solve_sylvester``: ``a`` has shape (..., m, m), ``b`` (..., n, n), ``q`` and the result (..., m,
    n). If an eigenvalue of ``a`` is the negative of one of ``b``, the matrix of the system is singular.

    Notes
    -----
    Solves one system of m * n equations, with O((m * n)**3) operations and O((m * n)**2) memory. SciPy needs O(m**3 +
    n**3) operations.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a, b, q = np.asarray([[2.0, 1.0], [1.0, 2.0]]), np.asarray([[1.0]]), np.asarray([[1.0], [2.0]])
    >>> linalg.solve_sylvester(a, b, q).round(4)
    array([[0.125],
           [0.625]])
    >>> agrad.grad(lambda q: agrad.sum(linalg.solve_sylvester(a, b, q)))(q).round(4)
    array([[0.25],
           [0.25]])
    """
    a, b, q = arrays(a, b, q)
    a, b = square(a, "solve_sylvester"), square(b, "solve_sylvester")
    if q.ndim < 2 or tuple(q.shape[-2:]) != (a.shape[-1], b.shape[-1]):
        raise ShapeError(f"solve_sylvester: q must have shape {(a.shape[-1], b.shape[-1])}, got {tuple(q.shape)}")
    return _sylvester(a, b, q)


@function
def sqrtm(A: Any) -> Tensor:
    """Return the principal square root of each matrix.

    Like ``scipy.linalg.sqrtm``, for regular matrices of shape (..., n, n). The result has the dtype of ``A``. It is NaN
    for a matrix with a negative real eigenvalue, for which the SciPy result is complex, and if less than half of its
    digits would be correct.

    Notes
    -----
    Newton's method: N. J. Higham, "Functions of Matrices" (2008), equation 6.29. A derivative is the square root of
    matrices of twice the size. It loses about as many digits as the square of the condition number has.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a = np.asarray([[5.0, 4.0], [4.0, 5.0]])
    >>> linalg.sqrtm(a).round(4)
    array([[2., 1.],
           [1., 2.]])
    >>> agrad.grad(lambda a: linalg.sqrtm(a)[0, 0])(a).round(4)
    array([[ 0.2917, -0.0833],
           [-0.0833,  0.0417]])
    """
    return matrix_functions.sqrtm(square(A, "sqrtm"), checked=True)


@function
def logm(A: Any) -> Tensor:
    """Return the principal logarithm of each matrix.

    Like ``scipy.linalg.logm``, with the shapes and limits of ``sqrtm``. A derivative is the logarithm of matrices of
    twice the size.

    Notes
    -----
    Inverse scaling and squaring: N. J. Higham, "Functions of Matrices" (2008), section 11.5.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a = np.asarray([[2.0, 1.0], [1.0, 2.0]])
    >>> linalg.logm(a).round(4)
    array([[0.5493, 0.5493],
           [0.5493, 0.5493]])
    >>> agrad.grad(lambda a: linalg.logm(a)[0, 0])(a).round(4)
    array([[ 0.608 , -0.1667],
           [-0.1667,  0.0587]])
    """
    return matrix_functions.logm(square(A, "logm"), checked=True)


@function
def solve_continuous_lyapunov(a: Any, q: Any) -> Tensor:
    """Return the solution x of ``a @ x + x @ a.H = q``.

    Like ``scipy.linalg.solve_continuous_lyapunov``: all arrays have shape (..., n, n). It is computed by
    ``solve_sylvester``.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a, q = np.asarray([[2.0, 0.0], [1.0, 1.0]]), np.eye(2)
    >>> linalg.solve_continuous_lyapunov(a, q).round(4)
    array([[ 0.25  , -0.0833],
           [-0.0833,  0.5833]])
    >>> agrad.grad(lambda q: linalg.solve_continuous_lyapunov(a, q)[1, 1])(q).round(4)
    array([[ 0.0833, -0.1667],
           [-0.1667,  0.5   ]])
    """
    a, q = arrays(a, q)
    return solve_sylvester(a, adjoint(square(a, "solve_continuous_lyapunov")), q)


@function
def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Tensor:
    """Return the solution x of ``a @ x @ a.H - x + q = 0``.

    Like ``scipy.linalg.solve_discrete_lyapunov``: all arrays have shape (..., n, n). Every ``method`` solves one system
    of n * n equations, with O(n**6) operations.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a, q = np.asarray([[0.5, 0.25], [0.25, 0.5]]), np.eye(2)
    >>> linalg.solve_discrete_lyapunov(a, q).round(4)
    array([[1.6762, 0.6095],
           [0.6095, 1.6762]])
    >>> agrad.grad(lambda q: linalg.solve_discrete_lyapunov(a, q)[0, 0])(q).round(4)
    array([[1.4535, 0.3048],
           [0.3048, 0.2227]])
    """
    a, q = arrays(a, q)
    a, n = square(a, "solve_discrete_lyapunov"), a.shape[-1]
    if tuple(q.shape[-2:]) != (n, n):
        raise ShapeError(f"solve_discrete_lyapunov: q must have the shape of a, got {tuple(q.shape)}")
    batch = agrad.broadcast_shapes(a.shape[:-2], q.shape[:-2])
    both = agrad.reshape(a, (*a.shape[:-2], n, 1, n, 1))
    both = both * agrad.reshape(conjugate(a), (*a.shape[:-2], 1, n, 1, n))
    system = identity(n * n, a) - agrad.reshape(both, (*a.shape[:-2], n * n, n * n))
    x = agrad.linalg.solve(system, agrad.reshape(q, (*q.shape[:-2], n * n, 1)))
    return agrad.reshape(x, (*batch, n, n))


@function
def expm_frechet(
    A: Any, E: Any, method: str | None = None, compute_expm: bool = True, check_finite: bool = True
) -> Any:
    """Return the exponential of each matrix and its derivative along another.

    Like ``scipy.linalg.expm_frechet``: all arrays have shape (..., n, n). ``method`` is ignored.

    Notes
    -----
    The results are blocks of the exponential of [[A, E], [0, A]]: N. J. Higham, "Functions of Matrices" (2008), section
    10.6.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a, e = np.asarray([[0.0, 1.0], [0.0, 0.0]]), np.eye(2)
    >>> value, derivative = linalg.expm_frechet(a, e)
    >>> derivative.round(6)
    array([[1., 1.],
           [0., 1.]])
    """
    A, E = arrays(A, E)
    A, n = square(A, "expm_frechet"), A.shape[-1]
    if tuple(E.shape[-2:]) != (n, n):
        raise ShapeError(f"expm_frechet: A and E must have the same shape, got {tuple(A.shape)} and {tuple(E.shape)}")
    A, E = agrad.broadcast_arrays(A, E)
    upper = agrad.concat([A, E], axis=-1)
    lower = agrad.concat([agrad.zeros_like(A), A], axis=-1)
    found = agrad.linalg.matrix_exp(agrad.concat([upper, lower], axis=-2))
    slope = found[..., :n, n:]
    return (found[..., :n, :n], slope) if compute_expm else slope
