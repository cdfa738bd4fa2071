"""The number of BLAS threads of NumPy, chosen by timing training steps.

Small products gain nothing from more than one thread, and on a busy machine they lose much: a thread that waits for
another one spins, and uses the time that the other one needs.
"""

import functools
import math
import time
from typing import Any, Self

from agrad.backends.threads import cores
from agrad.errors import ConfigurationError

__all__ = ["Choice"]

FEWEST, LEAST, LONGEST = 4, 0.02, 0.2
"""Minimum steps and seconds to try a number of threads for, and seconds after which no more steps run.

In fewer seconds the system does not stop a thread for the sake of another process.
"""
FIRST = 0.1
"""Seconds to run steps with one thread before trying more: next to a busy process a single step with two may take 50
ms."""
WORTH = 0.95
"""The share of the time with fewer threads below which more are used."""
HOPELESS, WAKING = 2.0, 10.0
"""How many times as slow as the best number another one may be before its trial ends, and how many times its first
step, which also wakes the threads."""
CHANGED = 1.4
"""The change of the time of a step, up or down, after which all numbers are tried again."""
WINDOW = 0.5
"""Seconds whose steps are compared with those before."""
SHARE = 0.05
"""The share of all time that trials after the first may take."""
AGAIN = 30.0
"""Seconds after which all numbers are tried again in any case."""


def candidates(count: int) -> list[int]:
    """Return the numbers of threads to try: 1, 2, 4, ... and the number of processors."""
    found = [1]
    while found[-1] * 2 < count:
        found.append(found[-1] * 2)
    return [*found, count] if count > 1 else found


class Choice:
    """A choice of the number of threads, as a context in which it is held.

    It is told the time of each step. First each number is tried for a few steps, and the fastest is kept; of two that
    are about as fast, the smaller. When steps become slower or faster, or after half a minute, all are tried again.
    At the end of the context the number is as before.

    Parameters
    ----------
    threads : "auto", int or None
        ``"auto"`` to choose among the numbers that the BLAS may use now (``OPENBLAS_NUM_THREADS``), an integer to set
        that number, None to change nothing.

    Raises
    ------
    ConfigurationError
        If ``threads`` has another value.

    Notes
    -----
    The package threadpoolctl sets the number. Without it, with one processor or without a BLAS that has threads,
    ``"auto"`` changes nothing. Rounding may depend on the number of threads.

    Examples
    --------
    >>> import time
    >>> from agrad.train.threads import Choice
    >>> with Choice(1) as choice:
    ...     choice.step(0.001)
    >>> choice.number
    1
    """

    def __init__(self, threads: Any = "auto") -> None:
        whole = isinstance(threads, int) and not isinstance(threads, bool)
        if not (threads is None or threads == "auto" or (whole and threads >= 1)):
            raise ConfigurationError(f"threads must be 'auto', an integer of at least 1, or None, got {threads!r}")
        self.threads = threads
        self.number: int | None = None
        """The number of threads in use; None if it was not changed."""
        self._libraries: list[Any] = []
        self._before: list[int] = []
        self._untried: list[int] = []
        self._times: dict[int, float] = {}
        """The mean time of a step with each number tried."""

    def __enter__(self) -> Self:
        if self.threads is None or not (libraries := _libraries(self.threads)):
            return self
        before = [library.get_num_threads() for library in libraries]
        self._most = min(cores(), max(before))
        if self.threads == "auto" and self._most < 2:
            return self
        self._libraries, self._before = libraries, before
        if self.threads == "auto":
            self._try_all(FIRST)
        else:
            self._set(self.threads)
        return self

    def __exit__(self, *error: object) -> None:
        for library, number in zip(self._libraries, self._before, strict=True):
            library.set_num_threads(number)
        self._libraries = []

    def step(self, seconds: float) -> None:
        """Take note of the time of one step.

        Parameters
        ----------
        seconds : float
            Wall-clock time.
        """
        if not self._libraries or self.threads != "auto":
            return
        self._steps += 1
        if self._trying and self._steps == 1:
            if seconds > WAKING * min(self._times.values(), default=seconds):
                self._end_trial(seconds)
            return
        self._seconds += seconds
        self._slowest = max(self._slowest, seconds)
        if self._trying:
            self._judge()
        elif self._seconds >= WINDOW and self._steps >= FEWEST:
            self._compare()

    # ------------------------------------------------------------------ trials

    def _set(self, number: int) -> None:
        for library in self._libraries:
            library.set_num_threads(number)
        self.number = number
        self._steps, self._seconds, self._slowest = 0, 0.0, 0.0

    def _try_all(self, least: float = LEAST) -> None:
        """Begin with the trials; ``least`` is for the first number."""
        self._trying, self._least = True, least
        self._untried, self._times = candidates(self._most), {}
        self._set(self._untried.pop(0))

    def _judge(self) -> None:
        """End the trial of a number when enough is known of it."""
        done = self._steps - 1
        mean = self._seconds / done
        if not self._times and done > 1:  # a step that traces the last batch, which is shorter, says nothing
            mean = (self._seconds - self._slowest) / (done - 1)
        enough = self._seconds >= LONGEST or (done >= FEWEST and self._seconds >= self._least)
        if enough or mean >= HOPELESS * min(self._times.values(), default=math.inf):
            self._end_trial(mean)

    def _end_trial(self, mean: float) -> None:
        """Keep the mean time of a step, and go on to the next number or to the best."""
        assert self.number is not None
        now = time.perf_counter()
        if not self._times:
            self._started = now
        self._times[self.number] = mean
        if self._untried:
            self._least = LEAST
            self._set(self._untried.pop(0))
            return
        chosen = 1
        for number, seconds in self._times.items():
            if seconds < WORTH * self._times[chosen]:
                chosen = number
        self._trying, self._usual = False, self._times[chosen]
        self._next, self._last = now + (now - self._started) / SHARE, now + AGAIN
        self._set(chosen)

    def _compare(self) -> None:
        """Try all numbers again if the time of a step has changed."""
        mean = self._seconds / self._steps
        self._steps, self._seconds = 0, 0.0
        now = time.perf_counter()
        changed = not self._usual / CHANGED < mean < self._usual * CHANGED
        if now >= self._next and (changed or now >= self._last):
            self._try_all()


def _libraries(threads: Any) -> list[Any]:
    """Return the controllers of the BLAS libraries; [] without a choice."""
    try:
        return _controllers()
    except ImportError:
        if threads == "auto":
            return []
        raise ConfigurationError(
            f"threads={threads} needs the package threadpoolctl, which is not installed. Install it with: pip install "
            "'agrad[train]'"
        ) from None


@functools.cache
def _controllers() -> list[Any]:
    """Look for the libraries once, because it is as slow as several steps."""
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)
