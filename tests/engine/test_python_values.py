"""Python's own values where arrays are usual: numbers that are differentiated, sequences that index, 0-d results."""

from typing import Any

import numpy as np
from checker import assert_close

import agrad

X = np.arange(12.0).reshape(3, 4)


# ------------------------------------------------------------------ numbers

Z, W = 1.0 + 2.0j, 0.5 - 1.0j


def size_of(z: Any) -> Any:
    return agrad.real(z * agrad.conj(z))


def test_python_complex_numbers_are_differentiated(backend: str) -> None:
    assert_close(agrad.grad(size_of)(Z), np.asarray(2 * Z.conjugate()), "grad", 1e-12)
    value, slope = agrad.value_and_grad(size_of)(Z)
    assert_close(value, np.asarray(5.0), "value", 1e-12)
    assert_close(slope, np.asarray(2 * Z.conjugate()), "value_and_grad", 1e-12)
    assert_close(agrad.grad(lambda z: z * z, holomorphic=True)(Z), np.asarray(2 * Z), "holomorphic", 1e-12)
    assert_close(agrad.grad(lambda z: 2j, holomorphic=True)(Z), np.asarray(0j), "a constant", 0.0)
    cos = np.cos(np.asarray(Z))
    assert_close(agrad.vjp(agrad.sin, Z)[1](W)[0], cos * W, "vjp", 1e-12)
    assert_close(agrad.vjp(agrad.sin, Z)[1](2.0)[0], cos * 2.0, "a float for a complex cotangent", 1e-12)
    assert_close(agrad.jvp(agrad.sin, (Z,), (W,))[1], cos * W, "jvp", 1e-12)
    assert_close(agrad.jvp(agrad.sin, (Z,), (2.0,))[1], cos * 2.0, "a float for a complex tangent", 1e-12)
    assert agrad.jvp(lambda z: 2j, (Z,), (W,)) == (2j, 0j)
    assert_close(agrad.linearize(agrad.sin, Z)[1](W), cos * W, "linearize", 1e-12)
    assert_close(agrad.jacobian(agrad.sin, holomorphic=True)(Z), cos, "jacobian", 1e-12)
    assert_close(agrad.hvp(size_of, (Z,), (W,))[0], np.asarray(2 * W.conjugate()), "hvp", 1e-12)
    assert_close(agrad.jit(agrad.grad(size_of))(Z), np.asarray(2 * Z.conjugate()), "jit", 1e-12)
    pulled = agrad.jit(lambda z, g: agrad.vjp(agrad.sin, z)[1](g)[0])
    for w in (W, W + 1.0):
        assert_close(pulled(Z, w), cos * w, "a cotangent of jit", 1e-12)


def test_python_floats_are_cotangents(backend: str) -> None:
    assert_close(agrad.vjp(np.sin, 1.0)[1](2.0)[0], np.asarray(2.0 * np.cos(1.0)), "vjp", 1e-12)
    x = agrad.asarray(1.0, requires_grad=True, dtype=agrad.float64)
    agrad.sin(x).backward(2.0)
    assert_close(x.grad, np.asarray(2.0 * np.cos(1.0)), "backward", 1e-12)
    x = agrad.asarray(1.0, dtype=agrad.float32)
    assert agrad.vjp(agrad.sin, x)[1](2.0)[0].dtype == agrad.float32


def test_python_complex_numbers_elsewhere(backend: str) -> None:
    agrad.testing.check_grads(size_of, (Z,))
    _, ys = agrad.scan(lambda c, _: (c * Z, c), Z, length=2)
    assert_close(ys, np.asarray([Z, Z * Z]), "scan", 1e-12)
    assert agrad.graph(agrad.grad(size_of))(Z).rows
    root = agrad.root(lambda z: z * z - W, Z)
    assert_close(root * root, np.asarray(W), "root", 1e-6)


def test_numbers_lie_on_the_device_of_the_array_they_are_of(backend: str, place: Any) -> None:
    z = agrad.asarray(place(np.asarray(1.0)))
    (slope,) = agrad.vjp(agrad.sin, z)[1](1.0)
    assert slope.device == z.device
