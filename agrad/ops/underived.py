"""The functions without a derivative, each with the reason.

Absence is a decision; a test checks that the list is complete.
"""

_INTEGERS = "gives integers, which have no derivative"
_BOOLEANS = "gives truth values, which have no derivative"
_STEPS = "is constant between its steps, so that its derivative is 0 wherever it has one"
_FILLS = "makes an array of given values, shape and dtype from no array's values"
_ABOUT = "is about dtypes, shapes or the namespace, and not about values"
_SETS = "finds what is distinct; the values of a recorded Tensor are taken from it, with the derivative of `take`"

WITHOUT_DERIVATIVE: dict[str, str] = {
    **dict.fromkeys(("argmax", "argmin", "argsort", "count_nonzero", "nonzero", "searchsorted"), _INTEGERS),
    **dict.fromkeys(
        (
            "bitwise_and",
            "bitwise_invert",
            "bitwise_left_shift",
            "bitwise_or",
            "bitwise_right_shift",
            "bitwise_xor",
        ),
        "takes integers and truth values, which have no derivative",
    ),
    **dict.fromkeys(
        (
            "all",
            "any",
            "equal",
            "greater",
            "greater_equal",
            "isfinite",
            "isin",
            "isinf",
            "isnan",
            "less",
            "less_equal",
            "logical_and",
            "logical_not",
            "logical_or",
            "logical_xor",
            "not_equal",
            "signbit",
        ),
        _BOOLEANS,
    ),
    **dict.fromkeys(("ceil", "floor", "floor_divide", "round", "trunc"), _STEPS),
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse", "unique_values"), _SETS),
    **dict.fromkeys(
        ("arange", "empty", "empty_like", "eye", "ones", "ones_like", "zeros", "zeros_like"),
        _FILLS,
    ),
    **dict.fromkeys(
        (
            "__array_namespace_info__",
            "broadcast_shapes",
            "can_cast",
            "finfo",
            "iinfo",
            "isdtype",
            "result_type",
        ),
        _ABOUT,
    ),
    "linalg.matrix_rank": _INTEGERS,
    **dict.fromkeys(("fft.fftfreq", "fft.rfftfreq"), "depends on a number of samples and their distance alone"),
}
"""Functions of the standard without a derivative, with the reason. All others have one, in every order."""

EXTRAS_WITHOUT_DERIVATIVE: dict[str, str] = {
    "cast": "is astype to integers and truth values, which have no derivative",
}
"""Functions beyond the standard without a derivative, with the reason."""
