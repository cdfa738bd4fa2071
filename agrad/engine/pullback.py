"""Pullbacks: cotangents of the parents of a node from the cotangent of its result.

The values that each rule receives are selected once, when the pullback of a plan is built.
"""

from collections.abc import Callable, Sequence
from typing import Any

from agrad.backends import backend_of_type
from agrad.engine.backward import fit, product, shrink
from agrad.engine.levels import OutputCotangents, lift
from agrad.engine.masks import Masked, zero_masked
from agrad.engine.namespaces import NAMESPACES, Memo
from agrad.engine.places import Values, picker, places_of, settings_picker
from agrad.engine.rulecalls import rule_has_kernels
from agrad.engine.tape import SETTINGS, Node, Plan
from agrad.engine.tensor import Tensor
from agrad.registry import KERNELS

Pull = Callable[[Node, Any], Values]
Part = Callable[[Any, Any], Any]
"""Function of the saved values of a node and its cotangent. It returns the result of one rule."""


def build_pullback(primitive: Any, plan: Plan, *, guarded: bool = False) -> Pull:
    """Return the pullback of a plan: run the rules and fit their results.

    Rules of a lifted plan receive Tensors and the agrad namespace. A guarded pullback receives a ``Masked`` cotangent,
    whose unused elements remain zero.
    """
    steps = []
    for rule in primitive.rules_for(plan.positions):
        steps.append((_application(primitive, plan, rule, guarded), _served(primitive, plan, rule)))
    pull = _in_place(steps) if plan.same_shape_and_dtype else None
    pull = pull or _in_turn(primitive, plan, steps)
    return _on_tensors(primitive, plan, pull) if plan.lifted else pull


def _served(primitive: Any, plan: Plan, rule: Any) -> list[tuple[int, int | None]]:
    """Return the parents of a rule with the index of their result (None: only one)."""
    fixed = len(primitive.arrays)
    if rule.targets == (primitive.variadic,):
        return [(k, i - fixed) for k, i in enumerate(plan.positions) if i >= fixed]
    if len(rule.targets) == 1:
        return [(plan.positions.index(primitive.arrays.index(rule.targets[0])), None)]
    names = [primitive.argument_of(i) for i in plan.positions]
    return [(k, rule.targets.index(name)) for k, name in enumerate(names) if name in rule.targets]


Steps = Sequence[tuple[Part, list[tuple[int, int | None]]]]
"""Rules with their parents (``_served``)."""


def _in_place(steps: Steps) -> Pull | None:
    """Return the pullback of one or two rules that need no fitting, or None."""
    if any(len(parents) != 1 or parents[0][1] is not None for _, parents in steps):
        return None
    parts = [part for part, _ in sorted(steps, key=lambda step: step[1][0][0])]
    if len(parts) == 1:
        (only,) = parts
        return lambda node, g: (only(node.saved, g),)
    if len(parts) == 2:
        first, second = parts
        return lambda node, g: (first(node.saved, g), second(node.saved, g))
    return None


def _in_turn(primitive: Any, plan: Plan, steps: Steps) -> Pull:
    """Return the pullback that runs each rule and fits its results to the arguments."""
    broadcasts, name, places, arguments = primitive.broadcasts, primitive.name, plan.places(), plan.arguments
    count = len(arguments)
    likes = [None if plan.same_shape_and_dtype else places[argument] for argument in arguments]

    def pull(node: Node, g: Any) -> Values:
        saved, results = node.saved, [None] * count
        for apply, parents in steps:
            found = apply(saved, g)
            for k, at in parents:
                r, like = found if at is None else found[at], likes[k]
                if like is not None:
                    target = saved[like]  # type: ignore[index]
                    if r is None or r.shape != target.shape or r.dtype is not target.dtype:
                        r = fit(r, target, broadcasts, name, arguments[k])
                results[k] = r
        return tuple(results)

    return pull


def _on_tensors(primitive: Any, plan: Plan, pull: Pull) -> Pull:
    """Return a pullback that receives Tensors instead of plain arrays."""
    raw = {f"{name}_meta" for name in primitive.argument_names(plan.count)} | {SETTINGS}
    lifts = [name not in raw for name in plan.names]

    def on_tensors(node: Node, g: Any) -> Values:
        lifted = Node()
        values = zip(node.saved or (), lifts, strict=True)
        lifted.saved = tuple([lift(x) if lifts_it and not isinstance(x, Tensor) else x for x, lifts_it in values])
        if isinstance(g, Tensor):
            return pull(lifted, g)
        if type(g) is OutputCotangents:
            return pull(lifted, OutputCotangents({i: lift(part) for i, part in g.by_output.items()}))
        return pull(lifted, Masked(lift(g.g), g.used) if type(g) is Masked else lift(g))

    return on_tensors


def _arguments(primitive: Any, plan: Plan, names: Sequence[str]) -> Callable[[Values, Any], Values]:
    """Return the function from saved values and a cotangent to arguments of a rule."""
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
    """Return a rule as a function of the saved values of a node and its cotangent."""
    function, names, by_type = rule.function, rule.names, None
    if rule_has_kernels(primitive, rule):
        function = primitive.rule_primitive(rule)
        names, by_type = function.names, None if plan.lifted else function.raw
    settings_of = settings_picker(rule.settings, primitive.settings)
    incoming = 1 + (names[:1] == ("xp",))
    kept = names[incoming:]
    if by_type is None and names[incoming - 1 : incoming] == ("g",) and len(kept) < 2 and {*kept} <= {*plan.names}:
        return _of_one_value(function, incoming > 1, [*map(plan.names.index, kept)], rule.settings and settings_of)
    arguments = _arguments(primitive, plan, names)
    if not rule.settings:
        if by_type is None:
            return lambda saved, g: function(*arguments(saved, g))
        return lambda saved, g: by_type[_type_of(g)](*arguments(saved, g))
    if by_type is None:
        return lambda saved, g: function(*arguments(saved, g), **settings_of(saved[-1]))
    return lambda saved, g: by_type[_type_of(g)](*arguments(saved, g), **settings_of(saved[-1]))


def _of_one_value(function: Any, needs_xp: bool, places: list[int], settings_of: Any) -> Part:
    """Return a rule of the cotangent and at most one saved value.

    Calls without unpacking reduce the time of a forward and backward pass on small arrays by 4 %.
    """
    if settings_of:
        if not places:
            return lambda saved, g: function(
                *((NAMESPACES[type(g)], g) if needs_xp else (g,)), **settings_of(saved[-1])
            )
        (i,) = places
        if needs_xp:
            return lambda saved, g: function(NAMESPACES[type(g)], g, saved[i], **settings_of(saved[-1]))
        return lambda saved, g: function(g, saved[i], **settings_of(saved[-1]))
    if not places:
        return (lambda saved, g: function(NAMESPACES[type(g)], g)) if needs_xp else (lambda saved, g: function(g))
    (i,) = places
    if needs_xp:
        return lambda saved, g: function(NAMESPACES[type(g)], g, saved[i])
    return lambda saved, g: function(g, saved[i])


def _masked(primitive: Any, plan: Plan, rule: Any, found: Part) -> Part:
    """Return a guarded rule, by a kernel of the backend for both if there is one."""

    def kernel_of(kind: type) -> Any:
        backend = backend_of_type(kind)
        kernel = None if backend is None else KERNELS.get((backend.name, primitive.name, f"masked {rule.part}"))
        return kernel and (kernel, _arguments(primitive, plan, kernel.names[1:]))

    kernels = Memo(kernel_of)

    def apply(saved: Any, masked: Any) -> Any:
        g, used = masked
        if (entry := kernels[type(g)]) is not None:
            kernel, arguments = entry
            given = (None if used.by_value else used.value(), *arguments(saved, g))
            if kernel.when(*given):
                return kernel.function(*given)
        return zero_masked(used, found(saved, g))

    return apply


def _application(primitive: Any, plan: Plan, rule: Any, guarded: bool) -> Part:
    """Return a rule like ``_call``, guarded, or faster for broadcast arguments."""
    found = _call(primitive, plan, rule)
    if guarded:
        if rule.names == ("g",):
            return lambda saved, masked: found(saved, masked.g)
        return _masked(primitive, plan, rule, found)
    if plan.same_shape_and_dtype or not primitive.elementwise or rule_has_kernels(primitive, rule):
        return found
    call = rule.function
    like: Any = plan.places().get(rule.targets[0])
    if rule.names == ("g",):
        # a multiple of the cotangent is less work after the sum over broadcast axes
        return lambda saved, g: call(g if g.shape == saved[like].shape else shrink(g, saved[like]))
    if primitive.product_rules and not plan.lifted:
        (factor,) = (plan.names.index(name) for name in rule.names if name != "g")
        return lambda saved, g: (
            found(saved, g) if g.shape == saved[like].shape else product(g, saved[factor], saved[like])
        )
    return found
