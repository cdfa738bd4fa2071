"""What the messages of refused calls name: the public function, the argument and the fix."""

import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from refusals import fails

import agrad
from agrad import foreign
from agrad.errors import AgradError, ConfigurationError, NotDifferentiableError, OperandError
from agrad.foreign import function_word

X = np.asarray([0.5, 1.5])


def leaf(value: Any = X) -> Any:
    return agrad.asarray(value, requires_grad=True)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: agrad.sign(x), r"^backward\(\): .* got the result of sign, which .* Leave sign out"),
        (lambda x: agrad.floor(x), "result of floor"),
        (lambda x: agrad.round(x), "result of round"),
        (lambda x: agrad.argmax(x), "result of argmax"),
        (lambda x: x > 1, "result of greater"),
        (lambda x: x == 1, "result of equal"),
        (lambda x: agrad.astype(x, agrad.int64), "result of cast"),
        (lambda x: agrad.any(x > 1), "floating-point dtype, got bool"),
        (lambda x: agrad.sum(agrad.floor(x)), "got a constant. Make an input with requires_grad=True, .*floor"),
        (lambda x: x.detach(), "got a constant"),
    ],
)
@pytest.mark.parametrize("ask", ["backward", "retain_grad"])
def test_a_constant_says_what_made_it(f: Callable[[Any], Any], message: str, ask: str, backend: str) -> None:
    fails(NotDifferentiableError, message.replace("backward", ask), lambda: getattr(f(leaf()), ask)())


ONE = ["grad", "value_and_grad", "elementwise_grad", "jacobian", "jacrev", "jacfwd", "hessian"]
OF_PRIMALS = {"vjp": 1, "jvp": 2, "linearize": 1, "linear_transpose": 1, "hvp": 2, "gnvp": 3}


@pytest.mark.parametrize("name", [*ONE, "vmap", "jit", "checkpoint", "numerical_rule", *OF_PRIMALS])
def test_a_transform_refuses_at_once_what_is_no_function(name: str) -> None:
    text = rf"^{name}: .*must be a function, got .*\. Write agrad\.{name}\("
    for given in (X, leaf(), 2.0, "sin"):
        fails(OperandError, text, getattr(agrad, name), given, *[(X,)] * OF_PRIMALS.get(name, 0))


@pytest.mark.parametrize("name", [*ONE, "vmap"])
def test_arguments_belong_to_the_returned_function(name: str) -> None:
    fix = rf"^{name}: \w+ must be .*, got ndarray of shape \(2,\)\. Pass .* returned function: agrad\.{name}\(f\)\(x\)"
    fails(ConfigurationError, fix, lambda: getattr(agrad, name)(agrad.sum, X))


def test_a_wrong_keyword_inside_a_transform_has_a_note() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'dim'") as caught:
        agrad.grad(lambda x: agrad.sum(x, dim=0))(X)
    assert caught.value.__notes__ == ["Write axis="]


def test_foreign_names_are_no_attributes() -> None:
    names = set(dir(leaf()))
    assert not names & {"view", "cuda", "sin", "unsqueeze"}
    assert not hasattr(leaf(), "view")
    assert not hasattr(agrad.Tensor, "view")
    assert not hasattr(agrad, "tensor")


def test_each_word_for_a_foreign_name_exists() -> None:
    spaces = {"agrad": agrad, "numpy": np, "x": leaf(np.ones((2, 2)))}
    words = " ".join([*map(function_word, (*foreign._FUNCTIONS, *foreign._MODULE)), *foreign._TENSOR.values()])
    found = re.findall(r"\b(agrad|numpy|x)\.((?:\w+\.)*\w+)", words)
    assert len(found) > 80
    assert [f"{space}.{name}" for space, name in found if not _has(spaces[space], name)] == []


def _has(space: Any, path: str) -> bool:
    try:
        attrgetter(path)(space)
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: x.view(2), "Tensor' object has no attribute 'view'. Write x.reshape(shape)."),
        (lambda x: x.cuda(), "Write x.to('cupy')"),
        (lambda x: x.sin(), "Write agrad.sin(x)."),
        (lambda x: x.ptp(), "Write agrad.max(x) - agrad.min(x)."),
        (lambda x: x.flags, "Write x.detach().numpy().flags."),
        (lambda x: setattr(x, "shape", (2, 1)), "must not reshape a Tensor in place. Write x = x.reshape((2, 1))."),
        (lambda x: agrad.vmap(lambda x: setattr(x, "shape", -1))(x), "Write x = x.reshape(-1)."),
        (lambda x: x.resize(3), "Write agrad.reshape, or numpy.resize."),
        (lambda x: x.relu(), "Write agrad.relu(x)."),
        (lambda x: x.unsqueeze(0), "Write agrad.expand_dims."),
        (lambda x: x.float(), "Write x.astype('float32')."),
        (lambda x: x.requires_grad_(), "Write x.requires_grad = True."),
        (lambda x: agrad.tensor(1.0), "Write agrad.asarray."),
        (lambda x: agrad.cat([x, x]), "Write agrad.concat."),
        (lambda x: agrad.manual_seed(0), "Write agrad.nn.manual_seed"),
        (lambda x: x.sum(dim=0), "Tensor.sum() got an unexpected keyword argument 'dim'. Write axis=."),
        (lambda x: x.mean(axis=0, keepdim=True), "unexpected keyword argument 'keepdim'. Write keep"),
        (lambda x: x.take(), "Tensor.take() missing 1 required positional argument: 'indices'"),
        (lambda x: x.astype(), "Tensor.astype() missing 1 required positional argument: 'dtype'"),
        (lambda x: agrad.sort(x, dim=0), "sort() got an unexpected keyword argument 'dim'"),
        (lambda x: agrad.vjp(agrad.sum, X)[1](), "pullback() missing 1 required positional argument: 'cotangent'"),
        (lambda x: x.to("cuda:0"), "to: where must be a backend, or a device of 'numpy', got 'cuda:0'. Write x.to("),
        (lambda x: x.to("float32"), "Write x.astype('float32')."),
        (lambda x: x.to(agrad.float32), "Write x.astype('float32')."),
        (lambda x: agrad.sum(x, axis="a"), "axis must be an integer or a tuple of integers, got 'a'"),
        (lambda x: agrad.softmax(x, axis=0.5), "axis must be an integer or a tuple of integers, got 0.5"),
        (lambda x: agrad.reshape(x, "a"), "shape must be an integer or a tuple of integers, got 'a'"),
        (lambda x: agrad.zeros((2, None)), "shape must be an integer or a tuple of integers, got (2, None)"),
        (lambda x: agrad.full((2,), "a"), "full: fill_value must be a number, got 'a'"),
        (lambda x: agrad.permute_dims(x, 0), "axes must be a tuple of integers, got 0"),
        (lambda x: agrad.sum([x, x]), "sum: arguments must be Tensors or arrays, got list"),
        (lambda x: agrad.softmax("a"), "softmax: arguments must be Tensors or arrays, got str"),
        (lambda x: agrad.take(x, 0), "indices must be an array or a list of integers, got 0"),
        (lambda x: x[:2.5], "x[i]: slice bounds must be an integer"),
        (lambda x: agrad.asarray([x[0]], dtype=object), "dtype of a floating-point Tensor must be one of"),
        (lambda x: agrad.asarray([1.0], dtype=object), "dtype must be a dtype of the array API standard"),
        (lambda x: agrad.astype(x, None), "must be one of the array API standard, got None"),
        (lambda x: agrad.linalg.norm(x), "agrad.linalg has no function 'norm'. Look for it in agrad.scipy.linalg"),
        (lambda x: x.assign("a"), "assign: raw must be an array that vmap does not map, got 'a'"),
        (lambda x: agrad.cond(True, X, X), "cond: true_fn must be a function, got ndarray of shape (2,)"),
        (lambda x: agrad.while_loop(bool, X, 0.0), "while_loop: body_fun must be a function"),
        (lambda x: agrad.fori_loop(0, 3, X, 0.0), "fori_loop: body_fun must be a function"),
        (lambda x: agrad.root(X, X), "root: f must be a function"),
        (lambda x: agrad.fixed_point(None, X), "fixed_point: f must be a function, got None"),
        (lambda x: agrad.odeint(X, X, X), "odeint: f must be a function"),
        (lambda x: agrad.special.nothing, "agrad.special has no function 'nothing'"),
        (lambda x: agrad.no_grad(1), "no_grad: there must be no argument, got 1. Write"),
        (lambda x: agrad.enable_grad(lambda x: x), "enable_grad: there must be no argument, got function. Write"),
        (lambda x: agrad.arange(0, 1, 0), "arange: step must not be 0"),
        (lambda x: agrad.eye("a"), "eye: n_rows must be an integer, got 'a'"),
        (lambda x: agrad.eye(2, 2.5), "eye: n_cols must be an integer, got 2.5"),
        (lambda x: agrad.linspace(0, 1, 2.5), "linspace: num must be an integer, got 2.5"),
        (lambda x: agrad.zeros(2.5), "shape must be an integer or a tuple of integers, got 2.5"),
        (lambda x: agrad.full((2, 1.5), 0.0), "shape must be an integer or a tuple of integers, got (2, 1.5)"),
        (lambda x: agrad.clip(X, "a", 1), "clip: operands must be Tensors, arrays of a known library or numbers, got"),
        (lambda x: agrad.clip(X, 0.0, np.ones(3)), "clip: shapes (2,) and (3,) must be broadcastable"),
        (lambda x: agrad.jit(agrad.sum)(0.5), "sum: arguments must be Tensors or arrays, got float"),
        (lambda x: agrad.hessian(agrad.sum)("x"), "the Hessian of sum: argument 0 must be a floating-point array, got"),
        (lambda x: agrad.hessian(agrad.sum)(np.arange(2)), "the Hessian of sum: argument 0 must have a float"),
    ],
)
def test_wrong_arguments_are_named(f: Callable[[Any], Any], message: str) -> None:
    with pytest.raises((AgradError, AttributeError, TypeError)) as caught:
        f(leaf())
    assert message in str(caught.value)
    assert "<locals>" not in str(caught.value)
