"""``agrad.eval_shape``: shapes and dtypes of a result."""

from typing import Any

import numpy as np
import pytest
from jit_help import descent
from refusals import fails

import agrad
from agrad import ShapeDtype
from agrad.errors import TracedValueError


def model(parameters: Any, x: Any, scale: float = 1.0) -> Any:
    h = agrad.tanh(x @ parameters["w"]) * scale
    return {"h": h, "loss": agrad.sum(h), "kept": (h > 0, 3, "name", None)}


@pytest.mark.parametrize("wrap", [lambda f: f, agrad.jit])
def test_shapes_of_arrays_and_of_objects(wrap: Any, backend: str) -> None:
    arrays = {"w": agrad.ones((3, 2), dtype="float32")}, agrad.ones((5, 3), dtype="float32")
    objects = {"w": ShapeDtype((3, 2), "float32")}, ShapeDtype((5, 3), agrad.float32)
    right = {
        "h": ShapeDtype((5, 2), "float32"),
        "loss": ShapeDtype((), "float32"),
        "kept": (ShapeDtype((5, 2), "bool"), 3, "name", None),
    }
    assert agrad.eval_shape(wrap(model), *arrays) == right
    assert agrad.eval_shape(wrap(model), *objects, scale=2.0) == right
    assert agrad.eval_shape(wrap(agrad.grad(lambda p, x: model(p, x)["loss"])), *objects) == objects[0]
    assert agrad.eval_shape(agrad.vmap(agrad.sum), objects[1]) == ShapeDtype((5,), "float32")


def test_inside_transforms(backend: str) -> None:
    def f(x: Any) -> Any:
        shape = agrad.eval_shape(lambda x: agrad.concat([x, x]), x).shape
        assert shape == (4,)
        return agrad.sum(x * x) * shape[0]

    x = agrad.asarray([1.0, 2.0])
    assert agrad.jit(f)(x).item() == 20.0
    assert agrad.grad(f)(x).tolist() == [8.0, 16.0]
    assert agrad.vmap(f)(agrad.stack([x, x])).tolist() == [20.0, 20.0]
    assert agrad.vmap(agrad.grad(f))(agrad.stack([x, x])).tolist() == [[8.0, 16.0]] * 2


def test_state_is_set_back(backend: str) -> None:
    w = agrad.asarray([1.0, 2.0], requires_grad=True)
    step = descent(agrad.optim.Adam([w], lr=0.1), lambda x: agrad.sum(w * x), "first")
    assert agrad.eval_shape(step, w.detach()) == ShapeDtype((), w.dtype)
    assert w.tolist() == [1.0, 2.0]
    assert w.grad is None
    step(w.detach())
    assert w.tolist() != [1.0, 2.0]


def test_errors() -> None:
    x = np.asarray([1.0, 0.0])
    fails(TracedValueError, "result's shape depends on values", agrad.eval_shape, agrad.nonzero, x)
    fails(TracedValueError, "a Boolean index inside", lambda: agrad.eval_shape(lambda x: x[x > 0], x))
    seen: list[Any] = []
    fails(TracedValueError, "changed", lambda: agrad.eval_shape(lambda x: seen.append(1) or x, x))


def test_numbers_and_text() -> None:
    assert agrad.eval_shape(lambda x: x * 2, 1.5) == ShapeDtype((), agrad.asarray(1.5).dtype)
    assert repr(ShapeDtype((2, 3), "int32")) == "ShapeDtype((2, 3), 'int32')"
    assert ShapeDtype((2,), "int32") != ShapeDtype((2,), "int64")
    assert len({ShapeDtype([2], "int32"), ShapeDtype((2,), agrad.int32)}) == 1
    assert agrad.tree.map(lambda leaf: leaf.shape, {"a": ShapeDtype((2,), "int32")}) == {"a": (2,)}
