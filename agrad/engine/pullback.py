"""Pullbacks: the cotangents of a node's parents from that of its result.

A plan says what its nodes keep. Which of that each rule is handed is decided once, when the pullback of the plan is
built; at a call the values are picked by their places.
"""

from collections.abc import Callable, Sequence
from typing import Any

from agrad.engine.backward import fit, product, shrink
from agrad.engine.levels import NAMESPACES, OutputCotangents, lift
from agrad.engine.masks import Masked, guard
from agrad.engine.places import Values, picker, places_of, settings_picker
from agrad.engine.rulecalls import rule_has_kernels
from agrad.engine.tape import SETTINGS, Node, Plan

Pull = Callable[[Node, Any], Values]
Part = Callable[[Any, Any], Any]
"""Takes what a node keeps and its cotangent to the result of one rule."""


def build_pullback(primitive: Any, plan: Plan, *, guarded: bool = False) -> Pull:
    """Return the pullback of a plan: run the rules and fit their results.

    For a lifted plan rules are handed Tensors and agrad's own namespace. guarded: the pullback takes a ``Masked``
    cotangent, whose unused elements stay zero.
    """
    rules = primitive.rules_for(plan.positions)
    served = [_served(primitive, plan, rule) for rule in rules]
    parts = [_application(primitive, plan, rule, guarded) for rule in rules]
    if all(len(parents) == 1 and at is None for parents in served for _, at in parents):
        order = {parents[0][0]: part for parents, part in zip(served, parts, strict=True)}
        pull = _one_rule_a_parent(_fitted(primitive, plan, [order[k] for k in sorted(order)]))
    else:
        pull = _rules_of_several(primitive, plan, served, parts)
    return _on_tensors(primitive, plan, pull) if plan.lifted else pull


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


def _one_rule_a_parent(parts: Sequence[Part]) -> Pull:
    if len(parts) == 1:
        (only,) = parts
        return lambda node, g: (only(node.saved, g),)
    if len(parts) == 2:
        first, second = parts
        return lambda node, g: (first(node.saved, g), second(node.saved, g))

    def pull(node: Node, g: Any) -> Values:
        saved = node.saved
        return tuple([part(saved, g) for part in parts])

    return pull


def _rules_of_several(
    primitive: Any, plan: Plan, served: list[list[tuple[int, int | None]]], parts: list[Part]
) -> Pull:
    """Return the pullback where a rule serves several parents."""
    count = len(plan.arguments)
    fits = _fitted(primitive, plan, [lambda saved, r: r] * count)

    def pull(node: Node, g: Any) -> Values:
        saved, results = node.saved, [None] * count
        for part, parents in zip(parts, served, strict=True):
            found = part(saved, g)
            for k, at in parents:
                results[k] = found if at is None else found[at]
        return tuple([fitted(saved, r) for fitted, r in zip(fits, results, strict=True)])

    return pull


def _fitted(primitive: Any, plan: Plan, rules: Sequence[Part]) -> Sequence[Part]:
    """Return the rules for each parent, their results fitted to the arguments."""
    if plan.exact:
        return rules
    broadcasts, name, places = primitive.broadcasts, primitive.name, plan.places()

    def fitted(apply: Part, argument: str) -> Part:
        like = places[argument]

        def part(saved: Values, g: Any) -> Any:
            r, target = apply(saved, g), saved[like]
            if r is None or r.shape != target.shape or r.dtype is not target.dtype:
                return fit(r, target, broadcasts, name, argument)
            return r

        return part

    return [fitted(apply, argument) for apply, argument in zip(rules, plan.arguments, strict=True)]


def _on_tensors(primitive: Any, plan: Plan, pull: Pull) -> Pull:
    """Return a pullback that is handed Tensors in place of raw arrays."""
    raw = {f"{name}_meta" for name in primitive.argument_names(plan.count)} | {SETTINGS}
    lifts = [name not in raw for name in plan.names]

    def on_tensors(node: Node, g: Any) -> Values:
        lifted = Node()
        lifted.saved = tuple([lift(x) if lifts_it else x for x, lifts_it in zip(node.saved or (), lifts, strict=True)])
        if type(g) is OutputCotangents:
            return pull(lifted, OutputCotangents({i: lift(part) for i, part in g.by_output.items()}))
        return pull(lifted, Masked(lift(g.g), g.used) if type(g) is Masked else lift(g))

    return on_tensors


def _arguments(primitive: Any, plan: Plan, names: Sequence[str]) -> Callable[[Values, Any], Values]:
    """Return the function from what a node keeps and its cotangent to a rule's arguments."""
    outputs, spreads = primitive.outputs, primitive.spreads
    pick = picker(places_of(names, ("xp", *primitive.incoming("vjp"), *plan.names), primitive, plan.count))
    needs_xp = "xp" in names
    if outputs is None:
        return lambda saved, g: pick((NAMESPACES[type(g)] if needs_xp else None, g, *saved))

    def several(saved: Values, g: Any) -> Values:
        found = g.by_output
        incoming = (found,) if spreads else tuple([found.get(i) for i in range(len(outputs))])
        return pick((NAMESPACES[_type_of(g)] if needs_xp else None, *incoming, *saved))

    return several


def _type_of(g: Any) -> type:
    return type(next(iter(g.by_output.values())) if type(g) is OutputCotangents else g)


def _call(primitive: Any, plan: Plan, rule: Any) -> Part:
    """Return a rule as a function of what a node keeps and its cotangent."""
    function, names, by_type = rule.function, rule.names, None
    if rule_has_kernels(primitive, rule):
        function = primitive.rule_primitive(rule)
        names, by_type = function.names, None if plan.lifted else function.raw
    if rule.settings:
        arguments, settings_of = _arguments(primitive, plan, names), settings_picker(rule.settings, primitive.settings)
        if by_type is None:
            return lambda saved, g: function(*arguments(saved, g), **settings_of(saved[-1]))
        return lambda saved, g: by_type[_type_of(g)](*arguments(saved, g), **settings_of(saved[-1]))
    needs_xp = names[:1] == ("xp",)
    kept = names[needs_xp + 1 :]
    if names[needs_xp : needs_xp + 1] == ("g",) and all(name in plan.names for name in kept):
        places = [plan.names.index(name) for name in kept]
        if by_type is None and len(places) < 2:
            return _of_one_value(function, needs_xp, places)
        pick = picker(places)
        if by_type is not None:
            return lambda saved, g: by_type[type(g)](g, *pick(saved))
        if needs_xp:
            return lambda saved, g: function(NAMESPACES[type(g)], g, *pick(saved))
        return lambda saved, g: function(g, *pick(saved))
    arguments = _arguments(primitive, plan, names)
    if by_type is None:
        return lambda saved, g: function(*arguments(saved, g))
    return lambda saved, g: by_type[_type_of(g)](*arguments(saved, g))


def _of_one_value(function: Any, needs_xp: bool, places: list[int]) -> Part:
    """Return the usual rules, of the cotangent and at most one kept value.

    A call without unpacking takes 4 % less of a forward and backward pass on small arrays.
    """
    if not places:
        return (lambda saved, g: function(NAMESPACES[type(g)], g)) if needs_xp else (lambda saved, g: function(g))
    (i,) = places
    if needs_xp:
        return lambda saved, g: function(NAMESPACES[type(g)], g, saved[i])
    return lambda saved, g: function(g, saved[i])


def _application(primitive: Any, plan: Plan, rule: Any, guarded: bool) -> Part:
    """Return a rule as ``_call`` does, with less work for broadcast arguments, or guarded."""
    found = _call(primitive, plan, rule)
    if guarded:
        if rule.names == ("g",):
            return lambda saved, masked: found(saved, masked.g)
        return lambda saved, masked: guard(masked.used, found(saved, masked.g))
    if plan.exact or not primitive.elementwise or rule_has_kernels(primitive, rule):
        return found
    call = rule.function
    like: Any = plan.places().get(rule.targets[0])
    if rule.names == ("g",):
        # a multiple of the cotangent: of the sum over broadcast axes it is less work
        return lambda saved, g: call(g if g.shape == saved[like].shape else shrink(g, saved[like]))
    if primitive.product_rules and not plan.lifted:
        (factor,) = (plan.names.index(name) for name in rule.names if name != "g")
        return lambda saved, g: (
            found(saved, g) if g.shape == saved[like].shape else product(g, saved[factor], saved[like])
        )
    return found
