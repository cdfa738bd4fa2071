"""DataArrays of Tensors: windows, and ways around what xarray refuses for arrays without NumPy's dtypes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import agrad

xr = pytest.importorskip("xarray")
pytestmark = pytest.mark.needs("xarray")

X = np.random.default_rng(0).normal(size=(5, 3))
WEIGHTS = xr.DataArray([0.2, 0.5, 1.1], dims="place")


def labelled(x: Any) -> Any:
    return xr.DataArray(x, dims=("time", "place"), coords={"time": [10, 20, 30, 40, 50]})


CALLS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "windows": (
        lambda a: a.rolling(time=2).construct("window", fill_value=0.0),
        lambda a: a.rolling(time=2).construct("window", fill_value=0.0),
    ),
    "rolling mean": (
        lambda a: a.rolling(time=3).construct("window", fill_value=0.0).mean("window")[2:],
        lambda a: a.rolling(time=3).mean()[2:],
    ),
    "weighted mean": (
        lambda a: xr.dot(a, WEIGHTS, dim="place") / WEIGHTS.sum(),
        lambda a: a.weighted(WEIGHTS).mean("place"),
    ),
}
"""Functions of a DataArray of Tensors, and what they are on NumPy's arrays."""


@pytest.mark.parametrize("name", CALLS)
def test_values_and_derivatives(name: str) -> None:
    ours, theirs = CALLS[name]
    found = ours(labelled(agrad.asarray(X, requires_grad=True))).data
    assert isinstance(found, agrad.Tensor)
    np.testing.assert_allclose(found.detach().numpy(), theirs(labelled(X)).data, rtol=1e-13)
    agrad.testing.check_grads(lambda x: agrad.sin(ours(labelled(x)).data), (X,), order=2)


def test_the_namespace_has_the_windows_of_numpy() -> None:
    found = agrad.lib.stride_tricks.sliding_window_view(agrad.asarray(X), 2, axis=0)
    np.testing.assert_array_equal(found.numpy(), np.lib.stride_tricks.sliding_window_view(X, 2, axis=0))
    assert "lib" not in dir(agrad)
