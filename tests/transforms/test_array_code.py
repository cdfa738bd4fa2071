"""Array code as people write it: new arrays come from the namespace of the arguments."""

from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace, device
from checker import host
from modes import DERIVATIVES, check_same
from refusals import fails

import agrad
from agrad.errors import MixedBackendsError


@pytest.fixture
def place(request: pytest.FixtureRequest, backend: str) -> Any:
    """Move arrays to the default device of the test's backend, while NumPy is the selected one."""
    here = agrad.backends.selected()
    with agrad.use_backend("numpy"):
        yield lambda array: here.backend.from_host(np.asarray(array), here.backend.default_device())


def smooth(x: Any) -> Any:
    """Every function of the standard that makes arrays, without and with a device."""
    xp, n, kind = array_namespace(x), x.shape[0], x.dtype
    made = [
        xp.zeros(n, dtype=kind),
        xp.ones(n, dtype=kind),
        xp.full(n, 2.0, dtype=kind),
        xp.arange(n, dtype=kind),
        xp.linspace(0.0, 1.0, n, dtype=kind),
        xp.asarray([1.0] * n, dtype=kind),
        xp.asarray(np.ones(n), dtype=kind),
        xp.fft.fftfreq(n, dtype=kind, device=device(x)),
        xp.where(xp.zeros(n, dtype=xp.bool), xp.empty(n, dtype=kind), xp.zeros(n, dtype=kind)),
        xp.zeros(n, dtype=kind, device=device(x)),
    ]
    weights = sum(made[1:], start=made[0]) + xp.eye(n, dtype=kind) @ x
    assert xp.__array_namespace_info__().default_device() is not None
    return xp.sum(weights * xp.sin(x) ** 2)


VALUES = np.asarray([0.3, 1.1, -0.7])
WEIGHTS = 5.0 + np.arange(3.0) + np.linspace(0.0, 1.0, 3) + np.fft.fftfreq(3)


def by_numpy(x: Any) -> Any:
    """Return the same, without the namespace."""
    return agrad.sum((WEIGHTS + x) * agrad.sin(x) ** 2)


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_new_arrays_combine_with_the_arguments_in_every_mode(place: Any) -> None:
    x = place(VALUES)
    tolerance = 1e-5 if host(x).dtype == np.float32 else 1e-9  # JAX without its 64-bit mode
    # not the value of raw arrays: the fftfreq of array_api_compat accepts no device of CuPy
    modes = [*DERIVATIVES, "backward", "vmap of the gradient", "jit of the gradient"][1:]
    check_same(smooth, by_numpy, (x,), modes, tolerance, reference=(VALUES,))


def test_an_explicit_backend_is_kept(place: Any) -> None:
    x = agrad.asarray(place(VALUES))
    xp = array_namespace(x)
    assert xp.zeros(2).backend == x.backend
    assert xp.zeros(2, backend="array_api_strict").backend == "array_api_strict"
    assert xp is array_namespace(agrad.asarray(place(VALUES)), x)
    assert xp.sin is agrad.sin and "zeros" in dir(xp)
    if x.backend != "array_api_strict":
        fails(MixedBackendsError, "arrays of", lambda: x + xp.ones(3, backend="array_api_strict"))
