"""NumPy's groups of rows: operands that broadcast, reductions over axes, and where their results are written."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close
from hypothesis import given, settings
from hypothesis import strategies as st
from jit_help import close, descent, memory_of, names, same_calls, same_steps, stages, traced
from small_blocks import use_small_blocks

import agrad
from agrad.jit.passes.algebra import without_broadcasts
from agrad.jit.passes.cleanup import without_dead_code
from agrad.jit.passes.fusion import Group, with_groups
from agrad.jit.program import Program, interpret

RNG = np.random.default_rng(5)
X, Y, B, C = (RNG.standard_normal(shape) for shape in ((6, 4), (6, 4), (4,), (6, 1)))
Z, MASK = RNG.standard_normal((2, 3, 5, 4)), RNG.standard_normal((5, 4))


@pytest.fixture(params=[2, 9, 1 << 20])
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_blocks(monkeypatch, request.param)


def optimized(function: Callable[..., Any], *args: Any) -> Program:
    return stages(function, *args)[-1]


def groups(program: Program) -> list[Group]:
    return [i.operation for i in program.instructions if isinstance(i.operation, Group)]


def norm(x: Any, w: Any, b: Any) -> Any:
    centred = x - agrad.mean(x, axis=-1, keepdims=True)
    return centred / agrad.sqrt(agrad.var(x, axis=-1, keepdims=True) + 1e-5) * w + b


def backward(f: Callable[..., Any], *args: Any) -> Any:
    return agrad.value_and_grad(lambda *args: agrad.sum(agrad.sin(f(*args))), tuple(range(len(args))))(*args)


# what is computed, and of what
FORMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "bias and relu": (lambda x, b: agrad.relu(x + b), (X, B)),
    "a bias of two axes": (lambda x, b: agrad.relu(x * b[None, :]), (X, B)),
    "a column": (lambda x, c: agrad.sin(x + c) * c, (X, C)),
    "a column that is all": (lambda c: agrad.sin(c) * 2, (C,)),
    "numbers alone": (lambda x: agrad.sin(x) * 2, (X,)),
    "softmax": (lambda x: agrad.softmax(x, axis=1), (X,)),
    "log softmax": (lambda x: agrad.log_softmax(x, axis=1) * 2, (X,)),
    "logsumexp": (lambda x: agrad.logsumexp(x, axis=1), (X,)),
    "logsumexp, kept": (lambda x: x - agrad.logsumexp(x, axis=1, keepdims=True), (X,)),
    "variance": (lambda x: agrad.var(x, axis=1, correction=1), (X,)),
    "variance of two axes": (lambda x: agrad.var(x, axis=(2, 3), keepdims=True), (Z,)),
    "gelu": (agrad.gelu, (X,)),
    "layer norm": (norm, (X, B, B + 1)),
    "layer norm, backward": (lambda *args: backward(norm, *args), (X, B, B + 1)),
    "bias and relu, backward": (lambda *args: backward(lambda x, b: agrad.relu(x + b), *args), (X, B)),
    "softmax, backward": (lambda x: backward(lambda x: agrad.softmax(x, axis=1) ** 2, x), (X,)),
    "attention": (lambda z: agrad.softmax(z / 8, axis=-1), (Z,)),
    "attention with a mask": (lambda z, m: agrad.softmax(z + m, axis=-1), (Z, MASK)),
    "a mask of an axis of one": (lambda z, m: agrad.softmax(z + m[:, :, None], axis=-1), (Z, Z[:, :1, 0])),
    "all sums": (lambda x: [agrad.sum(agrad.sin(x), axis=a) for a in (None, 0, 1)], (X,)),
    "all sums, kept": (lambda x: [agrad.sum(agrad.sin(x), axis=a, keepdims=True) for a in (None, 0, 1)], (X,)),
    "means, greatest and least": (
        lambda x: [f(agrad.cos(x), axis=a) for f in (agrad.mean, agrad.max, agrad.min) for a in (0, 1, None)], (X,),
    ),
    "masks of a choice": (lambda x, c: backward(lambda x, c: agrad.where(x > 0.1, x * c, agrad.sin(x)), x, c), (X, C)),
    "relu's mask of a column": (lambda x, c: backward(lambda x: agrad.relu(x) * c, x), (X, C)),
    "relu's mask of a mean": (
        lambda x: agrad.grad(lambda x: agrad.sum(agrad.mean(agrad.relu(x), axis=1) ** 2))(x),
        (X,),
    ),
    "sums of a block's axes too": (lambda z: [agrad.sum(agrad.sin(z), axis=a) for a in ((0, 2), 3, (0, 1, 3))], (Z,)),
    "a row's sums in other shapes": (
        lambda x: agrad.sin(x) * agrad.reshape(agrad.sum(agrad.cos(x), axis=1), (6, 1)),
        (X,),
    ),
}  # fmt: skip


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("function", "args"), FORMS.values(), ids=FORMS.keys())
def test_one_group_of_rows(function: Callable[..., Any], args: Any) -> None:
    """A group is formed, and computes what the operations one by one do: so do its interpreter and a second call."""
    program = optimized(function, *args)
    (group,) = groups(program)
    others = [i.name for i in program.instructions if i.operation is not group]
    assert set(others) <= {"reshape", "expand_dims", "getitem"}, "what moves no data may stand beside the group"
    same_calls(function, args, args, atol=1e-12)
    close(interpret(program, args), function(*args), atol=1e-12)


def places_of_columns(x: Any) -> Any:
    """In a square matrix the sums of rows, of shape (n,), are no whole operand: they are not known before the end."""
    y = agrad.sin(x)
    return y * agrad.sum(y, axis=1) + y * agrad.sum(y, axis=0)


def rows_and_whole(x: Any, b: Any) -> Any:
    """The same (n,) array against the sums of rows and against the rows themselves."""
    y = agrad.sin(x) + b
    return y, agrad.sum(y, axis=1) * b


def leaving(x: Any, b: Any) -> Any:
    y = agrad.sin(x) + b
    z = agrad.matmul(y, agrad.matrix_transpose(y))
    total = agrad.sum(y, axis=0)
    return agrad.sum(agrad.cos(y) * agrad.matmul(z, y) + total, axis=1), agrad.exp(y - total)


NEEDED: dict[str, Callable[[Any], Any]] = {
    "read again behind the first member": lambda y: agrad.sin(y) + agrad.sum(y, axis=1, keepdims=True) * y,
    "read through a view": lambda y: agrad.sin(y + agrad.matrix_transpose(y)) * 2,
    "a result itself": lambda y: (agrad.sin(y) * 2, y),
    "rows, and a part of them whole": lambda y: agrad.sin(y + y[0]) * 2,
    "two outputs, one operand": lambda y: (agrad.sin(y) * 2, agrad.cos(y) * 2),
    "a product of two groups": lambda y: agrad.matmul(agrad.sin(y) * 2, agrad.cos(y) + 1),
    "a product with a group": lambda y: agrad.matmul(agrad.sin(agrad.matrix_transpose(y)) + 1, y),
}
"""What is computed of a product that is still needed after a group has read it."""

SQUARES = [(RNG.standard_normal((n, n)), RNG.standard_normal(n)) for n in (4, 150)]
SEVERAL: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sums of rows in the place of columns": (places_of_columns, (X[:4],)),
    "a square operand": (rows_and_whole, SQUARES[0]),
    "a large square operand": (rows_and_whole, SQUARES[1]),
    "what leaves a group and comes back": (leaving, (X, B)),
    "over a product that a group alone reads": (
        lambda x, w, b: agrad.matmul(agrad.relu(agrad.matmul(x, w) + b), agrad.matrix_transpose(w)),
        (X, *(RNG.standard_normal(shape) for shape in ((4, 7), 7))),
    ),
    **{name: (lambda x, f=f: f(agrad.matmul(x, x)), (SQUARES[0][0],)) for name, f in NEEDED.items()},
}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("function", "args"), SEVERAL.values(), ids=SEVERAL.keys())
def test_groups_beside_other_operations(function: Callable[..., Any], args: Any) -> None:
    assert groups(optimized(function, *args))
    x, *others = args
    same_calls(function, *[(x * scale, *others) for scale in (1.0, 0.5, -1.0)], atol=1e-12)


@pytest.mark.usefixtures("small_blocks")
def test_the_same_bits_at_each_call() -> None:
    """Partial results are added in the order of the blocks, whichever thread computes them."""
    x = RNG.standard_normal((701, 8)).astype("float32")
    jitted = agrad.jit(lambda x: [agrad.sum(agrad.sin(x), axis=a) for a in (0, None)])
    jitted(x)
    first = jitted(x)
    for _ in range(20):
        for a, b in zip(jitted(x), first, strict=True):
            np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------- what belongs together, and what does not


@pytest.mark.parametrize("kind", ["many inputs", "many results", "a long chain"])
def test_the_addresses_of_a_group_fit_into_the_arguments_of_a_kernel(kind: str) -> None:
    def f(xs: list[Any]) -> Any:
        if kind == "many inputs":
            return [functools.reduce(agrad.add, xs)]
        if kind == "many results":
            return list(itertools.accumulate(xs[:5] * 80, agrad.add))
        return [functools.reduce(lambda total, _: agrad.sin(total + xs[0]), range(400), xs[1])]

    xs = list(np.random.default_rng(0).normal(size=(300, 6)))
    program = with_groups(1, whole_rows=True)(traced(f, xs))
    found = groups(program)
    assert len(found) > 1
    for group in found:
        assert 16 * len(group.program.inputs) + 8 * len(group.program.outputs) <= 4096
    close(interpret(program, xs), f(xs))


@pytest.mark.parametrize(
    ("first", "last"),
    [(lambda w: agrad.sin(w) * 2, lambda y: y + 1), (lambda w: agrad.reshape(w, (-1,)), agrad.sin)],
    ids=["group", "view"],
)
def test_what_is_read_before_an_update_has_the_old_values(first: Any, last: Any) -> None:
    """An update may write into a parameter, and a group or a view reads its operands where it stands."""

    def made() -> Any:
        w = agrad.asarray(np.linspace(-2.0, 2.0, 60_000).reshape(200, 300), requires_grad=True)
        train = descent(agrad.optim.SGD([w], lr=0.1, momentum=0.9), lambda: agrad.sum(w * 3), "first")
        return lambda: (seen := first(w.detach()), train(), last(seen))[2]

    same_steps(made)


# ---------------------------------------------------------------- where results are written


def test_what_a_group_writes_over_is_one_buffer() -> None:
    made = agrad.jit(lambda x, w, b: agrad.matmul(agrad.relu(agrad.matmul(x, w) + b), agrad.matrix_transpose(w)))
    given = x, _, _ = [RNG.standard_normal(shape) for shape in ((20_000, 4), (4, 7), (7,))]
    made.lower(*given)
    one = x.shape[0] * 7 * x.itemsize
    assert one < memory_of(made, *given)[0] < 1.8 * one


@pytest.mark.usefixtures("small_blocks")
def test_operands_in_other_orders() -> None:
    """Transposed, strided and reversed arrays, and results over them."""
    x = RNG.standard_normal((8, 12))

    def f(x: Any, b: Any) -> Any:
        y = agrad.add(x, x)  # lies as x does
        return agrad.softmax(y * 2 + b, axis=1)

    for laid in (x, x.T[:8], x[::2], x[:, ::3], x[::-1, ::-1]):
        same_calls(f, (laid, RNG.standard_normal(laid.shape[1])), atol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
def test_negated_parts_into_buffers(order: str) -> None:
    """NumPy 2.4's negative errs from a stride of four float32 into another stride: buffers have none to write into."""
    wide = np.asarray(np.arange(1, 8 * 68 + 1, dtype="float32").reshape(8, 68), order=order)
    jitted = agrad.jit(lambda x: agrad.matmul(agrad.matrix_transpose(-x), x))
    for x in (wide[::4, ::4], wide[:, ::4], wide[::4], wide[::4, ::4].T, wide[:, ::4].T, wide.T[::4, ::4]):
        np.testing.assert_array_equal(jitted(x), (x * np.float32(-1)).T @ x)


# ---------------------------------------------------------------- operations written out


def test_broadcasts_are_left_to_the_operation_that_reads_them() -> None:
    def f(x: Any, b: Any) -> Any:
        wide = agrad.broadcast_to(b, (6, 4))
        return x * wide, wide + wide, agrad.sum(wide, axis=0)

    better = without_broadcasts(traced(f, X, B))
    operands = [(i.name, [v.shape for v in i.reads()]) for i in better.instructions]
    assert ("multiply", [(6, 4), (4,)]) in operands and ("add", [(6, 4), (6, 4)]) in operands
    close(interpret(better, [X, B]), f(X, B), rtol=0)


def test_an_operation_on_broadcasts_alone_comes_before_them() -> None:
    def f(x: Any, b: Any) -> Any:
        return x * (2 * agrad.broadcast_to(agrad.expand_dims(b, axis=0), (6, 4)) + 1)

    better = without_dead_code(without_broadcasts(traced(f, X, B)))
    shapes = [i.results[0].shape for i in better.instructions if i.name in ("multiply", "add")]
    assert shapes == [(1, 4), (1, 4), (6, 4)]
    close(interpret(better, [X, B]), f(X, B), rtol=0)


# ---------------------------------------------------------------- random shapes


@st.composite
def chains(draw: Any) -> tuple[tuple[int, ...], list[tuple[int, ...]], list[tuple[int, ...]]]:
    """A shape, shapes that broadcast to it, and axes to reduce."""
    shape = tuple(draw(st.lists(st.sampled_from([2, 3, 1]), min_size=1, max_size=4)))
    operands = []
    for _ in range(draw(st.integers(1, 3))):
        kept = [n if draw(st.booleans()) else 1 for n in shape]
        operands.append(tuple(kept[draw(st.integers(0, len(shape))) :]))
    axes = st.sets(st.integers(0, len(shape) - 1), min_size=1).map(lambda axes: tuple(sorted(axes)))
    return shape, operands, draw(st.lists(axes, min_size=1, max_size=3))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(chain=chains(), size=st.sampled_from([1, 3]))
def test_random_shapes(chain: Any, size: int) -> None:
    """Operands and reductions of any axes; with what the reductions give used again where the shapes allow it."""
    shape, operands, axes = chain
    rng = np.random.default_rng(0)
    x, *others = (rng.standard_normal(s) for s in (shape, *operands))

    def f(x: Any, *others: Any) -> Any:
        y = agrad.sin(x)
        for b in others:
            y = y * 0.5 + b
        sums = [agrad.sum(y, axis=a) for a in axes]
        kept = [agrad.max(y, axis=a, keepdims=True) for a in axes]
        for k in kept:
            y = agrad.cos(y - k) + 1
        return y, sums, kept

    with pytest.MonkeyPatch.context() as patch:
        use_small_blocks(patch, size)
        same_calls(f, *[(x, *others)] * 2, atol=1e-12)


@pytest.mark.parametrize("traits", [{}, {"combine": agrad.multiply}])
def test_a_reduction_of_the_user(traits: dict[str, Any]) -> None:
    """It is a product, not the sum of parts."""

    @agrad.primitive(kind="reduction", **traits)
    def product_of(xp: Any, x: Any, /, *, axis: Any, keepdims: bool) -> Any:
        return xp.prod(x, axis=axis, keepdims=keepdims)

    x = np.linspace(0.999, 1.001, 300_000)
    jitted = agrad.jit(lambda x: product_of(x * 1.000001, axis=(0,), keepdims=False))
    assert_close(jitted(x), np.prod(x * 1.000001), "a product", 1e-10)
    program = jitted.lower(x).stages[-1][1]
    assert ("fused" in str(program)) is bool(traits)


@pytest.mark.needs("scipy")
def test_operations_of_kernels_are_not_written_out() -> None:
    """Where the kernel accepts the arrays."""
    x = np.linspace(-3.0, 3.0, 1 << 17, dtype=np.float32)
    assert "gelu" in names(optimized(lambda x: agrad.sum(agrad.gelu(x) * 2), x))[0]
    for other in (lambda x: agrad.gelu(x, approximate=True), lambda x: agrad.gelu(agrad.astype(x, agrad.float64))):
        assert not any("gelu" in name for name in names(optimized(lambda x, f=other: agrad.sum(f(x) * 2), x)))
