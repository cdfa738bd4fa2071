"""NumPy's own rules, of elementwise functions, reductions and scattering, against the generic ones they stand for."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import agrad
from agrad.backends import load
from agrad.kernels.numpy import scatter
from agrad.registry import KERNELS, PRIMITIVES, kernel
from agrad.shapes import ARRAY, fill_index

XP = load("numpy").xp
FLOATS = (np.float32, np.float64)
SHAPES = ((1500,), (40, 50), (20, 30, 4), (300, 257))


def generic(name: str, argument: str, values: dict[str, Any], **settings: Any) -> Any:
    """What the generic rule gives."""
    rule = PRIMITIVES[name].vjps[argument]
    known = {k: v for k, v in settings.items() if k in rule.settings}
    return rule.function(*[XP if n == "xp" else values[n] for n in rule.names], **known)


def filed(name: str, part: str, values: dict[str, Any], **settings: Any) -> Any:
    """What the kernel gives, or NotImplemented where its guard or it says no."""
    kernel = KERNELS["numpy", name, part]
    arguments = [values[n] for n in kernel.names]
    known = {k: v for k, v in settings.items() if k in kernel.settings}
    if kernel.when is not None and not kernel.when(*arguments):
        return NotImplemented
    return kernel.function(*arguments, **known)


def close(found: Any, right: Any, summed: bool = False) -> None:
    """Equal but for rounding; ``summed``: to that of the largest element, as terms of both signs were added."""
    assert type(found) in (np.ndarray, type(right))
    assert found.dtype == right.dtype and found.shape == right.shape
    room = 40 * float(np.finfo(found.dtype).eps)
    scale = float(np.max(np.abs(right))) if summed else 1e-3
    np.testing.assert_allclose(found, right, rtol=room, atol=room * scale)


def drawn(shape: tuple[int, ...], dtype: Any, seed: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    out = np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)
    out.setflags(write=False)
    return out


def special(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of numbers that are rare."""
    info = np.finfo(dtype)
    one = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, info.tiny, -info.tiny / 4, info.max, -info.max]
    one += [float(info.max) ** 0.5 * 1.5, float(info.tiny) ** 0.5 / 2]
    a, b = np.meshgrid(np.array(one, dtype), np.array(one, dtype))
    return np.tile(a.reshape(-1), 100), np.tile(b.reshape(-1), 100)


PAIRS = ("maximum", "minimum", "pow", "hypot", "atan2", "logaddexp")


def forward(name: str, x1: Any, x2: Any) -> Any:
    with np.errstate(all="ignore"):
        return getattr(XP, name)(x1, x2)


@pytest.fixture(params=FLOATS, ids=lambda t: t.__name__)
def dtype(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", [*PAIRS, "copysign"])
def test_two_arguments(name: str, shape: tuple[int, ...], dtype: Any) -> None:
    low = 0.25 if name == "pow" else -2.0
    values = {"x1": drawn(shape, dtype, 0, low), "x2": drawn(shape, dtype, 1), "g": drawn(shape, dtype, 2)}
    values["y"] = forward(name, values["x1"], values["x2"])
    for argument in ("x1",) if name == "copysign" else ("x1", "x2"):
        found = filed(name, f"vjp:{argument}", values)
        assert found is not NotImplemented
        close(found, generic(name, argument, values))
    if ("numpy", name, "forward") in KERNELS:
        close(filed(name, "forward", values), values["y"], summed=True)


@pytest.mark.parametrize("name", [*PAIRS, "copysign"])
def test_two_rare_arguments(name: str, dtype: Any) -> None:
    """Where it does not say no, a kernel gives what the generic rule gives at infinities, NaNs, zeros and limits."""
    x1, x2 = special(dtype)
    g = drawn(x1.shape, dtype, 0)
    y = forward(name, x1, x2)
    compared = 0
    with np.errstate(all="ignore"):
        for some in (slice(None), x1 == x2, np.isfinite(x1) & np.isfinite(x2) & (x1 != 0) & (x2 != 0)):
            values = {"x1": x1[some], "x2": x2[some], "g": g[some], "y": y[some]}
            for argument in ("x1",) if name == "copysign" else ("x1", "x2"):
                found = filed(name, f"vjp:{argument}", values)
                if found is not NotImplemented:
                    close(found, generic(name, argument, values))
                    compared += 1
            if ("numpy", name, "forward") in KERNELS:
                close(filed(name, "forward", values), values["y"])
                compared += 1
    assert compared > 1


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("number", [0.5, 0, -1, float("nan"), float("inf")])
def test_the_greater_of_a_number(name: str, number: float, dtype: Any) -> None:
    x, g = drawn((300, 257), dtype, 0), np.where(drawn((300, 257), dtype, 1) > 1.9, np.inf, 1).astype(dtype)
    x = np.where(drawn((300, 257), dtype, 2) > 1.999, dtype(0.5), x)  # a few ties, in some of the blocks
    close(filed(name, "vjp:x1", {"g": g, "x1": x, "x2": number}), generic(name, "x1", {"g": g, "x1": x, "x2": number}))
    close(filed(name, "vjp:x2", {"g": g, "x1": number, "x2": x}), generic(name, "x2", {"g": g, "x1": number, "x2": x}))


def test_between(dtype: Any) -> None:
    x, g = drawn((300, 257), dtype, 0).copy(), drawn((300, 257), dtype, 1)
    x[::7, ::5], x[3, 3], x[4, 4] = 0.5, np.nan, np.inf
    for low, high in ((-0.5, 0.5), (-1, 1), (0.25, 2.0), (-np.inf, 0.0)):
        how = {"low": low, "high": high}
        close(filed("between", "vjp:x", {"g": g, "x": x}, **how), generic("between", "x", {"g": g, "x": x}, **how))
        close(filed("between", "forward", {"x": x}, **how), np.clip(x, low, high))


def test_guards_leave_other_arguments_alone() -> None:
    x, g = np.ones((2, 2000)), np.ones((2, 2000))
    for name in PAIRS:
        if name in ("maximum", "minimum", "atan2"):  # on short arrays the generic rule is as fast
            short = {"x1": x[:, :3], "x2": x[:, :3], "g": g[:, :3]}
            assert filed(name, "vjp:x1", short) is NotImplemented
        for values in (
            {"x1": x[0], "x2": x[0], "g": g, "y": x},
            {"x1": x.astype(np.float32), "x2": x.astype(np.float32), "g": g, "y": x},
            {"x1": x.astype(int), "x2": x.astype(int), "g": g, "y": x.astype(int)},
            {"x1": x * 1j, "x2": x * 1j, "g": g * 1j, "y": x * 1j},
            {"x1": np.float64(1), "x2": np.float64(1), "g": np.float64(1), "y": np.float64(1)},
        ):
            there = [part for part in ("vjp:x1", "vjp:x2", "forward") if ("numpy", name, part) in KERNELS]
            fit = ["forward"] if values["x1"].dtype in (np.float32, np.float64) and values["x1"].ndim else []
            taken = [part for part in there if filed(name, part, values) is not NotImplemented]
            assert taken == [part for part in there if part in fit], name
        if ("numpy", name, "forward") in KERNELS:
            for x1, x2 in ((x, x[0]), (x, 1.5), (1.5, x), (x, x.astype(np.float32)), (x, np.float64(1))):
                assert filed(name, "forward", {"x1": x1, "x2": x2}) is NotImplemented


@pytest.mark.parametrize("shape", [(70, 80), (20, 30, 14), (300, 257)], ids=str)
def test_where_passes_the_cotangent_of_what_was_chosen(shape: tuple[int, ...], dtype: Any) -> None:
    condition, g = drawn(shape, dtype, 0) > 0.3, drawn(shape, dtype, 1).copy()
    g.reshape(-1)[:4] = np.inf, -np.inf, np.nan, -0.0
    for given, chooses in ((g, condition), (np.asfortranarray(g), condition), (g[..., ::-1], condition[..., ::-1])):
        values = {"g": given, "condition": chooses}
        for argument in ("x1", "x2"):
            np.testing.assert_array_equal(filed("where", f"vjp:{argument}", values), generic("where", argument, values))
    for other in ({"g": g, "condition": condition[0]}, {"g": np.zeros(shape, complex), "condition": condition}):
        assert filed("where", "vjp:x1", other) is NotImplemented


# ------------------------------------------------------------------ products, sorting, norms


@pytest.mark.parametrize("axis", [(0,), (2,), (0, 2), (0, 1, 2)], ids=str)
def test_products(axis: tuple[int, ...], dtype: Any) -> None:
    x = drawn((4, 3, 5), dtype, 0, 0.5, 1.5)
    values = {"g": np.sum(x, axis=axis), "x": x, "y": np.prod(x, axis=axis)}
    close(filed("prod", "vjp:x", values, axis=axis), generic("prod", "x", values, axis=axis))


@pytest.mark.parametrize("keepdims", [False, True])
def test_products_of_many_rows(keepdims: bool, dtype: Any) -> None:
    """More than one block of them, and one factor in the last block that may not be divided by."""
    x = drawn((1100, 2, 31), dtype, 0, 0.9, 1.1)
    y = np.prod(x, axis=2, keepdims=keepdims)
    values = {"g": y + 1, "x": x, "y": y}
    close(filed("prod", "vjp:x", values, axis=(2,)), generic("prod", "x", values, axis=(2,)))
    turned = {**values, "x": np.asfortranarray(x)}
    close(filed("prod", "vjp:x", turned, axis=(2,)), generic("prod", "x", turned, axis=(2,)))
    zero = x.copy()
    zero[-1, -1, -1] = 0
    assert filed("prod", "vjp:x", {**values, "x": zero}, axis=(2,)) is NotImplemented


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
@pytest.mark.parametrize("axis", [(0,), (2,), (1, 2), (0, 2), (0, 1, 2)], ids=str)
def test_extremes(name: str, axis: tuple[int, ...], dtype: Any) -> None:
    """With ties and without, in one block and in several, laid out by rows and by columns."""
    for x in (drawn((40, 3, 5), dtype, 0), drawn((1100, 2, 31), dtype, 1), np.round(drawn((1100, 2, 31), dtype, 2))):
        for array in (x, np.asfortranarray(x)):
            y = getattr(np, name)(array, axis=axis)
            values = {"g": np.asarray(drawn(y.shape, dtype, 3)), "x": array, "y": y}
            close(filed(name, "vjp:x", values, axis=axis), generic(name, "x", values, axis=axis))


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


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("include_initial", [False, True])
def test_running_products(axis: int, include_initial: bool, dtype: Any) -> None:
    x = drawn((4, 3, 5), dtype, 0, 0.5, 1.5)
    how = {"axis": axis, "include_initial": include_initial}
    values = {"g": drawn(np.cumulative_prod(x, **how).shape, dtype, 1), "x": x}
    close(filed("cumulative_prod", "vjp:x", values, **how), generic("cumulative_prod", "x", values, **how), summed=True)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("descending", [False, True])
def test_sorting(axis: int, descending: bool, dtype: Any) -> None:
    x, g = drawn((8, 9, 10), dtype, 0), drawn((8, 9, 10), dtype, 1)
    how = {"axis": axis, "descending": descending}
    close(filed("sort", "vjp:x", {"g": g, "x": x}, **how), generic("sort", "x", {"g": g, "x": x}, **how))
    close(filed("sort", "forward", {"x": x}, stable=True, **how), XP.sort(x, **how))


def test_sorting_ties_and_zeros_of_both_signs() -> None:
    x = np.tile(np.array([[0.0, -0.0, 0.0, 1.0, -0.0, -1.0]]), (1, 100))
    found = filed("sort", "forward", {"x": x}, axis=1, descending=False, stable=True)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(XP.sort(x, axis=1)))
    how = {"axis": 1, "descending": False}
    assert filed("sort", "vjp:x", {"g": np.ones_like(x), "x": x}, **how) is NotImplemented
    lone = np.arange(600.0).reshape(2, 300)
    assert filed("sort", "vjp:x", {"g": np.ones_like(lone), "x": lone}, **how) is not NotImplemented
    for rare in (np.nan, lone[0, 8]):
        row = lone.copy()
        row[0, 5] = rare
        assert filed("sort", "vjp:x", {"g": np.ones_like(row), "x": row}, **how) is NotImplemented
    # among equal elements the derivative goes by their order
    t = agrad.asarray([2.0, 1.0, 2.0, 2.0] + [3.0] * 600, requires_grad=True)
    agrad.sum(agrad.sort(t) * agrad.asarray([0.0, 1.0, 2.0, 3.0] + [4.0] * 600)).backward()
    np.testing.assert_array_equal(t.grad.numpy()[:4], [1.0, 0.0, 2.0, 3.0])


@pytest.mark.parametrize("order", [1, 2, 3, np.inf])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norms(order: float, keepdims: bool, dtype: Any) -> None:
    x = drawn((4, 3, 5), dtype, 0)
    for axis in ((), (0,), (2,), (1, 2), (0, 1)):
        how = {"axis": axis, "keepdims": keepdims, "ord": order}
        close(
            filed("linalg.vector_norm", "forward", {"x": x}, **how),
            PRIMITIVES["linalg.vector_norm"].forward(XP, x, **how),
        )
    how = {"axis": (0, 1), "keepdims": keepdims, "ord": order}
    if order != np.inf:
        close(
            filed("linalg.vector_norm", "forward", {"x": x[0].T}, **how),
            np.linalg.vector_norm(x[0], keepdims=keepdims, ord=order),
        )


def test_cross(dtype: Any) -> None:
    for shape in ((3,), (9000, 3), (10, 40, 3)):
        u, v = drawn(shape, dtype, 3), drawn(shape, dtype, 4)
        close(filed("linalg.cross", "forward", {"x1": u, "x2": v}, axis=-1), np.cross(u, v))
    u, v = drawn((3, 400), dtype, 3), drawn((3, 400), dtype, 4)
    close(filed("linalg.cross", "forward", {"x1": u, "x2": v}, axis=-2), np.cross(u, v, axis=0))


# ------------------------------------------------------------------ adding at an index


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
        with pytest.raises(IndexError, match="out of bounds"):
            scatter.scatter_add(np.ones(600), index, index=(ARRAY,), shape=(30,))


# ------------------------------------------------------------------ in the engine


@pytest.mark.parametrize(
    "function",
    [
        lambda x: agrad.logaddexp(x, x * 0.5),
        lambda x: agrad.hypot(x, x + 3.0),
        lambda x: agrad.atan2(x, x + 3.0),
        lambda x: agrad.maximum(x, agrad.flip(x)),
        lambda x: agrad.clip(x, -0.5, 0.5),
        lambda x: (x + 3.0) ** agrad.flip(x),
        lambda x: agrad.sort(x, axis=0),
        lambda x: agrad.prod(x + 3.0, axis=1),
        lambda x: agrad.cumulative_prod(x, axis=1),
        lambda x: agrad.take(x, np.array([1, 1, 0]), axis=0),
        lambda x: agrad.linalg.outer(x[0, :], x[1, :]),
        lambda x: agrad.linalg.vector_norm(x, axis=-1),
    ],
)
def test_a_pass_with_kernels_is_one_without(function: Any) -> None:
    fast, slow = (agrad.asarray(drawn((40, 50), np.float64, 0), requires_grad=True) for _ in range(2))
    g = drawn(tuple(function(fast).shape), np.float64, 1)
    function(fast).backward(g)
    function(slow).backward(agrad.asarray(g), create_graph=True)  # on Tensors the generic rules run
    close(fast.grad.numpy(), slow.grad.detach().numpy(), summed=True)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_differences(axis: int, dtype: Any) -> None:
    for shape in ((4, 3, 5), (2, 2, 2)):
        x = drawn(shape, dtype, 0)
        values = {"g": drawn(np.diff(x, axis=axis).shape, dtype, 1), "x_meta": x}
        close(filed("diff", "vjp:x", values, axis=axis), generic("diff", "x", values, axis=axis))


# ------------------------------------------------------------------ that a backward pass runs them


def test_a_pass_finds_the_kernels_of_rules_whatever_the_forward_pass_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """``pow`` is called by its operator, so nothing of it looks NumPy up before the backward pass does."""
    x, y = np.linspace(0.5, 2.0, 8), np.linspace(-1.0, 1.5, 8)
    primitive = PRIMITIVES["pow"]
    for argument in ("x1", "x2"):
        key = ("numpy", "pow", f"vjp:{argument}")
        monkeypatch.setitem(KERNELS, key, KERNELS[key]._replace(function=lambda g, *values: np.full_like(g, 7.0)))
    try:
        primitive.kernel_filed()
        found = agrad.grad(lambda a, b: agrad.sum(agrad.pow(a, b)), argnums=(0, 1))(x, y)
        assert [set(part.tolist()) for part in found] == [{7.0}, {7.0}]
    finally:
        monkeypatch.undo()
        primitive.kernel_filed()
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
