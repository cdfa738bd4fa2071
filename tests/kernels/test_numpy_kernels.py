"""NumPy kernels in the engine: ``where``, memory, blocks, rules under a map; triangular systems and adjugates."""

import os
import platform
from typing import Any

import numpy as np
import pytest
from kernel_pairs import rare, replaced
from processes import run_program
from refusals import fails

import agrad
from agrad.backends import load
from agrad.errors import ShapeError
from agrad.kernels.numpy import blocks
from agrad.kernels.numpy import fused as numpy_fused
from agrad.registry import KERNELS, PRIMITIVES


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_where_keeps_every_bit(dtype: str) -> None:
    for shape in ((3, 5), (300, 257), (numpy_fused.BRANCHY + 1,)):
        a, b = (np.resize(x, shape) for x in rare(dtype))
        condition = np.random.default_rng(0).random(shape) < 0.5
        for some in (slice(None), (..., slice(None, None, -2))):
            found = numpy_fused.where(condition[some], a[some], b[some])
            assert np.where(condition[some], a[some], b[some]).tobytes() == found.tobytes()


WHERE = {
    "number": (np.ones((80, 80), bool), np.ones((80, 80)), 2.0),
    "scalar": (np.ones((80, 80), bool), np.ones((80, 80)), np.float32(2)),
    "dtypes": (np.eye(80, dtype=bool), np.ones((80, 80)), np.zeros((80, 80), np.float32)),
    "condition": (np.eye(80, dtype=bool)[0], np.ones((80, 80)), np.zeros((80, 80))),
    "x1": (np.eye(80, dtype=bool), np.ones(80), np.zeros((80, 80))),
    "float-condition": (np.eye(80), np.ones((80, 80)), np.zeros((80, 80))),
    "complex": (np.eye(80, dtype=bool), np.ones((80, 80), complex), np.zeros((80, 80), complex)),
    "int": (np.eye(80, dtype=bool), np.ones((80, 80), int), np.zeros((80, 80), int)),
    "swapped": (np.eye(80, dtype=bool), np.ones((80, 80), ">f8"), np.zeros((80, 80), ">f8")),
    "bool": (True, np.ones((80, 80)), np.zeros((80, 80))),
}


@pytest.mark.parametrize(("condition", "x1", "x2"), WHERE.values(), ids=WHERE)
def test_where_is_numpys_for_everything_else(condition: Any, x1: Any, x2: Any) -> None:
    right = np.where(condition, x1, x2)
    found = numpy_fused.where(condition, x1, x2)
    assert found.dtype == right.dtype
    np.testing.assert_array_equal(found, right)


# ------------------------------------------------------------------ memory

FAULTS = """
import resource
import sys

import numpy as np

from agrad.backends.numpy.backend import keep_memory

keep_memory()
x = np.ones((int(sys.argv[1]), 256), np.float32)


def chain():
    kept = [x + i for i in range(int(sys.argv[2]))]


for _ in range(8):
    chain()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(8):
    chain()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 8)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ),
    reason="it is glibc's way with memory, left to itself, that is mended",
)
@pytest.mark.parametrize(("rows", "count"), [(512, 3), (6000, 20)])
def test_memory_is_kept_for_the_next_temporaries(rows: int, count: int) -> None:
    """Of a few arrays of half a megabyte, and of a tape of 120: more than glibc keeps by itself."""
    pages = float(run_program(FAULTS, rows, count))
    assert pages < 10  # a chain of the first kind fetches 384 anew where nothing is kept


# ------------------------------------------------------------------ in the engine


def test_ones_to_sum_with_hold_little_memory() -> None:
    """One array a dtype, of which shorter ones are views; longer ones are held by nobody."""
    dtype = np.dtype("float32")
    short = [numpy_fused.all_ones(n, dtype) for n in (1, 32, 100_000)]
    assert all(np.shares_memory(ones, short[-1]) for ones in short)
    long = numpy_fused.all_ones(300_000, dtype)
    assert numpy_fused.all_ones(300_000, dtype) is not long
    for ones in (*short, long):
        assert ones.dtype == dtype and (ones == 1).all()
    with pytest.raises(ValueError, match="read-only"):
        short[0][0] = 2


def test_a_block_that_fails_is_the_callers_error() -> None:
    def fail(x: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("in a block")

    for x in (np.ones(10 * blocks.BLOCK), np.ones((20, blocks.BLOCK))[:, ::2]):
        fails(ZeroDivisionError, "in a block", blocks.in_blocks, fail, x)


# ------------------------------------------------------------------ rules under a map


def test_an_elementwise_rules_kernel_runs_once_for_all_members() -> None:
    calls, own = [], KERNELS["numpy", "relu", "vjp:x"].function

    def watched(g: Any, y: Any) -> Any:
        calls.append(y.shape)
        return own(g, y)

    x = np.random.default_rng(0).uniform(-0.5, 1.0, (5, 4, 3))
    with replaced("relu", {"vjp:x": watched}):
        one = agrad.grad(lambda a: agrad.sum(agrad.relu(a) * a))
        found = agrad.vmap(agrad.vmap(one))(x)
        recorded = agrad.grad(lambda a: agrad.sum(agrad.vmap(one)(a)))(x)
    assert calls[0] == x.shape
    np.testing.assert_allclose(found, 2 * np.maximum(x, 0))
    np.testing.assert_allclose(recorded, 2.0 * (x > 0))


# ------------------------------------------------------------------ triangular systems and adjugates


XP = load("numpy").xp
OVER, ADJUGATE = PRIMITIVES["linalg.over_triangle"], PRIMITIVES["linalg.adjugate"]


def normal(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else x).astype(dtype)


def of_condition(n: int, smallest: float, dtype: str, seed: int = 0) -> np.ndarray:
    """A matrix whose singular values are 1 but for one."""
    left, right = (np.linalg.qr(normal((n, n), dtype, seed + i))[0] for i in (1, 2))
    sizes = np.ones(n)
    sizes[-1] = smallest
    return ((left * sizes) @ right).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("n", [1, 8, 9, 16, 17, 31, 64, 65, 100])
def test_over_triangle_is_the_generic_solve(n: int, dtype: str) -> None:
    room = 200 * float(np.finfo(dtype).eps)
    for upper in (True, False):
        for left, right in (((3, n), (n, n)), ((2, 3, n), (n, n)), ((3, n), (4, n, n)), ((2, 1, n, n), (5, n, n))):
            x1, x2 = normal(left, dtype), normal(right, dtype, 1) / n + 2 * np.eye(n, dtype=dtype)
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
    regular = normal((4, 4), "float64")
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
    for x in (normal((5, 5), dtype), np.stack([normal((5, 5), dtype, 1), singular]).reshape(2, 1, 5, 5), singular):
        y = np.linalg.det(x)
        g = normal(y.shape, dtype, 2) if y.shape else y.dtype.type(1.5)
        assert kernel.when is not None and kernel.when(g, x, y)
        found, right = kernel.function(g, x, y), rule.function(XP, np.asarray(g), x, y)
        assert found.dtype == right.dtype and found.shape == right.shape
        assert np.linalg.norm(found - right) < 100 * np.finfo(dtype).eps * np.linalg.norm(right)
    assert not kernel.when(np.float64(1), np.ones((1, 1)), np.float64(1))
    assert not kernel.when(np.float32(1), np.ones((2, 2)), np.float64(1))


def test_a_cotangent_without_dimensions_reaches_the_kernel() -> None:
    """NumPy gives its own scalars where others give arrays of no dimensions."""
    x = normal((4, 4), "float64")
    right = agrad.grad(lambda x: 3 * agrad.linalg.det(x))(x)
    with replaced("linalg.det", {"vjp:x": lambda g, x, y: np.full_like(x, g * 7)}):
        assert (agrad.grad(lambda x: 3 * agrad.linalg.det(x))(x) == 21).all()
    assert np.array_equal(agrad.grad(lambda x: 3 * agrad.linalg.det(x))(x), right)


def test_solving_with_a_singular_matrix_is_numpys_error_whatever_the_shapes() -> None:
    solve, ones = agrad.linalg.solve, np.ones((5, 3, 1))
    fails(np.linalg.LinAlgError, "Singular", solve, agrad.asarray(np.zeros((3, 3))), agrad.asarray(ones[0]))
    fails(ShapeError, "must be broadcastable", solve, agrad.asarray(np.ones((2, 3, 3))), agrad.asarray(ones))


# ------------------------------------------------------------------ outer products


@pytest.mark.parametrize("sizes", [(7, 5), (5, 7), (1, 1)])
def test_outer_products_of_a_batch(sizes: tuple[int, int]) -> None:
    """Of mapped vectors, and the derivatives of both, also of one that all members share."""
    u, v = normal((6, sizes[0]), "float64"), normal((6, sizes[1]), "float64", 1)
    expected = u[:, :, None] * v[:, None, :]
    np.testing.assert_array_equal(agrad.vmap(agrad.linalg.outer)(u, v), expected)
    np.testing.assert_array_equal(agrad.vmap(lambda a, b: a[:, None] @ b[None, :])(u, v), expected)

    def total(a: Any, b: Any) -> Any:
        return agrad.sum(agrad.vmap(agrad.linalg.outer, (0, None))(a, b) ** 2)

    by_a, by_b = agrad.grad(total, argnums=(0, 1))(u, v[0])
    np.testing.assert_allclose(by_a, 2 * u * np.sum(v[0] ** 2))
    np.testing.assert_allclose(by_b, 2 * v[0] * np.sum(u**2))
