"""The definition of a special function: arguments, a generic form, and rules."""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, overload

from agrad.dtypes import as_dtype
from agrad.errors import DtypeError, MissingRuleError, OperandError
from agrad.ops.casting import astype
from agrad.ops.definition import elementwise
from agrad.ops.shared import array_arguments
from agrad.registry import public as publish

if TYPE_CHECKING:
    from agrad.engine.typed import OfArray, OfArrays

P = ParamSpec("P")
Rule = Callable[..., Any] | None
_PLAIN = ("signed integer", "unsigned integer", "bool")


def underived(name: str, argument: str) -> Callable[..., Any]:
    """Return the rule of an argument without a derivative: it raises an error."""

    def rule(g: Any) -> Any:
        raise MissingRuleError(
            f"special.{name} has no derivative with respect to {argument}. Pass {argument}.detach()."
        )

    return rule


@overload
def function(form: Callable[Concatenate[Any, Any, P], Any], rule: Rule, /, **how: bool) -> "OfArray[P]": ...
@overload
def function(
    form: Callable[Concatenate[Any, Any, Any, P], Any], first: Rule, second: Rule, /, **how: bool
) -> "OfArrays[P]": ...
@overload
def function(
    form: Callable[Concatenate[Any, Any, P], Any], first: Rule, second: Rule, third: Rule, /, *more: Rule, **how: bool
) -> "OfArray[P]": ...
def function(form: Callable[..., Any], *rules: Rule, native: bool = True, public: bool = True) -> Any:
    """Define the primitive ``special.<name>`` by its generic form.

    ``form`` is a function of ``(xp, arrays, *, options)``, on float64 arrays that broadcast. It defines the name,
    arguments and docstring. ``rules``: one for each array, ``g`` times the partial derivative, or None if the function
    has no derivative with respect to it. ``native``: a function of that name in the backend replaces the generic form.
    ``public``: publish the function in ``agrad.special``. With several arguments, numbers and integers get the floating
    dtype of the others.
    """
    name = form.__name__

    def forward(xp: Any, /, *arrays: Any, **given: Any) -> Any:
        return evaluate(xp, name, form, arrays, given, native)

    parameters = inspect.signature(form).parameters.values()
    forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [p if p.kind is p.KEYWORD_ONLY else p.replace(kind=p.POSITIONAL_ONLY) for p in parameters]
    )
    forward.__module__ = form.__module__
    operation = elementwise(f"special.{name}", *rules, forward=forward, doc=inspect.getdoc(form), public=False)
    operation.__module__ = sys._getframe(1).f_globals["__name__"]
    if not public:
        return operation
    if len(rules) == 1:
        return publish("special")(operation)

    def call(*arrays: Any, **given: Any) -> Any:
        return operation(*floating(name, *arrays), **given)

    call.__name__ = call.__qualname__ = name
    call.__signature__ = inspect.signature(operation)  # type: ignore[attr-defined]
    call.__doc__, call.__module__ = operation.__doc__, operation.__module__
    return publish("special")(call)


inner: Callable[..., Any] = functools.partial(function, native=False, public=False)
"""``function`` for derivatives of other functions, which no library has."""


def evaluate(
    xp: Any,
    name: str,
    form: Callable[..., Any],
    arrays: tuple[Any, ...],
    settings: Mapping[str, Any] = MappingProxyType({}),
    native: bool = True,
    wide: bool = True,
) -> Any:
    """Evaluate a special function on plain arrays.

    By the library's own function, or the generic form. Raise ``DtypeError`` for complex arrays. ``wide``: the form is
    evaluated in float64 whatever the arguments are.
    """
    dtype = arrays[0].dtype if len(arrays) == 1 else xp.result_type(*arrays)
    if not xp.isdtype(dtype, "real floating"):
        if xp.isdtype(dtype, "complex floating"):
            raise DtypeError(f"special.{name}: arguments must be real, got {dtype}. Use agrad.real or agrad.imag.")
        dtype = xp.float64
    arrays = tuple([a if a.dtype == dtype else xp.astype(a, dtype) for a in arrays])
    words = getattr(xp, "special", None)
    own = words.find(name) if native and words is not None else None
    if own is not None:
        out = own(*arrays, **settings)
        return out if out.dtype == dtype else xp.astype(out, dtype)
    if not wide and as_dtype(dtype).name != "float64":
        return form(xp, *arrays, **settings)
    if words is None:  # a backend of a third party
        wide = (xp.astype(a, xp.float64) for a in arrays)
        return xp.astype(form(xp, *wide, **settings), dtype)
    return words.evaluate(xp, form, dtype, *arrays, **settings)


def floating(name: str, *values: Any) -> list[Any]:
    """Make arrays of the arguments.

    Numbers are converted to the library of the first array, integers to the floating-point dtype of the others.
    """
    arrays = array_arguments(f"special.{name}", *values)
    kinds = [as_dtype(a.dtype).kind for a in arrays]
    if not any(kind in _PLAIN for kind in kinds):
        return arrays
    found = [as_dtype(a.dtype) for a, kind in zip(arrays, kinds, strict=True) if kind not in _PLAIN]
    dtype = found[0] if found else as_dtype("float64")
    return [astype(a, dtype) if kind in _PLAIN else a for a, kind in zip(arrays, kinds, strict=True)]


def whole_number(name: str, argument: str, value: Any) -> int:
    """Return an option that is one integer.

    Raise ``OperandError`` for an array or anything else.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise OperandError(
            f"special.{name}: {argument} must be one Python integer, got {type(value).__name__}. Call it once for "
            "each order, and stack the results."
        )
    return value
