"""CUDA streams and devices among threads."""

import sys
import threading
from contextlib import ExitStack
from typing import Any

CAPTURE = threading.RLock()
"""Held during captures by agrad. CUDA does not wait for a device while one of its streams is captured: the call fails,
and the capture too."""


def synchronize() -> None:
    """Wait for the current device, after captures by other threads."""
    with CAPTURE:
        sys.modules["cupy"].cuda.Device().synchronize()


class Handover(ExitStack):
    """Lets another thread create arrays on the current stream and device of this one.

    CuPy reuses their memory on that stream. A thread that uses the arrays on another stream waits for an event.
    """

    def __init__(self) -> None:
        super().__init__()
        cuda = sys.modules["cupy"].cuda
        self.stream, self.device, self.event = cuda.get_current_stream(), cuda.Device(), None

    def __enter__(self) -> "Handover":
        self.enter_context(self.device)
        self.enter_context(self.stream)
        self.callback(self._finish)
        return self

    def _finish(self) -> None:
        if self.stream.ptr == type(self.stream).ptds.ptr:  # each thread has its own
            self.stream.synchronize()
        else:
            self.event = self.stream.record()

    def receive(self) -> None:
        """Let the current stream wait for the arrays."""
        now: Any = sys.modules["cupy"].cuda.get_current_stream()
        if self.event is not None and now.ptr != self.stream.ptr:
            now.wait_event(self.event)
