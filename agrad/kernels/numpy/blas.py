"""Routines of the NumPy BLAS that are not available as NumPy functions.

``C = a @ b + beta * C`` and ``y = alpha * x + beta * y`` need one pass each. NumPy needs two or three and a temporary.
The routines are found by their C interface (``axpby`` is specific to OpenBLAS) in the library that NumPy uses for
products, and share its threads: the threads of a second BLAS would compete with them. There are none if NumPy was built
with another library. Only names whose suffix identifies the width of integers are used.
"""

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

_ROWS, _PLAIN, _TRANSPOSED = 101, 111, 112
"""The C interface's numbers for memory by rows, and for operands as they are and transposed."""

_LETTERS = {"f": ("s", ctypes.c_float), "d": ("d", ctypes.c_double)}


class Routines(NamedTuple):
    """The routines of a dtype. Operands are pointers and counts."""

    gemm: Callable[..., None]
    ger: Callable[..., None]
    axpy: Callable[..., None]
    axpby: Callable[..., None]
    scal: Callable[..., None]


def _library() -> Any:
    try:
        from numpy._core import _multiarray_umath

        return ctypes.CDLL(_multiarray_umath.__file__)
    except (ImportError, OSError, AttributeError):
        return None


def _routines(letter: str, real: Any) -> Routines | None:
    count, pointer, kind = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int
    arguments = {
        "gemm": [kind, kind, kind, count, count, count, real, pointer, count, pointer, count, real, pointer, count],
        "ger": [kind, count, count, real, pointer, count, pointer, count, pointer, count],
        "axpy": [count, real, pointer, count, pointer, count],
        "axpby": [count, real, pointer, count, real, pointer, count],
        "scal": [count, real, pointer, count],
    }
    library = _library()
    for pattern in ("scipy_cblas_{}64_", "cblas_{}64_"):
        found = []
        for name, types in arguments.items():
            function = getattr(library, pattern.format(letter + name), None)
            if function is not None:
                function.argtypes, function.restype = types, None
                found.append(function)
        if len(found) == len(arguments):
            return Routines(*found)
    return None


ROUTINES = {
    np.dtype(char): made for char, (letter, real) in _LETTERS.items() if (made := _routines(letter, real)) is not None
}
"""The routines by dtype; empty if the BLAS of NumPy is unknown."""


_byte = ctypes.c_char.from_buffer


def address(x: np.ndarray) -> int:
    """Return the address of the first element."""
    try:
        return ctypes.addressof(_byte(x))  # needs a quarter of the time
    except (TypeError, ValueError):  # not writeable, or not C-contiguous
        return x.__array_interface__["data"][0]  # type: ignore[no-any-return]


def laid(x: np.ndarray) -> tuple[int, int, int] | None:
    """Return the memory order of a matrix, the leading dimension and the address.

    The order is the BLAS number for an operand as it is or transposed. Returns None for another order.
    """
    flags = x.flags
    if flags.c_contiguous:
        return _PLAIN, x.shape[1], address(x)
    if flags.f_contiguous:
        return _TRANSPOSED, x.shape[0], address(x.T)
    return None


@functools.lru_cache(maxsize=256)
def product_adder(dtype: np.dtype, sizes: tuple[int, int, int]) -> Callable[..., None]:
    """Return the function that computes ``out = a @ b + beta * out`` in place.

    The shapes are (m, k), (k, n) and (m, n) for m, k, n = ``sizes``, none of which is 0. ``out`` is C-contiguous and
    shares no memory with the others. The function accepts ``laid(a)``, ``laid(b)``, beta and the address of out, and
    checks nothing. Sizes are converted for ctypes once.
    """
    routines = ROUTINES[dtype]
    m, k, n = map(ctypes.c_int64, sizes)
    size, one, rows, unit = ctypes.c_int64(sizes[0] * sizes[2]), ctypes.c_int64(1), ctypes.c_int(_ROWS), 1.0

    def add_outer(of_a: Any, of_b: Any, beta: float, out: int) -> None:
        # gemm needs three times as long
        if beta != 1:
            routines.scal(size, beta, out, one)
        routines.ger(rows, m, n, unit, of_a[2], one, of_b[2], one, out, n)

    def add_product(of_a: Any, of_b: Any, beta: float, out: int) -> None:
        (order_a, line_a, a), (order_b, line_b, b) = of_a, of_b
        routines.gemm(rows, order_a, order_b, m, n, k, unit, a, line_a, b, line_b, beta, out, n)

    return add_outer if sizes[1] == 1 else add_product


def added_multiple(alpha: float, x: np.ndarray, out: np.ndarray) -> None:
    """Compute ``out += alpha * x`` in place.

    The arrays have one shape and a dtype in ``ROUTINES``, and are C-contiguous.
    """
    ROUTINES[out.dtype].axpy(out.size, alpha, address(x), 1, address(out), 1)


def weighted_sum(alpha: float, x: np.ndarray, beta: float, out: np.ndarray) -> None:
    """Compute ``out = alpha * x + beta * out`` in place, for such arrays."""
    ROUTINES[out.dtype].axpby(out.size, alpha, address(x), 1, beta, address(out), 1)
