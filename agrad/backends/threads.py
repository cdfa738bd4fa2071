"""Blocks of long arrays on threads. NumPy releases the interpreter's lock."""

import contextvars
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

BLOCK_BYTES = 1 << 18
"""Bytes of a block of the widest array, measured. With shorter blocks, threads wait for the interpreter's lock, which
each operation acquires twice: arrays of ten million elements needed 1.3 to 2.1 times as long with 64 KiB."""

THREADED = 8
"""The number of such blocks from which it is worth waking other threads."""

_starting = threading.Lock()
_pool: list[ThreadPoolExecutor] = []


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pool() -> ThreadPoolExecutor | None:
    """Return the threads that help the calling thread; None on one processor."""
    if cores() < 2:
        return None
    with _starting:
        if not _pool:
            _pool.append(ThreadPoolExecutor(cores() - 1, thread_name_prefix="agrad"))
        return _pool[0]


def _after_fork() -> None:
    """Drop the pool and the lock: a forked process does not have their threads."""
    global _starting
    _pool.clear()
    _starting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def run_blocks(work: Callable[[Callable[[], int]], Any], count: int, at_least: int = THREADED) -> None:
    """Call ``work(take)`` on each thread. ``take()`` returns the index of a block.

    Each index is returned once. An index of ``count`` or more means that no block is left. Fewer blocks than
    ``at_least`` wake no other thread.
    """
    take = itertools.count().__next__
    helpers = pool() if count >= at_least else None
    if helpers is None:
        work(take)
        return
    # the helpers run in the caller's context, which contains the NumPy settings for floating-point errors
    futures = [helpers.submit(contextvars.copy_context().run, work, take) for _ in range(cores() - 1)]
    try:
        work(take)
    finally:
        for future in futures:
            future.result()
