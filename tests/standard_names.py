"""The names of the array API standard 2025.12, and the reasons why some functions have no derivative."""

STANDARD = """
    __array_namespace_info__ abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype
    atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
    broadcast_arrays broadcast_shapes broadcast_to can_cast ceil clip concat conj copysign cos cosh
    count_nonzero cumulative_prod cumulative_sum diff divide empty empty_like equal exp expand_dims expm1 eye
    fft.fft fft.fftfreq fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifftn fft.ifftshift fft.ihfft fft.irfft
    fft.irfftn fft.rfft fft.rfftfreq fft.rfftn finfo flip floor floor_divide from_dlpack full full_like
    greater greater_equal hypot iinfo imag isdtype isfinite isin isinf isnan less less_equal linalg.cholesky
    linalg.cross linalg.det linalg.diagonal linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.inv
    linalg.matmul
    linalg.matrix_norm linalg.matrix_power linalg.matrix_rank linalg.matrix_transpose linalg.outer linalg.pinv
    linalg.qr linalg.slogdet linalg.solve linalg.svd linalg.svdvals linalg.tensordot linalg.trace
    linalg.vecdot linalg.vector_norm linspace log log10 log1p log2 logaddexp logical_and logical_not
    logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply
    negative nextafter nonzero not_equal ones ones_like permute_dims positive pow prod real reciprocal
    remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh sort sqrt square
    squeeze stack std subtract sum take take_along_axis tan tanh tensordot tile tril triu trunc unique_all
    unique_counts unique_inverse unique_values unstack var vecdot where zeros zeros_like
""".split()  # noqa: SIM905 - a list this long reads better as words

_NAMES = {
    "returns integers": ("argmax argmin argsort count_nonzero nonzero searchsorted linalg.matrix_rank"),
    "accepts only integers and Booleans": (
        "bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor"
    ),
    "returns Booleans": (
        "all any equal greater greater_equal isfinite isin isinf isnan less less_equal logical_and logical_not "
        "logical_or logical_xor not_equal signbit"
    ),
    "is constant between steps: the derivative is 0": ("ceil floor floor_divide round trunc"),
    "selects elements: the values of a recorded Tensor have the derivative of `take`": (
        "unique_all unique_counts unique_inverse unique_values"
    ),
    "creates an array that does not depend on others": ("arange empty empty_like eye ones ones_like zeros zeros_like"),
    "computes with dtypes, shapes or namespaces": (
        "__array_namespace_info__ broadcast_shapes can_cast finfo iinfo isdtype result_type"
    ),
    "depends only on the number and distance of samples": "fft.fftfreq fft.rfftfreq",
}

WITHOUT_DERIVATIVE: dict[str, str] = {name: reason for reason, names in _NAMES.items() for name in names.split()}
"""Functions of the standard without a derivative, with the reason. All others have one, in every order."""

EXTRAS_WITHOUT_DERIVATIVE: dict[str, str] = {"cast": "converts to integers or Booleans"}
"""Functions beyond the standard without a derivative, with the reason."""
