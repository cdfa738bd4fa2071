"""HTML representation of modules for notebooks."""

from html import escape
from typing import Any

import agrad
from agrad.nn.members import walk
from agrad.nn.parameter import is_parameter

_INSIDE = '<div style="margin-left:1.5em">'


def represent_html(root: Any) -> str:
    """Return a module as HTML that unfolds to its modules and Tensors.

    The names are the same as in ``repr`` and ``state_dict``. No values are read.
    """
    parts = list(walk(root, once=False))
    depths = [part.depth for part in parts[1:]] + [0]
    pieces = []
    for part, after in zip(parts, depths, strict=True):
        label = f"{part.key}: " if part.depth else ""
        if isinstance(part.value, agrad.Tensor):
            pieces.append(f"<div>{escape(label + _tensor(part.value))}</div>")
        elif after > part.depth:
            title = f"{label}{type(part.value).__name__}{_count(part.value)}"
            opened = "" if part.depth else ' open="open"'
            pieces.append(f'<details{opened}><summary style="cursor:pointer">{escape(title)}</summary>{_INSIDE}')
        else:
            pieces.append(f"<div>{escape(f'{label}{type(part.value).__name__}({part.value.settings()})')}</div>")
        pieces.append("</div></details>" * (part.depth - after))
    return f'<div style="font-size:13px">{"".join(pieces)}</div>'


def _count(module: Any) -> str:
    count = sum(tensor.size for tensor in module.parameters())
    return f", {count:,} parameters" if count else ""


def _tensor(tensor: agrad.Tensor) -> str:
    role = "" if is_parameter(tensor) else ", buffer"
    frozen = ", no gradient" if not role and not tensor.requires_grad else ""
    return f"{tuple(tensor.shape)} {tensor.dtype.name} on {tensor.device}{role}{frozen}"
