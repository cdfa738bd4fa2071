"""Writes to a Tensor by the ``at`` method of NumPy's ufuncs."""

from typing import Any

import numpy as np
import pytest

import agrad
from agrad.errors import LeafMutationError


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.maximum, np.divide, np.hypot])
def test_ufunc_at_of_integers_computes_each_step_in_the_promoted_dtype(ufunc: np.ufunc) -> None:
    """A step's result is cast to the dtype of the array, as NumPy casts it."""
    expected, found = np.arange(3), agrad.asarray(np.arange(3))
    for x in (expected, found):
        ufunc.at(x, [2, 0, 2, 2], [1.5, 2.5, -0.5, 1.25])
    assert found.dtype == agrad.int64
    np.testing.assert_array_equal(found.numpy(), expected)


def test_ufunc_at_refuses_a_leaf_that_requires_a_gradient() -> None:
    with pytest.raises(LeafMutationError, match="no_grad"):
        np.maximum.at(agrad.asarray([1.0, 2.0], requires_grad=True), [0, 0], 3.0)


def test_ufunc_at_inside_transforms() -> None:
    def f(x: Any, v: Any) -> Any:
        y = agrad.asarray(x) * 1
        np.maximum.at(y, [0, 1, 0], v)
        np.multiply.at(y, [1, 1], v[:2])
        return y

    x, v = np.asarray([1.0, 2.0]), np.asarray([3.0, 1.0, 4.0])
    np.testing.assert_allclose(f(x, v).numpy(), [4.0, 6.0])
    np.testing.assert_allclose(agrad.jit(f)(x, v), [4.0, 6.0])
    np.testing.assert_allclose(agrad.vmap(f)(x[None], v[None]), [[4.0, 6.0]])
    np.testing.assert_allclose(agrad.jacrev(f, 1)(x, v), [[0, 0, 1], [2, 6, 0]])
    np.testing.assert_allclose(agrad.jacfwd(f, 1)(x, v), [[0, 0, 1], [2, 6, 0]])
