"""Modules that draw random numbers in training: dropout variants and RReLU."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

import agrad
from agrad.engine.scalars import host_array_call, mark_state_used
from agrad.expect import share
from agrad.nn import functional
from agrad.nn.function_module import OfFunction
from agrad.nn.seeding import STREAM, Rng, draw_seed
from agrad.ops.map_draws import key_under_maps

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout", "RReLU"]


class RandomModule(OfFunction):
    """Base class of modules that draw random numbers in training.

    ``function`` accepts a key. The key of the n-th call in training depends only on (seed, n). The seed is drawn when
    the module is created, and ``state_dict`` saves it with the number of calls.

    Parameters
    ----------
    p : float
        Probability of zeroing or replacing an element or a channel, from 0 to 1.
    """

    traced_attributes: ClassVar[tuple[str, ...]] = ("calls",)

    def __init__(self, rng: Rng = None) -> None:
        self.seed: int = draw_seed(rng)
        self.calls: int = 0

    def key(self, call: int, *, backend: str | None = None, device: Any = None) -> agrad.Tensor:
        """Return the key of a call in training, the n-th from 0."""
        return host_array_call(self._words, (call,), lambda w: agrad.asarray(w, backend=backend, device=device))

    def _words(self, call: int) -> np.ndarray:
        # one key for each pair of the two numbers, and each rank of a program
        words = [number >> shift & 0xFFFFFFFF for number in (self.seed, call | STREAM[0] << 32) for shift in (0, 32)]
        return np.array(words, np.uint32)

    def next_key(self, like: Any) -> Any:
        """Return the key of the next call on the device of an array, and count the call."""
        place = like if isinstance(like, agrad.Tensor) else agrad.asarray(like)

        def drawn() -> agrad.Tensor:
            mark_state_used(self)
            agrad.note_state(self, self.host_state, self.load_host_state)
            key = self.key(self.calls, backend=place.backend, device=place.device)
            self.calls += 1
            return key

        key = key_under_maps(type(self).__name__, drawn)
        return key if place is like or type(key) is not agrad.Tensor else key.raw

    def drawn(self, x: Any, *options: Any) -> Any:
        """Return the result in training with the next key; an error does not count."""
        calls = self.calls
        try:
            return self.function(x, *options, training=True, key=self.next_key(x))
        except Exception:
            self.calls = calls
            raise

    def host_state(self) -> dict[str, int]:
        return {"seed": self.seed, "calls": self.calls}

    def load_host_state(self, state: Mapping[str, int]) -> None:
        self.seed, self.calls = state["seed"], state["calls"]


class _Dropout(RandomModule):
    """Base class of dropout; in evaluation the output is the input."""

    def __init__(self, p: float = 0.5, rng: Rng = None) -> None:
        self.p: float = float(share(type(self).__name__, "p", p))
        super().__init__(rng)

    def forward(self, x: Any, /) -> Any:
        """Return the result of the function in training, otherwise ``x``."""
        return self.drawn(x, self.p) if self.training and self.p else x

    def settings(self) -> str:
        return f"p={self.p:g}"


class Dropout(_Dropout, function=functional.dropout):
    """Dropout: zero elements with probability ``p`` in training.

    The other elements are divided by 1 - p. In evaluation the output is the input. The input has any shape, and the
    output has the same shape.

    The mask of the n-th call in training depends only on (seed, n). The seed is drawn when the module is created, and
    ``state_dict`` saves it with the number of calls. A resumed run therefore continues bit for bit, with the same masks
    on every backend. ``p`` is rounded to the nearest multiple of 2**-32. Under ``agrad.vmap``, pass
    ``randomness="different"`` for a separate mask of each batch element, or ``"same"`` for one mask.

    Reference: N. Srivastava et al. (2014), Journal of Machine Learning Research 15.

    Examples
    --------
    >>> agrad.nn.manual_seed(0)
    >>> layer = agrad.nn.Dropout(0.5)
    >>> np.unique(layer(np.ones(1000)))
    Tensor([0.0, 2.0], dtype=float64, backend=numpy, device=cpu)
    >>> layer.eval()(np.ones(3))
    array([1., 1., 1.])
    """


class Dropout1d(_Dropout, function=functional.dropout1d):
    """Dropout of whole channels of arrays of shape (n, c, l) or (c, l).

    Masks are drawn and saved as for ``Dropout``.

    Examples
    --------
    >>> y = agrad.nn.Dropout1d(0.5)(np.ones((2, 8, 5)))
    >>> bool((y == y[:, :, :1]).all())
    True
    """


class Dropout2d(_Dropout, function=functional.dropout2d):
    """Dropout of whole channels of arrays of shape (n, c, h, w).

    Masks are drawn and saved as for ``Dropout``. As in PyTorch, a 3-D array has shape (n, c, l).

    Examples
    --------
    >>> y = agrad.nn.Dropout2d(0.5)(np.ones((2, 8, 5, 5)))
    >>> bool((y == y[:, :, :1, :1]).all())
    True
    """


class Dropout3d(_Dropout, function=functional.dropout3d):
    """Dropout of whole channels of arrays of shape (n, c, d, h, w) or (c, d, h, w).

    Masks are drawn and saved as for ``Dropout``.

    Examples
    --------
    >>> y = agrad.nn.Dropout3d(0.5)(np.ones((2, 8, 3, 3, 3)))
    >>> bool((y == y[:, :, :1, :1, :1]).all())
    True
    """


class AlphaDropout(_Dropout, function=functional.alpha_dropout):
    """Alpha dropout, which keeps mean and variance for use with ``SELU``.

    Masks are drawn and saved as for ``Dropout``.

    Examples
    --------
    >>> agrad.nn.manual_seed(0)
    >>> y = agrad.nn.AlphaDropout(0.2)(np.random.default_rng(0).normal(size=100_000))
    >>> abs(float(y.mean())) < 0.02, abs(float(y.std()) - 1) < 0.02
    (True, True)
    """


class FeatureAlphaDropout(_Dropout, function=functional.feature_alpha_dropout):
    """Alpha dropout of whole channels of arrays of shape (n, c, ...).

    It keeps mean and variance, for use with ``SELU``. Masks are drawn and saved as for ``Dropout``.

    Examples
    --------
    >>> y = agrad.nn.FeatureAlphaDropout(0.5)(np.ones((2, 8, 5, 5)))
    >>> bool((y == y[:, :, :1, :1]).all())
    True
    """


class RReLU(RandomModule, function=functional.rrelu):
    """RReLU activation: a leaky ReLU with a random negative slope in training.

    Random numbers are drawn and saved as for ``Dropout``.

    Parameters
    ----------
    lower, upper : float
        Bounds of the negative slope. In evaluation, the slope is their mean.

    Examples
    --------
    >>> agrad.nn.RReLU(0.2, 0.4).eval()(np.array([-1.0, 2.0])).round(4)
    array([-0.3,  2. ])
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, rng: Rng = None) -> None:
        self.lower: float = lower
        self.upper: float = upper
        super().__init__(rng)

    def forward(self, x: Any, /) -> Any:
        """Return ``functional.rrelu`` of ``x``, random in training."""
        if self.training:
            return self.drawn(x, self.lower, self.upper)
        return functional.rrelu(x, self.lower, self.upper)

    def settings(self) -> str:
        return f"lower={self.lower:g}, upper={self.upper:g}"
