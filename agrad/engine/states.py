"""State that changes while a function runs, and that the function's second run must find as the first one did."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple


class _State(NamedTuple):
    """The state of one owner: what it was, and how it is read and set."""

    owner: Any
    value: Any
    read: Callable[[], Any]
    load: Callable[[Any], None]


Recorded = dict[int, _State]
"""By the identity of an owner, which is held: its state before it first changed."""

_recording: ContextVar[tuple[Recorded, ...]] = ContextVar("agrad_states", default=())


def note_state(owner: Any, read: Callable[[], Any], load: Callable[[Any], None]) -> None:
    """Say that ``owner``'s state is about to change in a way that results depend on, as a generator's does at a draw.

    ``read()`` gives the state, ``load(state)`` restores it. Inside ``agrad.checkpoint`` the state is remembered, and is
    there again while the function is recomputed; elsewhere nothing happens.
    """
    for states in _recording.get():
        if id(owner) not in states:
            states[id(owner)] = _State(owner, read(), read, load)


@contextlib.contextmanager
def recording_states() -> Iterator[Recorded]:
    """Remember what is noted inside: gives the dictionary that fills."""
    states: Recorded = {}
    token = _recording.set((*_recording.get(), states))
    try:
        yield states
    finally:
        _recording.reset(token)


@contextlib.contextmanager
def replaying(states: Recorded) -> Iterator[None]:
    """Set the states back to what they were, and afterwards to what they are now."""
    now = [(state, state.read()) for state in states.values()]
    for state in states.values():
        state.load(state.value)
    try:
        yield
    finally:
        for state, value in now:
            state.load(value)
