"""Launches of fusion groups: one kernel for one group, or for several.

Groups whose kernels differ in sizes alone are one launch: the updates of all parameters, or the tests of all gradients.
"""

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from agrad.backends import load
from agrad.engine.operation import Operation
from agrad.jit.lower.cuda.source import THREADS, GroupSource, kernel_name
from agrad.jit.lower.cuda.streams import module
from agrad.jit.passes.aliasing import aliases_of, overwritten
from agrad.jit.passes.fusion import Group
from agrad.jit.program import Instruction, Program, Variable

ARGUMENT_BYTES = 4096
"""The most bytes of a kernel's arguments."""


def group_function(group: Group) -> Callable[..., tuple[Any, ...]]:
    """Return the function of a group. It takes the operands and returns the outputs.

    It launches one kernel, and a second one if the group reduces.
    """
    launch = _launcher([GroupSource(group)])
    return load("cupy").placed(lambda *given, **flags: launch(given, [flags]))


def _launcher(
    sources: Sequence[GroupSource],
) -> Callable[[Sequence[Any], Sequence[Mapping[str, Any]]], tuple[Any, ...]]:
    """Return the function that computes groups with the same functions by one kernel.

    It takes the operands of all groups and the settings of each, and returns all outputs.
    """
    name, text = kernel_name(sources), sources[0].joined(sources)
    blocks = sum(source.blocks for source in sources)

    def run(given: Sequence[Any], flags: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
        found: list[Any] = []
        arguments: list[Any] = []
        ends: list[Any] = []
        rest = iter(given)
        for source, own in zip(sources, flags, strict=True):
            made, *more = _arguments(source, list(itertools.islice(rest, len(source.program.inputs))), own)
            found += [made[v] for v in source.program.outputs]
            arguments += more[0]
            ends += more[1]
        kernels = module(text)
        kernels.get_function(name)((blocks,), (THREADS,), tuple(arguments))
        if ends:
            kernels.get_function("finish")((len(sources),), (THREADS,), tuple(ends))
        return tuple(found)

    return run


def _arguments(
    source: GroupSource, given: list[Any], flags: Mapping[str, Any]
) -> tuple[dict[Variable, Any], list[Any], list[Any]]:
    """Return the results of a group, and the arguments of its two kernels."""
    cupy = sys.modules["cupy"]
    places = {v: i for i, v in enumerate(source.program.inputs)}
    pack = source.pack if source.size >= source.pack else 1
    full = {places[v]: _aligned(given[places[v]], pack) for v in source.arrays}
    over = {out: x for name, some in source.group.in_place.items() if flags[name] for out, x in some.items()}
    made = {
        # in place where the kernel can read the array itself
        v: given[over[k]] if k in over and full[over[k]] is given[over[k]] else cupy.empty(v.shape, v.dtype)
        for k, v in enumerate(source.program.outputs)
    }
    partials = [cupy.empty((source.blocks,), v.dtype) for v in source.totals]
    singles = [x for v in source.singles for x in _single(given[places[v]], v.on_host)]
    arguments = [*full.values(), *singles, *[made[v] for v in source.results], *partials]
    return made, arguments, [*partials, *[made[v] for v in source.totals]]


def _aligned(x: Any, pack: int) -> Any:
    """Return a C-contiguous array whose address is a multiple of the size of a pack."""
    x = sys.modules["cupy"].ascontiguousarray(x)
    return x.copy() if x.data.ptr % (pack * x.dtype.itemsize) else x


def _single(value: Any, on_host: bool) -> tuple[Any, ...]:
    """Return the kernel's arguments for a single value.

    An array is a pointer. A host number is a null pointer and the number, or a pointer to it on the device and 0.
    """
    if not on_host:
        return (value,)
    if hasattr(value, "shape") and type(value).__module__ != "numpy":
        return (value, np.float64(0))
    return (np.uint64(0), np.float64(value))


# ------------------------------------------------------------------ several groups


class JointGroups(Operation):
    """Groups as one operation on the operands of all, with the results of all."""

    no_alias = True

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = groups
        self.name = f"joint[{len(groups)} {groups[0].name}]"
        starts = itertools.accumulate((len(group.program.inputs) for group in groups), initial=0)
        self.flags = {
            f"{name}_{k}": tuple([start + i for i in some])
            for k, (start, group) in enumerate(zip(starts, groups, strict=False))
            for name, some in group.flags.items()
        }
        self.overwrites = tuple(itertools.chain.from_iterable(self.flags.values()))
        self.outputs = tuple([f"output_{i}" for i in range(sum(len(group.program.outputs) for group in groups))])

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        launch = _launcher([GroupSource(group) for group in self.groups])

        def run(*given: Any, **settings: Any) -> tuple[Any, ...]:
            flags = [{name: settings[f"{name}_{k}"] for name in group.flags} for k, group in enumerate(self.groups)]
            return launch(given, flags)

        return load("cupy").placed(run)


def _joint(parts: Sequence[Instruction]) -> Instruction:
    operands = [v for part in parts for v in part.operands]
    settings = {f"{name}_{k}": v for k, part in enumerate(parts) for name, v in part.settings.items()}
    outputs = [v for part in parts for v in part.outputs]
    return Instruction(JointGroups([part.operation for part in parts]), tuple(operands), settings, tuple(outputs))


def with_joint_groups(program: Program) -> Program:
    """Compute groups by one instruction, if their kernels differ in sizes alone.

    It stands in the place of the last one.

    None of them may be needed before: neither its results, nor memory that it overwrites, nor the memory that another
    instruction overwrites in which its operands lie.
    """
    sources = {id(i): GroupSource(i.operation) for i in program.instructions if isinstance(i.operation, Group)}
    left = Counter(source.functions for source in sources.values())
    aliases = aliases_of(program)
    kept: list[Instruction] = []
    waiting: list[list[Instruction]] = []

    def release(parts: list[Instruction]) -> None:
        waiting.remove(parts)
        kept.append(_joint(parts) if len(parts) > 1 else parts[0])

    for instruction in program.instructions:
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
        bytes_of_one = 8 * len(source.given)
        if not left[source.functions] or (len(same[0]) + 1) * bytes_of_one > ARGUMENT_BYTES:
            release(same[0])
    return program.with_instructions(kept)
