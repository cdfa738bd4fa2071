"""First and second derivatives of functions of one argument, over the whole range, against mpmath's."""

from typing import Any

import digits
import numpy as np
import pytest
from digits import BOUND, LESS, REFERENCES, errors, functions, known

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
