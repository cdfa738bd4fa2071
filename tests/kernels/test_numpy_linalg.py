"""NumPy's own triangular systems and adjugates, against the generic forms and against higher precision."""

from typing import Any

import numpy as np
import pytest
from kernel_pairs import replaced
from refusals import fails

import agrad
from agrad.backends import load
from agrad.errors import ShapeError
from agrad.registry import KERNELS, PRIMITIVES

XP = load("numpy").xp
OVER, ADJUGATE = PRIMITIVES["linalg.over_triangle"], PRIMITIVES["linalg.adjugate"]


def drawn(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else x).astype(dtype)


def of_condition(n: int, smallest: float, dtype: str, seed: int = 0) -> np.ndarray:
    """A matrix whose singular values are 1 but for one."""
    left, right = (np.linalg.qr(drawn((n, n), dtype, seed + i))[0] for i in (1, 2))
    sizes = np.ones(n)
    sizes[-1] = smallest
    return ((left * sizes) @ right).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("n", [1, 8, 9, 16, 17, 31, 64, 65, 100])
def test_over_triangle_is_the_generic_solve(n: int, dtype: str) -> None:
    room = 200 * float(np.finfo(dtype).eps)
    for upper in (True, False):
        for left, right in (((3, n), (n, n)), ((2, 3, n), (n, n)), ((3, n), (4, n, n)), ((2, 1, n, n), (5, n, n))):
            x1, x2 = drawn(left, dtype), drawn(right, dtype, 1) / n + 2 * np.eye(n, dtype=dtype)
            x2 = np.triu(x2) if upper else np.tril(x2)
            found = OVER.bind(x1, x2, upper=upper)
            right = OVER.forward(XP, x1, x2, upper=upper)
            assert found.dtype == right.dtype == dtype and found.shape == right.shape
            np.testing.assert_allclose(found, right, rtol=room, atol=room)
            turned = OVER.bind(x1[..., ::-1, :], x2.mT.copy().mT, upper=upper)
            np.testing.assert_allclose(turned, right[..., ::-1, :], rtol=room, atol=room)


def test_over_a_singular_triangle_is_numpys_error() -> None:
    x2 = np.triu(np.ones((20, 20)))
    x2[4, 4] = 0
    fails(np.linalg.LinAlgError, "Singular", lambda: OVER.bind(np.ones((2, 20)), x2, upper=True, checked=True))


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("smallest", [1.0, 1e-2, 1e-3, 3e-4, 1e-5, 1e-7, 0.0])
@pytest.mark.parametrize("n", [2, 5, 40])
def test_an_adjugate_has_the_digits_of_its_dtype_however_close_to_singular(n: int, smallest: float, dtype: str) -> None:
    x = np.stack([of_condition(n, smallest, dtype, 10 * i) for i in range(4)])
    wide = ADJUGATE.forward(XP, x.astype("complex128" if dtype == "complex64" else "float64"))
    found = ADJUGATE.bind(x)
    assert found.dtype == dtype
    error = np.linalg.norm(found - wide, axis=(-2, -1)) / np.linalg.norm(wide, axis=(-2, -1))
    assert error.max() < 30 * n**0.5 * np.finfo(dtype).eps


@pytest.mark.parametrize("n", [3, 30, 256])
def test_an_adjugate_at_the_limit_where_the_inverse_is_taken(n: int) -> None:
    """Determinant and inverse are of one factorisation: their errors cancel. 256 is factored by several threads."""
    for smallest in (1e-5, 3e-7):
        x = of_condition(n, smallest, "float64")
        right, found = ADJUGATE.forward(XP, x), ADJUGATE.bind(x)
        assert np.linalg.norm(found - right) < 1e-12 * np.linalg.norm(right)


def test_a_batch_of_adjugates_takes_each_its_own_way() -> None:
    regular = drawn((4, 4), "float64")
    far = regular * 1e-75  # its determinant is close to the least there is
    rank_2 = regular.copy()
    rank_2[2:] = rank_2[:2]
    rank_3 = of_condition(4, 0.0, "float64")
    broken = np.full((4, 4), np.nan)
    batch = np.stack([regular, rank_3, far, rank_2, broken, np.zeros((4, 4))]).reshape(2, 3, 4, 4)
    with np.errstate(invalid="ignore"):
        found = ADJUGATE.bind(batch).reshape(6, 4, 4)
    np.testing.assert_allclose(found[0], np.linalg.det(regular) * np.linalg.inv(regular), rtol=1e-12)
    assert np.linalg.norm(found[1] @ rank_3) < 1e-14 and np.linalg.norm(found[1]) > 0.5
    np.testing.assert_allclose(found[2], found[0] * 1e-225, rtol=1e-10)
    assert np.linalg.norm(found[3]) < 1e-14
    assert np.isnan(found[4]).all()
    assert np.linalg.norm(found[5]) < 1e-45


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_the_gradient_of_a_determinant_takes_the_one_of_the_forward_pass(dtype: str) -> None:
    kernel, rule = KERNELS["numpy", "linalg.det", "vjp:x"], PRIMITIVES["linalg.det"].vjps["x"]
    singular = of_condition(5, 0.0, dtype)
    for x in (drawn((5, 5), dtype), np.stack([drawn((5, 5), dtype, 1), singular]).reshape(2, 1, 5, 5), singular):
        y = np.linalg.det(x)
        g = drawn(y.shape, dtype, 2) if y.shape else y.dtype.type(1.5)
        assert kernel.when is not None and kernel.when(g, x, y)
        found, right = kernel.function(g, x, y), rule.function(XP, np.asarray(g), x, y)
        assert found.dtype == right.dtype and found.shape == right.shape
        assert np.linalg.norm(found - right) < 100 * np.finfo(dtype).eps * np.linalg.norm(right)
    assert not kernel.when(np.float64(1), np.ones((1, 1)), np.float64(1))
    assert not kernel.when(np.float32(1), np.ones((2, 2)), np.float64(1))


def test_a_cotangent_without_dimensions_reaches_the_kernel() -> None:
    """NumPy gives its own scalars where others give arrays of no dimensions."""
    x = drawn((4, 4), "float64")
    right = agrad.grad(lambda x: 3 * agrad.linalg.det(x))(x)
    with replaced("linalg.det", {"vjp:x": lambda g, x, y: np.full_like(x, g * 7)}):
        assert (agrad.grad(lambda x: 3 * agrad.linalg.det(x))(x) == 21).all()
    assert np.array_equal(agrad.grad(lambda x: 3 * agrad.linalg.det(x))(x), right)


def test_gradients_are_those_of_the_generic_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through qr, cholesky and det of matrices wide enough for blocks."""
    x = drawn((2, 21, 21), "float64")

    def f(x: Any) -> Any:
        q, r = agrad.linalg.qr(x)
        square = agrad.matmul(x, agrad.matrix_transpose(x)) + agrad.asarray(np.eye(21))
        factor = agrad.linalg.cholesky(square)
        weights = np.arange(21.0)
        return agrad.sum(q * weights + r**2 + factor * weights) + agrad.sum(agrad.linalg.det(x / 5))

    found = agrad.grad(f)(x), agrad.jvp(agrad.grad(f), (x,), (x,))[1]
    monkeypatch.delitem(KERNELS, ("numpy", "linalg.det", "vjp:x"))
    PRIMITIVES["linalg.det"].kernel_filed()
    for name in ("linalg.over_triangle", "linalg.adjugate"):
        kernel = KERNELS["numpy", name, "forward"]
        monkeypatch.setitem(KERNELS, ("numpy", name, "forward"), kernel._replace(when=lambda *arrays: False))
        monkeypatch.setitem(PRIMITIVES[name].raw, np.ndarray, PRIMITIVES[name].resolve_kernel(load("numpy")))
    generic = agrad.grad(f)(x), agrad.jvp(agrad.grad(f), (x,), (x,))[1]
    monkeypatch.undo()
    PRIMITIVES["linalg.det"].kernel_filed()
    for one, other in zip(found, generic, strict=True):
        assert np.max(np.abs(one - other)) < 1e-8 * np.max(np.abs(other))


def test_solving_with_a_singular_matrix_is_numpys_error_whatever_the_shapes() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        agrad.linalg.solve(agrad.asarray(np.zeros((3, 3))), agrad.asarray(np.ones((3, 2))))
    with pytest.raises(ShapeError, match="must be broadcastable"):
        agrad.linalg.solve(agrad.asarray(np.ones((2, 3, 3))), agrad.asarray(np.ones((5, 3, 1))))


# ------------------------------------------------------------------ outer products


@pytest.mark.parametrize("sizes", [(7, 5), (5, 7), (1, 1)])
def test_outer_products_of_a_batch(sizes: tuple[int, int]) -> None:
    """Of mapped vectors, and the derivatives of both, also of one that all members share."""
    u, v = drawn((6, sizes[0]), "float64"), drawn((6, sizes[1]), "float64", 1)
    expected = u[:, :, None] * v[:, None, :]
    np.testing.assert_array_equal(agrad.vmap(agrad.linalg.outer)(u, v), expected)
    np.testing.assert_array_equal(agrad.vmap(lambda a, b: a[:, None] @ b[None, :])(u, v), expected)

    def total(a: Any, b: Any) -> Any:
        return agrad.sum(agrad.vmap(agrad.linalg.outer, (0, None))(a, b) ** 2)

    by_a, by_b = agrad.grad(total, argnums=(0, 1))(u, v[0])
    np.testing.assert_allclose(by_a, 2 * u * np.sum(v[0] ** 2))
    np.testing.assert_allclose(by_b, 2 * v[0] * np.sum(u**2))
