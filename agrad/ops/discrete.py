"""Elementwise functions with discrete results, one row each.

They round, compare, or compute with Booleans and bits, so they have no derivative.
"""

import operator

from agrad.ops.definition import elementwise

__all__ = [
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil",
    "equal", "floor", "floor_divide", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal",
    "logical_and", "logical_not", "logical_or", "logical_xor", "not_equal", "round", "signbit", "trunc",
]  # fmt: skip

# fmt: off
floor = elementwise("floor", None, doc="Round each element down to the nearest integer.", example="""
>>> agrad.floor(np.asarray([-1.5, 0.2, 2.0]))
array([-2.,  0.,  2.])
>>> agrad.grad(lambda x: x * agrad.floor(x))(2.5)
np.float64(2.0)
""")
ceil = elementwise("ceil", None, doc="Round each element up to the nearest integer.", example="""
>>> agrad.ceil(np.asarray([-1.5, 0.2, 2.0]))
array([-1.,  1.,  2.])
>>> agrad.grad(lambda x: x * agrad.ceil(x))(0.2)
np.float64(1.0)
""")
round = elementwise("round", None,
    doc="Round each element to the nearest integer, and halves to the nearest even one.", example="""
>>> agrad.round(np.asarray([0.5, 1.5, -1.2]))
array([ 0.,  2., -1.])
>>> agrad.grad(lambda x: x * agrad.round(x))(2.7)
np.float64(3.0)
""")
trunc = elementwise("trunc", None, doc="Round each element toward 0 to an integer.", example="""
>>> agrad.trunc(np.asarray([-1.5, 0.2, 2.7]))
array([-1.,  0.,  2.])
>>> agrad.grad(lambda x: x * agrad.trunc(x))(2.7)
np.float64(2.0)
""")
isfinite = elementwise("isfinite", None, doc="Test each element for a finite number.", example="""
>>> agrad.isfinite(np.asarray([1.0, np.inf, np.nan]))
array([ True, False, False])
""")
isinf = elementwise("isinf", None, doc="Test each element for infinity of either sign.", example="""
>>> agrad.isinf(np.asarray([1.0, np.inf, np.nan]))
array([False,  True, False])
""")
isnan = elementwise("isnan", None, doc="Test each element for NaN.", example="""
>>> agrad.isnan(np.asarray([1.0, np.inf, np.nan]))
array([False, False,  True])
""")
signbit = elementwise("signbit", None,
    doc="Test the sign bit of each element: True for negative elements and for -0.0.", example="""
>>> agrad.signbit(np.asarray([-1.0, -0.0, 0.0, 2.0]))
array([ True,  True, False, False])
""")
logical_not = elementwise("logical_not", None, doc="Return the logical NOT of each element.", example="""
>>> agrad.logical_not(np.asarray([True, False]))
array([False,  True])
""")
bitwise_invert = elementwise("bitwise_invert", None, doc="Return each element with all bits inverted.", example="""
>>> agrad.bitwise_invert(np.asarray([0, 1, 7]))
array([-1, -2, -8])
>>> agrad.bitwise_invert(np.asarray([True, False]))
array([False,  True])
""")

less = elementwise("less", None, None, operator=operator.lt,
    doc="Return ``x1 < x2`` for each element.", example="""
>>> agrad.less(np.asarray([1.0, 2.0, 3.0]), 2.0)
array([ True, False, False])
""")
less_equal = elementwise("less_equal", None, None, operator=operator.le,
    doc="Return ``x1 <= x2`` for each element.", example="""
>>> agrad.less_equal(np.asarray([1.0, 2.0, 3.0]), 2.0)
array([ True,  True, False])
""")
greater = elementwise("greater", None, None, operator=operator.gt,
    doc="Return ``x1 > x2`` for each element.", example="""
>>> agrad.greater(np.asarray([1.0, 2.0, 3.0]), 2.0)
array([False, False,  True])
""")
greater_equal = elementwise("greater_equal", None, None, operator=operator.ge,
    doc="Return ``x1 >= x2`` for each element.", example="""
>>> agrad.greater_equal(np.asarray([1.0, 2.0, 3.0]), 2.0)
array([False,  True,  True])
""")
equal = elementwise("equal", None, None, operator=operator.eq,
    doc="Return ``x1 == x2`` for each element.", example="""
>>> agrad.equal(np.asarray([1.0, 2.0, np.nan]), np.asarray([1.0, 3.0, np.nan]))
array([ True, False, False])
""")
not_equal = elementwise("not_equal", None, None, operator=operator.ne,
    doc="Return ``x1 != x2`` for each element.", example="""
>>> agrad.not_equal(np.asarray([1.0, 2.0, np.nan]), np.asarray([1.0, 3.0, np.nan]))
array([False,  True,  True])
""")
logical_and = elementwise("logical_and", None, None, neutral=True,
    doc="Return the logical AND of the elements of two arrays.", example="""
>>> agrad.logical_and(np.asarray([True, True, False]), np.asarray([True, False, False]))
array([ True, False, False])
""")
logical_or = elementwise("logical_or", None, None, neutral=False,
    doc="Return the logical OR of the elements of two arrays.", example="""
>>> agrad.logical_or(np.asarray([True, True, False]), np.asarray([True, False, False]))
array([ True,  True, False])
""")
logical_xor = elementwise("logical_xor", None, None,
    doc="Return the logical XOR of the elements of two arrays.", example="""
>>> agrad.logical_xor(np.asarray([True, True, False]), np.asarray([True, False, False]))
array([False,  True, False])
""")
bitwise_and = elementwise("bitwise_and", None, None, operator=operator.and_,
    doc="Return the bitwise AND of integers or Booleans.", example="""
>>> agrad.bitwise_and(np.asarray([12, 10]), np.asarray([10, 10]))
array([ 8, 10])
""")
bitwise_or = elementwise("bitwise_or", None, None, operator=operator.or_,
    doc="Return the bitwise OR of integers or Booleans.", example="""
>>> agrad.bitwise_or(np.asarray([12, 10]), np.asarray([3, 10]))
array([15, 10])
""")
bitwise_xor = elementwise("bitwise_xor", None, None, operator=operator.xor,
    doc="Return the bitwise exclusive OR of integers or Booleans.", example="""
>>> agrad.bitwise_xor(np.asarray([12, 10]), np.asarray([10, 10]))
array([6, 0])
""")
bitwise_left_shift = elementwise("bitwise_left_shift", None, None, operator=operator.lshift,
    doc="Return the bits of ``x1`` shifted to the left by ``x2`` positions.", example="""
>>> agrad.bitwise_left_shift(np.asarray([1, 2, 3]), 2)
array([ 4,  8, 12])
""")
bitwise_right_shift = elementwise("bitwise_right_shift", None, None, operator=operator.rshift,
    doc="Return the bits of ``x1`` shifted to the right by ``x2`` positions.", example="""
>>> agrad.bitwise_right_shift(np.asarray([4, 9, -8]), 1)
array([ 2,  4, -4])
""")
floor_divide = elementwise("floor_divide", None, None,
    doc="Return the quotient of two arrays, rounded down to an integer.", example="""
>>> agrad.floor_divide(np.asarray([7, -7]), 2)
array([ 3, -4])
""")
# fmt: on
