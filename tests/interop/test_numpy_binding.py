"""The binding of arguments of NumPy's functions to their handlers."""

import inspect

import numpy as np
from refusals import fails
from test_numpy_protocol import leaf

import agrad
import agrad.interop.numpy
from agrad.errors import RefusedFunctionError
from agrad.interop.table import FUNCTIONS

OF_ONE_NUMPY_ONLY = {"axisa", "axisb", "axisc", "interpolation"}
"""Parameters of a handler that not every function with this handler has, or not every NumPy."""


def test_handlers_take_parameters_of_numpys_functions_by_their_names() -> None:
    bound = [entry for entry in FUNCTIONS.values() if entry.parameters is not None]
    assert len(bound) > 50
    assert not [entry.name for entry in bound if not entry.names <= set(entry.parameters) | OF_ONE_NUMPY_ONLY]
    for entry in bound:
        inspect.signature(entry.handler).bind(**dict.fromkeys(entry.names & set(entry.parameters)))


def test_a_parameter_that_a_handler_does_not_take() -> None:
    t = leaf(3.0, 1.0)
    for made in (np.zeros_like(t, order="F", subok=False), np.zeros_like(t, None, "K"), np.sort(t, kind="heapsort")):
        assert made.shape == (2,)
    np.testing.assert_array_equal(np.concatenate([t, t], casting="no").detach().numpy(), [3.0, 1.0, 3.0, 1.0])
    for call in (lambda: np.sort(t, order="a"), lambda: np.partition(t, 0, order="a")):
        fails(RefusedFunctionError, r"order='a' is not supported for Tensors\. Leave order out", call)
    fails(TypeError, "arguments", lambda: t.sum(None, None, None, False, 0.0, True, 1, 2))


def test_out_by_its_position() -> None:
    sums = [(function, (0, None)) for function in (np.sum, np.cumsum, np.nansum)]
    for function, args in (*sums, (np.argmax, (0,)), (np.nanargmax, (0,))):
        x = agrad.asarray(np.asarray([[1.0, 2.0], [4.0, 3.0]]))
        expected = function(x, *args)
        out = agrad.zeros_like(expected)
        assert function(x, *args, out) is out
        np.testing.assert_array_equal(out.numpy(), expected.numpy())
    a = leaf(1.0, 2.0)
    out = agrad.zeros(())
    assert np.dot(a, a, out) is out
    assert out.requires_grad


def test_fills_and_starts_that_are_numbers_keep_the_dtype_and_the_kind() -> None:
    half = agrad.asarray(np.asarray([1.0, np.nan, 3.0], np.float16))
    for function, expected in ((np.nanmean, 2.0), (np.nanmax, 3.0), (np.nanmin, 1.0), (np.nansum, 4.0)):
        got = function(half)
        assert got.numpy().dtype == np.float16 and got.item() == expected
    x = np.asarray([1.0, np.nan, 3.0])
    for traced in (np.nanmean, np.nanmax, lambda x: np.nansum(x, initial=2.0)):
        got = agrad.jit(traced)(x)
        assert not isinstance(got, agrad.Tensor)
        np.testing.assert_allclose(got, traced(x))


def test_a_reshape_of_the_powers_of_a_vector_is_a_view() -> None:
    for x in (np.asarray([2.0, 3.0]), agrad.asarray([2.0, 3.0])):
        powers = np.vander(x, 3)
        rows = np.reshape(powers, (-1,))
        rows += 1.0
        np.testing.assert_array_equal(np.asarray(powers.tolist()), [[5.0, 3.0, 2.0], [10.0, 4.0, 2.0]])
