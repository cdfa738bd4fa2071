"""A step's time on the device, on the host, and of a loop as users write it, each apart from the others.

device: between two events, or times, on the device, behind work that keeps it busy until all steps are issued, so that
no waiting for the host is in it. host: issuing steps, without waiting for any. together: a loop of steps, waited for at
its end.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.common import Job, load

SIDE, SMALL_SIDE = 4096, 64
"""Of the square matrices whose products keep the device busy."""
COUNT, SMALL_COUNT = 20, 2
"""Steps of a sample. A device's queue must hold them all: 1024 launches, and 32 programs of JAX."""
AHEAD = 3.0
"""How many times as long as the steps take to issue the device is kept busy."""


@dataclass(frozen=True)
class DeviceClock:
    """fill: one unit of work for the device. between: seconds on the device of what a function issues after fills."""

    fill: Callable[[], Any]
    between: Callable[[int, Callable[[], None]], float]


def _by_events(fill: Callable[[], Any], event: Callable[[], Any], elapsed: Callable[[Any, Any], float]) -> DeviceClock:
    def between(fills: int, work: Callable[[], None]) -> float:
        begin, end = event(), event()
        for _ in range(fills):
            fill()
        begin.record()
        work()
        end.record()
        end.synchronize()
        return elapsed(begin, end) / 1e3

    return DeviceClock(fill, between)


def of_cupy(side: int) -> DeviceClock:
    cupy = load("cupy")
    a = cupy.ones((side, side), cupy.float32)
    out = cupy.empty_like(a)
    return _by_events(lambda: cupy.matmul(a, a, out=out), cupy.cuda.Event, cupy.cuda.get_elapsed_time)


def of_torch(side: int) -> DeviceClock:
    torch = load("torch")
    a = torch.ones((side, side), device="cuda")
    out = torch.empty_like(a)
    return _by_events(
        lambda: torch.mm(a, a, out=out),
        lambda: torch.cuda.Event(enable_timing=True),
        lambda begin, end: begin.elapsed_time(end),
    )


def of_jax(side: int, wait: Callable[[], None]) -> DeviceClock:
    """By the host's clock, from the end of the work before to the end of the last step: JAX has no events."""
    jax = load("jax")
    a = jax.numpy.ones((side, side), jax.numpy.float32)
    product = jax.jit(lambda x: x @ x)

    def between(fills: int, work: Callable[[], None]) -> float:
        held = a
        for _ in range(fills):
            held = product(a)
        work()
        held.block_until_ready()
        start = time.perf_counter()
        wait()
        return time.perf_counter() - start

    return DeviceClock(lambda: product(a), between)


class Meter:
    """The three times of a job's steps."""

    def __init__(self, job: Job, clock: DeviceClock, count: int) -> None:
        self.job, self.clock, self.count = job, clock, count
        self.fill_seconds = self._fill_seconds()

    def _fill_seconds(self) -> float:
        quiet = self.clock.between(0, lambda: None)  # what JAX's clock counts of nothing
        for _ in range(2):
            found = self.clock.between(0, self.clock.fill)
        return max(found - quiet, 1e-6)

    def _steps(self) -> None:
        for _ in range(self.count):
            self.job.step()

    def sample(self) -> dict[str, float]:
        """Seconds a step by each clock."""
        step, wait = self.job.step, self.job.wait
        step()
        wait()
        start = time.perf_counter()
        self._steps()
        host = time.perf_counter() - start
        wait()
        together = time.perf_counter() - start
        fills = 1 + math.ceil(AHEAD * host / self.fill_seconds)
        device = self.clock.between(min(fills, 64), self._steps)
        wait()
        return {name: t / self.count for name, t in (("device", device), ("host", host), ("together", together))}
