"""Operations of random programs: reads and writes by all kinds of indices, and functions of functions."""

from typing import Any

import numpy as np

from random_programs.operations import (
    VIEWS,
    alike,
    along,
    away,
    axis_of,
    broadcasts,
    filled,
    moving,
    ndim,
    real,
    spread,
    unary,
    unfit,
)  # fmt: skip
from random_programs.program import FREQUENT, OPERATIONS, STRUCTURES, add, each

# ---------------------------------------------------------------- indices


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


def integers(draw: Any, n: int, *shape: int, unique: bool = False) -> np.ndarray:
    """Return positions along an axis of a length, some from behind."""
    if not n:
        return np.zeros(0, dtype=np.int64)
    if unique:
        return draw.rng.permutation(n)[: draw.integer(1, n + 1)] - draw.choice(0, n)
    return draw.rng.integers(-n, n, shape)


def advanced_index(draw: Any, shape: tuple[int, ...], unique: bool = False) -> str:
    """Return an index with integer or Boolean arrays, one or two, next to slices."""
    if not shape:
        return draw.choice("...", "()", "None")
    n = shape[0]
    some = str(integers(draw, n, draw.integer(1, 4), unique=unique).tolist())
    options = [some, f"np.array({some}, dtype=int)", mask_of(draw, (n,))]
    if len(shape) == 1 and n and not unique:
        options.append(f"np.array({integers(draw, n, 2, 2).tolist()})")
    if len(shape) > 1 and shape[1]:
        m = shape[1]
        rows, columns = integers(draw, n, 2).tolist(), integers(draw, m, 2).tolist()
        if n and not unique:
            options += [f"{rows}, {columns}", f"np.array({rows})[:, None], {columns}", f"{rows}, ..., {columns[0]}"]
        if n and unique:
            options += [f"{[0, n - 1][: min(n, 2)]}, {[0, m - 1][: min(n, 2)]}"]
        options += [f":, {m - 1}:, ..." if len(shape) > 2 else f":, {[m - 1]}", f"{some}, ::-1", f"{some}, {m - 1}"]
        options += [mask_of(draw, (n, m)), f"..., {[shape[-1] - 1] if shape[-1] else []}"]
    return str(draw.choice(*options))


def unique_index(draw: Any, shape: tuple[int, ...]) -> str:
    return advanced_index(draw, shape, unique=True)


def mask_of(draw: Any, shape: tuple[int, ...]) -> str:
    return f"np.array({(draw.rng.random(shape) < 0.6).tolist()}, dtype=bool).reshape({shape})"


def everything(draw: Any, shape: tuple[int, ...]) -> str:
    return "..."


def taken(draw: Any) -> Any:
    (name,), settings = along()(draw)
    return (name,), settings | {"index": integers(draw, draw.value(name).shape[settings["axis"]], 3)}


add(unary(None, moving, index=lambda d, n: basic_index(d, d.value(n).shape)), "{0}[{index}]", "{0}[{index}] * 1.5")
add(unary(None, moving, index=lambda d, n: advanced_index(d, d.value(n).shape)), "{0}[{index}] + 0.0")
add(unary(None, real, away, ndim(1)), "{0}[{0} > 0.1]", "{0}[{xp}.nonzero({0} > 0.1)]", values=True)
add(lambda d: ((d.pick(moving, ndim(1)), d.pick(lambda v: v.dtype.kind == "i")), {}), "{0}[..., {1}]")
add(unary(None, real, spread, ndim(1, 1)), "{0}[{xp}.argsort({0})]")
add(unary(None, real, spread, filled, ndim(1, 1)), "{0}[{xp}.argmax({0})]")
_loop = "{out} = 0.5\nfor row in {0}:\n    {out} = {out} * 0.5 + row"
add(unary(None, moving, filled, ndim(1)), _loop, "{out}, *_ = {0}")
add(taken, "{xp}.take({0}, {index}, axis={axis})")
_text = "{xp}.take_along_axis({0}, {xp}.NAME, axis={axis})"
add(along(real, spread, ndim(1)), _text.replace("NAME", "argsort({0}, axis={axis})"))
add(along(real, spread, filled, ndim(1)), _text.replace("NAME", "argmax({0}, axis={axis}, keepdims=True)"))
add(unary(None, moving, lambda v: v.size >= 3), "np.compress([True, False, True], {0})")
add(unary(None, moving, mask=lambda d, n: d.rng.random(d.value(n).shape) < 0.6), "np.extract({mask}, {0})")
add(alike(ndim(1), axis=axis_of, k=(0, 1)), "np.choose({k}, [{0}, {1}])")

# ---------------------------------------------------------------- writes


def target(draw: Any, *tests: Any) -> int:
    """Return the name of an array that a write may change: it depends on the inputs, and its memory is its own."""
    fits = {id(draw.value(n)) for n in draw.names if n not in draw.raw}
    return draw.pick(lambda v: id(v) in fits and isinstance(v, np.ndarray) and v.flags.writeable, moving, *tests)


def fitting(draw: Any, name: int, shape: tuple[int, ...], narrow: bool) -> int:
    """Return the name of a value that can be written to a shape. ``narrow``: of no wider dtype."""
    dtype = draw.value(name).dtype
    return draw.pick(
        broadcasts(shape, shape),
        lambda v: v.dtype.kind in ("fc" if dtype.kind == "c" else "f"),
        lambda v: not narrow or np.result_type(v, dtype) == dtype,
    )


def writing(index: Any, value: bool = True, narrow: bool = False) -> Any:
    """Return how to draw a target, an index, and the written value, an array or a number."""

    def drawn(draw: Any) -> Any:
        name = target(draw)
        text = index(draw, draw.value(name).shape)
        if not value:
            return (name,), {"index": text, "c": draw.choice(0.5, -1, 0.0)}
        shape = np.shape(eval(f"v{name}[{text}]", draw.scope))
        return (name, fitting(draw, name, shape, narrow)), {"index": text}

    return drawn


def pair(draw: Any) -> Any:
    """Draw a target, and a value that can be combined into it."""
    name = target(draw)
    return (name, fitting(draw, name, draw.value(name).shape, narrow=True)), {}


def number(*tests: Any) -> Any:
    return lambda draw: ((target(draw, *tests),), {"c": draw.choice(0.5, 2, -1.5)})


for _kind, _index in enumerate((basic_index, unique_index, mask_of, everything)):
    _space = " " * _kind  # one text for each kind of index
    _texts = [f"{{0}}[{_space}{{index}}] {op} {{1}}" for op in ("=", "+=", "*=")]
    add(writing(_index), _texts[0], writes=True)
    add(writing(_index, narrow=True), *_texts[1:], writes=True)
    _texts = [f"{{0}}[{_space}{{index}}] = {value}" for value in ("{c}", "0.5 * {0}[{index}]")]
    add(writing(_index, value=False), *_texts, writes=True)
add(number(real, away, ndim(1)), "{0}[{0} < 0.1] = {c}", writes=True, masks=True)
add(number(real, away, ndim(1)), "{0}[{0} < 0.1] = 0.3 * {0}[{0} < 0.1]", writes=True, values=True)
add(number(real, filled, ndim(1, 1)), "{0}[{xp}.argmax({0})] = {c}", writes=True)
add(
    number(ndim(1)), "{0}[::-1] = {0}", "{0}[1:] = {0}[:-1]",
    "for i in range({0}.shape[0]):\n    {0}[i] = {0}[i - 1] * 0.5 + {c}", writes=True,
)  # fmt: skip
add(number(filled, ndim(1)), "{0}[0], {0}[-1] = {0}[-1].copy(), {0}[0].copy()", writes=True)
add(number(filled, ndim(1)), "np.add.at({0}, [0, 0, -1], {c})", writes=True)
add(unary(None, real), "{out} = {0} / 0.0\n{out} = {out} - {out}\n{out}[...] = {0} * 2.0")
add(
    unary(None, real, ndim(1), mask=lambda d, n: mask_of(d, d.value(n).shape)),
    "{out} = 1.0 / ({0} - {0})\n{out}[{mask}] = 0.5\n{out}[~{mask}] = {0}[~{mask}]",
)
add(unary(None, real, away, ndim(1)), "{out} = {xp}.log({0})\n{out}[{0} < 0.1] = 0.25", masks=True)
add(pair, *each("+ - *", "{0} NAME= {1}"), "np.copyto({0}, {1})", writes=True)
add(
    number(), *each("+ - * /", "{0} NAME= {c}"), "{0} **= 2", "{0}.fill({c})", "np.multiply({0}, {c}, out={0})",
    writes=True,
)  # fmt: skip
add(number(real, away), "np.copyto({0}, {c}, where={0} > 0.1)", "np.putmask({0}, {0} > 0.1, {c})", writes=True)
add(number(filled), "np.put({0}, [0, -1], {c})", writes=True)
add(number(ndim(2, 2)), "np.fill_diagonal({0}, {c})", writes=True)
add(number(lambda v: v.dtype.kind == "c"), *each("real imag", "{0}.NAME[...] = {c}"), writes=True)
add(number(filled, ndim(2, 2)), "{0}.T.reshape(-1)[...] = {c}", writes=True)
add(number(filled, ndim(2)), "for row in {0}:\n    row[...] = row * {c}", writes=True)
for _view in (
    "{xp}.reshape({0}, (-1,))", "{0}.reshape(-1)", "np.ravel({0})", "{0}.T", "{0}[..., :2]", "{0}[None]", "{0}[0]",
    "{xp}.permute_dims({0}, tuple(range({0}.ndim))[::-1])", "{xp}.expand_dims({0}, axis=0)", "np.squeeze({0})",
    "{0}[..., ::-1]", "np.swapaxes({0}, 0, -1)", "np.atleast_1d({0})",
):  # fmt: skip
    _fits = (ndim(2, 2),) if _view == "{0}.T" else (filled, ndim(1))
    add(number(*_fits), f"{_view}[...] = {{c}}", f"view = {_view}\nview += {{c}} * view", writes=True)
FREQUENT += [text for text, op in OPERATIONS.items() if op.writes]
FREQUENT += [*VIEWS, "{0}[{index}]", "{0}.T", "{xp}.unstack({0}, axis={axis})[{k}]", "{xp}.flip({0}, axis={axis})"]

# ---------------------------------------------------------------- functions of functions


def operands(draw: Any) -> Any:
    """Draw two values, the second of which broadcasts to the shape and the dtype of the first."""
    a = draw.pick(moving, lambda v: np.abs(v).max(initial=0) <= 3)
    x = draw.value(a)
    return (a, draw.pick(broadcasts(x.shape, x.shape), moving, lambda v: np.result_type(x, v) == x.dtype)), {}


def real_operands(draw: Any) -> Any:
    names, settings = operands(draw)
    return (names, settings) if real(draw.value(names[0])) else unfit()


def rows(draw: Any) -> Any:
    names, settings = operands(draw)
    value = draw.value(names[0])
    return (names, settings) if value.size and value.ndim else unfit()


TRIED = """\
def tried(u):
    w = A.sin(u)
    try:
        return FAILING
    except Exception:
        return w * {1} + u
{out} = JIT(tried)({0})"""
"""A function whose branch fails, after operations or in one."""

STRUCTURES += [
    "A.jit(lambda u: u * {1})({0})",
    "A.jit(lambda: A.sin({0}) * {1})()",
    "A.jit(lambda u: u * {0} + {1})({0})",
    "A.jit(lambda u: A.jit(lambda w: w * {1} + u)({0} * u))({0})",
    "A.jit(lambda u, c=A.jit(lambda w: w * {1})({0}): u * c)({0})",
    "A.jit(lambda u, held=({0}, dict(b=[{1}])): held[0] * u - held[1]['b'][0])({0})",
    "A.jit(lambda u: (u, {0} * 1.0))({1})[1]",
    "A.scan(lambda h, _: (A.jit(lambda u: u * 0.5 + A.sin(h) * {1})(h), h), {0}, np.zeros(2))[0]",
    "A.fori_loop(0, 2, lambda i, h: A.jit(lambda u: A.cos(u) * {1} + h)(h), {0})",
    "A.cond(True, lambda u: A.jit(lambda w: w * {1})(u), lambda u: u + u, {0})",
    "A.checkpoint(lambda u, c: A.jit(lambda w: A.sin(w) * u + c)(u))({0}, {1})",
    "A.jit(lambda u: A.scan(lambda h, _: (A.sin(h) * u + {1}, h), {0}, np.zeros(2))[0])({0})",
    *[
        TRIED.replace("FAILING", failing).replace("JIT", jit)
        for failing in ("A.reshape(w * {1}, (w.size + 1,))", "w * {1} + dict()['x']")
        for jit in ("", "A.jit")
    ],
]
COPIES = (
    "copy.copy({0} * 1.0) * {1}",
    "copy.deepcopy({0} + {1}) * {1}",
    "(lambda k: k['b'][0] * k['b'][1])(copy.deepcopy(dict(b=[{0} * 1.0, {1} * 1.0])))",
    "A.jit(lambda u: copy.copy(u * {1}) + copy.deepcopy(u))({0})",
    "{out} = copy.copy({0} * {1})\n{out} += {1}",
    "{out} = {0} * {1}\nview = {out}[...]\nkept = copy.deepcopy(view)\n{out} *= 2.0\n{out} = {out} + kept",
)
"""Copies of recorded values, which stay in the graph."""

add(operands, *STRUCTURES, *COPIES)

KEEPING = """\
def keeping(w, c):
    held = []
    inner = INNER
    return held[0] + inner
{out} = """
"""A function of a value that is kept from a transform which has ended, and of the transform's result."""

INNERS = (
    "A.grad(lambda u: A.sum((held.append(u * c), 0.5 * u * u)[1]))(w)",
    "A.value_and_grad(lambda u: A.sum((held.append(A.sin(u) * c), 0.5 * u * u)[1]))(w)[1]",
    "A.grad(lambda v: A.sum(A.grad(lambda u: A.sum((held.append(v * c), u * v)[1]))(v) * v) / 2)(w)",
    "A.grad(A.checkpoint(lambda u: A.sum((held.append(w * c), 0.5 * u * u)[1])))(w)",
    "A.vjp(lambda u: (held.append(u * c), 1.0 * u)[1], w)[1](w * 1.0)[0]",
    "A.jvp(lambda u: (held.append(A.sin(u) * c), 1.0 * u)[1], (w,), (w * 1.0,))[1]",
    "A.linearize(lambda u: (held.append(u * c), 1.0 * u)[1], w)[1](w * 1.0)",
)
CALLED = ("keeping({0}, {1})", "A.jit(lambda u: keeping(u, {1}))({0})", "A.checkpoint(keeping)({0}, {1})")
for _inner in INNERS:
    _plain = f"{'np.sin({0})' if 'sin' in _inner else '{0}'} * {{1}} + {{0}}"
    add(real_operands, *[KEEPING.replace("INNER", _inner) + called for called in CALLED], plain=_plain)

KEPT_FROM_VMAP = """\
def refused(w):
    held = []
    A.vmap(lambda u: (held.append(u), u)[1])(w)
    try:
        return held[0] * {1}
    except Exception:
        return w - {1}
{out} = refused({0})"""

add(rows, KEPT_FROM_VMAP, plain="{0} - {1}")

DRAWN = "{0} * A.jit(lambda: A.random.uniform(A.random.key({k}), {0}.shape, dtype={0}.dtype))()"
"""A draw of numbers, which a key determines."""

add(unary(None, real, k=lambda d, _: d.integer(0, 9)), DRAWN)
_drawn = (
    "A.vmap(lambda u, k: u * A.random.uniform(k, u.shape, dtype=u.dtype))({0}, A.random.split(A.random.key({k}), {n}))"
)
add(unary(None, real, filled, ndim(1), k=lambda d, _: d.integer(0, 9), n=lambda d, n: len(d.value(n))), _drawn)
