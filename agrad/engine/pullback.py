"""Pullbacks: from the cotangent of a node's result to the cotangents of its parents.

A plan says what its nodes keep. Which of that each rule is handed is decided once, when the pullback of the plan is
built; at a call the values are picked by their places.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from agrad.engine.levels import SPACES, lift
from agrad.engine.rulecalls import RuleCall, rule_has_kernels
from agrad.engine.sweep import fit, guard, product, shrink
from agrad.engine.tape import Node, Plan
from agrad.registry import namespace

Values = tuple[Any, ...]
Pull = Callable[[Node, Any], Values]
Part = Callable[[Values, Any], Any]
"""Takes the values and the cotangent to the result of one rule."""


def picker(places: Sequence[int | Sequence[int]]) -> Callable[[Values], Values]:
    """Return the function from a tuple to the tuple of its entries at ``places``.

    For a sequence of places, the entry is itself a tuple: ``picker([0, [1, 2]])((5, 6, 7))`` is ``(5, (6, 7))``.
    """
    if any(not isinstance(place, int) for place in places):
        pickers = [place if isinstance(place, int) else picker(place) for place in places]
        return lambda values: tuple([values[p] if isinstance(p, int) else p(values) for p in pickers])
    if not places:
        return lambda values: ()
    if len(places) == 1:
        (i,) = places
        return itemgetter(slice(i, i + 1))  # type: ignore[operator]
    return itemgetter(*places)


def places_of(names: Sequence[str], entries: Sequence[str], primitive: Any, count: int) -> list[Any]:
    """Return where among ``entries`` the values of a rule's parameters stand.

    The variadic argument of the primitive, called with ``count`` arguments, has several places.
    """
    rest = primitive.argument_names(count)[len(primitive.arrays) :]
    places: list[Any] = []
    for name in names:
        base, suffix = (name[:-5], "_meta") if name.endswith("_meta") else (name, "")
        several = base == primitive.variadic and name not in entries
        places.append([entries.index(f"{a}{suffix}") for a in rest] if several else entries.index(name))
    return places


def build_pullback(primitive: Any, plan: Plan, *, guarded: bool = False) -> Pull:
    """Return the pullback of a plan: it runs the rules and fits what they give to the arguments.

    For a lifted plan rules are handed Tensors and agrad's own namespace. guarded: zero cotangents stay zero, see
    ``sweep.guard``.
    """
    rules = primitive.rules_for(plan.positions)
    if plan.exact and primitive.outputs is None and not (plan.lifted or guarded):
        direct = [_direct(primitive, plan, rule) for rule in rules]
        if len(direct) == len(plan.positions) <= 2 and None not in direct:
            return _together(direct)
    incoming = ("g",) if primitive.outputs is None else tuple(f"g_{name}" for name in primitive.outputs)
    entries = ("xp", *incoming, *plan.names)
    needs_xp = any("xp" in rule.names for rule in rules)
    gather = _gatherer(primitive, plan, needs_xp) if plan.lifted or primitive.outputs is not None else None
    applications = [_application(primitive, plan, rule, entries, guarded) for rule in rules]
    arguments = primitive.argument_names(plan.count)
    fixed, variadic = len(primitive.arrays), primitive.variadic
    targets: list[list[tuple[int, int | None]]] = []
    """For each rule the numbers of the parents that it serves, and which of its results is a parent's (None: all)."""
    for rule in rules:
        if rule.targets == (variadic,):
            targets.append([(k, i - fixed) for k, i in enumerate(plan.positions) if i >= fixed])
        elif len(rule.targets) == 1:
            targets.append([(plan.positions.index(primitive.arrays.index(rule.targets[0])), None)])
        else:
            served = [(k, i) for k, i in enumerate(plan.positions) if i < fixed and arguments[i] in rule.targets]
            targets.append([(k, rule.targets.index(arguments[i])) for k, i in served])
    names = [arguments[i] for i in plan.positions]
    metas = [] if plan.exact else [entries.index(f"{name}_meta") for name in names]
    broadcasts, count = primitive.broadcasts, len(names)

    if gather is None and len(applications) == count <= 2 and not guarded:
        # one rule a parent: the usual case, without loops
        parts = [
            _fitted(apply, None if plan.exact else metas[served[0][0]], broadcasts, primitive.name, names[served[0][0]])
            for apply, served in zip(applications, targets, strict=True)
            if [at for _, at in served] == [None]
        ]
        order = [k for served in targets for k, _ in served]
        if len(parts) == count and order == list(range(count)):
            return _of_parts(parts, needs_xp)
    gather = gather or _gatherer(primitive, plan, needs_xp)

    def pull(node: Node, g: Any) -> Values:
        values, g = gather(node.saved, g)
        results = [None] * count
        for apply, served in zip(applications, targets, strict=True):
            found = apply(values, g)
            for k, at in served:
                results[k] = found if at is None else found[at]
        if guarded:
            results = [guard(g, r) for r in results]
        for k, at in enumerate(metas):
            r, meta = results[k], values[at]
            if r is None or r.shape != meta.shape or r.dtype is not meta.dtype:
                results[k] = fit(r, meta, broadcasts, primitive.name, names[k])
        return tuple(results)

    return pull


def _together(direct: list[Any]) -> Pull:
    """Return the pullback of one or two rules for one parent each, whose results need no fitting."""
    if len(direct) == 1:
        (only,) = direct
        return lambda node, g: (only(node.saved, g),)
    first, second = direct
    return lambda node, g: (first(node.saved, g), second(node.saved, g))


def _fitted(apply: Part, meta: int | None, broadcasts: bool, name: str, argument: str) -> Part:
    """Return a rule whose result is fitted to its argument, whose shape and dtype stand at ``meta``."""
    if meta is None:
        return apply

    def fitted(values: Values, g: Any) -> Any:
        r, target = apply(values, g), values[meta]
        if r is None or r.shape != target.shape or r.dtype is not target.dtype:
            return fit(r, target, broadcasts, name, argument)
        return r

    return fitted


def _of_parts(parts: list[Part], needs_xp: bool) -> Pull:
    """Return the pullback of one or two parents with a rule each, on raw values and one output."""
    if len(parts) == 1:
        (only,) = parts
        if needs_xp:
            return lambda node, g: (only((SPACES[type(g)], g, *node.saved), g),)  # type: ignore[misc]
        return lambda node, g: (only((None, g, *node.saved), g),)  # type: ignore[misc]
    first, second = parts

    def pull(node: Node, g: Any) -> Values:
        values = (SPACES[type(g)] if needs_xp else None, g, *node.saved)  # type: ignore[misc]
        return first(values, g), second(values, g)

    return pull


def _direct(primitive: Any, plan: Plan, rule: Any) -> Part | None:
    """Return a rule as a function of what a node keeps and the cotangent; None for a rule that needs more."""
    if (
        len(rule.targets) != 1
        or rule.settings
        or rule_has_kernels(primitive, rule)
        or rule.targets[0] == primitive.variadic
    ):
        return None
    call, names = rule.function, list(rule.names)
    needs_xp = names[:1] == ["xp"]
    kept = names[needs_xp + 1 :]
    if names[needs_xp : needs_xp + 1] != ["g"] or any(name not in plan.names for name in kept):
        return None
    places = [plan.names.index(name) for name in kept]
    if not places and not needs_xp:
        return lambda saved, g: call(g)
    if len(places) == 1:
        (i,) = places
        if needs_xp:
            return lambda saved, g: call(SPACES[type(g)], g, saved[i])
        return lambda saved, g: call(g, saved[i])
    pick = picker(places)
    if needs_xp:
        return lambda saved, g: call(SPACES[type(g)], g, *pick(saved))
    return lambda saved, g: call(g, *pick(saved))


def _gatherer(primitive: Any, plan: Plan, needs_xp: bool) -> Callable[[Any, Any], tuple[Values, Any]]:
    """Return the function from what a node keeps and the cotangent to all values of its rules and a cotangent."""
    outputs, spreads, lifted = primitive.outputs, primitive.spreads, plan.lifted
    held = {f"{name}_meta" for name in primitive.argument_names(plan.count)} | set(primitive.settings)
    lifts = [name not in held for name in plan.names]

    def gather(saved: Values, g: Any) -> tuple[Values, Any]:
        if outputs is None:
            incoming: Values = (g,)
        elif spreads:
            incoming = (g.by_output,)
        else:
            incoming = tuple([g.by_output.get(i) for i in range(len(outputs))])
        if outputs is not None:
            g = next(iter(g.by_output.values()))
        if not lifted:
            return (SPACES[type(g)] if needs_xp else None, *incoming, *saved), g
        if spreads:
            incoming = ({i: lift(part) for i, part in incoming[0].items()},)
        kept = [lift(value) if lifts_it else value for value, lifts_it in zip(saved, lifts, strict=True)]
        return (namespace, *map(lift, incoming), *kept), lift(g)

    return gather


def _application(primitive: Any, plan: Plan, rule: Any, entries: tuple[str, ...], guarded: bool) -> Part:
    """Return a rule as a function of the values, by a backend's kernel where it has one."""
    call, names, kernels = rule.function, rule.names, None
    if rule_has_kernels(primitive, rule):
        if plan.lifted:
            call = RuleCall(primitive, rule)
            names = call.names
        else:
            kernels = primitive.kernels(rule)
    pick = picker(places_of(names, entries, primitive, plan.count))
    settings = [(name, entries.index(name)) for name in rule.settings]

    def plain(values: Values, g: Any) -> Any:
        return call(*pick(values))

    def apply(values: Values, g: Any) -> Any:
        given = {name: values[i] for name, i in settings}
        if kernels is not None and (kernel := kernels[type(g)]) is not None:
            found = kernel(*pick(values), **given)
            if found is not NotImplemented:
                return found
        return call(*pick(values), **given)

    apply = plain if kernels is None and not settings else apply

    if plan.exact or guarded or not primitive.elementwise:
        return apply
    meta = entries.index(f"{rule.targets[0]}_meta")
    if rule.names == ("g",):
        # a multiple of the cotangent: of the sum over broadcast axes it is less work
        return lambda values, g: call(g if g.shape == values[meta].shape else shrink(g, values[meta]))
    if primitive.product and not plan.lifted:
        (factor,) = (entries.index(name) for name in rule.names if name != "g")
        return lambda values, g: (
            apply(values, g) if g.shape == values[meta].shape else product(g, values[factor], values[meta])
        )
    return apply
