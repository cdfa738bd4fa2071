"""Traced numbers: Python numbers that may change between calls after a trace.

A learning rate, a step count or a seed is a Python number that is read again at each call. While a function is traced,
it is a ``TracedNumber`` with its present value and the expression that a replay evaluates again. If Python needs the
number itself (``float()``, a comparison in an ``if``), the trace records the value, and another value is traced again.
"""

import inspect
import math
import operator
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from agrad.engine.tape import mode
from agrad.errors import TracedValueError

NUMBERS = (bool, int, float, complex)


def _both_ways(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the methods of an operator for a traced number on the left and the right."""

    def left(self: "TracedNumber", other: Any) -> Any:
        return self._apply(function, self, other)

    def right(self: "TracedNumber", other: Any) -> Any:
        return self._apply(function, other, self)

    return left, right


class TracedNumber:
    """A Python number inside a trace.

    Arithmetic with numbers returns another traced number, and with arrays an array.
    """

    __slots__ = ("trace", "value", "variable")

    def __init__(self, value: Any, trace: Any, variable: Any) -> None:
        self.value: Any = value
        self.trace: Any = trace
        self.variable: Any = variable

    def read(self) -> Any:
        """Return the number. The trace is then valid only for this value."""
        self.trace.guard_on(self)
        return self.value

    def _apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        other = operands[0] if operands[0] is not self else operands[-1]
        if type(other) in NUMBERS or isinstance(other, TracedNumber):
            return host_call(function, *operands)
        if hasattr(other, "level"):  # a Tensor, whose operator accepts the number
            return NotImplemented
        return function(*[o.read() if o is self else o for o in operands])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.read(), dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, /, *inputs: Any, **settings: Any) -> Any:
        """Call a NumPy function with the number. Arrays are constants of the trace."""
        read = [arg.read() if isinstance(arg, TracedNumber) else arg for arg in inputs]
        return getattr(ufunc, method)(*read, **settings)

    __add__, __radd__ = _both_ways(operator.add)
    __sub__, __rsub__ = _both_ways(operator.sub)
    __mul__, __rmul__ = _both_ways(operator.mul)
    __truediv__, __rtruediv__ = _both_ways(operator.truediv)
    __floordiv__, __rfloordiv__ = _both_ways(operator.floordiv)
    __mod__, __rmod__ = _both_ways(operator.mod)
    __pow__, __rpow__ = _both_ways(operator.pow)
    __lt__, _ = _both_ways(operator.lt)
    __le__, _ = _both_ways(operator.le)
    __gt__, _ = _both_ways(operator.gt)
    __ge__, _ = _both_ways(operator.ge)
    __eq__, _ = _both_ways(operator.eq)
    __ne__, _ = _both_ways(operator.ne)

    __hash__ = object.__hash__

    def __neg__(self) -> Any:
        return host_call(operator.neg, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return host_call(abs, self)

    def __bool__(self) -> bool:
        return bool(self.read())

    def __float__(self) -> float:
        return float(self.read())

    def __int__(self) -> int:
        return int(self.read())

    def __complex__(self) -> complex:
        return complex(self.read())

    def __index__(self) -> int:
        return operator.index(self.read())

    def __trunc__(self) -> int:
        return math.trunc(self.read())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.read(), digits)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __repr__(self) -> str:
        return f"<traced {type(self.value).__name__} {self.value!r}>"


class Stateful:
    """Base class of objects with ``traced_attributes``.

    An object that is created while a function is traced is not state of the program.
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        trace = mode().trace
        if trace is not None:
            trace.holders[id(made)] = made
        return made

    __new__.__signature__ = inspect.Signature([inspect.Parameter("cls", inspect.Parameter.POSITIONAL_ONLY)])  # type: ignore[attr-defined]


def mark_state_used(holder: Any) -> None:
    """Mark ``traced_attributes`` as read or written in the present trace, if any.

    If the trace does not know the object, it starts again with the object in its captured state.
    """
    trace = mode().trace
    if trace is not None:
        trace.check_known_holder(holder)


def refuse_trace(what: str, remedy: str) -> None:
    """Raise ``TracedValueError`` in a trace, for an effect that a replay would omit."""
    trace = mode().trace
    if trace is not None:
        raise TracedValueError(
            f"{what} inside {trace.named} is not repeated when the compiled function runs. {remedy.rstrip('.')}."
        )


def host_call(function: Callable[..., Any], *args: Any) -> Any:
    """Call ``function(*args)``, again at each replay for traced numbers.

    Its arguments and its result are numbers. It has no side effects, and its result depends only on its arguments.
    """
    scalars = [arg for arg in args if isinstance(arg, TracedNumber)]
    if not scalars:
        return function(*args)
    return scalars[0].trace.host(function, args)


def host_array_call(function: Callable[..., Any], args: tuple[Any, ...], place: Callable[[Any], Any]) -> Any:
    """Call ``place(function(*args))``, again at each replay for traced numbers.

    ``function`` returns a NumPy array of numbers, and ``place`` converts it to a Tensor.
    """
    scalars = [arg for arg in args if isinstance(arg, TracedNumber)]
    if not scalars:
        return place(function(*args))
    return scalars[0].trace.host_array(function, args, place)
