"""What forward mode calls: an operation that is linear in all its arguments takes their tangents in one call."""

from typing import Any

import numpy as np
import pytest
from modes import check_same

import agrad


@pytest.fixture
def calls() -> Any:
    """A function of two arguments, linear in both at once, and what it was called with."""
    seen: list[tuple[Any, ...]] = []

    @agrad.primitive(broadcasts=True, jointly=True, batch="leading")
    def lean(xp: Any, x1: Any, x2: Any, /, *, scale: float) -> Any:
        seen.append((np.asarray(x1).copy(), np.asarray(x2).copy()))
        return x1 - scale * x2

    @lean.vjp("x1")
    @lean.jvp("x1")
    def lean_first(g: Any) -> Any:
        return g

    @lean.vjp("x2")
    @lean.jvp("x2")
    def lean_second(g: Any, *, scale: float) -> Any:
        return -scale * g

    return lean, seen


def test_tangents_of_all_arguments_are_one_call(calls: Any) -> None:
    lean, seen = calls
    x, y, s, t = (np.asarray(v) for v in ([1.0, 2.0], [[3.0], [4.0]], [5.0, 6.0], [[7.0], [8.0]]))
    value, slope = agrad.jvp(lambda x, y: lean(x, y, scale=3.0), (x, y), (s, t))
    np.testing.assert_array_equal(value, x - 3 * y)
    np.testing.assert_array_equal(slope, s - 3 * t)
    assert len(seen) == 2  # the value and its tangent
    np.testing.assert_array_equal(seen[1][0], s)
    np.testing.assert_array_equal(seen[1][1], t)


def test_the_tangent_of_one_argument_takes_its_rule(calls: Any) -> None:
    lean, seen = calls
    x, t = np.asarray([1.0, 2.0]), np.asarray([5.0, 6.0])
    for f, expected in ((lambda v: lean(x, v, scale=3.0), -3 * t), (lambda v: lean(v, 1.0, scale=3.0), t)):
        seen.clear()
        np.testing.assert_array_equal(agrad.jvp(f, (x,), (t,))[1], expected)
        assert len(seen) == 1


def test_it_holds_in_every_mode(calls: Any) -> None:
    lean, _ = calls
    xs = np.asarray([1.0, 2.0, 0.5]), np.asarray([0.3, -1.0, 2.0])
    check_same(lambda x, y: lean(x**2, y**3, scale=2.0), lambda x, y: x**2 - 2.0 * y**3, xs)


def test_a_square_is_differentiated_without_a_first_power() -> None:
    x = np.asarray([1.5, -2.0, 0.0])
    with agrad.profile() as found:
        hessian = agrad.hessian(lambda x: agrad.sum(x**2))(x)
    np.testing.assert_array_equal(hessian, 2 * np.eye(3))
    assert sum(line.calls for line in found.rows() if (line.operation, line.direction) == ("pow", "forward")) == 1
