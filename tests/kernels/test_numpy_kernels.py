"""NumPy's fused kernels against the generic bodies and rules that they stand in for."""

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import agrad
from agrad.backends import load
from agrad.kernels.numpy import blocks
from agrad.kernels.numpy import fused as numpy_fused
from agrad.registry import KERNELS, PRIMITIVES

FLOATS = (np.float32, np.float64)
SHAPES = ((7,), (3, 5), (0, 4), (2, 3, 4), (300, 257))
XP = load("numpy").xp


def generic(name: str, part: str) -> Callable[..., Any]:
    """The generic body, or the generic rule of the argument that ``part`` names, on NumPy's own words."""
    primitive = PRIMITIVES[name]
    if part == "forward":
        return lambda *arrays: primitive.forward(XP, *arrays)
    rule = primitive.vjps[part.removeprefix("vjp:")]

    def run(**values: Any) -> Any:
        return rule.function(*[XP if n == "xp" else values[n] for n in rule.names])

    return run


def filed(name: str, part: str, *arrays: Any) -> Any:
    """The kernel's result; its guard must agree."""
    kernel = KERNELS["numpy", name, part]
    assert kernel.when is not None
    assert kernel.when(*arrays)
    return kernel.function(*arrays)


def declines(name: str, part: str, *arrays: Any) -> bool:
    return not KERNELS["numpy", name, part].when(*arrays)


def same(found: Any, right: Any) -> None:
    """The same numbers, zeros' signs and dtypes. What sign a NaN has is nobody's promise."""
    assert type(found) is np.ndarray
    assert found.dtype == right.dtype
    np.testing.assert_array_equal(found, right)
    numbers = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(right[numbers]))


def close(found: Any, right: Any) -> None:
    assert found.dtype == right.dtype
    assert found.shape == right.shape
    exact = np.finfo(found.dtype).eps * 10
    np.testing.assert_allclose(found, right, rtol=exact, atol=exact)


def drawn(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    values[values < -1.5] = 0
    values.setflags(write=False)
    return values


def special(dtype: Any) -> np.ndarray:
    return np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, np.finfo(dtype).tiny / 4], dtype)


@pytest.fixture(params=FLOATS, ids=lambda t: t.__name__)
def dtype(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("shape", SHAPES, ids=str)
class TestElementwise:
    @pytest.mark.parametrize("name", ["relu", "sigmoid"])
    def test_forward(self, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        x = drawn(shape, dtype) * 8
        same(filed(name, "forward", x), generic(name, "forward")(x))

    def test_relu_backward(self, shape: tuple[int, ...], dtype: Any) -> None:
        y, g = np.maximum(drawn(shape, dtype), 0), drawn(shape, dtype, 1)
        same(filed("relu", "vjp:x", g, y), generic("relu", "vjp:x")(g=g, y=y))

    def test_where(self, shape: tuple[int, ...], dtype: Any) -> None:
        a, b = drawn(shape, dtype), drawn(shape, dtype, 1)
        same(numpy_fused.where(a > b, a, b), np.where(a > b, a, b))


def test_elementwise_special_values(dtype: Any) -> None:
    x = special(dtype)
    np.testing.assert_array_equal(filed("relu", "forward", x), generic("relu", "forward")(x))
    same(filed("sigmoid", "forward", x), generic("sigmoid", "forward")(x))
    values = [special(dtype)] * len(x)
    g, y = np.concatenate(values), np.repeat(x, len(x))
    same(filed("relu", "vjp:x", g, y), generic("relu", "vjp:x")(g=g, y=y))


def test_where_keeps_every_bit(dtype: Any) -> None:
    n = numpy_fused.BRANCHY
    a, b = np.resize(special(dtype), n), np.resize(special(dtype)[::-1], n + 1)[1:]
    condition = np.random.default_rng(0).random(n) < 0.5
    assert np.where(condition, a, b).tobytes() == numpy_fused.where(condition, a, b).tobytes()


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


def test_strides(dtype: Any) -> None:
    x, g = drawn((200, 300), dtype), drawn((300, 200), dtype, 1).T
    view, cotangent = x[:, ::-2], g[:, ::2]
    same(filed("relu", "vjp:x", cotangent, view), generic("relu", "vjp:x")(g=cotangent, y=view))
    same(filed("sigmoid", "forward", view), generic("sigmoid", "forward")(view))
    same(numpy_fused.where(view > 0, view, cotangent), np.where(view > 0, view, cotangent))
    same(filed("relu", "vjp:x", np.broadcast_to(g[:1], x.shape), x), np.where(x > 0, g[:1], np.zeros_like(x)))


@pytest.mark.parametrize("name", ["relu", "sigmoid"])
def test_the_guard_leaves_other_arrays_alone(name: str) -> None:
    assert declines(name, "forward", np.float32(1))
    assert declines(name, "forward", np.array(1.0))
    assert declines(name, "forward", np.arange(3))
    assert declines(name, "forward", np.ones(3, complex))
    assert declines(name, "forward", np.ones(3, ">f4"))


def test_the_guard_wants_a_cotangent_like_the_output() -> None:
    y = np.ones((3, 2))
    assert declines("relu", "vjp:x", y.astype(np.float32), y)
    assert declines("relu", "vjp:x", y[:1], y)


# ------------------------------------------------------------------ cross entropy


@pytest.mark.parametrize("shape", [(1, 1), (1, 10), (6, 3), (50, 10), (9, 64), (5, 200), (3, 63)], ids=str)
@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.uint64])
def test_cross_entropy(shape: tuple[int, int], kind: Any, dtype: Any) -> None:
    x, g = drawn(shape, dtype) * 30, drawn(shape[:1], dtype, 1)
    labels = np.random.default_rng(2).integers(0, shape[1], shape[0]).astype(kind)
    loss, lse = filed("softmax_cross_entropy", "forward", x, labels)
    right = generic("softmax_cross_entropy", "forward")(x, labels)
    close(loss, right[0])
    close(lse, right[1])
    found = filed("softmax_cross_entropy", "vjp:x", g, None, x, labels, lse)
    # few classes are summed class by class, and rounded otherwise
    (same if shape[1] >= 64 else close)(
        found,
        generic("softmax_cross_entropy", "vjp:x")(g_loss=g, g_lse=None, x=x, labels=labels, lse=lse),
    )


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("classes", [4, 100])
def test_cross_entropy_special_values(classes: int, dtype: Any) -> None:
    x = np.zeros((6, classes), dtype)
    x[0, 1], x[1, 0], x[2, 2], x[3, :], x[4, 0] = np.nan, np.inf, -np.inf, -np.inf, 1e4
    labels = np.zeros(6, int)
    found = filed("softmax_cross_entropy", "forward", x, labels)
    for part, right in zip(found, generic("softmax_cross_entropy", "forward")(x, labels), strict=True):
        np.testing.assert_allclose(part, right, rtol=1e-6)


def test_cross_entropy_declines_the_rest() -> None:
    x, labels, row = np.ones((3, 4)), np.zeros(3, int), np.ones(3)
    assert declines("softmax_cross_entropy", "forward", x[:0], labels[:0])
    assert declines("softmax_cross_entropy", "forward", x, labels.astype(float))
    for wrong in (-1, 4, -(2**63)):
        assert declines("softmax_cross_entropy", "forward", x, np.array([0, wrong, 3]))
    assert not declines("softmax_cross_entropy", "forward", x, np.array([0, 3, 0], ">i2"))
    assert declines("softmax_cross_entropy", "vjp:x", row, row, x, labels, row)
    assert declines("softmax_cross_entropy", "vjp:x", None, row, x, labels, row)
    assert declines("softmax_cross_entropy", "vjp:x", row.astype(np.float32), None, x, labels, row)


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


for _ in range(20):
    chain()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    chain()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 20)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ),
    reason="it is glibc's way with memory, left to itself, that is mended",
)
@pytest.mark.parametrize(("rows", "count"), [(512, 3), (6000, 20)])
def test_memory_is_kept_for_the_next_temporaries(rows: int, count: int) -> None:
    """Of a few arrays of half a megabyte, and of a tape of 120: more than glibc keeps by itself."""
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, str(rows), str(count)], capture_output=True, text=True, check=True, timeout=60
    )
    assert float(done.stdout) < 10  # pages; a chain of the first kind fetches 384 anew where nothing is kept


# ------------------------------------------------------------------ in the engine


def network(x: Any, w: Any, b: Any, labels: Any) -> Any:
    h = agrad.sigmoid(agrad.relu(agrad.linear(x, w, b)) - 0.5)
    return agrad.cross_entropy(h, labels)


def test_a_pass_with_kernels_is_one_without(dtype: Any) -> None:
    x, w, b = drawn((300, 20), dtype), drawn((20, 30), dtype, 1), drawn((30,), dtype, 2)
    labels = np.random.default_rng(3).integers(0, 30, 300)
    plain, recorded = ([agrad.asarray(a, requires_grad=True) for a in (x, w, b)] for _ in range(2))
    network(*plain, labels).backward()
    network(*recorded, labels).backward(create_graph=True)  # on Tensors the generic rules run
    for fast, slow in zip(plain, recorded, strict=True):
        close(fast.grad.numpy(), slow.grad.detach().numpy())


def test_the_arrays_given_are_not_changed(dtype: Any) -> None:
    x, w, b = drawn((300, 20), dtype), drawn((20, 30), dtype, 1), drawn((30,), dtype, 2)
    before = [a.copy() for a in (x, w, b)]
    labels = np.arange(300) % 30
    tensors = [agrad.asarray(a, requires_grad=True) for a in (x, w, b)]
    hidden = agrad.linear(*tensors)
    loss = agrad.cross_entropy(agrad.relu(hidden), labels)
    values = hidden.detach().numpy().copy()
    loss.backward()
    for now, then in zip((x, w, b), before, strict=True):
        np.testing.assert_array_equal(now, then)
    np.testing.assert_array_equal(hidden.detach().numpy(), values)


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
        with pytest.raises(ZeroDivisionError, match="in a block"):
            blocks.in_blocks(fail, x)


# ------------------------------------------------------------------ rules under a map


def test_an_elementwise_rules_kernel_runs_once_for_all_members(monkeypatch: pytest.MonkeyPatch) -> None:
    key, primitive, calls = ("numpy", "relu", "vjp:x"), PRIMITIVES["relu"], []
    own = KERNELS[key].function

    def watched(g: Any, y: Any) -> Any:
        calls.append(y.shape)
        return own(g, y)

    x = np.random.default_rng(0).uniform(-0.5, 1.0, (5, 4, 3))
    monkeypatch.setitem(KERNELS, key, KERNELS[key]._replace(function=watched))
    try:
        primitive.kernel_filed()
        one = agrad.grad(lambda a: agrad.sum(agrad.relu(a) * a))
        found = agrad.vmap(agrad.vmap(one))(x)
        recorded = agrad.grad(lambda a: agrad.sum(agrad.vmap(one)(a)))(x)
    finally:
        monkeypatch.undo()
        primitive.kernel_filed()
    assert calls[0] == x.shape
    np.testing.assert_allclose(found, 2 * np.maximum(x, 0))
    np.testing.assert_allclose(recorded, 2.0 * (x > 0))
