"""Results of no dimensions: NumPy's are scalars, of which only the real and the imaginary part are views."""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from leaves import WITH_VIEWS

import agrad
from agrad.errors import ReadOnlyViewError
from agrad.registry import PRIMITIVES
from agrad.testing import check_grads

VALUES: dict[str, list[Any]] = {
    "float64": [0.5, 0.0, 1e-310, np.inf],
    "float32": [0.5, 0.0],
    "float16": [0.5, 0.0],
    "complex128": [0.5 + 0.25j, 0.0, complex(np.inf, 1)],
    "int64": [1, 0],
    "bool": [True],
}
"""Points at some of which a function takes another way, so that the result might be of another type."""

ELEMENTWISE = {
    section + name: (getattr(place, name), primitive)
    for section, place in (("", agrad), ("special.", agrad.special))
    for name in dir(place)
    if (primitive := PRIMITIVES.get(section + name, PRIMITIVES.get(name))) is not None and primitive.elementwise
}


def results(function: Any, primitive: Any, given: Any) -> Iterator[Any]:
    """What a function gives of points of each dtype that it takes, which ``given`` makes operands of."""
    call = partial(primitive.bind, n=1) if "n" in primitive.settings else function
    for dtype, values in VALUES.items():
        for points in itertools.product(values, repeat=min(len(primitive.arrays), 2)):
            operands = [given(np.asarray(v, dtype)) for v in (*points, *points)][: len(primitive.arrays)]
            with np.errstate(all="ignore"):
                try:
                    yield call(*operands)
                except (TypeError, ValueError, ArithmeticError):  # not of this dtype
                    continue


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_functions_give_what_numpys_do(name: str) -> None:
    scalars = list(results(*ELEMENTWISE[name], lambda x: x[()]))
    arrays = list(results(*ELEMENTWISE[name], lambda x: x))
    assert len(arrays) == len(scalars) > 0
    assert {type(y) for y in scalars if not isinstance(y, np.generic)} == set()
    # the parts of an array are views of it
    assert all(isinstance(y, np.ndarray if name in ("real", "imag") else np.generic) for y in arrays)


PRODUCTS = {
    "matmul": lambda xp, x: xp.matmul(x, x),
    "operator": lambda xp, x: x @ x,
    "numpy.inner": lambda xp, x: np.inner(x, x),
    "numpy.dot": lambda xp, x: np.dot(x, x),
    "numpy.vdot": lambda xp, x: np.vdot(x, x),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_vectors_are_scalars(name: str) -> None:
    def program(xp: Any, x: Any) -> Any:
        y = PRODUCTS[name](xp, x)
        y.reshape(-1)[...] = 2.0
        return y

    x = np.asarray([0.5, 2.0])
    assert float(program(np, x)) == 4.25
    assert isinstance(agrad.matmul(x, x), np.float64)
    assert float(program(agrad, agrad.asarray(x))) == 4.25
    assert_close(agrad.grad(lambda x: program(agrad, x * 1.0))(x), 2 * x, "gradient", 1e-15)
    assert_close(agrad.hessian(lambda x: program(agrad, x * 1.0))(x), 2 * np.eye(2), "Hessian", 1e-15)


# ------------------------------------------------------------------ writes to parts

Z = np.asarray([1 + 4j, 2 + 5j, 3 + 6j])
MAKE = {
    "sum": lambda z: agrad.sum(z * 1.0),
    "square": lambda z: agrad.square(agrad.sum(z)),
    "element": lambda z: (z * 1.0)[1],
}
PARTS = {
    "property": (lambda s: s.real, lambda s: s.imag),
    "function": (agrad.real, agrad.imag),
    "numpy": (np.real, np.imag),
}


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("made", MAKE)
def test_a_write_to_a_part_of_a_scalar_is_seen(made: str, parts: str, backend: str, place: Any) -> None:
    real, imag = PARTS[parts]

    def program(z: Any) -> Any:
        s = MAKE[made](z)
        old_real, other = real(s), imag(s)
        imag(s)[...] = 2.0 * old_real
        view = real(s)
        view += 1.0
        return s, other

    s, other = program(agrad.asarray(place(Z)))
    start = complex(host(MAKE[made](agrad.asarray(place(Z)))))
    sees = backend in WITH_VIEWS
    assert complex(host(s)) == (complex(start.real + 1, 2 * start.real) if sees else start)
    assert float(host(other)) == (2 * start.real if sees else start.imag)
    if sees:
        traced, _ = agrad.jit(program)(agrad.asarray(place(Z)))
        assert complex(host(traced)) == complex(host(s))
        together = agrad.vmap(lambda z: program(z)[0])(place(np.stack([Z, 2 * Z])))
        alone = [complex(host(program(agrad.asarray(place(z)))[0])) for z in (Z, 2 * Z)]
        assert_close(together, np.asarray(alone), "a map", 0.0)


def test_the_derivative_of_a_written_part(place: Any, backend: str) -> None:
    def f(z: Any) -> Any:
        s = agrad.sum(z * 1.0)
        s.imag[...] = s.real * s.real
        return agrad.real(s) + agrad.imag(s)

    # elsewhere there are no views, and the sum stays as it was
    expected = 1 + 2 * 6.0 if backend in WITH_VIEWS else 1 - 1j
    assert_close(agrad.grad(f)(place(Z)), np.full(3, expected, complex), "gradient", 1e-15)
    tangents = np.asarray([0.0, 1.0, 0.0j])
    assert_close(agrad.jvp(f, (place(Z),), (place(tangents),))[1], np.real(expected), "tangent", 1e-15)


@pytest.mark.parametrize("made", ["sum", "element", "array"])
def test_what_numpy_gives_for_reading_alone(made: str) -> None:
    make = MAKE.get(made, lambda t: t * 1.0)
    for read_only in (
        lambda s: s.imag,
        agrad.imag,
        np.imag,
        lambda s: agrad.broadcast_to(s, s.shape),
        lambda s: agrad.broadcast_to(s, (2, *s.shape)),
        lambda s: agrad.broadcast_to(s, (2, *s.shape))[0, ...],
    ):
        s = make(agrad.asarray(np.asarray([1.0, 2.0, 3.0])))
        before = host(s).copy()
        with pytest.raises(
            ReadOnlyViewError, match=r"read-only one. Write to a copy|Cast the array to a complex dtype"
        ):
            read_only(s)[...] = 2.0
        assert_close(s, before, "a refused write", 0.0)


def test_an_array_of_a_scalar_has_views() -> None:
    s = agrad.asarray(np.float64(5.0))
    agrad.reshape(s, (1,))[0] = 2.0
    assert float(s) == 2.0
    s[None][0] = 3.0
    assert float(s) == 3.0


def test_scalars_beside_arrays(backend: str) -> None:
    x = agrad.asarray([0.5, -1.5, 2.0], dtype=agrad.float64)
    check_grads(lambda x: x[0] * x - x / x[2], (x,))
    check_grads(lambda x: agrad.where(x > 0, x[1], x * x), (x,))
    y = agrad.astype(x, agrad.float32)
    assert (y[0] * y).dtype == agrad.float32
    assert (x[0] * y).dtype == agrad.float64
