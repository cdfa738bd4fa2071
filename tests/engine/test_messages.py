"""What the messages of refused calls name: the public function, the argument and the fix."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import agrad
from agrad.errors import ConfigurationError, NotDifferentiableError, OperandError

X = np.asarray([0.5, 1.5])


def leaf(value: Any = X) -> Any:
    return agrad.asarray(value, requires_grad=True)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (
            lambda x: agrad.sign(x),
            r"^backward\(\): .* got the result of sign, which .* Leave sign out",
        ),
        (lambda x: agrad.floor(x), "result of floor"),
        (lambda x: agrad.round(x), "result of round"),
        (lambda x: agrad.argmax(x), "result of argmax"),
        (lambda x: x > 1, "result of greater"),
        (lambda x: x == 1, "result of equal"),
        (lambda x: agrad.astype(x, agrad.int64), "floating-point dtype, got int64"),
        (lambda x: agrad.any(x > 1), "floating-point dtype, got bool"),
        (lambda x: agrad.sum(agrad.floor(x)), "got a constant. Make an input with requires_grad=True, .*floor"),
        (lambda x: x.detach(), "got a constant"),
    ],
)
@pytest.mark.parametrize("ask", ["backward", "retain_grad"])
def test_a_constant_says_what_made_it(f: Callable[[Any], Any], message: str, ask: str, backend: str) -> None:
    with pytest.raises(NotDifferentiableError, match=message.replace("backward", ask)):
        getattr(f(leaf()), ask)()


ONE = ["grad", "value_and_grad", "elementwise_grad", "jacobian", "jacrev", "jacfwd", "hessian"]
OF_PRIMALS = {"vjp": 1, "jvp": 2, "linearize": 1, "linear_transpose": 1, "hvp": 2, "gnvp": 3}


@pytest.mark.parametrize("name", [*ONE, "vmap", "jit", "checkpoint", "numerical_rule", *OF_PRIMALS])
@pytest.mark.parametrize("given", [X, leaf(), 2.0, "sin"], ids=["array", "Tensor", "number", "name"])
def test_a_transform_refuses_at_once_what_is_no_function(name: str, given: Any) -> None:
    with pytest.raises(OperandError, match=rf"^{name}: .*must be a function, got .*\. Write agrad\.{name}\("):
        getattr(agrad, name)(given, *[(X,)] * OF_PRIMALS.get(name, 0))


@pytest.mark.parametrize("name", [*ONE, "vmap"])
def test_arguments_belong_to_the_returned_function(name: str) -> None:
    fix = rf"^{name}: \w+ must be .*, got ndarray of shape \(2,\)\. Pass .* returned function: agrad\.{name}\(f\)\(x\)"
    with pytest.raises(ConfigurationError, match=fix):
        getattr(agrad, name)(agrad.sum, X)
