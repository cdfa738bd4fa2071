"""What operations are made of, had from their one formula, and products joined with what follows them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close
from jit_help import close, descent, draw, names, network, traced

import agrad
from agrad import optim
from agrad.engine.rulecalls import RulePrimitive
from agrad.jit.compile import PASSES
from agrad.jit.lower.cuda.epilogues import FusedEpilogue, with_epilogues
from agrad.jit.lower.plain import plain
from agrad.jit.passes.cleanup import without_dead_code
from agrad.jit.passes.decompose import body_of, decomposed, in_place_of
from agrad.jit.program import HOST, Instruction, Program, Variable, interpret
from agrad.kernels.cupy.products import Layout, layout
from agrad.registry import PRIMITIVES

RNG = np.random.default_rng(8)
X, W, B = RNG.standard_normal((6, 4)), RNG.standard_normal((4, 3)), RNG.standard_normal(3)


def rule(name: str, argument: str) -> RulePrimitive:
    primitive = PRIMITIVES[name]
    return RulePrimitive(primitive, primitive.vjps[argument])


def instruction(operation: Any, operands: tuple[Any, ...], **settings: Any) -> tuple[Instruction, list[Any]]:
    """An operation on arrays and numbers as an instruction, and the arrays."""
    arrays = [v for v in operands if isinstance(v, np.ndarray)]
    variables = iter([Variable(a.shape, a.dtype, np.ndarray) for a in arrays])
    given = tuple([next(variables) if isinstance(v, np.ndarray) else v for v in operands])
    out = operation.evaluate(operands, settings)
    return Instruction(operation, given, settings, (Variable(out.shape, out.dtype, type(out)),)), arrays


G, LOW = RNG.standard_normal((6, 1)), np.where(np.arange(24).reshape(6, 4) == 1, -np.inf, X)
ROWS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "softmax": (PRIMITIVES["softmax"], (LOW,), {"axis": 1}),
    "softmax of a middle axis": (PRIMITIVES["softmax"], (LOW.reshape(2, 3, 4),), {"axis": 1}),
    "log softmax": (PRIMITIVES["log_softmax"], (LOW,), {"axis": 1}),
    "logsumexp": (PRIMITIVES["logsumexp"], (LOW,), {"axis": (1,), "keepdims": False}),
    "logsumexp, kept": (PRIMITIVES["logsumexp"], (LOW.reshape(2, 3, 4),), {"axis": (2,), "keepdims": True}),
    "variance": (PRIMITIVES["var"], (X,), {"axis": (1,), "correction": 1, "keepdims": False}),
    "variance of none": (PRIMITIVES["var"], (X,), {"axis": (1,), "correction": 7, "keepdims": True}),
    "variance's rule": (rule("var", "x"), (G, X), {"axis": (1,), "correction": 0.5}),
    "variance's rule, not kept": (rule("var", "x"), (G[:, 0], X), {"axis": (1,), "correction": 0.0}),
    "gelu": (PRIMITIVES["gelu"], (X,), {"approximate": False}),
    "gelu by tanh": (PRIMITIVES["gelu"], (X,), {"approximate": True}),
    "share of a summand": (PRIMITIVES["summand_share"], (X, X + 1, np.logaddexp(X, X + 1)), {}),
    "gated": (PRIMITIVES["gated"], (X, 1 / (1 + np.exp(-X))), {}),
    "slope of gated": (PRIMITIVES["gated_slope"], (X, 1 / (1 + np.exp(-X))), {}),
    "1 - x**2": (PRIMITIVES["one_minus_square"], (X,), {}),
    "max pooling": (PRIMITIVES["max_pool"], (X,), {"kernel": (2,), "strides": (1,), "dilation": (2,)}),
    "max pooling's rule": (
        rule("max_pool", "x"),
        (RNG.standard_normal((6, 2)), X, np.maximum(X[:, :2], X[:, 2:])),
        {"kernel": (2,), "strides": (1,), "dilation": (2,)},
    ),
    "sum pooling": (PRIMITIVES["sum_pool"], (X,), {"kernel": (3,), "strides": (2,)}),
    "linear": (PRIMITIVES["linear"], (X, W, B), {}),
    "linear of a batch": (PRIMITIVES["linear"], (X.reshape(2, 3, 4), W, B), {}),
}


@pytest.mark.parametrize(("operation", "operands", "settings"), ROWS.values(), ids=ROWS.keys())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore:(divide by zero|Degrees of freedom|invalid value):RuntimeWarning")
def test_written_out(operation: Any, operands: tuple[Any, ...], settings: dict[str, Any], dtype: str) -> None:
    """What is written out in large programs gives what the operation gives, of shapes and dtypes known beforehand."""
    made, arrays = instruction(operation, tuple([a.astype(dtype) for a in operands]), **settings)
    program = Program(list(made.reads()), {}, [made], list(made.results))
    better = decomposed(1, fits=lambda part: True)(program)
    assert made.operation.decompose and made.name not in [i.name for i in better.instructions]
    assert better.outputs == program.outputs
    values = dict(zip(better.inputs, arrays, strict=True))
    for part in better.instructions:
        values |= better.constants
        out = part.operation.evaluate(
            tuple([values[v] if isinstance(v, Variable) else v for v in part.operands]), part.settings
        )
        (v,) = part.results
        values[v] = out
        assert (out.shape, out.dtype) == (v.shape, v.dtype), part.name
    (got,), (expected,) = interpret(better, arrays), interpret(program, arrays)
    assert_close(np.nan_to_num(got), np.nan_to_num(expected), made.name, 1e-5 if dtype == "float32" else 1e-13)


def test_all_that_is_written_out_is_here() -> None:
    declared = {p.name for p in PRIMITIVES.values() if p.decompose}
    rules = [(p.name, part, traits) for p in PRIMITIVES.values() for part, traits in p.rule_traits.items()]
    declared |= {f"{name}.{part}" for name, part, traits in rules if traits.get("decompose")}
    assert {operation.name for operation, _, _ in ROWS.values()} == declared


def test_a_body_is_the_primitives_own() -> None:
    """A formula that changes is changed in programs too."""

    @agrad.primitive(name="jit_bodies.twice")
    def twice(xp: Any, x: Any, /, *, by: float) -> Any:
        return xp.sin(x) * by

    made, (x,) = instruction(twice.primitive, (X,), by=2.0)
    body = body_of(made)
    assert body is not None and [i.name for i in body.instructions] == ["sin", "multiply"]
    assert [i.results for i in in_place_of(made, body)][-1] == made.results
    np.testing.assert_array_equal(interpret(body, [x])[0], np.sin(x) * 2)


def test_nothing_is_computed_at_size() -> None:
    """The operands of these would be of 4 TiB."""
    x = Variable((1 << 20, 1 << 20), np.dtype("float32"), np.ndarray)
    column = Variable((1 << 20,), np.dtype("float32"), np.ndarray)
    made = Instruction(PRIMITIVES["logsumexp"], (x,), {"axis": (1,), "keepdims": False}, (column,))
    body = body_of(made)
    assert body is not None and body.outputs[0].shape == column.shape
    made = Instruction(PRIMITIVES["linear"], (x, x, column), {}, (x,))
    body = body_of(made)
    assert body is not None and [i.name for i in body.instructions] == ["matmul", "add"]
    assert body.outputs[0].shape == x.shape and body.outputs[0].dtype == x.dtype


NONE: dict[str, Callable[[Any, Any], Any]] = {
    "its operand": lambda xp, x: x,
    "a result of unknown shape": lambda xp, x: xp.cumulative_sum(x, axis=0),
    "a choice by values": lambda xp, x: x if float(xp.sum(x)) > 0 else -x,
}


@pytest.mark.parametrize("body", NONE.values(), ids=NONE.keys())
def test_bodies_that_are_none(body: Callable[[Any, Any], Any]) -> None:
    @agrad.primitive(name="jit_bodies.none")
    def none(xp: Any, x: Any, /) -> Any:
        return body(xp, x)

    made, _ = instruction(none.primitive, (X,))
    assert body_of(made) is None


def test_operands_that_have_no_body() -> None:
    out = Variable((6, 4), np.dtype("float64"), np.ndarray)
    number = Variable((), HOST, None)
    assert body_of(Instruction(PRIMITIVES["gelu"], (number,), {"approximate": False}, (out,))) is None
    assert body_of(Instruction(PRIMITIVES["sin"], (out,), {}, (out,))) is None


# ---------------------------------------------------------------- products joined with what follows them


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


@pytest.mark.parametrize(
    ("f", "shapes", "expected"),
    [
        (read_elsewhere, [(4, 3), (3, 3), (3,), (3, 3)], "linear linear_relu matmul relu sum"),
        (of_axes, [(2, 4, 3), (3, 5), (5,), (2, 3, 4)], "getitem linear linear_relu matmul relu"),
        (read_before, [(4, 3), (3, 3)], "matmul multiply multiply sum"),
        (lambda x, w: agrad.matmul(x, w) * agrad.sum(w, axis=(0,)), [(4, 3), (3, 3)], "matmul_sum multiply"),
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
