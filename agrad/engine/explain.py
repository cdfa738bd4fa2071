"""Error messages of failed operations and of requests for plain values.

They include the shapes, devices and types of the operands, or the calling function that requested a value.
"""

import linecache
import os
import re
import sys
from collections.abc import Callable
from contextvars import ContextVar
from opcode import opmap
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from agrad.backends import backend_of_type
from agrad.dtypes import dtype_name
from agrad.engine.namespaces import NUMBERS
from agrad.engine.tensor import Tensor
from agrad.errors import AgradError, DetachError, MixedBackendsError, OperandError, RefusedFunctionError, ShapeError
from agrad.foreign import keyword_hint
from agrad.registry import CALLS, namespace
from agrad.shapes import broadcast_shapes, product_mismatch


def explained(primitive: Any, args: tuple[Any, ...], error: Exception) -> Exception:
    """Return the error to raise if a library raised one in an operation.

    It is an agrad error for invalid shapes, devices and numbers, and otherwise the original with a note on shapes.
    """
    if isinstance(error, AgradError):
        return error
    if primitive.core_axes and (few := primitive.too_few_axes(args)):
        return few
    name = primitive.name
    shapes = [tuple(a.shape) for a in args if hasattr(a, "shape")]
    text = " and ".join(map(str, shapes))
    if primitive.kind == "product":
        if len(shapes) > 1 and (why := product_mismatch(*shapes[:2])):
            return ShapeError(f"{name}: shapes {text} are incompatible: {why}")
    elif primitive.broadcasts:
        try:
            broadcast_shapes(*[shape[: len(shape) - primitive.own_axes(i)] for i, shape in enumerate(shapes)])
        except ShapeError:
            return ShapeError(f"{name}: shapes {text} must be broadcastable")
    raws = [a.raw if isinstance(a, Tensor) else a for a in args]
    arrays = [a for a in raws if hasattr(a, "shape") and not isinstance(a, np.generic)]
    backends = [(backend_of_type(type(a)), a) for a in arrays]
    devices = {str(backend.device_of(a)) for backend, a in backends if backend is not None}
    if len(devices) > 1:
        return MixedBackendsError(
            f"{name}: arrays must be on one device, got {' and '.join(sorted(devices))}. Move one: x.to_device(device)."
        )
    first = backends[0][0] if backends else None
    if primitive.variadic and first is not None:
        arrays_too = np.generic if first.name == "numpy" else ()  # NumPy results of shape () are scalars
        numbers = [a for a in raws if isinstance(a, (*NUMBERS, np.generic)) and not isinstance(a, arrays_too)]
        if numbers:
            made = f"agrad.asarray({numbers[0]!r}, backend={first.name!r})"
            return OperandError(f"{name}: operands must be arrays, got the number {numbers[0]!r}. Write {made}.")
    if arrays and all(dtype_name(a.dtype) == "bool" for a in arrays):
        error.add_note("Boolean arrays have no arithmetic on every backend. Cast them first: x.astype('int64').")
    error.add_note(f"in agrad's {name} on shapes {text}")
    return error


# ------------------------------------------------------------------ requests for values

_CONVERSION, _NUMBERS = "numpy.asarray()", ("float()", "complex()")
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_SPARSE_OPERATORS = ("__mul__", "__truediv__", "_matmul_dispatch")
_WRITES = frozenset(map(opmap.get, ("STORE_SUBSCR", "STORE_SLICE")))
_WRITABLE = "A NumPy array cannot store a Tensor. Use agrad.zeros(shape), agrad.stack, or import agrad.numpy as np."


def detach_error(what: str, means: str = "pass x.detach()") -> DetachError:
    """Return the error of a conversion that would drop the gradient.

    The message contains the function that requested the value, and a fix. ``means`` is the fix for a constant.
    """
    what, remedy, counterpart = _asker(what)
    if counterpart:
        return DetachError(f"{what} cannot convert a Tensor that requires a gradient. Call {counterpart} instead.")
    return DetachError(
        f"{what} cannot convert a Tensor that requires a gradient. {remedy}If the result needs no gradient, {means}."
    )


def note_asker(error: Exception, what: str) -> None:
    """Add a note on the function that requested a traced value, if there is a fix."""
    asked, remedy, counterpart = _asker(what)
    if counterpart or remedy:
        error.add_note(f"Requested by {asked}. " + (f"Call {counterpart} instead." if counterpart else remedy.rstrip()))


def _asker(what: str) -> tuple[str, str, str]:
    """Return the caller that requested a value, a fix, and an agrad counterpart."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    frames = _askers(frame)
    while frame is not None and _package(frame):
        frame = frame.f_back
    called = "" if frame is None else _called_at(frame)
    if what in _NUMBERS:
        return (f"{called}()" if called else what), "", CALLS["counterpart"](called)
    if what != _CONVERSION:
        return what, "", ""
    if frame is not None and frame.f_code.co_code[frame.f_lasti] in _WRITES:
        return "x[i] = v of a NumPy array", f"{_WRITABLE} ", ""
    return _conversion(frames, called)


def _called_at(frame: FrameType) -> str:
    """Return the ``math`` or SciPy function that a frame calls, from its source."""
    first, _, start, end = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    line = linecache.getline(frame.f_code.co_filename, first or 0, frame.f_globals).encode()[start:end]
    text = re.match(r"[^\W\d][\w.]*(?=\s*\()", line.decode(errors="replace"))
    head, *parts = text.group().split(".") if text else [""]
    value = {**frame.f_globals, **frame.f_locals}.get(head)
    for part in parts:
        value = getattr(value, part, None) if isinstance(value, ModuleType) else None
    module, name = str(getattr(value, "__module__", None)).partition("._")[0], getattr(value, "__name__", None)
    return f"{module}.{name}" if name and module.startswith(("math", "cmath", "scipy.")) else ""


def _conversion(frames: list[FrameType], called: str) -> tuple[str, str, str]:
    """Return the function that requested an array, a fix, and an agrad counterpart."""
    public = [frame for frame in frames if not frame.f_code.co_name.startswith(("_", "<", "wrapper", "inner"))]
    if not public:
        own = frames[-1].f_locals.get("self") if frames else None
        for name in [name for name, value in vars(np).items() if value is own and hasattr(own, "concatenate")]:
            joins = "Join Tensors with numpy.hstack([x, y]), or as columns with numpy.column_stack([x, y]). "
            return f"numpy.{name}[...]", joins, ""
        if called.startswith("scipy."):
            return f"{called}()", "", CALLS["counterpart"](called)
        joins = "Call agrad.asarray(x) instead, or join several with np.stack([x, y]) or agrad.asarray([x, y]). "
        return "numpy.array() or numpy.asarray()", joins, ""
    asked, name = public[-1], public[-1].f_code.co_name
    module = str(asked.f_globals["__name__"]).partition("._")[0]
    if hasattr(sys.modules[module.partition(".")[0]], name):
        module = module.partition(".")[0]
    remedy = f"This function of {module} supports only NumPy arrays. "
    if asked.f_code.co_argcount and _holds_tensors(asked.f_locals.get(asked.f_code.co_varnames[0])):
        remedy = "It does not support lists of Tensors. Pass one Tensor: agrad.asarray([x, y]) or numpy.stack([x, y]). "
    beside = asked.f_locals.get("self") if "other" in asked.f_locals else None
    values = next((method for method in ("to_numpy", "toarray") if hasattr(beside, method)), None)
    if values is not None:
        remedy += f"Mix a Tensor with the values of the {type(beside).__name__}: .{values}(). "
    by_namespace = any(
        "array_namespace" in frame.f_code.co_names and "._lib." not in frame.f_globals["__name__"] for frame in frames
    )
    if by_namespace and module.startswith("scipy") and os.environ.get("SCIPY_ARRAY_API") != "1":
        remedy += "It supports Tensors if you set SCIPY_ARRAY_API=1 in the environment before SciPy is imported. "
    full = called if called.startswith(f"{module}.") else f"{module}.{_within(asked, module)}{name}"
    return f"{full}()", remedy, CALLS["counterpart"](full)


def _within(asked: FrameType, module: str) -> str:
    """Return ``"norm."`` for a method of ``scipy.stats.norm``, otherwise ``""``."""
    own = asked.f_locals.get("self")
    kind = type(getattr(own, "dist", getattr(own, "_dist", own)))
    found = [name for name, value in vars(sys.modules[module]).items() if type(value) is kind and own is not None]
    return f"{found[0]}." if found else ""


def _holds_tensors(value: Any) -> bool:
    """Return True for a list or tuple with a Tensor in it, at any depth."""
    return isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) or _holds_tensors(v) for v in value)


def is_no_array_to(frame: FrameType | None, tensor: Tensor) -> bool:
    """Return True for a caller that leaves operators to other objects.

    Operators of SciPy sparse matrices convert the other operand. For an array of objects they return NotImplemented,
    and Python calls the method of the Tensor.
    """
    while frame is not None and frame.f_globals.get("__package__") == "scipy.sparse":
        if frame.f_code.co_name in _SPARSE_OPERATORS:
            return frame.f_locals.get("other") is tensor
        frame = frame.f_back
    return False


def only_compares(frame: FrameType) -> bool:
    """Return True for the assertions of ``numpy.testing``, which only read."""
    return str(frame.f_globals.get("__name__")).startswith("numpy.testing.")


def _askers(frame: FrameType | None) -> list[FrameType]:
    """Return the callers' frames of one installed package, the innermost first."""
    found: list[FrameType] = []
    package = None if frame is None else _package(frame)
    while frame is not None and package and _package(frame) in (package, "numpy"):
        found.append(frame)
        frame = frame.f_back
        if package == "numpy" and frame is not None and _package(frame) not in (None, "numpy"):
            package, found = _package(frame), []  # it called a NumPy function
    return found


def _package(frame: FrameType) -> str | None:
    installed = "site-packages" in frame.f_code.co_filename or "dist-packages" in frame.f_code.co_filename
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] if installed else None


# ------------------------------------------------------------------ plain arrays mixed with Tensors

NOT_IN_BLOCKS = (
    "dask.array.map_blocks and map_overlap accept no Tensors, whose derivatives would be lost.",
    "Call agrad.parallel.chunked(f) for a sum over chunks of rows, write a stencil with slices (x[1:] - x[:-1]), or "
    "pass x.detach().raw.",
)
"""An error, and its fix."""

_BESIDE = "Convert it with agrad.asarray(array) to mix it with Tensors."
_NOTES = {
    "setting an array element with a sequence": _WRITABLE,
    "Multiple namespaces for array inputs": _BESIDE,
}


RUNNING: ContextVar[tuple[Any, ...] | None] = ContextVar("agrad_running", default=None)
"""The arguments of the innermost function that a transform calls, or None outside of transforms."""


def called(f: Callable[..., Any], /, *args: Any, **settings: Any) -> Any:
    """Call a user function. Errors of other libraries about Tensors get a note."""
    token = RUNNING.set((args, settings))
    try:
        return f(*args, **settings)
    except (ValueError, TypeError) as error:
        hint = keyword_hint(str(error)) if str(error).partition("()")[0] in vars(namespace) else ""
        if hint and hint not in str(error):
            error.add_note(hint.strip(". "))
        names, foreign = _raw_arrays(error)
        if "must be arrays, not" in str(error) and "Tensor" in str(error) and "map_overlap" in str(error):
            raise RefusedFunctionError(" ".join(NOT_IN_BLOCKS)) from error
        remedies = [remedy for text, remedy in _NOTES.items() if text in str(error)] + [_BESIDE] * foreign
        for remedy in remedies[:1]:
            if not any(remedy in note for note in getattr(error, "__notes__", ())):
                error.add_note(f"{names or 'An array'} is a plain array, not a Tensor. {remedy}")
        raise
    finally:
        RUNNING.reset(token)


def _raw_arrays(error: Exception) -> tuple[str, bool]:
    """Return the names of the plain arrays in the innermost line of user code.

    Also return True if a NumPy function raised the error and one of these arrays is of another library.
    """
    names, foreign = "", False
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        foreign = foreign and _package(frame) == "numpy"
        if not frame.f_code.co_filename.startswith(_OWN) and _package(frame) is None:
            line = linecache.getline(frame.f_code.co_filename, trace.tb_lineno, frame.f_globals)
            values = {**frame.f_globals, **frame.f_locals}
            words = dict.fromkeys(re.findall(r"[^\W\d]\w*", line))
            kinds = {w: backend for w in words if (backend := backend_of_type(type(values.get(w)))) is not None}
            names = " or ".join(f"`{w}`" for w in kinds)
            foreign = trace.tb_next is not None and any(backend.name != "numpy" for backend in kinds.values())
        trace = trace.tb_next
    return names, foreign


CALLS["detach_error"] = detach_error
CALLS["note_asker"] = note_asker
CALLS["is_no_array_to"] = is_no_array_to
CALLS["only_compares"] = only_compares
