"""Plans: what the nodes of an operation keep, once for each set of arguments that was on the tape."""

import linecache
from collections.abc import Iterable
from typing import Any

from agrad.engine.pullback import build_pullback
from agrad.engine.tape import Meta, Plan, loosely

RESERVED = frozenset(
    {"xp", "Tensor", "Node", "Meta", "next_id", "attention", "unusual", "dispatch", "loosely"}
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
    plan.pull = build_pullback(primitive, plan)
    return plan
