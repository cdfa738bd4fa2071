"""Frequencies of Fourier transforms, and their order."""

from typing import Any

import numpy as np

from agrad.dtypes import as_dtype
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.tensor import Tensor, wrap
from agrad.ops.arrangement import roll
from agrad.ops.conversion import place_of, read
from agrad.ops.definition import public_of_array
from agrad.ops.fourier import length_of
from agrad.ops.shared import Axes, axes_of
from agrad.registry import public

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


@public_of_array("fft")
def fftshift(x: Any, /, *, axes: Axes = None) -> Any:
    """Move the coefficient of frequency 0 to the middle of axes.

    Parameters
    ----------
    x : array of any shape and dtype
    axes : int or tuple of ints, optional
        Axes. By default, all.

    Returns
    -------
    array of the shape of ``x``

    Examples
    --------
    >>> agrad.fft.fftshift(np.asarray([0.0, 1.0, -2.0, -1.0]))
    array([-2., -1.,  0.,  1.])
    """
    chosen = axes_of(axes, x)
    return roll(x, tuple([x.shape[axis] // 2 for axis in chosen]), axis=chosen)


@public_of_array("fft")
def ifftshift(x: Any, /, *, axes: Axes = None) -> Any:
    """Return the inverse of ``fftshift``.

    Parameters
    ----------
    x : array of any shape and dtype
    axes : int or tuple of ints, optional
        Axes. By default, all.

    Returns
    -------
    array of the shape of ``x``

    Examples
    --------
    >>> agrad.fft.ifftshift(np.asarray([-2.0, -1.0, 0.0, 1.0]))
    array([ 0.,  1., -2., -1.])
    """
    chosen = axes_of(axes, x)
    return roll(x, tuple([-(x.shape[axis] // 2) for axis in chosen]), axis=chosen)


def _frequencies(name: str, n: int, d: float, dtype: Any, device: Any, backend: str | None) -> Tensor:
    """Compute on the host, because libraries accept different dtypes and devices."""
    home, native = place_of(backend, device)
    where = home.default_device() if native is None else native
    values = getattr(np.fft, name)(length_of(n, name), *read((d,)))
    default = home.xp.__array_namespace_info__().default_dtypes(device=where)["real floating"]
    kind = as_dtype(default if dtype is None else dtype).name
    raw = home.from_host(values.astype(kind if hasattr(np, kind) else "float32"), where)
    return wrap(raw if hasattr(np, kind) else home.xp.astype(raw, getattr(home.xp, kind)), GLOBAL_TAPE)


@public("fft")
def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None, backend: str | None = None) -> Tensor:
    """Return the frequencies of ``fft``.

    First 0 and the positive ones, then the negative ones.

    Parameters
    ----------
    n : int
        The length of the transform.
    d : float
        Distance between the samples.
    dtype : dtype, optional
        By default, the default dtype of the library.
    device : device, optional
        By default, the selected device. A device of another backend also selects that backend.
    backend : str, optional
        By default, the selected one.

    Returns
    -------
    Tensor
        A constant of shape (n,).

    Examples
    --------
    >>> agrad.fft.fftfreq(4, d=0.5)
    Tensor([0.0, 0.5, -1.0, -0.5], dtype=float64, backend=numpy, device=cpu)
    """
    return _frequencies("fftfreq", n, d, dtype, device, backend)


@public("fft")
def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None, backend: str | None = None) -> Tensor:
    """Return the frequencies of ``rfft``.

    Parameters
    ----------
    n : int
        The length of the transform.
    d, dtype, device, backend : optional
        As for ``fftfreq``.

    Returns
    -------
    Tensor
        A constant of shape (n // 2 + 1,).

    Examples
    --------
    >>> agrad.fft.rfftfreq(4, d=0.5)
    Tensor([0.0, 0.5, 1.0], dtype=float64, backend=numpy, device=cpu)
    """
    return _frequencies("rfftfreq", n, d, dtype, device, backend)
