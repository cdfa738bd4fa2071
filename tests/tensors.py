"""Arrays and Tensors of tests: drawn, on the selected backend, as parameters, and on the host."""

from collections.abc import Iterable
from typing import Any

import numpy as np

import agrad
from agrad import nn


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def here(array: Any) -> agrad.Tensor:
    """Return an array on the selected backend and device."""
    place = agrad.zeros((1,))
    return agrad.asarray(np.asarray(array), backend=place.backend, device=place.device)


def leaf(array: np.ndarray) -> agrad.Tensor:
    """Return a parameter on the selected backend, whose array nobody else holds."""
    return nn.init.parameter(array, dtype=array.dtype.name)


def set_grad(tensor: agrad.Tensor, array: np.ndarray) -> None:
    tensor.grad = agrad.asarray(array.copy(), backend=tensor.backend, device=tensor.device)


def host(value: Any) -> np.ndarray:
    return np.array(agrad.asarray(value).detach().numpy())


def all_close(found: Iterable[Any], expected: Iterable[Any], rtol: float = 1e-7, atol: float = 0.0) -> None:
    """Check that two rows of arrays or Tensors agree, one by one."""
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(host(mine), host(theirs), rtol=rtol, atol=atol)


def all_equal(found: Iterable[Any], expected: Iterable[Any]) -> None:
    all_close(found, expected, rtol=0.0)


def same_state(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Check that two states of modules or optimizers are equal."""
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
