"""Work that threads do before its result is needed."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import islice
from typing import Any

from agrad.backends.base import HANDOVERS


def prefetch(work: Callable[[Any], Any], tasks: Iterator[Any], threads: int, depth: int) -> Iterator[Any]:
    """Yield `work(task)` in the order of the tasks, computed by threads.

    At most `depth` results are under way or waiting. The threads end with the iterator: when it is exhausted, closed
    or no longer referred to, and after an error. They have the context of the caller, such as its `use_backend`, and
    its CUDA stream.
    """
    jobs: queue.SimpleQueue[tuple[Future[Any], Any, list[Any]] | None] = queue.SimpleQueue()
    stopped = threading.Event()

    def serve() -> None:
        while (job := jobs.get()) is not None:
            future, task, handovers = job
            if stopped.is_set():
                continue
            try:
                with ExitStack() as stack:
                    for handover in handovers:
                        stack.enter_context(handover)
                    result = work(task)
                future.set_result(result)
            except BaseException as error:
                future.set_exception(error)

    def submit(task: Any) -> tuple[Future[Any], list[Any]]:
        future: Future[Any] = Future()
        handovers = [make() for make in HANDOVERS]
        jobs.put((future, task, handovers))
        return future, handovers

    # daemons, because a program that Ctrl-C ends should not wait for data that nobody will see
    workers = [
        threading.Thread(target=contextvars.copy_context().run, args=(serve,), name=f"DataLoader {k}", daemon=True)
        for k in range(threads)
    ]
    try:
        for worker in workers:
            worker.start()
        waiting = deque(submit(task) for task in islice(tasks, depth))
        while waiting:
            future, handovers = waiting.popleft()
            result = future.result()
            for handover in handovers:
                handover.receive()
            waiting.extend(submit(task) for task in islice(tasks, 1))
            yield result
    finally:
        stopped.set()
        for _ in workers:
            jobs.put(None)
