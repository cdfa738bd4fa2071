"""Plans: what a node keeps of an operation, and the function that pulls a cotangent through it, written out from rules.

They are generated from the rules' signatures, once for each set of arguments that was on the tape.
"""

import linecache
from collections.abc import Iterable
from typing import Any

from agrad.engine.levels import SPACES, lift
from agrad.engine.rulecalls import RuleCall, rule_has_kernels
from agrad.engine.sweep import fit, guard, product, shrink
from agrad.engine.tape import Meta, Plan, loosely
from agrad.registry import namespace

RESERVED = frozenset(
    {"xp", "Tensor", "Node", "Meta", "next_id", "attention", "unusual", "dispatch", "loosely", "lift", "fit", "guard"}
    | {"Link", "SHARING", "SPLIT", "weakly"}
)
"""What generated code calls by name, so that no argument or setting may be called so. Its own locals begin with _."""


def compile_function(name: str, text: str, scope: dict[str, Any]) -> Any:
    """The function ``name`` that ``text`` defines; tracebacks can show its lines."""
    file = f"<agrad {name} {abs(hash(text)):x}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), scope)
    return scope[name]


# ---------------------------------------------------------------- what a node keeps


def saved_names(primitive: Any, positions: tuple[int, ...], arguments: tuple[str, ...], exact: bool) -> tuple[str, ...]:
    """What the tape keeps: what the rules of the arguments at ``positions`` name, and nothing else that has memory.

    Settings and Python numbers cost nothing and are kept for ``op.args``; other operands are held weakly. Where a
    cotangent may need fitting, its argument's shape and dtype are kept too.
    """
    wanted: list[str] = []
    for rule in primitive.rules_for(positions):
        wanted += rule.kept
    parents = {arguments[i] for i in positions}
    names: list[str] = []
    for name in wanted:
        for entry in _spread(primitive, name, arguments):
            if entry not in names:
                names.append(entry)
    if not exact:
        names += [f"{name}_meta" for name in arguments if name in parents and f"{name}_meta" not in names]
    names += [f"~{name}" for name in arguments if name not in parents and name not in names]
    return (*names, *primitive.settings)


def _spread(primitive: Any, name: str, arguments: tuple[str, ...]) -> Iterable[str]:
    """The entries behind a rule's name: the operands one by one where it is that of the variadic argument."""
    base, suffix = (name[:-5], "_meta") if name.endswith("_meta") else (name, "")
    if base == primitive.variadic:
        return [f"{a}{suffix}" for a in arguments[len(primitive.arrays) :]]
    return [name]


def entry_text(name: str) -> str:
    """The expression that makes a saved entry out of a call's local variables."""
    if name.startswith("~"):
        return f"loosely({name[1:]})"
    if name.endswith("_meta"):
        return f"Meta({name[:-5]}.shape, {name[:-5]}.dtype)"
    return name


def tuple_text(entries: Iterable[str]) -> str:
    entries = list(entries)
    return f"({', '.join(entries)}{',' if len(entries) == 1 else ''})"


def _local(name: str) -> str:
    return "_weak_" + name[1:] if name.startswith("~") else name


# ---------------------------------------------------------------- a plan: pack and pull


def build_plan(primitive: Any, positions: tuple[int, ...], count: int, exact: bool) -> Plan:
    """The plan of nodes whose arguments at ``positions``, of ``count`` arguments, are on the tape."""
    arguments = primitive.argument_names(count)
    plan = Plan()
    plan.primitive = primitive
    plan.positions = positions
    plan.count = count
    plan.exact = exact
    plan.lifted = plan.retains = False
    plan.arguments = tuple(arguments[i] for i in positions)
    plan.names = saved_names(primitive, positions, arguments, exact)
    if primitive.pool is not None and count == 1:
        plan.pool = (primitive.pool, plan.names.index("index"), plan.names.index(f"{arguments[0]}_meta"))
    plan.detours = primitive.masks or plan.pool is not None
    outputs = primitive.outputs or ("y",)
    results = [f"*{outputs[0]}"] if primitive.spreads else outputs
    parameters = ", ".join([*arguments, *results, *primitive.settings])
    entries = tuple_text(map(entry_text, plan.names))
    plan.pack = compile_function(
        "pack", f"def pack({parameters}):\n    return {entries}\n", {"loosely": loosely, "Meta": Meta}
    )
    plan.pull = build_pull(primitive, plan)
    return plan


def build_pull(primitive: Any, plan: Plan, *, guarded: bool = False) -> Any:
    """The function that runs the rules of a plan and fits what they return.

    For a lifted plan the rules get agrad's own namespace. ``guarded``: zero cotangents stay zero (see ``sweep.guard``).
    """
    lifted = plan.lifted
    arguments = primitive.argument_names(plan.count)
    exact = plan.exact
    scope: dict[str, Any] = {
        "SPACES": SPACES,
        "AGRAD": namespace,
        "fit": fit,
        "_product": product,
        "_shrink": shrink,
        "guard": guard,
    }
    lines = ["def pull(_node, g):"]
    if plan.names:
        lines.append(f"    {tuple_text(map(_local, plan.names))} = _node.saved")
    if lifted:
        scope["lift"] = lift
        held = {f"{name}_meta" for name in arguments} | set(primitive.settings)
        lines += [f"    {name} = lift({name})" for name in plan.names if name not in held and name[0] != "~"]
    if primitive.spreads:
        each = "{i: lift(part) for i, part in g.by_output.items()}" if lifted else "g.by_output"
        lines.append(f"    g_{primitive.outputs[0]} = {each}")
        lines.append("    g = next(iter(g.by_output.values()))")
    elif primitive.outputs is not None:
        lines.append("    _parts = g.by_output.get")
        lines += [f"    g_{name} = _parts({i})" for i, name in enumerate(primitive.outputs)]
        lines.append("    g = next(iter(g.by_output.values()))")
    if lifted and not primitive.spreads:
        incoming = ["g"] if primitive.outputs is None else [f"g_{name}" for name in primitive.outputs]
        lines += [f"    {name} = lift({name})" for name in incoming]
    rules = primitive.rules_for(plan.positions)
    if lifted:
        lines.append("    xp = AGRAD")
    elif any("xp" in rule.names for rule in rules):
        lines.append("    xp = SPACES[type(g)]")
    results: dict[int, str] = {}
    for k, rule in enumerate(rules):
        scope[f"rule{k}"] = rule.function
        call = f"rule{k}({_rule_arguments(primitive, rule, arguments)})"
        if primitive.elementwise and rule.names == ("g",) and not (exact or guarded):
            # a multiple of the cotangent, of what is left of it where broadcast axes are summed
            target = f"{rule.targets[0]}_meta"
            call = f"rule{k}(g if g.shape == {target}.shape else _shrink(g, {target}))"
        if primitive.product and not (exact or guarded or lifted):
            (value,), target = (name for name in rule.names if name != "g"), f"{rule.targets[0]}_meta"
            call = f"{call} if g.shape == {target}.shape else _product(g, {value}, {target})"
        if not rule_has_kernels(primitive, rule):
            pass
        elif lifted:
            scope[f"whole{k}"] = whole = RuleCall(primitive, rule)
            call = f"whole{k}({_rule_arguments(primitive, rule, arguments, whole.names)})"
        else:
            scope[f"kernels{k}"] = primitive.kernels(rule)
            call = _with_kernels(lines, primitive, rule, k, call, arguments)
        _unpack_results(lines, primitive, plan, rule, k, call, arguments, results)
    for i in plan.positions:
        r, name = results[i], arguments[i]
        if guarded:
            lines.append(f"    {r} = guard(g, {r})")
        if not exact:
            lines.append(f"    if {r} is None or {r}.shape != {name}_meta.shape or {r}.dtype is not {name}_meta.dtype:")
            lines.append(f"        {r} = fit({r}, {name}_meta, {primitive.broadcasts}, {primitive.name!r}, {name!r})")
    lines.append(f"    return {tuple_text(results[i] for i in plan.positions)}")
    return compile_function("pull", "\n".join(lines) + "\n", scope)


def _value(primitive: Any, name: str, arguments: tuple[str, ...]) -> str:
    """The expression of a rule's parameter inside ``pull``."""
    base, suffix = (name[:-5], "_meta") if name.endswith("_meta") else (name, "")
    if base == primitive.variadic:
        return tuple_text(f"{a}{suffix}" for a in arguments[len(primitive.arrays) :])
    return name


def _rule_arguments(primitive: Any, rule: Any, arguments: tuple[str, ...], names: tuple[str, ...] | None = None) -> str:
    values = [_value(primitive, name, arguments) for name in (rule.names if names is None else names)]
    return ", ".join([*values, *(f"{name}={name}" for name in rule.settings)])


def _with_kernels(lines: list[str], primitive: Any, rule: Any, k: int, call: str, arguments: tuple[str, ...]) -> str:
    """Lines that run a backend's own kernel where one is filed and its guard agrees, else the rule."""
    shared = _rule_arguments(primitive, rule, arguments)
    lines.append(f"    _kernel = kernels{k}[type(g)]")
    lines.append(f"    result{k} = _kernel({shared}) if _kernel is not None else NotImplemented")
    lines.append(f"    if result{k} is NotImplemented:")
    lines.append(f"        result{k} = {call}")
    return f"result{k}"


def _unpack_results(
    lines: list[str],
    primitive: Any,
    plan: Plan,
    rule: Any,
    k: int,
    call: str,
    arguments: tuple[str, ...],
    results: dict[int, str],
) -> None:
    variadic = rule.targets == (primitive.variadic,)
    if len(rule.targets) == 1 and not variadic:
        i = primitive.arrays.index(rule.targets[0])
        results[i] = f"r_{arguments[i]}"
        lines.append(f"    r_{arguments[i]} = {call}")
        return
    lines.append(f"    results{k} = {call}")
    for i in plan.positions:
        if variadic and i >= len(primitive.arrays):
            place = i - len(primitive.arrays)
        elif not variadic and i < len(primitive.arrays) and arguments[i] in rule.targets:
            place = rule.targets.index(arguments[i])
        else:
            continue
        results[i] = f"r_{arguments[i]}"
        lines.append(f"    r_{arguments[i]} = results{k}[{place}]")
