"""Errors about values that would leave the graph: who asked, what to call instead, and which array is raw."""

import importlib
from typing import Any

import numpy as np
import pytest

import agrad
from agrad.errors import DetachError, TracedValueError

ENDING = "where that is meant, give it x.detach()"
ROWS = np.asarray([[2.0, 1.0], [0.0, 3.0]])


def detach_error(f: Any, x: Any) -> str:
    with pytest.raises(DetachError) as caught:
        agrad.grad(lambda x: agrad.sum(agrad.asarray(f(x))))(x)
    assert str(caught.value).endswith(ENDING)
    assert str(caught.value).count("detach") == 1
    return str(caught.value)


@pytest.mark.parametrize(
    "f",
    [lambda x: np.array([x, x]), lambda x: np.asarray(x), lambda x: np.asarray([x[0], x[1]])],
    ids=["array of two", "asarray", "asarray of elements"],
)
def test_numpys_own_conversions_name_what_stays_in_the_graph(f: Any) -> None:
    message = detach_error(f, np.ones(2))
    assert message.startswith("numpy.array() or numpy.asarray() of a Tensor that requires a gradient")
    assert "np.stack([x, y])" in message
    assert "agrad.asarray(x)" in message


@pytest.mark.parametrize(("name", "trick"), [("r_", np.r_), ("c_", np.c_)])
def test_numpys_index_tricks_are_named_with_what_joins_tensors(name: str, trick: Any) -> None:
    for parts in (lambda x: (x, x), lambda x: (x, [1.0, 2.0]), lambda x: (np.ones(2), x), lambda x: (x[0], x[1])):
        message = detach_error(lambda x, parts=parts: trick[parts(x)], np.ones(2))
        assert message.startswith(f"numpy.{name}[...] of a Tensor")
        assert "numpy.hstack([x, y]) joins Tensors" in message
        assert "numpy.column_stack([x, y])" in message


@pytest.mark.parametrize(
    ("name", "function"),
    [("sum", np.sum), ("mean", np.mean), ("max", np.max), ("linalg.norm", np.linalg.norm), ("sort", np.sort)],
)
@pytest.mark.parametrize("listed", [lambda x: [x[0], x[1]], lambda x: ((x[0], 2.0), (x[1], 1.0)), lambda x: [x, x]])
def test_a_list_of_tensors_for_a_function_of_one_array(name: str, function: Any, listed: Any) -> None:
    message = detach_error(lambda x: function(listed(x)), np.ones(2))
    assert message.startswith(f"numpy.{name}() of a Tensor")
    assert "give it one Tensor, agrad.asarray([x, y]) or numpy.stack([x, y])" in message


@pytest.mark.parametrize("function", [np.sum, np.sqrt, np.array, np.linalg.norm])
@pytest.mark.parametrize("transform", [agrad.jit, agrad.vmap])
def test_a_list_of_values_that_are_not_known_says_how_to_join_them(function: Any, transform: Any) -> None:
    def f(x: Any) -> Any:
        return agrad.asarray(function([x[0], x[1]]))

    with pytest.raises(TracedValueError) as caught:
        transform(f)(np.ones((2, 2)))
    assert "agrad.asarray([x, y]) makes one Tensor" in caught.value.__notes__[0]


@pytest.mark.needs("scipy")
def test_a_function_of_scipy_is_named_with_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.linalg

    monkeypatch.delenv("SCIPY_ARRAY_API", raising=False)
    factor = (np.linalg.cholesky(ROWS @ ROWS.T), True)
    message = detach_error(lambda x: scipy.linalg.cho_solve(factor, x), np.ones(2))
    assert message.startswith("scipy.linalg.cho_solve() of a Tensor")
    assert "SCIPY_ARRAY_API" not in message  # it would not take Tensors then either
    message = detach_error(lambda x: scipy.linalg.solve(x, np.ones(2)), ROWS)
    assert message.startswith("scipy.linalg.solve() of a Tensor")
    assert "agrad.linalg.solve is the same of Tensors" in message
    assert detach_error(np.asarray_chkfinite, np.ones(2)).startswith("numpy.asarray_chkfinite() of a Tensor")


@pytest.mark.needs("scipy")
@pytest.mark.parametrize("name", ["scipy.special.logsumexp", "scipy.stats.zscore"])
def test_array_api_functions_of_scipy_name_the_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCIPY_ARRAY_API", raising=False)
    module, _, function = name.rpartition(".")
    message = detach_error(getattr(importlib.import_module(module), function), np.arange(3.0))
    assert message.startswith(f"{name}() of a Tensor")
    assert "SCIPY_ARRAY_API=1" in message


def test_a_list_is_spoken_of_where_there_is_one() -> None:
    message = detach_error(lambda x: np.full((2, 2), agrad.sum(x)), np.ones(2))
    assert message.startswith("numpy.full() of a Tensor")
    assert "list" not in message


def test_numbers_name_themselves() -> None:
    x = agrad.asarray(1.0, requires_grad=True)
    with pytest.raises(DetachError, match=r"^float\(\) of a Tensor .* silently; where that is meant, give it x"):
        float(x)


# ------------------------------------------------------------------ raw arrays


def filled(x: Any) -> Any:
    out = np.zeros(3)
    out[0] = agrad.sum(x)
    return agrad.sum(agrad.asarray(out))


TRANSFORMS: dict[str, Any] = {
    "grad": lambda f, x: agrad.grad(f)(x),
    "elementwise_grad": lambda f, x: agrad.elementwise_grad(f)(x),
    "vjp": lambda f, x: agrad.vjp(f, x),
    "jvp": lambda f, x: agrad.jvp(f, (x,), (x,)),
    "jacobian": lambda f, x: agrad.jacobian(f)(x),
    "hessian": lambda f, x: agrad.hessian(f)(x),
    "linearize": lambda f, x: agrad.linearize(f, x),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_tensor_written_into_a_raw_array(transform: Any) -> None:
    with pytest.raises(ValueError, match="setting an array element with a sequence") as caught:
        transform(filled, np.ones(2))
    (note,) = caught.value.__notes__
    assert note.startswith("`out` is not agrad's but a raw array")
    assert "agrad.zeros" in note
    assert "agrad.stack" in note


def test_a_raw_array_beside_a_tensor_in_a_function_of_the_array_api() -> None:
    from array_api_compat import array_namespace

    weights = np.ones(2)

    def f(x: Any) -> Any:
        return array_namespace(x, weights).sum(x)

    with pytest.raises(TypeError, match="Multiple namespaces") as caught:
        agrad.grad(f)(np.ones(2))
    (note,) = caught.value.__notes__
    assert note.startswith("`weights` is not agrad's but a raw array")
    assert "agrad.asarray(array)" in note


def test_other_errors_get_no_note() -> None:
    def f(x: Any) -> Any:
        raise ValueError("of the user's own")

    with pytest.raises(ValueError, match="own") as caught:
        agrad.grad(f)(np.ones(2))
    assert not hasattr(caught.value, "__notes__")


# ------------------------------------------------------------------ attributes


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)], ids=str)
def test_hasattr_says_whether_there_is_a_transpose(shape: Any, backend: str) -> None:
    x = agrad.ones(shape)
    assert hasattr(x, "T") == (len(shape) < 3)
    assert getattr(x, "T", None) is None or x.T.shape == shape[::-1]
