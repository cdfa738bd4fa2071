"""Operations on elements and along axes, of the standard, NumPy and SciPy."""

from typing import Any

import numpy as np

from random_programs.program import Unfit, add

# ---------------------------------------------------------------- which values fit


def real(v: Any) -> bool:
    return v.dtype.kind == "f"


def moving(v: Any) -> bool:
    return v.dtype.kind in "fc"


def whole(v: Any) -> bool:
    return v.dtype.kind == "i"


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


def broadcasting(draw: Any, first: int, *tests: Any) -> int:
    """Return another value that broadcasts with one."""

    def fits(v: Any) -> bool:
        try:
            return np.broadcast_shapes(v.shape, draw.value(first).shape) is not None
        except ValueError:
            return False

    return draw.pick(fits, *tests)


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


def unfit() -> Any:
    raise Unfit


# ---------------------------------------------------------------- one operand


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
        b = broadcasting(draw, a, *tests)
        return (a, draw.within(b, second) if second else b), settled(draw, a, settings)

    return drawn


def alike(*tests: Any, **settings: Any) -> Any:
    """Return how to draw two operands of one shape."""

    def drawn(draw: Any) -> Any:
        name = draw.pick(moving, *tests)
        other = draw.pick(moving, lambda v: v.shape == draw.value(name).shape)
        return (name, other), settled(draw, name, settings)

    return drawn


def both(*tests: Any, **settings: Any) -> Any:
    """Return how to draw two operands of any shapes."""
    return lambda draw: ((draw.pick(*tests), name := draw.pick(*tests)), settled(draw, name, settings))


add("squash", "2.0 * {xp}.tanh({0})", unary(None, real))
add("squash_complex", "{0} / (1.0 + {xp}.abs({0}))", unary(None, moving))
add("to_unit", "0.8 * {xp}.tanh({0})", unary(None, real))
add("to_positive", "{xp}.exp(0.5 * {xp}.tanh({0}))", unary(None, real))
add("to_above_one", "1.2 + {xp}.square({xp}.tanh({0}))", unary(None, real))
add("to_probability", "0.5 + 0.3 * {xp}.sin({0})", unary(None, real))

for _name in ("sin", "cos", "tanh", "asinh", "atan", "expm1", "exp", "sinh", "cosh"):
    add(_name, f"{{xp}}.{_name}({{0}})", unary("small", real))
    if _name not in ("tanh", "atan", "asinh", "expm1"):
        add(f"{_name}_complex", f"{{xp}}.{_name}({{0}})", unary("small", lambda v: v.dtype.kind == "c"))
for _name in ("negative", "positive", "square", "conj", "real", "imag"):
    if _name in ("conj", "real", "imag"):
        add(_name, f"{{xp}}.{_name}({{0}})", unary(None, lambda v: v.dtype.kind == "c"))
    else:
        add(_name, f"{{xp}}.{_name}({{0}})", unary(None, moving))
add("abs", "{xp}.abs({0})", unary(None, moving, away))
add("sign", "{xp}.sign({0})", unary(None, real, away))
for _name in ("floor", "ceil", "trunc", "round"):
    add(_name, f"{{xp}}.{_name}({{0}})", unary(None, real, apart))
for _name in ("log", "log2", "log10", "log1p", "sqrt", "reciprocal"):
    add(_name, f"{{xp}}.{_name}({{0}})", unary("positive", real))
for _name in ("asin", "acos", "atanh", "tan"):
    add(_name, f"{{xp}}.{_name}({{0}})", unary("unit", real))
add("acosh", "{xp}.acosh({0})", unary("above_one", real))
for _name in ("relu", "sigmoid", "gelu"):
    add(_name, f"A.{_name}({{0}})", unary(None, real, away))
for _name in ("cbrt", "exp2", "deg2rad", "fabs", "i0", "sinc", "nan_to_num", "degrees"):
    add(f"np_{_name}", f"np.{_name}({{0}})", unary("nonzero", real))
add("np_angle", "np.angle({0})", unary("nonzero", moving, away))
add("np_absolute_operator", "abs({0})", unary(None, moving, away))
add("negative_operator", "-{0}", unary(None, moving))

EITHER = ("A.special", "A.special", "S")
_SPECIAL = {
    "small": ("erf", "erfc", "erfcx", "expit", "log_expit", "ndtr", "log_ndtr", "i0", "i0e", "i1", "i1e", "j0", "j1"),
    "positive": ("gammaln", "gamma", "digamma", "entr", "y0", "y1"),
    "unit": ("erfinv",),
    "probability": ("ndtri", "logit", "erfcinv"),
}
for _domain, _names in _SPECIAL.items():
    for _name in _names:
        _space = "A.special" if _name == "erf" else "{xs}"
        add(f"special_{_name}", f"{_space}.{_name}({{0}})", unary(_domain, real, xs=EITHER))
add("special_sinc", "A.special.sinc({0})", unary("nonzero", real))
add("polygamma", "A.special.polygamma({n}, {0})", unary("positive", real, n=(1, 2)))
add("jn", "A.special.jn({n}, {0})", unary("positive", real, n=(2, 3)))
add("zeta", "A.special.zeta({0}, {q})", unary("above_one", real, q=(1.0, 1.5)))
add("scalar_add", "{c} + {0}", unary(None, moving, c=(1, 0.5, -2.0)))
add("scalar_multiply", "{0} * {c}", unary(None, moving, c=(2, 0.5, -1.5)))
add("scalar_divide", "{c} / {0}", unary("nonzero", real, c=(1, 0.5, -2.0)))
add("scalar_complex", "{0} * {c}", unary(None, moving, c=(1j, 0.5 - 1j)))
add("integer_power", "{0} ** {n}", unary("small", moving, n=(2, 3, 2.0)))
add("float_power_of", "{0} ** {p}", unary("positive", real, p=(1.5, -1, 0.5)))
add("number_power", "{b} ** {0}", unary("small", real, b=(2.0, 0.5)))
add("clip", "{xp}.clip({0}, {low}, {high})", unary(None, real, low=(-0.707, "None"), high=0.613))
add("clip_by_array", "{xp}.clip({0}, {1}, {1} + 0.5)", pairs(None, None))


# ---------------------------------------------------------------- two operands


for _name in ("add", "subtract", "multiply"):
    add(_name, f"{{xp}}.{_name}({{0}}, {{1}})", pairs(None, None, moving))
for _name, _sign in (("plus", "+"), ("minus", "-"), ("times", "*")):
    add(_name, f"{{0}} {_sign} {{1}}", pairs(None, None, moving))
add("over", "{0} / {1}", pairs(None, "positive"))
add("divide", "{xp}.divide({0}, {1})", pairs(None, "positive"))
add("pow", "{xp}.pow({0}, {1})", pairs("positive", "small"))
for _name in ("maximum", "minimum"):
    add(_name, f"{{xp}}.{_name}({{0}}, {{1}})", pairs(None, None))
for _name in ("fmax", "fmin"):
    add(f"np_{_name}", f"np.{_name}({{0}}, {{1}})", pairs(None, None))
add("hypot", "{xp}.hypot({0}, {1})", pairs("nonzero", None))
add("atan2", "{xp}.atan2({0}, {1})", pairs("nonzero", None))
add("logaddexp", "{xp}.logaddexp({0}, {1})", pairs(None, None))
add("np_logaddexp2", "np.logaddexp2({0}, {1})", pairs(None, None))
add("copysign", "{xp}.copysign({0}, {1})", pairs("nonzero", "nonzero"))
add("remainder", "{xp}.remainder({0}, {1})", pairs(None, "positive"))
add("floor_divide", "{xp}.floor_divide({0}, {1})", pairs(None, "positive"))
add("np_fmod", "np.fmod({0}, {1})", pairs(None, "positive"))
add("np_heaviside", "np.heaviside({0}, {1})", pairs("nonzero", None))
add("np_float_power", "np.float_power({0}, {1})", pairs("positive", "unit"))
add("nextafter", "{xp}.nextafter({0}, {1})", pairs(None, None))
for _name, _first, _second in (
    ("xlogy", None, "positive"),
    ("xlog1py", None, "positive"),
    ("rel_entr", "positive", "positive"),
    ("kl_div", "positive", "positive"),
    ("beta", "positive", "positive"),
    ("betaln", "positive", "positive"),
    ("gammainc", "positive", "positive"),
    ("gammaincc", "positive", "positive"),
):
    add(_name, f"{{xs}}.{_name}({{0}}, {{1}})", pairs(_first, _second, xs=EITHER))
add("iv", "A.special.iv({v}, {0})", unary("positive", real, v=(0.5, 1.5, 2.0)))
add("betainc", "A.special.betainc({a}, 1.5, {0})", unary("probability", real, a=(0.7, 2.0)))
for _name in ("less", "greater", "less_equal", "greater_equal", "equal", "not_equal"):
    add(_name, f"{{xp}}.{_name}({{0}}, {{1}})", pairs(None, None))
for _name in ("logical_and", "logical_or", "logical_xor"):
    add(_name, f"{{xp}}.{_name}({{0}} > 0.1, {{1}} < 0.3)", pairs(None, None))
add("logical_not", "{xp}.logical_not({0} > 0.2)", unary(None, real))
add("isfinite", "{xp}.isfinite({0})", unary(None, moving))
add("signbit", "{xp}.signbit({0})", unary(None, real))
add("bitwise_and", "({0} > 0.1) & ({1} > -0.3)", pairs(None, None))
add("mask_times", "({0} > 0.15) * {1}", pairs(None, None))
add("where", "{xp}.where({0} > {c}, {0}, {1})", pairs(None, None, c=(0.11, -0.23)))
add("where_number", "{xp}.where({0} > 0.12, {1}, 0.5)", pairs(None, None))
add("where_unused_nan", "{xp}.where({0} > 0.12, {xp}.log({0}), {0})", unary(None, real, away))
add("where_unused_root", "{xp}.where({0} > 0, {xp}.sqrt({xp}.maximum({0}, 0.0)), {0})", unary(None, real, away))

# ---------------------------------------------------------------- along axes


def reducing(domain: str | None = None, *tests: Any, several: bool = True, **settings: Any) -> Any:
    axis = axes_of if several else axis_of
    given: dict[str, Any] = {"axis": axis, "keepdims": chance(0.4), "correction": (0, 0, 1), **settings}
    return unary(domain, *(tests or (moving,)), **given)


def deviating(draw: Any) -> Any:
    """Draw a reduction of values that differ.

    At a standard deviation of 0 there is no second derivative.
    """
    (name,), settings = reducing()(draw)
    if not np.all(np.std(draw.value(name), axis=settings["axis"]) > 0.01):
        raise Unfit
    return (name,), settings


for _name in ("sum", "mean"):
    add(_name, f"{{xp}}.{_name}({{0}}, axis={{axis}}, keepdims={{keepdims}})", reducing())
add("prod", "{xp}.prod({0}, axis={axis}, keepdims={keepdims})", reducing("small"))
for _name in ("max", "min"):
    add(_name, f"{{xp}}.{_name}({{0}}, axis={{axis}}, keepdims={{keepdims}})", reducing(None, real, filled))
for _name in ("std", "var"):
    _text = f"{{xp}}.{_name}({{0}}, axis={{axis}}, correction={{correction}}, keepdims={{keepdims}})"
    add(_name, _text, deviating)
for _name in ("all", "any"):
    add(_name, f"{{xp}}.{_name}({{0}} > 0.1, axis={{axis}}, keepdims={{keepdims}})", reducing(None, real))
for _name in ("argmax", "argmin"):
    add(
        _name,
        f"{{xp}}.{_name}({{0}}, axis={{axis}}, keepdims={{keepdims}})",
        reducing(None, real, filled, several=False),
    )
add("count_nonzero", "{xp}.count_nonzero({0} > 0.1, axis={axis})", reducing(None, real))
add("logsumexp", "A.logsumexp({0}, axis={axis}, keepdims={keepdims})", reducing("small", real, filled))
add("special_logsumexp", "A.special.logsumexp({0}, axis={axis}, keepdims={keepdims})", reducing("small", real, filled))
add("softmax", "A.softmax({0}, axis={axis})", reducing("small", real, filled, several=False))
add("log_softmax", "A.log_softmax({0}, axis={axis})", reducing("small", real, filled, several=False))
_norm = "{xp}.linalg.vector_norm({0}, axis={axis}, keepdims={keepdims}, ord={ord})"
add("vector_norm", _norm, reducing(None, real, filled, away, ord=(1, 2, 3, "np.inf", 1.5)))
add(
    "matrix_norm",
    "{xp}.linalg.matrix_norm({0}, ord={ord})",
    unary(None, real, filled, away, lambda v: v.ndim > 1, ord=("'fro'", 1, "np.inf")),
)
for _name in ("cumulative_sum", "cumulative_prod"):
    add(
        _name,
        f"{{xp}}.{_name}({{0}}, axis={{axis}}, include_initial={{initial}})",
        unary("small", moving, axis=axis_of, initial=chance(0.3)),
    )
for _name in ("cumsum", "cumprod"):
    add(f"np_{_name}", f"np.{_name}({{0}}, axis={{axis}})", reducing("small", moving))
for _name in ("nansum", "nanmean", "ptp", "median", "average", "nanmax"):
    add(f"np_{_name}", f"np.{_name}({{0}}, axis={{axis}})", reducing(None, real, filled))
add("np_quantile", "np.quantile({0}, {q}, axis={axis})", reducing(None, real, filled, q=(0.3, 0.5)))
add("np_trapezoid", "np.trapezoid({0}, axis={axis})", reducing(None, real, several=False))
add("np_gradient", "np.gradient({0}, axis={axis})", reducing(None, real, several=False))
add("np_sum_where", "np.sum({0}, axis={axis}, where={0} > 0.1)", reducing(None, real))
add("np_max_initial", "np.max({0}, axis={axis}, initial=0.3)", reducing(None, real))
add("np_add_reduce", "np.add.reduce({0}, axis={axis})", reducing(None, real))
add("np_multiply_accumulate", "np.multiply.accumulate({0}, axis={axis})", reducing("small", real, several=False))
add("np_subtract_outer", "np.subtract.outer({0}, {1})", both(real))
for _name in ("sort", "argsort"):
    add(_name, f"{{xp}}.{_name}({{0}}, axis={{axis}})", reducing(None, real, spread, several=False))
add(
    "np_partition", "np.partition({0}, 0, axis={axis})[..., :1]", reducing(None, real, spread, filled, several=False),
    values=True,
)  # fmt: skip
add("diff", "{xp}.diff({0}, axis={axis}, n={n})", unary(None, moving, axis=axis_of, n=(1, 1, 2)))
add(
    "searchsorted",
    "{xp}.searchsorted({grid}, {0})",
    unary(None, real, lambda v: v.ndim == 1, grid=np.array([-0.51, 0.13, 0.72])),
)
add(
    "np_interp",
    "np.interp({0}, {grid}, {values})",
    unary(None, real, grid=np.array([-0.51, 0.13, 0.72]), values=lambda d, _: d.array(3)),
)
add("np_polyval", "np.polyval({c}, {0})", unary("small", real, c=lambda d, _: d.array(3)))
add("np_cov", "np.cov({0})", unary(None, real, lambda v: v.ndim == 2 and v.shape[1] > 1))
add("method_sum", "{0}.sum(axis={axis})", reducing())
add("method_mean", "{0}.mean(axis={axis}, keepdims={keepdims})", reducing())
add("method_max", "{0}.max(axis={axis})", reducing(None, real, filled, several=False))
add("method_cumsum", "{0}.cumsum(axis={axis})", reducing(several=False))

# ---------------------------------------------------------------- casts and new arrays

for _dtype in ("float32", "float64"):
    add(f"to_{_dtype}", f"{{xp}}.astype({{0}}, {{xp}}.{_dtype})", unary(None, lambda v: v.dtype.kind in "fib"))
add("to_complex", "{xp}.astype({0}, {xp}.complex128)", unary(None, real))
add("to_int", "{xp}.astype({0}, {xp}.int64)", unary(None, real, apart))
add("to_bool", "{xp}.astype({0}, {xp}.bool)", unary(None, real, away))
add(
    "method_astype",
    "{0}.astype({dtype})",
    unary(None, real, dtype=("np.float32", "np.float64", "np.complex128", "'float64'")),
)


# in finite differences float32 is float64, which a cast without a copy returns as it is
_copies = {"copy": lambda d, x: d.chance(0.5) or d.value(x).dtype == np.float32}
add("astype_same", "{xp}.astype({0}, {xp}.float64, copy={copy})", unary(None, real, **_copies))
for _name in ("zeros_like", "ones_like"):
    add(_name, f"{{xp}}.{_name}({{0}}) + {{0}}", unary(None, moving))
add("full_like", "{xp}.full_like({0}, 0.5) * {0}", unary(None, moving))
add("arange", "{xp}.arange({0}.shape[0]) * 0.5 + {0}", unary(None, moving, lambda v: v.ndim == 1))
add("eye", "{xp}.eye({0}.shape[-1]) + {0}", unary(None, moving, lambda v: v.ndim >= 1))
add("linspace", "{xp}.linspace(0.0, 1.0, {0}.shape[-1]) * {0}", unary(None, moving, lambda v: v.ndim >= 1))
