"""Line search with the strong Wolfe conditions."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

DECREASE, CURVATURE = 1e-4, 0.9
"""Constants of the two conditions."""


class Point(NamedTuple):
    """A step t along the direction: the loss, its gradient and directional derivative.

    ``size`` is the largest element of the gradient.
    """

    t: float
    loss: float
    gradient: Any
    slope: float
    size: float


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Return the minimizer of the cubic through two points, within bounds.

    If the cubic has no minimum, it is the midpoint of the bounds. By default, the bounds are the two steps.
    """
    if a.t > b.t:
        a, b = b, a
    low, high = bounds or (a.t, b.t)
    width = b.t - a.t
    if width == 0:
        return (low + high) / 2
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    below = b.slope - a.slope + 2 * d2
    if below == 0:
        return (low + high) / 2
    return min(max(b.t - width * ((b.slope + d2 - d1) / below), low), high)


def strong_wolfe(
    evaluate: Callable[[float], Point], start: Point, t: float, length: float, tolerance: float, most: int
) -> tuple[Point, int]:
    """Return a point that satisfies the strong Wolfe conditions, and the calls.

    If no point satisfies them, it is the best point found.

    Nocedal and Wright 2006, Numerical Optimization, algorithms 3.5 and 3.6, with the bounds and the safeguards of
    PyTorch.

    ``evaluate`` is a function from a step to its point, ``start`` is the point at t = 0, and ``t`` the initial step.
    ``length`` is the largest element of the direction. A bracket is small if its size is below ``tolerance``. ``most``
    is the maximum number of calls after the first.
    """
    last, new = start, evaluate(t)
    tries = 0
    while tries < most:
        is_high = _too_high(new, start) or (tries > 1 and new.loss >= last.loss)
        if not is_high and _flat(new, start):
            return new, tries + 1
        if is_high or new.slope >= 0:
            return _zoom(evaluate, start, [last, new], length, tolerance, most, tries)
        bounds = (new.t + 0.01 * (new.t - last.t), new.t * 10)
        last, new = new, evaluate(cubic_minimum(last, new, bounds))
        tries += 1
    return (start if start.loss <= new.loss else new), tries + 1


def _too_high(point: Point, start: Point) -> bool:
    return point.loss > start.loss + DECREASE * point.t * start.slope


def _flat(point: Point, start: Point) -> bool:
    return abs(point.slope) <= -CURVATURE * start.slope


def _zoom(
    evaluate: Callable[[float], Point],
    start: Point,
    bracket: list[Point],
    length: float,
    tolerance: float,
    most: int,
    tries: int,
) -> tuple[Point, int]:
    """Shrink a bracket until a point satisfies the conditions, and return the best point."""
    low, high = (bracket[0], bracket[1]) if bracket[0].loss <= bracket[1].loss else (bracket[1], bracket[0])
    is_slow = False
    while tries < most and abs(high.t - low.t) * length >= tolerance:
        least, largest = min(low.t, high.t), max(low.t, high.t)
        t = cubic_minimum(low, high)
        margin = 0.1 * (largest - least)
        if min(largest - t, t - least) < margin:
            # near an end of the bracket for the second time, or at it: step away from the end
            if is_slow or t >= largest or t <= least:
                t = largest - margin if abs(t - largest) < abs(t - least) else least + margin
                is_slow = False
            else:
                is_slow = True
        else:
            is_slow = False
        new = evaluate(t)
        tries += 1
        if _too_high(new, start) or new.loss >= low.loss:
            high = new
            if high.loss < low.loss:
                low, high = high, low
            continue
        if _flat(new, start):
            return new, tries + 1
        if new.slope * (high.t - low.t) >= 0:
            high = low
        low = new
    return low, tries + 1
