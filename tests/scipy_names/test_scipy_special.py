"""``agrad.scipy.special``: its names, arguments and errors."""

import math
from typing import Any

import numpy as np
import pytest
from checker import assert_close

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
    count = getattr(theirs, "nin", {"polygamma": 2, "jn": 2, "zeta": 2}.get(name, 1))
    values: Any = [0.25, 0.5, 0.75]
    first = [3 if name == "zeta" else 1, 3][: count - 1]
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


@pytest.mark.parametrize(
    "call, error, match",
    [
        (lambda: special.comb(5, 2, exact=True), OperandError, "math.comb"),
        (lambda: special.perm(5, 2, exact=True), OperandError, "math.perm"),
        (lambda: special.factorial(5, exact=True), OperandError, "math.factorial"),
        (lambda: special.factorial(5.0, extend="complex"), OperandError, "gamma"),
        (lambda: special.multigammaln(2.0, 1.5), OperandError, "whole number"),
        (lambda: special.jv(2.5, np.asarray([1.0])), OperandError, "one Python integer"),
        (lambda: special.nothing, AttributeError, "nothing"),
    ],
)
def test_errors(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()
