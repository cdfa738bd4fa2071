"""Windows by the names of ``scipy.signal.windows``.

They are Tensors if an array parameter is one. Otherwise ``agrad.numpy`` selects the backend. Parameters that are floats
are differentiated.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import Tensor, special
from agrad.errors import ConfigurationError, ShapeError
from agrad.interop.arguments import constant
from agrad.scipy.shared import Function, array, arrays, function, named

__all__ = [
    "barthann", "bartlett", "blackman", "blackmanharris", "bohman", "boxcar", "cosine", "exponential", "flattop",
    "gaussian", "general_cosine", "general_gaussian", "general_hamming", "get_window", "hamming", "hann", "kaiser",
    "lanczos", "nuttall", "parzen", "triang", "tukey",
]  # fmt: skip


def _window(M: int, sym: bool, values: Callable[..., Tensor], *parameters: Any) -> Tensor:
    """Return ``values(n, M, *parameters)`` for 0 to M - 1, or M + 1 points without the last if not symmetric."""
    if int(M) != M or M < 0:
        raise ShapeError(f"windows: M must be an integer of at least 0, got {M!r}")
    given = arrays(1.0, *parameters)
    like, parameters = given[0], tuple(given[1:])
    if M <= 1:
        return agrad.ones_like(agrad.broadcast_to(like, (int(M),)))
    count = int(M) + (not sym)
    n = constant(np.arange(count, dtype=like.dtype.name), like)
    return values(n, count, *parameters)[: int(M)]


def _cosines(n: Tensor, count: int, weights: Any) -> Tensor:
    turn = n * (2 * math.pi / (count - 1)) - math.pi
    return sum((weights[k] * agrad.cos(k * turn) for k in range(1, weights.shape[0])), weights[0] + 0 * n)


def _from_ends(n: Tensor, count: int) -> Tensor:
    """Return points from -1 to 1."""
    return n * (2 / (count - 1)) - 1


def _of_triangle(n: Tensor, count: int) -> Tensor:
    near = agrad.minimum(n, count - 1 - n) + 1
    return 2 * near / (count + 1) if count % 2 else (2 * near - 1) / count


def _of_bohman(n: Tensor, count: int) -> Tensor:
    x = agrad.abs(_from_ends(n, count))
    return agrad.where(x < 1, (1 - x) * agrad.cos(math.pi * x) + agrad.sin(math.pi * x) / math.pi, x * 0)


def _of_parzen(n: Tensor, count: int) -> Tensor:
    x = agrad.abs(n - (count - 1) / 2) / (count / 2)
    return agrad.where(agrad.abs(n - (count - 1) / 2) <= (count - 1) / 4, 1 - 6 * x * x * (1 - x), 2 * (1 - x) ** 3)


def _of_bartlett_and_hann(n: Tensor, count: int) -> Tensor:
    x = agrad.abs(n / (count - 1) - 0.5)
    return 0.62 - 0.48 * x + 0.38 * agrad.cos(2 * math.pi * x)


def _of_kaiser(n: Tensor, count: int, beta: Tensor) -> Tensor:
    x = _from_ends(n, count)
    inner = agrad.clip(1 - x * x, 0.0, None)
    zero = inner == 0
    root = agrad.where(zero, inner, agrad.sqrt(agrad.where(zero, agrad.ones_like(inner), inner)))
    return special.i0e(beta * root) / special.i0e(beta) * agrad.exp(agrad.abs(beta) * (root - 1))


def _of_tukey(n: Tensor, count: int, alpha: Tensor) -> Tensor:
    # of alpha up to 0 there is no edge, and from 1 on nothing else
    flat = alpha <= 0
    alpha = agrad.where(flat, agrad.ones_like(alpha), agrad.minimum(alpha, agrad.ones_like(alpha)))
    x = agrad.minimum(n, count - 1 - n) / (count - 1)
    inner = flat | (x >= alpha / 2)
    return agrad.where(
        inner, agrad.ones_like(x), 0.5 - 0.5 * agrad.cos(2 * math.pi * agrad.where(inner, x * 0, x) / alpha)
    )


def _of_exponential(n: Tensor, count: int, tau: Tensor, center: Tensor) -> Tensor:
    return agrad.exp(-agrad.abs(n - center) / tau)


def _named(name: str, values: Callable[..., Tensor], what: str, example: str) -> Any:
    """Return the function of a window without parameters."""

    def made(M: int, sym: bool = True) -> Tensor:
        """Return {what}.

        Like ``scipy.signal.windows.{name}``: shape (M,), symmetric, or periodic if ``sym`` is False.
        """
        return _window(M, sym, values)

    return named(made, name, what, "signal", example)


def _of_cosines(*weights: float) -> Callable[..., Tensor]:
    return lambda n, count: _cosines(n, count, constant(np.asarray(weights, dtype=n.dtype.name), n))


# fmt: off
barthann: Function = _named("barthann", _of_bartlett_and_hann, "the window between Bartlett's and Hann's", example="""
>>> signal.windows.barthann(5).round(4)[1:4]
Tensor([0.5, 1.0, 0.5], dtype=float64, backend=numpy, device=cpu)
""")
bartlett: Function = _named("bartlett", lambda n, count: 1 - agrad.abs(_from_ends(n, count)),
    "Bartlett's triangle, 0 at the ends", example="""
>>> signal.windows.bartlett(5).round(4)[1:4]
Tensor([0.5, 1.0, 0.5], dtype=float64, backend=numpy, device=cpu)
""")
blackman: Function = _named("blackman", _of_cosines(0.42, 0.5, 0.08), "Blackman's window", example="""
>>> signal.windows.blackman(5).round(4)[1:4]
Tensor([0.34, 1.0, 0.34], dtype=float64, backend=numpy, device=cpu)
""")
blackmanharris: Function = _named("blackmanharris", _of_cosines(0.35875, 0.48829, 0.14128, 0.01168),
    "the window of Blackman and Harris", example="""
>>> signal.windows.blackmanharris(5).round(4)
Tensor([0.0001, 0.2175, 1.0, 0.2175, 0.0001], dtype=float64, backend=numpy, device=cpu)
""")
bohman: Function = _named("bohman", _of_bohman, "Bohman's window", example="""
>>> signal.windows.bohman(5).round(4)[1:4]
Tensor([0.3183, 1.0, 0.3183], dtype=float64, backend=numpy, device=cpu)
""")
boxcar: Function = _named("boxcar", lambda n, count: agrad.ones_like(n), "ones", example="""
>>> signal.windows.boxcar(5).round(4)
Tensor([1.0, 1.0, 1.0, 1.0, 1.0], dtype=float64, backend=numpy, device=cpu)
""")
cosine: Function = _named("cosine", lambda n, count: agrad.sin(math.pi / count * (n + 0.5)), "half a wave of the sine",
    example="""
>>> signal.windows.cosine(5).round(4)
Tensor([0.309, 0.809, 1.0, 0.809, 0.309], dtype=float64, backend=numpy, device=cpu)
""")
flattop: Function = _named("flattop", _of_cosines(0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
    "the window of a flat top", example="""
>>> signal.windows.flattop(5).round(4)
Tensor([-0.0004, -0.0547, 1.0, -0.0547, -0.0004], dtype=float64, backend=numpy, device=cpu)
""")
hamming: Function = _named("hamming", _of_cosines(0.54, 0.46), "Hamming's window", example="""
>>> signal.windows.hamming(5).round(4)
Tensor([0.08, 0.54, 1.0, 0.54, 0.08], dtype=float64, backend=numpy, device=cpu)
""")
hann: Function = _named("hann", _of_cosines(0.5, 0.5), "Hann's window", example="""
>>> signal.windows.hann(5).round(4)[1:4]
Tensor([0.5, 1.0, 0.5], dtype=float64, backend=numpy, device=cpu)
""")
lanczos: Function = _named("lanczos",
    lambda n, count: special.sinc(_from_ends(n, count)), "Lanczos's window", example="""
>>> signal.windows.lanczos(5).round(4)[1:4]
Tensor([0.6366, 1.0, 0.6366], dtype=float64, backend=numpy, device=cpu)
""")
nuttall: Function = _named("nuttall",
    _of_cosines(0.3635819, 0.4891775, 0.1365995, 0.0106411), "Nuttall's window", example="""
>>> signal.windows.nuttall(5).round(4)
Tensor([0.0004, 0.227, 1.0, 0.227, 0.0004], dtype=float64, backend=numpy, device=cpu)
""")
parzen: Function = _named("parzen", _of_parzen, "Parzen's window", example="""
>>> signal.windows.parzen(5).round(4)
Tensor([0.016, 0.424, 1.0, 0.424, 0.016], dtype=float64, backend=numpy, device=cpu)
""")
triang: Function = _named("triang", _of_triangle, "a triangle above 0 at the ends", example="""
>>> signal.windows.triang(5).round(4)
Tensor([0.3333, 0.6667, 1.0, 0.6667, 0.3333], dtype=float64, backend=numpy, device=cpu)
""")
# fmt: on


@function
def general_cosine(M: int, a: Any, sym: bool = True) -> Tensor:
    """Return a sum of cosines.

    Like ``scipy.signal.windows.general_cosine``: shape (M,), differentiable with respect to the 1-D weights ``a``.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> signal.windows.general_cosine(5, np.array([0.5, 0.5])).round(4)
    array([0. , 0.5, 1. , 0.5, 0. ])
    >>> agrad.grad(lambda a: signal.windows.general_cosine(5, a)[1])(np.array([0.5, 0.5])).round(4) + 0.0
    array([1., 0.])
    """
    return _window(M, sym, _cosines, array(a))


@function
def general_hamming(M: int, alpha: Any, sym: bool = True) -> Tensor:
    """Return Hamming's window of a parameter.

    Like ``scipy.signal.windows.general_hamming``: shape (M,), differentiable with respect to ``alpha``.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> signal.windows.general_hamming(5, 0.6).round(4)
    Tensor([0.2, 0.6, 1.0, 0.6, 0.2], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.grad(lambda alpha: signal.windows.general_hamming(5, alpha)[0])(np.array(0.6)).round(4)
    np.float64(2.0)
    """
    alpha = array(alpha)
    return _window(M, sym, _cosines, agrad.stack([alpha, 1 - alpha]))


@function
def gaussian(M: int, std: Any, sym: bool = True) -> Tensor:
    """Return a Gaussian.

    Like ``scipy.signal.windows.gaussian``: shape (M,), differentiable with respect to ``std``.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> signal.windows.gaussian(5, std=1.0).round(4)
    Tensor([0.1353, 0.6065, 1.0, 0.6065, 0.1353], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.grad(lambda std: signal.windows.gaussian(5, std)[1])(np.array(1.0)).round(4)
    np.float64(0.6065)
    """
    return _window(M, sym, lambda n, count, std: agrad.exp(-0.5 * ((n - (count - 1) / 2) / std) ** 2), std)


@function
def general_gaussian(M: int, p: Any, sig: Any, sym: bool = True) -> Tensor:
    """Return ``exp(-|x / sig|**(2 p) / 2)``.

    Like ``scipy.signal.windows.general_gaussian``: shape (M,), differentiable with respect to ``p`` and ``sig``.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> signal.windows.general_gaussian(5, p=1.5, sig=1.0).round(4)
    Tensor([0.0183, 0.6065, 1.0, 0.6065, 0.0183], dtype=float64, backend=numpy, device=cpu)
    """

    def values(n: Tensor, count: int, p: Tensor, sig: Tensor) -> Tensor:
        return agrad.exp(-0.5 * agrad.abs((n - (count - 1) / 2) / sig) ** (2 * p))

    return _window(M, sym, values, p, sig)


@function
def kaiser(M: int, beta: Any, sym: bool = True) -> Tensor:
    """Return Kaiser's window.

    Like ``scipy.signal.windows.kaiser``: shape (M,), differentiable with respect to ``beta``.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> signal.windows.kaiser(5, beta=4.0).round(4)
    Tensor([0.0885, 0.6334, 1.0, 0.6334, 0.0885], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.grad(lambda beta: signal.windows.kaiser(5, beta)[1])(np.array(4.0)).round(4)
    np.float64(-0.0866)
    """
    return _window(M, sym, _of_kaiser, beta)


@function
def tukey(M: int, alpha: Any = 0.5, sym: bool = True) -> Tensor:
    """Return ones with cosines at the ends.

    Like ``scipy.signal.windows.tukey``: shape (M,), differentiable with respect to ``alpha``.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> signal.windows.tukey(9, alpha=0.5).round(4)
    Tensor([0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.0], dtype=float64, backend=numpy, device=cpu)
    """
    return _window(M, sym, _of_tukey, alpha)


@function
def exponential(M: int, center: Any = None, tau: Any = 1.0, sym: bool = True) -> Tensor:
    """Return a decay to both sides.

    Like ``scipy.signal.windows.exponential``: shape (M,), differentiable with respect to ``center`` and ``tau``. As in
    SciPy, ``center`` requires ``sym=False``.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> signal.windows.exponential(5, tau=2.0).round(4)
    Tensor([0.3679, 0.6065, 1.0, 0.6065, 0.3679], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.grad(lambda tau: signal.windows.exponential(5, tau=tau)[1])(np.array([2.0])).round(4)
    array([0.1516])
    """
    if sym and center is not None:
        raise ConfigurationError("exponential: center is not supported for a symmetric window. Pass sym=False.")
    middle = (M + (not sym) - 1) / 2
    return _window(M, sym, _of_exponential, tau, middle if center is None else center)


_SHAPED = ("exponential", "gaussian", "general_cosine", "general_gaussian", "general_hamming", "kaiser", "tukey")
_PLAIN = tuple(name for name in __all__ if name not in (*_SHAPED, "get_window"))


@function
def get_window(window: Any, Nx: int, fftbins: bool = True) -> Tensor:
    """Return a window by its name.

    Like ``scipy.signal.get_window``: shape (Nx,), differentiable with respect to parameters in ``window``. The names
    are the same as of the functions in ``agrad.scipy.signal.windows``. SciPy abbreviations are not supported.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> signal.get_window("hann", 4)
    Tensor([0.0, 0.5, 1.0, 0.5], dtype=float64, backend=numpy, device=cpu)
    """
    name, *parameters = window if isinstance(window, tuple) else (window,)
    if not isinstance(name, str):
        name, parameters = "kaiser", [name]
    for suffix, periodic in (("_periodic", True), ("_symmetric", False)):
        if name.endswith(suffix):
            name, fftbins = name.removesuffix(suffix), periodic
    if name not in (_SHAPED if parameters else (*_PLAIN, "exponential", "tukey")):
        known = ", ".join([*_PLAIN, *[f"({n!r}, ...)" for n in _SHAPED]])
        raise ConfigurationError(f"get_window: window must be one of {known}, got {window!r}")
    return globals()[name](Nx, *parameters, sym=not fftbins)
