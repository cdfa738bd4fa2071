"""Programs cut into graphs, on NumPy's arrays and a recorder that captures by the letter of CUDA's."""

import gc
import itertools
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, cotangents, outputs, random_like
from crossing import each
from graphs_on_cpu import Recorder, draw, program_of
from table import Case
from test_jit import DIFFERENTIABLE

import agrad
from agrad import nn, optim
from agrad.jit import lower_cupy, numpy_groups
from agrad.jit.cuda_products import is_product
from agrad.jit.epilogues import with_epilogues
from agrad.jit.fusion import Group
from agrad.jit.graphs import CAPTURES, GraphProgram, is_view, segments
from agrad.jit.ir import HostCall, Instruction, Program, interpret
from agrad.jit.lower_cupy import numbers_on_device, with_numbers_of_adam
from agrad.jit.lowerings import evaluation
from agrad.jit.passes import OWN_PASSES
from agrad.transforms.trees import flatten


def number(x: Any) -> Any:
    """A number of the host as a kernel sees it."""
    return float(x) if isinstance(x, np.ndarray) and x.shape == () else x


def function_of(instruction: Instruction, program: Program) -> Callable[..., Any]:
    operation = instruction.operation
    if isinstance(operation, Group):
        inner = numpy_groups.group_function(operation)
        hosts = [v.on_host for v in operation.program.inputs]
        made = lambda *args: inner(*[number(x) if h else x for x, h in zip(args, hosts, strict=True)])  # noqa: E731
    else:
        found = evaluation(instruction, program)

        def made(*args: Any, **settings: Any) -> Any:
            return found(*args, **settings)

    made.operation = instruction.name
    return made


def graphs(program: Program, products: bool = False, fail: frozenset[str] = frozenset()) -> tuple[Any, Recorder]:
    """The program in graphs on NumPy's arrays; with ``products`` as where cuBLASLt can be captured."""
    recorder = Recorder(fail)

    def can(instruction: Instruction) -> bool:
        if is_product(instruction):
            return products
        return lower_cupy.can_capture(instruction)

    return GraphProgram(program, lambda: recorder, can, function_of, numbers_on_device), recorder


def mlp(optimizer: str = "sgd") -> tuple[Callable[..., Any], nn.Module]:
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    values = np.random.default_rng(5)
    for p in model.parameters():
        p.data = values.normal(size=p.shape).astype(np.float32)
    made = {
        "sgd": lambda: optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        "adam": lambda: optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1),
    }
    criterion, opt = nn.CrossEntropyLoss(), made[optimizer]()

    def step(x: Any, labels: Any) -> Any:
        loss = criterion(model(x), labels)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    step.optimizer = opt  # type: ignore[attr-defined]
    return step, model


def jitted_with_graphs(monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[Any]:
    """From here on NumPy's programs run in graphs; gives the list that holds them."""
    from agrad.jit import lowerings

    made: list[Any] = []

    def lowered(program: Program) -> Any:
        made.append(graphs(with_epilogues(program), **options))
        return made[-1][0]

    monkeypatch.setitem(lowerings.LOWERINGS, "numpy", lowered)
    monkeypatch.setitem(OWN_PASSES, "numpy", OWN_PASSES["cupy"])
    return made


@pytest.mark.parametrize("products", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("scheduled", [False, True])
def test_training_in_graphs(monkeypatch: pytest.MonkeyPatch, products: bool, optimizer: str, scheduled: bool) -> None:
    batches = [(draw("float32", 4, 6, k + 1)[..., 0], np.arange(4) % 3) for k in range(7)]
    step, model = mlp(optimizer)
    expected = []
    for k, batch in enumerate(batches):
        if scheduled:
            step.optimizer.lr = 0.1 / (k + 1)
        expected.append(step(*batch).item())
    weights = [np.asarray(p.data).copy() for p in model.parameters()]

    made = jitted_with_graphs(monkeypatch, products=products)
    step, model = mlp(optimizer)
    fast = agrad.jit(step)
    losses = []
    for k, batch in enumerate(batches):
        if scheduled:
            step.optimizer.lr = 0.1 / (k + 1)
        losses.append(fast(*batch))
    np.testing.assert_allclose([loss.item() for loss in losses], expected, rtol=1e-5)
    for p, right in zip(model.parameters(), weights, strict=True):
        np.testing.assert_allclose(p.data, right, rtol=1e-5, atol=1e-6)
    (program, recorder), *_ = made
    assert recorder.log.count("build") <= 2
    assert recorder.log.count("replay") >= 3
    captured = [s for s in program.segments if s.captured]
    if products and optimizer == "sgd":
        assert len(program.segments) == 1
    assert len(captured) > 0
    assert not program.reasons


def test_state_is_updated_in_place_and_no_array_of_the_caller_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made = jitted_with_graphs(monkeypatch, products=True)
    step, model = mlp()
    fast, x = agrad.jit(step), draw("float32", 4, 6)
    fast(x, np.arange(4) % 3)
    addresses = []
    for _ in range(4):
        fast(x, np.arange(4) % 3)
        addresses.append([p.data.ctypes.data for p in model.parameters()])
    assert addresses[0] == addresses[-1]
    assert made[0][1].log.count("build") == 1
    held = [weakref.ref(p.data) for p in model.parameters()]
    for p in model.parameters():
        p.data = p.data + 1
    gc.collect()
    assert [array() for array in held] == [None] * 4
    right = [p.data.copy() for p in model.parameters()]
    fast(x, np.arange(4) % 3)  # the old addresses are nobody's now
    assert made[0][1].log.count("build") == 2
    assert all(np.abs(p.data - old).max() < 10 for p, old in zip(model.parameters(), right, strict=True))


def test_results_are_the_callers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted_with_graphs(monkeypatch)
    f = agrad.jit(lambda x: (agrad.sin(x) * 2.0, x @ x, agrad.matrix_transpose(x)))
    kept, right = [], []
    for k in range(5):
        x = draw("float64", 3, 3) + k
        kept.append(f(x))
        right.append((np.sin(x) * 2, x @ x, x.T))
    for got, expected in zip(kept, right, strict=True):
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)


def test_what_fails_in_a_capture_runs_between_graphs() -> None:
    program = program_of(lambda x: agrad.sum(agrad.exp(agrad.sin(x) @ x) * 2.0, axis=0), draw("float64", 3, 3))
    run, recorder = graphs(program, fail=frozenset({"sum"}))
    for k in range(4):
        x = draw("float64", 3, 3) * (k + 1) / 9
        (got,) = run([x])
        np.testing.assert_allclose(got, np.sum(np.exp(np.sin(x) @ x) * 2, axis=0), rtol=1e-12)
    assert "RuntimeError: no capture of sum" in run.text
    assert recorder.log.count("build") == 1


def test_views_of_parameters_between_graphs_follow_them() -> None:
    def f(x: Any, w: Any) -> Any:
        return agrad.sum(agrad.tanh(x @ agrad.matrix_transpose(w)) * 1.5)

    x, w = draw("float64", 2, 3), draw("float64", 4, 3)
    program = program_of(f, x, w)
    run, _ = graphs(program)
    for k in range(5):
        w += k
        np.testing.assert_allclose(run([x + k, w])[0], np.sum(np.tanh((x + k) @ w.T) * 1.5), rtol=1e-12)


def test_arrays_that_move_are_copied_and_captures_are_limited() -> None:
    program = program_of(lambda x, y: agrad.sin(x) * y + 1.0, draw("float64", 5), draw("float64", 5))
    run, recorder = graphs(program)
    x, others = draw("float64", 5), [draw("float64", 5) + k for k in range(40)]
    for k in range(40):  # the second stays for three calls, then moves: found out once
        y = others[k // 3]
        np.testing.assert_allclose(run([x, y])[0], np.sin(x) * y + 1, rtol=1e-13)
    assert recorder.log.count("build") == 2 < CAPTURES
    assert not run.given_up


def test_a_program_without_anything_to_capture_stays_plain() -> None:
    x = draw("float64", 3, 3)
    program = program_of(lambda x: agrad.linalg.inv(x), x)
    run, recorder = graphs(program)
    for _ in range(3):
        np.testing.assert_allclose(run([x])[0], np.linalg.inv(x), rtol=1e-12)
    assert not recorder.log
    assert "without graphs: nothing in it can be captured" in run.text


def test_segments_of_a_step() -> None:
    step, _ = mlp()
    program = program_of(step, draw("float32", 4, 6), np.arange(4) % 3)
    found = segments(
        Program(program.inputs, {}, [i for i in program.instructions if not isinstance(i.operation, HostCall)], []),
        lower_numpy_can,
    )
    flags = [s.captured for s in found]
    assert all(a != b for a, b in itertools.pairwise(flags))
    outside = {i.name for s in found if not s.captured for i in s.instructions}
    assert outside <= {"matmul", "linear", "matrix_transpose", "sgd_update"}


def lower_numpy_can(instruction: Instruction) -> bool:
    return instruction.name not in ("matmul", "linear") and lower_cupy.can_capture(instruction)


# ------------------------------------------------------------------ Adam


class Elementwise:
    """CuPy's ``ElementwiseKernel`` for the source of Adam alone, in NumPy's words."""

    def __init__(self, inputs: str, outputs: str, body: str, name: str) -> None:
        assert name == "agrad_adam"
        assert body == cuda_source_of_adam.body

    def __call__(self, p: Any, g: Any, m: Any, v: Any, rate: Any, shrink: Any, decay: Any, *rest: Any) -> Any:
        keep1, beta2, keep2, root2, eps, *outputs = rest
        d = g + decay * p
        first, second = m + (d - m) * keep1, beta2 * v + keep2 * d * d
        made = shrink * p - rate * first / (np.sqrt(second) / root2 + eps), first, second
        made = tuple([x.astype(p.dtype) for x in made])
        for out, x in zip(outputs, made, strict=False):
            out[...] = x
        return tuple(outputs) if outputs else made


cuda_source_of_adam = lower_cupy.ELEMENTWISE["adam"]


@pytest.mark.parametrize("make", [optim.Adam, optim.AdamW])
def test_numbers_of_adam_are_computed_on_the_host_before_the_graph(
    monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any]
) -> None:
    from agrad.jit import lowerings

    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(ElementwiseKernel=Elementwise))
    lower_cupy._elementwise.cache_clear()
    grads = [draw("float32", 5) * (k + 1) for k in range(6)]

    def run(jit: bool) -> tuple[Any, list[Any]]:
        p = agrad.asarray(draw("float32", 5), requires_grad=True)
        opt = make([p], lr=0.01, weight_decay=0.1)

        def step(g: Any) -> Any:
            agrad.sum(p * g).backward()
            opt.step()
            opt.zero_grad()
            return agrad.sum(p.detach() * 2.0)

        fast = agrad.jit(step) if jit else step
        for k, g in enumerate(grads):
            opt.lr = 0.01 / (k + 1)
            fast(g)
        return p.detach().numpy().copy(), made

    made: list[Any] = []

    def lowered(program: Program) -> Any:
        better = with_numbers_of_adam(program)
        (update,) = [i for i in better.instructions if i.name == "adam_update"]
        assert "step" not in update.settings
        made.append(graphs(better))
        return made[-1][0]

    expected, _ = run(False)
    monkeypatch.setitem(lowerings.LOWERINGS, "numpy", lowered)
    monkeypatch.setitem(OWN_PASSES, "numpy", OWN_PASSES["cupy"])
    got, _ = run(True)
    np.testing.assert_allclose(got, expected, rtol=2e-6)
    (program, recorder), *_ = made
    assert [s.captured for s in program.segments] == [True]
    assert recorder.log.count("numbers") >= 4
    lower_cupy._elementwise.cache_clear()


# ------------------------------------------------------------------ every row


@each(DIFFERENTIABLE)
@pytest.mark.filterwarnings("ignore:var.*degrees of freedom:UserWarning")
def test_rows_in_graphs(case: Case) -> None:
    """Each row forward and backward, captured and replayed, on arrays that lie elsewhere each time."""
    f, xs = case.problem()

    def chain(*xs: Any) -> Any:
        out = outputs(f(*[x * 0.5 + x * 0.5 if x.shape else x for x in xs]))
        return tuple([y * 2 + agrad.abs(y) if y.shape else y * 2 for y in out])

    gs = random_like(chain(*xs), case.rng())

    def pulled(xs: Any, gs: Any) -> Any:
        y, pull = agrad.vjp(chain, *xs)
        return y, pull(cotangents(y, gs))

    program = program_of(pulled, xs, gs)
    inputs = [x for x in optree_leaves((xs, gs)) if hasattr(x, "shape")]
    assert len(inputs) == len(program.inputs)
    expected = interpret(program, inputs)
    run, recorder = graphs(program)
    for k in range(4):
        got = run([x.copy() if k != 1 else x for x in inputs])
        for a, b in zip(got, expected, strict=True):
            if hasattr(b, "dtype"):
                assert a.dtype == b.dtype
                assert_close(a, b, "value or gradient", 1e-12)
    assert not run.reasons
    # kernels are of real numbers: a row of complex ones alone is captured where a step of it gives real ones
    real = any(agrad.isdtype(x.dtype, "real floating") for x in inputs)
    captured = real or any(
        lower_cupy.can_capture(i) and not is_product(i) and not is_view(i) for i in program.instructions
    )
    found = run.given_up, recorder.log.count("build"), recorder.log.count("replay")
    assert found == (("", 1, 2) if captured else ("nothing in it can be captured", 0, 0))


def optree_leaves(tree: Any) -> list[Any]:
    """The leaves in the order of a program's inputs, raw."""
    return [getattr(leaf, "raw", leaf) for leaf in flatten(tree)[0]]
