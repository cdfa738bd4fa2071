"""Routines of NumPy's own BLAS that NumPy has no function for.

``C = a @ b + beta * C`` and ``y = alpha * x + beta * y`` are one pass each; NumPy needs two or three and a temporary.
The routines are found by their C interface (``axpby`` is OpenBLAS's own) in the library of NumPy's products, and both
share one set of threads: the threads of a second BLAS would compete with NumPy's. There are none if NumPy was built on
another library. Only names whose suffix gives the width of integers are taken.
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
"""The routines by dtype; empty where NumPy's BLAS is not one that is known."""


_byte = ctypes.c_char.from_buffer


def address(x: np.ndarray) -> int:
    """Return the address of the first element."""
    try:
        return ctypes.addressof(_byte(x))  # a quarter of the time
    except (TypeError, ValueError):  # not writeable, or not row by row
        return x.__array_interface__["data"][0]  # type: ignore[no-any-return]


def laid(x: np.ndarray) -> tuple[int, int, int] | None:
    """Return the memory order of a matrix, the length of a line and the address.

    The order is BLAS's number for an operand as it is or transposed. Return None for another order.
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

    The shapes are (m, k), (k, n) and (m, n) for m, k, n = ``sizes``, none of them 0, and ``out`` lies row by row in
    memory and shares none with the others. The function takes ``laid(a)``, ``laid(b)``, beta and the address of out;
    nothing is checked. Sizes are converted for ctypes once.
    """
    routines = ROUTINES[dtype]
    m, k, n = map(ctypes.c_int64, sizes)
    size, one, rows, unit = ctypes.c_int64(sizes[0] * sizes[2]), ctypes.c_int64(1), ctypes.c_int(_ROWS), 1.0

    def add_outer(of_a: Any, of_b: Any, beta: float, out: int) -> None:
        # gemm takes three times as long
        if beta != 1:
            routines.scal(size, beta, out, one)
        routines.ger(rows, m, n, unit, of_a[2], one, of_b[2], one, out, n)

    def add_product(of_a: Any, of_b: Any, beta: float, out: int) -> None:
        (order_a, line_a, a), (order_b, line_b, b) = of_a, of_b
        routines.gemm(rows, order_a, order_b, m, n, k, unit, a, line_a, b, line_b, beta, out, n)

    return add_outer if sizes[1] == 1 else add_product


def added_multiple(alpha: float, x: np.ndarray, out: np.ndarray) -> None:
    """Compute ``out += alpha * x`` in place.

    The arrays are of one shape, of a dtype in ``ROUTINES``, and lie row by row.
    """
    ROUTINES[out.dtype].axpy(out.size, alpha, address(x), 1, address(out), 1)


def weighted_sum(alpha: float, x: np.ndarray, beta: float, out: np.ndarray) -> None:
    """Compute ``out = alpha * x + beta * out`` in place, of such arrays."""
    ROUTINES[out.dtype].axpby(out.size, alpha, address(x), 1, beta, address(out), 1)
