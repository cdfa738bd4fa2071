"""The functions of cuBLASLt for products of matrices, bound by ctypes.

The numbers are defined in its headers. The cuBLAS of CuPy is linked to cuBLASLt of the same release, which is
therefore loaded if CuPy can multiply, and is found by its name.
"""

import contextlib
import ctypes
import hashlib
import os
import sys
import weakref
from contextlib import ExitStack
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

REAL = {"f": 0, "d": 1, "e": 2, "H": 14}
"""CUDA's numbers of real dtypes. Arrays of uint16 hold the bits of bfloat16."""

COMPUTE_32F, COMPUTE_64F, COMPUTE_32F_FAST_TF32 = 68, 70, 77

EPILOGUES = {
    "": 1, "RELU": 2, "BIAS": 4, "RELU_BIAS": 6, "RELU_AUX": 130, "RELU_AUX_BIAS": 134, "DRELU": 136,
    "DRELU_BGRAD": 152, "BGRADA": 256,
}  # fmt: skip
"""Numbers of the operations after a product, by cuBLASLt's names."""

TRANSA, TRANSB, EPILOGUE, BIAS_POINTER, AUX_POINTER, AUX_LD, BIAS_TYPE = 3, 4, 7, 8, 11, 12, 26
"""Attributes of a product."""

_BATCH_COUNT, _BATCH_STEP = 5, 6
"""Attributes of a matrix."""

_MAX_WORKSPACE, _ALIGNMENTS = 1, (5, 6, 7, 8)
"""Preferences for the choice of an algorithm. The alignments are of A, B, C and D."""

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
        self.blas: Any = sys.modules["cupy"].cuda.cublas  # importing cuBLAS loads cuBLASLt
        self.call: dict[str, Any] = {}
        library = ctypes.CDLL(library_name())
        self._name_of = library.cublasLtGetStatusName
        self._name_of.argtypes, self._name_of.restype = (c_int,), c_char_p
        library.cublasLtGetVersion.restype = c_size_t
        self.version: int = library.cublasLtGetVersion()
        for name, kinds in _FUNCTIONS.items():
            function = getattr(library, f"cublasLt{name}")
            function.argtypes, function.errcheck = kinds, self._check
            self.call[name] = function
        self.handle: c_void_p = c_void_p()
        self.call["Create"](ctypes.byref(self.handle))

    def _check(self, status: int, function: Any, arguments: Any) -> int:
        if status:
            self.fail(function.__name__, status)
        return status

    def fail(self, function: str, status: int) -> None:
        """Raise an error for a status."""
        raise CublasLtError(function, status, self._name_of(status).decode())


class Task:
    """The description of a product for cuBLASLt.

    Matrices are in column-major order. The result is ``op(A) op(B)``, then the epilogue that the attributes set.
    """

    def __init__(self, library: Library, compute: int, scale: int) -> None:
        self.library, self.call = library, library.call
        self._stack = ExitStack()
        weakref.finalize(self, self._stack.close).atexit = False
        self._description = self._make(self._stack, "MatmulDesc", compute, scale)
        self._pointers: dict[int, int] = {}
        kind: Any = c_double if scale == REAL["d"] else c_float
        self._alpha, self._beta = kind(1), kind(0)
        self.matrices: tuple[c_void_p, ...] = ()
        """The descriptions of A, B and D. The description of D is also used for C, which is not read."""

    def _make(self, stack: ExitStack, kind: str, *arguments: Any) -> c_void_p:
        made = c_void_p()
        self.call[f"{kind}Create"](ctypes.byref(made), *arguments)
        stack.callback(self.call[f"{kind}Destroy"], made)
        return made

    def set(self, attribute: int, value: Any) -> None:
        """Set an attribute to a ctypes number."""
        self.call["MatmulDescSetAttribute"](self._description, attribute, ctypes.byref(value), ctypes.sizeof(value))

    def point(self, attribute: int, array: Any) -> None:
        """Set an attribute to the address of an array."""
        address = array.data.ptr
        if self._pointers.get(attribute) != address:
            self.set(attribute, c_int64(address))
            self._pointers[attribute] = address

    def matrix(self, kind: int, shape: tuple[int, int], distances: tuple[int, ...], count: int = 1) -> c_void_p:
        """Describe a matrix of (rows, columns), or ``count`` of them.

        distances: elements from one column to the next, and from one matrix to the next.
        """
        leading, step = distances
        made = self._make(self._stack, "MatrixLayout", kind, *shape, leading)
        if count > 1:
            for attribute, value in ((_BATCH_COUNT, c_int(count)), (_BATCH_STEP, c_int64(step))):
                self.call["MatrixLayoutSetAttribute"](made, attribute, ctypes.byref(value), ctypes.sizeof(value))
        return made

    def candidates(self, alignments: tuple[int, ...], workspace: int, most: int) -> list[Choice]:
        """Return the algorithms with the shortest estimated times, the shortest first.

        alignments: the alignments of the addresses of A, B and D in bytes. Raises ``CublasLtError`` if there are none.
        """
        a, b, d = self.matrices
        found, count, choose = (Choice * most)(), c_int(), self.call["MatmulAlgoGetHeuristic"]
        with ExitStack() as stack:
            wanted = self._make(stack, "MatmulPreference")
            told = [c_uint64(workspace), *map(c_uint32, (*alignments, alignments[-1]))]
            for attribute, value in zip((_MAX_WORKSPACE, *_ALIGNMENTS), told, strict=True):
                size = ctypes.sizeof(value)
                self.call["MatmulPreferenceSetAttribute"](wanted, attribute, ctypes.byref(value), size)
            choose(self.library.handle, self._description, a, b, d, d, wanted, most, found, count)
        usable = [choice for choice in found[: count.value] if not choice.state]
        if not usable:
            self.library.fail(choose.__name__, found[0].state or NOT_SUPPORTED)
        return usable

    def run(self, choice: Choice, addresses: tuple[int, ...], workspace: int, stream: int) -> None:
        """Launch the product on a stream."""
        (a, b, d), (at_a, at_b, at_d) = self.matrices, addresses
        self.call["Matmul"](
            self.library.handle, self._description, ctypes.byref(self._alpha), at_a, a, at_b, b,
            ctypes.byref(self._beta), at_d, d, at_d, d, ctypes.byref(choice), workspace, choice.workspace, stream,
        )  # fmt: skip


# ------------------------------------------------------------------ algorithms in a file


MOST = 4 << 20
"""The bytes from which on nothing is added to a file."""


def _folder() -> Path | None:
    """Return the folder of CuPy kernels, or None if they are kept in memory."""
    if os.environ.get("CUPY_CACHE_IN_MEMORY", "0") == "1":
        return None
    return Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache")


def _digest(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


class Kept:
    """The file for a version of cuBLASLt and the kind of the current device.

    A line contains a product's digest and the bytes of an algorithm, which are valid for this version only. The first
    line of a product is used, so that processes which time it simultaneously agree. Without a file, each process times
    for itself.
    """

    def __init__(self, version: int) -> None:
        runtime = sys.modules["cupy"].cuda.runtime
        p = runtime.getDeviceProperties(runtime.getDevice())
        kind = _digest(version, *[p[name] for name in ("name", "major", "minor", "multiProcessorCount")])
        folder = _folder()
        self.file: Path | None = None if folder is None else folder / f"agrad_products_{kind}.txt"
        self._found: dict[str, Choice] = {}
        self._read = 0

    def get(self, *product: Any) -> Choice | None:
        """Return the algorithm for a product, or None."""
        with contextlib.suppress(OSError):
            self._update()
        return self._found.get(_digest(*product))

    def add(self, choice: Choice, *product: Any) -> Choice:
        """Add the algorithm for a product, and return the one to use."""
        if self.file is not None and self._read < MOST:
            with contextlib.suppress(OSError):
                self.file.parent.mkdir(parents=True, exist_ok=True)
                with self.file.open("ab", buffering=0) as file:  # one write is not interrupted
                    file.write(f"\n{_digest(*product)} {bytes(choice).hex()}\n".encode())
        return self.get(*product) or choice

    def _update(self) -> None:
        """Read the new lines."""
        if self.file is None or not self.file.exists():
            return
        with self.file.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole + end)
        for line in whole.decode("ascii", "replace").splitlines():
            digest, _, text = line.partition(" ")
            with contextlib.suppress(ValueError):  # for a truncated or modified line
                self._found.setdefault(digest, Choice.from_buffer_copy(bytes.fromhex(text)))
