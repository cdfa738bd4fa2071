"""Definitions of agrad's own operations, which are filed by name."""

import inspect
import sys
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast, overload

from agrad.engine import notation
from agrad.engine.notation import PrimitiveFunction
from agrad.registry import file_primitive
from agrad.registry import public as publish

if TYPE_CHECKING:
    from agrad.engine.typed import (
        Binary,
        DefinesPrimitive,
        OfFirst,
        Primitive,
        PublicOfArray,
        PublicOfArrays,
        PublicOfSequence,
        Unary,
    )

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")

public_of_array = cast("PublicOfArray", publish)
public_of_arrays = cast("PublicOfArrays", publish)
public_of_sequence = cast("PublicOfSequence", publish)


def of_first(function: Callable[Concatenate[Any, P], R]) -> "OfFirst[P, R]":
    """Return the function with a type: its result if the first array is a Tensor."""
    return cast("OfFirst[P, R]", function)


@overload
def primitive(forward: Callable[Concatenate[Any, Any, P], Any], /) -> "Primitive[P]": ...
@overload
def primitive(*, out: None = None, symmetric: bool = False, **how: Any) -> "DefinesPrimitive": ...
@overload
def primitive(*, out: str | tuple[str, ...], symmetric: bool = False, **how: Any) -> Any: ...
def primitive(forward: Callable[..., Any] | None = None, /, *, symmetric: bool = False, **how: Any) -> Any:
    """Make a function one of agrad's own operations; see ``agrad.primitive``.

    ``symmetric``: the operation of one argument is linear and its own transpose, and needs no rule.
    """

    def define(function: Callable[..., Any]) -> PrimitiveFunction:
        operation: PrimitiveFunction = notation.primitive(function, **how)
        file_primitive(operation.primitive)
        if symmetric:
            operation.vjp(_own_transpose(function))
        return operation

    return define if forward is None else define(forward)


def of_library(signature: str, /, **how: Any) -> PrimitiveFunction:
    """Define the primitive of a function of array libraries by its signature.

    For example ``"linalg.diagonal(x, *, offset)"``. The function is called with the arrays, and with the options by
    name. ``how``: as for ``primitive``.
    """
    name, _, parameters = signature.removesuffix(")").partition("(")
    arrays, _, options = parameters.partition(", *, ")
    find = attrgetter(name)

    def call(xp: Any, /, *given: Any, **settings: Any) -> Any:
        found = find(xp)(*given, **settings)
        return tuple(found) if "out" in how else found

    kind = inspect.Parameter
    positional = [kind(array, kind.POSITIONAL_ONLY) for array in ("xp", *arrays.split(", "))]
    keywords = [kind(option, kind.KEYWORD_ONLY) for option in options.split(", ") if option]
    call.__signature__ = inspect.Signature([*positional, *keywords])  # type: ignore[attr-defined]
    call.__module__ = sys._getframe(1).f_globals["__name__"]
    operation: PrimitiveFunction = primitive(call, name=name, **how)
    if "out" not in how:  # arrays of libraries go to the library's function itself
        operation.primitive.definition, operation.primitive.forward = call, None
    return operation


Rule = Callable[..., Any] | None


def _own_transpose(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule that applies a function of one array to its cotangent."""

    def rule(xp: Any, g: Any, **settings: Any) -> Any:
        return function(xp, g, **settings)

    xp, array, *settings = inspect.signature(function).parameters.values()
    rule.__signature__ = inspect.Signature([xp, array.replace(name="g"), *settings])  # type: ignore[attr-defined]
    return rule


@overload
def elementwise(name: str, rule: Rule, /, *, public: bool = True, **how: Any) -> "Unary": ...
@overload
def elementwise(name: str, first: Rule, second: Rule, /, *, public: bool = True, **how: Any) -> "Binary": ...
@overload
def elementwise(name: str, *rules: Rule, public: bool = True, **how: Any) -> PrimitiveFunction: ...
def elementwise(name: str, *rules: Rule, public: bool = True, doc: str = "", example: str = "", **how: Any) -> Any:
    """Define an operation on each element; see ``agrad.elementwise``.

    Publish it unless ``public=False``. ``doc`` and ``example`` are the beginning and the end of its docstring.
    """
    # python -OO leaves no docstrings
    doc = (doc or "") + (f"\n\nExamples\n--------{example}" if example else "")
    operation = notation.elementwise(name, *rules, doc=doc or None, **how)
    operation.__module__ = sys._getframe(1).f_globals["__name__"]  # where it is bound, for pickle
    file_primitive(operation.primitive)
    return publish(operation) if public else operation
