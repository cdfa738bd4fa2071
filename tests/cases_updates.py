"""The rows of the optimizers' steps."""

from typing import Any

import numpy as np
from table import complex_normal, constant, ex, normal, positive, row

from agrad.registry import PRIMITIVES


def _sgd(xp: Any, p: Any, g: Any, v: Any, donate: bool, **o: Any) -> Any:
    d = (-g if o["maximize"] else g) + o["weight_decay"] * p
    v = o["momentum"] * v + (1 - o["dampening"]) * d if o["momentum"] else v
    step = d + o["momentum"] * v if o["nesterov"] else v
    return p - o["lr"] * (step if o["momentum"] else d), v


def _adam(xp: Any, p: Any, g: Any, m: Any, v: Any, donate: bool, step: int, **o: Any) -> Any:
    p, g = p * (o["shrink"] or 1), g + o["decay"] * p
    m, v = o["beta1"] * m + (1 - o["beta1"]) * g, o["beta2"] * v + (1 - o["beta2"]) * g**2
    return p - o["rate"] * m / (np.sqrt(v) + o["floor"]), m, v


SGD = {
    "lr": 0.1,
    "momentum": 0.0,
    "dampening": 0.0,
    "nesterov": False,
    "weight_decay": 0.0,
    "maximize": False,
    "donate": False,
}
ADAM = {
    "rate": 0.06,
    "floor": 1e-9,
    "beta1": 0.9,
    "beta2": 0.99,
    "decay": 0.0,
    "shrink": None,
    "step": 3,
    "donate": False,
}
_MASK = constant([[True, False, True], [False, False, True]])
# fmt: off
row("renew",
    ex("some", _MASK, normal(2, 3), normal(2, 3), donate=False),
    ex("all", constant(True), normal(2, 3), normal(2, 3), donate=False),
    ex("0-d", constant(False), normal(), normal(), donate=False),
    ex("complex", constant(True), complex_normal(2, 3), complex_normal(2, 3), donate=False),
    call=PRIMITIVES["renew"].bind, reference=lambda xp, where, x, new, donate: np.where(where, new, x))
row("sgd_update", *[
        ex(label, normal(2, 3), normal(2, 3), normal(2, 3), **{**SGD, **changed})
        for label, changed in {
            "plain": {}, "momentum": {"momentum": 0.9}, "nesterov": {"momentum": 0.9, "nesterov": True},
            "dampening": {"momentum": 0.9, "dampening": 0.5}, "decay": {"weight_decay": 0.01, "momentum": 0.5},
            "maximize": {"weight_decay": 0.01, "maximize": True},
        }.items()
    ], call=PRIMITIVES["sgd_update"].bind, reference=_sgd, constant=True)
row("adam_update", *[
        ex(label, normal(2, 3), normal(2, 3), normal(2, 3), positive(2, 3), **{**ADAM, **changed})
        for label, changed in {
            "plain": {}, "first step": {"step": 1}, "decay": {"decay": 0.01}, "decoupled": {"shrink": 0.999},
        }.items()
    ], call=PRIMITIVES["adam_update"].bind, reference=_adam, constant=True)
# fmt: on
