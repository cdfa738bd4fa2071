"""The algorithms of products, kept in a file.

A later process computes the same bits by them.
"""

import contextlib
import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from agrad.kernels.cupy.cublaslt import Choice

MOST = 4 << 20
"""The bytes from which on nothing is added to a file."""


def _folder() -> Path | None:
    """Return the folder of CuPy's kernels, or None if they are kept in memory."""
    if os.environ.get("CUPY_CACHE_IN_MEMORY", "0") == "1":
        return None
    return Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache")


def _digest(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


class Kept:
    """The file for a version of cuBLASLt and the kind of the current device.

    A line has a product's digest and the bytes of an algorithm, which are valid for this version only. The first line
    of a product counts, so that processes which time it at once agree. Without a file, each process times for itself.
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
        """Add the algorithm for a product, and return the one that counts."""
        if self.file is not None and self._read < MOST:
            with contextlib.suppress(OSError):
                self.file.parent.mkdir(parents=True, exist_ok=True)
                with self.file.open("ab", buffering=0) as file:  # one write, which others do not cut
                    file.write(f"\n{_digest(*product)} {bytes(choice).hex()}\n".encode())
        return self.get(*product) or choice

    def _update(self) -> None:
        """Read the lines that are new."""
        if self.file is None or not self.file.exists():
            return
        with self.file.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole + end)
        for line in whole.decode("ascii", "replace").splitlines():
            digest, _, text = line.partition(" ")
            with contextlib.suppress(ValueError):  # of a line that was cut or changed
                self._found.setdefault(digest, Choice.from_buffer_copy(bytes.fromhex(text)))
