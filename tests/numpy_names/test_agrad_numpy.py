"""``agrad.numpy``: NumPy programs on every backend, the arrays that they create, and what is refused."""

import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy
import numpy_page
import pytest
from processes import run_program
from refusals import fails

import agrad
import agrad.numpy as np
from agrad import Tensor
from agrad.backends import load
from agrad.errors import MixedBackendsError, RefusedFunctionError

X = numpy.asarray([0.5, 1.5, 2.5])
Program = Callable[[Any], Any]


def written(t: Any) -> Any:
    out = np.zeros(4)
    out[0] = t[0]
    out[1:] = t**2
    out *= 2.0
    return np.sum(np.sin(out) * np.arange(4.0))


def masked(t: Any) -> Any:
    out = np.ones((2, 3))
    out[:, t > 1.0] *= t[1]
    out[out > 1.2] += t[0]
    return np.sum(out**2)


def listed(t: Any) -> Any:
    rows = np.array([[t[0], 1.0], [t[1], t[2] * 2]])
    rows += np.vstack((np.hstack(([t[0]], [1.0])), [t[1], 2.0])) + np.dstack(([t[0], 1.0], t[1:]))[0]
    return np.sum(np.linalg.inv(rows) @ np.array(x * x for x in t[:2]))


def joined(t: Any) -> Any:
    return np.sum(np.r_[t, 1.0, 2 * t, 0:2] ** 2) + np.sum(np.c_[t, t**2, np.ones(3)][1])


def looped(t: Any) -> Any:
    state = np.empty((5, 3))
    state[0] = t
    for i in range(4):
        state[i + 1] = state[i] + 0.1 * np.cross(state[i], np.array([1.0, t[0], 0.5]))
    return np.mean(np.linalg.norm(state, axis=1))


def grids(t: Any) -> Any:
    x, y = np.meshgrid(np.linspace(0, 1, 3), np.linspace(0, t[0], 4))
    return np.sum(np.exp(-x * t[1]) * y) + np.sum(np.mgrid[0:2, 0.0:3.0][1] * t)


def filled(t: Any) -> Any:
    return np.sum(np.full((2, 3), t[0]) * np.tri(2, 3) + np.eye(3)[:2] * t) + np.trace(np.diag(t))


def stepped(t: Any) -> Any:
    return np.sum(np.arange(t[0], 4.0, t[1])) + np.sum(np.geomspace(t[0], t[2], 4))


def per_element(t: Any) -> Any:
    return np.sum(np.vectorize(lambda a, b: a * b if b > 1 else a + b)(t, np.array([0.0, 2.0, 3.0])))


def methods(t: Any) -> Any:
    rows = np.stack([t, np.ones_like(t)]).reshape(2, -1)
    return np.add.reduce(rows.T.dot(rows).ravel()) + np.multiply.outer(t, t).sum() + rows.max(axis=0).mean()


def polynomial(t: Any) -> Any:
    return np.polyval(t, 0.5) + np.interp(t[0], np.arange(3), np.array([0.0, 1.0, 4.0])) + np.convolve(t, t)[2]


def framed(t: Any) -> Any:
    frames = np.lib.stride_tricks.as_strided(t, (2, 2), (t.itemsize, t.itemsize))
    return np.sum(frames * np.arange(4.0).reshape(2, 2)) + np.lib.scimath.sqrt(t[0] * t[1])


def ordered(t: Any) -> Any:
    return np.sum(t[np.arange(2)] * t[np.argsort(np.array([3.0, 1.0, 2.0]))[:2]])


def laid_out(t: Any) -> Any:
    """Arrays that are copied to change their order in memory, and arrays that have the order."""
    rows = np.multiply.outer(t, t[:2])
    copies = [np.ascontiguousarray(part) for part in (rows[:, 0], rows[::-1], rows.T, rows[1, 1])]
    copies += [np.asfortranarray(rows), np.asarray(rows, order="F"), np.array(rows[:, 1], copy=None, order="C")]
    same = [np.ascontiguousarray(rows), np.ascontiguousarray(rows[1]), np.asfortranarray(rows.T), np.asarray(rows)]
    for i, part in enumerate(copies + same):
        part *= 1.0 + 0.01 * (t[0] - i)
    return np.sum(np.sin(rows)) + sum(np.sum(part[0]) for part in copies + same)


def solved(t: Any) -> Any:
    """A function that fills an array, which the derivative of a solver calls again."""

    def residual(y: Any) -> Any:
        out = np.zeros(2)
        out[0] = y[0] ** 3 + y[1] - t[1]
        out[1] = 3 * y[1] - t[0]
        return out

    return np.sum(agrad.root(residual, np.ones(2)) * np.array([1.0, 2.0]))


PROGRAMS = (written, masked, listed, joined, looped, grids, filled, stepped, per_element, methods, polynomial, framed)
PROGRAMS += (ordered, laid_out, solved)
NO_VALUES = {"masked", "stepped", "per_element", "framed"}
"""Programs that branch on values or count by them, which vmap and jit do not."""


def numeric(program: Program) -> numpy.ndarray:
    """The gradient by central differences of a program's value on NumPy."""
    steps = 1e-6 * numpy.eye(3)
    return numpy.asarray([(float(program(X + h)) - float(program(X - h))) / 2e-6 for h in steps])


def host(value: Any) -> numpy.ndarray:
    return value.detach().numpy() if isinstance(value, Tensor) else numpy.asarray(value)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_have_derivatives_on_every_backend(program: Program, backend: str) -> None:
    with agrad.use_backend("numpy"):
        value, expected = program(X), numeric(program)
    assert isinstance(value, numpy.generic | numpy.ndarray)  # no Tensor is made of plain arrays
    x = np.array(X)
    assert isinstance(x, numpy.ndarray) == (backend == "numpy")
    numpy.testing.assert_allclose(host(program(x)), value, rtol=1e-12)
    gradient = agrad.grad(program)
    numpy.testing.assert_allclose(host(gradient(x)), expected, rtol=1e-6, atol=1e-8)
    tangent = agrad.jvp(program, (x,), (np.ones(3),))[1]
    numpy.testing.assert_allclose(host(tangent), expected.sum(), rtol=1e-6)
    hessian = host(agrad.hessian(program)(x))
    numpy.testing.assert_allclose(hessian, hessian.T, atol=1e-10)
    if program.__name__ not in NO_VALUES:
        both = agrad.vmap(gradient)(np.stack([x, x]))
        numpy.testing.assert_allclose(host(both), [expected, expected], rtol=1e-6, atol=1e-8)
        step = agrad.jit(gradient)
        for _ in range(2):
            numpy.testing.assert_allclose(host(step(x)), expected, rtol=1e-6, atol=1e-8)


def test_arrays_are_created_where_the_arguments_are(backend: str) -> None:
    x = np.array(X)
    with agrad.use_backend("numpy"):
        found: list[Any] = []
        agrad.grad(lambda t: (found.append((np.zeros(2), np.array([1.0]), np.random.normal(size=2))), np.sum(t))[1])(x)
        assert [part.backend for part in found[0]] == [backend] * 3
        assert type(np.zeros(2)) is numpy.ndarray
    created = np.zeros(2)
    assert type(created) is (numpy.ndarray if backend == "numpy" else Tensor)
    assert created.dtype == numpy.float64


@pytest.mark.needs("jax")
def test_a_backend_without_64_bits_gets_32_and_says_so_once() -> None:
    code = """
import warnings
import jax.numpy as jnp
import agrad, agrad.numpy as np
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    g = agrad.grad(lambda t: np.sum(t * np.zeros(3) + np.array([1.0, 2.0, 3.0]) * t))(jnp.ones(3))
assert (g.dtype, g.tolist()) == (jnp.float32, [1.0, 2.0, 3.0])
assert ["64-bit" in str(w.message) for w in said] == [True], said
"""
    run_program(code)


def test_generators_and_views_of_dictionaries_are_read() -> None:
    parts = {"a": agrad.asarray(1.0), "b": agrad.asarray(2.0)}
    assert host(np.array(parts.values())).tolist() == [1.0, 2.0]
    assert host(np.stack(x * 2 for x in parts.values())).tolist() == [2.0, 4.0]
    assert np.fromiter((i * i for i in range(4)), float, count=3).tolist() == [0.0, 1.0, 4.0]


def test_like_creates_beside_a_tensor() -> None:
    t = agrad.asarray([1.0, 2.0], requires_grad=True)
    out = np.zeros(2, like=t)
    out[1] = t[0] * 3
    np.sum(out).backward()
    assert host(t.grad).tolist() == [3.0, 0.0]


def test_classes() -> None:
    t = agrad.asarray(X)
    assert isinstance(t, np.ndarray)
    assert isinstance(X, np.ndarray)
    assert not isinstance(numpy.float64(1.0), np.ndarray)
    assert not isinstance([1.0], np.ndarray)
    assert type(X) == np.ndarray  # noqa: E721 - programs ask so
    assert type(t) == np.ndarray  # noqa: E721
    assert np.ndarray((2, 3)).shape == (2, 3)


@pytest.mark.needs("torch")
def test_plain_arrays_of_other_libraries() -> None:
    import torch

    out = np.sum(torch.ones(3, dtype=torch.float64) * 2)
    assert isinstance(out, Tensor) and out.backend == "torch" and out.item() == 6.0
    mixed = np.dot(X, torch.ones(3, dtype=torch.float64))
    assert mixed.backend == "torch" and mixed.item() == 4.5


WRITES: dict[str, Callable[..., Any]] = {
    "copyto": lambda a, t: np.copyto(a, t),
    "put": lambda a, t: np.put(a, [0, 2], t),
    "place": lambda a, t: np.place(a, [True, False, True], t),
    "putmask": lambda a, t: np.putmask(a, [True, False, True], t),
    "put_along_axis": lambda a, t: np.put_along_axis(a, numpy.asarray([0, 2]), t[:2], 0),
    "fill_diagonal": lambda a, t: np.fill_diagonal(a, t),
    "at": lambda a, t: np.add.at(a, [0, 0], t[:2]),
    "out": lambda a, t: np.exp(t, out=a),
    "positional out": lambda a, t: np.add(t, 1, a),
    "out of a function": lambda a, t: np.cumsum(t, out=a),
    "positional out of a function": lambda a, t: np.cumsum(t, 0, None, a),
    "positional out before an option": lambda a, t: np.take(t, [0, 1, 2], None, a, "raise"),
    "positional out of a C function": lambda a, t: np.concatenate([t[:1], t[1:]], 0, a),
    "out of a method": lambda a, t: np.add.accumulate(t, out=a),
    "positional out of a method": lambda a, t: np.multiply.accumulate(t, 0, None, a),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_plain_array_is_written_or_refused(name: str) -> None:
    """A copy of it as a Tensor would be written, and the array silently not."""
    strict = load("array_api_strict").xp
    t = agrad.asarray(strict.asarray([4.0, 5.0, 6.0]))
    with pytest.raises(RefusedFunctionError, match=r"must be a Tensor.*asarray"):
        WRITES[name](strict.zeros((1, 3) if name == "fill_diagonal" else 3), t)


@pytest.mark.parametrize("name", [name for name in WRITES if "out" in name])
def test_out_is_written(name: str) -> None:
    t = agrad.asarray([4.0, 5.0, 6.0], backend="array_api_strict")
    for out in (numpy.zeros(3), agrad.zeros_like(t)):
        assert WRITES[name](out, t) is out
        np.testing.assert_array_equal(out, numpy.asarray(WRITES[name](numpy.zeros(3), numpy.asarray([4.0, 5.0, 6.0]))))


def test_random_numbers_are_refused_by_jit(backend: str) -> None:
    for draw in (lambda: np.random.rand(3), lambda: np.random.default_rng(0).normal(size=3)):
        with pytest.raises(RefusedFunctionError, match=r"repeat its numbers.*agrad\.random"):
            agrad.jit(lambda x, draw=draw: x * draw())(np.ones(3))


def test_random_numbers_are_numpys(backend: str) -> None:
    drawn = np.random.default_rng(7)
    assert isinstance(drawn, numpy.random.Generator)
    numpy.testing.assert_array_equal(host(drawn.normal(size=3)), numpy.random.default_rng(7).normal(size=3))
    np.random.seed(3)
    first = host(np.random.rand(2))
    numpy.random.seed(3)
    numpy.testing.assert_array_equal(first, numpy.random.rand(2))
    state = np.random.RandomState(5)
    numpy.testing.assert_array_equal(host(state.randn(2)), numpy.random.RandomState(5).randn(2))
    state, mean = np.random.RandomState(5), numpy.zeros(2)
    drawn = numpy.random.RandomState(5).multivariate_normal(mean, numpy.eye(2))
    numpy.testing.assert_array_equal(host(state.multivariate_normal(np.zeros(2), np.eye(2))), drawn)


@pytest.mark.needs("torch")
def test_operators_of_two_libraries_name_the_conversion() -> None:
    with agrad.use_backend("torch"):
        t = np.array(X)
    for operation in (lambda: t * X, lambda: X * t, lambda: X @ t):
        fails(MixedBackendsError, r"agrad\.numpy, np\.asarray\(x\)", operation)


def test_a_written_array_from_outside_is_refused() -> None:
    outside = np.zeros(3)
    with pytest.raises((ValueError, TypeError)) as info:
        agrad.grad(lambda t: (outside.__setitem__(0, t[0]), np.sum(t))[1])(X)
    assert "agrad" in "".join([str(info.value), *getattr(info.value, "__notes__", ())])


# ---------------------------------------------------------------- polynomials, attributes of arrays

SERIES = (
    lambda c: np.sum(np.polynomial.polynomial.polyval(np.array(X), c) ** 2),
    lambda c: np.sum(np.polynomial.chebyshev.chebval(np.array(X), c) ** 2),
    lambda c: np.polynomial.Polynomial(c).deriv()(0.3) + (np.polynomial.Polynomial(c) * np.array([1.0, 2.0]))(0.5),
    lambda c: np.sum(np.polynomial.hermite.hermval(c, [1.0, 2.0, 3.0])),
    lambda c: np.sum(np.polynomial.Legendre(c).integ().coef ** 2),
)


@pytest.mark.parametrize("series", SERIES)
def test_polynomials_have_derivatives(series: Program, backend: str) -> None:
    with agrad.use_backend("numpy"):
        expected = numeric(series)
    numpy.testing.assert_allclose(host(agrad.grad(series)(np.array(X))), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.skipif(not hasattr(numpy, "row_stack"), reason="NumPy removes the alias of vstack")
def test_row_stack_accepts_lists_of_tensors(backend: str) -> None:
    gradient = agrad.grad(lambda t: np.sum(np.row_stack(([t[0], 1.0], t[1:])) ** 2))(np.array(X))
    numpy.testing.assert_allclose(host(gradient), 2 * X)


def test_the_style_of_polynomials_is_set() -> None:
    np.polynomial.set_default_printstyle("ascii")
    try:
        assert str(np.polynomial.Polynomial([1.0, 2.0])) == "1.0 + 2.0 x"
    finally:
        np.polynomial.set_default_printstyle("unicode")
    assert str(np.polynomial.Polynomial([1.0, 2.0])) == "1.0 + 2.0·x"


def test_attributes_and_methods_of_numpys_arrays(backend: str) -> None:
    x = agrad.asarray([[3.0, 1.0], [2.0, 4.0]], dtype=agrad.float64)
    assert (x.itemsize, x.nbytes) == (8, 32)
    assert x.reshape(numpy.array([4, 1])).shape == (4, 1)
    assert host(x.argpartition(0)).shape == (2, 2)
    assert host(x.compress([False, True], axis=0)).tolist() == [[2.0, 4.0]]
    assert round(x[0, 0] / 7, 2) == numpy.float64(0.43)
    assert [float(v) for v in x.T.flat] == [3.0, 2.0, 1.0, 4.0]
    assert float(x.flat[2]) == 2.0
    x.partition(0)
    x.put([3], [9.0])
    assert host(x).tolist() == [[1.0, 3.0], [2.0, 9.0]]


def test_flat_writes_through_any_layout(backend: str) -> None:
    def f(t: Any) -> Any:
        rows = np.stack([t, 2 * t])
        turned = rows.T
        turned.flat[1] = t[2] ** 2  # rows[1, 0]
        turned.flat[[2, 3]] = [1.0, 2.0]
        return np.sum(rows * rows)

    expected = [2 * 0.5, 0.0, 10 * 2.5 + 4 * 2.5**3]
    if backend not in ("jax", "dask"):  # there a transposed array is no view
        numpy.testing.assert_allclose(host(agrad.grad(f)(np.array(X))), expected)
    x = agrad.zeros((2, 2))
    x.flat = 1.5
    x.flat[1:] = agrad.asarray([2.0, 3.0, 4.0])
    assert host(x).tolist() == [[1.5, 2.0], [3.0, 4.0]]


# ---------------------------------------------------------------- names


def test_every_public_name_is_there() -> None:
    for part in ("linalg", "fft", "random", "testing", "polynomial", ""):
        module, names = getattr(np, part, np), dict[str, Any]()
        assert [name for name in getattr(numpy, part, numpy).__all__ if not hasattr(module, name)] == []
        exec(f"from {module.__name__} import *", names)
        assert set(getattr(module, "__all__", ())) <= set(names)
    with pytest.raises(AttributeError, match=r"agrad\.numpy.*no_such_name"):
        np.no_such_name  # noqa: B018
    assert {"sin", "zeros"} <= set(dir(np))


def test_functions_keep_numpys_documentation() -> None:
    names = [name for name in numpy.__all__ if callable(getattr(numpy, name)) and getattr(numpy, name).__doc__]
    pairs = [(getattr(np, name), getattr(numpy, name)) for name in names]
    assert [mine for mine, theirs in pairs if mine.__doc__ != theirs.__doc__] == []
    assert [mine for mine, theirs in pairs if getattr(mine, "__name__", "") != getattr(theirs, "__name__", "")] == []


def test_modules_are_imported_by_their_names() -> None:
    from agrad.numpy.linalg import norm
    from agrad.numpy.random import default_rng

    assert norm(X) == numpy.linalg.norm(X)
    assert default_rng is np.random.default_rng


@pytest.mark.parametrize("part", ["", "linalg", "fft"])
def test_functions_are_pickled_by_name(part: str) -> None:
    module = getattr(np, part) if part else np
    functions = [f for name in module.__all__ if name != "test" and callable(f := getattr(module, name))]
    assert len(functions) > 10
    pairs = [(f, pickle.loads(pickle.dumps(f))) for f in functions]
    assert [f for f, found in pairs if found is not f and repr(found) != repr(f)] == []  # atan2 is loaded as arctan2


def test_ufuncs_show_what_they_are() -> None:
    assert np.add.nin == 2
    assert repr(np.sin) == "<ufunc 'sin' of agrad.numpy>"


def test_the_import_loads_no_handlers() -> None:
    code = "import sys, agrad.numpy as np; assert 'agrad.interop.numpy' not in sys.modules; np.sin(1.0)"
    run_program(code)


@pytest.mark.parametrize(
    ("call", "original"),
    [
        (lambda v: np.sin(v), lambda v: numpy.sin(v)),
        (lambda v: np.sum(v), lambda v: numpy.sum(v)),
        (lambda v: np.sum(v, axis=0), lambda v: numpy.sum(v, axis=0)),
        (lambda v: np.dot(v, v), lambda v: numpy.dot(v, v)),
        (lambda v: np.where(v > 0, v, 1.0), lambda v: numpy.where(v > 0, v, 1.0)),
    ],
)
def test_calls_cost_few_function_calls(call: Program, original: Program) -> None:
    """Beyond NumPy's own function on arrays, and beyond NumPy's protocol on Tensors."""

    def count(f: Program, value: Any) -> int:
        found: list[str] = []
        f(value)
        sys.setprofile(lambda frame, event, arg: found.append(event) if "call" in event else None)
        try:
            f(value)
        finally:
            sys.setprofile(None)
        return len(found)

    with agrad.use_backend("numpy"):
        assert count(call, X) - count(original, X) <= 12
        for t in (agrad.asarray(X), agrad.asarray(X, requires_grad=True)):
            assert count(call, t) - count(original, t) <= 8


@pytest.mark.needs("torch")
def test_booleans_and_scalars_promote_as_in_numpy_on_pytorch() -> None:
    """1 - mask is an array of integers, and float64 scalars beside integers make float64."""
    with agrad.use_backend("torch"):
        mask, counts = np.array([True, False, True]), np.arange(3)
        x = numpy.asarray([1.0, 2.0, 3.0])
        for found, expected in (
            (1 - mask, numpy.asarray([0, 1, 0])),
            (mask - 1, numpy.asarray([0, -1, 0])),
            (counts * numpy.float64(0.1), numpy.arange(3) * 0.1),
            (numpy.float64(0.1) - counts, 0.1 - numpy.arange(3)),
            (agrad.jit(lambda m: 1 - m)(mask), numpy.asarray([0, 1, 0])),
            (agrad.vmap(lambda m: 1 - m)(mask), numpy.asarray([0, 1, 0])),
        ):
            assert str(found.dtype) == expected.dtype
            numpy.testing.assert_array_equal(host(found), expected)

        def f(x: Any) -> Any:
            return np.sum((1 - mask) * x**2 + counts * numpy.float64(0.5) * x)

        for gradient in (agrad.grad(f), agrad.jit(agrad.grad(f))):
            numpy.testing.assert_allclose(gradient(x), [0.0, 4.5, 1.0])
        fails(RuntimeError, "bool", lambda: mask - mask)


@pytest.mark.parametrize("part", [[3.0, 4.0], numpy.asarray([3.0, 4.0])], ids=["list", "array"])
def test_lists_belong_to_the_backend_of_the_transform(part: Any, backend: str) -> None:
    x = np.array(X)
    with agrad.use_backend("numpy"):
        gradient = agrad.grad(lambda t: np.sum(np.concatenate([[2.0], part]) * t))(x)
    numpy.testing.assert_allclose(host(gradient), [2.0, 3.0, 4.0])


def test_the_page_of_agrad_numpy_counts_and_lists_the_names() -> None:
    text = numpy_page.NAMES_PAGE.read_text(encoding="utf-8")
    kinds = [numpy_page.kind_of("", name) for name in ("sin", "argsort", "zeros", "isnat", "float64")]
    assert kinds == ["differentiable", "constant", "create", "refused", "numpy"]
    assert (numpy_page.kind_of("random", "normal"), numpy_page.kind_of("linalg", "inv")) == ("draw", "differentiable")
    if numpy_page.release() not in text:  # another NumPy has a few other names
        text = text.replace(
            text.split(numpy_page.START)[1].split(numpy_page.END)[0], "\n" + numpy_page.names_text() + "\n"
        )
    assert numpy_page.with_names(text) == text, "write docs/agrad_numpy.md anew: python tests/numpy_page.py"


def test_strides_are_of_arrays_in_c_order() -> None:
    rows = agrad.asarray(numpy.arange(6.0).reshape(2, 3))
    strided = np.lib.stride_tricks.as_strided
    numpy.testing.assert_array_equal(host(strided(rows, strides=(8, 16))), strided(rows.numpy(), strides=(8, 16)))
    fails(RefusedFunctionError, "ascontiguousarray", lambda: strided(rows.T, (2,), (8,)))
    fails(IndexError, "out of bounds", lambda: strided(rows, (7,), (8,)))
