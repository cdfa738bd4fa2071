"""The names of agrad that programs use, on plain NumPy and SciPy: the reference."""

from collections.abc import Callable
from typing import Any

import numpy as np

import agrad

try:
    from scipy import special
except ImportError:
    special = None

Function = Callable[..., Any]


def _own(x: Any) -> Any:
    """Return an array of its own, in row-major order; a scalar as it is."""
    return np.array(x, order="C") if isinstance(x, np.ndarray) else x


class Special:
    """``scipy.special`` under the names of ``agrad.special``."""

    def __getattr__(self, name: str) -> Any:
        return getattr(special, name)

    @staticmethod
    def sinc(x: Any) -> Any:
        return np.sinc(x)

    @staticmethod
    def polygamma(n: int, x: Any) -> Any:
        return np.asarray(special.polygamma(n, x)).astype(x.dtype)[()]

    @staticmethod
    def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return Plain.logsumexp(x, axis=axis, keepdims=keepdims)


class Random:
    """Draws as NumPy arrays; that their bits are right is tested elsewhere."""

    key = staticmethod(agrad.random.key)

    @staticmethod
    def split(key: Any, count: int) -> list[Any]:
        return list(agrad.random.split(key, count))

    @staticmethod
    def uniform(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return agrad.random.uniform(key, shape, dtype=dtype).numpy()[()]


class Plain:
    """An array namespace of NumPy with agrad's other functions for programs."""

    special = Special()
    random = Random()

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def relu(x: Any) -> Any:
        return np.maximum(x, 0)

    @staticmethod
    def sigmoid(x: Any) -> Any:
        return special.expit(x)

    @staticmethod
    def gelu(x: Any) -> Any:
        return x * special.ndtr(x)

    @staticmethod
    def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        # apart from the largest element, as it equals the result where there is one element
        top = np.max(np.real(x), axis=axis, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0.0).astype(np.real(x).dtype)
        rest = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=keepdims))
        return rest + (top if keepdims else np.squeeze(top, axis=axis))

    @staticmethod
    def softmax(x: Any, axis: int = -1) -> Any:
        return np.exp(x) / np.sum(np.exp(x), axis=axis, keepdims=True)

    @staticmethod
    def log_softmax(x: Any, axis: int = -1) -> Any:
        return x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True))

    @staticmethod
    def linear(x: Any, w: Any, b: Any) -> Any:
        return x @ w + b

    @staticmethod
    def checkpoint(f: Function) -> Function:
        return f

    @staticmethod
    def jit(f: Function) -> Function:
        return f

    @staticmethod
    def fori_loop(lower: int, upper: int, body_fun: Function, init: Any) -> Any:
        for i in range(lower, upper):
            init = body_fun(i, init)
        return _own(init)

    @staticmethod
    def vmap(f: Function) -> Function:
        return lambda *xs: np.stack([np.asarray(f(*members)) for members in zip(*xs, strict=True)])

    @staticmethod
    def cond(pred: Any, true_fn: Function, false_fn: Function, *operands: Any) -> Any:
        return _own(true_fn(*operands) if pred else false_fn(*operands))

    @staticmethod
    def while_loop(cond_fun: Function, body_fun: Function, init: Any) -> Any:
        while cond_fun(init):
            init = body_fun(init)
        return tuple(map(_own, init)) if isinstance(init, tuple) else _own(init)

    @staticmethod
    def scan(f: Function, init: Any, xs: Any, reverse: bool = False, checkpoint: bool | int = False) -> Any:
        ys = []
        for x in xs[::-1] if reverse else xs:
            init, y = f(init, x)
            ys.append(y)
        return _own(init), _own(np.stack(ys[::-1] if reverse else ys))


PLAIN = Plain()
