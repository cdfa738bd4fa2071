"""Properties of agrad as an array namespace, on arrays that Hypothesis makes with that namespace itself."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from checker import assert_close, check_like, host
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

import agrad
from agrad.backends import load

pytestmark = pytest.mark.filterwarnings("ignore:Could not determine whether module agrad")

quick = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@cache
def strategies() -> Any:
    """Hypothesis' strategies over agrad; the newest version of the standard that it knows."""
    return make_strategies_namespace(agrad, api_version="2024.12")


SHAPES = st.deferred(lambda: strategies().array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
FLOATS = st.sampled_from(["float32", "float64"])
KINDS = st.sampled_from(["float32", "float64", "complex64", "complex128"])


def tensors(shapes: Any = SHAPES, dtypes: Any = FLOATS) -> Any:
    """Tensors of these shapes and dtypes, of numbers far from the ends of their range."""

    def of(dtype: str) -> Any:
        parts = st.floats(-4, 4, width=32, allow_subnormal=False)
        number = st.builds(complex, parts, parts) if "complex" in dtype else parts
        return strategies().arrays(getattr(agrad, dtype), shapes, elements=number)

    return dtypes.flatmap(of)


@quick
@given(data=st.data())
def test_hypothesis_makes_tensors_where_they_are_selected(backend: str, data: Any) -> None:
    xps = strategies()
    x = data.draw(xps.arrays(xps.scalar_dtypes(), SHAPES))
    assert isinstance(x, agrad.Tensor)
    assert x.backend == load(backend).name
    assert x.device == agrad.zeros(()).device
    assert x.__array_namespace__() is agrad


@quick
@given(data=st.data())
def test_the_gradient_of_a_sum_counts(backend: str, data: Any) -> None:
    """Each element that an index picks has the derivative of how often it is picked: NumPy's own count says so."""
    xps = strategies()
    x = data.draw(tensors(xps.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)))
    index = data.draw(xps.indices(x.shape, allow_newaxis=True))
    count = np.zeros(x.shape)
    np.add.at(count, index, 1.0)
    found = agrad.grad(lambda x: agrad.sum(x[index]))(x)
    check_like(found, x, "gradient")
    assert_close(found, count, "gradient", 0.0)


@quick
@given(data=st.data())
def test_what_is_written_over_has_no_derivative(backend: str, data: Any) -> None:
    xps = strategies()
    x = data.draw(tensors(xps.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)))
    index = data.draw(xps.indices(x.shape))
    kept = np.ones(x.shape)
    kept[index] = 0.0

    def written(x: Any, v: Any) -> Any:
        y = x * 1
        y[index] = v
        return agrad.sum(y)

    by_x, by_v = agrad.grad(written, argnums=(0, 1))(x, agrad.zeros((), dtype=x.dtype))
    assert_close(by_x, kept, "gradient by the array", 0.0)
    assert_close(by_v, np.asarray(kept.size - kept.sum()), "gradient by the value", 0.0)


@quick
@given(data=st.data())
def test_broadcasting_is_undone(backend: str, data: Any) -> None:
    """Whatever shapes broadcast, a gradient has its argument's, and that of a sum of products is the other's sum."""
    xps = strategies()
    drawn = data.draw(xps.mutually_broadcastable_shapes(2, max_dims=3, max_side=3))
    dtype = st.just(data.draw(KINDS))
    x, y = (data.draw(tensors(st.just(shape), dtype)) for shape in drawn.input_shapes)
    total = lambda x, y: agrad.real(agrad.sum(x * y)) if "complex" in str(x.dtype) else agrad.sum(x * y)  # noqa: E731
    by_x, by_y = agrad.grad(total, argnums=(0, 1))(x, y)
    for found, argument, other in ((by_x, x, y), (by_y, y, x)):
        check_like(found, argument, "gradient")
        spread = np.broadcast_to(host(other).astype(complex), drawn.result_shape)
        lead = len(drawn.result_shape) - len(argument.shape)
        kept = [i + lead for i, n in enumerate(argument.shape) if n == 1]
        expected = np.sum(np.sum(spread, axis=tuple(kept), keepdims=True), axis=tuple(range(lead)))
        got = host(found)
        assert_close(got, expected if got.dtype.kind == "c" else expected.real, "gradient", 1e-5)
