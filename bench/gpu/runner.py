"""Runs of the parts, each a process group with a time limit and a log.

All of them share one budget of seconds.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GRACE = 3.0
"""Seconds between requesting a part to end and killing it."""
LEAST = 5.0
"""Minimum number of seconds that must be left to start a part."""
POLL = 0.1
DONE, NO_TIME = "done", "no time left"


@dataclass(frozen=True)
class Part:
    """A part: its work, its maximum time, and True if it runs alone to measure times."""

    name: str
    about: str
    limit: float
    alone: bool = False


@dataclass(frozen=True)
class Ended:
    """The end of a part: ``DONE``, or the error."""

    name: str
    how: str
    seconds: float


class Clock:
    """The seconds of a run."""

    def __init__(self, seconds: float) -> None:
        self.start, self.seconds = time.monotonic(), seconds

    def spent(self) -> float:
        return time.monotonic() - self.start

    def left(self) -> float:
        return self.seconds - self.spent()


class Stop:
    """The signal that requested the run to end; None if there was none."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __call__(self, number: int, frame: Any = None) -> None:
        self.number = self.number or number


@contextlib.contextmanager
def stoppable() -> Iterator[Stop]:
    """Record Ctrl-C, a hang-up and a request to end instead of exiting immediately."""
    stop = Stop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def how_ended(code: int) -> str:
    """Describe in words how a process ended, from its exit code."""
    if code >= 0:
        return DONE if code == 0 else f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


@dataclass
class Running:
    """A running part."""

    part: Part
    process: subprocess.Popen[bytes]
    deadline: float
    allowed: float
    start: float = field(default_factory=time.monotonic)

    def ended(self) -> str | None:
        """Return the end of the part, or None while it runs.

        A part that exceeds its time is ended.
        """
        code = self.process.poll()
        if code is not None:
            self._signal(signal.SIGKILL)  # child processes that it left
            return how_ended(code)
        if time.monotonic() < self.deadline:
            return None
        self.end()
        return f"over its {self.allowed:.0f} s"

    def end(self) -> None:
        """End the part and all processes that it started."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE)
        self._signal(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process that hangs in a driver does not end
            self.process.wait(GRACE)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


class Runner:
    """A runner of parts in order, as many at once as ``width``.

    command: the command line of a part and its time in seconds. told: called when each part ends. stop: checked between
    parts; if it contains a signal, all parts are ended.
    """

    def __init__(
        self,
        command: Callable[[Part, float], Sequence[str]],
        logs: Path,
        clock: Clock,
        stop: Stop,
        width: int = 1,
        told: Callable[[Ended], None] = lambda ended: None,
    ) -> None:
        self.command, self.logs, self.clock, self.stop, self.width, self.told = command, logs, clock, stop, width, told
        self.running: list[Running] = []
        self.ended: list[Ended] = []

    def run(self, parts: Sequence[Part]) -> list[Ended]:
        """Run all, and return how each ended, in order."""
        waiting = list(parts)
        while (waiting or self.running) and self.stop.number is None:
            while waiting and self._free_for(waiting[0]):
                self._start(waiting.pop(0))
            self._look()
            time.sleep(POLL)
        if self.stop.number is not None:
            self._give_up(waiting, signal.Signals(self.stop.number).name)
        order = [part.name for part in parts]
        return sorted(self.ended, key=lambda ended: order.index(ended.name))

    def _give_up(self, waiting: Sequence[Part], reason: str) -> None:
        for one in self.running:
            one.end()
            self._note(one.part, f"ended, as the run was stopped by {reason}", time.monotonic() - one.start)
        for part in waiting:
            self._note(part, f"not started, as the run was stopped by {reason}", 0.0)
        self.running = []

    def _free_for(self, part: Part) -> bool:
        if part.alone or any(one.part.alone for one in self.running):
            return not self.running
        return len(self.running) < self.width

    def _start(self, part: Part) -> None:
        allowed = min(part.limit, self.clock.left())
        if allowed < LEAST:
            self._note(part, NO_TIME, 0.0)
            return
        try:
            with (self.logs / f"{part.name}.log").open("wb") as log:
                process = subprocess.Popen(
                    [*self.command(part, allowed)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            self._note(part, f"could not be started: {error}", 0.0)
            return
        self.running.append(Running(part, process, time.monotonic() + allowed, allowed))

    def _look(self) -> None:
        for one in [*self.running]:
            how = one.ended()
            if how is not None:
                self.running.remove(one)
                self._note(one.part, how, time.monotonic() - one.start)

    def _note(self, part: Part, how: str, seconds: float) -> None:
        ended = Ended(part.name, how, seconds)
        self.ended.append(ended)
        self.told(ended)
