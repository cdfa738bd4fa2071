"""Functions of matrices and Sylvester's equation, by SciPy's names."""

import math
from collections.abc import Callable
from typing import Any

import agrad
from agrad import Tensor
from agrad.errors import ShapeError
from agrad.interop.arguments import is_complex, is_concrete, values_of
from agrad.scipy.linalg.shared import identity, square
from agrad.scipy.shared import arrays, function

_PADE = [
    math.factorial(26 - k) * math.factorial(13) / (math.factorial(26) * math.factorial(k) * math.factorial(13 - k))
    for k in range(14)
]
"""Coefficients of the diagonal Pade approximant of exp of degree 13."""

_REACH = 5.371920351148152
"""The 1-norm up to which its error is below the precision of float64 (Higham 2005, table 2.3)."""

_SQUARINGS = 16
"""How often a result is squared where the norm cannot be read."""


def _each(x: Tensor) -> Tensor:
    """Return one number a matrix as a factor of the matrices."""
    return agrad.expand_dims(x, axis=(-2, -1))


def _pade(A: Tensor) -> Tensor:
    c, one = _PADE, identity(A.shape[-1], A)
    A2 = A @ A
    A4 = A2 @ A2
    A6 = A2 @ A4
    odd = A @ (A6 @ (c[13] * A6 + c[11] * A4 + c[9] * A2) + c[7] * A6 + c[5] * A4 + c[3] * A2 + c[1] * one)
    even = A6 @ (c[12] * A6 + c[10] * A4 + c[8] * A2) + c[6] * A6 + c[4] * A4 + c[2] * A2 + c[0] * one
    return agrad.linalg.solve(even - odd, even + odd)


def _expm(A: Tensor) -> Tensor:
    if not A.shape[-1]:
        return A
    norm = agrad.max(agrad.sum(agrad.abs(agrad.stop_gradient(A)), axis=-2), axis=-1)
    count = agrad.ceil(agrad.log2(agrad.maximum(norm / _REACH, agrad.ones_like(norm))))
    most = _SQUARINGS
    if is_concrete(count):
        found = values_of(count)
        most = int(found.max(where=abs(found) < math.inf, initial=0.0))
    count = _each(count)
    X = _pade(A * agrad.pow(2.0, -agrad.minimum(count, agrad.full_like(count, float(most)))))
    for k in range(most):
        more = count > k
        # matrices that are done are not squared: their squares may overflow
        X_more = agrad.where(more, X, agrad.zeros_like(X))
        X = agrad.where(more, X_more @ X_more, X)
    return agrad.where(count <= most, X, agrad.full_like(X, math.nan))


@function
def expm(A: Any) -> Any:
    """Return the exponential of each matrix.

    Parameters
    ----------
    A : array
        Of shape (..., n, n).

    Returns
    -------
    array
        Of the shape of ``A``.

    Raises
    ------
    ShapeError
        For matrices that are not square.

    Notes
    -----
    N. J. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005), with degree 13 for
    every matrix. Under ``vmap`` and ``jit``, where the norm cannot be read, it takes 16 squarings, and matrices of a
    1-norm above 3.5e5 give NaN.
    """
    return _expm(square(A, "expm"))


def _imaginary(A: Tensor) -> Tensor:
    """Return ``1j * A``."""
    return (
        A if is_complex(A) else agrad.astype(A, agrad.complex64 if A.dtype == agrad.float32 else agrad.complex128)
    ) * 1j


def _cos_sin(A: Tensor) -> tuple[Tensor, Tensor]:
    forward = _expm(_imaginary(A))
    if not is_complex(A):
        return agrad.real(forward), agrad.imag(forward)
    backward = _expm(-_imaginary(A))
    return (forward + backward) / 2, (forward - backward) / 2j


def _cosh_sinh(A: Tensor) -> tuple[Tensor, Tensor]:
    forward, backward = _expm(A), _expm(-A)
    return (forward + backward) / 2, (forward - backward) / 2


def _derived(name: str, formula: Callable[[Tensor], Tensor], what: str) -> Any:
    """Return a function of matrices that comes from exponentials."""

    def of_matrices(A: Any) -> Any:
        return formula(square(A, name))

    of_matrices.__name__ = of_matrices.__qualname__ = name
    of_matrices.__doc__ = f"""Return the {what} of each matrix.

    Parameters
    ----------
    A : array
        Of shape (..., n, n).

    Returns
    -------
    array
        Of the shape of ``A``.

    Raises
    ------
    ShapeError
        For matrices that are not square.

    Notes
    -----
    It is made of ``expm``, whose limits it has.
    """
    return function(of_matrices)


cosm = _derived("cosm", lambda A: _cos_sin(A)[0], "cosine")
sinm = _derived("sinm", lambda A: _cos_sin(A)[1], "sine")
tanm = _derived("tanm", lambda A: agrad.linalg.solve(*_cos_sin(A)), "tangent")
coshm = _derived("coshm", lambda A: _cosh_sinh(A)[0], "hyperbolic cosine")
sinhm = _derived("sinhm", lambda A: _cosh_sinh(A)[1], "hyperbolic sine")
tanhm = _derived("tanhm", lambda A: agrad.linalg.solve(*_cosh_sinh(A)), "hyperbolic tangent")


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
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """Return the solution x of ``a @ x + x @ b = q``.

    Parameters
    ----------
    a : array
        Of shape (..., m, m).
    b : array
        Of shape (..., n, n).
    q : array
        Of shape (..., m, n).

    Returns
    -------
    array
        Of the shape of ``q``, with the batch axes of all.

    Raises
    ------
    ShapeError
        For shapes that do not fit. Where an eigenvalue of ``a`` is minus one of ``b``, it is the array library's own
        error.

    Notes
    -----
    By one system of m * n equations: O((m * n)**3) operations and O((m * n)**2) memory, where SciPy takes
    O(m**3 + n**3).
    """
    a, b, q = arrays(a, b, q)
    a, b = square(a, "solve_sylvester"), square(b, "solve_sylvester")
    if q.ndim < 2 or tuple(q.shape[-2:]) != (a.shape[-1], b.shape[-1]):
        raise ShapeError(f"solve_sylvester: q of shape {tuple(q.shape)} does not fit")
    return _sylvester(a, b, q)


_STEPS = 25
"""Steps of Newton's method for square roots. It takes fewer unless an eigenvalue is very close to the cut."""


def _newton(A: Tensor) -> Tensor:
    """Return the principal square roots.

    By the product form of the Denman-Beavers iteration with scaling: N. J. Higham, "Functions of Matrices" (2008),
    equation 6.29.
    """
    n = A.shape[-1]
    one, tiny = identity(n, A), 4 * n * float(agrad.finfo(A.dtype).eps)
    X = M = A
    for _ in range(_STEPS):
        scale = _each(agrad.exp(agrad.linalg.slogdet(M)[1] / (-2 * n)))
        inverse = agrad.linalg.inv(M) / scale**2
        X = X @ (one + inverse) * (scale / 2)
        M = (one + (M * scale**2 + inverse) / 2) / 2
        rest = agrad.max(agrad.abs(M - one))
        if is_concrete(rest) and not float(rest) > tiny:
            break
    return X


def _length(x: Tensor) -> Tensor:
    return agrad.linalg.matrix_norm(x, keepdims=True)


@agrad.custom_jvp
def _sqrtm(A: Any) -> Tensor:
    A = agrad.asarray(A)
    X = _newton(A)
    found = _length(X @ X - A) <= agrad.finfo(A.dtype).eps ** 0.5 * _length(A)
    return agrad.where(found, X, agrad.full_like(X, math.nan))


def _sqrtm_jvp(primals: Any, tangents: Any) -> Any:
    X = agrad.asarray(_sqrtm(*primals))
    return X, _sylvester(X, X, agrad.asarray(tangents[0]))


_sqrtm.defjvp(_sqrtm_jvp)


@function
def sqrtm(A: Any) -> Any:
    """Return the principal square root of each matrix.

    Parameters
    ----------
    A : array
        Of shape (..., n, n), regular, without eigenvalues that are real and negative.

    Returns
    -------
    array
        Of the shape and dtype of ``A``; NaN for a matrix with a real negative eigenvalue, of which SciPy returns a
        complex root.

    Raises
    ------
    ShapeError
        For matrices that are not square. A singular matrix is the array library's own error.

    Notes
    -----
    Newton's method: N. J. Higham, "Functions of Matrices" (2008), equation 6.29. The derivative solves Sylvester's
    equation, in O(n**6) operations.
    """
    A = square(A, "sqrtm")
    return _sqrtm(A) if A.shape[-1] else A
