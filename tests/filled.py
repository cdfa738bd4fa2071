"""Arguments of a call, with other arrays in the places of those in them."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from agrad import tree

_INPUT = object()


def filling(*arguments: Any) -> tuple[list[np.ndarray], Callable[[Iterable[Any]], Any]]:
    """Return the arrays in nested arguments, and the function that puts other ones in their places."""
    inputs = [x for x in tree.leaves(arguments) if isinstance(x, np.ndarray)]
    holes = tree.map(lambda x: _INPUT if isinstance(x, np.ndarray) else x, arguments)

    def filled(arrays: Iterable[Any]) -> Any:
        rest = iter(arrays)
        return tree.map(lambda x: next(rest) if x is _INPUT else x, holes)

    return inputs, filled
