"""CuPy's fusion groups: what goes into them, the text of their kernels, and what these compute, on CuPy."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import host
from jit_help import draw

import agrad
from agrad.engine.rulecalls import RulePrimitive
from agrad.jit.compile import PASSES, TARGETS
from agrad.jit.lower.cuda import source as cuda_source
from agrad.jit.lower.cuda.elements import has_element
from agrad.jit.lower.cuda.groups import group_function
from agrad.jit.lower.cuda.scatter import parts_of
from agrad.jit.passes.fusion import Group
from agrad.jit.program import Instruction, Program, Variable, interpret
from agrad.kernels.cupy import expressions
from agrad.ops.elementwise import one_minus_square
from agrad.registry import PRIMITIVES


def program_of(function: Callable[..., Any], *args: Any) -> Program:
    """The program that CuPy's passes make of a function, traced on NumPy's arrays."""
    program = agrad.jit(function).lower(*args).stages[0][1]
    for _, run in [*PASSES, *TARGETS["cupy"].passes]:
        program = run(program)
    return program


def groups(program: Program) -> list[Group]:
    return [i.operation for i in program.instructions if isinstance(i.operation, Group)]


# ------------------------------------------------------------------ kernels


def chain(x: Any) -> Any:
    for _ in range(2):
        x = agrad.sin(x) * 0.9 + agrad.exp(-(x * x))
    return agrad.sum(x)


def many_words(x: Any, y: Any) -> Any:
    a = agrad.where(x > 0, agrad.sqrt(agrad.abs(y)), -agrad.log1p(agrad.square(x)))
    b = agrad.maximum(a, y) + agrad.minimum(x, 0.25) - agrad.relu(y) * agrad.sigmoid(x)
    c = agrad.where(agrad.logical_and(agrad.isfinite(a), x <= y), agrad.tanh(b), agrad.sign(a))
    return c, agrad.atan2(a, b), agrad.round(3 * b) / 2.0, agrad.logical_not(x != y), agrad.floor(b)


def ends(x: Any) -> Any:
    y = x * 2.0 + 1.0
    return y, agrad.sum(y), agrad.mean(agrad.exp(-y)), agrad.max(y), agrad.min(agrad.cos(y))


def with_numbers(x: Any, rate: float) -> Any:
    return agrad.tanh(x * rate) + rate, agrad.sum(agrad.square(x * rate))


def every_word(x: Any) -> Any:
    """Each unary and binary operation, comparison and test that there is an expression for, near one."""
    y = agrad.abs(agrad.sin(x)) * 0.4 + 0.3
    of = {"acosh": y + 1.5}
    words = {**expressions.FLOATS, **expressions.COMPARISONS, **expressions.ARRAYS}
    names = [n for n in words if hasattr(agrad, n) and n != "pow" and not n.startswith("logical_")]
    single = [n for n in names if "{1}" not in words[n]]
    made = [getattr(agrad, name)(of.get(name, y)) for name in single]
    made += [getattr(agrad, name)(y, x) for name in names if name not in single]
    big, whole = y > 0.5, x > 0.0
    logic = [getattr(agrad, name)(big, whole) for name in ("logical_and", "logical_or", "logical_xor")]
    return [agrad.where(m, y, 2.0 * x) if m.dtype == agrad.bool else m for m in (*made, *logic)], agrad.pow(y, x)


def slopes(x: Any) -> Any:
    y = agrad.relu(x * 2.0) + agrad.tanh(x) * 3.0 - agrad.sigmoid(x * 0.5)
    shares = agrad.logaddexp(one_minus_square(x), x * x)
    return agrad.sum(y * agrad.nn.functional.silu(x) + shares)


CASES: dict[str, tuple[Callable[..., Any], Callable[[str], tuple[Any, ...]]]] = {
    "chain and back": (agrad.value_and_grad(chain), lambda t: (draw(t, 41, 53),)),
    "words": (many_words, lambda t: (draw(t, 1027), draw(t, 2, 1027)[0])),
    "reductions": (ends, lambda t: (draw(t, 5, 1001),)),
    "fewer than a pack": (ends, lambda t: (draw(t, 3),)),
    "every word": (every_word, lambda t: (draw(t, 70),)),
    "kernels of rules": (agrad.grad(slopes), lambda t: (draw(t, 70),)),
    "numbers": (with_numbers, lambda t: (draw(t, 300), 0.3)),
    "a cast": (
        lambda x: agrad.astype(agrad.astype(x, agrad.float32) * 3.0, agrad.float64) + 1.0,
        lambda t: (draw("float64", 77),),
    ),
}


def rare(x: Any, y: Any) -> Any:
    z = agrad.relu(x)
    return agrad.maximum(x, y), agrad.minimum(z, y), agrad.sign(x), agrad.max(z * 1.0), agrad.isinf(x), x < np.inf


def unused(used: Any, x: Any, y: Any) -> Any:
    part = x * y
    return agrad.registry.CALLS["zero_masked"](used, part, False), agrad.isfinite(part), agrad.isinf(part)


def truths(x: Any) -> Any:
    return [of(x > bound) for bound in (-9.0, 0.0, 9.0) for of in (agrad.all, agrad.any, agrad.max, agrad.min)]


def finite(x: Any, y: Any) -> Any:
    return agrad.isfinite(x * y), agrad.isinf(x * y)


G = np.array([0.0, 0.0, 0.0, 0.0, -0.0, 1.0, 2.0, np.nan])
FACTORS = np.array(
    [[1.1, np.inf, np.nan, 3.3, 1e200, np.inf, 0.1, np.inf], [1.3, 1.0, 2.0, 0.7, 1e200, 0.5, 0.3, -1.0]]
)
SPECIAL = np.array([[np.nan, np.inf, -np.inf, 0.0, -1.0, 2.0], [0.0, np.nan, 1.0, np.nan, 5.0, -5.0]], np.float32)
EXACT: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "nan and infinity": (rare, tuple(SPECIAL), 6),
    "unused parts that are not finite": (unused, (G != 0, *FACTORS), 3),
    "a product beyond float32": (finite, tuple(draw("float32", 2, 1027) * np.float32(3e19)), 2),
    "a product beyond float64": (finite, tuple(draw("float64", 2, 1027) * 1e154), 2),
    "truth values": (truths, (draw("float32", 3, 1001),), 12),
}
"""Functions whose group gives NumPy's numbers, and how many."""


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
def test_numbers_are_numpys(name: str, launch: Callable[..., Any]) -> None:
    f, args, count = EXACT[name]
    program = program_of(f, *args)
    (group,) = groups(program)
    given = dict(zip(program.inputs, args, strict=True))
    values = [given[v] for v in group.program.inputs]
    found = launch(group, *values)
    assert len(found) == count
    for a, b in zip(found, interpret(group.program, values), strict=True):
        np.testing.assert_array_equal(a, np.asarray(b))


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
def test_no_fused_multiply_add_can_be_made_of_a_mask() -> None:
    (group,) = groups(program_of(unused, G != 0, *FACTORS))
    assert [i.name for i in group.program.instructions] == ["multiply", "mask_unused", "isfinite", "isinf"]
    text = cuda_source.GroupSource(group).text().partition("__device__ inline void element")[2]
    assert not re.search(r"(\w+) - \1\b", text)


@pytest.mark.needs("cupy")
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_as_in_numpy(dtype: str) -> None:
    def f(n: Any, m: Any) -> Any:
        k = (n * 3 - m) + 2
        chosen = agrad.where(k > m, k, 7)
        return chosen, agrad.astype(k, agrad.float64), k >= 5, agrad.logical_and(n, m), n < 0.5, n < 2**40

    n, m = np.arange(-40, 43).astype(dtype), (np.arange(83) * 7 % 11).astype(dtype)
    program = program_of(f, n, m)
    made = groups(program)
    assert sum(len(group.program.instructions) for group in made) >= 7
    found = agrad.jit(f)(*[agrad.asarray(x, backend="cupy") for x in (n, m)])
    for a, b in zip(found, f(n, m), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(host(a), b)


def test_rules_as_cupys_kernels_compute_them(launch: Callable[..., Any]) -> None:
    kind = np.dtype(np.float64)
    g, y = (Variable((9,), kind, np.ndarray) for _ in range(2))
    rules = [RulePrimitive(PRIMITIVES[name], PRIMITIVES[name].vjps["x"]) for name in ("relu", "tanh", "sigmoid")]
    body = [Instruction(rule, (g, y), {}, (Variable((9,), kind, np.ndarray),)) for rule in rules]
    assert all(map(cuda_source.has_cuda_expression, body))
    group = Group(Program([g, y], {}, body, [i.outputs[0] for i in body]), (9,))
    gs, ys = draw("float64", 9), np.abs(draw("float64", 9)) - 0.5
    expected = gs * (ys > 0), gs * (1 - ys * ys), gs * ys * (1 - ys)
    for a, b in zip(launch(group, gs, ys), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_a_group_is_one_launch_or_two_where_it_reduces(launch: Callable[..., Any], cuda_on_cpu: Any) -> None:
    x = draw("float32", 5, 1001)
    for function, kernels in ((lambda x: agrad.sin(x) * 2.0, ["group_4"]), (ends, ["group_4", "finish"])):
        (group,) = groups(program_of(function, x))
        launch(group, x)
        lines = cuda_on_cpu.trace(lambda group=group: launch(group, x))
        assert [line.split()[0] for line in lines if "<<<" in line] == kernels


def test_what_has_no_words_is_left_out_of_groups() -> None:
    program = program_of(lambda x: agrad.floor_divide(agrad.sin(x) * 2.0, 3.0) + 1.0, draw("float32", 8))
    assert "floor_divide" in [i.name for i in program.instructions]
    assert not groups(program_of(lambda x: (x + 1) * 2, np.arange(4, dtype=np.int16)))
    assert not groups(program_of(lambda x: abs(-(x // 2)), np.arange(4)))


def test_indices_of_large_arrays_have_64_bits() -> None:
    (group,) = groups(program_of(lambda x: agrad.sin(x) * 2.0, draw("float32", 8)))
    assert "unsigned int first" in cuda_source.GroupSource(group).text()
    shape = (1 << 16, 1 << 16)
    (i, j), x = group.program.instructions, Variable(shape, np.dtype("float32"), np.ndarray)
    y, z = Variable(shape, x.dtype, np.ndarray), Variable(shape, x.dtype, np.ndarray)
    body = [i.replaced({i.operands[0]: x}), j.replaced({j.operands[0]: y})]
    body = [Instruction(b.operation, b.operands, b.settings, (v,)) for b, v in zip(body, (y, z), strict=True)]
    text = cuda_source.GroupSource(Group(Program([x], {}, body, [z]), shape)).text()
    assert "unsigned long long first" in text


# ------------------------------------------------------------------ gradients of parts of arrays


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


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize(("shape", "indices"), INDICES)
def test_parts_are_added_at_their_positions(shape: tuple[int, ...], indices: list[Any], dtype: str, cupy: Any) -> None:
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
