"""Functions that ask for the one namespace of their arrays, some of them differentiated and some raw.

Data that a transform is handed becomes a constant; data that a function closes over is an error that names it.
"""

import gc
import itertools
import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace
from checker import assert_close, check_adjoint, host
from modes import check_mapped, check_traced
from refusals import fails

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


def test_a_function_starts_over_once() -> None:
    calls = []

    def f(w: Any, x: Any) -> Any:
        calls.append(type(x))
        xp = array_namespace(w, x)
        return xp.sum(x @ w)

    for _ in range(3):
        agrad.grad(f)(W, X)
    assert [kind is agrad.Tensor for kind in calls] == [False, True, True, True]


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
    refusal = r"shifted must not write to an argument before .*shape \(2, 3\)"
    fails(agrad.errors.OperandError, refusal, agrad.grad(shifted), w, x, y)


def twice_the_same(w: Any, a: Any, b: Any) -> Any:
    xp = array_namespace(w, a, b)
    assert a is b
    return xp.sum(a @ w)


def written(w: Any, x: Any) -> Any:
    xp = array_namespace(w, x)
    x[0, 0] = 7.0
    x *= 2.0
    return xp.sum(x @ w)


def indexed(w: Any, x: Any, rows: Any) -> Any:
    xp = array_namespace(w, x, rows)
    assert float(x[0, 1]) == 2.0 and int(rows[0]) == 1
    assert np.asarray(x).tolist() == X.tolist()
    return xp.sum(x[rows] @ w)


def test_constants_are_as_arrays_of_the_function(place: Any) -> None:
    """One array is one constant, writes stay inside, constants convert and are indices, and aux comes out raw."""
    w, x = place(W), place(X)
    assert_close(agrad.grad(twice_the_same)(w, x, x), X.sum(axis=0), "one array twice")
    for _ in range(2):
        assert_close(agrad.grad(written)(w, x), [2 * (7 + 0.5), 2.0, 6.5], "written")
    assert_close(x, X, "argument")
    found = agrad.grad(indexed)(w, x, place(np.asarray([1, 0, 1])))
    assert_close(found, X[[1, 0, 1]].sum(axis=0), "indexed")
    _, (same, more) = agrad.grad(lambda w, x: (array_namespace(w, x).sum(x @ w), (x, x + 1)), has_aux=True)(w, x)
    assert not isinstance(same, agrad.Tensor) and not isinstance(more, agrad.Tensor)
    assert_close(same, X, "aux")
    assert_close(more, X + 1, "aux")


def test_errors_of_the_function_are_its_own() -> None:
    first, second = RuntimeError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first  # no endless chain
    other = RuntimeError("of the user")
    other.__cause__ = ValueError("another")
    for error in (first, other):

        def f(w: Any, x: Any, error: Exception = error) -> Any:
            raise error

        fails(RuntimeError, str(error), lambda: agrad.grad(f)(W, X))


def test_a_library_that_wraps_the_error_is_given_constants_too(place: Any) -> None:
    def f(w: Any, x: Any, how: int) -> Any:
        try:
            xp = array_namespace(w, x)
        except TypeError as error:
            raise [RuntimeError("wrapped"), ValueError("wrapped")][how] from error
        return xp.sum(x @ w)

    for how in (0, 1):
        assert_close(agrad.grad(f)(place(W), place(X), how), X.sum(axis=0), "gradient")


def test_a_function_with_an_empty_cell_is_called() -> None:
    def f(w: Any, x: Any, y: Any) -> Any:
        return loss(w, x, y) if w.shape else later(w)

    assert_close(agrad.grad(f)(W, X, Y), agrad.grad(lambda w: agrad.sum((agrad.tanh(X @ w) - Y) ** 2))(W), "gradient")
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
    expected = LEFT[name](np.asarray([1.5, 2.0, 3.0]), np.asarray([2.0, 1.0, 4.0]))
    assert_close(agrad.jit(f)(x), expected, "value")
    check_adjoint(f, [x], np.random.default_rng(0))
    check_traced(f, (x,), ("gradient", "tangent"))
    assert_close(agrad.vmap(f)(agrad.stack([agrad.asarray(x)] * 2)), np.stack([expected] * 2), "vmap")
    if backend != "cupy":  # the operator @ of CuPy accepts no Tensor outside of transforms
        check_mapped(f, [agrad.stack([agrad.asarray(x)] * 2)])


# ---------------------------------------------------------------- transform by place of the data by who is a Tensor

V = np.asarray([0.3, 0.7, -0.2])


def predicted(w: Any, x: Any) -> Any:
    xp = array_namespace(w, x)
    return xp.tanh(x @ w)


def squares(w: Any, x: Any) -> Any:
    xp = array_namespace(w, x)
    return xp.sum(predicted(w, x) ** 2)


TRANSFORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "grad": (agrad.grad, squares),
    "grad by a name": (lambda f: agrad.grad(f, argnums="w"), squares),
    "vmap of grad": (
        lambda f: lambda w, **k: agrad.vmap(agrad.grad(partial(f, **k)))(agrad.stack([w, 2 * w])),
        squares,
    ),
    "value_and_grad": (agrad.value_and_grad, squares),
    "elementwise_grad": (agrad.elementwise_grad, predicted),
    "jacobian": (agrad.jacobian, predicted),
    "jacrev": (agrad.jacrev, predicted),
    "jacfwd": (agrad.jacfwd, predicted),
    "hessian": (agrad.hessian, squares),
    "grad of grad": (lambda f: agrad.grad(lambda *a, **k: agrad.sum(agrad.grad(f)(*a, **k) ** 2)), squares),
    "grad of checkpoint": (lambda f: agrad.grad(agrad.checkpoint(f)), squares),
    "checkpoint of grad": (lambda f: agrad.checkpoint(agrad.grad(f)), squares),
    "grad of jit": (lambda f: agrad.grad(agrad.jit(f)), squares),
    "jit of grad": (lambda f: agrad.jit(agrad.grad(f)), squares),
    "jit": (agrad.jit, squares),
    "checkpoint": (agrad.checkpoint, squares),
    "vjp": (lambda f: lambda w, **k: agrad.vjp(partial(f, **k), w)[1](like(w, np.asarray(1.0)))[0], squares),
    "jvp": (lambda f: lambda w, **k: agrad.jvp(partial(f, **k), (w,), (like(w, V),))[1], squares),
    "hvp": (lambda f: lambda w, **k: agrad.hvp(partial(f, **k), (w,), (like(w, V),)), squares),
    "gnvp": (
        lambda f: lambda w, **k: agrad.gnvp(partial(f, **k), lambda r: agrad.sum(r**3), (w,), (like(w, V),)),
        predicted,
    ),
    "linearize": (lambda f: lambda w, **k: agrad.linearize(partial(f, **k), w)[1](like(w, V)), squares),
    "vmap": (lambda f: lambda w, **k: agrad.vmap(partial(f, **k))(agrad.stack([w, 2 * w])), squares),
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
