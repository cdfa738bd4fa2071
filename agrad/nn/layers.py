"""Linear and bilinear layers, identity, flatten and unflatten."""

import math
import warnings
import weakref
from collections.abc import Sequence
from operator import index
from typing import Any

import agrad
from agrad.errors import ShapeError
from agrad.expect import numbers
from agrad.nn import functional, init
from agrad.nn.module import ArrayModule, Module
from agrad.nn.seeding import Rng

__all__ = ["Bilinear", "Flatten", "Identity", "Linear", "Unflatten"]

_noted: weakref.WeakSet[Module] = weakref.WeakSet()


def _note_wider(layer: "Linear", x: Any, y: Any) -> None:
    """Warn once if the input makes a float32 layer compute in float64, except if another layer did."""
    if getattr(x, "requires_grad", False) or layer in _noted:
        return
    if y.dtype == agrad.float64 and layer.weight.dtype == agrad.float32:
        _noted.add(layer)
        warnings.warn(
            f"Linear({layer.settings()}): the input is float64 and the weight float32, so the layer computes in "
            "float64. Cast the input with agrad.astype(x, agrad.float32), or make the layer with dtype=agrad.float64.",
            RuntimeWarning,
            stacklevel=4,
        )


class Linear(Module):
    """Linear layer ``x @ weight + bias`` along the last axis.

    ``weight`` has the shape (in_features, out_features) and ``bias`` (out_features,). As in PyTorch, initial values are
    uniform between -1 / sqrt(in_features) and 1 / sqrt(in_features). They are drawn on the host. The input has the
    shape (..., in_features) and the output (..., out_features). A float32 layer computes in float64 for a float64
    input, as in NumPy, and warns once per layer.

    Parameters
    ----------
    in_features, out_features : int
        Lengths of the last axis of the input and of the output, at least 1.
    bias : bool
        False for a layer without bias; ``bias`` is then None.

    Examples
    --------
    >>> layer = agrad.nn.Linear(3, 2)
    >>> y = layer(np.ones((4, 3), dtype="float32"))
    >>> y.shape
    (4, 2)
    >>> y.sum().backward()
    >>> layer.bias.grad
    Tensor([4.0, 4.0], dtype=float32, backend=numpy, device=cpu)
    """

    torch_transposed: tuple[str, ...] = ("weight",)

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
        self.in_features: int = numbers("Linear", "in_features", in_features, 1, 1)[0]
        self.out_features: int = numbers("Linear", "out_features", out_features, 1, 1)[0]
        place = {"dtype": dtype, "backend": backend, "device": device}
        self.weight: agrad.Tensor = init.parameter(
            init.kaiming_uniform((self.in_features, self.out_features), rng), **place
        )
        self.bias: agrad.Tensor | Any = None
        if bias:
            bound = 1 / math.sqrt(self.in_features)
            self.bias = init.parameter(init.uniform((self.out_features,), bound, rng), **place)

    def forward(self, x: Any, /) -> agrad.Tensor:
        """Return ``x @ weight + bias`` for an array of shape (..., in_features)."""
        try:
            y = agrad.matmul(x, self.weight) if self.bias is None else agrad.linear(x, self.weight, self.bias)
        except Exception as error:
            shape = tuple(getattr(x, "shape", (self.in_features,)))
            if shape and shape[-1] == self.in_features:
                raise
            name = f"Linear({self.settings()})"
            raise ShapeError(f"{name}: input must have shape (..., {self.in_features}), got {shape}") from error
        if y.dtype is not self.weight.dtype:
            _note_wider(self, x, y)
        return y

    def settings(self) -> str:
        return f"{self.in_features}, {self.out_features}" + (", bias=False" if self.bias is None else "")


class Identity(ArrayModule):
    """Identity layer: the output is the input, an array of any shape.

    Examples
    --------
    >>> agrad.nn.Identity()(np.array([1.0, 2.0]))
    array([1., 2.])
    """

    def forward(self, x: Any, /) -> Any:
        """Return ``x``."""
        return x


class Bilinear(Module):
    """Bilinear layer with a learnable weight and bias.

    ``weight`` has the shape (out_features, in1_features, in2_features) and ``bias`` (out_features,). Initial values are
    uniform between -1 / sqrt(in1_features) and 1 / sqrt(in1_features).

    Parameters
    ----------
    in1_features, in2_features, out_features : int
        Lengths of the last axes of both inputs and of the output, at least 1.
    bias : bool
        False for a layer without bias; ``bias`` is then None.

    Examples
    --------
    >>> agrad.nn.Bilinear(3, 4, 5)(np.ones((2, 3)), np.ones((2, 4))).shape
    (2, 5)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        rng: Rng = None,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        self.in1_features: int = numbers("Bilinear", "in1_features", in1_features, 1, 1)[0]
        self.in2_features: int = numbers("Bilinear", "in2_features", in2_features, 1, 1)[0]
        self.out_features: int = numbers("Bilinear", "out_features", out_features, 1, 1)[0]
        place = {"dtype": dtype, "backend": backend, "device": device}
        bound = 1 / math.sqrt(self.in1_features)
        shape = (self.out_features, self.in1_features, self.in2_features)
        self.weight: agrad.Tensor = init.parameter(init.uniform(shape, bound, rng), **place)
        self.bias: agrad.Tensor | Any = init.parameter(init.uniform(shape[:1], bound, rng), **place) if bias else None

    def forward(self, x1: Any, x2: Any, /) -> agrad.Tensor:
        """Return ``functional.bilinear`` of two arrays.

        Parameters
        ----------
        x1, x2 : arrays of shapes (..., in1_features) and (..., in2_features)

        Returns
        -------
        array of shape (..., out_features)
        """
        return functional.bilinear(x1, x2, self.weight, self.bias)

    def settings(self) -> str:
        sizes = f"{self.in1_features}, {self.in2_features}, {self.out_features}"
        return sizes + (", bias=False" if self.bias is None else "")


def _axis(name: str, what: str, shape: tuple[int, ...], dim: int) -> int:
    if not -len(shape) <= dim < len(shape):
        raise ShapeError(f"{name}: {what} must be an axis of x, got {dim} for shape {shape}")
    return dim % len(shape)


class Flatten(ArrayModule):
    """Layer that flattens axes into one. By default, all axes except the first.

    Parameters
    ----------
    start_dim, end_dim : int
        First and last axis to flatten. Negative numbers count from the end.

    Examples
    --------
    >>> agrad.nn.Flatten()(np.ones((2, 3, 4, 5))).shape
    (2, 60)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim: int = index(start_dim)
        self.end_dim: int = index(end_dim)

    def forward(self, x: Any, /) -> Any:
        """Return ``x`` with the axes flattened; by default (n,) becomes (n, 1)."""
        shape = tuple(x.shape)
        if len(shape) == 1 and self.start_dim == 1:
            return agrad.reshape(x, (*shape, 1))
        start = _axis("Flatten", "start_dim", shape, self.start_dim)
        end = _axis("Flatten", "end_dim", shape, self.end_dim) + 1
        if start >= end:
            raise ShapeError(
                f"Flatten: start_dim must be at most {self.end_dim}, got {self.start_dim} for shape {shape}"
            )
        return agrad.reshape(x, (*shape[:start], math.prod(shape[start:end]), *shape[end:]))

    def settings(self) -> str:
        if (self.start_dim, self.end_dim) == (1, -1):
            return ""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(ArrayModule):
    """Layer that splits one axis into several axes.

    Parameters
    ----------
    dim : int
        Axis. A negative number counts from the end.
    unflattened_size : tuple of int
        Lengths of the new axes. One may be -1 and is inferred from the others.

    Examples
    --------
    >>> agrad.nn.Unflatten(1, (3, 4))(np.ones((2, 12))).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim: int = index(dim)
        self.unflattened_size: tuple[int, ...] = tuple(map(index, unflattened_size))

    def forward(self, x: Any, /) -> Any:
        """Return ``x`` with the axis split."""
        shape, new = tuple(x.shape), self.unflattened_size
        axis = _axis("Unflatten", "dim", shape, self.dim)
        known = math.prod(n for n in new if n != -1)
        if new.count(-1) == 1 and known > 0:
            new = tuple(shape[axis] // known if n == -1 else n for n in new)
        if min(new, default=-1) < 0 or math.prod(new) != shape[axis]:
            raise ShapeError(
                f"Unflatten: unflattened_size must have the length of axis {self.dim} of shape {shape} as its product, "
                f"got {self.unflattened_size}"
            )
        return agrad.reshape(x, (*shape[:axis], *new, *shape[axis + 1 :]))

    def settings(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
