"""Simpler operations that return the same bits.

Operations read the operand of a broadcast, factors that are numbers are multiplied in advance, cotangents of one slice
are added before the others, and matrices of one row or column are multiplied as vectors.
"""

import math
from typing import Any

import numpy as np

from agrad.jit.passes.cleanup import values_of_constants
from agrad.jit.passes.tiling import SCATTER_SUM, is_cast
from agrad.jit.program import Instruction, Program, Variable, rule_of, works_by_element
from agrad.ops import elementwise

ADD, MULTIPLY, NEGATIVE, POWER, SQUARE = (
    f.primitive
    for f in (elementwise.add, elementwise.multiply, elementwise.negative, elementwise.pow, elementwise.square)
)


def simplified(program: Program) -> Program:
    """Remove factors of one and copies, and replace second powers by squares.

    The results have the same bits, or the bits of the operator that an ordinary run uses. An instruction whose result
    is an output is kept, because no two outputs, and no output and input, may be the same array.
    """
    leaving = {v for v in program.outputs if isinstance(v, Variable)}
    table: dict[Variable, Any] = {}
    kept: list[Instruction] = []
    for instruction in program.instructions:
        if table:
            instruction = instruction.replaced(table)
        operation, out = instruction.operation, instruction.outputs[0]
        if operation.kind not in ("reshape", "elementwise") or getattr(operation, "primitive", POWER) is not POWER:
            kept.append(instruction)
            continue
        same = _same_as_result(instruction, program) if out is not None and out not in leaving else None
        if same is None:
            kept += _without_powers(instruction, program)
        else:
            table[instruction.results[0]] = same
    return program.with_instructions(kept)


def _same_as_result(instruction: Instruction, program: Program) -> Variable | None:
    """Return the operand that a reshape, a cast or a product with one returns bit for bit, or None."""
    operation, operands, out = instruction.operation, instruction.operands, instruction.outputs[0]
    found: tuple[Any, ...] = ()
    if operation is MULTIPLY:
        found = tuple([x for x, one in (operands, operands[::-1]) if _is_one(one, program)])
    elif operation.kind == "reshape" or is_cast(instruction):
        found = operands
    alike = [v for v in found if isinstance(v, Variable) and _kind(v) == _kind(out)]
    return alike[0] if alike else None


def _kind(v: Variable | None) -> tuple[Any, ...]:
    return () if v is None else (v.shape, v.dtype, v.kind)


def _is_one(value: Any, program: Program) -> bool:
    raw: Any = program.constants.get(value) if isinstance(value, Variable) else value
    return (isinstance(raw, (int, float)) or np.shape(raw) == ()) and bool(raw == 1)


def _without_powers(instruction: Instruction, program: Program) -> list[Instruction]:
    """Return a square for a second power, two products for its derivative, or the instruction."""
    is_power = instruction.operation is POWER
    if not is_power and rule_of(instruction) != (POWER, "vjp:x1"):
        return [instruction]
    (*g, x, power), out = instruction.operands, instruction.outputs[0]
    if type(power) not in (int, float) or power != 2 or out is None or not isinstance(x, Variable):
        return [instruction]
    arrays = instruction.reads()
    if x.shape != out.shape or any(v.dtype != out.dtype for v in arrays) or np.dtype(out.dtype).kind not in "fc":
        return [instruction]
    if is_power:
        return [Instruction(SQUARE, (x,), {}, instruction.outputs)]
    if _is_one(g[0], program):
        return [Instruction(MULTIPLY, (power, x), {}, instruction.outputs)]
    double = x.twin()
    product = Instruction(MULTIPLY, (power, x), {}, (double,))
    return [product, Instruction(MULTIPLY, (*g, double), {}, instruction.outputs)]


# ------------------------------------------------------------------ factors and slices


def with_fewer_factors(program: Program) -> Program:
    """Multiply exact factors in advance, and add the parts of one slice first.

    ``-(2 * x)`` becomes ``-2 * x``, and ``(3 * x) * -y`` becomes ``(-3 * x) * y``. A factor has the same effect before
    and after a rounding, unless a result on the way overflows or is subnormal.
    """
    factors: dict[Variable, tuple[float, Variable]] = {}
    """The number and the array whose product a variable is."""
    kept: list[Instruction] = []
    for instruction in program.instructions:
        operation = instruction.operation
        if operation is SCATTER_SUM:
            kept += _with_parts_added(instruction)
        elif operation is MULTIPLY or operation is NEGATIVE:
            kept += _with_factors_joined(instruction, factors, program)
        else:
            kept.append(instruction)
    return program.with_instructions(kept)


def _with_factors_joined(
    instruction: Instruction, factors: dict[Variable, tuple[float, Variable]], program: Program
) -> list[Instruction]:
    (out,) = instruction.results
    scaled = _factor_of(instruction, program)
    if scaled is not None:
        number, x = scaled
        inner, base = factors.get(x, (0.0, x))
        if (joined := _joined(number, inner, out)) is not None:
            number, x, instruction = joined, base, Instruction(MULTIPLY, (joined, base), {}, (out,))
        factors[out] = number, x
        return [instruction]
    pairs = [factors[v] for v in instruction.operands if v in factors and program.uses[v] == 1]
    if len(pairs) < 2:
        return [instruction]
    (m, x), (n, y) = sorted(pairs, key=lambda pair: _is_power(pair[0]))
    if x.dtype != y.dtype or (joined := _joined(m, n, out)) is None:
        return [instruction]
    first = x.twin()
    return [Instruction(MULTIPLY, (joined, x), {}, (first,)), Instruction(MULTIPLY, (first, y), {}, (out,))]


def _factor_of(instruction: Instruction, program: Program) -> tuple[float, Variable] | None:
    """Return the number and the real array that an instruction multiplies, or None."""
    (out,) = instruction.results
    a, b = instruction.operands if instruction.operation is MULTIPLY else (-1.0, *instruction.operands)
    for x, number in ((a, b), (b, a)):
        raw = program.constants.get(number) if isinstance(number, Variable) else number
        if isinstance(x, Variable) and isinstance(raw, (float, np.floating, int)) and _kind(x) == _kind(out):
            return (float(raw), x) if np.dtype(x.dtype).kind == "f" and float(raw) == raw else None
    return None


def _is_power(number: float) -> bool:
    return math.frexp(abs(number))[0] == 0.5


def _joined(m: float, n: float, like: Variable) -> float | None:
    """Return the product of two factors, or None if it may round, or does not fit the dtype."""
    limits = np.finfo(like.dtype)
    fits = all(float(limits.tiny) <= abs(number) <= float(limits.max) for number in (m, n, m * n))
    return m * n if fits and (_is_power(m) or _is_power(n)) else None


def _with_parts_added(instruction: Instruction) -> list[Instruction]:
    """Return additions of the parts of a sum of slices that have the same index, and the sum of the others."""
    parts: list[Variable] = []
    indices: list[Any] = []
    added: list[Instruction] = []
    for part, index in zip(instruction.operands, instruction.settings["indices"], strict=True):
        place = indices.index(index) if index in indices else len(parts)
        if _kind(part) not in map(_kind, parts[place : place + 1]):
            parts.append(part)
            indices.append(index)
        else:
            both = part.twin()
            added.append(Instruction(ADD, (parts[place], part), {}, (both,)))
            parts[place] = both
    settings = {**instruction.settings, "indices": tuple(indices)}
    return [*added, Instruction(SCATTER_SUM, tuple(parts), settings, instruction.outputs)] if added else [instruction]


# ------------------------------------------------------------------ broadcasts


def without_broadcasts(program: Program) -> Program:
    """Let elementwise operations read an array instead of its broadcast.

    Another operand must have the shape of the result. A constant that holds one value everywhere counts as the
    broadcast of that value (the seed of a cotangent, the zeros of a branch). An operation that reads
    only broadcasts is computed before them, and at once if they are constants. Unused broadcasts are dead code.
    """
    narrow: dict[Variable, Variable] = {}
    constants = dict(program.constants)
    for v, raw in program.constants.items():
        if isinstance(raw, np.ndarray) and raw.ndim and raw.size > 1 and _is_filled(raw):
            value = raw.reshape(-1)[0]
            narrow[v] = held = Variable((), raw.dtype, type(value))
            constants[held] = value
    kept: list[Instruction] = []
    for instruction in program.instructions:
        kept.append(instruction)
        if instruction.operation.kind != "broadcast" and narrow.keys().isdisjoint(instruction.reads()):
            continue
        if instruction.operation.kind == "broadcast":
            (x,), (out,) = instruction.operands, instruction.outputs
            if out is not None and out.size and out.shape and isinstance(x, Variable):
                narrow[out] = narrow.get(x, x)
        elif works_by_element(instruction):
            (out,) = instruction.results
            arrays = instruction.arrays
            if out.shape and all(narrow.get(v, v).shape == () for v in arrays):
                # NumPy returns scalars, other libraries arrays without dimensions
                kind = np.dtype(out.dtype).type if out.kind is np.ndarray else out.kind
                narrow[out] = made = Variable((), out.dtype, kind)
                early = instruction.replaced(narrow).giving(made)
                if constants.keys() >= set(early.reads()) and not early.operation.has_effect:
                    constants |= values_of_constants(early, constants)
                else:
                    kept.append(early)
            elif arrays and all(v in narrow for v in arrays):
                shape = np.broadcast_shapes(*[narrow[v].shape for v in arrays])
                narrow[out] = made = Variable(shape, out.dtype, out.kind)
                kept.append(instruction.replaced(narrow).giving(made))
            elif any(v not in narrow and v.shape == out.shape for v in arrays):
                kept[-1] = instruction.replaced(narrow)
    return program.with_instructions(kept, constants=constants) if narrow else program


def _is_filled(raw: np.ndarray) -> bool:
    """Return True for an array whose elements all have the same bits."""
    flat = np.ascontiguousarray(raw.reshape(-1))
    bits = flat.view(f"V{flat.itemsize}")
    return bool((bits == bits[0]).all())


# ------------------------------------------------------------------ products of vectors


def with_vectors(program: Program) -> Program:
    """Multiply a matrix by a vector without reshaping the vector and the result.

    The backend's product must support 1-D operands. The reshaped operand may become dead code.
    """
    vectors: dict[Any, Variable] = {}
    flat: dict[Variable, int] = {}
    for at, instruction in enumerate(program.instructions):
        if instruction.operation.kind == "reshape" and len(instruction.operands) == len(instruction.results) == 1:
            (x,), (out,) = instruction.operands, instruction.results
            if isinstance(x, Variable) and x.size and len(x.shape) == 1 and len(out.shape) == 2 and 1 in out.shape:
                vectors[out] = x
            elif isinstance(x, Variable) and len(x.shape) == 2 and len(out.shape) == 1 and program.uses[x] == 1:
                flat[x] = at
    kept: list[Instruction | None] = list(program.instructions)
    for at, instruction in enumerate(program.instructions):
        if instruction.operation.kind != "product" or len(instruction.operands) != 2 or instruction.settings:
            continue
        (out,) = instruction.results
        if out not in flat:
            continue
        a, b = instruction.operands
        row, column = vectors.get(a), vectors.get(b)
        if row is not None and a.shape[0] == 1 and len(b.shape) == 2 and b.shape[1] > 1:
            a = row
        elif column is not None and b.shape[1] == 1 and len(a.shape) == 2 and a.shape[0] > 1:
            b = column
        else:
            continue
        last = flat[out]
        kept[at] = Instruction(instruction.operation, (a, b), {}, program.instructions[last].outputs)
        kept[last] = None
    return program.with_instructions(kept)
