"""QR, SVD, eigenvalues, Fourier transforms and sparse products of CuPy, computed by NumPy.

They take the place of CuPy's functions that call cuSOLVER, cuFFT and cuSPARSE, and compute on copies of the arrays. The
checks that CuPy makes before (kinds, shapes, dtypes) are made as CuPy makes them.
"""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def _on_device(x: Array, dtype: Any = None) -> Any:
    return sys.modules["cupy"].asarray(np.ascontiguousarray(x if dtype is None else x.astype(dtype, copy=False)))


# ---------------------------------------------------------------- factorizations


def _replace_decompositions(module: Any) -> None:
    util = module._util
    true_qr, true_svd = module.qr, module.svd

    def qr(a: Any, mode: str = "reduced") -> Any:
        if a.size == 0 or mode not in ("reduced", "complete", "r"):
            return true_qr(a, mode)
        util._assert_cupy_array(a)
        dtype, out_dtype = util.linalg_common_type(a)
        found = np.linalg.qr(a.get().astype(dtype), mode)  # type: ignore[call-overload]
        return _on_device(found, out_dtype) if mode == "r" else _all_on_device(found, [out_dtype] * 2)

    def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
        util._assert_cupy_array(a)
        if a.size == 0 or a.ndim < 2:
            return true_svd(a, full_matrices, compute_uv)
        dtype, out_dtype = util.linalg_common_type(a)
        real = out_dtype.char.lower()
        found = np.linalg.svd(a.get().astype(dtype), full_matrices, compute_uv)
        return _all_on_device(found, [out_dtype, real, out_dtype]) if compute_uv else _on_device(found, real)

    module.qr, module.svd = qr, svd


def _all_on_device(arrays: Any, dtypes: list[Any]) -> tuple[Any, ...]:
    return tuple(_on_device(x, dtype) for x, dtype in zip(arrays, dtypes, strict=True))


# ---------------------------------------------------------------- eigenvalues and systems


def _replace_eigenvalues(module: Any) -> None:
    util = module._util

    def syevd(a: Any, UPLO: str, with_eigen_vector: bool, overwrite_a: bool = False) -> Any:
        if UPLO not in ("L", "U"):
            raise ValueError("UPLO argument must be 'L' or 'U'")
        dtype, out_dtype = util.linalg_common_type(a, reject_float16=False)
        real, x = out_dtype.char.lower(), a.get().astype(dtype)
        if not with_eigen_vector:
            return _on_device(np.linalg.eigvalsh(x, UPLO), real), None  # type: ignore[arg-type]
        values, vectors = np.linalg.eigh(x, UPLO)  # type: ignore[arg-type]
        return _on_device(values, real), _on_device(vectors, out_dtype)

    def geev(a: Any, with_eigen_vector: bool) -> Any:
        dtype, _ = util.linalg_common_type(a)
        complex_dtype = np.dtype(dtype.char.upper())
        values, vectors = np.linalg.eig(a.get().astype(dtype))
        return _on_device(values, complex_dtype), _on_device(vectors, complex_dtype)

    module._syevd, module._geev = syevd, geev


def _replace_cusolver(module: Any) -> None:
    def syevj(a: Any, UPLO: str = "L", with_eigen_vector: bool = True) -> Any:
        values, vectors = np.linalg.eigh(a.get(), UPLO)  # type: ignore[arg-type]
        return (_on_device(values), _on_device(vectors)) if with_eigen_vector else _on_device(values)

    module.syevj = syevj


# ---------------------------------------------------------------- Fourier transforms


def _replace_fft(module: Any) -> None:
    def transformed(x: Array, forward: bool, kind: str, axis: int, size: int) -> Array:
        single = x.dtype.char in "fF"
        if kind == "R2C":
            return np.fft.rfft(x, axis=axis).astype("F" if single else "D")
        if kind == "C2R":
            return np.fft.irfft(x, size, axis=axis, norm="forward").astype("f" if single else "d")
        y = np.fft.fft(x, axis=axis) if forward else np.fft.ifft(x, axis=axis, norm="forward")
        return y.astype("F" if single else "D")

    def one_axis(
        a: Any,
        direction: int,
        value_type: str,
        norm: str,
        axis: int,
        overwrite_x: bool,
        out_size: Any = None,
        *_: Any,
        **__: Any,
    ) -> Any:
        from cupy.cuda import cufft

        module._convert_fft_type(a.dtype, value_type)
        n = a.shape[axis]
        if n < 1:
            raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
        size = 2 * (n - 1) if value_type == "C2R" and out_size is None else out_size or n
        forward = direction == cufft.CUFFT_FORWARD
        y = _on_device(transformed(a.get(), forward, value_type, axis, size))
        points = n if value_type == "R2C" else y.shape[axis]
        if norm == "ortho":
            y /= math.sqrt(points)
        elif norm == ("forward" if forward else "backward"):
            y /= points
        return y

    def many_axes(
        a: Any,
        direction: int,
        value_type: str,
        norm: str,
        axes: Any,
        overwrite_x: bool,
        plan: Any = None,
        out: Any = None,
        out_size: Any = None,
    ) -> Any:
        axes = list(axes)
        if value_type == "R2C":
            a = one_axis(a, direction, value_type, norm, axes.pop(), overwrite_x)
        last = axes.pop() if value_type == "C2R" else None
        for axis in axes:
            a = one_axis(a, direction, "C2C", norm, axis, overwrite_x)
        return a if last is None else one_axis(a, direction, value_type, norm, last, overwrite_x, out_size)

    module._exec_fft, module._exec_fftn = one_axis, many_axes
    module._get_cufft_plan_nd = lambda *_, **__: None


# ---------------------------------------------------------------- sparse matrices


def _dense(a: Any) -> Array:
    """Return the elements of a sparse matrix in one of the formats that cuSPARSE takes."""
    if a.format == "coo":
        rows, columns = a.row.get(), a.col.get()
    else:
        outer = np.repeat(np.arange(a.indptr.size - 1), np.diff(a.indptr.get()))
        rows, columns = (outer, a.indices.get()) if a.format == "csr" else (a.indices.get(), outer)
    out = np.zeros(a.shape, a.dtype)
    np.add.at(out, (rows, columns), a.data.get())
    return out


def _replace_cusparse(module: Any) -> None:
    def product(a: Any, b: Any, c: Any, alpha: Any, beta: Any, transa: bool, transb: bool) -> Any:
        rows, inner = a.shape[::-1] if transa else a.shape
        shape = (rows, *(b.shape[::-1] if transb else b.shape)[1:])
        if inner != b.shape[int(transb)] or (c is not None and c.shape != shape):
            raise ValueError("dimension mismatch")
        if not a.has_canonical_format:
            raise ValueError("expected canonical format")
        a, b, c = module._cast_common_type(a, b, c)
        left, right = _dense(a), b.get()
        found = alpha * ((left.T if transa else left) @ (right.T if transb else right))
        cupy = sys.modules["cupy"]
        if c is None:
            return cupy.asfortranarray(_on_device(found, a.dtype))
        c[...] = _on_device(found + beta * c.get(), c.dtype)
        return c

    def spmv(a: Any, x: Any, y: Any = None, alpha: Any = 1, beta: Any = 0, transa: bool = False) -> Any:
        return product(a, x, y, alpha, beta, transa, False)

    def spmm(
        a: Any, b: Any, c: Any = None, alpha: Any = 1, beta: Any = 0, transa: bool = False, transb: bool = False
    ) -> Any:
        if not b.flags.f_contiguous or (c is not None and not c.flags.f_contiguous):
            raise ValueError("expected F-contiguous arrays")
        return product(a, b, c, alpha, beta, transa, transb)

    def sparse_to_dense(x: Any, out: Any = None) -> Any:
        found = sys.modules["cupy"].asfortranarray(_on_device(_dense(x)))
        if out is None:
            return found
        out[...] = found
        return out

    def dense_to_sparse(x: Any, format: str = "csr") -> Any:
        host = x.get()
        rows, columns = np.nonzero(host)
        parts = _on_device(host[rows, columns]), (_on_device(rows, "i"), _on_device(columns, "i"))
        made = sys.modules["cupyx"].scipy.sparse.coo_matrix(parts, shape=x.shape)
        made.has_canonical_format = True
        return made.asformat(format)

    def coosort(x: Any, sort_by: str = "r") -> None:
        rows, columns = x.row.get(), x.col.get()
        order = _on_device(np.lexsort((columns, rows) if sort_by == "r" else (rows, columns)))
        for part in (x.row, x.col, x.data):
            part[:] = part[order]
        x.has_canonical_format = x.has_canonical_format and sort_by == "r"

    def compressed(x: Any, format: str) -> Any:
        outer, inner, n = (x.row, x.col, x.shape[0]) if format == "csr" else (x.col, x.row, x.shape[1])
        made = getattr(sys.modules["cupyx"].scipy.sparse, f"{format}_matrix")
        return made._from_parts(x.data, inner, module._build_indptr(outer, int(n), outer.dtype), x.shape)

    def coordinates(x: Any, data: Any, indices: Any) -> Any:
        outer = module._indptr_to_coo(x.indptr, nnz=x.nnz)
        places = (outer, indices) if x.format == "csr" else (indices, outer)
        return sys.modules["cupyx"].scipy.sparse.coo_matrix._from_parts(data, *places, x.shape)

    module.MatDescriptor.create = classmethod(lambda cls: cls(None))  # which no function here reads
    module.spmv, module.spmm = spmv, spmm
    module.sparseToDense, module.denseToSparse = sparse_to_dense, dense_to_sparse
    module.coo2csr, module.coo2csc = lambda x: compressed(x, "csr"), lambda x: compressed(x, "csc")
    module.coosort, module.csr2coo, module.csc2coo = coosort, coordinates, coordinates
    module._transpose_needs_cupy = lambda x: True  # CuPy's own way for the indices that cuSPARSE does not take


AFTER: dict[str, Callable[[Any], None]] = {
    "cupy.linalg._decomposition": _replace_decompositions,
    "cupy.linalg._eigenvalue": _replace_eigenvalues,
    "cupyx.cusolver": _replace_cusolver,
    "cupyx.cusparse": _replace_cusparse,
    "cupy.fft._fft": _replace_fft,
}
"""What is done to modules of CuPy after they are imported."""
