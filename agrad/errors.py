"""Every error that agrad raises, so that a caller can catch one kind and a reader can see them all.

Each class also derives from the built-in error that Python code would expect in its place, so
``except ValueError`` keeps working around code that has never heard of agrad.
"""

import unicodedata
from collections.abc import Sequence

LINES, LENGTH = 12, 2000
"""How much is shown of a message on a file."""


def printable(text: str) -> str:
    """``text`` with an escape for each character that a terminal acts on or cannot show; line breaks and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode()
        if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else c
        for c in text
    )


def listed(names: Sequence[str], limit: int = 10, separator: str = ", ", width: int = 40) -> str:
    """The first names of a list, each cut to ``width`` characters, for a message that stays readable."""
    shown = [name[:width].replace("\n", "\\n") + "..." * (len(name) > width) for name in names[:limit]]
    return separator.join(shown + [f"... {len(names)} in all"] * (len(names) > limit))


def brief(text: str) -> str:
    """``text`` made printable, and cut after a few lines."""
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
    """An attribute of Tensors of another number of axes, so that ``hasattr`` says what is true."""


class DtypeError(AgradError, TypeError):
    """A dtype that the operation has no meaning for (an integer to differentiate, say)."""


class OperandError(AgradError, TypeError):
    """An operand that is neither a Tensor, an array of a known library, nor a number."""


class MixedBackendsError(AgradError, TypeError):
    """Arrays of two array libraries, or of two devices, in one operation."""


class BackendUnavailableError(AgradError, ImportError):
    """A backend that was named and cannot run here; the message says why and what to install."""


class DeviceUnavailableError(AgradError, ValueError):
    """A device that was named and that the backend does not have."""


class RuleError(AgradError, RuntimeError):
    """A derivative rule that failed, or whose result does not fit its argument."""


class PrimitiveDefinitionError(AgradError, TypeError):
    """A primitive, a rule or a kernel whose signature breaks the notation; raised at import."""


class MissingRuleError(AgradError, NotImplementedError):
    """A derivative was asked of an operation that has none."""


class MissingFunctionError(AgradError, NotImplementedError):
    """A function of the standard that the array library of the arguments does not have."""


class RefusedFunctionError(AgradError, TypeError):
    """Another library's function was called in a way that cannot stay in the graph; the message names a remedy."""


class GraphFreedError(AgradError, RuntimeError):
    """A second backward pass through a graph whose saved values were freed by the first."""


class NotDifferentiableError(AgradError, RuntimeError):
    """``backward`` or a transform was asked of a value that no recorded operation made."""


class LeafMutationError(AgradError, RuntimeError):
    """An in-place change that would lose a leaf that requires a gradient, or the derivative through a view."""


class ReadOnlyViewError(AgradError, ValueError):
    """A write to a view whose memory the array library gives for reading alone, or in which elements share a place."""


class DetachError(AgradError, TypeError):
    """A conversion that would silently leave the graph; the remedy is ``.detach()``."""


class HiddenMemoryError(DetachError, AttributeError):
    """An attribute that a Tensor has only while it requires no gradient, so that ``hasattr`` says what is true."""


class TracedValueError(AgradError, TypeError):
    """A Python number, a truth value or an index was asked of a value inside a transform."""


class ConvergenceError(AgradError, ArithmeticError):
    """An iteration that did not reach the accuracy asked for in the number of steps it may take."""


class AnomalyError(AgradError, FloatingPointError):
    """A NaN or an infinity, found where ``detect_anomaly`` or training looked for one."""


class DerivativeError(AgradError, AssertionError):
    """A derivative that finite differences, or another way to it, contradict: found by ``agrad.testing``."""


class KinkError(AgradError, AssertionError):
    """A point where a function has no derivative, at which it cannot be checked: found by ``agrad.testing``."""


class DataError(AgradError, ValueError):
    """A file that is truncated, of a wrong format, or does not hold what was expected.

    The message may quote the file: it is made ``printable``, and cut after a few lines.
    """

    def __init__(self, message: str) -> None:
        super().__init__(brief(message))


class ConfigurationError(AgradError, ValueError):
    """An option, a model description or a container whose value makes no sense."""


class SaveError(AgradError, OSError):
    """A place that cannot be written to, found before work starts or while a file is written."""


class MissingExtraError(AgradError, ImportError):
    """An optional package that is not installed; the message names the pip extra that brings it."""
