"""Functions that ask for the one namespace of their arrays, some of them differentiated and some raw."""

import gc
import itertools
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace
from checker import assert_close, host

import agrad
from agrad.transforms import arguments

W = np.asarray([0.5, -1.0, 2.0])
X = np.asarray([[1.0, 2.0, 3.0], [0.5, -1.0, 0.25]])
Y = np.asarray([1.0, 0.0])


def residual(w: Any, x: Any, y: Any) -> Any:
    xp = array_namespace(w, x, y)
    return xp.tanh(x @ w) - y


def loss(w: Any, x: Any, y: Any) -> Any:
    xp = array_namespace(w, x, y)
    return xp.sum(residual(w, x, y) ** 2)


def by_hand(w: Any, x: Any, y: Any) -> Any:
    """The same for the reference, which asks for no namespace."""
    return agrad.sum((agrad.tanh(agrad.matmul(x, w)) - y) ** 2)


def test_gradient_is_that_of_the_same_function_without_a_namespace(place: Any) -> None:
    w, x, y = (place(a) for a in (W, X, Y))
    assert_close(agrad.grad(loss)(w, x, y), host(agrad.grad(by_hand)(w, x, y)), "gradient")


def test_a_function_that_asks_for_nothing_is_given_the_callers_arrays(place: Any) -> None:
    x, labels, log = place(X), np.asarray(["a", "b"], dtype=object), []

    def f(w: Any, x: Any, labels: Any, log: list[Any]) -> Any:
        log.append((type(x), type(labels), labels))
        return agrad.sum(agrad.matmul(x, w))

    agrad.grad(f)(place(W), x, labels, log)
    assert log == [(type(x), np.ndarray, labels)]


def test_only_arrays_of_numbers_become_constants(place: Any) -> None:
    seen: list[Any] = []
    given = (np.asarray(["a"], dtype=object), np.asarray(["a"]), np.float64(2.0), 3, None, "name", sum)

    def f(w: Any, x: Any, *rest: Any, more: Any) -> Any:
        xp = array_namespace(w, x)
        seen[:] = [x, *rest, more]
        return xp.sum(x @ w)

    agrad.grad(f)(place(W), place(X), *given, more=given[0])
    assert isinstance(seen[0], agrad.Tensor)
    assert all(a is b for a, b in zip(seen[1:], (*given, given[0]), strict=True))


def test_one_array_in_two_places_is_one_constant(place: Any) -> None:
    x = place(X)

    def f(w: Any, a: Any, b: Any) -> Any:
        xp = array_namespace(w, a, b)
        assert a is b
        return xp.sum(a @ w)

    assert_close(agrad.grad(f)(place(W), x, x), X.sum(axis=0), "gradient")


def test_writes_stay_in_the_function(place: Any) -> None:
    x = place(X)

    def f(w: Any, x: Any) -> Any:
        xp = array_namespace(w, x)
        x[0, 0] = 7.0
        x *= 2.0
        return xp.sum(x @ w)

    for _ in range(2):
        assert_close(agrad.grad(f)(place(W), x), [2 * (7 + 0.5), 2.0, 6.5], "gradient")
    assert_close(x, X, "argument")


def test_constants_convert_and_serve_as_indices(place: Any) -> None:
    rows = place(np.asarray([1, 0, 1]))

    def f(w: Any, x: Any, rows: Any) -> Any:
        xp = array_namespace(w, x, rows)
        assert float(x[0, 1]) == 2.0 and int(rows[0]) == 1
        assert np.asarray(x).tolist() == X.tolist()
        return xp.sum(x[rows] @ w)

    assert_close(agrad.grad(f)(place(W), place(X), rows), X[[1, 0, 1]].sum(axis=0), "gradient")


def test_aux_comes_out_raw(place: Any) -> None:
    def f(w: Any, x: Any) -> Any:
        xp = array_namespace(w, x)
        return xp.sum(x @ w), (x, x + 1)

    _, (same, more) = agrad.grad(f, has_aux=True)(place(W), place(X))
    assert not isinstance(same, agrad.Tensor) and not isinstance(more, agrad.Tensor)
    assert_close(same, X, "aux")
    assert_close(more, X + 1, "aux")


def test_a_checkpoint_of_raw_arrays_alone_gives_a_raw_array(place: Any) -> None:
    w, x, y = (place(a) for a in (W, X, Y))
    agrad.grad(agrad.checkpoint(loss))(w, x, y)
    assert not isinstance(agrad.checkpoint(loss)(w, x, y), agrad.Tensor)


def test_a_function_starts_over_once() -> None:
    calls = []

    def f(w: Any, x: Any) -> Any:
        calls.append(type(x))
        xp = array_namespace(w, x)
        return xp.sum(x @ w)

    for _ in range(3):
        agrad.grad(f)(W, X)
    assert [kind is agrad.Tensor for kind in calls] == [False, True, True, True]


def test_an_array_of_a_closure_is_named(backend: str, place: Any) -> None:
    hidden, w = place(X), place(W)

    def f(w: Any) -> Any:
        xp = array_namespace(w, hidden)
        return xp.sum(hidden @ w)

    with pytest.raises(TypeError, match="Multiple namespaces") as caught:
        agrad.grad(f)(w)
    assert any("`hidden`" in note and "agrad.asarray" in note for note in caught.value.__notes__)


def test_the_namespaces_of_mixed_arguments_are_equal(place: Any) -> None:
    def f(w: Any, x: Any) -> Any:
        found = [a.__array_namespace__() for a in (w, x, agrad.asarray(X))]
        assert len({id(namespace) for namespace in found}) > 1
        assert len(set(found)) == len({namespace.linalg.inv for namespace in found}) == 1
        assert all(first == second != second.linalg for first, second in itertools.product(found, repeat=2))
        return agrad.sum(x @ w)

    assert_close(agrad.jit(agrad.grad(f))(place(W), place(X)), X.sum(axis=0), "gradient")


def asking(w: Any, x: Any, y: Any) -> Any:
    return loss(w, x, y)


def filing(w: Any, x: Any, y: Any) -> Any:
    y[...] = 7.0
    return agrad.sum(agrad.matmul(x, w) ** 2)


def undocumented(f: Callable[..., Any]) -> Callable[..., Any]:
    def inner(*args: Any) -> Any:
        return f(*args)

    return inner


def test_wrappers_of_one_code_are_told_apart_by_what_they_call() -> None:
    agrad.grad(undocumented(asking))(W, X, Y)
    y = Y.copy()
    agrad.grad(undocumented(filing))(W, X, y)
    assert (y == 7).all()


def test_a_container_without_arrays_is_the_callers_own() -> None:
    def counted(w: Any, x: Any, y: Any, log: dict[str, Any]) -> Any:
        value = loss(w, x, y)
        log["calls"] = log.get("calls", 0) + 1
        return value

    log: dict[str, Any] = {}
    for _ in range(2):
        agrad.grad(counted)(W, X, Y, log)
    assert log == {"calls": 2}


def test_a_write_before_the_namespace_is_an_error(backend: str, place: Any) -> None:
    def shifted(w: Any, x: Any, y: Any) -> Any:
        x += 1.0
        return loss(w, x, y)

    w, x, y = (place(a.copy()) for a in (W, X, Y))
    if backend in ("jax", "dask"):
        pytest.skip("arrays that do not change in place")
    with pytest.raises(
        agrad.errors.OperandError, match=r"shifted must not write to an argument before .*shape \(2, 3\)"
    ):
        agrad.grad(shifted)(w, x, y)


def test_a_library_that_wraps_the_error_is_given_constants_too(place: Any) -> None:
    def f(w: Any, x: Any, how: int) -> Any:
        try:
            xp = array_namespace(w, x)
        except TypeError as error:
            raise [RuntimeError("wrapped"), ValueError("wrapped")][how] from error
        return xp.sum(x @ w)

    for how in (0, 1):
        assert_close(agrad.grad(f)(place(W), place(X), how), X.sum(axis=0), "gradient")


def test_another_error_of_the_function_is_its_own(place: Any) -> None:
    def f(w: Any, x: Any) -> Any:
        raise RuntimeError("of the user") from ValueError("another")

    with pytest.raises(RuntimeError, match="of the user"):
        agrad.grad(f)(place(W), place(X))


def test_errors_that_cause_one_another_are_no_endless_chain() -> None:
    first, second = RuntimeError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first

    def f(w: Any, x: Any) -> Any:
        raise first

    with pytest.raises(RuntimeError, match="first"):
        agrad.grad(f)(W, X)


def test_a_function_with_an_empty_cell_is_called() -> None:
    def f(w: Any, x: Any, y: Any) -> Any:
        return loss(w, x, y) if w.shape else later(w)

    assert_close(agrad.grad(f)(W, X, Y), agrad.grad(lambda w: by_hand(w, X, Y))(W), "gradient")
    later = loss


def test_answers_go_with_their_code_when_the_modules_names_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    exec("def f(x):\n    return x * x", names)
    assert agrad.grad(names["f"])(3.0) == 6.0
    code = weakref.ref(names["f"].__code__)
    table, seen = arguments._asks, []
    place = id(names["f"].__code__)
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    monkeypatch.setattr(arguments, "_asks", None)
    assert place in table
    del names["f"]
    gc.collect()
    assert code() is None
    assert place not in table
    assert seen == []


LEFT: dict[str, Callable[[Any, Any], Any]] = {
    "r * w": lambda r, w: r * w,
    "r @ w": lambda r, w: (r * r)[None, :] @ w,
    "r > w": lambda r, w: agrad.where(r > w, w, 2.0 * w),
    "element * w": lambda r, w: r[1, ...] * w,
    "element - w": lambda r, w: r[1, ...] - agrad.sum(w),
}


@pytest.mark.parametrize("name", LEFT)
def test_a_raw_array_on_the_left_of_an_argument(name: str, backend: str) -> None:
    """In every transform the operator of the library leaves the operation to agrad."""
    if backend == "array_api_strict":
        pytest.skip("array_api_strict's operators refuse all other types")
    r, x = (agrad.asarray(values, dtype=agrad.float64).data for values in ([1.5, 2.0, 3.0], [2.0, 1.0, 4.0]))
    f = lambda w: LEFT[name](r, w)  # noqa: E731
    total = lambda w: agrad.sum(f(w))  # noqa: E731
    expected = LEFT[name](np.asarray([1.5, 2.0, 3.0]), np.asarray([2.0, 1.0, 4.0]))
    assert_close(agrad.jit(f)(x), expected, "jit")
    rows = agrad.stack([agrad.asarray(x), agrad.asarray(x)]).data
    assert_close(agrad.vmap(f)(rows)[0, ...], expected, "vmap")
    slope = agrad.grad(total)(x)
    assert_close(agrad.jit(agrad.grad(total))(x), slope, "jit of grad")
    assert_close(agrad.vmap(agrad.grad(total))(rows)[1, ...], slope, "vmap of grad")
    assert_close(agrad.jvp(total, (x,), (x,))[1], host(agrad.sum(agrad.asarray(slope) * agrad.asarray(x))), "jvp")
