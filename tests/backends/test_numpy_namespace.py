"""NumPy's namespace is equal to array-api-compat's: values, dtypes, shapes and errors."""

import array_api_compat.numpy as compat
import numpy as np
import pytest

import agrad
from agrad.backends import load
from agrad.kernels.numpy.reductions import reduced

XP = load("numpy").xp
DTYPES = ("float32", "float64", "complex64", "complex128", "int8", "int64", "bool")
SHAPES = ((), (3,), (2, 3), (4, 1, 3), (0, 3), (2, 0), (520, 2), (2, 200, 3), (300, 5), (300, 6))


def _arrays(dtype):
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        x = rng.normal(size=shape) * 3
        x = np.asarray(x + 1j if dtype.startswith("complex") else x).astype(dtype)
        yield x
        yield x[()] if not shape else x.transpose()


def _result(function, *args, **keywords):
    try:
        return function(*args, **keywords)
    except (ValueError, RuntimeWarning) as error:
        return type(error)


def _same(a, b):
    if isinstance(b, type):
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean"])
def test_reductions(name, dtype):
    for x in _arrays(dtype):
        axes = [None, (), *((i,) for i in range(-x.ndim, x.ndim)), *range(x.ndim), tuple(range(x.ndim))]
        ways = [{}, {"keepdims": True}, *({"axis": a, "keepdims": k} for a in axes for k in (False, True))]
        if name in ("sum", "prod"):
            ways += [{**way, "dtype": np.complex128} for way in ways[:4]]
        for given in ways:
            expected = _result(getattr(compat, name), x, **given)
            assert _same(_result(getattr(XP, name), x, **given), expected), (x.shape, given)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_short_rows_are_reduced_to_the_same_bits(dtype):
    rng = np.random.default_rng(1)
    for length in (2, 3, 4, 5):
        x = np.exp(rng.normal(size=(600, length)) * 20).astype(dtype) * rng.choice([-1, 1], (600, length)).astype(dtype)
        x[2, 0], x[3, -1], x[4, 0], x[5, -1] = np.nan, np.nan, np.inf, -np.inf
        for name, ufunc in (("sum", np.add), ("max", np.maximum), ("min", np.minimum)):
            expected = ufunc.reduce(x, axis=-1)
            for axis in (-1, (1,)):
                assert getattr(XP, name)(x, axis=axis).tobytes() == expected.tobytes(), (name, length)
            columns = np.empty((1200, 2), dtype)  # of memory that lies apart
            for keepdims, out in ((False, columns[::2, 0]), (True, columns[::2, 1:])):
                assert reduced(ufunc, x, (1,), keepdims, out) is out
                assert out.reshape(-1).tobytes() == expected.tobytes(), (name, length, keepdims)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shapes_and_filled_arrays(dtype):
    for x in _arrays(dtype):
        calls = [
            ("reshape", ((-1,),)),
            ("reshape", ((x.size, 1),)),
            ("permute_dims", (tuple(range(x.ndim))[::-1],)),
            ("broadcast_to", ((4, *x.shape),)),
            ("broadcast_to", ((7, 5),)),
            ("broadcast_to", ((2, 4, 5, 3),)),
            ("zeros_like", ()),
            ("ones_like", ()),
        ]
        if x.ndim > 1:
            calls.append(("matrix_transpose", ()))
        for name, args in calls:
            expected = _result(getattr(compat, name), x, *args)
            assert _same(_result(getattr(XP, name), x, *args), expected), (name, x.shape, args)


def test_a_broadcast_array_cannot_be_written_to():
    x = np.ones(3)
    out = XP.broadcast_to(x, (2, 3))
    assert not out.flags.writeable
    assert np.shares_memory(out, x)
    assert x.flags.writeable


def test_filled_arrays_keep_the_order_of_columns():
    x = np.asfortranarray(np.ones((2, 3)))
    for dtype in (None, np.float32):
        for make in (agrad.zeros_like, agrad.ones_like, agrad.empty_like):
            assert make(x, dtype=dtype).flags.f_contiguous
        assert agrad.full_like(x, 2.0, dtype=dtype).flags.f_contiguous
    assert agrad.zeros_like(x.T).flags.c_contiguous
