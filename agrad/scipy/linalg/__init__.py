"""Linear algebra by the names of ``scipy.linalg``.

Matrices are the last two axes; all axes before them are a batch. Arguments are converted to one floating dtype, real or
complex. Functions of a part of SciPy's options raise an error for the others.
"""

from agrad.scipy.linalg.banded import cho_solve_banded, cholesky_banded, solve_banded, solveh_banded
from agrad.scipy.linalg.basic import det, inv, lstsq, norm, pinv, solve, solve_toeplitz, solve_triangular
from agrad.scipy.linalg.constant import hadamard, hilbert, pascal
from agrad.scipy.linalg.factors import (
    cho_factor,
    cho_solve,
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from agrad.scipy.linalg.functions import (
    coshm,
    cosm,
    expm,
    expm_frechet,
    logm,
    sinhm,
    sinm,
    solve_continuous_lyapunov,
    solve_discrete_lyapunov,
    solve_sylvester,
    sqrtm,
    tanhm,
    tanm,
)
from agrad.scipy.linalg.lu_factors import lu, lu_factor, lu_solve
from agrad.scipy.linalg.matrices import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    fiedler,
    hankel,
    leslie,
    toeplitz,
)
from agrad.scipy.linalg.spectral import eigh_tridiagonal, funm, polar, schur

__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cho_solve_banded",
    "cholesky",
    "cholesky_banded",
    "circulant",
    "companion",
    "convolution_matrix",
    "coshm",
    "cosm",
    "det",
    "eig",
    "eigh",
    "eigh_tridiagonal",
    "eigvals",
    "eigvalsh",
    "expm",
    "expm_frechet",
    "fiedler",
    "funm",
    "hadamard",
    "hankel",
    "hilbert",
    "inv",
    "leslie",
    "logm",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "norm",
    "pascal",
    "pinv",
    "polar",
    "qr",
    "schur",
    "sinhm",
    "sinm",
    "solve",
    "solve_banded",
    "solve_continuous_lyapunov",
    "solve_discrete_lyapunov",
    "solve_sylvester",
    "solve_toeplitz",
    "solve_triangular",
    "solveh_banded",
    "sqrtm",
    "svd",
    "svdvals",
    "tanhm",
    "tanm",
    "toeplitz",
]
