"""The functions without a derivative, each with the reason.

Absence is a decision; a test checks that the list is complete.
"""

_NAMES = {
    "gives integers, which have no derivative": (
        "argmax argmin argsort count_nonzero nonzero searchsorted linalg.matrix_rank"
    ),
    "takes integers and truth values, which have no derivative": (
        "bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor"
    ),
    "gives truth values, which have no derivative": (
        "all any equal greater greater_equal isfinite isin isinf isnan less less_equal logical_and logical_not "
        "logical_or logical_xor not_equal signbit"
    ),
    "is constant between its steps, so that its derivative is 0 wherever it has one": (
        "ceil floor floor_divide round trunc"
    ),
    "finds what is distinct; the values of a recorded Tensor are taken from it, with the derivative of `take`": (
        "unique_all unique_counts unique_inverse unique_values"
    ),
    "makes an array of given values, shape and dtype from no array's values": (
        "arange empty empty_like eye ones ones_like zeros zeros_like"
    ),
    "is about dtypes, shapes or the namespace, and not about values": (
        "__array_namespace_info__ broadcast_shapes can_cast finfo iinfo isdtype result_type"
    ),
    "depends on a number of samples and their distance alone": "fft.fftfreq fft.rfftfreq",
}

WITHOUT_DERIVATIVE: dict[str, str] = {name: reason for reason, names in _NAMES.items() for name in names.split()}
"""Functions of the standard without a derivative, with the reason. All others have one, in every order."""

EXTRAS_WITHOUT_DERIVATIVE: dict[str, str] = {
    "cast": "is astype to integers and truth values, which have no derivative",
}
"""Functions beyond the standard without a derivative, with the reason."""
