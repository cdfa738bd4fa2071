"""``numpy.linalg`` on Tensors."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    Floating,
    PromotedFloating,
    adjoint,
    axes_of,
    axis_of,
    constant,
    inexact,
    is_complex,
    rejects,
    values_of,
    zeros,
)
from agrad.interop.table import as_written, implements
from agrad.registry import PRIMITIVES


@implements("linalg.inv")
def _inv(a: Floating) -> Tensor:
    return agrad.linalg.inv(a)


@implements("linalg.det")
def _det(a: Floating) -> Tensor:
    return agrad.linalg.det(a)


@implements("linalg.slogdet")
def _slogdet(a: Floating) -> Any:
    return agrad.linalg.slogdet(a)


@implements("linalg.solve")
def _solve(a: PromotedFloating, b: PromotedFloating) -> Tensor:
    return agrad.linalg.solve(a, b)


@implements("linalg.cholesky")
def _cholesky(a: Floating, upper: bool = False) -> Tensor:
    # for the upper factor NumPy reads the upper triangle, other libraries the lower one
    return agrad.linalg.cholesky(adjoint(a) if upper else a, upper=upper)


@implements("linalg.qr")
def _qr(a: Floating, mode: str = "reduced") -> Any:
    if mode == "r":
        return agrad.linalg.qr(a, mode="reduced").R
    if mode not in ("reduced", "complete"):
        raise rejects("linalg.qr", f"mode={mode!r} is not supported for Tensors", "Leave mode out")
    return agrad.linalg.qr(a, mode=mode)


@implements("linalg.svd")
def _svd(a: Floating, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    if hermitian:
        return _hermitian_svd(a, bool(compute_uv))
    if not compute_uv:
        return agrad.linalg.svdvals(a)
    return agrad.linalg.svd(a, full_matrices=full_matrices)


class _SvdResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


def _hermitian_svd(x: Tensor, compute_uv: bool) -> Any:
    """Decompose a Hermitian matrix by its eigenvalues, as NumPy does.

    The singular values descend. The vectors on the right have the signs of the eigenvalues.
    """
    if not compute_uv:
        return agrad.sort(agrad.abs(agrad.linalg.eigvalsh(x)), axis=-1, descending=True)
    w, v = agrad.linalg.eigh(x)
    order = constant(np.argsort(np.abs(values_of(w)), axis=-1)[..., ::-1].copy(), x)
    w = agrad.take_along_axis(w, order, axis=-1)
    u = agrad.take_along_axis(v, order[..., None, :], axis=-1)
    return _SvdResult(u, agrad.abs(w), adjoint(u * agrad.sign(w)[..., None, :]))


def completed(a: Tensor, lower: bool, turn: Callable[[Tensor], Tensor] = adjoint) -> Tensor:
    """Return the Hermitian matrices of which one triangle is given.

    With the transpose as ``turn`` they are symmetric.
    """
    strict = agrad.tril(a, k=-1) if lower else agrad.triu(a, k=1)
    diagonal = agrad.tril(agrad.triu(a))
    return strict + turn(strict) + (diagonal + turn(diagonal)) / 2


as_written("linalg.svdvals")


def _reads_upper(UPLO: str) -> bool:
    if UPLO.upper() not in ("L", "U"):
        raise ValueError(f"UPLO must be 'L' or 'U', got {UPLO!r}")
    return UPLO.upper() == "U"


@implements("linalg.eigh")
def _eigh(a: Floating, UPLO: str = "L") -> Any:
    upper = _reads_upper(UPLO)
    if upper and a.backend == "numpy":  # LAPACK's vectors have other signs for the other triangle
        return _EigResult(*PRIMITIVES["linalg.eigh"].bind(a, upper=True))
    return agrad.linalg.eigh(adjoint(a) if upper else a)


@implements("linalg.eigvalsh")
def _eigvalsh(a: Floating, UPLO: str = "L") -> Tensor:
    return agrad.linalg.eigvalsh(adjoint(a) if _reads_upper(UPLO) else a)


class _EigResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


def _real_where_possible(x: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
    # NumPy results are real for a real matrix with real eigenvalues
    if not is_complex(x) and np.all(values_of(parts[0]).imag == 0):
        return tuple(agrad.real(part) for part in parts)
    return parts


@implements("linalg.eig")
def _eig(a: Floating) -> Any:
    return _EigResult(*_real_where_possible(a, *agrad.linalg.eig(a)))


@implements("linalg.eigvals")
def eigvals(a: Floating) -> Tensor:
    """Return the eigenvalues of a matrix, as ``numpy.linalg.eigvals``."""
    return _real_where_possible(a, agrad.linalg.eigvals(a))[0]


@implements("linalg.pinv")
def _pinv(a: Floating, rcond: Any = None, hermitian: bool = False, rtol: Any = np._NoValue) -> Tensor:
    x = completed(a, lower=True) if hermitian else a
    cut = rcond if rtol is np._NoValue else rtol
    if cut is None:
        # rcond=None means 1e-15; an explicit rtol=None means the standard's default
        cut = 1e-15 if rtol is np._NoValue else max(x.shape[-2:]) * agrad.finfo(x.dtype).eps
    cut = values_of(cut)
    if not cut.ndim:
        return agrad.linalg.pinv(x, rtol=float(cut))
    part = agrad.real(x).dtype.name
    return agrad.linalg.pinv(x, rtol=constant(np.broadcast_to(cut, x.shape[:-2]).astype(part), x))


@implements("linalg.matrix_power")
def _matrix_power(a: Tensor, n: int) -> Tensor:
    return agrad.linalg.matrix_power(a if n >= 0 else inexact(a), int(n))


as_written("linalg.diagonal linalg.trace")


@implements("linalg.vector_norm")
def _vector_norm(x: Floating, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    return agrad.linalg.vector_norm(x, axis=axes_of(axis, x.ndim), keepdims=keepdims, ord=ord)


@implements("linalg.matrix_norm")
def _matrix_norm(x: Floating, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    return agrad.linalg.matrix_norm(x, keepdims=keepdims, ord=ord)


@implements("linalg.norm")
def _norm(x: Floating, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    axes = axes_of(axis, x.ndim)
    if len(axes) == 1 or (axis is None and ord is None):
        return agrad.linalg.vector_norm(x, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(f"numpy.linalg.norm: axis must be one axis (vector norm) or two (matrix norm), got {axis!r}")
    out = agrad.linalg.matrix_norm(agrad.moveaxis(x, axes, (-2, -1)), ord="fro" if ord is None else ord)
    return agrad.expand_dims(out, axis=tuple(sorted(axes))) if keepdims else out


@implements("linalg.cond")
def _cond(x: Floating, p: Any = None) -> Tensor:
    if p is None or p in (2, -2):
        s = agrad.linalg.svdvals(x)
        return s[..., 0] / s[..., -1] if p != -2 else s[..., -1] / s[..., 0]
    return agrad.linalg.matrix_norm(x, ord=p) * agrad.linalg.matrix_norm(agrad.linalg.inv(x), ord=p)


@implements("linalg.lstsq")
def lstsq(a: PromotedFloating, b: PromotedFloating, rcond: Any = None) -> tuple[Any, ...]:
    """Solve a least-squares problem, as ``numpy.linalg.lstsq``."""
    if a.ndim != 2 or b.ndim not in (1, 2):
        raise np.linalg.LinAlgError("numpy.linalg.lstsq: a must be a matrix, and b a vector or a matrix")
    m, n = a.shape
    eps = agrad.finfo(a.dtype).eps
    cut = max(m, n) * eps if rcond is None else eps if rcond < 0 else float(rcond)
    x, residuals, rank, s = agrad.linalg.lstsq(a, b, rtol=cut)
    rank = int(values_of(rank))
    if rank < n or m <= n:
        residuals = zeros((0,), a, agrad.real(a).dtype)
    return x, agrad.reshape(residuals, (-1,)), rank, s


@implements("linalg.tensorinv")
def _tensorinv(a: Floating, ind: int = 2) -> Tensor:
    if ind <= 0:
        raise ValueError(f"numpy.linalg.tensorinv: ind must be a positive integer, got {ind!r}")
    lead, rest = a.shape[:ind], a.shape[ind:]
    return agrad.reshape(agrad.linalg.inv(agrad.reshape(a, (math.prod(lead), math.prod(rest)))), (*rest, *lead))


@implements("linalg.tensorsolve")
def _tensorsolve(a: PromotedFloating, b: PromotedFloating, axes: Any = None) -> Tensor:
    if axes is not None:
        last = [axis_of(i, a.ndim) for i in axes]
        a = agrad.permute_dims(a, (*(i for i in range(a.ndim) if i not in last), *last))
    shape = a.shape[b.ndim :]
    size = math.prod(shape)
    if a.size != size**2:
        raise np.linalg.LinAlgError(f"numpy.linalg.tensorsolve: a must reshape to a square matrix, got shape {a.shape}")
    solution = agrad.linalg.solve(agrad.reshape(a, (-1, size)), agrad.reshape(b, (-1,)))
    return agrad.reshape(solution, shape)
