"""Transforms of programs: with tangents, with a pullback, for a batch."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from agrad.control.bodies import Body, BodyTrace, _body, _running, example, repeated, traced_body
from agrad.engine.backward import backward_pass
from agrad.engine.batching import Batch
from agrad.engine.levels import Forward, Reverse
from agrad.engine.namespaces import NAMESPACES, namespace_of
from agrad.engine.tape import leaf_node
from agrad.engine.tensor import Tensor, strip_constant_levels, wrap
from agrad.jit.program import Instruction, Program, Variable, interpret
from agrad.transforms.arguments import split_level
from agrad.transforms.calling import differentiable


def active_outputs(program: Program, active: Iterable[Variable], examples: Mapping[Variable, Any]) -> list[bool]:
    """Return which outputs may have a derivative with respect to the active inputs."""
    reached = set(active)
    for instruction in program.instructions:
        if not reached.isdisjoint(instruction.reads()):
            reached.update(instruction.results)
    return [isinstance(v, Variable) and v in reached and differentiable(examples[v]) for v in program.outputs]


class Pushed(NamedTuple):
    """A program with tangents."""

    body: Body
    inputs: list[Variable]
    """The inputs of the program."""
    tangents: list[Variable]
    """The tangents of the active inputs."""
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
            value, tangent = split_level(out, level)
            outputs.append(trace.variable_of(value))
            found.append(None if tangent is None else trace.variable_of(tangent))
    body = _body(trace, [*inputs, *tangents], [*outputs, *[t for t in found if t is not None]])
    return Pushed(body, inputs, tangents, outputs, found)


def ones_like(raw: Any) -> Any:
    """Return an array of ones like another array."""
    return NAMESPACES[type(raw)].ones_like(raw)


class Pulled(NamedTuple):
    """A program with its pullback."""

    body: Body
    """The program with all instructions and results, also of the pullback."""
    forward: list[Instruction]
    backward: list[Instruction]
    inputs: list[Variable]
    outputs: list[Any]
    given: dict[int, Variable]
    """The cotangents of outputs, by the index of the output."""
    found: list[Any]
    """The cotangents of the active inputs, None for zero."""
    sums: list[Any]
    """The sums of ``found`` and ``added``, for the first active inputs."""
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

    The cotangents of the first ``summed`` active inputs are added to further inputs.
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
        pairs = [split_level(out, level) for out in interpret(program, given)]
        mark = len(trace.instructions)
        for k, (value, node) in enumerate(pairs):
            outputs.append(trace.variable_of(value))
            if node is not None and differentiable(value):
                g = trace.array(ones_like(example(value)))
                cotangents[k] = g.node
                starts[node] = starts[node] + g if node in starts else g
        reached = backward_pass(starts, retain=False)
        pulled_back = [reached.get(root) for root in roots.values()]
        for i, back in zip(active[:summed], pulled_back[:summed], strict=True):
            before = trace.array(ones_like(examples[i]))
            added.append(before.node)
            sums.append(trace.variable_of(before if back is None else before + back))
        found = [None if back is None else trace.variable_of(back) for back in pulled_back]
    body = _body(trace, inputs, [*outputs, *found, *sums])
    forward, backward = trace.instructions[:mark], trace.instructions[mark:]
    return Pulled(body, forward, backward, inputs, outputs, cotangents, found, sums, added)


class MappedBody(NamedTuple):
    """A program that computes all batch elements."""

    body: Body
    flags: list[bool]
    """True for each output with the mapped axis."""


def mapped(
    program: Program,
    examples: Sequence[Any],
    flags: Sequence[bool],
    members: int,
    named: str,
    wanted: Sequence[int] = (),
    run: Callable[[Program, list[Any]], Sequence[Any]] = interpret,
) -> MappedBody:
    """Trace a program for all batch elements.

    ``flags`` is True for inputs whose first axis is the mapped axis. ``wanted`` are the outputs that must have it.
    ``run`` is a function of the program and its inputs, Tensors inside ``vmap``, which returns the outputs.
    """
    seen: list[bool] = []

    def function(given: list[Any]) -> list[Any]:
        level = Batch(members)  # newer than the trace
        wrapped = [level.wrap(x) if m else x for x, m in zip(given, flags, strict=True)]
        found = []
        for k, out in enumerate(run(program, wrapped)):
            out = strip_constant_levels(out) if isinstance(out, Tensor) else out
            is_mapped = isinstance(out, Tensor) and out.level is level
            if is_mapped:
                out = strip_constant_levels(out.data)
            elif k in wanted:
                out = namespace_of((out,)).broadcast_to(out, (members, *out.shape))
            seen.append(is_mapped or k in wanted)
            found.append(out)
        return found

    many = [repeated(x, members) if m else x for x, m in zip(examples, flags, strict=True)]
    return MappedBody(traced_body(function, many, named, captures=False), seen)
