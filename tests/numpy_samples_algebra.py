"""Samples of NumPy's products, linear algebra, polynomials and statistics."""

import numpy as np
from numpy_sampling import definite, hermitian, on_integers, plain, sample
from table import complex_normal, distinct, normal, off_zero, positive, square_matrix, values

# fmt: off
# ---------------------------------------------------------------- products
plain("dot inner outer vdot kron linalg.outer", normal(3), normal(3))
plain("dot linalg.matmul", normal(2, 3), normal(3, 2))
plain("dot inner", normal(2, 3), normal(3))
plain("dot", normal(3), normal(2, 3, 4))
plain("inner", normal(2, 3), normal(4, 3))
plain("dot inner", normal(2, 3), normal())
plain("vdot", complex_normal(2, 2), complex_normal(2, 2))
plain("kron", normal(2, 3), normal(3))
plain("tensordot linalg.tensordot", normal(2, 3, 4), normal(3, 4, 2))
plain("tensordot", normal(2, 3, 4), normal(4, 2, 3), axes=([0, 2], [1, 0]))
plain("tensordot", normal(2), normal(3), axes=0)
plain("cross linalg.cross", normal(2, 3), normal(2, 3))
plain("cross", normal(3, 2), normal(3), axisa=0, axisc=0)
for _text, _shapes in (
    ("ij,jk->ik", ((2, 3), (3, 4))), ("ij,jk", ((2, 3), (3, 4))), ("ii->i", ((3, 3),)), ("ii", ((3, 3),)),
    ("ij->ji", ((2, 3),)), ("i,j->ij", ((2,), (3,))), ("bij,bjk->bik", ((2, 3, 4), (2, 4, 2))),
    ("...ij,...jk->...ik", ((2, 3, 4), (4, 2))), ("i...->...", ((2, 3),)), ("ij,kj,kl->il", ((2, 3), (4, 3), (4, 2))),
    ("iij,jk->ik", ((3, 3, 2), (2, 3))), ("i,i,i->", ((3,), (3,), (3,))), ("ij,ij->", ((2, 3), (2, 3))),
    ("ij->", ((2, 3),)), ("ij,j->ij", ((2, 3), (1,))), ("ab...,b...->a...", ((2, 3, 4), (3, 4))), ("ba", ((2, 3),)),
    ("i,->i", ((3,), ())), ("...,...", ((2, 3), (3,))),
):
    sample("einsum", lambda *xs, t=_text: np.einsum(t, *xs), *[normal(*s) for s in _shapes])
sample("einsum", lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0]), normal(2, 3), normal(3, 4))
sample("einsum", lambda x, y: np.einsum(x, [0, ...], y, [..., 0]), normal(2, 3), normal(3, 2))
sample("einsum", lambda x, y: np.einsum("ij,j", x, y, optimize=True), complex_normal(2, 3), normal(3))
sample("einsum_path", lambda x: np.einsum_path("ij,jk,kl", x, x, x)[0], normal(3, 3), constant=True)
sample("linalg.multi_dot", lambda *xs: np.linalg.multi_dot(xs), normal(3), normal(3, 2), normal(2, 4), normal(4, 2))
sample("linalg.multi_dot", lambda *xs: np.linalg.multi_dot(xs), normal(2, 3), normal(3, 5), normal(5))

# ---------------------------------------------------------------- linalg
plain("linalg.inv linalg.det linalg.cond linalg.pinv", square_matrix(3, 3))
plain("linalg.slogdet", square_matrix(2, 3, 3))
plain("linalg.solve", square_matrix(3, 3), normal(3, 2))
plain("linalg.solve", square_matrix(3, 3), normal(3))
sample("linalg.cholesky", lambda x: np.linalg.cholesky(definite(x)), square_matrix(3, 3))
sample("linalg.cholesky", lambda x: np.linalg.cholesky(definite(x), upper=True), square_matrix(3, 3))
plain("linalg.qr", normal(4, 3))
plain("linalg.qr", normal(4, 3), mode="r")
plain("linalg.svdvals", normal(4, 3))
sample("linalg.svd", lambda x: np.linalg.svd(x, full_matrices=False)[1], normal(4, 3))
sample("linalg.svd", lambda x: np.abs(np.linalg.svd(x, full_matrices=False)[0]), normal(4, 3))
sample("linalg.svd", lambda x: np.linalg.svd(x, compute_uv=False), normal(4, 3))
sample("linalg.eigvalsh", lambda x: np.linalg.eigvalsh(hermitian(x)), normal(3, 3))
sample("linalg.eigvalsh", lambda x: np.linalg.eigvalsh(hermitian(x), "U"), complex_normal(3, 3))
sample("linalg.eigh", lambda x: np.linalg.eigh(hermitian(x))[0], normal(3, 3))
sample("linalg.eigh", lambda x: np.abs(np.linalg.eigh(hermitian(x), UPLO="U").eigenvectors), normal(3, 3))
sample("linalg.eigvals", lambda x: np.sort(np.abs(np.linalg.eigvals(x))), square_matrix(3, 3))
sample("linalg.eig", lambda x: np.sort(np.abs(np.linalg.eig(x)[0])), square_matrix(3, 3))
plain("linalg.pinv", normal(4, 3))
plain("linalg.pinv", normal(2, 3, 4), rtol=None)
plain("linalg.matrix_power", square_matrix(3, 3), n=3)
plain("linalg.matrix_power", square_matrix(3, 3), n=-2)
plain("linalg.matrix_rank", normal(3, 3), constant=True)
plain("linalg.diagonal linalg.trace", normal(2, 3, 4), offset=-1)
plain("linalg.norm linalg.vector_norm", normal(2, 3))
plain("linalg.norm linalg.vector_norm", normal(3))
for _ord in (1, -1, 2, 3, np.inf, -np.inf, 0.5):
    plain("linalg.norm", off_zero(5), ord=_ord)
    plain("linalg.norm", distinct(2, 5), ord=_ord, axis=1, keepdims=True)
for _ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
    plain("linalg.norm", normal(3, 4), ord=_ord)
    plain("linalg.norm", normal(3, 2, 4), ord=_ord, axis=(2, 0), keepdims=True)
plain("linalg.matrix_norm", normal(2, 3, 4), ord=2, keepdims=True)
plain("linalg.vector_norm", normal(2, 3), axis=1, keepdims=True, ord=3)
sample("linalg.vector_norm", on_integers(np.linalg.vector_norm), values([3.0, -4.0]), constant=True)
for _p in (None, 2, -2, 1, np.inf, "fro"):
    plain("linalg.cond", square_matrix(3, 3), p=_p)
sample("linalg.lstsq", lambda a, b: np.linalg.lstsq(a, b, rcond=None), normal(5, 3), normal(5))
sample("linalg.lstsq", lambda a, b: np.linalg.lstsq(a, b)[0], normal(3, 5), normal(3, 2))
sample("linalg.lstsq", lambda a, b: np.linalg.lstsq(a, b)[1], complex_normal(5, 2), normal(5, 2))
sample("linalg.tensorinv", lambda x: np.linalg.tensorinv(np.reshape(x, (4, 2, 2)), ind=1), square_matrix(4, 4))
sample("linalg.tensorsolve", lambda x, y: np.linalg.tensorsolve(np.reshape(x, (2, 2, 4)), y),
       square_matrix(4, 4), normal(2, 2))
sample("linalg.tensorsolve", lambda x, y: np.linalg.tensorsolve(np.reshape(x, (2, 2, 2, 2)), y, axes=(0,)),
       square_matrix(4, 4), normal(2, 2))

# ---------------------------------------------------------------- polynomials
plain("polyadd polysub polymul", normal(3), normal(2))
plain("polydiv", normal(5), off_zero(3))
plain("polydiv", normal(2), off_zero(3))
plain("polyval", normal(4), normal(2, 3))
sample("polyval", lambda p: np.polyval(p, 1.5), normal(4))
plain("polyder", normal(5), m=2)
plain("polyint", normal(3), m=2)
sample("polyint", lambda p, k: np.polyint(p, 2, k), normal(3), normal(2))
sample("roots", lambda p: np.sort(np.roots(p)), values([1.0, -6.5, 11.0, -6.0]))
sample("roots", lambda p: np.sort(np.abs(np.roots(p))), values([0.0, 2.0, 0.3, 2.0, 1.7, 0.0]), kink=True)
plain("poly", normal(4))
plain("poly", square_matrix(3, 3))
plain("polyfit", distinct(6), normal(6), deg=2)
sample("polyfit", lambda x, y, w: np.polyfit(x, y, 1, w=w), distinct(5), normal(5, 2), positive(5))
sample("polyfit", lambda x, y: np.polyfit(x, y, 1, cov=True), distinct(6), normal(6))
sample("polyfit", lambda x, y: np.polyfit(x, y, 1, cov="unscaled"), distinct(6), normal(6))
sample("polyfit", lambda x, y: np.polyfit(x, y, 2, full=True)[:2], distinct(6), normal(6))

# ---------------------------------------------------------------- signals, special functions, statistics
sample("interp", lambda x, xp, fp: np.interp(x, xp, fp), normal(4), values([-1.0, 0.1, 0.8]), normal(3))
sample("interp", lambda x, fp: np.interp(x, [-1.0, 0.1, 0.8], fp, left=3.0, right=-2.0), normal(2, 3), normal(3))
sample("interp", lambda x, xp, fp: np.interp(x, xp, fp, period=3.0), normal(6), values([2.3, 0.4, 1.1]), normal(3))
for _mode in ("full", "same", "valid"):
    for _n, _m in ((5, 3), (3, 5), (6, 2), (2, 6), (4, 4), (1, 3)):
        plain("convolve correlate", normal(_n), normal(_m), mode=_mode)
plain("correlate convolve", complex_normal(4), complex_normal(3))
plain("trapezoid", normal(2, 5))
plain("trapezoid", normal(2, 5), distinct(5))
plain("trapezoid", normal(3, 2), dx=0.3, axis=0)
plain("trapezoid", normal(2, 3), normal(2, 3))
plain("gradient", normal(5))
plain("gradient", normal(3, 4))
plain("gradient", normal(4, 2), axis=0, edge_order=2)
sample("gradient", lambda f, x: np.gradient(f, x, edge_order=2), normal(5), values([0.0, 0.4, 1.0, 1.3, 2.5]))
sample("gradient", lambda f, h: np.gradient(f, h, [0.0, 1.0, 3.0], axis=(1, 0)), normal(3, 4), positive())
sample("gradient", lambda f: np.gradient(f, 0.5), normal(2, 3))
plain("unwrap", values([0.1, 3.0, -3.0, 3.1, 9.0]))
plain("unwrap", normal(2, 4), period=1.3, axis=0)
plain("sinc", values([0.0, 0.01, 0.1, 0.16, 0.7, -2.3]))
plain("i0", values([0.0, 0.3, -2.0, 12.0, 19.9, 20.1, 31.0]))
plain("cov", normal(5))
plain("cov corrcoef", normal(3, 6))
plain("cov corrcoef", normal(6), normal(6))
plain("cov corrcoef", normal(6, 2), normal(6, 1), rowvar=False)
plain("cov corrcoef", complex_normal(2, 5))
sample("cov", lambda x, w: np.cov(x, aweights=w), normal(2, 5), positive(5))
sample("cov", lambda x: np.cov(x, fweights=[1, 2, 3, 1], bias=True), normal(2, 4))
sample("cov", lambda x, w: np.cov(x, fweights=[1, 2, 3, 1], aweights=w, ddof=2), normal(2, 4), positive(4))
sample("histogram", lambda x: np.histogram(x, bins=4)[1], distinct(6))
sample("histogram", lambda x: np.histogram(x, bins=4)[0], distinct(6), constant=True)
sample("histogram", lambda x: np.histogram(x, bins=[-1.0, 0.0, 2.0]), distinct(6), constant=True)
sample("histogram", lambda x, w: np.histogram(x, bins=3, range=(-1.0, 1.0), weights=w)[0], distinct(6), normal(6))
sample("histogram", lambda x: np.histogram(x, bins=3, density=True), normal(7))
sample("histogram_bin_edges", lambda x: np.histogram_bin_edges(x, 3), distinct(6))
sample("histogram_bin_edges", lambda x: np.histogram_bin_edges(x, 4), values([1.5, 1.5]), kink=True)

# ---------------------------------------------------------------- fft
plain("fft.fft fft.ifft", complex_normal(2, 5))
plain("fft.fft fft.ifft fft.rfft fft.ihfft", normal(2, 5))
plain("fft.fft fft.ifft fft.rfft fft.ihfft", normal(2, 5), n=4, axis=0, norm="ortho")
plain("fft.irfft fft.hfft", complex_normal(2, 4))
plain("fft.irfft fft.hfft", normal(2, 4), n=5, norm="forward")
plain("fft.fft2 fft.ifft2 fft.rfft2 fft.fftn fft.ifftn fft.rfftn", normal(2, 3, 4))
plain("fft.irfft2 fft.irfftn", complex_normal(2, 3, 4))
plain("fft.fft2 fft.ifftn fft.rfft2 fft.irfft2", normal(3, 4), s=(2, 3), axes=(0, 1))
plain("fft.fftshift fft.ifftshift", normal(3, 4))
plain("fft.fftshift fft.ifftshift", normal(3, 4), axes=1)
