"""Host scalars: Python numbers that a traced function may be called with again, of another value.

A learning rate, a step counter or a seed is a Python number, read anew at each call. While a function is traced it is a
``Scalar``: it knows its value now and the expression it came from, so that a replay can compute it again. Where Python
has to know the number itself (``float()``, a comparison that steers an ``if``), the trace notes what it saw; a call for
which that is no longer so is traced anew.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.engine.tape import mode

NUMBERS = (bool, int, float, complex)


class Scalar:
    """A number of the host inside a trace. Arithmetic with numbers gives another one, and with arrays an array."""

    __slots__ = ("trace", "value", "variable")

    def __init__(self, value: Any, trace: Any, variable: Any) -> None:
        self.value = value
        self.trace = trace
        self.variable = variable

    def read(self) -> Any:
        """The number itself. From now on the trace holds only where the expression has this value."""
        self.trace.hold(self)
        return self.value

    def _apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        other = operands[0] if operands[0] is not self else operands[-1]
        if type(other) in NUMBERS or isinstance(other, Scalar):
            return deferred(function, *operands)
        if hasattr(other, "level"):  # a Tensor, which takes the scalar as its operand
            return NotImplemented
        return function(*[o.read() if o is self else o for o in operands])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.read(), dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, /, *inputs: Any, **settings: Any) -> Any:
        """NumPy's own functions of the number as it is, with an array perhaps, which the trace takes for a constant."""
        read = [arg.read() if isinstance(arg, Scalar) else arg for arg in inputs]
        return getattr(ufunc, method)(*read, **settings)

    def __add__(self, other: Any) -> Any:
        return self._apply(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return self._apply(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._apply(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._apply(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return self._apply(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._apply(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._apply(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._apply(operator.truediv, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._apply(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._apply(operator.floordiv, other, self)

    def __mod__(self, other: Any) -> Any:
        return self._apply(operator.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._apply(operator.mod, other, self)

    def __pow__(self, other: Any) -> Any:
        return self._apply(operator.pow, self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._apply(operator.pow, other, self)

    def __lt__(self, other: Any) -> Any:
        return self._apply(operator.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return self._apply(operator.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return self._apply(operator.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return self._apply(operator.ge, self, other)

    def __eq__(self, other: object) -> Any:
        return self._apply(operator.eq, self, other)

    def __ne__(self, other: object) -> Any:
        return self._apply(operator.ne, self, other)

    __hash__ = object.__hash__

    def __neg__(self) -> Any:
        return deferred(operator.neg, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return deferred(abs, self)

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


def announce(holder: Any) -> None:
    """Tell the trace that is going on, if any, that an object's ``traced_attributes`` are read or written.

    Where it does not know the object, it begins again with it among what it reads and writes.
    """
    trace = mode().trace
    if trace is not None:
        trace.meet_holder(holder)


def deferred(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)``; where a traced scalar is among the arguments, again at each replay.

    The function is one of the host: its arguments and its result are numbers, and it has no effects. Its result may
    change from call to call only with its arguments.
    """
    scalars = [arg for arg in args if isinstance(arg, Scalar)]
    if not scalars:
        return function(*args)
    return scalars[0].trace.host(function, args)


def deferred_array(function: Callable[..., Any], args: tuple[Any, ...], place: Callable[[Any], Any]) -> Any:
    """``place(function(*args))``, for a function of host numbers that gives a NumPy array.

    ``place`` makes a Tensor of it. Where a traced scalar is among the arguments, both are done at each replay.
    """
    scalars = [arg for arg in args if isinstance(arg, Scalar)]
    if not scalars:
        return place(function(*args))
    return scalars[0].trace.host_array(function, args, place)
