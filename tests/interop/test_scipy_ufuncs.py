"""SciPy's universal functions called on Tensors: values, dtypes and derivatives on every backend, and what refuses."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import fails
from tensors import all_close

import agrad
from agrad.errors import RefusedFunctionError
from agrad.testing import check_grads

special = pytest.importorskip("scipy.special")
pytestmark = pytest.mark.needs("scipy")

X = np.asarray([-1.3, -0.4, 0.3, 1.7])
P = np.asarray([0.2, 0.45, 0.6, 0.9])
A, B, C = np.asarray([0.7, 1.2, 2.3, 3.1]), np.asarray([1.6, 0.8, 2.9, 1.1]), np.asarray([0.4, 0.9, 1.3, 2.2])
K, N = np.asarray([0.0, 1.0, 2.0, 3.0]), np.asarray([3.0, 4.0, 5.0, 6.0])

CALLS: dict[str, tuple[np.ndarray, ...]] = {
    name: inputs
    for names, inputs in (
        ("cbrt cosdg cosm1 cotdg erf erfc erfcx exp10 exp2 expit expm1 exprel i0 i0e i1 i1e j0 j1", (X,)),
        ("log_expit log_ndtr ndtr rgamma sindg tandg", (X,)),
        ("digamma entr gamma gammaln log1p loggamma psi y0 y1", (A,)),
        ("erfcinv erfinv logit ndtri", (P,)),
        ("zetac", (A + 1,)),
        ("beta betaln binom poch chdtr chdtrc gammainc gammaincc kl_div rel_entr xlog1py xlogy", (A, B)),
        ("huber pseudo_huber boxcox boxcox1p stdtr", (A, X)),
        ("inv_boxcox inv_boxcox1p", (P, C)),
        ("betainc betaincc fdtr fdtrc", (A, B, P)),
        ("gdtr gdtrc radian", (A, B, C)),
    )
    for name in names.split()
}
"""Arguments of the ufuncs that are differentiable in all of them, by name."""


@pytest.mark.parametrize("name", CALLS)
def test_values_and_derivatives(name: str, backend: str, place: Any) -> None:
    ufunc, inputs = getattr(special, name), CALLS[name]
    result = ufunc(*[agrad.asarray(place(x)) for x in inputs])
    assert result.backend == backend
    np.testing.assert_allclose(result.numpy(), ufunc(*inputs), rtol=2e-11, atol=1e-14)
    gradient = agrad.grad(lambda *xs: agrad.sum(ufunc(*xs)), argnums=tuple(range(len(inputs))))
    if backend == "numpy":
        check_grads(ufunc, inputs, order=1, directions=1)
        check_grads(gradient, inputs, order=1, directions=1, modes=("fwd",))
        return
    all_close(gradient(*map(place, inputs)), gradient(*inputs), rtol=1e-10, atol=1e-12)


def test_the_sign_of_gamma_is_a_constant(backend: str, place: Any) -> None:
    result = special.gammasgn(agrad.asarray(place(X - 1), requires_grad=True))
    assert result.backend == backend
    assert not result.requires_grad
    np.testing.assert_array_equal(result.numpy(), special.gammasgn(X - 1))


@pytest.mark.parametrize("name", ["bdtr", "bdtrc", "nbdtr", "nbdtrc", "pdtr", "pdtrc"])
def test_distributions_of_counts(name: str) -> None:
    ufunc = getattr(special, name)
    # SciPy takes the number of trials as an integer, and the failures of the negative binomial distribution too
    arrays = {"b": (K, N.astype(int)), "n": (K.astype(int), N.astype(int)), "p": (K,)}[name[0]]
    x = C if name[0] == "p" else P
    np.testing.assert_allclose(ufunc(*arrays, agrad.asarray(x)).numpy(), ufunc(*arrays, x), rtol=1e-12)
    check_grads(lambda x: ufunc(*arrays, x), (x,), order=1)


def crossed(*axes: Any) -> tuple[np.ndarray, ...]:
    """Return the coordinates of all points of a grid."""
    return tuple(v.ravel() for v in np.meshgrid(*axes))


EDGES, GRID = [-3.5, -1.0, -1e-9, 0.0, 1e-9, 0.5, 1.0, 2.0, 90.0, 180.0], [-1.0, 0.0, 0.5, 1.0, 2.0]
COUNT, TRIALS, CHANCE = crossed([-1, 0, 1, 2], [-1, 0, 1, 2], [-0.5, 0.0, 0.3, 1.0, 1.5])
OUTSIDE: dict[str, tuple[np.ndarray, ...]] = {
    name: inputs
    for names, inputs in (
        ("cosdg sindg exprel loggamma gammasgn rgamma cosm1 log1p", (np.asarray(EDGES),)),
        ("huber pseudo_huber stdtr pdtr pdtrc", crossed(EDGES, EDGES)),
        ("fdtr fdtrc gdtr gdtrc betainc betaincc", crossed(GRID, GRID, GRID)),
        ("bdtr bdtrc", (COUNT.astype(float), TRIALS.astype(int), CHANCE)),
        ("nbdtr nbdtrc", (COUNT.astype(int), TRIALS.astype(int), CHANCE)),
    )
    for name in names.split()
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_values_in_and_out_of_domains(name: str, backend: str, place: Any) -> None:
    ufunc, inputs = getattr(special, name), OUTSIDE[name]
    # SciPy's stdtr does not see t = 1e-9
    room = 1e-9 if name == "stdtr" else 1e-15 if len(inputs) == 2 else 0.0
    with np.errstate(all="ignore"):
        found = ufunc(*[agrad.asarray(place(x)) for x in inputs])
        np.testing.assert_allclose(found.numpy(), ufunc(*inputs), rtol=1e-11, atol=room)


def test_slopes_where_formulas_cancel() -> None:
    """By the limits that the functions' series say."""
    for name, at, slope in (
        ("exprel", 0.0, 0.5), ("exprel", 1e-9, 0.5), ("rgamma", 0.0, 1.0), ("rgamma", -1.0, -1.0),
        ("rgamma", -2.0, 2.0),
        ("cosm1", 0.0, 0.0), ("sindg", 180.0, -np.pi / 180),
    ):  # fmt: skip
        found = agrad.grad(getattr(special, name))(at)
        np.testing.assert_allclose(float(found), slope, rtol=1e-8, atol=1e-12, err_msg=name)
    by_power = agrad.grad(lambda power: special.boxcox(agrad.asarray(2.0), power))
    np.testing.assert_allclose(float(by_power(0.0)), np.log(2.0) ** 2 / 2, rtol=1e-12)
    density = agrad.grad(lambda t: special.stdtr(agrad.asarray(3.0), t))
    np.testing.assert_allclose(float(density(0.0)), 2 / (np.pi * np.sqrt(3.0)), rtol=1e-12)
    np.testing.assert_allclose(float(density(1e-5)), float(density(0.0)), rtol=1e-9)


def test_bessel_functions_of_an_order() -> None:
    t = agrad.asarray(A, requires_grad=True)
    agrad.sum(special.jn(2, t)).backward()
    np.testing.assert_allclose(t.grad.numpy(), special.jvp(2, A), rtol=1e-12)
    t = agrad.asarray(A, requires_grad=True)
    agrad.sum(special.iv(B, t)).backward()
    np.testing.assert_allclose(t.grad.numpy(), special.ivp(B, A), rtol=1e-12)
    fails(RefusedFunctionError, "order", lambda: special.iv(agrad.asarray(B, requires_grad=True), A))


def test_without_a_counterpart() -> None:
    t = agrad.asarray(A, requires_grad=True)
    for name in ("k0", "spence", "gammaincinv"):
        ufunc = getattr(special, name)
        fails(TypeError, rf"scipy\.special\.{name} has no counterpart.*detach", ufunc, *[t] * ufunc.nin)


def test_methods_and_settings_of_ufuncs() -> None:
    t = agrad.asarray(X, requires_grad=True)
    kept = agrad.zeros(4)
    special.expit(t, out=kept)
    np.testing.assert_allclose(kept.detach().numpy(), special.expit(X))
    table = special.xlogy.outer(agrad.asarray(A), agrad.asarray(B))
    np.testing.assert_allclose(table.numpy(), special.xlogy.outer(A, B), rtol=1e-12)


def test_inside_a_transform() -> None:
    rows = np.stack([A, B])
    found = agrad.vmap(agrad.grad(lambda x: agrad.sum(special.gammaln(x))))(rows)
    np.testing.assert_allclose(np.asarray(found), special.digamma(rows), rtol=1e-11)


def test_the_page_names_the_compositions() -> None:
    from agrad.interop.scipy import WORDS

    text = (Path(__file__).parents[2] / "docs" / "ecosystem" / "scipy.md").read_text(encoding="utf-8")
    listed = re.search(r"The compositions .*?: `(.*?)`", text.replace("`agrad.special.<name>`", ""), flags=re.S)
    assert listed is not None
    assert listed[1].split() == sorted(WORDS)


def test_scipys_other_names_are_found_in_agrad_special() -> None:
    x = agrad.asarray(A, requires_grad=True)
    agrad.sum(agrad.special.boxcox(x, 0.0)).backward()
    np.testing.assert_allclose(x.grad.numpy(), 1 / A, rtol=1e-12)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        agrad.special.nothing_of_the_kind  # noqa: B018
    assert "scipy" in sys.modules
