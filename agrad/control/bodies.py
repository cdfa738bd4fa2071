"""Bodies: functions that control flow calls, as programs, and their derivatives.

A body trace is the newest level while the function runs. It records every operation of the function, also those on
values of older levels alone, which become inputs of the program (captures). The derivative of a program is found as for
any function: the program is interpreted at a level of derivatives, and a further trace records what that level does.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from agrad.backends import backend_of_type
from agrad.engine.backward import backward_pass
from agrad.engine.batching import Batch
from agrad.engine.levels import CAPTURED, NAMESPACES, Forward, Reverse, namespace_of
from agrad.engine.operation import Operation
from agrad.engine.scalars import TracedNumber
from agrad.engine.tape import leaf_node, mode, next_id, tracing
from agrad.engine.tensor import Batched, Tensor, settle, wrap
from agrad.errors import TracedValueError
from agrad.jit.compile import PASSES, compile_program
from agrad.jit.lower.plain import plain
from agrad.jit.program import Instruction, Program, Variable, interpret, variable_like
from agrad.jit.trace import Trace, is_raw
from agrad.transforms.calling import Rules, call, differentiable

Flat = Callable[[list[Any]], Sequence[Any]]
"""A function from a list of Tensors to a list of results."""


class StatefulBody(Exception):
    """Raised where a body uses an object with state, such as a random generator."""


class BodyTrace(Trace):
    """The trace of a function that control flow calls.

    captures: True if the function may use values of older levels and arrays that an outer trace reads anew.
    """

    __slots__ = ("captured_values", "examples", "outer")

    name = "body"
    keeps_rules = True

    def __init__(self, named: str, captures: bool = True) -> None:
        super().__init__(named)
        self.id = next_id()
        self.outer = mode().trace if captures else None
        self.captured_values: dict[Any, tuple[Any, Variable]] = {}
        """Values of older levels with their variables."""
        self.examples: dict[Variable, Any] = {}
        """A raw array for each variable."""

    def array(self, raw: Any) -> Tensor:
        """See ``Trace.array``."""
        tensor = super().array(raw)
        self.examples[tensor.node] = raw
        return tensor

    def captured(self, value: Any) -> Any:
        """Return a Tensor of this level for one of an older level, else the value itself."""
        if self.evaluating:
            return value
        if isinstance(value, Tensor) and value.level.id < self.id:
            inner = settle(value)
            if isinstance(inner, Tensor):
                return wrap(example(inner), self, self.capture(inner))
            again = self.captured(inner)
            return value if again is inner else again
        if self.outer is not None and is_raw(value):
            again = self.outer.captured(value)
            return value if again is value else self.captured(again)
        return value

    def capture(self, value: Any) -> Variable:
        """Return the variable of a value of an older level, or of a number of the host."""
        if isinstance(value, TracedNumber):
            key: Any = id(value.variable)
            made = variable_like(value.value)
        else:
            if _is_within(value, self):
                raise TracedValueError(
                    f"{self.named} makes a Tensor that requires a gradient of a traced value; take the derivative by "
                    "a transform, agrad.grad say"
                )
            key = (id(value.level), id(value.node), id(value.data))
            made = variable_like(example(value))
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
        """See ``Trace.guard_on``. The trace that the number is from has the guard."""
        raise TracedValueError(f"a derivative of {self.named} needs the value of the number {scalar.value}")

    def _split(self, given: Iterable[Any]) -> tuple[list[Any], list[Any]]:
        values: list[Any] = []
        noted: list[Any] = []
        for arg in given:
            found = self.variable_of(arg)
            values.append(self.value_of(found))
            noted.append(found)
        return values, noted

    def variable_of(self, value: Any) -> Any:
        """Return the variable of an array or a traced number.

        Any other value is returned as it is.
        """
        value = self.captured(settle(value) if isinstance(value, Tensor) else value)
        if isinstance(value, TracedNumber):
            return self.capture(value)
        if isinstance(value, Tensor):
            if value.level is not self or self.closed:
                raise TracedValueError(
                    f"{self.named} returns or uses a value of a transform that has ended; return it from the function "
                    "that the transform takes"
                )
            return value.node
        return self.constant_variable(value) if is_raw(value) else value

    def value_of(self, found: Any) -> Any:
        """Return the example of a variable, any other value itself."""
        return self.examples[found] if isinstance(found, Variable) else found

    def constant_variable(self, raw: Any) -> Variable:
        """See ``Trace.constant_variable``."""
        variable = super().constant_variable(raw)
        self.examples[variable] = raw
        return variable

    def check_open(self, args: Iterable[Any]) -> None:
        """Raise ``TracedValueError`` for a value that was kept after the trace."""
        if self.closed:
            super().check_open(args)

    def check_known(self, args: Iterable[Any]) -> None:
        """See ``Trace.check_known``."""
        if self.outer is not None:
            self.outer.check_known(args)

    def check_known_holder(self, holder: Any) -> None:
        """Raise ``StatefulBody``: a program has no state of its own."""
        raise StatefulBody(type(holder).__name__)

    def call(self, rules: Rules, leaves: Sequence[Any]) -> list[Any]:
        """Record a call of a function with rules of its own as one instruction.

        A derivative of the program then takes the rules.
        """
        values, operands = self._split(leaves)
        places = [i for i, v in enumerate(operands) if isinstance(v, Variable)]

        def primal(given: list[Any]) -> Sequence[Any]:
            full = list(values)
            for i, value in zip(places, given, strict=True):
                full[i] = value
            return rules.primal(full)

        body = traced_body(primal, [values[i] for i in places], rules.name)
        if body.captures:
            raise TracedValueError(
                f"{rules.name} in {self.named} uses a traced value that is no argument of it; give it as an argument"
            )
        arrays = [k for k, v in enumerate(body.program.outputs) if isinstance(v, Variable)]
        outs = list(body.program.outputs)
        made = [self.array(body.examples[outs[k]]) for k in arrays]
        operation = RuledCall(rules, body.program, places, arrays)
        self.instructions.append(Instruction(operation, tuple(operands), {}, tuple([t.node for t in made])))
        for k, tensor in zip(arrays, made, strict=True):
            outs[k] = tensor
        return outs


def _is_within(value: Any, level: Any) -> bool:
    while isinstance(value, Tensor):
        if value.level is level:
            return True
        value = value.data
    return False


def example(value: Any) -> Any:
    """Return a raw array with the shape and dtype of a Tensor.

    It is the Tensor's primal, that of the first member of a map.
    """
    if isinstance(value, TracedNumber):
        return value.value
    if not isinstance(value, Tensor):
        return value
    if not isinstance(value, Batched):
        return example(value.data)
    inner = example(value.data)
    if not inner.shape[0]:
        xp = NAMESPACES[type(inner)]
        return xp.zeros(inner.shape[1:], dtype=inner.dtype)
    return inner[(0, ...)]


class RuledCall(Operation):
    """The operation of a call of a function with rules of its own."""

    variadic = "operand"
    is_own = False
    may_alias = True
    takes_traced_numbers = True

    def __init__(self, rules: Rules, program: Program, places: Sequence[int], arrays: Sequence[int]) -> None:
        self.rules, self.program, self.places, self.arrays = rules, program, places, arrays
        self.name = rules.name
        self.outputs = tuple(f"output_{k}" for k in range(len(arrays)))

    def bind(self, *args: Any, **settings: Any) -> Any:
        """See ``Operation.bind``."""
        outs = call(self.rules, args)
        return tuple([outs[k] for k in self.arrays])

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        run = compiled(self.program, kind)

        def function(*args: Any) -> tuple[Any, ...]:
            outs = run([args[i] for i in self.places])
            return tuple([outs[k] for k in self.arrays])

        return function


# ------------------------------------------------------------------ programs of functions


class Body(NamedTuple):
    """The program of a function, with raw arrays like its variables."""

    program: Program
    captures: list[Any]
    """The values of older levels, which are the first inputs."""
    examples: Mapping[Variable, Any]

    def inputs(self) -> list[Any]:
        """Return an example of each input."""
        return [self.examples[v] for v in self.program.inputs]


@contextmanager
def _running(trace: BodyTrace) -> Iterator[None]:
    CAPTURED.append(trace)
    try:
        # examples may be outside of a function's domain
        with tracing(trace), np.errstate(all="ignore"):
            yield
    finally:
        trace.closed = True
        CAPTURED.remove(trace)


def traced_body(function: Flat, examples: Sequence[Any], named: str, captures: bool = True) -> Body:
    """Trace a function of Tensors like the raw arrays ``examples``."""
    trace = BodyTrace(named, captures)
    given, inputs = trace.inputs_like(examples)
    with _running(trace):
        outputs = [trace.variable_of(out) for out in function(given)]
    return _body(trace, inputs, outputs)


def _body(trace: BodyTrace, inputs: Sequence[Variable], outputs: Sequence[Any], instructions: Any = None) -> Body:
    held = list(trace.captured_values.values())
    constants = {variable: raw for raw, variable in trace.constants.values()}
    program = Program([*[v for _, v in held], *inputs], constants, [], list(outputs))
    program.notes["given_back"] = trace.given_back
    full = program.with_instructions(trace.instructions if instructions is None else instructions)
    return Body(full, [value for value, _ in held], trace.examples)


def compiled(program: Program, kind: type | None) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return the function of a program for arrays of one type.

    It takes the list of inputs and returns that of outputs.

    On JAX it is one to be traced by JAX.
    """
    backend = None if kind is None else backend_of_type(kind)
    if backend is None or backend.name != "jax":
        return compile_program(program).run
    for _, run in PASSES:
        program = run(program)
    return plain(program, lambda instruction, _: instruction.operation.function_of(kind))


def invariant_part(program: Program, fixed: Iterable[Variable]) -> tuple[list[Instruction], list[Instruction]]:
    """Return the instructions that depend on fixed inputs alone, and the others."""
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


# ------------------------------------------------------------------ derivatives of programs


def active_outputs(program: Program, active: Iterable[Variable], examples: Mapping[Variable, Any]) -> list[bool]:
    """Return which outputs may have a derivative by the active inputs."""
    reached = set(active)
    for instruction in program.instructions:
        if not reached.isdisjoint(instruction.reads()):
            reached.update(instruction.results)
    return [isinstance(v, Variable) and v in reached and differentiable(examples[v]) for v in program.outputs]


class Pushed(NamedTuple):
    """A program with tangents."""

    body: Body
    inputs: list[Variable]
    """The variables of the program's inputs."""
    tangents: list[Variable]
    """Those of the tangents of the active inputs."""
    outputs: list[Any]
    pushed: list[Any]
    """The tangents of the outputs, None for zero."""


def pushed(program: Program, examples: Sequence[Any], active: Sequence[int], named: str) -> Pushed:
    """Trace a program with tangents for its active inputs."""
    trace, level = BodyTrace(named, captures=False), Forward()
    given, inputs = trace.inputs_like(examples)
    ts, tangents = trace.inputs_like([ones_like(examples[i]) for i in active])
    outputs: list[Any] = []
    found: list[Any] = []
    with _running(trace):
        for i, t in zip(active, ts, strict=True):
            given[i] = wrap(given[i], level, t)
        for out in interpret(program, given):
            value, tangent = _apart(out, level)
            outputs.append(trace.variable_of(value))
            found.append(None if tangent is None else trace.variable_of(tangent))
    body = _body(trace, [*inputs, *tangents], [*outputs, *[t for t in found if t is not None]])
    return Pushed(body, inputs, tangents, outputs, found)


def ones_like(raw: Any) -> Any:
    """Return ones like a raw array."""
    return NAMESPACES[type(raw)].ones_like(raw)


def _apart(out: Any, level: Any) -> tuple[Any, Any]:
    """Return a result without a level, and the level's record of it or None."""
    out = settle(out) if isinstance(out, Tensor) else out
    return (out.data, out.node) if isinstance(out, Tensor) and out.level is level else (out, None)


class Pulled(NamedTuple):
    """A program with its pullback."""

    body: Body
    """The program with all instructions and results, those of the pullback too."""
    forward: list[Instruction]
    backward: list[Instruction]
    inputs: list[Variable]
    outputs: list[Any]
    given: dict[int, Variable]
    """The variables of the cotangents of outputs, by the number of the output."""
    found: list[Any]
    """The cotangents of the active inputs, None for zero."""
    sums: list[Any]
    """The sums of these and of ``added``, for the first active inputs."""
    added: list[Variable]

    def residuals(self) -> list[Variable]:
        """Return the variables of the program that the pullback reads."""
        made = {v for i in self.backward for v in i.results}
        made |= {*self.given.values(), *self.added, *self.body.program.constants}
        read = [v for i in self.backward for v in i.reads()]
        read += [v for v in (*self.found, *self.sums) if isinstance(v, Variable)]
        return list(dict.fromkeys(v for v in read if v not in made))


def pulled(program: Program, examples: Sequence[Any], active: Sequence[int], summed: int, named: str) -> Pulled:
    """Trace a program and its pullback to the active inputs.

    summed: the number of active inputs, the first ones, whose cotangents are added to further inputs.
    """
    trace, level = BodyTrace(named, captures=False), Reverse()
    given, inputs = trace.inputs_like(examples)
    roots = {i: leaf_node() for i in active}
    outputs: list[Any] = []
    cotangents: dict[int, Variable] = {}
    starts: dict[Any, Any] = {}
    sums: list[Any] = []
    added: list[Variable] = []
    with _running(trace):
        for i, root in roots.items():
            given[i] = wrap(given[i], level, root)
        pairs = [_apart(out, level) for out in interpret(program, given)]
        mark = len(trace.instructions)
        for k, (value, node) in enumerate(pairs):
            outputs.append(trace.variable_of(value))
            if node is not None and differentiable(value):
                g = trace.array(ones_like(example(value)))
                cotangents[k] = g.node
                starts[node] = starts[node] + g if node in starts else g
        reached = backward_pass(starts, retain=False)
        pulled_back = [reached.get(root) for root in roots.values()]
        for i, g in zip(active[:summed], pulled_back[:summed], strict=True):
            total = trace.array(ones_like(examples[i]))
            added.append(total.node)
            sums.append(trace.variable_of(total if g is None else total + g))
        found = [None if g is None else trace.variable_of(g) for g in pulled_back]
    body = _body(trace, inputs, [*outputs, *found, *sums])
    forward, backward = trace.instructions[:mark], trace.instructions[mark:]
    return Pulled(body, forward, backward, inputs, outputs, cotangents, found, sums, added)


class MappedBody(NamedTuple):
    """A program that computes all members of a map."""

    body: Body
    flags: list[bool]
    """For each output, if it has the mapped axis."""


def mapped(
    program: Program,
    examples: Sequence[Any],
    flags: Sequence[bool],
    members: int,
    named: str,
    wanted: Sequence[int] = (),
    finish: Callable[[list[Any], Sequence[Any]], Sequence[Any]] | None = None,
) -> MappedBody:
    """Trace a program for all members of a map.

    flags: True for the inputs that have the mapped axis, in front. wanted: the outputs that must have it. finish: a
    function of the inputs and the outputs, Tensors of the batch level, to other outputs.
    """
    seen: list[bool] = []

    def function(given: list[Any]) -> list[Any]:
        level = Batch(members)  # newer than the trace
        wrapped = [level.wrap(x) if m else x for x, m in zip(given, flags, strict=True)]
        outs: Sequence[Any] = interpret(program, wrapped)
        if finish is not None:
            outs = finish(wrapped, outs)
        found = []
        for k, out in enumerate(outs):
            out = settle(out) if isinstance(out, Tensor) else out
            is_mapped = isinstance(out, Tensor) and out.level is level
            if is_mapped:
                out = settle(out.data)
            elif k in wanted:
                out = namespace_of((out,)).broadcast_to(out, (members, *out.shape))
            seen.append(is_mapped or k in wanted)
            found.append(out)
        return found

    many = [with_members(x, members) if m else x for x, m in zip(examples, flags, strict=True)]
    return MappedBody(traced_body(function, many, named, captures=False), seen)


def with_members(raw: Any, members: int) -> Any:
    """Return an array repeated along a new first axis, in memory of its own."""
    xp = NAMESPACES[type(raw)]
    return xp.asarray(xp.broadcast_to(raw, (members, *raw.shape)), copy=True)
