"""Writes inside a mapped function: each member is what the function makes of it alone, and nothing is left behind."""

from typing import Any

import numpy as np
import pytest
from checker import assert_close, host

import agrad

X = np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
WEIGHTS = np.asarray([1.0, 10.0, 100.0])


def swapped(c: Any) -> Any:
    c[0], c[1] = c[1], c[0]
    return c


def last_added(c: Any) -> Any:
    last = c[-1]
    c[-1] = 0.0
    c += last
    return c


def first_subtracted(c: Any) -> Any:
    first = c[0]
    for i in range(3):
        c[i] = c[i] - first
    return c


def each_raised(c: Any) -> Any:
    for element in c:
        element += 1
    return c


def unpacked(c: Any) -> Any:
    a, _, last = c
    c[0] = last
    c[2] = a
    return c


def unstacked(c: Any) -> Any:
    a, b, _ = agrad.unstack(c)
    a += 5
    c[1] = 7.0
    return c + b


def raised_in_place(c: Any) -> Any:
    view = c[0, ...]
    view += 5
    return c


def on_the_diagonal(c: Any) -> Any:
    c = agrad.reshape(c, (3, 1)) * agrad.ones((1, 3))
    c[0, 0], c[1, 1] = c[1, 1], c[0, 0]
    return c


def of_a_part(c: Any) -> Any:
    part = c[1:]
    element = part[0]
    part[0] = 0.0
    return c + element


PROGRAMS = [
    swapped, last_added, first_subtracted, each_raised, unpacked, unstacked, raised_in_place, on_the_diagonal,
    of_a_part,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_members_are_written_to_as_alone(program: Any, place: Any) -> None:
    """An element picked from an array is a copy in NumPy and a view in PyTorch; so is a member's."""

    def f(c: Any) -> Any:
        return program(c * 1.0)

    def loss(c: Any) -> Any:
        return agrad.sum(f(c) * agrad.asarray(place(WEIGHTS)))

    x = agrad.asarray(place(X))
    expected = agrad.stack([f(row) for row in (x[0, :], x[1, :])])
    slopes = agrad.stack([agrad.grad(loss)(row) for row in (x[0, :], x[1, :])])
    for found in (agrad.vmap(f)(x), agrad.jit(agrad.vmap(f))(x), agrad.vmap(agrad.jit(f))(x)):
        assert_close(found, expected, "value", 0.0)
    assert_close(agrad.vmap(agrad.grad(loss))(x), slopes, "the gradient of each", 1e-12)
    assert_close(agrad.grad(lambda x: agrad.sum(agrad.vmap(loss)(x)))(x), slopes, "the gradient of all", 1e-12)
    wide = agrad.stack([x, x + 1.0])
    twice = agrad.stack([agrad.stack([f(row) for row in (m[0, :], m[1, :])]) for m in (x, x + 1.0)])
    assert_close(agrad.vmap(agrad.vmap(f))(wide), twice, "two maps", 0.0)


def test_what_members_write_into_a_shared_argument_stays_inside(place: Any) -> None:
    shared = agrad.asarray(place(np.zeros(3)))

    def f(a: Any, b: Any) -> Any:
        b += a
        return b * 1

    assert_close(agrad.vmap(f, in_axes=(0, None))(place(X), shared), X, "value", 0.0)
    assert_close(shared, np.zeros(3), "the argument", 0.0)
    assert_close(agrad.vmap(lambda a, d: f(a, d["b"]), in_axes=(0, None))(place(X), {"b": shared}), X, "value", 0.0)
    assert_close(shared, np.zeros(3), "in a container", 0.0)


LAID: dict[str, Any] = {
    "rows": lambda x: x,
    "columns": np.asfortranarray,
    "every other column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "a part": lambda x: np.pad(x, 1)[1:-1, 1:-1],
    "one column": lambda x: np.repeat(x[:, :1], 2, axis=1)[:, :1],
}


@pytest.mark.parametrize("write", ["by integers", "everything"])
@pytest.mark.parametrize("laid", LAID)
def test_what_becomes_mapped_by_a_write_lies_as_before(laid: str, write: str) -> None:
    """The layout decides which reshapes are views. The arrays are NumPy's, which come in every layout."""

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
        return np.asarray(LAID[laid](np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])))

    values = np.asarray([0.5, 1.5, -2.0])
    alone = np.stack([f(a, shared()) for a in values])
    mapped = agrad.vmap(f, in_axes=(0, None))
    assert_close(mapped(values, agrad.asarray(shared())), alone, "value", 0.0)
    twice = agrad.vmap(mapped, in_axes=(0, None))(np.stack([values, values]), agrad.asarray(shared()))
    assert_close(twice, np.stack([alone, alone]), "two maps", 0.0)


# ------------------------------------------------------------------ how a view is made, in_axes, the write

CUBE = np.arange(12.0).reshape(2, 2, 3)


def _rows(place: Any) -> Any:
    return agrad.asarray(place(np.asarray([1, 0])))


MADE: dict[str, Any] = {
    "itself": lambda c, place: c,
    "result": lambda c, place: c * 1.0,
    "copy": lambda c, place: agrad.asarray(c, copy=True),
    "transposed result": lambda c, place: agrad.permute_dims(c, (1, 0)) * 2.0,
    "mask": lambda c, place: c[agrad.asarray(place(np.asarray([True, True])))],
    "mask behind an axis": lambda c, place: c[:, agrad.asarray(place(np.asarray([True, False, True])))],
    "integers": lambda c, place: c[_rows(place)],
    "integers behind an axis": lambda c, place: c[:, _rows(place)],
    "take": lambda c, place: agrad.take(c, _rows(place), axis=1),
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


def _element(v: Any, place: Any) -> None:
    v[(0,) * v.ndim] = -5.0


def _all(v: Any, place: Any) -> None:
    v += 10.0


def _by_mask(v: Any, place: Any) -> None:
    mask = np.zeros(v.shape, dtype=bool)
    mask.flat[-1:] = True
    v[agrad.asarray(place(mask))] = 99.0


def _members(x: Any, axis: int) -> list[Any]:
    front = agrad.moveaxis(x, axis, 0)
    return [front[(i, ...)].detach() for i in range(front.shape[0])]


@pytest.mark.parametrize(("axis", "order"), [(0, "C"), (1, "C"), (2, "C"), (1, "F"), (2, "moved")])
@pytest.mark.parametrize("made", MADE)
def test_a_write_to_a_view_of_a_member_is_as_alone(made: str, axis: int, order: str, place: Any) -> None:
    moved = np.moveaxis(CUBE, 0, axis)
    x = agrad.asarray(place(moved if order == "moved" else np.array(moved, order=order)))
    for seen in SEEN:
        for write in (_element, _all, _by_mask):

            def f(c: Any, seen: str = seen, write: Any = write) -> Any:
                y = MADE[made](c, place)
                view = SEEN[seen](y)
                write(view, place)
                return y * 1.0, view * 1.0, c * 1.0

            found = agrad.vmap(f, in_axes=axis)(x)
            for i, of_all in enumerate(found):
                expected = agrad.stack([f(member)[i] for member in _members(x, axis)])
                assert_close(of_all, expected, f"{seen}, {write.__name__}, output {i}", 0.0)


POINTS: dict[str, Any] = {
    "itself": lambda c: c,
    "result": lambda c: c * 1.0,
    "sum": lambda c: agrad.sum(agrad.stack([c, c])),
    "copy": lambda c: agrad.asarray(c, copy=True),
    "where": lambda c: agrad.where(c > 5.0, c, -c),
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
def test_members_of_no_dimensions(made: str, place: Any) -> None:
    """A result of no dimensions is a scalar in NumPy, of which there are no views; so is a member's."""

    def written(v: Any) -> None:
        v[...] = -1.0

    def added(v: Any) -> None:
        v += 10.0

    for seen in OF_POINTS.values():
        for write in (written, added):
            for into_view in (True, False):

                def f(c: Any, seen: Any = seen, write: Any = write, into_view: bool = into_view) -> Any:
                    y = POINTS[made](c)
                    view = seen(y)
                    write(view if into_view else y)
                    return y * 1.0, view * 1.0

                found = agrad.vmap(f)(place(WEIGHTS))
                alone = [f(agrad.asarray(place(WEIGHTS))[i]) for i in range(3)]
                for i, of_all in enumerate(found):
                    assert_close(of_all, agrad.stack([outs[i] for outs in alone]), f"output {i}", 0.0)


@pytest.mark.parametrize("part", [agrad.real, agrad.imag])
def test_the_parts_of_a_complex_scalar_are_scalars(part: Any, place: Any) -> None:
    def f(c: Any) -> Any:
        z = c * (1.0 + 2.0j)
        view = agrad.reshape(part(z), (1,))
        view += 10.0
        return part(z)

    alone = agrad.stack([f(agrad.asarray(place(WEIGHTS))[i]) for i in range(3)])
    assert_close(agrad.vmap(f)(place(WEIGHTS)), alone, "value", 0.0)


def test_members_of_no_dimensions_inside_other_transforms(place: Any) -> None:
    def f(c: Any) -> Any:
        y = c + 0.5
        view = agrad.reshape(y, (1,))
        view *= view
        return agrad.sum(view) * y

    x = place(WEIGHTS)
    for of_one in (agrad.grad(f), lambda c: agrad.jvp(f, (c,), (c,))[1], lambda c: agrad.hvp(f, (c,), (c,))[0]):
        alone = agrad.stack([of_one(agrad.asarray(x)[i]) for i in range(3)])
        assert_close(agrad.vmap(of_one)(x), alone, "inside the map", 1e-12)
    total = agrad.grad(lambda x: agrad.sum(agrad.vmap(f)(x)))(x)
    assert_close(total, agrad.stack([agrad.grad(f)(agrad.asarray(x)[i]) for i in range(3)]), "around the map", 1e-12)


@pytest.mark.parametrize("constant", [agrad.round, lambda x: agrad.floor_divide(x, 0.75), agrad.ones_like])
def test_a_view_of_a_constant_result_has_the_derivative_of_a_write_to_it(constant: Any, place: Any) -> None:
    def f(c: Any) -> Any:
        y = constant(c)
        view = y[::2]
        view += c[:2]
        y[1:] *= c[1:]
        return agrad.sum(view * y[0]) + agrad.sum(agrad.sin(y))

    x = place(X + 0.125)
    alone = agrad.stack([agrad.grad(f)(x[i, ...]) for i in range(2)])
    assert_close(agrad.grad(lambda x: agrad.sum(agrad.vmap(f)(x)))(x), alone, "around the map", 1e-12)
    tangent = agrad.jvp(agrad.vmap(f), (x,), (x,))[1]
    assert_close(tangent, agrad.sum(alone * x, axis=1), "forward", 1e-12)


# ------------------------------------------------------------------ masks that differ from member to member

MASKED = np.asarray([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0], [7.0, 8.0, 9.0]])
BOUNDS = np.asarray([0.0, 4.5, 0.0])


def with_a_number(v: Any, c: Any) -> Any:
    v = v * 1.0
    v[v < c] = 7.0
    return v * v


def with_a_value_of_each(v: Any, c: Any) -> Any:
    v = v * 1.0
    v[v < c] = c * c
    return v * v


def in_a_view(v: Any, c: Any) -> Any:
    w = v * 1.0
    part = w[1:]
    part[part < c] = agrad.reshape(c * 2, (1,))
    return w * w


@pytest.mark.parametrize("f", [with_a_number, with_a_value_of_each, in_a_view], ids=lambda f: f.__name__)
def test_one_value_is_written_where_a_mask_of_each_member_says(f: Any, place: Any) -> None:
    v, c = place(MASKED), place(BOUNDS)

    def total(v: Any, c: Any) -> Any:
        return agrad.sum(f(v, c))

    def tangent(v: Any, c: Any) -> Any:
        return agrad.jvp(f, (v, c), (v, agrad.ones_like(c)))[1]

    slopes = agrad.grad(total, argnums=(0, 1))
    alone = [(agrad.asarray(v)[i, ...], agrad.asarray(c)[i, ...]) for i in range(3)]
    for i, expected in enumerate(zip(*[slopes(*member) for member in alone], strict=True)):
        assert_close(agrad.vmap(slopes)(v, c)[i], agrad.stack(list(expected)), f"gradient {i}", 0.0)
        around = agrad.grad(lambda v, c: agrad.sum(agrad.vmap(f)(v, c)), argnums=(0, 1))(v, c)
        assert_close(around[i], agrad.stack(list(expected)), f"gradient {i} around the map", 0.0)
    for function in (f, tangent):
        expected = agrad.stack([function(*member) for member in alone])
        assert_close(agrad.vmap(function)(v, c), expected, "members", 0.0)
        assert_close(agrad.jit(agrad.vmap(function))(v, c), expected, "jit", 0.0)


def test_several_values_where_a_mask_of_each_member_says_are_refused() -> None:
    def f(v: Any) -> Any:
        v = v * 1.0
        v[v > 4.5] = agrad.asarray([1.0, 2.0, 3.0])
        return v

    with pytest.raises(agrad.errors.TracedValueError, match=r"x\[mask\] = number"):
        agrad.vmap(f)(MASKED)


def test_a_view_of_a_product_without_axes_is_written_in_a_map(place: Any) -> None:
    """NumPy's ``tensordot`` gives an array of no dimensions and no scalar."""

    def program(x: Any) -> Any:
        product = agrad.tensordot(x, x, axes=1)
        row = agrad.reshape(product, (1, -1))
        product[...] = 5.0
        return row

    xs = np.asarray([[0.5, 1.0], [2.0, 3.0]])
    alone = np.stack([host(program(agrad.asarray(place(x)))) for x in xs])
    np.testing.assert_array_equal(host(agrad.vmap(program)(place(xs))), alone)
