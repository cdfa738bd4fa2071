"""Pullbacks: the cotangents of a node's parents from that of its result.

A plan says what its nodes keep. Which of that each rule is handed is decided once, when the pullback of the plan is
built; at a call the values are picked by their places.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from agrad.engine.backward import fit, guard, product, shrink
from agrad.engine.levels import NAMESPACES, lift
from agrad.engine.rulecalls import RulePrimitive, rule_has_kernels
from agrad.engine.tape import SETTINGS, Node, Plan
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
        i: Any = places[0]
        return lambda values: (values[i],)
    return itemgetter(*places)


def settings_picker(names: Sequence[str], known: Sequence[str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the function that picks the settings of the given names."""
    if len(names) == len(known):
        return lambda settings: settings
    return lambda settings: {name: settings[name] for name in names}


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
    """Return the pullback of a plan: run the rules and fit their results.

    For a lifted plan rules are handed Tensors and agrad's own namespace. guarded: zero cotangents stay zero, see
    ``backward.guard``.
    """
    rules = primitive.rules_for(plan.positions)
    if plan.exact and primitive.outputs is None and not (plan.lifted or guarded):
        direct = [_direct(primitive, plan, rule) for rule in rules]
        if len(direct) == len(plan.positions) <= 2 and None not in direct:
            return _together(direct)
    incoming = ("g",) if primitive.outputs is None else tuple(f"g_{name}" for name in primitive.outputs)
    entries = ("xp", *incoming, *plan.names)
    needs_xp = any("xp" in rule.names for rule in rules)
    gather = _gatherer(primitive, plan, needs_xp)
    served = [_served(primitive, plan, rule) for rule in rules]
    if all(len(parents) == 1 and at is None for parents in served for _, at in parents):
        order = {parents[0][0]: rule for parents, rule in zip(served, rules, strict=True)}
        return _one_rule_a_parent([_part(primitive, plan, order[k], entries, guarded) for k in sorted(order)], gather)
    applications = [_application(primitive, plan, rule, entries, guarded) for rule in rules]
    names = plan.arguments
    metas = [] if plan.exact else [entries.index(f"{name}_meta") for name in names]
    broadcasts, count = primitive.broadcasts, len(names)

    def pull(node: Node, g: Any) -> Values:
        values, g = gather(node.saved, g)
        results = [None] * count
        for apply, parents in zip(applications, served, strict=True):
            found = apply(values, g)
            for k, at in parents:
                results[k] = found if at is None else found[at]
        if guarded:
            results = [guard(g, r) for r in results]
        for k, at in enumerate(metas):
            r, meta = results[k], values[at]
            if r is None or r.shape != meta.shape or r.dtype is not meta.dtype:
                results[k] = fit(r, meta, broadcasts, primitive.name, names[k])
        return tuple(results)

    return pull


def _served(primitive: Any, plan: Plan, rule: Any) -> list[tuple[int, int | None]]:
    """Return the parents that a rule serves, each with the number of its result.

    The number of the result is None for a rule with one result.
    """
    fixed = len(primitive.arrays)
    if rule.targets == (primitive.variadic,):
        return [(k, i - fixed) for k, i in enumerate(plan.positions) if i >= fixed]
    if len(rule.targets) == 1:
        return [(plan.positions.index(primitive.arrays.index(rule.targets[0])), None)]
    names = [primitive.argument_of(i) for i in plan.positions]
    return [(k, rule.targets.index(name)) for k, name in enumerate(names) if name in rule.targets]


def _one_rule_a_parent(parts: list[Part], gather: Callable[[Any, Any], tuple[Values, Any]]) -> Pull:
    if len(parts) == 1:
        (only,) = parts
        return lambda node, g: (only(*gather(node.saved, g)),)

    def pull(node: Node, g: Any) -> Values:
        values, g = gather(node.saved, g)
        return tuple([part(values, g) for part in parts])

    return pull


def _together(direct: list[Any]) -> Pull:
    """Return the pullback of one or two rules that need no fitting."""
    if len(direct) == 1:
        (only,) = direct
        return lambda node, g: (only(node.saved, g),)
    first, second = direct
    return lambda node, g: (first(node.saved, g), second(node.saved, g))


def _part(primitive: Any, plan: Plan, rule: Any, entries: tuple[str, ...], guarded: bool) -> Part:
    """Return a rule for one parent, its result fitted to the argument."""
    apply, (argument,) = _application(primitive, plan, rule, entries, guarded), rule.targets
    if plan.exact:
        return apply if not guarded else lambda values, g: guard(g, apply(values, g))
    meta, broadcasts, name = entries.index(f"{argument}_meta"), primitive.broadcasts, primitive.name

    def part(values: Values, g: Any) -> Any:
        r, target = apply(values, g), values[meta]
        if guarded:
            r = guard(g, r)
        if r is None or r.shape != target.shape or r.dtype is not target.dtype:
            return fit(r, target, broadcasts, name, argument)
        return r

    return part


def _direct(primitive: Any, plan: Plan, rule: Any) -> Part | None:
    """Return a rule as a function of the kept values; None for one that needs more."""
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
            return lambda saved, g: call(NAMESPACES[type(g)], g, saved[i])
        return lambda saved, g: call(g, saved[i])
    pick = picker(places)
    if needs_xp:
        return lambda saved, g: call(NAMESPACES[type(g)], g, *pick(saved))
    return lambda saved, g: call(g, *pick(saved))


def _gatherer(primitive: Any, plan: Plan, needs_xp: bool) -> Callable[[Any, Any], tuple[Values, Any]]:
    """Return the function that gathers the values of all rules of a node."""
    outputs, spreads = primitive.outputs, primitive.spreads
    held = {f"{name}_meta" for name in primitive.argument_names(plan.count)} | {SETTINGS}
    lifts = [name not in held for name in plan.names]

    def single(saved: Values, g: Any) -> tuple[Values, Any]:
        return (NAMESPACES[type(g)] if needs_xp else None, g, *saved), g

    def several(saved: Values, g: Any) -> tuple[Values, Any]:
        parts = g.by_output
        incoming = (parts,) if spreads else tuple([parts.get(i) for i in range(len(outputs))])
        g = next(iter(parts.values()))
        return (NAMESPACES[type(g)] if needs_xp else None, *incoming, *saved), g

    def on_tensors(saved: Values, g: Any) -> tuple[Values, Any]:
        (_, *incoming), g = (single if outputs is None else several)((), g)
        if spreads:
            incoming = [{i: lift(part) for i, part in incoming[0].items()}]
        kept = [lift(value) if lifts_it else value for value, lifts_it in zip(saved, lifts, strict=True)]
        return (namespace, *map(lift, incoming), *kept), lift(g)

    return on_tensors if plan.lifted else single if outputs is None else several


class _ByType(dict[type, Part]):
    """A rule by the type of the cotangent: the backend's kernel, or else the rule."""

    def __init__(self, primitive: Any, rule: Any, entries: tuple[str, ...], count: int, otherwise: Part) -> None:
        super().__init__()
        self._made = primitive, rule, entries, count, otherwise

    def __missing__(self, kind: type) -> Part:
        primitive, rule, entries, count, otherwise = self._made
        kernel = primitive.kernels(rule)[kind]
        if kernel is None:
            return self.setdefault(kind, otherwise)
        pick = picker(places_of(kernel.names, entries, primitive, count))
        settings_of = settings_picker(kernel.settings, primitive.settings)
        when, function, has_settings = kernel.when, kernel.function, bool(kernel.settings)

        def apply(values: Values, g: Any) -> Any:
            chosen = pick(values)
            if when is not None and not when(*chosen):
                return otherwise(values, g)
            found = function(*chosen, **settings_of(values[-1])) if has_settings else function(*chosen)
            return otherwise(values, g) if found is NotImplemented else found

        return self.setdefault(kind, apply)


def _application(primitive: Any, plan: Plan, rule: Any, entries: tuple[str, ...], guarded: bool) -> Part:
    """Return a rule as a function of the values, by a kernel if there is one."""
    has_kernels = rule_has_kernels(primitive, rule)
    call = RulePrimitive(primitive, rule) if has_kernels and plan.lifted else rule.function
    names = call.names if has_kernels and plan.lifted else rule.names
    pick = picker(places_of(names, entries, primitive, plan.count))
    settings_of = settings_picker(rule.settings, primitive.settings)

    def apply(values: Values, g: Any) -> Any:
        return call(*pick(values))

    def apply_with_settings(values: Values, g: Any) -> Any:
        return call(*pick(values), **settings_of(values[-1]))

    found = apply_with_settings if rule.settings else apply
    if has_kernels and not plan.lifted:
        by_type = _ByType(primitive, rule, entries, plan.count, found)
        return lambda values, g: by_type[type(g)](values, g)
    if plan.exact or guarded or not primitive.elementwise:
        return found
    meta = entries.index(f"{rule.targets[0]}_meta")
    if rule.names == ("g",):
        # a multiple of the cotangent: of the sum over broadcast axes it is less work
        return lambda values, g: call(g if g.shape == values[meta].shape else shrink(g, values[meta]))
    if primitive.product and not plan.lifted:
        (factor,) = (entries.index(name) for name in rule.names if name != "g")
        return lambda values, g: (
            found(values, g) if g.shape == values[meta].shape else product(g, values[factor], values[meta])
        )
    return found
