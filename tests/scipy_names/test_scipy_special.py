"""``agrad.scipy.special``: its names, arguments and errors."""

import math
from typing import Any

import numpy as np
import pytest
from checker import assert_close
from refusals import Refusal, refuses

import agrad
from agrad.errors import OperandError
from agrad.scipy import special


@pytest.mark.needs("scipy")
def test_every_name_is_one_of_scipys() -> None:
    theirs = pytest.importorskip("scipy.special")
    assert len(special.__all__) > 80 and dir(special) == sorted(special.__all__)
    for name in special.__all__:
        assert callable(getattr(theirs, name)) and callable(getattr(special, name))
        assert getattr(special, name).__doc__.startswith("Return")
    assert {name for name in vars(agrad.special) if name[0] != "_"} <= set(special.__all__)


@pytest.mark.needs("scipy")
@pytest.mark.parametrize("name", special._ELEMENTWISE)
def test_elementwise_functions_take_numbers_and_lists(name: str) -> None:
    theirs = getattr(pytest.importorskip("scipy.special"), name)
    count = getattr(theirs, "nin", {"hyp2f1": 4, "polygamma": 2, "jn": 2, "zeta": 2}.get(name, 1))
    values: Any = [0.25, 0.5, 0.75]
    first = [3 if name == "zeta" else 1, 3, 2][: count - 1]
    function = getattr(special, name)
    expected = theirs(*first, np.asarray(values))
    for last, kind in ((values, agrad.Tensor), (np.asarray(values), np.ndarray)):
        found = function(*first, last)
        assert isinstance(found, kind)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-10, atol=1e-14)
    assert function(*first, np.asarray(values, dtype=np.float32)).dtype == np.float32
    np.testing.assert_allclose(np.asarray(function(*first, values[0])), expected[0], rtol=1e-10)


INF = np.inf
EDGES: list[tuple[str, tuple[Any, ...], list[float]]] = [
    ("zetac", ([1e16, INF],), [0.0, 0.0]),
    ("zeta", ([1e16, INF, 3.0], [2.0, 1.0, INF]), [0.0, 1.0, 0.0]),
    ("boxcox", (0.0, [-1.0, 0.0, 0.5, 1.0]), [-INF, -INF, -2.0, -1.0]),
    ("boxcox", (INF, [-0.5, 0.0, 1.0]), [2.0, INF, INF]),
    ("boxcox1p", (-1.0, [-1.0, 0.0, 0.5, 1.0]), [-INF, -INF, -2.0, -1.0]),
    ("poch", ([-3.0, 0.0, -3.0, -2.0, -2.0], [2.0, 0.0, -2.0, 3.0, 1.5]), [6.0, 1.0, 0.05, 0.0, 0.0]),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", EDGES, ids=lambda case: case[0])
def test_edges(case: tuple[str, tuple[Any, ...], list[float]], place: Any) -> None:
    name, values, expected = case
    found = getattr(special, name)(*(place(np.asarray(v) + np.zeros(len(expected))) for v in values))
    np.testing.assert_allclose(agrad.asarray(found).numpy(), expected, rtol=1e-13, atol=1e-300)


def test_poch_of_two_poles_has_no_derivative_by_the_second_argument() -> None:
    by_z, by_m = agrad.grad(special.poch, argnums=(0, 1))(np.asarray(-3.0), np.asarray(2.0))
    assert abs(by_z + 5) < 1e-12 and np.isnan(by_m)


def test_domains() -> None:
    assert special.exprel(np.asarray(np.inf)) == np.inf
    assert np.isnan(special.multigammaln(np.asarray([1.0, 0.5]), 3)).tolist() == [True, True]
    assert_close(special.comb(5, [6, -1, 2]), np.asarray([0.0, 0.0, 10.0]), "comb")
    assert_close(special.comb([0, 0], [0, 2], repetition=True), np.asarray([1.0, 0.0]), "comb of nothing")
    slope = agrad.grad(lambda n: agrad.sum(special.factorial(n)))(np.asarray([-2.0, -1.0, 0.0]))
    assert_close(slope, np.asarray([0.0, 0.0, -0.5772156649015329]), "factorial")
    assert np.isnan(np.asarray(special.factorial(math.nan)))
    with np.errstate(all="ignore"):
        ends = special.zetac(np.asarray([-1e10, -300.5, -300.0, 1.0]))
    np.testing.assert_array_equal(ends, [-1.0, -np.inf, -1.0, np.inf])
    np.testing.assert_array_equal(special.rgamma(np.asarray([-180.5, -1e10])), [-np.inf, 0.0])


REFUSED: list[Refusal] = [
    (OperandError, "math.comb", lambda: special.comb(5, 2, exact=True)),
    (OperandError, "math.perm", lambda: special.perm(5, 2, exact=True)),
    (OperandError, "math.factorial", lambda: special.factorial(5, exact=True)),
    (OperandError, "gamma", lambda: special.factorial(5.0, extend="complex")),
    (OperandError, "d must be an integer, got 1.5", lambda: special.multigammaln(2.0, 1.5)),
    (OperandError, "one Python integer", lambda: special.jv(2.5, np.asarray([1.0]))),
    (AttributeError, "nothing", lambda: special.nothing),
]
test_errors = refuses(REFUSED)


COMPLEX = [
    ("lambertw", (-1.0 + 0j, 0), -0.31813150520476413 + 1.3372357014306895j),
    ("lambertw", (-0.3679 + 0j, -1), -0.9999627445346733 - 0.010571923344494806j),
    ("lambertw", (-0.37 - 1e-3j, 1), -1.0207047381704424 + 0.11179867541818427j),
    ("lambertw", (1e-5j, -1), -14.171193088147158 - 1.6894537580123177j),
    ("lambertw", (0.5 - 2j, -3), -2.2005948907868422 - 18.486094266216067j),
    ("lambertw", (0j, 0), 0.0),
    ("lambertw", (0j, 1), -INF),
    ("wofz", (6.0 + 0j,), 2.3195228302435696e-16 + 0.09539620896911077j),
    ("wofz", (0.5 - 3j,), -12495.242856000214 + 1781.155349522109j),
    ("wofz", (-1 + 1e-8j,), 0.36787944203080475 - 0.607157698483805j),
    ("wofz", (1e200 + 0j,), 5.641895835477563e-201j),
]
"""Values by mpmath."""


@pytest.mark.parametrize("case", COMPLEX, ids=lambda case: f"{case[0]} {case[1]}")
def test_complex_values(case: tuple[str, tuple[Any, ...], complex], place: Any) -> None:
    name, (z, *branch), expected = case
    found = agrad.asarray(getattr(special, name)(place(np.asarray([z])), *branch)).numpy()
    np.testing.assert_allclose(found, [expected], rtol=3e-14)


@pytest.mark.needs("scipy")
@pytest.mark.parametrize("k", [-3, -1, 0, 1, 4])
def test_branches_of_lambertw(k: int) -> None:
    rng = np.random.default_rng(3)
    z = 10 ** rng.uniform(-9, 9, 2000) * np.exp(2j * np.pi * rng.uniform(size=2000))
    z[::2] = rng.uniform(-2, 2, 1000) + 1j * rng.uniform(-2, 2, 1000)
    expected = pytest.importorskip("scipy.special").lambertw(z, k, tol=1e-10)
    np.testing.assert_allclose(special.lambertw(z, k), expected, rtol=1e-12)


def test_derivatives_of_wofz_keep_their_digits_far_out() -> None:
    """-2 z w + 2i / sqrt(pi) cancels there."""
    z = np.asarray([30.0 + 1e-3j, 1e5 + 2j, 1e8 + 0j])
    slope = agrad.vmap(lambda z: agrad.jvp(special.wofz, (z,), (agrad.ones_like(z),))[1])(z)
    terms = [1.0, 1.5, 3.75, 13.125, 59.0625, 324.84375, 2111.484375]
    series = -1j / math.sqrt(math.pi) * sum(c / z ** (2 * i + 2) for i, c in enumerate(terms))
    np.testing.assert_allclose(slope, series, rtol=1e-13)
