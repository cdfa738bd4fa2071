"""Every primitive of the table mapped: ``vmap`` is the loop, and so are its derivatives, on every backend."""

from typing import Any

import numpy as np
import pytest
from cases import CASES
from checker import outputs
from crossing import each, turn
from modes import Function, check_mapped, compare, is_inexact, loop
from table import Case, Input

import agrad
from agrad.dtypes import dtype_name
from agrad.errors import TracedValueError
from agrad.registry import PRIMITIVES
from agrad.shapes import size

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
            with pytest.raises(
                TracedValueError, match=r"(does not support vmap|that vmap maps over|a mapped mask).* .*agrad\.where"
            ):
                agrad.vmap(case.call, in_axes=axes(mapped))(*given)
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
