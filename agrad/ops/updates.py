"""Optimizer steps as operations: new parameters and new state out of old ones, by PyTorch's formulas.

They are pure functions, on every backend. ``donate`` says that nobody else can see the arrays, so that a backend's
kernel may write the results into them; the generic bodies have no use for it. On Tensors the body itself is recorded,
so that a step can be differentiated. They are no part of the array API face.
"""

import math
from typing import Any

from agrad.backends import backend_of
from agrad.dtypes import is_complex
from agrad.engine.notation import primitive
from agrad.engine.tensor import Tensor
from agrad.registry import namespace


def donatable(tensor: Tensor) -> bool:
    """Whether a Tensor's array may be overwritten, as no recorded operation, view or variable can see it."""
    return backend_of(tensor.data).donatable(tensor)


@primitive(out=("p_new", "v_new"), constant=("p", "g", "v"), overwrites=("p", "v"), batch="axis")
def sgd_update(
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
    """One step of stochastic gradient descent: the new parameter and the new velocity.

    p, g, v: parameter, gradient and velocity, of one shape and floating dtype. At the first step v is zero and
    ``dampening`` is 0. Without momentum v is not read, comes back as it is, and any array like p will do.
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


@primitive(out=("p_new", "m_new", "v_new"), constant=("p", "g", "m", "v"), overwrites=("p", "m", "v"), batch="axis")
def adam_update(
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
    """One step of Adam (Kingma and Ba 2015, arXiv:1412.6980): the new parameter and the new moments.

    p, g, m, v: parameter, gradient, first and second moment, of one shape and floating dtype. ``step`` counts from 1.
    ``decoupled``: weight decay as in AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101), else added to the gradient.
    Of complex arrays the real and the imaginary parts are updated each by itself, in v too.
    """
    rate, floor = adam_rate(lr, beta1, beta2, step), adam_floor(eps, beta2, step)
    return adam_given(xp, p, g, m, v, lr, beta1, beta2, weight_decay, decoupled, rate, floor)


def adam_rate(lr: float, beta1: float, beta2: float, step: int) -> float:
    """What Adam's quotient of moments is multiplied by, with the corrections of both in it."""
    return lr / (1 - beta1**step) * (1 - beta2**step) ** 0.5


def adam_floor(eps: float, beta2: float, step: int) -> float:
    """What Adam adds to the root of the second moment, with its correction in it."""
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
    """``adam_update`` for a count that only the device knows: ``step`` is an array of shape ()."""
    xp = namespace
    step = xp.astype(step, xp.real(p).dtype if is_complex(p.dtype) else p.dtype)
    root = xp.sqrt(_correction(xp, beta2, step))
    rate, floor = root / _correction(xp, beta1, step) * lr, root * eps
    return adam_given(xp, p, g, m, v, lr, beta1, beta2, weight_decay, decoupled, rate, floor)


def _correction(xp: Any, beta: float, step: Any) -> Any:
    """1 - beta**step of an array, without the cancellation that single precision would suffer."""
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
    """One step of Adam for the numbers that follow from the count of steps, which so may be inputs of a program."""
    if not is_complex(p.dtype):
        return _adam(xp, p, g, m, v, lr, beta1, beta2, weight_decay, decoupled, rate, floor)
    parts = [
        _adam(xp, *map(of, (p, g, m, v)), lr, beta1, beta2, weight_decay, decoupled, rate, floor)
        for of in (xp.real, xp.imag)
    ]
    return tuple([xp.astype(re, p.dtype) + xp.astype(im, p.dtype) * 1j for re, im in zip(*parts, strict=True)])


def _adam(
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
) -> tuple[Any, Any, Any]:
    if weight_decay and not decoupled:
        g = g + p * weight_decay
    elif weight_decay:
        p = p * (1 - lr * weight_decay)
    m = m + (g - m) * (1 - beta1)
    v = v * beta2 + g * g * (1 - beta2)
    # lr * (m / c1) / (sqrt(v / c2) + eps) with the corrections c1 and c2 taken out, to pass over the arrays less often
    return p - m / (xp.sqrt(v) + floor) * rate, m, v


_sgd_body, _sgd_call = sgd_update.primitive.forward, sgd_update.bind
_adam_body, _adam_call = adam_update.primitive.forward, adam_update.bind


@sgd_update.door
def sgd_update(p: Any, g: Any, v: Any, /, **settings: Any) -> Any:
    if any(isinstance(x, Tensor) for x in (p, g, v)):
        return _sgd_body(namespace, p, g, v, **settings)
    return _sgd_call(p, g, v, **settings)


@adam_update.door
def adam_update(p: Any, g: Any, m: Any, v: Any, /, **settings: Any) -> Any:
    if any(isinstance(x, Tensor) for x in (p, g, m, v)):
        return _adam_body(namespace, p, g, m, v, **settings)
    return _adam_call(p, g, m, v, **settings)


__all__: list[str] = []
