"""Calls of ``scipy.linalg``."""

from typing import Any

import numpy as np
from scipy_calls import Calls

import agrad

CALLS = Calls("linalg")
add, plain = CALLS.add, CALLS.plain
_RNG = np.random.default_rng(11)
_A = _RNG.standard_normal((3, 3)) + 3 * np.eye(3)
_AC = _A + 0.5j * _RNG.standard_normal((3, 3))
_BATCH = np.stack([_A, _A.T @ _A, np.diag([1.0, 2.0, 4.0]) + 0.25])
_V = np.asarray([0.5, -1.0, 2.0])
_VC = _V + 1j * _V[::-1]
_M = _RNG.standard_normal((3, 2))
_MC = _M + 1j * _RNG.standard_normal((3, 2))
_MANY = _RNG.standard_normal((3, 3, 2))
_W = _RNG.standard_normal((3, 5))
_T = _RNG.standard_normal((4, 2))


def _size(x: Any) -> Any:
    """Return what does not depend on the phases of vectors."""
    return agrad.real(x * agrad.conj(x)) if str(x.dtype).rpartition(".")[2].startswith("complex") else x * x


def _h(x: Any) -> Any:
    """Return Hermitian matrices: inputs whose every element may change."""
    across = agrad.matrix_transpose(x)
    return x + (agrad.conj(across) if str(x.dtype).rpartition(".")[2].startswith("complex") else across)


def _moment(w: Any, power: int) -> Any:
    """Return what does not depend on the order of eigenvalues."""
    return agrad.sum(w**power, axis=-1, keepdims=True)


def _projected(w: Any, V: Any) -> Any:
    """Return the sum of the vectors' sizes, weighted by eigenvalues."""
    return agrad.sum(agrad.expand_dims(w, axis=-2) * _size(V), axis=-1)


def _floats(found: Any) -> Any:
    """Return the results of ``lstsq`` without the rank."""
    return [found[0], found[1], found[3]]


def _positive(x: Any) -> Any:
    """Return positive definite matrices."""
    across = agrad.matrix_transpose(x)
    return x @ (agrad.conj(across) if str(x.dtype).rpartition(".")[2].startswith("complex") else across)


add("solve", lambda m, a, b: m.solve(a, b), _A, _V)
add("solve columns", lambda m, a, b: m.solve(a, b), _A, _M)
add("solve complex", lambda m, a, b: m.solve(a, b), _AC, _MC)
add("solve batch", lambda m, a, b: m.solve(a, b), _BATCH, _MANY)
add("solve batch of one vector", lambda m, a, b: m.solve(a, b), _BATCH, _V)
add("solve transposed", lambda m, a, b: m.solve(a, b, transposed=True), _A, _M)
add("solve positive", lambda m, a, b: m.solve(_positive(a), b, assume_a="pos"), _A, _M)
add("solve hermitian", lambda m, a, b: m.solve(_h(a), b, assume_a="her", lower=True), _AC, _MC)
add("solve symmetric", lambda m, a, b: m.solve(a + agrad.matrix_transpose(a), b, assume_a="sym"), _AC, _MC)
add("solve upper", lambda m, a, b: m.solve(a, b, assume_a="upper triangular"), _A, _V)
add("solve diagonal", lambda m, a, b: m.solve(a, b, assume_a="diagonal"), _A, _V)
add("solve tridiagonal", lambda m, a, b: m.solve(a, b, assume_a="tridiagonal"), _A, _V)
add("solve_triangular", lambda m, a, b: m.solve_triangular(a, b), _A, _V)
add("solve_triangular lower", lambda m, a, b: m.solve_triangular(a, b, lower=True), _A, _M)
add("solve_triangular unit", lambda m, a, b: m.solve_triangular(a, b, trans=1, unit_diagonal=True), _A, _M)
add("solve_triangular adjoint", lambda m, a, b: m.solve_triangular(a, b, trans="C", lower=True), _AC, _MC)
add("solve_triangular batch", lambda m, a, b: m.solve_triangular(a, b), _BATCH, _V)
plain("inv det", "", _BATCH)
add("inv complex", lambda m, a: m.inv(_positive(a), assume_a="pos", lower=True), _AC)
add("det complex", lambda m, a: m.det(a), _AC[None])
add("norm", lambda m, a: m.norm(a, keepdims=True), _M)
add("norm vector", lambda m, a: m.norm(a, 3, keepdims=True), _V)
add("norm axis", lambda m, a: m.norm(a, 1, axis=1, keepdims=True), _M)
add("norm complex", lambda m, a: m.norm(a, axis=0), _MC)
add("norm two", lambda m, a: m.norm(a, 2, keepdims=True), _M)
add("norm nuclear", lambda m, a: m.norm(a, "nuc", axis=(0, 2), keepdims=True), _MANY)
add("norm rows", lambda m, a: m.norm(a, np.inf, axis=(2, 0)), _MANY)
add("pinv", lambda m, a: m.pinv(a), _T)
add("pinv rank", lambda m, a: m.pinv(a, return_rank=True, rtol=1e-9)[0], _MANY)
plain("pinv svdvals", "complex", _MC)
add("lstsq", lambda m, a, b: _floats(m.lstsq(a, b)), _T, np.asarray([0.5, 1.0, -1.0, 2.0]))
add("lstsq columns", lambda m, a, b: _floats(m.lstsq(a, b)), _MC, _AC)
add("lstsq wide", lambda m, a, b: m.lstsq(a, b)[0], _W, _V)
add("lstsq batch", lambda m, a, b: m.lstsq(a, b)[0], _MANY, _V)

add("cholesky", lambda m, a: m.cholesky(_positive(a)), _BATCH)
add("cholesky lower", lambda m, a: m.cholesky(_positive(a), lower=True), _AC)
add("cho_factor", lambda m, a: agrad.triu(m.cho_factor(_positive(a))[0]), _A)
add("cho_factor lower", lambda m, a: agrad.tril(m.cho_factor(_positive(a), lower=True)[0]), _AC)
add("cho_solve", lambda m, a, b: m.cho_solve(m.cho_factor(_positive(a)), b), _BATCH, _V)
add("cho_solve lower", lambda m, a, b: m.cho_solve(m.cho_factor(_positive(a), lower=True), b), _AC, _MC)
add("cho_solve factor", lambda m, a, b: m.cho_solve((a, False), b), _A, _M)
add("lu", lambda m, a: m.lu(a)[1:], _A)
add("lu permuted", lambda m, a: m.lu(a, permute_l=True), _T)
add("lu wide", lambda m, a: m.lu(a)[1:], _W)
add("lu batch", lambda m, a: m.lu(a, permute_l=True), _MANY)
add("lu complex", lambda m, a: m.lu(a, permute_l=True), _AC)
add("lu indices", lambda m, a: [x * 1.0 for x in m.lu(a, p_indices=True)[1:]], _BATCH)
add("lu_factor", lambda m, a: m.lu_factor(a)[0], _BATCH)
add("lu_factor tall", lambda m, a: m.lu_factor(a)[0], _MC)
add("lu_factor wide", lambda m, a: m.lu_factor(a)[0], _W)
add("lu_solve", lambda m, a, b: m.lu_solve(m.lu_factor(a), b), _BATCH, _V)
add("lu_solve transposed", lambda m, a, b: m.lu_solve(m.lu_factor(a), b, trans=1), _A, _M)
add("lu_solve adjoint", lambda m, a, b: m.lu_solve(m.lu_factor(a), b, trans=2), _AC, _MC)
add("lu_solve batch", lambda m, a, b: m.lu_solve(m.lu_factor(a), b), _BATCH, _MANY)
add("qr", lambda m, a: m.qr(a), _A)
add("qr economic", lambda m, a: m.qr(a, mode="economic"), _MANY)
add("qr factor", lambda m, a: m.qr(a, mode="r"), _W)
add("svd", lambda m, a: [_size(x) for x in m.svd(a, full_matrices=False)], _M)
add("svd complex", lambda m, a: [_size(x) for x in m.svd(a, full_matrices=False)], _AC)
add("svd values", lambda m, a: m.svd(a, compute_uv=False), _MANY)
add("svdvals", lambda m, a: m.svdvals(a), _MANY)
add("eigh", lambda m, a: [_size(x) for x in m.eigh(_h(a))], _BATCH)
add("eigh upper", lambda m, a: [_size(x) for x in m.eigh(_h(a), lower=False, subset_by_index=[1, 2])], _AC)
add("eigh generalized", lambda m, a, b: [_size(x) for x in m.eigh(_h(a), _positive(b))], _AC, _A)
add("eigvalsh", lambda m, a: m.eigvalsh(_h(a)), _BATCH)
add("eigvalsh generalized", lambda m, a, b: m.eigvalsh(_h(a), _positive(b), lower=False), _A, _AC)
add("eig", lambda m, a: _moment(m.eig(a)[0], 2), _A)
add("eig vectors", lambda m, a: _projected(*m.eig(a)), _BATCH)
add("eig values", lambda m, a: _moment(m.eig(a, right=False), 3), _AC)
add("eigvals", lambda m, a: _moment(m.eigvals(a), 2), _A)
add("eigvals complex", lambda m, a: _moment(m.eigvals(a), 3), _AC)

_BAND = _RNG.standard_normal((4, 5)) + np.asarray([[0.0], [5.0], [0.0], [0.0]])
_HALF = _RNG.standard_normal((3, 5)) + np.asarray([[0.0], [0.0], [8.0]])
_LOWER = (_HALF + 0.5j * _RNG.standard_normal((3, 5)) * np.asarray([[1.0], [1.0], [0.0]]))[::-1]
_FIVE = _RNG.standard_normal(5)
add("solve_banded", lambda m, a, b: m.solve_banded((2, 1), a, b), _BAND, _FIVE)
add("solve_banded complex", lambda m, a, b: m.solve_banded((2, 1), a, b), _BAND + 0.3j, _W.T)
add("solve_banded batch", lambda m, a, b: m.solve_banded((1, 2), a, b), np.stack([_BAND, _BAND[::-1]]), _W.T)
add("solveh_banded", lambda m, a, b: m.solveh_banded(a, b), _HALF, _FIVE)
add("solveh_banded lower", lambda m, a, b: m.solveh_banded(a, b, lower=True), _LOWER, _W.T + 0j)
add("cholesky_banded", lambda m, a: m.cholesky_banded(a)[-1, :], _HALF)
add("cholesky_banded lower", lambda m, a: m.cholesky_banded(a, lower=True)[1, :-1], _LOWER)
add("cho_solve_banded", lambda m, a, b: m.cho_solve_banded((m.cholesky_banded(a), False), b), _HALF, _FIVE)
add("cho_solve_banded lower", lambda m, a, b: m.cho_solve_banded((a, True), b), _LOWER, _W.T + 0j)

add("expm", lambda m, a: m.expm(a), _BATCH * np.asarray([[[0.1]], [[1.0]], [[2.0]]]))
plain("expm cosm sinm coshm sqrtm logm", "complex", _AC)
add("expm defective", lambda m, a: m.expm(a), np.asarray([[1.0, 1.0], [0.0, 1.0]]))
add("expm large", lambda m, a: m.expm(a), np.asarray([[0.0, 40.0], [-50.0, -30.0]]), order=1)
plain("cosm coshm sinhm sqrtm", "", _A)
add("sinm", lambda m, a: m.sinm(a), _BATCH[2:])
plain("tanm tanhm", "", 0.3 * _A)
plain("tanm tanhm", "complex", 0.3 * _AC)
add("sinhm batch", lambda m, a: m.sinhm(a), 0.2 * _BATCH)
add("sqrtm batch", lambda m, a: m.sqrtm(_positive(a)), _BATCH)
plain("sqrtm logm", "defective", np.asarray([[2.0, 1.0], [0.0, 2.0]]))
add("logm", lambda m, a: m.logm(_positive(a)), _A)
add("logm batch", lambda m, a: m.logm(_positive(a)), _BATCH)
add("logm near", lambda m, a: m.logm(a), np.asarray([[1.05, 0.02], [-0.03, 0.98]]))
add("solve_sylvester", lambda m, a, b, q: m.solve_sylvester(a, b, q), _A, np.asarray([[2.0, 1.0], [0.5, 3.0]]), _M)
add("solve_sylvester complex", lambda m, a, b, q: m.solve_sylvester(a, b, q), _AC, _A + 0.2j, _A + 1j * _AC)
add("solve_sylvester batch", lambda m, a, b, q: m.solve_sylvester(a, b, q), _BATCH, _A, _BATCH[::-1])

add("block_diag", lambda m, a, b, c: m.block_diag(a, b, c), _A, _V, np.asarray(2.0))
add("block_diag batch", lambda m, a, b: m.block_diag(a, b), _MANY, _MC)
add("toeplitz", lambda m, c: m.toeplitz(c), _VC)
add("solve_toeplitz", lambda m, c, b: m.solve_toeplitz(c + 5.0, b), _V, _FIVE[: _V.size])
add("solve_toeplitz row", lambda m, c, r, b: m.solve_toeplitz((c + 5.0, r), b), _V, _V[::-1], _V[:, None] * [1.0, 2.0])
add("toeplitz row", lambda m, c, r: m.toeplitz(c, r), _V, _FIVE)
add("toeplitz batch", lambda m, c, r: m.toeplitz(c, r), _M, _V)
plain("circulant hankel fiedler", "", _V)
add("circulant batch", lambda m, c: m.circulant(c), _MC)
add("hankel row", lambda m, c, r: m.hankel(c, r), _VC, _FIVE)

add("companion", lambda m, a: m.companion(a), np.asarray([2.0, -0.5, 1.5, 3.0]))
add("companion complex", lambda m, a: m.companion(a), _VC)
add("leslie", lambda m, f, s: m.leslie(f, s), _V, _V[:2])
for _mode in ("full", "same", "valid"):
    add(f"convolution_matrix {_mode}", lambda m, a, mode=_mode: m.convolution_matrix(a, 4, mode), _V)
add("convolution_matrix wide", lambda m, a: m.convolution_matrix(a, 2, "same"), _VC)
add("solve_continuous_lyapunov", lambda m, a, q: m.solve_continuous_lyapunov(a, q), _A, _A.T @ _A)
add("solve_continuous_lyapunov complex", lambda m, a, q: m.solve_continuous_lyapunov(a, q), _AC, _A)
add("solve_discrete_lyapunov", lambda m, a, q: m.solve_discrete_lyapunov(0.2 * a, q), _A, _A.T @ _A)
add("solve_discrete_lyapunov complex", lambda m, a, q: m.solve_discrete_lyapunov(0.2 * a, q), _AC, _A)
add("expm_frechet", lambda m, a, e: list(m.expm_frechet(a, e)), 0.3 * _A, _A.T)
add("expm_frechet complex", lambda m, a, e: m.expm_frechet(a, e, compute_expm=False), 0.3 * _AC, _AC.T)
add("polar", lambda m, a: list(m.polar(a)), _A)
add("polar equal values", lambda m, a: list(m.polar(a)), 2 * np.eye(3)[::-1], order=1)
add("polar tall", lambda m, a: list(m.polar(a)), _M)
add("polar left", lambda m, a: list(m.polar(a, "left")), _W)
add("polar complex", lambda m, a: list(m.polar(a)), _MC)
add("schur", lambda m, a: [_size(x) for x in m.schur(_h(a))], _A)
add("schur complex", lambda m, a: [_size(x) for x in m.schur(a)], _AC)
add("funm", lambda m, a: m.funm(a, lambda x: x**3 - 2 * x), _A)
add("funm batch", lambda m, a: m.expm(a) if m.__name__ == "scipy.linalg" else m.funm(a, agrad.exp), _BATCH)
add("funm complex", lambda m, a: m.funm(a, lambda x: x / (x + 5)), _AC)
add("eigh_tridiagonal", lambda m, d, e: [_size(x) for x in m.eigh_tridiagonal(d, e)], _V, _V[:2])
add("eigh_tridiagonal values", lambda m, d, e: m.eigh_tridiagonal(d, e, eigvals_only=True), _V, _V[1:])
