"""NumPy's and SciPy's functions compute where a Tensor is, whatever backend and device are selected."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy_samples  # noqa: F401 - files its samples
import numpy_samples_algebra  # noqa: F401
import pytest
from numpy_sampling import SAMPLES
from test_numpy_surface import drawn, leaves, quietly

import agrad
from agrad import Tensor
from agrad.backends import load

Call = tuple[str, Callable[..., Any], list[np.ndarray]]


def misplaced(calls: list[Call]) -> list[str]:
    """The calls whose result is not on the second device of array-api-strict, where their arguments are."""
    strict = load("array_api_strict")
    device = strict.device("device1")
    wrong = []
    for name, call, arrays in calls:
        found = leaves(quietly(call, *[agrad.asarray(strict.from_host(x, device)) for x in arrays]))
        tensors = [part for part in found if isinstance(part, Tensor)]
        wrong += [f"{name}: {x.backend} {x.device}" for x in tensors if (x.backend, x.device) != (strict.name, device)]
        wrong += [f"{name}: a {type(part).__name__}" for part in found if isinstance(part, np.ndarray)]
    return wrong


def test_numpys_functions() -> None:
    calls = [(sample.name, sample.call, drawn(sample)) for sample in SAMPLES]
    assert len(calls) > 500
    assert misplaced(calls) == []


@pytest.mark.needs("scipy")
def test_scipys_functions() -> None:
    import scipy.special
    from test_scipy_ufuncs import CALLS, K, N, P

    counts: dict[str, tuple[np.ndarray, ...]] = dict.fromkeys(["bdtr", "bdtrc", "nbdtr", "nbdtrc"], (K, N, P))
    counts |= dict.fromkeys(["pdtr", "pdtrc"], (K, N))
    calls = [(name, getattr(scipy.special, name), list(xs)) for name, xs in (CALLS | counts).items()]
    assert misplaced(calls) == []


def test_a_misplaced_result_is_found() -> None:
    calls: list[Call] = [
        ("moved", lambda x: x.to("numpy"), [np.ones(2)]),
        ("elsewhere", lambda x: (x, x.to("cpu")), [np.ones(2)]),
        ("on the host", lambda x: x.numpy(), [np.ones(2)]),
        ("in its place", lambda x: x + 1, [np.ones(2)]),
    ]
    found = misplaced(calls)
    assert [text.partition(":")[0] for text in found] == ["moved", "elsewhere", "on the host"]
