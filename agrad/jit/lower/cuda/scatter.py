"""Sums of parts at their positions, as statements that compute one element."""

import math
from collections.abc import Callable, Sequence

from agrad.jit.program import Instruction, Variable
from agrad.shapes import PartAxis, axes_of_part

MOST = 16
"""The most parts of a sum, each of which the text contains."""


def parts_of(instruction: Instruction) -> list[list[PartAxis]] | None:
    """Return the positions of each part of a sum of a few indexed parts, or None.


    No index may contain arrays.
    """
    operation, settings, parts = instruction.operation, instruction.settings, instruction.operands
    if not operation.is_own or operation.sparsity != "adds" or len(instruction.outputs) != 1:
        return None
    indices = settings["indices"] if "indices" in settings else (settings["index"],)
    out = instruction.outputs[0]
    if out is None or not out.size or len(parts) != len(indices) or len(parts) > MOST:
        return None
    found = [axes for index in indices if (axes := axes_of_part(index, out.shape)) is not None]
    wrong = any(not isinstance(v, Variable) or v.on_host or v.dtype != out.dtype for v in parts)
    return None if wrong or len(found) < len(parts) else found


def sum_of_parts(instruction: Instruction, reads: Sequence[Callable[[str], str]]) -> list[str]:
    """Return the statements that add the parts to ``sum`` at ``i0``, ``i1``, ...

    reads: for each part the function from the position of an element to its expression.
    """
    (out,), parts = instruction.results, instruction.operands
    lines = []
    for part, axes, read in zip(parts, parts_of(instruction) or (), reads, strict=True):
        tests, terms = [], []
        for a, axis in enumerate(axes):
            if out.shape[a] == 1:
                continue
            if axis.length == out.shape[a] and axis.step == 1:
                number = f"i{a}"
            else:
                first, step = axis.turned() if axis.step < 0 else (axis.start, axis.step)
                past = f"i{a} - {first}"
                tests += [f"i{a} >= {first}", f"i{a} <= {first + (axis.length - 1) * step}"]
                tests += [f"({past}) % {step} == 0"] if step > 1 else []
                number = f"({past}) / {step}" if step > 1 else f"({past})"
                number = number if axis.step > 0 else f"({axis.length - 1} - {number})"
            if axis.part_axis >= 0:
                terms.append(f"{number} * {math.prod(part.shape[axis.part_axis + 1 :])}")
        add = f"sum += {read(' + '.join(terms) or '0')};"
        empty = not part.size
        lines += [] if empty else [f"if ({' && '.join(tests)}) {add}" if tests else add]
    return lines
