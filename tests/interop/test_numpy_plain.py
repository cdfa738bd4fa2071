"""NumPy's own functions answer for Tensors that nothing records: as the handlers do, and without a trace."""

from typing import Any

import numpy as np
import numpy_samples  # noqa: F401 - files its samples
import numpy_samples_algebra  # noqa: F401
import pytest
from crossing import each
from numpy_sampling import SAMPLES, Sample

import agrad
from agrad import Tensor
from agrad.errors import LeafMutationError, RefusedFunctionError
from agrad.interop import numpy as protocol
from agrad.interop import plain


def leaves(result: Any) -> list[Any]:
    return [leaf for part in result for leaf in leaves(part)] if isinstance(result, (tuple, list)) else [result]


@each(SAMPLES)
def test_results_are_those_of_the_handlers(case: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(sum(map(ord, case.name)))
    arrays = [np.asarray(x.draw(rng)) for x in case.inputs]
    kept = [x.copy() for x in arrays]
    with np.errstate(all="ignore"):
        found = leaves(case.call(*map(agrad.asarray, arrays)))
        for x, before in zip(arrays, kept, strict=True):
            np.testing.assert_array_equal(x, before)
        monkeypatch.setattr(protocol, "by_numpy", lambda *args, **settings: plain.LEFT)
        expected = leaves(case.call(*map(agrad.asarray, arrays)))
    for a, b in zip(found, expected, strict=True):
        assert isinstance(a, Tensor) == isinstance(b, Tensor) or case.group == "linalg.lstsq"
        if isinstance(b, Tensor):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-14)


WRITES = {
    "put": lambda t: np.put(t, [0, 1], 7.0),
    "place": lambda t: np.place(t, [True, False, False, True], [7.0, 8.0]),
    "putmask": lambda t: np.putmask(t, [True, False, False, True], 7.0),
    "copyto": lambda t: np.copyto(t, 7.0),
    "put_along_axis": lambda t: np.put_along_axis(t, np.asarray([0]), 7.0, 0),
    "add.at": lambda t: np.add.at(t, [0, 0], 7.0),
    "sin.at": lambda t: np.sin.at(t, [1, 2]),
    "divide.at": lambda t: np.divide.at(t, [1, 2], 2.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_reach_tensors_and_no_array_of_the_users(name: str) -> None:
    given = np.asarray([1.0, 2.0, 3.0, 4.0])
    expected = given.copy()
    WRITES[name](expected)
    for _ in range(2):
        t = agrad.asarray(given)
        view = t[:2]
        WRITES[name](t)
        np.testing.assert_array_equal(t.numpy(), expected)
        np.testing.assert_array_equal(view.numpy(), expected[:2])
        np.testing.assert_array_equal(given, [1.0, 2.0, 3.0, 4.0])
        leaf = agrad.asarray(given, requires_grad=True)
        with pytest.raises(LeafMutationError, match="no_grad"):
            WRITES[name](leaf)


def test_settings_that_write_into_an_argument() -> None:
    x = np.asarray([3.0, 1.0, np.nan])
    kept = x.copy()
    with pytest.raises(RefusedFunctionError, match="Leave copy out"):
        np.nan_to_num(agrad.asarray(x), copy=False)
    assert np.isnan(np.median(agrad.asarray(x), overwrite_input=True).numpy())
    np.testing.assert_array_equal(x, kept)
    assert np.nan_to_num(agrad.asarray(x)).numpy().tolist() == [3.0, 1.0, 0.0]


def test_views_are_followed() -> None:
    t = agrad.asarray(np.zeros(4))
    rows = np.reshape(t, (2, 2))
    t[0] = 5.0
    assert rows.numpy().tolist() == [[5.0, 0.0], [0.0, 0.0]]


def test_operations_are_seen_and_recorded() -> None:
    x = agrad.asarray(np.asarray([1.0, 2.0]))
    with agrad.profile() as report:
        np.cumsum(x)
    assert "cumulative_sum" in str(report)
    weight = agrad.asarray(np.asarray([2.0, 3.0]), requires_grad=True)
    agrad.sum(np.hstack([x, np.cumsum(weight)])).backward()
    assert weight.grad.numpy().tolist() == [2.0, 1.0]
    closed = np.apply_along_axis(lambda row: row * weight, 0, x)
    assert closed.requires_grad


def test_a_jitted_function_reads_its_tensors_anew() -> None:
    state = agrad.asarray(np.ones(3))
    f = agrad.jit(lambda x: x * np.cumsum(state))
    assert np.asarray(f(np.ones(3))).tolist() == [1.0, 2.0, 3.0]
    state[0] = 5.0
    assert np.asarray(f(np.ones(3))).tolist() == [5.0, 6.0, 7.0]
