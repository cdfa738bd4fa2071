"""Sums of parts at their positions, as statements that compute one element."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agrad.jit.program import Instruction, Variable

MOST = 16
"""The most parts of a sum, each of which the text contains."""


class _Axis(NamedTuple):
    """The positions ``start + k * step`` along an axis, for ``k`` below ``length``. part_axis: the axis of the part."""

    start: int
    step: int
    length: int
    part_axis: int


def parts_of(instruction: Instruction) -> list[list[_Axis]] | None:
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
    found = [axes for index in indices if (axes := _axes(index, out.shape)) is not None]
    wrong = any(not isinstance(v, Variable) or v.on_host or v.dtype != out.dtype for v in parts)
    return None if wrong or len(found) < len(parts) else found


def _axes(index: tuple[Any, ...], shape: tuple[int, ...]) -> list[_Axis] | None:
    """Return the positions of a part along each axis, or None if the index is not numbers and slices only."""
    if not all(entry is None or entry is Ellipsis or type(entry) in (int, slice) for entry in index):
        return None
    named = sum(type(entry) in (int, slice) for entry in index)
    whole = [slice(None)] * (len(shape) - named)
    at = next((k for k, entry in enumerate(index) if entry is Ellipsis), len(index))
    found: list[_Axis] = []
    part_axis = 0
    for entry in (*index[:at], *whole, *index[at + 1 :]):
        if entry is not None:
            n = shape[len(found)]
            if type(entry) is int:
                found.append(_Axis(entry % n, 1, 1, -1))
                continue
            places = range(n)[entry]
            found.append(_Axis(places.start, places.step, len(places), part_axis))
        part_axis += 1
    return found


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
                first, step = (axis.start, axis.step) if axis.step > 0 else _turned(axis)
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


def _turned(axis: _Axis) -> tuple[int, int]:
    """Return the lowest position of a descending axis, and its positive step."""
    return axis.start + (axis.length - 1) * axis.step, -axis.step
