"""NumPy's functions on Tensors that nothing records: writes, views, observers and traces."""

import numpy as np
import pytest

import agrad
from agrad.errors import LeafMutationError, RefusedFunctionError

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
