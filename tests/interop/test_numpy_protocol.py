"""NumPy's protocols beyond single functions: what is decided, what is refused, and what reads, copies and writes."""

import io
from typing import Any, ClassVar

import numpy as np
import numpy_page
import pytest
from processes import run_program
from refusals import fails

import agrad
from agrad import Tensor
from agrad.errors import DetachError, LeafMutationError, RefusedFunctionError
from agrad.interop.creation import LIKE
from agrad.interop.table import FUNCTIONS, REFUSED, UFUNCS


def leaf(*data: Any) -> Tensor:
    return agrad.asarray(np.asarray(data, dtype=np.float64), requires_grad=True)


# ---------------------------------------------------------------- the surface


def test_every_public_callable_of_numpy_is_decided() -> None:
    public = list(numpy_page.public())
    assert len(public) > 400
    undecided = [name for name, value in public if numpy_page.verdict(name, value) is None]
    assert not undecided, "each needs a handler, or a line in docs/numpy.md"


def test_the_check_of_decisions_sees_a_function_that_nobody_decided() -> None:
    assert numpy_page.verdict("nothing_of_the_kind", lambda x: x) is None


def test_the_page_says_what_the_code_does() -> None:
    text = numpy_page.PAGE.read_text(encoding="utf-8")
    missing = [line for line in numpy_page.page().splitlines() if line and line not in text]
    assert not missing, "write docs/numpy.md anew: python tests/numpy_page.py"


def test_every_dispatched_function_without_a_handler_is_refused_by_name() -> None:
    functions = {
        name for name, value in numpy_page.public() if isinstance(value, type(np.sum)) and value not in FUNCTIONS
    }
    ufuncs = {name for name, value in numpy_page.public() if isinstance(value, np.ufunc) and value not in UFUNCS}
    assert functions and ufuncs
    assert functions | ufuncs <= set(REFUSED)


# ---------------------------------------------------------------- operators


def test_an_ndarray_on_the_left_of_a_tensor() -> None:
    a, t = np.asarray([1.0, 2.0]), leaf(3.0, 4.0)
    for result, expected in (
        (a + t, [4, 6]), (a - t, [-2, -2]), (a * t, [3, 8]), (a / t, [1 / 3, 0.5]), (a**t, [1, 16]), (a @ t, 11),
        (a // t, [0, 0]), (a % t, [1, 2]), (np.float64(2) * t, [6, 8]), (np.divmod(a, t)[1], [1, 2]),
    ):  # fmt: skip
        assert isinstance(result, Tensor)
        np.testing.assert_allclose(result.detach().numpy(), expected)
    assert (a * t).requires_grad
    assert isinstance(a == t, Tensor)
    assert isinstance(a < t, Tensor)
    assert isinstance(np.asarray([True, False]) & (t > 3), Tensor)


def test_an_ndarray_is_not_written_into() -> None:
    a, t = np.ones(2), leaf(3.0, 4.0)
    with pytest.raises(DetachError, match=r"write a = a \+ b"):
        a += t
    fails(DetachError, "Omit out=", lambda: np.sum(leaf(1.0, 2.0), out=np.zeros(())))
    fails(RefusedFunctionError, r"agrad\.asarray", lambda: np.copyto(a, t))
    fails(RefusedFunctionError, r"agrad\.asarray", lambda: np.add.at(a, [0], t[:1]))
    with pytest.raises(ValueError) as caught:  # NumPy's own, of the one that says how to detach
        a[0] = t[0]
    assert isinstance(caught.value.__cause__, DetachError)
    np.testing.assert_array_equal(a, np.ones(2))
    np.add(a, agrad.asarray([1.0, 2.0]), out=a)
    np.testing.assert_array_equal(a, [2.0, 3.0])  # a constant has no gradient to lose


def test_arrays_of_two_libraries_are_an_error() -> None:
    t = agrad.asarray([1.0, 2.0], backend="array_api_strict")
    for call in (lambda: np.ones(2) * t, lambda: np.dot(np.ones(2), t), lambda: np.concatenate([np.ones(2), t])):
        fails(TypeError, r'\.to\("', call)


class Foreign:
    """A class that NumPy asks, and agrad does not know."""

    def __array_ufunc__(self, *args: Any, **settings: Any) -> str:
        return "foreign ufunc"

    def __array_function__(self, *args: Any) -> str:
        return "foreign function"


def test_an_unknown_class_is_asked_itself() -> None:
    assert np.add(leaf(1.0), Foreign()) == "foreign ufunc"
    assert np.stack([leaf(1.0), Foreign()]) == "foreign function"
    with pytest.raises(TypeError, match="all returned NotImplemented from __array_ufunc__"):
        np.add(leaf(1.0), np.ma.masked_array([1.0], mask=[True]))
    with pytest.raises(TypeError, match=r"MaskedArray is not differentiated: .* x\.filled\(value\)"):
        np.stack([leaf(1.0), np.ma.masked_array([1.0], mask=[True])])


class OnDevice(np.ndarray):
    """Memory that says it were a CUDA device's."""

    __cuda_array_interface__: ClassVar[dict[str, Any]] = {"version": 3}


def test_an_array_on_a_device_sees_no_memory_of_a_tensor_with_a_gradient() -> None:
    """CuPy's arrays compute with what has the attribute, and hand their operators to everything else."""
    t = agrad.asarray(np.ones(2).view(OnDevice))
    assert hasattr(t, "__cuda_array_interface__") and t.__array_ufunc__ is None
    t.requires_grad = True
    assert t.__array_ufunc__(np.add, "__call__", t, 1.0).tolist() == [2.0, 2.0]
    assert not hasattr(t, "__cuda_array_interface__")
    with pytest.raises(DetachError, match="detach"):
        _ = t.__cuda_array_interface__


# ---------------------------------------------------------------- out=, where= and refusals


def test_out_keeps_the_graph_and_a_leaf_refuses_it() -> None:
    x, y = leaf(1.0, 2.0), agrad.asarray([0.0, 0.0])
    assert np.exp(x, out=y) is y
    agrad.sum(y * y).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([2.0, 4.0]))
    with pytest.raises(
        LeafMutationError, match=r"out= of numpy\.exp must not change a leaf .* under agrad\.no_grad\(\)"
    ):
        np.exp(y.detach(), out=x)
    fails(TypeError, "out must have a dtype", lambda: np.exp(x, out=agrad.asarray([0, 0])))
    fails(RefusedFunctionError, "out=", lambda: np.exp(x, where=x > 1))


def test_masked_out_elements_do_not_poison_the_gradient() -> None:
    x = leaf(-1.0, 0.0, 2.0)
    y = np.log(x, out=agrad.zeros(3), where=np.asarray([False, False, True]))
    agrad.sum(y).backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.0, 0.0, 0.5])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: np.isnat(x), "dates"),
        (lambda x: np.histogram2d(x, x), "numpy.histogram"),
        (lambda x: np.shares_memory(x, x), "raw"),
        (lambda x: np.quantile(x, 0.5, weights=[1.0, 2.0], method="inverted_cdf"), "weights"),
        (lambda x: np.pad(x, 1, mode="empty"), "constant"),
        (lambda x: np.histogram(x, bins="auto"), "number"),
        (lambda x: np.matmul(x, x, axes=[0, 0, 0]), "moveaxis"),
        (lambda x: np.frompyfunc(abs, 1, 1)(x), "agrad.primitive"),
        (lambda x: np.linalg.qr(np.outer(x, x), mode="raw"), "mode"),
        (lambda x: np.nan_to_num(x, copy=False), "copy"),
        (lambda x: np.cross(x, x), "numpy.pad"),
    ],
)
def test_a_refusal_names_the_remedy(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        call(leaf(1.0, 2.0))
    assert isinstance(caught.value, RefusedFunctionError)


@pytest.mark.parametrize("shapes", [((2, 2, 2), (2,)), ((2, 2), (2, 1, 1)), ((2, 2), ())])
def test_least_squares_of_one_matrix(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (agrad.asarray(np.ones(shape)) for shape in shapes)
    fails(np.linalg.LinAlgError, "a vector or a matrix", lambda: np.linalg.lstsq(a, b))


@pytest.mark.parametrize(
    "call",
    [
        np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asarray_chkfinite, np.broadcast, np.ndenumerate,
        np.from_dlpack, np.float64, np.ma.array, np.polynomial.Polynomial, np.random.default_rng(0).normal,
        np.vectorize(lambda v: v), lambda t: np.array([t, t]), lambda t: np.array([t[0], 1.0]),
        lambda t: np.r_[t, 1.0], lambda t: np.full(3, t[0]), lambda t: np.kaiser(4, t[0]), lambda t: np.hamming(t[0]),
        lambda t: np.save(io.BytesIO(), t), lambda t: np.savetxt(io.BytesIO(), t), float, complex, int,
    ],
    ids=lambda call: getattr(call, "__name__", "call"),
)  # fmt: skip
def test_nothing_detaches_silently(call: Any) -> None:
    t = leaf(1.0) if call in (float, complex, int) else leaf(1.0, 2.0)
    t = agrad.reshape(t, ()) if t.size == 1 else t
    with pytest.raises(TypeError) as caught:
        call(t)
    # NumPy's own words in some places; what agrad says names the remedy
    error: BaseException | None = caught.value
    while error is not None and not isinstance(error, DetachError):
        error = error.__cause__ or error.__context__
    assert error is not None and "detach" in str(error)
    call(t.detach())


def test_like_puts_new_arrays_where_a_tensor_is(backend: str, place: Any) -> None:
    t = agrad.asarray(place(np.ones(2)), requires_grad=True)
    for made, expected in (
        (np.zeros(3, like=t), np.zeros(3)),
        (np.arange(4, like=t), np.arange(4)),
        (np.asarray([[1.0, 2.0]], like=t), [[1.0, 2.0]]),
        (np.eye(2, like=t), np.eye(2)),
        (np.full((2, 2), 7.0, like=t), np.full((2, 2), 7.0)),
    ):
        assert isinstance(made, Tensor)
        assert made.backend == backend
        assert made.device == t.device
        np.testing.assert_array_equal(made.numpy(), expected)
    assert np.asarray([t, 2 * t], like=t).requires_grad
    c = agrad.asarray(place(np.ones(2)))
    np.array(c, like=t)[1] = 5.0  # a copy, and asarray makes none
    np.asarray(c, like=t)[0] = 7.0
    np.testing.assert_array_equal(c.numpy(), [7.0, 1.0])
    assert LIKE


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("roots", ([0.0, 3.0, 0.0, 0.0],)), ("roots", ([0.0, 0.0],)), ("roots", ([1.0, -3.0, 2.0, 0.0],)),
        ("roots", ([2.0],)), ("poly", ([2.0, -1.0],)), ("poly", ([[2.0, 1.0], [1.0, 3.0]],)),
        ("polyadd", ([1.0], [2.0, 3.0, 4.0])), ("polysub", ([1.0, 2.0, 3.0], [4.0])), ("polyint", ([3.0, 2.0],)),
        ("polyder", ([3.0, 2.0, 1.0],)), ("polyder", ([3.0],)), ("polyval", ([3.0, 2.0], [0.5, -1.0])),
        ("polymul", ([1.0, 2.0], [3.0, -1.0, 2.0])),
    ],
    ids=str,
)  # fmt: skip
def test_polynomials_stay_where_their_coefficients_are(name: str, inputs: Any, backend: str, place: Any) -> None:
    arrays = [np.asarray(values) for values in inputs]
    expected = getattr(np, name)(*arrays)
    placed = [agrad.asarray(place(array)) for array in arrays]
    with agrad.use_backend("numpy" if backend != "numpy" else "array_api_strict"):  # another one than the arrays'
        found = getattr(np, name)(*placed)
    assert (found.backend, found.device) == (backend, placed[0].device)
    real = np.real(found.numpy())
    np.testing.assert_allclose(np.sort(real), np.sort(np.real(expected)), rtol=1e-12, atol=1e-14)
    assert found.shape == np.shape(expected)


# ---------------------------------------------------------------- methods of ufuncs


ORDERED = (np.subtract, np.divide, np.power)


@pytest.mark.parametrize("ufunc", ORDERED, ids=lambda ufunc: ufunc.__name__)
def test_a_reduction_whose_order_matters_goes_over_one_axis(ufunc: np.ufunc, backend: str, place: Any) -> None:
    values = np.asarray([[[1.5, 2.0]], [[0.5, 3.0]], [[2.0, 1.25]]])
    x = agrad.asarray(place(values))
    for axis in ((0, 1), (0, 2), None, (0, 1, 2)):
        with pytest.raises(ValueError, match=rf"numpy\.{ufunc.__name__}\.reduce: axis must be one axis, as the order"):
            ufunc.reduce(x, axis=axis)
    for axis in (0, 1, -1, (2,)):
        np.testing.assert_allclose(ufunc.reduce(x, axis=axis).numpy(), ufunc.reduce(values, axis=axis), rtol=1e-12)
    np.testing.assert_array_equal(ufunc.reduce(x, axis=()).numpy(), values)


@pytest.mark.parametrize("ufunc", [np.hypot, np.fmax, np.logaddexp2, np.add, np.maximum], ids=lambda u: u.__name__)
def test_a_reduction_in_any_order_goes_over_all_axes(ufunc: np.ufunc, backend: str, place: Any) -> None:
    values = np.random.default_rng(0).uniform(0.5, 2.0, (3, 2, 5))
    x = agrad.asarray(place(values))
    for axis in ((0, 1), (0, 2), (1, 2), None, 1):
        for keepdims in (False, True):
            found = ufunc.reduce(x, axis=axis, keepdims=keepdims)
            np.testing.assert_allclose(found.numpy(), ufunc.reduce(values, axis=axis, keepdims=keepdims), rtol=1e-12)


# ---------------------------------------------------------------- dtypes


def test_dtypes_promote_by_numpys_rules(backend: str, place: Any) -> None:
    whole, single, double = (
        agrad.asarray(place(np.asarray([1, 2, 3], dtype=kind))) for kind in (np.int64, np.float32, np.float64)
    )
    for result, expected in (
        (np.sin(whole), np.float64), (np.sin(single), np.float32), (np.add(whole, double), np.float64),
        (np.add(single, double), np.float64), (np.multiply(single, 2.5), np.float32),
        (np.multiply(whole, 2.5), np.float64), (np.true_divide(whole, 2), np.float64), (np.sum(whole > 1), np.int64),
        (np.mean(whole), np.float64), (np.concatenate([whole, single]), np.float64),
        (np.where(whole > 1, single, 0), np.float32), (np.dot(whole, double), np.float64),
        (np.power(whole, 2), np.int64), (np.linspace(whole, double, 3), np.float64),
    ):  # fmt: skip
        assert result.dtype == expected
    assert np.result_type(single, double) == np.float64
    assert np.sum(single, dtype=np.float64).dtype == np.float64


def test_the_gradient_has_its_arguments_dtype() -> None:
    x = agrad.asarray(np.asarray([1.0, 2.0], dtype=np.float32), requires_grad=True)
    np.sum(np.interp(x, [0.0, 3.0], [1.0, 2.0])).backward()
    assert x.grad.dtype == np.float32


# ---------------------------------------------------------------- whole programs

MAPPED = ("np.median(x) + np.ptp(x)", "np.quantile(x, 0.3)", "np.nanmean(x)", "np.nanmax(x)", "np.cov(x)",
          "np.interp(0.1, np.sort(x), x)", "np.einsum('i,i', x, x)", "np.average(x, weights=x * x)", "np.pad(x, 1)[0]",
          "np.linalg.norm(x)", "np.convolve(x, x)[2]", "np.take(x, np.argsort(x))[0]")  # fmt: skip


@pytest.mark.parametrize("text", MAPPED)
def test_numpys_functions_are_mapped(text: str) -> None:
    function = eval(f"lambda x: {text}", {"np": np})
    rows = np.random.default_rng(1).standard_normal((3, 5))
    found = agrad.vmap(agrad.grad(function))(rows)
    np.testing.assert_allclose(found, np.stack([agrad.grad(function)(row) for row in rows]), rtol=1e-12, atol=1e-14)


# ---------------------------------------------------------------- reading, copying


def test_printing_follows_numpys_options() -> None:
    t = leaf(1 / 3, 2 / 3)
    with np.printoptions(precision=2):
        assert np.array2string(t) == "[0.33 0.67]"
        assert "0.33" in repr(t) and "0.3333" not in repr(t)


def test_saving_takes_constants(tmp_path: Any) -> None:
    np.savez(tmp_path / "a.npz", x=agrad.asarray([1.0, 2.0]))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npz")["x"], [1.0, 2.0])


def test_the_handlers_are_loaded_at_the_first_call_only() -> None:
    code = (
        "import sys, numpy, agrad\n"
        "t = agrad.asarray([1.0])\n"
        "before = 'agrad.interop' in sys.modules\n"
        "numpy.ones(1) * t\n"
        "operator = 'agrad.interop' in sys.modules\n"
        "numpy.sin(t)\n"
        "print(before, operator, 'agrad.interop' in sys.modules)\n"
    )
    assert run_program(code).split() == ["False", "False", "True"]


@pytest.mark.parametrize("k", [-1, 0, 1, 2, 3, 5])
@pytest.mark.parametrize("axes", [(0, 1), (2, 0), (-1, 1)])
def test_a_turned_array_is_a_view(k: int, axes: tuple[int, int]) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    t = agrad.asarray(a.copy())
    turned, expected = np.rot90(t, k, axes), np.rot90(a, k, axes)
    np.testing.assert_array_equal(turned.numpy(), expected)
    turned[0] *= 2.0
    expected[0] *= 2.0
    np.testing.assert_array_equal(t.numpy(), a)
    fails(ValueError, "must be different", lambda: np.rot90(t, 1, (0, -3)))


def test_a_copy_lies_row_by_row() -> None:
    x = agrad.asarray(np.asfortranarray(np.asarray([[0.1, 1.1], [1.0, -0.2]])), backend="numpy")
    y = x.copy()
    y.reshape(-1)[...] = -1.5
    assert y.tolist() == [[-1.5, -1.5], [-1.5, -1.5]]
    assert x.tolist() == [[0.1, 1.1], [1.0, -0.2]]


@pytest.mark.parametrize("function", [np.nan_to_num, lambda x: np.pad(x, 0), lambda x: np.pad(x, 0, mode="edge")])
def test_results_that_equal_the_argument_are_copies(function: Any) -> None:
    for dtype in ("float64", "int64"):
        x = agrad.asarray([1, 2, 3], dtype=dtype)
        y = function(x)
        x += 1
        assert y.tolist() == [1, 2, 3]
