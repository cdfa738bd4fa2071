"""NumPy's lowering: Python that reuses the memory of arrays no longer needed."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from agrad.backends.numpy.blas import address, laid
from agrad.backends.numpy.fused import zeros_beside
from agrad.errors import ConfigurationError
from agrad.jit.lower.numpy.buffers import Workspace
from agrad.jit.lower.numpy.groups import ufunc_of
from agrad.jit.lower.numpy.steps import STEPS, group_step
from agrad.jit.lower.plain import Compiled, Scope, assignment, call_text, define, evaluation
from agrad.jit.passes.aliasing import Ownership, makes_new_arrays
from agrad.jit.passes.fusion import Group
from agrad.jit.passes.precision import Way
from agrad.jit.program import Instruction, Program, Variable, names_of


def lower_numpy(program: Program) -> Compiled:
    """Return the function of a program on NumPy's arrays.

    What the program makes for itself lies in buffers that it keeps from call to call, or is written into an operand
    that no later line reads. Results that leave the program are new arrays, and never written into again.
    """
    writer = Writer(program)
    for instruction in program.instructions:
        writer.write(instruction)
    return writer.finished()


def operands_of(instruction: Instruction) -> tuple[Any, ...]:
    """Return the operands of the NumPy function; relu's has zeros too."""
    if instruction.name != "relu":
        return instruction.operands
    out = instruction.outputs[0]
    assert out is not None
    return (*instruction.operands, zeros_beside(out.shape, np.dtype(out.dtype)))


class Writer:
    """The lines of a program, and where its arrays lie."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.scope = Scope()
        self.names = names_of(program)
        self.scope.names.update({self.names[v]: raw for v, raw in program.constants.items()})
        self.workspace = Workspace()
        self.ownership = Ownership(program, self._is_new)
        self.aliases = self.ownership.aliases
        self.lines: list[str] = []
        self.at = 0
        self._last = program.last_uses()
        self._inputs = set(program.inputs)
        self._lies: dict[Variable, int] = {}
        """The numbers of the kept arrays that variables are."""
        self._buffers: dict[Variable, int] = {}
        """The buffers that are taken."""
        self._scratch: list[int] = []
        self._numbers: dict[tuple[Variable, np.dtype], int] = {}
        """The kept arrays that hold numbers of the host."""

    def _is_new(self, instruction: Instruction) -> bool:
        return makes_new_arrays(instruction) or ufunc_of(instruction, self.program) is not None

    # ------------------------------------------------------------------ text

    def line(self, text: str) -> None:
        self.lines.append(f"    {text}")

    def text(self, value: Any) -> str:
        """Return the expression of an operand or a setting."""
        return self.scope.write(value, self.names)

    def operand(self, value: Any, like: Variable) -> str:
        """Return the expression of an operand beside an array.

        A known number is an array without dimensions, so that NumPy need not find its dtype at each call.
        """
        made = _numeral(value, np.dtype(like.dtype)) if type(value) is float else None
        return self.text(value) if made is None else self.scope.hold(made, "number")

    def rate(self, v: Any, like: Variable) -> str:
        """Return the expression of a number of the host, written into a kept array."""
        dtype = np.dtype(like.dtype)
        if not isinstance(v, Variable):
            return self.operand(v, like)
        if (v, dtype) not in self._numbers:
            buffer = self.workspace.take(dtype.itemsize)
            if buffer is None:
                return self.text(v)
            self._numbers[v, dtype] = self.workspace.array(buffer, (), dtype)
            self.line(f"b{self._numbers[v, dtype]}[()] = {self.names[v]}")
        return f"b{self._numbers[v, dtype]}"

    def call(self, function: Any, *arguments: Any, stem: str = "k", **settings: str) -> str:
        """Return the expression of a call; settings are expressions."""
        parts = [self.text(a) for a in arguments] + [f"{name}={text}" for name, text in settings.items()]
        return f"{self.scope.hold(function, stem)}({', '.join(parts)})"

    # ------------------------------------------------------------------ memory

    def number(self, v: Any) -> int | None:
        """Return the number of the kept array that a variable is, or None."""
        return self._lies.get(v) if isinstance(v, Variable) else None

    def place(self, v: Variable, number: int) -> None:
        """Have a variable be a kept array."""
        self._lies[v] = number
        self.names[v] = f"b{number}"

    def view(self, v: Any, function: Callable[[np.ndarray], Any], key: Any = None) -> str | None:
        """Return the name of a view of a kept array; None if there is none."""
        number = self.number(v)
        made = None if number is None else self.workspace.view(number, function, key)
        return None if made is None else f"b{made}"

    def scratch(self, shape: tuple[int, ...], dtype: Any) -> int | None:
        """Return the number of a kept array for this instruction alone, or None."""
        dtype = np.dtype(dtype)
        count = dtype.itemsize
        for n in shape:
            count *= n
        buffer = self.workspace.take(count)
        if buffer is None:
            return None
        self._scratch.append(buffer)
        return self.workspace.array(buffer, shape, dtype)

    def target(self, out: Variable, over: Iterable[Any] = ()) -> str | None:
        """Return the name of the array that ``out`` is written into; None for a new array.

        It is an operand of ``over`` that is last read here, or a buffer.
        """
        kept = self.ownership.may_be_kept(out)
        for v in over:
            if (
                isinstance(v, Variable)
                and self.ownership.owns(v)
                and self.aliases.last(v) == self.at
                and v.shape == out.shape
                and v.dtype == out.dtype
                and (kept or v not in self._lies)
            ):
                if v in self._lies:
                    self._buffers[out] = self._buffers.pop(v)
                    self.place(out, self._lies[v])
                else:
                    self.names[out] = self.names[v]
                return self.names[out]
        if not kept:
            return None
        dtype = np.dtype(out.dtype)
        buffer = self.workspace.take(out.size * dtype.itemsize)
        if buffer is None:
            return None
        self._buffers[out] = buffer
        self.place(out, self.workspace.array(buffer, out.shape, dtype))
        return self.names[out]

    def is_alone(self, v: Any, instruction: Instruction) -> bool:
        """Return True for a contiguous array that no other operand aliases.

        Inputs are not alone.
        """
        number = self.number(v)
        others = [u for u in instruction.reads() if u is not v and not self.aliases[u].isdisjoint(self.aliases[v])]
        contiguous = number is None or bool(self.workspace.sample(number).flags.c_contiguous)
        return v not in self._inputs and contiguous and not others

    def where(self, x: Variable) -> tuple[str, str, str] | None:
        """Return expressions of a matrix' layout, its address, and the test for BLAS.

        None: it does not.
        """
        number = self.number(x)
        if number is not None:
            found = laid(self.workspace.sample(number))
            return (self.text(found), f"b{self.workspace.note(number, address)}", "") if found[0] else None
        known = f"l_{self.names[x]}"
        return known, self.call(address, x, stem="address"), f"({known} := {self.call(laid, x, stem='laid')})[0]"

    # ------------------------------------------------------------------ instructions

    def write(self, instruction: Instruction) -> None:
        """Write out the next instruction."""
        step = group_step if isinstance(instruction.operation, Group) else STEPS.get(instruction.name)
        if not ((step and step(self, instruction)) or self._ufunc(instruction) or self._view(instruction)):
            self.line(f"{assignment(instruction, self.names)} = {self.plain(instruction)}")
        self._end(instruction)

    def plain(self, instruction: Instruction) -> str:
        return call_text(instruction, self.program, self.scope, self.names)

    def _ufunc(self, instruction: Instruction) -> bool:
        ufunc = ufunc_of(instruction, self.program)
        if ufunc is None:
            return False
        self.compute(ufunc, instruction, operands_of(instruction), instruction.operands)
        return True

    def compute(
        self, function: Any, instruction: Instruction, operands: tuple[Any, ...], over: Iterable[Any] = ()
    ) -> None:
        """Write out the call of a NumPy function that takes ``out``."""
        (out,) = instruction.results
        arrays = [v for v in operands if isinstance(v, Variable) and not v.on_host]
        like = next((v for v in arrays if v.shape), None)
        if like is None or any(v.dtype != like.dtype for v in arrays):
            texts = [self.text(v) for v in operands]
        else:
            texts = [self.operand(v, like) for v in operands]
        name = self.scope.hold(function, getattr(function, "__name__", "function"))
        target = self.target(out, over)
        if target is None:
            self.line(f"{self.names[out]} = {name}({', '.join(texts)})")
        else:
            self.line(f"{name}({', '.join(texts)}, out={target})")

    def _view(self, instruction: Instruction) -> bool:
        first = instruction.operands[0] if instruction.operands else None
        number = self.number(first)
        reads = list(instruction.reads())
        if not instruction.operation.is_view or number is None or len(reads) > 1 or len(instruction.operands) > 1:
            return False
        function = evaluation(instruction, self.program)
        made = self.workspace.view(number, lambda x: function(x, **instruction.settings))
        if made is not None:
            self.place(instruction.results[0], made)
        return made is not None

    def _end(self, instruction: Instruction) -> None:
        used = {*instruction.reads(), *instruction.results}
        for v in self.aliases.of(*used):
            if v in self._buffers and self.aliases.last(v) <= self.at:
                self.workspace.give(self._buffers.pop(v))
        while self._scratch:
            self.workspace.give(self._scratch.pop())
        # what a caller holds is not let go by a name here
        done = {v for v in used if self._last.get(v, -1) <= self.at and v not in self._lies and v not in self._inputs}
        gone = {self.names[v] for v in done if v not in self.program.constants}
        gone -= {self.names[v] for v in instruction.results if v in self._last}
        if gone:
            self.line(f"del {', '.join(sorted(gone))}")
        self.at += 1

    def finished(self) -> Compiled:
        """Return the function of the program, once all instructions are written."""
        lines, count = self.lines, len(self.workspace)
        if self.program.inputs:
            lines = [f"    {', '.join(self.names[v] for v in self.program.inputs)}, = inputs", *lines]
        if count:
            self.scope.names.update(borrow=self.workspace.borrow, idle=self.workspace.idle)
            names = ", ".join(f"b{i}" for i in range(count))
            lines = ["    kept = borrow()", f"    {names}, = kept", *lines, "    idle.append(kept)"]
        outputs = ", ".join(map(self.text, self.program.outputs))
        text = "\n".join(["def program(inputs):", *lines, f"    return [{outputs}]"]) + "\n"
        self.workspace.close()
        return define("program", text, self.scope.names)


@functools.lru_cache(maxsize=256)
def _numeral(value: float, dtype: np.dtype) -> np.ndarray | None:
    """Return a number as an array without dimensions; None if it does not fit."""
    if dtype.kind != "f" or not abs(value) <= np.finfo(dtype).max:
        return None
    made = np.array(value, dtype)
    made.flags.writeable = False
    return made


def numpy_way(precision: str) -> Way:
    """Return products of float32 arrays that were rounded to float16."""
    if precision != "float16":
        raise ConfigurationError(
            f"jit: NumPy has no {precision}; ask for precision='float16', or compute on cupy, jax or torch"
        )

    def narrow(x: Any) -> Any:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, which loss scaling looks for
            return x.astype(np.float16).astype(np.float32)

    return Way(narrow, None, np.dtype(np.float32))
