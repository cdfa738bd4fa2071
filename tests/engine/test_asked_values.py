"""Errors about values that would leave the graph: who asked, what to call instead, and which array is raw."""

import cmath
import contextlib
import importlib
import math
import re
from typing import Any

import numpy as np
import pytest

import agrad
from agrad.errors import DetachError, TracedValueError

with contextlib.suppress(ImportError):
    import scipy

OLD = "scipy" in globals() and tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 16)
OF_ARRAYS = pytest.mark.skipif(OLD, reason="boxcox_llf of SciPy before 1.16 takes NumPy's arrays only")
ENDING = "If the result needs no gradient, pass x.detach()."
ROWS = np.asarray([[2.0, 1.0], [0.0, 3.0]])


def detach_error(f: Any, x: Any) -> str:
    with pytest.raises(DetachError) as caught:
        agrad.grad(lambda x: agrad.sum(agrad.asarray(f(x))))(x)
    assert str(caught.value).endswith(ENDING)
    assert str(caught.value).count("detach") == 1
    return str(caught.value)


def of_lists(function: Any) -> list[Any]:
    """Return calls of a function with lists of Tensors for an array."""
    lists = (lambda x: [x[0], x[1]], lambda x: ((x[0], 2.0), (x[1], 1.0)), lambda x: [x, x])
    return [lambda x, listed=listed: function(listed(x)) for listed in lists]


def of_pairs(trick: Any) -> list[Any]:
    """Return calls of an index trick with Tensors, and with a Tensor beside an array or a list."""
    pairs = (lambda x: (x, x), lambda x: (x, [1.0, 2.0]), lambda x: (np.ones(2), x), lambda x: (x[0], x[1]))
    return [lambda x, pair=pair: trick[pair(x)] for pair in pairs]


JOINED = ("Join Tensors with numpy.hstack([x, y])", "numpy.column_stack([x, y])")
ONE = ("Pass one Tensor: agrad.asarray([x, y]) or numpy.stack([x, y])",)
OWN = (lambda x: np.array([x, x]), lambda x: np.asarray(x), lambda x: np.asarray([x[0], x[1]]))
CONVERSIONS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "numpy.array() or numpy.asarray()": (OWN, ("np.stack([x, y])", "agrad.asarray(x)")),
    "numpy.r_[...]": (of_pairs(np.r_), JOINED),
    "numpy.c_[...]": (of_pairs(np.c_), JOINED),
    "numpy.sum()": (of_lists(np.sum), ONE),
    "numpy.mean()": (of_lists(np.mean), ONE),
    "numpy.max()": (of_lists(np.max), ONE),
    "numpy.linalg.norm()": (of_lists(np.linalg.norm), ONE),
    "numpy.sort()": (of_lists(np.sort), ONE),
    "numpy.asarray_chkfinite()": ([np.asarray_chkfinite], ()),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions_by_numpy_name_the_function_and_the_fix(name: str) -> None:
    calls, parts = CONVERSIONS[name]
    for call in calls:
        message = detach_error(call, np.ones(2))
        assert message.startswith(f"{name} cannot convert a Tensor that requires a gradient")
        assert all(part in message for part in parts)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_bmat_names_block() -> None:
    with pytest.raises(DetachError, match=r"numpy\.bmat\(\) cannot .* Call numpy\.block instead\."):
        agrad.grad(lambda x: agrad.sum(agrad.asarray(np.bmat([[x, x]]))))(ROWS)


@pytest.mark.parametrize("function", [np.sum, np.sqrt, np.array, np.linalg.norm])
@pytest.mark.parametrize("transform", [agrad.jit, agrad.vmap])
def test_a_list_of_values_that_are_not_known_says_how_to_join_them(function: Any, transform: Any) -> None:
    def f(x: Any) -> Any:
        return agrad.asarray(function([x[0], x[1]]))

    with pytest.raises(TracedValueError) as caught:
        transform(f)(np.ones((2, 2)))
    assert "agrad.asarray([x, y])" in caught.value.__notes__[0]


@pytest.mark.needs("scipy")
def test_a_function_of_scipy_is_named_with_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCIPY_ARRAY_API", raising=False)
    message = detach_error(lambda x: scipy.linalg.orthogonal_procrustes(x, x), ROWS)
    assert message.startswith("scipy.linalg.orthogonal_procrustes() cannot convert a Tensor")


@pytest.mark.needs("scipy")
@pytest.mark.parametrize("name", [pytest.param("scipy.stats.boxcox_llf", marks=OF_ARRAYS), "scipy.stats.ks_1samp"])
def test_array_api_functions_of_scipy_name_the_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCIPY_ARRAY_API", raising=False)
    module, _, function = name.rpartition(".")
    asked = getattr(importlib.import_module(module), function)
    message = detach_error(lambda x: asked(x, np.ones(3)), np.arange(3.0))
    assert message.startswith(f"{name}() cannot convert a Tensor")
    assert "SCIPY_ARRAY_API=1" in message


@pytest.mark.needs("scipy")
@pytest.mark.parametrize("transform", [agrad.grad, agrad.jit, agrad.vmap], ids=["grad", "jit", "vmap"])
@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda x: scipy.stats.norm.logpdf(x), "scipy.stats.norm.logpdf"),
        (lambda x: scipy.stats.norm(0.0, 1.0).logpdf(x), "scipy.stats.norm.logpdf"),
        (lambda x: scipy.stats.gamma.cdf([x[0], 1.0], 2.0), "scipy.stats.gamma.cdf"),
        (lambda x: scipy.stats.multivariate_normal.logpdf(x, np.ones(2)), "scipy.stats.multivariate_normal.logpdf"),
        (lambda x: scipy.stats.zscore(x), "scipy.stats.zscore"),
        (lambda x: scipy.linalg.toeplitz(x), "scipy.linalg.toeplitz"),
        (lambda x: scipy.linalg.cho_factor(agrad.stack([x, x])), "scipy.linalg.cho_factor"),
        (lambda x: scipy.spatial.distance.pdist(agrad.stack([x, x])), "scipy.spatial.distance.pdist"),
        (lambda x: math.sin(x[0]), "sin"),
        (lambda x: math.lgamma(x[0]), "special.gammaln"),
        (lambda x: cmath.exp(x[0]), "exp"),
    ],
)
def test_functions_with_a_counterpart_name_it(f: Any, name: str, transform: Any) -> None:
    with pytest.raises((DetachError, TracedValueError)) as caught:
        transform(f)(ROWS if transform is agrad.vmap else ROWS[0])
    text = " ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert re.search(rf"[Cc]all agrad\.{re.escape(name)} instead", text)
    assert "detach" not in str(caught.value)


def into_an_array(write: str) -> Any:
    def f(x: Any) -> Any:
        out = np.zeros(2)
        if write == "slice":
            out[:] = x
        elif write == "element":
            out[0] = x[0]
        else:
            out += x
        return agrad.sum(agrad.asarray(out))

    return f


TRANSFORMS: dict[str, Any] = {
    **{f.__name__: lambda f, x, by=f: by(f)(x) for f in (agrad.grad, agrad.jacobian, agrad.hessian, agrad.jit)},
    "elementwise_grad": lambda f, x: agrad.elementwise_grad(f)(x),
    "vmap": lambda f, x: agrad.vmap(f)(agrad.stack([x, x])),
    "vjp": agrad.vjp,
    "jvp": lambda f, x: agrad.jvp(f, (x,), (x,)),
    "linearize": agrad.linearize,
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("write", ["slice", "element", "sum"])
def test_writes_into_numpys_arrays_name_what_can_hold_tensors(write: str, transform: str) -> None:
    with pytest.raises((DetachError, TracedValueError, ValueError)) as caught:
        TRANSFORMS[transform](into_an_array(write), np.ones(2))
    notes = getattr(caught.value, "__notes__", ())
    text = " ".join([str(caught.value), *notes])
    assert "agrad.zeros(shape)" in text and (write == "sum" or "import agrad.numpy as np" in text)
    if type(caught.value) is ValueError:
        assert "setting an array element with a sequence" in str(caught.value)
        assert notes[0].startswith("`out` is a plain array, not a Tensor") and "agrad.stack" in notes[0]


def test_numpys_function_of_another_librarys_constant_names_asarray(torch: Any) -> None:
    constant = torch.ones(3, 2)
    with pytest.raises(TypeError) as caught:
        agrad.grad(lambda x: agrad.sum(np.sum(constant, axis=0) * x))(torch.ones(2))
    assert "`constant` is a plain array" in caught.value.__notes__[0]
    assert "agrad.asarray(array)" in caught.value.__notes__[0]


def test_a_list_is_spoken_of_where_there_is_one() -> None:
    message = detach_error(lambda x: np.full((2, 2), agrad.sum(x)), np.ones(2))
    assert message.startswith("numpy.full() cannot convert a Tensor")
    assert "list" not in message


# ------------------------------------------------------------------ raw arrays


def test_other_errors_get_no_note() -> None:
    def f(x: Any) -> Any:
        raise ValueError("of the user's own")

    with pytest.raises(ValueError, match="own") as caught:
        agrad.grad(f)(np.ones(2))
    assert not hasattr(caught.value, "__notes__")


# ------------------------------------------------------------------ attributes


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)], ids=str)
def test_hasattr_says_whether_there_is_a_transpose(shape: Any, backend: str) -> None:
    x = agrad.ones(shape)
    assert hasattr(x, "T") == (len(shape) < 3)
    assert getattr(x, "T", None) is None or x.T.shape == shape[::-1]


COMPARISONS = {
    "assert_allclose": [2.0, 6.0],
    "assert_array_equal": [2.0, 6.0],
    "assert_equal": np.asarray([2.0, 6.0]),
    "assert_almost_equal": [2.0, 6.0],
    "assert_array_less": 6.5,
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_assertions_of_numpy_read_values(name: str, backend: str) -> None:
    """As ``item()``, they read Tensors that ``backward()`` differentiates, and no values of transforms."""
    compare, expected = getattr(np.testing, name), COMPARISONS[name]
    y = agrad.asarray([1.0, 3.0], requires_grad=True) * 2.0
    compare(y, expected)
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 2"):
        compare(y + agrad.asarray([0.0, 1.0]), expected)

    def f(x: Any) -> Any:
        compare(x, expected)
        return agrad.sum(x)

    with pytest.raises(DetachError, match=r"write x\.detach\(\)\.numpy\(\)"):
        agrad.grad(f)(y.detach())
    for transform in (agrad.jit, agrad.vmap):
        with pytest.raises(TracedValueError, match=r"numpy\(\)"):
            transform(f)(y.detach())
