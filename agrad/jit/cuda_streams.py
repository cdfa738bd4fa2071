"""The streams and the memory of CUDA graphs, and what is launched beside them."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any


@cache
def module(text: str) -> Any:
    """The kernels of a CUDA text, compiled when the first one is asked for."""
    return sys.modules["cupy"].RawModule(code=text, options=("-std=c++17",))


def setter_text(chars: str) -> str:
    """The kernel that writes a number into each of some arrays of these dtypes."""
    kinds = [{"f": "float", "d": "double"}[c] for c in chars]
    parameters = [f"{kind}* p{k}" for k, kind in enumerate(kinds)] + [f"{kind} v{k}" for k, kind in enumerate(kinds)]
    body = " ".join(f"*p{k} = v{k};" for k in range(len(kinds)))
    return f'extern "C" __global__ void set_numbers({", ".join(parameters)}) {{ {body} }}\n'


def write_numbers(targets: Sequence[Any], values: Sequence[float]) -> None:
    """Write numbers into arrays without dimensions, in launches that carry the numbers themselves."""
    for start in range(0, len(targets), 64):
        some, given = targets[start : start + 64], values[start : start + 64]
        numbers = [a.dtype.type(v) for a, v in zip(some, given, strict=True)]
        setter = module(setter_text("".join(a.dtype.char for a in some))).get_function("set_numbers")
        setter((1,), (1,), (*some, *numbers))


def address(x: Any) -> Any:
    """What tells an array from others of its shape and dtype that a graph would have to treat differently."""
    return (x.data.ptr, x.strides)


def buffer_like(x: Any) -> Any:
    """A new array for values like these, its axes in memory in the same order."""
    return sys.modules["cupy"].empty_like(x)


def copy(target: Any, source: Any) -> None:
    """Copy values between arrays of one shape and dtype."""
    target[...] = source


@cache
def capturing_stream(device: int) -> Any:
    """The stream of a device, the current one, that graphs are captured on.

    It is one for all programs, as CuPy keeps memory that was given back for the stream that it was had on.
    """
    return sys.modules["cupy"].cuda.Stream(non_blocking=True)


class Streams:
    """The memory of a program's graphs, the stream that they are captured on, and those they are replayed on.

    The memory is a pool's own, so that nobody else is ever handed it; the pool takes it from CuPy's, so that it counts
    there, and gives it back when the program is gone.
    """

    def __init__(self) -> None:
        self.cuda = sys.modules["cupy"].cuda
        self.pool = self.cuda.MemoryPool(self.cuda.get_allocator())
        self.stream = capturing_stream(int(self.cuda.Device().id))
        self._last: Any = None
        self._thread = 0

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """The time in which graphs are captured: after all work on the device, and before what this stream does next.

        The memory may be that of a graph which another stream still works on.
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
        """The work that ``run`` gives to the GPU, which is not done yet, as a function that gives it out again."""
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
        """Let the current stream wait for the replay before, where that was on another one."""
        now, last = self.cuda.get_current_stream(), self._last
        if last is not None and (last.ptr != now.ptr or self._thread != threading.get_ident()):
            if last.ptr == self.cuda.Stream.ptds.ptr:  # each thread has one of its own, and nobody else can name it
                self.cuda.Device().synchronize()
            elif last.ptr != now.ptr:
                now.wait_event(last.record())
        self._last, self._thread = now, threading.get_ident()
