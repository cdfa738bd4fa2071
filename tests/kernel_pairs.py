"""NumPy kernels next to the generic code that they replace, and the arguments for both."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from agrad.backends import load
from agrad.registry import KERNELS, PRIMITIVES

XP = load("numpy").xp
PAIRS = ("maximum", "minimum", "pow", "hypot", "atan2", "logaddexp")
"""Elementwise operations of two arguments that have kernels."""


def parts(name: str) -> list[str]:
    """Return the parts of an operation that have a kernel: its forward pass, its rules."""
    return [part for backend, n, part in KERNELS if (backend, n) == ("numpy", name) and "(" not in part]


def drawn(shape: tuple[int, ...], dtype: Any, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Return random numbers that cannot be written over."""
    out = np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)
    out.setflags(write=False)
    return out


def rare(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return every pair of numbers that are rare, many times."""
    info = np.finfo(dtype)
    one = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, info.tiny, -info.tiny / 4, info.max, -info.max]
    one += [float(info.max) ** 0.5 * 1.5, float(info.tiny) ** 0.5 / 2]
    a, b = np.meshgrid(np.array(one, dtype), np.array(one, dtype))
    return np.tile(a.reshape(-1), 100), np.tile(b.reshape(-1), 100)


def generic(name: str, part: str, values: dict[str, Any], **settings: Any) -> Any:
    """Return the result of the generic body or rule on NumPy."""
    primitive = PRIMITIVES[name]
    if part == "forward":
        with np.errstate(all="ignore"):
            return primitive.generic(load("numpy"))(*[values[n] for n in primitive.arrays], **settings)
    rule = primitive.vjps[part.removeprefix("vjp:")]
    known = {k: v for k, v in settings.items() if k in rule.settings}
    return rule.function(*[XP if n == "xp" else values[n] for n in rule.names], **known)


def filed(name: str, part: str, values: dict[str, Any], **settings: Any) -> Any:
    """Return the result of the kernel, or NotImplemented if its guard or the kernel declines the arguments."""
    kernel = KERNELS["numpy", name, part]
    arguments = [values[n] for n in kernel.names]
    known = {k: v for k, v in settings.items() if k in kernel.settings}
    if kernel.when is not None and not kernel.when(*arguments):
        return NotImplemented
    return kernel.function(*arguments, **known)


@contextmanager
def replaced(name: str, functions: dict[str, Callable[..., Any]]) -> Iterator[None]:
    """Let other functions be the kernels of parts of an operation."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            for part, function in functions.items():
                patch.setitem(KERNELS, ("numpy", name, part), KERNELS["numpy", name, part]._replace(function=function))
            PRIMITIVES[name].kernel_filed()
            yield
    finally:
        PRIMITIVES[name].kernel_filed()


def completed(name: str, values: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """Add the results, their cotangents, and the shapes of arguments, by the names that rules use."""
    primitive = PRIMITIVES[name]
    found = generic(name, "forward", values, **settings)
    more = {f"{key}_meta": a for key, a in values.items()}
    if primitive.outputs is None:
        more |= {"y": found, "g": np.asarray(drawn(np.shape(found), found.dtype, 7))}
    else:
        more |= dict(zip(primitive.outputs, found, strict=True)) | {f"g_{key}": None for key in primitive.outputs}
        more[f"g_{primitive.outputs[0]}"] = drawn(found[0].shape, found[0].dtype, 7)
    return more | values


def close(found: Any, right: Any, summed: bool = False) -> None:
    """Check equality except for rounding; ``summed``: to that of the largest element, as terms of both signs add up."""
    assert type(found) in (np.ndarray, type(right))
    assert found.dtype == right.dtype and found.shape == right.shape
    room = 40 * float(np.finfo(found.dtype).eps)
    scale = float(np.max(np.abs(right), initial=0.0)) if summed else 1e-3
    np.testing.assert_allclose(found, right, rtol=room, atol=room * scale)


def same(found: Any, right: Any) -> None:
    """Check for the same numbers, signs of zeros and dtypes. The sign of a NaN is nobody's promise."""
    assert type(found) is np.ndarray and found.dtype == right.dtype
    np.testing.assert_array_equal(found, right)
    numbers = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(right[numbers]))
