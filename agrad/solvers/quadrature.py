"""Derivatives of weighted sums, for error estimates of derivatives of integrals."""

from collections.abc import Callable, Sequence
from typing import Any

from agrad.engine.backward import backward_pass
from agrad.engine.tape import next_id, no_grad
from agrad.engine.tensor import Tensor, raw_of, strip_constant_levels
from agrad.ops.casting import astype
from agrad.ops.statistical import sum as sum_


def value_and_slopes(g: Callable[[Any], Any], places: Any, weights: Sequence[Any]) -> tuple[Any, list[dict[Any, Any]]]:
    """Return ``g(places)`` and the derivatives of its weighted sums.

    The derivatives for the innermost transform are a dictionary for each array of weights. In reverse mode, its keys
    are the nodes from before the call that the sum depends on. In forward mode, its key is the transform. Its values
    are plain arrays, which may have batch axes.
    """
    since = next_id()
    values = g(places)
    recorded = strip_constant_levels(values)
    if not isinstance(recorded, Tensor):
        return values, [{} for _ in weights]
    typed = [strip_constant_levels(astype(w, recorded.dtype)) for w in weights]
    found: list[dict[Any, Any]]
    with no_grad():
        if recorded.level.tape:
            starts = [{recorded.node: w} for w in typed]
            found = [backward_pass(start, retain=True, visit=lambda *_: None, since=since) for start in starts]
        else:
            found = [{recorded.level: sum_(recorded.node * w)} for w in typed]
    return values, [{node: raw_of(x) for node, x in part.items()} for part in found]
