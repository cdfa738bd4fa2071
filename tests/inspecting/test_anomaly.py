"""``detect_anomaly`` names the first operation that made a NaN or an infinity, at every level, with the user's line."""

import re
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from refusals import fails

import agrad
from agrad.engine.observing import OBSERVED
from agrad.errors import AnomalyError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

ZERO = np.asarray([1.0, 0.0])


def found(call: Any) -> str:
    """What is reported, on an own line of this file that the report must name."""
    with agrad.detect_anomaly(), pytest.raises(AnomalyError) as caught:
        call()
    return str(caught.value)


def test_a_constant_is_named_and_not_what_uses_it(place: Any) -> None:
    x = agrad.asarray(place(ZERO), requires_grad=True)

    def f() -> Any:
        scale = agrad.log(agrad.asarray(place(ZERO)))  # the constant line
        return x * scale

    text = found(f)
    assert text.startswith("log returned") and "the constant line" in text


def test_what_came_in_is_said_to_have_come_in(place: Any) -> None:
    x = place(np.asarray([np.inf, 1.0]))
    assert found(lambda: agrad.add(x, 1.0)).startswith("add received a NaN or an infinity in x1, which was computed")
    assert found(lambda: agrad.asarray(place(ZERO)) * float("nan")).startswith("multiply received a NaN")


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: lambda x: f(x),
        lambda f: agrad.vmap(f),
        lambda f: lambda x: agrad.grad(lambda x: agrad.sum(f(x)))(x),
        lambda f: lambda x: agrad.jvp(f, (x,), (x,)),
        lambda f: lambda x: agrad.linearize(f, x),
        lambda f: agrad.vmap(agrad.grad(f)),
        lambda f: agrad.grad(lambda x: agrad.sum(agrad.vmap(f)(x))),
        lambda f: lambda x: agrad.jvp(agrad.grad(lambda x: agrad.sum(f(x))), (x,), (x,)),
        lambda f: agrad.no_grad()(f),
    ],
    ids=["none", "vmap", "grad", "jvp", "linearize", "vmap of grad", "grad of vmap", "jvp of grad", "no_grad"],
)
def test_a_value_in_every_transform(transform: Any, place: Any) -> None:
    def f(x: Any) -> Any:
        y = agrad.exp(x)
        return agrad.log(y - y) + 1.0  # the line to name

    text = found(lambda: transform(f)(place(ZERO)))
    assert text.startswith("log returned a NaN or an infinity at ") and "the line to name" in text


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: agrad.grad(lambda x: agrad.sum(f(x))),
        lambda f: agrad.vmap(agrad.grad(f)),
        lambda f: agrad.grad(lambda x: agrad.sum(agrad.vmap(f)(x))),
        lambda f: agrad.grad(lambda x: agrad.sum(agrad.grad(lambda x: agrad.sum(f(x)))(x))),
        lambda f: agrad.jacrev(f),
    ],
    ids=["grad", "vmap of grad", "grad of vmap", "grad of grad", "jacrev"],
)
def test_a_backward_rule_in_every_transform(transform: Any, place: Any) -> None:
    def f(x: Any) -> Any:
        return 2.0 * agrad.sqrt(x)  # finite, with an infinite slope

    text = found(lambda: transform(f)(place(ZERO)))
    start = "the backward rule of sqrt returned a NaN or an infinity for x; the operation was recorded at "
    assert text.startswith(start) and "finite, with an infinite slope" in text


def test_backward_and_create_graph(place: Any) -> None:
    x = agrad.asarray(place(ZERO), requires_grad=True)
    for create_graph in (False, True):
        with agrad.detect_anomaly():
            y = agrad.sum(agrad.sqrt(x) * 3.0)
            match = r"backward rule of sqrt .* for x; .*test_anomaly.py"
            fails(AnomalyError, match, y.backward, create_graph=create_graph)


def test_tangents_and_cotangents(place: Any) -> None:
    x, t, bad = (place(np.asarray(a)) for a in (ZERO, [1.0, 1.0], [np.nan, 1.0]))
    text = found(lambda: agrad.jvp(lambda x: 2.0 * agrad.sqrt(x), (x,), (t,)))
    assert text.startswith("the forward rule of sqrt returned a NaN or an infinity at ") and "test_anomaly.py" in text
    text = found(lambda: agrad.jvp(lambda x: x * 2, (t,), (bad,)))
    assert "the forward rule of multiply received a NaN or an infinity in the tangent of x1" in text
    _, pull = agrad.vjp(agrad.sin, x)
    assert "backward rule of sin received a cotangent" in found(lambda: pull(bad))


def test_masked_branches_are_no_anomaly(place: Any) -> None:
    """What a rule makes on its way and masks before its end is not reported, in any order."""

    def f(x: Any) -> Any:
        return agrad.sum(agrad.where(x > 0, agrad.sqrt(x), 0.0))

    x = place(ZERO)
    with agrad.detect_anomaly():
        assert_close(agrad.grad(f)(x), [0.5, 0.0], "the gradient")
        twice = agrad.grad(lambda x: agrad.sum(agrad.grad(f)(x)))
        assert_close(twice(x), [-0.25, 0.0], "the second order")


def test_inside_a_checkpoint(place: Any) -> None:
    """The operation is named, not the checkpoint: its backward pass is one like any other."""

    def f(x: Any) -> Any:
        return agrad.sum(agrad.sqrt(x * 0.0))

    for g in (agrad.checkpoint(f), agrad.checkpoint(agrad.checkpoint(f))):
        text = found(lambda g=g: agrad.grad(g)(place(ZERO)))
        assert re.search(r"rule of sqrt returned .* at .*sqrt\(x \* 0\.0\)", text)


def test_nothing_stays_switched_on(place: Any) -> None:
    assert found(lambda: agrad.log(place(ZERO))).startswith("log returned a NaN or an infinity at ")
    assert not np.isfinite(host(agrad.log(place(ZERO)))).all()
    with agrad.detect_anomaly():
        assert OBSERVED
        with agrad.detect_anomaly():
            pass
        assert OBSERVED
    assert not OBSERVED


def test_an_operation_made_or_changed_inside_is_looked_at() -> None:
    with agrad.detect_anomaly():

        @agrad.primitive
        def inverse(xp: Any, x: Any, /) -> Any:
            return 1 / x

        fails(AnomalyError, "inverse returned", lambda: inverse(ZERO))
        inverse.vjp(lambda g, y: -g * y * y)
        fails(AnomalyError, "inverse returned", lambda: inverse(ZERO))
        assert_close(agrad.grad(lambda x: agrad.sum(inverse(x)))(ZERO + 1), [-0.25, -1.0], "its gradient")
    assert np.isinf(inverse(ZERO)[1])
