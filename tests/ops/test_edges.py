"""Derivatives at the edges of functions: equal values, zeros, infinities, complex numbers, nothing to sum."""

import math
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host

import agrad

INF, NAN = math.inf, math.nan
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:var.*degrees of freedom:UserWarning")
WIDTHS = pytest.mark.parametrize("dtype", ["float64", "float32"])


def placed(place: Any, values: Any, dtype: str = "float64") -> Any:
    kind = {"float32": "complex64", "float64": "complex128"}[dtype] if np.iscomplexobj(values) else dtype
    return place(np.asarray(values, dtype=kind))


# ---------------------------------------------------------------- variances of complex numbers

Z = np.asarray([1 + 2j, -0.5 + 1j, 3 - 1j])


def test_the_variance_of_complex_numbers(place: Any) -> None:
    z = place(Z)
    expected = 2 * np.conj(Z - Z.mean()) / 3
    assert_close(agrad.var(z), np.var(Z), "value")
    assert_close(agrad.grad(agrad.var)(z), expected, "gradient")
    assert_close(agrad.grad(agrad.std)(z), expected / (2 * np.std(Z)), "gradient of the deviation")
    for t in (np.asarray([1.0, 0, 0]), np.asarray([0, 1j, 2 - 1j])):
        slope = agrad.jvp(agrad.var, (z,), (place(t + 0j),))[1]
        assert_close(slope, np.real(np.sum(expected * t)), "tangent")


def test_the_size_of_an_infinite_complex_number(place: Any) -> None:
    z = np.asarray([complex(INF, 0), complex(3, -INF), complex(-INF, INF), 3 + 4j, 0j])
    expected = np.asarray([1, 1j, -(1 + 1j) * math.sqrt(0.5), 0.6 - 0.8j, 0])
    assert_close(agrad.grad(lambda z: agrad.sum(agrad.abs(z)))(place(z)), expected, "gradient")
    for t in (1 + 0j, 1j):
        slopes = agrad.jvp(agrad.abs, (place(z),), (place(np.full(5, t)),))[1]
        assert_close(slopes, np.real(expected * t), "tangent")


# ---------------------------------------------------------------- numbers beside arrays without dimensions

NUMBERS: dict[str, tuple[Any, complex, complex]] = {
    "1j + y": (lambda y: 1j + y, 1, 0),
    "y - 1j": (lambda y: y - 1j, 1, 0),
    "1j - y": (lambda y: 1j - y, -1, 0),
    "1j * y": (lambda y: 1j * y, 1j, 0),
    "y * 1j": (lambda y: y * 1j, 1j, 0),
    "1j / y": (lambda y: 1j / y, -1j / math.sin(2) ** 2, 2j / math.sin(2) ** 3),
    "y / 1j": (lambda y: y / 1j, -1j, 0),
}


@pytest.mark.parametrize("label", NUMBERS)
def test_a_complex_number_beside_a_real_one(label: str, backend: str) -> None:
    f, by_y, twice = NUMBERS[label]
    for x in (agrad.asarray(2.0, dtype=agrad.float64), agrad.asarray(2.0, dtype=agrad.float64).raw):
        one = agrad.ones_like(agrad.asarray(x)).raw
        slope = by_y * math.cos(2)
        bend = twice * math.cos(2) ** 2 - by_y * math.sin(2)
        assert_close(agrad.jvp(lambda x: f(agrad.sin(x)), (x,), (one,))[1], slope, "tangent")
        assert_close(agrad.jacfwd(lambda x: f(agrad.sin(x)))(x), slope, "forward Jacobian")

        def parts(x: Any) -> Any:
            y = f(agrad.sin(x))
            return agrad.real(y) + 2 * agrad.imag(y)

        assert_close(agrad.grad(parts)(x), slope.real + 2 * slope.imag, "gradient")
        assert_close(agrad.hvp(parts, (x,), (one,))[0], bend.real + 2 * bend.imag, "second order")
        assert_close(agrad.hessian(parts)(x), bend.real + 2 * bend.imag, "Hessian")


# ---------------------------------------------------------------- logarithms times numbers that are 0

ENTROPIES: dict[str, tuple[tuple[float, float], list[float], list[list[float]]]] = {
    "xlogy": ((0.0, 2.0), [math.log(2), 0.0], [[0, 0.5], [0.5, 0]]),
    "xlog1py": ((0.0, 2.0), [math.log(3), 0.0], [[0, 1 / 3], [1 / 3, 0]]),
    "rel_entr": ((0.0, 2.0), [-INF, 0.0], [[INF, -0.5], [-0.5, 0]]),
    "kl_div": ((0.0, 2.0), [-INF, 1.0], [[INF, -0.5], [-0.5, 0]]),
    "xlogy at 0": ((0.0, 0.0), [0.0, 0.0], [[0, 0], [0, 0]]),
    "xlog1py at 0": ((0.0, 0.0), [0.0, 0.0], [[0, 1], [1, 0]]),
    "xlog1py at -1": ((0.0, -1.0), [0.0, 0.0], [[0, 0], [0, 0]]),
    "rel_entr at 0": ((0.0, 0.0), [0.0, 0.0], [[0, 0], [0, 0]]),
    "kl_div at 0": ((0.0, 0.0), [0.0, 1.0], [[0, 0], [0, 0]]),
    "rel_entr inside": ((0.5, 2.0), [math.log(0.25) + 1, -0.25], [[2, -0.5], [-0.5, 0.125]]),
    "rel_entr of nan": ((NAN, 2.0), [NAN, NAN], [[NAN, NAN], [NAN, NAN]]),
    "rel_entr outside": ((1.0, 0.0), [NAN, NAN], [[NAN, NAN], [NAN, NAN]]),
}


@WIDTHS
@pytest.mark.parametrize("label", ENTROPIES)
def test_masks_act_only_where_the_function_is_singular(label: str, dtype: str, place: Any) -> None:
    point, slopes, second = ENTROPIES[label]
    function = getattr(agrad.special, label.partition(" ")[0])
    x = placed(place, point, dtype)

    def f(v: Any) -> Any:
        return function(v[0], v[1])

    relative = 1e-6 if dtype == "float32" else 1e-13
    for gradient in (agrad.grad(f), agrad.jit(agrad.grad(f))):
        np.testing.assert_allclose(host(gradient(x)), slopes, rtol=relative)
    ways = {
        "hessian": agrad.hessian(f),
        "jacrev": agrad.jacrev(agrad.grad(f)),
        "reverse over forward": agrad.jacrev(lambda v: agrad.stack(list(agrad.grad(function, (0, 1))(v[0], v[1])))),
        "vmap": lambda v: agrad.vmap(agrad.hessian(f))(agrad.stack([agrad.asarray(v), agrad.asarray(v)]))[1],
    }
    for way, hessian in ways.items():
        np.testing.assert_allclose(host(hessian(x)), second, rtol=relative, err_msg=way)


# ---------------------------------------------------------------- vectors of equal values

W = np.random.default_rng(1).normal(size=(3, 3))
ROTATION = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]


def rebuilt_by_eigh(x: Any, weights: Any) -> Any:
    w, v = agrad.linalg.eigh(x)
    return agrad.sum(agrad.matmul(v * w, agrad.matrix_transpose(v)) * weights)


def rebuilt_by_svd(x: Any, weights: Any) -> Any:
    u, s, vh = agrad.linalg.svd(x, full_matrices=False)
    return agrad.sum(agrad.matmul(u * s, vh) * weights)


DEGENERATE: dict[str, Any] = {
    "eigh": (rebuilt_by_eigh, [np.eye(3), np.diag([1.0, 2.0, 2.0])]),
    "svd": (
        rebuilt_by_svd,
        [np.eye(3), np.diag([1.0, 2.0, 2.0]), np.zeros((3, 2)), np.asarray([[1.0, 0], [0, 0], [0, 0]])],
    ),
    "eig": (
        lambda x, weights: agrad.real(agrad.sum(agrad.linalg.eig(x)[1] ** 2)),
        [np.eye(3), np.diag([1.0, 2.0, 2.0])],
    ),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_the_derivative_through_vectors_of_equal_values_is_nan(name: str, place: Any, backend: str) -> None:
    if name == "eig" and backend == "dask":
        pytest.skip("Dask has no eig")
    f, examples = DEGENERATE[name]
    for x in examples:
        weights = place(np.ones(x.shape) * (1.0 if name == "eig" else W[: x.shape[0], : x.shape[1]]))
        at = place(x)
        assert np.isnan(host(agrad.grad(f)(at, weights))).all()
        assert np.isnan(host(agrad.jvp(lambda x, f=f, w=weights: f(x, w), (at,), (place(x + 1),))[1]))


def test_the_derivative_through_vectors_of_separate_values_is_right(place: Any) -> None:
    for gap in (1.0, 1e-3):
        x = ROTATION @ np.diag([1.0, 1.0 + gap, 3.0]) @ ROTATION.T
        found = agrad.grad(lambda x: rebuilt_by_eigh(x, place(W)))(place(x))
        assert_close(found, (W + W.T) / 2, "of eigh", 1e-11 / gap)
        found = agrad.grad(lambda x: rebuilt_by_svd(x, place(W)))(place(x))
        assert_close(found, W, "of svd", 1e-11 / gap)


VALUES: dict[str, tuple[Any, Any, Any]] = {
    "eigvalsh": (lambda x: agrad.sum(agrad.linalg.eigvalsh(x) ** 2), np.eye(3), 2 * np.eye(3)),
    "eigh": (lambda x: agrad.sum(agrad.exp(agrad.linalg.eigh(x)[0])), np.eye(3), math.e * np.eye(3)),
    "svdvals": (lambda x: agrad.sum(agrad.linalg.svdvals(x)), np.eye(3), np.eye(3)),
    "svd of a rotation": (lambda x: agrad.sum(agrad.linalg.svd(x)[1] ** 3), ROTATION, 3 * ROTATION),
    "nuclear norm": (lambda x: agrad.linalg.matrix_norm(x, ord="nuc"), 2 * ROTATION, ROTATION),
    "spectral norm": (lambda x: agrad.linalg.matrix_norm(x, ord=2), np.eye(3), np.eye(3) / 3),
    "pinv": (lambda x: agrad.sum(agrad.linalg.pinv(x) * agrad.asarray(W.tolist(), dtype=agrad.float64)), np.eye(3), -W),
    "det": (agrad.linalg.det, np.eye(3), np.eye(3)),
}


@pytest.mark.parametrize("name", VALUES)
def test_first_derivatives_of_equal_values_are_right(name: str, place: Any) -> None:
    f, x, expected = VALUES[name]
    assert_close(agrad.grad(f)(place(x)), expected, "gradient", 1e-12)
    t = np.random.default_rng(3).normal(size=(3, 3))
    t = t + t.T if "eig" in name else t
    assert_close(agrad.jvp(f, (place(x),), (place(t),))[1], np.sum(expected * t), "tangent", 1e-11)


def test_second_derivatives_of_equal_values_are_nan(place: Any) -> None:
    for f in (lambda x: agrad.sum(agrad.linalg.eigvalsh(x) ** 2), lambda x: agrad.linalg.matrix_norm(x, ord="nuc")):
        assert np.isnan(host(agrad.jacrev(agrad.grad(f))(place(np.eye(2))))).all()
        assert np.isnan(host(agrad.jvp(agrad.grad(f), (place(np.eye(2)),), (place(np.ones((2, 2))),))[1])).all()
    apart = agrad.hessian(lambda x: agrad.linalg.eigvalsh(x)[0])(place(np.diag([1.0, 3.0])))
    assert_close(host(apart)[0, 1], [[0, -0.25], [-0.25, 0]], "second derivative", 1e-14)


def test_a_choice_elsewhere_does_not_hide_the_nan(place: Any) -> None:
    """A pass behind ``where`` guards elementwise rules; the vectors' rule is none of these."""
    f = lambda x: agrad.sum(agrad.where(x > 5, x, 0.0)) + agrad.sum(agrad.linalg.eigvalsh(x) ** 2)  # noqa: E731
    second = agrad.grad(lambda x: agrad.sum(agrad.grad(f)(x) * agrad.asarray(W.tolist(), dtype=agrad.float64)))
    assert np.isnan(host(second(place(np.eye(3))))).all()


def test_least_squares_with_equal_singular_values() -> None:
    """NumPy's functions that take the values alone, or the pseudo-inverse."""
    b = np.asarray([1.0, 2.0, 3.0])
    found = agrad.grad(lambda a: agrad.sum(np.linalg.lstsq(a, b, rcond=None)[0]))(np.eye(3))
    assert_close(found, -np.outer(np.ones(3), b), "lstsq", 1e-12)
    found = agrad.grad(lambda a: np.linalg.cond(a) + np.linalg.matrix_rank(a))(np.diag([2.0, 1.0]))
    assert_close(found, np.diag([1.0, -2.0]), "cond", 1e-12)
    y = np.asarray([0.0, 1.0, 0.5, 2.0])
    x = np.asarray([-1.0, 1.0, -1.0, 1.0])  # the columns of the design are orthogonal and of one length
    slopes = agrad.jacobian(lambda y: np.polyfit(x, y, 1))(y)
    assert_close(slopes, np.stack([x / 4, np.ones(4) / 4]), "polyfit", 1e-12)


# ---------------------------------------------------------------- first derivatives at edges, both modes

SLOPES: dict[str, tuple[Any, Any, Any]] = {
    "std of one element": (agrad.std, [3.0], [0]),
    "std of rows": (lambda x: agrad.sum(agrad.std(x, axis=1)), [[1.0, 1.0], [0.0, 2.0]], [[0, 0], [-0.5, 0.5]]),
    "norm of order -1": (lambda x: agrad.linalg.vector_norm(x, ord=-1), [0.0, 1.0, 2.0], [0, 0, 0]),
    "norm of order -2": (lambda x: agrad.linalg.vector_norm(x, ord=-2), [1.0, 0.0, -2.0], [0, 0, 0]),
    "norm of order -1 without a 0": (lambda x: agrad.linalg.vector_norm(x, ord=-1), [1.0, -1.0], [0.25, -0.25]),
    "norm of order 0.5": (lambda x: agrad.linalg.vector_norm(x, ord=0.5), [0.0, 1.0, 4.0], [0, 3, 1.5]),
    "hypot of minus infinity": (lambda x: agrad.hypot(x[0], x[1]), [1.0, -INF], [0, -1]),
    "hypot of two infinities": (lambda x: agrad.hypot(x[0], x[1]), [INF, -INF], [0.5**0.5, -(0.5**0.5)]),
    "remainder of a rounded quotient": (lambda x: agrad.remainder(x[0], x[1]), [1.0, 0.1], [1, -9]),
}


@WIDTHS
@pytest.mark.parametrize("label", SLOPES)
def test_first_derivatives_at_edges(label: str, dtype: str, place: Any) -> None:
    f, at, expected = SLOPES[label]
    if "rounded" in label and dtype == "float32":
        expected = [1, -float(np.floor_divide(np.float32(1), np.float32(0.1)))]
    x = placed(place, at, dtype)
    relative = 1e-6 if dtype == "float32" else 1e-14
    for found in (agrad.grad(f)(x), agrad.jit(agrad.grad(f))(x), agrad.jacfwd(f, chunk_size=1)(x)):
        np.testing.assert_allclose(host(found), expected, rtol=relative, atol=relative)
    members = agrad.vmap(agrad.grad(f))(agrad.stack([agrad.asarray(x), agrad.asarray(x)]))
    np.testing.assert_allclose(host(members)[1], expected, rtol=relative, atol=relative)


def test_second_derivatives_of_norms_beside_an_element_that_is_0(place: Any) -> None:
    """A norm of 1, t: (1 + abs(t)**p)**(1/p)."""
    x = place(np.asarray([1.0, 0.0]))

    def along(p: float, count: int) -> float:
        f = lambda t: agrad.linalg.vector_norm(agrad.stack([agrad.ones_like(t), t]), ord=p)  # noqa: E731
        for _ in range(count):
            f = agrad.grad(f)
        return float(host(f(x[1])))

    assert [along(p, 2) for p in (1.1, 1.5, 2, 2.5, 3)] == [INF, INF, 1, 0, 0]
    assert np.isclose(along(4, 4), 6)
    slope = agrad.grad(lambda x: agrad.linalg.vector_norm(x, ord=1.5))
    for second in (agrad.jacrev(slope), agrad.jacfwd(slope)):
        found = host(second(x))
        assert found[1, 1] == INF and found[0, 0] == 0
    z = agrad.grad(lambda z: agrad.linalg.vector_norm(z, ord=1.5))
    with np.errstate(all="ignore"):
        assert np.isnan(host(agrad.jvp(z, (x + 0j,), (x * 0 + 1j,))[1])[1])


def test_a_norm_of_negative_order_of_complex_numbers(place: Any) -> None:
    for at, expected in (([0j, 1j, 2.0], [0, 0, 0]), ([1j, 1.0 + 0j], [-0.25j, 0.25])):
        f = lambda z: agrad.linalg.vector_norm(z, ord=-1)  # noqa: E731
        assert_close(agrad.grad(f)(place(np.asarray(at, dtype=complex))), expected, "gradient")


@WIDTHS
@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("count", [1, 1 << 13])  # NumPy has a kernel for long arrays of float32
def test_gelu_at_infinities(count: int, approximate: bool, dtype: str, place: Any) -> None:
    x = placed(place, [-INF, INF, -1e30, NAN] * count, dtype)
    gelu = lambda x: agrad.gelu(x, approximate=approximate)  # noqa: E731
    np.testing.assert_array_equal(host(gelu(x))[:4], np.asarray([0, INF, 0, NAN]))
    np.testing.assert_array_equal(host(agrad.jit(gelu)(x))[:4], np.asarray([0, INF, 0, NAN]))
    np.testing.assert_array_equal(host(agrad.elementwise_grad(gelu)(x))[:4], [0, 1, 0, NAN])


LENGTHS: dict[str, tuple[Any, list[float]]] = {
    "norm": (agrad.linalg.vector_norm, [0.0, 0.0]),
    "norm of order 3": (lambda x: agrad.linalg.vector_norm(x, ord=3), [0.0, 0.0]),
    "Frobenius norm": (lambda x: agrad.linalg.matrix_norm(agrad.reshape(x, (1, 2))), [0.0, 0.0]),
    "hypot": (lambda x: agrad.hypot(x[0], x[1]), [0.0, 0.0]),
    "std": (agrad.std, [1.5, 1.5]),
}


@WIDTHS
@pytest.mark.parametrize("label", LENGTHS)
def test_second_derivatives_of_squared_lengths_at_0_are_nan(label: str, dtype: str, place: Any) -> None:
    length, at = LENGTHS[label]
    x = placed(place, at, dtype)
    beside = lambda x: length(x) ** 2 + agrad.sum(agrad.where(x > 9, x, 0.0))  # noqa: E731
    # behind a choice elementwise rules are guarded, and norms are not elementwise
    for f in (lambda x: length(x) ** 2, *([beside] if "norm" in label else [])):
        assert not host(agrad.grad(f)(x)).any()
        for second in (
            agrad.hessian(f),
            agrad.jacrev(agrad.grad(f)),
            agrad.jacrev(agrad.jacfwd(f)),
            agrad.jit(agrad.hessian(f)),
        ):
            assert np.isnan(host(second(x))).all()
    squares = agrad.hessian(lambda x: agrad.sum(x * x))(placed(place, [0.0, 0.0], dtype))
    assert_close(squares, 2 * np.eye(2), "what has a second derivative")


@WIDTHS
@pytest.mark.parametrize("name", ["erf", "erfc", "erfcx", "ndtr", "log_ndtr", "gammaln", "erfinv", "i0", "j0", "expit"])
def test_a_nan_stays_one_in_every_mode(name: str, dtype: str, place: Any) -> None:
    f = getattr(agrad.special, name)
    x, one = placed(place, NAN, dtype), placed(place, 1.0, dtype)
    twice = agrad.grad(agrad.grad(f))
    found = [f(x), agrad.grad(f)(x), twice(x), agrad.grad(twice)(x), agrad.jvp(f, (x,), (one,))[1]]
    found += [agrad.jvp(agrad.grad(f), (x,), (one,))[1], agrad.jit(agrad.grad(f))(x)]
    assert np.isnan([float(host(value)) for value in found]).all()


def test_scipys_loggamma_of_nan_and_of_negative_numbers() -> None:
    scipy_special = pytest.importorskip("scipy.special")
    for at in (NAN, -1.5):
        assert np.isnan(agrad.grad(lambda x: scipy_special.loggamma(x))(np.asarray(at)))
    assert_close(agrad.grad(lambda x: scipy_special.loggamma(x))(np.asarray(2.0)), 1 - np.euler_gamma, "derivative")


@pytest.mark.parametrize("tiny", [5e-324, 1e-310, 1e-305, 1e-300])
def test_bessel_functions_near_0(tiny: float, place: Any) -> None:
    x = place(np.asarray(tiny))
    for f, order, expected in ((agrad.special.i1, 1, 0.5), (agrad.special.i0, 2, 0.5)):
        derivative = f
        for _ in range(order):
            derivative = agrad.grad(derivative)
        assert_close(derivative(x), expected, "derivative", 1e-15)
    assert np.isfinite(host(agrad.grad(agrad.grad(agrad.special.i1))(x)))


def test_scipys_modified_bessel_function_near_0() -> None:
    pytest.importorskip("scipy.special")
    orders = np.asarray([0.0, 0.5, 1.0, -1.0, -0.5])
    found = agrad.special.iv(orders, np.full(5, 1e-300))
    assert_close(found[[0, 4]], [1.0, math.sqrt(2 / math.pi) * 1e150], "values", 1e-14)
    assert_close(found[[1, 2, 3]] * 1e150, [math.sqrt(2 / math.pi), 5e-151, 5e-151], "small values", 1e-14)
    assert agrad.special.iv(1.0, np.asarray([-1e-310]))[0] == -5e-311


RANGES: dict[str, tuple[Any, Any]] = {
    "large": (1e120 * np.eye(3), 1e240 * np.eye(3)),
    "small": (1e-120 * np.eye(3), 1e-240 * np.eye(3)),
    "both": (np.diag([1e200, 1e-200, 1.0]), np.diag([1e-200, 1e200, 1.0])),
    "two by two": (np.asarray([[1e160, 2e160], [3e160, 7e160]]), np.asarray([[7e160, -3e160], [-2e160, 1e160]])),
}


@pytest.mark.parametrize("label", RANGES)
def test_det_whose_value_leaves_the_range(label: str, place: Any) -> None:
    x, expected = RANGES[label]
    np.testing.assert_allclose(host(agrad.grad(agrad.linalg.det)(place(x))), expected, rtol=1e-13, atol=1e-300)
    unit = np.zeros(x.shape)
    unit[-1, -1] = 1.0
    _, slope = agrad.jvp(agrad.linalg.det, (place(x),), (place(unit),))
    np.testing.assert_allclose(host(slope), expected[-1, -1], rtol=1e-13)


def test_second_derivatives_of_det_at_large_numbers(place: Any) -> None:
    scale = 1e120
    found = agrad.jvp(agrad.grad(agrad.linalg.det), (place(scale * np.eye(3)),), (place(np.diag([1.0, 0.0, 0.0])),))[1]
    np.testing.assert_allclose(host(found), scale * np.diag([0.0, 1.0, 1.0]), rtol=1e-13, atol=1e100)


# ---------------------------------------------------------------- sums of exponentials: branches, nothing to sum


def test_logsumexp_of_complex_numbers_is_on_the_principal_branch(place: Any) -> None:
    for z in ([100j, 1j], [3 + 3j, 3 + 3.1j], [-800 + 4j, -801 - 9j], [1000 + 2j, 0j]):
        z = np.asarray(z)
        top = z.real.max()
        value = np.log(np.sum(np.exp(z - top))) + top
        assert -math.pi < value.imag <= math.pi
        weights = np.exp(z - value)
        for function in (agrad.logsumexp, agrad.special.logsumexp):
            assert_close(function(place(z)), value, "value", 1e-13)
            assert_close(agrad.grad(function, holomorphic=True)(place(z)), weights, "derivative", 1e-12)
        assert_close(agrad.softmax(place(z)), weights, "softmax", 1e-12)


@WIDTHS
def test_an_axis_of_length_0(dtype: str, place: Any) -> None:
    x = placed(place, np.zeros((2, 0)), dtype)
    for part in (agrad, agrad.special):
        for function in (part.softmax, part.log_softmax):
            assert host(function(x, axis=1)).shape == (2, 0)
            assert host(agrad.grad(lambda x, f=function: agrad.sum(f(x, axis=1)))(x)).shape == (2, 0)
        assert host(part.logsumexp(x, axis=1)).tolist() == [-INF, -INF]
        assert host(part.logsumexp(x, axis=1, keepdims=True)).shape == (2, 1)
        assert host(agrad.grad(lambda x, f=part.logsumexp: agrad.sum(f(x, axis=1)))(x)).shape == (2, 0)
    assert agrad.asarray(agrad.logsumexp(x, axis=1)).dtype == getattr(agrad, dtype)


def test_a_convolution_of_no_images(place: Any) -> None:
    x, w = place(np.zeros((0, 1, 3, 3))), place(np.ones((1, 1, 2, 2)))
    assert host(agrad.nn.functional.conv2d(x, w)).shape == (0, 1, 2, 2)
    slope = agrad.grad(lambda w: agrad.sum(agrad.nn.functional.conv2d(x, w)))(w)
    assert_close(slope, np.zeros((1, 1, 2, 2)), "gradient", 0.0)


# ---------------------------------------------------------------- integers, whose differences wrap around


@pytest.mark.parametrize("dtype", ["uint8", "int64", "bool"])
@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax", "sigmoid"])
def test_functions_of_floating_numbers_take_integers(name: str, dtype: str, place: Any) -> None:
    x = np.asarray([1, 0, 3]).astype(dtype)
    right = getattr(agrad, name)(x.astype(np.float64))
    assert_close(getattr(agrad, name)(place(x)), right, name, 1e-6)
    if name != "sigmoid":
        assert_close(getattr(agrad.special, name)(place(x)), right, f"special.{name}", 1e-6)


@pytest.mark.parametrize(
    ("x1", "x2", "dtype"),
    [(1, 50, "int64"), (1, 2.5, "float64"), (True, 2, "int64"), (1.0, 2j, "complex128"), (True, False, "bool")],
)
def test_where_of_two_numbers_is_of_their_kind(x1: Any, x2: Any, dtype: str, place: Any) -> None:
    found = agrad.where(place(np.asarray([True, False])), x1, x2)
    assert agrad.asarray(found).dtype == getattr(agrad, dtype)
    assert host(found).tolist() == [x1, x2]
