"""Move work out of a loop: compute it for all steps at once.

Elementwise operations and views of slices are computed on the stacked slices. Sums over the steps are computed from
stacked summands. Sums of products are computed from stacked factors, by one product.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from agrad.jit.lower.plain import evaluation
from agrad.jit.passes.cleanup import without_dead_code
from agrad.jit.passes.folding import Folded
from agrad.jit.program import Instruction, Program, Variable, works_by_element

SMALL = 1 << 13
"""The most bytes of an array of one step: for larger ones, a call of NumPy costs little."""

STACKED = 2
"""Stacked arrays that are added take at most this many times the memory of the slices."""


class Stack(NamedTuple):
    """The values of a variable in all steps: views of a slice or of a stacked result."""

    base: Variable
    views: tuple[Instruction, ...]


class Total(NamedTuple):
    """A carried value that is a sum over all steps, of a stack or of two multiplied."""

    carried: Variable
    parts: tuple[Stack, ...]


class Hoisted(NamedTuple):
    """The remaining step of a loop, and the computations before and after the loop."""

    program: Program
    before: list[Instruction]
    """Operations on stacked slices. Their results are further slices of the step."""
    totals: dict[int, Total]
    """By the number of the carried value, which the step does not carry."""


def hoisted(program: Program, fixed: int, carried: int, length: int | None) -> Hoisted:
    """Move work out of a loop.

    fixed, carried: the indices of these inputs of the step. The other inputs are slices.
    """
    if length is None:
        return Hoisted(program, [], {})
    edge = fixed + carried
    slices, known = set(program.inputs[edge:]), {*program.inputs[:fixed], *program.constants}
    left = STACKED * _bytes(slices)
    """The bytes that arrays of a step may add."""
    before: list[Instruction] = []
    rest: list[Instruction] = []
    for instruction in program.instructions:
        reads, is_view = set(instruction.reads()), _is_view(instruction)
        early = not slices.isdisjoint(reads) and reads <= slices | known and (is_view or _has_batch(instruction, left))
        (before if early else rest).append(instruction)
        if early:
            slices.update(instruction.results)
            left -= 0 if is_view else _bytes(instruction.results)
    inputs = [*program.inputs, *[v for i in before for v in i.results]]
    step = Program(inputs, program.constants, rest, program.outputs, program.notes)
    rows = list(program.outputs[carried:])
    totals: dict[int, Total] = {}
    for k in range(carried):
        found = _total(step, program.inputs[fixed + k], program.outputs[k])
        if found is not None:
            bases = {part.base for part in found.parts}
            new = bases.difference(slices, [v for v in rows if isinstance(v, Variable)])
            if bases.isdisjoint(known) and _bytes(new) <= left:
                totals[k] = found
                rows += sorted(new, key=lambda v: step.makers.get(v, -1))
                left -= _bytes(new)
    gone = {total.carried for total in totals.values()}
    after = [v for k, v in enumerate(program.outputs[:carried]) if k not in totals]
    step = Program([v for v in inputs if v not in gone], step.constants, rest, [*after, *rows], program.notes)
    if totals:  # operations before the loop read constants too
        step = without_dead_code(step)
        step = step.with_instructions(step.instructions, constants=program.constants)
    return Hoisted(step, before, totals)


def _bytes(values: Iterable[Variable]) -> int:
    return sum([v.nbytes for v in values])


def _on_numpy(*values: Any) -> bool:
    return all(isinstance(v, Variable) and v.on_numpy for v in values)


def _is_view(instruction: Instruction) -> bool:
    """Return True for a reshape or a transpose of one array."""
    reads = instruction.reads()
    fits = instruction.operation.kind in ("reshape", "transpose") and len(reads) == len(instruction.results) == 1
    return fits and reads[0].kind is instruction.results[0].kind is np.ndarray


def _has_batch(instruction: Instruction, most: int) -> bool:
    """Return True for an elementwise operation that one call computes for all steps.

    most: the maximum number of bytes of its result in a step.
    """
    if not works_by_element(instruction) or instruction.operation.has_effect or not instruction.operation.is_own:
        return False
    size = _bytes(instruction.results)
    settled = not any(isinstance(v, Variable) for v in instruction.settings.values())
    arrays = _on_numpy(*instruction.reads(), *instruction.results)
    return settled and arrays and size <= min(SMALL, most)


def _total(step: Program, carried: Variable, out: Any) -> Total | None:
    """Return the sum that computes a carried value, or None."""
    at = step.makers.get(out, -1) if _on_numpy(carried, out) else -1
    if at < 0 or step.uses[carried] != 1 or step.uses[out] != 1:
        return None
    instruction = step.instructions[at]
    operation = instruction.operation
    added = operation.outer if isinstance(operation, Folded) else operation
    if added.kind != "elementwise" or added.function_of(carried.kind) is not np.add or instruction.settings:
        return None
    if isinstance(operation, Folded):
        before, others, after = operation.split(instruction.operands)
        if operation.inner.kind != "product" or (*before, *after) != (carried,):
            return None
    else:
        others = tuple([v for v in instruction.operands if v is not carried])
        if len(others) != 1 or len(instruction.operands) != 2:
            return None
        maker = step.makers.get(others[0], -1) if isinstance(others[0], Variable) else -1
        inner = step.instructions[maker] if maker >= 0 else instruction
        is_product = inner.operation.kind == "product" and len(inner.operands) == 2 and not inner.settings
        others = inner.operands if is_product and step.uses[others[0]] == 1 else others
    if carried in others:
        return None
    dtypes = {np.dtype(v.dtype).char for v in (carried, out, *others)} if _on_numpy(*others) else set()
    if len(dtypes) != 1 or not dtypes <= set("fdFD"):
        return None
    is_sum = len(others) == 1 and others[0].shape == carried.shape == out.shape and out.nbytes <= SMALL
    is_product = len(others) == 2 == len(others[0].shape) == len(others[1].shape) and carried.shape == out.shape
    return Total(carried, tuple([_stack(step, v) for v in others])) if is_sum or is_product else None


def _stack(step: Program, v: Variable) -> Stack:
    views: list[Instruction] = []
    while (at := step.makers.get(v, -1)) >= 0 and _is_view(step.instructions[at]):
        views.insert(0, step.instructions[at])
        (v,) = views[0].reads()
    return Stack(v, tuple(views))


# ------------------------------------------------------------------ functions of stacked arrays


def batched(instruction: Instruction, stacked: list[bool]) -> Callable[..., Any]:
    """Return the function of an instruction for all steps.

    stacked: True for the operands that have an axis of steps.
    """
    function, (out,) = evaluation(instruction), instruction.results
    if instruction.operation.kind == "reshape":
        return lambda x: x.reshape(len(x), *out.shape)
    if instruction.operation.kind == "transpose":
        (x,) = instruction.reads()
        # axes of different lengths tell the order
        seen = function(np.empty(tuple(range(2, 2 + len(x.shape))), np.bool_), **instruction.settings).shape
        order = (0, *[n - 1 for n in seen])
        return lambda x: x.transpose(order)
    ranks = [len(out.shape) - len(v.shape) if s else 0 for v, s in zip(instruction.operands, stacked, strict=True)]

    def run(*given: Any) -> Any:
        aligned = [x.reshape(len(x), *(1,) * n, *x.shape[1:]) if n else x for x, n in zip(given, ranks, strict=True)]
        return function(*aligned, **instruction.settings)

    return run


def total_of(start: Any, *parts: np.ndarray) -> Any:
    """Return ``start`` and the sum of stacked summands, or of products of factors."""
    if len(parts) == 1:
        return start + np.add.reduce(parts[0], axis=0)
    a, b = parts
    return start + a.transpose(1, 0, 2).reshape(a.shape[1], -1) @ b.reshape(-1, b.shape[2])
