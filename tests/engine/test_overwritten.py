"""Elements that a write overwrites: no NaN or infinity of theirs comes through a derivative, as behind `where`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host

import agrad

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

VALUES = np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
MASK = np.asarray([[True, False, True], [False, True, False]])
ROWS = np.asarray([False, True])

Place = Callable[[np.ndarray], Any]

INDICES: dict[str, Callable[[Place], Any]] = {
    "mask": lambda place: place(MASK),
    "mask of rows": lambda place: place(ROWS),
    "mask behind an axis": lambda place: (0, place(np.asarray([True, False, True]))),
    "integers": lambda place: (place(np.asarray([0, 1])), place(np.asarray([2, 0]))),
    "an integer twice": lambda place: (0, place(np.asarray([1, 1]))),
    "a list": lambda place: [1],
    "int": lambda place: 1,
    "element": lambda place: (1, 2),
    "slice": lambda place: (slice(None), slice(1, None)),
    "strided": lambda place: (slice(None), slice(None, None, 2)),
    "ellipsis": lambda place: ...,
    "new axis": lambda place: (None, 1),
}


def steep(x: Any) -> Any:
    """Infinite or NaN, as are its derivatives, where x is 0."""
    return agrad.log(x) * agrad.sqrt(x)


def written(x: Any, index: Any) -> Any:
    y = steep(x)
    y[index] = (3.0 * x * x + x)[index]
    return y


def written_to_a_view(x: Any, index: Any) -> Any:
    y = agrad.reshape(steep(x), (6,))
    agrad.reshape(y, (2, 3))[index] = (3.0 * x * x + x)[index]
    return agrad.reshape(y, (2, 3))


def expected(x: Any, mask: Any) -> Any:
    return agrad.where(mask, 3.0 * x * x + x, steep(x))


BY_A_VIEW = ("mask", "element", "slice")
CASES = [(written, name) for name in INDICES] + [(written_to_a_view, name) for name in BY_A_VIEW]


@pytest.mark.parametrize(("program", "name"), CASES, ids=[f"{program.__name__}-{name}" for program, name in CASES])
def test_overwritten_elements_have_the_cotangent_zero(name: str, program: Any, place: Any, backend: str) -> None:
    index = INDICES[name](lambda array: agrad.asarray(place(array)))
    at = np.zeros((2, 3), dtype=bool)
    at[INDICES[name](np.asarray)] = True
    mask, x = agrad.asarray(place(at)), agrad.asarray(place(np.where(at, 0.0, VALUES)))
    t = agrad.asarray(place(VALUES))
    if program is written_to_a_view and backend in ("jax", "dask"):
        program = written  # there are no views

    def f(x: Any) -> Any:
        return agrad.sum(program(x, index) * t)

    def g(x: Any) -> Any:
        return agrad.sum(expected(x, mask) * t)

    slope = agrad.grad(g)(x)
    assert np.isfinite(host(slope)).all()
    assert_close(agrad.grad(f)(x), slope, "reverse", 1e-12)
    if "mask" not in name:  # the shape of what a mask picks is not known in a trace
        assert_close(agrad.jit(agrad.grad(f))(x), slope, "jit", 1e-12)
    assert_close(agrad.jvp(f, (x,), (t,))[1], agrad.sum(slope * t), "forward", 1e-12)
    both = agrad.stack([x, x])
    assert_close(agrad.vmap(agrad.grad(f))(both), agrad.stack([slope, slope]), "vmap of reverse", 1e-12)
    all_of_it = agrad.grad(lambda xs: agrad.sum(agrad.vmap(f)(xs)))(both)
    assert_close(all_of_it, agrad.stack([slope, slope]), "reverse of vmap", 1e-12)
    twice = agrad.hvp(g, (x,), (t,))[0]
    assert np.isfinite(host(twice)).all()
    assert_close(agrad.hvp(f, (x,), (t,))[0], twice, "second order", 1e-12)
    back = agrad.grad(lambda x: agrad.sum(agrad.grad(f)(x) * t))(x)
    assert_close(back, twice, "reverse over reverse", 1e-12)


@pytest.mark.parametrize("name", INDICES)
def test_overwritten_by_a_number(name: str, place: Any) -> None:
    index = INDICES[name](lambda array: agrad.asarray(place(array)))
    at = np.zeros((2, 3), dtype=bool)
    at[INDICES[name](np.asarray)] = True
    x = place(np.where(at, 0.0, VALUES))

    def f(x: Any) -> Any:
        y = steep(x)
        y[index] = 2.0
        return agrad.sum(y)

    expected = np.where(at, 0.0, (1.0 + np.log(VALUES) / 2.0) / np.sqrt(VALUES))
    assert_close(agrad.grad(f)(x), expected, "gradient", 1e-12)
    assert_close(agrad.jit(agrad.grad(f))(x), expected, "jit", 1e-12)
    assert_close(agrad.grad(agrad.jit(f))(x), expected, "of jit", 1e-12)


def test_what_stands_at_the_index_before_may_be_nan(place: Any) -> None:
    x = place(np.asarray([1.0]))

    def f(x: Any) -> Any:
        y = (x / 0.0 - 1.0) ** 2 * 0.0
        y[agrad.asarray(place(np.asarray([True])))] = (3.0 * x)[place(np.asarray([True]))]
        return agrad.sum(y)

    assert_close(agrad.grad(f)(x), np.asarray([3.0]), "gradient", 0.0)


def test_a_part_is_changed_by_an_operator(place: Any) -> None:
    x = place(np.asarray([0.0, 4.0, 0.0, 9.0]))
    kept = place(np.asarray([False, True, False, True]))

    def f(x: Any) -> Any:
        y = 2.0 * x
        y[kept] *= agrad.sqrt(x)[kept]
        return agrad.sum(y)

    assert_close(agrad.grad(f)(x), np.asarray([2.0, 6.0, 2.0, 9.0]), "gradient", 1e-12)


def test_a_value_written_over_by_another_gets_no_cotangent(place: Any) -> None:
    at = place(np.asarray([1, 1]))

    def f(v: Any, scale: float) -> Any:
        x = agrad.asarray(place(np.zeros(3)))
        x[at] = v
        return agrad.sum(x / scale)

    found = host(agrad.grad(lambda v: f(v, 0.0))(place(np.asarray([1.0, 2.0]))))
    assert sorted(found) == [0.0, np.inf]
