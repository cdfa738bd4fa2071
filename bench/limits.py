"""The limits of the machine: its matrix rate and its copy bandwidth.

An operation that needs some number of bytes and of floating-point operations cannot be faster than the longer of two
times: the time to move the bytes, and the time to compute the operations.
"""

import concurrent.futures
import itertools
from dataclasses import asdict, dataclass
from typing import Any

from bench import common
from bench.common import Candidate, Job, Missing, Remote, load

SIDE, QUICK_SIDE = 1536, 512
"""Side of the square matrices whose product is timed."""
BYTES, QUICK_BYTES = 1 << 28, 1 << 22
"""Bytes of the array that is copied: too many for any cache."""
ROUNDS = 8


@dataclass(frozen=True)
class Limits:
    """The best of several samples: operations and bytes per second.

    Operations are measured by a matrix product; bytes are read and written.
    """

    flops: float
    bytes: float
    where: str

    def seconds(self, nbytes: float, nflops: float = 0.0) -> tuple[float, str]:
        """Return the minimum time for ``nbytes`` moved and ``nflops``, and which of them determines it."""
        moving, doing = nbytes / self.bytes, nflops / self.flops
        return (doing, "matrix rate") if doing > moving else (moving, "bandwidth")

    def text(self) -> str:
        return (
            f"{self.where}: {self.flops / 1e9:.0f} GFLOP/s in a product of square matrices, "
            f"{self.bytes / 1e9:.1f} GB/s in a copy (bytes read and written)"
        )

    def record(self) -> dict[str, Any]:
        return asdict(self)


def job(library: str, dtype: str, quick: bool, one_thread: bool) -> Job:
    """Return a product of square matrices and a copy of a large array, as a job.

    The results are written into existing arrays, the copy on all cores.
    """
    side, size = (QUICK_SIDE, QUICK_BYTES) if quick else (SIDE, BYTES)
    xp = load(library)
    a = xp.ones((side, side), dtype=getattr(xp, dtype))
    product = xp.empty_like(a)
    held = xp.ones(size // 4, dtype=xp.float32)
    copy = xp.empty_like(held)
    cores = common.cores() if library == "numpy" and not one_thread else 1
    bounds = [i * held.size // cores for i in range(cores + 1)]
    parts = [slice(*pair) for pair in itertools.pairwise(bounds)]
    pool = concurrent.futures.ThreadPoolExecutor(cores)

    def move() -> None:  # NumPy copies without the interpreter's lock
        list(pool.map(lambda part: xp.copyto(copy[part], held[part]), parts))

    return Job(
        move,
        wait=_wait(library),
        device="cpu" if library == "numpy" else "cuda",
        parts={"product": lambda: xp.matmul(a, a, out=product), "copy": move},
    )


def _wait(library: str) -> Any:
    if library == "cupy":
        return load("agrad.backends").load("cupy").synchronize
    return lambda: None


def check_gpu() -> None:
    """Raise ``Missing`` if CuPy has no GPU."""
    try:
        load("agrad.backends").load("cupy")
    except load("agrad.errors").BackendUnavailableError as reason:
        raise Missing(str(reason)) from None


def measure(dtype: str, *, library: str = "numpy", quick: bool = False, one_thread: bool = False) -> Limits:
    """Measure the machine with ``library``, in a separate process.

    ``one_thread``: measure one core of the processor. Raises ``Missing`` if the library is not available or has no
    device.
    """
    if library == "cupy":
        check_gpu()
    side, size = (QUICK_SIDE, QUICK_BYTES) if quick else (SIDE, BYTES)
    candidate = Candidate("the machine's limits", job, (library, dtype, quick, one_thread), (library,))
    runner = Remote(candidate, one_thread=one_thread)
    try:
        runner.begin(())
        runner.built()
        rounds = [runner.samples({"product": 2, "copy": 2}) for _ in range(3 if quick else ROUNDS)]
    finally:
        runner.close()
    product, copy = (min(found[part] for found in rounds) for part in ("product", "copy"))
    where = "the GPU" if library != "numpy" else "one core" if one_thread else "the processor"
    return Limits(flops=2.0 * side**3 / product, bytes=2.0 * size / copy, where=where)
