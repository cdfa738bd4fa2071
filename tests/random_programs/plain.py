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

    sinc = staticmethod(np.sinc)
    polygamma = staticmethod(lambda n, x: np.asarray(special.polygamma(n, x)).astype(x.dtype)[()])
    logsumexp = staticmethod(lambda x, **settings: Plain.logsumexp(x, **settings))

    def __getattr__(self, name: str) -> Any:
        return getattr(special, name)


class Random:
    """Draws as NumPy arrays; that their bits are right is tested elsewhere."""

    key = staticmethod(agrad.random.key)
    split = staticmethod(lambda key, count: list(agrad.random.split(key, count)))
    uniform = staticmethod(lambda key, shape, dtype: agrad.random.uniform(key, shape, dtype=dtype).numpy()[()])


class Plain:
    """An array namespace of NumPy with agrad's other functions for programs."""

    special = Special()
    random = Random()
    relu = staticmethod(lambda x: np.maximum(x, 0))
    sigmoid = staticmethod(lambda x: special.expit(x))
    gelu = staticmethod(lambda x: x * special.ndtr(x))
    softmax = staticmethod(lambda x, axis=-1: np.exp(x) / np.sum(np.exp(x), axis=axis, keepdims=True))
    log_softmax = staticmethod(lambda x, axis=-1: x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True)))
    linear = staticmethod(lambda x, w, b: x @ w + b)
    checkpoint = jit = staticmethod(lambda f: f)
    cond = staticmethod(lambda pred, true_fn, false_fn, *xs: _own(true_fn(*xs) if pred else false_fn(*xs)))

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        # apart from the largest element, as it equals the result where there is one element
        top = np.max(np.real(x), axis=axis, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0.0).astype(np.real(x).dtype)
        rest = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=keepdims))
        return rest + (top if keepdims else np.squeeze(top, axis=axis))

    @staticmethod
    def fori_loop(lower: int, upper: int, body_fun: Function, init: Any) -> Any:
        for i in range(lower, upper):
            init = body_fun(i, init)
        return _own(init)

    @staticmethod
    def vmap(f: Function) -> Function:
        return lambda *xs: np.stack([np.asarray(f(*members)) for members in zip(*xs, strict=True)])

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
