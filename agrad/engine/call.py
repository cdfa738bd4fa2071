"""The call of a primitive: evaluate an ordinary operation and record it on a tape.

``levels.dispatch`` processes all other calls: only plain arrays, several levels or libraries, Tensors of levels other
than tapes, and observers of operations.

The four forms of a call repeat their end, which creates and records the result: one more function call takes 10 % of
the time of an elementwise operation.
"""

import inspect
from collections.abc import Callable
from typing import Any

from agrad.backends import backend_of_type
from agrad.engine.joining import NUMPYS
from agrad.engine.levels import dispatch, new_node, observed, record_slow, select
from agrad.engine.namespaces import NUMBERS
from agrad.engine.observing import OBSERVED
from agrad.engine.plans import EXACT, NUMBER, ONE_ARGUMENT
from agrad.engine.tape import ARGUMENT, RESULT, Node, next_id, recording_floor
from agrad.engine.tensor import Tensor
from agrad.engine.views import LINKS
from agrad.foreign import keyword_hint

Call = Callable[..., Any]


def build_call(primitive: Any) -> Call:
    """Return the function that calls a primitive, with the signature of the primitive."""
    arrays, settings, single = primitive.arrays, primitive.settings, primitive.outputs is None
    if single and len(arrays) == 1 and (settings or primitive.variadic):
        call = _unary_with_settings(primitive)
    elif single and len(arrays) == 1:
        call = _unary(primitive)
    elif single and len(arrays) == 2 and not settings and not primitive.variadic:
        call = _binary(primitive)
    else:
        call = _several(primitive)
    call.__name__ = call.__qualname__ = primitive.identifier
    kind = inspect.Parameter
    parameters = [kind(name, kind.POSITIONAL_ONLY) for name in arrays]
    if primitive.variadic:
        parameters.append(kind(primitive.variadic, kind.VAR_POSITIONAL))
    for name in settings:
        parameters.append(kind(name, kind.KEYWORD_ONLY, default=primitive.defaults.get(name, kind.empty)))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def complete(primitive: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Return all options. Raise ``TypeError`` for an unknown or missing option."""
    name, known, defaults = primitive.identifier, primitive.settings, primitive.defaults
    for key in settings:
        if key not in known:
            text = f"{name}() got an unexpected keyword argument {key!r}"
            raise TypeError(text + keyword_hint(text))
    for key in known:
        if key not in settings and key not in defaults:
            raise TypeError(f"{name}() missing 1 required keyword-only argument: {key!r}")
    return {**defaults, **settings}


def wrong_count(primitive: Any, count: int) -> TypeError:
    """Return the error for a wrong number of arrays."""
    name, arrays = primitive.identifier, primitive.arrays

    def arguments(n: int, kind: str) -> str:
        return f"{n} {kind} argument{'' if n == 1 else 's'}"

    if count > len(arrays):
        return TypeError(f"{name}() takes {arguments(len(arrays), 'positional')} but {count} were given")
    missing = " and ".join(map(repr, arrays[count:]))
    return TypeError(f"{name}() missing {arguments(len(arrays) - count, 'required positional')}: {missing}")


def refused(primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], error: Exception) -> Exception:
    """Return the error to raise if the array library raised an error."""
    complete(primitive, settings)
    found: Exception = primitive.explain(args, error)
    return found


def _unary(primitive: Any) -> Call:
    """Return the call for one array without options."""
    raw, plans, differentiable = primitive.raw, primitive.plans, primitive.differentiable(0)
    write_back_rules = primitive.write_back_rules

    def call(x: Any, /) -> Any:
        if OBSERVED:
            return observed(primitive, (x,), {})
        if type(x) is not Tensor:
            return dispatch(primitive, (x,), {})
        data = x.data
        try:
            y = raw[type(data)](data)
        except Exception as error:
            raise primitive.explain((x,), error) from error
        out = Tensor()
        out.data = y
        level = out.level = x.level
        if write_back_rules and (link := LINKS[type(y)]):
            link(out, x, ((primitive, {}),))
        parent = x.node
        if parent is None or not differentiable:
            out.node = None
            if parent is not None:
                out._ended = primitive
            return out
        if level.id < recording_floor():
            return record_slow(primitive, (x,), {}, y)
        node = out.node = Node()
        node.id = next_id()
        node.plan = plan = plans[ONE_ARGUMENT]
        node.links = parent
        kept = plan.kept
        node.saved = (data,) if kept is ARGUMENT else (y,) if kept is RESULT else plan.keep((data, y))
        return out

    return call


def _unary_with_settings(primitive: Any) -> Call:
    """Return the call for one array, or one and any number of others, with options."""
    raw, plans, differentiable = primitive.raw, primitive.plans, primitive.differentiable(0)
    write_back_rules = primitive.write_back_rules
    several, count = _several(primitive), len(primitive.settings)

    def call(x: Any, /, *others: Any, **settings: Any) -> Any:
        if others:
            return several(x, *others, **settings)
        if len(settings) != count:
            settings = complete(primitive, settings)
        if OBSERVED:
            return observed(primitive, (x,), settings)
        if type(x) is not Tensor:
            return dispatch(primitive, (x,), settings)
        data = x.data
        try:
            y = raw[type(data)](data, **settings)
        except Exception as error:
            raise refused(primitive, (x,), settings, error) from error
        out = Tensor()
        out.data = y
        level = out.level = x.level
        if write_back_rules and (link := LINKS[type(y)]):
            link(out, x, ((primitive, settings),))
        parent = x.node
        if parent is None or not differentiable:
            out.node = None
            if parent is not None:
                out._ended = primitive
            return out
        if level.id < recording_floor():
            return record_slow(primitive, (x,), settings, y)
        out.node = new_node(plans[ONE_ARGUMENT], (data, y, settings), parent)
        return out

    return call


def pair_evaluation(primitive: Any, kind: type) -> Call:
    """Return the evaluation of two plain operands, by the Python operator if any."""
    raw, operator = primitive.raw[kind], primitive.operator
    backend = backend_of_type(kind)
    if operator is None or backend is None:
        return raw

    def evaluate(a: Any, b: Any) -> Any:
        if type(a) is type(b) and a.dtype is not b.dtype:
            return raw(a, b)
        try:
            return operator(a, b)
        except RuntimeError:  # the PyTorch operator of a number and Booleans
            return raw(a, b)

    # PyTorch operators, but not its functions, treat the dtype of an array of shape () as weak
    return backend.placed(evaluate if backend.weak_dtypes else operator)


def _binary(primitive: Any) -> Call:
    """Return the call for two arrays, or an array and a number, without options."""
    raw, plans = primitive.pairs, primitive.plans
    first, second = primitive.differentiable(0), primitive.differentiable(1)
    may_be_exact, takes_numbers = primitive.elementwise and primitive.keeps_type, primitive.takes_numbers

    def call(x1: Any, x2: Any, /) -> Any:
        if OBSERVED:
            return observed(primitive, (x1, x2), {})
        n1 = n2 = None
        if type(x1) is Tensor:
            level, n1, a = x1.level, x1.node, x1.data
            if type(x2) is Tensor:
                if x2.level is not level:
                    return dispatch(primitive, (x1, x2), {})
                n2, b = x2.node, x2.data
            else:
                b = x2
            kind, other = type(a), type(b)
        elif type(x2) is Tensor:
            level, n2, a, b = x2.level, x2.node, x1, x2.data
            kind, other = type(b), type(a)
        else:
            return dispatch(primitive, (x1, x2), {})
        if kind is not other and not (takes_numbers and other in NUMBERS):
            if not (type(x1) is type(x2) and kind in NUMPYS and other in NUMPYS):
                return dispatch(primitive, (x1, x2), {})
            other = kind
        try:
            y = raw[kind](a, b)
        except Exception as error:
            raise primitive.explain((x1, x2), error) from error
        out = Tensor()
        out.data = y
        out.level = level
        links: Any
        if n1 is None or not first:
            if n2 is None or not second:
                out.node = None
                if n1 is not None or n2 is not None:
                    out._ended = primitive
                return out
            which, links = 1, n2
        elif n2 is None or not second:
            which, links = 0, n1
        else:
            which, links = 2, (n1, n2)
        if level.id < recording_floor():
            return record_slow(primitive, (x1, x2), {}, y)
        if kind is not other:
            which += NUMBER
        elif may_be_exact and a.dtype is b.dtype and a.shape == b.shape:
            which += EXACT
        node = out.node = Node()
        node.id = next_id()
        node.plan = plan = plans[which]
        node.links = links
        node.saved = plan.keep((a, b, y)) if plan.names else ()
        return out

    return call


def _several(primitive: Any) -> Call:
    """Return the call for any number of arguments and outputs."""
    raw, outputs, count = primitive.raw, primitive.outputs, len(primitive.arrays)
    variadic, settings_count, plans = primitive.variadic, len(primitive.settings), primitive.plans

    def call(*args: Any, **settings: Any) -> Any:
        given = len(args)
        if given != count and (given < count or not variadic):
            raise wrong_count(primitive, given)
        if len(settings) != settings_count:
            settings = complete(primitive, settings)
        if OBSERVED:
            return observed(primitive, args, settings)
        level = kind = None
        inner = list(args)
        traced: list[int] = []
        for i, x in enumerate(args):
            if type(x) is Tensor:
                if level is None:
                    level = x.level
                elif x.level is not level:
                    return dispatch(primitive, args, settings)
                if x.node is not None:
                    traced.append(i)
                x = inner[i] = x.data
            if type(x) is not kind:
                if kind is not None and not (
                    kind in NUMPYS and type(x) in NUMPYS and {Tensor}.issuperset(map(type, args))
                ):
                    return dispatch(primitive, args, settings)
                kind = type(x)
        if level is None or kind is None:
            return dispatch(primitive, args, settings)
        try:
            y = raw[kind](*inner, **settings)
        except Exception as error:
            raise refused(primitive, args, settings, error) from error
        node = None
        if traced:
            plan = plans[given, *traced]
            if plan is not None:
                if level.id < recording_floor():
                    return record_slow(primitive, args, settings, y)
                node = new_node(plan, (*inner, y, settings) if outputs is None else (*inner, *y, settings), args)
        if outputs is None:
            out = Tensor()
            out.data, out.level, out.node = y, level, node
            return out
        outs = []
        for i, part in enumerate(y):
            out = Tensor()
            out.data, out.level, out.node = part, level, None if node is None else select(node, i)
            outs.append(out)
        return tuple(outs)

    return call
