"""The table's rows for linear algebra beyond products and solving.

Factors that are unique only up to a sign, a phase or a basis are brought into what does not depend on the choice: array
libraries choose differently, and finite differences of a choice mean nothing.
"""

import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np
import pytest
from table import (
    Example,
    complex_matrix,
    complex_normal,
    composite,
    constant,
    distinct,
    ex,
    normal,
    off_zero,
    positive,
    row,
    square_matrix,
    values,
)

import agrad
from agrad.errors import MissingFunctionError
from agrad.registry import PRIMITIVES


def where_there(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call that skips its test if the array library lacks the function."""

    @wraps(call)
    def run(*args: Any, **settings: Any) -> Any:
        try:
            return call(*args, **settings)
        except MissingFunctionError as error:
            pytest.skip(str(error))

    run.may_be_missing = True  # type: ignore[attr-defined]
    return run


def _both(
    name: str, *examples: Example, of: Callable[..., Any] | None = None, constant: bool = False, **more: Any
) -> None:
    """Return a row whose call and reference are the function ``name`` itself.

    Or they are ``of(namespace, *arguments)``.
    """
    short = name.rpartition(".")[2]

    def itself(xp: Any, *args: Any, **settings: Any) -> Any:
        return getattr(xp.linalg, short)(*args, **settings)

    function = of or itself
    reference = {} if of is None else {"reference": function}
    row(
        name,
        *examples,
        call=where_there(lambda *args, **settings: function(agrad, *args, **settings)),
        constant=constant,
        **reference,
        **more,
    )


def _adjoint(xp: Any, x: Any) -> Any:
    x = xp.matrix_transpose(x)
    return xp.conj(x) if "complex" in str(x.dtype) else x


def _numbered(xp: Any, x: Any) -> Any:
    """Return the columns of ``x`` times 1, 2, 3, ..."""
    return x * xp.cumulative_sum(xp.ones_like(x), axis=-1)


def _size(xp: Any, x: Any) -> Any:
    return xp.real(x * xp.conj(x)) if "complex" in str(x.dtype) else x * x


def _same(name: str) -> Callable[..., Any]:
    """Return the function of that name.

    As ``of``, it is compared with NumPy's alone: not every library has all of it.
    """
    return lambda xp, *args, **settings: getattr(xp.linalg, name)(*args, **settings)


# ---------------------------------------------------------------- products

# fmt: off
_both("linalg.diagonal", ex("square", normal(3, 3)), ex("wide", normal(2, 4)), ex("tall", normal(4, 2)),
    ex("above", normal(3, 4), offset=1), ex("far above", normal(3, 4), offset=3), ex("below", normal(4, 3), offset=-2),
    ex("below wide", normal(3, 5), offset=-1), ex("above tall", normal(5, 3), offset=1),
    ex("batch", normal(2, 2, 3), offset=1), ex("empty batch", normal(0, 2, 2)), ex("empty", normal(0, 3)),
    ex("beyond the corner", normal(2, 3), offset=4), ex("complex", complex_normal(2, 2)))
composite("linalg.trace", ex("square", normal(3, 3)), ex("wide", normal(2, 4)), ex("tall", normal(4, 2)),
    ex("above", normal(3, 4), offset=1), ex("below", normal(4, 3), offset=-2), ex("batch", normal(2, 2, 3), offset=1),
    ex("nothing", normal(2, 3), offset=4), ex("empty batch", normal(0, 2, 2)), ex("empty", normal(0, 3)),
    ex("complex", complex_normal(2, 2)), ex("batch of batches", normal(2, 1, 3, 3)),
    reference=lambda xp, x, **how: xp.linalg.trace(x, **how))
_both("linalg.cross", ex("vectors", normal(3), normal(3)), ex("rows", normal(2, 3), normal(2, 3)),
    ex("axis", normal(3, 2), normal(3, 2), axis=-2), ex("broadcast left", normal(3), normal(2, 3)),
    ex("broadcast both", normal(2, 1, 3), normal(4, 3)), ex("empty", normal(0, 3), normal(0, 3)),
    ex("constant right", normal(3), constant([1.0, 2.0, 3.0])), ex("complex", complex_normal(2, 3), complex_normal(3)),
    ex("complex and real", complex_normal(3), normal(3)), ex("real and complex", normal(3), complex_normal(3)),
    of=_same("cross"))
row("vecdot", ex("vectors", normal(3), normal(3)), ex("rows", normal(2, 3), normal(2, 3)),
    ex("axis", normal(3, 2), normal(3, 2), axis=-2), ex("broadcast left", normal(3), normal(2, 3)),
    ex("broadcast both", normal(2, 1, 3), normal(4, 3)), ex("empty", normal(0, 3), normal(0, 3)),
    ex("empty axis", normal(2, 0), normal(2, 0)), ex("constant right", normal(2), constant([1.0, 2.0])),
    ex("complex", complex_normal(2, 3), complex_normal(3)), ex("complex and real", complex_normal(3), normal(3)),
    ex("real and complex", normal(3), complex_normal(3)),
    ex("same array twice", complex_normal(3), call=lambda x: agrad.vecdot(x, x),
       reference=lambda xp, x: xp.vecdot(x, x)))
row("tensordot", ex("matrices", normal(2, 3, 4), normal(3, 4, 2)), ex("one axis", normal(2, 3), normal(3, 4), axes=1),
    ex("no axis", normal(2), normal(2, 3), axes=0),
    ex("pairs", normal(2, 3, 4), normal(4, 5, 2), axes=((0, 2), (2, 0))),
    ex("crossed pairs", normal(3, 2, 4), normal(4, 3), axes=((2, 0), (0, 1))),
    ex("negative axes", normal(2, 3, 4), normal(5, 4), axes=((-1,), (-1,))),
    ex("one pair in the middle", normal(2, 3, 4), normal(2, 3, 5), axes=((1,), (1,))),
    ex("three pairs", normal(2, 3, 4), normal(4, 2, 3), axes=((1, 2, 0), (2, 0, 1))),
    ex("0-d", normal(), normal(2), axes=0), ex("empty", normal(2, 0), normal(0, 3), axes=1),
    ex("constant left", constant([[1.0, 2.0]]), normal(2, 2), axes=1),
    ex("complex", complex_normal(2, 3), complex_normal(3, 2), axes=1),
    ex("complex and real", complex_normal(2, 3), normal(3), axes=1))

# ---------------------------------------------------------------- norms

_ORDERS = (1, 2, 3, 2.5, 1.5, 0.5, -1, -2, math.inf, -math.inf)
_both("linalg.vector_norm", *[ex(f"order {ord}", distinct(2, 3), ord=ord) for ord in _ORDERS],
    *[ex(f"order {ord} axis", off_zero(2, 3), axis=-1, ord=ord) for ord in _ORDERS],
    *[ex(f"order {ord} complex", complex_normal(2, 3), axis=0, ord=ord) for ord in _ORDERS],
    *[ex(f"order {ord} of 0", values([[0.0, 0.0], [1.5, 0.0], [-1.0, 2.0]]), axis=1, ord=ord, kink=True)
      for ord in (1, 2, 3, 1.5, math.inf)],
    *[ex(f"order {ord} of complex 0", values([0j, 0j]), ord=ord, kink=True) for ord in (1, 2, 3, math.inf)],
    ex("0 elements", values([[1.5, 0.0], [0.0, -2.0]]), axis=1), ex("0 elements, order 4", values([1.5, 0.0]), ord=4),
    ex("ties", values([[1.0, -2.0, 2.0], [3.0, 3.0, 3.0]]), axis=1, ord=math.inf, kink=True),
    ex("keepdims", normal(2, 3), axis=1, keepdims=True), ex("all keepdims", normal(2, 3), keepdims=True, ord=1),
    ex("axes", off_zero(2, 3, 2), axis=(0, -1)), ex("axes order 3", off_zero(2, 3, 2), axis=(-1, 1), ord=3),
    ex("axes keepdims", normal(2, 3, 2), axis=(2, 0), keepdims=True), ex("0-d", off_zero()),
    ex("no axes", off_zero(2, 3), axis=()), ex("0-d complex", complex_normal()), ex("0-d order 3", off_zero(), ord=3),
    ex("empty", normal(0)), ex("empty batch", normal(0, 3), axis=1, ord=3), ex("empty axis", normal(2, 0), axis=1))

# ---------------------------------------------------------------- decompositions


def hermitian(xp: Any, a: Any) -> Any:
    return a + _adjoint(xp, a)


def _eigh(xp: Any, a: Any) -> Any:
    w, v = xp.linalg.eigh(hermitian(xp, a))
    return w, xp.matmul(_numbered(xp, v), _adjoint(xp, v))


def _eigvalsh(xp: Any, a: Any) -> Any:
    return xp.linalg.eigvalsh(hermitian(xp, a))


_HERMITIAN = (ex("matrix", square_matrix(3, 3)), ex("batch", square_matrix(2, 3, 3)), ex("one by one", normal(1, 1)),
    ex("empty batch", square_matrix(0, 2, 2)), ex("empty", normal(2, 0, 0)), ex("complex", complex_normal(3, 3)),
    ex("complex batch", complex_normal(2, 2, 2)))
_both("linalg.eigh", *_HERMITIAN,
    ex("the values alone", normal(3, 3), call=where_there(lambda a: _eigh(agrad, a)[0]),
       reference=lambda xp, a: _eigh(xp, a)[0]),
    ex("the vectors alone", complex_normal(3, 3), call=where_there(lambda a: _eigh(agrad, a)[1]),
       reference=lambda xp, a: _eigh(xp, a)[1]),
    ex("the sizes of the vectors", normal(3, 3),
       call=where_there(lambda a: _size(agrad, agrad.linalg.eigh(hermitian(agrad, a))[1])),
       reference=lambda xp, a: _size(xp, xp.linalg.eigh(hermitian(xp, a))[1])), of=_eigh)
row("linalg.eigvalsh", ex("matrix", square_matrix(3, 3)), ex("complex batch", complex_normal(2, 2, 2)),
    ex("empty", normal(2, 0, 0)), call=lambda a: PRIMITIVES["linalg.eigvalsh"].bind(hermitian(agrad, a)),
    reference=_eigvalsh, constant=True, note="differentiated, they come from eigh: test_linalg.py")


def _eig(xp: Any, a: Any) -> Any:
    w, v = xp.linalg.eig(a)
    rebuilt = xp.matmul(v * xp.expand_dims(w * w, axis=-2), xp.linalg.inv(v))
    return rebuilt, xp.sum(_size(xp, v) * xp.expand_dims(_size(xp, w), axis=-2), axis=-1), xp.sum(w * w * w, axis=-1)


_GENERAL = (ex("matrix", normal(3, 3)), ex("batch", normal(2, 3, 3)), ex("one by one", off_zero(1, 1)),
    ex("empty batch", normal(0, 2, 2)), ex("complex", complex_normal(3, 3)))
_both("linalg.eig", *_GENERAL, ex("the values alone", normal(3, 3), call=where_there(lambda a: _eig(agrad, a)[2]),
    reference=lambda xp, a: _eig(xp, a)[2]), of=_eig)
# fmt: on


def _svd(xp: Any, a: Any, full_matrices: bool = True) -> Any:
    u, s, vh = xp.linalg.svd(a, full_matrices=full_matrices)
    v, k = _adjoint(xp, vh), s.shape[-1]
    u1, v1 = u[..., :, :k], v[..., :, :k]
    parts = [
        s,
        xp.matmul(_numbered(xp, u1), _adjoint(xp, u1)),
        xp.matmul(_numbered(xp, v1), _adjoint(xp, v1)),
        xp.matmul(_numbered(xp, u1), _adjoint(xp, v1)),
    ]
    if full_matrices:
        u2, v2 = u[..., :, k:], v[..., :, k:]
        parts += [xp.matmul(u2, _adjoint(xp, u2)), xp.matmul(v2, _adjoint(xp, v2))]
    return tuple(parts)


def _part(function: Callable[..., Any], i: int) -> dict[str, Any]:
    return {
        "call": where_there(lambda a, **how: function(agrad, a, **how)[i]),
        "reference": lambda xp, a, **how: function(xp, a, **how)[i],
    }


# fmt: off
_both("linalg.svd", *[
        ex(f"{label}{', reduced' if not full else ''}", draw, full_matrices=full)
        for full in (True, False)
        for label, draw in (
            ("square", normal(3, 3)), ("tall", normal(4, 2)), ("wide", normal(2, 4)), ("one more", normal(3, 2)),
            ("one row", normal(1, 3)), ("one column", normal(3, 1)), ("batch", normal(2, 3, 2)),
            ("empty batch", normal(0, 3, 2)), ("complex", complex_normal(3, 3)), ("complex tall", complex_normal(4, 2)),
            ("complex wide", complex_normal(2, 3)), ("complex batch", complex_normal(2, 1, 2)))
    ],
    *[ex(f"{name} alone{suffix}", draw, full_matrices=full, **_part(_svd, i))
      for name, i in (("the values", 0), ("the left", 1), ("the right", 2))
      for suffix, draw, full in (("", normal(3, 2), True), (", wide", complex_normal(2, 3), False))],
    of=_svd)
row("linalg.svdvals", ex("tall", normal(4, 2)), ex("wide batch", normal(2, 2, 4)), ex("complex", complex_normal(3, 2)),
    ex("empty batch", normal(0, 3, 2)), call=PRIMITIVES["linalg.svdvals"].bind, constant=True,
    note="differentiated, they come from svd: test_linalg.py")
# fmt: on


def _qr(xp: Any, a: Any, mode: str = "reduced") -> Any:
    q, r = xp.linalg.qr(a, mode=mode)
    k = min(a.shape[-2:])
    q1, q2 = q[..., :, :k], q[..., :, k:]
    return (q1, r, xp.matmul(q2, _adjoint(xp, q2))) if mode == "complete" else (q, r)


# fmt: off
_both("linalg.qr", *[
        ex(f"{label}, {mode}", draw, mode=mode)
        for mode in ("reduced", "complete")
        for label, draw in (
            ("square", square_matrix(3, 3)), ("tall", normal(4, 2)), ("wide", normal(2, 4)),
            ("taller by one", normal(3, 2)),
            ("one row", normal(1, 3)), ("one column", normal(3, 1)), ("batch", normal(2, 3, 2)),
            ("wide batch", normal(2, 2, 3)), ("empty batch", normal(0, 3, 2)), ("complex", complex_matrix(3, 3)),
            ("complex tall", complex_normal(4, 2)), ("complex wide", complex_normal(2, 3)))
    ],
    *[ex(f"{name} alone{suffix}", draw, mode=mode, **_part(_qr, i))
      for name, i in (("Q", 0), ("R", 1))
      for suffix, draw, mode in (("", normal(3, 2), "reduced"), (", wide", complex_normal(2, 3), "complete"),
                                 (", tall", normal(4, 2), "complete"))],
    of=_qr)



def _lu(xp: Any, a: Any) -> Any:
    """Return P, L and U, of NumPy's arrays by elimination row by row."""
    if xp is agrad:
        return tuple(agrad.linalg.lu(a))
    m, n = a.shape[-2:]
    k = min(m, n)
    u, lower = a.copy(), np.broadcast_to(np.eye(m, k), (*a.shape[:-1], k)).astype(a.dtype)
    swaps = np.broadcast_to(np.eye(m), (*a.shape[:-1], m)).astype(a.dtype)
    for member in np.ndindex(a.shape[:-2]):
        x, factor, swap = u[member], lower[member], swaps[member]
        for j in range(k):
            i = j + int(np.argmax(np.abs(x[j:, j].real) + np.abs(x[j:, j].imag)))
            x[[i, j]], swap[[i, j]], factor[[i, j], :j] = x[[j, i]], swap[[j, i]], factor[[j, i], :j]
            for below in range(j + 1, m):
                factor[below, j] = x[below, j] / x[j, j]
                x[below] -= factor[below, j] * x[j]
    return swaps.mT, lower, np.triu(u[..., :k, :])


# fmt: off
_both("linalg.lu", *[ex(label, draw) for label, draw in (
        ("square", normal(3, 3)), ("tall", normal(5, 2)), ("wide", normal(2, 4)), ("one row", normal(1, 3)),
        ("one column", off_zero(3, 1)), ("batch", normal(2, 3, 3)), ("tall batch", normal(2, 4, 3)),
        ("wide batch of batches", normal(2, 1, 2, 3)), ("empty batch", normal(0, 3, 2)), ("no columns", normal(3, 0)),
        ("complex", complex_normal(3, 3)), ("complex tall", complex_normal(4, 2)),
        ("complex wide", complex_normal(2, 3)), ("complex batch", complex_normal(2, 2, 2)))],
    *[ex(f"{name} alone{suffix}", draw, **_part(_lu, i)) for name, i in (("L", 1), ("U", 2))
      for suffix, draw in (("", normal(3, 3)), (", wide", complex_normal(2, 3)), (", tall", normal(4, 2)))],
    of=_lu)



def _by_eigenvalues(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NumPy's matrices, in double precision."""

    def reference(xp: Any, a: Any) -> Any:
        w, v = np.linalg.eig(a.astype(np.complex128))
        y = (v * function(w)[..., None, :]) @ np.linalg.inv(v)
        return (y if np.iscomplexobj(a) else y.real).astype(a.dtype)

    return reference


# fmt: off
row("linalg.matrix_exp", ex("matrix", normal(3, 3)), ex("one by one", normal(1, 1)), ex("batch", normal(2, 3, 3)),
    ex("of many sizes", values([[[0.1, 0.2], [-0.1, 0.0]], [[-9.0, 4.0], [5.0, -7.0]]])),
    ex("empty batch", normal(0, 2, 2)), ex("empty", normal(2, 0, 0)), ex("complex", complex_normal(3, 3)),
    ex("complex batch of batches", complex_normal(2, 1, 2, 2)), reference=_by_eigenvalues(np.exp))
for _name, _function in (("sqrtm", np.sqrt), ("logm", np.log)):
    row(f"linalg.{_name}", ex("matrix", square_matrix(3, 3)), ex("one by one", positive(1, 1)),
        ex("batch", square_matrix(2, 3, 3)), ex("of many sizes", values([[[0.4, 0.2], [-0.2, 0.5]], [[1.01, 0.02],
        [0.03, 1.02]], [[90.0, 40.0], [-50.0, 70.0]]])), ex("empty batch", normal(0, 2, 2)),
        ex("complex", complex_matrix(3, 3)), ex("complex batch of batches", complex_matrix(2, 1, 2, 2)),
        call=partial(PRIMITIVES[f"linalg.{_name}"].bind, checked=True), reference=_by_eigenvalues(_function))

# ---------------------------------------------------------------- determinants

_both("linalg.det", ex("matrix", normal(3, 3)), ex("large", square_matrix(5, 5)), ex("batch", normal(2, 3, 3)),
    ex("one by one", off_zero(1, 1)), ex("empty batch", normal(0, 2, 2)), ex("empty", normal(2, 0, 0)),
    ex("complex", complex_normal(3, 3)), ex("complex batch", complex_normal(2, 2, 2)),
    ex("batch of batches", normal(2, 1, 2, 2)))


def _adjugate(xp: Any, x: Any) -> Any:
    return xp.linalg.inv(x) * xp.linalg.det(x)[..., None, None]


row("linalg.adjugate", ex("matrix", normal(3, 3)), ex("two by two", normal(2, 2)), ex("batch", normal(2, 3, 3)),
    ex("one by one", off_zero(1, 1)), ex("empty batch", normal(0, 2, 2)), ex("complex", complex_normal(3, 3)),
    call=where_there(PRIMITIVES["linalg.adjugate"].bind), reference=_adjugate)


def _over(xp: Any, x1: Any, x2: Any, upper: bool) -> Any:
    return np.matmul(x1, np.linalg.inv(np.triu(x2) if upper else np.tril(x2)))


row("linalg.over_triangle", ex("upper", normal(2, 3), square_matrix(3, 3), upper=True),
    ex("lower", normal(2, 3), square_matrix(3, 3), upper=False),
    ex("batch", normal(2, 2, 3), square_matrix(2, 3, 3), upper=True),
    ex("one matrix for a batch", normal(2, 2, 3), square_matrix(3, 3), upper=False),
    ex("a batch of matrices", normal(2, 3), square_matrix(2, 3, 3), upper=True),
    ex("one by one", normal(2, 1), off_zero(1, 1), upper=True),
    ex("no rows", normal(0, 3), square_matrix(3, 3), upper=True),
    ex("wide", normal(2, 11), square_matrix(11, 11), upper=False),
    ex("complex", complex_normal(2, 3), complex_matrix(3, 3), upper=True),
    call=lambda x1, x2, upper: PRIMITIVES["linalg.over_triangle"].bind(
        x1, agrad.triu(x2) if upper else agrad.tril(x2), upper=upper),
    reference=_over)


def _triangle(xp: Any, a: Any, b: Any, lower: bool = False, trans: Any = 0, unit_diagonal: bool = False) -> Any:
    t = (np.tril if lower else np.triu)(a, (-1 if lower else 1) if unit_diagonal else 0)
    t = t + np.eye(a.shape[-1]) if unit_diagonal else t
    t = t if trans in (0, "N") else t.mT if trans in (1, "T") else t.mT.conj()
    return np.linalg.solve(t, b[:, None])[..., 0] if b.ndim == 1 else np.linalg.solve(t, b)


composite("linalg.solve_triangular", ex("upper", square_matrix(3, 3), normal(3, 2)),
    ex("lower", square_matrix(3, 3), normal(3, 2), lower=True), ex("vector", square_matrix(3, 3), normal(3)),
    ex("batch of one vector", square_matrix(2, 3, 3), normal(3), lower=True, trans="T"),
    ex("batch", square_matrix(2, 3, 3), normal(2, 3, 2), trans=1),
    ex("one matrix", square_matrix(3, 3), normal(2, 3, 1)),
    ex("unit", normal(3, 3), normal(3, 2), unit_diagonal=True),
    ex("unit lower", normal(3, 3), normal(3, 2), lower=True, unit_diagonal=True, trans="N"),
    ex("complex", complex_matrix(3, 3), complex_normal(3, 2)),
    ex("complex transpose", complex_matrix(3, 3), complex_normal(3), trans="T"),
    ex("complex adjoint", complex_matrix(3, 3), complex_normal(3, 2), trans="C", lower=True),
    ex("complex unit", complex_normal(3, 3), complex_normal(2, 3, 1), trans=2, unit_diagonal=True),
    ex("complex and real", complex_matrix(2, 2), normal(2, 1)),
    ex("real and complex", square_matrix(2, 2), complex_normal(2)),
    ex("constant matrix", constant([[2.0, 1.0], [0.0, 4.0]]), normal(2)),
    ex("empty batch", square_matrix(0, 2, 2), normal(2)),
    ex("no rows", normal(0, 0), normal(0, 2)), reference=_triangle)


def _factored(xp: Any, c: Any, b: Any, upper: bool = False) -> Any:
    t = np.triu(c) if upper else np.tril(c)
    a = t.mT.conj() @ t if upper else t @ t.mT.conj()
    return np.linalg.solve(a, b[:, None])[..., 0] if b.ndim == 1 else np.linalg.solve(a, b)


composite("linalg.cholesky_solve", ex("lower", square_matrix(3, 3), normal(3, 2)),
    ex("upper", square_matrix(3, 3), normal(3), upper=True), ex("batch", square_matrix(2, 3, 3), normal(3, 2)),
    ex("complex", complex_matrix(3, 3), complex_normal(3, 2)),
    ex("complex upper batch", complex_matrix(2, 3, 3), complex_normal(2, 3, 1), upper=True),
    ex("empty batch", square_matrix(0, 2, 2), normal(2, 1)), reference=_factored)


def _least(xp: Any, a: Any, b: Any) -> Any:
    """Return the solution, the residuals and the singular values."""
    x, residuals, _, s = agrad.linalg.lstsq(a, b)
    return x, residuals, s


def _least_reference(xp: Any, a: Any, b: Any) -> Any:
    columns = b[:, None] if b.ndim == 1 else b
    x = np.linalg.pinv(a) @ columns
    residuals = np.sum(np.abs(a @ x - columns) ** 2, axis=-2)
    x, residuals = (x[..., 0], residuals[..., 0]) if b.ndim == 1 else (x, residuals)
    return x, residuals, np.linalg.svdvals(a)


def _least_of_rank(xp: Any, a: Any, c: Any, b: Any) -> Any:
    """Return the solution for a matrix of low rank, which stays of that rank."""
    if xp is agrad:
        return agrad.linalg.lstsq(agrad.matmul(a, c), b, rtol=1e-6).solution
    return np.linalg.lstsq(a @ c, b, rcond=1e-6)[0]


composite("linalg.lstsq", ex("square", square_matrix(3, 3), normal(3, 2)), ex("tall", normal(4, 2), normal(4)),
    ex("wide", normal(2, 4), normal(2)), ex("batch", normal(2, 4, 2), normal(2, 4, 3)),
    ex("batch of one vector", normal(2, 3, 2), normal(3)), ex("wide batch", normal(2, 2, 3), normal(2, 1)),
    ex("complex tall", complex_normal(4, 2), complex_normal(4, 2)),
    ex("complex wide", complex_normal(2, 3), complex_normal(2)),
    ex("constant matrix", constant([[2.0, 1.0], [0.0, 4.0], [1.0, 1.0]]), normal(3),
       call=lambda a, b: agrad.linalg.lstsq(a, b)[:2], reference=lambda xp, a, b: _least_reference(xp, a, b)[:2]),
    ex("low rank", normal(4, 1), normal(1, 3), normal(4), call=partial(_least_of_rank, agrad),
       reference=_least_of_rank),
    ex("complex low rank", complex_normal(4, 2), complex_normal(2, 3), complex_normal(4, 2),
       call=partial(_least_of_rank, agrad), reference=_least_of_rank),
    ex("empty batch", normal(0, 3, 2), normal(3)), call=partial(_least, agrad), reference=_least_reference)


row("linalg.least_squares", ex("tall", normal(4, 2), normal(4, 1)), ex("wide", normal(2, 4), normal(2, 2)),
    ex("batch", normal(2, 4, 2), normal(4, 1)), ex("batch of columns", normal(3, 2), normal(2, 3, 1)),
    ex("empty batch", normal(0, 3, 2), normal(3, 1)), ex("complex", complex_normal(3, 2), complex_normal(3, 2)),
    call=lambda a, b: PRIMITIVES["linalg.least_squares"].bind(a, b, agrad.linalg.pinv(a), rtol=1e-9),
    reference=lambda xp, a, b: np.linalg.pinv(a) @ b)


def _logdet(xp: Any, x: Any) -> Any:
    sign, size = np.linalg.slogdet(x)
    return size + np.log(sign)


composite("linalg.logdet", ex("positive", values([[2.0, 0.5], [-0.25, 1.5]])), ex("batch", square_matrix(2, 3, 3)),
    ex("one by one", positive(1, 1)), ex("empty batch", normal(0, 2, 2)), ex("empty", normal(2, 0, 0)),
    ex("complex", complex_normal(3, 3)), ex("complex batch", complex_normal(2, 2, 2)), reference=_logdet)


def _slogdet(xp: Any, x: Any) -> Any:
    return tuple(xp.linalg.slogdet(x))


_both("linalg.slogdet", ex("matrix", normal(3, 3)), ex("batch", normal(2, 3, 3)), ex("one by one", off_zero(1, 1)),
    ex("empty batch", normal(0, 2, 2)), ex("complex", complex_normal(3, 3)),
    ex("complex batch", complex_normal(2, 2, 2)),
    *[ex(f"{name} alone{suffix}", draw, **_part(_slogdet, i)) for name, i in (("sign", 0), ("size", 1))
      for suffix, draw in (("", complex_normal(2, 2)), (", real", normal(2, 2)))],
    of=_slogdet)


def _low_rank(xp: Any, a: Any, b: Any) -> Any:
    """Return the pseudo-inverse of a matrix of low rank.

    It stays of that rank as ``a`` and ``b`` change.
    """
    return xp.linalg.pinv(xp.matmul(a, b), rtol=1e-3)


_both("linalg.pinv", ex("square", square_matrix(3, 3)), ex("tall", normal(4, 2)), ex("wide", normal(2, 4)),
    ex("batch", normal(2, 3, 2)), ex("empty batch", normal(0, 3, 2)), ex("complex tall", complex_normal(3, 2)),
    ex("complex wide", complex_normal(2, 3)), ex("rtol", normal(3, 2), rtol=1e-6),
    ex("low rank", normal(3, 2), normal(2, 4), call=where_there(lambda a, b: _low_rank(agrad, a, b)),
       reference=_low_rank),
    ex("complex low rank", complex_normal(3, 1), complex_normal(1, 2),
       call=where_there(lambda a, b: _low_rank(agrad, a, b)), reference=_low_rank))
_both("linalg.matrix_rank", ex("square", normal(3, 3)), ex("low", values([[1.0, 2.0], [2.0, 4.0]])),
    ex("batch", normal(2, 3, 2)), ex("rtol", values([[1.0, 0.0], [0.0, 1e-3]]), rtol=1e-2),
    ex("empty", normal(2, 0, 3), reference=lambda xp, x: xp.zeros(2, dtype=xp.int64)),
    constant=True, of=_same("matrix_rank"))
# fmt: on
