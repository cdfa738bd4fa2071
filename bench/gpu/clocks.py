"""The time of a step on the device, on the host, and of a loop as users write it.

device: time on the device between two events, or two times, after work that keeps it busy until all steps are issued.
It then contains no waiting for the host. host: time to issue steps, without waiting for any. together: a loop of steps,
with a wait at its end.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.common import Job, load

SIDE, SMALL_SIDE = 4096, 64
"""Side of the square matrices whose products keep the device busy."""
COUNT, SMALL_COUNT = 20, 2
"""Steps of a sample. The queue of a device must be able to contain them all: 1024 launches, or programs of JAX."""
QUEUE_OF_JAX = 32
AHEAD = 3.0
"""The time for which the device is kept busy, as a multiple of the time to issue the steps."""


@dataclass(frozen=True)
class DeviceClock:
    """Seconds on the device of the work that a function issues after fills.

    The fills are units of other work. fill_seconds: the time of a fill. most: the maximum number of fills that its
    queue can contain besides the steps.
    """

    between: Callable[[int, Callable[[], None]], float]
    fill_seconds: float
    most: int = 64


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

    between(0, fill)
    return DeviceClock(between, between(0, fill))


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
    """Return the clock that measures on the host, from the last fill to the last step.

    JAX has no events.
    """
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

    product(a).block_until_ready()
    start = time.perf_counter()
    product(a).block_until_ready()
    return DeviceClock(between, time.perf_counter() - start, QUEUE_OF_JAX - COUNT)


class Meter:
    """The three times of a job's steps."""

    def __init__(self, job: Job, clock: DeviceClock, count: int) -> None:
        self.job, self.clock, self.count = job, clock, count

    def _steps(self) -> None:
        for _ in range(self.count):
            self.job.step()

    def sample(self) -> dict[str, float]:
        """Return the seconds per step by each clock."""
        step, wait = self.job.step, self.job.wait
        step()
        wait()
        start = time.perf_counter()
        self._steps()
        host = time.perf_counter() - start
        wait()
        together = time.perf_counter() - start
        fills = 1 + math.ceil(AHEAD * host / max(self.clock.fill_seconds, 1e-6))
        device = self.clock.between(min(fills, self.clock.most), self._steps)
        wait()
        return {name: t / self.count for name, t in (("device", device), ("host", host), ("together", together))}
