"""``agrad.testing.PrimitiveTest``: right primitives pass all its tests, each wrong one fails the one it is about."""

import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import fails

import agrad
from agrad.errors import ConfigurationError, MissingRuleError
from agrad.registry import KERNELS, Kernel
from agrad.testing import PrimitiveTest, Sample

X = np.asarray([[0.5, -1.2, 0.8], [1.1, 0.3, -0.7]])
ROW = np.asarray([0.4, -0.9, 1.7])


def softplus_of(**rules: Any) -> Any:
    """log(1 + exp(slope * x)) * w, with any rule replaced."""
    forward = rules.pop("forward", lambda xp, x, w, slope: xp.log1p(xp.exp(slope * x)) * w)
    options = {"broadcasts": True, "batch": "leading", **rules.pop("options", {})}

    @agrad.primitive(**options)
    def softplus(xp: Any, x: Any, w: Any, /, *, slope: float = 1.0) -> Any:
        return forward(xp, x, w, slope)

    parts: dict[str, Callable[..., Any]] = {
        "vjp_x": lambda xp, g, x, w, *, slope: g * w * slope / (1 + xp.exp(-slope * x)),
        "vjp_w": lambda xp, g, x, *, slope: g * xp.log1p(xp.exp(slope * x)),
        "jvp_x": lambda xp, t, x, w, *, slope: t * w * slope / (1 + xp.exp(-slope * x)),
        "jvp_w": lambda xp, t, x, *, slope: t * xp.log1p(xp.exp(slope * x)),
        **rules,
    }
    for name in ("x", "w"):
        softplus.vjp(name)(parts[f"vjp_{name}"])
        softplus.jvp(name)(parts[f"jvp_{name}"])
    return softplus


SAMPLES = [
    (X, ROW),
    Sample((X, X + 2.0), {"slope": 2.0}, label="steep"),
    Sample((np.zeros((0, 3)), ROW), label="empty"),
    Sample((X, ROW), constant=(1,), label="fixed weight"),
    (X, 2.0),
]


def expected(x: Any, w: Any, slope: float = 1.0) -> Any:
    return np.logaddexp(0.0, slope * x) * w


class TestSoftplus(PrimitiveTest):
    function = staticmethod(softplus_of())
    samples = SAMPLES
    reference = staticmethod(expected)


class TestUnderUnittest(PrimitiveTest, unittest.TestCase):
    """The same as a ``unittest.TestCase``, with several outputs, a variadic, a complex and a constant primitive."""

    function = staticmethod(agrad.linalg.qr)
    samples = ((np.asarray([[2.0, 0.5], [0.3, 3.0], [0.2, -0.6]]),),)
    backends = ("numpy",)
    without = ("batching",)  # the signs of a factorization are one library's own for stacks and for single matrices


class TestComplexProduct(PrimitiveTest):
    function = staticmethod(agrad.vecdot)
    samples = ((X + 1j * X[::-1], X[::-1] + 2j),)
    reference = staticmethod(lambda a, b: np.vecdot(a, b))


class TestOutputsWhoseNumberVaries(PrimitiveTest):
    function = staticmethod(agrad.unstack)
    samples = (Sample((X,), {"axis": 1}),)
    reference = staticmethod(lambda x, axis: np.unstack(x, axis=axis))


class TestConstant(PrimitiveTest):
    function = staticmethod(agrad.sign)
    samples = ((X,),)
    reference = staticmethod(np.sign)


class TestKink(PrimitiveTest):
    function = staticmethod(agrad.relu)
    samples = (Sample((np.asarray([0.0, 1.0, -1.0]),), kink=True),)


class TestNumpysKernels(PrimitiveTest):
    """The kernels that agrad files for NumPy, at the sizes that their guards ask for."""

    function = staticmethod(agrad.hypot)
    samples = (
        (np.random.default_rng(0).uniform(0.5, 2.0, (40, 30)), np.random.default_rng(1).uniform(1, 2, (40, 30))),
    )
    reference = staticmethod(np.hypot)


class TestAKernelBehindAPublicFunction(PrimitiveTest):
    """Its settings reach the kernel in the form that rules see."""

    function = staticmethod(agrad.prod)
    samples = (Sample((np.random.default_rng(0).uniform(0.5, 2.0, (20, 30)),), {"axis": -1}),)
    reference = staticmethod(lambda x, axis: np.prod(x, axis=axis))


def test_what_is_made_of_a_list() -> None:
    names = [name for name in dir(TestSoftplus) if name.startswith("test_")]
    checks = ("forward", "vjp", "jvp", "adjoint", "recorded", "second_order", "batching", "dtypes", "layouts")
    labels = ("0", "steep", "empty", "fixed_weight", "4")
    assert {f"test_{check}_{label}" for check in (*checks, "on_numpy") for label in labels} <= set(names)
    assert "test_kernels_numpy" in names
    assert not any("batching" in name for name in dir(TestUnderUnittest))
    assert not any(name.startswith("test_") for name in dir(PrimitiveTest))


def run(function: Any, samples: Any = ((X, ROW),), **more: Any) -> dict[str, str]:
    """Which of the tests fail, with what they say."""
    made = type("Made", (PrimitiveTest,), {"function": staticmethod(function), "samples": samples, **more})
    failed = {}
    for name in dir(made):
        if name.startswith("test_"):
            try:
                getattr(made(), name)()
            except Exception as error:
                failed[name.removeprefix("test_")] = f"{type(error).__name__}: {error}"
    return failed


def test_the_right_one_fails_nothing() -> None:
    assert run(softplus_of(), SAMPLES, reference=staticmethod(expected)) == {}


def constant(x: Any) -> Any:
    return x.detach() if isinstance(x, agrad.Tensor) else x


WRONG = {
    "vjp": ({"vjp_w": lambda xp, g, x, *, slope: -g * xp.log1p(xp.exp(slope * x))}, "vjp_0", "argument 1 (w)"),
    "jvp": (
        {"jvp_x": lambda xp, t, x, w, *, slope: t * w / (1 + xp.exp(slope * x))}, "jvp_0", "argument 0 (x)"
    ),
    "adjoint": ({"vjp_x": lambda g, w: g * w}, "adjoint_0", "<g, J t>"),
    "second": (
        {"vjp_x": lambda xp, g, x, w, *, slope: g * w * slope / (1 + xp.exp(-slope * constant(x)))},
        "second_order_0", "over reverse mode derivative with respect to argument 0 (x)",
    ),
    "forward": ({"forward": lambda xp, x, w, slope: xp.log1p(xp.exp(slope * x)) * w * 1.1}, "forward_0", "reference"),
    "batching": ({"forward": lambda xp, x, w, slope: xp.log1p(xp.exp(slope * x)) * w + 0 * xp.sum(x) + x.ndim},
                 "batching_0", "under vmap over arguments [0]"),
    "layouts": ({"forward": lambda xp, x, w, slope: xp.log1p(xp.exp(slope * x)) * w * _memory(x)},
                "layouts_0", "not contiguous"),
    "dtypes": ({"forward": lambda xp, x, w, slope: xp.astype(xp.log1p(xp.exp(slope * x)) * w, xp.float64)},
               "dtypes_0", "dtype float32 for arguments of single precision, got float64"),
    "recorded": ({"vjp_w": lambda xp, g, x, *, slope: g * xp.log1p(xp.exp(slope * x)) * (
        1.001 if isinstance(x, agrad.Tensor) else 1.0)}, "recorded_0", "raw and recorded gradient of argument 1"),
    "backend": ({"forward": lambda xp, x, w, slope: xp.log1p(xp.exp(slope * x)) * w * (
        1.001 if "strict" in type(x).__module__ else 1.0)}, "on_array_api_strict_0", "on array_api_strict"),
    "writes": ({"vjp_w": lambda xp, g, x, *, slope: _write(g) * xp.log1p(xp.exp(slope * x))}, "layouts_0", "writes"),
}  # fmt: skip


def _memory(x: Any) -> float:
    return 1.0 if not isinstance(x, np.ndarray) or x.flags.c_contiguous else 1.01


def _write(g: Any) -> Any:
    if isinstance(g, np.ndarray):
        g *= 1.0
    return g


@pytest.mark.parametrize("kind", WRONG)
def test_each_wrong_one_fails_its_test(kind: str) -> None:
    rules, test, text = WRONG[kind]
    failed = run(softplus_of(**rules), reference=staticmethod(expected))
    assert text in failed[test]


def test_a_missing_batching_rule() -> None:
    failed = run(softplus_of(options={"batch": None}))
    assert set(failed) == {"batching_0"}
    assert failed["batching_0"].startswith(MissingRuleError.__name__)


def test_kernels_are_held_to_the_generic_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def softplus_tests(part: str, function: Any, when: Any, names: tuple[str, ...]) -> dict[str, str]:
        key = ("numpy", "softplus", part)
        monkeypatch.setitem(KERNELS, key, Kernel(when, function, names, ("slope",)))
        try:
            return {k: v for k, v in run(softplus_of()).items() if k.startswith("kernels")}
        finally:
            monkeypatch.delitem(KERNELS, key)

    for part, function, when, names, text in (
        ("forward", lambda x, w, *, slope: np.log1p(np.exp(slope * x)) * w, None, ("x", "w"), ""),
        ("forward", lambda x, w, *, slope: np.log1p(np.exp(x)) * w * 1.001, None, ("x", "w"), "the kernel forward of"),
        ("vjp:w", lambda g, x, *, slope: g * np.log1p(np.exp(slope * x)), None, ("g", "x"), ""),
        ("vjp:w", lambda g, x, *, slope: g * np.log1p(np.exp(slope * x)) + 1e-6, None, ("g", "x"), "kernel vjp:w of"),
        ("vjp:w", lambda g, x, *, slope: g, lambda g, x: False, ("g", "x"), "no sample reaches the kernel vjp:w"),
    ):
        failed = softplus_tests(part, function, when, names)
        assert text in failed["kernels_numpy"] if text else failed == {}
    assert {("numpy", "hypot", "vjp:x1"), ("numpy", "prod", "vjp:x")} <= set(KERNELS)  # so the classes above test some


def test_errors() -> None:
    for match, options in (
        ("function is missing", {"function": None}),
        ("'speed'", {"without": ("speed",)}),
        ("got 'a' twice", {"samples": [Sample((X,), label="a")] * 2}),
    ):
        given = {"function": agrad.sin, "samples": ((X,),), **options}
        made = {name: value for name, value in given.items() if value is not None}
        fails(ConfigurationError, match, type, "Made", (PrimitiveTest,), made)
    assert "Pass options as keyword arguments" in run(softplus_of(), ((X, "w"),))["vjp_0"]
