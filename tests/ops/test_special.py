"""Conventions of ``agrad.special``: values at the edges of the domains, derivatives that stay finite, errors."""

import math
from contextlib import nullcontext
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from cases_special import UNDERIVED
from checker import host
from processes import run_program
from refusals import fails
from special_accuracy import without_scipy

import agrad
from agrad import special
from agrad.backends import special as words
from agrad.errors import DtypeError, MissingRuleError, OperandError
from agrad.ops.special import incomplete_forms

INF, NAN = math.inf, math.nan

EDGES: list[tuple[str, tuple[float, ...], float]] = [
    ("xlogy", (0.0, 0.0), 0.0), ("xlogy", (0.0, NAN), NAN), ("xlog1py", (0.0, -1.0), 0.0), ("entr", (0.0,), 0.0),
    ("entr", (-1.0,), -INF), ("rel_entr", (0.0, 0.0), 0.0), ("rel_entr", (1.0, 0.0), INF),
    ("rel_entr", (-1.0, 2.0), INF), ("kl_div", (0.0, 2.0), 2.0), ("kl_div", (1.0, 0.0), INF), ("gamma", (0.0,), INF),
    ("gamma", (-0.0,), -INF), ("gamma", (-2.0,), NAN), ("gammaln", (-3.0,), INF), ("gammaln", (INF,), INF),
    ("digamma", (0.0,), -INF), ("digamma", (-2.0,), NAN), ("exp1", (0.0,), INF), ("exp1", (INF,), 0.0),
    ("exp1", (-1.0,), NAN), ("expi", (0.0,), -INF), ("expi", (INF,), INF), ("expi", (-INF,), 0.0),
    ("lambertw", (0.0,), 0.0), ("lambertw", (INF,), INF), ("lambertw", (-0.4,), NAN),
    ("lambertw", (-1 / math.e,), -1.0), ("zeta", (1.0, 1.0), INF), ("zeta", (2.0, -1.0), INF),
    ("zeta", (0.5, 1.0), NAN), ("gammainc", (2.0, 0.0), 0.0), ("gammaincc", (2.0, 0.0), 1.0),
    ("gammainc", (0.0, 1.0), 1.0), ("gammainc", (2.0, INF), 1.0), ("gammainc", (-1.0, 1.0), NAN),
    ("betainc", (2.0, 3.0, 0.0), 0.0), ("betainc", (2.0, 3.0, 1.0), 1.0), ("betainc", (2.0, 3.0, 1.5), NAN),
    ("erfinv", (1.0,), INF), ("erfinv", (1.5,), NAN), ("erfcinv", (0.0,), INF), ("erfcinv", (2.0,), -INF),
    ("ndtri", (0.0,), -INF), ("ndtri", (1.0,), INF), ("logit", (0.0,), -INF), ("logit", (1.0,), INF),
    ("y0", (0.0,), -INF), ("y1", (-1.0,), NAN), ("hyp2f1", (1.0, 2.0, 3.0, 1.5), NAN),
    ("hyp2f1", (1.0, 2.0, 3.0, NAN), NAN), ("hyp2f1", (1.0, 2.0, -1.0, 0.5), INF),
    ("hyp2f1", (1.0, 2.0, 0.0, 0.0), 1.0), ("hyp2f1", (1.0, 2.0, 3.0, 1.0), INF), ("hyp2f1", (1.5, 3.0, 0.5, 1.0), INF),
    ("hyp2f1", (-0.5, 2.0, 0.75, 1.0), -INF), ("hyp2f1", (1.0, 1.0, 2.5, 1.0), 3.0),
    ("hyp2f1", (1.0, 1.0, 3.0, 1.0), 2.0), ("hyp2f1", (-2.0, 1.5, 3.0, 1.5), 0.203125),
    ("hyp2f1", (-1.0, 2.0, -2.0, 0.5), 1.5), ("hyp2f1", (-2.0, 2.0, -2.0, 0.5), 4.0),
    ("hyp2f1", (-1.0, 2.0, 1.0, 0.5), 0.0), ("hyp2f1", (1e3, 0.5, 1e4, 0.3), NAN),
    ("hyp2f1", (18.0, -14.5, -6.75, 0.72), NAN), ("iv", (0.5, -1.0), NAN), ("iv", (0.0, 0.0), 1.0),
    ("sinc", (0.0,), 1.0),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "home",
    [
        pytest.param(nullcontext, id="SciPy", marks=pytest.mark.needs("scipy")),
        pytest.param(without_scipy, id="generic"),
    ],
)
@pytest.mark.parametrize(("name", "args", "expected"), EDGES, ids=lambda v: str(v))
def test_edges(name: str, args: tuple[float, ...], expected: float, home: Any) -> None:
    with home():
        got = getattr(special, name)(*[np.asarray([a]) for a in args])
    assert np.array_equal(got, [expected], equal_nan=True), got


def test_derivatives_of_the_gamma_function_far_out(place: Any) -> None:
    """Powers of the arguments underflow there."""
    x = np.asarray([1e16, 9e153, 1.1e154, 1e200, 1e300])
    slope = agrad.grad(lambda x: agrad.sum(special.digamma(x)))
    np.testing.assert_allclose(host(slope(place(x))), 1 / x, rtol=1e-14)
    np.testing.assert_allclose(host(special.polygamma(1.0, place(x))), 1 / x, rtol=1e-14)
    np.testing.assert_allclose(host(special.zeta(place(np.full(5, 1.5)), place(x))), 2 / np.sqrt(x), rtol=1e-14)


def test_the_other_branch_of_lambertw(place: Any) -> None:
    x = np.asarray([-0.36, -0.3, -0.2, -0.05, -1e-10, -1e-300])
    w = host(special.lambertw(place(x), -1))
    assert np.all(w < -1)
    np.testing.assert_allclose(w + np.log(w / x), 0, atol=1e-12)


def test_generic_forms_at_infinity() -> None:
    """Where SciPy says NaN."""
    with without_scipy():
        assert special.j0(np.asarray([INF])) == 0
        assert special.i0(np.asarray([-INF])) == INF


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_derivatives_at_the_edges_are_no_nan() -> None:
    def slopes(name: str, *args: float) -> list[float]:
        arrays = [np.asarray(a) for a in args]
        found = agrad.grad(getattr(special, name), argnums=tuple(range(len(args))))(*arrays)
        return [float(v) for v in found]

    def slope(a: float, b: float, c: float, z: float) -> float:
        return float(agrad.grad(lambda z: special.hyp2f1(a, b, c, z))(np.asarray(z)))

    assert slopes("rel_entr", 0.0, 1.0) == [-INF, 0.0]
    assert slopes("kl_div", 0.0, 1.0) == [-INF, 1.0]
    assert slopes("gammainc", 2.0, 0.0) == [0.0, 0.0]
    assert slopes("gammainc", 1.0, 0.0) == [0.0, 1.0]
    assert slopes("betainc", 1.0, 3.0, 0.0) == [0.0, 0.0, 3.0]
    assert slope(0.0, 2.0, -1.0, 0.3) == 0.0
    assert slope(0.0, 2.0, 0.0, 0.3) == pytest.approx(2 * 0.7**-3, rel=1e-14)
    assert slope(-2.0, 2.0, 3.0, 1.0) == pytest.approx(-4 / 3 * 0.25, rel=1e-14)
    assert math.isnan(slope(1.0, 2.0, 3.0, 1.5))
    assert slopes("j1", 0.0) == [pytest.approx(0.5, rel=1e-15)]
    assert slopes("i1", 0.0) == [pytest.approx(0.5, rel=1e-15)]
    assert slopes("i0e", 0.0) == [0.0]


def test_numbers_and_integers_take_the_dtype_of_the_arrays() -> None:
    x = np.asarray([0.5, 1.5], dtype=np.float32)
    assert special.gammainc(2, x).dtype == np.float32
    assert special.polygamma(1, x).dtype == np.float32
    assert special.zeta(np.asarray([2, 3]), x).dtype == np.float32
    assert special.gammaln(np.asarray([3, 4])).dtype == np.float64
    assert special.betaln(np.asarray([3, 4]), 2).dtype == np.float64


def test_what_is_refused() -> None:
    fails(DtypeError, "arguments must be real", lambda: special.gammaln(np.asarray([1j])))
    fails(OperandError, "at least one argument must be an array", special.betainc, 1.0, 2.0, 0.5)
    for order in (np.asarray([1, 2]), 1.5):
        fails(OperandError, "one Python integer", special.jn, order, np.asarray([1.0]))


def test_scipy_is_asked_for_only_when_needed() -> None:
    code = (
        "import sys, agrad, numpy as np\n"
        "agrad.special.sinc(np.ones(2))\nassert 'scipy' not in sys.modules\n"
        "sys.modules['scipy.special'] = None\n"
        "print(float(agrad.special.gammaln(np.asarray(10.5))))\n"
    )
    assert float(run_program(code, strict=True)) == pytest.approx(math.lgamma(10.5), rel=1e-14)


@pytest.mark.parametrize(("name", "argument"), [(name, one) for name, every in UNDERIVED.items() for one in every])
def test_a_derivative_by_an_order_is_an_error(name: str, argument: str) -> None:
    function = getattr(special, name.removeprefix("special."))
    place = UNDERIVED[name].index(argument)
    rest = np.asarray([0.5, 0.75])

    def f(order: Any, x: Any) -> Any:
        return function(*(order if k == place else rest for k in range(len(UNDERIVED[name]))), x)

    order, x = np.asarray([1.0, 2.0]), np.asarray([0.5, 0.9])
    message = f"special.{name.removeprefix('special.')} has no derivative with respect to {argument}"
    fails(MissingRuleError, message, lambda: agrad.grad(lambda v: agrad.sum(f(v, x)))(order))
    fails(MissingRuleError, message, lambda: agrad.jvp(lambda v: f(v, x), (order,), (order,)))
    assert np.all(np.isfinite(agrad.grad(lambda x: agrad.sum(f(order, x)))(x)))


@pytest.mark.parametrize("n", [0, 1])
def test_integrals_of_numpy_vectors_are_those_of_the_generic_form(n: int) -> None:
    """Short and long ones, small and large parameters, and the ends; also of no elements and of one."""
    grid = 10.0 ** np.linspace(-3, 5, 41)
    a, x = (v.reshape(-1) for v in np.meshgrid(grid, np.concatenate([[0.0, np.inf, np.nan, -1.0], grid * 1.1])))
    near = np.repeat(grid, 5)
    a, x = np.concatenate([a, near]), np.concatenate([x, near * np.tile([0.5, 0.9, 1.0, 1.1, 2.0], grid.size)])
    with np.errstate(all="ignore"):
        expected = [
            np.asarray(v) for v in incomplete_forms._gamma_both(strict, strict.asarray(a), strict.asarray(x), n)
        ]
        for some in (slice(None), slice(0), slice(1200, 1201)):
            found = incomplete_forms._gamma_both(np, a[some], x[some], n)
            for got, right in zip(found, expected, strict=True):
                np.testing.assert_allclose(got, right[some], rtol=2e-13, atol=1e-280)


def test_the_derivative_by_a_parameter_takes_few_calls(monkeypatch: Any) -> None:
    """Of NumPy vectors: the nodes are computed together, and the exponents as a product of matrices."""
    found: list[int] = []
    moments = incomplete_forms._gamma_moments
    monkeypatch.setattr(incomplete_forms, "_gamma_moments", lambda *args: found.append(args[1].size) or moments(*args))
    a = np.linspace(0.5, 30.0, 5000)
    incomplete_forms.gammainc_by_a(np, a, a + 1.0, n=1)
    assert 4500 < sum(found) <= 5000 and len(found) < 10


def test_generic_forms_of_long_numpy_arrays_are_computed_in_blocks() -> None:
    sizes: list[int] = []
    form = incomplete_forms.gammainc_by_a
    a, x = np.linspace(0.5, 30.0, 500)[:, None], np.linspace(0.1, 40.0, 40)

    def noting(xp: Any, a: Any, x: Any) -> Any:
        sizes.append(max(a.size, x.size))
        return form(xp, a, x, n=1)

    found = words.NUMPY.evaluate(np, noting, np.float64, a, x)
    assert found.shape == (500, 40) and max(sizes) == words._BLOCK and sum(sizes) == found.size
    np.testing.assert_allclose(found, form(np, a, x, n=1), rtol=1e-12, atol=1e-300)
    assert words.NUMPY.evaluate(np, noting, np.float32, a[:0], x).shape == (0, 40)


def test_betainc_of_large_parameters_is_right_or_nan_in_traces_of_jax(backend: str) -> None:
    a = agrad.asarray([3.0, 5e7, 5e9], dtype="float64")
    np.testing.assert_allclose(special.betainc(a, a, 0.5).numpy(), 0.5, rtol=1e-9)
    inside = agrad.jit(special.betainc)(a, a, 0.5).numpy()
    np.testing.assert_allclose(inside, [0.5, NAN, NAN] if backend == "jax" else 0.5, rtol=1e-9)
