"""Further examples: complex, empty, without dimensions, batched, degenerate."""

from typing import Any

import numpy as np
from cases_linalg import where_there
from table import (
    complex_matrix,
    complex_normal,
    constant,
    distinct,
    ex,
    more,
    normal,
    off_zero,
    positive,
    row,
    square_matrix,
    values,
)

import agrad
from agrad.registry import PRIMITIVES


def _squared(name: str) -> dict[str, Any]:
    """Return the square of a cast: a cast alone has no second derivative."""
    return {
        "call": lambda x: agrad.astype(x, getattr(agrad, name)) ** 2,
        "reference": lambda xp, x: xp.astype(x, getattr(xp, name)) ** 2,
    }


# fmt: off
# ---------------------------------------------------------------- elementwise

more("astype", ex("complex", complex_normal(2, 3), **_squared("complex128")),
    ex("batch", normal(2, 1, 3), **_squared("float64")))
more("clip", ex("0-d", normal(), -3.0, 3.0), ex("empty", normal(0, 2), -1.0, 1.0),
    ex("batch", distinct(2, 1, 3), -0.4, 0.4))
more("copysign", ex("batch", off_zero(2, 1, 3), constant([[[-1.0]], [[1.0]]])))
more("complex_sign", ex("batch", complex_normal(2, 1, 3)))
more("gelu", ex("batch", normal(2, 1, 3)), ex("empty batch", normal(0, 2), approximate=True))
more("where", ex("batch", constant([[[True]], [[False]]]), normal(2, 2, 3), normal(2, 3)))
more("mask_unused", ex("complex", constant([True, False]), complex_normal(2)),
    ex("batch", constant(np.ones((2, 1, 3), bool)), normal(2, 1, 3)))

# ---------------------------------------------------------------- lengths

def _bound(name: str) -> Any:
    return PRIMITIVES[name].bind


for _name, _draw, _reference in (
    ("inverse_length", off_zero, lambda xp, x: 1 / x),
    ("length", positive, lambda xp, x: np.sqrt(x)),
    ("inverse_or_nan", off_zero, lambda xp, x: 1 / x),
):
    row(_name, ex("matrix", _draw(2, 3)), ex("0-d", _draw()), ex("empty", _draw(0, 2)), ex("batch", _draw(2, 1, 3)),
        *([ex("complex", complex_normal(2))] if _name == "inverse_or_nan" else []),
        call=_bound(_name), reference=_reference)
for _name, _reference in (
    ("size_power", lambda xp, x, p: np.abs(x) ** p),
    ("signed_power", lambda xp, x, p: np.sign(x) * np.abs(x) ** p),
):
    row(_name, ex("matrices", off_zero(2, 3), off_zero(2, 3)), ex("0-d", off_zero(), off_zero()),
        ex("empty broadcast", off_zero(0, 3), off_zero(3)), ex("broadcast both", off_zero(2, 1, 3), off_zero(4, 1)),
        call=_bound(_name), reference=_reference)
row("leg_share", ex("matrices", off_zero(2, 3), off_zero(2, 3)), ex("0-d", off_zero(), off_zero()),
    ex("empty broadcast", off_zero(0, 3), off_zero(3)), ex("broadcast both", off_zero(2, 1, 3), off_zero(4, 1)),
    call=lambda x1, x2: _bound("leg_share")(x1, x2, agrad.hypot(x1, x2)),
    reference=lambda xp, x1, x2: x1 / np.hypot(x1, x2))

# ---------------------------------------------------------------- slopes with their digits

def _expit(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


for _name, _call, _reference in (
    ("one_minus_square", _bound("one_minus_square"), lambda xp, x: 1 - x * x),
    ("gated", lambda x: _bound("gated")(x, agrad.sigmoid(x)), lambda xp, x: x * _expit(x)),
    ("gated_slope", lambda x: _bound("gated_slope")(x, agrad.sigmoid(x)),
     lambda xp, x: _expit(x) * (1 + x * _expit(-x))),
):
    row(_name, ex("matrix", normal(2, 3)), ex("0-d", normal()), ex("empty", normal(0, 2)), ex("batch", normal(2, 1, 3)),
        call=_call, reference=_reference)
row("summand_share", ex("matrices", normal(2, 3), normal(2, 3)), ex("0-d", normal(), normal()),
    ex("empty broadcast", normal(0, 3), normal(3)), ex("broadcast both", normal(2, 1, 3), normal(4, 1)),
    call=lambda x1, x2: _bound("summand_share")(x1, x2, agrad.logaddexp(x1, x2)),
    reference=lambda xp, x1, x2: np.exp(x1 - np.logaddexp(x1, x2)))

row("weight_total", ex("matrix", constant([[1.0, 0.5], [0.0, np.inf]])), constant=True,
    call=_bound("weight_total"), reference=lambda xp, x: np.where(np.isfinite(x) & (x != 0), x, 1.0))

# ---------------------------------------------------------------- reductions

def _numpys_var(xp: Any, x: Any, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    return np.var(x, axis=axis, ddof=correction, keepdims=keepdims)


more("var", *[
    ex(label, z, reference=_numpys_var, **how) for label, z, how in (
        ("complex", complex_normal(2, 3), {}),
        ("complex axis", complex_normal(2, 3), {"axis": 1, "correction": 1.0}),
        ("complex, kept", complex_normal(2, 2), {"axis": 0, "keepdims": True}),
        ("complex 0-d", complex_normal(), {}),
        ("complex, no axes", complex_normal(2), {"axis": ()}),
    )
])
for _name in ("logsumexp", "softmax"):
    more(_name, ex("complex", complex_normal(2, 3), axis=1))
more("log_softmax", ex("complex", complex_normal(2, 3), axis=1,
    reference=lambda xp, x, axis: x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True))))
for _name in ("special.softmax", "special.log_softmax", "special.logsumexp"):
    more(_name, ex("complex", complex_normal(2, 3), axis=1))
more("sigmoid", ex("complex", complex_normal(2, 3)), ex("complex 0-d", complex_normal()))
more("std", ex("complex", complex_normal(2, 3), axis=1),
    ex("batch", normal(2, 3, 2), axis=1), ex("empty batch", normal(0, 3), axis=1),
    ex("several axes", normal(2, 3, 2), axis=(0, -1)))
more("cumulative_sum", ex("batch", normal(2, 3, 2), axis=1), ex("empty batch", normal(0, 3), axis=1))

# ---------------------------------------------------------------- shapes and orders

more("broadcast_to", ex("complex", complex_normal(2, 1), (2, 3)), ex("batch", normal(2, 1, 3), (2, 2, 3)),
    ex("of nothing", normal(0, 1), (2, 0, 3)))
more("broadcast_arrays", ex("complex and real", complex_normal(2, 1), normal(3)), ex("empty", normal(0, 1), normal(2)),
    ex("batch", normal(2, 1, 3), normal(2, 1)))
more("concat", ex("0-d, flattened", normal(), normal(2), axis=None),
    ex("batch", normal(2, 1, 3), normal(2, 2, 3), axis=1))
more("stack", ex("complex and real", complex_normal(2), normal(2)),
    ex("batch", normal(2, 1, 3), normal(2, 1, 3), axis=1))
more("expand_dims", ex("0-d", normal(), axis=0), ex("empty", normal(0, 2), axis=1),
    ex("complex", complex_normal(2), axis=-1),
    ex("batch", normal(2, 1, 3), axis=2))
more("squeeze", ex("empty", normal(0, 1), axis=1), ex("to 0-d", normal(1), axis=0),
    ex("complex", complex_normal(1, 2), axis=0))
more("flip", ex("complex", complex_normal(2, 3), axis=0))
more("moveaxis", ex("complex", complex_normal(2, 3), 0, 1), ex("empty", normal(0, 2, 3), 0, 2),
    ex("0-d", normal(), (), ()))
more("permute_dims", ex("complex", complex_normal(2, 3), (1, 0)))
more("matrix_transpose", ex("complex", complex_normal(2, 3)))
more("reshape", ex("empty to fewer axes", normal(2, 0), (0,)), ex("empty to more axes", normal(0), (2, 0, 3)),
    ex("batch", normal(2, 3, 2), (3, 4)))
more("repeat", ex("batch", normal(2, 1, 3), 2, axis=1))
more("roll", ex("batch", normal(2, 3, 2), shift=1, axis=1), ex("empty flattened", normal(0, 2), shift=1))
more("tile", ex("empty", normal(0, 2), (2, 1)))
more("unstack", ex("complex", complex_normal(2, 3)), ex("empty parts", normal(2, 0)),
    ex("batch", normal(2, 2, 3), axis=1))
more("diff", ex("empty", normal(0, 3), axis=1), ex("batch", normal(2, 3, 2), axis=1))
more("meshgrid", ex("complex and real", complex_normal(2), normal(3)), ex("empty", normal(0), normal(2)))
more("take", ex("complex", complex_normal(3, 2), constant([2, 0, 2]), axis=0))
more("tril", ex("complex", complex_normal(2, 3)))
more("triu", ex("complex", complex_normal(2, 3), k=-1))
more("full_like", ex("complex", constant([1j, 2.0]), complex_normal()),
    ex("empty", constant(np.zeros((0, 2))), normal()),
    ex("batch", constant(np.zeros((2, 1, 3))), normal()))
more("linspace", ex("complex", complex_normal(), complex_normal(), 3), ex("none", normal(), normal(), 0),
    ex("one", normal(), normal(), 1))
more("transfer", ex("empty", normal(0, 2)), ex("batch", normal(2, 1, 3)))


more("scatter_add", ex("complex, repeated integers", complex_normal(3), constant([2, 0, 2]),
    call=lambda x, i: agrad.take(agrad.conj(agrad.stack([x, 2 * x])), i % 2, axis=0),
    reference=lambda xp, x, i: np.conj(np.stack([x, 2 * x]))[i % 2]))

# ---------------------------------------------------------------- linear algebra: what is singular, or not there

_RANK_2 = [[1.0, 2.0, 3.0], [2.0, 4.0, 6.5], [3.0, 6.0, 9.5]]
_RANK_1 = [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [-1.0, -2.0, -3.0]]
more("linalg.det", ex("singular", values(_RANK_2)),
    ex("rank 1", values(_RANK_1)),
    ex("zero", values([[0.0, 0.0], [0.0, 0.0]])), ex("complex singular", values([[1j, 2.0], [2j, 4.0]])))


def adjugate(x: Any) -> Any:
    """Return the transposed matrices of cofactors, each a determinant."""
    n = x.shape[-1]
    out = np.empty_like(x)
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(x, i, -2), j, -1)
            out[..., j, i] = (-1) ** (i + j) * np.linalg.det(minor)
    return out


def _change(xp: Any, x: Any, v: Any) -> Any:
    """Return the derivative of the cofactors along ``v``.

    It is linear for two rows, quadratic for three.
    """
    n = x.shape[-1]
    if n < 2:
        return 0 * v
    return adjugate(v) if n == 2 else adjugate(x + v) - adjugate(x) - adjugate(v)


row("linalg.adjugate_change", ex("matrix", normal(3, 3), normal(3, 3)), ex("two by two", normal(2, 2), normal(2, 2)),
    ex("batch", normal(2, 3, 3), normal(2, 3, 3)), ex("one by one", off_zero(1, 1), normal(1, 1)),
    ex("empty batch", normal(0, 2, 2), normal(0, 2, 2)), ex("complex", complex_normal(3, 3), complex_normal(3, 3)),
    ex("at a singular matrix", constant(_RANK_2), normal(3, 3)), ex("at rank 1", constant(_RANK_1), normal(3, 3)),
    ex("at zero", constant(np.zeros((2, 2))), normal(2, 2)),
    call=where_there(PRIMITIVES["linalg.adjugate_change"].bind), reference=_change)
for _name in ("linalg.inv", "linalg.cholesky", "linalg.slogdet", "linalg.pinv", "linalg.eig"):
    more(_name, ex("no rows", normal(2, 0, 0)))
more("linalg.cholesky", ex("complex batch", complex_matrix(2, 2, 2)))
more("linalg.inv", ex("complex batch", complex_matrix(2, 2, 2)))
more("linalg.solve", ex("no rows", normal(2, 0, 0), normal(2, 0, 3)),
    ex("no columns", square_matrix(2, 2), normal(2, 0)),
    ex("real and complex", square_matrix(2, 2), complex_normal(2, 1)), ex("complex batch", complex_matrix(2, 2, 2),
    complex_normal(2, 2, 1)))
row("linalg.solve_or_nan", ex("matrix", square_matrix(3, 3), normal(3, 2)),
    ex("one matrix for a batch", square_matrix(2, 2), normal(2, 2, 1)),
    ex("as many members as rows", square_matrix(2, 2, 2), normal(2, 2)),
    ex("real and complex", square_matrix(2, 2), complex_normal(2, 1)),
    call=PRIMITIVES["linalg.solve_or_nan"].bind, reference=lambda xp, x1, x2: np.matmul(np.linalg.inv(x1), x2))
more("linalg.outer", ex("constant right", normal(2), constant([1.0, 2.0])))
more("linalg.svd", ex("no columns", normal(3, 0), full_matrices=False))
more("linalg.qr", ex("no columns", normal(3, 0), mode="reduced"))
# fmt: on
