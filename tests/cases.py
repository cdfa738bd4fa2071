"""The table: a row for every primitive, with examples for the generated tests."""

import math
from collections.abc import Callable
from typing import Any

import cases_fused  # noqa: F401 - files its rows
import cases_linalg  # noqa: F401 - files its rows
import cases_made  # noqa: F401 - files its rows
import cases_more  # noqa: F401 - files its examples
import cases_random  # noqa: F401 - files its rows
import cases_signals  # noqa: F401 - files its rows
import cases_special  # noqa: F401 - files its rows
import cases_standard  # noqa: F401 - files its rows
import numpy as np
from checker import raw
from table import (
    COMPOSITES,
    ROWS,
    Case,
    Example,
    above_one,
    added_at,
    between,
    binary,
    complex_matrix,
    complex_normal,
    complex_small,
    constant,
    distinct,
    ex,
    indexed,
    inside,
    itself,
    normal,
    off_zero,
    offset,
    positive,
    put,
    reduction,
    row,
    square_matrix,
    unary,
    values,
)

import agrad
from agrad.backends import backend_of
from agrad.registry import PRIMITIVES

# ---------------------------------------------------------------- elementwise

binary("add", normal, normal, complex_normal, (itself("add", normal),))
binary("subtract", normal, normal, complex_normal, (itself("subtract", normal),))
binary("multiply", normal, normal, complex_normal, (itself("multiply", normal),))
binary("divide", normal, off_zero, complex_small, (itself("divide", off_zero),))
binary(
    "pow",
    positive,
    normal,
    complex_small,
    (
        itself("pow", positive),
        ex("exponent 0", off_zero(3), 0),
        ex("exponent 0.0", off_zero(3), 0.0),
        ex("exponent 1", off_zero(3), 1),
        ex("exponent 2", off_zero(3), 2),
        ex("exponent 3", off_zero(3), 3),
        ex("exponent -1", off_zero(3), -1),
        ex("exponent 0.5", positive(3), 0.5),
        ex("exponent 1 of zero", values([0.0, 1.0, -2.0]), 1),
        ex("exponent 2 of zero", values([0.0, 1.0, -2.0]), 2),
        ex("exponent 3.0 of zero", values([0.0, 1.0, -2.0]), 3.0),
        ex("exponent 0 of zero", values([0.0, 1.0, -2.0]), 0),
        ex("array exponents 0 to 3 of negative", values([-1.5, -1.5, -1.5, -0.5]), constant([0.0, 1.0, 2.0, 3.0])),
        ex("zero base, positive exponents", values([0.0, 0.0]), constant([2.0, 3.0])),
        ex("base a number", 2.0, normal(3)),
        ex("base 1", 1, normal(3)),
    ),
)
binary("maximum", distinct, offset)
binary("minimum", distinct, offset)
binary("remainder", lambda *s: between(2.1, 2.9)(*s), lambda *s: between(1.6, 2.0)(*s), number=1.55)
# fmt: off
for _name, _draw, _complex in (
    ("negative", normal, complex_normal), ("positive", normal, complex_normal), ("square", normal, complex_normal),
    ("sqrt", positive, complex_small), ("reciprocal", off_zero, complex_small),
    ("exp", normal, complex_normal), ("expm1", normal, complex_small),
    ("log", positive, complex_small), ("log1p", inside, complex_small),
    ("log2", positive, complex_small), ("log10", positive, complex_small),
    ("sin", normal, complex_normal), ("cos", normal, complex_normal), ("tan", inside, complex_small),
    ("asin", inside, complex_small), ("acos", inside, complex_small), ("atan", normal, complex_small),
    ("sinh", normal, complex_normal), ("cosh", normal, complex_normal), ("tanh", normal, complex_small),
    ("asinh", normal, complex_small), ("acosh", above_one, complex_small), ("atanh", inside, complex_small),
    ("abs", off_zero, complex_small), ("conj", complex_normal, None), ("real", complex_normal, None),
    ("imag", complex_normal, None),
):
    unary(_name, _draw, _complex)
row(
    "complex_sign",
    ex("matrix", complex_small(2, 3)),
    ex("0-d", complex_normal()),
    ex("empty", complex_normal(0)),
    ex("0 is 0", values([0j, 1 + 1j]), kink=True),
    call=agrad.sign,
    reference=lambda xp, x: np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x))),
)
for _name in ("sign", "floor", "ceil", "round", "trunc", "isfinite", "isinf", "isnan", "signbit"):
    unary(_name, off_zero, constant=True)
# fmt: on
unary("erf", normal, reference=lambda xp, x: np.vectorize(math.erf, otypes=[x.dtype])(x))
unary("relu", off_zero, reference=lambda xp, x: np.maximum(x, 0))
unary("sigmoid", normal, reference=lambda xp, x: 1 / (1 + np.exp(-x)))


row(
    "gelu",
    ex("matrix", normal(2, 3)),
    ex("0-d", normal()),
    ex("empty", normal(0)),
    ex("approximate", normal(2, 3), approximate=True),
    reference=lambda xp, x, approximate=False: (
        0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        if approximate
        else 0.5 * x * (1 + np.vectorize(math.erf, otypes=[x.dtype])(x * math.sqrt(0.5)))
    ),
)

_NUMBERS, _BITS = ([1.0, 2.0, 3.0], [2.0, 2.0, 2.5]), ([1, 6, 3], [2, 2, 1])
for _name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "floor_divide"):
    row(_name, ex("array", *map(values, _NUMBERS)), ex("number", values(_NUMBERS[0]), 2.0), constant=True)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"):
    row(_name, ex("integers", *map(constant, _BITS)), ex("number", constant(_BITS[0]), 2), constant=True)
for _name in ("logical_and", "logical_or", "logical_xor"):
    row(
        _name, ex("booleans", constant([True, True, False, False]), constant([True, False, True, False])), constant=True
    )
row("logical_not", ex("booleans", constant([True, False])), constant=True)
row("bitwise_invert", ex("integers", constant([1, -5])), constant=True)
_MASK = constant([[True, False, True], [False, False, True]])
row(
    "where",
    ex("matrices", _MASK, normal(2, 3), normal(2, 3)),
    ex("0-d", constant(True), normal(), normal()),
    ex("empty", constant(np.zeros((0, 2), bool)), normal(0, 2), normal(2)),
    ex("broadcast condition", constant([True, False, True]), normal(2, 3), normal(2, 3)),
    ex("broadcast branches", _MASK, normal(3), normal(2, 1)),
    ex("condition widens", _MASK, normal(), normal(3)),
    ex("number left", _MASK, 2.0, normal(2, 3)),
    ex("number right", _MASK, normal(2, 3), 0),
    ex("complex", _MASK, complex_normal(2, 3), complex_normal(3)),
    ex("same array twice", _MASK, normal(2, 3), call=lambda c, x: agrad.where(c, x, x), reference=lambda xp, c, x: x),
)

row(
    "mask_unused",
    ex("finite", constant([[True, False, True], [False, True, False]]), normal(2, 3)),
    ex("0-d", constant(True), normal()),
    ex("empty", constant(np.zeros(0, bool)), normal(0)),
    ex("infinite where it is not used", constant([False, False, True]), values([np.inf, -np.inf, 0.5])),
    call=PRIMITIVES["mask_unused"].bind,
    reference=lambda xp, used, x: np.where(used | np.isfinite(x), x, 0),
)

# ---------------------------------------------------------------- casting and moving


def _here(x: Any) -> tuple[str, Any]:
    backend = backend_of(raw(x))
    return backend.name, backend.device_of(raw(x))


def _cast(dtype: str) -> dict[str, Any]:
    return {
        "call": lambda x: agrad.astype(x, getattr(agrad, dtype)),
        "reference": lambda xp, x: xp.astype(x, getattr(xp, dtype)),
    }


row(
    "astype",
    ex("float64 to itself", normal(2, 3), **_cast("float64")),
    ex("0-d", normal(), **_cast("float64")),
    ex("empty", normal(0), **_cast("float64")),
    ex("real to complex", normal(2, 3), **_cast("complex128")),
    note="float64 to float32 cannot be seen by finite differences and is tested among the conventions",
)
row("cast", ex("to int64", off_zero(2, 3), **_cast("int64")),
    ex("to bool", off_zero(3), **_cast("bool")), constant=True,
    call=agrad.astype)  # fmt: skip
row(
    "transfer",
    ex("to where it is", normal(2, 3)),
    ex("0-d", normal()),
    ex("complex", complex_normal(2)),
    call=lambda x: PRIMITIVES["transfer"].bind(x, target=_here(x), source=_here(x)),
    reference=lambda xp, x: x,
    note="moves between devices and backends are tested among the conventions",
)

# ---------------------------------------------------------------- reductions


def _prod(xp: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.prod(x, axis=axis, keepdims=keepdims)


reduction("sum", normal, ex("no axes", normal(2, 3), axis=()), ex("complex", complex_normal(2, 3), axis=0))
reduction("mean", normal, ex("complex", complex_normal(2, 3), axis=0), empty=False)
reduction(
    "prod",
    normal,
    ex("one zero", values([[2.0, 0.0, 3.0], [1.0, 2.0, 1.5]]), axis=1),
    ex("two zeros", values([[2.0, 0.0, 0.0], [1.0, 0.0, 1.5]]), axis=1),
    ex("all zeros", values([0.0, 0.0, 0.0])),
    ex("a zero of all", values([[2.0, 0.0], [1.0, 3.0]])),
    ex("five factors", normal(5)),
    ex("complex", complex_normal(2, 3), axis=0),
    reference=_prod,
)
_ties = ex("ties", values([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]]), axis=1, kink=True)
for _name in ("max", "min"):
    reduction(_name, distinct, _ties, empty=False)
reduction(
    "var",
    normal,
    ex("correction 1", normal(2, 3), axis=1, correction=1),
    ex("correction 0.5", normal(2, 3), correction=0.5, keepdims=True),
    ex("several axes correction", normal(2, 3, 2), axis=(0, 2), correction=1.0),
    empty=False,
)
reduction("logsumexp", normal, empty=False, reference=lambda xp, x, **how: np.log(np.sum(np.exp(x), **how)))
row(
    "cumulative_sum",
    ex("vector", normal(4)),
    ex("axis 0", normal(2, 3), axis=0),
    ex("axis -1", normal(2, 3), axis=-1),
    ex("include_initial", normal(2, 3), axis=1, include_initial=True),
    ex("include_initial axis 0", normal(2, 3), axis=0, include_initial=True),
    ex("empty", normal(0)),
    ex("complex", complex_normal(3)),
)
for _name in ("argmax", "argmin"):
    row(_name, ex("all", distinct(2, 3)), ex("axis", distinct(2, 3), axis=1, keepdims=True), constant=True)
for _name in ("all", "any"):
    row(
        _name,
        ex("all", constant([[True, False], [True, True]])),
        ex("axis", constant([[1, 0], [2, 2]]), axis=1),
        constant=True,
    )


def _softmax(xp: Any, x: Any, axis: int = -1) -> Any:
    return np.exp(x) / np.sum(np.exp(x), axis=axis, keepdims=True)


for _name, _reference in (("softmax", _softmax), ("log_softmax", lambda xp, x, axis=-1: np.log(_softmax(xp, x, axis)))):
    row(
        _name,
        ex("vector", normal(4)),
        ex("axis 0", normal(2, 3), axis=0),
        ex("axis -2", normal(2, 3, 2), axis=-2),
        ex("one element", normal(2, 1)),
        ex("empty batch", normal(0, 3)),
        reference=_reference,
    )


def _cross_entropy(xp: Any, x: Any, labels: Any) -> Any:
    lse = np.log(np.sum(np.exp(x), axis=1))
    return lse - x[np.arange(len(x)), labels], lse


_LABELS = constant([2, 0, 2, 1])
row(
    "softmax_cross_entropy",
    ex("both outputs", normal(4, 3), _LABELS),
    ex("the loss alone", normal(4, 3), _LABELS, call=lambda x, n: agrad.softmax_cross_entropy(x, n)[0],
       reference=lambda xp, x, n: _cross_entropy(xp, x, n)[0]),
    ex("the second alone", normal(4, 3), _LABELS, call=lambda x, n: agrad.softmax_cross_entropy(x, n)[1],
       reference=lambda xp, x, n: _cross_entropy(xp, x, n)[1]),
    ex("no rows", normal(0, 3), constant(np.zeros(0, np.int64))),
    ex("int32 labels", normal(2, 3), constant([0, 2], np.int32)),
    reference=_cross_entropy,
)  # fmt: skip

# ---------------------------------------------------------------- shapes and orders

# fmt: off
row("reshape", ex("matrix", normal(2, 3), (3, 2)), ex("-1", normal(2, 3), (-1,)), ex("to 0-d", normal(1), ()),
    ex("from 0-d", normal(), (1, 1)), ex("empty", normal(0, 3), (3, 0)), ex("complex", complex_normal(2, 2), (4,)))
row("permute_dims", ex("matrix", normal(2, 3), (1, 0)), ex("cycle", normal(2, 3, 4), (2, 0, 1)),
    ex("0-d", normal(), ()),
    ex("negative axes", normal(2, 3, 4), (-1, 0, -2), reference=lambda xp, x, axes: np.transpose(x, axes)),
    ex("empty", normal(0, 3), (1, 0)))
row("matrix_transpose", ex("matrix", normal(2, 3)), ex("batch", normal(2, 3, 2)), ex("empty", normal(0, 2, 3)))
row("broadcast_to", ex("new axis", normal(3), (2, 3)), ex("length 1", normal(2, 1), (2, 3)),
    ex("both", normal(1, 3), (4, 2, 3)),
    ex("0-d", normal(), (2, 2)), ex("itself", normal(2, 3), (2, 3)), ex("empty", normal(1), (0,)),
    ex("1 to 0", normal(1, 3), (0, 3)))
row("flip", ex("all", normal(2, 3)), ex("axis", normal(2, 3), axis=-1), ex("axes", normal(2, 3, 2), axis=(0, 2)),
    ex("empty", normal(0)), ex("0-d", normal()))

# fmt: on


def _listed(name: str) -> dict[str, Any]:
    return {
        "call": lambda *xs, **how: getattr(agrad, name)(list(xs), **how),
        "reference": lambda xp, *xs, **how: getattr(xp, name)(list(xs), **how),
    }


# fmt: off
row("concat", ex("two", normal(2, 3), normal(1, 3)),
    ex("three on axis 1", normal(2, 1), normal(2, 3), normal(2, 2), axis=1),
    ex("axis -1", normal(2, 1), normal(2, 2), axis=-1), ex("one", normal(2)),
    ex("empty part", normal(0, 2), normal(3, 2)),
    ex("flattened", normal(2, 2), normal(3), axis=None),
    ex("constant between", normal(1), constant([1.0, 2.0]), normal(2)),
    ex("complex", complex_normal(2), complex_normal(1)),
    ex("real and complex", normal(2), complex_normal(1)), **_listed("concat"))
row("stack", ex("two", normal(2, 3), normal(2, 3)), ex("three on axis 1", normal(2), normal(2), normal(2), axis=1),
    ex("axis -1", normal(2, 3), normal(2, 3), axis=-1), ex("0-d", normal(), normal()),
    ex("empty", normal(0), normal(0)),
    ex("constant between", normal(2), constant([1.0, 2.0]), normal(2)), **_listed("stack"))
row("tril", ex("matrix", normal(3, 3)), ex("k", normal(2, 3, 4), k=1), ex("negative k", normal(3, 2), k=-1),
    ex("empty", normal(0, 2)))
row("triu", ex("matrix", normal(3, 3)), ex("k", normal(2, 3, 4), k=1), ex("negative k", normal(3, 2), k=-1),
    ex("empty", normal(0, 2)))
# fmt: on

# ---------------------------------------------------------------- indexing

# label, shape, the index arrays, and the index made of them
_INDICES: tuple[tuple[str, tuple[int, ...], tuple[Any, ...], Callable[..., Any]], ...] = (
    ("int", (3, 2), (), lambda: 1),
    ("negative int", (3, 2), (), lambda: -1),
    ("all ints", (3, 2), (), lambda: (2, 0)),
    ("slice", (4, 2), (), lambda: slice(1, 3)),
    ("step", (5,), (), lambda: slice(None, None, 2)),
    ("negative step", (5, 2), (), lambda: slice(3, None, -2)),
    ("empty slice", (3,), (), lambda: slice(2, 2)),
    ("None", (3,), (), lambda: (None, slice(None), None)),
    ("Ellipsis", (2, 3, 2), (), lambda: (Ellipsis, 1)),
    ("Ellipsis alone", (2, 2), (), lambda: Ellipsis),
    ("empty tuple", (2, 2), (), lambda: ()),
    ("empty tuple of 0-d", (), (), lambda: ()),
    ("mixed", (3, 4, 2), (), lambda: (-1, slice(0, 3, 2), None, Ellipsis)),
    ("integer array", (4, 2), ([2, 0, 3],), lambda i: i),
    ("repeated integers", (4, 2), ([2, 0, 2, 2],), lambda i: i),
    ("negative integers", (4,), ([-1, 0, -1],), lambda i: i),
    ("integer matrix", (4,), ([[0, 1], [1, 3]],), lambda i: i),
    ("no integers", (4, 2), (np.zeros(0, np.int64),), lambda i: i),
    ("two integer arrays", (3, 4), ([0, 2, 0], [1, 1, 1]), lambda i, j: (i, j)),
    ("integer arrays broadcast", (3, 4), ([[0], [2]], [1, 1, 3]), lambda i, j: (i, j)),
    ("array behind slice", (2, 4), ([3, 3, 0],), lambda i: (slice(None), i)),
    ("arrays around slice", (3, 2, 4), ([0, 2, 0], [1, 1, 1]), lambda i, j: (i, slice(None), j)),
    ("array and int", (3, 2, 4), ([0, 2, 2],), lambda i: (i, slice(None), 1)),
    ("array and None", (3, 2), ([0, 2, 2],), lambda i: (None, i)),
    ("mask", (2, 3), ([[True, False, True], [False, True, False]],), lambda m: m),
    ("mask of rows", (3, 2), ([True, False, True],), lambda m: m),
    ("mask behind slice", (2, 3), ([True, False, True],), lambda m: (slice(None), m)),
    ("mask of nothing", (3,), ([False, False, False],), lambda m: m),
)


_READS, _WRITES, _ADDS = zip(*[indexed(*entry) for entry in _INDICES], strict=True)
# fmt: off
row("getitem", *_READS, ex("complex", complex_normal(3), call=_READS[0].call, reference=_READS[0].reference),
    call=_READS[0].call)
row("setitem", *[write for writes in _WRITES for write in writes], call=_READS[0].call, reference=put)
row("scatter_add", *_ADDS, call=_READS[0].call, reference=put)
row("scatter_sum", ex("one", normal(2), indices=((slice(1, 3), 0),), shape=(3, 2)),
    ex("a part twice", normal(2), normal(2), indices=((0,), (0,)), shape=(3, 2)),
    ex("parts and the whole", normal(3), normal(3, 2), normal(), indices=((..., 1), (...,), (2, 0)), shape=(3, 2)),
    ex("the whole first", normal(4), normal(2), normal(4, 1),
        indices=((...,), (slice(None, None, 2),), (slice(None), None)), shape=(4,)),
    ex("empty", normal(0, 2), normal(2), indices=((slice(2, 2),), (0,)), shape=(3, 2)),
    ex("complex", complex_normal(), complex_normal(3), indices=((-1,), (slice(None),)), shape=(3,)),
    ex("constant between", normal(1), constant([1.0, 2.0]), normal(2),
        indices=((slice(0, 1),), (slice(0, 2),), (slice(1, 3),)), shape=(3,)),
    call=PRIMITIVES["scatter_sum"].bind, reference=added_at)
row("take", ex("vector", normal(4), constant([3, 1])), ex("repeated", normal(4), constant([1, 1, 1])),
    ex("axis 0", normal(3, 2), constant([2, 0, 2]), axis=0), ex("axis -1", normal(2, 3), constant([2, 2]), axis=-1),
    ex("nothing", normal(3), constant(np.zeros(0, np.int64))),
    ex("middle axis", normal(2, 3, 2), constant([0, 2, 0]), axis=1))
# fmt: on

# ---------------------------------------------------------------- linear algebra


def _shapes(name: str, *pairs: tuple[tuple[int, ...], tuple[int, ...]]) -> list[Example]:
    return [ex(f"{a} {b}", normal(*a), normal(*b)) for a, b in pairs]


# fmt: off
row("matmul", *_shapes("matmul", ((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 2, 3), (3,)),
    ((3,), (2, 3, 4)),
        ((2, 2, 3), (2, 3, 4)), ((2, 2, 3), (3, 4)), ((2, 3), (4, 3, 2)), ((2, 1, 2, 3), (3, 3, 2)), ((1, 2, 3), (4,
        3, 2)),
        ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0, 2, 3), (3, 4))),
    itself("matmul", lambda *shape: normal(3, 3)), ex("constant right", normal(2, 3), constant(np.eye(3))),
    ex("constant left", constant(np.eye(3)), normal(3, 2)), ex("complex", complex_normal(2, 3), complex_normal(3, 2)),
    ex("complex and real", complex_normal(2, 3), normal(3, 2)),
    ex("real vector and complex", normal(3), complex_normal(3, 2)))
row("linear", ex("rows", normal(2, 3), normal(3, 4), normal(4)), ex("one vector", normal(3), normal(3, 4), normal(4)),
    ex("3-d", normal(2, 3, 2), normal(2, 4), normal(4)), ex("no rows", normal(0, 3), normal(3, 2), normal(2)),
    ex("constant input", constant(np.ones((2, 3))), normal(3, 4), normal(4)),
    ex("complex", *[complex_normal(2, 2)] * 2, complex_normal(2)),
    reference=lambda xp, x, w, b: x @ w + b)
row("linalg.solve", ex("matrix", square_matrix(3, 3), normal(3, 2)), ex("vector", square_matrix(3, 3), normal(3)),
    ex("batch", square_matrix(2, 3, 3), normal(2, 3, 2)), ex("broadcast left", square_matrix(3, 3), normal(2, 3, 2)),
    ex("broadcast right", square_matrix(2, 3, 3), normal(3, 2)),
    ex("constant matrix", constant(3 * np.eye(2)), normal(2, 1)),
    ex("constant right", square_matrix(2, 2), constant(np.eye(2))),
    ex("empty batch", square_matrix(0, 2, 2), normal(0, 2, 1)),
    ex("complex", complex_matrix(2, 2), complex_normal(2, 2)),
    ex("complex and real", complex_matrix(2, 2), normal(2, 1)))
row("linalg.inv", ex("matrix", square_matrix(3, 3)), ex("batch", square_matrix(2, 2, 2)),
    ex("one by one", off_zero(1, 1)),
    ex("empty batch", square_matrix(0, 2, 2)), ex("complex", complex_matrix(2, 2)))
# fmt: on


def _positive_definite(xp: Any, a: Any) -> Any:
    """Return a Hermitian matrix of any square one, as finite differences need."""
    adjoint = xp.matrix_transpose(a)
    return a + (xp.conj(adjoint) if "complex" in str(a.dtype) else adjoint)


# fmt: off
row("linalg.cholesky", ex("matrix", square_matrix(3, 3)), ex("upper", square_matrix(3, 3), upper=True),
    ex("batch", square_matrix(2, 2, 2)), ex("batch upper", square_matrix(2, 2, 2), upper=True),
    ex("one by one", positive(1, 1)),
    ex("complex", complex_matrix(2, 2)), ex("complex upper", complex_matrix(2, 2), upper=True),
    ex("empty batch", square_matrix(0, 2, 2)),
    call=lambda a, **how: agrad.linalg.cholesky(_positive_definite(agrad, a), **how),
    reference=lambda xp, a, **how: xp.linalg.cholesky(_positive_definite(xp, a), **how))
# fmt: on

CASES = [Case(row, example) for row in (*ROWS.values(), *COMPOSITES.values()) for example in row.examples]
