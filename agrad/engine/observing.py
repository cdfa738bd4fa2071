"""Observers of running operations, such as ``profile`` and ``compare_backends``.

While an observer or ``detect_anomaly`` is active in any thread, ``levels.observed`` processes every call. It shows each
evaluation on plain arrays to the observers of its context, including constants, batches and primals.
"""

from collections.abc import Callable
from typing import Any

Proceed = Callable[[], Any]


class Observer:
    """Base class of observers, which see operations while in ``tape.Mode.observers``.

    Each method calls ``proceed`` and returns its result.
    """

    lines = False
    """True if nodes must store the line of the user's code that recorded them."""

    def call(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], proceed: Proceed) -> Any:
        """Wrap an evaluation of a primitive on plain arrays and numbers."""
        return proceed()

    def pushforward(self, primitive: Any, proceed: Proceed) -> Any:
        """Wrap the forward rules of a primitive, which return the tangents of the outputs."""
        return proceed()

    def pullback(self, node: Any, g: Any, proceed: Proceed) -> Any:
        """Wrap the pullback of a node with the cotangent ``g``."""
        return proceed()


OBSERVED: list[None] = []
"""One entry for each active observer of operations, in all threads."""


def observed_run(observers: tuple[Observer, ...], visit: Callable[[Observer, Proceed], Any], proceed: Proceed) -> Any:
    """Call ``proceed`` inside all the observers, the last one outermost."""
    for observer in observers:
        proceed = _around(observer, visit, proceed)
    return proceed()


def _around(observer: Observer, visit: Callable[[Observer, Proceed], Any], proceed: Proceed) -> Proceed:
    return lambda: visit(observer, proceed)
