"""Layers: the affine map, activations, dropout, and modules in a row."""

import math
from collections.abc import Iterator, Mapping
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
    """``x @ weight + bias``. x: (..., in_features); gives (..., out_features).

    ``weight`` is (in_features, out_features) and ``bias`` (out_features,), or None with ``bias=False``. Both start
    uniform between -1 / sqrt(in_features) and that, as PyTorch's do, drawn on the host from ``rng`` (by default the
    generator that ``nn.manual_seed`` starts). ``dtype`` is float32 by default; they are born on the selected backend
    unless another is named.
    """

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
    """Gives its argument as it is."""

    def forward(self, x: Any, /) -> Any:
        return x


class ReLU(Module):
    """The positive part of each element."""

    def forward(self, x: Any, /) -> Any:
        return agrad.relu(x)


class Tanh(Module):
    """The hyperbolic tangent of each element."""

    def forward(self, x: Any, /) -> Any:
        return agrad.tanh(x)


class Sigmoid(Module):
    """The logistic function of each element."""

    def forward(self, x: Any, /) -> Any:
        return agrad.sigmoid(x)


class GELU(Module):
    """Each element times its normal distribution function; ``approximate`` uses tanh."""

    def __init__(self, approximate: bool = False) -> None:
        self.approximate = approximate

    def forward(self, x: Any, /) -> Any:
        return agrad.gelu(x, approximate=self.approximate)

    def settings(self) -> str:
        return "approximate=True" if self.approximate else ""


class Softmax(Module):
    """exp(x) / sum(exp(x)) along one axis."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Any, /) -> Any:
        return agrad.softmax(x, axis=self.axis)

    def settings(self) -> str:
        return f"axis={self.axis}"


class LogSoftmax(Module):
    """The logarithm of the softmax along one axis."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Any, /) -> Any:
        return agrad.log_softmax(x, axis=self.axis)

    def settings(self) -> str:
        return f"axis={self.axis}"


class Flatten(Module):
    """All axes but the first made one: (n, ...) becomes (n, k)."""

    def forward(self, x: Any, /) -> Any:
        shape = tuple(x.shape)
        if not shape:
            raise ShapeError("Flatten keeps the first axis of an array, and makes one of the others; found shape ()")
        return agrad.reshape(x, (shape[0], math.prod(shape[1:])))


class Dropout(Module):
    """Zero elements with probability ``p`` in training, and divide the rest by 1 - p.

    The mask of the n-th call in training is a function of (seed, n) alone. The seed is drawn from ``rng`` when the
    module is made, and ``state_dict`` saves it with the number of calls: a run that is resumed continues bit for bit,
    and is the same on every backend, each of which draws its own. p is met to the nearest multiple of 2**-32.
    Raises ``ConfigurationError`` unless p is from 0 to 1.
    """

    traced_attributes = ("calls",)

    def __init__(self, p: float = 0.5, rng: Rng = None) -> None:
        if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
            raise ConfigurationError(f"Dropout: p is a number from 0 to 1, not {p!r}")
        self.p = float(p)
        self.seed = draw_seed(rng)
        self.calls = 0

    def forward(self, x: Any, /) -> Any:
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
        """Return the elements that call number ``call`` keeps, as truth values."""
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


class Sequential(Module):
    """Modules in a chain, each called with the result of the one before it."""

    def __init__(self, *modules: Module) -> None:
        for i, module in enumerate(modules):
            if not isinstance(module, Module):
                raise ConfigurationError(f"Sequential: entry {i} is a {type(module).__name__}, not a Module")
        self._row = list(modules)

    def members(self) -> Iterator[tuple[str, Any]]:
        yield from ((str(i), module) for i, module in enumerate(self._row))
        yield from super().members()

    def forward(self, x: Any, /) -> Any:
        for module in self._row:
            x = module(x)
        return x

    def __len__(self) -> int:
        return len(self._row)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._row)

    def __getitem__(self, i: int) -> Module:
        return self._row[i]
