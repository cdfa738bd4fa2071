"""Reasons why a function is slower than its goal.

Each run checks them: it reports a slow function without a reason here, and a reason whose function is not slow. With
each reason it prints the ratios and the ratio of the NumPy forward pass, which agrad calls and cannot make faster.
"""

from bench.ops_jobs import FORWARD

_ONE_CORE = "NumPy computes it on one core, PyTorch on all cores; see the ratio of the NumPy forward pass"
_VIEW = "the result is a view, or a few numbers: the time is the call, microseconds for any array size"
_LAPACK = "OpenBLAS in NumPy is slower than MKL in PyTorch; see the ratio of the NumPy forward pass"
_FACTORS = f"{_LAPACK}. NumPy does not return factors, so the backward pass factorizes again, and PyTorch keeps them"

REASONS: dict[str, str] = {
    **dict.fromkeys(
        (
            "abs",
            "acos",
            "add",
            "asin",
            "astype",
            "atan",
            "concat",
            "conj",
            "copysign",
            "diff",
            "divide",
            "exp",
            "log",
            "log10",
            "log1p",
            "log2",
            "max",
            "maximum",
            "mean",
            "min",
            "minimum",
            "multiply",
            "negative",
            "reciprocal",
            "repeat",
            "roll",
            "sqrt",
            "square",
            "stack",
            "std",
            "subtract",
            "sum",
            "take",
            "tan",
            "tanh",
            "tile",
            "tril",
            "triu",
            "var",
        ),
        _ONE_CORE,
    ),
    **dict.fromkeys(
        (
            "asarray",
            "broadcast_arrays",
            "broadcast_to",
            "expand_dims",
            "full",
            "full_like",
            "linalg.diagonal",
            "linalg.trace",
            "matrix_transpose",
            "meshgrid",
            "moveaxis",
            "permute_dims",
            "reshape",
            "squeeze",
        ),
        _VIEW,
    ),
    **dict.fromkeys(("linalg.det", "linalg.slogdet", "linalg.solve"), _FACTORS),
    **dict.fromkeys(
        (
            "linalg.eig",
            "linalg.inv",
            "linalg.matmul",
            "linalg.pinv",
            "linalg.qr",
            "linalg.svd",
            "linalg.tensordot",
            "tensordot",
        ),
        _LAPACK,
    ),
    **dict.fromkeys(
        (
            "fft.fft",
            "fft.fftn",
            "fft.hfft",
            "fft.ifft",
            "fft.ifftn",
            "fft.ihfft",
            "fft.irfft",
            "fft.irfftn",
            "fft.rfft",
            "fft.rfftn",
        ),
        "pocketfft in NumPy (one core) is slower than MKL in PyTorch; the backward pass is one more transform",
    ),
    **dict.fromkeys(
        ("sin", "cos"),
        "NumPy needs about ten nanoseconds per number in double precision; see the ratio of the NumPy forward pass",
    ),
    **dict.fromkeys(
        ("logaddexp", "hypot"),
        "half of the time of the NumPy function, but on one core, and PyTorch computes on all cores",
    ),
    "clip": _ONE_CORE,
    "atan2": _ONE_CORE,
    "cumulative_prod": "the NumPy running product is sequential; the backward pass needs a second one",
    "cumulative_sum": "the NumPy running sum is sequential",
    "imag": "forward, a view; the gradient is complex, written on one core, and in PyTorch on all cores",
    "linalg.cholesky": "NumPy has no triangular solve, so the backward pass inverts the factor by blocks",
    "linalg.cross": "the vectors of three elements are strided in memory; NumPy transposes them block by block",
    "linalg.matrix_norm": "one pass by the OpenBLAS dot product; the NumPy function is slower: see its ratio",
    "linalg.outer": "the NumPy product of a column and a row is as slow; see the ratio of the NumPy forward pass",
    "positive": "the function of the standard creates a new array, as in NumPy; PyTorch returns its argument",
    "prod": "the NumPy product of a row is sequential; see the ratio of the NumPy forward pass",
    "remainder": "NumPy calls fmod of the C library for each element, on one core",
    "sign": "for complex numbers, abs of NumPy calls hypot of the C library for each number, on one core",
    "unstack": "forward, a Tensor and a view of it for every row, microseconds each; see the ratio of both",
    "take_along_axis": "NumPy indexes with an array for each axis, on one core; the backward pass adds single elements",
}
"""Reasons by the function's name."""

AUTOGRAD_REASONS: dict[tuple[str, str], str] = {
    ("linalg.svdvals", FORWARD): (
        "the derivative needs the vectors, computed with the values, as in PyTorch; autograd decomposes again in "
        "its backward pass: see the ratio of both. If nothing is recorded, only the values are computed"
    ),
}
"""Reasons why a part of a function, forward or both passes, is slower than autograd and remains so."""
