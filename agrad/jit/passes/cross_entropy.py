"""Cross entropy and its derivative as one instruction, which computes exp once.

Where the cotangent of the losses is known before the logits are, as a constant is, the forward pass can give the
derivative too: with ``e = exp(x - max)`` and their sum, it is ``g * (e / sum - onehot)``.
"""

from typing import Any

import numpy as np

from agrad.engine.operation import Operation
from agrad.jit.passes.aliasing import overwritten
from agrad.jit.program import Instruction, Program, Variable, is_rule
from agrad.kernels.numpy.fused import SHORT, unsigned
from agrad.registry import PRIMITIVES

FORWARD = PRIMITIVES["softmax_cross_entropy"]


class CrossEntropy(Operation):
    """``softmax_cross_entropy`` and its rule: from x, labels, g to loss, lse and g_x.

    Shapes: x and g_x (n, c), the others (n,).
    """

    outputs = ("loss", "lse", "g_x")
    name = "softmax_cross_entropy and its rule"
    no_alias = True

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        self.forward = rule.primitive

    def bind(self, x: Any, labels: Any, g: Any) -> Any:
        """Call the two operations, as a user does."""
        loss, lse = self.forward.bind(x, labels)
        return loss, lse, self.rule.bind(g, None, x, labels, lse)

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Compute the two operations on raw arrays."""
        x, labels, g = args
        loss, lse = self.forward.evaluate((x, labels), {})
        return loss, lse, self.rule.evaluate((g, None, x, labels, lse), {})


def with_entropies(program: Program) -> Program:
    """Join cross entropies and rules whose cotangent does not depend on the loss."""
    if FORWARD not in [instruction.operation for instruction in program.instructions]:
        return program
    kept: list[Instruction | None] = list(program.instructions)
    early: dict[int, list[int]] = {}
    """For an instruction the numbers of those behind it that must come before it."""
    for i, instruction in enumerate(program.instructions):
        if not is_rule(instruction, FORWARD, "vjp:x"):
            continue
        g, of_lse, x, labels, lse = instruction.operands
        at = program.makers.get(lse) if isinstance(lse, Variable) else None
        if of_lse is not None or at is None or not _fits(program.instructions[at], g, x, labels):
            continue
        moved = _needed_for(g, at, program)
        if moved is None or kept[at] is not program.instructions[at]:
            continue
        early[at] = moved
        loss, _ = program.instructions[at].outputs
        kept_lse = lse if program.uses[lse] > 1 else None  # the rule was one of those who read it
        outputs = (loss, kept_lse, *instruction.outputs)
        kept[at] = Instruction(CrossEntropy(instruction.operation), (x, labels, g), {}, outputs)
        kept[i] = None
    return program.with_instructions(_in_order(kept, early))


def _in_order(kept: list[Instruction | None], early: dict[int, list[int]]) -> list[Instruction]:
    """Return instructions, each behind those that ``early`` names for it."""
    done: set[int] = set()
    ordered: list[Instruction] = []

    def write(number: int) -> None:
        if number not in done:
            done.add(number)
            for needed in early.get(number, ()):
                write(needed)
            if (instruction := kept[number]) is not None:
                ordered.append(instruction)

    for number in range(len(kept)):
        write(number)
    return ordered


def _needed_for(g: Variable, at: int, program: Program) -> list[int] | None:
    """Return the instructions behind one that compute ``g``, by number; None if they need its result."""
    found: set[int] = set()
    waiting = [g]
    while waiting:
        number = program.makers.get(waiting.pop(), -1)
        if number < at or number in found:
            continue
        if number == at or overwritten(program.instructions[number]):
            return None
        found.add(number)
        waiting.extend(program.instructions[number].reads())
    return sorted(found)


def _fits(forward: Instruction, g: Any, x: Any, labels: Any) -> bool:
    """Return True where the rule is of this cross entropy, on equal NumPy rows."""
    return (
        forward.operation is FORWARD
        and forward.operands == (x, labels)
        and all(isinstance(v, Variable) and v.kind is np.ndarray for v in (g, x, labels))
        and g.shape == labels.shape == x.shape[:1]
        and x.size > 0
        and g.dtype == x.dtype
    )


def exponentials_layout(n: int, classes: int) -> tuple[tuple[int, int], np.ndarray, int]:
    """Return the shape of the exponentials, and the labels' offsets and step in it."""
    if classes < SHORT:
        return (classes, n), np.arange(n), n
    return (n, classes), np.arange(n) * classes, 1


def cross_entropy(
    x: np.ndarray,
    labels: np.ndarray,
    g: np.ndarray,
    e: np.ndarray,
    top: np.ndarray,
    total: np.ndarray,
    factor: np.ndarray,
    places: np.ndarray,
    starts: np.ndarray,
    step: int,
    loss: np.ndarray | None,
    lse: np.ndarray | None,
) -> None:
    """Write loss and logsumexp(x), if asked for, and the derivative into ``e``.

    ``e`` lies as ``exponentials_layout`` says.

    top, total, factor: (n,) of x's dtype, and places: (n,) int64, are written into. Raises ``IndexRangeError`` for
    labels that are no classes.
    """
    classes = x.shape[1]
    # a negative label seen as unsigned is a large one
    if np.maximum.reduce(labels.view(unsigned(labels.dtype))) >= classes:
        FORWARD.evaluate((x, labels), {})
    as_columns = classes < SHORT
    axis, along = (0, top) if as_columns else (1, top[:, None])
    np.copyto(e, x.T if as_columns else x)
    np.maximum.reduce(e, axis=axis, out=top)
    np.subtract(e, along, out=e)
    np.multiply(labels, step, out=places, dtype=places.dtype, casting="unsafe")
    np.add(places, starts, out=places)
    flat = e.reshape(-1)
    if loss is not None:
        flat.take(places, out=loss, mode="clip")
    np.exp(e, out=e)
    np.add.reduce(e, axis=axis, out=total)
    np.divide(g, total, out=factor)
    np.log(total, out=total)
    if loss is not None:
        np.subtract(total, loss, out=loss)
    if lse is not None:
        np.add(total, top, out=lse)
    np.multiply(e, factor if as_columns else factor[:, None], out=e)
    np.subtract.at(flat, places, g)


def cross_entropy_of_one(
    x: np.ndarray, labels: np.ndarray, g: np.ndarray, e: np.ndarray, loss: np.ndarray | None, lse: np.ndarray | None
) -> None:
    """Compute ``cross_entropy`` of a single row, with half as many calls."""
    label, flat = labels[0], e.reshape(-1)
    if not 0 <= label < flat.size:
        FORWARD.evaluate((x, labels), {})
    top = np.maximum.reduce(x[0])
    np.subtract(x[0], top, out=flat)
    right = flat[label]
    np.exp(flat, out=flat)
    total = np.add.reduce(flat)
    log = np.log(total)
    if loss is not None:
        loss[0] = log - right
    if lse is not None:
        lse[0] = log + top
    np.multiply(flat, g[0] / total, out=flat)
    flat[label] -= g[0]
