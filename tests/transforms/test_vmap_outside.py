"""Members of a map written into Tensors from outside of it: refused, and nothing is changed."""

from typing import Any

import numpy as np
import pytest
from checker import assert_close, host

import agrad
from agrad.errors import TracedValueError

X = np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
HELD = np.asarray([0.5, 0.25, 0.125])


def whole(buffer: Any, x: Any) -> Any:
    buffer[...] = x
    return x


def part(buffer: Any, x: Any) -> Any:
    buffer[0] = x[1]
    return buffer


def added(buffer: Any, x: Any) -> Any:
    buffer += x
    return buffer * 1.0


def with_a_slope(buffer: Any, x: Any) -> Any:
    def loss(x: Any) -> Any:
        buffer[...] = x * x
        return agrad.sum(x)

    return agrad.grad(loss)(x)


def then_an_error(buffer: Any, x: Any) -> Any:
    buffer[...] = x
    raise TracedValueError("Tensor from outside of vmap")


def of_two_maps(buffer: Any, x: Any) -> Any:
    return agrad.vmap(lambda y: part(buffer, agrad.stack([y, y])))(x)


WAYS = [whole, part, added, with_a_slope, then_an_error, of_two_maps]


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("write", WAYS, ids=lambda write: write.__name__)
def test_a_write_to_a_tensor_from_outside(write: Any, jitted: bool, place: Any) -> None:
    buffer = agrad.asarray(place(HELD))
    f = agrad.vmap(lambda x: write(buffer, x))
    with pytest.raises(TracedValueError, match="Tensor from outside of vmap"):
        (agrad.jit(f) if jitted else f)(place(X))
    assert type(buffer) is agrad.Tensor
    assert_close(buffer, HELD, "the Tensor", 0.0)
    with agrad.no_grad():
        buffer[...] = 2.0
    assert_close(buffer + 1.0, np.full(3, 3.0), "the Tensor after another write", 0.0)


def test_a_write_through_a_view() -> None:
    buffer = agrad.asarray(HELD)

    def f(x: Any) -> Any:
        view = agrad.reshape(buffer, (3, 1))
        view[...] = agrad.reshape(x, (3, 1))
        return x

    rows = buffer[1:]
    with pytest.raises(TracedValueError, match="Tensor from outside of vmap"):
        agrad.vmap(f)(X)
    assert_close(buffer, HELD, "the Tensor", 0.0)
    assert_close(rows, HELD[1:], "a view of it", 0.0)
    rows[0] = 4.0
    assert_close(buffer, np.asarray([0.5, 4.0, 0.125]), "the Tensor after a write to its view", 0.0)


def test_a_tensor_of_the_outer_map(place: Any) -> None:
    """A Tensor that the inner map finds outside of itself is refused, though it was made inside of the outer one."""

    def outer(x: Any) -> Any:
        made = x * 2.0
        agrad.vmap(lambda y: made.__setitem__(0, y))(x)
        return made

    with pytest.raises(TracedValueError, match=r"dtype float64 and shape \(3,\)"):
        agrad.vmap(outer)(place(X))


def test_what_all_members_share_may_be_written(place: Any) -> None:
    buffer = agrad.asarray(place(HELD))

    def f(x: Any) -> Any:
        buffer[0] = 9.0
        return buffer * x

    assert_close(agrad.vmap(f)(place(X)), np.asarray([9.0, 0.25, 0.125]) * X, "value", 0.0)
    assert host(buffer)[0] == 9.0


def test_tensors_made_inside_and_in_cycles(place: Any) -> None:
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


def test_a_shared_argument_is_new_in_each_chunk(place: Any) -> None:
    def f(x: Any, shared: Any) -> Any:
        shared += x
        return shared * 1.0

    found = agrad.vmap(f, in_axes=(0, None), chunk_size=1)(place(X), place(HELD))
    assert_close(found, X + HELD, "value", 0.0)
