"""Functions, and derivatives of first and second order, against mpmath's values over the whole range."""

from typing import Any

import digits
import numpy as np
import pytest
import special_accuracy
from digits import BOUND, LESS, REFERENCES, errors, functions, known
from special_accuracy import TABLE, quantities

import agrad

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


# NumPy's special functions are SciPy's, if it is installed
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.needs("scipy")) if n.startswith("special.") else n for n in REFERENCES]
)
def test_against_mpmath(name: str) -> None:
    for dtype, bound in BOUND.items():
        x, found = errors(name, "numpy", dtype)
        for order, off in enumerate(found, 1):
            off = np.where(known(name, order, x), 0.0, off)
            worst = int(np.argmax(off))
            assert off[worst] <= bound, f"derivative {order} of {name} at {x[worst]}, {dtype}: off by {off[worst]:.1e}"


ELSEWHERE = {"float64": 1e-11, "float32": 2e-5}
"""The bound on other backends, whose own functions may be less accurate than NumPy's."""
ROUGH_IN_JAX = {"tanh", "gelu, tanh", "nn.functional.mish", "nn.functional.tanhshrink", "erf", "special.erfc",
                "special.exp1", "special.expi"}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in REFERENCES if n != "imag"])  # other libraries have no real one
def test_on_a_backend_in_both_modes(name: str, backend: str) -> None:
    if backend == "jax" and name in ROUGH_IN_JAX:
        pytest.skip("the function of JAX has fewer digits")
    for dtype, bound in ELSEWHERE.items():
        x, found = errors(name, backend, dtype, forward=True)
        for order, off in enumerate(found, 1):
            denormal = (x != 0) & (np.abs(x) < np.finfo(dtype).tiny)  # 0 in JAX
            off = np.where(known(name, order, x) | (denormal & (backend == "jax")), 0.0, off)
            worst = int(np.argmax(off))
            assert off[worst] <= bound, f"derivative {order} of {name} at {x[worst]}, {dtype}: off by {off[worst]:.1e}"


def test_every_function_has_references() -> None:
    """A new elementwise operation, or activation, needs a formula in ``digit_points.py``."""
    missing = functions().keys() - REFERENCES.keys()
    assert not missing, f"file formulas of {sorted(missing)}, and write digit_references.json anew"


@pytest.mark.needs("scipy")
@pytest.mark.parametrize("row", LESS, ids=str)
def test_what_is_less_accurate_is_so(row: tuple[str, int]) -> None:
    """A row of the page whose function has become accurate goes."""
    name, order = row
    assert any(errors(name, "numpy", dtype)[1][order - 1].max() > BOUND[dtype] for dtype in BOUND)


def test_the_measure_sees_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: Any = agrad.elementwise("wrong", lambda g, y: g * (y + 1), forward=lambda xp, x, /: xp.expm1(x))
    monkeypatch.setattr(digits, "function", lambda name: wrong)
    _, (first, second) = errors("expm1", "numpy", "float64")
    assert first.max() == second.max() == 1


# ---------------------------------------------------------------- special functions

EXCEPTIONS: dict[tuple[str, str], float] = {
    ("beta", "value"): 5e-12,
    ("beta", "d0"): 5e-12,
    ("beta", "d1"): 5e-12,
    # where a or b is small two terms cancel: betaln's does not
    ("beta", "d01"): 1e-9,
    ("betaln", "value"): 1e-10,
    ("digamma", "d00"): 1e-12,
    ("erfcinv", "d0"): 1e-12,
    ("gammaln", "value"): 2e-12,
    ("gammainc", "d00"): 1e-10,
    ("gammainc", "d01"): 5e-12,
    ("gammaincc", "d00"): 1e-10,
    ("gammaincc", "d01"): 5e-12,
    ("betainc", "d00"): 5e-12,
    ("betainc", "d01"): 5e-12,
    ("log_ndtr", "d000"): 1e-5,
    **{
        (name, label): 1e-11 for name in ("j0", "j1", "y0", "y1", "jn") for label in ("value", "d0", "d00", "d1", "d11")
    },
}
"""What is not within ``MOST``. SciPy's own error is the greater one for betaln, gammaln and the Bessel functions."""
MOST = 5e-13


# without SciPy the form of NumPy is the generic one
@pytest.mark.parametrize("form", [pytest.param("numpy", marks=pytest.mark.needs("scipy")), "generic"])
@pytest.mark.parametrize("name", TABLE)
def test_special_functions_against_mpmath(name: str, form: str) -> None:
    for label, points, off in quantities(name, form):
        worst = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
        bound = EXCEPTIONS.get((name, label), MOST)
        assert off[worst] <= bound, f"{name} {label} at {points[worst]}: off by {off[worst]:.2g} of its size"


@pytest.mark.parametrize("name", ["erfc", "gammaln", "digamma", "gammainc", "betainc", "hyp2f1", "j0", "iv", "zeta"])
def test_on_a_backend(name: str, backend: str) -> None:
    """Values alone: each library's own function, or the generic form in its arrays."""
    ((_, points, off),) = [found for found in quantities(name, backend) if found[0] == "value"]
    worst = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
    assert off[worst] <= 1e-11, f"{name} at {points[worst]}: off by {off[worst]:.2g} of its size"


def test_hyp2f1_has_digits_or_is_nan() -> None:
    """Neighbors in a, which take other formulas: Abramowitz and Stegun 15.2.10, over parameters up to 15."""
    rng = np.random.default_rng(11)
    a, b, c = rng.uniform(-15, 15, (3, 3000))
    whole = rng.uniform(size=(3, 3000)) < 0.2
    c = np.where(whole[0], a + b + np.round(c / 3), c)
    a, b = np.where(whole[1], np.round(a), a), np.where(whole[2], np.round(b), b)
    z = np.concatenate([rng.uniform(-9, 1, 1500), 1 - 10 ** rng.uniform(-12, 6, 1500)])
    terms = np.stack(
        [
            (c - a) * agrad.special.hyp2f1(a - 1, b, c, z),
            (2 * a - c + (b - a) * z) * agrad.special.hyp2f1(a, b, c, z),
            a * (z - 1) * agrad.special.hyp2f1(a + 1, b, c, z),
        ]
    )
    known = np.all(np.isfinite(terms), axis=0)
    assert np.mean(known) > 0.9
    size = np.max(np.abs(terms[:, known]), axis=0)
    assert np.max(np.abs(np.sum(terms[:, known], axis=0)) / np.maximum(size, 1e-3)) < 1e-8


def test_the_measure_of_special_functions_sees_an_error() -> None:
    """A value that is off by one part in a million is found."""
    kept: Any = special_accuracy.TABLE["erf"]
    try:
        special_accuracy.TABLE["erf"] = [[args, {k: v * (1 + 1e-6) for k, v in found.items()}] for args, found in kept]
        assert all(off.max() > 5e-7 for _, _, off in quantities("erf", "generic"))
    finally:
        special_accuracy.TABLE["erf"] = kept
