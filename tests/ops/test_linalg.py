"""Linear algebra and Fourier transforms beyond the table: composites, singular and degenerate matrices, errors."""

import math
from typing import Any

import numpy as np
import pytest
from cases_more import adjugate
from checker import assert_close, check_adjoint, check_like, gradients, host, random_like
from refusals import each_fails, fails

import agrad
from agrad.backends import load
from agrad.errors import IndexRangeError, MissingFunctionError, OperandError, ShapeError

ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def drawn(*shape: int, dtype: str = "real", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng((seed, *shape))
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if dtype == "complex" else x


KINDS = pytest.mark.parametrize("dtype", ["real", "complex"])


# ---------------------------------------------------------------- composites


@pytest.mark.parametrize("ord", ORDERS)
def test_matrix_norm_at_zero_has_the_derivative_0(ord: Any, place: Any) -> None:
    x = place(np.zeros((2, 3)))
    assert_close(agrad.grad(lambda a: agrad.linalg.matrix_norm(a, ord=ord))(x), np.zeros((2, 3)), "gradient", 0.0)


@pytest.mark.parametrize("ord", [2, -2, 1, -1, math.inf, -math.inf])
def test_matrix_norm_shares_ties(ord: Any) -> None:
    found = agrad.grad(lambda a: agrad.linalg.matrix_norm(a, ord=ord))(np.eye(4))
    assert_close(found, np.eye(4) / 4, "gradient", 1e-15)


# the forward of order -1 divides by zero
@pytest.mark.parametrize("ord", [1, 2, 3, 2.5, 0.5, math.inf, -math.inf, 0])
@KINDS
def test_derivatives_of_vector_norm_at_zero(ord: Any, dtype: str, place: Any) -> None:
    x = place(0 * drawn(2, 3, dtype=dtype))

    def norms(a: Any) -> Any:
        return agrad.sum(agrad.linalg.vector_norm(a, axis=1, ord=ord))

    assert_close(agrad.grad(norms)(x), 0 * host(x), "gradient", 0.0)
    again = agrad.grad(lambda a: agrad.sum(agrad.real(agrad.grad(norms)(a) * (1 + a))))(x)
    second = 0.0 if ord in (0, 1, math.inf, -math.inf) else math.nan
    np.testing.assert_array_equal(host(again), np.full((2, 3), second))


def test_the_order_0_is_constant(place: Any) -> None:
    x = agrad.asarray(place(np.asarray([[0.0, 2.0], [1.0, 3.0]])), requires_grad=True)
    y = agrad.linalg.vector_norm(x, ord=0, axis=1)
    assert_close(y, [1.0, 2.0], "value", 0.0)
    assert not y.requires_grad
    z = agrad.linalg.vector_norm(place(np.asarray([0j, 1j])), ord=0)
    assert agrad.asarray(z).dtype == agrad.float64


def test_axes_of_tensordot_by_position_as_numpy_takes_them(place: Any) -> None:
    x, y = place(drawn(2, 3)), place(drawn(3, 2))
    for axes in (1, ((1, 0), (0, 1))):
        right = np.tensordot(host(x), host(y), axes)
        assert_close(agrad.tensordot(x, y, axes), right, "the product", 1e-12)
        assert_close(agrad.tensordot(x, y, axes=axes), right, "the product", 1e-12)


# ---------------------------------------------------------------- singular and degenerate matrices


def of_rank(rank: int, n: int, dtype: str) -> np.ndarray:
    return drawn(n, rank, dtype=dtype, seed=1) @ drawn(rank, n, dtype=dtype, seed=2)


@KINDS
@pytest.mark.parametrize("n", [2, 3, 5])
def test_det_of_singular_matrices(n: int, dtype: str, place: Any) -> None:
    first, middle, equal = drawn(n, n, dtype=dtype), drawn(n, n, dtype=dtype), drawn(n, n, dtype=dtype)
    first[:, 0] = 0
    middle[n // 2] = 0
    equal[:, -1] = equal[:, 0]
    whole = np.round(2 * drawn(n, n, dtype=dtype))
    whole[-1] = 2 * whole[0]
    examples = [first, middle, equal, whole, of_rank(n - 1, n, dtype), of_rank(n - 2, n, dtype)]
    examples += [drawn(n, n, dtype=dtype), 0 * first, np.eye(n, k=1) + 0 * first]
    for x in examples:
        g = gradients(agrad.linalg.det, [place(x)], random_like([place(x[0, 0])], np.random.default_rng(0)))[0]
        weight = host(random_like([place(x[0, 0])], np.random.default_rng(0))[0])
        assert_close(g, weight * adjugate(x).T, "gradient", 1e-12, max(1.0, np.abs(x).max() ** (n - 1)))
        check_adjoint(agrad.linalg.det, [place(x)], np.random.default_rng(0))
    batch = np.stack(examples)
    found = gradients(agrad.linalg.det, [place(batch)], [place(np.ones(len(batch), dtype=batch.dtype))])[0]
    assert_close(found, np.stack([adjugate(x).T for x in examples]), "gradient of a batch", 1e-11)


def test_det_of_a_singular_matrix_in_single_precision(place: Any) -> None:
    x = np.asarray([[1, 2, 3], [2, 4, 6], [1, 0, 1]])
    found = agrad.grad(agrad.linalg.det)(place(x.astype(np.float32)))
    assert_close(found, adjugate(x.astype(float)).T, "gradient", 1e-5)


@pytest.mark.parametrize(("dtype", "scale", "room"), [("float64", 1e-200, 1e-12), ("float32", 1e-25, 1e-4)])
def test_singular_vectors_of_matrices_whose_squares_underflow(
    dtype: str, scale: float, room: float, place: Any
) -> None:
    x, t = drawn(4, 3), drawn(4, 3, seed=4)
    weights = [place(w.astype(dtype)) for w in (drawn(4, 4, seed=1), drawn(3, seed=2), drawn(3, 3, seed=3))]

    def found(scale: float) -> tuple[Any, Any]:
        def f(a: Any) -> Any:
            u, s, vh = agrad.linalg.svd(a)
            return agrad.sum(u**2 @ weights[0]) + agrad.sum(s * weights[1]) / scale + agrad.sum(vh**2 @ weights[2])

        at, along = place((x * scale).astype(dtype)), place((t * scale).astype(dtype))
        return host(agrad.grad(f)(at)) * np.asarray(scale, dtype), agrad.jvp(f, (at,), (along,))[1]

    for small, usual, mode in zip(found(scale), found(1.0), ("reverse", "forward"), strict=True):
        assert_close(small, host(usual), mode, room, 10.0)


def test_singular_values_beside_vectors_that_do_not_count(place: Any) -> None:
    f = lambda a: agrad.sum((usv := agrad.linalg.svd(a))[1]) + 0 * agrad.sum(usv[0]) + 0 * agrad.sum(usv[2])  # noqa: E731
    assert_close(agrad.grad(f)(place(np.diag([3e-200, 2e-200, 1e-200]))), np.eye(3), "gradient", 1e-12)


@KINDS
@pytest.mark.parametrize("name", ["eigh", "svd"])
def test_a_projector_on_the_space_of_nearly_equal_values(name: str, dtype: str, place: Any) -> None:
    """The values differ by a rounding error, and the projector has derivatives all the same."""
    q, w = np.linalg.qr(drawn(3, 3, dtype=dtype))[0], drawn(3, 3, dtype=dtype, seed=1)
    w = place(w + w.conj().T)
    left, right = place(q.conj().T.copy()), place(q)

    def f(a: Any) -> Any:
        values = agrad.stack([a[0], a[1], a[1] * (1 + 1e-15)])
        m = (values * right) @ left
        u = agrad.linalg.eigh(m)[1][..., 1:] if name == "eigh" else agrad.linalg.svd(m)[0][..., :2]
        return agrad.real(agrad.sum((u @ agrad.conj(agrad.matrix_transpose(u))) * w))

    at = place(np.asarray([1.0, 2.0]))
    assert_close(agrad.grad(f)(at), np.zeros(2), "reverse", 1e-12)
    assert_close(agrad.jvp(f, (at,), (place(np.asarray([0.3, -0.7])),))[1], 0.0, "forward", 1e-12)


SINGULAR = np.stack([[[1.0, 2.0], [2.0, 4.0]], [[2.0, 1.0], [1.0, 3.0]], np.zeros((2, 2)), [[0.0, 1.0], [0.0, 0.0]]])
RULES: dict[str, Any] = {
    "slogdet": lambda a: agrad.linalg.slogdet(a)[1],
    "logdet": agrad.linalg.logdet,
    "qr, Q": lambda a: agrad.linalg.qr(a)[0],
    "qr, R": lambda a: agrad.linalg.qr(a)[1],
    "lu": lambda a: agrad.linalg.lu(a)[2],
    "eig": lambda a: agrad.abs(agrad.linalg.eig(a)[1]),
    "det": agrad.linalg.det,
    "pinv": agrad.linalg.pinv,
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_rule_raises_nothing_where_its_function_has_a_value(name: str, place: Any, backend: str) -> None:
    """A regular member has its derivative, whatever the others are."""

    def f(a: Any) -> Any:
        return agrad.sum(RULES[name](a))

    batch, alone = place(SINGULAR), place(SINGULAR[1])
    if name in ("lu", "eig") and not hasattr(load(backend).xp.linalg, name):
        fails(MissingFunctionError, f"linalg.{name}", f, batch)
        return
    gradient = agrad.grad(f)
    assert_close(host(gradient(batch))[1], host(gradient(alone)), "reverse", 1e-12)
    assert_close(host(agrad.vmap(gradient)(batch))[1], host(gradient(alone)), "mapped", 1e-12)
    push = lambda a: agrad.jvp(f, (a,), (a,))[1]  # noqa: E731
    assert_close(host(agrad.vmap(push)(batch))[1], host(push(alone)), "forward", 1e-12)
    twice = agrad.grad(lambda a: agrad.sum(gradient(a) * a))
    assert_close(host(twice(batch))[1], host(twice(alone)), "second order", 1e-11)
    for one in SINGULAR:
        gradient(place(one))
    if name in ("slogdet", "logdet"):
        assert not np.isfinite(host(gradient(batch))[[0, 2, 3]]).any()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_second_derivatives_of_det_of_a_nan(place: Any) -> None:
    x = place(np.stack([np.eye(2), np.full((2, 2), math.nan)]))
    found = host(agrad.vmap(agrad.hessian(agrad.linalg.det))(x))
    assert np.isnan(found[1]).all()
    assert_close(found[0], host(agrad.hessian(agrad.linalg.det)(x[0, ...])), "the other member", 1e-15)


# ---------------------------------------------------------------- errors

WRONG: dict[str, tuple[type[Exception], str, Any]] = {
    "det of a wide matrix": (ShapeError, "square", lambda: agrad.linalg.det(np.ones((2, 3)))),
    "eigh of a vector": (ShapeError, "at least 2 axes", lambda: agrad.linalg.eigh(np.ones(3))),
    "eig of a wide matrix": (ShapeError, "square", lambda: agrad.linalg.eig(np.ones((2, 3)))),
    "svd of a vector": (ShapeError, "at least 2 axes", lambda: agrad.linalg.svd(np.ones(3))),
    "trace of a vector": (ShapeError, "at least 2 axes", lambda: agrad.linalg.trace(np.ones(3))),
    "qr in another mode": (OperandError, "'raw'", lambda: agrad.linalg.qr(np.ones((2, 2)), mode="raw")),
    "power of a wide matrix": (ShapeError, "square", lambda: agrad.linalg.matrix_power(np.ones((2, 3)), 2)),
    "outer of a matrix": (ShapeError, "must be 1-D", lambda: agrad.linalg.outer(np.ones((2, 2)), np.ones(2))),
    "cross of length 2": (ShapeError, "length 3", lambda: agrad.linalg.cross(np.ones(2), np.ones(2))),
    "vecdot of lengths": (ShapeError, r"\(2,\)", lambda: agrad.vecdot(np.ones(2), np.ones(3))),
    "vecdot would broadcast": (ShapeError, "are incompatible", lambda: agrad.vecdot(np.ones(1), np.ones(3))),
    "tensordot of lengths": (ShapeError, "are incompatible", lambda: agrad.tensordot(np.ones(2), np.ones(3), axes=1)),
    "tensordot over too much": (ShapeError, "of both arrays, got 2", lambda: agrad.tensordot(np.ones(2), np.ones(2))),
    "tensordot over pairs": (ShapeError, "pairs", lambda: agrad.tensordot(np.eye(2), np.eye(2), axes=((0, 0), (0, 1)))),
    "tensordot over text": (OperandError, "pair", lambda: agrad.tensordot(np.ones(2), np.ones(2), axes=1.5)),
    "an order of no matrix norm": (OperandError, "3", lambda: agrad.linalg.matrix_norm(np.eye(2), ord=3)),
    "an order by another name": (OperandError, "'x'", lambda: agrad.linalg.matrix_norm(np.eye(2), ord="x")),
    "an order of no vector norm": (OperandError, "'fro'", lambda: agrad.linalg.vector_norm(np.ones(2), ord="fro")),
    "a number": (OperandError, "float", lambda: agrad.linalg.det(2.0)),
    "fft of a length": (ShapeError, "n must be at least 1", lambda: agrad.fft.fft(np.ones(3) + 0j, n=0)),
    "fft of no axis": (ShapeError, "at least 1 axis", lambda: agrad.fft.fft(np.ones(()) + 0j)),
    "fft along no axis": (IndexRangeError, "axis 2", lambda: agrad.fft.fft(np.ones(3) + 0j, axis=2)),
    "another norm": (OperandError, "'none'", lambda: agrad.fft.rfft(np.ones(3), norm="none")),
    "irfft of one": (ShapeError, "n must be at least 1", lambda: agrad.fft.irfft(np.ones(1) + 0j)),
    "lengths for axes": (ShapeError, "1 lengths", lambda: agrad.fft.fftn(np.ones((2, 2)) + 0j, s=(2,), axes=(0, 1))),
    "an axis twice": (ShapeError, "distinct", lambda: agrad.fft.rfftn(np.ones((2, 2)), axes=(0, 0))),
    "fftfreq of nothing": (ShapeError, "n must be at least 1", lambda: agrad.fft.fftfreq(0)),
}


def test_bad_input_is_refused() -> None:
    each_fails((call, error, text) for error, text, call in WRONG.values())


# ---------------------------------------------------------------- frequencies


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
@pytest.mark.parametrize("n", [1, 4, 5])
def test_frequencies(name: str, n: int, backend: str) -> None:
    for how in ({}, {"d": 0.5}):
        found = getattr(agrad.fft, name)(n, **how)
        assert isinstance(found, agrad.Tensor)
        assert_close(found, getattr(np.fft, name)(n, **how), "frequencies", 1e-7)  # PyTorch's are of float32
        check_like(found, agrad.zeros(found.shape), "born where it is selected")
    assert getattr(agrad.fft, name)(n, dtype=agrad.float32).dtype == agrad.float32


def test_lengths_of_several_axes() -> None:
    x = drawn(2, 3, 4)
    got = agrad.fft.fftn(x + 0j, s=(5, -1))
    assert_close(got, np.fft.fftn(x, s=(5, 4), axes=(1, 2)), "s alone is of the last axes, -1 the whole length", 1e-13)
    assert_close(agrad.fft.irfftn(x + 0j, s=(3, 5), axes=(2, 0)), np.fft.irfftn(x, s=(3, 5), axes=(2, 0)), "s", 1e-13)


def test_the_power_0_is_the_identity(place: Any) -> None:
    for shape in ((2, 3, 3), (2, 0, 0)):
        x = agrad.asarray(place(np.ones(shape)), requires_grad=True)
        found = agrad.linalg.matrix_power(x, 0)
        assert_close(found, np.linalg.matrix_power(np.ones(shape), 0), "value", 0.0)
        assert not (x.size and found.requires_grad)
