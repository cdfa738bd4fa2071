"""Definitions of agrad's own operations, which are filed by name."""

import inspect
import sys
from collections.abc import Callable
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
    doc += f"\n\nExamples\n--------{example}" if example else ""
    operation = notation.elementwise(name, *rules, doc=doc or None, **how)
    operation.__module__ = sys._getframe(1).f_globals["__name__"]  # where it is bound, for pickle
    file_primitive(operation.primitive)
    return publish(operation) if public else operation
