"""Decomposition: operations replaced by the operations of their definition.

The body of a primitive, a rule or an update runs in the agrad namespace on arrays with the shapes and dtypes of the
operands, whose elements are all one number in memory. Nothing is computed for each element.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from agrad.engine.scalars import TracedNumber
from agrad.engine.tensor import Tensor, wrap
from agrad.errors import TracedValueError
from agrad.jit.passes.algebra import without_broadcasts
from agrad.jit.passes.aliasing import overwritten
from agrad.jit.passes.fusion import LARGE, Group
from agrad.jit.passes.tiling import is_reshape, reduction_of, splits_of
from agrad.jit.program import Instruction, Program, Variable, rule_of, works_by_element
from agrad.jit.trace import Trace, shape_of_result
from agrad.registry import namespace


class _Unknown(Exception):
    """Raised for operations whose result's shape is unknown."""


class Shapes(Trace):
    """A trace that evaluates only shapes and dtypes."""

    def evaluate(self, primitive: Any, values: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Return an array with the result's dtype and shape, and other elements."""
        if primitive.is_own and primitive.sparsity == "adds":
            return filled(np.ones(1, values[0].dtype), settings["shape"])
        shape = shape_of_result(primitive, values, settings)
        if shape is None and primitive.is_view:
            return primitive.evaluate(values, settings)
        if shape is None:
            raise _Unknown
        elements = [np.ones((1,) * v.ndim, v.dtype) if hasattr(v, "shape") else v for v in values]
        with np.errstate(all="ignore"):
            out = primitive.evaluate(tuple(elements), settings)
        return filled(out, shape) if shape else out


def filled(element: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array whose elements are one number in memory.

    ``numpy.broadcast_to`` needs ten times as long.
    """
    return np.ndarray(shape, element.dtype, element, strides=(0,) * len(shape))


def body_of(instruction: Instruction) -> Program | None:
    """Return the operations of an instruction's definition as a program, or None.

    There is none if the operation is a single library function, has several results, reads host numbers, or needs more
    than shapes and dtypes.
    """
    operation = instruction.operation
    arrays = list(dict.fromkeys(instruction.reads()))
    kinds = {v.kind for v in arrays}
    on_numpy = all(v.on_numpy for v in arrays)
    if operation.outputs is not None or not arrays or not (on_numpy or (len(kinds) == 1 and None not in kinds)):
        return None
    trace, out = _definition(instruction)
    if not isinstance(out, Tensor) or out.node is None or out.node in arrays:
        return None
    constants = {variable: raw for raw, variable in trace.constants.values()}
    if not on_numpy:
        if constants:
            return None
        for v in [v for part in trace.instructions for v in part.results]:
            v.kind = arrays[0].kind
    body = Program(arrays, constants, trace.instructions, [out.node])
    return without_broadcasts(body) if constants else body


def _definition(instruction: Instruction) -> tuple[Trace, Any]:
    """Return the trace and result of a definition, None if it needs values."""
    trace = Shapes(instruction.name)

    def given(v: Any) -> Any:
        return wrap(filled(np.ones(1, v.dtype), v.shape), trace, v) if isinstance(v, Variable) else v

    settings = {
        # any number at which no formula branches
        name: TracedNumber(0.5, trace, v) if isinstance(v, Variable) and v.on_host and name != "donate" else v
        for name, v in instruction.settings.items()
    }
    try:
        out = instruction.operation.decomposed(namespace, tuple(map(given, instruction.operands)), settings)
    except (_Unknown, TracedValueError):
        out = None
    finally:
        trace.closed = True
    return trace, out


def in_place_of(instruction: Instruction, body: Program) -> list[Instruction]:
    """Return the body's instructions, which assign the instruction's own result."""
    (made,), (out,) = body.outputs, instruction.results
    return [i.replaced({made: out}).giving(*[out if v is made else v for v in i.outputs]) for i in body.instructions]


# ------------------------------------------------------------------ the passes


Test = Callable[[Instruction], bool]


def decomposed(
    minimum: int = LARGE, fits: Test | None = None, unless: Test = lambda i: False, rules: bool = False
) -> Callable[[Program], Program]:
    """Return the pass that decomposes operations on arrays of ``minimum`` bytes.

    fits: a test for the instructions of a definition, by default true for those that fit groups of rows on NumPy.
    unless: a test for operations that are kept, such as those with a kernel. rules: decompose the rules of such
    operations, too.
    """
    fits = fits or _is_of_rows

    def write_out(program: Program) -> Program:
        kept: list[Instruction] = []
        constants = program.constants
        for instruction in program.instructions:
            body = None
            rule = rule_of(instruction) if rules and instruction.operation.kind != "elementwise" else None
            operation = instruction.operation if rule is None else rule[0]
            if operation.decompose and not unless(instruction):
                body = _parts(instruction, minimum, fits)
            if body is None:
                kept.append(instruction)
            else:
                kept += in_place_of(instruction, body)
                constants = constants | body.constants
        return program.with_instructions(kept, constants=None if constants is program.constants else constants)

    return write_out


def _parts(instruction: Instruction, minimum: int, fits: Test) -> Program | None:
    """Return the body of an operation on large arrays, or None.

    All its instructions must fit. For a product, only the instructions that read the result must.
    """
    is_product = instruction.operation.kind == "product"
    arrays = [v for v in (*(() if is_product else instruction.reads()), *instruction.results) if not v.on_host]
    if max([v.nbytes for v in arrays], default=0) < minimum:
        return None
    body = body_of(instruction)
    return body if body is not None and all(map(fits, body.instructions)) else None


def _is_of_rows(part: Instruction) -> bool:
    """Return True for a product, or a part that fits a group of rows.

    The numbers are real, with single precision or more.
    """
    dtypes = {np.dtype(v.dtype) for v in (*part.reads(), *part.results)} - {np.dtype(bool)}
    if len(dtypes) != 1 or (dtype := dtypes.pop()).kind != "f" or dtype.itemsize < 4:
        return False
    reduction = reduction_of(part)
    if reduction is not None:
        shape = part.operands[0].shape
        return min(reduction.axis) >= min(splits_of(shape, dtype), default=len(shape))
    return works_by_element(part) or is_reshape(part) or part.operation.kind == "product"


def with_early_reductions(program: Program) -> Program:
    """Move reductions directly after their operand, to be in the operand's group."""
    reductions = [i for i in program.instructions if reduction_of(i) is not None]
    if not reductions:
        return program
    early: dict[Variable, list[Instruction]] = {}
    for instruction in reductions:
        if instruction.operands[0] in program.makers:
            early.setdefault(instruction.operands[0], []).append(instruction)
    moved = {id(instruction) for found in early.values() for instruction in found}
    kept: list[Instruction] = []
    for instruction in program.instructions:
        todo = [] if id(instruction) in moved else [instruction]
        while todo:
            kept.append(todo.pop())
            todo += reversed([reduction for v in kept[-1].results for reduction in early.get(v, ())])
    return program.with_instructions(kept)


def with_late_views(program: Program) -> Program:
    """Move views of arrays directly before their first reader, or to the end.

    The group that computes the array then need not end because of a view of it.
    """
    waiting: dict[Variable, Instruction] = {}
    kept: list[Instruction] = []
    for instruction in program.instructions:
        if overwritten(instruction):
            _release(list(waiting), waiting, kept)
        if instruction.operation.kind in ("reshape", "broadcast") and len(instruction.results) == 1:
            waiting[instruction.results[0]] = instruction
        else:
            if waiting:
                _release(instruction.reads(), waiting, kept)
            kept.append(instruction)
    _release(list(waiting), waiting, kept)
    return program.with_instructions(kept)


def _release(variables: Iterable[Variable], waiting: dict[Variable, Instruction], kept: list[Instruction]) -> None:
    """Keep the waiting instructions that make some variables, and those that make what they read."""
    for v in variables:
        if (instruction := waiting.pop(v, None)) is not None:
            _release(instruction.reads(), waiting, kept)
            kept.append(instruction)


# ------------------------------------------------------------------ updates


def with_updates_as_groups(program: Program) -> Program:
    """Replace updates by groups of the operations of their definition."""
    kept: list[Instruction] = []
    for instruction in program.instructions:
        kept += (_group(instruction) if instruction.operation.is_update else None) or [instruction]
    return program.with_instructions(kept)


def _group(instruction: Instruction) -> list[Instruction] | None:
    """Return the computations on host numbers in an update, then the group of the others, or None.

    None means that no group can contain the arrays, or that host numbers decide which operations run.
    """
    arrays, operation = instruction.operands, instruction.operation
    first = arrays[0]
    alike = all(isinstance(v, Variable) and (v.shape, v.dtype) == (first.shape, first.dtype) for v in arrays)
    if not alike or not first.size or np.dtype(first.dtype).char not in "fd":
        return None
    trace, found = _definition(instruction)
    if found is None:
        return None
    on_host = [part for part in trace.instructions if part.on_host]
    members = [part for part in trace.instructions if not part.on_host]
    made = {v for part in members for v in part.results}
    for v in made:
        v.kind = first.kind
    inputs = list(dict.fromkeys(v for part in members for v in part.reads() if v not in made))
    triples = zip(found, instruction.outputs, operation.overwrites, strict=True)
    used = [(new.node, out, arrays[place]) for new, out, place in triples if out is not None]
    if trace.guards or trace.constants or any(new not in made for new, *_ in used):
        return None
    donate = instruction.settings["donate"]
    flags = {"donate0": donate} if isinstance(donate, Variable) else {}
    in_place = {name: {k: inputs.index(x) for k, (*_, x) in enumerate(used)} for name in flags}
    group = Group(Program(inputs, {}, members, [new for new, *_ in used]), first.shape, in_place=in_place)
    return [*on_host, Instruction(group, tuple(inputs), dict(flags), tuple([out for _, out, _ in used]))]
