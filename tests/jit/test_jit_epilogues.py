"""Products joined with what follows them, by the pass alone, on NumPy's arrays."""

from typing import Any

import numpy as np
import pytest
from jit_help import close, descent, draw, names, network, traced

import agrad
from agrad import optim
from agrad.engine.rulecalls import RulePrimitive
from agrad.jit.compile import PASSES
from agrad.jit.lower.cuda.epilogues import FusedEpilogue, with_epilogues
from agrad.jit.lower.plain import plain
from agrad.jit.passes.cleanup import without_dead_code
from agrad.jit.program import Instruction, Program, interpret
from agrad.kernels.cupy.products import Layout, layout
from agrad.registry import PRIMITIVES


def test_layouts() -> None:
    x = np.zeros((6, 8), np.float32)
    found = [layout(part) for part in (x, x[:, 2:5], x[::2], x.T, x[:, 2:5].T, x[:, ::2], x[::-1])]
    rows = Layout(False, 8), Layout(False, 8), Layout(False, 16)
    assert found == [*rows, Layout(True, 8), Layout(True, 8), None, None]


def step_program() -> tuple[Program, list[Any]]:
    """A training step of three layers as CuPy's programs have it, whose rule of ReLU is one instruction."""
    model = network(6, 5, 4, 3, seed=1)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = descent(optimizer, lambda x, labels: agrad.cross_entropy(model(x), labels))
    program = traced(step, draw("float32", 7, 6), np.arange(7) % 3)
    for _, run in PASSES:
        program = run(program)
    program = without_dead_code(with_rules_of_relu(program))
    rng = np.random.default_rng(0)
    flags = {i.settings["donate"] for i in program.instructions if "donate" in i.settings}
    inputs: list[Any] = []
    for v in program.inputs:
        if v.on_host:
            inputs.append(0.5 if v not in flags else False)
        elif np.dtype(v.dtype).kind == "i":
            inputs.append(np.arange(7) % 3)
        else:
            inputs.append(rng.normal(size=v.shape).astype(np.float32))
    return program, inputs


def with_rules_of_relu(program: Program) -> Program:
    """``where(y > 0, g, 0)`` as one instruction, which CuPy's kernel for the rule makes of it."""
    rule = RulePrimitive(PRIMITIVES["relu"], PRIMITIVES["relu"].vjps["x"])
    kept = []
    for i in program.instructions:
        if i.name == "where":
            y = program.instructions[program.makers[i.operands[0]]].operands[0]
            i = Instruction(rule, (i.operands[1], y), {}, i.outputs)
        kept.append(i)
    return program.with_instructions(kept)


def test_a_training_step_is_joined_throughout() -> None:
    program, inputs = step_program()
    better = with_epilogues(program)
    names = [i.name for i in better.instructions]
    assert [n for n in names if n.startswith(("linear", "matmul"))] == [
        *("linear_relu_mask", "linear_relu_mask", "linear"),
        *("matmul_masked_sum", "matmul_sum", "matmul_masked_sum", "matmul", "matmul"),
    ]
    assert not {"relu", "relu.vjp:x", "sum", "linear.vjp:bias"} & set(names)
    masks = [i for i in better.instructions if i.name == "linear_relu_mask"]
    readers = [i for i in better.instructions if i.name == "matmul_masked_sum"]
    assert [i.operands[2] for i in readers] == [i.outputs[1] for i in reversed(masks)]
    for run in (plain, lambda p: lambda given: interpret(p, given)):
        for a, b in zip(run(better)(list(inputs)), plain(program)(list(inputs)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def read_elsewhere(x: Any, w: Any, b: Any, c: Any) -> Any:
    """One map leaves, so the second stays; and the sum is of a product, not of a factor."""
    z = agrad.linear(agrad.relu(agrad.linear(x, w, b)), c, b)
    return agrad.relu(z), z, agrad.sum(agrad.matmul(x, w), axis=0)


def of_axes(x: Any, w: Any, b: Any, ws: Any) -> Any:
    """Rows of more axes are joined, vectors and batches are not."""
    return agrad.relu(agrad.linear(x, w, b)), agrad.matmul(x, ws), agrad.relu(agrad.linear(x[0, 0], w, b))


def read_before(x: Any, w: Any) -> Any:
    rows = agrad.sum(w, axis=(0,))
    return agrad.matmul(x * rows, w) * rows


def read_after(x: Any, w: Any) -> Any:
    return agrad.matmul(x, w) * agrad.sum(w, axis=(0,))


@pytest.mark.parametrize(
    ("f", "shapes", "expected"),
    [
        (read_elsewhere, [(4, 3), (3, 3), (3,), (3, 3)], "linear linear_relu matmul relu sum"),
        (of_axes, [(2, 4, 3), (3, 5), (5,), (2, 3, 4)], "getitem linear linear_relu matmul relu"),
        (read_before, [(4, 3), (3, 3)], "matmul multiply multiply sum"),
        (read_after, [(4, 3), (3, 3)], "matmul_sum multiply"),
    ],
)
def test_what_is_joined_and_what_is_not(f: Any, shapes: list[tuple[int, ...]], expected: str) -> None:
    args = [draw("float32", *shape) for shape in shapes]
    program = traced(f, *args)
    better = with_epilogues(program)
    close(plain(better)(list(args)), plain(program)(list(args)), rtol=0)
    assert " ".join(sorted(names(better))) == expected


def test_a_masked_product_does_not_let_infinities_through() -> None:
    operation = FusedEpilogue(PRIMITIVES["matmul"], masked=True)
    x, w = np.array([[np.inf, 1.0]], np.float32), np.eye(2, dtype=np.float32) + 1
    with np.errstate(invalid="ignore"):
        found = operation.bind(x, w, np.array([[False, False]]))
    np.testing.assert_array_equal(found, np.zeros((1, 2), np.float32))
    assert found.dtype == np.float32
