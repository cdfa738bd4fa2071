"""Tests of errors by a table of calls."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

Refusal = tuple[type[Exception], str, Callable[[], Any]]
"""The class of an error, a part of its message, in which ``...`` is any text, and a call that raises it."""


def pattern(text: str) -> str:
    """Return the regular expression of a part of a message."""
    return re.escape(text).replace(re.escape("..."), ".*")


def fails(error: type[Exception], match: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Check that a call raises an error whose message matches a regular expression, and return the error."""
    with pytest.raises(error, match=match) as raised:
        call(*arguments, **options)
    return raised.value


def each_fails(rows: Iterable[tuple[Callable[..., Any], type[Exception], str]], *arguments: Any) -> None:
    """Check that each call raises its error with a message that matches a regular expression."""
    for call, error, match in rows:
        try:
            fails(error, match, call, *arguments)
        except BaseException as found:
            found.add_note(f"row: {match}")
            raise


def refuses(rows: Sequence[Refusal], everywhere: bool = False) -> Callable[..., None]:
    """Return a test that each call raises its error, with ``everywhere`` on the backends of the run."""

    def test() -> None:
        each_fails([(call, error, pattern(text)) for error, text, call in rows])

    def test_on_backend(backend: str) -> None:
        test()

    return test_on_backend if everywhere else test
