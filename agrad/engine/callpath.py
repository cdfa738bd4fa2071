"""The call path: each primitive's call, and the tape entry it makes, written out once from its signature.

Speed is decided here. A generated call asks as few questions as an operation can have, makes one node and one Tensor,
and falls back to ``dispatch`` for everything that is not an ordinary operation at one tape's level.
"""

import weakref
from typing import Any

from agrad.backends.base import DEVICE_GUARDS
from agrad.engine.levels import NUMBERS, dispatch, observed, selector_plan, unusual
from agrad.engine.plans import entry_text, tuple_text
from agrad.engine.tape import Meta, Node, Plan, attention, loosely, next_id
from agrad.engine.tensor import Tensor
from agrad.engine.views import SHARING, SPLIT, Link

OPERATORS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "pow": "**",
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


def observed_text(primitive: Any) -> str:
    """The text of a call while operations are looked at; fills ``primitive.scope`` with what it refers to."""
    primitive.scope.update(PRIMITIVE=primitive, observed=observed)
    settings = "{" + ", ".join(f"{name!r}: {name}" for name in primitive.settings) + "}"
    return _header(primitive) + f"    return observed(PRIMITIVE, {_operands(primitive)}, {settings})\n"


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
        Link=Link,
        SHARING=SHARING,
        SPLIT=SPLIT,
        weakly=weakref.ref,
    )
    operands = _operands(primitive)
    settings = "{" + ", ".join(f"{name!r}: {name}" for name in primitive.settings) + "}"
    single = primitive.outputs is None
    body: list[str] = []
    if primitive.variadic is not None:
        if single and len(primitive.arrays) == 1:
            body = [f"    if not {primitive.variadic}:", *(f"    {line}" for line in _unary(primitive, scope))]
        elif single and not primitive.arrays and primitive.differentiable(0):
            body = _of_any_number(primitive)
    elif single and len(primitive.arrays) == 1:
        body = _unary(primitive, scope)
    elif single and len(primitive.arrays) == 2:
        body = _binary(primitive, scope)
    elif not primitive.spreads:
        body = _general(primitive, scope)
    lines = [line.replace("SETTINGS", settings) for line in body]
    lines.append(f"    return dispatch(PRIMITIVE, {operands}, {settings})")
    return _header(primitive) + "\n".join(lines) + "\n"


def _raw_call(primitive: Any, values: list[str], kind: str, arrays: bool) -> str:
    # CuPy's operators work on its current device
    operator = OPERATORS.get(primitive.name) if primitive.by_name and not DEVICE_GUARDS else None
    settings = [f"{name}={name}" for name in primitive.settings]
    call = f"RAW[type({kind})]({', '.join(values + settings)})"
    if operator is None or len(values) != 2:
        return call
    form = f"{values[0]} {operator} {values[1]}"
    # PyTorch's operators take the dtype of an array of no dimensions for weak; the standard's functions do not
    return f"{form} if _same else {call}" if arrays else form


def _evaluate(
    primitive: Any, values: list[str], kind: str, indent: str, result: str = "y", arrays: bool = False
) -> list[str]:
    return [
        f"{indent}try:",
        f"{indent}    {result} = {_raw_call(primitive, values, kind, arrays)}",
        f"{indent}except Exception as _error:",
        f"{indent}    raise PRIMITIVE.explain(OPERANDS, _error) from _error",
    ]


_TENSOR = ["_out = Tensor()", "_out.data = y", "_out.level = _level"]


def _record(primitive: Any, positions: tuple[int, ...], exact: bool, indent: str, scope: dict[str, Any]) -> list[str]:
    """The lines that fill a node: its plan, its parents and what it keeps, written out where the locals are."""
    arrays = primitive.arrays
    label = f"PLAN_{'_'.join(map(str, positions))}{'_exact' if exact else ''}"
    plan = scope[label] = primitive.plan(positions, len(arrays), exact=exact)
    parents = tuple_text(f"n_{arrays[i]}" for i in positions)
    saved = tuple_text(entry_text(name) for name in plan.names)
    return [
        f"{indent}_node.plan = {label}",
        f"{indent}_node.parents = {parents}",
        f"{indent}_node.saved = {saved}",
    ]


def _unary(primitive: Any, scope: dict[str, Any]) -> list[str]:
    x = primitive.arrays[0]
    lines = [
        f"    if type({x}) is Tensor:",
        f"        t_{x} = {x}",
        f"        {x} = t_{x}.data",
        f"        _level = t_{x}.level",
        *[line.replace("OPERANDS", f"(t_{x},)") for line in _evaluate(primitive, [x], x, "        ")],
        *[f"        {line}" for line in _TENSOR],
    ]
    if primitive.put is not None:
        lines += [
            f"        if {'SPLIT' if primitive.splits else 'SHARING'}[type(y)]:",
            f"            _link = _out._link = Link(t_{x})",
            f"            _link.base = t_{x}",
            "            _link.view = weakly(_out)",
            f"            _link.steps = {tuple_text(['PRIMITIVE', *primitive.settings])}",
        ]
    if not primitive.differentiable(0):
        return [*lines, "        _out.node = None", "        return _out"]
    return [
        *lines,
        f"        n_{x} = t_{x}.node",
        f"        if n_{x} is None:",
        "            _out.node = None",
        "            return _out",
        "        if _level.id < attention():",
        f"            return unusual(PRIMITIVE, (t_{x},), SETTINGS, y)",
        "        _node = _out.node = Node()",
        "        _node.id = next_id()",
        *_record(primitive, (0,), primitive.keeps_type, "        ", scope),
        "        return _out",
    ]


def _binary(primitive: Any, scope: dict[str, Any]) -> list[str]:
    a, b = primitive.arrays
    lines = [f"    t_{a} = {a}", f"    t_{b} = {b}", f"    if type({a}) is Tensor:"]
    lines += [
        f"        _level = {a}.level",
        f"        n_{a} = {a}.node",
        f"        {a} = {a}.data",
        f"        if type({b}) is Tensor:",
        f"            n_{b} = {b}.node",
        f"            if {b}.level is not _level:",
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
        f"        _level = {b}.level",
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
        f"    _same = {a}.dtype is {b}.dtype",
        *[line.replace("OPERANDS", f"(t_{a}, t_{b})") for line in _evaluate(primitive, [a, b], a, "    ", arrays=True)],
        *[f"    {line}" for line in _TENSOR],
    ]
    able = [i for i in (0, 1) if primitive.differentiable(i)]
    if not able:
        return [*lines, "    _out.node = None", "    return _out"]
    none = " and ".join(f"n_{primitive.arrays[i]} is None" for i in able)
    lines += [
        f"    if {none}:",
        "        _out.node = None",
        "        return _out",
        "    if _level.id < attention():",
        f"        return unusual(PRIMITIVE, (t_{a}, t_{b}), SETTINGS, y)",
        "    _node = _out.node = Node()",
        "    _node.id = next_id()",
    ]
    if primitive.elementwise and primitive.keeps_type:
        lines.append(f"    if _same and {a}.shape == {b}.shape:")
        lines += _record_pair(primitive, able, True, "        ", scope)
        lines.append("    else:")
        lines += _record_pair(primitive, able, False, "        ", scope)
    else:
        lines += _record_pair(primitive, able, False, "    ", scope)
    return [*lines, "    return _out"]


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


def _general(primitive: Any, scope: dict[str, Any]) -> list[str]:
    """Any number of arrays and of outputs. Which plan a node has is looked up by which arrays are on the tape."""
    arrays, outputs = primitive.arrays, primitive.outputs
    given = tuple_text(f"t_{name}" for name in arrays)
    whole = "y" if outputs is None else "_outputs"
    kept = ", ".join([*arrays, *(outputs or ("y",)), *(f"{name}={name}" for name in primitive.settings)])
    # an operand of another level leaves earlier ones unwrapped: the long way is given what came in
    lines = [*(f"    t_{name} = {name}" for name in arrays), "    _level = None"]
    for name in arrays:
        lines += [
            f"    n_{name} = None",
            f"    if type({name}) is Tensor:",
            "        if _level is None:",
            f"            _level = {name}.level",
            f"        elif {name}.level is not _level:",
            f"            return dispatch(PRIMITIVE, {given}, SETTINGS)",
            f"        n_{name} = {name}.node",
            f"        {name} = {name}.data",
        ]
    same = " or ".join(f"type({name}) is not type({arrays[0]})" for name in arrays[1:])
    lines += [
        f"    if _level is None{f' or {same}' if same else ''}:",
        f"        return dispatch(PRIMITIVE, {given}, SETTINGS)",
        *[line.replace("OPERANDS", given) for line in _evaluate(primitive, list(arrays), arrays[0], "    ", whole)],
    ]
    able = [i for i in range(len(arrays)) if primitive.differentiable(i)]
    made = _TENSOR if outputs is None else []
    if outputs is not None:
        lines.append(f"    {tuple_text(outputs)} = {whole}")
        for i, name in enumerate(outputs):
            scope[f"SELECT_{i}"] = selector_plan(i)
            made = [*made, f"_out_{i} = Tensor()", f"_out_{i}.data = {name}", f"_out_{i}.level = _level"]
    lines += [f"    {line}" for line in made]
    results = ["_out"] if outputs is None else [f"_out_{i}" for i in range(len(outputs))]
    result = results[0] if outputs is None else tuple_text(results)
    constants = [*(f"{r}.node = None" for r in results), f"return {result}"]
    if not able:
        return [*lines, *(f"    {line}" for line in constants)]
    scope["PLANS"] = _PlansByMask(primitive, able)
    mask = " + ".join(f"(n_{arrays[i]} is not None) * {1 << k}" for k, i in enumerate(able))
    nodes = tuple_text(f"n_{arrays[i]}" for i in able)
    lines += [
        f"    _mask = {mask}",
        "    if not _mask:",
        *(f"        {line}" for line in constants),
        "    if _level.id < attention():",
        f"        return unusual(PRIMITIVE, {given}, SETTINGS, {whole})",
        "    _plan = PLANS[_mask]",
        "    _node = Node()",
        "    _node.id = next_id()",
        "    _node.plan = _plan",
        f"    _node.parents = tuple([n for n in {nodes} if n is not None])",
        f"    _node.saved = _plan.pack({kept})",
    ]
    if outputs is None:
        return [*lines, "    _out.node = _node", "    return _out"]
    for i in range(len(outputs)):
        lines += [
            f"    _selector = _out_{i}.node = Node()",
            "    _selector.id = next_id()",
            f"    _selector.plan = SELECT_{i}",
            "    _selector.parents = (_node,)",
            "    _selector.saved = ()",
        ]
    return [*lines, f"    return {result}"]


def _of_any_number(primitive: Any) -> list[str]:
    """One output of as many arrays as are given. Which plan a node has is looked up by which are on the tape."""
    given = primitive.variadic
    values = ["*_inner", *(f"{name}={name}" for name in primitive.settings)]
    call = f"RAW[_kind]({', '.join(values)})"
    kept = ", ".join(["*_inner", "y", *(f"{name}={name}" for name in primitive.settings)])
    return [
        "    _level = _kind = None",
        "    _inner = []",
        "    _traced = []",
        "    _nodes = []",
        f"    for x in {given}:",
        "        if type(x) is Tensor:",
        "            if _level is None:",
        "                _level = x.level",
        "            elif x.level is not _level:",
        f"                return dispatch(PRIMITIVE, {given}, SETTINGS)",
        "            _node = x.node",
        "            if _node is not None:",
        "                _traced.append(len(_inner))",
        "                _nodes.append(_node)",
        "            x = x.data",
        "        if type(x) is not _kind:",
        "            if _kind is not None:",
        f"                return dispatch(PRIMITIVE, {given}, SETTINGS)",
        "            _kind = type(x)",
        "        _inner.append(x)",
        "    if _level is None:",
        f"        return dispatch(PRIMITIVE, {given}, SETTINGS)",
        "    try:",
        f"        y = {call}",
        "    except Exception as _error:",
        f"        raise PRIMITIVE.explain({given}, _error) from _error",
        *(f"    {line}" for line in _TENSOR),
        "    if not _traced:",
        "        _out.node = None",
        "        return _out",
        "    if _level.id < attention():",
        f"        return unusual(PRIMITIVE, {given}, SETTINGS, y)",
        "    _node = _out.node = Node()",
        "    _node.id = next_id()",
        "    _node.plan = _plan = PRIMITIVE.recorded(tuple(_traced), len(_inner), False)",
        "    _node.parents = tuple(_nodes)",
        f"    _node.saved = _plan.pack({kept})",
        "    return _out",
    ]


class _PlansByMask(dict[int, Plan]):
    """Plans by a number whose bits say which of the differentiable arrays are on the tape."""

    def __init__(self, primitive: Any, able: list[int]) -> None:
        super().__init__()
        self.primitive = primitive
        self.able = able

    def __missing__(self, mask: int) -> Plan:
        positions = tuple([i for k, i in enumerate(self.able) if mask >> k & 1])
        plan = self[mask] = self.primitive.plan(positions, len(self.primitive.arrays))
        return plan


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
            "    _out.node = None",
            "    return _out",
            "if _level.id < attention():",
            f"    return unusual(PRIMITIVE, (t_{a}, t_{b}), SETTINGS, y)",
            "_node = _out.node = Node()",
            "_node.id = next_id()",
            *_record(primitive, (position,), primitive.keeps_type, "", scope),
            "return _out",
        ]
    else:
        body += ["_out.node = None", "return _out"]
    return lines + ["            " + line for line in body]
