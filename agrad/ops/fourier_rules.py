"""The Fourier transforms as primitives, with their rules.

The matrix of a discrete Fourier transform is symmetric, and cotangents pair without conjugation: a transform is its own
transpose. The transforms between real and Hermitian arrays are transposes of each other, up to weights for coefficients
that represent two.
"""

from typing import Any

from agrad.ops.definition import of_library, primitive

Axes = tuple[int, ...]

INVERSE_NORM = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""The norm under which an inverse transform has the factor that the forward one has under the key."""


def _doubled(xp: Any, g: Any, n: int, axis: int, factor: float) -> Any:
    """Multiply by ``factor`` the coefficients that also represent their conjugates."""
    count = g.shape[axis]
    place = xp.arange_like(g, count)
    single = place == 0 if n % 2 else (place == 0) | (place == n // 2)
    weight = (1 - factor) * xp.astype(single, xp.real(g).dtype) + factor
    return g * xp.reshape(weight, (count, *(1,) * (len(g.shape) - 1 - axis)))


# ------------------------------------------------------------------ complex to complex, one axis


fft_p = of_library("fft.fft(x, *, axis, norm)", linear="x", batch="axis", capturable=False, symmetric=True)


ifft_p = of_library("fft.ifft(x, *, axis, norm)", linear="x", batch="axis", capturable=False, symmetric=True)


# ------------------------------------------------------------------ real to Hermitian and back, one axis


rfft_p = of_library("fft.rfft(x, *, axis, norm)", linear="x", batch="axis", capturable=False)


def _from_rfft(xp: Any, g: Any, n: int, axis: int, norm: str) -> Any:
    """Apply the transpose of ``rfft`` of length n."""
    return xp.fft.irfft(_doubled(xp, xp.conj(g), n, axis, 0.5), n=n, axis=axis, norm=INVERSE_NORM[norm])


@rfft_p.vjp
def rfft_vjp(xp: Any, g: Any, x_meta: Any, *, axis: int, norm: str) -> Any:
    return _from_rfft(xp, g, x_meta.shape[axis], axis, norm)


irfft_p = of_library("fft.irfft(x, *, n, axis, norm)", linear="x", batch="axis", capturable=False)


def _from_irfft(xp: Any, g: Any, n: int, axis: int, norm: str) -> Any:
    """Apply the transpose of ``irfft`` of length n."""
    return _doubled(xp, xp.conj(xp.fft.rfft(g, axis=axis, norm=INVERSE_NORM[norm])), n, axis, 2.0)


@irfft_p.vjp
def irfft_vjp(xp: Any, g: Any, *, n: int, axis: int, norm: str) -> Any:
    return _from_irfft(xp, g, n, axis, norm)


# ------------------------------------------------------------------ several axes


fftn_p = of_library("fft.fftn(x, *, axes, norm)", linear="x", batch="axis", capturable=False, symmetric=True)


ifftn_p = of_library("fft.ifftn(x, *, axes, norm)", linear="x", batch="axis", capturable=False, symmetric=True)


rfftn_p = of_library("fft.rfftn(x, *, axes, norm)", linear="x", batch="axis", capturable=False)


@rfftn_p.vjp
def rfftn_vjp(xp: Any, g: Any, x_meta: Any, *, axes: Axes, norm: str) -> Any:
    *others, last = axes
    if others:
        g = xp.fft.fftn(g, axes=tuple(others), norm=norm)
    return _from_rfft(xp, g, x_meta.shape[last], last, norm)


@primitive(linear="x", name="fft.irfftn", batch="axis", capturable=False)
def irfftn_p(xp: Any, x: Any, /, *, n: int, axes: Axes, norm: str) -> Any:
    lengths = [x.shape[axis] for axis in axes]
    return xp.fft.irfftn(x, s=(*lengths[:-1], n), axes=axes, norm=norm)


@irfftn_p.vjp
def irfftn_vjp(xp: Any, g: Any, *, n: int, axes: Axes, norm: str) -> Any:
    *others, last = axes
    g = _from_irfft(xp, g, n, last, norm)
    return xp.fft.ifftn(g, axes=tuple(others), norm=norm) if others else g
