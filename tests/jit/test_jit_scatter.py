"""Gradients of parts of arrays on CuPy: one kernel for all parts."""

from typing import Any

import numpy as np
import pytest
from checker import host

import agrad
from agrad.jit.lower.cuda.elements import has_element
from agrad.jit.lower.cuda.groups import group_function
from agrad.jit.lower.cuda.scatter import parts_of
from agrad.jit.passes.fusion import Group
from agrad.jit.program import Instruction, Program, Variable
from agrad.registry import PRIMITIVES

INDICES: list[tuple[tuple[int, ...], list[Any]]] = [
    ((8, 64), [(..., slice(None, 32)), (..., slice(32, None))]),
    ((5, 6), [(0,), (-1,), (slice(None), 2), (slice(1, 4), slice(0, 5, 2))]),
    ((5, 6), [(slice(None, None, -1),), (slice(4, 0, -2), slice(5, None, -3)), (..., -2)]),
    ((4, 3, 5), [(..., 1), (1, ..., slice(2)), (slice(None), None, 2), (None, 3, ..., None), (...,)]),
    ((7,), [(3,), (slice(2, 2),), (slice(-3, None),), (slice(None, None, 7),)]),
    ((1, 1), [(0,), (..., 0), (slice(None, None, -1), 0)]),
]


def scatter(shape: tuple[int, ...], parts: list[Any], indices: list[Any]) -> Instruction:
    variables = tuple([Variable(x.shape, x.dtype, type(x)) for x in parts])
    out = Variable(shape, parts[0].dtype, type(parts[0]))
    return Instruction(PRIMITIVES["scatter_sum"], variables, {"indices": tuple(indices), "shape": shape}, (out,))


@pytest.mark.needs("cupy")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize(("shape", "indices"), INDICES)
def test_parts_are_added_at_their_positions(shape: tuple[int, ...], indices: list[Any], dtype: str) -> None:
    import cupy

    rng = np.random.default_rng(0)
    parts = [(rng.normal(size=np.zeros(shape)[index].shape) * 9).astype(dtype) for index in indices]
    expected = np.zeros(shape, dtype)
    for part, index in zip(parts, indices, strict=True):
        expected[index] += part
    given = [cupy.asarray(part) for part in parts if part.size]
    turned = [cupy.asarray(part.T.copy()).T for part in parts if part.size]
    instruction = scatter(shape, given, [index for part, index in zip(parts, indices, strict=True) if part.size])
    assert has_element(instruction)
    (out,) = instruction.results
    group = Group(Program(list(instruction.reads()), {}, [instruction], [out]), shape, ahead=frozenset([out]))
    for some in (given, turned):
        (got,) = group_function(group)(*some)
        assert got.dtype == dtype
        np.testing.assert_allclose(host(got), expected, rtol=1e-6)


def test_sums_that_no_group_computes() -> None:
    x = np.zeros(3)
    for wrong in (scatter((5, 3), [x] * 17, [(0,)] * 17), scatter((5, 3), [x], [(True,)])):
        assert parts_of(wrong) is None and not has_element(wrong)
    assert parts_of(scatter((0, 3), [np.zeros((0, 3))], [(...,)])) is None
    y = Variable((5,), x.dtype, np.ndarray)
    at = Variable((5,), np.dtype("int64"), np.ndarray)
    settings = {"index": (agrad.shapes.ARRAY,), "shape": (9,)}
    assert parts_of(Instruction(PRIMITIVES["scatter_add"], (y, at), settings, (y,))) is None
