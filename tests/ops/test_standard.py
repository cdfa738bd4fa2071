"""The namespace of the array API standard 2025.12: all of it is there, with the values of the array library below."""

import re
from collections.abc import Callable
from typing import Any

import array_api_compat
import cases  # noqa: F401 - fills the table
import conformance
import numpy as np
import pytest
from checker import assert_close, host, outputs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from refusals import each_fails, fails
from standard_names import STANDARD, WITHOUT_DERIVATIVE
from table import COMPOSITES, ROWS, named

import agrad
from agrad.backends import load, selected
from agrad.dtypes import DTYPES, dtype_name, is_floating
from agrad.errors import DetachError, DtypeError, IndexRangeError, OperandError, ShapeError
from agrad.ops.sets import _found

SHOWN = {"sign", "linalg.matmul", "linalg.matrix_transpose", "linalg.tensordot", "linalg.vecdot"}
"""Functions without a row of their own, whose derivatives ``test_complex_input.py`` compares with differences."""

quick = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def test_every_function_is_there() -> None:
    assert len(STANDARD) > 170
    assert not [name for name in STANDARD if not callable(named(agrad, name))]


def test_constants_and_dtypes_are_there() -> None:
    assert (agrad.e, agrad.pi, agrad.inf) == (np.e, np.pi, np.inf)
    assert agrad.nan != agrad.nan
    assert agrad.newaxis is None
    for name in ("bool", "int8", "uint64", "float32", "complex128"):
        assert getattr(agrad, name) is DTYPES[name]


def test_absence_of_a_derivative_is_a_decision() -> None:
    """Every function of the standard is on the list of those without a derivative, or is shown to have one."""
    derived = {name for name, row in {**ROWS, **COMPOSITES}.items() if not row.constant} | SHOWN
    assert set(WITHOUT_DERIVATIVE) <= set(STANDARD)
    assert set(STANDARD) - derived == set(WITHOUT_DERIVATIVE)
    assert not derived & set(WITHOUT_DERIVATIVE)


# ---------------------------------------------------------------- values, for any shape and dtype

_FLOATS = ("float32", "float64")
_INTEGERS = ("int8", "int32", "int64", "uint8")
_SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


def arrays(dtypes: tuple[str, ...], shapes: Any = _SHAPES) -> Any:
    """NumPy arrays of these dtypes with values at which no function overflows."""

    def of(dtype: str) -> Any:
        if dtype == "bool":
            elements: Any = st.booleans()
        elif "int" in dtype:
            elements = st.integers(0 if dtype.startswith("u") else -5, 9)
        else:
            elements = st.floats(-4, 4, width=32, allow_subnormal=False)
        return hnp.arrays(dtype, shapes, elements=elements)

    return st.sampled_from(dtypes).flatmap(of)


def check(name: str, place: Any, *args: Any, **how: Any) -> None:
    """On raw arrays and on Tensors, recorded where they can be, a function says what the array library says."""
    placed = [place(a) if isinstance(a, np.ndarray) else a for a in args]
    expected = outputs(named(selected().backend.xp, name)(*placed, **how))
    tensors = [agrad.asarray(a) if hasattr(a, "shape") else a for a in placed]
    for tensor in tensors:
        if isinstance(tensor, agrad.Tensor) and is_floating(tensor.dtype):
            tensor.requires_grad = True
    for got in (outputs(named(agrad, name)(*placed, **how)), outputs(named(agrad, name)(*tensors, **how))):
        assert len(got) == len(expected)
        for mine, theirs in zip(got, expected, strict=True):
            assert dtype_name(mine.dtype) == dtype_name(theirs.dtype)
            assert tuple(mine.shape) == tuple(theirs.shape)
            own = mine.raw if isinstance(mine, agrad.Tensor) else mine
            # the order in which a library adds or multiplies is its own: a few roundings of float32
            assert_close(own, theirs, name, 1e-6)


def one(data: Any, dtypes: Any, side: int = 3, least: int = 1) -> Any:
    return data.draw(arrays(dtypes, hnp.array_shapes(min_dims=least, max_dims=3, min_side=0, max_side=side)))


def two(data: Any, dtypes: Any, least: int) -> list[Any]:
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, min_dims=least, max_dims=3, max_side=3))
    return [data.draw(arrays(dtypes, st.just(shape))) for shape in shapes.input_shapes]


_NUMBERS = (*_FLOATS, *_INTEGERS)
DRAWN: dict[str, Any] = {
    **dict.fromkeys(
        ["negative", "square", "abs", "sign", "positive", "floor", "trunc"], lambda d: ([one(d, _NUMBERS, 3, 0)], {})
    ),
    "isnan": lambda d: ([one(d, _FLOATS, 3, 0)], {}),
    # at least one dimension: to PyTorch's operators an array of none has a weak dtype
    **dict.fromkeys(
        ["add", "multiply", "subtract", "less", "equal", "maximum"],
        lambda d: (two(d, d.draw(st.sampled_from([_FLOATS, ("int32", "int64")])), 1), {}),
    ),
    **dict.fromkeys(
        ["hypot", "atan2", "logaddexp", "copysign", "nextafter"],
        lambda d: (two(d, (d.draw(st.sampled_from(_FLOATS)),), 0), {}),
    ),
    **dict.fromkeys(
        ["sum", "prod", "max", "min", "count_nonzero", "any"],
        lambda d: (
            [x := d.draw(arrays(_NUMBERS, hnp.array_shapes(max_dims=3, max_side=3)))],
            {"axis": d.draw(st.none() | st.integers(-x.ndim, x.ndim - 1)), "keepdims": d.draw(st.booleans())},
        ),
    ),
    "tile": lambda d: ([one(d, _NUMBERS), (d.draw(st.integers(0, 3)), 2)], {}),
    **dict.fromkeys(
        ["roll", "repeat"],
        lambda d: (
            [
                x := d.draw(arrays((*_NUMBERS, "bool"), hnp.array_shapes(max_dims=3, max_side=3))),
                d.draw(st.integers(0, 3)),
            ],
            {"axis": d.draw(st.integers(-x.ndim, x.ndim - 1))},
        ),
    ),
    **dict.fromkeys(
        ["sort", "argsort", "flip", "unstack", "cumulative_sum"],
        lambda d: (
            [x := d.draw(arrays(_NUMBERS, hnp.array_shapes(max_dims=3, max_side=4)))],
            {"axis": d.draw(st.integers(-x.ndim, x.ndim - 1))},
        ),
    ),
}
"""Functions with what draws their arguments and options."""


@pytest.mark.parametrize("name", DRAWN)
@quick
@given(data=st.data())
def test_values_of_any_shape_and_dtype(name: str, place: Any, data: Any) -> None:
    given_arrays, options = DRAWN[name](data)
    check(name, place, *given_arrays, **options)


# ---------------------------------------------------------------- at the edges


def test_atan2_far_from_the_origin_does_not_overflow() -> None:
    g1, g2 = agrad.grad(lambda a, b: agrad.sum(agrad.atan2(a, b)), argnums=(0, 1))(np.full(1, 3e200), np.full(1, 4e200))
    assert_close(g1 * 1e200, np.asarray([0.16]), "by the first", 1e-14)
    assert_close(g2 * 1e200, np.asarray([-0.12]), "by the second", 1e-14)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_and_remainders_at_infinities_are_those_of_numpy(dtype: str, place: Any) -> None:
    edges = np.asarray([np.inf, -np.inf, np.nan, 2.5, -2.5, 0.0, -0.0, 7.0, 0.1, 1.0])
    x1, x2 = (part.reshape(-1).astype(dtype) for part in np.meshgrid(edges, edges))
    for name in ("floor_divide", "remainder"):
        np.testing.assert_array_equal(host(getattr(agrad, name)(place(x1), place(x2))), getattr(np, name)(x1, x2), name)


def test_expm1_where_numpy_strays_from_the_standard() -> None:
    inf = np.inf
    with np.errstate(invalid="ignore"):
        got = agrad.expm1(agrad.asarray([complex(inf, 0.0), complex(-inf, inf), 1e-20 + 0j])).numpy()
    assert got.tolist() == [complex(inf, 0.0), complex(-1.0, 0.0), 1e-20 + 0j]


def test_an_integer_sum_in_a_narrow_dtype_wraps(place: Any) -> None:
    x = place(np.asarray([200, 100], np.uint8))
    for got, expected in (
        (agrad.sum(x, dtype=agrad.uint8), 44),
        (agrad.prod(x, dtype=agrad.uint8), 32),
        (agrad.cumulative_sum(x, dtype=agrad.uint8)[1], 44),
        (agrad.cumulative_prod(x, dtype=agrad.uint8)[1], 32),
    ):
        assert dtype_name(got.dtype) == "uint8"
        assert int(host(got)) == expected


def test_running_products_of_many_elements_have_an_exact_derivative() -> None:
    x = np.random.default_rng(0).uniform(0.9, 1.1, 1001)
    x[[300, 700]] = 0.0
    got = agrad.grad(lambda v: agrad.sum(agrad.cumulative_prod(v)))(x)
    before = np.concatenate([[1.0], np.cumprod(x)[:-1]])
    expected = [before[j] * (1 + np.cumprod(x[j + 1 :]).sum()) for j in range(len(x))]
    assert_close(got, np.asarray(expected), "gradient", 1e-13)


def test_sets_have_named_parts(place: Any) -> None:
    x = agrad.asarray(place(np.asarray([3.0, 1.0, 3.0])))
    found = agrad.unique_all(x)
    assert found._fields == ("values", "indices", "inverse_indices", "counts")
    assert all(isinstance(part, agrad.Tensor) for part in found)
    assert agrad.unique_counts(x)._fields == ("values", "counts")
    assert agrad.unique_inverse(x)._fields == ("values", "inverse_indices")


def test_isin_by_comparison_is_that_of_a_library_that_has_it() -> None:
    x1, x2 = np.asarray([[1.0, np.nan], [3.0, 4.0]]), np.asarray([[3.0, 1.0], [np.nan, 9.0]])
    assert _found(np, x1, x2).tolist() == np.isin(x1, x2).tolist() == agrad.isin(x1, x2).tolist()


def test_nonzero(place: Any) -> None:
    x = place(np.asarray([[0.0, 2.0], [3.0, 0.0]]))
    for got in (agrad.nonzero(x), agrad.nonzero(agrad.asarray(x, requires_grad=True))):
        assert [host(part).tolist() for part in got] == [[0, 1], [1, 0]]
    fails(ShapeError, "at least 1 axis", lambda: agrad.nonzero(place(np.asarray(1.0))))


BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda x: agrad.repeat(x, -1), OperandError, "repeats must not be negative, got -1"),
    (lambda x: agrad.repeat(x, np.asarray([1, 2, 3])), ShapeError, r"axis of length 2, got \(3,\)"),
    (lambda x: agrad.repeat(x, np.asarray([1.0, 2.0])), DtypeError, "integer dtype, got dtype float64"),
    (lambda x: agrad.repeat(x, np.asarray([1, -2])), OperandError, "repeats must not be negative"),
    (lambda x: agrad.tile(x, (-1,)), OperandError, r"tile: .* not be negative, got \(-1,\)"),
    (lambda x: agrad.roll(x, (1, 2)), ShapeError, r"got None for the shifts \(1, 2\)"),
    (lambda x: agrad.roll(x, (1, 2), axis=0), ShapeError, r"2 shifts \(1, 2\) and 1 axes \(0,\)"),
    (lambda x: agrad.diff(x, n=-1), OperandError, "diff: n must not be negative, got -1"),
    (lambda x: agrad.sort(x, axis=1), IndexError, "axis 1 is out of range for an array of 1 dim"),
    (lambda x: agrad.searchsorted(x, x, side="up"), OperandError, "side must be 'left' or 'right', got 'up'"),
    (lambda x: agrad.searchsorted(agrad.reshape(x, (1, 2)), x), ShapeError, r"must be 1-D, got shape \(1, 2\)"),
    (lambda x: agrad.take_along_axis(x, np.asarray([[0]])), OperandError, r"1 axes, got int64 of shape \(1, 1\)"),
    (lambda x: agrad.take_along_axis(x, np.asarray([True])), OperandError, r"integer array .* got bool of shape"),
    (lambda x: agrad.full_like(x, x), ShapeError, r"a scalar, got an array of shape \(2,\)"),
    (lambda x: agrad.cumulative_prod(agrad.reshape(x, (1, 2))), ShapeError, "axis must be an integer for an array of"),
    (lambda x: agrad.from_dlpack([1.0]), OperandError, r"got list\. Use agrad\.asarray"),
    (lambda x: agrad.finfo(agrad.int32), DtypeError, "finfo: dtype must be real floating .* got int32"),
    (lambda x: agrad.iinfo(agrad.float32), DtypeError, "iinfo: dtype must be signed integer .* got float32"),
]


def test_bad_arguments_are_errors_of_agrad() -> None:
    for x in (np.asarray([1.0, 2.0]), agrad.asarray([1.0, 2.0])):
        each_fails(BAD, x)


# ---------------------------------------------------------------- the namespace as others see it


def test_array_api_compat_finds_the_namespace(place: Any) -> None:
    x = agrad.asarray(place(np.ones(2)), requires_grad=True)
    assert array_api_compat.array_namespace(x, agrad.ones(2)) is agrad
    assert x.__array_namespace__(api_version="2025.12") is agrad
    assert array_api_compat.is_array_api_obj(x)
    assert array_api_compat.device(x) == x.device
    assert array_api_compat.size(x) == 2
    assert array_api_compat.to_device(x, x.device) is x
    fails(ValueError, r"2025\.12", x.__array_namespace__, api_version="2031.12")


def test_the_namespace_describes_the_selected_backend(backend: str) -> None:
    info = agrad.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] is True
    assert info.default_device() in info.devices()
    assert agrad.zeros(1).device == info.default_device()
    assert info.default_dtypes()["real floating"] is agrad.zeros(1).dtype
    assert info.default_dtypes(device=info.default_device())["integral"] is agrad.arange(2).dtype
    assert info.dtypes()["float32"] is agrad.float32
    assert set(info.dtypes(kind="complex floating")) == {"complex64", "complex128"}
    both = set(info.dtypes(kind=("bool", "unsigned integer")))
    assert {"bool", "uint8"} <= both <= {"bool", "uint8", "uint16", "uint32", "uint64"}


def test_limits_are_python_numbers(backend: str) -> None:
    for dtype, part in ((agrad.float32, agrad.float32), (agrad.complex128, agrad.float64)):
        found = agrad.finfo(dtype)
        assert found.dtype is part
        assert found.eps == float(np.finfo(part.name).eps)
        assert {type(v) for v in (found.eps, found.max, found.min, found.smallest_normal)} == {float}
    assert agrad.iinfo(np.dtype("int16")).max == 32767
    assert agrad.finfo(np.dtype("float32")).bits == 32
    assert (agrad.iinfo(agrad.int8).min, agrad.iinfo(agrad.zeros(2, dtype=agrad.uint8)).max) == (-128, 255)
    assert (agrad.finfo(np.complex64).bits, agrad.result_type(np.float32, agrad.float64)) == (32, agrad.float64)


def test_dlpack_both_ways() -> None:
    source = np.asarray([1.0, 2.0])
    x = agrad.from_dlpack(source)
    assert np.shares_memory(x.raw, source)
    assert not np.shares_memory(agrad.from_dlpack(source, copy=True).raw, source)
    assert np.shares_memory(np.from_dlpack(x), source)
    assert x.__dlpack_device__() == source.__dlpack_device__()
    strict = load("array_api_strict").xp.asarray([3.0])
    assert agrad.from_dlpack(strict).backend == "numpy"
    assert agrad.from_dlpack(source, backend="array_api_strict").backend == "array_api_strict"


def test_dlpack_loses_no_gradient_silently() -> None:
    x = agrad.asarray([1.0, 2.0], requires_grad=True)
    fails(DetachError, "detach", np.from_dlpack, x)
    agrad.sum(agrad.from_dlpack(x) ** 2).backward()
    assert_close(x.grad, np.asarray([2.0, 4.0]), "gradient")


def test_a_dtype_is_unlike_what_is_no_dtype() -> None:
    for other in ({}, [], None, 3, object()):
        assert agrad.float32 != other


def test_grids_and_broadcast_arrays_are_tuples(place: Any) -> None:
    x = place(np.arange(2.0))
    assert type(agrad.meshgrid(x, x)) is tuple
    assert type(agrad.broadcast_arrays(x, x)) is tuple
    assert agrad.broadcast_shapes((2, 1), (3,)) == (2, 3)
    assert agrad.broadcast_shapes() == ()


def test_creation_from_raw_arrays_is_raw(place: Any) -> None:
    one = place(np.asarray(1.0))
    for got in (agrad.linspace(one, one, 3), agrad.full_like(place(np.zeros(2)), one)):
        assert not isinstance(got, agrad.Tensor)
        assert host(got).tolist() == [1.0] * len(host(got))


def test_a_list_of_tensors_goes_where_it_is_told() -> None:
    x = agrad.asarray([1.0, 2.0], requires_grad=True)
    moved = agrad.asarray([x, x * 2], backend="array_api_strict", dtype=agrad.float32)
    assert (moved.backend, moved.dtype) == ("array_api_strict", agrad.float32)
    agrad.sum(moved).backward()
    assert_close(x.grad, [3.0, 3.0], "gradient")
    leaf = agrad.asarray([agrad.asarray(1.0), 2.0], requires_grad=True)
    assert leaf.requires_grad
    assert leaf.is_leaf


# ---------------------------------------------------------------- the script that runs the conformance suite


def test_a_failure_is_known_by_the_beginning_of_its_name_and_backend() -> None:
    known = conformance.known_failures("numpy")
    assert all(known.values())
    listed = next(iter(known)) + " with more behind"
    assert conformance.unexpected(frozenset([listed, "test_linalg::test_inv"]), known) == ["test_linalg::test_inv"]
    assert len(conformance.known_failures("torch")) > len(known)


def test_the_committed_page_counts_no_failure_without_a_reason() -> None:
    """And no entry of the list is about a backend that the page has no line of."""
    lines = conformance.read_lines(conformance.PAGE.read_text(encoding="utf-8"))
    own = [line for line in lines if line.namespace.startswith("agrad")]
    assert {line.backend for line in own} >= {"numpy", "array_api_strict", "torch"}
    for line in own:
        assert line.cells[2] == "0", line


@pytest.mark.parametrize("dtype", ["object", "U3", "S3", "M8[D]", "m8[s]", "i4,f8"])
def test_asarray_takes_numbers_alone(dtype: str) -> None:
    fails(
        DtypeError, "asarray: .* have a numeric or Boolean dtype, got .*Convert it", agrad.asarray, np.zeros(2, dtype)
    )


def test_a_result_of_no_dimensions_is_an_array_to_an_index_with_too_many(backend: str) -> None:
    x, mask = agrad.sum(agrad.ones(2, backend=backend)), agrad.asarray([True, False], backend=backend)
    for index in (mask, 0):  # as of arrays, where the standard's suite asks for it
        fails(IndexError, r"in(dex|dices)\b", x.__getitem__, index)


def test_numbers_among_the_arrays_of_another_library(backend: str) -> None:
    x = agrad.ones((), backend=backend)
    if backend == "torch":  # JAX and Dask take them
        with pytest.raises(OperandError, match=f"operands must be arrays, got the number .*backend='{backend}'"):
            agrad.stack([np.float64(1.0), x])
    assert host(agrad.stack([agrad.asarray(1.0, dtype=x.dtype, backend=backend), x])).tolist() == [1.0, 1.0]


def test_searchsorted_takes_any_layout(place: Any) -> None:
    table = place(np.asarray([[0.0, 0.5], [1.0, 2.5], [2.0, 1.0]]))
    assert host(agrad.searchsorted(table[:, 0], table[:, 1], side="right")).tolist() == [1, 3, 2]


# ---------------------------------------------------------------- texts of errors

A = np.arange(6.0).reshape(1, 2, 3)
OPERATIONS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: agrad.squeeze(x, axis=1), ShapeError, "squeeze: axis 1 must have length 1, got 2"),
    (lambda x: agrad.squeeze(x, axis=(0, -1)), ShapeError, "squeeze: axis 2 must have length 1, got 3"),
    (lambda x: agrad.squeeze(x, axis=3), IndexRangeError, "axis 3 is out of range for an array of 3 dimensions"),
    (lambda x: agrad.squeeze(2.0, axis=0), OperandError, "squeeze: arguments must be Tensors or arrays, got float"),
    (lambda x: agrad.concat(x), OperandError, "concat: arrays must be a list or tuple of arrays, got one array"),
    (lambda x: agrad.stack(x), OperandError, "stack: arrays must be a list or tuple of arrays, got one array"),
    (lambda x: agrad.concat([]), ShapeError, "concat: arrays must contain at least one array"),
    (lambda x: agrad.stack(()), ShapeError, "stack: arrays must contain at least one array"),
    (lambda x: agrad.broadcast_to(x, (1, 2, 4)), ShapeError, "that x of shape (1, 2, 3) broadcasts to, got (1, 2, 4)"),
    (lambda x: agrad.broadcast_to(x, (2, 3)), ShapeError, "that x of shape (1, 2, 3) broadcasts to, got (2, 3)"),
    (
        lambda x: agrad.matrix_transpose(x[0, 0, ...]),
        ShapeError,
        "matrix_transpose: x must have at least 2 axes, got shape (3",
    ),
]
EINSUM: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: np.einsum("ijk,k->i", x), ValueError, "subscripts must describe 1 operands, got 2"),
    (lambda x: np.einsum("ijk->i", x, x), ValueError, "subscripts must describe 2 operands, got 1"),
    (lambda x: np.einsum("ij->i", x), ValueError, "the indices 'ij' do not match an operand of shape (1, 2, 3)"),
    (lambda x: np.einsum("hijk->i", x), ValueError, "the indices 'hijk' do not match an operand of shape (1, 2, 3)"),
    (lambda x: np.einsum("...hijk", x), ValueError, "the indices '...hijk' do not match an operand of shape (1, 2, 3)"),
    (lambda x: np.einsum("ijk->jj", x), ValueError, "must be distinct indices of the operands, got 'jj'"),
    (lambda x: np.einsum("ijk->il", x), ValueError, "must be distinct indices of the operands, got 'il'"),
    (lambda x: np.einsum("ijj->i", x), ValueError, "the index 'j' must have one length, got 2 and 3"),
    (lambda x: np.einsum("ijk,ikj->", x, x), ValueError, "the index 'k' must have one length, got 3 and 2"),
    (lambda x: np.einsum("ijk->", x, chosen=1), TypeError, "numpy.einsum: unexpected keyword arguments: chosen"),
]


def test_of_operations(place: Any) -> None:
    raw = place(A)
    for x in (raw, agrad.asarray(raw), agrad.asarray(raw, requires_grad=True)):
        each_fails([(call, error, re.escape(text)) for call, error, text in OPERATIONS], x)


def test_of_sums_over_indices(place: Any) -> None:
    each_fails([(call, error, re.escape(text)) for call, error, text in EINSUM], agrad.asarray(place(A)))
