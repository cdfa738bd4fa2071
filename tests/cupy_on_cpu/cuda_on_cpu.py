"""CUDA emulated on the CPU, below the real CuPy: see README.md.

cuda_on_cpu_hook.py calls it when CuPy is imported: before, libraries with the names of CUDA's are loaded; after, the
functions of the CUDA runtime that is linked into CuPy jump to them, and g++ compiles in NVRTC's place.
"""

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import cuda_on_cpu_compiler as compiler
import cuda_on_cpu_functions as functions

CUPY = "14.2.0"
"""The CuPy whose machine code is known."""

_libraries: dict[str, ctypes.CDLL] = {}


class Counts(NamedTuple):
    """Launches of kernels, synchronisations, copies by direction, and so on."""

    launches: int
    syncs: int
    h2d: int
    d2h: int
    d2d: int
    memsets: int
    mallocs: int
    frees: int
    graphs: int


def counts() -> Counts:
    """Return how often CUDA was asked for something since the process began."""
    held = (ctypes.c_long * len(Counts._fields))()
    _cuda().on_cpu_counts(held)
    return Counts(*held)


def trace(function: Callable[[], Any]) -> list[str]:
    """Return what the CUDA runtime is asked for while ``function()`` runs."""
    cuda = _cuda()
    cuda.on_cpu_traced.restype = ctypes.c_char_p
    cuda.on_cpu_trace(1)
    try:
        function()
    finally:
        cuda.on_cpu_trace(0)
    return cuda.on_cpu_traced().decode().splitlines()


@contextlib.contextmanager
def without_work() -> Iterator[None]:
    """Count what the streams are given, and do none of it: what is left is the work of the host.

    Arrays keep what they held. Captures are recorded as usual.
    """
    cuda = _cuda()
    cuda.on_cpu_idle(1)
    try:
        yield
    finally:
        cuda.on_cpu_idle(0)


def _cuda() -> ctypes.CDLL:
    begin()
    return _libraries["libcuda.so.1"]


# ---------------------------------------------------------------- before CuPy is imported


def refusal() -> str | None:
    """Return why CUDA cannot or must not be emulated here, or None."""
    if reason := compiler.refusal():
        return reason
    try:
        found = version("cupy-cuda13x")
    except PackageNotFoundError:
        found = "no wheel cupy-cuda13x"
    if found != CUPY:
        return f"it replaces machine code of cupy-cuda13x {CUPY}, and {found} is installed"
    if os.environ.get("CUPY_ON_CPU") != "force" and has_gpu():
        return "this machine has an NVIDIA GPU (CUPY_ON_CPU=0 uses it, CUPY_ON_CPU=force emulates one nevertheless)"
    return None


def has_gpu() -> bool:
    """Return whether a CUDA driver with devices can be loaded."""
    nodes = (Path("/proc/driver/nvidia/gpus"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
    if not any(node.exists() for node in nodes):
        return False
    # not in this process, where that driver would stay loaded
    asked = (
        "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int(0); "
        "raise SystemExit(cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(n)) or n.value == 0)"
    )
    return subprocess.run([sys.executable, "-S", "-c", asked], capture_output=True, check=False).returncode == 0


def begin() -> None:
    """Load the libraries, once."""
    if _libraries:
        return
    if reason := refusal():
        raise RuntimeError(f"CUDA is not emulated: {reason}")
    import numpy  # noqa: F401 - its OpenBLAS multiplies

    built = compiler.build()
    os.environ["CUPY_ACCELERATORS"] = ""
    os.environ["CUPY_CACHE_DIR"] = str(built / "cupy")
    if "CUPY_ON_CPU_KEEP" in os.environ:
        os.environ["CUPY_CACHE_IN_MEMORY"] = "1"
    loaded = {soname: ctypes.CDLL(str(built / soname), mode=ctypes.RTLD_GLOBAL) for soname in compiler.LIBRARIES}
    blas = next((path for path in _mapped() if "openblas" in path), "")
    if loaded["libcublas.so.13"].on_cpu_use_blas(blas.encode()):
        raise RuntimeError("CUDA is not emulated: it multiplies with the OpenBLAS of NumPy's wheels, and there is none")
    _libraries.update(loaded)


def _mapped() -> dict[str, int]:
    """Return the files that are mapped into this process, with their lowest addresses."""
    found: dict[str, int] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6:
            found.setdefault(fields[5], int(fields[0].split("-")[0], 16))
    return found


# ---------------------------------------------------------------- after its modules are imported


def _replace(module: Any) -> None:
    """Let functions of a loaded extension jump to those of the library."""
    path = os.path.realpath(module.__file__)
    base, cuda = _mapped()[path], _cuda()
    for offset, name in compiler.replaced(path):
        to = getattr(cuda, name, None) or cuda.on_cpu_unsupported
        if cuda.on_cpu_replace(ctypes.c_void_p(base + offset), ctypes.cast(to, ctypes.c_void_p)):
            raise RuntimeError(f"{path}: could not replace a function by {name}")


def _use_compiler(module: Any) -> None:
    def compile_source(
        source: str,
        options: Any = (),
        arch: Any = None,
        filename: str = "",
        name_expressions: Any = None,
        *_: Any,
        **__: Any,
    ) -> tuple[bytes, dict[str, str]]:
        try:
            return compiler.compile_kernels(source, tuple(options), name_expressions)
        except compiler.Refused as error:
            raise module.CompileException(str(error), source, filename, options) from None

    module._compile_using_nvrtc_no_warning = compile_source
    module._preprocess = lambda *_: "CUDA on the CPU"


def _without_pool(cupy: Any) -> None:
    """Let each array be a block of its own, where that is asked for."""
    if os.environ.get("CUPY_ON_CPU_POOL") == "0":
        cupy.cuda.set_allocator(None)


AFTER: dict[str, Callable[[Any], None]] = {
    "cupy": _without_pool,
    "cupy_backends.cuda.api.runtime": _replace,
    "cupy.cuda.thrust": _replace,
    "cupy.cuda.compiler": _use_compiler,
    **functions.AFTER,
}
