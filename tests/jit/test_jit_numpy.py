"""NumPy's programs: buffers that are kept from call to call, cross entropy, ReLU, and loops of one function."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jit_help import close, in_threads, memory_of, same_calls
from refusals import fails
from tensors import draw

import agrad
from agrad.errors import IndexRangeError
from agrad.jit.compile import compile_program
from agrad.jit.lower.numpy import buffers

RNG = np.random.default_rng(3)
X, W, B = (RNG.standard_normal(shape) for shape in ((6, 5), (5, 4), (4,)))
LABELS = np.array([0, 3, 1, 1, 2, 0])


def same(got: Any, expected: Any, tolerance: float = 0) -> None:
    close(got, expected, tolerance, tolerance)


def hidden(x: Any, w: Any, b: Any) -> Any:
    h = agrad.relu(agrad.linear(x, w, b))
    return agrad.linear(agrad.relu(agrad.linear(h, agrad.matrix_transpose(w), x[0])), w, b)


# ---------------------------------------------------------------- buffers


RESULTS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda h: h,
    "a transpose": lambda h: agrad.matrix_transpose(h),
    "a part": lambda h: h[1:3],
    "a shape": lambda h: agrad.reshape(h, (-1,)),
    "a transposed part": lambda h: agrad.matrix_transpose(h)[:2],
    "of what is flipped": lambda h: agrad.flip(h, axis=0) * 2,
    "the same twice": lambda h: (h, h + 0, agrad.reshape(h, (4, 6))),
    "a sum and itself": lambda h: (agrad.sum(h), h),
    "broadcast": lambda h: agrad.broadcast_to(h, (2, 6, 4)),
}


@pytest.mark.parametrize("of", RESULTS.values(), ids=RESULTS.keys())
def test_results_are_not_written_into_by_later_calls(of: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        return of(agrad.sin(hidden(x, W, B)) * 2)

    jitted = agrad.jit(f)
    inputs = [X * scale for scale in (1.0, 0.3, -2.0)]
    results = [jitted(x) for x in inputs]
    for x, result in zip(inputs, results, strict=True):
        same(result, f(x))


LONG = RNG.standard_normal((20_000, 5))
ONE = LONG.shape[0] * W.shape[1] * LONG.itemsize
"""Bytes of one value of ``hidden`` of these."""


def test_what_dies_in_a_program_lies_in_kept_buffers() -> None:
    def f(x: Any) -> Any:
        return agrad.sum(hidden(x, W, B))

    jitted = agrad.jit(f)
    jitted(LONG)
    jitted(LONG)
    held, most = memory_of(jitted, LONG)
    assert held < 1000
    assert most < ONE
    assert memory_of(f, LONG)[1] > 3 * ONE


def test_buffers_are_used_again_for_what_comes_later() -> None:
    def deep(x: Any) -> Any:
        for _ in range(20):
            x = agrad.matmul(agrad.tanh(x), W @ W.T)
        return agrad.sum(x)

    jitted = agrad.jit(deep)
    jitted.lower(LONG)
    held, _ = memory_of(jitted, LONG)
    assert LONG.nbytes < held < 3.5 * LONG.nbytes  # of some forty values
    for scale in (1.0, 2.0):
        same(jitted(X * scale), deep(X * scale), 1e-12)


def test_no_more_is_kept_than_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "MOST", 0)
    jitted = agrad.jit(lambda x: agrad.sum(hidden(x, W, B)))
    jitted.lower(LONG)
    held, most = memory_of(jitted, LONG)
    assert held < ONE < most
    same(jitted(X), agrad.sum(hidden(X, W, B)), 1e-12)


def test_calls_at_once_have_buffers_of_their_own() -> None:
    xs = [RNG.standard_normal((300, 5)) * scale for scale in (1, 2, 3, 4)]

    def f(x: Any) -> Any:
        return agrad.value_and_grad(lambda x: agrad.sum(agrad.tanh(hidden(x, W, B)) ** 2))(x)

    jitted = agrad.jit(f)
    expected = [f(x) for x in xs]
    jitted(xs[0])

    def work(k: int) -> None:
        for _ in range(100):
            same(jitted(xs[k]), expected[k], 1e-9)

    in_threads(work, len(xs))


# ---------------------------------------------------------------- cross entropy


def entropy(x: Any, labels: Any) -> Any:
    return agrad.value_and_grad(lambda x: agrad.cross_entropy(x, labels))(x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "classes"), [*((9, n) for n in (1, 7, 9, 63, 64, 100)), (1, 300), (2, 300)])
@pytest.mark.parametrize("kind", ["int64", "uint8", "int32"])
def test_cross_entropy_with_its_derivative(dtype: str, rows: int, classes: int, kind: str) -> None:
    """Also of labels that cannot count all classes."""
    x = (RNG.standard_normal((rows, classes)) * 20).astype(dtype)
    labels = RNG.integers(0, min(classes, 255), rows).astype(kind)
    jitted = agrad.jit(entropy)
    # a result that leaves lies in no buffer, so the derivative goes on into a product
    weight = RNG.standard_normal((classes, 3)).astype(dtype)
    onward = agrad.jit(lambda x, t: agrad.matmul(entropy(x, t)[1], weight))
    for scale in (1, 0.5):
        right = entropy(x * x.dtype.type(scale), labels)
        tolerance = 1e-5 if dtype == "float32" else 1e-13
        same(jitted(x * x.dtype.type(scale), labels), right, tolerance)
        same(onward(x * x.dtype.type(scale), labels), right[1] @ weight, 10 * tolerance)
    assert "softmax_cross_entropy and its rule" in str(onward.lower(x, labels))
    assert "cross_entropy_" in onward.lower(x, labels).code


def test_cross_entropy_refuses_labels_that_are_no_classes_and_goes_on() -> None:
    jitted = agrad.jit(lambda x, t: agrad.matmul(entropy(x, t)[1], W.T))
    x = RNG.standard_normal((6, 4))
    right = jitted(x, LABELS)
    for wrong in (4, -1):
        labels = LABELS.copy()
        labels[2] = wrong
        fails(IndexRangeError, rf"for 4 classes, got {wrong}", jitted, x, labels)
    same(jitted(x, LABELS), right)


def test_a_rule_of_cross_entropy_without_its_forward_pass() -> None:
    _, pull = agrad.vjp(lambda x: agrad.cross_entropy(x, LABELS), RNG.standard_normal((6, 4)))
    same_calls(lambda g: pull(g)[0], (np.asarray(1.5),))


def test_cross_entropy_whose_cotangent_depends_on_it() -> None:
    def f(x: Any) -> Any:
        return agrad.value_and_grad(lambda x: agrad.sum(agrad.cross_entropy(x, LABELS, reduction="none") ** 2))(x)

    x = RNG.standard_normal((6, 4))
    assert "and its rule" not in str(same_calls(f, (x,)).lower(x))


@pytest.mark.parametrize("classes", [2, 10, 128, 300])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cross_entropy_of_a_single_row(classes: int, dtype: str) -> None:
    def f(x: Any, labels: Any) -> Any:
        return entropy(x * 1.5, labels)

    rows = [np.random.default_rng(classes).normal(size=(1, classes)) * 3, *np.full((2, 1, classes), -np.inf)]
    rows[1][0, 0] = 0.0
    rows[2][...] = np.nan
    calls = [(row.astype(dtype), np.array([label])) for row in rows for label in (0, classes - 1)]
    with np.errstate(invalid="ignore"):
        program = same_calls(f, *calls, rtol=1e-4, atol=1e-6)
    assert "cross_entropy_" in program.lower(*calls[0]).code
    for label in (-1, classes):
        fails(IndexRangeError, "label", program, calls[0][0], np.array([label]))


# ---------------------------------------------------------------- elements and stacks


def of_elements(x: Any) -> tuple[Any, ...]:
    a, b = x[0, 1], x[-1, 2]
    parts = [a * b, 0.5 * a - b, a / b, b + 2, 1 - a, a * (1 + 0 * x[2, 2])]
    return (
        agrad.stack(parts),
        agrad.stack([x[0], x[1] * 2, x[:5, 0]], axis=1),
        agrad.stack([x[:2], x[2:4]], axis=-1),
        agrad.stack([x[0, 0]] * 20),
        agrad.stack([agrad.astype(x[0] > 0, agrad.float32), x[1]]),
        parts[0],
        x[1:3, None, ::2],
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_elements_and_stacks_are_those_of_eager_calls(dtype: Any) -> None:
    x = X.astype(dtype)
    got, expected = agrad.jit(of_elements)(x), of_elements(x)
    assert [(type(a), a.shape) for a in got] == [(type(b), b.shape) for b in expected]
    same(got, expected)


def test_quotients_of_elements_warn_as_eager_ones() -> None:
    jitted = agrad.jit(lambda x: x[0] / x[1])
    jitted(np.asarray([1.0, 2.0]))
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert jitted(np.asarray([1.0, 0.0])) == np.inf


def test_complex_numbers_beside_elements() -> None:
    def f(x: Any) -> tuple[Any, ...]:
        a, b = x[0], x[1]
        return 1j * a, a * 1j, 1j - a, 1j / b, (1j + a) * b

    x = np.array([2.0, 0.0])
    with np.errstate(all="ignore"):
        got, expected = agrad.jit(f)(x), f(agrad.asarray(x))
    assert {type(a) for a in got} == {np.complex128}
    np.testing.assert_array_equal(got, [b.numpy() for b in expected])


def test_zeros_of_both_signs_in_programs() -> None:
    x = np.array([-0.0, 0.0, -1.0, 1.0])
    for zero in (0.0, -0.0):
        np.testing.assert_array_equal(agrad.jit(lambda x: agrad.atan2(x, zero))(x), np.arctan2(x, zero))  # noqa: B023


@pytest.mark.filterwarnings("error")
def test_broadcasts_without_elements_do_not_warn() -> None:
    program = agrad.jit(lambda x, y: agrad.log(agrad.broadcast_to(x, (0, 2))) + y)
    x, y = np.array([-1.0, 1.0]), np.ones((0, 2))
    assert program(x, y).shape == program(x[0], y).shape == (0, 2)


# ------------------------------------------------------------------ loops


Step = Callable[[Any, Any], tuple[Any, Any]]
LENGTH, BIG = 5, 40_000


MATRIX, PAIR = draw(4, 4, seed=1) * 0.4, (draw(4, seed=2), draw(4, seed=3))
CONSTANT = draw(4, seed=4)


def both_the_same(c: Any, x: Any) -> Any:
    new = agrad.tanh(c[0] + x)
    return (new, agrad.tanh(c[0] + x)), (new, agrad.tanh(c[0] + x))


def written_over(c: Any, x: Any) -> Any:
    a = c[0] * 2.0
    return (a - x, c[1] * a + c[0]), c[1]


STEPS: dict[str, tuple[Step, Any]] = {
    "one array": (lambda c, x: (agrad.tanh(c @ MATRIX + x),) * 2, draw(4)),
    "a row of the old value": (lambda c, x: (agrad.tanh(c @ MATRIX + x), c), draw(4)),
    "old and new": (lambda c, x: ((y := agrad.sin(c + x)), (y, c, y)), draw(4)),
    "in turn": (lambda c, x: ((c[1], c[0] * 0.5 + x), c[0] - c[1]), PAIR),
    "a delay": (lambda c, x: ((c[0] * 0.5 + x, c[0], c[1]), c[2]), (*PAIR, draw(4))),
    "changed places": (lambda c, x: ((c[1] + x, c[0] * x), None), PAIR),
    "the same twice": (lambda c, x: (((y := c[0] + x), y), c[1]), PAIR),
    "found to be the same": (both_the_same, PAIR),
    "one array for two": (lambda c, x: ((c[0] * 0.9 + c[1], c[1] + x), x), (PAIR[0], PAIR[0])),
    "written over": (written_over, PAIR),
    "a scalar": (lambda c, x: (c * 0.5 + agrad.sum(x), c), np.asarray(1.0)),
    "a view": (lambda c, x: ((c + x).T, c[0]), draw(4, 4)),
    "a constant": (lambda c, x: (CONSTANT, c), draw(4)),
    "a stack": (lambda c, x: (agrad.stack([c[1], 0.5 * c[0], *(c + x)[2:]]), c), draw(4)),
    "no change": (lambda c, x: (c, x * c), draw(4)),
    "no row": (lambda c, x: (c * 0.5 + x, None), draw(4)),
    "integers and truth values": (lambda c, x: ((c[0] + 1, c[1] < x), c[0]), (np.asarray(0), np.zeros(4, bool))),
    "products of vectors": (lambda c, x: (MATRIX @ (c @ MATRIX) + x * (c @ x), x @ MATRIX), draw(4)),
    "large arrays": (lambda c, x: ((y := agrad.tanh(c * 0.5 + x[0])) * 2 - y, y), draw(BIG)),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_scans(name: str, reverse: bool) -> None:
    step, init = STEPS[name]
    given = init, draw(LENGTH, 4, seed=7)

    def f(init: Any, xs: Any) -> Any:
        return agrad.scan(step, init, xs, reverse=reverse)

    def loss(init: Any, xs: Any) -> Any:
        return sum((agrad.sum(agrad.sin(part)) for part in agrad.tree.leaves(f(init, xs))), 0.0)

    kept = [leaf.copy() for leaf in agrad.tree.leaves((given, CONSTANT))]
    jitted = same_calls(f, given, given, atol=1e-13)
    results = [jitted(*given) for _ in range(2)]
    for a, b in zip(agrad.tree.leaves((given, CONSTANT)), kept, strict=True):
        np.testing.assert_array_equal(a, b)
    parts = [leaf for leaf in agrad.tree.leaves(results) if leaf.shape]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(parts) for b in [*parts[:i], *kept, CONSTANT])
    if name not in ("integers and truth values", "large arrays"):
        same_calls(agrad.grad(loss, argnums=(0, 1)), given, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("start", [0.0, 5.0])
def test_loops_with_a_condition(start: float) -> None:
    def f(x: Any) -> Any:
        return agrad.while_loop(
            lambda c: agrad.logical_and(c[0] < 4, agrad.max(c[1]) < 3.0),
            lambda c: (c[0] + 1, c[2] * 0.5 + c[1], c[1]),
            (np.asarray(0), x + start, x),
        )

    x = np.linspace(0.0, 1.0, 4)
    for a, b in zip(agrad.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(x, np.linspace(0.0, 1.0, 4))


def bodies(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> list[list[str]]:
    """Return the lines of the steps of the loops that a call compiles."""
    texts: list[str] = []

    def compiled(program: Any, target: Any) -> Any:
        found = compile_program(program, target)
        texts.append(found.run.text)
        return found

    monkeypatch.setattr("agrad.control.steps.compile_program", compiled)
    call()
    lines = [text.partition("for ")[2].splitlines()[1:] for text in texts]
    found = [[line.strip() for line in part if line.startswith(" " * 8)] for part in lines]
    return [[re.sub(r"_\d+\(.*", "", line) for line in part] for part in found]


def test_a_step_is_a_few_calls_without_new_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    f = agrad.jit(lambda c, xs: agrad.scan(STEPS["one array"][0], c, xs)[1])
    assert bodies(monkeypatch, lambda: f(draw(4), draw(LENGTH, 4))) == [["a0.dot(c0, b0)", "add", "tanh", "a0 = o0"]]


def test_work_for_all_steps_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slopes of slices, and the sum of products of cotangents and states, are computed outside of the loop."""

    def last(w: Any, c: Any, xs: Any) -> Any:
        return agrad.sum(agrad.scan(lambda c, x: (agrad.tanh(w @ c + x), None), c, xs)[0])

    given = MATRIX, draw(4), draw(LENGTH, 4)
    gradient = agrad.grad(last)
    _, backward = bodies(monkeypatch, lambda: agrad.jit(gradient)(*given))
    assert backward == ["multiply", "a1.dot(o0, w0)", "a2, w0 = w0, a2"]
    np.testing.assert_allclose(agrad.jit(gradient)(*given), gradient(*given), rtol=1e-12)


def test_sums_of_steps() -> None:
    """Sums of arrays and of products, of which one also is a row, one reads slices alone, and one is of an integer."""

    def step(c: Any, x: Any) -> Any:
        state, total, squares, outer, count = c
        new = agrad.sin(state + x)
        return (new, total + new, squares + x * x, outer + x[:2, None] @ new[None, :], count + 1), new

    start = draw(4), draw(4, seed=5), np.zeros(4), draw(2, 4, seed=6), np.asarray(2)
    for xs in (draw(LENGTH, 4, seed=7), draw(0, 4)):
        f = lambda xs: agrad.scan(step, start, xs, reverse=True)  # noqa: E731
        for a, b in zip(*map(agrad.tree.leaves, (agrad.jit(f)(xs), f(xs))), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("x", [0.1, -2.5, float("nan")])
def test_choices_between_numbers_have_the_types_of_numpy(dtype: str, x: float) -> None:
    """Jitted code on NumPy chooses between scalars without ``numpy.where``; its results are the same arrays."""

    def chosen(x: Any) -> tuple[Any, Any]:
        small = agrad.where((x * x < 1) & (x == x), x * 2, 0.1)
        return agrad.where(small > 0.15, small + 1, agrad.where(x <= -2.5, -x, small)) * 3, small

    def looped(x: Any) -> Any:
        step = lambda i, c: (agrad.where(c[0] > c[1], c[0] / 2, c[1]), chosen(c[0])[0])  # noqa: E731
        return agrad.fori_loop(0, 3, step, (x + 0, x * 2))

    for given in (np.asarray(x, dtype), np.dtype(dtype).type(x)):
        for f in (chosen, looped):
            for found, expected in zip(agrad.jit(f)(given), f(given), strict=True):
                assert (type(found), found.dtype) == (type(expected), expected.dtype)
                np.testing.assert_array_equal(found, expected)
