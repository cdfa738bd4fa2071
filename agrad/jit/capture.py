"""Trace one call: put tracers in place, run once, restore, compile."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agrad.backends import backend_of_type
from agrad.engine.backward import backward_pass, topological_order
from agrad.engine.levels import CAPTURED, GLOBAL_TAPE, NAMESPACES
from agrad.engine.tape import LEAF, Node, is_recording, leaf_node, tracing
from agrad.engine.tensor import Tensor, wrap
from agrad.errors import NotDifferentiableError, TracedValueError
from agrad.jit import entry as entries
from agrad.jit.calls import Derivative
from agrad.jit.compile import compile_program
from agrad.jit.entry import Attribute, Entry, Out, Slot, StrideGuard, hold_traced, like, slot_of
from agrad.jit.lower.plain import plain
from agrad.jit.passes.aliasing import overwritten
from agrad.jit.passes.cleanup import without_dead_code
from agrad.jit.program import HOST, Program, Variable
from agrad.jit.state import CapturedState
from agrad.jit.trace import Trace, traced_value
from agrad.transforms.trees import flatten, unflatten

_ACTIVE: list["Tracing"] = []
"""The tracings that are going on: one, or the ones inside each other of one thread."""


def _after_fork() -> None:
    """End the tracings of threads that a forked process does not have."""
    entries.STATE_LOCK = threading.RLock()
    for stopped in [t for t in _ACTIVE if t.trace.thread != threading.get_ident()]:
        stopped.restore()
        _ACTIVE.remove(stopped)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Tracing:
    """One tracing of a function: the state it installs, and what it finds out."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        leaves: Sequence[Any],
        call: Callable[[Sequence[Any]], Any],
        known: Sequence[Any],
        donated: Sequence[int],
        static: Sequence[Any],
        options: Mapping[str, Any],
    ) -> None:
        self.function = function
        self.leaves = leaves
        self.donated = donated
        """The numbers of the leaves whose arrays may be written into."""
        self.options = dict(options)
        """Options for passes and lowerings, among the notes of the programs."""
        self.call = call
        """Calls the function with these leaves in the places of the arguments'."""
        self.trace = Trace(name)
        others = [leaf for leaf in leaves if not isinstance(leaf, Tensor) and not _is_raw(leaf)]
        self.state = CapturedState(function, *others, *static, title=f"jit({name})")
        for value in known:
            self.state.add(value)
        self.inputs: list[Variable] = []
        self.leaf_inputs: list[int] = []
        self.slots: list[Slot] = []
        self.held: list[Tensor] = []
        """For each slot the Tensor that holds the traced array: the user's own, or an argument's stand-in."""
        self.variables: list[tuple[Variable, Variable | None]] = []
        self.attributes: list[Attribute] = []
        self.fixed: dict[int, int] = {}
        self.recorded: list[tuple[int, Tensor]] = []
        self.level: Any = GLOBAL_TAPE
        self.shown: list[tuple[Tensor, Variable]] = []
        """Stand-ins of raw arguments, with their variables."""
        self._undo: list[Callable[[], None]] = []

    # ------------------------------------------------------------------ the run

    def run(self) -> Entry:
        """Trace the function, and restore the state, also where the function raises."""
        for holder, _ in self.state.holders:
            prepare = getattr(holder, "before_trace", None)
            if prepare is not None:
                prepare()
        if self.state.arrays:
            self.trace.reads_anew = self.state.is_read_anew
            CAPTURED.append(self.trace)
        _ACTIVE.append(self)
        try:
            with tracing(self.trace):
                given = self._install()
                attributes = [(a, flatten(getattr(a.holder, a.name))) for a in self.attributes]
                out = self.call(given)
                return self._finish(out, attributes)
        finally:
            self.restore()
            _ACTIVE.remove(self)

    def restore(self) -> None:
        """Put all state back in its place."""
        self.trace.closed = True
        if self.trace in CAPTURED:
            CAPTURED.remove(self.trace)
        for undo in reversed(self._undo):
            undo()

    def _install(self) -> list[Any]:
        """Put traced values in the place of state; gives the arguments' leaves."""
        given: list[Any] = []
        own = {id(tensor): i for i, tensor in enumerate(self.state.tensors)}
        stand_ins: dict[int, Tensor] = {}
        for tensor in self.state.tensors:
            self._install_slot(tensor, slot_of(tensor), tensor)
        for i, leaf in enumerate(self.leaves):
            if isinstance(leaf, Tensor):
                if id(leaf) in own:
                    self.fixed[i] = own[id(leaf)]
                    given.append(leaf)
                else:
                    if id(leaf) not in stand_ins:
                        stand_ins[id(leaf)] = self._stand_in(i, leaf)
                    given.append(stand_ins[id(leaf)])
            elif _is_raw(leaf):
                traced = self.trace.array(leaf)
                self._input(traced.node, i)
                given.append(traced)
                self.shown.append((traced, traced.node))
            elif type(leaf) in (float, complex):
                scalar = self.trace.scalar(leaf)
                self._input(scalar.variable, i)
                given.append(scalar)
            else:
                given.append(leaf)
        for holder, names in self.state.holders:
            self.trace.holders.add(id(holder))
            for name in names:
                self._install_attribute(holder, name)
        return given

    def _input(self, variable: Variable, leaf: int) -> None:
        self.inputs.append(variable)
        self.leaf_inputs.append(leaf)

    def _stand_in(self, i: int, leaf: Tensor) -> Tensor:
        """Return a Tensor in the place of an argument, a leaf if derivatives flow to it."""
        raw = leaf.data
        if leaf.is_leaf and leaf.level is GLOBAL_TAPE:
            tensor = wrap(raw, GLOBAL_TAPE)
            if leaf.node is not None:
                tensor.node = leaf_node(tensor)
            tensor._grad = leaf.grad
            self._install_slot(tensor, slot_of(leaf, i), leaf)
            return tensor
        traced = self.trace.array(raw)
        self._input(traced.node, i)
        tensor = wrap(traced, GLOBAL_TAPE)
        self.trace.no_leaves.append((tensor, traced.node))
        if leaf.node is not None and is_recording(leaf.level.id):
            tensor.node = leaf_node(tensor)
            self.recorded.append((i, tensor))
            self.level = leaf.level
        return tensor

    def _install_slot(self, tensor: Tensor, slot: Slot, source: Tensor) -> None:
        data, grad, node, kind = tensor.data, tensor.grad, tensor.node, tensor.__class__

        def undo() -> None:
            tensor.data, tensor.node, tensor.__class__ = data, node, kind
            tensor._grad = grad

        self._undo.append(undo)
        traced = self.trace.array(data)
        traced_grad = None
        hold_traced(tensor, traced)
        if grad is not None:
            traced_grad = self.trace.array(grad.bare)
            tensor._grad = wrap(traced_grad, GLOBAL_TAPE)
        self.slots.append(slot)
        self.held.append(tensor)
        self.variables.append((traced.node, None if traced_grad is None else traced_grad.node))

    def _install_attribute(self, holder: Any, name: str) -> None:
        value = getattr(holder, name)
        self._undo.append(lambda: setattr(holder, name, value))
        leaves, spec = flatten(value)
        given: list[Any] = []
        places = []
        for i, leaf in enumerate(leaves):
            if _is_raw(leaf):
                given.append(self.trace.array(leaf))
                places.append(i)
            elif type(leaf) in (int, float):
                given.append(self.trace.scalar(leaf))
                places.append(i)
            else:
                given.append(leaf)
        setattr(holder, name, unflatten(spec, given))
        self.attributes.append(Attribute(holder, name, spec, tuple(map(like, leaves)), tuple(places)))

    # ------------------------------------------------------------------ what came of it

    def _finish(self, out: Any, attributes: list[tuple[Attribute, Any]]) -> Entry:
        trace = self.trace
        leaves, spec = flatten(out)
        outputs: list[Any] = []

        def place(variable: Any) -> int:
            outputs.append(variable)
            return len(outputs) - 1

        self._check_gradients()
        recorded = self._recorded_outputs(leaves)
        shown = [self._shown(leaf, place) for leaf in leaves]
        self._write_slots(place)
        self._write_attributes(attributes, place)
        self._check_written()
        mark = len(trace.instructions)
        derivative = self._derive(recorded, leaves, shown, outputs, mark) if recorded else None
        constants, captured = self._constants()
        inputs = [*self.inputs, *self._state_inputs(), *captured]
        program = Program(inputs, constants, trace.instructions[:mark], outputs).with_instructions(
            trace.instructions[:mark]
        )
        program.notes |= self.options
        program.notes["given_back"] = trace.given_back
        program.notes["derivative"] = derivative is not None
        program.notes["donated"] = self._donated_variables() if derivative is None else set()
        donors = self._donations(program)
        program.inputs = [*self.inputs, *donors, *self._state_inputs(), *captured]
        executable = compile_program(program)
        if derivative is not None:
            derivative.forward = program
            derivative.inputs = [program.inputs.index(v) for v in derivative.inputs]  # type: ignore[arg-type]
        return Entry(
            program=executable.stages[-1][1],
            run=executable.run,
            state=self.state,
            slots=self.slots,
            attributes=self.attributes,
            leaf_inputs=self.leaf_inputs,
            captured=list(captured.values()),
            guards=self._guards(program),
            out_spec=spec,
            out_leaves=shown,
            leaf_is_tensor=[isinstance(leaf, Tensor) for leaf in self.leaves],
            fixed=self.fixed,
            strides=StrideGuard() if trace.by_layout else None,
            derivative=derivative,
            inline=self._inline(derivative),
            stages=executable.stages,
        )

    def _check_gradients(self) -> None:
        """Refuse a backward pass that ended at an argument that is no leaf.

        Its gradient would be lost.
        """
        for i, tensor in self.recorded:
            if tensor.grad is not None:
                raise NotDifferentiableError(
                    f"backward() in jit({self.trace.named}) reached the argument's leaf {i}, a Tensor that other "
                    "operations made, and would stop there; call backward() outside of the jitted function, pass the "
                    "Tensor that they were computed from, or pass a leaf: tensor.detach()"
                )

    def _shown(self, leaf: Any, place: Callable[[Any], int]) -> Any:
        """Return the output for a leaf of the result, or the value as it is."""
        value = traced_value(leaf, self.trace)
        if not isinstance(value, Variable):
            return leaf
        return Out(place(value), isinstance(leaf, Tensor) and leaf.level is not self.trace)

    def _check_written(self) -> None:
        """Raise ``TracedValueError`` where the function changed what a replay would not."""
        for tensor, variable in self.shown:
            if traced_value(tensor, self.trace) is not variable:
                raise TracedValueError(
                    f"{self.trace.named} writes into an argument of shape {tensor.shape} that is a raw array; a "
                    "program does not. Write into a copy, y = x + 0, and return it, or give it as a Tensor"
                )
        for tensor, variable in self.trace.no_leaves:
            if traced_value(tensor, self.trace) is not variable:
                self.trace.check_writable(tensor)
        changed = self.state.changed()
        if changed:
            raise TracedValueError(
                f"{self.trace.named} changed {changed[0]} while it was traced; a replay would not. Return the new "
                "value instead, or write into a Tensor it reaches; compute what is kept from then on before the first "
                "call; a class of yours may name attributes that are state in traced_attributes"
            )

    def _donated_variables(self) -> set[Variable]:
        """Return the inputs whose arrays the caller donated."""
        found = {v for v, i in zip(self.inputs, self.leaf_inputs, strict=True) if i in self.donated}
        slots = zip(self.slots, self.variables, strict=True)
        return found | {data for slot, (data, _) in slots if slot.leaf in self.donated}

    def _state_inputs(self) -> list[Variable]:
        found = []
        for slot, (data, grad) in zip(self.slots, self.variables, strict=True):
            found.append(data)
            if slot.has_grad:
                assert grad is not None
                found.append(grad)
        for attribute, variables in zip(self.attributes, self._attribute_inputs, strict=True):
            assert len(variables) == len(attribute.places)
            found += variables
        return found

    def _constants(self) -> tuple[dict[Variable, Any], dict[Variable, Any]]:
        """Return the arrays fixed in the program, and those that it reads at each call."""
        found: tuple[dict[Variable, Any], dict[Variable, Any]] = {}, {}
        for raw, variable in self.trace.constants.values():
            found[self.state.is_read_anew(raw)][variable] = raw
        return found

    def _write_slots(self, place: Callable[[Any], int]) -> None:
        for slot, tensor, (data, grad) in zip(self.slots, self.held, self.variables, strict=True):
            if (tensor.node is not None) is not slot.needs_grad:
                raise TracedValueError(
                    f"{self.trace.named} changed whether a Tensor of shape {slot.shape} requires a gradient; "
                    "do that outside of jit"
                )
            value = traced_value(tensor.data, self.trace)
            if value is not data:
                slot.data = place(value)
            if tensor.grad is None:
                slot.clears = slot.has_grad
            else:
                value = traced_value(tensor.grad, self.trace)
                if value is not grad:
                    slot.grad = place(value)

    def _write_attributes(self, attributes: list[tuple[Attribute, Any]], place: Callable[[Any], int]) -> None:
        self._attribute_inputs: list[list[Variable]] = []
        for attribute, (before, _) in attributes:
            self._attribute_inputs.append(
                [v for v in (traced_value(leaf, self.trace) for leaf in before) if isinstance(v, Variable)]
            )
            after, spec = flatten(getattr(attribute.holder, attribute.name))
            new = [traced_value(leaf, self.trace) for leaf in after]
            old = [traced_value(leaf, self.trace) for leaf in before]
            if spec == attribute.spec and all(a is b for a, b in zip(new, old, strict=True)):
                continue
            attribute.new_spec = spec
            attribute.new_leaves = tuple(
                [Out(place(v), False) if isinstance(v, Variable) else leaf for v, leaf in zip(new, after, strict=True)]
            )

    def _donations(self, program: Program) -> list[Variable]:
        """Let updates overwrite the state that they replace where nobody else sees it.

        That is tested at each call.

        Whether the program itself does is decided when it is optimized.
        """
        if program.notes.get("derivative"):  # which may run the program again on the values it began with
            return []
        donors: list[Variable] = []
        for slot, (data, _) in zip(self.slots, self.variables, strict=True):
            for instruction in program.instructions:
                if overwritten(instruction)[:1] == [data] and not slot.donates:
                    if slot.leaf >= 0 or instruction.operands[1] in program.inputs:
                        continue
                    slot.donates = True
                    donors.append(Variable((), HOST, None))
                    instruction.settings["donate"] = donors[-1]
        return donors

    def _guards(self, program: Program) -> Callable[[Sequence[Any]], bool] | None:
        guards = self.trace.guards
        if not guards:
            return None
        expected = [value for _, value in guards]
        host = [i for i in self.trace.instructions if i.on_host]
        wanted = Program(program.inputs, {}, host, [variable for variable, _ in guards])
        run = plain(without_dead_code(wanted))
        return lambda inputs: list(run(inputs)) == expected

    # ------------------------------------------------------------------ derivatives of it

    def _recorded_outputs(self, leaves: Sequence[Any]) -> list[int]:
        """Return the numbers of the result's leaves that a derivative flows through."""
        if not is_recording(0):
            return []
        return [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and _is_alive(leaf)]

    def _derive(
        self, recorded: list[int], leaves: Sequence[Any], shown: list[Any], outputs: list[Any], mark: int
    ) -> Derivative | None:
        """Return the pullback of the recorded outputs as a program."""
        trace = self.trace
        sources: list[tuple[Any, Tensor]] = [
            (slot if slot.leaf < 0 else slot.leaf, tensor)
            for slot, tensor in zip(self.slots, self.held, strict=True)
            if slot.needs_grad
        ]
        sources += self.recorded
        starts: dict[Node, Any] = {}
        cotangents: list[Variable] = []
        for i in recorded:
            leaf = leaves[i]
            g = trace.array(NAMESPACES[type(leaf.raw)].ones_like(leaf.raw))
            cotangents.append(g.node)
            starts[leaf.node] = starts[leaf.node] + g if leaf.node in starts else g
        found = backward_pass(starts, retain=True)
        sources = [(owner, tensor) for owner, tensor in sources if tensor.node in found]
        if not sources:
            return None
        backward = trace.instructions[mark:]
        results = [traced_value(found[tensor.node], trace) for _, tensor in sources]
        made = {v for instruction in backward for v in instruction.results} | set(cotangents)
        constants, _ = self._constants()
        needed = [v for instruction in backward for v in instruction.reads()] + results
        residuals = list(dict.fromkeys(v for v in needed if v not in made and v not in constants))
        places = []
        for v in residuals:
            outputs.append(v)
            places.append(len(outputs) - 1)
        program = Program([*residuals, *cotangents], constants, backward, results, dict(self.options))
        program = program.with_instructions(backward)
        inputs: list[Any] = []
        by_tensor = {id(t): data for t, (data, _) in zip(self.held, self.variables, strict=True)}
        for _, tensor in sources:
            inputs.append(by_tensor.get(id(tensor)) or tensor.bare.node)
        return Derivative(
            name=trace.named,
            forward=program,
            backward=compile_program(program).run,
            residuals=places,
            inputs=inputs,
            owners=[owner for owner, _ in sources],
            outputs=[shown[i].place for i in recorded],
            metas=[traced_value(leaves[i], trace) for i in recorded],
            leaves=shown,
            reached=[True] * len(sources),
        )

    def _inline(self, derivative: Derivative | None) -> bool:
        """Return True where results depend on two recording levels.

        Such calls run the function itself.
        """
        if self.level is GLOBAL_TAPE or derivative is None:
            return False
        return any(not isinstance(owner, int) or owner not in dict(self.recorded) for owner in derivative.owners)


def _is_raw(value: Any) -> bool:
    return not isinstance(value, Tensor) and hasattr(value, "shape") and backend_of_type(type(value)) is not None


def _is_alive(leaf: Tensor) -> bool:
    """Return True where a backward pass can start: the saved values are not freed."""
    if leaf.level is not GLOBAL_TAPE or leaf.node is None:
        return False
    return all(node.plan is LEAF or node.saved is not None for node in topological_order([leaf.node]))
