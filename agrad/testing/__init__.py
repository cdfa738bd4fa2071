"""Checks of derivatives, a base of tests for primitives, comparison of backends.

- ``check_grads(f, args)``: a function's derivatives, in every mode and order, against finite differences.
- ``PrimitiveTest`` and ``Sample``: all tests of a user's primitive, from one list of samples.
- ``compare_backends``: the first operation that differs between array libraries.
- ``checks`` and ``numerics``: the parts of these, which agrad's own tests use as well.
"""

from agrad import compare_backends as compare_backends
from agrad.errors import DerivativeError as DerivativeError
from agrad.errors import KinkError as KinkError
from agrad.testing.grads import check_grads as check_grads
from agrad.testing.primitives import PrimitiveTest as PrimitiveTest
from agrad.testing.primitives import Sample as Sample

__all__ = ["DerivativeError", "KinkError", "PrimitiveTest", "Sample", "check_grads", "compare_backends"]
