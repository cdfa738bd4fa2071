"""The functions of cuBLASLt for products of matrices, bound by ctypes.

The numbers are those of its headers. CuPy's cuBLAS is linked to cuBLASLt of the same release, which is therefore loaded
wherever CuPy can multiply, and is found by its name.
"""

import ctypes
import sys
from contextlib import ExitStack
from ctypes import POINTER, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

REAL = {"f": 0, "d": 1, "e": 2, "H": 14}
"""CUDA's numbers of real dtypes. Arrays of uint16 hold the bits of bfloat16."""

COMPUTE_32F, COMPUTE_64F, COMPUTE_32F_FAST_TF32 = 68, 70, 77

EPILOGUES = {"": 1, "BIAS": 4, "RELU_BIAS": 6, "RELU_AUX_BIAS": 134, "DRELU": 136, "DRELU_BGRAD": 152, "BGRADA": 256}
"""Numbers of the operations after a product, by cuBLASLt's names."""

TRANSA, TRANSB, EPILOGUE, BIAS_POINTER, AUX_POINTER, AUX_LD = 3, 4, 7, 8, 11, 12
"""Attributes of a product."""

_BATCH_COUNT, _BATCH_STEP = 5, 6
"""Attributes of a matrix."""

_MAX_WORKSPACE, _ALIGNMENTS = 1, (5, 6, 7, 8)
"""Preferences for the choice of an algorithm. The alignments are those of A, B, C and D."""

_ALIGNED = 256
"""The largest alignment in bytes that makes a difference to cuBLASLt."""

ALLOC_FAILED, NOT_SUPPORTED = 3, 15
"""Statuses."""


class Choice(ctypes.Structure):
    """An algorithm, and the bytes of workspace that it needs."""

    _fields_ = (
        ("algorithm", c_uint64 * 8), ("workspace", c_size_t), ("state", c_int), ("waves", c_float),
        ("reserved", c_int * 4),
    )  # fmt: skip


_MADE = POINTER(c_void_p)
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "Create": (_MADE,),
    "MatmulDescCreate": (_MADE, c_int, c_int),
    "MatmulDescSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "MatmulDescDestroy": (c_void_p,),
    "MatrixLayoutCreate": (_MADE, c_int, c_uint64, c_uint64, c_int64),
    "MatrixLayoutSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "MatrixLayoutDestroy": (c_void_p,),
    "MatmulPreferenceCreate": (_MADE,),
    "MatmulPreferenceSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "MatmulPreferenceDestroy": (c_void_p,),
    "MatmulAlgoGetHeuristic": (*[c_void_p] * 7, c_int, POINTER(Choice), POINTER(c_int)),
    "Matmul": (*[c_void_p] * 14, c_size_t, c_void_p),
}
"""The argument types of the functions, whose full names begin with ``cublasLt``. All return a status."""


class CublasLtError(RuntimeError):
    """A function of cuBLASLt returned a status other than success."""

    def __init__(self, function: str, status: int, name: str) -> None:
        super().__init__(f"{function}: {name} ({status})")
        self.status = status


def library_name() -> str:
    """Return the file of cuBLASLt for the CUDA that CuPy runs on."""
    major = sys.modules["cupy"].cuda.runtime.runtimeGetVersion() // 1000
    return f"cublasLt64_{major}.dll" if sys.platform == "win32" else f"libcublasLt.so.{major}"


class Library:
    """cuBLASLt with a handle on the current device.

    Raises ``ImportError``, ``OSError`` or ``AttributeError`` if it is absent, and ``CublasLtError`` if it returns no
    handle.
    """

    def __init__(self) -> None:
        self.blas = sys.modules["cupy"].cuda.cublas  # loading it loads cuBLASLt
        self.call: dict[str, Any] = {}
        library = ctypes.CDLL(library_name())
        self._name_of = library.cublasLtGetStatusName
        self._name_of.argtypes, self._name_of.restype = (c_int,), c_char_p
        for name, kinds in _FUNCTIONS.items():
            function = getattr(library, f"cublasLt{name}")
            function.argtypes, function.errcheck = kinds, self._check
            self.call[name] = function
        self.handle = c_void_p()
        self.call["Create"](ctypes.byref(self.handle))

    def _check(self, status: int, function: Any, arguments: Any) -> int:
        if status:
            self.fail(function.__name__, status)
        return status

    def fail(self, function: str, status: int) -> None:
        """Raise a status as an error."""
        raise CublasLtError(function, status, self._name_of(status).decode())


class Task:
    """The description of a product for cuBLASLt, valid in a ``with`` block.

    Matrices are in column order. The result is ``alpha op(A) op(B)``, then the epilogue that the attributes name.
    """

    def __init__(self, library: Library, compute: int, scale: int) -> None:
        self.library, self.call = library, library.call
        self._stack = ExitStack()
        self._description = self._make("MatmulDesc", compute, scale)

    def _make(self, kind: str, *arguments: Any) -> c_void_p:
        made = c_void_p()
        self.call[f"{kind}Create"](ctypes.byref(made), *arguments)
        self._stack.callback(self.call[f"{kind}Destroy"], made)
        return made

    def __enter__(self) -> "Task":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def set(self, attribute: int, value: Any) -> None:
        """Set an attribute to a ctypes number."""
        self.call["MatmulDescSetAttribute"](self._description, attribute, ctypes.byref(value), ctypes.sizeof(value))

    def matrix(self, kind: int, shape: tuple[int, int], distances: tuple[int, ...], count: int = 1) -> c_void_p:
        """Describe a matrix of (rows, columns), or ``count`` of them.

        distances: elements from one column to the next, and from one matrix to the next.
        """
        leading, step = distances
        made = self._make("MatrixLayout", kind, *shape, leading)
        if count > 1:
            for attribute, value in ((_BATCH_COUNT, c_int(count)), (_BATCH_STEP, c_int64(step))):
                self.call["MatrixLayoutSetAttribute"](made, attribute, ctypes.byref(value), ctypes.sizeof(value))
        return made

    def choose(self, matrices: tuple[c_void_p, ...], addresses: tuple[int, ...], workspace: int) -> Choice:
        """Return the algorithm that cuBLASLt estimates to be the fastest.

        matrices, addresses: those of A, B and D. D also stands for C, which is not read. Raises ``CublasLtError`` if
        there is none.
        """
        a, b, d = matrices
        wanted, limit = self._make("MatmulPreference"), c_uint64(workspace)
        prefer = self.call["MatmulPreferenceSetAttribute"]
        prefer(wanted, _MAX_WORKSPACE, ctypes.byref(limit), ctypes.sizeof(limit))
        for attribute, address in zip(_ALIGNMENTS, (*addresses, addresses[-1]), strict=True):
            aligned = c_uint32(min(address & -address, _ALIGNED))
            prefer(wanted, attribute, ctypes.byref(aligned), ctypes.sizeof(aligned))
        found, count = Choice(), c_int()
        choose = self.call["MatmulAlgoGetHeuristic"]
        choose(self.library.handle, self._description, a, b, d, d, wanted, 1, found, count)
        if not count.value or found.state:
            self.library.fail(choose.__name__, found.state or NOT_SUPPORTED)
        return found

    def run(
        self,
        choice: Choice,
        matrices: tuple[c_void_p, ...],
        addresses: tuple[int, ...],
        scales: tuple[Any, Any],
        workspace: int,
        stream: int,
    ) -> None:
        """Launch the product on a stream. ``scales``: alpha, and beta, which is 0."""
        (a, b, d), (at_a, at_b, at_d) = matrices, addresses
        alpha, beta = map(ctypes.byref, scales)
        self.call["Matmul"](
            self.library.handle, self._description, alpha, at_a, a, at_b, b, beta, at_d, d, at_d, d,
            ctypes.byref(choice), workspace, choice.workspace, stream,
        )  # fmt: skip
