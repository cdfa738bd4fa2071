"""Arrays that ``agrad.scipy`` creates: where they are, and writes of them into arrays of ``agrad.numpy``."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from refusals import Refusal, refuses

import agrad
import agrad.numpy as anp
from agrad.errors import ConfigurationError, ShapeError
from agrad.scipy import fft, linalg, signal

CREATED: list[tuple[str, str, Callable[..., Any]]] = [
    ("hadamard", "linalg", lambda m: m.hadamard(8, float)),
    ("hadamard integers", "linalg", lambda m: m.hadamard(1)),
    ("hilbert", "linalg", lambda m: m.hilbert(4)),
    ("pascal", "linalg", lambda m: m.pascal(6)),
    ("pascal lower", "linalg", lambda m: m.pascal(4, "lower")),
    ("pascal upper", "linalg", lambda m: m.pascal(40, "upper", exact=False)),
    ("pascal empty", "linalg", lambda m: m.pascal(0)),
    ("toeplitz", "linalg", lambda m: m.toeplitz([1.0, 2.0, 3.0], [1.0, 5.0])),
    ("block_diag", "linalg", lambda m: m.block_diag([[1.0, 2.0]], [[3.0]])),
    ("fftfreq", "fft", lambda m: m.fftfreq(5, 0.1)),
    ("rfftfreq", "fft", lambda m: m.rfftfreq(6)),
    ("fftshift", "fft", lambda m: m.fftshift([1, 2, 3])),
    ("hann", "signal", lambda m: m.windows.hann(5)),
    ("tukey", "signal", lambda m: m.windows.tukey(5, 0.3, sym=False)),
    ("get_window", "signal", lambda m: m.get_window(("kaiser", 2.0), 5)),
    ("savgol_coeffs", "signal", lambda m: m.savgol_coeffs(5, 2)),
    ("gammaln", "special", lambda m: m.gammaln([0.5, 3.0])),
    ("logpdf", "stats", lambda m: m.norm.logpdf([0.5, 3.0], 1, 2.0)),
]
CASES = pytest.mark.parametrize(("name", "module", "f"), CREATED, ids=[name for name, _, _ in CREATED])


def ours(module: str, f: Callable[..., Any]) -> Any:
    return f(importlib.import_module(f"agrad.scipy.{module}"))


@pytest.mark.needs("scipy")
@CASES
def test_values_and_the_selected_backend(name: str, module: str, f: Callable[..., Any], backend: str) -> None:
    found, expected = ours(module, f), f(pytest.importorskip(f"scipy.{module}"))
    assert found.backend == backend and found.shape == expected.shape, name
    np.testing.assert_allclose(host(found), np.asarray(expected, float), rtol=1e-12, atol=1e-15)


@CASES
def test_in_a_transform_they_are_beside_its_arguments(
    name: str, module: str, f: Callable[..., Any], place: Any, backend: str
) -> None:
    places = []

    def loss(x: Any) -> Any:
        made = ours(module, f)
        places.append(made.backend)
        return agrad.sum(x) + agrad.astype(agrad.sum(made), agrad.float64) * x[0]

    x = place(np.asarray([1.0, 2.0]))
    with agrad.use_backend("numpy"):
        slope, total = agrad.grad(loss)(x), host(agrad.sum(ours(module, f)))
        agrad.jvp(loss, (x,), (x,))
    assert set(places) == {backend}
    assert_close(slope, np.asarray([1.0 + total, 1.0]), name)


@pytest.mark.parametrize("make", [lambda t: linalg.toeplitz([1.0, 2.0]), lambda t: linalg.toeplitz(t)])
def test_written_into_zeros(make: Callable[..., Any], place: Any) -> None:
    def f(t: Any) -> Any:
        out = anp.zeros((3, 3))
        out[1:, 1:] = make(t) * t[0]
        out[0, 0] = t[1]
        return anp.sum(out * out)

    t = place(np.asarray([1.5, -0.5]))
    with agrad.use_backend("numpy"):
        expected = agrad.grad(f)(np.asarray([1.5, -0.5]))
        for slope in (agrad.grad(f)(t), agrad.jit(agrad.grad(f))(t), agrad.vmap(agrad.grad(f))(t[None, :])[0, :]):
            assert_close(slope, expected, "written")
        tangent = agrad.jvp(f, (t,), (place(np.asarray([1.0, 0.0])),))[1]
        assert_close(tangent, np.asarray(expected[0]), "tangent")


@pytest.mark.needs("scipy")
def test_fast_lengths_are_those_of_scipy() -> None:
    theirs = pytest.importorskip("scipy.fft")
    for n in (*range(1, 300), 4097, 10007):
        for real in (False, True):
            assert fft.next_fast_len(n, real) == theirs.next_fast_len(n, real)


REFUSED: list[Refusal] = [
    (ShapeError, "power of 2, got 6", lambda: linalg.hadamard(6)),
    (ShapeError, "at least 0, got -1", lambda: linalg.hilbert(-1)),
    (ConfigurationError, "kind must be", lambda: linalg.pascal(3, "both")),
    (ShapeError, "exact=False", lambda: linalg.pascal(35)),
    (ShapeError, "square", lambda: linalg.solve_toeplitz(([1.0, 2.0], [1.0]), [1.0, 2.0])),
    (ShapeError, "positive integer, got 0", lambda: fft.next_fast_len(0)),
    (ShapeError, "one length", lambda: fft.hfftn([[1.0, 2.0]], s=(2,), axes=(0, 1))),
    (ShapeError, "at least 0, got -1", lambda: signal.windows.hann(-1)),
]
test_errors = refuses(REFUSED)
