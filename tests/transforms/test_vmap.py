"""``vmap``: axes, containers, chunks, what it composes with, what it refuses, and every primitive of the table."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from cases import CASES
from checker import assert_close, outputs
from crossing import each, turn
from modes import Function, check_mapped, compare, is_inexact, loop
from refusals import fails
from table import Case, Input
from tensors import draw

import agrad
from agrad.dtypes import dtype_name
from agrad.errors import MissingRuleError, RuleError, TracedValueError
from agrad.registry import PRIMITIVES
from agrad.shapes import size


@pytest.fixture(autouse=True)
def no_primitive_stays() -> Iterator[None]:
    before = dict(PRIMITIVES)
    yield
    assert before == PRIMITIVES


def affine(w: Any, b: Any, x: Any) -> Any:
    return agrad.tanh(w @ x + b)


# ---------------------------------------------------------------- axes


def test_any_axis_in_and_out(place: Any) -> None:
    x = draw(2, 3, 4)
    for axis, out in itertools.product(range(-3, 3), repeat=2):
        got = agrad.vmap(lambda a: agrad.sin(a) + a, in_axes=axis, out_axes=out)(place(x))
        assert_close(got, np.moveaxis(np.sin(x) + x, axis, out), f"{axis} to {out}")


def test_arguments_share_or_map() -> None:
    w, b, x = draw(5, 3), draw(7, 5), draw(7, 3)
    expected = np.tanh(x @ w.T + b)
    assert_close(agrad.vmap(affine, in_axes=(None, 0, 0))(w, b, x), expected, "a tuple of axes")
    assert_close(agrad.vmap(affine, in_axes=[None, -2, 0])(w, b, x), expected, "a list of axes")
    assert_close(agrad.vmap(lambda b, x: affine(w, b, x))(b, x), expected, "a closure")
    assert_close(agrad.vmap(lambda x, *, scale: x * scale)(x, scale=b[0, :3]), x * b[0, :3], "keyword arguments")


class Pair(NamedTuple):
    first: Any
    second: Any


def test_axes_are_a_prefix_of_containers() -> None:
    w, b, x = draw(5, 3), draw(7, 5), draw(3, 7)
    expected = np.tanh(x.T @ w.T + b)

    def f(p: Any, rest: Any) -> Any:
        y = affine(p["w"], p["b"], rest[0])
        return {"y": y, "none": None, "two": [y * 2, agrad.sum(p["w"])]}

    out_axes = {"y": 1, "none": None, "two": [0, None]}
    mapped = agrad.vmap(f, in_axes=({"w": None, "b": 0}, [1, None]), out_axes=out_axes)
    got = mapped({"w": w, "b": b}, [x, "not an array"])
    assert_close(got["y"], expected.T, "dict of axes")
    assert_close(got["two"][0], expected * 2, "list of axes")
    assert_close(got["two"][1], np.sum(w), "out_axes None")
    assert got["none"] is None
    pair = agrad.vmap(lambda p: Pair(p.second, p.first), in_axes=(Pair(0, 1),), out_axes=Pair(1, 0))(Pair(b, x))
    assert type(pair) is Pair
    assert_close(pair.second, b, "namedtuple")
    assert_close(pair.first, x, "namedtuple, moved back")


def test_results_that_do_not_depend_on_the_member() -> None:
    x = draw(4, 2)
    assert_close(agrad.vmap(lambda a: agrad.ones(3))(x), np.ones((4, 3)), "repeated")
    assert_close(agrad.vmap(lambda a: 2.5)(x), np.full(4, 2.5), "a number")
    assert agrad.vmap(lambda a: (agrad.sum(a), "name"), out_axes=(0, None))(x)[1] == "name"
    assert_close(agrad.vmap(lambda: agrad.arange(3.0), axis_size=2)(), [[0.0, 1, 2]] * 2, "no argument")
    assert_close(agrad.vmap(lambda a: a * 2, in_axes=None, axis_size=2)(x), np.stack([x * 2] * 2), "axis_size")


@pytest.mark.parametrize("members", [0, 1, 5])
@pytest.mark.parametrize("chunk_size", [None, 1, 2, 5, 9])
def test_chunks_give_what_the_whole_gives(members: int, chunk_size: int | None) -> None:
    x, y = draw(members, 3), draw(3, members)
    got = agrad.vmap(
        lambda a, b: (agrad.sum(a * b), agrad.sin(a), 3.0), in_axes=(0, 1), out_axes=(0, 1, None), chunk_size=chunk_size
    )(x, y)
    assert_close(got[0], np.sum(x * y.T, axis=1), "scalars")
    slope = agrad.grad(lambda x: agrad.sum(agrad.vmap(lambda a: agrad.prod(a), chunk_size=chunk_size)(x)))(x)
    assert_close(slope, np.prod(x, axis=1)[:, None] / x, "a gradient through chunks")
    assert_close(got[1], np.sin(x).T, "along axis 1")
    assert got[2] == 3.0


def test_chunks_bound_how_many_members_meet() -> None:
    seen = []

    def f(a: Any) -> Any:
        seen.append(a.raw.shape)
        return a

    agrad.vmap(f, chunk_size=3)(draw(8, 2))
    assert seen == [(3, 2), (3, 2), (2, 2)]


# ---------------------------------------------------------------- what it refuses


def test_what_is_shared_may_steer_python() -> None:
    got = agrad.vmap(lambda x, y: x if y > 0 else -x, in_axes=(0, None))(draw(4), np.asarray(-1.0))
    assert_close(got, -draw(4), "a branch by a shared value")


# ---------------------------------------------------------------- the mapped value


def test_a_mapped_value_shows_one_member() -> None:
    def f(x: Any) -> Any:
        assert (x.shape, x.ndim, x.size, len(x)) == ((3, 2), 2, 6, 3)
        assert x.dtype == agrad.float64 and x.backend == "numpy" and str(x.device) == "cpu"
        assert not x.requires_grad and x.op is None and not x.is_leaf
        assert "shape of a member=(3, 2)" in repr(x) and "level=batch" in repr(x)
        assert agrad.zeros_like(x).shape == agrad.full_like(x, 2).shape == (3, 2)
        assert agrad.ones_like(x, dtype=agrad.float32).dtype == agrad.float32
        return sum(row for row in x) + x.T[0, 0] + x.mT[0, 0]

    x = draw(4, 3, 2)
    assert_close(agrad.vmap(f)(x), x.sum(1) + 2 * x[:, 0, 0][:, None], "rows summed")


# ---------------------------------------------------------------- composition


def test_leaves_closed_over_are_recorded(place: Any) -> None:
    w = agrad.asarray(place(draw(3, 3)), requires_grad=True)
    x = place(draw(5, 3, seed=1))
    losses = agrad.vmap(lambda a: agrad.sum(agrad.tanh(w @ a)))(x)
    assert isinstance(losses, agrad.Tensor) and losses.requires_grad
    agrad.sum(losses).backward()
    expected = agrad.grad(lambda w: agrad.sum(agrad.tanh(agrad.asarray(x) @ w.T)))(w.detach())
    assert_close(w.grad, expected, "gradient of a leaf")
    with agrad.no_grad():
        quiet = agrad.vmap(lambda a: agrad.sum(agrad.tanh(w @ a)))(x)
        inner = agrad.vmap(agrad.grad(lambda a: agrad.sum(agrad.tanh(w @ a))))(x)
    assert not isinstance(quiet, agrad.Tensor)
    assert_close(quiet, losses, "under no_grad it maps all the same")
    assert_close(inner, agrad.vmap(agrad.grad(lambda a: agrad.sum(agrad.tanh(w.detach() @ a))))(x), "a transform in it")


def test_nested_maps_of_which_arguments_have_one_or_both(place: Any) -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        joined = agrad.concat([agrad.cumulative_sum(a, axis=-1), b, c])  # b and c have not the axes of both maps
        return agrad.flip(joined, axis=0) * agrad.sum(a * b * c + agrad.reshape(c, (1, 5)), axis=(0, 1))

    check_mapped(
        agrad.vmap(f, (0, 0, None)), [place(draw(2, 3, 5)), place(draw(3, 5)), place(draw(2, 5))], (0, None, 0)
    )


# ---------------------------------------------------------------- rules of one's own


def cube(batch: str | None = None) -> Any:
    @agrad.primitive(batch=batch)
    def cube(xp: Any, x: Any, /) -> Any:
        """x**3, of one member at a time."""
        assert len(x.shape) < 2
        return x * x * x

    @cube.vjp
    def cube_vjp(g: Any, x: Any) -> Any:
        return 3 * g * x * x

    return cube


def test_a_loop_over_members() -> None:
    x = draw(3, 2)
    f = cube("loop")
    assert_close(agrad.vmap(f)(x), x**3, "a loop")
    assert_close(agrad.vmap(agrad.grad(lambda x: agrad.sum(f(x))))(x), 3 * x**2, "its gradient")
    assert agrad.vmap(f)(draw(0, 2)).shape == (0, 2)
    ends = agrad.primitive(lambda xp, x, /: (xp.min(x), xp.max(x)), name="ends", out=("low", "high"), batch="loop")
    low, high = agrad.vmap(ends)(x)
    assert_close(low, x.min(1), "of several results")
    assert_close(high, x.max(1), "of several results")
    seven = agrad.primitive(lambda xp, x, /: xp.reshape(x, (7,)), name="seven", batch="loop")
    fails(MissingRuleError, "seven: the batch must not be empty", agrad.vmap(seven), draw(0, 2))


def test_a_rule_of_names() -> None:
    @agrad.primitive
    def scaled(xp: Any, x: Any, factor: Any, /, *, power: int) -> Any:
        return x * factor**power

    handed = []

    @scaled.batch
    def scaled_batch(
        xp: Any, x: Any, factor: Any, x_mapped: bool, factor_mapped: bool, batch_size: int, *, power: int
    ) -> Any:
        handed.append((x_mapped, factor_mapped, batch_size, power))
        factor = xp.reshape(factor, (-1, 1)) if factor_mapped else factor
        return x * factor**power + xp.zeros((batch_size, 1))

    x, factor = draw(3, 2), draw(3)
    assert_close(agrad.vmap(scaled)(x, factor, power=2), x * factor[:, None] ** 2, "both")
    assert_close(agrad.vmap(scaled, in_axes=(None, 0))(x[0], factor, power=2), x[0] * factor[:, None] ** 2, "one")
    assert handed == [(True, True, 3, 2), (False, True, 3, 2)]


def test_the_result_of_a_rule_is_checked() -> None:
    f = cube()
    f.batch(lambda xp, x: xp.sum(x))
    fails(RuleError, "batching rule of cube must return a batch axis of length 3 first", agrad.vmap(f), draw(3, 2))


def test_a_rule_that_does_not_need_the_mapped_argument(place: Any) -> None:
    x, w = place(np.abs(draw(3, 3)) + 1), place(np.arange(1.0, 4.0))
    for n in (0, 1, 1.0, 2):
        check_mapped(lambda a, s, n=n: agrad.multiply(a**n, w) * s, [x, w])


# ---------------------------------------------------------------- every primitive

MEMBERS = 2

pytestmark = pytest.mark.filterwarnings("ignore:var.*degrees of freedom:UserWarning")

VALUES_DECIDE = {name for name, made in PRIMITIVES.items() if made.batching is PRIMITIVES["unique_values"].batching}
FILLED = [case for case in CASES if not case.row.constant and not case.is_empty]


def drawn(case: Case, count: int) -> list[list[Any]]:
    """For each argument, a number or as many arrays as there are members; integers are other members' turned round."""
    rng = case.rng()
    out = []
    for argument in case.example.args:
        if not isinstance(argument, Input):
            out.append(argument)
            continue
        values = [np.asarray(argument.draw(rng)) for _ in range(count)]
        if not argument.differentiable and values[0].ndim:
            values = [np.roll(v, i, axis=-1) if v.dtype.kind in "iu" else v for i, v in enumerate(values)]
        out.append(values)
    return out


def ways(arguments: list[Any]) -> list[tuple[bool, ...]]:
    """Which arguments are mapped: each array alone, and all of them."""
    arrays = [i for i, a in enumerate(arguments) if isinstance(a, list)]
    chosen = [{i} for i in arrays] + ([set(arrays)] if len(arrays) > 1 else [])
    return [tuple(i in those for i in range(len(arguments))) for those in chosen]


def member(arguments: list[Any], mapped: tuple[bool, ...], i: int) -> list[Any]:
    """What the function is called with for one member: the first array of what is not mapped."""
    return [
        (a[i] if is_mapped else a[0]) if isinstance(a, list) else a
        for a, is_mapped in zip(arguments, mapped, strict=True)
    ]


def together(arguments: list[Any], mapped: tuple[bool, ...], place: Any) -> list[Any]:
    return [
        place(np.stack(a) if is_mapped else a[0]) if isinstance(a, list) else a
        for a, is_mapped in zip(arguments, mapped, strict=True)
    ]


def axes(mapped: tuple[bool, ...]) -> tuple[int | None, ...]:
    return tuple(0 if is_mapped else None for is_mapped in mapped)


def spread(f: Function, place: Any) -> Function:
    """Return ``f`` with results moved and weighted, so that no cotangent is 0 where a result is, or follows it."""

    def weights(y: Any) -> Any:
        real = {"complex64": "float32", "complex128": "float64"}.get(dtype_name(y.dtype), dtype_name(y.dtype))
        return place(np.cos(1.0 + np.arange(size(y.shape))).reshape(y.shape).astype(real))

    return lambda *xs: [(y + 0.5) * weights(y) if is_inexact(y) else y for y in outputs(f(*xs))]


def refused(case: Case, arguments: list[Any], mapped: tuple[bool, ...]) -> bool:
    """Whether members would have results of different shapes: a mapped mask as an index, an array of repeats."""
    if case.row.primitive in VALUES_DECIDE:
        return True
    if case.row.primitive in ("getitem", "setitem", "scatter_add"):
        x, value, *index = *member(arguments, mapped, 0), None
        if case.row.primitive == "setitem" and np.size(value) == 1 and np.shape(x) == np.shape(index[0]):
            return False  # one value where a mask of all of x says so
        return any(m and a[0].dtype == bool for a, m in zip(arguments, mapped, strict=True) if isinstance(a, list))
    return case.row.primitive == "repeat" and mapped[-1]


def test_every_primitive_has_a_batching_rule() -> None:
    assert not [name for name, made in PRIMITIVES.items() if made.batching is None]


@each(CASES)
def test_mapped_is_the_loop(case: Case, place: Any, pytestconfig: pytest.Config) -> None:
    """Each array argument alone, and all; values, a map inside a map, and derivatives inside and around a map.

    Derivatives of all mapped, and of one alone in turn.
    """
    arguments = drawn(case, MEMBERS)
    *single, every = ways(arguments) or [()]
    by_turn = turn(f"{case.name} {pytestconfig.getoption('--round')}", 0, max(len(single), 1))
    for mapped in ways(arguments):
        given = together(arguments, mapped, place)
        if refused(case, arguments, mapped):
            refusal = r"(does not support vmap|that vmap maps over|a mapped mask).* .*agrad\.where"
            fails(TracedValueError, refusal, agrad.vmap(case.call, in_axes=axes(mapped)), *given)
            continue
        derivatives = case in FILLED and (mapped == every or single.index(mapped) == by_turn)
        how = {"derivatives": derivatives, "argnums": case.places, "jitted": False, "nested": mapped == every}
        check_mapped(spread(case.call, place), given, axes(mapped), values=1e-11, tolerance=1e-9, **how)
        if mapped == every:
            got = agrad.vmap(case.call, in_axes=axes(mapped))(*given)
            assert not any(isinstance(part, agrad.Tensor) for part in outputs(got))
    if len(single) == 2 and not any(refused(case, arguments, mapped) for mapped in (*single, every)):
        by_outer, by_inner = map(axes, single)
        f = agrad.vmap(case.call, in_axes=by_inner)
        compare(agrad.vmap(f, in_axes=by_outer)(*given), loop(f, given, by_outer), "a map of each argument", 1e-11)
