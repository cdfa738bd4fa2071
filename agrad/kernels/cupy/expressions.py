"""C expressions of elementwise operations, by name.

The kernels of fused operations use them. The operands are ``{0}``, ``{1}`` and ``{2}``. Neither CuPy nor a GPU is
needed.
"""

from agrad.kernels.cupy.source import ELEMENTWISE

_SAME_NAME = """
acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor log log10 log1p log2 relu sigmoid sin sinh sqrt tan
tanh trunc
"""
_SAME_NAME_OF_TWO = "atan2 copysign hypot pow"

FLOATS = {
    **{name: f"{name}({{0}})" for name in _SAME_NAME.split()},
    **{name: f"{name}({{0}}, {{1}})" for name in _SAME_NAME_OF_TWO.split()},
    "negative": "-{0}", "positive": "{0}", "square": "{0} * {0}", "reciprocal": "T(1) / {0}", "abs": "fabs({0})",
    "round": "rint({0})", "sign": "({0} > T(0) ? T(1) : {0} < T(0) ? T(-1) : {0})",
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "divide": "{0} / {1}",
    "maximum": "larger({0}, {1})", "minimum": "smaller({0}, {1})",
    "one_minus_square": "(T(1) - {0}) * (T(1) + {0})",
    "gated": "{0} * {1}", "gated_slope": "{1} * (T(1) + {0} * (T(1) - {1}))",
    "summand_share":
        "({2} * T(0) == T(0) || {2} != {2} ? exp({0} - {2}) : {0} == {1} ? T(0.5) : {0} == {2} ? T(1) : T(0))",
    "relu.vjp:x": "relu_vjp({0}, {1})",
    "tanh.vjp:x": "tanh_vjp({0}, {1})",
    "sigmoid.vjp:x": "sigmoid_vjp({0}, {1})",
}  # fmt: skip
"""Operations whose operands are converted to the floating dtype ``T`` of the result."""

CHOICES = {
    "where": "{0} ? {1} : {2}", "renew": "{0} ? {2} : {1}", "mask_unused": "mask_unused({0}, {1})",
}  # fmt: skip
"""Operations whose first operand is a condition, and whose others are converted to the dtype of the result."""

COMPARISONS = {
    "less": "{0} < {1}", "less_equal": "{0} <= {1}", "greater": "{0} > {1}", "greater_equal": "{0} >= {1}",
    "equal": "{0} == {1}", "not_equal": "{0} != {1}",
}  # fmt: skip
"""Operations whose operands are converted to a common dtype."""

ARRAYS = {
    "isnan": "{0} != {0}", "isfinite": "{0} * 0 == 0", "isinf": "({0} * 0 != 0 && {0} == {0})",
    "logical_not": "!{0}", "logical_and": "{0} && {1}", "logical_or": "{0} || {1}",
    "logical_xor": "bool({0}) != bool({1})",
}  # fmt: skip
"""Operations whose operands are arrays, which are not converted.

The difference of a number and itself would not do: of a product a compiler may make a fused multiply-add of it.
"""

INTEGERS = frozenset({"add", "subtract", "multiply"})
"""The operations of ``FLOATS`` that are also computed on integers of one dtype."""

ROUNDINGS = {"e": "to_float16", "H": "to_bfloat16"}
"""Entries of ``ELEMENTWISE`` that round, by the character of the result."""

_FUNCTIONS = ("mask_unused", "relu", "relu_vjp", "tanh_vjp", "sigmoid", "sigmoid_vjp")
"""Entries of ``ELEMENTWISE`` that expressions call."""

PACK = "template <class T, int W> struct alignas(sizeof(T) * W) Pack { T at[W]; };\n"
"""The elements that a thread loads at once."""


def functions(rounds: bool) -> list[str]:
    """Return the text of the functions that expressions call.

    rounds: include the functions that round.
    """
    text = [
        "template <class T> __device__ inline T larger(T a, T b) { return a >= b || a != a ? a : b; }",
        "template <class T> __device__ inline T smaller(T a, T b) { return a <= b || a != a ? a : b; }",
        PACK,
    ]
    for name in _FUNCTIONS:
        inputs, _, body = ELEMENTWISE[name]
        text.append(f"template <class T> __device__ inline T {name}({inputs}) {{ T out; {body}\n return out; }}")
    start = "unsigned int x = __float_as_uint(number); unsigned short y;"
    for name in ROUNDINGS.values() if rounds else ():
        body = ELEMENTWISE[name].body
        text.append(f"__device__ inline unsigned short {name}(float number) {{ {start} {body}\n return y; }}")
    return text
