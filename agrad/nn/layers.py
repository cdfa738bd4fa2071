"""Layers: the affine map, identity, flattening and dropout."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import agrad
from agrad import random
from agrad.engine.scalars import host_array_call, mark_state_used
from agrad.errors import ConfigurationError, ShapeError
from agrad.nn import init
from agrad.nn.module import Module
from agrad.nn.seeding import Rng, draw_seed


class Linear(Module):
    """The affine map ``x @ weight + bias`` of the last axis.

    ``weight`` has the shape (in_features, out_features) and ``bias`` (out_features,). Both start uniform between
    -1 / sqrt(in_features) and 1 / sqrt(in_features), drawn on the host, as PyTorch's do. The input has the shape
    (..., in_features), the output (..., out_features).

    Parameters
    ----------
    in_features, out_features : int
        Lengths of the last axis of input and output, 1 or more.
    bias : bool
        False for a map without a bias; ``bias`` is then None.
    rng : agrad.random.Generator, numpy.random.Generator or None
        The source of initial values, by default the generator that ``nn.manual_seed`` starts.
    dtype : dtype or None
        The dtype of the parameters, by default float32.
    backend : str or None
        Their backend, by default the selected one.
    device : device or None
        Their device, by default that of the backend.

    Raises
    ------
    ConfigurationError
        If a length is not an integer of 1 or more.
    """

    torch_transposed = ("weight",)

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        rng: Rng = None,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        for name, n in (("in_features", in_features), ("out_features", out_features)):
            if not isinstance(n, (int, np.integer)) or n < 1:
                raise ConfigurationError(f"Linear: {name} is an integer of 1 or more, not {n!r}")
        self.in_features, self.out_features = int(in_features), int(out_features)
        place = {"dtype": dtype, "backend": backend, "device": device}
        self.weight = init.parameter(init.kaiming_uniform((self.in_features, self.out_features), rng), **place)
        self.bias: agrad.Tensor | None = None
        if bias:
            bound = 1 / math.sqrt(self.in_features)
            self.bias = init.parameter(init.uniform((self.out_features,), bound, rng), **place)

    def forward(self, x: Any, /) -> Any:
        """Return ``x @ weight + bias``.

        Parameters
        ----------
        x : array
            Array of shape (..., in_features).

        Returns
        -------
        array
            Array of shape (..., out_features).

        Raises
        ------
        ShapeError
            If the last axis of ``x`` has another length.
        """
        try:
            if self.bias is None:
                return agrad.matmul(x, self.weight)
            return agrad.linear(x, self.weight, self.bias)
        except Exception as error:
            shape = tuple(getattr(x, "shape", (self.in_features,)))
            if shape and shape[-1] == self.in_features:
                raise
            name = f"Linear({self.settings()})"
            raise ShapeError(f"{name} takes an array of shape (..., {self.in_features}), not {shape}") from error

    def settings(self) -> str:
        return f"{self.in_features}, {self.out_features}" + (", bias=False" if self.bias is None else "")


class Identity(Module):
    """The identity: the output is the input, an array of any shape."""

    def forward(self, x: Any, /) -> Any:
        """Return ``x``.

        Parameters
        ----------
        x : array
            Array of any shape.

        Returns
        -------
        array
            The same array.
        """
        return x


class Flatten(Module):
    """The input of shape (n, ...) reshaped to (n, k)."""

    def forward(self, x: Any, /) -> Any:
        """Return ``x`` with all axes but the first made one.

        Parameters
        ----------
        x : array
            Array of shape (n, ...).

        Returns
        -------
        array
            Array of shape (n, k).

        Raises
        ------
        ShapeError
            If ``x`` has no axes.
        """
        shape = tuple(x.shape)
        if not shape:
            raise ShapeError("Flatten keeps the first axis of an array, and makes one of the others; found shape ()")
        return agrad.reshape(x, (shape[0], math.prod(shape[1:])))


class Dropout(Module):
    """Dropout: in training, zeros with probability ``p``, the rest divided by 1 - p.

    In evaluation the output is the input. Shapes are any, and are kept.

    The mask of the n-th call in training is a function of (seed, n) alone. The seed is drawn when the module is made,
    and ``state_dict`` saves it with the number of calls. So a resumed run continues bit for bit, with the same masks on
    every backend. ``p`` is met to the nearest multiple of 2**-32.

    Parameters
    ----------
    p : float
        The probability to zero an element, from 0 to 1.
    rng : agrad.random.Generator, numpy.random.Generator or None
        The source of the seed, by default the generator that ``nn.manual_seed`` starts.

    Raises
    ------
    ConfigurationError
        If ``p`` is not a number from 0 to 1.

    Notes
    -----
    Srivastava et al. 2014, Journal of Machine Learning Research 15.
    """

    traced_attributes = ("calls",)

    def __init__(self, p: float = 0.5, rng: Rng = None) -> None:
        if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
            raise ConfigurationError(f"Dropout: p is a number from 0 to 1, not {p!r}")
        self.p = float(p)
        self.seed = draw_seed(rng)
        self.calls = 0

    def forward(self, x: Any, /) -> Any:
        """Return ``x`` with elements zeroed in training, else ``x``.

        Parameters
        ----------
        x : array
            Array of any shape and a floating dtype.

        Returns
        -------
        array
            Array of the same shape and dtype.
        """
        if not self.training or self.p == 0:
            return x
        if not isinstance(x, agrad.Tensor):
            x = agrad.asarray(x)
        mark_state_used(self)
        agrad.note_state(self, self.host_state, self.load_host_state)
        kept = self.mask(self.calls, x.shape, backend=x.backend, device=x.device)
        self.calls += 1
        scale = 1 / (1 - self.p) if self.p < 1 else 0.0
        return x * (agrad.astype(kept, x.dtype) * scale)

    def mask(self, call: int, shape: tuple[int, ...], *, backend: str = "numpy", device: Any = None) -> agrad.Tensor:
        """Return the elements that call number ``call`` keeps.

        Parameters
        ----------
        call : int
            The number of the call in training, from 0.
        shape : tuple of int
            The shape of the mask.
        backend : str
            The backend of the mask.
        device : device or None
            Its device, by default that of the backend.

        Returns
        -------
        Tensor
            Truth values of the given shape.
        """
        key = host_array_call(self._key, (call,), lambda words: agrad.asarray(words, backend=backend, device=device))
        return random.bernoulli(key, 1 - self.p, shape)

    def _key(self, call: int) -> np.ndarray:
        # one key for each pair of the two numbers
        words = [number >> shift & 0xFFFFFFFF for number in (self.seed, call) for shift in (0, 32)]
        return np.array(words, np.uint32)

    def host_state(self) -> dict[str, int]:
        return {"seed": self.seed, "calls": self.calls}

    def load_host_state(self, state: Mapping[str, int]) -> None:
        self.seed, self.calls = state["seed"], state["calls"]

    def settings(self) -> str:
        return f"p={self.p:g}"
