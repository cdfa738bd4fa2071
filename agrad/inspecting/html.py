"""Values and tables as HTML for notebooks, in the colors of the page."""

from collections.abc import Container, Sequence
from html import escape

from agrad.backends import backend_of
from agrad.dtypes import dtype_name
from agrad.engine.tensor import Tensor
from agrad.inspecting.text import device_name, several_lines

_CELL = "padding:2px 8px;border:1px solid #8884;vertical-align:top"


def preformatted(text: str) -> str:
    """Return text in a small monospaced font."""
    return f'<pre style="margin:4px 0;font-size:12px;overflow-x:auto;color:inherit">{escape(text)}</pre>'


def table(rows: Sequence[Sequence[str]], right: Container[int] = (), header: bool = True) -> str:
    """Return a table with a header row, and with columns at ``right`` right-aligned."""
    lines = []
    for k, row in enumerate(rows):
        tag = "th" if header and not k else "td"
        cells = (
            f'<{tag} style="{_CELL};text-align:{"right" if i in right else "left"}">{escape(cell)}</{tag}>'
            for i, cell in enumerate(row)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<table style="border-collapse:collapse;font-size:12px">{"".join(lines)}</table>'


def folded(title: str, content: str) -> str:
    """Return HTML that shows only its title until the user opens it."""
    return f'<details><summary style="cursor:pointer">{escape(title)}</summary>{content}</details>'


def represent_html(tensor: Tensor) -> str:
    """Implement ``Tensor._repr_html_``: properties as a table, and values."""
    try:
        raw = tensor.raw
    except AttributeError:  # a Tensor without data
        return preformatted(repr(tensor))
    facts = [["shape", str(tuple(raw.shape))], ["dtype", dtype_name(raw.dtype)]]
    try:
        facts += [["backend", backend_of(raw).name], ["device", device_name(raw)]]
        values = several_lines(raw)[0]
    except Exception:  # inside a transform of another library
        values = f"<{type(raw).__name__}>"
    facts.append(["requires_grad", str(tensor.requires_grad)])
    names, found = zip(*facts, strict=True)
    return f"<div>{table([names, found])}{preformatted(values)}</div>"
