"""``numpy.convolve`` and ``correlate`` on Tensors: one operation, in every mode of derivatives."""

from typing import Any

import numpy as np
import pytest

import agrad
from agrad.testing import check_grads

A, V = np.asarray([0.5, -1.0, 2.0, 0.3, 1.1]), np.asarray([1.5, 0.2, -0.7])
MODES = ("full", "same", "valid")


def on(backend: str, x: np.ndarray) -> Any:
    return agrad.asarray(x, backend=backend)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize("swapped", [False, True])
def test_derivatives_of_every_order_and_mode(backend: str, name: str, mode: str, swapped: bool) -> None:
    function = getattr(np, name)
    pair = [on(backend, x) for x in ((V, A) if swapped else (A, V))]
    found = function(*pair, mode)
    np.testing.assert_allclose(found.numpy(), function(*[x.numpy() for x in pair], mode), rtol=1e-14)
    check_grads(lambda a, v: function(a, v, mode), pair, order=2, modes=("rev", "fwd"))


@pytest.mark.parametrize("mapped", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("mode", MODES)
def test_vmap_maps_either_vector(backend: str, mode: str, mapped: tuple[Any, Any]) -> None:
    rows = [np.stack([x, 2 * x[::-1]]) if axis == 0 else x for x, axis in zip((A, V), mapped, strict=True)]
    found = agrad.vmap(lambda a, v: np.convolve(a, v, mode), in_axes=mapped)(*[on(backend, x) for x in rows])
    for i in range(2):
        one = [x[i] if axis == 0 else x for x, axis in zip(rows, mapped, strict=True)]
        np.testing.assert_allclose(found[i].numpy(), np.convolve(*one, mode), rtol=1e-13)


def test_jit(backend: str) -> None:
    def loss(a: Any, v: Any) -> Any:
        return agrad.sum(np.correlate(a, v, "full") ** 2)

    pair = on(backend, A), on(backend, V)
    gradient = agrad.grad(loss, argnums=(0, 1))
    found, expected = agrad.jit(gradient)(*pair), gradient(*pair)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(agrad.asarray(mine).numpy(), agrad.asarray(theirs).numpy(), rtol=1e-13)


def test_one_node() -> None:
    a, v = agrad.asarray(A, requires_grad=True), agrad.asarray(V)
    assert np.convolve(a, v).op.name == "numpy.convolve"
