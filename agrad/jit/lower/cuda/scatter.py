"""Sums of parts at their positions in an array, as one kernel."""

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agrad.backends import load
from agrad.jit.lower.cuda.streams import result_array
from agrad.jit.program import Instruction, Variable

MOST = 16
"""The most parts of a kernel, whose text contains each part."""


class _Axis(NamedTuple):
    """The positions ``start + k * step`` along an axis, for ``k`` below ``length``. part_axis: the axis of the part."""

    start: int
    step: int
    length: int
    part_axis: int


def scatter_function(instruction: Instruction) -> Callable[..., Any] | None:
    """Return the function of a sum of a few indexed parts, or None.

    No index may contain arrays.
    """
    operation, settings, parts = instruction.operation, instruction.settings, instruction.operands
    if not operation.is_own or operation.sparsity != "adds" or len(instruction.outputs) != 1:
        return None
    indices = settings["indices"] if "indices" in settings else (settings["index"],)
    out = instruction.outputs[0]
    if out is None or not out.size or len(parts) != len(indices) or len(parts) > MOST:
        return None
    found = [_axes(index, out.shape) for index in indices]
    if any(not isinstance(v, Variable) or v.on_host or v.dtype != out.dtype for v in parts) or None in found:
        return None
    text = _text(out.shape, [v.shape for v in parts], [axes for axes in found if axes is not None])
    inputs = ", ".join(f"raw T p{k}" for k in range(len(parts)))
    kernels: list[Any] = []

    def run(*given: Any, **settings: Any) -> Any:
        cupy = sys.modules["cupy"]
        if not kernels:
            kernels.append(cupy.ElementwiseKernel(inputs, "T y", text, "agrad_scatter"))
        return kernels[0](*given, result_array(out))

    return load("cupy").placed(run)


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


def _text(shape: Sequence[int], parts: Sequence[Sequence[int]], places: Sequence[list[_Axis]]) -> str:
    """Return the statements that compute element ``i`` of the sum."""
    lines = []
    for a, n in enumerate(shape):
        below = math.prod(shape[a + 1 :])
        lines.append(f"const ptrdiff_t i{a} = i / {below}{f' % {n}' if a else ''};")
    lines.append("T sum = T(0);")
    for k, (part, axes) in enumerate(zip(parts, places, strict=True)):
        tests, terms = [], ["0"]
        for a, axis in enumerate(axes):
            if axis.length == shape[a] and axis.step == 1:
                number = f"i{a}"
            else:
                first, step = (axis.start, axis.step) if axis.step > 0 else _turned(axis)
                past = f"i{a} - {first}"
                tests += [f"i{a} >= {first}", f"i{a} <= {first + (axis.length - 1) * step}"]
                tests += [f"({past}) % {step} == 0"] if step > 1 else []
                number = f"({past}) / {step}" if step > 1 else f"({past})"
                number = number if axis.step > 0 else f"({axis.length - 1} - {number})"
            if axis.part_axis >= 0:
                terms.append(f"{number} * {math.prod(part[axis.part_axis + 1 :])}")
        add = f"sum += p{k}[{' + '.join(terms)}];"
        lines.append(f"if ({' && '.join(tests)}) {add}" if tests else add)
    return "\n".join([*lines, "y = sum;"])


def _turned(axis: _Axis) -> tuple[int, int]:
    """Return the lowest position of a descending axis, and its positive step."""
    return axis.start + (axis.length - 1) * axis.step, -axis.step
