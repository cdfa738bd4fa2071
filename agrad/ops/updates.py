"""Optimizer steps as operations, by PyTorch's formulas.

They are pure functions on every backend, and not public. With ``donate`` no other object can see the arrays, and a
backend's kernel may write the results into them; the generic bodies ignore it. On Tensors the operations of the body
are recorded: a step can be differentiated.
"""

import math
from typing import Any

from agrad.backends import backend_of_type
from agrad.dtypes import is_complex
from agrad.engine.tensor import Tensor
from agrad.ops.definition import primitive
from agrad.registry import namespace


def donatable(tensor: Tensor) -> bool:
    """Return True if a Tensor's array may be overwritten.

    No recorded operation, view or variable can see such an array. An array that is traced is never overwritten: the
    program decides.
    """
    backend = backend_of_type(type(tensor.data))
    return backend is not None and backend.donatable(tensor)


@primitive(name="sgd_update", out=("p_new", "v_new"), constant=("p", "g", "v"), overwrites=("p", "v"), batch="axis")
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
    if weight_decay:
        d = p * weight_decay - g if maximize else p * weight_decay + g
    elif maximize:
        d = -g
    if momentum:
        v = v * momentum + (d * (1 - dampening) if dampening else d)
        d = d + v * momentum if nesterov else v
    return p - d * lr, v


@primitive(
    name="adam_update",
    out=("p_new", "m_new", "v_new"),
    constant=("p", "g", "m", "v"),
    overwrites=("p", "m", "v"),
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
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    step: int,
    donate: bool,
) -> Any:
    """Return the new parameter and moments of a step of Adam.

    Kingma and Ba 2015, arXiv:1412.6980. p, g, m, v: parameter, gradient, first and second moment, of one shape and
    floating dtype. ``step`` counts from 1. ``decoupled``: weight decay as in AdamW (Loshchilov and Hutter 2019,
    arXiv:1711.05101), else added to the gradient. Of complex arrays the real and the imaginary parts are updated each
    by itself, in v too.
    """
    rate, floor = adam_rate(lr, beta1, beta2, step), adam_floor(eps, beta2, step)
    return adam_given(xp, p, g, m, v, lr, beta1, beta2, weight_decay, decoupled, rate, floor)


def adam_rate(lr: float, beta1: float, beta2: float, step: int) -> float:
    """Return the factor of Adam's quotient of moments, with the corrections of both."""
    return lr / (1 - beta1**step) * (1 - beta2**step) ** 0.5


def adam_floor(eps: float, beta2: float, step: int) -> float:
    """Return Adam's addend to the root of the second moment, with its correction."""
    return eps * (1 - beta2**step) ** 0.5


def adam_update_counted(
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    step: Any,
    donate: bool,
) -> tuple[Any, ...]:
    """Compute ``adam_update`` for a count of steps that is on the device.

    ``step``: an array of shape ().
    """
    xp = namespace
    step = xp.astype(step, xp.real(p).dtype if is_complex(p.dtype) else p.dtype)
    root = xp.sqrt(_correction(xp, beta2, step))
    rate, floor = root / _correction(xp, beta1, step) * lr, root * eps
    return adam_given(xp, p, g, m, v, lr, beta1, beta2, weight_decay, decoupled, rate, floor)


def _correction(xp: Any, beta: float, step: Any) -> Any:
    """Return 1 - beta**step of an array, without cancellation in single precision."""
    return -xp.expm1(step * math.log(beta)) if beta else xp.ones_like(step)


def adam_given(
    xp: Any,
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    decoupled: bool,
    rate: float,
    floor: float,
) -> tuple[Any, ...]:
    """Compute a step of Adam from the numbers that follow from the count of steps.

    A program may take these as inputs.
    """
    if is_complex(p.dtype):
        parts = [
            adam_given(xp, *map(of, (p, g, m, v)), lr, beta1, beta2, weight_decay, decoupled, rate, floor)
            for of in (xp.real, xp.imag)
        ]
        return tuple([xp.astype(re, p.dtype) + xp.astype(im, p.dtype) * 1j for re, im in zip(*parts, strict=True)])
    if weight_decay and not decoupled:
        g = g + p * weight_decay
    elif weight_decay:
        p = p * (1 - lr * weight_decay)
    m = m + (g - m) * (1 - beta1)
    v = v * beta2 + g * g * (1 - beta2)
    # lr * (m / c1) / (sqrt(v / c2) + eps) with the corrections c1 and c2 taken out, to pass over the arrays less often
    return p - m / (xp.sqrt(v) + floor) * rate, m, v


def sgd_update(p: Any, g: Any, v: Any, /, **settings: Any) -> Any:
    """Compute ``sgd_update_p``.

    On Tensors the operations in it are recorded: the step can be differentiated.
    """
    return _recorded(sgd_update_p, p, g, v, **settings)


def adam_update(p: Any, g: Any, m: Any, v: Any, /, **settings: Any) -> Any:
    """Compute ``adam_update_p``.

    On Tensors the operations in it are recorded: the step can be differentiated.
    """
    return _recorded(adam_update_p, p, g, m, v, **settings)


def _recorded(update: Any, /, *arrays: Any, **settings: Any) -> Any:
    if any(isinstance(x, Tensor) for x in arrays):
        return update.primitive.forward(namespace, *arrays, **settings)
    return update(*arrays, **settings)
