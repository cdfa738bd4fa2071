"""Plans: the values that the nodes of an operation store."""

from collections.abc import Callable, Iterable
from typing import Any

from agrad.engine.places import Values, first_places, picker
from agrad.engine.pullback import build_pullback
from agrad.engine.tape import ARGUMENT, RESULT, SETTINGS, Meta, Plan, PlanKey

ONE_ARGUMENT = 9
PLAIN, EXACT, NUMBER = 0, 3, 6
"""Short keys of plans. For two arguments: their cotangents are fitted (``PLAIN``), not fitted (``EXACT``), or one is a
number, plus 0, 1 or 2 if the first, the second or both arguments are on the tape."""


def plan_of(primitive: Any, key: Any) -> Plan | None:
    """Return the plan for a key, or None if no argument on the tape has a derivative.

    The key is a ``PlanKey``, a number (``PLAIN``), or a tuple of the number of arguments and the positions of the
    arguments on the tape.
    """
    if type(key) is not PlanKey:
        found: Plan | None = primitive.plans[_full(primitive, key)]
        return found
    positions = tuple([i for i in key.traced if primitive.differentiable(i)])
    if positions != key.traced:
        return primitive.plans[key._replace(traced=positions)] if positions else None
    return build_plan(primitive, key)


def _full(primitive: Any, key: Any) -> PlanKey:
    if type(key) is tuple:
        return PlanKey(key[1:], key[0])
    if key == ONE_ARGUMENT:
        return PlanKey((0,), 1, primitive.keeps_type)
    fits, which = divmod(key, 3)
    traced, other = (((0,), 1), ((1,), 0), ((0, 1), -1))[which]
    if fits == 2:
        return PlanKey(traced, 2, primitive.keeps_type, (other,))
    return PlanKey(traced, 2, fits == 1)


def saved_names(primitive: Any, key: PlanKey, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the values that a node stores.

    These are the parameters of its rules. Options and Python numbers are stored for ``op.args``. If a cotangent may
    have to be fitted to an argument that is not stored, its shape and dtype are.
    """
    names: dict[str, None] = {}
    for rule in primitive.rules_for(key.traced):
        for name in rule.kept:
            names |= dict.fromkeys(_entries(primitive, name, arguments))
    if not key.same_shape_and_dtype:
        names |= dict.fromkeys(f"{arguments[i]}_meta" for i in key.traced if arguments[i] not in names)
    names |= dict.fromkeys(arguments[i] for i in key.numbers)
    return (*sorted(names, key=_is_meta, reverse=True), *([SETTINGS] if primitive.settings else []))


def _is_meta(name: str) -> bool:
    return name.endswith("_meta")


def _entries(primitive: Any, name: str, arguments: tuple[str, ...]) -> Iterable[str]:
    """Return the entries for a parameter of a rule: one for each variadic operand."""
    base, suffix = (name[:-5], "_meta") if _is_meta(name) else (name, "")
    if base == primitive.variadic:
        return [f"{a}{suffix}" for a in arguments[len(primitive.arrays) :]]
    return [name]


def keeper(names: tuple[str, ...], entries: tuple[str, ...]) -> Callable[[Values], Values]:
    """Return the function from all values of a call to the values that a node stores.

    ``names`` are the values to store, shapes and dtypes first. ``entries`` are the names of arguments and outputs. The
    options follow them.
    """
    at = first_places(entries)
    places = [-1 if name == SETTINGS else at[name.removesuffix("_meta")] for name in names]
    metas = [place for name, place in zip(names, places, strict=True) if _is_meta(name)]
    pick = picker(places[len(metas) :])
    if not metas:
        return pick
    # tuple.__new__, without a call of Meta, needs half the time
    if len(metas) == 1:
        (i,) = metas
        return lambda values: (_new(Meta, (values[i].shape, values[i].dtype)), *pick(values))
    if len(metas) == 2:
        i, k = metas
        return lambda values: (
            _new(Meta, (values[i].shape, values[i].dtype)),
            _new(Meta, (values[k].shape, values[k].dtype)),
            *pick(values),
        )
    return lambda values: (*[_new(Meta, (values[i].shape, values[i].dtype)) for i in metas], *pick(values))


_new = tuple.__new__


def build_plan(primitive: Any, key: PlanKey) -> Plan:
    """Return the plan of the nodes of the calls with a key."""
    arguments = primitive.argument_names(key.arity)
    names = saved_names(primitive, key, arguments)
    plan = Plan(primitive, key, tuple(arguments[i] for i in key.traced), names)
    parts_of_array = primitive.sum_slices is not None and key.arity == 1
    plan.needs_slow_path = primitive.masks or parts_of_array or key.lifted or key.retains
    outputs = () if primitive.spreads else primitive.outputs or ("y",)
    plan.operands, plan.keep = picker(key.traced), keeper(names, (*arguments, *outputs))
    plan.kept = ARGUMENT if names == arguments[:1] else RESULT if names == ("y",) else ""
    plan.pullback = build_pullback(primitive, plan, guarded=key.guarded)
    return plan
