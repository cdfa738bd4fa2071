"""Tests of errors by a table of calls."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

Refusal = tuple[type[Exception], str, Callable[[], Any]]
"""The class of an error, a part of its message, and a call that raises it."""


def refuses(rows: Sequence[Refusal]) -> Any:
    """Return a test that each call raises its error."""

    @pytest.mark.parametrize(("error", "text", "call"), rows, ids=[text for _, text, _ in rows])
    def test(error: type[Exception], text: str, call: Callable[[], Any]) -> None:
        with pytest.raises(error, match=re.escape(text)):
            call()

    return test
