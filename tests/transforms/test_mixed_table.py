"""The table of raw arrays beside Tensors: transform by place of the data by who is a Tensor, on every backend.

The functions ask for the one namespace of their arrays, which ``array_namespace`` refuses for a Tensor beside a raw
array. Data that a transform is handed becomes a constant; data that a function closes over is an error that names it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace
from checker import assert_close, host

import agrad

W = np.asarray([0.5, -1.0, 2.0])
X = np.asarray([[1.0, 2.0, 3.0], [0.5, -1.0, 0.25]])
V = np.asarray([0.3, 0.7, -0.2])


def residual(w: Any, x: Any) -> Any:
    xp = array_namespace(w, x)
    return xp.tanh(x @ w)


def loss(w: Any, x: Any) -> Any:
    xp = array_namespace(w, x)
    return xp.sum(residual(w, x) ** 2)


TRANSFORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "grad": (agrad.grad, loss),
    "grad by a name": (lambda f: agrad.grad(f, argnums="w"), loss),
    "vmap of grad": (lambda f: lambda w, **k: agrad.vmap(agrad.grad(partial(f, **k)))(agrad.stack([w, 2 * w])), loss),
    "value_and_grad": (agrad.value_and_grad, loss),
    "elementwise_grad": (agrad.elementwise_grad, residual),
    "jacobian": (agrad.jacobian, residual),
    "jacrev": (agrad.jacrev, residual),
    "jacfwd": (agrad.jacfwd, residual),
    "hessian": (agrad.hessian, loss),
    "grad of grad": (lambda f: agrad.grad(lambda *a, **k: agrad.sum(agrad.grad(f)(*a, **k) ** 2)), loss),
    "grad of checkpoint": (lambda f: agrad.grad(agrad.checkpoint(f)), loss),
    "checkpoint of grad": (lambda f: agrad.checkpoint(agrad.grad(f)), loss),
    "grad of jit": (lambda f: agrad.grad(agrad.jit(f)), loss),
    "jit of grad": (lambda f: agrad.jit(agrad.grad(f)), loss),
    "jit": (agrad.jit, loss),
    "checkpoint": (agrad.checkpoint, loss),
    "vjp": (lambda f: lambda w, **k: agrad.vjp(partial(f, **k), w)[1](like(w, np.asarray(1.0)))[0], loss),
    "jvp": (lambda f: lambda w, **k: agrad.jvp(partial(f, **k), (w,), (like(w, V),))[1], loss),
    "hvp": (lambda f: lambda w, **k: agrad.hvp(partial(f, **k), (w,), (like(w, V),)), loss),
    "gnvp": (
        lambda f: lambda w, **k: agrad.gnvp(partial(f, **k), lambda r: agrad.sum(r**3), (w,), (like(w, V),)),
        residual,
    ),
    "linearize": (lambda f: lambda w, **k: agrad.linearize(partial(f, **k), w)[1](like(w, V)), loss),
    "vmap": (lambda f: lambda w, **k: agrad.vmap(partial(f, **k))(agrad.stack([w, 2 * w])), loss),
}
"""The transform, and the function it is tried with."""


def like(w: Any, value: np.ndarray) -> Any:
    """Return an array of the library of ``w``, raw if ``w`` is."""
    made = agrad.asarray(value, dtype="float64", backend=agrad.asarray(w).backend, device=agrad.asarray(w).device)
    return made if isinstance(w, agrad.Tensor) else made.raw


def in_container(f: Any) -> Any:
    """Return ``f`` of a container of its data."""

    def g(w: Any, data: Any) -> Any:
        return f(w, data["data"][0])

    return g


PLACES: dict[str, Callable[..., Any]] = {
    "positional": lambda transform, f, w, x: transform(f)(w, x),
    "keyword": lambda transform, f, w, x: transform(f)(w, x=x),
    "container": lambda transform, f, w, x: transform(in_container(f))(w, {"data": [x]}),
    "container by keyword": lambda transform, f, w, x: transform(in_container(f))(w, data={"data": [x]}),
    "partial": lambda transform, f, w, x: transform(partial(f, x=x))(w),
}


PRIMALS_ALONE = ("vjp", "jvp", "hvp", "gnvp", "linearize", "vmap", "vmap of grad")
"""Transforms that take what they map or differentiate by position, and data by keyword, bound by ``partial``."""
BOUND = ("jit", "grad of jit")
"""Transforms that read bound data as they read what a function closes over."""


def last(result: Any) -> Any:
    """Return the derivative of a result that may begin with the value."""
    return result[-1] if isinstance(result, tuple) else result


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_data_is_a_constant(transform: str, place: Any) -> None:
    make, f = TRANSFORMS[transform]
    w, x = place(W), place(X)
    left_out = ("positional", "container") if transform in PRIMALS_ALONE else ("partial",) if transform in BOUND else ()
    for where, call in PLACES.items():
        if where in left_out:
            continue
        right = host(last(call(make, f, agrad.asarray(w), agrad.asarray(x))))
        assert np.any(right)
        for given_w, given_x in ((w, x), (agrad.asarray(w), x), (w, agrad.asarray(x))) * 2:
            found = last(call(make, f, given_w, given_x))
            assert_close(found, right, f"{transform}, {where}")
            if transform not in ("jit", "checkpoint"):  # their result is as the function's own
                assert isinstance(found, agrad.Tensor) is isinstance(given_w, agrad.Tensor)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_data_of_a_closure_is_named(transform: str, place: Any) -> None:
    make, f = TRANSFORMS[transform]
    w, hidden = place(W), place(X)

    def closed(w: Any) -> Any:
        xp = array_namespace(w, hidden)
        return f(w, xp.asarray(hidden))

    if transform == "checkpoint":
        w = agrad.asarray(w)  # all is raw otherwise
    with pytest.raises(TypeError, match="Multiple namespaces") as caught:
        make(closed)(w)
    assert any("`hidden`" in note and "agrad.asarray" in note for note in caught.value.__notes__)
    if transform in BOUND:
        with pytest.raises(TypeError, match="Multiple namespaces") as caught:
            make(partial(f, x=hidden))(w)
        assert any("`x`" in note and "agrad.asarray" in note for note in caught.value.__notes__)
    hidden = agrad.asarray(hidden)
    assert_close(last(make(closed)(w)), host(last(make(partial(f, x=hidden))(w))), transform)
