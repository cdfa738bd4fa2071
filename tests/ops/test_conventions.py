"""The table of conventions: each line of it, on every backend."""

from typing import Any

import numpy as np
import pytest
from checker import assert_close, check_like, host
from leaves import leaf
from refusals import each_fails, fails

import agrad
from agrad.backends import load
from agrad.errors import DtypeError, ShapeError


def slopes(f: Any, values: Any, dtype: Any = agrad.float64) -> list[np.ndarray]:
    """The gradient of the sum of ``f``, imperative and functional, and by forward mode for each element."""
    x = leaf(values, dtype)
    agrad.sum(f(x)).backward()
    total = lambda x: agrad.sum(f(x))  # noqa: E731
    return [host(x.grad), host(agrad.grad(total)(x.raw)), host(agrad.jacfwd(total, chunk_size=1)(x.raw))]


def curvatures(f: Any, values: Any) -> list[np.ndarray]:
    """The second derivative of the sum of an elementwise ``f``, imperative and in three orders of modes."""
    x = leaf(values)
    agrad.sum(f(x)).backward(create_graph=True)
    first = agrad.sum(x.grad)
    x.zero_grad()
    if first.requires_grad:
        first.backward()
    zero = agrad.zeros_like(x)
    ones = agrad.ones_like(x)

    def total(x: Any) -> Any:
        return agrad.sum(f(x))

    def along(x: Any) -> Any:
        return agrad.jvp(total, (x,), (ones,))[1]

    return [
        host(zero if x.grad is None else x.grad),
        host(agrad.grad(lambda x: agrad.sum(agrad.grad(total)(x)))(x.detach())),
        host(agrad.jvp(agrad.grad(total), (x.detach(),), (ones,))[1]),
        host(agrad.grad(along)(x.detach())),
    ]


def test_the_gradient_of_a_real_function_of_a_complex_number(backend: str) -> None:
    """JAX's and autograd's: 2 conj(z) for abs(z)**2."""
    z = np.asarray([1 + 2j, -0.5j, 3.0])
    for f in (
        lambda z: agrad.abs(z) ** 2,
        lambda z: agrad.real(z * agrad.conj(z)),
        lambda z: agrad.real(z) ** 2 + agrad.imag(z) ** 2,
    ):
        x = leaf(z.tolist(), agrad.complex128)
        agrad.sum(f(x)).backward()
        assert_close(x.grad, 2 * np.conj(z), "gradient")
        assert_close(agrad.grad(lambda z, f=f: agrad.sum(f(z)))(x.raw), 2 * np.conj(z), "gradient")
    # a holomorphic function's derivative comes out as it is
    _, pull = agrad.vjp(lambda z: z**3, x.raw)
    one = agrad.asarray(np.ones(3).tolist(), dtype=agrad.complex128).raw
    assert_close(pull(one)[0], 3 * z**2, "derivative")


def test_a_real_argument_of_a_complex_result_gets_a_real_gradient(backend: str) -> None:
    x = leaf([1.0, 2.0])
    agrad.real(agrad.sum(x * (2 + 3j))).backward()
    assert x.grad.dtype == agrad.float64
    assert_close(x.grad, [2.0, 2.0], "gradient")


def _parts(x: Any) -> Any:
    a = agrad.log(x)
    return agrad.concat([agrad.where(x[:2] > 0, a[:2], 0.0), agrad.where(x[2:] > 0, a[2:], 0.0)])


def _log_of_pairs(x: Any) -> Any:
    return agrad.matmul(agrad.log(agrad.stack([x, x], axis=1)), agrad.full((2,), 0.5, dtype=x.dtype))


def _log_of_rows(x: Any) -> Any:
    return agrad.stack([agrad.where(a > 0, b, 0.0) for a, b in zip(x, agrad.unstack(agrad.log(x)), strict=True)])


def _weighted(x: Any, **how: Any) -> Any:
    return agrad.sort(x, **how) * agrad.asarray([10.0, 20.0, 30.0, 40.0], dtype=agrad.float64)


def _power(exponent: Any) -> tuple[Any, Any]:
    return lambda x: x**exponent, lambda x: x ** agrad.full((1,), exponent, dtype=agrad.float64)


EDGE = [2.0, 0.0, -1.0]
LOG, LOG_TWICE = [0.5, 0, 0], [-0.25, 0, 0]
SLOPES: dict[str, tuple[Any, ...]] = {
    # ties share evenly; those in sort keep their order
    "max of an axis": (lambda x: agrad.max(x, axis=1), [[2.0, 2.0], [1.0, 4.0]], [[0.5, 0.5], [0, 1]]),
    "maximum of a number": (lambda x: agrad.maximum(x, 2.0), [1.0, 2.0, 3.0], [0, 0.5, 1]),
    "maximum of itself": (lambda x: agrad.maximum(x, x), [1.0, 2.0], [1, 1]),
    "clip": (lambda x: agrad.clip(x, 0.0, 1.0), [-1.0, 0.0, 0.5, 1.0, 2.0], [0, 0.5, 1, 0.5, 0]),
    "sort": (_weighted, [2.0, 1.0, 2.0, 1.0], [30.0, 10.0, 40.0, 20.0]),
    "sort descending": (lambda x: _weighted(x, descending=True), [2.0, 1.0, 2.0, 1.0], [10.0, 30.0, 20.0, 40.0]),
    # powers and products of zeros, large numbers
    **{f"x ** {p}": (_power(p)[0], [0.0], [float(p == 1)], [2.0 * (p == 2)]) for p in (0, 0.0, 1, 1.0, 2, 3.0)},
    **{f"x ** [{p}]": (_power(p)[1], [0.0], [float(p == 1)]) for p in (0, 0.0, 1, 1.0, 2, 3.0)},
    "zeros ** p": (lambda p: agrad.zeros(2, dtype=agrad.float64) ** p, [2.0, 0.5], [0, 0]),
    "0.0 ** p": (lambda p: 0.0**p, [2.0, 0.5], [0, 0]),
    "prod of two zeros": (agrad.prod, [2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0, 2.0]),
    "log_softmax": (lambda x: agrad.log_softmax(x)[0], [-1000.0, 1000.0], [1.0, -1.0]),
    # the unused branch of where never poisons
    "log": (lambda x: agrad.where(x > 0, agrad.log(x), 0.0), EDGE, LOG, LOG_TWICE),
    "log of the other branch": (lambda x: agrad.where(x <= 0, 0.0, agrad.log(x)), EDGE, LOG, LOG_TWICE),
    "sqrt": (lambda x: agrad.where(x > 0, agrad.sqrt(x), x * x), EDGE, [0.5 / 2**0.5, 0, -2], [-0.25 / 2**1.5, 2, 2]),
    "division": (lambda x: agrad.where(x != 0, 1 / x, 0.0), EDGE, [-1 / 4, 0, -1], [2 / 8, 0, -2]),
    "power": (lambda x: agrad.where(x > 0, x**1.5, x), EDGE, [1.5 * 2**0.5, 1, 1], [0.75 / 2**0.5, 0, 0]),
    "a chain": (lambda x: agrad.where(x > 0, agrad.exp(agrad.log(x)), x), EDGE, [1, 1, 1], [0, 0, 0]),
    "used again": (lambda x: agrad.where(x > 0, agrad.log(x), 0.0) * x, EDGE, [np.log(2) + 1, 0, 0], [1 / 2, 0, 0]),
    **{
        f"log, {label}": (f, EDGE, LOG, LOG_TWICE)
        for label, f in {
            "reshaped": lambda x: agrad.where(x > 0, agrad.reshape(agrad.log(agrad.reshape(x, (3, 1))), (3,)), 0.0),
            "reversed": lambda x: agrad.where(x > 0, agrad.flip(agrad.log(agrad.flip(x))), 0.0),
            "in parts": _parts,
            "taken": lambda x: agrad.where(x > 0, agrad.take(agrad.log(x), agrad.asarray([0, 1, 2]), axis=0), 0.0),
            "summed": lambda x: agrad.where(x > 0, agrad.sum(agrad.log(agrad.stack([x, x])) / 2, axis=0), 0.0),
            "a product": lambda x: agrad.where(x > 0, _log_of_pairs(x), 0.0),
            "of a row": lambda x: agrad.where(agrad.expand_dims(x, 0) > 0, agrad.log(x) / agrad.full((2, 1), 2.0), 0.0),
            "twice": lambda x: agrad.where(x > 0, agrad.where(x > -1, agrad.log(x), 7.0), 0.0),
            "unstacked": _log_of_rows,
        }.items()
    },
}
"""Functions by name: where, and the first and second derivatives of the sum of their results there."""


@pytest.mark.parametrize("label", SLOPES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the user's own forward pass computes log(0) and says so
def test_derivatives_by_the_conventions(label: str, backend: str) -> None:
    f, at, first, *second = SLOPES[label]
    for way, found in enumerate(slopes(f, at)):
        assert_close(found, first, f"{label}, way {way}")
    for way, found in enumerate(curvatures(f, at) if second else ()):
        assert_close(found, second[0], f"{label}, second order, way {way}")


def _written(x: Any) -> Any:
    y = agrad.sqrt(x) ** 2
    y[1] = x[1]
    return y


CHOSEN = {
    "where": (lambda x: agrad.where(x >= 0, agrad.sqrt(x) ** 2, 0.0), [np.nan, 1.0, 0.0]),
    "the other branch": (lambda x: agrad.where(x < 0, 0.0, agrad.sqrt(x) ** 2), [np.nan, 1.0, 0.0]),
    "infinite": (lambda x: agrad.where(x >= 0, agrad.sqrt(x), x), [np.inf, 0.5, 1.0]),
    "a write": (_written, [np.nan, 1.0, np.nan]),
    "reshaped": (
        lambda x: agrad.where(x >= 0, agrad.reshape(agrad.reshape(agrad.sqrt(x), (3, 1)), (3,)) ** 2, 0.0),
        [np.nan, 1.0, 0.0],
    ),
    "of a row": (
        lambda x: agrad.where(agrad.expand_dims(x, 0) >= 0, (agrad.sqrt(x) + agrad.zeros((2, 1))) ** 2 / 2, 0.0),
        [np.nan, 1.0, 0.0],
    ),
    "in one member of two": (
        lambda x: agrad.where(x >= 0, agrad.sqrt(x) ** 2, 0.0) + agrad.where(x > 0, agrad.log(x), 0.0),
        [np.nan, 2.0, 0.0],
    ),
}


@pytest.mark.parametrize("label", CHOSEN)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_chosen_element_has_the_derivative_of_the_formula_in_both_modes(label: str, backend: str) -> None:
    """An infinite slope, or NaN for 0 times infinity: a cotangent of 0 that is computed is none that is masked."""
    f, expected = CHOSEN[label]
    x = leaf([0.0, 1.0, -1.0])
    agrad.sum(f(x)).backward(create_graph=True)
    first, x = x.grad, x.detach()
    gradient = agrad.grad(lambda x: agrad.sum(f(x)))
    for found in (first, gradient(x), agrad.jit(gradient)(x), agrad.vmap(gradient)(agrad.stack([x, x]))[1, :]):
        np.testing.assert_allclose(host(found), expected)
    for i, slope in enumerate(expected):
        # of one element alone, as a tangent of 0 beside an infinite slope is NaN
        alone = lambda v, i=i: f(agrad.concat([x[:i], v, x[i + 1 :]]))  # noqa: E731
        found = host(agrad.jvp(alone, (x[i : i + 1].raw,), (agrad.ones(1, dtype=agrad.float64).raw,))[1])
        np.testing.assert_allclose(found.reshape(-1, 3)[:, i].sum(), slope)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_dtype_and_device_of_a_gradient_are_its_arguments(dtype: str, backend: str) -> None:
    kind = getattr(agrad, dtype)
    x = leaf([1.0, 2.0], kind)
    wide = agrad.asarray([1.0, 2.0], dtype=agrad.complex128 if "complex" in dtype else agrad.float64)
    y = agrad.sum(x * wide)
    (agrad.real(y) if "complex" in dtype else y).backward()
    check_like(x.grad, x, "gradient")
    found = agrad.grad(lambda x: agrad.real(agrad.sum(x * wide)) if "complex" in dtype else agrad.sum(x * wide))(x.raw)
    check_like(found, x.raw, "gradient")


def test_casting_between_precisions(backend: str) -> None:
    """The gradient goes back through a cast in the precision of each side."""
    x = leaf([0.1, 0.2])
    y = agrad.astype(x, agrad.float32)
    assert y.dtype == agrad.float32
    agrad.sum(y * y).backward()
    assert x.grad.dtype == agrad.float64
    assert_close(x.grad, [0.2, 0.4], "gradient", 1e-7)
    narrow = leaf([0.1, 0.2], agrad.float32)
    agrad.sum(agrad.astype(narrow, agrad.float64) ** 2).backward()
    assert narrow.grad.dtype == agrad.float32
    _, t = agrad.jvp(lambda x: agrad.astype(x, agrad.float32), (x.raw,), (x.raw,))
    check_like(t, narrow.raw, "tangent")
    f = agrad.grad(lambda x: agrad.sum(agrad.astype(x, agrad.float32) ** 3))
    assert_close(agrad.grad(lambda x: agrad.sum(f(x)))(x.raw), [0.6, 1.2], "second order", 1e-6)
    assert not agrad.astype(x, agrad.int64).requires_grad


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:var.*degrees of freedom:UserWarning")
@pytest.mark.parametrize("correction", [2.0, 3.0])
def test_a_variance_without_a_degree_of_freedom_has_no_finite_derivative(correction: float, backend: str) -> None:
    for slope in slopes(lambda x: agrad.var(x, correction=correction), [1.0, 2.0]):
        assert not np.isfinite(slope).any()


LABELS = [2, 0, 1]
LOGITS = [[0.1, 0.5, -1.0], [2.0, 0.0, 1.0], [0.0, 0.0, 0.0]]


def of_labels(labels: Any, reduction: str = "mean") -> Any:
    return lambda: agrad.cross_entropy(leaf(LOGITS), agrad.asarray(labels), reduction=reduction)


def test_cross_entropy_of_wrong_labels() -> None:
    each_fails([
        (of_labels([0, 3, 1]), ValueError, "from 0 to 2 for 3 classes, got 3"),
        (of_labels([0, -1, 1]), ValueError, "got -1"),
        (of_labels([0, 1]), ShapeError, r"\(3, 3\).*\(2,\)"),
        (of_labels([0.0, 1.0, 2.0]), DtypeError, "integer"),
        (of_labels(LABELS, "max"), ValueError, "'mean', 'sum', 'none'"),
    ])  # fmt: skip


KINDS = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"]


@pytest.mark.parametrize("name", ["bool", "int8", "uint16", "int64", "float32", "float64", "complex64", "complex128"])
def test_kinds_of_dtypes_are_numpys(name: str, backend: str) -> None:
    dtype = load(backend).xp.asarray([0], dtype=getattr(load(backend).xp, name)).dtype
    for kind in (*KINDS, ("bool", "real floating"), ()):
        assert agrad.isdtype(dtype, kind) == np.isdtype(np.dtype(name), kind), kind
    for other in ("float32", "int64"):
        assert agrad.isdtype(dtype, getattr(agrad, other)) == (name == other)
    fails(ValueError, r"kind must be one of bool, .* got 'float'", agrad.isdtype, dtype, "float")


@pytest.mark.parametrize("dtype", [">f8", np.dtype(">f4"), np.longdouble])
def test_astype_loses_no_gradient(dtype: Any) -> None:
    with pytest.raises(DtypeError, match=r"astype: dtype of a floating-point Tensor must be .*cast x\.detach"):
        agrad.grad(lambda x: agrad.sum(agrad.astype(x, dtype) * 2.0))(np.ones(2))


def test_cross_entropy_of_more_axes(backend: str) -> None:
    losses = agrad.cross_entropy(leaf(LOGITS), agrad.asarray(LABELS), reduction="none")
    many = agrad.cross_entropy(leaf([LOGITS, LOGITS]), agrad.asarray([LABELS, LABELS]), reduction="none")
    assert_close(many, np.stack([host(losses)] * 2), "losses")
