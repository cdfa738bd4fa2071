"""Reasons why a function is slower than its goal.

Each run checks them: it names a slow function that has no reason here, and a reason whose function is not slow. Beside
each reason it prints the ratios and that of NumPy's forward alone, which agrad calls and cannot make faster.
"""

from bench.ops_jobs import FORWARD

_ONE_CORE = "NumPy computes it on one core, PyTorch on all of them; see the ratio of NumPy's forward alone"
_VIEW = "the result is a view, or a few numbers: what is timed is the call, microseconds whatever the size of the array"
_LAPACK = "NumPy's routine, by OpenBLAS, is slower than PyTorch's, by MKL; see the ratio of NumPy's forward alone"
_FACTORS = (
    f"{_LAPACK}. And NumPy gives no factors out, so that the backward pass factors anew, where PyTorch keeps them"
)

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
        "NumPy's transforms (pocketfft, one core) take longer than PyTorch's (MKL); the backward is one more transform",
    ),
    **dict.fromkeys(
        ("sin", "cos"),
        "NumPy's own in double precision takes some ten nanoseconds a number; see the ratio of its forward alone",
    ),
    **dict.fromkeys(
        ("logaddexp", "hypot"),
        "half of what NumPy's own function takes, but on one core, and PyTorch computes on all of them",
    ),
    "clip": _ONE_CORE,
    "atan2": _ONE_CORE,
    "cumulative_prod": "NumPy's running product takes one element after another; the backward pass needs one more",
    "cumulative_sum": "NumPy's running sum takes one element after another",
    "imag": "a view forward; the gradient is of complex numbers, written on one core, PyTorch's on all of them",
    "linalg.cholesky": "NumPy has no triangular solve, so the backward pass inverts the factor by blocks",
    "linalg.cross": "vectors of three lie across the memory: NumPy turns them block by block",
    "linalg.matrix_norm": "one pass by OpenBLAS's dot product; NumPy's own function takes longer: see its ratio",
    "linalg.outer": "NumPy's product of a column and a row takes as long; see the ratio of NumPy's forward alone",
    "positive": "the standard's makes a new array, as NumPy's does; PyTorch gives its argument back",
    "prod": "NumPy's product of a row takes one element after another; see the ratio of NumPy's forward alone",
    "remainder": "NumPy calls the C library's fmod for each element, on one core",
    "sign": "of complex numbers, by way of NumPy's abs, which calls the C library's hypot for each, on one core",
    "unstack": "forward, a Tensor and a view of it for every row, microseconds each; see the ratio of both",
    "take_along_axis": "NumPy's indexing by an array for every axis, on one core; the backward adds element by element",
}
"""Reasons by the function's name."""

AUTOGRAD_REASONS: dict[tuple[str, str], str] = {
    ("linalg.svdvals", FORWARD): (
        "the vectors that the derivative needs come with the values, as in PyTorch; autograd decomposes once more in "
        "its backward pass: see the ratio of both. Where nothing is recorded, the values alone are computed"
    ),
}
"""Why a part of a function, its forward or both passes, is slower than autograd's, where that is not to be mended."""
