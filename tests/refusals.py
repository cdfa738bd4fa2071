"""Tests of errors by a table of calls."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

Refusal = tuple[type[Exception], str, Callable[[], Any]]
"""The class of an error, a part of its message, in which ``...`` is any text, and a call that raises it."""


def pattern(text: str) -> str:
    """Return the regular expression of a part of a message."""
    return re.escape(text).replace(re.escape("..."), ".*")


def fails(error: type[Exception], match: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """Check that a call raises an error whose message matches a regular expression."""
    with pytest.raises(error, match=match):
        call(*arguments, **options)


def refuses(rows: Sequence[Refusal], everywhere: bool = False) -> Any:
    """Return a test that each call raises its error, with ``everywhere`` on the backends of the run."""

    def test(error: type[Exception], text: str, call: Callable[[], Any]) -> None:
        with pytest.raises(error, match=pattern(text)):
            call()

    def test_on_backend(backend: str, error: type[Exception], text: str, call: Callable[[], Any]) -> None:
        test(error, text, call)

    ids = [text for _, text, _ in rows]
    return pytest.mark.parametrize(("error", "text", "call"), rows, ids=ids)(test_on_backend if everywhere else test)
