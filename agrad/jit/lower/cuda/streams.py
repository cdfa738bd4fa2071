"""The streams and the memory of CUDA graphs, and what is launched beside them."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any


@cache
def module(text: str) -> Any:
    """Return the module of a CUDA source, compiled when a kernel is asked for."""
    return sys.modules["cupy"].RawModule(code=text, options=("-std=c++17",))


def setter_text(chars: str) -> str:
    """Return the source of ``set_numbers``, which writes a number into each array.

    chars: the dtypes, f or d.
    """
    kinds = [{"f": "float", "d": "double"}[c] for c in chars]
    parameters = [f"{kind}* p{k}" for k, kind in enumerate(kinds)] + [f"{kind} v{k}" for k, kind in enumerate(kinds)]
    body = " ".join(f"*p{k} = v{k};" for k in range(len(kinds)))
    return f'extern "C" __global__ void set_numbers({", ".join(parameters)}) {{ {body} }}\n'


def write_numbers(targets: Sequence[Any], values: Sequence[float]) -> None:
    """Write numbers into arrays without dimensions, as arguments of a kernel."""
    for start in range(0, len(targets), 64):
        some, given = targets[start : start + 64], values[start : start + 64]
        numbers = [a.dtype.type(v) for a, v in zip(some, given, strict=True)]
        setter = module(setter_text("".join(a.dtype.char for a in some))).get_function("set_numbers")
        setter((1,), (1,), (*some, *numbers))


@cache
def capturing_stream(device: int) -> Any:
    """Return the stream for captures on a device, which is the current one.

    All programs share it: CuPy's pool reuses freed memory only for the stream on which it was allocated.
    """
    return sys.modules["cupy"].cuda.Stream(non_blocking=True)


class Streams:
    """The memory of a program's graphs, and their streams of capture and replay.

    The memory belongs to a pool of the program, and is used by nothing else. The pool takes it from CuPy's, where it
    counts, and gives it back when the program is gone.
    """

    def __init__(self) -> None:
        self.cuda = sys.modules["cupy"].cuda
        self.pool = self.cuda.MemoryPool(self.cuda.get_allocator())
        self.stream = capturing_stream(int(self.cuda.Device().id))
        self.recording: Any = None
        """The graphs that are in use."""
        self._last: Any = None
        self._thread = 0

    def release(self) -> None:
        """Free the memory of the graphs, which the pool would keep."""
        self.recording = None
        self.pool.free_all_blocks()

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Allocate from the graphs' pool and work on the capturing stream.

        All work on the device is waited for first. The wait is needed because another stream may still run a graph in
        the same memory.
        """
        self.cuda.Device().synchronize()
        now = self.cuda.get_current_stream()
        try:
            with self.stream, self.cuda.using_allocator(self.pool.malloc):
                yield
        finally:
            now.wait_event(self.stream.record())
            self._last, self._thread = now, threading.get_ident()

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """Capture the work that ``run`` launches, and return the function to launch it.

        The work is not done.
        """
        self.stream.begin_capture()
        try:
            run()
        except BaseException:
            # CUDA refuses what was begun, and has said why in the error under way
            with contextlib.suppress(RuntimeError):
                self.stream.end_capture()
            raise
        graph = self.stream.end_capture()
        current = self.cuda.get_current_stream
        return lambda: graph.launch(current())

    def follow(self) -> None:
        """Make the current stream wait for a previous replay on another stream."""
        now, last = self.cuda.get_current_stream(), self._last
        if last is not None and (last.ptr != now.ptr or self._thread != threading.get_ident()):
            if last.ptr == self.cuda.Stream.ptds.ptr:  # one a thread, which no other thread can name
                self.cuda.Device().synchronize()
            elif last.ptr != now.ptr:
                now.wait_event(last.record())
        self._last, self._thread = now, threading.get_ident()
