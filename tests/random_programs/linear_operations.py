"""Operations of linear algebra and Fourier transforms."""

from typing import Any

import numpy as np

from random_programs.operations import alike, axis_of, both, filled, moving, ndim, real, unary, unfit
from random_programs.program import add


def square(v: Any) -> bool:
    return v.ndim >= 2 and v.shape[-1] == v.shape[-2]


def regular(v: Any) -> bool:
    """Return True if matrices are square and far from singular."""
    return square(v) and v.size > 0 and bool(np.linalg.svd(v, compute_uv=False).min() > 0.2)


def separate(v: Any) -> bool:
    """Return True if singular values are apart from each other and from 0."""
    if v.ndim < 2 or not v.size:
        return False
    s = np.linalg.svd(v, compute_uv=False)
    return bool(s.min() > 0.05 and (s.shape[-1] < 2 or np.abs(np.diff(s, axis=-1)).min() > 0.05))


def a_square(draw: Any) -> int:
    """Return the name of a regular matrix, made of others where there is none."""
    if draw.chance(0.4):
        return draw.pick(real, regular)
    return draw.step(draw.choice("gram", "shifted"), (draw.pick(real, filled, ndim(2, 3)),))


def matrices(draw: Any) -> Any:
    """Draw two operands of a product: matrices, stacks of them, vectors."""
    a = draw.pick(moving, ndim(1))
    shape = draw.value(a).shape

    def fits(v: Any) -> bool:
        return v.ndim >= 1 and (v.shape[-2] if v.ndim > 1 else v.shape[0]) == shape[-1]

    return (a, draw.pick(moving, fits)), {}


def transposed(draw: Any) -> Any:
    name = draw.pick(moving, ndim(1))
    return (name, draw.pick(moving, lambda v: v.ndim and v.shape[-1:] == draw.value(name).shape[-1:])), {}


def with_right_side(draw: Any) -> Any:
    a = a_square(draw)
    n = draw.value(a).shape[-1]
    return (a, draw.pick(real, lambda v: v.ndim in (1, 2) and v.shape[0] == n)), {}


add("gram", "{0} @ {0}.mT + 0.5 * {xp}.eye({0}.shape[-2])", unary(None, real, filled, ndim(2)))
add(
    "shifted",
    "0.3 * {0}[..., :1] * {0}[..., :1].mT + {diagonal} * {xp}.eye({0}.shape[-2])",
    unary(None, real, filled, ndim(2), diagonal=(1.5, 2.0)),
)
add("matmul", "{xp}.matmul({0}, {1})", matrices)
add("matmul_operator", "{0} @ {1}", matrices)
add(
    "matmul_transposed",
    "{0} @ {1}.mT",
    lambda d: (lambda a: a if d.value(a[0][1]).ndim > 1 else unfit())(transposed(d)),
)
add("vecdot", "{xp}.vecdot({0}, {1})", alike(ndim(1)))
add("tensordot", "{xp}.tensordot({0}, {1}, axes=1)", matrices)
add("tensordot_pairs", "{xp}.tensordot({0}, {1}, axes=(({axis},), ({axis},)))", alike(ndim(1, 2), axis=axis_of))
add("outer", "{xp}.linalg.outer({0}, {1})", both(moving, ndim(1, 1)))
add("cross", "{xp}.linalg.cross({0}, {1})", alike(lambda v: v.shape[-1:] == (3,)))
add("np_inner", "np.inner({0}, {1})", transposed)
add("np_dot", "np.dot({0}, {1})", matrices)
add("np_kron", "np.kron({0}, {1})", both(moving, ndim(1)))
add("einsum_rows", "np.einsum('ij,ij->i', {0}, {1})", alike(ndim(2, 2)))
add("einsum_products", "np.einsum('...i,...j->...ij', {0}, {1})", alike(ndim(1, 2)))
add("einsum_trace", "np.einsum('...ii->...', {0})", unary(None, moving, square))
add(
    "linear",
    "A.linear({0}, {w}, {b})",
    unary(None, real, ndim(1), w=lambda d, n: d.array(d.value(n).shape[-1], 2), b=lambda d, n: d.array(2)),
)
add("trace", "{xp}.linalg.trace({0}, offset={k})", unary(None, moving, ndim(2), k=(0, 0, 1, -1)))
add("diagonal", "{xp}.linalg.diagonal({0}, offset={k})", unary(None, moving, ndim(2), k=(0, 0, 1, -1)))
for _name in ("tril", "triu"):
    add(_name, f"{{xp}}.{_name}({{0}}, k={{k}})", unary(None, moving, ndim(2), k=(0, 1, -1)))


def of_square(draw: Any) -> Any:
    return (a_square(draw),), {"k": draw.choice(0, 1), "n": draw.choice(2, 3, -1, 0), "upper": draw.chance(0.3)}


add("det", "{xp}.linalg.det({0})", of_square)
add("slogdet", "{xp}.linalg.slogdet({0})[{k}]", of_square)
add("inv", "{xp}.linalg.inv({0})", of_square)
add("solve", "{xp}.linalg.solve({0}, {1})", with_right_side)
add("matrix_power", "{xp}.linalg.matrix_power({0}, {n})", of_square)
add("cholesky", "{xp}.linalg.cholesky({0} @ {0}.mT, upper={upper})", of_square)
add("pinv", "{xp}.linalg.pinv({0})", unary(None, real, separate))
add("qr_r", "{xp}.linalg.qr({0})[1]", of_square)
add("qr_q", "{xp}.linalg.qr({0})[0]", of_square)
add("svdvals", "{xp}.linalg.svdvals({0})", unary(None, moving, separate))
add("svd", "{xp}.linalg.svd({0}, full_matrices=False)[{k}]", unary(None, real, separate, k=(0, 1, 2)))
add(
    "svd_product",
    "parts = {xp}.linalg.svd({0}, full_matrices=False)\n"
    "{out} = (parts[0] * {xp}.sin(parts[1])[..., None, :]) @ parts[2]",
    unary(None, real, separate),
)
_gram = "({0} @ {0}.mT if {0}.shape[-1] >= {0}.shape[-2] else {0}.mT @ {0})"
add("eigvalsh", "{xp}.linalg.eigvalsh(" + _gram + ")", unary(None, real, separate))
add("eigh", "{xp}.linalg.eigh(" + _gram + ")[1]", unary(None, real, separate))
add("eigh_upper", "np.linalg.eigh(" + _gram + ", 'U')[{k}]", unary(None, real, separate, k=(0, 1)))
_eigvals = "A.sum(A.square(A.linalg.eigvals(" + _gram + ")), axis=-1)"
add("eigvals", _eigvals, unary(None, real, separate), plain=_eigvals.replace("A.square(", "(1 + 0j) * A.square("))
add("matrix_rank", "{xp}.linalg.matrix_rank({0})", unary(None, real, regular), values=True)
add(
    "np_norm",
    "np.linalg.norm({0}, axis={axis})",
    unary(None, real, filled, ndim(1), lambda v: np.abs(v).min(initial=1) > 0.05, axis=axis_of),
)
add("np_multi_dot", "np.linalg.multi_dot([{0}, {0}.T, {0}])", unary(None, real, ndim(2, 2)))
add("np_vander", "np.vander({0}, 3)", unary(None, real, ndim(1, 1)))

# ---------------------------------------------------------------- Fourier transforms


def fourier(*tests: Any) -> Any:
    return unary(None, *tests, filled, ndim(1), axis=axis_of, n=(None, None, 2, 4), norm=("'ortho'", "None"))


for _name in ("fft", "ifft"):
    add(
        _name,
        f"{{xp}}.fft.{_name}({{0}}, n={{n}}, axis={{axis}}, norm={{norm}})",
        fourier(lambda v: v.dtype.kind == "c"),
    )
add("np_fft_real", "np.fft.fft({0}, n={n}, axis={axis}, norm={norm})", fourier(real))
for _name in ("rfft", "ihfft"):
    add(_name, f"{{xp}}.fft.{_name}({{0}}, n={{n}}, axis={{axis}}, norm={{norm}})", fourier(real))
for _name in ("irfft", "hfft"):
    add(_name, f"{{xp}}.fft.{_name}({{0}}, n=4, axis={{axis}}, norm={{norm}})", fourier(lambda v: v.dtype.kind == "c"))
for _name in ("fftn", "ifftn"):
    add(_name, f"{{xp}}.fft.{_name}({{0}}, norm={{norm}})", fourier(lambda v: v.dtype.kind == "c"))
add("rfftn", "{xp}.fft.rfftn({0}, norm={norm})", fourier(real))
for _name in ("fftshift", "ifftshift"):
    add(_name, f"{{xp}}.fft.{_name}({{0}})", fourier(moving))
add("np_convolve", "np.convolve({0}, {1})", both(real, filled, ndim(1, 1)))
