"""Every public function with complex numbers: what its formula says, or an error; none gives a number of its own.

A function is in the table of cases with a complex example, or in one of the lists here. A test holds them complete.
"""

import inspect
from typing import Any

import numpy as np
import pytest
from cases import CASES
from checker import assert_close, check_jvp, check_vjp
from refusals import fails
from table import named

import agrad
from agrad import nn
from agrad.registry import PRIMITIVES

Z = np.asarray([[0.4 + 0.3j, -0.6 + 0.5j], [1.2 - 0.7j, 0.3 - 0.9j]])
V = np.asarray([0.5 - 0.25j, 1.0 + 0.5j])

WITH_A_ROW = {
    case.row.primitive
    for case in CASES
    if any(isinstance(a, np.ndarray) and a.dtype.kind == "c" for a in case.arguments())
}

FORMULAS: dict[str, tuple[Any, Any]] = {
    "cumsum": (lambda z: agrad.cumsum(z, 0), lambda z: np.cumsum(z, 0)),
    "einsum": (lambda z: agrad.einsum("ij,kj->ik", z, agrad.conj(z)), lambda z: z @ z.conj().T),
    "gradient": (lambda z: agrad.gradient(z, axis=0), lambda z: np.gradient(z, axis=0)),
    "pad": (lambda z: agrad.pad(z, 1), lambda z: np.pad(z, 1)),
    "transpose": (agrad.transpose, np.transpose),
    "sign": (agrad.sign, lambda z: z / abs(z)),
    "from_dlpack": (agrad.from_dlpack, lambda z: z),
    "stop_gradient": (lambda z: z * agrad.stop_gradient(agrad.conj(z)), None),
    "to": (lambda z: agrad.to(z, "numpy"), lambda z: z),
    "to_device": (lambda z: agrad.to_device(z, "cpu"), lambda z: z),
    "linalg.matmul": (lambda z: agrad.linalg.matmul(z, z), lambda z: z @ z),
    "linalg.matrix_transpose": (agrad.linalg.matrix_transpose, lambda z: z.T),
    "linalg.tensordot": (lambda z: agrad.linalg.tensordot(z, z, axes=1), lambda z: z @ z),
    "linalg.vecdot": (lambda z: agrad.linalg.vecdot(z, V), lambda z: np.sum(z.conj() * V, axis=-1)),
    "nn.Sigmoid": (nn.Sigmoid(), lambda z: 1 / (1 + np.exp(-z))),
    "nn.Tanh": (nn.Tanh(), np.tanh),
    "nn.Softmax": (nn.Softmax(), lambda z: np.exp(z) / np.sum(np.exp(z), axis=-1, keepdims=True)),
    "nn.LogSoftmax": (nn.LogSoftmax(), lambda z: z - np.log(np.sum(np.exp(z), axis=-1, keepdims=True))),
    "nn.Identity": (nn.Identity(), lambda z: z),
    "nn.Flatten": (nn.Flatten(), lambda z: z.reshape(2, 2)),
    # in the order of NumPy, by the real part and then by the imaginary one; the standard has real numbers only here
    "max": (agrad.max, np.max),
    "min": (agrad.min, np.min),
    "sort": (agrad.sort, np.sort),
    "maximum": (lambda z: agrad.maximum(z, 0.35), lambda z: np.maximum(z, 0.35)),
    "minimum": (lambda z: agrad.minimum(z, 0.35), lambda z: np.minimum(z, 0.35)),
    "clip": (lambda z: agrad.clip(z, -0.5, 0.5), lambda z: np.clip(z, -0.5, 0.5)),
    "topk": (lambda z: agrad.topk(z, 1)[0], lambda z: np.sort(z)[..., -1:]),
}
"""Functions of ``Z`` with NumPy's value of them, differentiable where that is."""

REFUSED = """
    atan2 ceil copysign cross_entropy erf floor floor_divide gelu hypot logaddexp nextafter quantile relu remainder
    segment_max segment_min signbit softmax_cross_entropy trunc bitwise_and bitwise_invert bitwise_left_shift
    bitwise_or bitwise_right_shift bitwise_xor fft.ihfft fft.rfft fft.rfftn special.beta special.betainc
    special.betaln special.digamma special.entr special.erf special.erfc special.erfcinv special.erfcx
    special.erfinv special.exp1 special.expi special.expit special.gamma special.gammainc special.gammaincc
    special.gammaln special.hyp2f1 special.i0 special.i0e special.i1 special.i1e special.iv special.j0 special.j1
    special.jn special.kl_div special.lambertw special.log_expit special.log_ndtr special.logit special.ndtr
    special.ndtri special.polygamma special.rel_entr special.sinc special.xlog1py special.xlogy special.y0 special.y1
    special.zeta
    nn.ReLU nn.GELU nn.MSELoss nn.CrossEntropyLoss
""".split()  # noqa: SIM905 - a list this long reads better as words

OWN_ERRORS = {"cross_entropy", "erf", "gelu", "relu", "segment_max", "segment_min", "softmax_cross_entropy"}
"""Those of agrad's own making, beside the special functions: their error is agrad's, and names the remedy."""

CONSTANT = """
    all any argmax argmin argsort cast count_nonzero empty_like equal greater greater_equal isfinite isin isinf isnan
    less less_equal linalg.matrix_rank logical_and logical_not logical_or logical_xor nonzero not_equal ones_like
    round searchsorted unique_all unique_counts unique_inverse unique_values zeros_like
""".split()  # noqa: SIM905

OF_NO_VALUES = """
    arange available_backends broadcast_shapes can_cast checkpoint compare_backends cond elementwise elementwise_grad
    empty eval_shape eye fft.fftfreq fft.rfftfreq finfo fixed_point fori_loop get_backend gnvp grad graph hessian hvp
    iinfo isdtype jacfwd jacobian jacrev jit jvp linear_solve linear_transpose linearize load note_state numerical_rule
    odeint ones primitive result_type root save scan set_backend sparse_hessian sparse_jacobian switch use_backend
    value_and_grad vjp vmap while_loop zeros
""".split()  # noqa: SIM905
"""Transforms, and what is about backends, dtypes, shapes or files."""


def _public() -> set[str]:
    found = set()
    for prefix, space in (("", agrad), ("special.", agrad.special), ("linalg.", agrad.linalg), ("fft.", agrad.fft)):
        for name in getattr(space, "__all__", None) or dir(space):
            value = getattr(space, name)
            if not name.startswith("_") and callable(value) and not inspect.isclass(value):
                found.add(prefix + name)
    return found


def test_every_public_function_is_somewhere() -> None:
    lists = [WITH_A_ROW, set(FORMULAS), set(REFUSED), set(CONSTANT), set(OF_NO_VALUES)]
    assert _public() - set().union(*lists) == set()
    for i, one in enumerate(lists[1:]):
        assert not one & set().union(*lists[i + 2 :])


@pytest.mark.parametrize("name", FORMULAS)
def test_complex_numbers_by_the_formula(name: str) -> None:
    f, reference = FORMULAS[name]
    if reference is not None:
        assert_close(f(Z), reference(Z), "value", 1e-13)
        check_vjp(f, [Z], np.random.default_rng(0))
        check_jvp(f, [Z], np.random.default_rng(1))
    else:
        assert_close(agrad.grad(lambda z: agrad.real(agrad.sum(f(z))))(Z), np.conj(Z), "gradient")


def _calls(name: str) -> list[Any]:
    """Calls of a function on complex numbers, with as many arguments as it takes."""
    if name.startswith("nn."):
        made = getattr(nn, name[3:])()
        labels = np.asarray([0, 1])
        return [lambda: made(Z, labels) if "Cross" in name else made(Z, Z + 1) if "Loss" in name else made(Z)]
    function = named(agrad, name)
    if name in ("cross_entropy", "softmax_cross_entropy"):
        rows = np.asarray([[0.5, 0.5], [1.0, 0.0]])
        calls = [lambda: function(Z, np.asarray([0, 1]))]
        return calls if name.startswith("softmax") else [*calls, lambda: function(Z, rows)]
    if name == "special.jn":
        return [lambda: function(1, Z)]
    if name.startswith("segment_"):
        return [lambda: function(Z, np.asarray([0, 1]), 2)]
    if name == "quantile":
        return [lambda: function(agrad.asarray(Z), 0.5)]
    count = {"special.betainc": 3}.get(name)
    if count is None:
        primitive = PRIMITIVES.get(name)
        count = len(primitive.arrays) if primitive is not None else 1
    return [lambda: function(*[Z] * count), lambda: function(*[agrad.asarray(Z)] * count)]


@pytest.mark.parametrize("name", REFUSED)
def test_complex_numbers_are_refused(name: str) -> None:
    ours = name in OWN_ERRORS or name.startswith(("special.", "nn."))
    for call in _calls(name):
        fails(agrad.errors.DtypeError if ours else TypeError, r"real|complex|not supported", call)


@pytest.mark.parametrize("name", ["relu", "gelu"])
def test_activations_of_complex_numbers_are_refused_everywhere(name: str, place: Any) -> None:
    fails(agrad.errors.DtypeError, "must be real, got complex128", lambda: getattr(agrad, name)(place(Z)))


def test_sigmoid_of_complex_numbers_far_out(place: Any) -> None:
    z = np.asarray([800 + 1j, -800 + 1j, 3 - 2j, -3 + 2j])
    with np.errstate(over="ignore"):
        expected = [1, 0, 1 / (1 + np.exp(-z[2])), 1 / (1 + np.exp(-z[3]))]
    assert_close(agrad.sigmoid(place(z)), expected, "value", 1e-14)
    y = np.asarray(expected)
    found = agrad.vjp(agrad.sigmoid, place(z))[1](place(np.ones(4) + 0j))[0]
    assert_close(found, y * (1 - y), "derivative", 1e-14)
