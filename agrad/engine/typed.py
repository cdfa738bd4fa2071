"""Types of functions that return a Tensor for a Tensor, for type checkers.

For other arrays, the result is ``Any``. No module imports this one at run time.
"""

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from agrad.engine.notation import PrimitiveFunction
from agrad.engine.tensor import Tensor

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Overloaded(Protocol):
    """A function with a signature for Tensors and one for other arrays.

    A type checker may use only the first signature when it transfers parameters to another function. Transforms
    therefore have separate signatures for these functions.
    """

    _overloaded: None

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


class OfArray(Overloaded, Protocol[P]):
    """A function of an array and more."""

    @overload
    def __call__(self, x: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> Tensor: ...
    @overload
    def __call__(self, x: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any: ...


class OfArrays(Overloaded, Protocol[P]):
    """A function of two arrays and more."""

    @overload
    def __call__(self, x1: Tensor, x2: Any, /, *args: P.args, **kwargs: P.kwargs) -> Tensor: ...
    @overload
    def __call__(self, x1: Any, x2: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> Tensor: ...
    @overload
    def __call__(self, x1: Any, x2: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any: ...


class OfSequence(Overloaded, Protocol[P]):
    """A function of a sequence of arrays and more."""

    @overload
    def __call__(self, arrays: Sequence[Tensor], /, *args: P.args, **kwargs: P.kwargs) -> Tensor: ...
    @overload
    def __call__(self, arrays: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any: ...


class OfFirst(Overloaded, Protocol[P, R_co]):
    """A function whose first argument determines the type of the result."""

    @overload
    def __call__(self, x: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, x: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    @overload
    def __call__(self, /, **arguments: Any) -> Any: ...


class Unary(OfArray[[]], PrimitiveFunction, Protocol):
    """An operation on each element of an array."""


class Binary(OfArrays[[]], PrimitiveFunction, Protocol):
    """An operation on the elements of two arrays."""


class Primitive(OfArray[P], PrimitiveFunction, Protocol[P]):
    """An operation on arrays, with one result."""


class DefinesPrimitive(Protocol):
    """``primitive`` with options, before the function."""

    def __call__(self, function: Callable[Concatenate[Any, Any, P], Any], /) -> Primitive[P]: ...


class _OfArrayIn(Protocol):
    def __call__(self, function: Callable[Concatenate[Any, P], Any], /) -> OfArray[P]: ...


class PublicOfArray(Protocol):
    """``public`` for functions of an array."""

    @overload
    def __call__(self, section: str, /) -> _OfArrayIn: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Any, P], Any], /) -> OfArray[P]: ...


class _OfArraysIn(Protocol):
    def __call__(self, function: Callable[Concatenate[Any, Any, P], Any], /) -> OfArrays[P]: ...


class PublicOfArrays(Protocol):
    """``public`` for functions of two arrays."""

    @overload
    def __call__(self, section: str, /) -> _OfArraysIn: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Any, Any, P], Any], /) -> OfArrays[P]: ...


class PublicOfSequence(Protocol):
    """``public`` for functions of a sequence of arrays."""

    def __call__(self, function: Callable[Concatenate[Any, P], Any], /) -> OfSequence[P]: ...
