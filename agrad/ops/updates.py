"""Optimizer steps as operations, with the formulas of PyTorch.

They are pure functions on every backend, and not public. With ``donate`` no other object can see the arrays, and a
backend's kernel may write the results into them; the generic bodies ignore it. On Tensors the operations of the body
are recorded: a step can be differentiated.
"""

import functools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from agrad.backends import backend_of_type
from agrad.backends.base import SEPARATE, Backend
from agrad.dtypes import is_complex
from agrad.engine.namespaces import namespace_of
from agrad.engine.scalars import host_call
from agrad.engine.tape import mode
from agrad.engine.tensor import Tensor
from agrad.ops.definition import primitive
from agrad.registry import namespace


class _Backends(dict[type, Backend | None]):
    """The backends by array type, None for Tensors."""

    def __missing__(self, kind: type) -> Backend | None:
        self[kind] = found = backend_of_type(kind)
        return found


_BACKENDS = _Backends()


def donatable(tensor: Tensor) -> Any:
    """Return True if a Tensor's array may be overwritten.

    No recorded operation, view or variable can see such an array. For a traced array it is a traced number: each call
    of the compiled function decides.
    """
    backend = _BACKENDS[type(tensor.data)]
    if backend is None:
        trace = mode().trace
        return trace is not None and trace.donation(tensor.data)
    return backend.donatable(tensor)[0]


Update = TypeVar("Update", bound=Callable[..., Any])

_UNREAD: set[Any] = set()


def unread(update: Update) -> Update:
    """Mark an optimizer's method that does not read what its operation returns."""
    _UNREAD.add(update)
    return update


def jointly(update: Any, tensor: Tensor) -> AbstractContextManager[None]:
    """Return a context whose calls of a method may be computed together.

    They are, at its end, if the method is marked as ``unread`` and the backend of ``tensor``, one of the parameters,
    can do it.
    """
    backend = _BACKENDS[type(tensor.data)] if getattr(update, "__func__", None) in _UNREAD else None
    return SEPARATE if backend is None else backend.joint


@primitive(
    name="renew",
    constant="where",
    broadcasts=True,
    masks=True,
    moves=True,
    jointly=True,
    overwrites="x",
    batch="leading",
    kind="elementwise",
)
def renew_p(xp: Any, where: Any, x: Any, new: Any, /, *, donate: bool) -> Any:
    """Return ``new`` if a condition holds, otherwise ``x``, which it may overwrite."""
    return xp.where(where, new, x)


@renew_p.vjp("x")
@renew_p.jvp("x")
def renew_x(xp: Any, g: Any, where: Any) -> Any:
    return xp.where(where, xp.zeros_like(g), g)


@renew_p.vjp("new")
@renew_p.jvp("new")
def renew_new(xp: Any, g: Any, where: Any) -> Any:
    return xp.where(where, g, xp.zeros_like(g))


@primitive(
    name="sgd_update",
    out=("p_new", "v_new"),
    constant=("p", "g", "v"),
    overwrites=("p", "v"),
    is_update=True,
    batch="axis",
)
def sgd_update_p(
    xp: Any,
    p: Any,
    g: Any,
    v: Any,
    /,
    *,
    lr: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    weight_decay: float,
    maximize: bool,
    donate: bool,
) -> Any:
    """Return the new parameter and velocity of a step of stochastic gradient descent.

    p, g, v: parameter, gradient and velocity, of one shape and floating dtype. At the first step v is zero and
    ``dampening`` is 0. Without momentum v is returned and not read; it may be any array like p.
    """
    d = g
    # compared with 0, so that a trace depends only on the outcome
    if weight_decay != 0:
        d = p * weight_decay - g if maximize else p * weight_decay + g
    elif maximize:
        d = -g
    if momentum != 0:
        v = v * momentum + (d * (1 - dampening) if dampening != 0 else d)
        d = d + v * momentum if nesterov else v
    return p - d * lr, v


@primitive(
    name="adam_update",
    out=("p_new", "m_new", "v_new"),
    constant=("p", "g", "m", "v"),
    overwrites=("p", "m", "v"),
    is_update=True,
    batch="axis",
)
def adam_update_p(
    xp: Any,
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    /,
    *,
    rate: float,
    floor: float,
    beta1: float,
    beta2: float,
    decay: float,
    shrink: float | None,
    step: int,
    donate: bool,
) -> Any:
    """Return the new parameter and moments of a step of Adam.

    Kingma and Ba 2015, arXiv:1412.6980. p, g, m, v: parameter, gradient, first and second moment, of one shape and
    floating dtype. rate, floor: the numbers of ``adam_numbers``. ``decay`` is the multiple of the parameter that is
    added to its gradient. ``shrink`` is the factor of the parameter in AdamW (Loshchilov and Hutter 2019,
    arXiv:1711.05101), None otherwise. ``step`` counts from 1, for kernels that do something every so many steps. The
    real and the imaginary parts of complex arrays are updated independently, also in v.
    """
    return adam_given(xp, p, g, m, v, rate, floor, beta1, beta2, decay, shrink)


def adam_numbers(xp: Any, lr: Any, beta1: float, beta2: float, eps: float, count: Any) -> tuple[Any, Any]:
    """Return the numbers of a step of Adam with the corrections of both moments.

    They are the factor of the quotient of moments, and the addend to the root of the second moment.
    """
    root = correction(xp, beta2, count) ** 0.5
    return lr / correction(xp, beta1, count) * root, eps * root


host_adam_numbers = functools.lru_cache(maxsize=64)(adam_numbers)
"""The numbers on the host, computed once for all parameters of a step."""


def adam_number(place: int, *options: Any) -> float:
    """Return one of the numbers of ``adam_numbers``, as a computation on the host."""
    number: float = host_adam_numbers(None, *options)[place]
    return number


def adam_given(
    xp: Any, p: Any, g: Any, m: Any, v: Any, rate: Any, floor: Any, beta1: float, beta2: float, decay: float,
    shrink: Any, v_max: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Compute a step of Adam from the numbers of ``adam_numbers``.

    With v_max, the largest second moment so far, it is a step of AMSGrad, and the last result is the new one.
    """
    if is_complex(p.dtype):
        numbers = (rate, floor, beta1, beta2, decay, shrink)
        parts = [
            adam_given(xp, *map(of, (p, g, m, v)), *numbers, None if v_max is None else of(v_max))
            for of in (xp.real, xp.imag)
        ]
        return tuple([xp.astype(re, p.dtype) + xp.astype(im, p.dtype) * 1j for re, im in zip(*parts, strict=True)])
    if decay != 0:
        g = g + p * decay
    if shrink is not None:
        p = p * shrink
    m = m + (g - m) * (1 - beta1)
    v = v * beta2 + g * g * (1 - beta2)
    largest = () if v_max is None else (xp.maximum(v_max, v),)
    # lr * (m / c1) / (sqrt(v / c2) + eps) with the corrections c1 and c2 taken out, to pass over the arrays less often
    return p - m / (xp.sqrt(largest[0] if largest else v) + floor) * rate, m, v, *largest


def sgd_update(p: Any, g: Any, v: Any, /, **settings: Any) -> Any:
    """Compute ``sgd_update_p``.

    On Tensors the operations in it are recorded: the step can be differentiated.
    """
    xp, settings["lr"], p, g, v = together(settings["lr"], p, g, v)
    if xp is namespace:
        return sgd_update_p.primitive.forward(namespace, p, g, v, **settings)  # type: ignore[attr-defined]
    return sgd_update_p(p, g, v, **settings)


def together(*values: Any) -> tuple[Any, ...]:
    """Return the namespace for values, and the values.

    If one is a Tensor, plain arrays become Tensors, because the operators of some libraries do not accept Tensors on
    their right.
    """
    xp = namespace_of(values)
    if xp is namespace:
        raw = [hasattr(x, "shape") and not isinstance(x, Tensor) for x in values]
        values = tuple([xp.asarray(x) if is_raw else x for x, is_raw in zip(values, raw, strict=True)])
    return xp, *values


def by_parts(formula: Any, p: Any, g: Any, arrays: Any, count: Any, options: dict[str, Any]) -> tuple[Any, ...]:
    """Compute the update of an optimizer by a formula of real arrays.

    ``formula(xp, p, g, arrays, count, **options)`` returns the new parameter and state. Real and imaginary parts of
    complex arrays are updated independently. The count is a number, or an array of shape () of the parameter's dtype.
    """
    xp, p, g, count, lr, *arrays = together(p, g, count, options["lr"], *arrays)
    options = {**options, "lr": lr}
    if hasattr(count, "shape"):
        count = xp.astype(count, xp.real(p).dtype if is_complex(p.dtype) else p.dtype)
    # NumPy functions return scalars for 0-D arrays, and a program would not accept those as its inputs
    flat = [a.shape == () for a in (p, *arrays)]
    if flat[0]:
        p, g, *arrays = [a if a.shape else xp.reshape(a, (1,)) for a in (p, g, *arrays)]
    if is_complex(p.dtype):
        new = _of_parts(formula, xp, p, g, arrays, count, options)
    else:
        new = formula(xp, p, g, arrays, count, **options)
    return tuple([xp.reshape(a, ()) if f else a for a, f in zip(new, flat, strict=True)]) if flat[0] else new


def _of_parts(formula: Any, xp: Any, p: Any, g: Any, arrays: Any, count: Any, options: dict[str, Any]) -> Any:
    """Compute a formula of the real parts and of the imaginary parts."""
    split = [is_complex(a.dtype) for a in arrays]
    re, im = (
        formula(xp, of(p), of(g), [of(a) if s else a for a, s in zip(arrays, split, strict=True)], count, **options)
        for of in (xp.real, xp.imag)
    )
    joined = [xp.astype(a, p.dtype) + xp.astype(b, p.dtype) * 1j for a, b in zip(re, im, strict=True)]
    return tuple([whole if s else a for whole, a, s in zip(joined, re, [True, *split], strict=True)])


def descent(p: Any, g: Any, weight_decay: float, maximize: bool) -> Any:
    """Return the gradient of the minimized function, with weight decay."""
    if maximize:
        g = -g
    return g + p * weight_decay if weight_decay != 0 else g


def correction(xp: Any, beta: float, count: Any) -> Any:
    """Return 1 - beta**count, the correction of a moving average that began at 0."""
    if not hasattr(count, "shape"):
        return 1 - beta**count
    # without cancellation in single precision
    return -xp.expm1(count * host_call(math.log, beta)) if beta != 0 else xp.ones_like(count)
