"""State that a function changes, and that its recomputation restores."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple


class _State(NamedTuple):
    """The state of one owner: its earlier value, and functions to read and set it."""

    owner: Any
    value: Any
    read: Callable[[], Any]
    load: Callable[[Any], None]


Recorded = dict[int, _State]
"""States before their first change, by the identity of the owner."""

_recording: ContextVar[tuple[Recorded, ...]] = ContextVar("agrad_states", default=())


def note_state(owner: Any, read: Callable[[], Any], load: Callable[[Any], None]) -> None:
    """Save the state of ``owner`` for a checkpoint before it changes.

    Call it before each change that affects results, such as a draw of a random generator. ``agrad.checkpoint`` restores
    the state while it recomputes the function. Outside of a checkpoint, nothing happens.

    Parameters
    ----------
    owner : object
        Object with the state.
    read : callable
        ``read()`` returns the state.
    load : callable
        ``load(state)`` restores it.

    Examples
    --------
    >>> class Counter:
    ...     calls = 0
    ...     def __call__(self, x):
    ...         agrad.note_state(self, lambda: self.calls, lambda calls: setattr(self, "calls", calls))
    ...         self.calls += 1
    ...         return x * self.calls
    >>> counter = Counter()
    >>> agrad.grad(agrad.checkpoint(counter))(1.0)
    np.float64(1.0)
    >>> counter.calls
    1
    """
    for states in _recording.get():
        if id(owner) not in states:
            states[id(owner)] = _State(owner, read(), read, load)


@contextlib.contextmanager
def recording_states() -> Iterator[Recorded]:
    """Save the states noted inside, and yield the dictionary that they are saved in."""
    states: Recorded = {}
    token = _recording.set((*_recording.get(), states))
    try:
        yield states
    finally:
        _recording.reset(token)


@contextlib.contextmanager
def replaying(states: Recorded) -> Iterator[None]:
    """Restore the saved states inside, and the present ones afterwards."""
    now = [(state, state.read()) for state in states.values()]
    for state in states.values():
        state.load(state.value)
    try:
        yield
    finally:
        for state, value in now:
            state.load(value)
