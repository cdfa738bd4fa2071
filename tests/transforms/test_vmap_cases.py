"""Every primitive of the table mapped: ``vmap`` is the loop, and so are its derivatives, on every backend."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import CASES
from checker import assert_close, cotangents, host, outputs, random_like
from crossing import each
from table import Case, Input

import agrad
from agrad.dtypes import dtype_name
from agrad.errors import TracedValueError
from agrad.registry import PRIMITIVES

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


def together(arguments: list[Any], mapped: tuple[bool, ...], place: Any, front: int = 0) -> list[Any]:
    return [
        place(np.stack(a, axis=front) if is_mapped else a[0]) if isinstance(a, list) else a
        for a, is_mapped in zip(arguments, mapped, strict=True)
    ]


def axes(mapped: tuple[bool, ...]) -> tuple[int | None, ...]:
    return tuple(0 if is_mapped else None for is_mapped in mapped)


def loop(f: Callable[..., Any], arguments: list[Any], mapped: tuple[bool, ...], place: Any) -> list[np.ndarray]:
    """The outputs of ``f`` for each member by itself, stacked."""
    rows = []
    for i in range(MEMBERS):
        given = [place(a) if isinstance(a, np.ndarray) else a for a in member(arguments, mapped, i)]
        rows.append([host(part) for part in outputs(f(*given))])
    return [np.stack(parts) for parts in zip(*rows, strict=True)]


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


def alone(case: Case) -> list[tuple[bool, ...]]:
    """The ways in which one argument alone is mapped."""
    arguments = drawn(case, 1)
    return [way for way in ways(arguments) if sum(way) == 1 and not refused(case, arguments, way)]


def two_maps(case: Case) -> bool:
    """Whether two arrays are arguments and any of them may be mapped."""
    arguments = drawn(case, 1)
    arrays = [a for a in arguments if isinstance(a, list)]
    return len(arrays) == 2 and not any(refused(case, arguments, way) for way in ways(arguments))


def agree(got: Any, expected: list[np.ndarray], what: str, tolerance: float = 1e-11) -> None:
    parts = outputs(got)
    assert len(parts) == len(expected)
    for part, wanted in zip(parts, expected, strict=True):
        assert dtype_name(part.dtype) == dtype_name(wanted.dtype), f"{what}: {part.dtype}, not {wanted.dtype}"
        assert_close(part, wanted, what, tolerance)


def test_every_primitive_has_a_batching_rule() -> None:
    assert not [name for name, made in PRIMITIVES.items() if made.batching is None]


@each(CASES)
def test_mapped_is_the_loop(case: Case, place: Any) -> None:
    """Each array argument alone, and all; raw arrays in, raw arrays out; and a map inside a map."""
    arguments = drawn(case, MEMBERS)
    for mapped in ways(arguments):
        given = together(arguments, mapped, place)
        if refused(case, arguments, mapped):
            with pytest.raises(
                TracedValueError, match=r"(does not support vmap|that vmap maps over|a mapped mask).* .*agrad\.where"
            ):
                agrad.vmap(case.call, in_axes=axes(mapped))(*given)
            continue
        expected = loop(case.call, arguments, mapped, place)
        got = agrad.vmap(case.call, in_axes=axes(mapped))(*given)
        assert not any(isinstance(part, agrad.Tensor) for part in outputs(got))
        agree(got, expected, f"vmap over {mapped}")
        twice = [agrad.asarray(a)[None, :].raw if is_mapped else a for a, is_mapped in zip(given, mapped, strict=True)]
        nested = agrad.vmap(agrad.vmap(case.call, in_axes=axes(mapped)), in_axes=axes(mapped))(*twice)
        agree(nested, [e[None] for e in expected], f"vmap in vmap over {mapped}")


@each([case for case in CASES if two_maps(case)])
def test_each_argument_is_mapped_by_another_map(case: Case, place: Any) -> None:
    arguments = drawn(case, MEMBERS)
    arrays = [i for i, a in enumerate(arguments) if isinstance(a, list)]
    outer, inner = (tuple(i == chosen for i in range(len(arguments))) for chosen in arrays)
    given = together(arguments, tuple(map(any, zip(outer, inner, strict=True))), place)
    got = agrad.vmap(agrad.vmap(case.call, in_axes=axes(inner)), in_axes=axes(outer))(*given)
    rows = []
    for i in range(MEMBERS):
        kept = list(arguments)
        kept[arrays[0]] = [arguments[arrays[0]][i]]
        rows.append(loop(case.call, kept, inner, place))
    agree(got, [np.stack(parts) for parts in zip(*rows, strict=True)], "a map of each argument")


@each(FILLED)
def test_derivatives_and_maps_compose(case: Case, place: Any) -> None:
    """The vjp and the jvp inside a map and around it, of one map over all arguments, are the loop's."""
    places = case.places
    arguments = drawn(case, MEMBERS)
    constants = [a[0] if isinstance(a, list) else a for a in arguments]
    xs = [arguments[i] for i in places]
    rng = case.rng()

    def f(*at: Any) -> Any:
        filled = [place(a) if isinstance(a, np.ndarray) else a for a in constants]
        for i, x in zip(places, at, strict=True):
            filled[i] = x
        return case.call(*filled)

    stacked = [place(np.stack(x)) for x in xs]
    ys = [f(*[place(x[i]) for x in xs]) for i in range(MEMBERS)]
    several = isinstance(ys[0], tuple)
    gs = [random_like(outputs(y), rng) for y in ys]
    ts = [random_like([place(x[i]) for x in xs], rng) for i in range(MEMBERS)]
    stacked_gs = [place(np.stack([host(g) for g in parts])) for parts in zip(*gs, strict=True)]
    stacked_ts = [place(np.stack([host(t) for t in parts])) for parts in zip(*ts, strict=True)]

    def pull(at: tuple[Any, ...], g: Any) -> Any:
        return agrad.vjp(f, *at)[1](g)

    def push(at: tuple[Any, ...], t: tuple[Any, ...]) -> Any:
        return agrad.jvp(f, at, t)[1]

    def stack(rows: list[Any]) -> list[np.ndarray]:
        return [np.stack([host(part) for part in parts]) for parts in zip(*map(outputs, rows), strict=True)]

    members = [tuple(place(x[i]) for x in xs) for i in range(MEMBERS)]
    pulled = stack([pull(at, cotangents(y, g)) for at, y, g in zip(members, ys, gs, strict=True)])
    pushed = stack([push(at, tuple(t)) for at, t in zip(members, ts, strict=True)])
    g_all = tuple(stacked_gs) if several else stacked_gs[0]
    agree(agrad.vmap(pull)(tuple(stacked), g_all), pulled, "vmap of vjp", 1e-9)
    agree(agrad.vmap(push)(tuple(stacked), tuple(stacked_ts)), pushed, "vmap of jvp", 1e-9)
    agree(agrad.vjp(agrad.vmap(f), *stacked)[1](g_all), pulled, "vjp of vmap", 1e-9)
    agree(agrad.jvp(agrad.vmap(f), tuple(stacked), tuple(stacked_ts))[1], pushed, "jvp of vmap", 1e-9)
    at, y = members[0], ys[0]
    columns = stack([pull(at, cotangents(y, g)) for g in gs])
    many = agrad.vmap(agrad.vjp(f, *at)[1])(g_all)
    agree(many, columns, "a pullback of many cotangents", 1e-9)
    rows = stack([push(at, tuple(t)) for t in ts])
    agree(agrad.vmap(lambda *t: push(at, t))(*stacked_ts), rows, "many tangents at one point", 1e-9)


@each([case for case in FILLED if alone(case)])
def test_derivatives_where_members_share_arguments(case: Case) -> None:
    """One argument mapped alone, and the cotangent shared: by the vjp inside a map, and around it."""
    arguments = drawn(case, MEMBERS)
    rng = case.rng()
    for mapped in alone(case):
        given = together(arguments, mapped, np.asarray)
        members = [member(arguments, mapped, i) for i in range(MEMBERS)]
        weights = [random_like(outputs(case.call(*m)), rng) for m in members]

        def slopes(*args: Any, weights: Any = weights[0]) -> Any:
            def weighed(*at: Any) -> Any:
                filled = list(args)
                for i, x in zip(case.places, at, strict=True):
                    filled[i] = x
                return total(case.call(*filled), weights)

            return agrad.grad(weighed, argnums=tuple(range(len(case.places))))(*[args[i] for i in case.places])

        rows = [slopes(*m) for m in members]
        expected = [np.stack([host(g) for g in parts]) for parts in zip(*rows, strict=True)]
        agree(agrad.vmap(slopes, in_axes=axes(mapped))(*given), expected, f"vmap of grad over {mapped}", 1e-9)

        def around(*at: Any, given: Any = given, mapped: Any = mapped, weights: Any = weights[0]) -> Any:
            filled = list(given)
            for i, x in zip(case.places, at, strict=True):
                filled[i] = x
            return agrad.sum(agrad.vmap(lambda *a: total(case.call(*a), weights), in_axes=axes(mapped))(*filled))

        got = agrad.grad(around, argnums=tuple(range(len(case.places))))(*[given[i] for i in case.places])
        summed = [e if mapped[i] else np.sum(e, axis=0) for i, e in zip(case.places, expected, strict=True)]
        agree(got, summed, f"grad of vmap over {mapped}", 1e-9)


def total(out: Any, weights: Any) -> Any:
    """The sum of the outputs with weights, real."""
    return sum(
        agrad.sum(agrad.real(y * g) if g.dtype.kind == "c" else y * g)
        for y, g in zip(outputs(out), weights, strict=True)
    )
