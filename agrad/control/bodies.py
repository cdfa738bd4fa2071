"""Bodies: functions that control flow calls, as programs, and their derivatives.

While a function runs, its body trace is the innermost nesting level. It records every operation of the function. Values
of other levels become inputs of the program (captures). To differentiate a program, it is interpreted inside a
transform, whose operations another trace records.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.engine.batching import Batch
from agrad.engine.calls import capture_key, lift_all, newest_level
from agrad.engine.layouts import copied
from agrad.engine.levels import CAPTURED, GLOBAL_TAPE
from agrad.engine.operation import Operation
from agrad.engine.scalars import TracedNumber
from agrad.engine.tape import change_mode, is_recording, mode, next_id, no_grad
from agrad.engine.tensor import BatchedTensor, Tensor, strip_constant_levels, wrap
from agrad.engine.views import with_nodes_of
from agrad.errors import TracedValueError
from agrad.jit.compile import PASSES, compile_program
from agrad.jit.lower.plain import plain
from agrad.jit.program import Instruction, Program, Variable, interpret, variable_like
from agrad.jit.trace import Trace, is_raw
from agrad.transforms.calling import Rules, call
from agrad.transforms.custom import stop_gradient
from agrad.transforms.trees import replaced

Flat = Callable[[list[Any]], Sequence[Any]]
"""A function from a list of Tensors to a list of results."""

Recompute = Callable[[Flat, Sequence[Any], Sequence[Any]], Sequence[Any]]
"""A function of a program, results and further operands, which returns the results; see ``RecomputedCall``."""


class StatefulBody(Exception):
    """Raised if a body uses an object with state, such as a random generator."""


class BodyTrace(Trace):
    """The trace of a function that control flow calls.

    ``captures`` is True if it may use values of outer levels. ``moved`` contains replacements of captured values, by
    ``capture_key``.
    """

    __slots__ = ("captured_values", "examples", "moved", "outer", "stops", "tensors")

    name = "body"
    keeps_rules = True

    def __init__(self, named: str, captures: bool = True, level_id: Any = None, moved: Any = None) -> None:
        super().__init__(named)
        self.moved, self.id = moved or {}, next_id() if level_id is None else level_id
        self.unreal = True
        self.stops: bool = max(self.id, 0) >= mode().oldest
        """False if no result has a derivative that ``no_grad`` could stop."""
        self.outer: Any = mode().trace if captures else None
        self.keeps_values: bool = getattr(mode().trace, "keeps_values", True)
        self.captured_values: dict[Any, tuple[Any, Variable]] = {}
        """Values of outer levels, and their variables."""
        self.tensors: bool = False
        """True if the function closes over a Tensor. Its results are then Tensors."""
        self.examples: dict[Variable, Any] = {}
        """A plain array for each variable."""

    def array(self, raw: Any) -> Tensor:
        """See ``Trace.array``."""
        tensor = super().array(raw)
        self.examples[tensor.node] = raw
        return tensor

    def scalar(self, value: Any) -> TracedNumber:
        """See ``Trace.scalar``."""
        number = super().scalar(value)
        self.examples[number.variable] = value
        return number

    def captured(self, value: Any) -> Any:
        """Return a Tensor of an outer level as one of this level, and other values as is."""
        if self.evaluating:
            return value
        if isinstance(value, Tensor) and value.level.id < self.id:
            inner = strip_constant_levels(value)
            self.tensors = self.tensors or value.level is GLOBAL_TAPE
            if isinstance(inner, Tensor):
                inner = self.moved.get(capture_key(inner), inner)
                return wrap(example(inner), self, self.capture(inner))
            again = self.captured(inner)
            return value if again is inner else again
        if self.outer is not None and is_raw(value):
            again = self.outer.captured(value)
            return value if again is value else self.captured(again)
        return value

    def capture(self, value: Any) -> Variable:
        """Return the variable of a value of an outer level, or of a number of the host."""
        if isinstance(value, TracedNumber):
            key: Any = id(value.variable)
            made = variable_like(value.value)
        else:
            if _is_within(value, self):
                raise TracedValueError(
                    f"{self.named} must not create a Tensor that requires a gradient from a traced value. "
                    "Differentiate by a transform, for example agrad.grad."
                )
            key, made = capture_key(value), variable_like(example(value))
        known = self.captured_values.setdefault(key, (value, made))[1]
        if known is made:
            self.examples[made] = example(value)
        return known

    def inputs_like(self, examples: Sequence[Any]) -> tuple[list[Any], list[Variable]]:
        """Return Tensors and traced numbers like some values, and their variables."""
        given: list[Any] = [self.array(raw) if is_raw(raw) else self.scalar(raw) for raw in examples]
        variables = [x.variable if isinstance(x, TracedNumber) else x.node for x in given]
        self.examples.update(zip(variables, examples, strict=True))
        return given, variables

    def guard_on(self, scalar: TracedNumber) -> None:
        """Raise ``TracedValueError``: a program has no guards."""
        raise TracedValueError(f"a derivative of {self.named} must not need the value of the number {scalar.value}")

    def _split(self, given: Iterable[Any]) -> tuple[list[Any], list[Any]]:
        values: list[Any] = []
        noted: list[Any] = []
        for arg in given:
            found = self.variable_of(arg)
            values.append(self.value_of(found))
            noted.append(found)
        return values, noted

    def variable_of(self, value: Any) -> Any:
        """Return the variable of an array or a traced number, and any other value itself."""
        if isinstance(value, Tensor):
            self.tensors = self.tensors or value.level is GLOBAL_TAPE
            value = strip_constant_levels(value)
        value = self.captured(value)
        if isinstance(value, TracedNumber):
            return value.variable if value.trace is self else self.capture(value)
        if isinstance(value, Tensor):
            if value.level is not self or self.closed:
                raise TracedValueError(
                    f"{self.named} must not use a value of a transform that has ended. Return it from the transformed "
                    "function."
                )
            self.examples[value.node] = value.data  # a write may have changed its layout, which decides on views
            return value.node
        return self.constant_variable(value) if is_raw(value) else value

    def value_of(self, found: Any) -> Any:
        """Return the example of a variable, and any other value itself."""
        return self.examples[found] if isinstance(found, Variable) else found

    def constant_variable(self, raw: Any) -> Variable:
        """See ``Trace.constant_variable``."""
        variable = super().constant_variable(raw)
        self.examples[variable] = raw
        return variable

    def check_open(self, args: Iterable[Any]) -> None:
        """See ``Trace.check_open``."""
        if self.closed:
            super().check_open(args)

    def check_known(self, args: Iterable[Any]) -> None:
        """See ``Trace.check_known``."""
        if self.outer is not None:
            self.outer.check_known(args)

    def check_known_holder(self, holder: Any) -> None:
        """Raise ``StatefulBody`` for an object from outside. Programs have no state."""
        if id(holder) not in self.holders:
            raise StatefulBody(type(holder).__name__)

    def process(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """See ``Level.process``. Results under ``no_grad`` never have a derivative."""
        if self.stops and not is_recording(self.id):
            args = tuple([self.stopped(x) if isinstance(x, Tensor) else x for x in args])
        return super().process(primitive, args, settings)

    def stopped(self, tensor: Any) -> Any:
        """Return a Tensor of this level without a derivative."""
        variable = self.variable_of(tensor)
        made = self.array(self.value_of(variable))
        self.instructions.append(Instruction(STOP, (variable,), {}, (made.node,)))
        return made

    def with_nodes_of(self, old: Any, new: Any) -> Any:
        """Return ``new`` with the derivative of ``old``, if nothing is recorded."""
        if not self.stops or is_recording(self.id):
            return new
        found = self.variable_of(old), self.variable_of(new)
        made = self.array(self.value_of(found[1]))
        self.instructions.append(Instruction(WRITE, found, {}, (made.node,)))
        return made

    def defined(
        self,
        name: str,
        results: Sequence[Any],
        function: Flat,
        likes: Sequence[Any],
        leaves: Sequence[Any],
        recompute: Recompute,
    ) -> list[Any]:
        """Record known results as one instruction, differentiated by ``recompute``.

        ``function`` is traced with inputs like ``likes``. ``leaves`` are further operands, passed to ``recompute``.
        """
        if not (self.stops and is_recording(self.id)):
            return list(results)
        examples = [self.value_of(self.variable_of(x)) for x in likes]
        body = traced_body(function, examples, name, level_id=id_above(self))
        found = [self.variable_of(x) for x in (*results, *body.captures, *leaves)]
        made = [self.array(self.value_of(v)) for v in found[: len(results)]]
        operation = RecomputedCall(name, len(results), body.program, len(body.captures), recompute)
        self.instructions.append(Instruction(operation, tuple(found), {}, tuple([t.node for t in made])))
        return list(made)

    def check_writable(self, tensor: Tensor) -> None:
        """Raise ``TracedValueError`` for a Tensor that is older than this trace."""
        value = tensor.data if tensor.node is None else tensor
        if isinstance(value, Tensor) and value.level.id < self.id:
            self.refuse_write(tensor)

    def refuse_write(self, tensor: Tensor) -> None:
        """Raise the error of a write to an argument or a captured value."""
        raise TracedValueError(
            f"{self.named} must not write to an argument or a captured array inside jit, but it wrote to one of shape "
            f"{tensor.shape}. Write to a copy, y = x + 0, and return it."
        )

    def call(self, rules: Rules, leaves: Sequence[Any]) -> list[Any]:
        """Record a call of a function with custom rules as one instruction.

        Derivatives of the program use the rules.
        """
        values, operands = self._split(leaves)
        places = [i for i, v in enumerate(operands) if isinstance(v, Variable)]

        def primal(given: list[Any]) -> Sequence[Any]:
            return rules.primal(replaced(values, places, given))

        # recorded at this level, because inner transforms may have called the function
        body = traced_body(primal, [values[i] for i in places], rules.name, level_id=self.id)
        if body.captures:
            raise TracedValueError(
                f"{rules.name} in {self.named} must not close over a traced value. Pass it as an argument."
            )
        arrays = [k for k, v in enumerate(body.program.outputs) if isinstance(v, Variable)]
        outs = body.program.outputs
        made = [self.array(body.examples[outs[k]]) for k in arrays]
        operation = CustomRuleCall(rules, body.program, places, arrays)
        self.instructions.append(Instruction(operation, tuple(operands), {}, tuple([t.node for t in made])))
        return replaced(outs, arrays, made)


def id_above(*levels: Any) -> Any:
    """Return the number of a trace that is just newer than the given levels."""
    newest = max(level.id for level in levels)
    return (newest + math.floor(newest) + 1) / 2


def _is_within(value: Any, level: Any) -> bool:
    while isinstance(value, Tensor):
        if value.level is level:
            return True
        value = value.data
    return False


def example(value: Any) -> Any:
    """Return the primal of a Tensor for the first batch element, as a plain array."""
    if isinstance(value, TracedNumber):
        return value.value
    if not isinstance(value, Tensor):
        return value
    if not isinstance(value, BatchedTensor):
        return example(value.data)
    inner = example(value.data)
    if not inner.shape[0]:
        xp = backend_of(inner).xp
        return xp.zeros(inner.shape[1:], dtype=inner.dtype)
    return inner[(0, ...)]


class _LastOperand(Operation):
    """Base class of operations that return their last operand, with another derivative."""

    is_own = False
    may_alias = True

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        return lambda *args: args[-1]


class StopGradient(_LastOperand):
    """The identity without a derivative."""

    name = "stop_gradient"
    arrays: tuple[str, ...] = ("x",)
    sparsity = "picks"
    kind = "reshape"  # to its own shape

    def bind(self, *args: Any, **settings: Any) -> Any:
        """See ``Operation.bind``."""
        return stop_gradient(args[0])


STOP = StopGradient()


class UnrecordedWrite(_LastOperand):
    """A write under ``no_grad``: new values with the derivative of the old ones."""

    name = "unrecorded_write"
    arrays: tuple[str, ...] = ("old", "new")

    def bind(self, *args: Any, **settings: Any) -> Any:
        """See ``Operation.bind``."""
        with no_grad():
            return with_nodes_of(args[0], strip_constant_levels(args[1]))


WRITE = UnrecordedWrite()


class ProgramCall(Operation):
    """Base class of operations with sub-programs and ``count`` results."""

    variadic = "operand"
    is_own = False
    may_alias = True
    takes_traced_numbers = True

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.outputs = tuple(f"output_{k}" for k in range(count))


class RecomputedCall(ProgramCall):
    """Known results, and a function that computes them with derivatives.

    The operands are the ``count`` results, the ``fixed`` first inputs of a program, and further operands. ``recompute``
    accepts the program as a function of its other inputs, the results, and the further operands.
    """

    def __init__(self, name: str, count: int, program: Program, fixed: int, recompute: Recompute) -> None:
        super().__init__(name, count)
        self.count, self.program, self.fixed, self.recompute = count, program, fixed, recompute

    def bind(self, *args: Any, **settings: Any) -> Any:
        """See ``Operation.bind``."""
        args = tuple([strip_constant_levels(x) if isinstance(x, Tensor) else x for x in args])
        level = newest_level(args)
        known, rest = args[: self.count], lift_all(args[self.count :])
        if level is None or not (level.derivative or level.keeps_rules or isinstance(level, Batch)):
            return known
        fixed, leaves = rest[: self.fixed], rest[self.fixed :]
        return tuple(self.recompute(lambda given: interpret(self.program, [*fixed, *given]), known, leaves))

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        return lambda *args: args[: self.count]


class CustomRuleCall(ProgramCall):
    """A call of a function with custom rules.

    ``places`` are the indices of the operands that are inputs of ``program``, ``kept`` the indices of the outputs of
    ``program`` that are results.
    """

    def __init__(self, rules: Rules, program: Program, places: Sequence[int], kept: Sequence[int]) -> None:
        super().__init__(rules.name, len(kept))
        self.rules, self.program, self.places, self.kept = rules, program, places, kept
        self.has_effect: bool = program.has_effect

    def bind(self, *args: Any, **settings: Any) -> Any:
        """See ``Operation.bind``."""
        outs = call(self.rules.renewed(), args)
        return tuple([outs[k] for k in self.kept])

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        run = compiled(self.program, kind)

        def function(*args: Any) -> tuple[Any, ...]:
            outs = run([args[i] for i in self.places])
            return tuple([outs[k] for k in self.kept])

        return function


# ------------------------------------------------------------------ programs of functions


class Body(NamedTuple):
    """The program of a function, with plain arrays like its variables."""

    program: Program
    captures: list[Any]
    """The values of outer levels, which are the first inputs."""
    examples: Mapping[Variable, Any]
    tensors: bool
    """True if the function closes over a Tensor."""

    def inputs(self) -> list[Any]:
        """Return an example of each input."""
        return [self.examples[v] for v in self.program.inputs]


@contextmanager
def _running(trace: BodyTrace) -> Iterator[None]:
    CAPTURED.append(trace)
    try:
        # examples may be outside of the domain of a function
        with change_mode(trace=trace), np.errstate(all="ignore"):
            yield
    finally:
        trace.closed = True
        CAPTURED.remove(trace)


def traced_body(
    function: Flat, examples: Sequence[Any], named: str, captures: bool = True, level_id: Any = None, moved: Any = None
) -> Body:
    """Trace a function of Tensors like the arrays ``examples``; see ``BodyTrace``.

    Raises ``TracedValueError`` if the function writes to its arguments.
    """
    trace = BodyTrace(named, captures, level_id, moved)
    given, inputs = trace.inputs_like(examples)
    with _running(trace):
        outputs = [trace.variable_of(out) for out in function(given)]
    for tensor, variable in zip(given, inputs, strict=True):
        if isinstance(tensor, Tensor) and (tensor.level is not trace or tensor.node is not variable):
            trace.refuse_write(tensor)
    return _body(trace, inputs, outputs)


def _body(trace: BodyTrace, inputs: Sequence[Variable], outputs: Sequence[Any]) -> Body:
    held = list(trace.captured_values.values())
    constants = {variable: raw for raw, variable in trace.constants.values()}
    program = Program([*[v for _, v in held], *inputs], constants, [], list(outputs))
    program.notes["returns_operand"] = trace.returns_operand
    full = program.with_instructions(trace.instructions)
    return Body(full, [value for value, _ in held], trace.examples, trace.tensors)


def compiled(program: Program, kind: type | None) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return the function of a program for arrays of one type, from inputs to outputs.

    For JAX arrays, JAX can trace the function.
    """
    backend = None if kind is None else backend_of_type(kind)
    if backend is None or backend.name != "jax":
        return compile_program(program).run
    for _, run in PASSES:
        program = run(program)
    return plain(program, lambda instruction: instruction.operation.function_of(kind))


def invariant_part(program: Program, fixed: Iterable[Variable]) -> tuple[list[Instruction], list[Instruction]]:
    """Return the instructions that depend only on fixed inputs, and the others."""
    known = {*fixed, *program.constants}
    before: list[Instruction] = []
    rest: list[Instruction] = []
    for instruction in program.instructions:
        if known.issuperset(instruction.reads()):
            before.append(instruction)
            known.update(instruction.results)
        else:
            rest.append(instruction)
    return before, rest


def repeated(raw: Any, count: int) -> Any:
    """Return an array repeated along a new first axis, as a row-major copy."""
    return copied(backend_of(raw).xp.broadcast_to(raw, (count, *raw.shape)))
