"""The examples in elementwise functions' docstrings, by name."""

EXAMPLES: dict[str, str] = {
    "abs": """
>>> agrad.abs(np.asarray([-2.0, 0.0, 3.0]))
array([2., 0., 3.])
>>> agrad.elementwise_grad(agrad.abs)(np.asarray([-2.0, 0.0, 3.0]))
array([-1.,  0.,  1.])
>>> agrad.abs(np.asarray(3 + 4j))
np.float64(5.0)
""",
    "acos": """
>>> agrad.acos(np.asarray([1.0, 0.0, -1.0]))
array([0.        , 1.57079633, 3.14159265])
>>> round(float(agrad.grad(agrad.acos)(0.6)), 6)
-1.25
""",
    "acosh": """
>>> agrad.acosh(np.asarray([1.0, 2.0]))
array([0.       , 1.3169579])
>>> round(float(agrad.grad(agrad.acosh)(1.25)), 6)
1.333333
""",
    "add": """
>>> agrad.add(np.asarray([1.0, 2.0]), np.asarray([[10.0], [20.0]]))
array([[11., 12.],
       [21., 22.]])
>>> agrad.grad(lambda x: agrad.sum(agrad.add(x, np.ones((3, 2)))))(np.asarray([1.0, 2.0]))
array([3., 3.])
""",
    "asin": """
>>> agrad.asin(np.asarray([0.0, 0.5, 1.0]))
array([0.        , 0.52359878, 1.57079633])
>>> round(float(agrad.grad(agrad.asin)(0.6)), 6)
1.25
""",
    "asinh": """
>>> agrad.asinh(np.asarray([0.0, 1.0]))
array([0.        , 0.88137359])
>>> round(float(agrad.grad(agrad.asinh)(0.75)), 6)
0.8
""",
    "atan": """
>>> agrad.atan(np.asarray([0.0, 1.0]))
array([0.        , 0.78539816])
>>> agrad.grad(agrad.atan)(1.0)
np.float64(0.5)
""",
    "atan2": """
>>> agrad.atan2(np.asarray([0.0, 1.0, 0.0]), np.asarray([1.0, 0.0, -1.0]))
array([0.        , 1.57079633, 3.14159265])
>>> dy, dx = agrad.grad(agrad.atan2, argnums=(0, 1))(1.0, 2.0)
>>> round(float(dy), 6), round(float(dx), 6)
(0.4, -0.2)
""",
    "atanh": """
>>> agrad.atanh(np.asarray([0.0, 0.5]))
array([0.        , 0.54930614])
>>> round(float(agrad.grad(agrad.atanh)(0.5)), 6)
1.333333
""",
    "bitwise_and": """
>>> agrad.bitwise_and(np.asarray([12, 10]), np.asarray([10, 10]))
array([ 8, 10])
""",
    "bitwise_invert": """
>>> agrad.bitwise_invert(np.asarray([0, 1, 7]))
array([-1, -2, -8])
>>> agrad.bitwise_invert(np.asarray([True, False]))
array([False,  True])
""",
    "bitwise_left_shift": """
>>> agrad.bitwise_left_shift(np.asarray([1, 2, 3]), 2)
array([ 4,  8, 12])
""",
    "bitwise_or": """
>>> agrad.bitwise_or(np.asarray([12, 10]), np.asarray([3, 10]))
array([15, 10])
""",
    "bitwise_right_shift": """
>>> agrad.bitwise_right_shift(np.asarray([4, 9, -8]), 1)
array([ 2,  4, -4])
""",
    "bitwise_xor": """
>>> agrad.bitwise_xor(np.asarray([12, 10]), np.asarray([10, 10]))
array([6, 0])
""",
    "ceil": """
>>> agrad.ceil(np.asarray([-1.5, 0.2, 2.0]))
array([-1.,  1.,  2.])
>>> agrad.grad(lambda x: x * agrad.ceil(x))(0.2)
np.float64(1.0)
""",
    "conj": """
>>> agrad.conj(np.asarray([1 + 2j, 3 - 1j]))
array([1.-2.j, 3.+1.j])
>>> agrad.grad(lambda z: agrad.real(z * agrad.conj(z)))(np.asarray(1 + 2j))
np.complex128(2-4j)
""",
    "copysign": """
>>> agrad.copysign(np.asarray([1.0, 2.0]), np.asarray([-0.0, 3.0]))
array([-1.,  2.])
>>> agrad.grad(agrad.copysign)(1.0, -3.0)
array(-1.)
""",
    "cos": """
>>> agrad.cos(np.asarray([0.0, np.pi]))
array([ 1., -1.])
>>> round(float(agrad.grad(agrad.cos)(np.pi / 2)), 6)
-1.0
""",
    "cosh": """
>>> agrad.cosh(np.asarray([0.0, 1.0]))
array([1.        , 1.54308063])
>>> agrad.grad(agrad.grad(agrad.cosh))(0.0)
np.float64(1.0)
""",
    "divide": """
>>> agrad.divide(np.asarray([1.0, 3.0]), 2.0)
array([0.5, 1.5])
>>> agrad.grad(agrad.divide, argnums=(0, 1))(1.0, 2.0)
(np.float64(0.5), np.float64(-0.25))
""",
    "equal": """
>>> agrad.equal(np.asarray([1.0, 2.0, np.nan]), np.asarray([1.0, 3.0, np.nan]))
array([ True, False, False])
""",
    "erf": """
>>> agrad.erf(np.asarray([0.0, 1.0]))
array([0.        , 0.84270079])
>>> round(float(agrad.grad(agrad.erf)(0.0)), 6)
1.128379
""",
    "exp": """
>>> agrad.exp(np.asarray([0.0, 1.0]))
array([1.        , 2.71828183])
>>> agrad.grad(agrad.exp)(0.0)
np.float64(1.0)
""",
    "expm1": """
>>> agrad.expm1(np.asarray([0.0, 1e-12]))
array([0.e+00, 1.e-12])
>>> agrad.grad(agrad.expm1)(0.0)
np.float64(1.0)
""",
    "floor": """
>>> agrad.floor(np.asarray([-1.5, 0.2, 2.0]))
array([-2.,  0.,  2.])
>>> agrad.grad(lambda x: x * agrad.floor(x))(2.5)
np.float64(2.0)
""",
    "floor_divide": """
>>> agrad.floor_divide(np.asarray([7, -7]), 2)
array([ 3, -4])
""",
    "greater": """
>>> agrad.greater(np.asarray([1.0, 2.0, 3.0]), 2.0)
array([False, False,  True])
""",
    "greater_equal": """
>>> agrad.greater_equal(np.asarray([1.0, 2.0, 3.0]), 2.0)
array([False,  True,  True])
""",
    "hypot": """
>>> agrad.hypot(np.asarray([3.0, 3e200]), np.asarray([4.0, 4e200]))
array([5.e+000, 5.e+200])
>>> dx, dy = agrad.grad(agrad.hypot, argnums=(0, 1))(3.0, 4.0)
>>> round(float(dx), 6), round(float(dy), 6)
(0.6, 0.8)
""",
    "imag": """
>>> agrad.imag(np.asarray([1 + 2j, 3 - 1j]))
array([ 2., -1.])
""",
    "isfinite": """
>>> agrad.isfinite(np.asarray([1.0, np.inf, np.nan]))
array([ True, False, False])
""",
    "isinf": """
>>> agrad.isinf(np.asarray([1.0, np.inf, np.nan]))
array([False,  True, False])
""",
    "isnan": """
>>> agrad.isnan(np.asarray([1.0, np.inf, np.nan]))
array([False, False,  True])
""",
    "less": """
>>> agrad.less(np.asarray([1.0, 2.0, 3.0]), 2.0)
array([ True, False, False])
""",
    "less_equal": """
>>> agrad.less_equal(np.asarray([1.0, 2.0, 3.0]), 2.0)
array([ True,  True, False])
""",
    "log": """
>>> agrad.log(np.asarray([1.0, np.e]))
array([0., 1.])
>>> agrad.grad(agrad.log)(4.0)
np.float64(0.25)
""",
    "log10": """
>>> agrad.log10(np.asarray([1.0, 1000.0]))
array([0., 3.])
>>> round(float(agrad.grad(agrad.log10)(1.0)), 6)
0.434294
""",
    "log1p": """
>>> agrad.log1p(np.asarray([0.0, 1e-12]))
array([0.e+00, 1.e-12])
>>> agrad.grad(agrad.log1p)(1.0)
np.float64(0.5)
""",
    "log2": """
>>> agrad.log2(np.asarray([1.0, 8.0]))
array([0., 3.])
>>> round(float(agrad.grad(agrad.log2)(1.0)), 6)
1.442695
""",
    "logaddexp": """
>>> agrad.logaddexp(np.asarray([0.0, 1000.0]), np.asarray([0.0, 1000.0]))
array([6.93147181e-01, 1.00069315e+03])
>>> round(float(agrad.grad(agrad.logaddexp)(1000.0, 1000.0)), 6)
0.5
""",
    "logical_and": """
>>> agrad.logical_and(np.asarray([True, True, False]), np.asarray([True, False, False]))
array([ True, False, False])
""",
    "logical_not": """
>>> agrad.logical_not(np.asarray([True, False]))
array([False,  True])
""",
    "logical_or": """
>>> agrad.logical_or(np.asarray([True, True, False]), np.asarray([True, False, False]))
array([ True,  True, False])
""",
    "logical_xor": """
>>> agrad.logical_xor(np.asarray([True, True, False]), np.asarray([True, False, False]))
array([False,  True, False])
""",
    "maximum": """
>>> agrad.maximum(np.asarray([-1.0, 0.0, 2.0]), 0.0)
array([0., 0., 2.])
>>> agrad.elementwise_grad(lambda x: agrad.maximum(x, 0.0))(np.asarray([-1.0, 0.0, 2.0]))
array([0. , 0.5, 1. ])
""",
    "minimum": """
>>> agrad.minimum(np.asarray([-1.0, 0.0, 2.0]), 0.0)
array([-1.,  0.,  0.])
>>> agrad.elementwise_grad(lambda x: agrad.minimum(x, 0.0))(np.asarray([-1.0, 0.0, 2.0]))
array([1. , 0.5, 0. ])
""",
    "multiply": """
>>> agrad.multiply(np.asarray([1.0, 2.0]), np.asarray([3.0, 4.0]))
array([3., 8.])
>>> agrad.grad(agrad.multiply, argnums=(0, 1))(2.0, 5.0)
(np.float64(5.0), np.float64(2.0))
""",
    "negative": """
>>> agrad.negative(np.asarray([1.0, -2.0]))
array([-1.,  2.])
>>> agrad.grad(agrad.negative)(3.0)
np.float64(-1.0)
""",
    "nextafter": """
>>> agrad.nextafter(np.asarray([1.0, 1.0]), np.asarray([2.0, 0.0])) - 1.0
array([ 2.22044605e-16, -1.11022302e-16])
""",
    "not_equal": """
>>> agrad.not_equal(np.asarray([1.0, 2.0, np.nan]), np.asarray([1.0, 3.0, np.nan]))
array([False,  True,  True])
""",
    "positive": """
>>> agrad.positive(np.asarray([1.0, -2.0]))
array([ 1., -2.])
>>> agrad.grad(agrad.positive)(3.0)
array(1.)
""",
    "pow": """
>>> agrad.pow(np.asarray([2.0, 3.0]), 2.0)
array([4., 9.])
>>> agrad.grad(agrad.pow)(3.0, 2.0)
np.float64(6.0)
>>> round(float(agrad.grad(agrad.pow, argnums=1)(np.e, 2.0)), 6)
7.389056
""",
    "real": """
>>> agrad.real(np.asarray([1 + 2j, 3 - 1j]))
array([1., 3.])
>>> agrad.grad(lambda z: agrad.real(z * z))(np.asarray(1 + 2j))
np.complex128(2+4j)
""",
    "reciprocal": """
>>> agrad.reciprocal(np.asarray([2.0, 4.0]))
array([0.5 , 0.25])
>>> agrad.grad(agrad.reciprocal)(2.0)
np.float64(-0.25)
""",
    "relu": """
>>> agrad.relu(np.asarray([-1.0, 0.0, 2.0]))
array([0., 0., 2.])
>>> agrad.elementwise_grad(agrad.relu)(np.asarray([-1.0, 0.0, 2.0]))
array([0., 0., 1.])
""",
    "remainder": """
>>> agrad.remainder(np.asarray([7.0, -7.0]), 3.0)
array([1., 2.])
>>> agrad.grad(agrad.remainder, argnums=(0, 1))(7.0, 3.0)
(array(1.), np.float64(-2.0))
""",
    "round": """
>>> agrad.round(np.asarray([0.5, 1.5, -1.2]))
array([ 0.,  2., -1.])
>>> agrad.grad(lambda x: x * agrad.round(x))(2.7)
np.float64(3.0)
""",
    "sigmoid": """
>>> agrad.sigmoid(np.asarray([-1000.0, 0.0, 1.0]))
array([0.        , 0.5       , 0.73105858])
>>> agrad.grad(agrad.sigmoid)(0.0)
np.float64(0.25)
""",
    "signbit": """
>>> agrad.signbit(np.asarray([-1.0, -0.0, 0.0, 2.0]))
array([ True,  True, False, False])
""",
    "sin": """
>>> agrad.sin(np.asarray([0.0, np.pi / 2]))
array([0., 1.])
>>> agrad.grad(agrad.sin)(0.0)
np.float64(1.0)
""",
    "sinh": """
>>> agrad.sinh(np.asarray([0.0, 1.0]))
array([0.        , 1.17520119])
>>> agrad.grad(agrad.sinh)(0.0)
np.float64(1.0)
""",
    "sqrt": """
>>> agrad.sqrt(np.asarray([4.0, 9.0]))
array([2., 3.])
>>> agrad.grad(agrad.sqrt)(4.0)
np.float64(0.25)
""",
    "square": """
>>> agrad.square(np.asarray([2.0, -3.0]))
array([4., 9.])
>>> agrad.grad(agrad.square)(3.0)
np.float64(6.0)
""",
    "subtract": """
>>> agrad.subtract(np.asarray([1.0, 2.0]), np.asarray([[10.0], [20.0]]))
array([[ -9.,  -8.],
       [-19., -18.]])
>>> agrad.grad(agrad.subtract, argnums=(0, 1))(2.0, 5.0)
(array(1.), np.float64(-1.0))
""",
    "tan": """
>>> agrad.tan(np.asarray([0.0, np.pi / 4]))
array([0., 1.])
>>> agrad.grad(agrad.tan)(0.0)
np.float64(1.0)
""",
    "tanh": """
>>> agrad.tanh(np.asarray([0.0, 1.0]))
array([0.        , 0.76159416])
>>> agrad.grad(agrad.tanh)(0.0)
np.float64(1.0)
""",
    "trunc": """
>>> agrad.trunc(np.asarray([-1.5, 0.2, 2.7]))
array([-1.,  0.,  2.])
>>> agrad.grad(lambda x: x * agrad.trunc(x))(2.7)
np.float64(2.0)
""",
}
