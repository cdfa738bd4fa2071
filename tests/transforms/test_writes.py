"""Derivatives of writes in every mode: overwritten elements, and writes under ``no_grad``."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, check_adjoint, host
from jit_help import same_steps
from modes import check_mapped, check_same, check_traced, gradient

import agrad
from agrad.errors import TracedValueError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

# ---------------------------------------------------------------- overwritten elements

VALUES = np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
MASK = np.asarray([[True, False, True], [False, True, False]])

Place = Callable[[np.ndarray], Any]

INDICES: dict[str, Callable[[Place], Any]] = {
    "mask": lambda place: place(MASK),
    "mask of rows": lambda place: place(np.asarray([False, True])),
    "mask behind an axis": lambda place: (0, place(np.asarray([True, False, True]))),
    "integers": lambda place: (place(np.asarray([0, 1])), place(np.asarray([2, 0]))),
    "an integer twice": lambda place: (0, place(np.asarray([1, 1]))),
    "a list": lambda place: [1],
    "int": lambda place: 1,
    "element": lambda place: (1, 2),
    "slice": lambda place: (slice(None), slice(1, None)),
    "strided": lambda place: (slice(None), slice(None, None, 2)),
    "ellipsis": lambda place: ...,
    "new axis": lambda place: (None, 1),
}


def steep(x: Any) -> Any:
    """Infinite or NaN, as are its derivatives, where x is 0."""
    return agrad.log(x) * agrad.sqrt(x)


def written(x: Any, index: Any) -> Any:
    y = steep(x)
    y[index] = (3.0 * x * x + x)[index]
    return y


def written_to_a_view(x: Any, index: Any) -> Any:
    y = agrad.reshape(steep(x), (6,))
    agrad.reshape(y, (2, 3))[index] = (3.0 * x * x + x)[index]
    return agrad.reshape(y, (2, 3))


def written_a_number(x: Any, index: Any) -> Any:
    y = steep(x)
    y[index] = 2.0
    return y


def problem(name: str, place: Place) -> tuple[Any, np.ndarray, Any]:
    """Return an index, where it points to, and values that are 0 there."""
    at = np.zeros((2, 3), dtype=bool)
    at[INDICES[name](np.asarray)] = True
    return INDICES[name](lambda array: agrad.asarray(place(array))), at, place(np.where(at, 0.0, VALUES))


CASES = [(write, name) for write in (written, written_a_number) for name in INDICES]
CASES += [(written_to_a_view, name) for name in ("mask", "element", "slice")]
EAGER = ("gradient", "tangent", "forward over reverse", "reverse over reverse", "vmap of the gradient")


@pytest.mark.parametrize(("write", "name"), CASES, ids=[f"{write.__name__}-{name}" for write, name in CASES])
def test_overwritten_elements_have_the_cotangent_zero(name: str, write: Any, place: Any, backend: str) -> None:
    """No NaN or infinity of an overwritten element comes through a derivative, as behind ``where``."""
    index, at, x = problem(name, place)
    mask = agrad.asarray(place(at))

    def expected(x: Any) -> Any:
        return agrad.where(mask, 2.0 if write is written_a_number else 3.0 * x * x + x, steep(x))

    modes, jitted = [*EAGER, "gradient of vmap"], ["jit of the gradient", "gradient of jit"]
    if "mask" not in name:
        modes += jitted
    elif write is written_a_number and backend == "jax":
        for mode in jitted:  # the shape of what a mask picks is not known in a trace
            with pytest.raises(TracedValueError, match="a Boolean index"):
                check_same(lambda x: write(x, index), expected, (x,), [mode])
    elif write is written_a_number:
        modes += jitted
    check_same(lambda x: write(x, index), expected, (x,), modes, 1e-12)
    for second in (gradient(expected), gradient(gradient(expected))):
        assert np.isfinite(host(second(x)[0])).all()


def test_the_old_value_at_the_index_may_be_nan(place: Any) -> None:
    everything = place(np.asarray([True]))

    def f(x: Any) -> Any:
        y = (x / 0.0 - 1.0) ** 2 * 0.0
        y[agrad.asarray(everything)] = (3.0 * x)[everything]
        return agrad.sum(y)

    assert_close(agrad.grad(f)(place(np.asarray([1.0]))), np.asarray([3.0]), "gradient", 0.0)
    kept = place(np.asarray([False, True, False, True]))

    def by_an_operator(x: Any) -> Any:
        y = 2.0 * x
        y[kept] *= agrad.sqrt(x)[kept]
        return agrad.sum(y)

    found = agrad.grad(by_an_operator)(place(np.asarray([0.0, 4.0, 0.0, 9.0])))
    assert_close(found, np.asarray([2.0, 6.0, 2.0, 9.0]), "by an operator", 1e-12)


def test_of_two_values_at_one_index_one_gets_the_cotangent(place: Any) -> None:
    def f(v: Any) -> Any:
        x = agrad.asarray(place(np.zeros(3)))
        x[place(np.asarray([1, 1]))] = v
        return agrad.sum(x / 0.0)

    assert sorted(host(agrad.grad(f)(place(np.asarray([1.0, 2.0]))))) == [0.0, np.inf]


@pytest.mark.parametrize("name", ["integers", "a list", "int", "element", "slice", "ellipsis"])
def test_axes_of_length_one_in_front_of_a_value_are_left_out(name: str, place: Any) -> None:
    index = INDICES[name](place)

    def f(x: Any, ones: int) -> Any:
        y, value = x * 1.0, (x * x)[index]
        y[index] = agrad.reshape(value, (*(1,) * ones, *value.shape))
        return agrad.sum(agrad.sin(y))

    modes = (*EAGER, "jit of the gradient")
    check_same(lambda x: f(x, 2), lambda x: f(x, 0), (place(VALUES),), modes, 1e-12)


# ---------------------------------------------------------------- writes under no_grad

ROWS = np.asarray([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]])


def everything(x: Any) -> Any:
    y = x * x
    with agrad.no_grad():
        y[...] = 5.0
    return agrad.sum(y * x)


def one(x: Any) -> Any:
    y = x * x
    with agrad.no_grad():
        y[0] = 5.0
    return agrad.sum(y * x)


def in_place(x: Any) -> Any:
    y = x * x
    with agrad.no_grad():
        y *= x
    y *= x
    return agrad.sum(y * x)


def of_another(x: Any) -> Any:
    y, z = x * x, agrad.sin(x)
    with agrad.no_grad():
        y[...] = z
    return agrad.sum(y * x) + agrad.sum(z)


def of_a_derivative(x: Any) -> Any:
    y = agrad.asarray(x) * x
    with agrad.no_grad():
        y[...] = agrad.grad(lambda z: agrad.sum(z**3))(y.detach())
    return agrad.sum(y * x)


def through_a_view(x: Any) -> Any:
    y = x * x
    view = y[1:]
    with agrad.no_grad():
        view[...] = view * 0.5 + 2.0
    return agrad.sum(y * x) + agrad.sum(view * view)


def scalar(x: Any) -> Any:
    y = kept = agrad.sum(x * x)
    with agrad.no_grad():
        y *= 3.0
        silent = before = agrad.sum(x * x)
        silent += 1.0
    return y * x[0] * (silent - before) + (y - kept) * x[1]


def scanned(f: Any) -> Any:
    zero, once = np.asarray(0.0), np.ones(1)
    return lambda x: agrad.scan(lambda c, _: (c + f(x), None), agrad.asarray(zero), agrad.asarray(once))[0]


WRAPPED: dict[str, Callable[[Any], Any]] = {
    "checkpoint": agrad.checkpoint,
    "cond": lambda f: lambda x: agrad.cond(agrad.sum(x) > 0.0, f, f, x),
    "scan": scanned,
}


@pytest.mark.parametrize("f", [everything, one, in_place, of_another, of_a_derivative, through_a_view, scalar])
def test_writes_under_no_grad_change_values_and_no_derivative(f: Any, place: Any) -> None:
    """Every mode agrees with the function alone, inside of jit too."""
    x = place(ROWS[0])
    check_adjoint(f, [x], np.random.default_rng(0))
    check_mapped(f, [place(ROWS)])
    check_traced(f, (x,), ("gradient", "tangent", "reverse over reverse"))
    for name, wrap in WRAPPED.items():
        check_same(wrap(f), f, (x,), ("gradient", "jit of the gradient", "vmap of the gradient"))
        assert_close(agrad.hessian(wrap(f))(x), agrad.hessian(f)(x), f"Hessian, {name}")


def test_each_batch_element_writes_to_a_shared_value(place: Any) -> None:
    """The derivative of a value that is not mapped stays when each element writes its own values to it."""

    def f(x: Any, c: Any) -> Any:
        y = x * x
        with agrad.no_grad():
            y[...] = c * y
        return agrad.sum(y * x)

    check_mapped(f, [place(ROWS[0]), place(ROWS + 1.0)], (None, 0))


@pytest.mark.parametrize("by", ["all", "part", "operator"])
def test_a_jitted_step_updates_a_leaf_by_hand(by: str, backend: str) -> None:
    def made() -> Any:
        w = agrad.asarray(ROWS[0].tolist(), dtype=agrad.float64, requires_grad=True)

        def step(x: Any) -> Any:
            loss = agrad.sum((x * w) ** 2)
            loss.backward()
            with agrad.no_grad():
                if by == "all":
                    w[...] = w - 0.1 * w.grad
                elif by == "part":
                    w[:2] = w[:2] - 0.1 * w.grad[:2]
                else:
                    w.__isub__(0.1 * w.grad)
            w.grad = None
            return loss, w.detach() + 0

        return step

    same_steps(made, agrad.asarray([1.0, 0.5, 0.25], dtype=agrad.float64), count=3)


def test_a_leaf_of_no_axes_keeps_its_array(backend: str) -> None:
    """NumPy's operations return scalars there, a write in place does not; and there is one program."""
    w = agrad.asarray(2.0, dtype=agrad.float64, requires_grad=True)
    kind = type(w.data)

    @agrad.jit
    def step(x: Any) -> None:
        with agrad.no_grad():
            w.__imul__(x)

    for _ in range(3):
        step(agrad.asarray(0.5, dtype=agrad.float64))
    assert type(w.data) is kind
    assert step.cache_info().misses == 1
    assert_close(w.detach(), 0.25, "value")
