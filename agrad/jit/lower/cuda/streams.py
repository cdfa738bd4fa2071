"""Streams, memory and number arguments of CUDA graphs."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from operator import call
from typing import Any

from agrad.backends.cupy.streams import CAPTURE, synchronize
from agrad.jit.lower.cuda.source import PACK_BYTES
from agrad.jit.program import Variable
from agrad.kernels.cupy.elementwise import C_TYPES, compiled
from agrad.kernels.cupy.products import chosen_before


@cache
def setter_text(chars: str) -> str:
    """Return the source of ``set_numbers``, which writes a number into each array.

    chars: the characters of their dtypes, f or d.
    """
    kinds = [C_TYPES[c] for c in chars]
    parameters = [f"{kind}* p{k}" for k, kind in enumerate(kinds)] + [f"{kind} v{k}" for k, kind in enumerate(kinds)]
    body = " ".join(f"*p{k} = v{k};" for k in range(len(kinds)))
    return f'extern "C" __global__ void set_numbers({", ".join(parameters)}) {{ {body} }}\n'


def number_writer(targets: Sequence[Any]) -> Callable[[Sequence[float]], None]:
    """Return a function that writes numbers into 0-dimensional arrays.

    The arrays are of float32 or float64. Kernels accept the numbers as arguments, 64 in each launch.
    """
    launches = []
    for start in range(0, len(targets), 64):
        some = targets[start : start + 64]
        kernel = compiled(setter_text("".join([a.dtype.char for a in some])), "set_numbers")
        kinds = [float if a.dtype.char == "d" else a.dtype.type for a in some]
        launches.append((kernel, some, kinds, slice(start, start + 64)))

    def write(values: Sequence[float]) -> None:
        for kernel, some, kinds, part in launches:
            kernel((1,), (1,), (*some, *map(call, kinds, values[part])))

    return write


@cache
def capturing_stream(device: int) -> Any:
    """Return the stream for captures on a device, which must be the current one.

    All programs share it, as the CuPy pool reuses freed memory only for the stream on which it was allocated.
    """
    return sys.modules["cupy"].cuda.Stream(non_blocking=True)


class _Part(threading.local):
    depth = 0

    def __init__(self) -> None:
        self.places: dict[Variable, Any] = {}


_PART = _Part()


def runs_as_part() -> bool:
    """Return True if programs run as parts of a graph, without separate graphs."""
    return _PART.depth > 0


@contextlib.contextmanager
def as_part() -> Iterator[None]:
    """Let programs run as parts of a graph that is captured now, or will be."""
    _PART.depth += 1
    try:
        yield
    finally:
        _PART.depth -= 1


@contextlib.contextmanager
def placing(places: dict[Variable, Any]) -> Iterator[None]:
    """Let kernels of groups write results into these arrays."""
    before, _PART.places = _PART.places, places
    try:
        yield
    finally:
        _PART.places = before


def result_array(v: Variable) -> Any:
    """Return the array that is wanted for a kernel's result, or a new one."""
    found = _PART.places.get(v)
    if found is None or found.dtype != v.dtype or found.shape != v.shape or found.data.ptr % PACK_BYTES:
        return sys.modules["cupy"].empty(v.shape, v.dtype)
    return found


class Streams:
    """The memory of a program's graphs, and their streams of capture and replay.

    The memory belongs to a pool of the program, which allocates it from the CuPy pool and frees it when the program is
    deleted.
    """

    def __init__(self) -> None:
        self.cuda: Any = sys.modules["cupy"].cuda
        self.pool: Any = self.cuda.MemoryPool(self.cuda.get_allocator())
        self.stream: Any = capturing_stream(int(self.cuda.Device().id))
        self.recording: Any = None
        """The graphs in use."""
        self._last: Any = None
        self._thread = 0

    def release(self) -> None:
        """Delete the graphs and free their memory, which the pool would keep."""
        self.recording = None
        self.pool.free_all_blocks()

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Allocate from the graphs' pool and work on the capturing stream.

        Waits for all work on the device first, as another stream may still run a graph in the same memory.
        """
        synchronize()
        now = self.cuda.get_current_stream()
        try:
            with self.stream, self.cuda.using_allocator(self.pool.malloc):
                yield
        finally:
            now.wait_event(self.stream.record())
            self._last, self._thread = now, threading.get_ident()

    def capture(self, run: Callable[[], None]) -> Callable[[Any], None]:
        """Return a function that launches, on a stream, the captured work of ``run``.

        The capture itself does not do the work. Raises ``Unchosen`` for a product without an algorithm.
        """
        with CAPTURE:
            self.stream.begin_capture()
            try:
                with as_part(), chosen_before():
                    run()
            except BaseException:
                # ending a failed capture raises too; the first exception has the reason
                with contextlib.suppress(RuntimeError):
                    self.stream.end_capture()
                raise
            launch: Callable[[Any], None] = self.stream.end_capture().launch
        return launch

    def follow(self, now: Any) -> None:
        """Make the current stream ``now`` wait for a previous replay on another stream."""
        last = self._last
        if last is not None and (last.ptr != now.ptr or self._thread != threading.get_ident()):
            if last.ptr == self.cuda.Stream.ptds.ptr:  # each thread has its own, which another thread cannot refer to
                synchronize()
            elif last.ptr != now.ptr:
                now.wait_event(last.record())
        self._last, self._thread = now, threading.get_ident()
