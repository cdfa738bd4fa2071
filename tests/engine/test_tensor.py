"""The Tensor as an object: operators, change in place, conversions that are refused, copies, iteration, truth."""

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from leaves import leaf
from refusals import fails

import agrad
from agrad.backends import load
from agrad.errors import DetachError, NotDifferentiableError, OperandError

A, B = np.asarray([0.5, 1.5, 2.5]), np.asarray([2.0, 3.0, 0.5])


# ---------------------------------------------------------------- operators

FUNCTIONS = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "pow"}


def apply(name: str, left: Any, right: Any, backend: str) -> Any:
    """An operator of Python; or its function where the library refuses, in its own name, to ask the right operand."""
    if backend == "array_api_strict" and isinstance(right, agrad.Tensor) and not isinstance(left, agrad.Tensor):
        fails(TypeError, "Expected Array or Python scalar", lambda: getattr(operator, name)(left, right))
        return getattr(agrad, FUNCTIONS[name])(left, right)
    return getattr(operator, name)(left, right)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operators_with_raw_arrays_and_numbers_on_either_side(name: str, backend: str, place: Any) -> None:
    """Also where the array library's own operator is asked first, as it stands on the left."""
    op: Callable[[Any, Any], Any] = getattr(operator, name)
    step = 1e-6
    for left, right in ((A, "raw"), ("raw", A), (A, 2.0), (2.0, A), (A, 3), (3, A)):
        raw = place(B)
        x = leaf(place(A))
        operands = [x if isinstance(v, np.ndarray) else raw if isinstance(v, str) else v for v in (left, right)]
        on_host = [v if isinstance(v, np.ndarray) else B if isinstance(v, str) else v for v in (left, right)]
        y = op(*operands) if isinstance(operands[0], (int, float)) else apply(name, *operands, backend)
        assert isinstance(y, agrad.Tensor), f"{name} of {left} and {right} lost the Tensor"
        assert y.requires_grad
        assert_close(y, op(*on_host), "value")
        agrad.sum(y).backward()
        up, down = (op(*[v + s if v is A else v for v in on_host]) for s in (step, -step))
        assert_close(x.grad, (up - down) / (2 * step), "gradient", 1e-6)


def test_numpy_scalars_are_operands(backend: str) -> None:
    x = leaf([1.0, 2.0])
    for y in (np.float64(3.0) * x, x * np.float64(3.0), np.float32(3.0) * x, x * np.int64(3)):
        assert isinstance(y, agrad.Tensor)
        x.zero_grad()
        agrad.sum(y).backward()
        assert_close(x.grad, [3.0, 3.0], "gradient")


def test_numbers_keep_the_precision(backend: str) -> None:
    x = leaf([1.0, 2.0], dtype=agrad.float32)
    chosen = agrad.where(x > 1, x, 0.0), agrad.maximum(x, 1)
    for y in (x + 1, 1.5 * x, x / 3, 2 - x, x**2, x**0.5, -x, +x, abs(x), *chosen):
        assert y.dtype == agrad.float32
        x.zero_grad()
        agrad.sum(y).backward()
        assert x.grad.dtype == agrad.float32


def test_comparison_gives_boolean_constants(backend: str, place: Any) -> None:
    x = leaf([1.0, 2.0, 3.0])
    other = place(np.asarray([2.0, 2.0, 2.0]))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        op = getattr(operator, name)
        expected = op(np.asarray([1.0, 2.0, 3.0]), 2.0)
        for y in (op(x, 2.0), op(x, other), op(x, agrad.asarray(other))):
            assert isinstance(y, agrad.Tensor)
            assert y.dtype == agrad.bool
            assert not y.requires_grad
            assert host(y).tolist() == expected.tolist()
        assert host(op(2.0, x)).tolist() == op(2.0, np.asarray([1.0, 2.0, 3.0])).tolist()
        if backend != "array_api_strict":
            assert host(op(other, x)).tolist() == op(np.full(3, 2.0), np.asarray([1.0, 2.0, 3.0])).tolist()


def test_integer_operators(backend: str) -> None:
    i = agrad.asarray([5, 6])
    found = [i & 3, i | 8, i ^ 1, i << 1, i >> 1, ~i, i // 2, i % 4, 3 & i, 1 << i]
    expected = [[1, 2], [13, 14], [4, 7], [10, 12], [2, 3], [-6, -7], [2, 3], [1, 2], [1, 2], [32, 64]]
    assert [host(y).tolist() for y in found] == expected


def test_an_operand_that_agrad_does_not_know_may_answer_itself() -> None:
    class Other:
        __rmul__ = __radd__ = lambda self, left: "mine"

    x = leaf([1.0])
    assert x * Other() == "mine"
    x += Other()
    assert x == "mine"
    fails(TypeError, r"an index must have an integer dtype, got a Tensor of dtype float", lambda: leaf([1.0]) * "text")
    fails(TypeError, r"for \+: 'NoneType' and 'Tensor'", lambda: None + leaf([1.0]))
    fails(OperandError, "list", lambda: agrad.add(leaf([1.0]), [1.0]))


# ---------------------------------------------------------------- change in place


def test_in_place_on_a_constant(backend: str) -> None:
    x = agrad.asarray([1.0, 2.0])
    same = x
    x += 1
    x @= agrad.ones((2, 2))
    assert same is x
    assert host(x).tolist() == [5.0, 5.0]
    i, expected = agrad.asarray([5, 6]), np.asarray([5, 6])
    steps = {"ifloordiv": 2, "imod": 2, "ior": 4, "iand": 6, "ixor": 1, "ilshift": 2, "irshift": 1}
    for name, number in steps.items():
        assert getattr(operator, name)(i, number) is i
        assert host(i).tolist() == getattr(operator, name)(expected, number).tolist()


# ---------------------------------------------------------------- conversions


def test_nothing_detaches_silently(backend: str) -> None:
    scalar = agrad.sum(leaf([1.0]))
    for convert in (np.asarray, lambda t: t.numpy()):
        fails(DetachError, r"\.detach\(\)", convert, scalar)
    for convert in (float, int, complex):
        fails(DetachError, rf"^{convert.__name__}\(\) cannot convert a Tensor.*\.detach\(\)", convert, scalar)
    fails(TypeError, "an index must have an integer dtype", operator.index, scalar)
    cut = scalar.detach()
    assert (float(cut), int(cut), complex(cut), cut.item(), np.asarray(cut).item()) == (1.0, 1, 1 + 0j, 1.0, 1.0)
    assert scalar.item() == 1.0


def along(f: Any, x: Any) -> Any:
    return agrad.jvp(f, (x,), (x,))


@pytest.mark.parametrize("inner", [agrad.grad, lambda f: lambda y: along(f, y)])
@pytest.mark.parametrize("outer", [agrad.grad, lambda f: lambda x: along(f, x)])
def test_a_constant_of_an_inner_transform_leaves_no_outer_graph(outer: Any, inner: Any, place: Any) -> None:
    refused: list[str] = []

    def f(x: Any) -> Any:
        def g(y: Any) -> Any:
            constant = agrad.floor(y) + x
            assert constant.requires_grad
            for convert in (float, np.asarray, lambda t: t.numpy(), lambda t: t.item(), lambda t: t.tolist()):
                with pytest.raises(DetachError) as caught:
                    convert(constant)
                refused.append(str(caught.value))
            assert constant.detach().item() == 4.0 and bool(constant > 3)
            return y * 1.0

        inner(g)(place(np.asarray(1.0)))
        return x * 1.0

    outer(f)(place(np.asarray(3.0)))
    assert len(refused) == 5


def test_conversions_of_constants(backend: str) -> None:
    assert [10, 20, 30][agrad.asarray(1)] == 20
    assert np.asarray(agrad.asarray([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert agrad.asarray([1.0, 2.0], dtype=agrad.float64).numpy().dtype == np.float64
    assert np.asarray(agrad.asarray([1.0, 2.0]), dtype=np.float32).dtype == np.float32
    assert f"{agrad.asarray(2.0):.3f}" == "2.000"
    fails(TypeError, r"float\(\): the Tensor must have shape \(\), got \(1,\)", float, agrad.ones(1))
    fails(TypeError, r"the Tensor must have shape \(\), got \(1,\)", operator.index, agrad.asarray([1]))
    for x, kind in ((agrad.ones(()), "float"), (agrad.asarray(True), "bool"), (agrad.asarray([True]), "bool")):
        fails(TypeError, f"an index must have an integer dtype, got a Tensor of dtype {kind}", operator.index, x)
    assert type(operator.index(agrad.asarray(3, dtype=agrad.uint8))) is int
    assert type(agrad.asarray(1).item()) is int
    assert type(agrad.asarray(True).item()) is bool


def test_truth(backend: str) -> None:
    assert agrad.asarray(1.0)
    assert not agrad.asarray([0.0])
    assert leaf(2.0) > 1
    for many in (agrad.ones(2), agrad.ones(0)):
        fails(TypeError, r"must have one element.*agrad.any", bool, many)


def test_length_and_iteration(backend: str) -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2
    first, second = x
    agrad.sum(first * 2 + second * 3).backward()
    assert_close(x.grad, [[2.0, 2.0], [3.0, 3.0]], "gradient")
    for take in (len, iter, list):
        fails(TypeError, r"of a Tensor of shape \(\) is not defined", take, leaf(1.0))
    assert 3.0 in x
    assert 9.0 not in x


def test_attributes(backend: str) -> None:
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=agrad.float32)
    assert (x.shape, x.ndim, x.size, x.dtype, x.backend) == ((2, 3), 2, 6, agrad.float32, backend)
    assert x.T.shape == x.mT.shape == (3, 2)
    assert x.__array_namespace__() is agrad
    assert x.__array_namespace__(api_version="2023.12") is agrad


def test_the_grad_attribute_takes_a_tensor_of_the_shape_alone() -> None:
    x = leaf([1.0, 2.0])
    x.grad = agrad.ones(2)
    agrad.sum(x).backward()
    assert_close(x.grad, [2.0, 2.0], "gradient")
    x.grad = None
    for wrong in (agrad.ones(3), np.ones(2), 1.0):
        with pytest.raises(OperandError, match=r"\(2,\)"):
            x.grad = wrong
    with pytest.raises(NotDifferentiableError, match=r"must require a gradient\. Set requires_grad=True first"):
        agrad.ones(2).grad = agrad.ones(2)


# ---------------------------------------------------------------- copies


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies_of_leaves_and_constants(copied: Any, backend: str, place: Any) -> None:
    memory = load(backend).shares_memory or (lambda a, b: False)
    x = leaf(place(np.asarray([1.0, 2.0])))
    agrad.sum(x * x).backward()
    x.register_hook(lambda g: 100 * g)
    twin, result = copied(x), x * 2
    if copied in (copy.deepcopy, copy.copy):
        assert_close(twin.grad, [2.0, 4.0], "the gradient of the copy")
        assert not memory(twin.raw, x.raw) and not memory(twin.grad.raw, x.grad.raw)
        assert copied(agrad.asarray(np.ones(2, ">f8"), backend="numpy")).raw.dtype == ">f8"
        twin.zero_grad()
        other = copied(result)
        assert not memory(other.raw, result.raw)
        (slope,) = agrad.vjp(lambda x: copied(x * 2) ** 2, x.detach())[1](agrad.ones_like(other))
        assert_close(slope, [8.0, 16.0], "the gradient through the copy of a result")
        assert other.requires_grad
    else:
        fails(DetachError, r"\.detach\(\)", copied, result)
    assert twin.grad is None and isinstance(twin, agrad.Tensor) and twin is not x
    assert twin.requires_grad and twin.is_leaf
    assert (twin.backend, twin.device) == (backend, x.device)
    assert host(twin).tolist() == [1.0, 2.0]
    agrad.sum(twin * 3).backward()
    assert_close(twin.grad, [3.0, 3.0], "the gradient of the copy, without the hook")
    assert_close(x.grad, [2.0, 4.0], "the gradient of the original")
    assert not copied(agrad.ones(2)).requires_grad
