"""Names and traits of primitives of the user."""

from typing import Any

import numpy as np
import pytest

import agrad
from agrad.errors import PrimitiveDefinitionError


def test_a_primitive_with_the_name_of_another_one_is_computed_as_written() -> None:
    """Kernels and compiled steps, which are found by names, are those of agrad's own operation."""

    @agrad.primitive(batch="leading")
    def relu(xp: Any, x: Any, /) -> Any:
        return xp.where(x > 0, x, 0.5 * x)

    @agrad.primitive
    def mean(xp: Any, x: Any, /, *, axis: Any, keepdims: bool) -> Any:
        return xp.sum(x, axis=axis, keepdims=keepdims)

    def f(x: Any) -> Any:
        return relu(x * 2.0), mean(x, axis=(0,), keepdims=False)

    x = np.asarray([-1.0, 2.0])
    for found in (f(x), agrad.jit(f)(x)):
        assert found[0].tolist() == [-1.0, 4.0] and float(found[1]) == 1.0
    assert relu.primitive.identifier == "relu"


def test_a_reduction_of_parts_names_the_operation_that_combines_them() -> None:
    with pytest.raises(PrimitiveDefinitionError, match="combine must be an operation with a neutral number"):

        @agrad.primitive(kind="reduction", combine=agrad.subtract)
        def difference(xp: Any, x: Any, /, *, axis: Any, keepdims: bool) -> Any:
            raise AssertionError
