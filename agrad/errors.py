"""The errors that agrad raises.

Each class also derives from the built-in error that other code expects, such as ``ValueError``.
"""

import unicodedata
from collections.abc import Sequence

__all__ = [
    "AgradError", "AnomalyError", "AxesError", "BackendUnavailableError", "ConfigurationError", "ConvergenceError",
    "DataError", "DerivativeError", "DetachError", "DeviceUnavailableError", "DtypeError", "GraphFreedError",
    "HiddenMemoryError", "IndexRangeError", "KinkError", "LeafMutationError", "MissingExtraError",
    "MissingFunctionError", "MissingRuleError", "MixedBackendsError", "NotDifferentiableError", "OperandError",
    "PrimitiveDefinitionError", "ReadOnlyViewError", "RefusedFunctionError", "RuleError", "SaveError", "ShapeError",
    "TracedValueError",
]  # fmt: skip

LINES, LENGTH = 12, 2000
"""Maximum lines and characters of a message on a file."""
WIDTH = 120
"""Approximate maximum length of the names in one message."""


def printable(text: str) -> str:
    """Return ``text`` with escapes for unprintable characters.

    Line breaks and tabs remain. A terminal would interpret the other characters, or could not show them.

    Examples
    --------
    >>> print(agrad.errors.printable(f"a{chr(27)}[31mb"))
    a\\x1b[31mb
    """
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode()
        if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else c
        for c in text
    )


def listed(names: Sequence[str], limit: int = 10, separator: str = ", ", width: int = 40) -> str:
    """Return the first names of a list, each cut to ``width``, for a message.

    On one line, the names have about `WIDTH` characters in total.

    Examples
    --------
    >>> agrad.errors.listed(["weight", "bias", "scale"], limit=2)
    'weight, bias, ... 3 in all'
    """
    shown = [name[:width].replace("\n", "\\n") + "..." * (len(name) > width) for name in names[:limit]]
    while len(shown) > 1 and "\n" not in separator and sum(map(len, shown)) > WIDTH:
        shown.pop()
    return separator.join(shown + [f"... {len(names)} in all"] * (len(names) > len(shown)))


def described(value: object) -> str:
    """Return the type of a wrong argument, with its shape, or its value if short.

    Examples
    --------
    >>> agrad.errors.described(np.ones((2, 3))), agrad.errors.described("x"), agrad.errors.described(None)
    ('ndarray of shape (2, 3)', "'x'", 'None')
    """
    name = type(value).__name__
    if hasattr(value, "shape"):
        return f"{name} of shape {tuple(value.shape)}"
    text = repr(value) if isinstance(value, (int, float, complex, str, list, tuple, dict, type(None))) else ""
    return text if 0 < len(text) <= 40 else name


def brief(text: str) -> str:
    """Return ``text`` in printable form, cut after a few lines.

    Examples
    --------
    >>> text = chr(10).join("abcdefghijklmnopqrst")
    >>> len(text.splitlines()), agrad.errors.brief(text).splitlines()[-1]
    (20, '... 20 lines')
    """
    shown = printable(text[:LENGTH])
    lines = shown.split("\n")
    if len(lines) > LINES:
        shown = "\n".join([*lines[:LINES], f"... {len(lines)} lines"])
    return shown[:LENGTH] + "..." * (len(text) > LENGTH or len(shown) > LENGTH)


class AgradError(Exception):
    """The base class of all errors that agrad raises intentionally.

    Examples
    --------
    >>> try:
    ...     agrad.grad(agrad.sin)(np.ones(3))
    ... except agrad.errors.AgradError as error:
    ...     print(type(error).__name__)
    ShapeError
    """


class ShapeError(AgradError, ValueError):
    """Incompatible shapes, or an axis or index out of range.

    Examples
    --------
    >>> agrad.grad(agrad.sin)(np.ones(3))
    Traceback (most recent call last):
        ...
    agrad.errors.ShapeError: the gradient of sin: the function must return an array of shape (), got (3,). ...
    """


class IndexRangeError(ShapeError, IndexError):
    """An index or an axis out of range.

    Examples
    --------
    >>> agrad.sum(np.ones(3), axis=1)
    Traceback (most recent call last):
        ...
    agrad.errors.IndexRangeError: axis 1 is out of range for an array of 1 dimensions
    """


class AxesError(IndexRangeError, AttributeError):
    """An attribute that requires another number of axes. ``hasattr`` returns False.

    Examples
    --------
    >>> x = agrad.zeros((2, 3, 4))
    >>> hasattr(x, "T"), x.mT.shape
    (False, (2, 4, 3))
    >>> x.T
    Traceback (most recent call last):
        ...
    agrad.errors.AxesError: .T: x must have at most 2 axes, got shape (2, 3, 4). ...
    """


class DtypeError(AgradError, TypeError):
    """An unsupported dtype, such as an integer argument of ``grad``.

    Examples
    --------
    >>> agrad.grad(agrad.sum)(np.asarray([1, 2]))
    Traceback (most recent call last):
        ...
    agrad.errors.DtypeError: the gradient of sum: argument 0 must have a floating-point dtype, got int64. ...
    """


class OperandError(AgradError, TypeError):
    """An operand that is not a Tensor, an array of a known library or a number.

    Examples
    --------
    >>> agrad.sin("1.0")
    Traceback (most recent call last):
        ...
    agrad.errors.OperandError: sin: operands must be Tensors, arrays of a known library or numbers, got str. ...
    """


class MixedBackendsError(AgradError, TypeError):
    """Arrays of several array libraries or devices in one operation.

    Examples
    --------
    >>> agrad.asarray([1.0]) + agrad.asarray([1.0], backend="array_api_strict")
    Traceback (most recent call last):
        ...
    agrad.errors.MixedBackendsError: add was given arrays of numpy and of array_api_strict. ...
    """


class BackendUnavailableError(AgradError, ImportError):
    """A backend that is not available. The message includes the cause and the fix.

    Examples
    --------
    >>> agrad.zeros(3, backend="tensorflow")
    Traceback (most recent call last):
        ...
    agrad.errors.BackendUnavailableError: Backend 'tensorflow' is unknown. agrad knows ...
    """


class DeviceUnavailableError(AgradError, ValueError):
    """A device that the backend does not have.

    Examples
    --------
    >>> agrad.zeros(3, device="tpu")
    Traceback (most recent call last):
        ...
    agrad.errors.DeviceUnavailableError: Backend 'numpy' has no device 'tpu'. Its devices: 'cpu'
    """


class RuleError(AgradError, RuntimeError):
    """A derivative rule that failed, or that returned an invalid result.

    Examples
    --------
    >>> @agrad.primitive
    ... def double(xp, x, /):
    ...     return 2 * x
    >>> @double.vjp
    ... def double_vjp(xp, g):
    ...     return xp.stack([g, g])
    >>> agrad.grad(double)(1.0)
    Traceback (most recent call last):
        ...
    agrad.errors.RuleError: the backward rule of double for x failed: ...
    """


class PrimitiveDefinitionError(AgradError, TypeError):
    """A primitive, rule or kernel with an invalid signature. Raised at import.

    Examples
    --------
    >>> @agrad.primitive
    ... def double(x):
    ...     return 2 * x
    Traceback (most recent call last):
        ...
    agrad.errors.PrimitiveDefinitionError: double: a primitive must have the signature (xp, arrays, /, *, options), ...
    """


class MissingRuleError(AgradError, NotImplementedError):
    """A required derivative rule that is not defined.

    Examples
    --------
    >>> @agrad.primitive
    ... def double(xp, x, /):
    ...     return 2 * x
    >>> agrad.grad(double)(1.0)
    Traceback (most recent call last):
        ...
    agrad.errors.MissingRuleError: ... double has no vjp rule for x. Define one with @double.vjp('x'), ...
    """


class MissingFunctionError(AgradError, NotImplementedError, AttributeError):
    """A function that is not available, for example in the array library.

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.vonmises.mean(0.5)
    Traceback (most recent call last):
        ...
    agrad.errors.MissingFunctionError: agrad.scipy.stats.vonmises does not support mean
    """


class RefusedFunctionError(AgradError, TypeError):
    """A call of a function of another library that would lose the gradient.

    Examples
    --------
    >>> np.busday_count(agrad.asarray([1.0, 2.0]), 1)
    Traceback (most recent call last):
        ...
    agrad.errors.RefusedFunctionError: numpy.busday_count does not support Tensors. ...
    """


class GraphFreedError(AgradError, RuntimeError):
    """A second backward pass through a graph after its saved values were freed.

    Examples
    --------
    >>> x = agrad.asarray(2.0, requires_grad=True)
    >>> y = x * x
    >>> y.backward()
    >>> y.backward()
    Traceback (most recent call last):
        ...
    agrad.errors.GraphFreedError: an earlier backward pass freed the values that multiply needs. ...
    """


class NotDifferentiableError(AgradError, RuntimeError):
    """A derivative of a value that is not the result of a recorded operation.

    Examples
    --------
    >>> agrad.asarray(2.0).backward()
    Traceback (most recent call last):
        ...
    agrad.errors.NotDifferentiableError: backward(): the Tensor must be recorded, got a constant. ...
    """


class LeafMutationError(AgradError, RuntimeError):
    """An in-place change that would lose a leaf, or the derivative through a view.

    Examples
    --------
    >>> x = agrad.asarray([1.0, 2.0], requires_grad=True)
    >>> x[0] = 5.0
    Traceback (most recent call last):
        ...
    agrad.errors.LeafMutationError: x[i] = v must not change a leaf that requires a gradient, or a view of it. ...
    """


class ReadOnlyViewError(AgradError, ValueError):
    """A write to a read-only view, or to one whose elements share memory.

    Examples
    --------
    >>> x = agrad.broadcast_to(agrad.asarray([1.0, 2.0]), (3, 2))
    >>> x[0, 0] = 5.0
    Traceback (most recent call last):
        ...
    agrad.errors.ReadOnlyViewError: x[i] = v: the view must be writable, but numpy returned a read-only one. ...
    """


class DetachError(AgradError, TypeError):
    """A conversion that would lose the gradient. Call ``.detach()`` first.

    Examples
    --------
    >>> x = agrad.asarray([1.0, 2.0], requires_grad=True)
    >>> np.asarray(x)
    Traceback (most recent call last):
        ...
    agrad.errors.DetachError: numpy.array() or numpy.asarray() cannot convert a Tensor that requires a gradient. ...
    """


class HiddenMemoryError(DetachError, AttributeError):
    """An attribute of only Tensors without gradient. Otherwise, ``hasattr`` is False.

    Examples
    --------
    >>> issubclass(agrad.errors.HiddenMemoryError, AttributeError)
    True
    >>> x = agrad.asarray([1.0, 2.0], requires_grad=True)
    >>> hasattr(x, "__cuda_array_interface__")
    False
    """


class TracedValueError(AgradError, TypeError):
    """A value inside a transform, used as a Python number, Boolean or index.

    Examples
    --------
    >>> agrad.jit(lambda x: x if x > 0 else -x)(np.asarray(1.0))
    Traceback (most recent call last):
        ...
    agrad.errors.TracedValueError: bool() of a value inside <lambda>, which is traced once ...
    """


class ConvergenceError(AgradError, ArithmeticError):
    """An iteration that did not converge within its maximum number of steps.

    Examples
    --------
    >>> agrad.fixed_point(lambda x: 2 * x + 1, np.asarray(1.0), maxiter=10)
    Traceback (most recent call last):
        ...
    agrad.errors.ConvergenceError: fixed_point: f must converge in 10 iterations, got a last step of 1.02e+03. ...
    """


class AnomalyError(AgradError, FloatingPointError):
    """A NaN or an infinity, found by ``detect_anomaly`` or during training.

    Examples
    --------
    >>> with np.errstate(all="ignore"), agrad.detect_anomaly():
    ...     agrad.log(np.asarray([1.0, 0.0]))
    Traceback (most recent call last):
        ...
    agrad.errors.AnomalyError: log returned a NaN or an infinity at ...
    """


class DerivativeError(AgradError, AssertionError):
    """A derivative that finite differences contradict, found by ``agrad.testing``.

    Examples
    --------
    >>> double = agrad.elementwise("double", lambda g: 3 * g, forward=lambda xp, x, /: 2 * x)
    >>> agrad.testing.check_grads(double, (np.asarray([1.0, 3.0]),))
    Traceback (most recent call last):
        ...
    agrad.errors.DerivativeError: check_grads of double: ...
    """


class KinkError(AgradError, AssertionError):
    """A point without a derivative, found by ``agrad.testing``.

    Examples
    --------
    >>> agrad.testing.check_grads(agrad.abs, (np.asarray([1.0, 0.0]),))
    Traceback (most recent call last):
        ...
    agrad.errors.KinkError: ...
    """


class DataError(AgradError, ValueError):
    """A file that is truncated, or has a wrong format or unexpected contents.

    A message that quotes the file is made ``printable`` and cut after a few lines.

    Examples
    --------
    >>> from pathlib import Path
    >>> size = Path("digits.npz").write_text("no archive")
    >>> try:
    ...     agrad.data.load_npz("digits.npz")
    ... finally:
    ...     Path("digits.npz").unlink()
    Traceback (most recent call last):
        ...
    agrad.errors.DataError: 'digits.npz': expected an archive of numpy.savez, ...
    """

    def __init__(self, message: str) -> None:
        super().__init__(brief(message))


class ConfigurationError(AgradError, ValueError):
    """An invalid value of an option, a model description or a container.

    Examples
    --------
    >>> agrad.optim.SGD([agrad.zeros(2, requires_grad=True)], lr=-1.0)
    Traceback (most recent call last):
        ...
    agrad.errors.ConfigurationError: SGD: lr must be a finite number of at least 0, got -1.0
    """


class SaveError(AgradError, OSError):
    """A path that cannot be written to, found before work starts or during a write.

    Examples
    --------
    >>> issubclass(agrad.errors.SaveError, OSError)
    True
    """


class MissingExtraError(AgradError, ImportError):
    """An optional package that is not installed. The message includes the pip extra.

    Examples
    --------
    >>> issubclass(agrad.errors.MissingExtraError, ImportError)
    True
    """


def check_functions(name: str, **functions: object) -> None:
    """Raise ``OperandError`` unless all arguments of ``name`` are functions.

    Examples
    --------
    >>> agrad.scan(np.ones(2), 0.0, np.ones(2))
    Traceback (most recent call last):
        ...
    agrad.errors.OperandError: scan: f must be a function, got ndarray of shape (2,)
    """
    for argument, value in functions.items():
        if not callable(value):
            raise OperandError(f"{name}: {argument} must be a function, got {described(value)}")
