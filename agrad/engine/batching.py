"""The batch level: operations on many members at once, and the batching rules that most primitives share.

A Tensor of a batch level holds an array with one more axis than it shows, the mapped one, always in front. A rule is
handed the arguments as they lie inside, and says how the primitive is called once for all members. Four words serve
most primitives:

- ``"leading"``: axes before the operation's own are a batch already, and broadcast from the right;
- ``"axis"``: every array gets the mapped axis, and settings that name axes, counted from the front, count one more;
- ``"loop"``: each member by itself, the results stacked;
- ``"values decide"``: none can be, as the shape of the result depends on values.

Any other rule is a function of names, filed with ``.batch``: it may name ``xp``, ``batch_size``, the arguments (as they
lie inside), ``<argument>_mapped`` (whether the argument has the mapped axis, in front), and after a ``*`` the settings.
"""

from collections.abc import Callable, Sequence
from typing import Any

from agrad.engine.levels import NUMBERS, SPACES, Level, lift, namespace_of
from agrad.engine.observing import SWITCH
from agrad.engine.scalars import Scalar
from agrad.engine.tensor import Batched, Tensor, settle
from agrad.errors import MissingRuleError, RuleError, TracedValueError
from agrad.registry import namespace

Inner = Sequence[Any]
Mapped = tuple[bool, ...]

MAPPED = object()
"""Stands in the place of a node in a mapped Tensor: what a batch level records is the axis in front."""


class Batch(Level):
    """Carries the mapped axis, of ``members`` members: opened by ``vmap``. ``no_grad`` does not concern it."""

    __slots__ = ("members",)

    name = "batch"
    derivative = False
    kind = Batched

    def __init__(self, members: int) -> None:
        super().__init__()
        self.members = members

    def wrap(self, data: Any) -> Any:
        """The mapped Tensor around an array, or an older level's Tensor, whose axis in front is the mapped one."""
        tensor = Batched()
        tensor.data = data
        tensor.level = self
        tensor.node = MAPPED
        return tensor

    def process(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        for name, value in settings.items():
            if isinstance(value, Batched):
                raise TracedValueError(f"{primitive.name}: {name} may not be a value that vmap maps over")
        try:
            return self._mapped(primitive, args, settings)
        except (MissingRuleError, TracedValueError):
            raise
        except Exception as error:
            note = f"under a map over {self.members} members, whose axis stands in front of those of each"
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)
            raise

    def _mapped(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        rule = primitive.batching
        if rule is leading or rule is axis:
            done = self._straight(primitive, args, settings, rule is axis)
            if done is None:
                done = through_all(primitive, args, settings, rule is axis)
            if done is not None:
                return done
        inner = []
        mapped = []
        for arg in args:
            is_mapped = type(arg) is Batched and arg.level is self
            mapped.append(is_mapped)
            if is_mapped:
                arg = arg.data  # no copy of it: nobody but this level has what is inside
                while isinstance(arg, Tensor) and arg.node is None:
                    arg = arg.data
            elif isinstance(arg, Tensor):
                arg = settle(arg)
            inner.append(arg)
        if rule is None:
            raise MissingRuleError(
                f"{primitive.name} has no batching rule; declare one, @primitive(batch='leading') say, or "
                f"batch='loop' for a call a member, or write one with @{primitive.identifier}.batch"
            )
        out = rule(primitive, inner, tuple(mapped), self.members, settings)
        if isinstance(out, tuple):
            return tuple([self.member(primitive, part) for part in out])
        return self.member(primitive, out)

    def _straight(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], by_axis: bool) -> Any:
        """The usual case of ``through_all``: raw arrays of one rank, all mapped by this level alone. None elsewhere."""
        if SWITCH.lookers:
            return None
        values = []
        rank = 0
        for arg in args:
            if type(arg) is Batched:
                if arg.level is not self:
                    return None
                arg = arg.data
                if isinstance(arg, Tensor):
                    return None
                if rank != len(arg.shape):
                    if rank:
                        return None
                    rank = len(arg.shape)
            elif by_axis or type(arg) not in NUMBERS:
                return None
            values.append(arg)
        if by_axis:
            settings = _moved(settings, 1)
        out = primitive.evaluate(tuple(values), settings)
        if isinstance(out, tuple):
            return tuple([self.member(primitive, part) for part in out])
        return self.member(primitive, out)

    def member(self, primitive: Any, out: Any) -> Any:
        """What the primitive gave for all members, as a Tensor of this level."""
        shape: Any = getattr(out, "shape", ())
        if not len(shape) or shape[0] != self.members:
            raise self.misshapen(primitive, tuple(shape))
        if isinstance(out, Tensor):
            out._link = None  # nobody can write to what is inside
        return self.wrap(out)

    def misshapen(self, primitive: Any, shape: tuple[int, ...]) -> RuleError:
        """The error of a batching rule whose result has not the mapped axis in front."""
        return RuleError(
            f"the batching rule of {primitive.name} gave a result of shape {shape}; its first axis must be "
            f"the mapped one, of length {self.members}"
        )

    def check_concrete(self, tensor: Tensor, what: str) -> None:
        raise TracedValueError(
            f"{what} of a value that vmap maps over: each of the {self.members} members has its own, so Python cannot "
            "branch, loop or index by it; choose between values with agrad.where(condition, x, y)"
        )


# ---------------------------------------------------------------- what rules are made of


def with_rank(xp: Any, value: Any, ndim: int) -> Any:
    """A mapped value whose members have ``ndim`` dimensions, axes of length one put in front of theirs."""
    shape = tuple(value.shape)
    missing = ndim - (len(shape) - 1)
    return xp.reshape(value, (shape[0], *(1,) * missing, *shape[1:])) if missing > 0 else value


def spread(xp: Any, value: Any, mapped: bool, members: int) -> Any:
    """The value with the mapped axis: an unmapped one repeated."""
    return value if mapped else xp.broadcast_to(value, (members, *value.shape))


# ---------------------------------------------------------------- the shared rules


def through_all(primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], by_axis: bool = False) -> Any:
    """An operation that takes any leading axes for a batch, through all nested batch levels at once.

    ``by_axis``: one whose settings count the axes from the front. An array has the axis of the oldest of its levels in
    front. None where some other level lies between them and the arrays, which is to record what each does; by axis,
    where an array has not the axes of all the levels; or where a newer level lies inside an older one, as in the
    pullback of a function mapped before, which is then mapped itself: level by level is right there too.
    """
    values: list[Any] = []
    owned: list[list[Any]] = []
    ranks: list[int] = []
    levels: list[Any] = []  # newest first, as those of each array are
    for arg in args:
        own: list[Any] = []
        while isinstance(arg, Tensor):
            if type(arg) is Batched:
                if own and own[-1].id < arg.level.id:
                    return None
                own.append(arg.level)
            elif arg.node is not None:
                return None
            arg = arg.data
        if isinstance(arg, Scalar):
            arg = arg.read()  # beside arrays that the trace takes for constants
        values.append(arg)
        owned.append(own)
        ranks.append(len(arg.shape) - len(own) if hasattr(arg, "shape") else 0)
        if own and own != levels:
            if not levels:
                levels = own
            elif not all(map(levels.__contains__, own)):
                levels = sorted({*levels, *own}, key=_newest_first)
    if by_axis:
        if owned.count(levels) < len(owned):
            return None
        settings = _moved(settings, len(levels))
    elif len(values) > 1:
        rank = max(ranks)
        for i, own in enumerate(owned):
            if own and (ranks[i] != rank or own != levels):
                values[i] = _aligned(values[i], own, levels, rank - ranks[i])
    out = primitive.bind(*values, **settings) if SWITCH.lookers else primitive.evaluate(tuple(values), settings)
    if isinstance(out, tuple):
        return tuple([_wrapped(levels, primitive, part) for part in out])
    return _wrapped(levels, primitive, out)


def _wrapped(levels: list[Any], primitive: Any, out: Any) -> Any:
    """What a primitive gave for the members of all ``levels``, as a Tensor of the newest."""
    shape = tuple(getattr(out, "shape", ()))
    for level in reversed(levels):
        if not shape or shape[0] != level.members:
            raise level.misshapen(primitive, shape)
        out = level.wrap(out)
        shape = shape[1:]
    return out


def _newest_first(level: Batch) -> int:
    return -level.id


def _aligned(value: Any, own: list[Any], levels: list[Any], missing: int) -> Any:
    """An array with an axis for each of the levels from its oldest on, and ``missing`` axes in front of the member's.

    Levels are newest first, and their axes oldest first.
    """
    count = len(own)
    if own == levels[:count]:
        if not missing:
            return value
        lead: Any = value.shape[:count]
    else:
        lead = [level.members if level in own else 1 for level in levels[: levels.index(own[-1]) + 1]]
        lead.reverse()
    return SPACES[type(value)].reshape(value, (*lead, *(1,) * missing, *value.shape[count:]))


def leading(primitive: Any, inner: Inner, mapped: Mapped, members: int, settings: dict[str, Any]) -> Any:
    """Axes before the operation's own are a batch already: members of fewer axes get ones in front."""
    if len(inner) > 1:
        ndims = [
            len(value.shape) - is_mapped if hasattr(value, "shape") else 0
            for value, is_mapped in zip(inner, mapped, strict=True)
        ]
        ndim = max(ndims)
        if any(is_mapped and n < ndim for is_mapped, n in zip(mapped, ndims, strict=True)):
            xp = namespace_of(inner)
            inner = [
                with_rank(xp, value, ndim) if is_mapped else value
                for value, is_mapped in zip(inner, mapped, strict=True)
            ]
    return primitive.bind(*inner, **settings)


def shift(axes: Any, by: int = 1) -> Any:
    """Axes counted from the front, of an array with ``by`` more axes there."""
    return tuple([a + by for a in axes]) if isinstance(axes, tuple) else axes + by


def _moved(settings: dict[str, Any], by: int) -> dict[str, Any]:
    return {name: shift(value, by) if name in ("axis", "axes") else value for name, value in settings.items()}


def axis(primitive: Any, inner: Inner, mapped: Mapped, members: int, settings: dict[str, Any]) -> Any:
    """Every array gets the mapped axis, by being repeated, and settings that name axes count one more."""
    if not all(mapped):
        xp = namespace_of(inner)
        inner = [spread(xp, value, is_mapped, members) for value, is_mapped in zip(inner, mapped, strict=True)]
    return primitive.bind(*inner, **_moved(settings, 1))


def loop(primitive: Any, inner: Inner, mapped: Mapped, members: int, settings: dict[str, Any]) -> Any:
    """Each member by itself, the results stacked: right for any primitive, and as slow as a loop."""
    xp = namespace_of(inner)
    if not members:
        raise MissingRuleError(f"{primitive.name} is mapped member by member, and there is none to learn a shape from")
    outs = [
        primitive.bind(
            *[value[(i, ...)] if is_mapped else value for value, is_mapped in zip(inner, mapped, strict=True)],
            **settings,
        )
        for i in range(members)
    ]
    if isinstance(outs[0], tuple):
        return tuple([xp.stack(list(parts), axis=0) for parts in zip(*outs, strict=True)])
    return xp.stack(outs, axis=0)


def values_decide(primitive: Any, inner: Inner, mapped: Mapped, members: int, settings: dict[str, Any]) -> Any:
    """For primitives whose result's shape depends on values, which members cannot share."""
    raise TracedValueError(
        f"{primitive.name} under vmap: the shape of its result depends on values, and members have different ones; "
        "call it outside of vmap, or keep the shape and choose values with agrad.where"
    )


BatchRule = Callable[[Any, Inner, Mapped, int, dict[str, Any]], Any]

SHARED: dict[str, BatchRule] = {
    "leading": leading,
    "axis": axis,
    "loop": loop,
    "values decide": values_decide,
}
"""The batching rules that have a word."""


def own_rule(rule: Any, primitive: Any) -> BatchRule:
    """A rule of names as a batching rule."""
    fixed = len(primitive.arrays)
    places = {name: i for i, name in enumerate(primitive.arrays)}
    flags = {f"{name}_mapped": i for name, i in places.items()}
    wanted = [(name, places.get(name, -1), flags.get(name, -1)) for name in rule.names]
    names: tuple[str, ...] = rule.settings

    def call(_: Any, inner: Inner, mapped: Mapped, members: int, settings: dict[str, Any]) -> Any:
        xp = namespace_of(inner)
        if xp is namespace:
            inner = [lift(value) for value in inner]
        handed: list[Any] = []
        for name, place, flag in wanted:
            if place >= 0:
                handed.append(inner[place])
            elif flag >= 0:
                handed.append(mapped[flag])
            elif name == "xp":
                handed.append(xp)
            elif name == "batch_size":
                handed.append(members)
            else:
                handed.append(tuple(inner[fixed:]) if name == primitive.variadic else mapped[fixed:])
        if len(names) < len(settings):
            settings = {name: settings[name] for name in names}
        return rule.function(*handed, **settings)

    return call
