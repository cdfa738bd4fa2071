"""The nesting level of ``vmap``, and shared batching rules.

The data of a Tensor inside ``vmap`` has one axis more than its shape: the batch axis, which is the first. A batching
rule receives the data of the arguments and calls the primitive once for the batch. Most primitives use one of four
shared rules:

- ``"leading"``: the operation treats leading axes as a batch, and broadcasts them. An operation on vectors or matrices
  declares ``core_axes``, for example ``core_axes=2`` for matrices;
- ``"axis"``: every array gets the batch axis, and options that name axes are shifted by one;
- ``"loop"``: one call for each batch element, and the results are stacked;
- ``"values decide"``: vmap is not supported, because the shape of the result depends on values.

Any other rule is a function with named parameters, registered with ``.batch``. Its parameters may be ``xp``,
``batch_size``, the arguments (their data), ``<argument>_mapped`` (True if the argument has the batch axis), and after a
``*`` the options.
"""

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from agrad.backends import backend_of_type
from agrad.engine.levels import Level, lift
from agrad.engine.namespaces import NAMESPACES, NUMBERS, namespace_of
from agrad.engine.observing import OBSERVED
from agrad.engine.places import settings_picker
from agrad.engine.scalars import TracedNumber
from agrad.engine.tape import mode
from agrad.engine.tensor import BatchedTensor, Tensor, strip_constant_levels
from agrad.engine.views import relinking
from agrad.errors import MissingRuleError, RuleError, TracedValueError
from agrad.registry import namespace

Inner = Sequence[Any]
Mapped = tuple[bool, ...]

MAPPED = object()
"""The value of ``node`` in a mapped Tensor, whose record is the first axis of the data."""


class Batch(Level):
    """The nesting level of ``vmap`` over a batch, independent of ``no_grad``."""

    __slots__ = ("_written", "members")

    name = "batch"
    derivative = False
    kind: type[Tensor] = BatchedTensor

    def __init__(self, members: int) -> None:
        super().__init__()
        self.members: int = members
        self._written: list[tuple[Any, ...]] = []

    def note_write(self, tensor: Tensor) -> None:
        """Save the state of a Tensor before a write adds the batch axis of this level."""
        held: Any = tensor
        while isinstance(held, Tensor):
            if held.level is self:
                return
            held = held.data
        state = type(tensor), tensor.data, tensor.level, tensor.node, relinking(tensor)
        self._written.append((weakref.ref(tensor), *state))

    def undo_writes(self, inside: Callable[[], Any] = list) -> list[Tensor]:
        """Undo writes to Tensors that outlive the map; return those not in ``inside()``."""
        if not self._written:
            return []
        known = set(map(id, inside()))
        if any(ref() is not None and id(ref()) not in known for ref, *_ in self._written):
            gc.collect()  # a reference cycle may hold Tensors that the function created
        outlived = {}
        for ref, kind, data, level, node, relink in reversed(self._written):
            tensor = ref()
            if tensor is not None:
                tensor.__class__, tensor.data, tensor.level, tensor.node = kind, data, level, node
                outlived[id(tensor)] = tensor, relink
        for tensor, relink in outlived.values():
            relink(tensor)
        return [tensor for key, (tensor, _) in outlived.items() if key not in known]

    def wrap(self, data: Any) -> Any:
        """Return the mapped Tensor of data whose first axis is the batch axis."""
        tensor = BatchedTensor()
        tensor.data = data
        tensor.level = self
        tensor.node = MAPPED
        return tensor

    def process(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        trace = mode().trace
        if trace is not None:
            trace.check_known(args)
        for name, value in settings.items():
            if isinstance(value, BatchedTensor):
                raise TracedValueError(f"{primitive.name}: {name} must not be a value that vmap maps over")
        rule = primitive.batching
        try:
            if primitive.core_axes and (few := primitive.too_few_axes(args)):
                raise few
            if rule is axis and not primitive.is_own and _counts_back(settings):
                refusal = self._refusal(primitive, args, settings)  # before an axis could refer to the batch axis
                if refusal is not None:
                    raise refusal
            found = through_all(primitive, args, settings, rule is axis) if rule is leading or rule is axis else None
            return self._by_rule(primitive, args, settings) if found is None else found
        except (MissingRuleError, TracedValueError):
            raise
        except Exception as error:
            found = self._refusal(primitive, args, settings) or error
            note = f"for each of the {self.members} elements of a vmap"
            if found is error:
                note = f"under a vmap over {self.members} elements, whose batch axis comes first"
            if note not in getattr(found, "__notes__", ()):
                found.add_note(note)
            if found is error:
                raise
            raise found from None

    def _refusal(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Exception | None:
        """Return the error of the operation on the first batch element, or None."""
        if not self.members:
            return None
        first = [arg.data[(0, ...)] if type(arg) is BatchedTensor and arg.level is self else arg for arg in args]
        try:
            primitive.bind(*first, **settings)
        except Exception as error:
            return error
        return None

    def _by_rule(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Evaluate an operation by its batching rule, at only this level."""
        rule = primitive.batching
        inner = []
        mapped = []
        for arg in args:
            is_mapped = type(arg) is BatchedTensor and arg.level is self
            mapped.append(is_mapped)
            if is_mapped:
                arg = arg.data  # needs no new wrapper, because only this level holds the data
                while isinstance(arg, Tensor) and arg.node is None:
                    arg = arg.data
            elif isinstance(arg, Tensor):
                arg = strip_constant_levels(arg)
            elif hasattr(arg, "shape") and backend_of_type(type(arg)) is None:
                raise primitive.not_an_array(type(arg))
            inner.append(arg)
        if rule is None:
            raise MissingRuleError(
                f"{primitive.name} has no batching rule. Declare one, for example with @primitive(batch='leading'), or "
                f"batch='loop' for a call per batch element, or define one with @{primitive.identifier}.batch."
            )
        out = rule(primitive, inner, tuple(mapped), self.members, settings)
        return in_levels([self], primitive, out)

    def misshapen(self, primitive: Any, shape: tuple[int, ...]) -> RuleError:
        """Return the error of a batching rule whose result lacks the batch axis."""
        return RuleError(
            f"the batching rule of {primitive.name} must return a batch axis of length {self.members} first, got shape "
            f"{shape}"
        )

    def outlived(self, tensor: Tensor) -> Any:
        """Raise ``TracedValueError``: the map of the batch has ended."""
        raise TracedValueError(
            f"an array of shape {tensor.shape} that vmap mapped over {self.members} elements must not be used after "
            "the function has returned. Return it from the function."
        )

    def check_concrete(self, tensor: Tensor, what: str) -> None:
        raise TracedValueError(
            f"{what} must not be called on a value that vmap maps over, because it differs between the {self.members} "
            "batch elements. Choose between values with agrad.where(condition, x, y), and loop with agrad.while_loop."
        )


# ---------------------------------------------------------------- helpers of the rules


def with_rank(xp: Any, value: Any, ndim: int) -> Any:
    """Return a mapped value with ``ndim`` axes after the batch axis.

    The missing axes have length 1 and follow the batch axis.
    """
    shape = tuple(value.shape)
    missing = ndim - (len(shape) - 1)
    return xp.reshape(value, (shape[0], *(1,) * missing, *shape[1:])) if missing > 0 else value


def spread(xp: Any, value: Any, mapped: bool, members: int) -> Any:
    """Return the value with the batch axis. An unmapped value is repeated."""
    return value if mapped else xp.broadcast_to(value, (members, *value.shape))


# ---------------------------------------------------------------- the shared rules


def through_all(primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], by_axis: bool = False) -> Any:
    """Evaluate an operation for all nested batch levels at once, or return None.

    The operation treats leading axes as a batch. The axis of the oldest level is the first. ``by_axis``: the operation
    has options that number the axes.

    The result is None if the levels must be processed one by one:

    - another level between them and the arrays must record each operation;
    - an array lacks the axes of some levels, for ``by_axis``;
    - a newer level is inside an older one, as in the mapped pullback of a function that was mapped before.
    """
    values: list[Any] = []
    owned: list[list[Any]] = []
    rank, alike = -1, True
    levels: list[Any] = []  # newest first, as for each array
    for arg in args:
        own: list[Any] = []
        while isinstance(arg, Tensor):
            if type(arg) is BatchedTensor:
                if own and own[-1].id < arg.level.id:
                    return None
                own.append(arg.level)
            elif arg.node is not None:
                return None
            arg = arg.data
        if isinstance(arg, TracedNumber):
            arg = arg.read()  # the trace treats the arrays as constants
        values.append(arg)
        owned.append(own)
        if not own:
            alike = alike and type(arg) in NUMBERS
            continue
        if own != levels:
            alike = alike and not levels
            if not levels:
                levels = own
            elif not all(map(levels.__contains__, own)):
                levels = sorted({*levels, *own}, key=_newest_first)
        alike = alike and rank in (-1, len(arg.shape))
        rank = len(arg.shape)
    if by_axis:
        if owned.count(levels) < len(owned):
            return None
        settings = _moved(settings, len(levels))
    elif not alike:
        ranks = [len(x.shape) - len(own) if hasattr(x, "shape") else 0 for x, own in zip(values, owned, strict=True)]
        rank = max(ranks)
        for i, own in enumerate(owned):
            if own and (ranks[i] != rank or own != levels):
                values[i] = _aligned(values[i], own, levels, rank - ranks[i])
    out = primitive.bind(*values, **settings) if OBSERVED else primitive.evaluate(tuple(values), settings)
    return in_levels(levels, primitive, out)


def in_levels(levels: Sequence[Any], primitive: Any, out: Any) -> Any:
    """Return a result as a Tensor of the newest of ``levels``, which are newest first."""
    if isinstance(out, tuple):
        return tuple([in_levels(levels, primitive, part) for part in out])
    if isinstance(out, Tensor):
        out._link = None  # no user can write to the data of a Tensor
    shape: Any = getattr(out, "shape", ())
    for k, level in enumerate(reversed(levels)):
        if len(shape) <= k or shape[k] != level.members:
            raise level.misshapen(primitive, tuple(shape[k:]))
        out = level.wrap(out)
    return out


def _newest_first(level: Batch) -> int:
    return -level.id


def _aligned(value: Any, own: list[Any], levels: list[Any], missing: int) -> Any:
    """Return an array with an axis for each of the levels from its oldest on.

    ``missing`` axes of length 1 are added after them. Levels are newest first, their axes oldest first.
    """
    count = len(own)
    if own == levels[:count]:
        if not missing:
            return value
        lead: Any = value.shape[:count]
    else:
        lead = [level.members if level in own else 1 for level in levels[: levels.index(own[-1]) + 1]]
        lead.reverse()
    return NAMESPACES[type(value)].reshape(value, (*lead, *(1,) * missing, *value.shape[count:]))


def leading(primitive: Any, inner: Inner, mapped: Mapped, members: int, settings: dict[str, Any]) -> Any:
    """Call an operation that treats leading axes as a batch.

    Batch elements with fewer axes get leading axes of length 1.
    """
    pairs = list(zip(inner, mapped, strict=True))
    ndim = max(len(value.shape) - is_mapped if hasattr(value, "shape") else 0 for value, is_mapped in pairs)
    xp = namespace_of(inner)
    return primitive.bind(*[with_rank(xp, x, ndim) if is_mapped else x for x, is_mapped in pairs], **settings)


def shift(axes: Any, by: int = 1) -> Any:
    """Return axes for an array with ``by`` more leading axes. Negative axes remain."""
    if isinstance(axes, tuple):
        return tuple([a + by if a >= 0 else a for a in axes])
    return axes + by if axes >= 0 else axes


def _moved(settings: dict[str, Any], by: int) -> dict[str, Any]:
    return {name: shift(value, by) if name in ("axis", "axes") else value for name, value in settings.items()}


def _counts_back(settings: dict[str, Any]) -> bool:
    """Return True if an option contains a negative axis."""
    named = [settings[name] for name in ("axis", "axes") if name in settings]
    return any(a < 0 for axes in named for a in (axes if isinstance(axes, tuple) else (axes,)))


def axis(primitive: Any, inner: Inner, mapped: Mapped, members: int, settings: dict[str, Any]) -> Any:
    """Call an operation with the batch axis on every array, and with shifted axes."""
    if not all(mapped):
        xp = namespace_of(inner)
        inner = [spread(xp, value, is_mapped, members) for value, is_mapped in zip(inner, mapped, strict=True)]
    return primitive.bind(*inner, **_moved(settings, 1))


def loop(primitive: Any, inner: Inner, mapped: Mapped, members: int, settings: dict[str, Any]) -> Any:
    """Call the primitive for each batch element and stack the results.

    For an empty batch, an element of ones determines the shape.
    """
    xp, pairs = namespace_of(inner), list(zip(inner, mapped, strict=True))
    if not members:
        ones = [xp.ones_like(xp.any(x, axis=0, keepdims=True), dtype=x.dtype) if m else x for x, m in pairs]
        try:
            out = loop(primitive, ones, mapped, 1, settings)
        except Exception as error:
            raise MissingRuleError(
                f"{primitive.name}: the batch must not be empty, because the shape of the result is unknown without a "
                "call"
            ) from error
        return tuple([part[:0, ...] for part in out]) if isinstance(out, tuple) else out[:0, ...]
    outs = [primitive.bind(*[x[(i, ...)] if m else x for x, m in pairs], **settings) for i in range(members)]
    if isinstance(outs[0], tuple):
        return tuple([xp.stack(list(parts), axis=0) for parts in zip(*outs, strict=True)])
    return xp.stack(outs, axis=0)


def values_decide(primitive: Any, inner: Inner, mapped: Mapped, members: int, settings: dict[str, Any]) -> Any:
    """Raise ``TracedValueError``: the results of batch elements may differ in shape."""
    raise TracedValueError(
        f"{primitive.name} does not support vmap, because the shape of its result depends on values. Call it outside "
        "of vmap, or keep the shape and choose values with agrad.where."
    )


BatchRule = Callable[[Any, Inner, Mapped, int, dict[str, Any]], Any]

SHARED: dict[str, BatchRule] = {
    "leading": leading,
    "axis": axis,
    "loop": loop,
    "values decide": values_decide,
}
"""The shared batching rules by name."""


def own_rule(rule: Any, primitive: Any) -> BatchRule:
    """Return a rule with named parameters as a batching rule."""
    fixed = len(primitive.arrays)
    places = {name: i for i, name in enumerate(primitive.arrays)}
    flags = {f"{name}_mapped": i for name, i in places.items()}
    settings_of = settings_picker(rule.settings, primitive.settings)

    def call(_: Any, inner: Inner, mapped: Mapped, members: int, settings: dict[str, Any]) -> Any:
        xp = namespace_of(inner)
        if xp is namespace:
            inner = [lift(value) for value in inner]
        handed: list[Any] = []
        for name in rule.names:
            if name in places:
                handed.append(inner[places[name]])
            elif name in flags:
                handed.append(mapped[flags[name]])
            elif name == "xp":
                handed.append(xp)
            elif name == "batch_size":
                handed.append(members)
            else:
                handed.append(tuple(inner[fixed:]) if name == primitive.variadic else mapped[fixed:])
        return rule.function(*handed, **settings_of(settings))

    return call
