"""NumPy's functions on Tensors: values on every backend, derivatives against finite differences, places of results."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy_samples  # noqa: F401 - files its samples
import numpy_samples_algebra  # noqa: F401
import pytest
from checker import random_like
from crossing import each
from numpy_sampling import SAMPLES, Sample

import agrad
from agrad import Tensor
from agrad.backends import load
from agrad.testing import check_grads


def leaves(result: Any) -> list[Any]:
    """The arrays of a result, containers opened."""
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


def drawn(sample: Sample) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(map(ord, sample.name)))
    return [np.asarray(x.draw(rng)) for x in sample.inputs]


def quietly(function: Any, *args: Any) -> Any:
    # infinities and nans among the samples make NumPy warn where it computes what is thrown away; functions that
    # a newer NumPy deprecates are tested as long as it has them
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return function(*args)


def is_floating(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and agrad.isdtype(leaf.dtype, ("real floating", "complex floating"))


NARROW = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}


@each(SAMPLES)
def test_value(case: Sample, backend: str, place: Any) -> None:
    """On NumPy also the dtype of results of single precision."""
    arrays = drawn(case)
    expected = leaves(quietly(case.call, *arrays))
    found = leaves(quietly(case.call, *[agrad.asarray(place(x)) for x in arrays]))
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        if isinstance(mine, Tensor):
            assert mine.backend == backend
            assert mine.shape == np.shape(theirs)
            kind = np.dtype(mine.dtype.name).kind
            assert kind == np.asarray(theirs).dtype.kind or {kind, np.asarray(theirs).dtype.kind} <= set("iu")
            np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-11, atol=1e-12)
        else:
            assert mine == theirs
    if any(map(is_floating, expected)):
        arrays = [x.astype(NARROW[x.dtype]) for x in arrays]
        with agrad.use_backend("numpy"):
            found = leaves(quietly(case.call, *map(agrad.asarray, arrays)))
        for mine, theirs in zip(found, leaves(quietly(case.call, *arrays)), strict=True):
            assert is_floating(mine) == is_floating(theirs)
            assert not is_floating(mine) or mine.dtype.name == theirs.dtype.name


def differentiable(case: Sample) -> Any:
    """The floating results of a sample's call as one real vector, of NumPy's arrays or of Tensors."""

    def f(*xs: Any) -> Any:
        parts = []
        for leaf in leaves(quietly(case.call, *xs)):
            if not is_floating(leaf):
                continue
            flat = leaf.reshape(-1) if isinstance(leaf, np.ndarray | np.generic) else agrad.reshape(leaf, (-1,))
            complex_part = agrad.isdtype(leaf.dtype, "complex floating")
            parts += [flat.real, flat.imag] if complex_part and not isinstance(flat, Tensor) else []
            parts += [agrad.real(flat), agrad.imag(flat)] if complex_part and isinstance(flat, Tensor) else []
            parts += [] if complex_part else [flat]
        if all(isinstance(p, np.ndarray | np.generic) for p in parts):
            return np.concatenate(parts)
        return agrad.concat([p if isinstance(p, Tensor) else agrad.asarray(p) for p in parts])

    return f


def difference(f: Any, arrays: list[np.ndarray], along: list[np.ndarray], step: float) -> np.ndarray:
    """The derivative of ``f`` along a direction, by differences of sixth order."""
    total = 0.0
    for k, weight in ((1, 45.0), (2, -9.0), (3, 1.0)):
        ahead = f(*[x + k * step * d for x, d in zip(arrays, along, strict=True)])
        behind = f(*[x - k * step * d for x, d in zip(arrays, along, strict=True)])
        total = total + weight * (ahead - behind)
    return total / (60 * step)


@each([s for s in SAMPLES if not s.constant and not s.kink])
def test_derivatives(case: Sample) -> None:
    arrays, rng = drawn(case), np.random.default_rng(3)
    f, along = differentiable(case), random_like(arrays, rng)
    slope = difference(f, arrays, along, 1e-4)
    value, pushed = agrad.jvp(f, tuple(arrays), tuple(along))
    sure = np.isfinite(value)
    g = np.where(sure, rng.standard_normal(value.shape), 0.0)
    np.testing.assert_allclose(np.asarray(pushed)[sure], slope[sure], rtol=2e-7, atol=2e-7)

    def gradient(*xs: Any) -> Any:
        return agrad.vjp(f, *xs)[1](agrad.asarray(g) if isinstance(xs[0], Tensor) else g)

    total = sum(float(np.sum((np.asarray(p) * d).real)) for p, d in zip(gradient(*arrays), along, strict=True))
    assert math.isclose(total, float(np.sum(np.where(sure, slope, 0.0) * g)), rel_tol=2e-6, abs_tol=2e-6)
    _, pushed = agrad.jvp(gradient, tuple(arrays), tuple(along))
    slopes = difference(lambda *xs: np.concatenate([np.ravel(p) for p in gradient(*xs)]), arrays, along, 1e-4)
    found = np.concatenate([np.ravel(np.asarray(p)) for p in pushed])
    np.testing.assert_allclose(found, slopes, rtol=5e-6, atol=5e-6, err_msg="second derivative")


@pytest.mark.parametrize("name", ["var", "std", "nanvar"])
@pytest.mark.parametrize("settings", [{}, {"axis": 1, "ddof": 1}, {"axis": 0, "keepdims": True}], ids=str)
def test_variances_of_complex_numbers_with_a_real_dtype_are_numpys(name: str, settings: dict[str, Any]) -> None:
    z, function = np.asarray([[1 + 2j, 3 - 1j, -2j], [0.5, 1j, 2.0]]), getattr(np, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, that its mean discards imaginary parts
        for dtype in (np.float64, np.float32):
            expected = function(z, dtype=dtype, **settings)
            for recorded in (False, True):
                found = function(agrad.asarray(z, requires_grad=recorded), dtype=dtype, **settings).detach().numpy()
                assert found.dtype == expected.dtype
                np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype is np.float32 else 1e-12)
        check_grads(lambda x: function(x, dtype=np.float64, **settings), (z,), order=2)


# ---------------------------------------------------------------- where results are, whatever is selected

Call = tuple[str, Callable[..., Any], list[np.ndarray]]


def misplaced(calls: list[Call]) -> list[str]:
    """The calls whose result is not on the second device of array-api-strict, where their arguments are."""
    strict = load("array_api_strict")
    device = strict.device("device1")
    wrong = []
    for name, call, arrays in calls:
        found = leaves(quietly(call, *[agrad.asarray(strict.from_host(x, device)) for x in arrays]))
        tensors = [part for part in found if isinstance(part, Tensor)]
        wrong += [f"{name}: {x.backend} {x.device}" for x in tensors if (x.backend, x.device) != (strict.name, device)]
        wrong += [f"{name}: a {type(part).__name__}" for part in found if isinstance(part, np.ndarray)]
    return wrong


def test_numpys_functions() -> None:
    calls = [(sample.name, sample.call, drawn(sample)) for sample in SAMPLES]
    assert len(calls) > 500
    assert misplaced(calls) == []


@pytest.mark.needs("scipy")
def test_scipys_functions() -> None:
    import scipy.special
    from test_scipy_ufuncs import CALLS, K, N, P

    counts: dict[str, tuple[np.ndarray, ...]] = dict.fromkeys(["bdtr", "bdtrc", "nbdtr", "nbdtrc"], (K, N, P))
    counts |= dict.fromkeys(["pdtr", "pdtrc"], (K, N))
    calls = [(name, getattr(scipy.special, name), list(xs)) for name, xs in (CALLS | counts).items()]
    assert misplaced(calls) == []


def test_a_misplaced_result_is_found() -> None:
    calls: list[Call] = [
        ("moved", lambda x: x.to("numpy"), [np.ones(2)]),
        ("elsewhere", lambda x: (x, x.to("cpu")), [np.ones(2)]),
        ("on the host", lambda x: x.numpy(), [np.ones(2)]),
        ("in its place", lambda x: x + 1, [np.ones(2)]),
    ]
    found = misplaced(calls)
    assert [text.partition(":")[0] for text in found] == ["moved", "elsewhere", "on the host"]
