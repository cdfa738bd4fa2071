"""Writes inside a mapped function: each batch element is written to as alone, and nothing is left behind."""

import gc
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from modes import check_mapped, compare
from refusals import fails

import agrad
from agrad.errors import TracedValueError

X = np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])


@pytest.fixture(autouse=True, scope="module")
def _few_objects() -> None:
    """Keep what earlier tests made out of the collections of garbage with which ``vmap`` finds Tensors of cycles."""
    gc.freeze()


def elements(c: Any) -> Any:
    """An element read from an array is a copy in NumPy and a view in PyTorch."""
    c = c * 1.0
    first, last, part = c[0], c[-1], c[1:]
    inner = part[0]
    c[0], c[1] = c[1], c[0]
    part[0] = 0.0
    c[-1] = 4.0
    return c * first + last + inner


def iterated(c: Any) -> Any:
    c = c * 1.0
    a, _, last = c
    for element in c:
        element += 1
    c[0] = last
    c[2] = a
    return c


def unstacked(c: Any) -> Any:
    c = c * 1.0
    a, b, _ = agrad.unstack(c)
    a += 5
    c[1] = 7.0
    view = c[0, ...]
    view += 5
    return c + b


def on_the_diagonal(c: Any) -> Any:
    c = agrad.reshape(c, (3, 1)) * agrad.ones((1, 3))
    c[0, 0], c[1, 1] = c[1, 1], c[0, 0]
    return c


def shared_constant(x: Any, v: Any) -> Any:
    """A constant that is written to becomes one of each batch element's."""
    y, z = x * 1.0, agrad.zeros((2, 3), dtype=agrad.float64)
    row, turned, written, part = y[0], y.T, z[0], y[1]
    row += v
    turned[1] = 7.0
    part[0] *= v
    z[1, 2] = v
    z[0, 1] = v * v
    return turned, z * row, written


def at_an_index_of_each(x: Any, i: Any) -> Any:
    out = agrad.zeros(4)
    out[1:3] = x
    out[agrad.astype(i, agrad.int64)] += 10.0
    x *= 2
    return out, x


def part_of(part: Callable[[Any], Any], c: Any) -> Any:
    view = agrad.reshape(part(z := c[0] * (1.0 + 2.0j)), (1,))
    view += 10.0
    return agrad.real(z), agrad.imag(z)


def scalar(c: Any) -> Any:
    y = c + 0.5
    view = agrad.reshape(y, (1,))
    view *= view
    return agrad.sum(view) * y


def product(c: Any) -> Any:
    """The ``tensordot`` of NumPy gives an array of no dimensions and no scalar."""
    row = agrad.reshape(y := agrad.tensordot(c, c, axes=1), (1, -1))
    y[...] = 5.0
    return row


def constant(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A view of a constant result has the derivative of a write to it."""

    def f(c: Any) -> Any:
        y = make(c)
        view = y[::2]
        view += c[:2]
        y[1:] *= c[1:]
        return view * y[0], agrad.sin(y)

    return f


def masked(v: Any, c: Any, value: Callable[[Any], Any] = lambda c: c * c) -> Any:
    v = v * 1.0
    v[v < c] = value(c)
    return v * v


def masked_view(v: Any, c: Any) -> Any:
    w = v * 1.0
    part = w[1:]
    part[part < c] = agrad.reshape(c * 2, (1,))
    return w * w


MASKED = np.asarray([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0], [7.0, 8.0, 9.0]]), np.asarray([0.0, 4.5, 0.0])
PROGRAMS: dict[str, tuple[Any, ...]] = {
    "elements": (elements, X),
    "iteration": (iterated, X),
    "unstack": (unstacked, X),
    "a diagonal": (on_the_diagonal, X),
    "a constant that all share": (shared_constant, np.arange(12.0).reshape(2, 2, 3), np.asarray([10.0, 20.0])),
    "an index of each": (at_an_index_of_each, X[:, :2], np.asarray([0.0, 3.0])),
    "the real part of a scalar": (partial(part_of, agrad.real), X),
    "the imaginary part of a scalar": (partial(part_of, agrad.imag), X),
    "a scalar": (scalar, X[0]),
    "a product": (product, X),
    "round": (constant(agrad.round), X + 0.125),
    "floor_divide": (constant(lambda x: agrad.floor_divide(x, 0.75)), X + 0.125),
    "ones_like": (constant(agrad.ones_like), X + 0.125),
    "a number at a mask of each": (lambda v, c: masked(v, c, lambda c: 7.0), *MASKED),
    "a value of each at a mask of each": (masked, *MASKED),
    "a mask of a view": (masked_view, *MASKED),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_batch_elements_are_written_to_as_alone(name: str, place: Any) -> None:
    f, *rows = PROGRAMS[name]
    check_mapped(f, [place(x) for x in rows], values=0.0)


def test_several_values_at_a_mask_of_each_element_are_an_error() -> None:
    def f(v: Any) -> Any:
        v = v * 1.0
        v[v > 4.5] = agrad.asarray([1.0, 2.0, 3.0])
        return v

    fails(TracedValueError, r"x\[mask\] = number", lambda: agrad.vmap(f)(MASKED[0]))


def test_writes_to_a_shared_argument_stay_inside(place: Any) -> None:
    shared = agrad.asarray(place(np.zeros(3)))

    def f(a: Any, b: Any) -> Any:
        b += a
        return b * 1

    assert_close(agrad.vmap(f, in_axes=(0, None))(place(X), shared), X, "value", 0.0)
    assert_close(shared, np.zeros(3), "the argument", 0.0)
    assert_close(agrad.vmap(lambda a, d: f(a, d["b"]), in_axes=(0, None))(place(X), {"b": shared}), X, "value", 0.0)
    assert_close(shared, np.zeros(3), "in a container", 0.0)
    chunked = agrad.vmap(f, in_axes=(0, None), chunk_size=1)(place(X), place(X[0]))
    assert_close(chunked, X + X[0], "a new one in each chunk", 0.0)


LAYOUTS: dict[str, Any] = {
    "rows": lambda x: x,
    "columns": np.asfortranarray,
    "every other column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "a part": lambda x: np.pad(x, 1)[1:-1, 1:-1],
    "one column": lambda x: np.repeat(x[:, :1], 2, axis=1)[:, :1],
}


@pytest.mark.parametrize("write", ["by integers", "everything"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_array_that_a_write_maps_keeps_its_layout(layout: str, write: str) -> None:
    """The layout decides which reshapes are views."""

    def f(a: Any, c: Any) -> Any:
        if write == "by integers":
            c[[-1, -2]] = a
        else:
            c += a
        view = np.ravel(c[:, 0])
        view += 10.0
        rows = agrad.reshape(c, (-1,))
        rows += 100.0
        return c

    def shared() -> np.ndarray:
        return np.asarray(LAYOUTS[layout](np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])))

    values = np.asarray([0.5, 1.5, -2.0])
    alone = np.stack([f(a, shared()) for a in values])
    mapped = agrad.vmap(f, in_axes=(0, None))
    assert_close(mapped(values, agrad.asarray(shared())), alone, "value", 0.0)
    twice = agrad.vmap(mapped, in_axes=(0, None))(np.stack([values, values]), agrad.asarray(shared()))
    assert_close(twice, np.stack([alone, alone]), "two maps", 0.0)


# ------------------------------------------------------------------ views of results

CUBE = np.arange(12.0).reshape(2, 2, 3)


def chosen(place: Any, *entries: Any) -> Any:
    return agrad.asarray(place(np.asarray(entries)))


MADE: dict[str, Any] = {
    "itself": lambda c, place: c,
    "result": lambda c, place: c * 1.0,
    "copy": lambda c, place: agrad.asarray(c, copy=True),
    "transposed result": lambda c, place: agrad.permute_dims(c, (1, 0)) * 2.0,
    "mask": lambda c, place: c[chosen(place, True, True)],
    "mask behind an axis": lambda c, place: c[:, chosen(place, True, False, True)],
    "integers": lambda c, place: c[chosen(place, 1, 0)],
    "integers behind an axis": lambda c, place: c[:, chosen(place, 1, 0)],
    "take": lambda c, place: agrad.take(c, chosen(place, 1, 0), axis=1),
    "where": lambda c, place: agrad.where(c > 3.0, c, -c),
    "stack": lambda c, place: agrad.stack([c, c], axis=1),
    "concat": lambda c, place: agrad.concat([c, c], axis=1),
    "sum": lambda c, place: agrad.sum(agrad.stack([c, c], axis=2), axis=1),
    "matmul": lambda c, place: agrad.matmul(c, c.mT),
    "with what is shared": lambda c, place: agrad.asarray(place(CUBE[0])) + c,
}
SEEN: dict[str, Any] = {
    "reshape": lambda y: agrad.reshape(y, (-1,)),
    "reshape of a part": lambda y: agrad.reshape(y[1:, ...], (-1,)),
    "transpose": lambda y: agrad.reshape(agrad.permute_dims(y, tuple(range(y.ndim))[::-1]), (-1,)),
    "row": lambda y: y[0, ...],
}


@pytest.mark.parametrize("made", MADE)
def test_a_write_to_a_view_is_as_alone(made: str, place: Any) -> None:
    """Writes to an element, at a mask and to everything, through each view in turn."""

    def f(c: Any) -> Any:
        found = []
        for see in SEEN.values():
            y = MADE[made](c, place)
            view = see(y)
            view[(0,) * view.ndim] = -5.0
            found.append(y * 1.0)
            view += 10.0
            mask = np.zeros(view.shape, dtype=bool)
            mask.flat[-1:] = True
            view[agrad.asarray(place(mask))] = 99.0
            found += [y * 1.0, view * 1.0, c * 1.0]
        return found

    for axis, order in ((0, "C"), (1, "C"), (2, "C"), (1, "F"), (2, "moved")):
        moved = np.moveaxis(CUBE, 0, axis)
        x = agrad.asarray(place(moved if order == "moved" else np.array(moved, order=order)))
        front = agrad.moveaxis(x, axis, 0)
        alone = [[host(part) for part in f(front[(i, ...)].detach())] for i in range(2)]
        expected = [np.stack(parts) for parts in zip(*alone, strict=True)]
        compare(agrad.vmap(f, in_axes=axis)(x), expected, f"{made}, axis {axis}, {order}", 0.0)


POINTS: dict[str, Any] = {
    "itself": lambda c: c,
    "result": lambda c: c * 1.0,
    "element": lambda c: agrad.stack([c, c])[0],
    "element by ...": lambda c: agrad.stack([c, c])[0, ...],
    "reshape": lambda c: agrad.reshape(agrad.reshape(c * 1.0, (1,)), ()),
}
OF_POINTS: dict[str, Any] = {
    "itself": lambda c: c,
    "reshape": lambda c: agrad.reshape(c, (1,)),
    "new axis": lambda c: c[None],
    "...": lambda c: c[...],
    "expand_dims": lambda c: agrad.expand_dims(c, axis=0),
    "real": agrad.real,
    "astype": lambda c: agrad.astype(c, c.dtype, copy=False),
}


@pytest.mark.parametrize("made", POINTS)
def test_batch_elements_of_no_dimensions(made: str, place: Any) -> None:
    """A result of no dimensions is a scalar in NumPy, of which there are no views."""

    def f(c: Any) -> Any:
        found = []
        for see, into_view in itertools.product(OF_POINTS.values(), (True, False)):
            y = POINTS[made](c)
            view = see(y)
            written = view if into_view else y
            written[...] = -1.0
            found += [y * 1.0, view * 1.0]
            written += 10.0
            found += [y * 1.0, view * 1.0]
        return found

    alone = [f(agrad.asarray(place(X[1]))[i]) for i in range(3)]
    compare(agrad.vmap(f)(place(X[1])), [np.stack(list(map(host, p))) for p in zip(*alone, strict=True)], made, 0.0)


# ------------------------------------------------------------------ Tensors from outside of the map


def with_a_gradient(buffer: Any, x: Any) -> None:
    def loss(x: Any) -> Any:
        buffer[...] = x * x
        return agrad.sum(x)

    agrad.grad(loss)(x)


def then_an_error(buffer: Any, x: Any) -> None:
    buffer[...] = x
    raise TracedValueError("Tensor from outside of vmap")


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "everything": lambda buffer, x: buffer.__setitem__(..., x),
    "an element": lambda buffer, x: buffer.__setitem__(0, x[1]),
    "an operator": lambda buffer, x: buffer.__iadd__(x),
    "a view": lambda buffer, x: agrad.reshape(buffer, (3, 1)).__setitem__(..., agrad.reshape(x, (3, 1))),
    "in a gradient": with_a_gradient,
    "then an error": then_an_error,
    "two maps": lambda buffer, x: agrad.vmap(lambda y: (buffer.__setitem__(0, y), y)[1])(x),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_to_a_tensor_from_outside_changes_nothing(name: str, backend: str, place: Any) -> None:
    buffer = agrad.asarray(place(X[0]))
    rows = buffer[1:]
    f = agrad.vmap(lambda x: (WRITES[name](buffer, x), x)[1])
    to_a_view = agrad.vmap(lambda x: (rows.__setitem__(0, x[0]), x)[1])
    for run in (f, agrad.jit(f), to_a_view) if backend == "numpy" else (f, to_a_view):
        fails(TracedValueError, "Tensor from outside of vmap", run, place(X))
        assert type(buffer) is agrad.Tensor
        assert_close(buffer, X[0], "the Tensor", 0.0)
        assert_close(rows, X[0, 1:], "a view of it", 0.0)
    with agrad.no_grad():
        buffer[...] = 2.0
    assert_close(buffer + 1.0, np.full(3, 3.0), "the Tensor after another write", 0.0)
    rows *= buffer[:2]
    assert_close(buffer, np.asarray([2.0, 4.0, 4.0]), "the Tensor after a write to its view", 0.0)


def test_a_tensor_of_the_outer_map_is_outside_of_the_inner_one(place: Any) -> None:
    def outer(x: Any) -> Any:
        made = x * 2.0
        agrad.vmap(lambda y: made.__setitem__(0, y))(x)
        return made

    fails(TracedValueError, r"dtype float64 and shape \(3,\)", lambda: agrad.vmap(outer)(place(X)))


def test_tensors_from_outside_accept_shared_values(place: Any) -> None:
    buffer = agrad.asarray(place(X[0]))

    def f(x: Any) -> Any:
        buffer[0] = 9.0
        return buffer * x

    assert_close(agrad.vmap(f)(place(X)), np.asarray([9.0, 2.0, 3.0]) * X, "value", 0.0)
    assert host(buffer)[0] == 9.0


def test_tensors_of_a_reference_cycle_are_inside(place: Any) -> None:
    def f(x: Any) -> Any:
        made = agrad.zeros_like(x)
        cycle: list[Any] = [made]
        cycle.append(cycle)
        made[0] = x[1]
        return made + x

    expected = X + np.stack([X[:, 1], np.zeros(2), np.zeros(2)], axis=1)
    for mapped in (agrad.vmap(f), agrad.jit(agrad.vmap(f)), agrad.vmap(agrad.jit(f))):
        assert_close(mapped(place(X)), expected, "value", 0.0)
    slope = agrad.grad(lambda x: agrad.sum(agrad.vmap(f)(x)))(place(X))
    assert_close(slope, np.asarray([[1.0, 2.0, 1.0]] * 2), "gradient", 0.0)
