"""The passes of ``agrad.jit``, each by itself, and programs whose groups run in blocks, on all rows of the table."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, cotangents, host, outputs, random_like
from crossing import each
from jit_help import names, same_calls, stages, traced
from random_programs import outcomes_of
from small_blocks import use_small_blocks
from table import Case
from test_jit import DIFFERENTIABLE

import agrad
from agrad import nn
from agrad.jit.lower.numpy.program import lower_numpy
from agrad.jit.lower.plain import plain
from agrad.jit.passes.algebra import simplified, with_fewer_factors, without_broadcasts
from agrad.jit.passes.cleanup import with_constants_folded, without_dead_code, without_repetition
from agrad.jit.passes.decompose import with_late_views
from agrad.jit.passes.fusion import with_groups
from agrad.jit.program import Instruction, Program, interpret
from agrad.registry import PRIMITIVES

pytestmark = pytest.mark.filterwarnings("ignore:var.*degrees of freedom:UserWarning")

X = np.random.default_rng(1).standard_normal((4, 3))


def same(program: Program, better: Program, *inputs: Any, exact: bool = True) -> None:
    """Both compute the same, by the interpreter and by each lowering."""
    expected = interpret(program, inputs)
    for run in (lambda values: interpret(better, values), plain(better), lower_numpy(better), lower_numpy(program)):
        kept = [np.array(x) for x in inputs]
        for got, right in zip(run(list(inputs)), expected, strict=True):
            if exact:
                np.testing.assert_array_equal(host(got), host(right))
            else:
                assert_close(got, right, "a result", 1e-12)
        for x, before in zip(inputs, kept, strict=True):
            np.testing.assert_array_equal(x, before, err_msg="the program wrote into its input")


def half_dead(x: Any) -> Any:
    agrad.exp(agrad.sin(x))
    return agrad.unstack(agrad.stack([x, agrad.cos(x)]))[0]


def fused(x: Any) -> Any:
    y = agrad.exp(agrad.sin(x) * 2) + 1
    return agrad.sum(agrad.tanh(y)), y


def repeated(x: Any, y: Any) -> Any:
    return (x * y) @ (y * x).T, (x + y) @ (y + x).T, (x - y) @ (y - x).T, agrad.sum(x, axis=0) + agrad.sum(x, axis=0)


def distinct(x: Any) -> Any:
    return agrad.sum(x, axis=0), agrad.sum(x, axis=1), x * 0.0, x * -0.0, x + 1, x + 1.0


def of_one_value(x: Any) -> Any:
    return x * agrad.exp(agrad.sin(agrad.broadcast_to(agrad.sum(x), (4, 3))))


def filled(x: Any) -> Any:
    return agrad.where(x > 0, x * x, agrad.full_like(x, 2.0)) + agrad.zeros_like(x)


def late_views(x: Any) -> Any:
    y = agrad.sin(x)
    total, flat = agrad.reshape(agrad.sum(y, axis=0), (3, 1)), agrad.reshape(y, (-1,))
    return total, agrad.exp(y), agrad.cos(flat)


PASSES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[Callable[[Program], Program]], str]] = {
    "dead code": (half_dead, (X,), [without_dead_code], "cos stack unstack"),
    "outputs that are used": (lambda x: agrad.linalg.qr(x)[1], (X,), [without_dead_code], "linalg.qr"),
    "common subexpressions": (
        repeated, (X, X[::-1] + 1), [without_repetition],
        "multiply permute_dims matmul add permute_dims matmul subtract subtract permute_dims matmul sum add",
    ),
    "complex products in another order": (
        lambda x, y: (x * y) @ (y * x).T, (X * 1j, X + 1), [without_repetition],
        "multiply multiply permute_dims matmul",
    ),
    "no repetition": (distinct, (X,), [without_repetition], "sum sum multiply multiply add add"),
    "filled arrays": (filled, (X,), [without_broadcasts, without_dead_code], "greater multiply where add"),
    "of one value": (of_one_value, (X,), [without_broadcasts, without_dead_code], "sum sin exp multiply"),
    "a filled result": (
        lambda x: (agrad.broadcast_to(agrad.sum(x), (4, 3)), agrad.ones_like(x) * 2), (X,),
        [without_broadcasts, without_dead_code], "sum broadcast_to multiply",
    ),
    "simpler operations": (
        lambda x, y: (agrad.sin(x * 1 * 1.0) + y**2, y * 1), (X, X + 1), [simplified, without_dead_code],
        "sin square add multiply",
    ),
    "factors": (
        lambda x, y: (-(x * 3.0 * 2.0), (x * 3.0) * -y, 0.5 * -(y * 3.0), x * 3.0 * 5.0, x * 1e-200 * 2.0**-500),
        (X, X + 1), [with_fewer_factors, without_dead_code],
        "multiply multiply multiply multiply multiply multiply multiply multiply",
    ),
    "factors of complex numbers and traced numbers": (
        lambda x, y: (-(x * 2.0), -(agrad.sum(y) * y)), (X * 1j, X), [with_fewer_factors, without_dead_code],
        "multiply negative sum multiply negative",
    ),
    "factors of integers and narrow numbers": (
        lambda x, y: (-(x * 2), y * 40000.0 * 2.0), (np.arange(3), 0.01 * X.astype(np.float16)),
        [with_fewer_factors, without_dead_code], "multiply negative multiply multiply",
    ),
    "factors that others read": (
        lambda x, y: ((x * 2.0) * (y * 2.0), x * 2.0, y * 2.0), (X, X + 1),
        [without_repetition, with_fewer_factors, without_dead_code], "multiply multiply multiply",
    ),
    "slices": (
        agrad.grad(lambda x: agrad.sum(agrad.sin(x[1:]) * x[:-1] + x[1:])), (X,),
        [without_repetition, without_broadcasts, simplified, with_fewer_factors, without_dead_code],
        "getitem sin getitem broadcast_to cos multiply add scatter_sum",
    ),
    "fusion": (fused, (X,), [with_groups(1)], "fused[sin multiply exp add tanh sum]"),
    "groups without rows": (  # as lowerings make them that know no others
        lambda x, b: agrad.sum(agrad.sin(agrad.relu(x * 2 + b)) + 1, axis=0), (X, X[0]), [with_groups(1)],
        "multiply add fused[relu sin add] sum",
    ),
    "views right before their first reader": (
        late_views, (X,), [with_late_views], "sin sum exp reshape cos reshape",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PASSES)
def test_passes(name: str) -> None:
    f, args, passes, expected = PASSES[name]
    program = better = traced(f, *args)
    for run in passes:
        better = run(better)
    assert " ".join(names(better)) == expected
    assert [np.shape(out) for out in interpret(better, args)] == [np.shape(out) for out in interpret(program, args)]
    same(program, better, *args, exact="fused" not in expected and name not in ("simpler operations", "slices"))
    if name == "outputs that are used":
        assert [out is None for out in better.instructions[0].outputs] == [True, False]
    if name in ("filled arrays", "of one value"):
        assert not [v for v in better.constants if v.shape]
        assert [i.results[0].shape for i in better.instructions if i.name in ("sin", "exp")] in ([], [(), ()])


def test_constant_folding() -> None:
    c = np.arange(3.0)
    program = traced(lambda x: x * agrad.sum(agrad.exp(agrad.asarray(c)) + 1), X)
    assert names(program) == ["multiply"]  # constants are not traced at all
    table = agrad.jit(lambda x: agrad.grad(lambda y: agrad.sum(y * x))(agrad.asarray(c)) * 2)
    lowered = table.lower(X[0])
    assert names(lowered.stages[-1][1]).count("multiply") <= 2
    inner = program.instructions[0]
    (number,) = list(program.constants)
    doubled = Instruction(inner.operation, (number, 2.0), {}, (type(number)((), number.dtype, number.kind),))
    again = Instruction(inner.operation, (program.inputs[0], doubled.outputs[0]), {}, inner.outputs)
    program = Program(program.inputs, program.constants, [doubled, again], program.outputs)
    better = with_constants_folded(program)
    assert len(better.instructions) == 1
    same(program, better, X)


def squared(x: Any, g: Any) -> Any:
    return agrad.vjp(lambda x: x**2, x)[1](g)


def normed(norm: Callable[..., Any]) -> Callable[..., Any]:
    def both(g: Any, *arrays: Any) -> Any:
        y, pull = agrad.vjp(lambda x, w: norm(x, (128,), w), *arrays)
        return y, *pull(g)

    return both


DRAWN = np.random.default_rng(3)
NORMED = tuple(DRAWN.normal(size=shape) for shape in ((512, 128), (512, 128), (128,)))
COMPLEX, LARGE = X * (1 + 2j), DRAWN.standard_normal((4, 40_000))
FINAL: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "the seed of a gradient is no factor": (
        agrad.grad(lambda x: agrad.sum((x - 1.0) ** 2 + agrad.sin(x))), (np.ones(3),), "subtract cos multiply add",
    ),
    "a square's derivative is its rule": (squared, (X, X + 1), "multiply multiply"),
    "and in single precision": (squared, (X.astype("f"), X.astype("f") + 1), "multiply multiply"),
    "and of complex numbers": (squared, (COMPLEX, COMPLEX + 1), "multiply multiply"),
    "where the cotangent is one number": (agrad.grad(lambda x: agrad.sum(x**2) * 3), (X,), "multiply"),  # by 6
    "numbers that keep a dtype": (lambda x: (x * 1, x**2, x / 1), (np.arange(4),), "multiply pow divide"),
    "rows that are longer than blocks": (
        lambda x: agrad.softmax(x, axis=1), (LARGE,), "softmax",
    ),
    "such rows element by element": (
        lambda x: agrad.sin(x) * 2 + 1, (LARGE,), "fused[sin multiply add]",
    ),
    "a choice between large arrays": (
        agrad.where, (LARGE > 0, LARGE, -LARGE), "where",
    ),
    "small arrays": (lambda x, b: agrad.softmax(agrad.gelu(x + b), axis=1), (X, X[0]), "add gelu softmax"),
    "layer norm and its gradients": (normed(nn.functional.layer_norm), NORMED, "fused rows"),
    "rms norm and its gradients": (normed(nn.functional.rms_norm), NORMED, "fused rows"),
}  # fmt: skip


@pytest.mark.parametrize("name", FINAL)
def test_all_passes(name: str) -> None:
    """The instructions that are left; of groups of rows one, beside reshapes."""
    f, args, expected = FINAL[name]
    found = names(stages(f, *args)[-1])
    if expected == "fused rows":
        found = [name.partition("[")[0] for name in found if name != "reshape"]
    assert " ".join(found) == expected
    same_calls(f, args, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------- all rows, in groups of small blocks


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_blocks(monkeypatch)


@each(DIFFERENTIABLE, least=1)
@pytest.mark.usefixtures("small_blocks")
def test_rows_in_groups(case: Case) -> None:
    """A chain around each row, forward and backward."""
    f, xs = case.problem()

    def chain(*xs: Any) -> Any:
        out = outputs(f(*[x * 0.5 + x * 0.5 if x.shape else x for x in xs]))
        return tuple([y * 2 + agrad.abs(y) if y.shape else y * 2 for y in out])

    gs = random_like(chain(*xs), case.rng())

    def pulled(xs: Any, gs: Any) -> Any:
        y, pull = agrad.vjp(chain, *xs)
        return y, pull(cotangents(y, gs))

    expected = pulled(xs, gs)
    got = agrad.jit(pulled)(xs, gs)
    for a, b in zip((*got[0], *got[1]), (*expected[0], *expected[1]), strict=True):
        assert host(a).dtype == host(b).dtype
        assert_close(np.nan_to_num(host(a)), np.nan_to_num(host(b)), "value or gradient", 1e-12)


@pytest.mark.usefixtures("small_blocks")
def test_random_programs(pytestconfig: pytest.Config) -> None:
    """Value and gradients of random programs, in groups of small blocks, are those of the ordinary run."""
    first = 1000 * (1 + pytestconfig.getoption("--round"))
    found = [outcome for seed in range(first, first + 30) for outcome in outcomes_of(seed, ("jit",))]
    assert [outcome for outcome in found if outcome.fails] == []
    assert len(found) == 30


def calls_of(function: Any, *args: Any) -> int:
    """Return the number of Python functions that a call runs."""
    calls = [0]

    def seen(frame: Any, event: str, argument: Any) -> None:
        calls[0] += event == "call"

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        function(*args)
    finally:
        sys.setprofile(before)
    return calls[0]


def test_the_work_of_a_training_step_grows_with_its_parameters_alone() -> None:
    """Python calls of the first and of a later call: as many for each parameter of 400 as of 100."""

    def of(count: int) -> tuple[float, float]:
        parameters = [agrad.nn.Parameter(np.ones(8)) for _ in range(count)]
        optimizer = agrad.optim.SGD(parameters, lr=0.1)

        def train(x: Any) -> Any:
            optimizer.zero_grad()
            loss = sum([agrad.sum(p * x) for p in parameters], 0.0)
            loss.backward()
            agrad.optim.clip_grad_norm(parameters, 1.0)
            optimizer.step()
            return loss

        step, x = agrad.jit(train), np.linspace(1.0, 2.0, 8)
        first = calls_of(step, x)
        step(x)
        later = calls_of(step, x)
        assert_close(parameters[-1].detach(), 1 - 0.3 * x / (np.linalg.norm(x) * count**0.5), "a parameter", 1e-5)
        return first / count, later / count

    of(2)  # what is found once in a process
    few, many = of(100), of(400)
    assert many[0] < 1.1 * few[0] and many[1] < 1.1 * few[1]


def test_the_work_of_tracing_grows_with_the_program_alone() -> None:
    """Python calls for each traced instruction: as many in a long program as in a short one."""

    def of(count: int) -> float:
        def f(x: Any) -> Any:
            y = x
            for _ in range(count):
                y = agrad.tanh(agrad.sin(y) * 0.9 + x)
            return agrad.sum(y)

        step = agrad.jit(agrad.value_and_grad(f))
        return calls_of(step, X) / len(step.lower(X).stages[0][1].instructions)

    of(2)  # what is found once in a process
    short, long = of(20), of(100)
    assert long < 1.1 * short
    assert long < 150


def test_a_sum_of_slices_is_a_new_array(place: Any) -> None:
    """So that its parts may lie in kept buffers."""
    scatter_sum = PRIMITIVES["scatter_sum"]
    x = place(np.ones(3))
    found = scatter_sum.evaluate((x,), {"indices": ((...,),), "shape": (3,)})
    assert found is not x and scatter_sum.no_alias
    lines = agrad.jit(agrad.grad(lambda x: agrad.sum((x[1:] - x[:-1]) ** 2))).lower(np.ones(1_000)).code
    assert "= borrow()" in lines


SLICES: dict[str, Callable[[Any], Any]] = {
    "differences": lambda x: x[1:] - x[:-1],
    "second differences": lambda x: x[2:] - 2 * x[1:-1] + x[:-2],
    "from the middle": lambda x: x[1:-2] * x[2:-1],
    "far apart": lambda x: x[7:] * agrad.sin(x[:-7]),
    "one slice": lambda x: x[1:4] * agrad.sin(x[1:4]),
    "a total beside it": lambda x: x[1:] * 2.0 - agrad.sin(x[1:]) * x[:-1] * agrad.sum(x[1:] * 0.5),
    "an operand is a part": lambda x: x[1:] + agrad.sin(x[:-1]),
}


@pytest.mark.parametrize("shape", [(12,), (12, 3), (10, 2, 3)])
@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_sums_of_slices_in_groups(monkeypatch: pytest.MonkeyPatch, size: int, shape: tuple[int, ...]) -> None:
    """The gradients of slices along the first axis, in blocks that are shorter and longer than their distance."""
    use_small_blocks(monkeypatch, size)
    x = np.random.default_rng(2).standard_normal(shape)
    for what, f in SLICES.items():

        def pulled(x: Any, g: Any, f: Any = f) -> Any:
            y, pull = agrad.vjp(f, x)
            return y, agrad.exp(pull(g)[0])

        call, g = agrad.jit(pulled), np.cos(np.arange(f(x).size)).reshape(f(x).shape)
        expected = pulled(x, g)
        assert "scatter_sum]" in " ".join(names(call.lower(x, g).stages[-1][1])), what
        for _ in range(2):  # the second call finds the first one's values in the kept arrays
            for got, right in zip(call(x, g), expected, strict=True):
                assert_close(got, right, what, 1e-12)


def test_slices_whose_sum_is_not_in_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second row, rows backwards, columns, and parts of different lengths."""
    use_small_blocks(monkeypatch)
    for f in (lambda x: x[::2], lambda x: x[::-1], lambda x: x[:, 1:], lambda x: x[1:4, 1:], lambda x: x[1]):
        for g in (f, lambda x, f=f: agrad.sum(f(x) * 2.0) * f(x) + agrad.sum(agrad.sin(x[2:] * 1.5))):
            same_calls(
                agrad.grad(lambda x, g=g: agrad.sum(agrad.sin(g(x)) ** 2)), (np.ones((6, 3)) + X[0],), rtol=1e-12
            )
