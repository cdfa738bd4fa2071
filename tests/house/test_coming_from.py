"""What docs/coming_from says of other libraries: rows give the same numbers, and habits differ as told."""

import warnings
from typing import Any

import numpy as np
import pytest
from refusals import fails

import agrad

X, V = np.asarray([0.5, 1.0, 2.0]), np.asarray([1.0, 0.0, -1.0])
TIES = np.asarray([1.0, 2.0, 2.0])
EDGE = np.asarray([0.0, 4.0])


def energy(x: Any) -> Any:
    return (x**3).sum() + x[0] * x[1]


def pair(x: Any) -> Any:
    return energy(x), x


def assert_same(rows: list[tuple[Any, Any]]) -> None:
    for number, (theirs, ours) in enumerate(rows):
        np.testing.assert_allclose(np.asarray(theirs), np.asarray(ours), rtol=1e-6, err_msg=f"row {number}")


@pytest.mark.needs("autograd")
def test_autograd() -> None:
    import autograd
    import autograd.misc
    import autograd.numpy as anp

    double, ours, square = lambda x: anp.sin(x) * x[0], lambda x: agrad.sin(x) * x[0], lambda y: (y**2).sum()
    assert_same(
        [
            (autograd.grad(energy)(X), agrad.grad(energy)(X)),
            (autograd.make_vjp(double)(X)[0](V), agrad.vjp(ours, X)[1](V)[0]),
            (autograd.make_jvp(double)(X)(V)[1], agrad.jvp(ours, (X,), (V,))[1]),
            (autograd.hessian_vector_product(energy)(X, V), agrad.hvp(energy, (X,), (V,))[0]),
            (autograd.make_hvp(energy)(X)[0](V), agrad.hvp(energy, (X,), (V,))[0]),
            (autograd.make_ggnvp(double, square)(X)(V), agrad.gnvp(ours, square, (X,), (V,))[0]),
            (autograd.elementwise_grad(anp.sin)(X), agrad.elementwise_grad(agrad.sin)(X)),
            (autograd.deriv(anp.sin)(0.5), agrad.elementwise_grad(agrad.sin)(0.5)),
            (autograd.grad_named(lambda a, b: a * b, "b")(2.0, 3.0), agrad.grad(lambda a, b: a * b, "b")(2.0, 3.0)),
            (autograd.grad(lambda z: anp.abs(z) ** 2)(1 + 2j), agrad.grad(lambda z: agrad.abs(z) ** 2)(1 + 2j)),
            (autograd.misc.flatten({"b": V, "a": X})[0], agrad.tree.ravel({"b": V, "a": X})[0]),
        ]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert np.isnan(autograd.grad(lambda x: anp.sum(anp.where(x > 0, anp.sqrt(x), 0.0)))(EDGE)[0])
        assert np.isnan(autograd.grad(anp.linalg.norm)(np.zeros(2))).all()
    fails(AttributeError, "__setitem__", lambda: autograd.grad(lambda x: x.__setitem__(0, 1.0))(X))


@pytest.mark.needs("jax")
def test_jax() -> None:
    import jax
    import jax.flatten_util
    import jax.numpy as jnp

    x, v = X.astype("float32"), V.astype("float32")
    assert_same(
        [
            (jax.value_and_grad(pair, has_aux=True)(x)[1], agrad.value_and_grad(pair, has_aux=True)(x)[1]),
            (jax.jvp(jax.grad(energy), (x,), (v,))[1], agrad.hvp(energy, (x,), (v,))[0]),
            (jax.vjp(jnp.sin, x)[1](v)[0], agrad.vjp(agrad.sin, x)[1](v)[0]),
            (jax.grad(jnp.max)(TIES), agrad.grad(agrad.max)(TIES)),
            (jax.grad(lambda z: jnp.abs(z) ** 2)(1 + 2j), agrad.grad(lambda z: agrad.abs(z) ** 2)(1 + 2j)),
            (jax.flatten_util.ravel_pytree({"b": v, "a": x})[0], agrad.tree.ravel({"b": v, "a": x})[0]),
            (jnp.asarray(x)[10], x[-1]),
            (jnp.asarray(x).at[10].set(7.0), x),
        ]
    )
    assert jnp.isnan(jax.grad(lambda x: jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0)))(EDGE)[0])
    assert jnp.isnan(jax.grad(jnp.linalg.norm)(np.zeros(2))).all()
    settings = {"scale": 2.0}
    scaled = jax.jit(lambda x: x * settings["scale"])
    scaled(1.0)
    settings["scale"] = 3.0
    assert scaled(1.0) == 2.0


@pytest.mark.needs("torch")
def test_pytorch() -> None:
    import torch

    x, v = torch.from_numpy(X), torch.from_numpy(V)
    assert_same(
        [
            (torch.func.grad(energy)(x), agrad.grad(energy)(X)),
            (torch.autograd.functional.hvp(energy, x, v)[1], agrad.hvp(energy, (X,), (V,))[0]),
            (torch.func.grad(torch.max)(torch.from_numpy(TIES)), agrad.grad(agrad.max)(TIES)),
            (torch.std(x), agrad.std(X, correction=1)),
            (torch.func.grad(torch.linalg.vector_norm)(x * 0), agrad.grad(agrad.linalg.vector_norm)(X * 0)),
        ]
    )
    z = torch.tensor(1 + 2j, requires_grad=True)
    (z.abs() ** 2).backward()
    assert z.grad == 2 + 4j
    edge = torch.from_numpy(EDGE)
    assert torch.func.grad(lambda x: torch.where(x > 0, x.sqrt(), 0.0).sum())(edge)[0].isnan()
    leaf = torch.ones(2, requires_grad=True)
    kept = leaf * 1
    product = (kept * kept).sum()
    kept *= 2
    fails(RuntimeError, "modified by an inplace operation", product.backward)


@pytest.mark.needs("mygrad")
def test_mygrad() -> None:
    import mygrad

    x = mygrad.tensor(X)
    energy(x).backward()
    np.testing.assert_allclose(x.grad, agrad.grad(energy)(X))
    (3.0 * x).backward()  # a result with axes; the gradient before is forgotten
    np.testing.assert_array_equal(x.grad, [3.0, 3.0, 3.0])
    for f, expected in ((mygrad.max, [0.0, 1.0, 0.0]), (lambda t: mygrad.maximum(t, 2.0), [0.0, 0.0, 0.0])):
        ties = mygrad.tensor(TIES)
        f(ties).backward()
        np.testing.assert_array_equal(ties.grad, expected)
    assert not x.constant and mygrad.tensor([1, 2]).constant and float(mygrad.tensor(2.0)) == 2.0
