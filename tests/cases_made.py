"""Rows of functions made of primitives, in linear algebra and in creation."""

import math
from typing import Any

import numpy as np
from cases_linalg import hermitian, where_there
from table import complex_matrix, complex_normal, composite, constant, ex, normal, off_zero, square_matrix, values

import agrad


def _as_given(function: Any) -> Any:
    """Return the same function, with raw results for raw arguments.

    Creation functions return Tensors.
    """

    def call(*args: Any, **how: Any) -> Any:
        made = function(*args, **how)
        given = any(isinstance(arg, agrad.Tensor) for arg in args)
        return made.raw if isinstance(made, agrad.Tensor) and not given else made

    return call


def _listed(listed: Any) -> Any:
    """Return ``asarray`` of a nested list of Tensors, made by ``listed``."""
    return _as_given(lambda *arrays: agrad.asarray(listed(*map(agrad.asarray, arrays))))


# ---------------------------------------------------------------- norms, powers, products


def _matrix_norm(xp: Any, x: Any, ord: Any = "fro", keepdims: bool = False) -> Any:
    return np.linalg.norm(x, ord=ord, axis=(-2, -1), keepdims=keepdims)


_ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)
# fmt: off
composite("linalg.matrix_norm", *[
        ex(f"order {ord}{label}", draw, ord=ord)
        for ord in _ORDERS
        for label, draw in (("", normal(3, 3)), (" tall", off_zero(4, 2)), (" batch", normal(2, 2, 3)),
                            (" complex", complex_normal(2, 3)), (" empty batch", normal(0, 2, 3)))
    ],
    *[ex(f"order {ord} of 0", values(np.zeros((2, 3))), ord=ord, kink=True) for ord in _ORDERS],
    *[ex(f"order {ord} of the identity", values(np.eye(3)), ord=ord, kink=True) for ord in _ORDERS if ord != "fro"],
    ex("keepdims", normal(2, 3), keepdims=True), ex("order 2 keepdims", normal(2, 2, 3), ord=2, keepdims=True),
    call=where_there(agrad.linalg.matrix_norm), reference=_matrix_norm)
composite("linalg.matrix_power", *[
        ex(f"{label}power {n}", draw, n)
        for n in (-3, -1, 1, 2, 3, 6)
        for label, draw in (("", square_matrix(2, 2)), ("batch, ", square_matrix(2, 3, 3)),
                            ("complex, ", complex_matrix(2, 2)), ("empty batch, ", square_matrix(0, 2, 2)))
    ],
    ex("of a singular matrix", values([[1.0, 2.0], [2.0, 4.0]]), 3),
    call=where_there(agrad.linalg.matrix_power),
    reference=lambda xp, x, n: np.linalg.matrix_power(x, n) if x.size else np.array(x))

# ---------------------------------------------------------------- values of decompositions

def _eigvalsh(xp: Any, a: Any) -> Any:
    return xp.linalg.eigvalsh(hermitian(xp, a))


composite("linalg.eigvalsh", *[ex(f"Hermitian part, {label}", draw) for label, draw in (
        ("real", normal(3, 3)), ("real batch", normal(2, 3, 3)), ("complex 3 by 3", complex_normal(3, 3)),
        ("complex batches", complex_normal(2, 2, 2)), ("one by one", normal(1, 1)), ("empty batch", normal(0, 2, 2)))],
    ex("Hermitian part, a double value", values(np.diag([1.0, 1.0, 2.0])), kink=True),
    call=where_there(lambda a: _eigvalsh(agrad, a)), reference=_eigvalsh)
composite("linalg.svdvals", *[ex(f"values, {label}", draw) for label, draw in (
        ("square", normal(3, 3)), ("tall", normal(4, 2)), ("wide", normal(2, 4)), ("batch", normal(2, 3, 2)),
        ("complex", complex_normal(3, 2)), ("complex wide batch", complex_normal(2, 2, 3)),
        ("empty batch", normal(0, 3, 2)), ("one row", normal(1, 3)))],
    ex("values, a double value", values(np.eye(3)), kink=True),
    call=where_there(agrad.linalg.svdvals), reference=lambda xp, x: np.linalg.svd(x, compute_uv=False))


def _power_sums(xp: Any, a: Any) -> Any:
    # the order of eigenvalues is a library's own
    w = xp.linalg.eigvals(a)
    return xp.sum(w * w * w, axis=-1), xp.sum(xp.exp(w / 4), axis=-1)


composite("linalg.eigvals", *[ex(f"sums of powers, {label}", draw) for label, draw in (
        ("real", normal(3, 3)), ("batch", normal(2, 3, 3)), ("complex", complex_normal(3, 3)),
        ("complex batch", complex_normal(2, 2, 2)), ("one by one", off_zero(1, 1)), ("empty batch", normal(0, 2, 2)))],
    call=where_there(lambda a: _power_sums(agrad, a)), reference=_power_sums)

# ---------------------------------------------------------------- creation of arrays of Tensors

composite("asarray", ex("0-d", normal(), normal(), call=_listed(lambda a, b: [a, b]),
       reference=lambda xp, a, b: np.asarray([a, b])),
    ex("nested, with numbers", normal(), normal(), call=_listed(lambda a, b: [[a, 1.0], [2.0, b]]),
       reference=lambda xp, a, b: np.asarray([[a, 1.0], [2.0, b]], dtype=a.dtype)),
    ex("of vectors", normal(3), normal(3), call=_listed(lambda a, b: [a, b]),
       reference=lambda xp, a, b: np.asarray([a, b])),
    ex("complex", complex_normal(), complex_normal(), call=_listed(lambda a, b: [a, b]),
       reference=lambda xp, a, b: np.asarray([a, b])),
    ex("one", normal(2, 3)), ex("copied", normal(2, 1, 3), copy=True), ex("empty", normal(0, 2)),
    call=_as_given(agrad.asarray), reference=lambda xp, x, **how: np.array(x))
composite("full", ex("matrix", normal(), call=_as_given(lambda v: agrad.full((2, 3), v)),
       reference=lambda xp, v: np.full((2, 3), v)),
    ex("0-d", normal(), call=_as_given(lambda v: agrad.full((), v)), reference=lambda xp, v: np.full((), v)),
    ex("empty", normal(), call=_as_given(lambda v: agrad.full((0, 2), v)), reference=lambda xp, v: np.full((0, 2), v)),
    ex("batch", normal(), call=_as_given(lambda v: agrad.full((2, 1, 3), v)),
       reference=lambda xp, v: np.full((2, 1, 3), v)),
    ex("complex", complex_normal(), call=_as_given(lambda v: agrad.full(3, v)), reference=lambda xp, v: np.full(3, v)),
    reference=None)
_HOT = np.eye(3)[[2, 0, 1, 1]]


def _cross_entropy(xp: Any, x: Any, labels: Any, reduction: str = "mean") -> Any:
    losses = np.log(np.sum(np.exp(x), axis=1)) - np.sum(x * (np.eye(3)[labels] if labels.ndim == 1 else labels), axis=1)
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](losses)


composite("cross_entropy", *[ex(f"classes, {how}", normal(4, 3), constant([2, 0, 1, 1]), reduction=how)
                             for how in ("mean", "sum", "none")],
    *[ex(f"probabilities, {how}", normal(4, 3), constant(_HOT), reduction=how) for how in ("mean", "sum", "none")],
    ex("no rows", normal(0, 3), constant(np.zeros(0, np.int64)), reduction="sum"), reference=_cross_entropy)
composite("from_dlpack", ex("matrix", normal(2, 3)), ex("0-d", normal()), ex("batch", normal(2, 1, 3)),
    ex("empty", normal(0, 2)), call=_as_given(agrad.from_dlpack), reference=lambda xp, x: np.array(x))
# fmt: on
