"""``agrad.jit`` against the ordinary run: every row of the table, and derivatives through both."""

from typing import Any

import numpy as np
import pytest
from cases import CASES
from checker import assert_close, cotangents, host, outputs, random_like
from crossing import each
from refusals import fails
from table import Case

import agrad
from agrad.backends import selected
from agrad.dtypes import dtype_name

pytestmark = pytest.mark.filterwarnings("ignore:var.*degrees of freedom:UserWarning")

_ASKS = {"asarray", "from_dlpack", "full"}
"""Rows whose own code asks with ``isinstance`` for a Tensor, which what stands for a raw array in a trace is too."""

_UNIQUE = {"unique_all", "unique_counts", "unique_inverse", "unique_values"}


def depends_on_values(case: Case) -> bool:
    """Whether the shape of the result does."""
    arrays = [a for a in case.arguments()[1:] if isinstance(a, np.ndarray)]
    name = case.row.primitive
    picks = name == "getitem" and any(a.dtype == bool for a in arrays)
    return name in _UNIQUE or picks or (name == "repeat" and bool(arrays))


REFUSED = [case for case in CASES if depends_on_values(case)]
CHOSEN = [case for case in CASES if not depends_on_values(case)]
DIFFERENTIABLE = [case for case in CHOSEN if not case.row.constant and case.places]
CONSTANT = [case for case in CHOSEN if case.row.constant or not case.places]


def assert_same(got: Any, expected: Any, what: str) -> None:
    """The same kind of array, dtype and values, to a few units in the last place."""
    assert isinstance(got, agrad.Tensor) == isinstance(expected, agrad.Tensor)
    assert dtype_name(got.dtype) == dtype_name(expected.dtype)
    assert_close(np.nan_to_num(host(got)), np.nan_to_num(host(expected)), what, 1e-13)


def of_arrays(case: Case, place: Any) -> tuple[Any, list[Any]]:
    """Return the case as a function of all its arrays, and these."""
    args = [place(a) if isinstance(a, np.ndarray) else a for a in case.arguments()]
    arrays, call = [i for i, a in enumerate(args) if hasattr(a, "shape")], case.call

    def f(*xs: Any) -> Any:
        filled = list(args)
        for i, x in zip(arrays, xs, strict=True):
            filled[i] = x
        return call(*filled)

    return f, [args[i] for i in arrays]


def check_value(case: Case, place: Any) -> None:
    f, given = of_arrays(case, place)
    jitted = agrad.jit(f)
    expected = outputs(f(*given))
    for _ in range(2):
        for got, right in zip(outputs(jitted(*given)), expected, strict=True):
            if case.row.primitive in _ASKS and isinstance(got, agrad.Tensor):
                right = agrad.asarray(right)
            assert_same(got, right, "value")
    assert jitted.cache_info().hits == 1
    tensors = outputs(jitted(*[agrad.asarray(x) for x in given]))
    assert all(isinstance(t, agrad.Tensor) and t.level.id == 0 for t in tensors)


@each(CONSTANT)
def test_value(case: Case, place: Any) -> None:
    check_value(case, place)


MASKED = ("setitem mask", "scatter_add mask")
"""Rows with a mask that is no argument: on CuPy such an array is read at each call, as its content is not compared.

The cotangent of an array that is written at the mask is an index by it; a number has none.
"""


@each(DIFFERENTIABLE)
def test_value_and_gradients(case: Case, place: Any) -> None:
    """The pullback inside a jitted function, and that of a jitted function, are the ordinary one."""
    check_value(case, place)
    f, xs = case.problem(place)
    gs = random_like(outputs(f(*xs)), case.rng())

    def pulled(xs: Any, gs: Any, function: Any = f) -> Any:
        y, pull = agrad.vjp(function, *xs)
        return y, pull(cotangents(y, gs))

    expected = pulled(xs, gs)
    inside = agrad.jit(pulled)
    inner = agrad.jit(f)
    if selected().backend.name == "cupy" and case.name.startswith(MASKED) and not case.name.endswith("number"):
        fails(agrad.errors.TracedValueError, "a Boolean index", inside, xs, gs)
        return
    for _ in range(2):
        for got in (inside(xs, gs), pulled(xs, gs, inner)):
            for a, b in zip((*outputs(got[0]), *got[1]), (*outputs(expected[0]), *expected[1]), strict=True):
                assert_same(a, b, "value or gradient")
    assert inside.cache_info()[:2] == inner.cache_info()[:2] == (1, 1)


@pytest.mark.parametrize("name", ["svdvals", "eigvalsh", "pinv", "matrix_norm"])
def test_operations_that_choose_a_method_when_differentiated(name: str) -> None:
    """In a branch inside ``jit`` the derivative is taken of the recorded program."""
    x, options = np.random.default_rng(0).standard_normal((3, 3)), {"ord": "nuc"} if name == "matrix_norm" else {}
    f = lambda x: agrad.sum(agrad.cos(getattr(agrad.linalg, name)(x + x.T, **options)))  # noqa: E731
    branch = agrad.jit(lambda x: agrad.cond(agrad.sum(x) < 100, f, agrad.sum, x))
    for got in (agrad.grad(branch)(x), agrad.jit(agrad.grad(branch))(x)):
        assert_close(got, agrad.grad(f)(x), name, 1e-12)


@each(REFUSED)
def test_shapes_that_depend_on_values(case: Case) -> None:
    f, given = of_arrays(case, np.asarray)
    fails(agrad.errors.TracedValueError, "depends on", agrad.jit(f), *given)
