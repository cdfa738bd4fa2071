"""Counts of the Python functions that a call runs."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import agrad

PACKAGE = str(Path(agrad.__file__).parent)


def counted(call: Callable[[], Any]) -> tuple[int, int, int]:
    """Return the calls of Python functions, those of agrad's own, and the returns to a file already left.

    Comprehensions count as functions in the first number alone: newer interpreters have no calls of them.
    """
    codes = []

    def see(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            codes.append(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(before)
    own = [code for code in codes if code.co_filename.startswith(PACKAGE) and not code.co_name.endswith("comp>")]
    returns, left, last = 0, set(), ""
    for file in [code.co_filename for code in own]:
        if file != last:
            returns += file in left
            left.add(file)
            last = file
    return len(codes), len(own), returns
