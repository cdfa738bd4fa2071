"""Rows of the convolution, of pooling, and of the Fourier transforms."""

from typing import Any

import numpy as np
from table import Example, Input, complex_normal, composite, constant, ex, named, normal, row, values

from agrad.backends.convolution import Windows
from agrad.registry import PRIMITIVES


def _correlated(xp: Any, x: Any, w: Any, *, how: Windows) -> Any:
    """Return the correlation of two spatial axes, element by element of its definition."""
    strides, padding, x_dilation, w_dilation, groups = how
    n, c, *lengths = x.shape
    spans = [(m - 1) * d + 1 for m, d in zip(lengths, x_dilation, strict=True)]
    spread = np.zeros((n, c, *spans), np.result_type(x, w))
    spread[:, :, :: x_dilation[0], :: x_dilation[1]] = x
    rows, kernel = w.shape[0] // groups, w.shape[2:]
    out = [
        (m + sum(p) - d * (k - 1) - 1) // s + 1
        for m, p, d, k, s in zip(spans, padding, w_dilation, kernel, strides, strict=True)
    ]
    y = np.zeros((n, w.shape[0], *out), spread.dtype)
    for o, c, i, j, p, q in np.ndindex(w.shape[0], w.shape[1], *kernel, *out):
        a = p * strides[0] + i * w_dilation[0] - padding[0][0]
        b = q * strides[1] + j * w_dilation[1] - padding[1][0]
        if 0 <= a < spans[0] and 0 <= b < spans[1]:
            y[:, o, p, q] += spread[:, o // rows * w.shape[1] + c, a, b] * w[o, c, i, j]
    return y


_PLAIN = Windows((1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1)

row(
    "convolution",
    ex("plain", normal(2, 2, 3, 4), normal(3, 2, 2, 2), how=_PLAIN),
    ex("steps", normal(1, 2, 5, 4), normal(2, 2, 2, 2), how=_PLAIN._replace(strides=(2, 1), w_dilation=(1, 2))),
    ex("groups", normal(2, 4, 3, 3), normal(2, 2, 2, 2), how=_PLAIN._replace(groups=2)),
    ex("zeros around", normal(1, 1, 3, 2), normal(2, 1, 2, 3), how=_PLAIN._replace(padding=((1, 0), (2, 1)))),
    ex("cut", normal(1, 1, 5, 4), normal(1, 1, 2, 2), how=_PLAIN._replace(padding=((-1, 1), (0, -1)))),
    ex("cut and zeros", normal(1, 3, 6, 5), normal(1, 3, 2, 2), how=_PLAIN._replace(padding=((-1, 1), (0, -1)))),
    ex(
        "zeros between",
        normal(1, 2, 3, 2),
        normal(2, 1, 2, 2),
        how=_PLAIN._replace(x_dilation=(2, 3), groups=2, strides=(1, 2), padding=((1, 1), (0, 2))),
    ),
    ex("kernel larger than the result", normal(2, 1, 4, 5), normal(2, 1, 4, 4), how=_PLAIN),
    ex("constant input", constant(np.arange(9.0).reshape(1, 1, 3, 3)), normal(1, 1, 2, 2), how=_PLAIN),
    ex("empty", normal(0, 1, 3, 3), normal(1, 1, 2, 2), how=_PLAIN),
    ex("complex", complex_normal(1, 1, 3, 3), complex_normal(2, 1, 2, 2), how=_PLAIN),
    call=PRIMITIVES["convolution"].bind,
    reference=_correlated,
)


def _windows(x: Any, reduce: Any, kernel: Any, strides: Any, dilation: Any = (1, 1)) -> Any:
    """Return a reduction of windows along the last two axes, window by window."""
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    lengths = [(n - span) // s + 1 for n, span, s in zip(x.shape[-2:], spans, strides, strict=True)]
    y = np.empty((*x.shape[:-2], *lengths), x.dtype)
    for p, q in np.ndindex(*lengths):
        rows, columns = (
            slice(i * s, i * s + n, d) for i, s, n, d in zip((p, q), strides, spans, dilation, strict=True)
        )
        y[..., p, q] = reduce(x[..., rows, columns], axis=(-2, -1))
    return y


_HALVES: dict[str, Any] = {"kernel": (2, 2), "strides": (2, 2)}

row(
    "max_pool",
    ex("tiles", normal(2, 4, 6), **_HALVES, dilation=(1, 1)),
    ex("overlapping", normal(2, 5, 6), kernel=(3, 2), strides=(1, 1), dilation=(1, 1)),
    ex("steps", normal(7, 8), kernel=(2, 3), strides=(3, 2), dilation=(2, 1)),
    ex("equal elements", values(np.ones((4, 4))), **_HALVES, dilation=(1, 1), kink=True),
    ex("empty", normal(0, 4, 4), **_HALVES, dilation=(1, 1)),
    call=PRIMITIVES["max_pool"].bind,
    reference=lambda xp, x, kernel, strides, dilation: _windows(x, np.max, kernel, strides, dilation),
)

row(
    "sum_pool",
    ex("tiles", normal(2, 4, 6), **_HALVES),
    ex("overlapping", normal(2, 5, 6), kernel=(3, 2), strides=(1, 1)),
    ex("apart", normal(7, 8), kernel=(2, 3), strides=(3, 4)),
    ex("complex", complex_normal(1, 3, 4), kernel=(2, 2), strides=(1, 2)),
    ex("empty", normal(0, 4, 4), **_HALVES),
    call=PRIMITIVES["sum_pool"].bind,
    reference=lambda xp, x, kernel, strides: _windows(x, np.sum, kernel, strides),
)

# ---------------------------------------------------------------- Fourier transforms

NORMS: tuple[dict[str, Any], ...] = ({}, {"norm": "ortho"}, {"norm": "forward"})


def _named(how: dict[str, Any]) -> str:
    return "".join(f", {key} {value}" for key, value in how.items())


def _transform(name: str, *examples: Example, empty: Input, **how: Any) -> None:
    """File the row of a primitive, or of a function that is made of others.

    The example of a batch without a member is not compared with the array library's own, as PyTorch refuses it.
    """

    def reference(xp: Any, x: Any, **how: Any) -> Any:
        return named(xp, name)(x, **how)

    examples = (*examples, ex("empty batch", empty, **how, reference=reference))
    if name in PRIMITIVES:
        row(name, *examples)
    else:
        composite(name, *examples, reference=reference)


for _name in ("fft.fft", "fft.ifft", "fft.rfft", "fft.ihfft", "fft.irfft", "fft.hfft"):
    _draw = normal if _name in ("fft.rfft", "fft.ihfft") else complex_normal
    _halved = _name in ("fft.irfft", "fft.hfft")  # of half of a spectrum; the length of the result is given
    _transform(
        _name,
        *[
            ex(f"{n}{_named(how)}", _draw(n // 2 + 1 if _halved else n), **({"n": n} if _halved else {}), **how)
            for n in (1, 2, 5, 6)
            for how in NORMS
        ],
        ex("matrix", _draw(2, 5)),
        ex("axis 0", _draw(4, 3), axis=0),
        ex("middle axis", _draw(2, 3, 2), axis=1, **({"n": 5} if _halved else {})),
        ex("cropped", _draw(2, 6), n=3),
        ex("padded", _draw(2, 3), n=8, norm="ortho"),
        ex("padded to odd", _draw(3, 2), n=7, axis=-2, norm="forward"),
        empty=_draw(0, 4),
    )
for _name in ("fft.fftn", "fft.ifftn", "fft.rfftn", "fft.irfftn"):
    _draw = normal if _name == "fft.rfftn" else complex_normal
    _transform(
        _name,
        *[ex(f"matrix{_named(how)}", _draw(3, 4), **how) for how in NORMS],
        ex("one axis", _draw(5)),
        ex("three axes", _draw(2, 3, 4)),
        ex("axes", _draw(2, 3, 4), axes=(0, 1)),
        ex("axes in another order", _draw(3, 3, 4), axes=(2, 0), norm="ortho"),
        ex("negative axes", _draw(3, 3, 4), axes=(-1, -3)),
        ex("padded and cropped", _draw(2, 5), s=(4, 3), axes=(0, 1), norm="forward"),
        ex("s", _draw(2, 3, 4), s=(5, 7), axes=(1, 2)),
        empty=_draw(0, 3, 2),
        axes=(1, 2),
    )
for _name in ("fft.fftshift", "fft.ifftshift"):
    _transform(
        _name,
        ex("even", complex_normal(4)),
        ex("odd", complex_normal(5)),
        ex("matrix", normal(3, 4)),
        ex("axis", normal(3, 4), axes=0),
        ex("axes", normal(3, 4, 5), axes=(-1, 0)),
        empty=complex_normal(0, 3),
    )
