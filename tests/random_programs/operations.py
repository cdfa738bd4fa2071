"""Operations of random programs: on elements, along axes, of shapes, indices, control flow and linear algebra."""

from typing import Any

import numpy as np

from random_programs.program import EITHER, PREPARED, Unfit, add, each

# ---------------------------------------------------------------- which values fit


def real(v: Any) -> bool:
    return v.dtype.kind == "f"


def moving(v: Any) -> bool:
    return v.dtype.kind in "fc"


def complex_(v: Any) -> bool:
    return v.dtype.kind == "c"


def ndim(low: int, high: int = 9) -> Any:
    return lambda v: low <= v.ndim <= high


def filled(v: Any) -> bool:
    return v.size > 0


def apart(v: Any) -> bool:
    """Return True if no value is near a number at which rounding jumps."""
    return bool(np.abs(2 * v - np.round(2 * v)).min(initial=1) > 0.01)


def spread(v: Any) -> bool:
    """Return True if no two values are equal, or nearly."""
    return v.size < 2 or bool(np.diff(np.sort(v, axis=None)).min() > 1e-3)


def away(v: Any) -> bool:
    """Return True if no value is near 0."""
    return bool(np.abs(v).min(initial=1) > 1e-2)


def square(v: Any) -> bool:
    return v.ndim >= 2 and v.shape[-1] == v.shape[-2]


def separate(v: Any) -> bool:
    """Return True if singular values are apart from each other and from 0."""
    if v.ndim < 2 or not v.size:
        return False
    s = np.linalg.svd(v, compute_uv=False)
    return bool(s.min() > 0.05 and (s.shape[-1] < 2 or np.abs(np.diff(s, axis=-1)).min() > 0.05))


def regular(v: Any) -> bool:
    """Return True if matrices are square and far from singular."""
    return square(v) and filled(v) and bool(np.linalg.svd(v, compute_uv=False).min() > 0.2)


def broadcasts(shape: tuple[int, ...], to: tuple[int, ...] | None = None) -> Any:
    """Return the test that a value broadcasts with a shape, and ``to`` another one."""

    def fits(v: Any) -> bool:
        try:
            found = np.broadcast_shapes(v.shape, shape)
        except ValueError:
            return False
        return to is None or found == to

    return fits


def unfit() -> Any:
    raise Unfit


# ---------------------------------------------------------------- what is drawn


def axis_of(draw: Any, name: int) -> int:
    """Return one axis, from the front or from behind."""
    ndim = draw.value(name).ndim
    return draw.integer(-ndim, ndim) if ndim else unfit()


def axes_of(draw: Any, name: int) -> Any:
    """Return an axis, several, or None."""
    ndim = draw.value(name).ndim
    if not ndim or draw.chance(0.3):
        return None
    if ndim > 1 and draw.chance(0.3):
        return tuple(sorted(int(i) for i in draw.rng.choice(ndim, 2, replace=False)))
    return axis_of(draw, name)


def settled(draw: Any, name: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings: of a tuple one of its options, of a function what it draws, anything else as it is."""
    return {
        key: draw.choice(*one) if isinstance(one, tuple) else one(draw, name) if callable(one) else one
        for key, one in settings.items()
    }


def chance(p: float) -> Any:
    return lambda draw, _: draw.chance(p)


def unary(domain: str | None, *tests: Any, **settings: Any) -> Any:
    """Return how to draw one operand, and settings for it."""

    def drawn(draw: Any) -> Any:
        name = draw.pick(*tests)
        name = draw.within(name, domain) if domain else name
        return (name,), settled(draw, name, settings)

    return drawn


def pairs(first: str | None, second: str | None, *tests: Any, **settings: Any) -> Any:
    """Return how to draw two operands that broadcast."""
    tests = tests or (real,)

    def drawn(draw: Any) -> Any:
        a = draw.pick(*tests)
        a = draw.within(a, first) if first else a
        b = draw.pick(broadcasts(draw.value(a).shape), *tests)
        return (a, draw.within(b, second) if second else b), settled(draw, a, settings)

    return drawn


def second(fits: Any, *tests: Any, **settings: Any) -> Any:
    """Return how to draw two operands, of which the second fits the first."""

    def drawn(draw: Any) -> Any:
        a = draw.pick(moving, *tests)
        return (a, draw.pick(moving, lambda v: fits(draw.value(a), v))), settled(draw, a, settings)

    return drawn


def alike(*tests: Any, **settings: Any) -> Any:
    """Return how to draw two operands of one shape."""
    return second(lambda a, b: a.shape == b.shape, *tests, **settings)


def both(*tests: Any, **settings: Any) -> Any:
    """Return how to draw two operands of any shapes."""
    return lambda draw: ((draw.pick(*tests), name := draw.pick(*tests)), settled(draw, name, settings))


def reducing(domain: str | None = None, *tests: Any, **settings: Any) -> Any:
    given = {"axis": axes_of, "keepdims": chance(0.4), "correction": (0, 0, 1), **settings}
    return unary(domain, *(tests or (moving,)), **given)


def along(*tests: Any, **settings: Any) -> Any:
    """Return how to draw an operand and one of its axes."""
    return unary(None, *(tests or (moving, ndim(1))), **settings, axis=axis_of)


def deviating(draw: Any) -> Any:
    """Draw a reduction of values that differ. At a standard deviation of 0 there is no second derivative."""
    (name,), settings = reducing()(draw)
    return ((name,), settings) if np.all(np.std(draw.value(name), axis=settings["axis"]) > 0.01) else unfit()


# ---------------------------------------------------------------- one operand

for _text in {text for _, text in PREPARED.values()}:
    add(unary(None, real), _text)
add(unary(None, moving), "{0} / (1.0 + {xp}.abs({0}))")
add(unary("small", real), *each("sin cos tanh asinh atan expm1 exp sinh cosh", "{xp}.NAME({0})"))
add(unary("small", complex_), *each("sin cos exp sinh cosh", "{xp}.NAME({0} * 1.0)"))
add(unary(None, moving), *each("negative positive square", "{xp}.NAME({0})"), "-{0}")
add(unary(None, complex_), *each("conj real imag", "{xp}.NAME({0})"))
add(unary(None, moving, away), "{xp}.abs({0})", "abs({0})")
add(unary(None, real, away), "{xp}.sign({0})", *each("relu sigmoid gelu", "A.NAME({0})"))
add(unary(None, real, apart), *each("floor ceil trunc round", "{xp}.NAME({0})"))
add(unary("positive", real), *each("log log2 log10 log1p sqrt reciprocal", "{xp}.NAME({0})"))
add(unary("unit", real), *each("asin acos atanh tan", "{xp}.NAME({0})"))
add(unary("above_one", real), "{xp}.acosh({0})")
add(unary("nonzero", real), *each("cbrt exp2 deg2rad fabs i0 sinc nan_to_num degrees", "np.NAME({0})"))
add(unary("nonzero", moving, away), "np.angle({0})")

_SPECIAL = {
    "small": "erfc erfcx expit log_expit ndtr log_ndtr i0 i0e i1 i1e j0 j1",
    "positive": "gammaln gamma digamma entr y0 y1",
    "unit": "erfinv",
    "probability": "ndtri logit erfcinv",
}
for _domain, _names in _SPECIAL.items():
    add(unary(_domain, real, xs=EITHER), *each(_names, "{xs}.NAME({0})"))
add(unary("small", real), "A.special.erf({0})")
add(unary("nonzero", real), "A.special.sinc({0})")
add(
    unary("positive", real, n=(1, 2), k=(2, 3), v=(0.5, 1.5, 2.0)),
    "A.special.polygamma({n}, {0})", "A.special.jn({k}, {0})", "A.special.iv({v}, {0})",
)  # fmt: skip
add(unary("above_one", real, q=(1.0, 1.5)), "A.special.zeta({0}, {q})")
add(unary("probability", real, a=(0.7, 2.0)), "A.special.betainc({a}, 1.5, {0})")
add(unary(None, moving, c=(1, 0.5, -2.0)), "{c} + {0}", "{0} * {c}")
add(unary(None, moving, c=(1j, 0.5 - 1j)), "{0} * (1.0 * {c})")
add(unary("nonzero", real, c=(1, 0.5, -2.0)), "{c} / {0}")
add(unary("small", moving, n=(2, 3, 2.0)), "{0} ** {n}")
add(unary("positive", real, p=(1.5, -1, 0.5)), "{0} ** {p}")
add(unary("small", real, b=(2.0, 0.5)), "{b} ** {0}")
add(unary(None, real, low=(-0.707, "None"), high=0.613), "{xp}.clip({0}, {low}, {high})")
add(unary(None, moving), "{xp}.isfinite({0})")
add(unary(None, real), "{xp}.logical_not({0} > 0.2)", "{xp}.signbit({0})")

# ---------------------------------------------------------------- two operands

add(
    pairs(None, None, moving, k=(0, 1)), *each("add subtract multiply", "{xp}.NAME({0}, {1})"),
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "{xp}.broadcast_arrays({0}, {1})[{k}] * 1.5",
)  # fmt: skip
add(pairs(None, "positive"), "{0} / {1}", *each("divide remainder floor_divide", "{xp}.NAME({0}, {1})"))
add(pairs(None, "positive"), "np.fmod({0}, {1})")
add(pairs("positive", "small"), "{xp}.pow({0}, {1})")
add(pairs("positive", "unit"), "np.float_power({0}, {1})")
add(pairs("nonzero", None), *each("hypot atan2", "{xp}.NAME({0}, {1})"), "np.heaviside({0}, {1})")
add(pairs("nonzero", "nonzero"), "{xp}.copysign({0}, {1})")
_names = "maximum minimum logaddexp nextafter less greater less_equal greater_equal equal not_equal"
add(pairs(None, None), *each(_names, "{xp}.NAME({0}, {1})"), *each("fmax fmin logaddexp2", "np.NAME({0}, {1})"))
add(
    pairs(None, None), *each("and or xor", "{xp}.logical_NAME({0} > 0.1, {1} < 0.3)"), "({0} > 0.1) & ({1} > -0.3)",
    "({0} > 0.15) * {1}", "{xp}.where({0} > 0.12, {1}, 0.5)", "{xp}.clip({0}, {1}, {1} + 0.5)",
)  # fmt: skip
add(pairs(None, None, c=(0.11, -0.23)), "{xp}.where({0} > {c}, {0}, {1})")
add(pairs(None, "positive", xs=EITHER), *each("xlogy xlog1py", "{xs}.NAME({0}, {1})"))
_names = "rel_entr kl_div beta betaln gammainc gammaincc"
add(pairs("positive", "positive", xs=EITHER), *each(_names, "{xs}.NAME({0}, {1})"))
add(
    unary(None, real, away), "{xp}.where({0} > 0.12, {xp}.log({0}), {0})",
    "{xp}.where({0} > 0, {xp}.sqrt({xp}.maximum({0}, 0.0)), {0})",
)  # fmt: skip
add(pairs(None, None, real, away), "np.select([{0} > 0.2, {0} < -0.2], [{0}, {1}], 0.1)")

# ---------------------------------------------------------------- along axes

_AXIS, _KEEP = "({0}, axis={axis})", "({0}, axis={axis}, keepdims={keepdims})"
add(
    reducing(),
    *each("sum mean", "{xp}.NAME" + _KEEP),
    "{0}.sum(axis={axis})",
    "{0}.mean(axis={axis}, keepdims={keepdims})",
)
add(reducing("small"), "{xp}.prod" + _KEEP)
add(reducing(None, real, filled), *each("max min", "{xp}.NAME" + _KEEP))
add(deviating, *each("std var", "{xp}.NAME({0}, axis={axis}, correction={correction}, keepdims={keepdims})"))
add(reducing(None, real), *each("all any", "{xp}.NAME({0} > 0.1, axis={axis}, keepdims={keepdims})"))
add(reducing(None, real, filled, axis=axis_of), *each("argmax argmin", "{xp}.NAME" + _KEEP), "{0}.max(axis={axis})")
add(
    reducing(None, real), "{xp}.count_nonzero({0} > 0.1, axis={axis})", "np.sum({0}, axis={axis}, where={0} > 0.1)",
    "np.max({0}, axis={axis}, initial=0.3)", "np.add.reduce({0}, axis={axis})",
)  # fmt: skip
add(reducing("small", real, filled), "A.logsumexp" + _KEEP, "A.special.logsumexp" + _KEEP)
add(reducing("small", real, filled, axis=axis_of), *each("softmax log_softmax", "A.NAME" + _AXIS))
add(
    reducing(None, real, filled, away, ord=(1, 2, 3, "np.inf", 1.5)),
    "{xp}.linalg.vector_norm({0}, axis={axis}, keepdims={keepdims}, ord={ord})",
)
add(unary(None, real, filled, away, ndim(2), ord=("'fro'", 1, "np.inf")), "{xp}.linalg.matrix_norm({0}, ord={ord})")
_text = "{xp}.NAME({0}, axis={axis}, include_initial={initial})"
add(unary("small", moving, axis=axis_of, initial=chance(0.3)), *each("cumulative_sum cumulative_prod", _text))
add(reducing("small", moving), *each("cumsum cumprod", "np.NAME" + _AXIS))
add(reducing(None, real, filled), *each("nansum nanmean ptp median average nanmax", "np.NAME" + _AXIS))
add(reducing(None, real, filled, q=(0.3, 0.5)), "np.quantile({0}, {q}, axis={axis})")
add(reducing(None, real, axis=axis_of), *each("trapezoid gradient", "np.NAME" + _AXIS))
add(reducing("small", real, axis=axis_of), "np.multiply.accumulate" + _AXIS)
add(reducing(None, real, spread, axis=axis_of), *each("sort argsort", "{xp}.NAME" + _AXIS))
add(reducing(None, real, spread, filled, axis=axis_of), "np.partition({0}, 0, axis={axis})[..., :1]", values=True)
add(reducing(axis=axis_of), "{0}.cumsum(axis={axis})")
add(unary(None, moving, axis=axis_of, n=(1, 1, 2)), "{xp}.diff({0}, axis={axis}, n={n})")
_GRID = np.array([-0.51, 0.13, 0.72])
add(unary(None, real, ndim(1, 1), grid=_GRID), "{xp}.searchsorted({grid}, {0})")
add(unary(None, real, grid=_GRID, values=lambda d, _: d.array(3)), "np.interp({0}, {grid}, {values})")
add(unary("small", real, c=lambda d, _: d.array(3)), "np.polyval({c}, {0})")
add(unary(None, real, lambda v: v.ndim == 2 and v.shape[1] > 1), "np.cov({0})")
add(both(real), "np.subtract.outer({0}, {1})")

# ---------------------------------------------------------------- casts and new arrays

add(unary(None, lambda v: v.dtype.kind in "fib"), *each("float32 float64", "{xp}.astype({0}, {xp}.NAME)"))
add(unary(None, real), "{xp}.astype({0}, {xp}.complex128)")
add(unary(None, real, apart), "{xp}.astype({0}, {xp}.int64)")
add(unary(None, real, away), "{xp}.astype({0}, {xp}.bool)")
add(unary(None, real, dtype=("np.float32", "np.float64", "np.complex128", "'float64'")), "{0}.astype({dtype})")
# in finite differences float32 is float64, which a cast without a copy returns as it is
_copies = {"copy": lambda d, x: d.chance(0.5) or d.value(x).dtype == np.float32}
add(unary(None, real, **_copies), "{xp}.astype({0}, {xp}.float64, copy={copy})")
add(unary(None, moving), *each("zeros_like ones_like", "{xp}.NAME({0}) + {0}"), "{xp}.full_like({0}, 0.5) * {0}")
add(unary(None, moving, ndim(1, 1)), "{xp}.arange({0}.shape[0]) * 0.5 + {0}")
add(unary(None, moving, ndim(1)), "{xp}.eye({0}.shape[-1]) + {0}", "{xp}.linspace(0.0, 1.0, {0}.shape[-1]) * {0}")

# ---------------------------------------------------------------- shapes


def reshape_of(draw: Any, name: int) -> Any:
    """Return a shape of the size of a value, at times with -1 in the place of a length."""
    size = draw.value(name).size
    if not size:
        return draw.choice((0,), (0, 2))
    first = int(draw.rng.choice([n for n in range(1, size + 1) if size % n == 0]))
    return draw.choice((first, size // first), (-1,), (first, -1), (1, size), (size,))


def permutation(draw: Any, name: int) -> tuple[int, ...]:
    return tuple(int(i) for i in draw.rng.permutation(draw.value(name).ndim))


def new_axis(draw: Any, name: int) -> int:
    n = draw.value(name).ndim
    return draw.integer(-n - 1, n + 1)


def single_axis(draw: Any, name: int) -> int:
    return int(draw.rng.choice([i for i, n in enumerate(draw.value(name).shape) if n == 1]))


def broadcast(draw: Any, name: int) -> tuple[int, ...]:
    shape = tuple(2 if n == 1 and draw.chance(0.5) else n for n in draw.value(name).shape)
    return (*draw.choice((), (2,), (1,)), *shape)


VIEWS = ["{xp}.reshape({0}, {shape})", "{0}.reshape({shape})", "np.ravel({0})", "{xp}.permute_dims({0}, {axes})"]
add(unary(None, moving, shape=reshape_of), *VIEWS[:2])
add(unary(None, moving), VIEWS[2], "{0}.ravel()", "{0}.flatten()", "{xp}.roll({0}, 2)", "{0}.copy()")
add(
    unary(None, moving), "np.atleast_2d({0})", "np.atleast_1d({0})", "A.asarray({0}) * 1.0", "A.asarray({0}, copy=True)"
)
add(unary(None, moving, ndim(1), axes=permutation), VIEWS[3], "np.transpose({0}, {axes})")
add(unary(None, moving, ndim(2, 2)), "{0}.T")
add(unary(None, moving, ndim(2), k=(1, 2, 3)), "{0}.mT", "{xp}.matrix_transpose({0})", "np.rot90({0}, {k})")
add(along(to=(0, -1)), "{xp}.moveaxis({0}, {axis}, {to})", "np.swapaxes({0}, {axis}, 0)")
add(unary(None, moving, axis=new_axis), "{xp}.expand_dims({0}, axis={axis})")
add(unary(None, moving, lambda v: 1 in v.shape, axis=single_axis), "{xp}.squeeze({0}, axis={axis})")
add(along(), "{xp}.flip({0}, axis={axis})", "np.insert({0}, 0, 0.5, axis={axis})", "np.delete({0}, 0, axis={axis})")
add(along(shift=(1, -2, 5)), "{xp}.roll({0}, {shift}, axis={axis})")
add(along(n=(2, 1, 0)), "{xp}.repeat({0}, {n}, axis={axis})")
add(unary(None, moving, n=((2,), (1, 2), (2, 1))), "{xp}.tile({0}, {n})")
add(alike(ndim(1), axis=axis_of), *each("concat stack", "{xp}.NAME([{0}, {1}], axis={axis})"))
add(alike(ndim(1), axis=axis_of), *each("hstack vstack column_stack", "np.NAME([{0}, {1}])"))
add(both(moving), "{xp}.concat([{0}, {1}], axis=None)", "np.append({0}, {1})")
add(lambda d: ((d.pick(real), d.pick(real, filled)), {}), "{xp}.stack([{xp}.sum({0}), {xp}.max({1})])")
add(along(k=(0, -1)), "{xp}.unstack({0}, axis={axis})[{k}]", "np.array_split({0}, 2, axis={axis})[{k}]")
add(unary(None, moving, lambda v: v.size <= 20, shape=broadcast), "{xp}.broadcast_to({0}, {shape})")
_text = "{xp}.meshgrid({0}, {1}, indexing={ij})[{k}] * 1.5"
add(both(real, ndim(1, 1), k=(0, 1), ij=("'ij'", "'xy'")), _text)
add(unary(None, moving, filled, ndim(1, 2), mode=("'constant'", "'edge'", "'wrap'")), "np.pad({0}, 1, mode={mode})")
add(unary(None, moving, ndim(1, 2), k=(0, 1, -1)), "np.diag({0}, {k})")

# ---------------------------------------------------------------- control flow

_flags = {"flag": chance(0.5), "n": lambda d, _: d.integer(0, 4), "c": (-0.51, 0.13, 0.87)}
add(
    unary(None, real, **_flags),
    "{0} * 2.0 if {flag} else {xp}.sin({0})",
    "{out} = {0}\nfor i in range({n}):\n    {out} = {xp}.sin({out}) + 0.1 * i",
    "i, {out} = 0, {0}\nwhile i < {n}:\n    i, {out} = i + 1, {out} * 0.7 + 0.1",
    "sum({0} * {xp}.cos({0} * k) for k in (0.5, 1.5))",
    "A.cond({flag}, lambda u: u * 2.0, lambda u: {xp}.sin(u), {0})",
    "A.while_loop(lambda s: s[0] < {n}, lambda s: (s[0] + 1, {xp}.sin(s[1]) + 0.1), (0, {0}))[1]",
    "A.checkpoint(lambda u: {xp}.sin(u) * u)({0})",
)
add(
    unary(None, real, **_flags),
    "{0} * 2.0 if {xp}.sum({0}) > {c} else {xp}.sin({0})",
    "{out} = {0}\nwhile {xp}.sum({out} * {out}) > 0.5:\n    {out} = {out} * 0.5",
    "A.cond({xp}.sum({0}) > {c}, lambda u: u * 2.0, lambda u: {xp}.sin(u), {0})",
    "A.while_loop(lambda u: {xp}.sum(u * u) > 0.5, lambda u: u * 0.5, {0})",
    values=True,
)
add(
    unary("small", real, filled, ndim(1), k=(0, 1), reverse=chance(0.3), checkpoint=(False, False, True, 2)),
    "A.scan(lambda c, r: (0.5 * c + r, {xp}.sin(c) * r), {0}[0], {0}, reverse={reverse}, checkpoint={checkpoint})[{k}]",
)
add(unary(None, real, filled, ndim(1)), "A.vmap(lambda r: {xp}.sin(r) * {xp}.sum(r))({0})")
add(unary(None, real), "A.grad(lambda u: {xp}.sum({xp}.sin(u) * u))({0})", plain="np.sin({0}) + {0} * np.cos({0})")
add(unary(None, real), "A.jvp(lambda u: {xp}.sin(u), ({0},), ({0},))[1]", plain="{0} * np.cos({0})")

# ---------------------------------------------------------------- linear algebra

GRAMS = (
    "{0} @ {0}.mT + 0.5 * {xp}.eye({0}.shape[-2])",
    "0.3 * {0}[..., :1] * {0}[..., :1].mT + 1.5 * {xp}.eye({0}.shape[-2])",
)


def a_square(draw: Any) -> int:
    """Return the name of a regular matrix, made of others where there is none."""
    if draw.chance(0.4):
        return draw.pick(real, regular)
    return draw.step(draw.choice(*GRAMS), (draw.pick(real, filled, ndim(2, 3)),))


def of_square(draw: Any) -> Any:
    return (a_square(draw),), {"k": draw.choice(0, 1), "n": draw.choice(2, 3, -1, 0), "upper": draw.chance(0.3)}


def with_right_side(draw: Any) -> Any:
    a = a_square(draw)
    n = draw.value(a).shape[-1]
    return (a, draw.pick(real, lambda v: v.ndim in (1, 2) and v.shape[0] == n)), {}


def multiplies(a: Any, b: Any) -> bool:
    return b.ndim >= 1 and (b.shape[-2] if b.ndim > 1 else b.shape[0]) == a.shape[-1]


_text = "{xp}.tensordot({0}, {1}, axes=1)"
add(second(multiplies, ndim(1)), "{xp}.matmul({0}, {1})", "{0} @ {1}", _text, "np.dot({0}, {1})")
add(second(lambda a, b: b.ndim > 1 and a.shape[-1] == b.shape[-1], ndim(1)), "{0} @ {1}.mT")
add(second(lambda a, b: b.ndim > 0 and a.shape[-1] == b.shape[-1], ndim(1)), "np.inner({0}, {1})")
add(alike(ndim(1)), "{xp}.vecdot({0}, {1})")
add(alike(ndim(1, 2), axis=axis_of), "{xp}.tensordot({0}, {1}, axes=(({axis},), ({axis},)))")
add(alike(ndim(1, 2)), "np.einsum('...i,...j->...ij', {0}, {1})")
add(alike(ndim(2, 2)), "np.einsum('ij,ij->i', {0}, {1})")
add(alike(lambda v: v.shape[-1:] == (3,)), "{xp}.linalg.cross({0}, {1})")
add(both(moving, ndim(1, 1)), "{xp}.linalg.outer({0}, {1})")
add(both(moving, ndim(1)), "np.kron({0}, {1})")
add(both(real, filled, ndim(1, 1)), "np.convolve({0}, {1})")
add(unary(None, moving, square), "np.einsum('...ii->...', {0})")
_weights = {"w": lambda d, n: d.array(d.value(n).shape[-1], 2), "b": lambda d, n: d.array(2)}
add(unary(None, real, ndim(1), **_weights), "A.linear({0}, {w}, {b})")
add(unary(None, moving, ndim(2), k=(0, 0, 1, -1)), *each("trace diagonal", "{xp}.linalg.NAME({0}, offset={k})"))
add(unary(None, moving, ndim(2), k=(0, 1, -1)), *each("tril triu", "{xp}.NAME({0}, k={k})"))
add(unary(None, real, filled, ndim(2)), *GRAMS)
add(of_square, *each("det inv", "{xp}.linalg.NAME({0})"), *each("slogdet qr", "{xp}.linalg.NAME({0})[{k}]"))
add(of_square, "{xp}.linalg.matrix_power({0}, {n})", "{xp}.linalg.cholesky({0} @ {0}.mT, upper={upper})")
add(with_right_side, "{xp}.linalg.solve({0}, {1})")
_gram = "({0} @ {0}.mT if {0}.shape[-1] >= {0}.shape[-2] else {0}.mT @ {0})"
_svd = "p = {xp}.linalg.svd({0}, full_matrices=False)\n{out} = (p[0] * {xp}.sin(p[1])[..., None, :]) @ p[2]"
add(
    unary(None, real, separate, k=(0, 1)), "{xp}.linalg.pinv({0})", "{xp}.linalg.svd({0}, full_matrices=False)[{k}]",
    _svd, f"{{xp}}.linalg.eigvalsh({_gram})", f"{{xp}}.linalg.eigh({_gram})[1]", f"np.linalg.eigh({_gram}, 'U')[{{k}}]",
)  # fmt: skip
add(unary(None, moving, separate), "{xp}.linalg.svdvals({0})")
_eigvals = "A.sum(A.square(A.linalg.eigvals(" + _gram + ")), axis=-1)"
add(unary(None, real, separate), _eigvals, plain=_eigvals.replace("A.square(", "(1 + 0j) * A.square("))
add(unary(None, real, regular), "{xp}.linalg.matrix_rank({0})", values=True)
_far = unary(None, real, filled, ndim(1), lambda v: np.abs(v).min(initial=1) > 0.05, axis=axis_of)
add(_far, "np.linalg.norm({0}, axis={axis})")
add(unary(None, real, ndim(2, 2)), "np.linalg.multi_dot([{0}, {0}.T, {0}])")
add(unary(None, real, ndim(1, 1)), "np.vander({0}, 3)")

# ---------------------------------------------------------------- Fourier transforms


def fourier(*tests: Any) -> Any:
    return unary(None, *tests, filled, ndim(1), axis=axis_of, n=(None, None, 2, 4), norm=("'ortho'", "None"))


_text = "{xp}.fft.NAME({0}, n={n}, axis={axis}, norm={norm})"
add(fourier(complex_), *each("fft ifft", _text), *each("irfft hfft", _text.replace("{n}", "4")))
add(fourier(complex_), *each("fftn ifftn", "{xp}.fft.NAME({0}, norm={norm})"))
add(fourier(real), *each("rfft ihfft", _text), "np.fft.fft({0}, n={n}, axis={axis}, norm={norm})")
add(fourier(real), "{xp}.fft.rfftn({0}, norm={norm})")
add(fourier(moving), *each("fftshift ifftshift", "{xp}.fft.NAME({0})"))
