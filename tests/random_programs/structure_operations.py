"""Operations that are functions of functions: jit that captures values, in loops, that fail; kept values; copies."""

from typing import Any

import numpy as np

from random_programs.operations import broadcasting, filled, moving, ndim, real, unary, unfit
from random_programs.program import Unfit, add


def pair(draw: Any) -> Any:
    """Draw two values, the second of which broadcasts to the shape and the dtype of the first."""
    a = draw.pick(moving, lambda v: np.abs(v).max(initial=0) <= 3)
    b = broadcasting(draw, a, moving)
    x, y = draw.value(a), draw.value(b)
    if np.broadcast_shapes(x.shape, y.shape) != x.shape or np.result_type(x, y) != x.dtype:
        raise Unfit
    return (a, b), {}


STRUCTURES = {
    "jit_captures": "A.jit(lambda u: u * {1})({0})",
    "jit_of_nothing": "A.jit(lambda: A.sin({0}) * {1})()",
    "jit_of_its_capture": "A.jit(lambda u: u * {0} + {1})({0})",
    "jit_in_jit": "A.jit(lambda u: A.jit(lambda w: w * {1} + u)({0} * u))({0})",
    "jit_of_a_result": "A.jit(lambda u, c=A.jit(lambda w: w * {1})({0}): u * c)({0})",
    "jit_of_containers": "A.jit(lambda u, held=({0}, dict(b=[{1}])): held[0] * u - held[1]['b'][0])({0})",
    "jit_returns_its_capture": "A.jit(lambda u: (u, {0} * 1.0))({1})[1]",
    "jit_in_scan": "A.scan(lambda h, _: (A.jit(lambda u: u * 0.5 + A.sin(h) * {1})(h), h), {0}, np.zeros(2))[0]",
    "jit_in_fori_loop": "A.fori_loop(0, 2, lambda i, h: A.jit(lambda u: A.cos(u) * {1} + h)(h), {0})",
    "jit_in_cond": "A.cond(True, lambda u: A.jit(lambda w: w * {1})(u), lambda u: u + u, {0})",
    "jit_in_checkpoint": "A.checkpoint(lambda u, c: A.jit(lambda w: A.sin(w) * u + c)(u))({0}, {1})",
    "scan_in_jit": "A.jit(lambda u: A.scan(lambda h, _: (A.sin(h) * u + {1}, h), {0}, np.zeros(2))[0])({0})",
}

TRIED = """\
def tried(u):
    w = A.sin(u)
    try:
        return {failing}
    except Exception:
        return w * {{1}} + u
{{out}} = {jit}(tried)({{0}})"""
"""A function whose branch fails, after operations or in one."""

for _where, _jit in (("", ""), ("_in_jit", "A.jit")):
    STRUCTURES[f"branch_that_fails{_where}"] = TRIED.format(failing="A.reshape(w * {1}, (w.size + 1,))", jit=_jit)
    STRUCTURES[f"branch_that_raises{_where}"] = TRIED.format(failing="w * {1} + dict()['x']", jit=_jit)

for _name, _text in STRUCTURES.items():
    add(_name, _text, pair)

KEEPING = """\
def keeping(w, c):
    held = []
    inner = {inner}
    return held[0] + inner
{{out}} = {called}"""
"""A function of a value that is kept from a transform which has ended, and of the transform's result."""

INNERS = {
    "grad": "A.grad(lambda u: A.sum((held.append(u * c), 0.5 * u * u)[1]))(w)",
    "value_and_grad": "A.value_and_grad(lambda u: A.sum((held.append(A.sin(u) * c), 0.5 * u * u)[1]))(w)[1]",
    "grad_of_grad": "A.grad(lambda v: A.sum(A.grad(lambda u: A.sum((held.append(v * c), u * v)[1]))(v) * v) / 2)(w)",
    "grad_of_checkpoint": "A.grad(A.checkpoint(lambda u: A.sum((held.append(w * c), 0.5 * u * u)[1])))(w)",
    "vjp": "A.vjp(lambda u: (held.append(u * c), 1.0 * u)[1], w)[1](w * 1.0)[0]",
    "jvp": "A.jvp(lambda u: (held.append(A.sin(u) * c), 1.0 * u)[1], (w,), (w * 1.0,))[1]",
    "linearize": "A.linearize(lambda u: (held.append(u * c), 1.0 * u)[1], w)[1](w * 1.0)",
}
CALLED = {
    "": "keeping({{0}}, {{1}})",
    "_in_jit": "A.jit(lambda u: keeping(u, {{1}}))({{0}})",
    "_in_checkpoint": "A.checkpoint(keeping)({{0}}, {{1}})",
}


def real_pair(draw: Any) -> Any:
    """Draw two real values, the second of which broadcasts to the first."""
    names, settings = pair(draw)
    if not all(real(draw.value(name)) for name in names):
        raise Unfit
    return names, settings


for _name, _inner in INNERS.items():
    _plain = f"{'np.sin({0})' if 'sin' in _inner else '{0}'} * {{1}} + {{0}}"
    for _where, _called in CALLED.items():
        _text = KEEPING.format(inner=_inner, called=_called.format())
        add(f"kept_from_{_name}{_where}", _text, real_pair, plain=_plain)

KEPT_FROM_VMAP = """\
def refused(w):
    held = []
    A.vmap(lambda u: (held.append(u), u)[1])(w)
    try:
        return held[0] * {1}
    except Exception:
        return w - {1}
{out} = refused({0})"""


def rows(draw: Any) -> Any:
    names, settings = pair(draw)
    if not draw.value(names[0]).size:
        raise Unfit
    return (names, settings) if draw.value(names[0]).ndim else unfit()


add("kept_from_vmap", KEPT_FROM_VMAP, rows, plain="{0} - {1}")

COPIES = {
    "copy": "copy.copy({0} * 1.0) * {1}",
    "deepcopy": "copy.deepcopy({0} + {1}) * {1}",
    "deepcopy_of_a_container": "(lambda k: k['b'][0] * k['b'][1])(copy.deepcopy(dict(b=[{0} * 1.0, {1} * 1.0])))",
    "copy_in_jit": "A.jit(lambda u: copy.copy(u * {1}) + copy.deepcopy(u))({0})",
    "written_copy": "{out} = copy.copy({0} * {1})\n{out} += {1}",
    "copy_of_a_written_view": "{out} = {0} * {1}\nview = {out}[...]\nkept = copy.deepcopy(view)\n"
    "{out} *= 2.0\n{out} = {out} + kept",
}
"""Copies of recorded values, which stay in the graph."""

for _name, _text in COPIES.items():
    add(_name, _text, pair)

DRAWN = "{0} * A.jit(lambda: A.random.uniform(A.random.key({k}), {0}.shape, dtype={0}.dtype))()"
"""A draw of numbers, which a key determines."""

add("draw_with_a_key", DRAWN, unary(None, real, k=lambda d, _: d.integer(0, 9)))


members = unary(None, real, filled, ndim(1), k=lambda d, _: d.integer(0, 9), n=lambda d, n: len(d.value(n)))
add(
    "mapped_draws",
    "A.vmap(lambda u, k: u * A.random.uniform(k, u.shape, dtype=u.dtype))({0}, A.random.split(A.random.key({k}), {n}))",
    members,
)
