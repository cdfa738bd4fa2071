"""Trace one call: replace inputs and state with tracers, run, restore, compile."""

import operator
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agrad.engine.backward import backward_pass, topological_order
from agrad.engine.levels import CAPTURED, GLOBAL_TAPE
from agrad.engine.namespaces import NAMESPACES
from agrad.engine.tape import LEAF, Node, change_mode, is_recording, leaf_node
from agrad.engine.tensor import RecordedTensor, Tensor, wrap
from agrad.engine.views import like_given
from agrad.errors import NotDifferentiableError, TracedValueError
from agrad.jit import entry as entries
from agrad.jit.bindings import Attribute, Installed, Out, Slot, stride_check
from agrad.jit.compile import Compiling
from agrad.jit.entry import Derivative, Entry
from agrad.jit.kinds import state_kind, tensor_kind
from agrad.jit.lower.numpy.buffers import FEWEST
from agrad.jit.lower.plain import plain
from agrad.jit.passes.cleanup import without_dead_code
from agrad.jit.program import Program, Variable
from agrad.jit.reasons import NumberGuards
from agrad.jit.state import CapturedState
from agrad.jit.trace import NoProgram, Trace, is_foreign, is_raw, traced_value
from agrad.transforms.trees import flatten, tree_map, unflatten

_ACTIVE: list["Tracing"] = []
"""The tracings that have not ended: one, or several of one thread inside each other."""


def _after_fork() -> None:
    """End the traces of threads that do not exist in a forked process."""
    entries.STATE_LOCK = threading.RLock()
    for stopped in [t for t in _ACTIVE if t.trace.thread != threading.get_ident()]:
        stopped.restore()
        _ACTIVE.remove(stopped)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Source(NamedTuple):
    """A Tensor that derivatives may flow to."""

    find: Callable[[Sequence[Any]], Tensor]
    """The function from the arguments' leaves to the Tensor."""
    tensor: Tensor
    """The Tensor of the trace."""
    variable: Variable


class Tracing:
    """One trace of a function: the state that it replaces, and its findings.

    call: calls the function with other leaves instead of the arguments' ``leaves``. known: state that earlier
    traces found. donated: the indices of the leaves whose arrays may be overwritten. static: the values of static
    arguments. options: notes of the programs, for passes and lowerings. keeps_values: see ``Trace``.
    """

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
        keeps_values: bool,
    ) -> None:
        self.leaves = leaves
        self.donated = donated
        self.options = options
        self.call = call
        self.trace: Trace = Trace(name, keeps_values)
        others = [leaf for leaf in leaves if not isinstance(leaf, Tensor) and not is_raw(leaf)]
        self.state: CapturedState = CapturedState(function, *others, *static, title=f"jit({name})")
        for value in known:
            self.state.add(value)
        self.inputs: dict[int, Variable] = {}
        """The inputs by the numbers of the arguments' leaves."""
        self.installed: list[Installed] = []
        self.attributes: list[tuple[Attribute, list[Any], list[Variable]]] = []
        """Attributes, with the leaves they have during the trace, and the variables of those that are inputs."""
        self.tensor_leaves: dict[int, Tensor | None] = {}
        """For the numbers of the leaves that are Tensors: the leaf if it is captured, otherwise None."""
        self.recorded: dict[int, Tensor] = {}
        """The Tensors that represent arguments on a tape, by the indices of their leaves."""
        self.level: Any = GLOBAL_TAPE
        """The nesting level of the arguments on a tape."""
        self.shown: list[tuple[Tensor, Variable]] = []
        """The Tensors that represent plain array arguments, with their variables."""
        self.compile = Compiling(options.get("compiler"))
        self._undo: list[Callable[[], None]] = []

    # ------------------------------------------------------------------ the run

    def run(self) -> Entry:
        """Trace the function, and compile its program.

        If no program can record the call, the entry calls the function itself.
        """
        self.trace.may_end = True
        try:
            return Entry(**self._traced_by(self._finish))
        except NoProgram:
            none, spec = [("", Program([], {}, [], []))], flatten(None)[1]
            return Entry(None, none, self.state, [], [], [], {}, [], None, None, spec, [], None)

    def results(self, describe: Callable[[Any], Any]) -> Any:
        """Trace the function; return its result with ``describe`` applied to the leaves."""

        def finish(out: Any) -> Any:
            self._check_written()
            return tree_map(describe, out)

        return self._traced_by(finish)

    def _traced_by(self, finish: Callable[[Any], Any]) -> Any:
        """Return ``finish`` of the traced result.

        The state is restored, also if the function raises.
        """
        for holder, _ in self.state.holders:
            prepare = getattr(holder, "before_trace", None)
            if prepare is not None:
                prepare()
        if self.state.arrays:
            self.trace.reads_at_call = self.state.is_read_at_call
            CAPTURED.append(self.trace)
        _ACTIVE.append(self)
        try:
            with change_mode(trace=self.trace):
                return finish(self.call(self._install()))
        finally:
            self.restore()
            _ACTIVE.remove(self)

    def restore(self) -> None:
        """Restore all state."""
        self.trace.closed = True
        if self.trace in CAPTURED:
            CAPTURED.remove(self.trace)
        for undo in reversed(self._undo):
            undo()
        self.trace.no_leaves, self.trace.donations, self.trace.holders = [], {}, {}  # their values hold the trace

    def _install(self) -> list[Any]:
        """Replace state by traced values; return the arguments' leaves."""
        own = {id(tensor) for tensor in self.state.tensors}
        stand_ins: dict[int, Tensor] = {}
        for tensor in self.state.tensors:
            self._install_tensor(tensor)
        given: list[Any] = []
        for i, leaf in enumerate(self.leaves):
            if isinstance(leaf, Tensor):
                captured = leaf if id(leaf) in own else None
                self.tensor_leaves[i] = captured
                if captured is None and id(leaf) not in stand_ins:
                    stand_ins[id(leaf)] = self._stand_in(i, leaf)
                given.append(stand_ins[id(leaf)] if captured is None else leaf)
                continue
            traced, variable = self._traced(leaf, (float, complex))
            given.append(traced)
            if variable is not None:
                self.inputs[i] = variable
                if isinstance(traced, Tensor):
                    self.shown.append((traced, variable))
        for holder, names in self.state.holders:
            self.trace.holders[id(holder)] = holder
            for name in names:
                self._install_attribute(holder, name)
        return given

    def _traced(self, leaf: Any, numbers: tuple[type, ...]) -> tuple[Any, Variable | None]:
        """Return the traced array or number of an input, and its variable.

        Anything else is returned unchanged.
        """
        if is_raw(leaf):
            traced = like_given(self.trace.array(leaf), leaf)
            return traced, traced.node
        if type(leaf) in numbers:
            scalar = self.trace.scalar(leaf)
            return scalar, scalar.variable
        return leaf, None

    def _stand_in(self, i: int, leaf: Tensor) -> Tensor:
        """Return the Tensor that replaces an argument. It is a leaf if derivatives flow to it."""
        if leaf.is_leaf and leaf.level is GLOBAL_TAPE:
            tensor = like_given(wrap(leaf.data, GLOBAL_TAPE), leaf)
            if leaf.node is not None:
                tensor.node = leaf_node(tensor)
            tensor._grad = leaf.grad
            self._install_tensor(tensor, i)
            return tensor
        traced = self.trace.array(leaf.data)
        self.inputs[i] = traced.node
        tensor = like_given(wrap(traced, GLOBAL_TAPE), leaf)
        self.trace.no_leaves.append((tensor, traced.node))
        if leaf.node is not None and is_recording(leaf.level.id):
            tensor.node = leaf_node(tensor)
            self.recorded[i] = tensor
            self.level = leaf.level
        return tensor

    def _install_tensor(self, tensor: Tensor, leaf: int = -1) -> None:
        """Replace the arrays of a captured Tensor, or of one that represents an argument, with traced arrays.

        During the trace, a Tensor that is not a leaf becomes one. Derivatives of the program then end there.
        """
        data, node, kind, link = tensor.data, tensor.node, tensor.__class__, getattr(tensor, "_link", None)
        grad = None if getattr(tensor, "_grad", None) is None else tensor.grad
        slot = Slot(tensor if leaf < 0 else None, leaf, tensor_kind(tensor))
        traced = tensor.data = self.trace.array(data)
        tensor.__class__ = RecordedTensor
        installed = Installed(slot, tensor, traced.node)
        self.installed.append(installed)
        if not tensor.is_leaf:
            self.trace.installed.add(node)
            self.trace.no_leaves.append((tensor, traced.node))
            tensor.node = leaf_node(tensor)
        elif leaf < 0:
            self.trace.donations[traced.node] = None

        def read() -> Any:
            slot.has_grad = grad is not None
            if grad is None:
                return None
            traced_grad = self.trace.array(grad.bare)
            installed.grad = traced_grad.node
            return wrap(traced_grad, GLOBAL_TAPE)

        def undo() -> None:
            tensor.data, tensor.node, tensor.__class__ = data, node, kind
            tensor._grad, installed.read = grad, None
            if link is not None:
                tensor._link = link

        self._undo.append(undo)
        installed.read = tensor._grad = read

    def _install_attribute(self, holder: Any, name: str) -> None:
        value = getattr(holder, name)
        self._undo.append(lambda: setattr(holder, name, value))
        leaves, spec = flatten(value)
        traced = [self._traced(leaf, (int, float)) for leaf in leaves]
        given = [leaf for leaf, _ in traced]
        setattr(holder, name, unflatten(spec, given))
        places = tuple([i for i, (_, variable) in enumerate(traced) if variable is not None])
        attribute = Attribute(holder, name, spec, tuple(map(state_kind, leaves)), places)
        self.attributes.append((attribute, given, [v for _, v in traced if v is not None]))

    # ------------------------------------------------------------------ the program

    def _finish(self, out: Any) -> dict[str, Any]:
        """Compile the program that was traced; return the fields of the entry."""
        trace = self.trace
        leaves, spec = flatten(out)
        if any(is_foreign(leaf, trace) for leaf in leaves):
            raise NoProgram
        outputs: list[Any] = []

        def place(variable: Any) -> int:
            outputs.append(variable)
            return len(outputs) - 1

        for i, tensor in self.recorded.items():
            if tensor.grad is not None:
                self._refuse_gradient(f"the argument's leaf {i}")
        recorded = self._recorded_outputs(leaves)
        shown = [self._shown(leaf, place) for leaf in leaves]
        for installed in self.installed:
            self._write_slot(installed, place)
        for attribute, before, _ in self.attributes:
            self._write_attribute(attribute, before, place)
        self._check_written()
        instructions = list(trace.instructions)
        derivative = self._derive(recorded, leaves, shown, outputs) if recorded else None
        constants, captured = self._constants()
        arguments, state = list(self.inputs.values()), [*self._state_inputs(), *captured]
        if derivative is not None:  # a backward pass may run the program again on the same inputs
            flags = {number.variable: False for number in trace.donations.values() if number is not None}
            instructions = [instruction.replaced(flags) for instruction in instructions]
        program = Program([*arguments, *state], constants, [], outputs).with_instructions(instructions)
        program.notes.update(self.options, returns_operand=trace.returns_operand)
        if derivative is None:
            program.notes["donated"] = self._donated_variables()
            program.notes["gradients"] = [i.slot.grad for i in self.installed if i.slot.grad is not None]
            program.inputs = [*arguments, *self._donations(program), *self._reusable_gradients(program), *state]
        else:
            program.notes["residuals"] = derivative.residuals
        executable = self.compile(program, trace.instructions)
        if derivative is not None:
            derivative.forward = program
        return {
            "run": executable.run,
            "stages": executable.stages,
            "state": self.state,
            "slots": [installed.slot for installed in self.installed],
            "attributes": [attribute for attribute, *_ in self.attributes],
            "leaf_inputs": list(self.inputs),
            "tensor_leaves": self.tensor_leaves,
            "captured": list(captured.values()),
            "guards": self._guards(program),
            "strides": stride_check() if trace.by_layout else None,
            "out_spec": spec,
            "out_leaves": shown,
            "derivative": derivative,
            "compiler": self.compile.text,
        }

    def _refuse_gradient(self, what: str) -> None:
        """Raise the error of a backward pass that ended at a Tensor that is not a leaf: its gradient would be lost."""
        raise NotDifferentiableError(
            f"backward() in jit({self.trace.named}) reached {what}, a Tensor that other operations created, and would "
            "stop there. Call backward() outside of the jitted function, use the Tensor that it was computed from, "
            "or use a leaf: tensor.detach()."
        )

    def _shown(self, leaf: Any, place: Callable[[Any], int]) -> Any:
        """Return the output for a leaf of the result, or the value unchanged."""
        value = traced_value(leaf, self.trace)
        if not isinstance(value, Variable):
            return leaf
        return Out(place(value), isinstance(leaf, Tensor) and leaf.level is not self.trace)

    def _check_written(self) -> None:
        """Raise ``TracedValueError`` for a change that a replay would not repeat."""
        for tensor, variable in self.shown:
            if traced_value(tensor, self.trace) is not variable:
                raise TracedValueError(
                    f"{self.trace.named} writes into an argument, which must be a Tensor, got a plain array of shape "
                    f"{tensor.shape}. Write into a copy, y = x + 0, and return it, or pass a Tensor."
                )
        for tensor, variable in self.trace.no_leaves:
            if traced_value(tensor, self.trace) is not variable:
                self.trace.check_writable(tensor)
        changed = self.state.changed()
        if changed:
            raise TracedValueError(
                f"{self.trace.named} changed {changed[0]} while it was traced, which a replay would not do. Return the "
                "new value, write into a Tensor that the function reaches, compute cached values before the first "
                "call, or name the attributes of a class that are state in its traced_attributes."
            )

    def _donated_variables(self) -> set[Variable]:
        """Return the inputs whose arrays the caller donated."""
        found = {variable for i, variable in self.inputs.items() if i in self.donated}
        return found | {installed.data for installed in self.installed if installed.slot.leaf in self.donated}

    def _state_inputs(self) -> list[Variable]:
        found = [v for installed in self.installed for v in (installed.data, installed.grad) if v is not None]
        return found + [v for *_, variables in self.attributes for v in variables]

    def _constants(self) -> tuple[dict[Variable, Any], dict[Variable, Any]]:
        """Return the constants of the program, and the arrays that it reads at each call."""
        found: tuple[dict[Variable, Any], dict[Variable, Any]] = {}, {}
        for raw, variable in self.trace.constants.values():
            found[self.state.is_read_at_call(raw)][variable] = raw
        return found

    def _write_slot(self, installed: Installed, place: Callable[[Any], int]) -> None:
        slot, tensor = installed.slot, installed.tensor
        if (tensor.node is not None) is not slot.kind[1]:
            raise TracedValueError(
                f"{self.trace.named}: requires_grad of a Tensor of shape {installed.data.shape} must not change in a "
                "traced function. Set it outside of jit."
            )
        value = traced_value(tensor.data, self.trace)
        if value is not installed.data:
            slot.data = place(value)
        if tensor._grad is None:
            slot.clears = slot.has_grad is not False
        elif tensor._grad is not installed.read:
            value = traced_value(tensor._grad, self.trace)
            if value is not installed.grad:
                if self.trace.is_stand_in(tensor):
                    self._refuse_gradient(self.state.places[id(tensor)])
                slot.grad = place(value)

    def _write_attribute(self, attribute: Attribute, before: list[Any], place: Callable[[Any], int]) -> None:
        after, spec = flatten(getattr(attribute.holder, attribute.name))
        new = [traced_value(leaf, self.trace) for leaf in after]
        old = [traced_value(leaf, self.trace) for leaf in before]
        if spec == attribute.spec and all(map(operator.is_, new, old)):
            return
        attribute.new_spec = spec
        attribute.new_leaves = tuple(
            [Out(place(v), False) if isinstance(v, Variable) else leaf for v, leaf in zip(new, after, strict=True)]
        )

    def _donations(self, program: Program) -> list[Variable]:
        """Return the conditions under which updates may overwrite the state that they replace.

        Each condition is a variable that is true at a call if nothing else holds the array. The passes decide whether
        the program itself reads the array later.
        """
        read, found = program.uses, []
        for installed in self.installed:  # in the order in which a call asks
            number = self.trace.donations.get(installed.data)
            if number is not None and number.variable in read:
                installed.slot.donates = True
                found.append(number.variable)
        return found

    def _reusable_gradients(self, program: Program) -> list[Variable]:
        """Let gradients reuse the memory of the last gradients; return the inputs for that.

        Such an input is the array of the last gradient, or None if something else holds it.
        """
        found: dict[int, tuple[Variable, Variable | None]] = {}
        for installed in self.installed:
            slot, size = installed.slot, installed.data.size
            if slot.grad is not None and slot.has_grad is not False and slot.array[0] is np.ndarray and size >= FEWEST:
                slot.reuses_gradient = True
                found[slot.grad] = (installed.data.twin(), installed.grad)
        program.notes["reusable_gradients"] = found
        return [spare for spare, _ in found.values()]

    def _guards(self, program: Program) -> NumberGuards | None:
        """Return the numbers that the trace depends on, or None."""
        guards = self.trace.guards
        if not guards:
            return None
        host = [i for i in self.trace.instructions if i.on_host]
        wanted = without_dead_code(Program(program.inputs, {}, host, list(guards)))
        places: dict[Variable, int | str] = {variable: i for i, variable in self.inputs.items()}
        for attribute, _, variables in self.attributes:
            name = f"{self.state.places[id(attribute.holder)]}.{attribute.name}"
            places.update(dict.fromkeys(variables, name))
        return NumberGuards(wanted, plain(wanted), list(guards.values()), places)

    # ------------------------------------------------------------------ the derivative

    def _recorded_outputs(self, leaves: Sequence[Any]) -> list[int]:
        """Return the indices of the result's recorded leaves."""
        if not is_recording(0):
            return []
        return [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and _is_alive(leaf)]

    def _sources(self) -> list[_Source]:
        """Return the Tensors that derivatives may flow to."""
        found = [_Source(i.slot.find, i.tensor, i.data) for i in self.installed if i.slot.kind[1]]
        return found + [_Source(operator.itemgetter(i), tensor, self.inputs[i]) for i, tensor in self.recorded.items()]

    def _derive(
        self, recorded: list[int], leaves: Sequence[Any], shown: list[Any], outputs: list[Any]
    ) -> Derivative | None:
        """Return the derivative of the recorded outputs; add the residuals to the outputs."""
        trace = self.trace
        mark = len(trace.instructions)
        starts: dict[Node, Any] = {}
        cotangents: list[Variable] = []
        for i in recorded:
            leaf = leaves[i]
            g = trace.array(NAMESPACES[type(leaf.raw)].ones_like(leaf.raw))
            cotangents.append(g.node)
            starts[leaf.node] = starts[leaf.node] + g if leaf.node in starts else g
        found = backward_pass(starts, retain=True)
        sources = [source for source in self._sources() if source.tensor.node in found]
        if not sources:
            return None
        own = {id(tensor) for tensor in self.recorded.values()}
        if self.level is not GLOBAL_TAPE and not own.issuperset(id(source.tensor) for source in sources):
            raise NoProgram  # the results depend on two recording levels
        backward = trace.instructions[mark:]
        results = [traced_value(found[source.tensor.node], trace) for source in sources]
        made = {v for instruction in backward for v in instruction.results} | set(cotangents)
        constants, _ = self._constants()
        needed = [v for instruction in backward for v in instruction.reads()] + results
        residuals = list(dict.fromkeys(v for v in needed if v not in made and v not in constants))
        program = Program([*residuals, *cotangents], constants, [], results, dict(self.options))
        places = list(range(len(outputs), len(outputs) + len(residuals)))
        outputs += residuals
        inputs = [*self.inputs.values(), *self._state_inputs()]
        return Derivative(
            name=f"jit({trace.named})",
            forward=program,
            backward=self.compile(program.with_instructions(backward), trace.instructions).run,
            residuals=places,
            inputs=[inputs.index(source.variable) for source in sources],
            owners=[source.find for source in sources],
            places=[shown[i].place for i in recorded],
            results=[traced_value(leaves[i], trace) for i in recorded],
        )


def _is_alive(leaf: Tensor) -> bool:
    """Return True if a backward pass can start: the saved values are not freed."""
    if leaf.level is not GLOBAL_TAPE or leaf.node is None:
        return False
    return all(node.plan is LEAF or node.saved is not None for node in topological_order([leaf.node]))
