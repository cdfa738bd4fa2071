"""``grad(..., strict=True)``: an argument that the result does not depend on; results of one element."""

from typing import Any

import numpy as np
import pytest
from checker import assert_close

import agrad
from agrad.errors import NotDifferentiableError


def partial_loss(parameters: Any, x: Any) -> Any:
    return agrad.sum(parameters["w"] * x) + agrad.sum(agrad.stop_gradient(parameters["layers"][0]))


@pytest.mark.parametrize("transform", [agrad.grad, agrad.value_and_grad])
def test_strict_names_the_leaf(transform: Any, backend: str) -> None:
    parameters = {"w": agrad.asarray([1.0, 2.0]), "layers": [agrad.asarray([3.0])]}
    x = agrad.asarray([5.0, 6.0])
    with pytest.raises(NotDifferentiableError, match=r"must depend on argument 0\['layers'\]\[0\] by"):
        transform(partial_loss, strict=True)(parameters, x)
    out = transform(partial_loss)(parameters, x)
    gradient = out[1] if isinstance(out, tuple) else out
    assert gradient["layers"][0].tolist() == [0.0]
    # all that is used
    assert agrad.grad(partial_loss, argnums=1, strict=True)(parameters, x).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("wrap", [agrad.jit, agrad.vmap, agrad.grad, lambda f: agrad.vmap(agrad.jit(f))])
def test_strict_inside_transforms(wrap: Any, backend: str) -> None:
    inner = agrad.grad(lambda x, y: agrad.sum(x * x) + agrad.floor(agrad.sum(y)), argnums=(0, 1), strict=True)
    x = agrad.asarray(1.5) if wrap is agrad.grad else agrad.asarray([1.5, 2.5])
    with pytest.raises(NotDifferentiableError, match="must depend on argument 1 by"):
        wrap(lambda x: agrad.sum(inner(x, x)[0]))(x)
    used = agrad.grad(lambda x: agrad.sum(x * x), strict=True)
    assert agrad.all(wrap(lambda x: agrad.sum(used(x)))(x) >= 2.0)


def test_strict_of_a_constant_function() -> None:
    for f in (lambda x: 3.0, lambda x: agrad.asarray(2.0)):
        with pytest.raises(NotDifferentiableError, match="must depend on argument 0 by"):
            agrad.grad(f, strict=True)(np.asarray(1.0))
        assert float(agrad.grad(f)(np.asarray(1.0))) == 0.0
    # a derivative that happens to be 0 is a dependence
    assert float(agrad.grad(lambda x: 0.0 * x, strict=True)(np.asarray(1.0))) == 0.0


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_results_of_one_element(shape: tuple[int, ...], backend: str) -> None:
    def f(x: Any) -> Any:
        return agrad.reshape(agrad.sum(x**3), shape)

    x, slope = agrad.asarray([0.5, -1.0, 2.0]), np.asarray([0.75, 3.0, 12.0])
    value, g = agrad.value_and_grad(f)(x)
    assert value.shape == shape
    assert_close(g, slope, "gradient")
    assert_close(agrad.hessian(f)(x), np.reshape(np.diag([3.0, -6.0, 12.0]), (*shape, 3, 3)), "Hessian")
    assert_close(agrad.hvp(f, (x,), (x,))[0], 2 * slope, "product")
    assert_close(agrad.vmap(agrad.grad(f))(agrad.stack([x, x]))[1], slope, "gradient of a member")


@pytest.mark.parametrize("argnums", [1.0, None, (0, 1.0)])
def test_argnums_of_another_kind_are_named(argnums: Any) -> None:
    with pytest.raises(agrad.errors.ConfigurationError, match="grad: argnums must be a position, a name or"):
        agrad.grad(agrad.sum, argnums=argnums)
