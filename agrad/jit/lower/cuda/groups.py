"""Launches of fusion groups: one kernel for one group, or for several.

Elementwise groups with the same text are one launch: the updates of all parameters, or the tests of all gradients.
"""

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from agrad.backends import load
from agrad.engine.operation import Operation
from agrad.jit.lower.cuda.elements import packed_strides
from agrad.jit.lower.cuda.rows import Layout, RowSource
from agrad.jit.lower.cuda.source import PACK_BYTES, GroupSource, Source
from agrad.jit.lower.cuda.streams import result_array
from agrad.jit.passes.aliasing import aliases_of, overwritten
from agrad.jit.passes.fusion import Group
from agrad.jit.passes.tiling import best_split, whole_row_splits
from agrad.jit.program import Instruction, Program, Variable
from agrad.kernels.cupy.elementwise import Part, compiled, launch_parts
from agrad.kernels.cupy.source import THREADS


def group_function(group: Group) -> Callable[..., tuple[Any, ...]]:
    """Return the function of a group, from its operands to its outputs.

    It launches one kernel, and a second one for totals over several blocks.
    """
    launches: dict[Any, Launch] = {}
    inputs = group.program.inputs
    arrays = [inputs.index(v) for v in Source(group).arrays]

    def run(*given: Any, **flags: Any) -> tuple[Any, ...]:
        layouts = tuple([_layout(given[i]) for i in arrays])
        if layouts not in launches:
            launches[layouts] = _launch([source_of(group, layouts)])
        return launches[layouts](given, [flags])

    return load("cupy").placed(run)


def source_of(group: Group, layouts: Sequence[Layout]) -> GroupSource | RowSource:
    """Return the CUDA source of a group for inputs with these layouts.

    An elementwise group reads arrays that are not contiguous, or computed where they are read, by rows, if these are
    short enough.
    """
    arrays = Source(group).arrays
    if group.split == len(group.shape):
        contiguous = all(at == Layout(packed_strides(v.shape), True) for v, at in zip(arrays, layouts, strict=True))
        splits = whole_row_splits(group.shape, np.dtype(bool)) - {len(group.shape)}
        if not group.ahead and (contiguous or not splits):
            return GroupSource(group)
        split = best_split(group.shape, splits) if splits else group.split
        group = Group(group.program, group.shape, split, ahead=group.ahead)
    return RowSource(group, dict(zip(arrays, layouts, strict=True)))


def _layout(x: Any) -> Layout:
    return Layout(tuple([s // x.itemsize for s in x.strides]), x.data.ptr % PACK_BYTES == 0)


Launch = Callable[[Sequence[Any], Sequence[Mapping[str, Any]]], tuple[Any, ...]]
"""Function from the operands and the keyword arguments of all groups to all outputs."""


def _launch(sources: Sequence[GroupSource | RowSource]) -> Launch:
    """Return the function that computes groups by one kernel, and completes totals by another.

    The groups have the same text, and are elementwise if they are several.
    """
    first, count = sources[0], len(sources)
    text = first.text(count)

    def launch(name: str, threads: int, parts: Sequence[Part]) -> None:
        if isinstance(first, GroupSource):
            launch_parts(compiled(text, name), count, parts)
        else:
            ((arguments, _, blocks),) = parts
            compiled(text, name)((blocks,), (threads,), tuple(arguments))

    def run(given: Sequence[Any], flags: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
        found: list[Any] = []
        parts: list[Part] = []
        ends: list[Part] = []
        rest = iter(given)
        for source, own in zip(sources, flags, strict=True):
            made, *more = _arguments(source, list(itertools.islice(rest, len(source.program.inputs))), own)
            found += [made[v] for v in source.program.outputs]
            for arguments, into, grid in zip(more, (parts, ends), (source.blocks, source.finishers), strict=True):
                if grid:
                    into.append((arguments, source.size, grid))
        launch(first.name, first.threads, parts)
        if ends:
            launch("finish", THREADS, ends)
        return tuple(found)

    return run


def _arguments(
    source: Source, given: list[Any], flags: Mapping[str, Any]
) -> tuple[dict[Variable, Any], list[Any], list[Any]]:
    """Return the results of a group, and the arguments of its two kernels."""
    places = {v: i for i, v in enumerate(source.program.inputs)}
    full = {places[v]: given[places[v]] for v in source.arrays}
    if isinstance(source, GroupSource):
        pack = source.pack if source.size >= source.pack else 1
        full = {i: _aligned(x, pack) for i, x in full.items()}
    over = {out: x for name, some in source.group.in_place.items() if flags[name] for out, x in some.items()}
    made = {
        # in place if the kernel can read the array itself
        v: given[over[k]] if k in over and full[over[k]] is given[over[k]] else result_array(v)
        for k, v in enumerate(source.program.outputs)
    }
    totals = [made[v] for v in source.totals]
    singles = [x for v in source.singles for x in _single(given[places[v]], v.on_host)]
    arguments = [*full.values(), *singles, *[made[v] for v in source.results]]
    if not source.finishers:
        return made, [*arguments, *totals], []
    partials = [sys.modules["cupy"].empty((source.blocks, *v.shape), v.dtype) for v in source.totals]
    return made, [*arguments, *partials], [*partials, *totals]


def _aligned(x: Any, pack: int) -> Any:
    """Return a C-contiguous array whose address is a multiple of the size of a pack."""
    x = sys.modules["cupy"].ascontiguousarray(x)
    return x.copy() if x.data.ptr % (pack * x.dtype.itemsize) else x


def _single(value: Any, on_host: bool) -> tuple[Any, ...]:
    """Return the kernel's arguments for a single value.

    An array is passed as a pointer. A host number is a null pointer and the number, or a pointer to it on the device
    and 0.
    """
    if not on_host:
        return (value,)
    if hasattr(value, "shape") and type(value).__module__ != "numpy":
        return (value, 0.0)
    return (0, float(value))


# ------------------------------------------------------------------ several groups


class HorizontalFusion(Operation):
    """Groups as one operation on the operands of all, with the results of all."""

    no_alias = True

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = groups
        self.name: str = f"joint[{len(groups)} {groups[0].name}]"
        starts = itertools.accumulate((len(group.program.inputs) for group in groups), initial=0)
        self.flags = {
            f"{name}_{k}": tuple([start + i for i in some])
            for k, (start, group) in enumerate(zip(starts, groups, strict=False))
            for name, some in group.flags.items()
        }
        self.overwrites: tuple[int, ...] = tuple(itertools.chain.from_iterable(self.flags.values()))
        self.outputs = tuple([f"output_{i}" for i in range(sum(len(group.program.outputs) for group in groups))])

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        launch = _launch([GroupSource(group) for group in self.groups])

        def run(*given: Any, **settings: Any) -> tuple[Any, ...]:
            flags = [{name: settings[f"{name}_{k}"] for name in group.flags} for k, group in enumerate(self.groups)]
            return launch(given, flags)

        return load("cupy").placed(run)


def _joint(parts: Sequence[Instruction]) -> Instruction:
    operands = [v for part in parts for v in part.operands]
    settings = {f"{name}_{k}": v for k, part in enumerate(parts) for name, v in part.settings.items()}
    outputs = [v for part in parts for v in part.outputs]
    return Instruction(HorizontalFusion([part.operation for part in parts]), tuple(operands), settings, tuple(outputs))


def with_horizontal_fusion(program: Program) -> Program:
    """Compute groups by one instruction, if their kernels have the same text.

    The instruction replaces the last group. No instruction before it may read the results, read memory that a group
    overwrites, or overwrite operands. Groups of inputs only, such as the roundings of all weights, come first.
    """
    groups = [i for i in program.instructions if isinstance(i.operation, Group)]
    flat = [i for i in groups if i.operation.split == len(i.operation.shape) and not i.operation.ahead]
    sources = {id(i): GroupSource(i.operation) for i in flat}
    left = Counter(source.functions for source in sources.values())
    aliases = aliases_of(program)
    kept: list[Instruction] = []
    waiting: list[list[Instruction]] = []
    known = {*program.inputs, *program.constants}

    def is_early(i: Instruction) -> bool:
        several = id(i) in sources and left[sources[id(i)].functions] > 1
        return several and not overwritten(i) and known.issuperset(i.reads())

    def release(parts: list[Instruction]) -> None:
        waiting.remove(parts)
        kept.append(_joint(parts) if len(parts) > 1 else parts[0])

    for instruction in sorted(program.instructions, key=lambda i: not is_early(i)):
        reads, over = aliases.of(*instruction.reads()), aliases.of(*overwritten(instruction))
        for parts in list(waiting):
            made = {v for part in parts for v in part.results}
            read = aliases.of(*[v for part in parts for v in part.reads()])
            written = aliases.of(*[v for part in parts for v in overwritten(part)])
            if not (reads.isdisjoint(made | written) and over.isdisjoint(read)):
                release(parts)
        source = sources.get(id(instruction))
        if source is None:
            kept.append(instruction)
            continue
        same = [parts for parts in waiting if sources[id(parts[0])].functions == source.functions]
        if same:
            same[0].append(instruction)
        else:
            waiting.append([instruction])
            same = waiting[-1:]
        left[source.functions] -= 1
        if not left[source.functions] or len(same[0]) == source.most:
            release(same[0])
    return program.with_instructions(kept)
