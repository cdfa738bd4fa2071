"""cuSOLVER and cuFFT, at the level of the CuPy functions that call them: the arrays go to NumPy and come back.

What CuPy itself does before (checks, dtypes, shapes) is kept where it is; a factorization that fails gives NaN, as CuPy's
does unless it is told to look.
"""

import sys

import numpy as np


def _back(x, dtype=None):
    cupy = sys.modules["cupy"]
    return cupy.asarray(np.ascontiguousarray(x if dtype is None else x.astype(dtype, copy=False)))


def _or_nan(function, a, *shapes):
    try:
        with np.errstate(all="ignore"):
            return function(a)
    except np.linalg.LinAlgError:
        made = tuple(np.full(shape, np.nan, dtype) for shape, dtype in shapes)
        return made if len(made) > 1 else made[0]


def _lu(a):
    """Pivoted LU of one matrix: LU, 1-origin pivots, info."""
    a, n = a.copy(), a.shape[0]
    piv, info = np.zeros(n, np.int32), 0
    with np.errstate(all="ignore"):
        for k in range(n):
            p = k + int(np.argmax(np.abs(a[k:, k])))
            piv[k] = p + 1
            if p != k:
                a[[k, p]] = a[[p, k]]
            if a[k, k] == 0:
                info = info or k + 1
                continue
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, piv, info


def decomposition(module) -> None:
    cupy, util = sys.modules["cupy"], module._util
    asnumpy = lambda a: a.get()  # noqa: E731

    def _lu_factor(a_t, dtype):
        a = asnumpy(a_t).astype(dtype)
        n = a.shape[-1]
        flat = a.reshape(-1, n, n)
        lu, piv, info = np.empty_like(flat), np.empty((len(flat), n), np.int32), np.empty(len(flat), np.int32)
        for i, m in enumerate(flat):
            found, piv[i], info[i] = _lu(m.T)
            lu[i] = found.T
        return _back(lu.reshape(a.shape)), _back(piv.reshape(a.shape[:-1])), _back(info.reshape(a.shape[:-2]))

    def cholesky(a):
        util._assert_cupy_array(a)
        util._assert_stacked_2d(a)
        util._assert_stacked_square(a)
        dtype, out_dtype = util.linalg_common_type(a)
        if a.size == 0:
            return cupy.empty(a.shape, out_dtype)
        x = asnumpy(a).astype(dtype)
        flat = [_or_nan(np.linalg.cholesky, m, (m.shape, dtype)) for m in x.reshape(-1, *x.shape[-2:])]
        return _back(np.stack(flat).reshape(x.shape), out_dtype)

    true_qr = module.qr

    def qr(a, mode="reduced"):
        if a.size == 0 or mode not in ("reduced", "complete", "r"):
            return true_qr(a, mode)
        util._assert_cupy_array(a)
        dtype, out_dtype = util.linalg_common_type(a)
        found = np.linalg.qr(asnumpy(a).astype(dtype), mode)
        if mode == "r":
            return _back(found, out_dtype)
        return (
            cupy.linalg._decomposition.QRResult(*[_back(x, out_dtype) for x in found])
            if hasattr(module, "QRResult")
            else tuple(_back(x, out_dtype) for x in found)
        )

    true_svd = module.svd

    def svd(a, full_matrices=True, compute_uv=True):
        util._assert_cupy_array(a)
        if a.size == 0 or a.ndim < 2:
            return true_svd(a, full_matrices, compute_uv)
        dtype, out_dtype = util.linalg_common_type(a)
        found = np.linalg.svd(asnumpy(a).astype(dtype), full_matrices, compute_uv)
        if not compute_uv:
            return _back(found, out_dtype.char.lower())
        u, s, vt = found
        made = _back(u, out_dtype), _back(s, out_dtype.char.lower()), _back(vt, out_dtype)
        return module.SVDResult(*made) if hasattr(module, "SVDResult") else made

    module._lu_factor, module.cholesky, module.qr, module.svd = _lu_factor, cholesky, qr, svd


def eigenvalue(module) -> None:
    util = module._util

    def _syevd(a, UPLO, with_eigen_vector, overwrite_a=False):
        if UPLO not in ("L", "U"):
            raise ValueError("UPLO argument must be 'L' or 'U'")
        dtype, v_dtype = util.linalg_common_type(a, reject_float16=False)
        x = a.get().astype(dtype)
        if with_eigen_vector:
            w, v = np.linalg.eigh(x, UPLO)
            return _back(w, v_dtype.char.lower()), _back(v, v_dtype)
        return _back(np.linalg.eigvalsh(x, UPLO), v_dtype.char.lower()), None

    module._syevd = _syevd
    if hasattr(module, "_geev"):

        def _geev(a, with_eigen_vector):
            input_dtype, _ = util.linalg_common_type(a)
            complex_dtype = np.dtype(input_dtype.char.upper())
            w, v = np.linalg.eig(a.get().astype(input_dtype))
            return _back(w, complex_dtype), _back(v, complex_dtype)

        module._geev = _geev


def cusolver(module) -> None:
    def syevj(a, UPLO="L", with_eigen_vector=True):
        x = a.get()
        w, v = np.linalg.eigh(x, UPLO)
        return (_back(w), _back(v)) if with_eigen_vector else _back(w)

    module.syevj = syevj
    module.gesvda = None


def lapack(module) -> None:
    def gesv(a, b):
        if a.ndim != 2 or b.ndim not in (1, 2) or a.dtype != b.dtype:
            raise ValueError("gesv: a matrix and right sides of one dtype")
        x = _or_nan(lambda m: np.linalg.solve(m, b.get()), a.get(), (b.shape, b.dtype))
        b[...] = _back(x, b.dtype)
        return b

    module.gesv = gesv


def fft(module) -> None:
    def one(a, direction, value_type, axis, out_size, fft_type):
        from cupy.cuda import cufft

        x = a.get()
        single = x.dtype.char in "fF"
        if value_type == "R2C":
            y = np.fft.rfft(x, axis=axis)
        elif value_type == "C2R":
            y = np.fft.irfft(x, out_size, axis=axis, norm="forward")
        elif direction == cufft.CUFFT_FORWARD:
            y = np.fft.fft(x, axis=axis)
        else:
            y = np.fft.ifft(x, axis=axis, norm="forward")
        kind = {"R2C": "FD", "C2C": "FD", "C2R": "fd"}[value_type][0 if single else 1]
        return y.astype(kind)

    def _exec_fft(a, direction, value_type, norm, axis, overwrite_x, out_size=None, out=None, plan=None):
        import math

        from cupy.cuda import cufft

        fft_type = module._convert_fft_type(a.dtype, value_type)
        n = a.shape[axis]
        if n < 1:
            raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
        size = n if out_size is None else out_size
        if value_type == "C2R" and out_size is None:
            size = 2 * (n - 1)
        y = _back(one(a, direction, value_type, axis, size, fft_type))
        sz = n if value_type == "R2C" else y.shape[axis]
        if norm == "backward" and direction == cufft.CUFFT_INVERSE:
            y /= sz
        elif norm == "ortho":
            y /= math.sqrt(sz)
        elif norm == "forward" and direction == cufft.CUFFT_FORWARD:
            y /= sz
        return y

    module._exec_fft = _exec_fft

    def _exec_fftn(a, direction, value_type, norm, axes, overwrite_x, plan=None, out=None, out_size=None):
        if value_type == "C2R":
            for axis in axes[:-1]:
                a = _exec_fft(a, direction, "C2C", norm, axis, overwrite_x)
            return _exec_fft(a, direction, value_type, norm, axes[-1], overwrite_x, out_size)
        if value_type == "R2C":
            a = _exec_fft(a, direction, value_type, norm, axes[-1], overwrite_x)
            axes = axes[:-1]
        for axis in axes:
            a = _exec_fft(a, direction, "C2C", norm, axis, overwrite_x)
        return a

    module._exec_fftn = _exec_fftn
    module._get_cufft_plan_nd = lambda *a, **k: None


AFTER = {
    "cupy.linalg._decomposition": decomposition,
    "cupy.linalg._eigenvalue": eigenvalue,
    "cupyx.cusolver": cusolver,
    "cupyx.lapack": lapack,
    "cupy.fft._fft": fft,
}
