"""Operations that write in place, to arrays and views, by all kinds of indices."""

from typing import Any

import numpy as np

from random_programs.array_operations import advanced_index, basic_index
from random_programs.operations import away, filled, moving, ndim, real, unary
from random_programs.program import OPERATIONS, add


def target(draw: Any, *tests: Any) -> int:
    """Return the name of an array that a write may change.

    It depends on the inputs, and its memory is its own.
    """
    fits = {id(draw.value(n)) for n in draw.names if n not in draw.raw}
    return draw.pick(lambda v: id(v) in fits and isinstance(v, np.ndarray) and v.flags.writeable, moving, *tests)


def fitting(draw: Any, name: int, shape: tuple[int, ...], narrow: bool = False) -> int:
    """Return the name of a value that can be written to a place of a shape.

    ``narrow``: of no wider dtype.
    """
    dtype = draw.value(name).dtype

    def fits(v: Any) -> bool:
        if v.dtype.kind not in ("fc" if dtype.kind == "c" else "f"):
            return False
        if narrow and np.result_type(v, dtype) != dtype:
            return False
        try:
            return np.broadcast_shapes(v.shape, shape) == shape
        except ValueError:
            return False

    return draw.pick(fits)


def writing(index: Any, *tests: Any, value: bool = True, narrow: bool = False) -> Any:
    """Draw a target, an index, and the written value, an array or a number."""

    def drawn(draw: Any) -> Any:
        name = target(draw, *tests)
        text = index(draw, draw.value(name).shape)
        if not value:
            return (name,), {"index": text, "c": draw.choice(0.5, -1, 0.0)}
        shape = np.shape(eval(f"v{name}[{text}]", draw.scope))
        return (name, fitting(draw, name, shape, narrow)), {"index": text}

    return drawn


def mask_of(draw: Any, shape: tuple[int, ...]) -> str:
    return f"np.array({(draw.rng.random(shape) < 0.6).tolist()}, dtype=bool).reshape({shape})"


def everything(draw: Any, shape: tuple[int, ...]) -> str:
    return "..."


def pair(draw: Any) -> Any:
    """Draw a target, and a value that can be combined into it."""
    name = target(draw)
    return (name, fitting(draw, name, draw.value(name).shape, narrow=True)), {}


def number(*tests: Any) -> Any:
    return lambda draw: ((target(draw, *tests),), {"c": draw.choice(0.5, 2, -1.5)})


def once(draw: Any, shape: tuple[int, ...]) -> str:
    return advanced_index(draw, shape, unique=True)


# ---------------------------------------------------------------- by index

_INDICES = {"basic": basic_index, "arrays": once, "mask": mask_of, "everything": everything}
for _name, _index in _INDICES.items():
    add(f"write_{_name}", "{0}[{index}] = {1}", writing(_index), writes=True)
    add(f"write_{_name}_number", "{0}[{index}] = {c}", writing(_index, value=False), writes=True)
    add(f"write_{_name}_part", "{0}[{index}] = 0.5 * {0}[{index}]", writing(_index, value=False), writes=True)
    add(f"add_to_{_name}", "{0}[{index}] += {1}", writing(_index, narrow=True), writes=True)
    add(f"multiply_{_name}", "{0}[{index}] *= {1}", writing(_index, narrow=True), writes=True)
add("write_where_negative", "{0}[{0} < 0.1] = {c}", number(real, away, ndim(1)), writes=True, masks=True)
add(
    "write_where_negative_part", "{0}[{0} < 0.1] = 0.3 * {0}[{0} < 0.1]", number(real, away, ndim(1)), writes=True,
    values=True,
)  # fmt: skip
add("write_at_argmax", "{0}[{xp}.argmax({0})] = {c}", number(real, filled, ndim(1, 1)), writes=True)
add("write_reversed", "{0}[::-1] = {0}", number(ndim(1)), writes=True)
add("write_shifted", "{0}[1:] = {0}[:-1]", number(ndim(1)), writes=True)
add("swap_rows", "{0}[0], {0}[-1] = {0}[-1].copy(), {0}[0].copy()", number(filled, ndim(1)), writes=True)
add("write_over_nan", "{out} = {0} / 0.0\n{out} = {out} - {out}\n{out}[...] = {0} * 2.0", unary(None, real))
add(
    "write_over_infinite",
    "{out} = 1.0 / ({0} - {0})\n{out}[{mask}] = 0.5\n{out}[~{mask}] = {0}[~{mask}]",
    unary(None, real, ndim(1), mask=lambda d, n: mask_of(d, d.value(n).shape)),
)
add("write_over_log", "{out} = {xp}.log({0})\n{out}[{0} < 0.1] = 0.25", unary(None, real, away, ndim(1)), masks=True)

# ---------------------------------------------------------------- whole arrays

for _name, _sign in (("add", "+"), ("subtract", "-"), ("multiply", "*")):
    add(f"{_name}_in_place", f"{{0}} {_sign}= {{1}}", pair, writes=True)
    add(f"{_name}_number_in_place", f"{{0}} {_sign}= {{c}}", number(), writes=True)
add("power_in_place", "{0} **= 2", number(), writes=True)
add("divide_in_place", "{0} /= {c}", number(), writes=True)

# ---------------------------------------------------------------- through views

_VIEWS = {
    "reshape": "{xp}.reshape({0}, (-1,))",
    "method_reshape": "{0}.reshape(-1)",
    "ravel": "np.ravel({0})",
    "transpose": "{0}.T",
    "permuted": "{xp}.permute_dims({0}, tuple(range({0}.ndim))[::-1])",
    "slice": "{0}[..., :2]",
    "expanded": "{xp}.expand_dims({0}, axis=0)",
    "squeezed": "np.squeeze({0})",
    "new_axis": "{0}[None]",
    "flipped": "{0}[..., ::-1]",
    "swapped": "np.swapaxes({0}, 0, -1)",
    "atleast": "np.atleast_1d({0})",
    "row": "{0}[0]",
}
for _name, _view in _VIEWS.items():
    _fits = (ndim(2, 2),) if _name == "transpose" else (filled, ndim(1))
    add(f"write_through_{_name}", f"{_view}[...] = {{c}}", number(*_fits), writes=True)
    add(f"add_through_{_name}", f"view = {_view}\nview += {{c}} * view", number(*_fits), writes=True)
add("write_real", "{0}.real[...] = {c}", number(lambda v: v.dtype.kind == "c"), writes=True)
add("write_imag", "{0}.imag[...] = {c}", number(lambda v: v.dtype.kind == "c"), writes=True)
add("write_transposed_reshape", "{0}.T.reshape(-1)[...] = {c}", number(filled, ndim(2, 2)), writes=True)
add("write_rows", "for row in {0}:\n    row[...] = row * {c}", number(filled, ndim(2)), writes=True)
add("write_in_loop", "for i in range({0}.shape[0]):\n    {0}[i] = {0}[i - 1] * 0.5 + {c}", number(ndim(1)), writes=True)

# ---------------------------------------------------------------- by functions of NumPy

add("np_fill_diagonal", "np.fill_diagonal({0}, {c})", number(ndim(2, 2)), writes=True)
add("np_copyto", "np.copyto({0}, {1})", pair, writes=True)
add("np_copyto_where", "np.copyto({0}, {c}, where={0} > 0.1)", number(real, away), writes=True)
add("np_put", "np.put({0}, [0, -1], {c})", number(filled), writes=True)
add("np_putmask", "np.putmask({0}, {0} > 0.1, {c})", number(real, away), writes=True)
add(
    "np_add_at", "np.add.at({0}, {index}, {c})",
    lambda d: (lambda n: ((n,), {"index": [0, 0, -1], "c": 0.5}))(target(d, filled, ndim(1))), writes=True,
)  # fmt: skip
add("method_fill", "{0}.fill({c})", number(), writes=True)
add("np_multiply_out", "np.multiply({0}, {c}, out={0})", number(), writes=True)

FREQUENT = tuple(
    name
    for name, op in OPERATIONS.items()
    if op.writes
    or name in ("reshape", "method_reshape", "read", "method_T", "permute_dims", "unstack", "ravel", "flip")
)
"""What programs draw more often than the rest: writes, and the views that they write through."""
