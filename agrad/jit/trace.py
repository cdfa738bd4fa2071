"""The trace: run a function once on real values and record instructions.

The trace is the outermost nesting level. Tensors that require a gradient, transforms and their derivatives therefore
hold traced arrays, and every operation on arrays ends here. The array library determines shapes, dtypes and layouts.
The values are real, except the values of large arrays, which are not kept. They are not even computed if the kind of
operation determines the shape.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import get_ident
from typing import Any

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.dtypes import as_dtype, is_floating
from agrad.engine.levels import GLOBAL_TAPE, Level
from agrad.engine.namespaces import NAMESPACES
from agrad.engine.scalars import TracedNumber
from agrad.engine.tape import LEAF, next_id
from agrad.engine.tensor import Tensor, present, strip_constant_levels, wrap
from agrad.engine.views import like_given
from agrad.errors import ConfigurationError, TracedValueError
from agrad.jit.program import HostCall, Instruction, Variable, variable_like
from agrad.shapes import kept_shape

LARGE = 1 << 17
"""The fewest elements of arrays whose values a trace does not keep."""

TRACE_ID = -1
"""The number of every trace, below the numbers of the global tape and all other levels."""


class UnknownState(BaseException):
    """Raised for Tensors or objects that the trace does not know.

    The trace starts again with them. It is not an ``Exception``, so that a function cannot catch it by accident.
    """

    def __init__(self, found: list[Any]) -> None:
        super().__init__("state that the trace does not know")
        self.found = found


class NeedsValues(BaseException):
    """Raised if an operation fails for arrays whose values were not kept.

    The trace starts again and keeps all values.
    """


RESTARTS = 100
"""The most times that a trace begins again for state which may be younger than the first attempt."""


def with_known(name: str, known: list[Any], attempt: Callable[[bool], Any]) -> Any:
    """Return ``attempt(False)``, repeated with the unknown state that it finds.

    The state is added to ``known``. The number of Tensors older than the first attempt is finite, but each attempt may
    create other state. The argument is True if the trace must keep all values.
    """
    start, left, keeps_values = next_id(), RESTARTS, False
    while left:
        try:
            return attempt(keeps_values)
        except NeedsValues:
            keeps_values = True
        except UnknownState as met:
            known += met.found
            left -= not all(isinstance(found, Tensor) and found.node.id < start for found in met.found)
    raise ConfigurationError(
        f"{name}: the function creates new state each time it is traced and keeps it outside of what jit finds, got a "
        f"{type(known[-1]).__name__}. Create it outside of the function, or do not keep it."
    )


class NoProgram(BaseException):
    """Raised if no program can record a function: calls then run the function."""


class Trace(Level):
    """One trace of a function. Its Tensors hold arrays, and variables as nodes.

    keeps_values: True to keep the values of large arrays too.
    """

    name = "trace"
    derivative = False
    is_trace = True

    def __init__(self, named: str, keeps_values: bool = True) -> None:
        super().__init__(TRACE_ID)
        self.born: int = next_id()
        self.keeps_values: bool = keeps_values
        self.closed: bool = False
        self.evaluating: bool = False
        """True while an operation is evaluated on the real values."""
        self.unreal: bool = False
        """True after a loop, a branch or an update: operations may fail for its values, not for those of a call."""
        self.is_hollow: bool = False
        """True after a large array whose values were not kept."""
        self.by_layout: bool = False
        """True if an operation is a view or a copy depending on the layout of its array."""
        self.thread: int = get_ident()
        self.named: str = named
        """The name of the function in errors."""
        self.instructions: list[Instruction] = []
        self.constants: dict[int, tuple[Any, Variable]] = {}
        self.returns_operand: set[Any] = set()
        """Operations that returned an operand itself."""
        self.holders: dict[int, Any] = {}
        """By id, the stateful objects whose attributes are inputs, and those that were created in the trace."""
        self.no_leaves: list[tuple[Tensor, Variable]] = []
        """Tensors that represent nonleaf Tensors, with their variables."""
        self.installed: set[Any] = set()
        """The nodes that captured Tensors have outside of the trace, if they are not leaves."""
        self.may_end: bool = False
        """True if ``NoProgram`` may end the trace."""
        self.reads_at_call: Callable[[Any], bool] = lambda raw: False
        """A test for captured arrays that the program reads at each call."""
        self.namespaces: dict[str, Any] = {}
        """The namespaces of Tensors that represent plain arrays, by backend."""
        self.donations: dict[Variable, Any] = {}
        """For arrays of captured leaves None, or the number that allows a program to overwrite the array."""
        self.guards: dict[Variable, Any] = {}
        """Numbers of the host, with the values that the program depends on."""

    # ------------------------------------------------------------------ inputs

    def array(self, raw: Any) -> Tensor:
        """Return a traced array with the value ``raw``, of a new variable."""
        return wrap(raw, self, variable_like(raw))

    def stand_in(self, made: Any) -> Any:
        """Return the Tensor that represents a plain array."""
        if not isinstance(made, Tensor) or made.level is not GLOBAL_TAPE or made.requires_grad:
            return made
        if isinstance(made.data, Tensor):
            return made.data
        return like_given(wrap(made.data, self, self.constant_variable(made.data)), made)

    def scalar(self, value: Any) -> TracedNumber:
        """Return a traced number of the host."""
        return TracedNumber(value, self, variable_like(value))

    def donation(self, array: Any) -> Any:
        """Return a traced number, true in calls that may overwrite a captured array."""
        variable = array.node if isinstance(array, Tensor) else None
        if variable not in self.donations:
            return False
        if self.donations[variable] is None:
            self.donations[variable] = self.scalar(False)
        return self.donations[variable]

    def constant_variable(self, raw: Any) -> Variable:
        """Return the variable of a captured array."""
        known = self.constants.get(id(raw))
        if known is None:
            known = self.constants[id(raw)] = (raw, variable_like(raw))
        return known[1]

    def captured(self, value: Any) -> Any:
        """Return a traced array for one that is read at each call, or the value unchanged."""
        if self.evaluating or not is_raw(value) or not self.reads_at_call(value):
            return value
        return like_given(wrap(value, self, self.constant_variable(value)), value)

    # ------------------------------------------------------------------ operations

    def process(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        self.check_open(args)
        if primitive.data_dependent_shape or primitive.kind == "indexing":
            self._check_shape_known(primitive, args)
        values, operands = self._split(args)
        plain = noted = settings
        if settings:
            parts = self._split(settings.values())
            plain, noted = [dict(zip(settings, part, strict=True)) for part in parts]
        outer, self.evaluating = self.evaluating, True
        try:
            out = self.evaluate(primitive, tuple(values), plain)
        finally:
            self.evaluating = outer
        self.unreal = self.unreal or primitive.sketches
        if primitive.outputs is None:
            for value in values:
                if value is out:
                    self.returns_operand.add(primitive)
            made = self._made(out, values)
            self.instructions.append(Instruction(primitive, tuple(operands), noted, (made.node,)))
            return made
        several = tuple([None if part is None else self._made(part, values) for part in out])
        outputs = tuple([None if t is None else t.node for t in several])
        self.instructions.append(Instruction(primitive, tuple(operands), noted, outputs))
        return several

    def evaluate(self, primitive: Any, values: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Return the results, whose shapes, dtypes and types the trace records."""
        shape = None
        for value in values:  # without a call for small arrays
            if type(value) is np.ndarray and value.size >= LARGE and not self.keeps_values:
                shape = large_shape(primitive, values, settings)
                break
        try:
            if not self.is_hollow and shape is None:
                return primitive.sketch(values, settings)
            with np.errstate(all="ignore"):  # the program issues warnings for its own values
                if shape is None:
                    return primitive.sketch(values, settings)
                self.is_hollow = self.unreal = True
                out = primitive.sketch(one_of_each(values), settings)
                return backend_of(out).unfilled(out, shape)
        except Exception:
            if not self.unreal:
                raise
            try:
                return primitive.sketch(tuple(map(_harmless, values)), settings)
            except Exception:
                if self.is_hollow:
                    raise NeedsValues from None
            raise

    def _made(self, out: Any, operands: Sequence[Any]) -> Tensor:
        """Return a result as a traced array.

        Instead of a large new array it holds one without memory.
        """
        made = self.array(out)
        if not self.keeps_values and made.node.size >= LARGE and not any(out is x for x in operands):
            made.data = backend_of(out).unfilled(out, made.node.shape)
            self.is_hollow = self.is_hollow or made.data is not out
            self.unreal = self.unreal or self.is_hollow
        return made

    def _split(self, given: Iterable[Any]) -> tuple[list[Any], list[Any]]:
        """Return arguments as real values, and as operands of an instruction."""
        values: list[Any] = []
        noted: list[Any] = []
        for arg in given:
            if isinstance(arg, Tensor):
                values.append(arg.data)
                noted.append(arg.node if arg.node is not None else self.constant_variable(arg.data))
            elif isinstance(arg, TracedNumber):
                values.append(arg.value)
                noted.append(arg.variable)
            else:
                values.append(arg)
                noted.append(self.constant_variable(arg) if is_raw(arg) else arg)
        return values, noted

    def check_open(self, args: Iterable[Any]) -> None:
        """Raise ``TracedValueError`` for values of another trace or thread."""
        if get_ident() != self.thread and not self.closed:
            raise TracedValueError(
                f"{self.named} is being traced in another thread, and this thread must not use its state. "
                "Call it once for each signature before other threads use the model outside of jit, or create a "
                "model for each thread."
            )
        for arg in args:
            if isinstance(arg, Tensor) and (arg.level is not self or self.closed):
                raise TracedValueError(
                    f"{getattr(arg.level, 'named', 'function')}: an array of shape {arg.shape} that was computed "
                    "during the trace was kept and used afterwards. Return it from the function instead."
                )

    def _check_shape_known(self, primitive: Any, args: tuple[Any, ...]) -> None:
        if primitive.data_dependent_shape:
            raise TracedValueError(
                f"{primitive.name} inside {self.named}, which is traced: the shape of its result depends on values. "
                "Call it outside of jit."
            )
        if any(isinstance(i, Tensor) and as_dtype(i.dtype).kind == "bool" for i in args[1:]):
            raise TracedValueError(
                f"a Boolean index inside {self.named}, which is traced: the shape of the result depends on "
                "values. Use agrad.where(mask, x, 0), or index outside of jit."
            )

    def check_concrete(self, tensor: Tensor, what: str) -> None:
        self.check_open((tensor,))
        raise TracedValueError(
            f"{what} of a value inside {self.named}, which is traced once and replayed with other values, so that "
            "Python cannot know the value. Use agrad.where or agrad.cond instead of if, agrad.while_loop instead of "
            "while, or static_argnums for an argument that Python needs. Or return the value and use it outside of jit."
        )

    # ------------------------------------------------------------------ numbers of the host

    def guard_on(self, scalar: TracedNumber) -> None:
        """Add a guard: the program is valid only for the number's present value."""
        self.guards.setdefault(scalar.variable, scalar.value)

    def host(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call a function of numbers of the host, and record the call."""
        values, operands = self._split(args)
        out = self.scalar(function(*values))
        self.instructions.append(Instruction(HostCall(function), tuple(operands), {}, (out.variable,)))
        return out

    def host_array(self, function: Callable[..., Any], args: tuple[Any, ...], place: Callable[[Any], Any]) -> Tensor:
        """Call a function that makes an array on the host, and record the call.

        ``place`` makes a Tensor of the array.
        """
        values, operands = self._split(args)

        def make(*numbers: Any) -> Any:
            made = place(function(*numbers))
            return made.raw if isinstance(made, Tensor) else made

        out = self.array(make(*values))
        name = getattr(function, "__name__", "call")
        self.instructions.append(Instruction(HostCall(make, name), tuple(operands), {}, (out.node,)))
        return wrap(out, GLOBAL_TAPE)

    def is_stand_in(self, tensor: Tensor) -> bool:
        """Return True for a Tensor that represents a nonleaf Tensor."""
        return any(tensor is stand_in for stand_in, _ in self.no_leaves)

    def check_writable(self, tensor: Tensor) -> None:
        """Raise ``TracedValueError`` for a Tensor that represents a nonleaf Tensor."""
        if self.is_stand_in(tensor):
            raise TracedValueError(
                f"{self.named} writes into an argument or a captured Tensor of shape {tensor.shape}, which must be a "
                "leaf. Write into a copy, y = x + 0, and return it."
            )

    # ------------------------------------------------------------------ unknown state

    def check_known(self, args: Iterable[Any]) -> None:
        """Raise ``UnknownState`` for a recorded Tensor that is older than the trace.

        It is not an input, and its values would become constants of the program. Raise ``NoProgram`` for a
        value of a transform around the call. ``args`` are the operands of an operation in a newer transform.
        """
        unknown: list[Tensor] = []
        for arg in args:
            if not isinstance(arg, Tensor) or arg.level.is_trace:
                continue
            if arg.level is not GLOBAL_TAPE:
                if self.may_end and arg.level.id < self.born:
                    raise NoProgram
                continue
            node = arg.node
            if node is None or node.id > self.born or isinstance(arg.data, Tensor):
                continue
            if node.plan is not LEAF:
                if node not in self.installed:
                    unknown.append(arg)
                elif self.may_end:  # another Tensor of the same operation
                    raise NoProgram
                continue
            owner = node.owner() if node.owner is not None else None
            if owner is not None and not isinstance(owner.data, Tensor):
                unknown.append(owner)
        if unknown:
            raise UnknownState(unknown)

    def check_known_holder(self, holder: Any) -> None:
        """Raise ``UnknownState`` if an object's traced attributes are not inputs."""
        if id(holder) not in self.holders:
            raise UnknownState([holder])


def shape_of_result(primitive: Any, values: Iterable[Any], settings: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the shape of the result of an operation of a known kind, otherwise None."""
    shapes = [v.shape for v in values if hasattr(v, "shape")]
    if primitive.kind == "elementwise":
        return np.broadcast_shapes(*shapes)
    if primitive.kind == "reduction":
        ((given,), axis) = shapes, settings["axis"]
        kept = kept_shape(given, axis)
        return kept if settings["keepdims"] else tuple([n for a, n in enumerate(given) if a not in axis])
    if primitive.kind != "product":
        return None
    a, b, *others = shapes
    fits = min(len(a), len(b)) > 1 and a[-1] == b[-2]
    return np.broadcast_shapes((*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1]), *others) if fits else None


def large_shape(primitive: Any, values: Sequence[Any], settings: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the shape of the result if it is a large new NumPy array, otherwise None.

    The array is in C order, and the operation is of a known kind.
    """
    arrays = [v for v in values if is_raw(v)]
    own = primitive.is_own and primitive.outputs is None and not (primitive.may_alias or primitive.sketches)
    in_order = primitive.kind == "product"
    if not own or not all(type(v) is np.ndarray and v.ndim and (in_order or v.flags.c_contiguous) for v in arrays):
        return None
    try:
        shape = shape_of_result(primitive, arrays, settings)
    except ValueError:  # the operation raises its own error
        return None
    return shape if shape and math.prod(shape) >= LARGE else None


def one_of_each(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return arrays with one element of each of the given ones."""
    return tuple([v[(slice(1),) * v.ndim] if is_raw(v) else v for v in values])


def traced_value(value: Any, trace: Trace) -> Any:
    """Return the variable of a result, or the value unchanged.

    Raises ``TracedValueError`` for a value of a transform that has ended.
    """
    if isinstance(value, TracedNumber):
        return value.variable
    value = present(value)
    bare = value.bare if isinstance(value, Tensor) else value
    if isinstance(bare, Tensor):
        trace.check_open((bare,))
        return bare.node if bare.node is not None else trace.constant_variable(bare.data)
    return trace.constant_variable(bare) if is_raw(bare) else value


def is_foreign(value: Any, trace: Trace) -> bool:
    """Return True for a value that a transform under way, not an argument's, records."""
    value = strip_constant_levels(value) if isinstance(value, Tensor) else value
    return isinstance(value, Tensor) and value.level is not trace and value.level is not GLOBAL_TAPE


def is_raw(value: Any) -> bool:
    """Return True for an array of an array library."""
    return not isinstance(value, Tensor) and hasattr(value, "shape") and backend_of_type(type(value)) is not None


def _harmless(value: Any) -> Any:
    """Return an array like a given one that operations accept: identity matrices, ones, or zeros."""
    if not is_raw(value):
        return value
    xp = NAMESPACES[type(value)]
    if not is_floating(value.dtype):
        return xp.zeros_like(value)
    if len(value.shape) < 2:
        return xp.ones_like(value)
    backend = backend_of(value)
    eye = backend.xp.eye(*value.shape[-2:], dtype=value.dtype, device=backend.device_of(value))
    return xp.asarray(xp.broadcast_to(eye, value.shape), copy=True)
