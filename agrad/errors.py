"""The errors that agrad raises.

Each class also derives from the built-in error that Python code expects in its place: ``except ValueError`` works
around code that does not know agrad.
"""

import unicodedata
from collections.abc import Sequence

LINES, LENGTH = 12, 2000
"""The numbers of lines and characters that are shown of a message on a file."""


def printable(text: str) -> str:
    """Return ``text`` with escapes for unprintable characters.

    A terminal would act on these characters or could not show them. Line breaks and tabs stay.
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
    """Return the first names of a list, each cut to ``width``, for a readable message."""
    shown = [name[:width].replace("\n", "\\n") + "..." * (len(name) > width) for name in names[:limit]]
    return separator.join(shown + [f"... {len(names)} in all"] * (len(names) > limit))


def brief(text: str) -> str:
    """Return ``text`` made printable, and cut after a few lines."""
    shown = printable(text[:LENGTH])
    lines = shown.split("\n")
    if len(lines) > LINES:
        shown = "\n".join([*lines[:LINES], f"... {len(lines)} lines"])
    return shown[:LENGTH] + "..." * (len(text) > LENGTH or len(shown) > LENGTH)


class AgradError(Exception):
    """The base of every error that agrad raises on purpose."""


class ShapeError(AgradError, ValueError):
    """Shapes that do not fit each other, an axis or an index out of range."""


class IndexRangeError(ShapeError, IndexError):
    """An index or an axis out of range."""


class AxesError(IndexRangeError, AttributeError):
    """An attribute of Tensors of another number of axes. ``hasattr`` is False then."""


class DtypeError(AgradError, TypeError):
    """A dtype that the operation does not take, such as an integer to differentiate."""


class OperandError(AgradError, TypeError):
    """An operand that is neither a Tensor, an array of a known library, nor a number."""


class MixedBackendsError(AgradError, TypeError):
    """Arrays of two array libraries, or of two devices, in one operation."""


class BackendUnavailableError(AgradError, ImportError):
    """A backend that cannot run here. The message names the reason and the remedy."""


class DeviceUnavailableError(AgradError, ValueError):
    """A device that the backend does not have."""


class RuleError(AgradError, RuntimeError):
    """A derivative rule that failed, or whose result does not fit its argument."""


class PrimitiveDefinitionError(AgradError, TypeError):
    """A primitive, rule or kernel with an invalid signature. Raised at import."""


class MissingRuleError(AgradError, NotImplementedError):
    """An operation without a derivative rule where a derivative is needed."""


class MissingFunctionError(AgradError, NotImplementedError):
    """A standard function that the array library of the arguments lacks."""


class RefusedFunctionError(AgradError, TypeError):
    """A call of another library's function that would leave the graph.

    The message names a remedy.
    """


class GraphFreedError(AgradError, RuntimeError):
    """A second backward pass through a graph whose saved values are freed."""


class NotDifferentiableError(AgradError, RuntimeError):
    """A derivative of a value that no recorded operation made."""


class LeafMutationError(AgradError, RuntimeError):
    """An in-place change that would lose a leaf, or the derivative through a view."""


class ReadOnlyViewError(AgradError, ValueError):
    """A write to a read-only view, or to one whose elements share memory."""


class DetachError(AgradError, TypeError):
    """A conversion that would silently leave the graph. The remedy is ``.detach()``."""


class HiddenMemoryError(DetachError, AttributeError):
    """An attribute of Tensors without a gradient. ``hasattr`` is False for others."""


class TracedValueError(AgradError, TypeError):
    """A value inside a transform used as a Python number, truth value or index."""


class ConvergenceError(AgradError, ArithmeticError):
    """An iteration that did not reach its accuracy in the permitted steps."""


class AnomalyError(AgradError, FloatingPointError):
    """A NaN or an infinity, found where ``detect_anomaly`` or training looked for one."""


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
    """A file that is truncated, of a wrong format, or of unexpected contents.

    The message may quote the file. It is made ``printable`` and cut after a few lines.
    """

    def __init__(self, message: str) -> None:
        super().__init__(brief(message))


class ConfigurationError(AgradError, ValueError):
    """An option, a model description or a container whose value makes no sense."""


class SaveError(AgradError, OSError):
    """A place that cannot be written, found before work starts or during a write."""


class MissingExtraError(AgradError, ImportError):
    """An optional package that is missing. The message names the pip extra."""
