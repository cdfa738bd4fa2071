"""What shares memory, overlapping writes, how long views live, and random programs of views and writes."""

import gc
import operator
import weakref
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import array_api_compat.numpy
import numpy as np
import pytest
from cases import CASES
from checker import assert_close, host, outputs
from crossing import each
from leaves import leaf, shares
from random_programs.comparing import Wrong, same
from random_programs.outcomes import OK, UNDECIDED, run
from random_programs.program import FREQUENT, OPERATIONS, Program, generate
from random_programs.ways import Case as ProgramCase
from table import Case

import agrad
from agrad.backends import load
from agrad.errors import ReadOnlyViewError

MATRIX = np.arange(1.0, 7.0).reshape(2, 3)


# ---------------------------------------------------------------- overlaps, aliases, memory


def test_elements_that_share_a_place_cannot_be_written(backend: str) -> None:
    x = agrad.asarray([1.0, 2.0])
    for wide in (agrad.broadcast_to(x, (3, 2)), agrad.broadcast_arrays(x, agrad.ones((3, 2)))[0]):
        for change in (lambda v=wide: operator.iadd(v, 1), lambda v=wide: operator.setitem(v[0], 0, 5.0)):
            # a library without views repeats the elements
            with pytest.raises(ReadOnlyViewError, match="copy=True") if shares(backend) else nullcontext():
                change()
        expected = [[1, 2]] * 3 if shares(backend) else [[5, 3], [2, 3], [2, 3]]
        own = agrad.asarray(wide, copy=True)
        own[0] += 1
        assert host(own).tolist() == [[n + 1 for n in expected[0]], *expected[1:]]
        assert host(wide).tolist() == expected
    assert host(x).tolist() == [1, 2]


def test_a_repeated_element_is_an_array_of_its_own(backend: str, place: Any) -> None:
    here = load(backend)
    for shape, times in (((1,), (3,)), ((1,), (2, 1)), ((2, 1), (1, 1, 2)), ((2, 3), (2, 1))):
        x = place(np.full(shape, 0.5))
        y = agrad.tile(x, times)
        assert_close(y, np.full(np.tile(np.zeros(shape), times).shape, 0.5), "value", 0.0)
        if here.shares_memory is not None:
            assert not here.shares_memory(y, x)
            assert here.memory(y) is not None
            assert here.memory(agrad.reshape(y, (-1,))) == here.memory(y)


def has_elements(case: Case) -> bool:
    """Whether there is something to write to, and something that the write could reach."""
    arguments = case.arguments()
    results = outputs(case.reference(array_api_compat.numpy, *arguments)) if any(map(np.size, arguments)) else ()
    return any(map(np.size, results))


ALIAS = [case for case in CASES if case.row.by_name and not case.example.reference and has_elements(case)]
"""Calls of functions that the array libraries have under the same name."""


@each(ALIAS)
def test_results_share_memory_as_the_librarys_own_do(case: Case, backend: str, place: Any) -> None:
    """A write to a result reaches an argument, or is refused, just where the array library's own shares memory.

    A library without views has those of NumPy that can be written.
    """
    own = load(backend)
    like = own if shares(backend) else load("numpy")
    arguments = [place(a) if isinstance(a, np.ndarray) else a for a in case.arguments()]
    tensors = [agrad.asarray(a) if hasattr(a, "shape") else a for a in arguments]
    theirs = arguments if like is own else case.arguments()
    arrays = [(t, a) for t, a in zip(tensors, theirs, strict=True) if isinstance(t, agrad.Tensor)]
    # agrad's vocabulary on NumPy has words of its own for what NumPy has
    library = array_api_compat.numpy if like is load("numpy") else own.xp
    native = outputs(case.reference(library, *theirs))
    for out, result in zip(outputs(case.call(*tensors)), native, strict=True):
        copied = like is not own and like.read_only(result)
        sharing = [like.shares_memory(result, a) and not copied for _, a in arrays]
        before = [host(t).copy() for t, _ in arrays]
        try:
            out[...] = True if out.dtype == agrad.bool else 77
        except ReadOnlyViewError:
            assert any(sharing)
            assert own.read_only(result) or out.size > min(b.size for b in before)
        else:
            assert [not np.array_equal(host(t), b) for (t, _), b in zip(arrays, before, strict=True)] == sharing


def test_a_view_holds_its_base_and_no_base_its_views(backend: str) -> None:
    gc.disable()
    try:
        x = agrad.asarray(MATRIX.tolist()) * 1
        view = agrad.reshape(x, (6,))
        seen = [weakref.ref(x), weakref.ref(view), weakref.ref(x[0]), weakref.ref(x.T)]
        view[0] = 5.0
        assert [r() is None for r in seen] == [False, False, True, True]
        del x
        view += 1
        assert seen[0]() is None  # nobody but the view held it, so the write let it go
        del view
        assert all(r() is None for r in seen)
        # the other order: the base goes last, and knows no dead view
        x = agrad.asarray(MATRIX.tolist()) * 1
        for _ in range(100):
            view = x[0]
            view += 1
        del view
        assert not weakref.getweakrefs(x)
    finally:
        gc.enable()


def test_views_of_a_base_that_is_gone_know_one_another(backend: str) -> None:
    w = leaf([1.0, 2.0, 3.0])
    x = w * 1
    head, tail = x[:2], x[1:]
    del x
    head *= 10
    assert host(tail).tolist() == [20, 3]
    deep = tail[:1]
    del head, tail
    deep += 1
    assert host(deep).tolist() == [21]
    agrad.sum(deep).backward()
    assert_close(w.grad, [0, 10, 0], "gradient")


def test_a_thousand_views_of_views(backend: str) -> None:
    """Neither time nor memory goes with the square of their number, and no recursion with their depth."""
    x = leaf(np.ones((3, 4)).tolist()) * 1
    for _ in range(500):
        x = x.T
        x += 1
    assert host(x).tolist() == np.full((3, 4), 501.0).tolist()
    y = x
    for _ in range(3000):
        y = agrad.reshape(y, (2, 6))
    y[0, 0] = 0.0
    assert host(x)[0, 0] == 0.0
    assert y.shape == (2, 6)


# ---------------------------------------------------------------- the notation


def test_a_put_rule_makes_an_own_operation_give_views() -> None:
    @agrad.primitive(linear="x")
    def upper(xp: Any, x: Any, /, *, rows: int = 1) -> Any:
        return x[:rows, ...]

    @upper.vjp
    def upper_vjp(xp: Any, g: Any, x_meta: Any, *, rows: int) -> Any:
        return xp.scatter_add(g, index=(slice(0, rows),), shape=x_meta.shape)

    w = leaf(MATRIX.tolist())
    x = w * 1
    alone = upper(x, rows=1)
    alone += 1
    assert_close(x, MATRIX, "without a put rule nothing is shared")

    @upper.write_back
    def upper_put(xp: Any, x: Any, value: Any, *, rows: int) -> Any:
        return xp.setitem(x, value, index=(slice(0, rows),))

    view = upper(x, rows=1)
    view *= 3
    assert_close(x, MATRIX * [[3], [1]], "with one it is")
    agrad.sum(x).backward()
    assert_close(w.grad, [[3, 3, 3], [1, 1, 1]], "gradient")


# ---------------------------------------------------------------- random programs

STEPS = 16
ALIKE = [*FREQUENT, *[op for op in FREQUENT if not OPERATIONS[op].writes] * 6]
"""Writes, and as many views."""
NO_VIEWS = ("[0]", "::-1", "flip")
"""Parts of texts that have other views on PyTorch, or if no axis is left, than on NumPy."""


def program_of(seed: int, backend: str) -> Program:
    """Return a program of views and writes, all of whose arrays are results."""
    among = [op for op in ALIKE if backend == "numpy" or not any(part in op for part in NO_VIEWS)]
    program = generate(seed, among, STEPS)
    return replace(program, outputs=tuple(step.name for step in program.steps if not step.writes))


def as_on_numpy(case: ProgramCase, backend: str) -> bool:
    """Return whether a backend has the views of NumPy in a program: those of no axes are scalars on NumPy alone."""
    return all(map(np.ndim, case.expected)) and (backend != "torch" or "::-1" not in case.program.source())


def compare(case: ProgramCase, place: Any) -> None:
    """Raise ``Wrong`` unless a program has the values and gradients of NumPy on the selected backend."""
    given = [place(x) for x in case.fresh()]
    same("values", case.function(*map(agrad.asarray, given)), case.expected, case.exact)
    same("what was given", [*map(agrad.asarray, given)], case.inputs, 0.0)
    with agrad.use_backend("numpy"):
        expected = [host(g) for g in case.gradient]
    gradients = agrad.grad(case.loss, case.argnums)(*given)
    same("gradients", [*map(agrad.asarray, gradients)], expected, case.close)


def faults(program: Program, backend: str, place: Any) -> list[str]:
    if backend == "numpy":
        outcomes = [run(program, way) for way in ("values", "reverse", "forward", "imperative")]
        return [f"{outcome}\n{program.source()}" for outcome in outcomes if outcome.verdict not in (OK, UNDECIDED)]
    try:
        if as_on_numpy(case := ProgramCase(program), backend):
            compare(case, place)
    except Wrong as error:
        return [f"{error}\n{program.source()}"]
    return []


@pytest.mark.parametrize("first", range(0, 60, 4))
def test_programs_of_views_and_writes(first: int, backend: str, place: Any) -> None:
    found = [faults(program_of(seed, backend), backend, place) for seed in range(first, first + 4)]
    assert not any(found), "\n".join(text for texts in found for text in texts)
