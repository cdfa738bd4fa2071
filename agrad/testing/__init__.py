"""Check derivatives, test primitives, and compare backends.

- ``check_grads(f, args)``: compares the derivatives of a function, in every mode and order, with finite differences.
- ``PrimitiveTest`` and ``Sample``: all tests of a custom primitive, from one list of samples.
- ``compare_backends``: finds the first operation that differs between array libraries.
- ``checks`` and ``numerics``: their parts, which the tests of agrad also use.
"""

from agrad import compare_backends as compare_backends
from agrad.errors import DerivativeError as DerivativeError
from agrad.errors import KinkError as KinkError
from agrad.testing.grads import check_grads as check_grads
from agrad.testing.primitives import PrimitiveTest as PrimitiveTest
from agrad.testing.primitives import Sample as Sample

__all__ = ["DerivativeError", "KinkError", "PrimitiveTest", "Sample", "check_grads", "compare_backends"]
