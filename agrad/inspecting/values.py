"""Values of the tape: operations, operands, pullbacks, and ``repr`` of Tensors.

The tape stores only the values that rules use. Other operands are read from leaves or recomputed, without a change of
the tape.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from agrad.backends import backend_of, backend_of_type
from agrad.dtypes import dtype_name
from agrad.engine.backward import backward_pass, linked_values
from agrad.engine.gradients import cotangent_for
from agrad.engine.levels import GLOBAL_TAPE, GetOutput, OutputCotangents
from agrad.engine.tape import LEAF, SETTINGS, Node, Plan, leaf_node, next_id
from agrad.engine.tensor import Tensor, present, raw_of, strip_constant_levels, wrap
from agrad.errors import GraphFreedError, TracedValueError
from agrad.inspecting.text import device_name, one_line, several_lines


class Missing:
    """The class of ``MISSING``, which represents a value that is not stored."""

    def __repr__(self) -> str:
        return "(not kept)"


MISSING = Missing()


class Layout(NamedTuple):
    """The indices of values in the nodes of a plan, -1 for a value that is not stored.

    ``operands`` contains for each argument its indices among the parents and among the saved values. ``outputs`` is
    empty if the number of outputs varies.
    """

    operands: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...]


def layout_of(plan: Plan) -> Layout:
    """Return the layout of the nodes of an operation's plan."""
    primitive = plan.primitive
    place = {name: i for i, name in enumerate(plan.names)}
    operands = []
    for position, name in enumerate(primitive.argument_names(plan.count)):
        parent = plan.positions.index(position) if position in plan.positions else -1
        operands.append((parent, place.get(name, -1)))
    return Layout(
        operands=tuple(operands),
        outputs=() if primitive.spreads else tuple(place.get(name, -1) for name in primitive.outputs or ("y",)),
    )


def entry(node: Node, place: int) -> Any:
    """Return the saved value of a node at an index, or MISSING if it is not available."""
    return MISSING if place < 0 or node.saved is None else node.saved[place]


def settings_of(node: Node) -> dict[str, Any]:
    """Return the options of a call, or an empty dict if they are freed."""
    return dict(node.saved[-1]) if node.plan.names[-1:] == (SETTINGS,) and node.saved is not None else {}


def owner_of(node: Node) -> Tensor | None:
    """Return the leaf Tensor of a node if it still exists and is still that leaf."""
    reference = getattr(node, "owner", None)
    owner = None if reference is None else reference()
    return owner if owner is not None and owner.node is node else None


# ---------------------------------------------------------------- finding values


class Recall:
    """A search for the values of nodes, without recursion, because chains may be long."""

    def __init__(self, known: Mapping[Node, Any] | None = None) -> None:
        self.values: dict[Node, Any] = dict(known or {})
        self.layouts: dict[Plan, Layout] = {}
        self.freed: bool = False
        """True after a search for a value that a backward pass has freed."""

    def layout(self, plan: Plan) -> Layout:
        found = self.layouts.get(plan)
        if found is None:
            found = self.layouts[plan] = layout_of(plan)
        return found

    def note(self, node: Node) -> None:
        """Add the saved values of the operands and the result of a node."""
        plan = node.plan
        if plan is LEAF or isinstance(plan.primitive, GetOutput):
            return
        layout = self.layout(plan)
        for parent, place in layout.operands:
            if parent >= 0:
                value = entry(node, place)
                if value is not MISSING:
                    self.values.setdefault(node.parents[parent], value)
        if plan.primitive.outputs is None:
            value = entry(node, layout.outputs[0])
            if value is not MISSING:
                self.values.setdefault(node, value)

    def find(self, wanted: Iterable[Node]) -> dict[Node, Any]:
        """Return the values of the wanted nodes, as far as they can be found."""
        wanted = set(wanted)
        todo = self._plan(wanted)
        self._compute(todo, wanted)
        return {node: self.values[node] for node in wanted if node in self.values}

    def _plan(self, wanted: set[Node]) -> list[Node]:
        """Return the nodes to recompute for the wanted nodes, in order."""
        values = self.values
        leaves: list[Node] = []
        todo: set[Node] = set()
        stack = list(wanted)
        while stack:
            node = stack.pop()
            if node in todo or node in values:
                continue
            self.note(node)
            if node in values:
                continue
            todo.add(node)
            if node.plan is LEAF:
                leaves.append(node)
            elif isinstance(node.plan.primitive, GetOutput):
                value = self._kept_output(node)
                if value is MISSING:
                    stack.append(node.parents[0])
                else:
                    values[node] = value
            elif node.saved is None:
                self.freed = True
            else:
                stack += [parent for parent in node.parents if parent not in values]
        # last, because a leaf may have new values, and the tape stores the old ones
        for leaf in leaves:
            owner = owner_of(leaf)
            if leaf not in values and owner is not None:
                values[leaf] = owner.data
        return sorted((node for node in todo if node not in values), key=lambda node: node.id)

    def _kept_output(self, selector: Node) -> Any:
        node = selector.parents[0]
        outputs = self.layout(node.plan).outputs
        return entry(node, outputs[selector.plan.primitive.output]) if outputs else MISSING

    def _compute(self, todo: list[Node], wanted: set[Node]) -> None:
        values = self.values
        uses = dict.fromkeys(todo, 0)
        for node in todo:
            for parent in node.parents:
                if parent in uses:
                    uses[parent] += 1
        for node in todo:
            value = self._evaluate(node)
            if value is not MISSING:
                values[node] = value
            for parent in node.parents:
                if parent in uses:
                    uses[parent] -= 1
                    if not uses[parent] and parent not in wanted:
                        values.pop(parent, None)

    def _evaluate(self, node: Node) -> Any:
        plan = node.plan
        if plan is LEAF:
            return MISSING
        if isinstance(plan.primitive, GetOutput):
            outputs = self.values.get(node.parents[0], MISSING)
            return outputs if outputs is MISSING else outputs[plan.primitive.output]
        if node.saved is None:
            return MISSING
        layout = self.layout(plan)
        arguments = []
        for parent, place in layout.operands:
            value = entry(node, place)
            if value is MISSING and parent >= 0:
                value = self.values.get(node.parents[parent], MISSING)
            if value is MISSING:
                return MISSING
            arguments.append(value)
        try:
            return plan.primitive.bind(*arguments, **settings_of(node))
        except Exception:  # a leaf may have new values that are invalid here
            return MISSING


def operands(node: Node, level: Any, positions: Iterable[int]) -> tuple[Any, ...]:
    """Return the operands of an operation at some positions.

    A constant that the tape does not store is MISSING. Raises ``GraphFreedError`` for other operands that cannot be
    recomputed.
    """
    plan = node.plan
    names = plan.primitive.argument_names(plan.count)
    recall = Recall()
    recall.note(node)
    layout = recall.layout(plan)
    positions = tuple(positions)
    parents = {i: node.parents[layout.operands[i][0]] for i in positions if layout.operands[i][0] >= 0}
    owners = {i: owner_of(parent) if parent.plan is LEAF else None for i, parent in parents.items()}
    values = recall.find(parent for i, parent in parents.items() if owners[i] is None)
    out: list[Any] = []
    for i in positions:
        if i not in parents:
            value = entry(node, layout.operands[i][1])
            out.append(_as_given(value))
            lost = value is MISSING and node.saved is None
        elif owners[i] is not None:
            out.append(owners[i])
            lost = False
        else:
            lost = parents[i] not in values
            out.append(None if lost else wrap(values[parents[i]], level, parents[i]))
        if lost:
            raise GraphFreedError(_gone(plan.primitive.name, names[i], recall.freed or node.saved is None))
    return tuple(out)


def _as_given(value: Any) -> Any:
    """Return a constant operand: the leaf itself, or an array as a Tensor."""
    if isinstance(value, Tensor):
        owner = owner_of(value.node) if value.is_leaf and value.node is not None else None
        return owner if owner is not None and owner.data is value.data else value
    return value if backend_of_type(type(value)) is None else wrap(value, GLOBAL_TAPE)


def _gone(operation: str, what: str, freed: bool) -> str:
    if freed:
        return (
            f"{operation}: {what} is not available, because an earlier backward pass freed the graph. Pass "
            "retain_graph=True to that pass, or compute the result again."
        )
    return (
        f"{operation}: {what} is not available, because the tape does not store it. Keep a reference to the Tensor, "
        "and pass retain_graph=True to backward passes."
    )


# ---------------------------------------------------------------- op, parents, grad_fn


class Op:
    """The operation that computed a Tensor: ``t.op``.

    ``name`` is the name of the primitive. ``output`` is the name of the output, None for an operation with a single
    output. The operations of Tensors from one call are equal.
    """

    __slots__ = ("_level", "_node", "output")

    def __init__(self, node: Node, level: Any, output: str | None) -> None:
        self._node = node
        self._level = level
        self.output: str | None = output

    @property
    def name(self) -> str:
        return str(self._node.plan.primitive.name)

    @property
    def args(self) -> tuple[Any, ...]:
        """The operands in order: Tensors for arrays, and numbers.

        A leaf is the original Tensor. Other Tensors have the node of the operand, so that gradients flow through them.
        Values that no rule uses are recomputed from the present values of the leaves. A constant that the tape does not
        store is shown as ``(not kept)``. Raises ``GraphFreedError`` for an operand that is not available.
        """
        return operands(self._node, self._level, range(self._node.plan.count))

    @property
    def settings(self) -> dict[str, Any]:
        """The options of the call by name, in the form that rules receive."""
        node = self._node
        if node.plan.primitive.settings and node.saved is None:
            raise GraphFreedError(_gone(self.name, "the settings", freed=True))
        return settings_of(node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Op) and other._node is self._node

    def __hash__(self) -> int:
        return hash(self._node)

    def __repr__(self) -> str:
        node = self._node
        plan = node.plan
        layout = layout_of(plan)
        shown = []
        for name, (parent, place) in zip(plan.primitive.argument_names(plan.count), layout.operands, strict=True):
            value = entry(node, place) if parent < 0 else MISSING
            shown.append(str(value) if isinstance(value, (bool, int, float, complex)) else name)
        shown += [f"{name}={value!r}" for name, value in settings_of(node).items()]
        call = f"{self.name}({', '.join(shown)})"
        return f"<op {call}>" if self.output is None else f"<op {call}, output {self.output}>"


class GradFn:
    """The pullback of one operation: ``t.grad_fn``.

    It accepts a cotangent, an array of the shape and dtype of the Tensor, by default 1 for a Tensor of one element. It
    returns a tuple with the cotangent of each of ``parents``. For a Tensor, these are Tensors that can be
    differentiated. It frees nothing and changes no ``.grad``. Raises ``GraphFreedError`` if a backward pass freed the
    graph.
    """

    __slots__ = ("_data", "_level", "_node", "_output")

    def __init__(self, data: Any, node: Node, level: Any, output: int | None) -> None:
        self._data = data
        self._node = node
        self._level = level
        self._output = output

    @property
    def __name__(self) -> str:
        return str(self._node.plan.primitive.name)

    def __repr__(self) -> str:
        return f"<grad_fn of {self.__name__}>"

    def __call__(self, cotangent: Any = None) -> tuple[Any, ...]:
        output = self._output
        g = cotangent_for(self._data, cotangent, f"the grad_fn of {self.__name__}")
        recorded = isinstance(g, Tensor)
        # the pass runs over a copy of the node, whose parents are leaves
        stand_in = self._stand_in(recorded)
        found = backward_pass({stand_in: g if output is None else OutputCotangents({output: g})}, retain=True)
        parts = [found.get(parent) for parent in stand_in.parents]
        if recorded:
            parts = [p if p is None or isinstance(p, Tensor) else wrap(p, self._level) for p in parts]
        return tuple(parts)

    def _stand_in(self, recorded: bool) -> Node:
        node = self._node
        plan = node.plan
        stand_in = Node()
        stand_in.links = tuple([leaf_node() for _ in node.parents])
        stand_in.id = next_id()
        stand_in.plan = plan.primitive.variant(plan, lifted=True) if recorded else plan
        linked = recorded and plan.names and node.saved is not None
        stand_in.saved = linked_values(node, self._level) if linked else node.saved
        return stand_in


def operation_node(tensor: Tensor) -> tuple[Tensor, Node, int | None] | None:
    """Return the Tensor on a tape, the node of its operation, and its output index."""
    value = strip_constant_levels(tensor)
    if not isinstance(value, Tensor) or not value.level.tape or value.node.plan is LEAF:
        return None
    node = value.node
    primitive = node.plan.primitive
    return (value, node.parents[0], primitive.output) if isinstance(primitive, GetOutput) else (value, node, None)


def op(tensor: Tensor) -> Op | None:
    """Implement ``Tensor.op``."""
    found = operation_node(tensor)
    if found is None:
        return None
    value, node, output = found
    return Op(node, value.level, None if output is None else node.plan.primitive.output_name(output))


def parents(tensor: Tensor) -> tuple[Tensor, ...]:
    """Implement ``Tensor.parents``."""
    found = operation_node(tensor)
    return () if found is None else operands(found[1], found[0].level, found[1].plan.positions)


def grad_fn(tensor: Tensor) -> GradFn | None:
    """Implement ``Tensor.grad_fn``."""
    found = operation_node(tensor)
    return None if found is None else GradFn(found[0].data, found[1], found[0].level, found[2])


# ---------------------------------------------------------------- repr


def _levels(tensor: Tensor) -> str:
    """Return the names of the transforms of a value, the innermost first."""
    names = []
    data: Any = tensor
    while isinstance(data, Tensor):
        if data.level is not GLOBAL_TAPE:
            names.append(data.level.name)
        data = data.data
    return " in ".join(names)


def _history(tensor: Tensor) -> list[str]:
    try:
        now = present(tensor)
    except TracedValueError:
        return [f"kept after {_levels(tensor)} ended"]
    if now is not tensor:
        return _history(now) if isinstance(now, Tensor) else []
    out = []
    found = operation_node(tensor)
    if found is not None:
        _, node, output = found
        name = node.plan.primitive.name
        out.append(f"op={name}" if output is None else f"op={name}, output={node.plan.primitive.output_name(output)}")
    elif tensor.level.tape and tensor.node is not None:
        out.append("requires_grad=True")
    elif tensor.level.name == "batch":
        out.append(f"shape of a member={tensor.shape}")
    elif tensor.node is not None and tensor.level.derivative:
        tangent = tensor.node
        out.append(f"tangent={one_line(raw_of(tangent))}")
    levels = _levels(tensor)
    return [*out, f"level={levels}"] if levels else out


def represent(tensor: Tensor) -> str:
    """Implement ``Tensor.__repr__``: value, dtype, backend, device, operation.

    It never fails. It does not compute lazy arrays (Dask), and reads only the edges of a large array.
    """
    name = type(tensor).__name__
    try:
        raw = tensor.raw
    except AttributeError:  # a Tensor without data
        return f"<{name} without a value>"
    try:
        value, whole = several_lines(raw, f"{name}(")
    except Exception:  # a value inside a transform of another library, or a dtype unknown to NumPy
        value, whole = f"<{type(raw).__name__}>", False
    parts = [value]
    if not whole:
        parts.append(f"shape={tuple(raw.shape)}")
    parts.append(f"dtype={dtype_name(raw.dtype)}")
    try:
        parts += [f"backend={backend_of(raw).name}", f"device={device_name(raw)}"]
    except Exception:  # inside a transform of another library
        parts.append(f"type={type(raw).__name__}")
    return f"{name}({', '.join([*parts, *_history(tensor)])})"
