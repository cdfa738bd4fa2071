"""What NumPy computes an instruction with, and how instructions are written out over buffers.

A step writes the lines of one instruction through a ``Writer``, and says False where it is to be an ordinary call.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from ctypes import c_int64
from typing import Any

import numpy as np

from agrad.backends.numpy_blas import ROUTINES, address, laid, product_adder
from agrad.backends.numpy_fused import all_ones, zeros_beside
from agrad.backends.numpy_kernels import SMALL, momentum_step, settle
from agrad.jit.entropy import SHORT, CrossEntropy, cross_entropy, layout
from agrad.jit.folding import FoldedStep, is_plain, step_of_sum
from agrad.jit.fusion import Group
from agrad.jit.ir import Instruction, Program, Variable, names_of
from agrad.jit.lowerings import Compiled, Evaluation, Scope, assignment, call_text, compile_program, evaluation
from agrad.jit.numpy_groups import group_function, outputs_of_rows, ufunc_of
from agrad.jit.storage import Sharing, Workspace

_FRESH = frozenset(
    {
        "linear", "matmul", "mean", "max", "min", "sum", "relu", "sigmoid", "sgd_update", "adam_update",
        "softmax_cross_entropy", "softmax_cross_entropy.vjp:x", "linear.vjp:bias", "relu.vjp:x",
    }
)  # fmt: skip
"""Operations besides NumPy's own on elements whose results share no memory with their operands."""


def operands_of(instruction: Instruction) -> tuple[Any, ...]:
    """The operands of the NumPy function: of relu the zeros too."""
    if instruction.name != "relu":
        return instruction.operands
    out = instruction.outputs[0]
    assert out is not None
    return (*instruction.operands, zeros_beside(out.shape, np.dtype(out.dtype)))


class Writer:
    """The lines of a program, and where its arrays lie."""

    def __init__(self, program: Program, function_of: Evaluation = evaluation) -> None:
        self.program = program
        self._function_of = function_of
        self.scope = Scope()
        self.names = names_of(program)
        self.scope.names.update({self.names[v]: raw for v, raw in program.constants.items()})
        self.workspace = Workspace()
        self.sharing = Sharing(program, self._is_fresh)
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

    def _is_fresh(self, instruction: Instruction) -> bool:
        return (
            instruction.name in _FRESH
            or isinstance(instruction.operation, (Group, FoldedStep, CrossEntropy))
            or ufunc_of(instruction, self.program) is not None
        )

    # ------------------------------------------------------------------ text

    def line(self, text: str) -> None:
        self.lines.append(f"    {text}")

    def text(self, value: Any) -> str:
        """The expression of an operand, a setting, or a value that stands in the program."""
        return self.scope.write(value, self.names)

    def operand(self, value: Any, like: Variable) -> str:
        """The expression of an operand beside an array: a number that is known as an array without dimensions, of
        which NumPy need not find out the dtype at each call."""
        made = _numeral(value, np.dtype(like.dtype)) if type(value) is float else None
        return self.text(value) if made is None else self.scope.hold(made, "number")

    def rate(self, v: Any, like: Variable) -> str:
        """The same of a real number of the host, which is written into a kept array without dimensions."""
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
        """The expression of a call; settings are expressions."""
        parts = [self.text(a) for a in arguments] + [f"{name}={text}" for name, text in settings.items()]
        return f"{self.scope.hold(function, stem)}({', '.join(parts)})"

    # ------------------------------------------------------------------ memory

    def number(self, v: Any) -> int | None:
        """The number of the kept array that a variable is."""
        return self._lies.get(v) if isinstance(v, Variable) else None

    def place(self, v: Variable, number: int) -> None:
        """Have a variable be a kept array."""
        self._lies[v] = number
        self.names[v] = f"b{number}"

    def view(self, v: Any, function: Callable[[np.ndarray], Any], key: Any = None) -> str | None:
        """The name of a view of an array that is kept; None where it is not kept, or would be copied."""
        number = self.number(v)
        made = None if number is None else self.workspace.view(number, function, key)
        return None if made is None else f"b{made}"

    def scratch(self, shape: tuple[int, ...], dtype: Any) -> int | None:
        """The number of a kept array for this instruction alone; None where there is none to be had."""
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
        """What ``out`` is written into: an operand of ``over`` that ends here, or a buffer. None: a new array."""
        kept = self.sharing.may_be_kept(out)
        for v in over:
            if (
                isinstance(v, Variable)
                and self.sharing.is_own(v)
                and self.sharing.last(v) == self.at
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
        """Whether a contiguous array of the program's own making is what no other operand looks at."""
        number, base = self.number(v), self.sharing.base(v)
        others = [u for u in instruction.reads() if u is not v and self.sharing.base(u) is base]
        contiguous = number is None or bool(self.workspace.sample(number).flags.c_contiguous)
        return v not in self._inputs and contiguous and not others

    def where(self, x: Variable) -> tuple[str, str, str] | None:
        """Expressions of a matrix' layout and address, and of whether it lies as BLAS takes it; None: it does not."""
        number = self.number(x)
        if number is not None:
            found = laid(self.workspace.sample(number))
            return (self.text(found), f"b{self.workspace.note(number, address)}", "") if found[0] else None
        known = f"l_{self.names[x]}"
        return known, self.call(address, x, stem="address"), f"({known} := {self.call(laid, x, stem='laid')})[0]"

    def laid(self, out: Variable, shape: tuple[int, ...], dtype: np.dtype, function: Any = None) -> str | None:
        """The name of a kept array of another shape of which ``out`` is the view that the function makes."""
        buffer = self.workspace.take(out.size * dtype.itemsize)
        if buffer is None:
            return None
        number = self.workspace.array(buffer, shape, dtype)
        seen = number if function is None else self.workspace.view(number, function, "laid")
        assert seen is not None
        self._buffers[out] = buffer
        self.place(out, seen)
        return f"b{number}"

    # ------------------------------------------------------------------ instructions

    def write(self, instruction: Instruction) -> None:
        """Write out the next instruction."""
        step = _group if isinstance(instruction.operation, Group) else STEPS.get(instruction.name)
        if not ((step and step(self, instruction)) or self._ufunc(instruction) or self._view(instruction)):
            self.line(f"{assignment(instruction, self.names)} = {self._plain(instruction)}")
        self._end(instruction)

    def _plain(self, instruction: Instruction) -> str:
        return call_text(instruction, self.program, self.scope, self.names, self._function_of)

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
        for v in {self.sharing.base(v) for v in used}:
            if v in self._buffers and self.sharing.last(v) <= self.at:
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
        """The function of the program, when all of its instructions are written."""
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
        return compile_program("program", text, self.scope.names)


@functools.lru_cache(maxsize=256)
def _numeral(value: float, dtype: np.dtype) -> np.ndarray | None:
    """The array without dimensions of a number that a floating dtype can hold."""
    if dtype.kind != "f" or not abs(value) <= np.finfo(dtype).max:
        return None
    made = np.array(value, dtype)
    made.flags.writeable = False
    return made


# ------------------------------------------------------------------ steps

Step = Callable[[Writer, Instruction], bool]


def _matmul(w: Writer, instruction: Instruction) -> bool:
    (out,) = instruction.results
    if out.kind is not np.ndarray:
        return False
    w.compute(np.matmul, instruction, instruction.operands)
    return True


def _linear(w: Writer, instruction: Instruction) -> bool:
    x, weight, bias = instruction.operands
    (out,) = instruction.results
    alike = len({np.dtype(v.dtype) for v in (x, weight, bias)}) == 1 and np.dtype(x.dtype).kind in "fc"
    if not alike or len(x.shape) < 2 or len(weight.shape) != 2 or out.kind is not np.ndarray:
        return False
    w.compute(np.matmul, instruction, (x, weight))
    w.line(w.call(np.add, out, bias, out=w.names[out], stem="add"))
    return True


def _linear_bias(w: Writer, instruction: Instruction) -> bool:
    g = instruction.operands[0]
    if len(g.shape) != 2 or instruction.results[0].shape != g.shape[1:]:
        return False
    w.compute(np.matmul, instruction, (all_ones(g.shape[0], np.dtype(g.dtype)), g))
    return True


def _relu_vjp(w: Writer, instruction: Instruction) -> bool:
    """The cotangent's bits times 1 or 0, as the kernel."""
    g, y = instruction.operands
    (out,) = instruction.results
    dtype = np.dtype(g.dtype)
    if (
        dtype.kind != "f"
        or dtype.itemsize > 8
        or y.dtype != g.dtype
        or y.shape != g.shape
        or not g.shape
        or not w.sharing.may_be_kept(out)
    ):
        return False
    bits = np.dtype(f"i{dtype.itemsize}")
    of_g = w.view(g, lambda x: x.view(bits), bits)
    mask = w.scratch(g.shape, np.bool_)
    if of_g is None or mask is None:
        return False
    number = w.workspace.view(mask, lambda x: x.view(np.int8), np.int8)
    if w.target(out, (g,)) is None:
        return False
    to = w.view(out, lambda x: x.view(bits), bits)
    w.line(f"{w.scope.hold(np.greater, 'greater')}({w.text(y)}, {w.operand(0.0, y)}, out=b{mask})")
    w.line(f"{w.scope.hold(np.multiply, 'multiply')}(b{number}, {of_g}, out={to})")
    return True


def _mean(w: Writer, instruction: Instruction) -> bool:
    """As NumPy's word for it, without its questions."""
    (x,) = instruction.operands
    (out,) = instruction.results
    if x.kind is not np.ndarray or np.dtype(x.dtype).char not in "fd" or not x.size or out.dtype != x.dtype:
        return False
    settings = {name: w.text(instruction.settings[name]) for name in ("axis", "keepdims")}
    w.line(f"{w.names[out]} = {w.call(np.add.reduce, x, stem='sum', **settings)} / {x.size // out.size}")
    return True


def _transpose(w: Writer, instruction: Instruction) -> bool:
    (x,) = instruction.operands
    if w.number(x) is not None or x.kind is not np.ndarray:
        return False
    w.line(f"{w.names[instruction.results[0]]} = {w.names[x]}.mT")
    return True


def _sgd_update(w: Writer, instruction: Instruction) -> bool:
    """A plain step of a small parameter, with a kept array for what is taken away."""
    p, g, v = instruction.operands
    if not is_plain(instruction.settings) or None in instruction.outputs or p is v or not p.shape:
        return False
    if len({(x.kind, x.shape, np.dtype(x.dtype)) for x in (p, g, v)}) > 1 or np.dtype(p.dtype).kind != "f":
        return False
    spare = w.scratch(p.shape, p.dtype)
    if spare is None:
        return False
    donate, lr, momentum = _numbers(w, instruction.settings, p)
    step = w.scope.hold(momentum_step, "momentum_step")
    call = f"{step}({w.text(p)}, {w.text(g)}, {w.text(v)}, b{spare}, {lr}, {momentum})"
    _in_place(w, instruction, p, v, donate, call)
    return True


def _folded(w: Writer, instruction: Instruction) -> bool:
    """A step of momentum with the gradient in it, where nothing that is known beforehand is asked at each call."""
    p, a, b, v = instruction.operands
    operation, settings = instruction.operation, instruction.settings
    if operation.sums:
        spare = w.scratch(p.shape, p.dtype)
        if spare is None:
            return False
        donate, lr, momentum = _numbers(w, settings, p)
        done = f"{w.scope.hold(step_of_sum, 'step_of_sum')}({w.text(p)}, {w.text(a)}, {w.text(v)}, b{spare}, {lr}, "
    else:
        sizes, dtype = (*a.shape, b.shape[1]), np.dtype(p.dtype)
        of_a, of_b = w.where(a), w.where(b)
        if of_a is None or of_b is None or 0 in a.shape:
            return False
        lr, momentum = (w.text(settings[name]) for name in ("lr", "momentum"))
        donate = " and ".join(filter(None, (w.text(settings["donate"]), of_a[2], of_b[2])))
        done = f"{w.scope.hold(step_of_product(sizes, dtype), 'step_of_product')}({w.text(p)}, {w.text(v)}, "
        done += f"{', '.join((*of_a[:2], *of_b[:2]))}, {lr}, "
    _in_place(w, instruction, p, v, donate, f"{done}{momentum})")
    return True


def _numbers(w: Writer, settings: Mapping[str, Any], p: Variable) -> tuple[str, str, str]:
    """The expressions of ``donate``, ``lr`` and ``momentum`` for ``momentum_step``, which is BLAS's of large arrays."""
    donate, lr, momentum = (settings[name] for name in ("donate", "lr", "momentum"))
    if p.size > SMALL:
        return w.text(donate), w.text(lr), w.text(momentum)
    return w.text(donate), w.rate(lr, p), w.operand(momentum, p)


def _in_place(w: Writer, instruction: Instruction, p: Any, v: Any, donate: str, call: str) -> None:
    """A call that writes into the state where it may, and the ordinary one where it may not."""
    first, second = w.text(p), w.text(v)
    results = ", ".join(w.names[out] for out in instruction.results)
    w.line(f"if {donate} and {first}.flags.carray and {second}.flags.carray:")
    w.line(f"    {call}")
    w.line(f"    {results} = {first}, {second}")
    w.line("else:")
    w.line(f"    {results}, = {w._plain(instruction)}")


def step_of_product(sizes: tuple[int, int, int], dtype: np.dtype) -> Callable[..., None]:
    """The function that does ``v = momentum * v + a @ b; p -= lr * v``, of operands' addresses and layouts."""
    product, axpy, size = product_adder(dtype, sizes), ROUTINES[dtype].axpy, c_int64(sizes[0] * sizes[2])

    def step(p: Any, v: Any, of_a: Any, a: Any, of_b: Any, b: Any, lr: float, momentum: float) -> None:
        to = address(v)
        product(of_a, a, of_b, b, momentum, to)
        settle(v)
        axpy(size, -lr, to, 1, address(p), 1)

    return step


def _cross_entropy(w: Writer, instruction: Instruction) -> bool:
    x, labels, g = instruction.operands
    loss, lse, g_x = instruction.outputs
    n, classes = x.shape
    dtype = np.dtype(x.dtype)
    shape, starts, step = layout(n, classes)
    spare = [w.scratch((n,), kind) for kind in (dtype, dtype, dtype, np.int64)]
    if None in spare or g_x is None or not w.sharing.may_be_kept(g_x):
        return False
    e = w.laid(g_x, shape, dtype, (lambda x: x.T) if classes < SHORT else None)
    if e is None:
        return False
    given = [w.text(v) for v in (x, labels, g)]
    for out in (loss, lse):
        if out is not None and w.target(out) is None:
            w.line(f"{w.names[out]} = {w.call(np.empty, (n,), dtype, stem='empty')}")
    ends = [w.text(v) for v in (starts, step, loss, lse)]
    name = w.scope.hold(cross_entropy, "cross_entropy")
    w.line(f"{name}({', '.join([*given, e, *(f'b{i}' for i in spare), *ends])})")
    return True


def _group(w: Writer, instruction: Instruction) -> bool:
    """A group that writes its outputs into buffers, or over operands that it alone reads."""
    group = instruction.operation
    function = group_function(group)
    operands = dict(zip(group.program.inputs, instruction.operands, strict=True))
    results = dict(zip(group.program.outputs, instruction.outputs, strict=True))
    arguments = [w.text(v) for v in instruction.operands]
    left = {out: w.names[out] for out in instruction.results}
    taken: set[str] = set()
    for inner in outputs_of_rows(group):
        out = results[inner]
        over = [operands[v] for v in function.overwrites[inner] if w.is_alone(operands[v], instruction)]
        target = w.target(out, [v for v in over if w.names[v] not in taken])
        arguments.append("None" if target is None else target)
        if target is not None:
            taken.add(target)
            left[out] = "_" if w.number(out) is not None else target
    names = ", ".join(left[v] for v in instruction.results)
    w.line(f"{names}, = {w.scope.hold(function, 'fused')}({', '.join(arguments)})")
    return True


STEPS: dict[str, Step] = {
    CrossEntropy.name: _cross_entropy,
    "matmul": _matmul,
    "linear": _linear,
    "linear.vjp:bias": _linear_bias,
    "relu.vjp:x": _relu_vjp,
    "matrix_transpose": _transpose,
    "mean": _mean,
    "sgd_update": _sgd_update,
    "sgd_update of a product": _folded,
    "sgd_update of a sum": _folded,
}
