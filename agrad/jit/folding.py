"""A gradient that goes into nothing but a step of momentum becomes part of that step.

``v = momentum * v + a @ b`` is one call of BLAS, which then writes no gradient and reads none, and ``p -= lr * v``
another: the update costs one pass over the memory of the parameter, and two over that of the velocity. Of a bias,
whose gradient is a sum over rows, the step is NumPy's, without the questions that an ordinary update asks.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from agrad.backends.numpy_blas import ROUTINES, added_multiple, added_product
from agrad.backends.numpy_fused import all_ones
from agrad.backends.numpy_kernels import momentum_step, settle
from agrad.engine.operation import Operation
from agrad.jit.ir import Instruction, Program, Variable
from agrad.jit.memory import Bases, overwritten
from agrad.registry import PRIMITIVES

FEWEST = 1 << 13
"""Products of fewer elements than this are left alone: the calls cost more than the passes over memory."""


class FoldedStep(Operation):
    """``sgd_update`` of a gradient that is computed on the way: operands p, the gradient's two, v; the settings stay.

    The gradient is ``matmul`` of two matrices, or the sum over the rows of one (``linear.vjp:bias``).
    """

    overwrites = (0, 3)

    def __init__(self, gradient: Any) -> None:
        self.gradient = gradient
        self.update = PRIMITIVES["sgd_update"]
        self.outputs = self.update.outputs
        self.sums = gradient.name != "matmul"
        self.name = f"sgd_update of a {'sum' if self.sums else 'product'}"

    def bind(self, p: Any, a: Any, b: Any, v: Any, **settings: Any) -> Any:
        """The two operations, as a user calls them."""
        return self.update.bind(p, self.gradient.bind(a, b), v, **settings)

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """The same on raw arrays."""
        p, a, b, v = args
        return self.update.evaluate((p, self.gradient.evaluate((a, b), {}), v), settings)

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        return self.step

    def step(self, p: Any, a: Any, b: Any, v: Any, *, lr: float, momentum: float, donate: bool, **rest: Any) -> Any:
        """The same on NumPy's arrays, in place where ``donate`` says that nobody else can see p and v."""
        if donate and p.flags.carray and v.flags.carray:
            if self.sums:
                step_of_sum(p, a, v, np.empty_like(p), lr, momentum)
                return p, v
            if added_product(a, b, momentum, v):
                settle(v)
                added_multiple(-lr, v, p)
                return p, v
        return self.evaluate((p, a, b, v), {"lr": lr, "momentum": momentum, "donate": donate, **rest})


def step_of_sum(p: Any, a: Any, v: Any, spare: Any, lr: float, momentum: float) -> None:
    """``v = momentum * v + sum of a's rows; p -= lr * v`` in place; spare is written into and is like p."""
    if a.shape[0] == 1:
        momentum_step(p, a[0], v, spare, lr, momentum)
    else:
        momentum_step(p, np.matmul(all_ones(a.shape[0], a.dtype), a, out=spare), v, spare, lr, momentum)


def is_plain(settings: Mapping[str, Any]) -> bool:
    """Whether a step is ``v = momentum * v + g; p = p - lr * v``, and may be told to write into p and v."""
    momentum = settings["momentum"]
    numbers = ("dampening", "nesterov", "weight_decay", "maximize")
    # a number of the host may be anything at the next call
    known = not any(isinstance(settings[name], Variable) for name in numbers) and type(momentum) is float
    return (
        known
        and momentum != 0
        and not any(settings[name] for name in numbers)
        and isinstance(settings["donate"], Variable)
    )


def with_folded_updates(program: Program) -> Program:
    """Products, and sums over rows, that are read by one plain step of momentum alone, made part of it."""
    reads = [v for instruction in program.instructions for v in instruction.reads()]
    uses = Counter([*reads, *(v for v in program.outputs if isinstance(v, Variable))])
    made = {v: i for i, instruction in enumerate(program.instructions) for v in instruction.results}
    bases = Bases(program)
    folded: dict[int, Instruction] = {}
    dropped: set[int] = set()
    for i, instruction in enumerate(program.instructions):
        if instruction.name != "sgd_update" or not is_plain(instruction.settings) or None in instruction.outputs:
            continue
        p, g, v = instruction.operands
        at = made.get(g) if isinstance(g, Variable) else None
        if at is None or uses[g] != 1 or p is v or not _fits(program.instructions[at], p, v):
            continue
        a, b = program.instructions[at].operands
        written = {p, v}
        for other in program.instructions[at:i]:
            written.update(overwritten(other))
        if bases.of(a, b) & written:
            continue
        folded[i] = Instruction(
            FoldedStep(program.instructions[at].operation), (p, a, b, v), instruction.settings, instruction.outputs
        )
        dropped.add(at)
    kept = [folded.get(i, instruction) for i, instruction in enumerate(program.instructions) if i not in dropped]
    return program.with_instructions(kept)


def _fits(gradient: Instruction, p: Variable, v: Variable) -> bool:
    """Whether it is a product of two matrices like p, or the sum of one's rows, of a dtype that NumPy's BLAS takes."""
    if gradient.name not in ("matmul", "linear.vjp:bias"):
        return False
    arrays = [x for x in gradient.operands if isinstance(x, Variable)]
    (out,) = gradient.outputs
    return (
        len(arrays) == (2 if gradient.name == "matmul" else 1)
        and {x.kind for x in (*arrays, p, v)} == {np.ndarray}
        and all(len(x.shape) == 2 for x in arrays)
        and out is not None
        and out.shape == p.shape == v.shape
        and len(p.shape) == len(arrays)
        and out.size >= (FEWEST if len(arrays) == 2 else 1)
        and len({np.dtype(x.dtype) for x in (*arrays, p, v)}) == 1
        and np.dtype(p.dtype) in ROUTINES
    )
