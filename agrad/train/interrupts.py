"""Signals that stop a run: the first between two steps, the second at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))


class Interrupts:
    """The first signal in a `with` block that asks the process to stop: ``received``.

    A second signal raises ``KeyboardInterrupt`` at once. Signals reach the main thread only; in other threads the block
    does nothing. An ignored signal, such as SIGHUP under ``nohup``, remains ignored, except for Ctrl-C.
    """

    def __init__(self, signals: Sequence[int] = SIGNALS) -> None:
        self.received: int | None = None
        self._signals = signals
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                if number != signal.SIGINT and signal.getsignal(number) is signal.SIG_IGN:
                    continue
                self._before[number] = signal.signal(number, self._heard)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        """Return True if the process was asked to stop."""
        return self.received is not None

    def _heard(self, number: int, frame: FrameType | None) -> None:
        """Note the first signal; raise ``KeyboardInterrupt`` at the second."""
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = number
