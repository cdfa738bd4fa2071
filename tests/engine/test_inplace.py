"""Change in place: views of every kind, leaves and their views, recording and not, and what is refused."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from leaves import leaf
from modes import DERIVATIVES, MODES, check_same
from refusals import fails

import agrad
from agrad.errors import DtypeError, LeafMutationError, OperandError, ReadOnlyViewError, ShapeError

MATRIX = np.arange(1.0, 7.0).reshape(2, 3)

VIEWS: dict[str, Callable[[Any], Any]] = {
    "row": lambda x: x[0],
    "row of a slice": lambda x: x[:, 1:][1],
    "strided": lambda x: x[:, ::2],
    "new axis": lambda x: x[None, :, 1],
    "everything": lambda x: x[...],
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "permute_dims": lambda x: agrad.permute_dims(x, (1, 0)),
    "moveaxis": lambda x: agrad.moveaxis(x, 0, 1),
    "reshape": lambda x: agrad.reshape(x, (6,)),
    "reshape of a part": lambda x: agrad.reshape(x[1], (3, 1)),
    "expand_dims": lambda x: agrad.expand_dims(x, axis=1),
    "squeeze": lambda x: agrad.squeeze(x[None], 0),
    "unstack": lambda x: agrad.unstack(x, axis=1)[2],
    "iteration": lambda x: list(x)[1],
    "astype without a copy": lambda x: agrad.astype(x, x.dtype, copy=False),
    "real of real": agrad.real,
    "broadcast_to its own shape": lambda x: agrad.broadcast_to(x, (1, 2, 3)),
    "diagonal": lambda x: agrad.linalg.diagonal(x, offset=1),
    "chain": lambda x: agrad.reshape(x, (3, 2)).T[0, 1:],
}
COPIES = {key: {"broadcast_to its own shape", "diagonal"} for key in ("jax", "dask")}
READ_ONLY = {key: {"broadcast_to its own shape", "diagonal"} for key in ("numpy", "array_api_strict")}


@pytest.mark.parametrize("name", VIEWS)
def test_a_write_to_a_view_or_the_base_is_seen_in_both(name: str, backend: str, place: Any) -> None:
    """Values, and the derivatives of what was there and of what was written."""
    see = VIEWS[name]
    numbers = host(see(agrad.asarray(np.arange(6).reshape(2, 3).tolist()))).astype(int)
    copied = name in COPIES.get(backend, ())
    reached = np.isin(np.arange(6).reshape(2, 3), numbers) & (not copied)

    def of_view(x: Any) -> Any:
        return agrad.take(agrad.reshape(x, (6,)), place(numbers.reshape(-1)), axis=0)

    def written(w: Any, v: Any) -> Any:
        x = agrad.asarray(w) * 1
        view = see(x)
        if name in READ_ONLY.get(backend, ()):
            with pytest.raises(ReadOnlyViewError, match="copy"):
                view[...] = v
        else:
            view *= 2
            view[...] = view + v * v
        before = x * 1, agrad.reshape(view * 1, (-1,))
        x *= x
        x[0, 1] = 50.0
        return *before, agrad.reshape(view * 1, (-1,))

    def expected(w: Any, v: Any) -> Any:
        new = w if name in READ_ONLY.get(backend, ()) else 2 * w + v * v
        base = agrad.where(place(reached), new, w)
        after = agrad.where(place(np.arange(6).reshape(2, 3) == 1), 50.0, base * base)
        return base, of_view(new), of_view(new if copied else after)

    check_same(written, expected, (place(MATRIX), place(np.asarray(10.0))), ("value", "tangent", "backward"))


def test_parts_of_complex_arrays(backend: str, place: Any) -> None:
    """An infinite part leaves the other part alone, as no arithmetic mixes them."""
    if backend in ("array_api_strict", "cupy"):
        pytest.skip(f"{backend} gives no views of the parts")
    z = agrad.asarray([1 + 2j, 3 + 4j, complex(5, np.inf)])
    re, im = agrad.real(z), agrad.imag(z)
    re[...] = agrad.asarray([10.0, np.inf, 30.0], dtype=re.dtype)
    im[:1] = 7.0
    assert host(z).tolist() == [10 + 7j, complex(np.inf, 4), complex(30, np.inf)]
    z[1] = 1 - 1j
    assert host(re).tolist() == [10, 1, 30]
    assert host(im)[:2].tolist() == [7, -1]

    def parts(a: Any) -> Any:
        z = agrad.asarray(a) * (2 + 1j)
        agrad.real(z)[:1] *= 3
        agrad.imag(z)[1:] += agrad.sum(agrad.real(z))
        return z

    def plain(a: Any) -> Any:
        re, im = 2 * a, 1 * a
        re = agrad.concat([3 * re[:1], re[1:]])
        return re + 1j * agrad.concat([im[:1], im[1:] + agrad.sum(re)])

    check_same(parts, plain, (place(np.asarray([0.5, -1.0, 2.0])),), DERIVATIVES)


def test_parts_are_assigned(place: Any) -> None:
    def written(a: Any) -> Any:
        z = agrad.asarray(a) * (2 + 1j)
        view = z[1:]
        z.real = a * a
        view.imag += 1.0
        x = a * 1.0
        x.real = 3.0
        return agrad.real(z), agrad.imag(z) * x

    def expected(a: Any) -> Any:
        return a * a, 3.0 * (a + agrad.asarray(place(np.asarray([0.0, 1.0, 1.0]))))

    check_same(written, expected, (place(np.asarray([0.5, -1.0, 2.0])),), [m for m in MODES if m != "value"])
    z = agrad.asarray(place(np.asarray([1 + 2j, complex(np.inf, 1.0)])))
    z.imag = 5.0
    assert host(z).tolist() == [1 + 5j, complex(np.inf, 5.0)]
    fails(ReadOnlyViewError, "x.imag = v: x must be complex", setattr, agrad.real(z), "imag", 1.0)


# ---------------------------------------------------------------- the index of a write

INDICES: dict[str, Any] = {
    "negative int": -1,
    "negative step": (slice(None), slice(None, None, -1)),
    "empty tuple": (),
    "empty slice": slice(2, 2),
    "mask": np.asarray([[True, False, True], [False, True, False]]),
    "mask of rows": np.asarray([False, True]),
    "mask of nothing": np.asarray([False, False]),
    "True": True,
    "False": False,
    "0-d mask": np.asarray(True),
    "integers": [1, 0],
    "no integers": [],
    "integers and slice": (slice(None), [2, 0]),
    "integers and int": ([0, 1], 2),
    "integers behind an Ellipsis": (Ellipsis, [2, 0]),
    "integers between an Ellipsis and a slice": (Ellipsis, [1, 0], slice(None)),
    "pairs": ([0, 1], [2, 0]),
    "integers and mask": ([0, 1, 1], np.asarray([True, True, True])),
    "NumPy integer": np.int64(1),
    # Python's sequences
    "two tuples": ((0, 1), (1, 2)),
    "a tuple in a tuple": ((0, 1),),
    "nested": (((0, 1),),),
    "range": range(2),
    "range backwards": (range(1, -1, -1), 1),
    "truth values": ((True, False),),
    "behind an axis": (slice(None), (0, 2)),
    "empty sequence": ((),),
    "empty range": range(0),
    "list beside range": ([0, 1], range(2)),
}


@pytest.mark.parametrize("name", INDICES)
def test_every_kind_of_index_and_value(name: str, backend: str, place: Any) -> None:
    """Numbers, Tensors and plain arrays that fit or broadcast, operators, and reading: values and derivatives."""
    index, modes = INDICES[name], ("value", "backward")
    numbers = np.arange(6).reshape(2, 3)[index]
    at, picks = place(np.isin(np.arange(6), numbers).reshape(2, 3)), np.eye(6)[numbers.reshape(-1)]

    def pure(w: Any, value: Any) -> Any:
        flat = agrad.reshape(agrad.broadcast_to(value, numbers.shape), (-1,))
        return agrad.where(at, agrad.reshape(agrad.matmul(place(picks.T.copy()), flat), (2, 3)), w)

    def written(w: Any, value: Any) -> Any:
        x = agrad.asarray(w) * 1
        x[index] = value
        return x

    def by_operators(w: Any, value: Any) -> Any:
        x = agrad.asarray(w) * 1
        x[index] += value
        x[index] *= 2
        return x

    w, drawn = place(MATRIX), np.random.default_rng(5).uniform(1, 2, numbers.shape)
    for value in (drawn, drawn[..., :1] if numbers.shape else drawn, np.asarray(2.5)):
        check_same(written, pure, (w, place(value)), modes)
    for given in (place(drawn), 2.5):
        check_same(lambda w, v=given: written(w, v), lambda w, v=given: pure(w, agrad.asarray(v)), (w,), modes)
    times = lambda w, v: agrad.where(at, 2 * (w + v), w)  # noqa: E731
    check_same(by_operators, times, (w, place(np.asarray(3.0))), modes)
    read = lambda w: agrad.reshape(agrad.matmul(place(picks), agrad.reshape(w, (6,))), numbers.shape)  # noqa: E731
    check_same(lambda w: agrad.asarray(w)[index], read, (w,), modes)


def test_written_values_are_lists_with_tensors_or_are_cast(backend: str) -> None:
    a, b = leaf(2.0), leaf(5.0)
    x = agrad.zeros((2, 2), dtype=agrad.float64)
    x[0] = [a, b * b]
    x[1] = [0.1, 3]
    assert_close(x, [[2.0, 25.0], [0.1, 3.0]], "value")
    agrad.sum(x).backward()
    assert_close(b.grad, 10.0, "gradient")
    i = agrad.asarray([1, 2, 3])
    i[0] = 7.9
    i[1] = agrad.asarray(8.9)
    assert host(i).tolist() == [7, 8, 3]
    x = agrad.ones(2, dtype=agrad.float32)
    x[0] = agrad.asarray(0.1, dtype=agrad.float64)
    assert x.dtype == agrad.float32
    x = agrad.ones(3)
    x[...] = agrad.full((1, 1, 3), 2.0)  # axes of length one in front are left out
    assert host(x).tolist() == [2.0, 2.0, 2.0]


TWO_AND_ONE = np.asarray([[True, False, True], [True, False, False]])
WRONG: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: x.__setitem__((slice(None), slice(2)), agrad.ones(3)), ShapeError, r"of shape \(2, 2\), got shape \(3,"),
    (lambda x: x.__setitem__(0, agrad.ones((2, 3))), ShapeError, r"x\[i\] of shape \(3,\), got shape \(2, 3\)"),
    (lambda x: x.__setitem__(TWO_AND_ONE, agrad.ones(2)), ShapeError, r"x\[i\] of shape \(3,\), got shape \(2,\)"),
    (lambda x: x.__setitem__(0, 1j), DtypeError, r"complex.*agrad\.real"),
    (lambda x: x.__setitem__(0, agrad.ones(3, dtype=agrad.complex128)), DtypeError, r"complex.*agrad\.real"),
    (lambda x: x.__setitem__(5, 1.0), IndexError, "5"),
    (lambda x: x.__setitem__(0, "a"), OperandError, "str"),
    (lambda x: x["a"], OperandError, "str"),
    (lambda x: x[agrad.asarray([0.0])], DtypeError, "float"),
    (lambda x: x[(0, slice(None)),], DtypeError, "integer or Boolean"),
    (lambda x: x[0, 5], (IndexError, ShapeError), "5 is out of bounds|out of range"),
    (lambda x: x[0, 0, 0], (IndexError, ShapeError), "[tT]oo many ind"),
    *[(lambda x, i=i: x[i], IndexError, "ellipsis") for i in ((..., 0, ...), (0, ..., ...), (..., ..., [0, 1]))],
    *[(lambda x, i=i: x.__setitem__(i, 1.0), IndexError, "ellipsis") for i in ((..., 0, ...), (..., ..., [0, 1]))],
    (lambda x: operator.iadd(agrad.ones(2, dtype="float32"), agrad.ones(2, dtype="float64")), OperandError, "float32"),
    (lambda x: operator.iadd(x[:1], agrad.ones(3, dtype=agrad.complex128)), OperandError, r"float64.*complex"),
    (lambda x: operator.imul(x, agrad.ones((2, 2, 3), dtype=agrad.float64)), OperandError, "must have dtype"),
    (lambda x: operator.imul(x[:1], agrad.ones((2, 1, 3), dtype=agrad.float64)), OperandError, "must have dtype"),
    (lambda x: operator.itruediv(agrad.asarray([4, 5]), 2), TypeError, r"must have dtype|Only floating"),
]


@pytest.mark.parametrize(("change", "error", "match"), WRONG)
def test_indices_and_values_that_make_no_sense(change: Any, error: Any, match: str, backend: str) -> None:
    x = agrad.asarray(MATRIX.tolist(), dtype=agrad.float64)
    fails(error, match, change, x)
    assert_close(x, MATRIX, "unchanged")


# ---------------------------------------------------------------- leaves, and recording


def test_a_view_of_a_leaf_is_protected(backend: str) -> None:
    w = leaf(MATRIX.tolist())
    result = w.detach()[0] * w[1]
    result += 1
    assert_close(result, MATRIX[0] * MATRIX[1] + 1, "a result, and no view")
    late = agrad.asarray(MATRIX.tolist())
    row = late[0]
    late.requires_grad = True
    for view in (w[0], w.T, agrad.reshape(w, (6,))[1:], row):
        for change in (lambda v=view: operator.iadd(v, 1), lambda v=view: operator.setitem(v, 0, 5.0)):
            fails(LeafMutationError, "a view of it.*no_grad", change)
    for change in (lambda: operator.iadd(w, 1), lambda: operator.imul(w, w), lambda: operator.setitem(w, 0, 5.0)):
        fails(LeafMutationError, "no_grad", change)
    assert_close(late, MATRIX, "late leaf")
    assert_close(w, MATRIX, "leaf")
    assert w.is_leaf


def test_under_no_grad_the_values_change_and_the_tape_does_not(backend: str) -> None:
    """As in PyTorch: a leaf stays a leaf, a result keeps its derivative at the values it was made with."""
    w = leaf(MATRIX.tolist())
    row, y = w[0], w * w
    with agrad.no_grad():
        w[0, 0] = 10.0
        w *= 2
    assert w.is_leaf and w.requires_grad and row.requires_grad
    assert_close(w, [[20, 4, 6], [8, 10, 12]], "leaf")
    assert_close(row, [20, 4, 6], "view of the leaf")
    agrad.sum(y).backward()
    assert_close(w.grad, 2 * MATRIX, "gradient")
    w.zero_grad()
    agrad.sum(row).backward()
    assert_close(w.grad, [[1, 1, 1], [0, 0, 0]], "gradient through the view")
    with agrad.no_grad():
        row[1] = -1.0
    assert host(w)[0, 1] == -1
    assert w.is_leaf


def test_a_view_taken_under_no_grad(backend: str) -> None:
    """It follows; written to where operations are recorded it would lose the derivative, so that is refused."""
    w = leaf([1.0, 2.0, 3.0])
    x = w * 2
    with agrad.no_grad():
        view = x[:2]
    x *= 5
    assert not view.requires_grad
    assert host(view).tolist() == [10, 20]
    with pytest.raises(LeafMutationError, match=r"under agrad\.no_grad"):
        view *= 2
    assert host(x).tolist() == [10, 20, 30]
    with agrad.no_grad():
        view *= 2
    assert host(x).tolist() == [20, 40, 30]
    agrad.sum(x).backward()
    assert_close(w.grad, [10, 10, 10], "gradient")


def test_a_constant_view_takes_up_the_tape_with_its_base(backend: str) -> None:
    w, x = leaf(3.0), agrad.zeros(3, dtype=agrad.float64)
    head, tail = x[:2], x[1:]
    head += w * w
    assert host(head).tolist() == [9, 9]
    assert host(tail).tolist() == [9, 0]
    assert tail.requires_grad
    agrad.sum(tail + head).backward()
    assert_close(w.grad, 18.0, "gradient")


def test_what_a_write_does_not_reach(backend: str, place: Any) -> None:
    """Detached values, and the arrays that Tensors were made of."""
    x = leaf([1.0, 2.0]) * 1
    still = x.detach()
    x[0] = 5.0
    still[1] = 7.0
    assert host(still).tolist() == [1, 7]
    assert host(x).tolist() == [5, 2]
    raw, fixed = place(np.asarray([1.0, 2.0])), np.asarray([1.0, 2.0])
    fixed.flags.writeable = False
    for given in (raw, fixed):
        x = agrad.asarray(given)
        x[0] = 5.0
        assert host(given).tolist() == [1, 2]
        assert host(x).tolist() == [5, 2]


def test_assign(backend: str, place: Any) -> None:
    """What an optimizer does is no write: views of the old values keep them."""
    w = leaf([1.0, 2.0])
    view = w[:1]
    w.assign(place(np.asarray([5.0, 6.0])))
    assert host(view).tolist() == [1]
    assert w.is_leaf and w.requires_grad
    with agrad.no_grad():
        view += 1
        w += 1
    assert host(view).tolist() == [2]
    assert host(w).tolist() == [6, 7]
    for wrong in (np.zeros(3), np.zeros(2, np.float32)):
        fails(OperandError, "float64", w.assign, place(wrong))
    x, count = leaf([1.0, 2.0]), agrad.asarray(place(np.zeros(())))
    x.assign(x * 2)
    with agrad.no_grad():
        for _ in range(2):
            count.assign(count + 1)
    agrad.sum(x * x).backward()
    assert host(x.grad).tolist() == [4.0, 8.0]
    assert host(agrad.jit(lambda: count + 1)()) == 3.0

    def square(y: Any) -> Any:
        count.assign(y)
        return y * count

    assert host(agrad.grad(square)(place(np.asarray(5.0)))) == 5.0
    assert host(agrad.jit(agrad.grad(square))(place(np.asarray(6.0)))) == 6.0
    fails(OperandError, "raw must be an array that vmap does not map", lambda: agrad.vmap(square)(place(np.ones(3))))
    assert host(count + 1) == 7.0
