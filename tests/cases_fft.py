"""The table's rows for the Fourier transforms."""

from typing import Any

from table import Example, Input, complex_normal, composite, ex, named, normal, row

from agrad.registry import PRIMITIVES

NORMS: tuple[dict[str, Any], ...] = ({}, {"norm": "ortho"}, {"norm": "forward"})


def _named(how: dict[str, Any]) -> str:
    return "".join(f", {key} {value}" for key, value in how.items())


def _empty(name: str, x: Input, **how: Any) -> Example:
    """Return an example of a batch without a member.

    It is not compared with the array library's own, as PyTorch refuses it.
    """
    return ex("empty batch", x, **how, reference=lambda xp, x, **how: named(xp, name)(x, **how))


def _transform(name: str, *examples: Example) -> None:
    """File the row of a primitive, or of a function that is made of others."""
    if name in PRIMITIVES:
        row(name, *examples)
    else:
        composite(name, *examples, reference=lambda xp, x, **how: named(xp, name)(x, **how))


for _name, _draw in (
    ("fft.fft", complex_normal),
    ("fft.ifft", complex_normal),
    ("fft.rfft", normal),
    ("fft.ihfft", normal),
):
    _transform(
        _name,
        *[ex(f"{n}{_named(how)}", _draw(n), **how) for n in (1, 2, 5, 6) for how in NORMS],
        ex("matrix", _draw(2, 5)),
        ex("axis 0", _draw(4, 3), axis=0),
        ex("middle axis", _draw(2, 3, 2), axis=1),
        ex("cropped", _draw(2, 6), n=3),
        ex("padded", _draw(2, 3), n=6, norm="ortho"),
        ex("padded to odd", _draw(3, 2), n=5, axis=-2, norm="forward"),
        _empty(_name, _draw(0, 4)),
    )
for _name in ("fft.irfft", "fft.hfft"):
    _transform(
        _name,
        *[ex(f"to {n}{_named(how)}", complex_normal(n // 2 + 1), n=n, **how) for n in (1, 2, 5, 6) for how in NORMS],
        ex("default length", complex_normal(2, 4)),
        ex("axis 0", complex_normal(4, 3), axis=0),
        ex("middle axis", complex_normal(2, 3, 2), axis=1, n=5),
        ex("cropped", complex_normal(2, 6), n=3),
        ex("padded", complex_normal(2, 3), n=8, norm="ortho"),
        ex("padded to odd", complex_normal(2, 3), n=7, norm="forward"),
        _empty(_name, complex_normal(0, 4)),
    )
for _name, _draw in (("fft.fftn", complex_normal), ("fft.ifftn", complex_normal), ("fft.rfftn", normal)):
    _transform(
        _name,
        *[ex(f"matrix{_named(how)}", _draw(3, 4), **how) for how in NORMS],
        ex("one axis", _draw(5)),
        ex("three axes", _draw(2, 3, 4)),
        ex("axes", _draw(2, 3, 4), axes=(0, 1)),
        ex("axes in another order", _draw(2, 3, 4), axes=(2, 0), norm="ortho"),
        ex("negative axes", _draw(2, 3, 4), axes=(-1, -3)),
        ex("padded and cropped", _draw(2, 5), s=(4, 3), axes=(0, 1), norm="forward"),
        ex("s", _draw(2, 3, 4), s=(5, 2), axes=(1, 2)),
        _empty(_name, _draw(0, 3, 2), axes=(1, 2)),
    )
row(
    "fft.irfftn",
    *[ex(f"matrix{_named(how)}", complex_normal(3, 4), **how) for how in NORMS],
    ex("one axis", complex_normal(5)),
    ex("three axes", complex_normal(2, 3, 4)),
    ex("axes", complex_normal(2, 3, 4), axes=(0, 1)),
    ex("axes in another order", complex_normal(3, 3, 4), axes=(2, 0), norm="ortho"),
    ex("padded and cropped", complex_normal(2, 5), s=(4, 3), axes=(0, 1), norm="forward"),
    ex("s", complex_normal(2, 3, 4), s=(5, 7), axes=(1, 2)),
    _empty("fft.irfftn", complex_normal(0, 3, 2), axes=(1, 2)),
)
for _name in ("fft.fftshift", "fft.ifftshift"):
    _transform(
        _name,
        ex("even", complex_normal(4)),
        ex("odd", complex_normal(5)),
        ex("matrix", normal(3, 4)),
        ex("axis", normal(3, 4), axes=0),
        ex("axes", normal(3, 4, 5), axes=(-1, 0)),
        ex("empty", complex_normal(0, 3)),
    )
