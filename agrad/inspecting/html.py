"""Values and tables as HTML, for notebooks.

The colours are those of the page around them, so that they can be read on white and on black.
"""

from collections.abc import Container, Sequence
from html import escape

from agrad.backends import backend_of
from agrad.dtypes import dtype_name
from agrad.engine.tensor import Tensor
from agrad.inspecting.text import device_name, several_lines

_CELL = "padding:2px 8px;border:1px solid #8884;vertical-align:top"


def preformatted(text: str) -> str:
    """Return lines of text with their spaces, in a small fixed font."""
    return f'<pre style="margin:4px 0;font-size:12px;overflow-x:auto;color:inherit">{escape(text)}</pre>'


def table(rows: Sequence[Sequence[str]], right: Container[int] = (), header: bool = True) -> str:
    """Return a table of texts.

    The first row is its header. The columns at ``right`` are justified right.
    """
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
    """Return HTML that shows only its title until it is opened."""
    return f'<details><summary style="cursor:pointer">{escape(title)}</summary>{content}</details>'


def represent_html(tensor: Tensor) -> str:
    """Implement ``Tensor._repr_html_``: a table of what a Tensor is, and its values.

    It reads no more than ``repr``: values of a lazy library are not computed, and of a large array only the edges are
    copied from the device.
    """
    try:
        raw = tensor.raw
    except AttributeError:  # a Tensor made by its class, without data
        return preformatted(repr(tensor))
    facts = [["shape", str(tuple(raw.shape))], ["dtype", dtype_name(raw.dtype)]]
    try:
        facts += [["backend", backend_of(raw).name], ["device", device_name(raw)]]
        values = several_lines(raw)[0]
    except Exception:  # inside another library's transform there are neither devices nor values
        values = f"<{type(raw).__name__}>"
    facts.append(["requires_grad", str(tensor.requires_grad)])
    names, found = zip(*facts, strict=True)
    return f"<div>{table([names, found])}{preformatted(values)}</div>"
