"""MLX: arrays in the memory that CPU and Apple GPUs share.

Signatures differ from the standard, and arrays have no device: MLX computes on its default device, which
``mlx.core.set_default_device`` chooses.
"""

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from agrad.backends.base import broadcast_batches
from agrad.backends.generic import of_namespace
from agrad.backends.special import SpecialWords, in_double
from agrad.dtypes import as_dtype
from agrad.errors import DtypeError, MissingFunctionError

_WIDE = {"bool": mx.int64, "signed integer": mx.int64, "unsigned integer": mx.uint64}


def _made(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that creates arrays. There is one memory, and no device to choose."""

    def make(*args: Any, device: Any = None, copy: bool | None = None, **settings: Any) -> Any:
        return function(*args, **settings)

    return make


def _indices(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to return int64, the dtype of indices in the standard."""
    return lambda *args, **settings: mx.astype(function(*args, **settings), mx.int64)


def _argsort(x: mx.array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> mx.array:
    if descending:  # equal elements keep their order, as MLX sorts stably
        return x.shape[axis] - 1 - mx.flip(_argsort(mx.flip(x, axis=axis), axis=axis), axis=axis)
    return mx.astype(mx.argsort(x, axis=axis), mx.int64)


def _total(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a sum or product to accept a dtype, by default of 64 bits for integers."""

    def call(x: mx.array, /, *, dtype: Any = None, **settings: Any) -> mx.array:
        return function(mx.astype(x, dtype or _WIDE.get(as_dtype(x.dtype).kind, x.dtype)), **settings)

    return call


def _cumulative(function: Callable[..., Any], identity: int) -> Callable[..., Any]:
    def call(x: mx.array, /, *, axis: int | None = None, include_initial: bool = False, **settings: Any) -> mx.array:
        axis = 0 if axis is None else axis % x.ndim
        y = _total(function)(x, axis=axis, **settings)
        first = mx.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), identity, dtype=y.dtype)
        return mx.concat([first, y], axis=axis) if include_initial else y

    return call


def _spread(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: mx.array, /, *, correction: float = 0, **settings: Any) -> mx.array:
        return function(x, ddof=int(correction) if correction == int(correction) else correction, **settings)

    return call


def _signbit(x: mx.array, /) -> mx.array:
    return (x < 0) | (1 / mx.where(x == 0, x, mx.ones_like(x)) < 0)


def _hypot(x1: mx.array, x2: mx.array, /) -> mx.array:
    a, b = mx.maximum(mx.abs(x1), mx.abs(x2)), mx.minimum(mx.abs(x1), mx.abs(x2))
    ratio = b / mx.where(a == 0, mx.ones_like(a), a)
    return mx.where(mx.isinf(a), a, a * mx.sqrt(1 + ratio * ratio))


def _svd(x: mx.array, /, *, full_matrices: bool = True) -> tuple[mx.array, ...]:
    u, s, vh = mx.linalg.svd(x)
    return (u, s, vh) if full_matrices else (u[..., : s.shape[-1]], s, vh[..., : s.shape[-1], :])


def _only(name: str, **known: Any) -> Callable[..., Any]:
    """Wrap a function of matrices that supports one method."""

    def call(x: mx.array, /, **settings: Any) -> Any:
        if known | settings != known:
            raise MissingFunctionError(f"linalg.{name}: options must be {known} on MLX, got {settings}")
        return getattr(mx.linalg, name)(x)

    return call


def _solve(x1: mx.array, x2: mx.array, /) -> mx.array:
    if x2.ndim == 1:
        return _solve(x1, x2[:, None])[..., 0]
    return mx.linalg.solve(*broadcast_batches(mx, x1, x2))


def _fourier(name: str) -> Callable[..., Any]:
    def call(x: mx.array, /, *args: Any, **settings: Any) -> Any:
        if x.dtype == mx.float64:
            raise DtypeError(f"fft.{name}: MLX transforms float32 and complex64. Write x.astype(agrad.float32).")
        return getattr(mx.fft, name)(x, *args, **settings)

    return call


def _in_own_dtype(xp: Any, form: Callable[..., Any], dtype: Any, *arrays: Any, **settings: Any) -> Any:
    """Evaluate a generic form in float64 on the CPU, and in float32 on a GPU, which has no float64."""
    if mx.default_device() == mx.cpu:
        return in_double(xp, form, dtype, *arrays, **settings)
    return mx.astype(form(xp, *arrays, **settings), dtype)


_MADE = "asarray arange full zeros ones empty eye linspace astype zeros_like ones_like full_like empty_like"
_INDICES = ("argmax", "argmin", "searchsorted", "count_nonzero")
_FUNCTIONS = {
    **{name: _made(getattr(mx, name)) for name in _MADE.split()},
    **{name: _indices(getattr(mx, name)) for name in _INDICES},
    "bool": mx.bool_,
    "argsort": _argsort,
    "sort": lambda x, /, *, axis=-1, **how: mx.take_along_axis(x, _argsort(x, axis=axis, **how), axis=axis),
    "sum": _total(mx.sum),
    "prod": _total(mx.prod),
    "cumulative_sum": _cumulative(mx.cumsum, 0),
    "cumulative_prod": _cumulative(mx.cumprod, 1),
    "var": _spread(mx.var),
    "std": _spread(mx.std),
    "roll": lambda x, /, shift, *, axis=None: mx.roll(x, shift, axis),
    "copysign": lambda x1, x2, /: mx.where(_signbit(x2), -mx.abs(x1), mx.abs(x1)),
    "signbit": _signbit,
    "hypot": _hypot,
    "special": SpecialWords(evaluate=_in_own_dtype),
    "linalg": {  # its eig has single precision, and it cannot invert complex matrices
        "svd": _svd,
        "svdvals": lambda x, /: mx.linalg.svd(x, compute_uv=False),
        "qr": _only("qr", mode="reduced"),
        "solve": _solve,
        "pinv": _only("pinv", rtol=None),
        "eig": None,
        "eigvals": None,
        "trace": lambda x, /, *, offset=0, dtype=None: mx.sum(mx.diagonal(x, offset, -2, -1), axis=-1),
    },
    "fft": {name: _fourier(name) for name in ("fft", "fftn", "ifft", "ifftn", "rfft", "rfftn", "irfft", "irfftn")},
}


def _device() -> str:
    return "cpu" if mx.default_device() == mx.cpu else "gpu"


BACKEND = of_namespace(
    mx,
    "mlx",
    _FUNCTIONS,
    version=mx.__version__,
    default_device=_device,
    devices=lambda: (_device(),),
    find_device=lambda name: name if name == _device() else None,
    device_of=lambda x: _device(),
)
