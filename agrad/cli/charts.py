"""Charts as SVG for a page: lines, points and bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from agrad.errors import printable

WIDTH, HEIGHT = 460, 280
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 26, 42
Series = tuple[str, Sequence[float], Sequence[float]]


def text(value: str, length: int = 80) -> str:
    """Return text for a page, cut to a length, with escapes for what cannot be shown."""
    return escape(printable(value if len(value) <= length else value[: length - 1] + "…"))


def lines(series: Sequence[Series], x_name: str, y_name: str, mark: tuple[float, str] | None = None) -> str:
    """Return a chart of lines (label, whole x, y), with a vertical line at a mark."""
    xs, ys = ([value for line in series for value in line[k]] for k in (1, 2))
    # losses of early epochs would press all later ones to the ground
    logarithmic = min(ys) > 0 and max(ys) > 20 * min(ys)
    frame = Frame(xs, ys, x_name, y_name, logarithmic, whole=True)
    parts = []
    if mark is not None:
        at = frame.x(mark[0])
        parts.append(f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text class="note" x="{at:.1f}" y="{TOP - 8}" text-anchor="middle">{text(mark[1])}</text>')
    for number, (label, x, y) in enumerate(series):
        path = " ".join(f"{frame.x(a):.1f},{frame.y(b):.1f}" for a, b in zip(x, y, strict=True))
        if len(x) == 1:
            parts.append(f'<circle class="dot{number}" cx="{frame.x(x[0]):.1f}" cy="{frame.y(y[0]):.1f}" r="3"/>')
        parts.append(f'<polyline class="line{number}" points="{path}"><title>{text(label)}</title></polyline>')
    legend = "".join(
        f'<span><i class="key{number}"></i>{text(label)}</span>' for number, (label, *_) in enumerate(series)
    )
    return frame.svg(parts, f"{y_name} by {x_name}") + f'<p class="legend">{legend}</p>'


def points(x: Sequence[float], y: Sequence[float], x_name: str, y_name: str, joined: bool = False) -> str:
    """Return a chart of points, joined or not, with a line of equal values."""
    frame = Frame([*x, *y], [*x, *y], x_name, y_name)
    low, high = min(*x, *y), max(*x, *y)
    at = [(f"{frame.x(a):.1f}", f"{frame.y(b):.1f}") for a, b in zip(x, y, strict=True)]
    (left, right), (bottom, top) = ((move(low), move(high)) for move in (frame.x, frame.y))
    parts = [f'<line class="mark" x1="{left:.1f}" y1="{bottom:.1f}" x2="{right:.1f}" y2="{top:.1f}"/>']
    if joined:
        parts.append(f'<polyline class="line0" points="{" ".join(map(",".join, at))}"/>')
    parts += [f'<circle class="{"dot0" if joined else "point"}" cx="{a}" cy="{b}" r="2.5"/>' for a, b in at]
    return frame.svg(parts, f"{y_name} by {x_name}")


def histogram(values: np.ndarray, name: str) -> str:
    """Return a chart of the number of values (n,) in ranges."""
    bins = int(min(max(math.sqrt(values.shape[0]), 5), 30))
    counts, edges = np.histogram(values, bins=bins)
    frame = Frame(edges.tolist(), [0.0, float(np.max(counts))], name, "examples")
    base = frame.y(0.0)
    parts = []
    for count, left, right in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        x, top = frame.x(left), frame.y(count)
        parts.append(
            f'<rect class="bar" x="{x + 0.5:.1f}" y="{top:.1f}" width="{max(frame.x(right) - x - 1, 0.5):.1f}" '
            f'height="{base - top:.1f}"><title>{count} from {left:.4g} to {right:.4g}</title></rect>'
        )
    return frame.svg(parts, f"distribution of {name}")


def bars(values: Sequence[tuple[str, float]], name: str, form: str = ".4f") -> str:
    """Return horizontal bars with labels; negative values have none."""
    largest = max([value for _, value in values] + [1e-12])
    rows = []
    for label, value in values:
        share = max(value, 0.0) / largest
        rows.append(
            f'<tr><th scope="row">{text(label, 40)}</th><td class="track"><div class="fill" style="width:{share:.1%}">'
            f'</div></td><td class="number">{value:{form}}</td></tr>'
        )
    return f'<table class="bars" aria-label="{text(name)}">{"".join(rows)}</table>'


class Frame:
    """The axes of a chart, with the positions of values in it."""

    def __init__(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        x_name: str,
        y_name: str,
        logarithmic: bool = False,
        whole: bool = False,
    ) -> None:
        self._names = x_name, y_name
        self._log = logarithmic
        self._xs, self._x_ticks = _range(min(xs), max(xs))
        if whole:
            self._x_ticks = [tick for tick in self._x_ticks if tick == round(tick)]
        if logarithmic:
            low, high = math.log10(min(ys)), math.log10(max(ys))
            pad = 0.04 * (high - low)
            self._ys = low - pad, high + pad
            powers = [10.0**k * m for k in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
            ticks = [tick for tick in powers if self._ys[0] <= math.log10(tick) <= self._ys[1]]
            self._y_ticks = [tick for tick in ticks if f"{tick:.0e}".startswith("1")] if len(ticks) > 7 else ticks
        else:
            self._ys, self._y_ticks = _range(min(ys), max(ys))

    def x(self, value: float) -> float:
        """Return the position of a value from left to right."""
        low, high = self._xs
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Return the position of a value from top to bottom."""
        low, high = self._ys
        value = math.log10(value) if self._log else value
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def svg(self, parts: Sequence[str], label: str) -> str:
        """Return the chart with its axes."""
        axes = []
        for tick in self._y_ticks:
            y = self.y(tick)
            axes.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            axes.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
        for tick in self._x_ticks:
            axes.append(f'<text x="{self.x(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:g}</text>')
        x_name, y_name = (text(name, 40) for name in self._names)
        middle = (TOP + HEIGHT - BOTTOM) / 2
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text(label)}">'
            f"{''.join(axes)}"
            f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM}"/>'
            f"{''.join(parts)}"
            f'<text class="name" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{x_name}</text>'
            f'<text class="name" transform="translate(13 {middle}) rotate(-90)" text-anchor="middle">{y_name}</text>'
            "</svg>"
        )


def _range(low: float, high: float, count: int = 5) -> tuple[tuple[float, float], list[float]]:
    """Return the ends of an axis for a range of values, and round numbers on it."""
    if high <= low:
        low, high = low - (abs(low) * 0.1 or 0.5), high + (abs(high) * 0.1 or 0.5)
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    pad = 0.03 * (high - low)
    return (low - (pad if low != 0 else 0), high + pad), [k * step for k in range(first, last + 1)]
