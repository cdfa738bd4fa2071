"""The call path: each primitive's call, tape entry and rule calls, written out once from its signature.

Speed is decided here. A generated call asks as few questions as an operation can have, makes one node and one Tensor,
and falls back to ``dispatch`` for everything that is not an ordinary operation at one tape's level.
"""

import linecache
from collections.abc import Iterable
from typing import Any

from agrad.engine.levels import SPACES, dispatch, lift, unusual
from agrad.engine.sweep import fit, guard
from agrad.engine.tape import Meta, Node, Plan, attention, loosely, next_id
from agrad.engine.tensor import Tensor
from agrad.registry import namespace

NUMBERS = frozenset({bool, int, float})
"""Python's weak scalars. A complex one may turn a real array complex, so it takes the long way."""

OPERATORS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "pow": "**",
    "floor_divide": "//",
    "remainder": "%",
    "matmul": "@",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "bitwise_left_shift": "<<",
    "bitwise_right_shift": ">>",
}
"""Primitives that every array library computes fastest through its operator."""


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


def _entry(name: str) -> str:
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
    plan.detours = primitive.masks
    plan.lifted = plan.retains = False
    plan.arguments = tuple(arguments[i] for i in positions)
    plan.names = saved_names(primitive, positions, arguments, exact)
    outputs = primitive.outputs or ("y",)
    parameters = ", ".join([*arguments, *outputs, *primitive.settings])
    entries = tuple_text(map(_entry, plan.names))
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
    scope: dict[str, Any] = {"SPACES": SPACES, "AGRAD": namespace, "fit": fit, "guard": guard}
    lines = ["def pull(node, g):"]
    if plan.names:
        lines.append(f"    {tuple_text(map(_local, plan.names))} = node.saved")
    if lifted:
        scope["lift"] = lift
        held = {f"{name}_meta" for name in arguments} | set(primitive.settings)
        lines += [f"    {name} = lift({name})" for name in plan.names if name not in held and name[0] != "~"]
    if primitive.outputs is not None:
        lines.append("    parts = g.by_output.get")
        lines += [f"    g_{name} = parts({i})" for i, name in enumerate(primitive.outputs)]
        lines.append("    g = next(iter(g.by_output.values()))")
    if lifted:
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
        kernels = {} if lifted else primitive.kernels(rule)
        if kernels:
            scope[f"kernels{k}"] = kernels
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


def _rule_arguments(primitive: Any, rule: Any, arguments: tuple[str, ...]) -> str:
    values = [_value(primitive, name, arguments) for name in rule.names]
    return ", ".join([*values, *(f"{name}={name}" for name in rule.settings)])


def _with_kernels(lines: list[str], primitive: Any, rule: Any, k: int, call: str, arguments: tuple[str, ...]) -> str:
    """Lines that run a backend's own kernel where one is filed and its guard agrees, else the rule."""
    shared = _rule_arguments(primitive, rule, arguments)
    lines.append(f"    kernel = kernels{k}.get(type(g))")
    lines.append(f"    result{k} = kernel({shared}) if kernel is not None else NotImplemented")
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


# ---------------------------------------------------------------- the call


def _header(primitive: Any) -> str:
    arrays, settings, variadic = primitive.arrays, primitive.settings, primitive.variadic
    parts = [*arrays, *(["/"] if arrays else [])]
    if variadic:
        parts.append(f"*{variadic}")
    elif settings:
        parts.append("*")
    parts += [f"{name}=DEFAULTS[{name!r}]" if name in primitive.defaults else name for name in settings]
    return f"def {primitive.identifier}({', '.join(parts)}):\n"


def _operands(primitive: Any) -> str:
    return tuple_text([*primitive.arrays, *([f"*{primitive.variadic}"] if primitive.variadic else [])])


def call_stub(primitive: Any) -> str:
    """The text of a call that first has its own code generated."""
    operands = [*primitive.arrays, *([f"*{primitive.variadic}"] if primitive.variadic else [])]
    arguments = ", ".join([*operands, *(f"{name}={name}" for name in primitive.settings)])
    return _header(primitive) + f"    return BUILD()({arguments})\n"


def call_text(primitive: Any) -> str:
    """The text of a primitive's call on normalised arguments; fills ``primitive.scope`` with what it refers to."""
    scope = primitive.scope
    scope.update(
        PRIMITIVE=primitive,
        RAW=primitive.raw,
        NUMBERS=NUMBERS,
        Tensor=Tensor,
        Node=Node,
        Meta=Meta,
        next_id=next_id,
        attention=attention,
        unusual=unusual,
        dispatch=dispatch,
        loosely=loosely,
    )
    operands = _operands(primitive)
    settings = "{" + ", ".join(f"{name!r}: {name}" for name in primitive.settings) + "}"
    lines: list[str] = []
    if primitive.variadic is None and primitive.outputs is None and len(primitive.arrays) in (1, 2):
        body = _unary(primitive, scope) if len(primitive.arrays) == 1 else _binary(primitive, scope)
        lines = [line.replace("SETTINGS", settings) for line in body]
    lines.append(f"    return dispatch(PRIMITIVE, {operands}, {settings})")
    return _header(primitive) + "\n".join(lines) + "\n"


def _raw_call(primitive: Any, values: list[str], kind: str) -> str:
    operator = OPERATORS.get(primitive.name) if primitive.by_name else None
    if operator is not None and len(values) == 2:
        return f"{values[0]} {operator} {values[1]}"
    settings = [f"{name}={name}" for name in primitive.settings]
    return f"RAW[type({kind})]({', '.join(values + settings)})"


def _evaluate(primitive: Any, values: list[str], kind: str, indent: str) -> list[str]:
    return [
        f"{indent}try:",
        f"{indent}    y = {_raw_call(primitive, values, kind)}",
        f"{indent}except Exception as error:",
        f"{indent}    raise PRIMITIVE.explain(OPERANDS, error) from error",
    ]


_TENSOR = ["out = Tensor()", "out.data = y", "out.level = level"]


def _record(primitive: Any, positions: tuple[int, ...], exact: bool, indent: str, scope: dict[str, Any]) -> list[str]:
    """The lines that fill a node: its plan, its parents and what it keeps, written out where the locals are."""
    arrays = primitive.arrays
    label = f"PLAN_{'_'.join(map(str, positions))}{'_exact' if exact else ''}"
    plan = scope[label] = primitive.plan(positions, len(arrays), exact=exact)
    parents = tuple_text(f"n_{arrays[i]}" for i in positions)
    saved = tuple_text(_entry(name) for name in plan.names)
    return [
        f"{indent}node.plan = {label}",
        f"{indent}node.parents = {parents}",
        f"{indent}node.saved = {saved}",
    ]


def _unary(primitive: Any, scope: dict[str, Any]) -> list[str]:
    x = primitive.arrays[0]
    lines = [
        f"    if type({x}) is Tensor:",
        f"        t_{x} = {x}",
        f"        {x} = t_{x}.data",
        f"        level = t_{x}.level",
        *[line.replace("OPERANDS", f"(t_{x},)") for line in _evaluate(primitive, [x], x, "        ")],
        *[f"        {line}" for line in _TENSOR],
    ]
    if not primitive.differentiable(0):
        return [*lines, "        out.node = None", "        return out"]
    return [
        *lines,
        f"        n_{x} = t_{x}.node",
        f"        if n_{x} is None:",
        "            out.node = None",
        "            return out",
        "        if level.id < attention():",
        f"            return unusual(PRIMITIVE, (t_{x},), SETTINGS, y)",
        "        node = out.node = Node()",
        "        node.id = next_id()",
        *_record(primitive, (0,), primitive.keeps_type, "        ", scope),
        "        return out",
    ]


def _binary(primitive: Any, scope: dict[str, Any]) -> list[str]:
    a, b = primitive.arrays
    lines = [f"    t_{a} = {a}", f"    t_{b} = {b}", f"    if type({a}) is Tensor:"]
    lines += [
        f"        level = {a}.level",
        f"        n_{a} = {a}.node",
        f"        {a} = {a}.data",
        f"        if type({b}) is Tensor:",
        f"            n_{b} = {b}.node",
        f"            if {b}.level is not level:",
        f"                return dispatch(PRIMITIVE, (t_{a}, t_{b}), SETTINGS)",
        f"            {b} = {b}.data",
        f"            if type({a}) is not type({b}):",
        f"                return dispatch(PRIMITIVE, (t_{a}, t_{b}), SETTINGS)",
    ]
    number = primitive.takes_numbers
    if number:
        lines += _with_number(primitive, scope, tensor=a, number=b, position=0, keyword="elif")
    lines += [
        f"        elif type({b}) is type({a}):",
        f"            n_{b} = None",
        "        else:",
        f"            return dispatch(PRIMITIVE, (t_{a}, t_{b}), SETTINGS)",
        f"    elif type({b}) is Tensor:",
        f"        level = {b}.level",
        f"        n_{b} = {b}.node",
        f"        {b} = {b}.data",
    ]
    if number:
        lines += _with_number(primitive, scope, tensor=b, number=a, position=1, keyword="if")
    lines += [
        f"        if type({a}) is not type({b}):",
        f"            return dispatch(PRIMITIVE, (t_{a}, t_{b}), SETTINGS)",
        f"        n_{a} = None",
        "    else:",
        f"        return dispatch(PRIMITIVE, ({a}, {b}), SETTINGS)",
        *[line.replace("OPERANDS", f"(t_{a}, t_{b})") for line in _evaluate(primitive, [a, b], a, "    ")],
        *[f"    {line}" for line in _TENSOR],
    ]
    able = [i for i in (0, 1) if primitive.differentiable(i)]
    if not able:
        return [*lines, "    out.node = None", "    return out"]
    none = " and ".join(f"n_{primitive.arrays[i]} is None" for i in able)
    lines += [
        f"    if {none}:",
        "        out.node = None",
        "        return out",
        "    if level.id < attention():",
        f"        return unusual(PRIMITIVE, (t_{a}, t_{b}), SETTINGS, y)",
        "    node = out.node = Node()",
        "    node.id = next_id()",
    ]
    if primitive.elementwise:
        lines.append(f"    if {a}.shape == {b}.shape and {a}.dtype is {b}.dtype:")
        lines += _record_pair(primitive, able, True, "        ", scope)
        lines.append("    else:")
        lines += _record_pair(primitive, able, False, "        ", scope)
    else:
        lines += _record_pair(primitive, able, False, "    ", scope)
    return [*lines, "    return out"]


def _record_pair(primitive: Any, able: list[int], exact: bool, indent: str, scope: dict[str, Any]) -> list[str]:
    if len(able) == 1:
        return _record(primitive, (able[0],), exact, indent, scope)
    a, b = primitive.arrays
    inner = indent + "    "
    return [
        f"{indent}if n_{b} is None:",
        *_record(primitive, (0,), exact, inner, scope),
        f"{indent}elif n_{a} is None:",
        *_record(primitive, (1,), exact, inner, scope),
        f"{indent}else:",
        *_record(primitive, (0, 1), exact, inner, scope),
    ]


def _with_number(
    primitive: Any, scope: dict[str, Any], *, tensor: str, number: str, position: int, keyword: str
) -> list[str]:
    """A number beside a Tensor: the result has the Tensor's shape and dtype, so its cotangent always fits."""
    a, b = primitive.arrays
    lines = [f"        {keyword} type({number}) in NUMBERS:"]
    body = [
        *[line.replace("OPERANDS", f"(t_{a}, t_{b})") for line in _evaluate(primitive, [a, b], tensor, "")],
        *_TENSOR,
    ]
    if primitive.differentiable(position):
        body += [
            f"if n_{tensor} is None:",
            "    out.node = None",
            "    return out",
            "if level.id < attention():",
            f"    return unusual(PRIMITIVE, (t_{a}, t_{b}), SETTINGS, y)",
            "node = out.node = Node()",
            "node.id = next_id()",
            *_record(primitive, (position,), True, "", scope),
            "return out",
        ]
    else:
        body += ["out.node = None", "return out"]
    return lines + ["            " + line for line in body]
