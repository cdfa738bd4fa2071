"""``agrad.scipy.optimize``: solutions as SciPy's, their derivatives and ``vmap``, on every backend."""

import sys
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from crossing import each
from scipy_calls import Call
from scipy_optimize_calls import CALLS
from test_scipy_names import parts, problem

import agrad

pytestmark = pytest.mark.needs("scipy")


@each(CALLS, whole=True)
def test_solutions_are_those_of_scipy(case: Call) -> None:
    import scipy.optimize

    from agrad.scipy import optimize

    expected = case.function(scipy.optimize, *case.inputs)
    np.testing.assert_allclose(case.function(optimize, *case.inputs), expected, rtol=case.rtol, atol=1e-9)


@each(CALLS)
def test_solutions_and_their_kind_on_each_backend(case: Call, place: Any) -> None:
    from agrad.scipy import optimize

    raw = [place(x) for x in case.inputs]
    found = case.function(optimize, *raw)
    assert type(found) is type(raw[0]) or (isinstance(found, np.ndarray) and isinstance(raw[0], np.ndarray))
    assert_close(found, case.function(optimize, *case.inputs), case.name, 1e-5)


def differences(f: Any, xs: list[Any], directions: list[Any], step: float) -> Any:
    """Return the central difference of the function of a list of arrays along directions."""
    ends = [f(*[x + s * step * d for x, d in zip(xs, directions, strict=True)]) for s in (1, -1)]
    return (host(ends[0]) - host(ends[1])) / (2 * step)


@each(CALLS, whole=True)
def test_derivatives_of_solutions(case: Call) -> None:
    f, xs = problem(case, np.asarray)
    rng = case.rng()
    along = [rng.normal(size=x.shape) for x in xs]
    expected = differences(f, xs, along, 1e-5)
    pushed = agrad.jvp(f, tuple(xs), tuple(along))[1]
    np.testing.assert_allclose(pushed, expected, rtol=2e-4, atol=2e-5)
    weights = rng.normal(size=np.shape(expected))

    def weighted(*xs: Any) -> Any:
        return agrad.sum(f(*xs) * weights)

    gradient = agrad.grad(weighted, argnums=tuple(range(len(xs))))
    pulled = sum(np.sum(g * d) for g, d in zip(gradient(*xs), along, strict=True))
    np.testing.assert_allclose(pulled, np.sum(pushed * weights), rtol=1e-8)
    second = agrad.jvp(gradient, tuple(xs), tuple(along))[1]
    for i, found in enumerate(second):
        slopes = differences(lambda *xs, i=i: gradient(*xs)[i], xs, along, 1e-4)
        np.testing.assert_allclose(found, slopes, rtol=1e-3, atol=1e-4)


@each([case for case in CALLS if "loss" not in case.label], elsewhere=True)
def test_derivatives_on_each_backend(case: Call, place: Any) -> None:
    (f, xs), (at_home, home) = problem(case, place), problem(case, np.asarray)
    along = [case.rng().normal(size=x.shape) for x in home]
    found = agrad.jvp(f, tuple(xs), tuple(map(place, along)))[1]
    assert_close(host(found), agrad.jvp(at_home, tuple(home), tuple(along))[1], case.name, 1e-4)
    second = agrad.hessian(lambda x, *rest: agrad.sum(f(x, *rest) ** 2))(*xs)
    assert_close(
        host(second), agrad.hessian(lambda x, *rest: agrad.sum(at_home(x, *rest) ** 2))(*home), case.name, 1e-4
    )


@each(CALLS)
def test_vmap(case: Call, place: Any) -> None:
    f, xs = problem(case, place)
    rows = [np.stack([host(x) * s for s in (1.0, 0.97)]) for x in xs]
    got = parts(agrad.vmap(f)(*[place(r) for r in rows]))
    for k in range(2):
        for a, b in zip(got, parts(f(*[place(np.asarray(r[k])) for r in rows])), strict=True):
            assert_close(host(a)[k], host(b), case.name, 1e-8)


def test_without_scipy_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from agrad.scipy import optimize

    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(agrad.errors.MissingExtraError, match=r"minimize needs SciPy\. Install it with"):
        optimize.minimize(lambda x: agrad.sum(x**2), np.ones(2))
