"""Where a program's arrays lie: which may share memory, and the buffers that a program keeps between its calls."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.jit.ir import Instruction, Program, Variable
from agrad.jit.memory import overwritten

LARGEST = 1 << 23
"""Bytes of the largest buffer that is kept; the C library hands larger arrays' memory out again by itself."""

MOST = 1 << 26
"""Bytes of all buffers that one call of a program keeps."""

_LINE = 64
"""Bytes that a buffer's address is a multiple of."""


class Sharing:
    """Which of a program's variables may look at the same memory, and until when it is needed.

    ``is_fresh`` says of an instruction that its results are arrays of their own. Of what is neither fresh nor a view,
    nothing is known: it may hand out its operands, or keep them.
    """

    def __init__(self, program: Program, is_fresh: Callable[[Instruction], bool]) -> None:
        self.end = len(program.instructions)
        self._base: dict[Variable, Variable] = {}
        lent = program.notes.get("lent", ())
        self._own = {v for v in program.inputs if v in lent and v.kind is np.ndarray}
        for instruction in program.instructions:
            operands = [v for v in instruction.operands if isinstance(v, Variable) and not v.on_host]
            if instruction.operation.is_view and operands and instruction.results:
                self._base[instruction.results[0]] = self.base(operands[0])
            elif is_fresh(instruction):
                self._own.update(v for v in instruction.results if v.kind is np.ndarray and v.shape)
            elif not instruction.on_host:
                self._own.difference_update(map(self.base, operands))
        # what an update is lent may be what it gives back, so its results are the state's own arrays
        for instruction in program.instructions:
            if state := overwritten(instruction):
                self._own.difference_update(instruction.results)
                self._own.difference_update(map(self.base, state))
        self._last: dict[Variable, int] = {}
        for v, at in program.last_uses().items():
            base = self.base(v)
            self._last[base] = max(at, self._last.get(base, 0))

    def base(self, v: Variable) -> Variable:
        """The variable whose memory this one looks at."""
        return self._base.get(v, v)

    def last(self, v: Variable) -> int:
        """The number of the last instruction that reads the memory of a variable; that of the end where it leaves."""
        return self._last.get(self.base(v), -1)

    def is_own(self, v: Variable) -> bool:
        """Whether the program made the array or was given it for good, and nothing unknown looks at it."""
        return v in self._own

    def may_be_kept(self, v: Variable) -> bool:
        """Whether the array may lie in memory that the next call writes into."""
        return v in self._own and self.last(v) < self.end and v.size > 0


class Workspace:
    """The buffers of a program: planned while it is written out, made once, and lent to one call at a time.

    A call takes the arrays with ``borrow()`` and puts them back into ``idle`` at its end; a call that runs beside it
    on another thread makes its own. One that raises an error leaves its arrays to the garbage collector.
    """

    def __init__(self) -> None:
        self.idle: list[tuple[np.ndarray, ...]] = []
        self._sizes: list[int] = []
        self._free: list[int] = []
        self._arrays: list[tuple[int, tuple[int, ...], np.dtype] | tuple[int, Callable[[np.ndarray], Any]]] = []
        self._samples: list[np.ndarray] = []
        self._known: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self._arrays)

    def take(self, count: int) -> int | None:
        """A buffer of so many bytes that nothing else is in now; None where it would be too much to keep."""
        if count > LARGEST:
            return None
        # the buffer that was used last is still in the cache
        fitting = [i for i in reversed(self._free) if self._sizes[i] >= count]
        best = min(fitting, key=lambda i: self._sizes[i], default=None)
        if best is None and sum(self._sizes) + count > MOST:
            return None
        if best is None and self._free:
            best = max(self._free, key=lambda i: self._sizes[i])
        if best is None:
            best = len(self._sizes)
            self._sizes.append(0)
        else:
            self._free.remove(best)
        self._sizes[best] = max(self._sizes[best], count)
        return best

    def give(self, buffer: int) -> None:
        """The buffer may be used for something else from here on."""
        self._free.append(buffer)

    def array(self, buffer: int, shape: tuple[int, ...], dtype: np.dtype) -> int:
        """The number of the array of this shape and dtype that begins where the buffer does."""
        key = (buffer, shape, dtype)
        if key not in self._known:
            self._known[key] = self._add(key, np.empty(shape, dtype))
        return self._known[key]

    def view(self, array: int, function: Callable[[np.ndarray], Any], key: Any = None) -> int | None:
        """The number of what the function makes of an array; None where that is no view of it."""
        key = (array, key or function)
        if key not in self._known:
            sample = function(self._samples[array])
            if type(sample) is not np.ndarray or not np.may_share_memory(sample, self._samples[array]):
                return None
            self._known[key] = self._add((array, function), sample)
        return self._known[key]

    def sample(self, array: int) -> np.ndarray:
        """An array of the shape, dtype and layout of one that is kept, while the program is written out."""
        return self._samples[array]

    def note(self, array: int, function: Callable[[np.ndarray], Any]) -> int:
        """The number of what the function says of an array, such as its address, found out when it is made."""
        key = (array, function, "note")
        if key not in self._known:
            self._known[key] = self._add((array, function), self._samples[array])
        return self._known[key]

    def _add(self, recipe: Any, sample: np.ndarray) -> int:
        self._arrays.append(recipe)
        self._samples.append(sample)
        return len(self._arrays) - 1

    def close(self) -> None:
        """Let go of what was needed for planning."""
        self._samples.clear()
        self._known.clear()

    def borrow(self) -> tuple[np.ndarray, ...]:
        """A call's own set of arrays."""
        try:
            return self.idle.pop()
        except IndexError:
            return self._make()

    def _make(self) -> tuple[np.ndarray, ...]:
        buffers = [_aligned(count) for count in self._sizes]
        made: list[np.ndarray] = []
        for recipe in self._arrays:
            if len(recipe) == 2:
                at, function = recipe
                made.append(function(made[at]))
            else:
                at, shape, dtype = recipe
                count = math.prod(shape) * dtype.itemsize
                made.append(buffers[at][:count].view(dtype).reshape(shape))
        return tuple(made)


def _aligned(count: int) -> np.ndarray:
    raw = np.empty(count + _LINE, np.uint8)
    start = -raw.__array_interface__["data"][0] % _LINE
    return raw[start : start + count]
