"""Operations on arrangement: shapes, joining, all kinds of indices, control flow."""

from typing import Any

import numpy as np

from random_programs.operations import (
    alike,
    away,
    axis_of,
    both,
    broadcasting,
    chance,
    filled,
    moving,
    ndim,
    pairs,
    real,
    spread,
    unary,
    whole,
)
from random_programs.program import add

# ---------------------------------------------------------------- shapes


def reshape_of(draw: Any, size: int) -> Any:
    """Return a shape of a size, at times with -1 in the place of a length."""
    if not size:
        return draw.choice((0,), (0, 2))
    divisors = [n for n in range(1, size + 1) if size % n == 0]
    first = int(draw.rng.choice(divisors))
    shape = draw.choice((first, size // first), (-1,), (first, -1), (1, size), (size,))
    return shape


def shaped(*tests: Any) -> Any:
    return unary(None, *(tests or (moving,)), shape=lambda d, n: reshape_of(d, d.value(n).size))


def along(*tests: Any, **settings: Any) -> Any:
    """Draw an operand and one of its axes."""
    return unary(None, *(tests or (moving, ndim(1))), **settings, axis=axis_of)


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


PERMUTED = unary(None, moving, ndim(1), axes=permutation)
TWO_ALIKE = alike(ndim(1), axis=axis_of)

add("reshape", "{xp}.reshape({0}, {shape})", shaped())
add("method_reshape", "{0}.reshape({shape})", shaped())
add("ravel", "np.ravel({0})", unary(None, moving))
add("method_ravel", "{0}.ravel()", unary(None, moving))
add("method_flatten", "{0}.flatten()", unary(None, moving))
add("permute_dims", "{xp}.permute_dims({0}, {axes})", PERMUTED)
add("np_transpose", "np.transpose({0}, {axes})", PERMUTED)
add("method_T", "{0}.T", unary(None, moving, ndim(2, 2)))
add("method_mT", "{0}.mT", unary(None, moving, ndim(2)))
add("matrix_transpose", "{xp}.matrix_transpose({0})", unary(None, moving, ndim(2)))
add("moveaxis", "{xp}.moveaxis({0}, {axis}, {to})", along(to=(0, -1)))
add("np_swapaxes", "np.swapaxes({0}, {axis}, 0)", along())
add("expand_dims", "{xp}.expand_dims({0}, axis={axis})", unary(None, moving, axis=new_axis))
add("squeeze", "{xp}.squeeze({0}, axis={axis})", unary(None, moving, lambda v: 1 in v.shape, axis=single_axis))
add("flip", "{xp}.flip({0}, axis={axis})", along())
add("np_rot90", "np.rot90({0}, {k})", unary(None, moving, ndim(2), k=(1, 2, 3)))
add("roll", "{xp}.roll({0}, {shift}, axis={axis})", along(shift=(1, -2, 5)))
add("roll_flat", "{xp}.roll({0}, 2)", unary(None, moving))
add("repeat", "{xp}.repeat({0}, {n}, axis={axis})", along(n=(2, 1, 0)))
add("tile", "{xp}.tile({0}, {n})", unary(None, moving, n=((2,), (1, 2), (2, 1))))
add("concat", "{xp}.concat([{0}, {1}], axis={axis})", TWO_ALIKE)
add("concat_flat", "{xp}.concat([{0}, {1}], axis=None)", both(moving))
add("stack", "{xp}.stack([{0}, {1}], axis={axis})", TWO_ALIKE)
add("stack_scalars", "{xp}.stack([{xp}.sum({0}), {xp}.max({1})])", lambda d: ((d.pick(real), d.pick(real, filled)), {}))
add("np_hstack", "np.hstack([{0}, {1}])", TWO_ALIKE)
add("np_vstack", "np.vstack([{0}, {1}])", TWO_ALIKE)
add("np_column_stack", "np.column_stack([{0}, {1}])", TWO_ALIKE)
add("np_append", "np.append({0}, {1})", both(moving))
add("unstack", "{xp}.unstack({0}, axis={axis})[{k}]", along(k=(0, -1)))
add("np_split", "np.array_split({0}, 2, axis={axis})[{k}]", along(k=(0, 1)))
add("broadcast_to", "{xp}.broadcast_to({0}, {shape})", unary(None, moving, lambda v: v.size <= 20, shape=broadcast))
add("broadcast_arrays", "{xp}.broadcast_arrays({0}, {1})[{k}] * 1.5", pairs(None, None, moving, k=(0, 1)))
add(
    "meshgrid",
    "{xp}.meshgrid({0}, {1}, indexing={ij})[{k}] * 1.5",
    both(real, ndim(1, 1), k=(0, 1), ij=("'ij'", "'xy'")),
)
add("atleast_2d", "np.atleast_2d({0})", unary(None, moving))
add("atleast_1d", "np.atleast_1d({0})", unary(None, moving))
add(
    "np_pad",
    "np.pad({0}, 1, mode={mode})",
    unary(None, moving, filled, ndim(1, 2), mode=("'constant'", "'edge'", "'wrap'")),
)
add("np_insert", "np.insert({0}, 0, 0.5, axis={axis})", along())
add("np_delete", "np.delete({0}, 0, axis={axis})", along())
add("np_diag", "np.diag({0}, {k})", unary(None, moving, ndim(1, 2), k=(0, 1, -1)))
add("np_copy", "{0}.copy()", unary(None, moving))
add("asarray", "A.asarray({0}) * 1.0", unary(None, moving))
add("asarray_copy", "A.asarray({0}, copy=True)", unary(None, moving))

# ---------------------------------------------------------------- indexing


def basic_index(draw: Any, shape: tuple[int, ...]) -> str:
    """Return a basic index as text: numbers, slices, an ellipsis, a new axis."""
    parts = []
    for n in shape[: draw.integer(0, len(shape) + 1)]:
        start = draw.integer(0, max(n, 1))
        options = [":", f"{start}:", f":{n - start}", "::2", "::-1", f"{start}:{start + 2}"]
        options += [str(start), str(start - n)] if n else []
        parts.append(draw.choice(*options))
    if draw.chance(0.25):
        parts.append("...")
        if len(parts) - 1 < len(shape) and draw.chance(0.5):
            parts.append(draw.choice(":", "::2", "::-1"))
    if draw.chance(0.15):
        parts.insert(draw.integer(0, len(parts) + 1), "None")
    return ", ".join(parts) or "..."


def whole_numbers(draw: Any, n: int, *shape: int, unique: bool = False) -> np.ndarray:
    """Return positions along an axis of a length, some from behind."""
    if not n:
        return np.zeros(0, dtype=np.int64)
    if unique:
        return draw.rng.permutation(n)[: draw.integer(1, n + 1)] - draw.choice(0, n)
    return draw.rng.integers(-n, n, shape)


def advanced_index(draw: Any, shape: tuple[int, ...], unique: bool = False) -> str:
    """Return an index with arrays, as text.

    Of whole numbers, of truth values, two at once, beside slices.
    """
    if not shape:
        return draw.choice("...", "()", "None")
    n = shape[0]
    mask = np.asarray(draw.rng.random(n) < 0.6)
    some = "[" + ", ".join(map(str, whole_numbers(draw, n, draw.integer(1, 4), unique=unique))) + "]"
    options = [some, f"np.array({mask.tolist()}, dtype=bool)", f"np.array({some}, dtype=int)"]
    if len(shape) == 1 and n and not unique:
        options.append(f"np.array({whole_numbers(draw, n, 2, 2).tolist()})")
    if len(shape) > 1 and shape[1]:
        m = shape[1]
        rows, columns = whole_numbers(draw, n, 2).tolist(), whole_numbers(draw, m, 2).tolist()
        if n and not unique:
            options += [f"{rows}, {columns}", f"np.array({rows})[:, None], {columns}", f"{rows}, ..., {columns[0]}"]
        if n and unique:
            options += [f"{[0, n - 1][: min(n, 2)]}, {[0, m - 1][: min(n, 2)]}"]
        options += [f":, {m - 1}:, ..." if len(shape) > 2 else f":, {[m - 1]}", f"{some}, ::-1", f"{some}, {m - 1}"]
        flags = (draw.rng.random((n, m)) < 0.6).tolist()
        options.append(f"np.array({flags}, dtype=bool).reshape({n}, {m})")
        options.append(f"..., {[shape[-1] - 1] if shape[-1] else []}")
    return str(draw.choice(*options))


def reading(index: Any) -> Any:
    return unary(None, moving, index=lambda d, n: index(d, d.value(n).shape))


add("read", "{0}[{index}]", reading(basic_index))
add("read_at_arrays", "{0}[{index}]", reading(advanced_index))
add("read_more", "{0}[{index}] * 1.5", reading(basic_index))
add("read_where_positive", "{0}[{0} > 0.1]", unary(None, real, away, ndim(1)), values=True)
add("read_at_value", "{0}[..., {1}]", lambda d: ((d.pick(moving, ndim(1)), d.pick(whole)), {}))
add("read_at_argsort", "{0}[{xp}.argsort({0})]", unary(None, real, spread, ndim(1, 1)))
add("read_argmax", "{0}[{xp}.argmax({0})]", unary(None, real, spread, filled, ndim(1, 1)))
add("read_nonzero", "{0}[{xp}.nonzero({0} > 0.1)]", unary(None, real, away, ndim(1)), values=True)
add("iterate", "{out} = 0.5\nfor row in {0}:\n    {out} = {out} * 0.5 + row", unary(None, moving, filled, ndim(1)))
add("unpack", "{out}, *_ = {0}", unary(None, moving, filled, ndim(1)))
add(
    "take",
    "{xp}.take({0}, {index}, axis={axis})",
    lambda d: (lambda a: (a[0], a[1] | {"index": whole_numbers(d, d.value(a[0][0]).shape[a[1]["axis"]], 3)}))(
        along()(d)
    ),
)
add(
    "take_along_axis",
    "{xp}.take_along_axis({0}, {xp}.argsort({0}, axis={axis}), axis={axis})",
    along(real, spread, ndim(1)),
)
add(
    "take_along_argmax",
    "{xp}.take_along_axis({0}, {xp}.argmax({0}, axis={axis}, keepdims=True), axis={axis})",
    along(real, spread, filled, ndim(1)),
)
add("np_compress", "np.compress([True, False, True], {0})", unary(None, moving, lambda v: v.size >= 3))
add(
    "np_extract", "np.extract({mask}, {0})", unary(None, moving, mask=lambda d, n: d.rng.random(d.value(n).shape) < 0.6)
)
add("np_choose", "np.choose({k}, [{0}, {1}])", alike(ndim(1), axis=axis_of, k=(0, 1)))
add(
    "np_select",
    "np.select([{0} > 0.2, {0} < -0.2], [{0}, {1}], 0.1)",
    lambda d: (lambda a: ((a, broadcasting(d, a, real)), {}))(d.pick(real, away)),
)

# ---------------------------------------------------------------- control flow


flag = unary(None, real, flag=chance(0.5), n=lambda d, _: d.integer(0, 4), c=(-0.51, 0.13, 0.87))


def rows(draw: Any) -> Any:
    settings = {"k": draw.choice(0, 1), "reverse": draw.chance(0.3), "checkpoint": draw.choice(False, False, True, 2)}
    return (draw.within(draw.pick(real, filled, ndim(1)), "small"),), settings


add("if_constant", "{0} * 2.0 if {flag} else {xp}.sin({0})", flag)
add("for_constant", "{out} = {0}\nfor i in range({n}):\n    {out} = {xp}.sin({out}) + 0.1 * i", flag)
add("while_constant", "i, {out} = 0, {0}\nwhile i < {n}:\n    i, {out} = i + 1, {out} * 0.7 + 0.1", flag)
add("comprehension", "sum({0} * {xp}.cos({0} * k) for k in (0.5, 1.5))", flag)
add("if_value", "{0} * 2.0 if {xp}.sum({0}) > {c} else {xp}.sin({0})", flag, values=True)
add("while_value", "{out} = {0}\nwhile {xp}.sum({out} * {out}) > 0.5:\n    {out} = {out} * 0.5", flag, values=True)
add("cond_constant", "A.cond({flag}, lambda u: u * 2.0, lambda u: {xp}.sin(u), {0})", flag)
add("cond_value", "A.cond({xp}.sum({0}) > {c}, lambda u: u * 2.0, lambda u: {xp}.sin(u), {0})", flag, values=True)
add("while_loop", "A.while_loop(lambda s: s[0] < {n}, lambda s: (s[0] + 1, {xp}.sin(s[1]) + 0.1), (0, {0}))[1]", flag)
add("while_loop_value", "A.while_loop(lambda u: {xp}.sum(u * u) > 0.5, lambda u: u * 0.5, {0})", flag, values=True)
add(
    "scan",
    "A.scan(lambda c, r: (0.5 * c + r, {xp}.sin(c) * r), {0}[0], {0}, reverse={reverse}, checkpoint={checkpoint})[{k}]",
    rows,
)
add("vmap_rows", "A.vmap(lambda r: {xp}.sin(r) * {xp}.sum(r))({0})", unary(None, real, filled, ndim(1)))
add("checkpoint", "A.checkpoint(lambda u: {xp}.sin(u) * u)({0})", unary(None, real))
add(
    "grad_inside", "A.grad(lambda u: {xp}.sum({xp}.sin(u) * u))({0})", unary(None, real),
    plain="np.sin({0}) + {0} * np.cos({0})",
)  # fmt: skip
add("jvp_inside", "A.jvp(lambda u: {xp}.sin(u), ({0},), ({0},))[1]", unary(None, real), plain="{0} * np.cos({0})")
