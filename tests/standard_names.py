"""The names of the array API standard 2025.12, and why some have no derivative, which the page of derivatives says."""

from pathlib import Path

from pages import said

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

_PAGE = Path(__file__).parent.parent / "docs" / "derivatives.md"
_WITHOUT = said(_PAGE.read_text(encoding="utf-8"), "## Without a derivative")
WITHOUT_DERIVATIVE = {name: reason for name, reason in _WITHOUT.items() if name in STANDARD}
"""Functions of the standard without a derivative, with the reason. All others have one, in every order."""

EXTRAS_WITHOUT_DERIVATIVE = {name: reason for name, reason in _WITHOUT.items() if name not in STANDARD}
"""Functions beyond the standard without a derivative, with the reason."""
