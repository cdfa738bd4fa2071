"""SVG figures: a graph in layers, and a flame graph of times."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

_LETTER = 6.2
"""The mean width of a letter in an 11-pixel font."""
_LINE = 14
_GAP = 34
_BAR = 20
_WIDTH = 960
_COLORS = {"forward": "#9ecae1", "tangent": "#a1d99b", "backward": "#fdae6b"}
_OTHER = "#d9d9d9"


class Box(NamedTuple):
    """A box of a graph, with arrows from its inputs."""

    number: int
    lines: list[str]
    inputs: list[int]
    """The numbers of other boxes, with arrows from boxes that are drawn."""
    leaf: bool
    output: bool


def _text(x: float, y: float, line: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(line)}</text>'


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="11" fill="#111">'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def layered(boxes: Sequence[Box]) -> str:
    """Return a graph as SVG, with each box one layer below the lowest of its inputs."""
    depth: dict[int, int] = {}
    layers: list[list[Box]] = []
    for box in boxes:
        depth[box.number] = 1 + max((depth[i] for i in box.inputs if i in depth), default=-1)
        layers += [[]] * (depth[box.number] == len(layers))
        layers[depth[box.number]] = [*layers[depth[box.number]], box]
    widths = {box.number: 16 + _LETTER * max(map(len, box.lines)) for box in boxes}
    whole = max((sum(widths[box.number] + 20 for box in layer) for layer in layers), default=0.0) + 20
    places: dict[int, tuple[float, float, float]] = {}
    parts = []
    y = 10.0
    for layer in layers:
        # in the order of the mean positions of the inputs, so that fewer arrows cross
        layer = sorted(layer, key=lambda box: _mean([places[i][0] for i in box.inputs if i in places], whole / 2))
        x = (whole - sum(widths[box.number] + 20 for box in layer)) / 2 + 10
        for box in layer:
            width, height = widths[box.number], 10.0 + _LINE * len(box.lines)
            places[box.number] = (x + width / 2, y, y + height)
            parts.append(_box(box, x, y, width, height))
            x += width + 20
        y = max(places[box.number][2] for box in layer) + _GAP
    arrows = []
    for box in boxes:
        x1, y1, _ = places[box.number]
        for x0, _, y0 in (places[i] for i in dict.fromkeys(box.inputs) if i in places):
            middle = (y0 + y1) / 2
            arrows.append(
                f'<path d="M{x0:.1f},{y0:.1f} C{x0:.1f},{middle:.1f} {x1:.1f},{middle:.1f} {x1:.1f},{y1 - 5:.1f} '
                f'm-3,-2 l3,6 l3,-6" fill="none" stroke="#888"/>'
            )
    return _svg(whole, max(y - _GAP + 10, 20), [*arrows, *parts])


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _box(box: Box, x: float, y: float, width: float, height: float) -> str:
    color, stroke = "#dbe9f6" if box.leaf else "#ffffff", 2.5 if box.output else 1
    lines = [_text(x + width / 2, y + 4 + _LINE * (k + 0.8), line) for k, line in enumerate(box.lines)]
    return (
        f'<g><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{0 if box.leaf else 8}" '
        f'fill="{color}" stroke="#444" stroke-width="{stroke}"/>{"".join(lines)}</g>'
    )


class Bar(NamedTuple):
    """A time with the names of all bars below it and its name."""

    path: tuple[str, ...]
    seconds: float
    calls: int


@dataclass
class _Flame:
    seconds: float = 0.0
    calls: int = 0
    parts: dict[str, "_Flame"] = field(default_factory=dict)


def flame(bars: Sequence[Bar]) -> str:
    """Return times as a flame graph in SVG, with the longest parts on the left."""
    root = _Flame()
    for bar in bars:
        here = root
        for name in bar.path:
            here = here.parts.setdefault(name, _Flame())
            here.seconds += bar.seconds
            here.calls += bar.calls
    levels = max((len(bar.path) for bar in bars), default=1)
    height = levels * _BAR
    whole = sum(part.seconds for part in root.parts.values())
    parts: list[str] = []

    def draw(here: _Flame, x: float, level: int, color: str) -> None:
        for name, part in sorted(here.parts.items(), key=lambda item: -item[1].seconds):
            width = _WIDTH * part.seconds / whole if whole else 0.0
            own = _COLORS.get(name, color) if level == 1 else color
            parts.append(_bar(name, part, (x, height - (level + 1) * _BAR, width), own))
            draw(part, x, level + 1, own)
            x += width

    draw(root, 0.0, 0, _OTHER)
    return _svg(_WIDTH, height, parts)


def _bar(name: str, part: _Flame, place: tuple[float, float, float], color: str) -> str:
    x, y, width = place
    room = int((width - 6) / _LETTER)
    shown = name if len(name) <= room else name[: room - 1] + "\u2026" if room > 3 else ""
    title = f"{name}: {part.seconds * 1e3:,.3f} ms, {part.calls:,} calls"
    label = _text(x + 3, y + 14, shown, "start") if shown else ""
    return (
        f'<g><title>{escape(title)}</title><rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_BAR - 1}" '
        f'fill="{color}" stroke="#fff" stroke-width="0.5"/>{label}</g>'
    )
