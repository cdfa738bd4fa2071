"""``agrad.jit`` of functions that write to views: what is a view depends on how an argument lies in memory."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jit_help import close, function_of
from refusals import fails

import agrad
from agrad.backends import selected
from agrad.errors import TracedValueError

VALUES = np.arange(24.0).reshape(4, 6)


def reversed_axes(x: Any) -> Any:
    return np.ascontiguousarray(x.T).T


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "transposed": reversed_axes,
    "strided rows": lambda x: np.repeat(x, 2, axis=0)[::2],
    "strided columns": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "negative strides": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "part of a larger one": lambda x: np.pad(x, 2)[2:-2, 2:-2],
}


def placed(values: Any, layout: str, place: Any) -> Any:
    """A raw array with a layout, where the library takes it over: PyTorch takes strides that are not negative."""
    array = LAYOUTS[layout](values.copy())
    if selected().backend.name != "torch":
        return place(array)
    return sys.modules["torch"].from_numpy(reversed_axes(array) if min(array.strides) < 0 else array)


DECIDING = [
    "y = agrad.reshape(x, (-1,)); y[0] = 100.0 | x",
    "y = agrad.reshape(x, (2, 2, 6)); y[1] *= 3.0 | x + y[0, 0, 0]",
    "y = agrad.reshape(x, (4, 3, 2)); y[:, 1] = agrad.sum(x) | x",
    "z = x * 2.0; y = agrad.reshape(z, (-1,)); y += 1.0 | z",
    "y = agrad.reshape(x[1:, ::2].T, (-1,)); y[2:4] = 7.0 | x",
    "y = agrad.reshape(x, (-1,)); x[1] = 5.0 | y",
    "np.ravel(x[-1])[...] = 0.5 | x",  # a copy where the elements of the row are not contiguous
]
"""What a write to a reshape changes depends on the layout."""
OTHERS = [
    " | x * 2.0",
    "x[0] = 1.0 | x * 2.0",
    "row = x[1]; row[:2] = 9.0 | x * 2.0",
    " | agrad.reshape(x, (-1,)) * agrad.matrix_transpose(x).shape[0]",
]
"""Programs for which the layout decides nothing, and which are traced once."""


@pytest.mark.parametrize("text", [*DECIDING, *OTHERS])
def test_a_write_is_what_an_ordinary_run_makes_of_it(text: str, backend: str, place: Any) -> None:
    function = function_of(text)
    jitted = agrad.jit(function)
    for layout in [*LAYOUTS, *reversed(LAYOUTS)]:
        given, own = (agrad.asarray(placed(VALUES, layout, place)) for _ in range(2))
        np.testing.assert_array_equal(jitted(given).numpy(), function(own).numpy())
        np.testing.assert_array_equal(given.numpy(), own.numpy())
    assert jitted.cache_info().misses <= (len(LAYOUTS) if text in DECIDING else 1)


def test_state_in_another_layout(backend: str, place: Any) -> None:
    def made() -> Any:
        w = agrad.asarray(placed(VALUES, "C", place))

        def step() -> Any:
            agrad.reshape(w, (-1,))[0] += 1.0
            return w * 1.0

        return w, step

    (right, eager), (w, step) = made(), made()
    jitted = agrad.jit(step)
    for layout in ("C", "Fortran", "strided columns", "C"):
        right.data, w.data = placed(VALUES, layout, place), placed(VALUES, layout, place)
        close((jitted(), w), (eager(), right), rtol=0)


def test_a_raw_argument_is_written_to_by_one_layout_alone() -> None:
    """The reshape of an array in Fortran's order is a copy; that of one in C's order is the argument itself."""

    @agrad.jit
    def f(x: Any) -> Any:
        y = agrad.reshape(x, (-1,))
        y[0] = 100.0
        return x + 0.0

    for _ in range(2):
        np.testing.assert_array_equal(f(placed(VALUES, "Fortran", np.asarray)), VALUES)
        fails(TracedValueError, "writes into an argument", lambda: f(placed(VALUES, "C", np.asarray)))
