"""Results of no dimensions, scalars in NumPy, and Python's numbers where arrays are usual."""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from modes import DERIVATIVES, check_same
from refusals import fails

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


# ------------------------------------------------------------------ augmented assignments and writes

Z = np.asarray([1 + 4j, 2 + 5j, 3 + 6j])
MAKE = {
    "sum": lambda z: agrad.sum(z * 1.0),
    "square": lambda z: agrad.square(agrad.sum(z)),
    "element": lambda z: (z * 1.0)[1],
}


RECORDED = [mode for mode in DERIVATIVES if mode != "value"] + ["jit of the gradient", "gradient of jit"]
"""Modes in which functions get Tensors."""


def accumulated(x: Any) -> Any:
    """Return a value that depends on the names of scalars that are not those of augmented assignments."""
    y = x * 1.0
    element, total = y[0], agrad.sum(y)
    first, before = element, total
    element += y[1]
    total *= element
    for e in y:
        e += 100.0
    loss = 0.0
    for term in (element, total):
        loss += term
    part = agrad.real(total)
    part -= 1.0
    return loss * first + before * y[0] * total


def test_an_augmented_assignment_to_a_scalar_renews_the_name(place: Any) -> None:
    """As in NumPy, other names of the scalar, the array of an element and the whole of a part keep their values."""

    def expected(x: Any) -> Any:
        element = x[0] + x[1]
        total = agrad.sum(x) * element
        return (element + total) * x[0] + agrad.sum(x) * x[0] * total

    x = place(np.asarray([0.5, -1.5, 2.0]))
    assert_close(expected(x), np.asarray(accumulated(np.asarray([0.5, -1.5, 2.0]))), "value", 1e-12)
    modes = (*RECORDED, "vmap of the gradient")
    check_same(accumulated, expected, (x,), modes, 1e-12)


def test_under_no_grad_the_new_scalar_keeps_the_derivative(place: Any) -> None:
    def program(x: Any) -> Any:
        s = kept = agrad.sum(x * x)
        with agrad.no_grad():
            s *= 3.0
            silent = agrad.asarray(kept)
            silent += x[0]
        return s * kept * x[1] + silent

    def expected(x: Any) -> Any:
        s = agrad.sum(agrad.asarray(x) * x)
        return (s + 2.0 * s.detach()) * s * x[1] + s + agrad.asarray(x)[0].detach()

    check_same(program, expected, (place(np.asarray([0.5, -1.5, 2.0])),), RECORDED, 1e-12)


def test_a_recorded_scalar_is_an_argument_of_jit_and_a_checkpoint(place: Any) -> None:
    x = agrad.asarray(place(np.asarray([0.5, -1.5])), requires_grad=True)

    def f(s: Any) -> Any:
        old = s
        s *= s
        return s - old

    for run in (f, agrad.jit(f), agrad.checkpoint(f), agrad.jit(agrad.checkpoint(f))):
        s = agrad.sum(x)
        assert_close(run(s), np.asarray(2.0), "value", 0.0)
        (slope,) = agrad.grad(lambda x, run=run: run(agrad.sum(x)), argnums=(0,))(x.detach())
        assert_close(slope, np.asarray([-3.0, -3.0]), "gradient", 0.0)
        array = agrad.asarray(place(np.asarray(3.0)))
        assert_close(run(array), np.asarray(0.0), "an array of no axes", 0.0)
        assert_close(array, np.asarray(9.0), "the argument", 0.0)


def test_an_array_of_no_axes_is_written(place: Any) -> None:
    def kept(x: Any) -> Any:
        made, y = agrad.zeros((), dtype=agrad.float64), agrad.reshape(x * 1.0, (3,))
        alias, view = made, agrad.reshape(y[:1], ())
        made += y[1]
        view *= 3.0
        return alias * y[0]

    def given(a: Any, x: Any) -> Any:
        alias = a
        a += x[0]
        agrad.reshape(a, (1,))[0] *= 2.0
        return alias * x[1]

    x = place(np.asarray([0.5, -1.5, 2.0]))
    check_same(kept, lambda x: 3.0 * x[1] * x[0], (x,), RECORDED, 1e-12)
    check_same(given, lambda a, x: 2.0 * (a + x[0]) * x[1], (place(np.asarray(4.0)), x), RECORDED[:-2], 1e-12)
    check_same(lambda x: given(4.0, x), lambda x: 4.0 * x[1], (x,), RECORDED, 1e-12)


def test_a_scalar_may_change_its_dtype_and_shape(place: Any) -> None:
    n = agrad.sum(agrad.asarray(place(np.asarray([1.0, 2.0], np.float32))))
    n += agrad.asarray(place(np.asarray([0.5, 1.5])))
    assert_close(n, np.asarray([3.5, 4.5]), "a sum and an array")
    assert n.dtype == agrad.float64


@pytest.mark.parametrize("made", MAKE)
def test_a_part_of_a_scalar_is_a_scalar(made: str, place: Any) -> None:
    def program(z: Any) -> Any:
        s = MAKE[made](z)
        other, view = s.imag, np.real(s)
        agrad.imag(s)[...] = 2.0 * s.real
        view += 1.0
        return s, other

    start = host(MAKE[made](agrad.asarray(place(Z))))
    for run in (program, agrad.jit(program)):
        s, other = run(agrad.asarray(place(Z)))
        assert complex(host(s)) == complex(start)
        assert float(host(other)) == float(start.imag)
    together = agrad.vmap(lambda z: program(z)[0])(place(np.stack([Z, 2 * Z])))
    alone = [complex(host(program(agrad.asarray(place(z)))[0])) for z in (Z, 2 * Z)]
    assert_close(together, np.asarray(alone), "a map", 0.0)


@pytest.mark.parametrize("made", ["sum", "element", "array"])
def test_what_numpy_gives_for_reading_alone(made: str) -> None:
    make = MAKE.get(made, lambda t: t * 1.0)
    parts = (lambda s: s.imag, agrad.imag, np.imag) if made == "array" else ()
    for read_only in (
        *parts,
        lambda s: agrad.broadcast_to(s, s.shape),
        lambda s: agrad.broadcast_to(s, (2, *s.shape)),
        lambda s: agrad.broadcast_to(s, (2, *s.shape))[0, ...],
    ):
        s = make(agrad.asarray(np.asarray([1.0, 2.0, 3.0])))
        before = host(s).copy()
        refusal = "read-only one. Write to a copy|Cast the array to a complex dtype"
        fails(ReadOnlyViewError, refusal, read_only(s).__setitem__, ..., 2.0)
        assert_close(s, before, "a refused write", 0.0)


def test_an_array_of_a_scalar_has_views() -> None:
    s = agrad.asarray(np.float64(5.0))
    agrad.reshape(s, (1,))[0] = 2.0
    assert float(s) == 2.0
    s[None][0] = 3.0
    assert float(s) == 3.0


def test_scalars_beside_arrays(backend: str) -> None:
    x = agrad.asarray([0.5, -1.5, 2.0], dtype=agrad.float64)
    check_grads(lambda x: agrad.where(x > 0, x[1], x[0] * x), (x,))
    y = agrad.astype(x, agrad.float32)
    assert (y[0] * y).dtype == agrad.float32
    assert (x[0] * y).dtype == agrad.float64


# ---------------------------------------------------------------- Python's own values


# ------------------------------------------------------------------ numbers

POINT, ALONG = 1.0 + 2.0j, 0.5 - 1.0j


def size_of(z: Any) -> Any:
    return agrad.real(z * agrad.conj(z))


def test_python_complex_numbers_are_differentiated(backend: str) -> None:
    assert_close(agrad.grad(size_of)(POINT), np.asarray(2 * POINT.conjugate()), "grad", 1e-12)
    value, slope = agrad.value_and_grad(size_of)(POINT)
    assert_close(value, np.asarray(5.0), "value", 1e-12)
    assert_close(slope, np.asarray(2 * POINT.conjugate()), "value_and_grad", 1e-12)
    assert_close(agrad.grad(lambda z: z * z, holomorphic=True)(POINT), np.asarray(2 * POINT), "holomorphic", 1e-12)
    assert_close(agrad.grad(lambda z: 2j, holomorphic=True)(POINT), np.asarray(0j), "a constant", 0.0)
    cos = np.cos(np.asarray(POINT))
    assert_close(agrad.vjp(agrad.sin, POINT)[1](ALONG)[0], cos * ALONG, "vjp", 1e-12)
    assert_close(agrad.vjp(agrad.sin, POINT)[1](2.0)[0], cos * 2.0, "a float for a complex cotangent", 1e-12)
    assert_close(agrad.jvp(agrad.sin, (POINT,), (ALONG,))[1], cos * ALONG, "jvp", 1e-12)
    assert_close(agrad.jvp(agrad.sin, (POINT,), (2.0,))[1], cos * 2.0, "a float for a complex tangent", 1e-12)
    assert agrad.jvp(lambda z: 2j, (POINT,), (ALONG,)) == (2j, 0j)
    assert_close(agrad.linearize(agrad.sin, POINT)[1](ALONG), cos * ALONG, "linearize", 1e-12)
    assert_close(agrad.jacobian(agrad.sin, holomorphic=True)(POINT), cos, "jacobian", 1e-12)
    assert_close(agrad.hvp(size_of, (POINT,), (ALONG,))[0], np.asarray(2 * ALONG.conjugate()), "hvp", 1e-12)
    assert_close(agrad.jit(agrad.grad(size_of))(POINT), np.asarray(2 * POINT.conjugate()), "jit", 1e-12)
    pulled = agrad.jit(lambda z, g: agrad.vjp(agrad.sin, z)[1](g)[0])
    for w in (ALONG, ALONG + 1.0):
        assert_close(pulled(POINT, w), cos * w, "a cotangent of jit", 1e-12)


def test_python_floats_are_cotangents(backend: str) -> None:
    assert_close(agrad.vjp(np.sin, 1.0)[1](2.0)[0], np.asarray(2.0 * np.cos(1.0)), "vjp", 1e-12)
    x = agrad.asarray(1.0, requires_grad=True, dtype=agrad.float64)
    agrad.sin(x).backward(2.0)
    assert_close(x.grad, np.asarray(2.0 * np.cos(1.0)), "backward", 1e-12)
    x = agrad.asarray(1.0, dtype=agrad.float32)
    assert agrad.vjp(agrad.sin, x)[1](2.0)[0].dtype == agrad.float32


def test_python_complex_numbers_elsewhere(backend: str) -> None:
    agrad.testing.check_grads(size_of, (POINT,))
    _, ys = agrad.scan(lambda c, _: (c * POINT, c), POINT, length=2)
    assert_close(ys, np.asarray([POINT, POINT * POINT]), "scan", 1e-12)
    assert agrad.graph(agrad.grad(size_of))(POINT).rows
    root = agrad.root(lambda z: z * z - ALONG, POINT)
    assert_close(root * root, np.asarray(ALONG), "root", 1e-6)


def test_numbers_lie_on_the_device_of_the_array_they_are_of(backend: str, place: Any) -> None:
    z = agrad.asarray(place(np.asarray(1.0)))
    (slope,) = agrad.vjp(agrad.sin, z)[1](1.0)
    assert slope.device == z.device
