"""Operations that are functions of functions: jit that captures values, in jit, in loops, with branches that fail."""

from typing import Any

import numpy as np

from random_programs.operations import broadcasting, filled, moving, real
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

DRAWN = "{0} * A.jit(lambda: A.random.uniform(A.random.key({k}), {0}.shape, dtype={0}.dtype))()"
"""A draw of numbers, which a key determines."""

add("draw_with_a_key", DRAWN, lambda d: ((d.pick(real),), {"k": d.integer(0, 9)}))


def members(draw: Any) -> Any:
    """Draw an array of one axis or more, and a number for a key."""
    name = draw.pick(real, filled, lambda v: bool(v.shape))
    return (name,), {"k": draw.integer(0, 9), "n": len(draw.value(name))}


add(
    "mapped_draws",
    "A.vmap(lambda u, k: u * A.random.uniform(k, u.shape, dtype=u.dtype))({0}, A.random.split(A.random.key({k}), {n}))",
    members,
)
