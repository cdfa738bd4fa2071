"""NumPy kernels in the engine: ``where``, memory, blocks, and rules under a map."""

import os
import platform
from typing import Any

import numpy as np
import pytest
from kernel_pairs import drawn, rare, replaced
from processes import run_program
from refusals import fails
from tensors import all_equal

import agrad
from agrad.kernels.numpy import blocks
from agrad.kernels.numpy import fused as numpy_fused
from agrad.registry import KERNELS


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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_arrays_given_are_not_changed(dtype: str) -> None:
    x, w, b = drawn((300, 20), dtype), drawn((20, 30), dtype, 1), drawn((30,), dtype, 2)
    before = [a.copy() for a in (x, w, b)]
    labels = np.arange(300) % 30
    tensors = [agrad.asarray(a, requires_grad=True) for a in (x, w, b)]
    hidden = agrad.linear(*tensors)
    loss = agrad.cross_entropy(agrad.relu(hidden), labels)
    values = hidden.detach().numpy().copy()
    loss.backward()
    all_equal((x, w, b), before)
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
