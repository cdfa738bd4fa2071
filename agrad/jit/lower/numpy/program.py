"""Lowering for NumPy: Python that reuses the memory of arrays no longer needed."""

import functools
import math
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import numpy as np

from agrad.errors import ConfigurationError
from agrad.jit.lower.numpy.buffers import Workspace
from agrad.jit.lower.numpy.groups import out_text, ufunc_of
from agrad.jit.lower.numpy.steps import STEPS, group_step
from agrad.jit.lower.plain import Compiled, Scope, assignment, call_text, define, evaluation
from agrad.jit.passes.aliasing import Ownership, makes_new_arrays
from agrad.jit.passes.decompose import filled
from agrad.jit.passes.fusion import Group
from agrad.jit.passes.precision import NarrowMatmul
from agrad.jit.program import Instruction, Program, Variable, names_of
from agrad.registry import KERNELS

ARITHMETIC: dict[Any, str] = {np.add: "+", np.subtract: "-", np.multiply: "*", np.divide: "/"}
"""The operators of NumPy floating scalars, which return the same as ufuncs in an eighth of the time."""
COMPARISONS: dict[Any, str] = {
    np.less: "<",
    np.less_equal: "<=",
    np.greater: ">",
    np.greater_equal: ">=",
    np.equal: "==",
    np.not_equal: "!=",
    np.bitwise_and: "&",
    np.bitwise_or: "|",
}
"""The operators of NumPy scalars with a Boolean result."""


def lower_numpy(program: Program) -> Compiled:
    """Return the function of a program on NumPy arrays.

    Intermediate results are stored in buffers that the program keeps between calls, or overwrite an operand that no
    later line reads. The program's outputs are new arrays, and are never overwritten.
    """
    writer = Writer(program)
    for instruction in program.instructions:
        writer.write(instruction)
    return writer.finished()


class Writer:
    """The lines of a program, and the memory of its arrays."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.scope: Scope = Scope()
        self.names: dict[Variable, str] = names_of(program)
        self.scope.names.update({self.names[v]: raw for v, raw in program.constants.items()})
        self.workspace: Workspace = Workspace()
        self._ufuncs = {id(instruction): ufunc_of(instruction) for instruction in program.instructions}
        self.ownership: Ownership = Ownership(program, self._is_new)
        self.aliases = self.ownership.aliases
        self.lines: list[str] = []
        self.at: int = 0
        self._last = program.last_uses()
        self._read_last: list[list[Variable]] = [[] for _ in (*program.instructions, None)]
        """For each instruction the variables that no later one reads, for the program's end its outputs."""
        for v, at in self._last.items():
            self._read_last[at].append(v)
        self._inputs = set(program.inputs)
        self._lies: dict[Variable, int] = {}
        """The numbers of the kept arrays that hold variables."""
        self._buffers: dict[Variable, int] = {}
        """The buffers in use, by variable."""
        self._ends: list[list[Variable]] = [[] for _ in self._read_last]
        """For each instruction the variables in buffers that it reads for the last time, or views of them."""
        self._scratch: list[int] = []
        places = program.notes.get("reusable_gradients", {}).items()
        self._reusable_gradients = {
            v: spare for place, spare in places if isinstance(v := program.outputs[place], Variable)
        }
        self._converted: dict[tuple[Variable, np.dtype], str] = {}
        """The names of host numbers as arrays, by dtype."""
        self.returned: set[Any] = set(program.outputs)
        """The variables whose types a caller sees."""
        self.lasting: set[str] = set()
        """The names that no line deletes."""

    def _is_new(self, instruction: Instruction) -> bool:
        return self._ufuncs[id(instruction)] is not None or makes_new_arrays(instruction)

    # ------------------------------------------------------------------ text

    def line(self, text: str) -> None:
        self.lines.append(f"    {text}")

    def text(self, value: Any) -> str:
        """Return the expression of an operand or a keyword argument."""
        return self.scope.write(value, self.names)

    def operand(self, value: Any, like: Variable) -> str:
        """Return the expression of an operand next to an array.

        A constant number becomes a 0-dimensional array. NumPy would convert it at each call.
        """
        # the sign is separate, as 0.0 and -0.0 are one key of a cache
        sign = math.copysign(1.0, value) if type(value) is float else None
        made = None if sign is None else _numeral(abs(value), sign, np.dtype(like.dtype))
        return self.text(value) if made is None else self.scope.hold(made, "number")

    def rate(self, value: Any, like: Variable) -> str:
        """Return the expression of a host number in the dtype of an array.

        It is a kept array of shape (), because every operation would convert a NumPy scalar again.
        """
        key = (value, np.dtype(like.dtype))
        if not isinstance(value, Variable):
            return self.operand(value, like)
        if key not in self._converted:
            kept = self._kept((), key[1])
            if kept is None:
                return self.text(value)
            self._converted[key] = f"b{kept[1]}"
            self.line(f"b{kept[1]}[()] = {self.names[value]}")
        return self._converted[key]

    def call(self, function: Any, *arguments: Any, stem: str = "k", **settings: str) -> str:
        """Return the expression of a call. The keyword arguments are expressions."""
        parts = [self.text(a) for a in arguments] + [f"{name}={text}" for name, text in settings.items()]
        return f"{self.scope.hold(function, stem)}({', '.join(parts)})"

    # ------------------------------------------------------------------ memory

    def number(self, v: Any) -> int | None:
        """Return the number of the kept array that holds a variable, or None."""
        return self._lies.get(v) if isinstance(v, Variable) else None

    def place(self, v: Variable, number: int) -> None:
        """Assign a variable to a kept array."""
        self._lies[v] = number
        self.names[v] = f"b{number}"

    def view(self, v: Any, function: Callable[[np.ndarray], Any]) -> str | None:
        """Return the name of a view of a variable's kept array, or None."""
        number = self.number(v)
        made = None if number is None else self.workspace.view(number, function)
        return None if made is None else f"b{made}"

    def scratch(self, shape: tuple[int, ...], dtype: Any) -> int | None:
        """Return the number of a kept array that only this instruction uses, or None."""
        kept = self._kept(shape, np.dtype(dtype))
        if kept is None:
            return None
        self._scratch.append(kept[0])
        return kept[1]

    def _kept(self, shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, int] | None:
        """Return the numbers of a free buffer and of an array in it, or None."""
        buffer = self.workspace.take(math.prod(shape) * dtype.itemsize)
        return None if buffer is None else (buffer, self.workspace.array(buffer, shape, dtype))

    def target(self, out: Variable, over: Iterable[Any] = ()) -> str | None:
        """Return the name of the array to write ``out`` into, or None for a new one.

        It is a buffer, or a variable of ``over`` that is read here for the last time.
        """
        kept = out in self.ownership.kept
        for v in over:
            if (
                isinstance(v, Variable)
                and v in self.ownership.owned
                and self.aliases.last(v) == self.at
                and v.shape == out.shape
                and v.dtype == out.dtype
                and (kept or v not in self._lies)
            ):
                if v in self._lies:
                    self._occupy(out, self._buffers.pop(v))
                    self.place(out, self._lies[v])
                else:
                    self.names[out] = self.names[v]
                return self.names[out]
        return self.laid(out, out.shape, np.dtype(out.dtype)) if kept else None

    def reusable_gradient(self, out: Variable, instruction: Instruction, over: Iterable[Any] = ()) -> str | None:
        """Return the expression of an array for an output that has no buffer, or None.

        It is the array of the previous gradient, or None at a call in which something else holds that array. The
        instruction may read it as one of ``over``, and no later line reads it.
        """
        if out not in self._reusable_gradients:
            return None
        array, before = self._reusable_gradients[out]
        others = [v for v in instruction.reads() if all(v is not u for u in over)]
        read = before is not None and (
            self.aliases.last(before) > self.at or not self.aliases[before].isdisjoint(self.aliases.of(*others))
        )
        if read:
            return None
        return self.names[array]

    def laid(self, out: Variable, shape: tuple[int, ...], dtype: np.dtype, function: Any = None) -> str | None:
        """Return the name of a kept array. ``function`` returns ``out`` as a view of it."""
        kept = self._kept(shape, dtype)
        if kept is None:
            return None
        buffer, number = kept
        self._occupy(out, buffer)
        seen = number if function is None else self.workspace.view(number, function)
        assert seen is not None
        self.place(out, seen)
        return f"b{number}"

    def _occupy(self, v: Variable, buffer: int) -> None:
        """Let a variable occupy a buffer until its memory is read for the last time."""
        self._buffers[v] = buffer
        self._ends[max(self.aliases.last(v), self.at)].append(v)

    def is_alone(self, v: Any, instruction: Instruction) -> bool:
        """Return True for a contiguous array that no other operand aliases.

        An input must be donated.
        """
        number = self.number(v)
        others = [u for u in instruction.reads() if u is not v and not self.aliases[u].isdisjoint(self.aliases[v])]
        contiguous = number is None or bool(self.workspace.sample(number).flags.c_contiguous)
        return (v not in self._inputs or v in self.ownership.owned) and contiguous and not others

    def is_donated(self, v: Any, instruction: Instruction) -> bool:
        """Return True for an input that the caller donated and only this line reads."""
        given = v in self._inputs and v in self.ownership.owned
        return given and self.aliases.last(v) == self.at and self.is_alone(v, instruction)

    # ------------------------------------------------------------------ instructions

    def write(self, instruction: Instruction) -> None:
        """Write the lines of the next instruction."""
        step = group_step if isinstance(instruction.operation, Group) else STEPS.get(instruction.operation.name)
        if not (
            (step and step(self, instruction))
            or self._ufunc(instruction)
            or self._view(instruction)
            or self._scalar(instruction)
        ):
            self.line(f"{assignment(instruction, self.names)} = {self.plain(instruction)}")
        self._end(instruction)

    def plain(self, instruction: Instruction) -> str:
        return call_text(instruction, self.scope, self.names)

    def _ufunc(self, instruction: Instruction) -> bool:
        ufunc = self._ufuncs[id(instruction)]
        if ufunc is None:
            return False
        self.compute(ufunc, instruction, instruction.operands, instruction.operands)
        return True

    def _scalar(self, instruction: Instruction) -> bool:
        """Write an operator between two NumPy scalars."""
        out = instruction.outputs[0]
        if out is None or out.kind is None or instruction.settings:
            return False
        if issubclass(out.kind, np.inexact):
            symbols = ARITHMETIC
        elif issubclass(out.kind, np.bool_):
            symbols = COMPARISONS
        else:
            return False
        function = evaluation(instruction)
        symbol = symbols.get(function) if isinstance(function, np.ufunc) else None
        # Python itself computes a complex number with a float64, which is a float to it
        if symbol is None or any(
            v.on_host if isinstance(v, Variable) else type(v) is complex for v in instruction.operands
        ):
            return False
        left, right = map(self.text, instruction.operands)
        self.line(f"{self.names[out]} = {left} {symbol} {right}")
        return True

    def readers(self, v: Variable) -> list[Instruction]:
        """Return the instructions that read a variable."""
        return [self.program.instructions[k] for k in self.program.readers.get(v, ())]

    def compute(
        self, function: Any, instruction: Instruction, operands: tuple[Any, ...], over: Iterable[Any] = ()
    ) -> None:
        """Write the call of a NumPy function that has an argument ``out``."""
        (out,) = instruction.results
        arrays = [v for v in operands if isinstance(v, Variable) and v.kind is not None]
        like = next(filter(attrgetter("shape"), arrays), None)
        if like is None or [v for v in arrays if v.dtype is not like.dtype and v.dtype != like.dtype]:
            texts = [self.text(v) for v in operands]
        else:
            texts = [self.names[v] if isinstance(v, Variable) else self.operand(v, like) for v in operands]
        name = self.scope.hold(function, getattr(function, "__name__", "function"))
        target = self.target(out, over)
        to = target or self.reusable_gradient(out, instruction, over)
        texts += [] if to is None else [out_text(function, to)]
        self.line(f"{'' if target else f'{self.names[out]} = '}{name}({', '.join(texts)})")

    def _view(self, instruction: Instruction) -> bool:
        first = instruction.operands[0] if instruction.operands else None
        number = self.number(first)
        reads = list(instruction.reads())
        if not instruction.operation.is_view or number is None or len(reads) > 1 or len(instruction.operands) > 1:
            return False
        function = evaluation(instruction)
        made = self.workspace.view(number, lambda x: function(x, **instruction.settings))
        if made is not None:
            self.place(instruction.results[0], made)
        return made is not None

    def _end(self, instruction: Instruction) -> None:
        done = [*self._read_last[self.at], *[v for v in instruction.results if v not in self._last]]
        for v in self._ends[self.at]:
            if v in self._buffers:  # otherwise another variable occupies the buffer now
                self.workspace.give(self._buffers.pop(v))
        while self._scratch:
            self.workspace.give(self._scratch.pop())
        # inputs and kept arrays are referenced elsewhere, so deleting their names would free nothing
        done = [v for v in done if v not in self._lies and v not in self._inputs and v not in self.program.constants]
        if done:
            stays = [self.names[v] for v in instruction.results if v in self._last]
            if gone := {self.names[v] for v in done}.difference(stays, self.lasting):
                self.line(f"del {', '.join(sorted(gone))}")
        self.at += 1

    def finished(self) -> Compiled:
        """Return the function of the program, after all instructions are written."""
        start = (
            [f"    {', '.join(self.names[v] for v in self.program.inputs)}, = inputs"] if self.program.inputs else []
        )
        kept, put_back = self._borrowed()
        outputs = ", ".join(map(self.text, self.program.outputs))
        lines = ["def program(inputs):", *kept, *start, *self.lines, *put_back, f"    return [{outputs}]"]
        return define("program", "\n".join(lines) + "\n", self.scope.names)

    def _borrowed(self) -> tuple[list[str], list[str]]:
        """Return the lines that borrow the buffers of a call, and the lines that return them."""
        count = len(self.workspace)
        self.workspace.close()
        if not count:
            return [], []
        self.scope.names.update(borrow=self.workspace.borrow, idle=self.workspace.idle)
        names = ", ".join(f"b{i}" for i in range(count))
        return ["    kept = borrow()", f"    {names}, = kept"], ["    idle.append(kept)"]


@functools.lru_cache(maxsize=256)
def _numeral(size: float, sign: float, dtype: np.dtype) -> np.ndarray | None:
    """Return ``size * sign`` as a 0-dimensional array, or None if the dtype cannot hold it."""
    if dtype.kind != "f" or not size <= np.finfo(dtype).max:
        return None
    made = np.array(size * sign, dtype)
    made.flags.writeable = False
    return made


def has_kernel(instruction: Instruction) -> bool:
    """Return True if a NumPy kernel accepts the shapes and dtypes of an operation."""
    kernel = KERNELS.get(("numpy", instruction.name, "forward"))
    given = [filled(np.ones(1, v.dtype), v.shape) for v in instruction.arrays]
    return kernel is not None and kernel.when is not None and kernel.when(*given, **instruction.settings)


def numpy_narrow_matmul(precision: str) -> NarrowMatmul:
    """Return products of float32 arrays rounded to float16."""
    if precision != "float16":
        raise ConfigurationError(
            f"jit: precision must be 'float16' for NumPy arrays, got {precision!r}. Use arrays of cupy, jax or torch."
        )

    def narrow(x: Any) -> Any:
        with np.errstate(over="ignore"):  # loss scaling looks for the infinities
            return x.astype(np.float16).astype(np.float32)

    return NarrowMatmul(narrow, None, np.dtype(np.float32))
