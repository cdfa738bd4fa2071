"""Values that are kept from a transform and used after it has ended."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from modes import check_same
from refusals import fails

import agrad
from agrad.errors import TracedValueError

ONE, TWO, THREE = np.asarray(1.0), np.asarray(2.0), np.asarray(3.0)


def failing(f: Any, y: Any) -> None:
    """Take a gradient that an error in the function ends."""

    def ended(y: Any) -> Any:
        f(y)
        raise KeyError("ended")

    fails(KeyError, "ended", agrad.grad(ended), y)


INNER: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, y: agrad.grad(f)(y),
    "value_and_grad": lambda f, y: agrad.value_and_grad(f)(y),
    "vjp": lambda f, y: agrad.vjp(f, y)[1](1.0),
    "jvp": lambda f, y: agrad.jvp(f, (y,), (1.0,)),
    "jacfwd": lambda f, y: agrad.jacfwd(f)(y),
    "jacobian": lambda f, y: agrad.jacobian(f)(y),
    "linearize": lambda f, y: agrad.linearize(f, y)[1](1.0),
    "grad of grad": lambda f, y: agrad.grad(agrad.grad(f))(y),
    "checkpoint": lambda f, y: agrad.grad(agrad.checkpoint(f))(y),
    "an error": failing,
}


def test_a_kept_value_prints_what_it_counts_as() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x * 2)
        return agrad.sum(kept[-1])

    plain = "Tensor([2.0, 2.0], dtype=float64, backend=numpy, device=cpu"
    agrad.grad(f)(np.ones(2))
    agrad.jvp(f, (np.ones(2),), (np.ones(2),))
    assert [repr(value) for value in kept] == [f"{plain})"] * 2

    def outer(x: Any) -> Any:
        agrad.grad(f)(x * 1.0)
        assert repr(kept[-1]) == f"{plain}, op=multiply, level=reverse)"
        return agrad.sum(kept[-1])

    agrad.grad(outer)(np.ones(2))
    agrad.vmap(f)(np.ones((1, 2)))
    assert "kept after batch ended" in repr(kept[-1])


KEPT_MODES = ("gradient", "tangent", "reverse over reverse", "checkpoint", "vmap of the gradient", "backward")


@pytest.mark.parametrize("inner", INNER)
def test_a_value_kept_from_a_gradient_counts_as_the_value_inside(inner: str, place: Any) -> None:
    """The kept value is x."""

    def kept_from(x: Any) -> Any:
        kept: list[Any] = []
        INNER[inner](lambda y: (kept.append(x * y), x * y)[1], 1.0)
        assert getattr(kept[0], "requires_grad", False) == getattr(x, "requires_grad", False)
        return kept[0]

    def used(x: Any) -> Any:
        kept = kept_from(x)
        return kept * x + kept * kept

    modes = [*KEPT_MODES, *(["jit of the gradient"] if inner != "an error" else [])]
    check_same(kept_from, lambda x: x * 1.0, (place(THREE),), modes, 0.0)
    check_same(used, lambda x: 2.0 * x * x, (place(THREE),), modes, 0.0)


def test_a_kept_value_outside_of_all_transforms_is_a_number(place: Any) -> None:
    kept: list[Any] = []
    agrad.grad(lambda y: (kept.append(y * y), y * y)[1])(place(THREE))
    (loss,) = kept
    assert (float(loss), loss.item(), loss.tolist(), host(loss).item()) == (9.0,) * 4
    assert not loss.requires_grad and not (loss + agrad.ones_like(loss)).requires_grad
    with agrad.detect_anomaly():
        assert float(loss * 2) == 18.0


def test_a_value_kept_from_a_map_is_refused(place: Any) -> None:
    kept: list[Any] = []
    agrad.vmap(lambda y: (kept.append(y * 2), y)[1])(place(np.arange(2.0)))
    (x,) = kept
    uses: dict[str, Callable[[], Any]] = {
        "an operation": lambda: x * 2,
        "another map": lambda: agrad.vmap(lambda z: z * x)(place(np.arange(3.0))),
        "a map of one member": lambda: agrad.vmap(lambda z: z * x)(place(np.arange(1.0))),
        "a result of a map": lambda: agrad.vmap(lambda z: x)(place(np.arange(2.0))),
        "a shared result": lambda: agrad.vmap(lambda z: x, out_axes=None)(place(np.arange(2.0))),
        "a gradient": lambda: agrad.grad(lambda z: z * x)(place(ONE)),
        "a result": lambda: agrad.jvp(lambda z: x, (place(ONE),), (place(ONE),)),
        "jit": lambda: agrad.jit(lambda z: x)(place(ONE)),
        "an argument": lambda: agrad.grad(lambda z: z)(x),
        "float": lambda: float(x),
    }
    for use in uses.values():
        fails(TracedValueError, "vmap", use)


def test_pullbacks_call_functions_again_as_they_were(place: Any) -> None:
    """A checkpoint runs again after the map and the gradient whose values it closes over have ended."""
    x = place(np.asarray([0.5, 2.0]))

    def cubes(x: Any) -> Any:
        return agrad.vmap(lambda y: agrad.checkpoint(lambda z: z * y * y)(y))(x)

    value, pullback = agrad.vjp(cubes, x)
    assert_close(value, host(x) ** 3, "value", 1e-15)
    for _ in range(2):
        assert_close(pullback(agrad.ones_like(x))[0], 3 * host(x) ** 2, "pullback", 1e-15)

    def slopes(x: Any) -> Any:
        return agrad.sum(agrad.grad(lambda y: agrad.sum(agrad.checkpoint(lambda z: z * y * x)(y)))(x))

    _, pullback = agrad.vjp(slopes, x)
    assert_close(pullback(1.0)[0], 4 * host(x), "of a gradient", 1e-15)
    _, pullback = agrad.vjp(agrad.grad(slopes), x)
    assert_close(pullback(agrad.ones_like(x))[0], np.full(2, 4.0), "third order", 1e-15)


def test_stop_gradient_returns_what_is_not_a_tensor() -> None:
    x = np.ones(2)
    assert agrad.stop_gradient(x) is x and agrad.stop_gradient("name") == "name"


def test_a_constant_of_an_ended_gradient_is_written_into() -> None:
    kept: list[agrad.Tensor] = []
    agrad.grad(lambda y: (kept.append(y * 2), agrad.sum(y))[1])(np.ones(2))
    kept[0][0] = 5.0
    assert host(kept[0]).tolist() == [5.0, 2.0]
    kept[0] += 1.0
    assert host(kept[0]).tolist() == [6.0, 3.0]


def test_a_view_of_a_constant_of_an_ended_transform_is_written_into(place: Any) -> None:
    x = agrad.asarray(place(np.ones((2, 3))))
    view = x[0]

    def f(a: Any) -> Any:
        view[0] += a
        return agrad.sum(x)

    agrad.jvp(f, (place(TWO),), (place(TWO),))
    view += 1.0
    assert host(x).tolist() == [[4.0, 2.0, 2.0], [1.0, 1.0, 1.0]]


def test_a_view_remains_one_after_an_error_in_jit(place: Any) -> None:
    x = agrad.asarray(place(np.ones((2, 3))))
    view = x[0]

    def f(a: Any) -> Any:
        view[1] += a
        x[0] += a
        raise KeyError("raised")

    fails(KeyError, "raised", agrad.jit(f), place(ONE))
    view += 1.0
    x[0] *= 3.0
    assert host(view).tolist() == host(x)[0].tolist() == [6.0, 6.0, 6.0]
