"""Operations with sub-programs: their base class, and the steps of loops."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.control.bodies import Body, ProgramCall, compiled, example, invariant_part
from agrad.control.derived import MappedBody, active_outputs, mapped, pushed
from agrad.engine.calls import lift_all
from agrad.engine.layouts import apart_by_rows
from agrad.engine.levels import dispatch
from agrad.engine.namespaces import namespace_of
from agrad.engine.tensor import Tensor, raw_of, strip_constant_levels
from agrad.jit.compile import compile_program, loop_target
from agrad.jit.lower.numpy.loops import Loop as NumpyLoop
from agrad.jit.passes.aliasing import Aliases
from agrad.jit.program import Instruction, Program, Variable, variable_like
from agrad.registry import namespace
from agrad.transforms.arguments import zeros
from agrad.transforms.calling import Rules, Values, call, differentiable
from agrad.transforms.custom import stop_gradient
from agrad.transforms.trees import replaced


class ControlFlow(ProgramCall, Rules):
    """Base class of operations with sub-programs, from which their rules are derived.

    ``programs`` accept the operands, or slices of them. ``examples`` contains an array or a number for each input of a
    program, and ``results`` contains arrays like the results.
    """

    sketches = True
    is_operation = True

    def __init__(self, name: str, programs: Sequence[Program], examples: Sequence[Any], results: Sequence[Any]) -> None:
        super().__init__(name, len(results))
        self.programs = list(programs)
        self.has_effect: bool = any(program.has_effect for program in programs)
        self.examples: list[Any] = list(examples)
        self.results: list[Any] = [apart_by_rows(x) for x in results]
        self.derived: dict[Any, Any] = {}
        """Derivatives and compiled steps, by their keys."""
        self._functions: dict[Any, Callable[..., Any]] = {}

    def once(self, key: Any, make: Callable[..., Any], *args: Any) -> Any:
        """Return ``make(*args)``, called once for each key."""
        if key not in self.derived:
            self.derived[key] = make(*args)
        return self.derived[key]

    def repeated_programs(self) -> list[tuple[Program, int]]:
        """Return the programs of a call with their numbers of runs, 0 if unknown."""
        return [(program, 1) for program in self.programs]

    @property
    def program(self) -> Program:
        """The program of a step."""
        return self.programs[-1]

    def bind(self, *args: Any, **settings: Any) -> Any:
        """See ``Operation.bind``."""
        return tuple(call(self, args))

    def sketch(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """See ``Operation.sketch``."""
        return tuple(self.results)

    def primal(self, leaves: Values) -> list[Any]:
        """See ``Rules.primal``."""
        return list(dispatch(self, tuple([strip_constant_levels(x) for x in leaves]), {}))

    def floating(self) -> list[int]:
        """Return the indices of the floating results."""
        return [k for k, raw in enumerate(self.results) if differentiable(raw)]

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """See ``Operation.evaluate``."""
        kind = next((type(x) for x in args if hasattr(x, "shape")), None)
        return self.function_of(kind)(*args)

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        backend = None if kind is None else backend_of_type(kind)
        name = None if backend is None else backend.name
        if name not in self._functions:
            self._functions[name] = (
                self.traced_by_jax(kind) if name == "jax" and not self.has_effect else self.looped(kind)
            )
        return self._functions[name]

    def looped(self, kind: type | None) -> Callable[..., Any]:
        """Return the function that uses Python control flow."""
        raise NotImplementedError

    def traced_by_jax(self, kind: Any) -> Callable[..., Any]:
        """Return the function that uses JAX control flow."""
        raise NotImplementedError


class Counts(NamedTuple):
    """The numbers of fixed, carried and sliced operands of a loop."""

    fixed: int
    carried: int
    sliced: int

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the operands of each kind."""
        a, b = self.fixed, self.fixed + self.carried
        return list(values[:a]), list(values[a:b]), list(values[b:])


def parted(program: Program, counts: Counts) -> tuple[Program, Program]:
    """Return the invariant part of a step as a program, and the rest.

    The results of the first are the fixed inputs of the second.
    """
    fixed, carried, sliced = counts.split(program.inputs)
    before, rest = invariant_part(program, fixed)
    read = {v for i in rest for v in i.reads()} | {v for v in program.outputs if isinstance(v, Variable)}
    handed = [*fixed, *[v for i in before for v in i.results if v in read]]
    first = Program(fixed, program.constants, before, handed, program.notes)
    body = Program([*handed, *carried, *sliced], program.constants, [], program.outputs, dict(program.notes))
    return first, body.with_instructions(rest)


class Step:
    """A step as two functions: ``first`` runs once for a loop, ``run`` at each step."""

    def __init__(self, program: Program, counts: Counts, kind: type | None) -> None:
        first, body = parted(program, counts)
        self.first, self.run = compiled(first, kind), compiled(body, kind)


def computed(values: Values) -> Values:
    """Return the same values, computed together if their library is lazy.

    Tensors are computed in place. Otherwise a loop that reads a value at each step computes all steps before it again.
    """
    raws = [raw_of(x) for x in values]
    for kind in {type(raw) for raw in raws}:
        backend = backend_of_type(kind)
        if backend is not None and backend.lazy:
            return [_with_raw(x, raw) for x, raw in zip(values, backend.computed(raws), strict=True)]
    return values


def is_true(raw: Any) -> bool:
    """Return the value of an array of one Boolean."""
    backend = backend_of(raw)
    return bool(backend.to_host(raw) if backend.lazy else raw)


def _with_raw(value: Any, raw: Any) -> Any:
    """Return a Tensor with other data inside all transforms, or the data itself instead of an array."""
    if not isinstance(value, Tensor):
        return raw
    inner = value
    while isinstance(inner.data, Tensor):
        inner = inner.data
    inner.data = raw
    return value


def numpy_loop(
    program: Program, counts: Counts, kind: type | None, length: int | None = None, reverse: bool = False
) -> Callable[[Values], tuple[list[Any], Sequence[int]]] | None:
    """Return all steps as one function of NumPy operands, or None if not possible.

    ``length`` is None if a step also returns a condition. The function returns the results, and the indices of the
    results that share no memory with anything.
    """
    first, body = parted(program, counts)
    around = NumpyLoop(len(first.outputs), counts.carried, length, reverse)
    target = loop_target(body, around) if on_numpy(kind) else None
    if target is None:
        return None
    start, run = compiled(first, kind), compile_program(body, target).run
    fresh: Sequence[int] = vars(run)["fresh"]

    def loop(operands: Values) -> tuple[list[Any], Sequence[int]]:
        return list(run([*start(operands[: counts.fixed]), *operands[counts.fixed :]])), fresh

    return loop


def shared_constants(program: Program) -> list[Any]:
    """Return the constants that a result may share memory with."""
    aliases = Aliases(program)
    bases = aliases.of(*program.outputs)
    return [raw for v, raw in program.constants.items() if v in bases]


def on_numpy(kind: type | None) -> bool:
    """Return True for the types of NumPy arrays and scalars."""
    return kind is not None and issubclass(kind, (np.ndarray, np.generic))


def typed(jax: Any, values: Sequence[Any], dtypes: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([jax.lax.convert_element_type(x, d) for x, d in zip(values, dtypes, strict=True)])


def or_zeros(v: Any, like: Any, constants: dict[Variable, Any], examples: dict[Variable, Any]) -> Any:
    """Return a variable, or the variable of a constant of zeros instead of None."""
    return constant_of(zeros(like), constants, examples) if v is None else v


def constant_of(raw: Any, constants: dict[Variable, Any], examples: dict[Variable, Any]) -> Variable:
    """Return the variable of a new constant."""
    v = variable_like(raw)
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


class Loop(ControlFlow):
    """Base class of loops, whose last program is a step.

    The inputs of the step are fixed values, carried values, and slices. Its outputs are the next carried values, and a
    row of each stacked result.
    """

    counts: Counts

    def active(self, operands: Sequence[int]) -> tuple[int, ...]:
        """Return the inputs of a step that have a derivative if these operands have one."""
        program, counts, found = self.program, self.counts, set(operands)
        known = dict(zip((*program.inputs, *program.outputs), (*self.examples, *self.results), strict=True))
        while True:
            outs = active_outputs(program, [program.inputs[i] for i in found], known)
            more = {counts.fixed + k for k in range(counts.carried) if outs[k]}
            if more <= found:
                return tuple(sorted(found))
            found |= more

    def widened(self, program: Program, counts: Counts, examples: Mapping[Variable, Any]) -> Self:
        """Return the loop with a step that has more inputs and outputs of each kind."""
        raise NotImplementedError

    def with_tangents(self, active: tuple[int, ...]) -> tuple[Self, list[int]]:
        """Return the loop with tangents, and the indices of the results that have one.

        The tangents of each kind of operands and results follow these.
        """
        counts, n = self.counts, self.counts.carried
        found = pushed(self.program, self.examples, active, self.name)
        along = replaced([None] * len(found.inputs), active, found.tangents)
        parts = counts.split(found.inputs)
        ts = [[v for v in part if v is not None] for part in counts.split(along)]
        carried = [k for k in range(n) if counts.fixed + k in active]
        rows = [k for k in range(n, len(found.outputs)) if found.pushed[k] is not None]
        constants, examples = dict(found.body.program.constants), dict(found.body.examples)
        outputs = found.outputs[:n]
        for k in carried:
            outputs.append(or_zeros(found.pushed[k], examples[found.outputs[k]], constants, examples))
        outputs += [*found.outputs[n:], *[found.pushed[k] for k in rows]]
        inputs = [v for part, t in zip(parts, ts, strict=True) for v in (*part, *t)]
        wide = Counts(*[len(part) + len(t) for part, t in zip(parts, ts, strict=True)])
        return self.widened(program_of(found.body, inputs, outputs, constants), wide, examples), [*carried, *rows]

    def forward(self, leaves: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
        """See ``Rules.forward``."""
        active = self.active(traced)
        wide, having = self.once(("jvp", active), self.with_tangents, active)
        given = dict(zip(traced, tangents, strict=True))
        ts = [given.get(i, zeros(leaf)) if i in active else None for i, leaf in enumerate(leaves)]
        parts, along = self.counts.split(leaves), self.counts.split(ts)
        operands = [v for part, t in zip(parts, along, strict=True) for v in (*part, *[x for x in t if x is not None])]
        found = call(wide, lift_all(operands))
        n, count = self.counts.carried, len(self.results)
        edge = n + sum(k < n for k in having)
        outs, rest = [*found[:n], *found[edge:][: count - n]], found[edge:][count - n :]
        return outs, replaced([None] * count, having, [*found[n:edge], *rest])


def with_axis(leaves: Values, flags: Sequence[bool], wide: Sequence[bool], members: int) -> list[Any]:
    """Return operands with the mapped axis if ``wide``."""
    return [
        namespace_of((x,)).broadcast_to(x, (members, *x.shape)) if w and not m else x
        for x, m, w in zip(leaves, flags, wide, strict=True)
    ]


def may_raise(program: Program) -> bool:
    """Return True if an instruction may raise an error because of values."""
    return any(map(_may_raise, program.instructions))


def _may_raise(instruction: Instruction) -> bool:
    operation = instruction.operation
    if not operation.is_own:
        return True
    # an index without arrays was checked in the trace
    checked = operation.variadic == "indices" and len(instruction.operands) == len(operation.arrays)
    return operation.raises and not checked


def of_members(program: Program, mine: Any, values: Values, flags: Sequence[bool]) -> list[Any]:
    """Return operands in which elements outside of ``mine`` repeat one inside.

    mine: one Boolean for each batch element. The values of the first True one are repeated, because the program may
    have no value, or no derivative of some order, at the values of other elements. Derivatives by these are 0.
    """
    (members,) = mine.shape
    if not members:
        return list(values)
    whole = backend_of(example(mine)).xp.int64
    first = namespace.argmax(namespace.astype(mine, whole), axis=0, keepdims=True)
    read = {v for i in program.instructions for v in i.reads()}
    given = []
    for x, m, v in zip(values, flags, program.inputs, strict=True):
        if m and v in read:
            among = namespace.reshape(mine, (members, *[1] * (len(x.shape) - 1)))
            x = namespace.where(among, x, stop_gradient(namespace.take(x, first, axis=0)))
        given.append(x)
    return given


def mapped_carry(
    program: Program, examples: Sequence[Any], flags: Sequence[bool], counts: Counts, members: int, name: str
) -> tuple[MappedBody, list[bool]]:
    """Return a step for all batch elements, and flags of its mapped inputs.

    A carried value is mapped if the result of the step is mapped.
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
