"""Operations with sub-programs: their base class, and the steps of loops."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from agrad.backends import backend_of_type
from agrad.control.bodies import Body, compiled, invariant_part
from agrad.control.derived import MappedBody, active_outputs, mapped
from agrad.engine.layouts import apart_by_rows
from agrad.engine.levels import dispatch
from agrad.engine.namespaces import namespace_of
from agrad.engine.operation import Operation
from agrad.engine.tensor import strip_constant_levels
from agrad.jit.passes.aliasing import Aliases
from agrad.jit.program import Instruction, Program, Variable
from agrad.transforms.arguments import zeros
from agrad.transforms.calling import Back, Values, call, differentiable


class ControlFlow(Operation):
    """Base class of the operations with sub-programs.

    name: for errors and texts of programs. programs: take the operands, or slices of them. examples: a raw array, or a
    number, for each input of the programs. results: raw arrays like the results.
    """

    variadic = "operand"
    sketches = True
    is_own = False
    may_alias = True
    takes_traced_numbers = True

    def __init__(self, name: str, programs: Sequence[Program], examples: Sequence[Any], results: Sequence[Any]) -> None:
        self.name = name
        self.programs = list(programs)
        self.examples = list(examples)
        self.results = [apart_by_rows(x) for x in results]
        self.outputs = tuple(f"output_{k}" for k in range(len(self.results)))
        self.derived: dict[Any, Any] = {}
        """Derivatives, by the operands that have one."""
        self._functions: dict[Any, Callable[..., Any]] = {}

    @property
    def program(self) -> Program:
        """The program of a step, as texts show it."""
        return self.programs[-1]

    def bind(self, *args: Any, **settings: Any) -> Any:
        """See ``Operation.bind``."""
        return tuple(call(self.rules(), args))

    def rules(self) -> "ControlRules":
        """Return the rules of a call."""
        raise NotImplementedError

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """See ``Operation.evaluate``."""
        kind = next((type(x) for x in args if hasattr(x, "shape")), None)
        return self.function_of(kind)(*args)

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        backend = None if kind is None else backend_of_type(kind)
        name = None if backend is None else backend.name
        if name not in self._functions:
            self._functions[name] = self.traced_by_jax(kind) if name == "jax" else self.looped(kind)
        return self._functions[name]

    def looped(self, kind: type | None) -> Callable[..., Any]:
        """Return the function made of Python's control flow."""
        raise NotImplementedError

    def traced_by_jax(self, kind: Any) -> Callable[..., Any]:
        """Return the function made of JAX's control flow."""
        raise NotImplementedError


class ControlRules:
    """One call of an operation with sub-programs; see ``calling.Rules``."""

    loop = False

    def __init__(self, operation: Any) -> None:
        self.operation = operation
        self.name = str(operation.name)

    def primal(self, leaves: Values) -> list[Any]:
        return list(dispatch(self.operation, tuple([strip_constant_levels(x) for x in leaves]), {}))

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        raise NotImplementedError

    def forward(self, leaves: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
        raise NotImplementedError

    def floating(self) -> list[int]:
        """Return the numbers of the floating results."""
        return [k for k, raw in enumerate(self.operation.results) if differentiable(raw)]


class Counts(NamedTuple):
    """The numbers of the fixed, the carried and the sliced operands of a loop."""

    fixed: int
    carried: int
    sliced: int

    def apart(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the operands of each sort."""
        a, b = self.fixed, self.fixed + self.carried
        return list(values[:a]), list(values[a:b]), list(values[b:])


class Step:
    """A step of a loop as a function: what does not change is computed once a loop.

    On NumPy a step may overwrite carried arrays that only the loop holds; ``start`` copies the first ones.
    """

    def __init__(self, program: Program, counts: Counts, kind: type | None) -> None:
        fixed, carried, sliced = counts.apart(program.inputs)
        before, rest = invariant_part(program, fixed)
        read = {v for i in rest for v in i.reads()} | {v for v in program.outputs if isinstance(v, Variable)}
        made = [v for i in before for v in i.results if v in read]
        self.first = compiled(Program(fixed, program.constants, before, [*fixed, *made], program.notes), kind)
        body = Program([*fixed, *made, *carried, *sliced], program.constants, [], program.outputs, dict(program.notes))
        body = body.with_instructions(rest)
        self.own = _made_anew(body, carried) if on_numpy(kind) else []
        body.notes["donated"] = {carried[k] for k in self.own}
        self.run = compiled(body, kind)

    def start(self, carry: list[Any]) -> list[Any]:
        """Return the first carried values."""
        for k in self.own:
            carry[k] = carry[k].copy()
        return carry


def on_numpy(kind: type | None) -> bool:
    """Return True for the types of NumPy's arrays and of its scalars."""
    return kind is not None and issubclass(kind, (np.ndarray, np.generic))


def _made_anew(program: Program, carried: Sequence[Variable]) -> list[int]:
    """Return the numbers of the carried values that are new arrays after each step."""
    aliases = Aliases(program)
    new = {v for i in program.instructions if i.operation.is_own and i.operation.kind in MAKING for v in i.results}
    outs = program.outputs[: len(carried)]
    return [k for k, v in enumerate(outs) if v in new and aliases[v] == {v} and outs.count(v) == 1 and v.shape]


MAKING = ("elementwise", "reduction", "row_sum", "product")
"""The kinds of operations whose results share no memory with anything."""


def active_inputs(
    program: Program, examples: Sequence[Any], results: Sequence[Any], counts: Counts, operands: Sequence[int]
) -> tuple[int, ...]:
    """Return the inputs of a step that have a derivative if these operands do."""
    known = dict(zip((*program.inputs, *program.outputs), (*examples, *results), strict=True))
    found = set(operands)
    while True:
        outs = active_outputs(program, [program.inputs[i] for i in found], known)
        more = {counts.fixed + k for k in range(counts.carried) if outs[k]}
        if more <= found:
            return tuple(sorted(found))
        found |= more


def typed(jax: Any, values: Sequence[Any], dtypes: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([jax.lax.convert_element_type(x, d) for x, d in zip(values, dtypes, strict=True)])


def or_zeros(v: Any, like: Any, constants: dict[Variable, Any], examples: dict[Variable, Any]) -> Any:
    """Return a variable, or that of a constant of zeros in the place of None."""
    if v is None:
        raw = zeros(like)
        v = Variable(tuple(raw.shape), raw.dtype, type(raw))
        constants[v] = examples[v] = raw
    return v


def program_of(
    body: Body,
    inputs: Sequence[Variable],
    outputs: Sequence[Any],
    constants: dict[Variable, Any],
    instructions: Sequence[Instruction] | None = None,
) -> Program:
    program = body.program
    full = Program(list(inputs), constants, [], list(outputs), program.notes)
    return full.with_instructions(program.instructions if instructions is None else instructions)


def with_axis(leaves: Values, flags: Sequence[bool], wide: Sequence[bool], members: int) -> list[Any]:
    """Return operands with the mapped axis where it is wanted."""
    return [
        namespace_of((x,)).broadcast_to(x, (members, *x.shape)) if w and not m else x
        for x, m, w in zip(leaves, flags, wide, strict=True)
    ]


def mapped_carry(
    program: Program, examples: Sequence[Any], flags: Sequence[bool], counts: Counts, members: int, name: str
) -> tuple[MappedBody, list[bool]]:
    """Return a step for all members, and which of its inputs have the mapped axis.

    A carried value has it if the step's result has it.
    """
    wide = list(flags)
    while True:
        carried = [k for k in range(counts.carried) if wide[counts.fixed + k]]
        found = mapped(program, examples, wide, members, name, carried)
        more = [k for k in range(counts.carried) if found.flags[k] and k not in carried]
        if not more:
            return found, wide
        for k in more:
            wide[counts.fixed + k] = True
