"""NumPy kernels of operations and rules, compared with the generic code that they replace."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from kernel_pairs import PAIRS, XP, close, completed, drawn, filed, generic, parts, rare, replaced, same
from refusals import fails
from tensors import all_close

import agrad
from agrad.kernels.numpy import scatter
from agrad.registry import KERNELS, PRIMITIVES, kernel
from agrad.shapes import ARRAY, fill_index

INF, NAN = math.inf, math.nan
SHAPES = ((1500,), (40, 50), (20, 30, 4), (300, 257))
SMALL = ((7,), (3, 5), (0, 4), (2, 3, 4), (300, 257))
EXACT = ("relu", "sigmoid", "where")
"""Operations whose kernels give every bit of the generic code."""
NAMES = (*PAIRS, *EXACT, "copysign", "between", "prod", "max", "min", "cumulative_prod", "sort", "diff",
         "linalg.vector_norm", "linalg.cross", "softmax_cross_entropy")  # fmt: skip


@pytest.fixture(params=[np.float32, np.float64], ids=lambda t: t.__name__)
def dtype(request: pytest.FixtureRequest) -> Any:
    return request.param


def arguments(name: str, dtype: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the arguments and options of an operation that its kernels must accept."""

    def d(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray:
        return drawn(shape, dtype, seed, low, high)

    x = d(4, 3, 5, low=0.5, high=1.5)
    if name in PAIRS or name == "copysign":
        yield from (({"x1": d(*s, low=0.25 if name == "pow" else -2.0), "x2": d(*s, seed=1)}, {}) for s in SHAPES)
    elif name in ("relu", "sigmoid"):
        yield from (({"x": d(*s, low=-16, high=16)}, {}) for s in (*SMALL, (40, 5000), (50_000, 3)))
        yield from (({"x": a}, {}) for a in (d(200, 300)[:, ::-2], d(300, 200).T))
    elif name == "where":
        for s in ((70, 80), (20, 30, 14), (300, 257)):
            given = {"condition": d(*s) > 0.3, "x1": d(*s, seed=1), "x2": d(*s, seed=2)}
            yield from ((given, {}), ({key: a[..., ::-1] for key, a in given.items()}, {}))
    elif name == "between":
        x = d(300, 257).copy()
        x[::7, ::5], x[3, 3], x[4, 4] = 0.5, NAN, INF
        yield from (({"x": x}, {"low": a, "high": b}) for a, b in ((-0.5, 0.5), (-1, 1), (0.25, 2.0), (-INF, 0.0)))
    elif name == "prod":
        rows = d(1100, 2, 31, low=0.9, high=1.1)  # more than one block of rows
        yield from (({"x": x}, {"axis": axis, "keepdims": False}) for axis in ((0,), (2,), (0, 2), (0, 1, 2)))
        yield from (({"x": a}, {"axis": (2,), "keepdims": k}) for a in (rows, np.asfortranarray(rows)) for k in (0, 1))
    elif name in ("max", "min"):  # with ties and without, in one block and in several, by rows and by columns
        for a in (d(40, 3, 5), d(1100, 2, 31, seed=1), np.round(d(1100, 2, 31, seed=2))):
            for axis in ((0,), (2,), (1, 2), (0, 2), (0, 1, 2)):
                how = {"axis": axis, "keepdims": False}
                yield from (({"x": a}, how), ({"x": np.asfortranarray(a)}, how))
    elif name == "cumulative_prod":
        yield from (({"x": x}, {"axis": k, "include_initial": i}) for k in range(3) for i in (False, True))
    elif name == "sort":
        a = d(8, 9, 10)
        yield from (({"x": a}, {"axis": k, "descending": i, "stable": True}) for k in range(3) for i in (False, True))
    elif name == "diff":
        yield from (({"x": d(*s)}, {"axis": axis}) for s in ((4, 3, 5), (2, 2, 2)) for axis in range(3))
    elif name == "linalg.vector_norm":
        axes = ((), (0,), (2,), (1, 2), (0, 1))
        every = [{"axis": a, "keepdims": k, "ord": o} for a in axes for k in (False, True) for o in (1, 2, 3, INF)]
        yield from (({"x": d(4, 3, 5)}, how) for how in every)
        yield from (({"x": d(5, 3).T}, {**how, "axis": (0, 1)}) for how in every if how["ord"] != INF)
    elif name == "linalg.cross":
        for s, axis in (((3,), -1), ((9000, 3), -1), ((10, 40, 3), -1), ((3, 400), -2)):
            yield {"x1": d(*s, seed=3), "x2": d(*s, seed=4)}, {"axis": axis}
    else:
        for s in ((1, 1), (1, 10), (6, 3), (50, 10), (9, 64), (5, 200), (3, 63)):
            labels = np.random.default_rng(2).integers(0, s[1], s[0])
            yield from (({"x": d(*s, low=-60, high=60), "labels": labels.astype(k)}, {}) for k in ("i8", "u1", "u8"))


def rules_of(name: str) -> list[str]:
    return [part for part in parts(name) if part == "forward" or part.startswith("vjp:")]


@pytest.mark.parametrize("name", NAMES)
def test_kernels_compute_what_the_generic_code_does(name: str, dtype: Any) -> None:
    compared = set()
    for given, how in arguments(name, dtype):
        values = completed(name, given, **how)
        for part in rules_of(name):
            found, right = filed(name, part, values, **how), generic(name, part, values, **how)
            assert found is not NotImplemented, (part, how)
            # few classes are summed class by class, and rounded otherwise
            exact = name in EXACT or (name == "softmax_cross_entropy" and part == "vjp:x" and found.shape[1] >= 64)
            for mine, other in zip(found, right, strict=True) if isinstance(found, tuple) else [(found, right)]:
                if exact:
                    same(mine, other)
                else:
                    close(mine, other, name == "cumulative_prod" or (part == "forward" and name in PAIRS))
            compared.add(part)
    assert compared == set(rules_of(name))


@pytest.mark.parametrize("name", [*PAIRS, "copysign", "relu", "sigmoid", "where"])
def test_kernels_of_rare_numbers(name: str, dtype: Any) -> None:
    """A kernel gives what the generic code gives at infinities, NaN, zeros and limits, or declines the arguments."""
    x1, x2 = rare(dtype)
    compared = 0
    with np.errstate(all="ignore"):
        for some in (slice(None), x1 == x2, np.isfinite(x1) & np.isfinite(x2) & (x1 != 0) & (x2 != 0)):
            a, b = x1[some], x2[some]
            given = {"x1": a, "x2": b, "x": a, "condition": a > b}
            values = completed(name, {n: given[n] for n in PRIMITIVES[name].arrays})
            values["g"] = b if name in EXACT else values["g"]
            for part in rules_of(name):
                found = filed(name, part, values)
                if found is not NotImplemented:
                    check = np.testing.assert_array_equal if name in EXACT else close
                    check(found, generic(name, part, values))
                    compared += 1
    assert compared > 1


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("number", [0.5, 0, -1, float("nan"), float("inf")])
def test_the_greater_of_a_number(name: str, number: float, dtype: Any) -> None:
    x, g = drawn((300, 257), dtype, 0), np.where(drawn((300, 257), dtype, 1) > 1.9, np.inf, 1).astype(dtype)
    x = np.where(drawn((300, 257), dtype, 2) > 1.999, dtype(0.5), x)  # a few ties, in some of the blocks
    close(filed(name, "vjp:x1", {"g": g, "x1": x, "x2": number}), generic(name, "x1", {"g": g, "x1": x, "x2": number}))
    close(filed(name, "vjp:x2", {"g": g, "x1": number, "x2": x}), generic(name, "x2", {"g": g, "x1": number, "x2": x}))


@pytest.mark.parametrize("name", [*PAIRS, "copysign", "between"])
def test_a_cotangent_may_be_one_number(name: str, dtype: Any) -> None:
    """As in compiled programs, for arrays of one block and of several."""
    rows = [(completed(name, given, **how), how) for given, how in arguments(name, dtype)]
    pulled = [part for part in rules_of(name) if part != "forward"]
    assert rows and pulled
    for (values, how), part in itertools.product(rows, pulled):
        g = dtype(0.7)
        found = filed(name, part, {**values, "g": g}, **how)
        assert found.dtype == dtype
        close(found, filed(name, part, {**values, "g": np.full(values["g"].shape, g)}, **how))


X = np.ones((2, 2000))
ROW, LABELS = np.ones(3), np.zeros(3, int)
LOSS = "softmax_cross_entropy"
OTHERS = (  # of one shape, dtype and kind with the cotangent, a kernel of two arguments accepts floating arrays only
    {"x1": X[0], "x2": X[0], "g": X, "y": X},
    {"x1": X.astype("f"), "x2": X.astype("f"), "g": X, "y": X},
    {"x1": X.astype(int), "x2": X.astype(int), "g": X, "y": X.astype(int)},
    {"x1": X * 1j, "x2": X * 1j, "g": X * 1j, "y": X * 1j},
    dict.fromkeys(("x1", "x2", "g", "y"), np.float64(1)),
)
DECLINED: list[tuple[str, str, dict[str, Any]]] = [
    *((n, f"vjp:{x}", values) for n in PAIRS for x in ("x1", "x2") for values in OTHERS),
    # on short arrays the generic rule is as fast
    *((n, "vjp:x1", dict.fromkeys(("x1", "x2", "g"), X[:, :3])) for n in ("maximum", "minimum", "atan2")),
    *(
        (n, "forward", {"x1": a, "x2": b})
        for n in ("hypot", "logaddexp")
        for a, b in ((X, X[0]), (X, 1.5), (1.5, X), (X, X.astype("f")), (X, np.float64(1)), (X * 1j, X * 1j))
    ),
    *(
        (n, "forward", {"x": x})
        for n in ("relu", "sigmoid")
        for x in (np.float32(1), np.array(1.0), np.arange(3), np.ones(3, complex), np.ones(3, ">f4"))
    ),
    ("relu", "vjp:x", {"g": X.astype("f"), "y": X}),
    ("relu", "vjp:x", {"g": X[:1], "y": X}),
    ("where", "vjp:x1", {"g": X, "condition": X[0] > 0}),
    ("where", "vjp:x1", {"g": X * 1j, "condition": X > 0}),
    (LOSS, "forward", {"x": np.ones((0, 4)), "labels": LABELS[:0]}),
    (LOSS, "forward", {"x": np.ones((3, 4)), "labels": LABELS.astype(float)}),
    *((LOSS, "forward", {"x": np.ones((3, 4)), "labels": np.array([0, k, 3])}) for k in (-1, 4, -(2**63))),
    *(
        (LOSS, "vjp:x", {"g_loss": a, "g_lse": b, "x": np.ones((3, 4)), "labels": LABELS, "lse": ROW})
        for a, b in ((ROW, ROW), (None, ROW), (ROW.astype("f"), None))
    ),
]


@pytest.mark.parametrize("row", range(len(DECLINED)))
def test_kernels_decline_other_arguments(row: int) -> None:
    name, part, values = DECLINED[row]
    assert filed(name, part, values) is NotImplemented


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("classes", [4, 100])
def test_cross_entropy_of_rare_numbers(classes: int, dtype: Any) -> None:
    x = np.zeros((6, classes), dtype)
    x[0, 1], x[1, 0], x[2, 2], x[3, :], x[4, 0] = NAN, INF, -INF, -INF, 1e4
    for kind in (int, ">i2"):
        values = {"x": x, "labels": np.zeros(6, kind)}
        all_close(filed(LOSS, "forward", values), generic(LOSS, "forward", values), rtol=1e-6)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf, 1e-30, 1e30])
def test_products_that_may_not_be_divided_go_the_generic_way(bad: float) -> None:
    x = np.full((2, 12), bad)
    with np.errstate(all="ignore"):
        values = {"g": np.ones(2), "x": x, "y": np.prod(x, axis=1)}
        assert filed("prod", "vjp:x", values, axis=(1,)) is NotImplemented
        how = {"axis": 1, "include_initial": False}
        assert filed("cumulative_prod", "vjp:x", {"g": np.ones((2, 12)), "x": x}, **how) is NotImplemented


def test_a_product_that_underflows_on_its_way_goes_the_generic_way() -> None:
    x, g = np.array([[1e-200, 1e-115, 1e300]]), np.ones(1)
    assert filed("prod", "vjp:x", {"g": g, "x": x, "y": np.zeros(1)}, axis=(1,)) is NotImplemented
    np.testing.assert_allclose(agrad.grad(lambda x: agrad.sum(agrad.prod(x, axis=1)))(x), [[1e185, 1e100, 1e-315]])
    wide = np.exp(np.array([[30.0] * 10 + [-30.0] * 10]))  # no one is close to a limit, nor all of one sign together
    values = {"g": g, "x": wide, "y": np.prod(wide, axis=1)}
    close(filed("prod", "vjp:x", values, axis=(1,)), generic("prod", "x", values, axis=(1,)))


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_that_are_rare(name: str) -> None:
    x = np.array([[1.0, -np.inf, np.inf], [np.inf, np.inf, -np.inf], [0.0, -0.0, 0.0]] * 70)
    y, g = getattr(np, name)(x, axis=1), np.array([1.0, -2.0, 3.0] * 70)
    values = {"g": g, "x": x, "y": y}
    close(filed(name, "vjp:x", values, axis=(1,)), generic(name, "x", values, axis=(1,)))
    x[1, 1] = np.nan
    broken = {"g": g, "x": x, "y": getattr(np, name)(x, axis=1)}
    assert filed(name, "vjp:x", broken, axis=(1,)) is NotImplemented
    assert filed(name, "vjp:x", {"g": x[:, :0], "x": x[:, :0], "y": x[:, :0]}, axis=()) is NotImplemented
    found = agrad.grad(lambda x: agrad.sum(getattr(agrad, name)(x, axis=1)))(x)
    np.testing.assert_array_equal(found[1], [0.0, 1.0, 0.0])


def test_sorting_ties_and_zeros_of_both_signs() -> None:
    x = np.tile(np.array([[0.0, -0.0, 0.0, 1.0, -0.0, -1.0]]), (1, 100))
    found = filed("sort", "forward", {"x": x}, axis=1, descending=False, stable=True)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(XP.sort(x, axis=1)))
    how = {"axis": 1, "descending": False}
    assert filed("sort", "vjp:x", {"g": np.ones_like(x), "x": x}, **how) is NotImplemented
    lone = np.arange(600.0).reshape(2, 300)
    assert filed("sort", "vjp:x", {"g": np.ones_like(lone), "x": lone}, **how) is not NotImplemented
    for number in (np.nan, lone[0, 8]):
        row = lone.copy()
        row[0, 5] = number
        assert filed("sort", "vjp:x", {"g": np.ones_like(row), "x": row}, **how) is NotImplemented
    # among equal elements the derivative goes by their order
    t = agrad.asarray([2.0, 1.0, 2.0, 2.0] + [3.0] * 600, requires_grad=True)
    agrad.sum(agrad.sort(t) * agrad.asarray([0.0, 1.0, 2.0, 3.0] + [4.0] * 600)).backward()
    np.testing.assert_array_equal(t.grad.numpy()[:4], [1.0, 0.0, 2.0, 3.0])


def added(g: np.ndarray, indices: tuple[np.ndarray, ...], index: tuple[Any, ...], shape: tuple[int, ...]) -> np.ndarray:
    out = np.zeros(shape, g.dtype)
    np.add.at(out, fill_index(index, indices), g)
    return out


def places(n: int, *shape: int, seed: int = 0, dtype: Any = np.int64) -> np.ndarray:
    low = 0 if np.dtype(dtype).kind == "u" else -n
    return np.random.default_rng(seed).integers(low, n, shape).astype(dtype)


SCATTERED: dict[str, Callable[[], tuple[tuple[np.ndarray, ...], tuple[Any, ...], tuple[int, ...]]]] = {
    "whole": lambda: ((places(30, 40, 1), places(50, 60, seed=1)), (ARRAY, ARRAY), (30, 50)),
    "whole, one axis": lambda: ((places(30, 900),), (ARRAY,), (30,)),
    "unsigned and small": lambda: ((places(30, 900, dtype=np.uint8),), (ARRAY,), (30,)),
    "short rows": lambda: ((places(30, 200),), (ARRAY,), (30, 7)),
    "long rows": lambda: ((places(30, 20),), (ARRAY,), (30, 200)),
    "index of two axes": lambda: ((places(30, 4, 5),), (ARRAY,), (30, 200)),
    "inner axis": lambda: ((places(30, 20),), (slice(None), ARRAY), (6, 30, 8)),
    "inner axis, long rows": lambda: ((places(30, 20),), (slice(None), ARRAY), (2, 30, 160)),
    "last axis": lambda: ((places(30, 60),), (slice(None), ARRAY), (20, 30)),
    "a mask": lambda: ((np.random.default_rng(0).random((40, 50)) < 0.5,), (ARRAY,), (40, 50)),
    "a part of an axis": lambda: ((places(30, 60),), (slice(1, None), ARRAY), (20, 30)),
    "a new axis": lambda: ((places(30, 700),), (None, ARRAY), (30,)),
    "an ellipsis": lambda: ((places(30, 60),), (..., ARRAY), (20, 30)),
    "two apart": lambda: ((places(5, 60), places(7, 60)), (ARRAY, slice(None), ARRAY), (5, 20, 7)),
}


@pytest.mark.parametrize("label", SCATTERED)
@pytest.mark.parametrize("kind", ["float32", "float64", "complex128", "int64"])
def test_scatter_add(label: str, kind: str) -> None:
    indices, index, shape = SCATTERED[label]()
    g = np.random.default_rng(5).uniform(-9, 9, np.zeros(shape)[fill_index(index, indices)].shape)
    g = (g + 1j * g[::-1] if kind == "complex128" else g).astype(kind)
    assert g.size > scatter._FEW
    found = scatter.scatter_add(g, *indices, index=index, shape=shape)
    right = added(g, indices, index, shape)
    assert found.dtype == right.dtype
    np.testing.assert_array_equal(found, right)  # the order of adding is the same, so every bit is


def test_an_index_out_of_range_is_numpys_error() -> None:
    for wrong in (30, -31):
        index = np.full(600, wrong)
        call = {"index": (ARRAY,), "shape": (30,)}
        fails(IndexError, "out of bounds", scatter.scatter_add, np.ones(600), index, **call)


def test_a_pass_finds_the_kernels_of_rules_whatever_the_forward_pass_called() -> None:
    """``pow`` is called by its operator, so nothing of it looks NumPy up before the backward pass does."""
    x, y = np.linspace(0.5, 2.0, 8), np.linspace(-1.0, 1.5, 8)
    with replaced("pow", dict.fromkeys(["vjp:x1", "vjp:x2"], lambda g, *values: np.full_like(g, 7.0))):
        found = agrad.grad(lambda a, b: agrad.sum(agrad.pow(a, b)), argnums=(0, 1))(x, y)
        assert [set(part.tolist()) for part in found] == [{7.0}, {7.0}]
    np.testing.assert_allclose(agrad.grad(lambda a: agrad.sum(agrad.pow(a, y)))(x), y * x ** (y - 1))


def test_a_kernel_of_a_backend_loaded_after_the_first_pass_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """``pow`` again, of which array-api-strict has no kernel of its own."""
    import array_api_strict as strict

    x = strict.asarray([1.0, 2.0])

    def cubed(a: Any) -> Any:
        return agrad.sum(agrad.pow(a, agrad.asarray(strict.asarray([3.0, 3.0]))))

    assert np.asarray(agrad.grad(cubed)(x)).tolist() == [3.0, 12.0]
    key = ("array_api_strict", "pow", "vjp:x1")
    monkeypatch.setitem(KERNELS, key, None)  # goes away with the test
    del KERNELS[key]
    try:
        kernel(*key, when=lambda g: True)(lambda g: 5 * g)
        assert np.asarray(agrad.grad(cubed)(x)).tolist() == [5.0, 5.0]
    finally:
        monkeypatch.undo()
        PRIMITIVES["pow"].kernel_filed()


def test_error_functions_in_single_precision() -> None:
    x = np.concatenate([np.linspace(-6, 6, 6001), np.logspace(-30, 0.96, 3001)]).astype(np.float32)
    erf, erfc = [np.vectorize(f)(x.astype(float)) for f in (math.erf, math.erfc)]
    np.testing.assert_allclose(filed("erf", "forward", {"x": x}), erf, rtol=8 * 2.0**-23)
    np.testing.assert_allclose(filed("special.erfc", "forward", {"x": x}), erfc, rtol=11 * 2.0**-23)
    share = np.vectorize(math.erfc)(x.astype(float) * -math.sqrt(0.5)) / 2
    found = filed("gelu", "forward", {"x": x}, approximate=False)
    np.testing.assert_allclose(found, x * share, rtol=50 * 2.0**-23)
    slope = share + x * np.exp(-(x.astype(float) ** 2) / 2) / math.sqrt(2 * math.pi)
    y = filed("gelu", "forward", {"x": x}, approximate=False)
    found = filed("gelu", "vjp:x", {"g": np.full_like(x, 2.0), "x": x, "y": y}, approximate=False)
    np.testing.assert_allclose(found, 2 * slope, rtol=2e-6, atol=6e-7)
    assert filed("gelu", "vjp:x", {"g": x, "x": x, "y": y}, approximate=True) is NotImplemented


def test_error_functions_of_rare_numbers() -> None:
    x = np.repeat(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 20.0, -20.0], np.float32), 1000)
    erf, erfc = filed("erf", "forward", {"x": x})[::1000], filed("special.erfc", "forward", {"x": x})[::1000]
    np.testing.assert_array_equal(erf, [np.nan, 1, -1, 0, -0.0, 1, -1, 1, -1])
    np.testing.assert_array_equal(erfc, [np.nan, 0, 2, 1, 1, 0, 2, 0, 2])
    y = filed("gelu", "forward", {"x": x}, approximate=False)
    np.testing.assert_array_equal(y[::1000], [np.nan, np.inf, 0, 0, 0, np.float32(1e30), 0, 20, 0])
    slopes = filed("gelu", "vjp:x", {"g": np.ones_like(x), "x": x, "y": y}, approximate=False)[::1000]
    np.testing.assert_array_equal(slopes, [np.nan, 1, 0, 0.5, 0.5, 1, 0, 1, 0])
    assert filed("erf", "forward", {"x": x[:9]}) is NotImplemented
