"""Arguments and results of functions with SciPy names."""

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import MissingExtraError, RefusedFunctionError
from agrad.interop.arguments import alike, like_of
from agrad.numpy.calls import first, home
from agrad.ops.definition import of_first

if TYPE_CHECKING:
    from agrad.engine.typed import OfFirst

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
Function: TypeAlias = "OfFirst[..., Tensor]"
"""A function of an array and more."""


def library(module: str, name: str) -> Any:
    """Return a module of SciPy, or raise an error for the function of this name."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(f"{name} needs SciPy. Install it with: pip install 'agrad[special]'") from None


def is_array(value: Any) -> bool:
    """Return True for a Tensor and for an array of a library."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def arrays(*values: Any) -> list[Tensor]:
    """Return Tensors of one backend and one floating dtype, promoted as in NumPy.

    Numbers mixed with arrays are weak: they get the dtype of the arrays. Numbers and lists without an array go to the
    backend of new arrays.
    """
    given: list[Any] = [agrad.asarray(v) if is_array(v) else v for v in values]
    if like_of(*given) is None and home() is not None:
        given = [created(v) if i == 0 or not isinstance(v, _NUMBERS) else v for i, v in enumerate(given)]
    return alike(*given, floating=True)


_NUMBERS = (bool, int, float, complex)


def created(values: Any) -> Tensor:
    """Return a new array where ``agrad.numpy`` creates it.

    Inside a transform, this is the backend of the arguments of the function that it calls.
    """
    where = home()
    if first((values,)) is None:
        values = np.asarray(values)  # with the default dtype of NumPy
    return agrad.asarray(values) if where is None else agrad.asarray(values, backend=where.backend, device=where.device)


def array(value: Any) -> Tensor:
    """Return a Tensor of a floating dtype."""
    return arrays(value)[0]


def ratio(a: Any, b: Any, good: Any = None) -> Tensor:
    """Return ``a / b``, and 0 with the derivative 0 where ``b`` is 0.

    If ``good`` is given, the result is 0 where it is False.
    """
    good = b != 0 if good is None else good
    return agrad.where(good, a / agrad.where(good, b, agrad.ones_like(b)), agrad.zeros_like(a))


def function(f: Callable[Concatenate[Any, P], R]) -> "OfFirst[P, R]":
    """Decorate a function to return plain arrays for plain arrays.

    ``f`` returns Tensors, or tuples of them. If an argument, or a part of a tuple, is a plain array and none is a
    Tensor, the results are plain arrays.
    """

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        out = f(*args, **kwargs)
        every = (*args, *kwargs.values())
        given = [x for value in every for x in (value if isinstance(value, tuple) else (value,)) if is_array(x)]
        return _raw(out) if given and not any(isinstance(x, Tensor) for x in given) else out

    return of_first(cast("Callable[Concatenate[Any, P], R]", call))


def method(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method to return plain arrays for plain arrays.

    They came in to the method, or to the object before, as ``_given``.
    """

    @functools.wraps(f)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        known = len(self._given)
        return function(lambda *a, **k: f(self, *a[known:], **k))(*self._given, *args, **kwargs)

    return call


def unsupported(
    *names: str, fix: str = "Leave it out", error: type[Exception] = RefusedFunctionError
) -> Callable[[F], F]:
    """Decorate a function to raise an error for arguments without their default."""

    def decorate(f: F) -> F:
        parameters = inspect.signature(f).parameters
        places = [(name, list(parameters).index(name), parameters[name].default) for name in names]

        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            for name, place, default in places:
                value = args[place] if place < len(args) else kwargs.get(name, default)
                if value is not default and (is_array(value) or value != default):
                    what = name if is_array(value) else f"{name}={value!r}"
                    raise error(f"{call.__qualname__.partition('.')[0]}: {what} is not supported. {fix}.")
            return f(*args, **kwargs)

        return cast("F", call)

    return decorate


def named(f: Any, name: str, what: str, section: str = "", example: str = "") -> Any:
    """Set the name and docstring of a function that another one created.

    Its docstring gets the name and ``what``, and at the end an example that uses a ``section`` of ``agrad.scipy``.
    """
    f.__name__ = f.__qualname__ = name
    f.__doc__ = inspect.cleandoc(f.__doc__ or "").replace("{what}", what).replace("{name}", name)
    if example:
        f.__doc__ += f"\n\nExamples\n--------\n>>> from agrad.scipy import {section}{example}"
    return f


def _raw(out: Any) -> Any:
    if isinstance(out, tuple):
        parts = [_raw(part) for part in out]
        return type(out)(*parts) if hasattr(out, "_fields") else tuple(parts)
    # recorded only if an argument is a function that captures Tensors, and then it remains a Tensor
    return out.data if isinstance(out, Tensor) and not isinstance(out.data, Tensor) and not out.requires_grad else out
