"""``numpy.linalg`` on Tensors."""

import math
from typing import Any, NamedTuple

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    axes_of,
    axis_of,
    cast,
    constant,
    defaults_only,
    inexact,
    is_complex,
    promoted,
    tensor,
    tensors,
    values_of,
)
from agrad.interop.table import implements
from agrad.registry import PRIMITIVES


def _floating(a: Any) -> Tensor:
    return inexact(tensor(a))


def _pair(a: Any, b: Any) -> list[Tensor]:
    return promoted(*[inexact(x) for x in tensors(a, b)])


@implements("linalg.solve")
def _solve(a: Any, b: Any) -> Tensor:
    return agrad.linalg.solve(*_pair(a, b))


@implements("linalg.inv")
def _inv(a: Any) -> Tensor:
    return agrad.linalg.inv(_floating(a))


@implements("linalg.det")
def _det(a: Any) -> Tensor:
    return agrad.linalg.det(_floating(a))


@implements("linalg.slogdet")
def _slogdet(a: Any) -> Any:
    return agrad.linalg.slogdet(_floating(a))


@implements("linalg.cholesky")
def _cholesky(a: Any, /, *, upper: bool = False) -> Tensor:
    x = _floating(a)
    # libraries read the lower triangle for either factor, NumPy the upper one for the upper factor
    return agrad.linalg.cholesky(_adjoint(x) if upper else x, upper=upper)


@implements("linalg.qr")
def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode == "r":
        return agrad.linalg.qr(_floating(a), mode="reduced").R
    defaults_only("linalg.qr", mode=(mode if mode != "complete" else "reduced", "reduced"))
    return agrad.linalg.qr(_floating(a), mode=mode)


@implements("linalg.svd")
def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    x = _floating(a)
    if hermitian:
        return _hermitian_svd(x, bool(compute_uv))
    if not compute_uv:
        return agrad.linalg.svdvals(x)
    return agrad.linalg.svd(x, full_matrices=full_matrices)


class _SvdResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


def _hermitian_svd(x: Tensor, compute_uv: bool) -> Any:
    """By the eigenvalues, as NumPy does: their sizes, descending, and their signs in the vectors on the right."""
    if not compute_uv:
        return agrad.sort(agrad.abs(agrad.linalg.eigvalsh(x)), axis=-1, descending=True)
    w, v = agrad.linalg.eigh(x)
    order = constant(np.argsort(np.abs(values_of(w)), axis=-1)[..., ::-1].copy(), x)
    w = agrad.take_along_axis(w, order, axis=-1)
    u = agrad.take_along_axis(v, order[..., None, :], axis=-1)
    return _SvdResult(u, agrad.abs(w), _adjoint(u * agrad.sign(w)[..., None, :]))


def _completed(x: Tensor) -> Tensor:
    """The Hermitian matrix of which the lower triangle is given."""
    below = agrad.tril(x, k=-1)
    diagonal = agrad.tril(x) - below
    return below + _adjoint(below) + (diagonal + _adjoint(diagonal)) / 2


@implements("linalg.svdvals")
def _svdvals(x: Any, /) -> Tensor:
    return agrad.linalg.svdvals(_floating(x))


def _adjoint(x: Tensor) -> Tensor:
    turned = agrad.matrix_transpose(x)
    return agrad.conj(turned) if is_complex(x) else turned


def _reads_upper(UPLO: str) -> bool:
    if UPLO.upper() not in ("L", "U"):
        raise ValueError(f"UPLO is 'L' or 'U', not {UPLO!r}")
    return UPLO.upper() == "U"


@implements("linalg.eigh")
def _eigh(a: Any, UPLO: str = "L") -> Any:
    x, upper = _floating(a), _reads_upper(UPLO)
    if upper and x.backend == "numpy":  # LAPACK's vectors have other signs when it reads the other triangle
        return _EigResult(*PRIMITIVES["linalg.eigh"].bind(x, upper=True))
    return agrad.linalg.eigh(_adjoint(x) if upper else x)


@implements("linalg.eigvalsh")
def _eigvalsh(a: Any, UPLO: str = "L") -> Tensor:
    x = _floating(a)
    return agrad.linalg.eigvalsh(_adjoint(x) if _reads_upper(UPLO) else x)


class _EigResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


def _real_where_possible(*parts: Tensor) -> tuple[Tensor, ...]:
    # NumPy gives real arrays where all eigenvalues are
    if np.all(values_of(parts[0]).imag == 0):
        return tuple(agrad.real(part) for part in parts)
    return parts


@implements("linalg.eig")
def _eig(a: Any) -> Any:
    x = _floating(a)
    w, v = agrad.linalg.eig(x)
    return _EigResult(w, v) if is_complex(x) else _EigResult(*_real_where_possible(w, v))


@implements("linalg.eigvals")
def _eigvals(a: Any) -> Tensor:
    x = _floating(a)
    w = agrad.linalg.eigvals(x)
    return w if is_complex(x) else _real_where_possible(w)[0]


@implements("linalg.pinv")
def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Tensor:
    x = _floating(a)
    x = _completed(x) if hermitian else x
    cut = rcond if rtol is np._NoValue else rtol
    if cut is None:
        # NumPy's own: 1e-15 by rcond, and the standard's where rtol=None is asked for
        cut = 1e-15 if rtol is np._NoValue else max(x.shape[-2:]) * agrad.finfo(x.dtype).eps
    cut = values_of(cut)
    if not cut.ndim:
        return agrad.linalg.pinv(x, rtol=float(cut))
    part = agrad.real(x).dtype.name
    return agrad.linalg.pinv(x, rtol=constant(np.broadcast_to(cut, x.shape[:-2]).astype(part), x))


@implements("linalg.matrix_power")
def _matrix_power(a: Any, n: int) -> Tensor:
    x = tensor(a)
    return agrad.linalg.matrix_power(x if n >= 0 else inexact(x), int(n))


@implements("linalg.diagonal")
def _diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    return agrad.linalg.diagonal(tensor(x), offset=int(offset))


@implements("linalg.trace")
def _trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    return agrad.linalg.trace(cast(tensor(x), dtype), offset=int(offset))


@implements("linalg.vector_norm")
def _vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    x = _floating(x)
    return agrad.linalg.vector_norm(x, axis=axes_of(axis, x.ndim), keepdims=keepdims, ord=ord)


@implements("linalg.matrix_norm")
def _matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    return agrad.linalg.matrix_norm(_floating(x), keepdims=keepdims, ord=ord)


@implements("linalg.norm")
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    x = _floating(x)
    if axis is None and (ord is None or x.ndim == 1):
        if ord is None:
            axes = axes_of(None, x.ndim)
            return agrad.linalg.vector_norm(x, axis=axes, keepdims=keepdims, ord=2)
        return agrad.linalg.vector_norm(x, axis=(0,), keepdims=keepdims, ord=ord)
    axes = axes_of(axis, x.ndim)
    if len(axes) == 1:
        return agrad.linalg.vector_norm(x, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError("numpy.linalg.norm goes over one axis (of a vector) or two (of a matrix)")
    if axis is not None:
        axes = tuple(axis_of(i, x.ndim) for i in axis)
    out = agrad.linalg.matrix_norm(agrad.moveaxis(x, axes, (-2, -1)), ord="fro" if ord is None else ord)
    return agrad.expand_dims(out, axis=tuple(sorted(axes))) if keepdims else out


@implements("linalg.cond")
def _cond(x: Any, p: Any = None) -> Tensor:
    x = _floating(x)
    if p is None or p in (2, -2):
        s = agrad.linalg.svdvals(x)
        return s[..., 0] / s[..., -1] if p != -2 else s[..., -1] / s[..., 0]
    return agrad.linalg.matrix_norm(x, ord=p) * agrad.linalg.matrix_norm(agrad.linalg.inv(x), ord=p)


@implements("linalg.lstsq")
def _lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Any, ...]:
    a, b = _pair(a, b)
    if a.ndim != 2 or b.ndim not in (1, 2):
        raise np.linalg.LinAlgError("numpy.linalg.lstsq takes a matrix, and a vector or a matrix")
    m, n = a.shape
    eps = agrad.finfo(a.dtype).eps
    cut = max(m, n) * eps if rcond is None else eps if rcond < 0 else float(rcond)
    s = agrad.linalg.svdvals(a)
    host = values_of(s)
    rank = int(np.sum(host > cut * host.max(initial=0.0)))
    real = agrad.real(a).dtype
    inverse = agrad.linalg.pinv(a, rtol=float(cut))
    x = agrad.matmul(inverse, b)
    if rank < n or m <= n:
        return x, agrad.zeros((0,), dtype=real, backend=a.backend, device=a.device), rank, s
    rest = b - agrad.matmul(a, x)
    squares = agrad.real(rest) ** 2 + agrad.imag(rest) ** 2 if is_complex(rest) else rest * rest
    residuals = agrad.sum(squares, axis=0)
    return x, agrad.reshape(residuals, (-1,)), rank, s


@implements("linalg.tensorinv")
def _tensorinv(a: Any, ind: int = 2) -> Tensor:
    x = _floating(a)
    if ind <= 0:
        raise ValueError("numpy.linalg.tensorinv: ind is a positive number of axes")
    lead, rest = x.shape[:ind], x.shape[ind:]
    return agrad.reshape(agrad.linalg.inv(agrad.reshape(x, (math.prod(lead), math.prod(rest)))), (*rest, *lead))


@implements("linalg.tensorsolve")
def _tensorsolve(a: Any, b: Any, axes: Any = None) -> Tensor:
    a, b = _pair(a, b)
    if axes is not None:
        last = [axis_of(i, a.ndim) for i in axes]
        a = agrad.permute_dims(a, (*(i for i in range(a.ndim) if i not in last), *last))
    shape = a.shape[b.ndim :]
    size = math.prod(shape)
    if a.size != size**2:
        raise np.linalg.LinAlgError(f"numpy.linalg.tensorsolve: an array of shape {a.shape} makes no square matrix")
    flat = agrad.linalg.solve(agrad.reshape(a, (-1, size)), agrad.reshape(b, (-1,)))
    return agrad.reshape(flat, shape)
