"""Whether operations are looked at as they run: the switch, which costs nothing while nobody looks.

While somebody does (``profile``, ``compare_backends``, ``detect_anomaly``), every primitive's call has other code,
which takes the long way and shows each evaluation on raw arrays to the observers of its own context. So whatever runs
is seen once, at the bottom: constants, members of a map and primals of forward mode as well as what a tape records.
"""

import threading
import weakref
from collections.abc import Callable
from typing import Any

Proceed = Callable[[], Any]


class Observer:
    """Looks at operations while it stands in ``tape.Mode.observers``.

    Each method calls ``proceed`` and gives its result.
    """

    lines = False
    """Whether nodes are to remember the line of the user's code that recorded them."""

    def call(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], proceed: Proceed) -> Any:
        """Around an evaluation of a primitive on raw arrays and numbers."""
        return proceed()

    def push(self, primitive: Any, proceed: Proceed) -> Any:
        """Around the forward rules of a primitive; its result is the outputs' tangents, None for zero."""
        return proceed()

    def pull(self, node: Any, g: Any, proceed: Proceed) -> Any:
        """Around the backward rule of a node, whose result has the cotangent ``g``; its result is the operands'."""
        return proceed()


class Switch:
    """Turns the calls of all primitives to their observed code while anybody in any thread looks."""

    def __init__(self) -> None:
        self.lookers = 0
        self.lock = threading.RLock()
        self._primitives: weakref.WeakSet[Any] = weakref.WeakSet()

    def enlist(self, primitive: Any) -> None:
        """Take up a new primitive, which has a method ``install`` that gives its call the code due now."""
        with self.lock:
            self._primitives.add(primitive)
            primitive.install()

    def look(self, change: int) -> None:
        """One more looker (1), or one less (-1)."""
        with self.lock:
            before = self.lookers
            self.lookers += change
            if (before == 0) != (self.lookers == 0):
                for primitive in list(self._primitives):
                    primitive.install()


SWITCH = Switch()


def observed_run(observers: tuple[Observer, ...], visit: Callable[[Observer, Proceed], Any], proceed: Proceed) -> Any:
    """``proceed`` inside all the observers, the last one outermost."""
    for observer in observers:
        proceed = _around(observer, visit, proceed)
    return proceed()


def _around(observer: Observer, visit: Callable[[Observer, Proceed], Any], proceed: Proceed) -> Proceed:
    return lambda: visit(observer, proceed)
