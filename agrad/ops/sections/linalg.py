"""Linear algebra: ``agrad.linalg``."""

from agrad.ops.decompositions import (
    lu as lu,
    qr as qr,
    svd as svd,
    svdvals as svdvals,
)
from agrad.ops.determinants import (
    det as det,
    logdet as logdet,
    matrix_rank as matrix_rank,
    pinv as pinv,
    slogdet as slogdet,
)
from agrad.ops.eigenvalues import (
    eig as eig,
    eigh as eigh,
    eigvals as eigvals,
    eigvalsh as eigvalsh,
)
from agrad.ops.linear_algebra import (
    cholesky as cholesky,
    inv as inv,
    matmul as matmul,
    outer as outer,
    solve as solve,
)
from agrad.ops.manipulation import (
    matrix_transpose as matrix_transpose,
)
from agrad.ops.matrix_functions import (
    matrix_exp as matrix_exp,
)
from agrad.ops.norms import (
    matrix_norm as matrix_norm,
    vector_norm as vector_norm,
)
from agrad.ops.products import (
    cross as cross,
    diagonal as diagonal,
    matrix_power as matrix_power,
    tensordot as tensordot,
    trace as trace,
    vecdot as vecdot,
)
from agrad.ops.solutions import (
    cholesky_solve as cholesky_solve,
    lstsq as lstsq,
    solve_triangular as solve_triangular,
)
