"""The rows of the standard's functions outside linalg and fft: sorting, sets, ..."""

import numpy as np
from table import binary, complex_normal, composite, constant, distinct, ex, itself, normal, off_zero, row, values

import agrad
from agrad.registry import PRIMITIVES, namespace

# ---------------------------------------------------------------- elementwise

binary("atan2", off_zero, off_zero, extra=(itself("atan2", off_zero),))
binary(
    "hypot",
    off_zero,
    off_zero,
    extra=(itself("hypot", off_zero), ex("origin", values([0.0]), values([0.0]), kink=True)),
)
binary(
    "logaddexp",
    normal,
    normal,
    extra=(
        itself("logaddexp", normal),
        ex("far apart", values([900.0, -900.0]), values([-900.0, 900.0])),
        ex("one is minus infinity", values([0.5, -0.5]), constant([-np.inf, -np.inf])),
    ),
)
row(
    "from_parts",
    ex("matrices", normal(2, 3), normal(2, 3)),
    ex("0-d", normal(), normal()),
    ex("empty", normal(0, 2), normal(0, 2)),
    ex(
        "the same array twice", normal(3), call=lambda x: namespace.from_parts(x, x), reference=lambda xp, x: x + 1j * x
    ),
    ex("constant imaginary part", normal(3), constant([0.5, -1.0, 2.0])),
    call=namespace.from_parts,
    reference=lambda xp, x1, x2: x1 + 1j * x2,
)

# fmt: off
_SIGNS = constant([[-1.5, 1.0, -0.5], [0.5, -2.0, 1.0]])
row("copysign", ex("matrices", off_zero(2, 3), _SIGNS), ex("0-d", off_zero(), constant(-1.0)),
    ex("empty broadcast", off_zero(0, 3), constant([1.0, -1.0, 1.0])), ex("broadcast left", off_zero(3), _SIGNS),
    ex("0-d left", off_zero(), _SIGNS), ex("number right", off_zero(3), -1.5),
    ex("negative zero", off_zero(2), constant([-0.0, 0.0])),
    ex("of zero", values([0.0, -0.0]), constant([-1.0, 1.0]), kink=True))
row("nextafter", ex("matrices", normal(2, 3), constant([[0.3], [-5.0]])),
    ex("broadcast", normal(3), constant([[0.5], [9.0]])), ex("0-d", normal(), constant(9.0)),
    ex("empty", normal(0, 2), constant([1.0, 2.0])), ex("number", normal(3), 2.0))

# ---------------------------------------------------------------- sorting and searching

row("sort", ex("vector", distinct(5)), ex("axis 0", distinct(3, 2), axis=0), ex("axis -2", distinct(2, 3, 2), axis=-2),
    ex("descending", distinct(2, 4), descending=True), ex("not stable", distinct(4), stable=False),
    ex("ties", values([[2.0, 1.0, 2.0], [3.0, 3.0, 3.0]]), kink=True),
    ex("descending ties", values([2.0, 1.0, 2.0]), descending=True, kink=True),
    ex("one element", normal(1)), ex("empty", normal(0)), ex("empty batch", normal(0, 3)))
row("argsort", ex("vector", distinct(5)), ex("axis 0", distinct(3, 2), axis=0), ex("descending", distinct(4),
    descending=True), ex("ties", values([2.0, 1.0, 2.0])), ex("integers", constant([3, 1, 2])), constant=True)
row("searchsorted", ex("left", values([1.0, 2.0, 2.0, 3.0]), values([0.0, 2.0, 2.5, 9.0])),
    ex("right", values([1.0, 2.0, 2.0, 3.0]), values([[2.0, 3.0]]), side="right"),
    ex("number", values([1.0, 2.0, 3.0]), 2.5, reference=lambda xp, x, v: xp.searchsorted(x, xp.asarray(v))),
    ex("sorter", values([3.0, 1.0, 2.0]), values([1.5, 3.0]), constant([1, 2, 0]),
       call=lambda x, v, s: agrad.searchsorted(x, v, sorter=s),
       reference=lambda xp, x, v, s: np.searchsorted(x, v, sorter=s)), constant=True)
row("count_nonzero", ex("all", values([[1.0, 0.0], [0.0, 0.0]])), ex("axis", values([[1.0, 0.0], [2.0, 0.0]]), axis=1),
    ex("keepdims", constant([[1, 0], [2, 2]]), axis=(0, -1), keepdims=True), ex("empty", normal(0, 2), axis=0),
    constant=True)
_INDEX = [[2, 0], [1, 1]]
composite("take_along_axis", ex("axis -1", normal(2, 3), constant(_INDEX)),
    ex("axis 0", normal(3, 2), constant([[2, 0]]), axis=0), ex("vector", normal(4), constant([3, 3, 0])),
    ex("negative", normal(3), constant([-1, 0, -3])), ex("broadcast indices", normal(2, 3), constant([[2, 0]])),
    ex("broadcast array", normal(1, 3), constant(_INDEX)), ex("3-d", normal(2, 3, 2), constant([[[1, 0]]]), axis=1),
    ex("int32", normal(3), constant([1], np.int32)), ex("nothing", normal(3), constant(np.zeros(0, np.int64))),
    ex("complex", complex_normal(2, 3), constant(_INDEX)),
    reference=lambda xp, x, i, axis=-1: np.take_along_axis(x, i, axis=axis))

# ---------------------------------------------------------------- sets

_REPEATED = [[2.0, 1.0, 2.0], [0.5, 0.5, 0.5]]
# the operations themselves: of a recorded Tensor the functions take the values, which test_ecosystem looks at
for _name in ("unique_values", "unique_counts", "unique_inverse", "unique_all"):
    row(_name, ex("matrix", values(_REPEATED)), ex("integers", constant([3, 1, 3])), ex("0-d", values(2.0)),
        ex("one", normal(1)), call=PRIMITIVES[_name].bind, constant=True)
row("isin", ex("arrays", constant([[1, 2], [3, 4]]), constant([2, 4, 9])),
    ex("invert", constant([1, 2, 3]), constant([2]), invert=True),
    ex("number left", 2, constant([1, 2]), reference=lambda xp, v, x: np.isin(v, x)),
    ex("number right", constant([1, 2]), 2, reference=lambda xp, x, v: np.isin(x, v)),
    ex("in nothing", constant([1, 2]), constant(np.zeros(0, np.int64))), constant=True)

# ---------------------------------------------------------------- running products

row("cumulative_prod", ex("vector", normal(4)), ex("five", normal(5)), ex("axis 0", normal(3, 2), axis=0),
    ex("axis -2", normal(2, 3, 2), axis=-2), ex("include_initial", normal(2, 3), axis=1, include_initial=True),
    ex("include_initial axis 0", normal(2, 3), axis=0, include_initial=True),
    ex("one zero", values([2.0, 0.0, 3.0, -1.5])), ex("two zeros", values([[2.0, 0.0, 0.0, 4.0]]), axis=1),
    ex("all zeros", values([0.0, 0.0, 0.0])), ex("one element", normal(1)), ex("empty", normal(0)),
    ex("empty batch", normal(0, 3), axis=1), ex("complex", complex_normal(3)),
    reference=lambda xp, x, axis=-1, include_initial=False: (
        np.cumulative_prod(x, axis=axis, include_initial=include_initial)))

# ---------------------------------------------------------------- shapes and orders

row("roll", ex("vector", normal(4), shift=1), ex("negative", normal(4), shift=-3),
    ex("past the end", normal(3), shift=7),
    ex("flattened", normal(2, 3), shift=2), ex("axis", normal(2, 3), shift=1, axis=-1),
    ex("axes", normal(2, 3), shift=(1, -1), axis=(0, 1)), ex("one shift for axes", normal(2, 3), shift=1, axis=(0, 1)),
    ex("an axis twice", normal(2, 3), shift=(1, 1), axis=(1, 1)), ex("empty", normal(0, 2), shift=1, axis=0),
    ex("0-d", normal(), shift=1), ex("complex", complex_normal(3), shift=1),
    reference=lambda xp, x, shift, axis=None: np.roll(x, shift, axis=axis))
row("repeat", ex("flattened", normal(2, 2), 2), ex("axis", normal(2, 3), 2, axis=0),
    ex("none", normal(2, 3), 0, axis=1),
    ex("axis -1", normal(2, 3), 3, axis=-1), ex("array", normal(3), constant([2, 0, 1])),
    ex("array on axis", normal(2, 3), constant([1, 2]), axis=0),
    ex("array of one", normal(2, 3), constant([2]), axis=1),
    ex("empty", normal(0), 2), ex("0-d", normal(), 3), ex("complex", complex_normal(2), 2),
    reference=lambda xp, x, n, axis=None: np.repeat(x, n, axis=axis))
row("tile", ex("vector", normal(3), (2,)), ex("matrix", normal(2, 3), (2, 2)),
    ex("more axes", normal(3), (2, 1, 2)),
    ex("fewer axes", normal(2, 1, 3), (2,)), ex("none of it", normal(2), (0,)), ex("0-d", normal(), (2,)),
    ex("no repetitions", normal(2), ()), ex("complex", complex_normal(2), (2,)),
    reference=lambda xp, x, n: np.tile(x, n))
row("unstack", ex("rows", normal(2, 3)), ex("axis -1", normal(2, 3), axis=-1), ex("vector", normal(2)),
    reference=lambda xp, x, axis=0: tuple(np.moveaxis(x, axis, 0)))
row("diff", ex("vector", normal(4)), ex("axis 0", normal(3, 2), axis=0), ex("twice", normal(2, 4), n=2),
    ex("no times", normal(3), n=0), ex("too often", normal(2), n=3), ex("one", normal(2, 1)),
    ex("prepend", normal(2, 3), normal(2, 1), call=lambda x, p: agrad.diff(x, prepend=p),
       reference=lambda xp, x, p: np.diff(x, prepend=p)),
    ex("append", normal(3, 2), normal(2, 2), call=lambda x, a: agrad.diff(x, axis=0, append=a),
       reference=lambda xp, x, a: np.diff(x, axis=0, append=a)),
    ex("both", normal(2), normal(1), normal(2), call=lambda x, p, a: agrad.diff(x, prepend=p, append=a),
       reference=lambda xp, x, p, a: np.diff(x, prepend=p, append=a)),
    ex("complex", complex_normal(3)), reference=lambda xp, x, **how: np.diff(x, **how))
composite("moveaxis", ex("one", normal(2, 3, 2), 0, -1), ex("two", normal(2, 3, 4), (0, 1), (2, 0)),
    reference=lambda xp, x, source, to: np.moveaxis(x, source, to))
composite("expand_dims", ex("front", normal(2), axis=0), ex("several", normal(2, 3), axis=(0, -1)),
    reference=lambda xp, x, axis: np.expand_dims(x, axis))
composite("squeeze", ex("one", normal(2, 1), axis=1), ex("several", normal(1, 2, 1), axis=(0, -1)),
    reference=lambda xp, x, axis: np.squeeze(x, axis))
composite("broadcast_arrays", ex("two", normal(3), normal(2, 1)), ex("with 0-d", normal(), normal(2)),
    reference=lambda xp, *xs: tuple(np.broadcast_arrays(*xs)))
composite("meshgrid", ex("xy", normal(2), normal(3)), ex("ij", normal(2), normal(3), normal(2), indexing="ij"),
    ex("one", normal(2)), reference=lambda xp, *xs, **how: tuple(np.meshgrid(*xs, **how)))

# ---------------------------------------------------------------- the rest of the composites

composite("clip", ex("both", distinct(2, 3), -0.4, 0.4), ex("low", distinct(3), -0.1),
    ex("high", distinct(3), None, 0.2),
    ex("no limit", normal(3)), ex("arrays", distinct(2, 3), constant([-0.4, 0.1, -9.0]), constant([[0.2], [9.0]])),
    reference=lambda xp, x, low=None, high=None: np.array(x) if low is high is None else np.clip(x, low, high))
composite("std", ex("all", normal(2, 3)), ex("axis", normal(2, 3), axis=1, correction=1, keepdims=True),
    reference=lambda xp, x, axis=None, correction=0, keepdims=False: (
        np.std(x, axis=axis, ddof=correction, keepdims=keepdims)))
composite("full_like", ex("of a Tensor", constant([1.0, 2.0]), normal()),
    reference=lambda xp, x, v: np.full_like(x, v))
composite("linspace", ex("both ends", normal(), normal(), 4), ex("open", normal(), normal(), 3, endpoint=False),
    ex("number and end", 0.5, normal(), 3), reference=lambda xp, a, b, n, **how: np.linspace(a, b, n, **how))
# fmt: on
