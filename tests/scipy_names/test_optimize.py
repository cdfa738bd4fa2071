"""``agrad.scipy.optimize``: evaluations, containers, options, errors, derivatives of solutions."""

import sys
from typing import Any, NamedTuple

import nist
import numpy as np
import pytest
from checker import assert_close, differences, host
from crossing import each
from refusals import Refusal, fails, refuses
from scipy_calls import Call
from scipy_optimize_calls import CALLS
from test_scipy_names import problem

import agrad
from agrad.errors import (
    ConfigurationError,
    DtypeError,
    MissingExtraError,
    NotDifferentiableError,
    OperandError,
    ShapeError,
    TracedValueError,
)
from agrad.scipy import optimize

pytestmark = pytest.mark.needs("scipy")

START = np.asarray([1.3, 0.7, 0.8, 1.9, 1.2])
METHODS = ["Nelder-Mead", "Powell", "CG", "BFGS", "Newton-CG", "L-BFGS-B", "TNC", "COBYLA", "COBYQA", "SLSQP"]
METHODS += ["trust-constr", "dogleg", "trust-ncg", "trust-exact", "trust-krylov"]


def valley(x: Any) -> Any:
    return agrad.sum((x - 1) ** 2) + 0.1 * agrad.sum(x**4) + (x[0] * x[1] - 1) ** 2


def derivatives(fun: Any, method: str) -> dict[str, Any]:
    """Return what SciPy needs for a method, computed by agrad on NumPy."""
    if method in ("Nelder-Mead", "Powell", "COBYLA", "COBYQA"):
        return {}
    given: dict[str, Any] = {"jac": agrad.grad(fun)}
    if method in ("dogleg", "trust-exact"):
        given["hess"] = agrad.hessian(fun)
    if method in ("Newton-CG", "trust-ncg", "trust-krylov", "trust-constr"):
        given["hessp"] = lambda x, p: agrad.hvp(fun, (x,), (p * 1.0,))[0]
    return given


@pytest.mark.parametrize("method", METHODS)
def test_evaluations_are_those_of_scipy_with_the_same_derivatives(method: str) -> None:
    from scipy.optimize import minimize

    expected = minimize(valley, START, method=method, **derivatives(valley, method))
    found = optimize.minimize(valley, START, method=method)
    for name in ("nfev", "njev", "nhev", "nit", "status", "success", "message"):
        assert found.get(name) == expected.get(name), name
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.fun, expected.fun, rtol=1e-10)
    assert set(found) == set(expected)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "Newton-CG", "trust-exact", "Nelder-Mead"])
def test_evaluations_on_each_backend(method: str, place: Any) -> None:
    expected = optimize.minimize(valley, START, method=method)
    found = optimize.minimize(valley, place(START), method=method)
    assert type(found.x) is type(place(START))
    assert (found.nfev, found.get("njev"), found.nit) == (expected.nfev, expected.get("njev"), expected.nit)
    np.testing.assert_allclose(host(found.x), expected.x, rtol=1e-6, atol=1e-7)


def digits(found: Any, certified: list[float]) -> float:
    error = np.max(np.abs(host(found) / certified - 1))
    return float(-np.log10(max(error, 1e-15)))


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", nist.FITS)
def test_certified_fits(name: str, start: int) -> None:
    from scipy.optimize import least_squares

    fit = nist.FITS[name]
    x, y, p0 = np.asarray(fit.x), np.asarray(fit.y), fit.starts[start]

    def residuals(p: Any) -> Any:
        return fit.model(x, *p) - y

    def slopes(p: Any) -> Any:
        return agrad.jacobian(residuals)(p)

    for method in ("lm", "trf"):
        how: Any = {"method": method, "x_scale": "jac", "xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "max_nfev": 2000}
        expected = least_squares(lambda p: np.asarray(residuals(p)), p0, jac=slopes, **how)
        found = optimize.least_squares(residuals, p0, **how)
        assert (found.nfev, found.njev) == (expected.nfev, expected.njev)
        assert digits(found.x, fit.certified) >= digits(expected.x, fit.certified) - 0.2
        assert digits(found.x, fit.certified) >= (9.5 if name == "Misra1a" else 6.5)
        assert abs(2 * found.cost / fit.squares - 1) < 1e-9
    how = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "maxfev": 5000}
    parameters, covariance = optimize.curve_fit(fit.model, x, y, p0, **how)
    assert digits(parameters, fit.certified) >= (9.5 if name == "Misra1a" else 6.5)
    assert covariance.shape == (len(p0), len(p0))


def test_containers_come_back_as_they_went_in(place: Any) -> None:
    start = {"w": place(np.zeros((2, 2))), "b": [place(np.zeros(3, np.float32)), agrad.asarray(place(np.asarray(0.5)))]}

    def fun(x: Any, scale: float) -> Any:
        w, (b, c) = x["w"], x["b"]
        return scale * agrad.sum((w - 1.0) ** 2) + agrad.astype(agrad.sum((b - 2.0) ** 2), agrad.float64) + (c - 3) ** 2

    found = optimize.minimize(fun, start, args=2.0, method="BFGS")
    w, (b, c) = found.x["w"], found.x["b"]
    assert type(w) is type(start["w"]) and w.shape == (2, 2)
    assert agrad.asarray(b).dtype == agrad.float32 and type(b) is type(start["b"][0])
    assert isinstance(c, agrad.Tensor) and c.shape == ()
    for x, value in ((w, 1.0), (b, 2.0), (c, 3.0)):
        np.testing.assert_allclose(host(x), value, rtol=1e-4)
    assert isinstance(found.fun, float) and found.jac.shape == (8,)


def test_numbers_and_integers_become_floating_arrays() -> None:
    assert optimize.minimize(valley, [1, 2, 0]).x.dtype == np.float64
    assert optimize.minimize(valley, np.asarray([1, 2, 0])).x.dtype == np.float64
    assert optimize.minimize(lambda x: (x[0] - 2) ** 2, 1).x.shape == (1,)
    assert optimize.minimize(lambda x: (x["a"] - 2) ** 2, {"a": 1}).x["a"].shape == ()
    x32 = optimize.minimize(valley, np.zeros(2, np.float32), method="L-BFGS-B").x
    assert x32.dtype == np.float32
    np.testing.assert_allclose(x32, optimize.minimize(valley, np.zeros(2)).x, rtol=1e-3)


def test_a_start_goes_where_the_arguments_are(place: Any) -> None:
    target = place(np.asarray([1.0, 2.0]))
    found = optimize.minimize(lambda x, a: agrad.sum((x - a) ** 2), [0.0, 0.0], args=(target,))
    assert type(found.x) is type(target)
    np.testing.assert_allclose(host(found.x), [1, 2], rtol=1e-6)


def test_derivatives_by_the_user_get_containers() -> None:
    seen = []

    def fun(x: Any) -> Any:
        return agrad.sum((x["a"] - 1) ** 2) + (x["b"] - 2) ** 4

    def slope(x: Any) -> Any:
        seen.append(x["a"].shape)
        return {"a": 2 * (x["a"] - 1), "b": 4 * (x["b"] - 2) ** 3}

    start = {"a": np.zeros(2), "b": np.asarray(0.0)}
    for given, function in ((slope, fun), (True, lambda x: (fun(x), slope(x)))):
        found = optimize.minimize(function, start, jac=given, method="BFGS")
        np.testing.assert_allclose(found.x["a"], 1, rtol=1e-5)
        assert found.njev == optimize.minimize(fun, start, method="BFGS").njev
    assert set(seen) == {(2,)}
    by_differences = optimize.minimize(fun, start, jac="2-point", method="BFGS")
    assert by_differences.nfev > by_differences.njev
    hessian = agrad.hessian(valley)
    found = optimize.minimize(valley, START, hess=hessian, method="trust-exact")
    assert found.nfev == optimize.minimize(valley, START, method="trust-exact").nfev
    roots = optimize.root(lambda x: (x**2 - 2, np.diag(2 * x)), np.ones(2), jac=True)
    np.testing.assert_allclose(roots.x, np.sqrt(2))


def test_callbacks_get_containers() -> None:
    seen: list[Any] = []
    start = {"a": np.zeros(2)}

    def fun(x: Any) -> Any:
        return agrad.sum((x["a"] - 1) ** 4)

    def told(intermediate_result: Any) -> None:
        seen.append((intermediate_result.x["a"].shape, intermediate_result.fun))
        if len(seen) == 3:
            raise StopIteration

    found = optimize.minimize(fun, start, callback=told, method="BFGS")
    assert len(seen) == 3 and seen[0][0] == (2,) and found.status == 99
    seen.clear()
    for method in ("L-BFGS-B", "trust-constr", "COBYQA"):
        optimize.minimize(fun, start, callback=lambda x, *state: seen.append(x["a"].shape), method=method)
    assert set(seen) == {(2,)}
    seen.clear()
    optimize.root(
        lambda x: {"a": x["a"] ** 3 - 2}, {"a": np.ones(2)}, method="krylov", callback=lambda x, f: seen.append(x)
    )
    assert seen[0]["a"].shape == (2,)


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr", "COBYLA", "COBYQA"])
def test_constraints_get_containers_and_jacobians(method: str, place: Any) -> None:
    from scipy.optimize import LinearConstraint, NonlinearConstraint

    start = {"a": place(np.asarray([0.5, 0.3])), "b": place(np.asarray(0.4))}

    def fun(x: Any) -> Any:
        return agrad.sum((x["a"] - 1) ** 2) + (x["b"] - 1) ** 2

    def circle(x: Any, radius: float = 1.0) -> Any:
        return radius**2 - agrad.sum(x["a"] ** 2)

    constraints = [{"type": "ineq", "fun": circle, "args": (0.8,)}, LinearConstraint([[0, 0, 1.0]], -2, 0.5)]
    found = optimize.minimize(fun, start, method=method, constraints=constraints, options={"maxiter": 2000})
    np.testing.assert_allclose(host(found.x["a"]), 0.8 / np.sqrt(2), rtol=1e-3)
    np.testing.assert_allclose(host(found.x["b"]), 0.5, rtol=1e-3)
    other = NonlinearConstraint(lambda x: agrad.stack([circle(x), x["b"]]), [0.36, -2], [np.inf, 0.5])
    found = optimize.minimize(fun, start, method=method, constraints=other, options={"maxiter": 2000})
    np.testing.assert_allclose(host(found.x["a"]), 0.8 / np.sqrt(2), rtol=1e-3)


def test_jacobians_of_constraints_are_not_differences() -> None:
    calls = []

    def ring(x: Any) -> Any:
        calls.append(0)
        return agrad.sum(x**2) - 1

    how: Any = {"method": "SLSQP", "jit": False}
    found = optimize.minimize(lambda x: agrad.sum(x), np.ones(20), constraints={"type": "eq", "fun": ring}, **how)
    np.testing.assert_allclose(np.sum(found.x**2), 1, rtol=1e-4)
    assert len(calls) < 4 * (found.nfev + found.njev)  # differences would take 20 for each Jacobian


def test_bounds_of_containers() -> None:
    start = {"a": np.zeros(2), "b": np.asarray(0.0)}

    def fun(x: Any) -> Any:
        return agrad.sum((x["a"] - 1) ** 2) + (x["b"] - 1) ** 2

    upper = {"a": np.asarray([0.5, 2.0]), "b": 0.25}
    found = optimize.minimize(fun, start, bounds=(-1.0, upper))
    np.testing.assert_allclose(found.x["a"], [0.5, 1.0], rtol=1e-5)
    np.testing.assert_allclose(found.x["b"], 0.25)
    rest = optimize.least_squares(lambda x: [x["a"] - 1, x["b"] - 1], start, bounds=(-np.inf, upper))
    np.testing.assert_allclose(rest.x["a"], [0.5, 1.0], rtol=1e-5)
    assert rest.active_mask.tolist() == [1, 0, 1]


def test_own_lbfgs_is_that_of_optim(place: Any) -> None:
    start = place(START)
    found = optimize.minimize(valley, start, method="agrad-lbfgs", tol=1e-9)
    assert found.success and found.nfev == found.njev and type(found.x) is type(start)
    np.testing.assert_allclose(host(found.x), optimize.minimize(valley, START, tol=1e-9).x, rtol=1e-5)
    short = optimize.minimize(valley, start, method="agrad-lbfgs", options={"max_iter": 2})
    assert (short.success, short.status) == (False, 1) and short.nit <= 2
    slope = agrad.grad(
        lambda a: optimize.minimize(lambda x, a: valley(x - a), start, (a,), "agrad-lbfgs", tol=1e-10).x[0]
    )
    np.testing.assert_allclose(host(slope(place(np.ones(5)))), [1, 0, 0, 0, 0], atol=1e-5)
    with pytest.raises(ConfigurationError, match="does not support bounds"):
        optimize.minimize(valley, start, method="agrad-lbfgs", bounds=[(0, 1)] * 5)


class Line(NamedTuple):
    level: Any
    slope: Any


def test_curve_fit_of_keywords_and_further_results() -> None:
    x, y = np.linspace(0, 1, 6), np.asarray([1.0, 1.2, 1.4, 1.7, 1.8, 2.0])
    popt, pcov, infodict, message, ier = optimize.curve_fit(lambda x, a, b: a + b * x, x, y, full_output=True)
    assert ier in (1, 2, 3, 4) and infodict["nfev"] > 0 and isinstance(message, str)
    named, also = optimize.curve_fit(lambda x, level, slope: level + slope * x, x, y, {"level": 1.0, "slope": 1.0})
    np.testing.assert_allclose([named["level"], named["slope"]], popt, rtol=1e-8)
    np.testing.assert_allclose(also, pcov, rtol=1e-6)
    bounded, _ = optimize.curve_fit(lambda x, a, b: a + b * x, list(x), list(y), bounds=(0, [2.0, 0.9]))
    np.testing.assert_allclose(bounded[1], 0.9, rtol=1e-6)
    line = optimize.least_squares(lambda p: p.level + p.slope * x - y, Line(np.asarray(0.0), np.asarray(0.0))).x
    assert isinstance(line, Line)
    np.testing.assert_allclose([line.level, line.slope], popt, rtol=1e-6)


@pytest.mark.parametrize("absolute", [False, True])
def test_covariance_has_derivatives(absolute: bool) -> None:
    x = np.linspace(0, 3, 8)
    y, sigma = 2 * np.exp(-0.7 * x) + 0.05 * np.cos(9 * x), np.linspace(0.1, 0.3, 8)
    how: Any = {"absolute_sigma": absolute, "xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}

    def errors(y: Any, sigma: Any) -> Any:
        pcov = optimize.curve_fit(lambda x, a, b: a * agrad.exp(-b * x), x, y, [1.0, 1.0], sigma, **how)[1]
        return agrad.stack([pcov[0, 0], pcov[1, 1], pcov[0, 1]])

    matrix = np.cov(np.random.default_rng(0).normal(size=(8, 50))) * 0.05
    for given in (sigma, matrix):
        direction = np.random.default_rng(1).normal(size=given.shape) * 0.1
        direction = direction if given.ndim < 2 else direction @ direction.T
        found = agrad.jvp(errors, (y, given), (np.cos(x), direction))[1]
        ends = [errors(y + h * np.cos(x), given + h * direction) for h in (1e-5, -1e-5)]
        np.testing.assert_allclose(host(found), (host(ends[0]) - host(ends[1])) / 2e-5, rtol=1e-4, atol=2e-6)


def test_solutions_of_maps_have_the_results_of_their_members() -> None:
    a = np.asarray([[1.0, 2.0], [3.0, 5.0]])
    seen: list[Any] = []

    def solution(a: Any) -> Any:
        result = optimize.minimize(lambda x, a: agrad.sum((x - a) ** 4), np.zeros(2), args=(a,))
        seen.append(result)
        return result.x, result.fun

    x, fun = agrad.vmap(solution)(a)
    np.testing.assert_allclose(x, a, atol=0.1)
    assert fun.shape == (2,) and [member.success for member in seen[0].members] == [True, True]
    starts = agrad.vmap(lambda x0: optimize.minimize(valley, x0).x)(np.ones((3, 2)))
    assert starts.shape == (3, 2)
    outer = agrad.vmap(agrad.vmap(lambda a: optimize.root(lambda x, a: x**3 - a, np.ones(1), args=(a,)).x[0]))(a)
    np.testing.assert_allclose(outer, np.cbrt(a))


def test_solutions_inside_of_solutions() -> None:
    def inner(a: Any) -> Any:
        return optimize.minimize(lambda x, a: agrad.sum((x - a) ** 2) + x[0] ** 2, np.zeros(2), args=(a,), tol=1e-9).x

    found = optimize.minimize(lambda a: agrad.sum((inner(a) - 1.0) ** 2), np.zeros(2))
    np.testing.assert_allclose(found.x, [2, 1], rtol=1e-4)


def test_tensors_of_a_closure_and_the_global_tape() -> None:
    a = agrad.asarray(np.asarray([1.0, 2.0]), requires_grad=True)
    found = optimize.minimize(lambda x: agrad.sum((x - a) ** 2) + agrad.sum(x) ** 2, np.zeros(2), method="BFGS")
    (agrad.sum(found.x) + found.fun).backward()
    numbers = a.detach().numpy()
    x = np.linalg.solve(np.eye(2) + 1, numbers)
    np.testing.assert_allclose(found.x.detach().numpy(), x, atol=1e-6)
    slopes = np.linalg.solve(np.eye(2) + 1, np.ones(2)) + 2 * (numbers - x)
    np.testing.assert_allclose(a.grad.numpy(), slopes, atol=1e-5)


def test_a_function_that_branches_on_values_is_not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    def fun(x: Any) -> Any:
        return agrad.sum(x**2) if float(agrad.stop_gradient(x)[0]) > 0 else agrad.sum(x**2) * 2

    np.testing.assert_allclose(optimize.minimize(fun, np.ones(2)).x, 0, atol=1e-6)
    fails(TracedValueError, "value", lambda: optimize.minimize(fun, np.ones(2), jit=True))
    calls: list[int] = []
    counted = optimize.minimize(lambda x: calls.append(0) or valley(x), START, jit=False)
    assert len(calls) == counted.nfev + 1  # and once to see if something is recorded
    jitted: list[Any] = []
    monkeypatch.setattr(agrad, "jit", lambda f, jit=agrad.jit: jitted.append(jit(f)) or jitted[-1])
    found = optimize.minimize(valley, START)
    assert [f.cache_info().misses for f in jitted] == [1] and jitted[0].cache_info().hits == found.nfev - 1


def test_functions_without_derivatives_get_what_went_in() -> None:
    kinds = set()

    def fun(x: Any) -> float:
        kinds.add(type(x))
        return float(np.floor(10 * x[0]) ** 2 + x[1] ** 2)

    optimize.minimize(fun, np.ones(2), method="Nelder-Mead")
    optimize.minimize(fun, np.ones(2), method="Powell")
    assert kinds == {np.ndarray}


def near(a: Any, **how: Any) -> Any:
    return optimize.minimize(lambda x: agrad.sum((x - a) ** 2), np.ones(2), **how).x


def moving(a: Any) -> dict[str, Any]:
    return {"type": "ineq", "fun": lambda x, a: x[0] - a, "args": (a,)}


RING = {"type": "eq", "fun": lambda x: agrad.sum(x**2) - 1}
REFUSED: list[Refusal] = [
    (TracedValueError, "optimize.minimize inside", lambda: agrad.jit(near)(np.ones(2))),
    (TracedValueError, "Pass them in args", lambda: agrad.vmap(near)(np.ones((2, 2)))),
    (NotDifferentiableError, "constraint", lambda: agrad.grad(lambda a: near(a, constraints=RING)[0])(1.0)),
    (NotDifferentiableError, "constraints", lambda: agrad.grad(lambda a: near(0.0, constraints=moving(a))[0])(1.0)),
    (DtypeError, "x0 must hold real arrays, got", lambda: optimize.minimize(valley, np.ones(2) * 1j)),
    (DtypeError, "x0 must hold real arrays", lambda: optimize.minimize(valley, {})),
    (ShapeError, "shape ()", lambda: optimize.minimize(lambda x: x, np.ones(2))),
    (DtypeError, "complex", lambda: optimize.minimize(lambda x: agrad.sum(x) * 1j, np.ones(2))),
    (OperandError, "fun must be a function", lambda: optimize.minimize(3, np.ones(2))),
    (ConfigurationError, "omit", lambda: optimize.curve_fit(valley, np.ones(3), np.ones(3), nan_policy="omit")),
    # those of SciPy
    (ValueError, "Unknown solver nothing", lambda: optimize.minimize(valley, START, method="nothing")),
    (TypeError, "unexpected keyword argument 'tol_'", lambda: optimize.minimize(valley, START, tol_=1e-3)),
    (TypeError, "missing 1 required positional argument: 'x0'", lambda: optimize.least_squares(valley)),
    (ValueError, "number of bounds", lambda: optimize.minimize(valley, START, bounds=[(0, 1)] * 2)),
    (ValueError, "not finite in the initial", lambda: optimize.least_squares(lambda x: x * np.nan, np.ones(1))),
    (TypeError, "mismatch between the input and output", lambda: optimize.root(lambda x: x[:1], np.ones(2))),
    (ValueError, "... signs", lambda: optimize.root_scalar(lambda x: x**2 + 1, bracket=[0, 1])),
    (ValueError, "Unable to determine number", lambda: optimize.curve_fit(lambda *a: a[0], np.ones(3), np.ones(3))),
]
test_errors = refuses(REFUSED)


def test_faults_that_are_no_errors() -> None:
    with pytest.warns(RuntimeWarning, match="cannot handle bounds"):
        optimize.minimize(valley, START, method="BFGS", bounds=[(0, 1)] * 5)
    lost = optimize.minimize(valley, np.asarray([np.nan, 1.0]), method="BFGS")
    assert not lost.success and np.isnan(lost.fun)


@pytest.mark.parametrize("method", ["bisect", "brentq", "brenth", "ridder", "toms748", "newton", "secant", "halley"])
def test_roots_of_one_number(method: str) -> None:
    from scipy.optimize import root_scalar

    def f(x: Any, a: Any) -> Any:
        return x**3 - a

    how: Any = {"bracket": [0.0, 5.0]} if method in ("bisect", "brentq", "brenth", "ridder", "toms748") else {"x0": 1.0}
    how |= {"x1": 2.0} if method == "secant" else {}
    slopes = {"newton": {"fprime": lambda x, a: 3 * x**2}}
    slopes["halley"] = slopes["newton"] | {"fprime2": lambda x, a: 6 * x}
    expected = root_scalar(f, args=(8.0,), method=method, **how, **slopes.get(method, {}))
    found = optimize.root_scalar(f, args=(8.0,), method=method, **how)
    for name in ("iterations", "function_calls", "converged"):
        assert getattr(found, name) == getattr(expected, name)
    np.testing.assert_allclose(found.root, [expected.root], rtol=1e-12)
    pairs = optimize.root_scalar(lambda x: (x**2 - 2, 2 * x, 2 + 0 * x), fprime=True, fprime2=True, x0=1.0)
    assert pairs.method == "halley" and abs(pairs.root[0] - np.sqrt(2)) < 1e-12


@each(CALLS, whole=True)
def test_derivatives_of_solutions(case: Call) -> None:
    f, xs = problem(case, np.asarray)
    rng = case.rng()
    along = [rng.normal(size=x.shape) for x in xs]
    (expected,) = differences(f, xs, along)
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
        (slopes,) = differences(lambda *xs, i=i: gradient(*xs)[i], xs, along, 1e-4)
        np.testing.assert_allclose(found, slopes, rtol=1e-3, atol=1e-4)


@each([case for case in CALLS if "loss" not in case.label], elsewhere=True)
def test_derivatives_on_each_backend(case: Call, place: Any) -> None:
    (f, xs), (at_home, home) = problem(case, place), problem(case, np.asarray)
    along = [case.rng().normal(size=x.shape) for x in home]
    found = agrad.jvp(f, tuple(xs), tuple(map(place, along)))[1]
    assert_close(host(found), agrad.jvp(at_home, tuple(home), tuple(along))[1], case.name, 1e-4)
    second = agrad.hessian(lambda x, *rest: agrad.sum(f(x, *rest) ** 2))(*xs)
    expected = agrad.hessian(lambda x, *rest: agrad.sum(at_home(x, *rest) ** 2))(*home)
    assert_close(host(second), expected, case.name, 1e-4)


def test_without_scipy_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(MissingExtraError, match=r"minimize needs SciPy\. Install it with"):
        optimize.minimize(lambda x: agrad.sum(x**2), np.ones(2))


def test_fsolve_returns_and_warns_as_scipy(backend: str) -> None:
    from scipy.optimize import fsolve

    def f(x: Any, a: Any) -> Any:
        return x**3 - a

    def last(a: Any) -> Any:
        x, info, status, message = optimize.fsolve(f, [[1.0, a]], (a,), full_output=True, xtol=1e-12)
        assert status == 1 and "converged" in message and x.shape == info["fvec"].shape == (2,)
        return x[1]

    a = agrad.asarray(8.0, backend=backend)
    np.testing.assert_allclose(float(last(a)), fsolve(f, [1.0, 8.0], (8.0,))[1])
    np.testing.assert_allclose(float(agrad.grad(last)(a)), 1 / 12)
    np.testing.assert_allclose(float(agrad.grad(agrad.grad(last))(a)), -1 / 144)
    with pytest.warns(RuntimeWarning, match="not making good progress"):
        optimize.fsolve(lambda x: x**2 + 1, 1.0)
