"""Rows of operations for speed, of the greatest elements, of segments, and of the optimizers' steps."""

from typing import Any

import numpy as np
from table import complex_normal, composite, constant, distinct, ex, normal, positive, row, values

import agrad
from agrad.registry import PRIMITIVES


def _cross_entropy(xp: Any, x: Any, labels: Any, ignore: Any, smoothing: float, reduction: str) -> Any:
    log_p = x - np.log(np.sum(np.exp(x), axis=1, keepdims=True))
    kept = np.ones(len(labels), bool) if ignore is None else labels != ignore
    targets = (1 - smoothing) * np.eye(x.shape[1])[labels] + smoothing / x.shape[1]
    losses = np.where(kept, -np.sum(targets * log_p, axis=1), 0)
    divisor = np.sum(kept) if reduction == "mean" else 1.0
    return losses if reduction == "none" else np.sum(losses) / divisor, np.asarray(divisor, x.dtype)


# fmt: off
row("cross_entropy_of_labels",
    *[ex(f"{how}, ignore {ignore}, smoothing {smoothing}", normal(4, 3), constant([2, 0, 1, 1]), ignore=ignore,
         smoothing=smoothing, reduction=how)
      for how in ("mean", "sum", "none") for ignore, smoothing in ((None, 0.0), (1, 0.0), (None, 0.25), (1, 0.25))],
    ex("no rows", normal(0, 3), constant(np.zeros(0, np.int64)), ignore=None, smoothing=0.0, reduction="sum"),
    ex("the loss alone", normal(3, 2), constant([1, 0, 1], np.int32), ignore=0, smoothing=0.0, reduction="mean",
       call=lambda x, n, **how: PRIMITIVES["cross_entropy_of_labels"].bind(x, n, **how)[0],
       reference=lambda xp, x, n, **how: _cross_entropy(xp, x, n, **how)[0]),
    call=PRIMITIVES["cross_entropy_of_labels"].bind, reference=_cross_entropy)
row("between", ex("vector", distinct(5), low=-0.4, high=0.4), ex("matrix", distinct(2, 3), low=-1, high=0.3),
    ex("0-d", normal(), low=-9.0, high=9.0), ex("all below", values([-3.0, -2.0]), low=0.0, high=1.0),
    ex("infinite limits", normal(3), low=-np.inf, high=np.inf), ex("empty", normal(0, 2), low=0.0, high=1.0),
    ex("at the limits", values([-1.0, 0.25, 2.0]), low=-1.0, high=2.0, kink=True),
    call=PRIMITIVES["between"].bind, reference=lambda xp, x, low, high: np.clip(x, low, high))
row("linalg.outer", ex("vectors", normal(2), normal(3)), ex("one element", normal(1), normal(3)),
    ex("empty left", normal(0), normal(2)), ex("empty right", normal(2), normal(0)),
    ex("constant left", constant([1.0, 2.0]), normal(3)), ex("complex", complex_normal(2), complex_normal(3)),
    ex("complex and real", complex_normal(2), normal(3)), ex("real and complex", normal(2), complex_normal(3)),
    ex("same array twice", normal(3), call=lambda x: agrad.linalg.outer(x, x),
       reference=lambda xp, x: np.outer(x, x)),
    call=agrad.linalg.outer, reference=lambda xp, a, b: np.outer(a, b))
# fmt: on

# ---------------------------------------------------------------- greatest elements and segments


def _topk(xp: Any, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    ordered = np.sort(x, axis=axis)
    return np.take(np.flip(ordered, axis=axis) if largest else ordered, range(k), axis=axis)


composite(
    "topk",
    ex("vector", distinct(5), 2),
    ex("axis 0", distinct(3, 2), 2, axis=0),
    ex("axis 1", distinct(2, 4, 2), 2, axis=1),
    ex("least", distinct(2, 4), 3, largest=False),
    ex("all", distinct(3), 3),
    ex("none", distinct(2, 3), 0),
    ex("ties", values([2.0, 1.0, 2.0, 3.0]), 2, kink=True),
    ex("empty", normal(0, 3), 2),
    call=lambda x, k, **how: agrad.topk(x, k, **how)[0],
    reference=_topk,
)


def _of_each(ufunc: np.ufunc, start: float) -> Any:
    """Return the reduction of segments by a ufunc, in NumPy."""

    def reference(xp: Any, x: Any, ids: Any, count: int) -> Any:
        out = np.full((count, *x.shape[1:]), start, dtype=x.dtype)
        inside = (ids >= 0) & (ids < count)
        ufunc.at(out, ids[inside], x[inside])
        return out

    return reference


def _but_segment_1(function: Any) -> Any:
    """Return a function without the second segment, which is empty and has no finite value."""
    return lambda *args: function(*args)[::2]


_REDUCTIONS = {
    "sum": _of_each(np.add, 0.0),
    "prod": _of_each(np.multiply, 1.0),
    "max": _of_each(np.maximum, -np.inf),
    "min": _of_each(np.minimum, np.inf),
}
_TWO = constant([1, 0, 1, 0, 0])
_GAP = constant([2, 0, 2, 0, 0])

for _name, _reference in _REDUCTIONS.items():
    _call = getattr(agrad, f"segment_{_name}")
    _examples = [
        ex("vector", distinct(5), _TWO, 2),
        ex("matrix", distinct(5, 2), _TWO, 2),
        ex("3-d", distinct(3, 2, 2), constant([0, 1, 0]), 2),
        ex("one segment", distinct(3), constant([0, 0, 0]), 1),
        ex("left out", distinct(6), constant([1, 0, -1, 0, 7, 1]), 2),
        ex("int32 ids", distinct(5), constant([1, 0, 1, 0, 0], np.int32), 2),
        ex("alone", distinct(2), constant([1, 0]), 2),
        ex("no columns", normal(2, 0), constant([1, 0]), 2),
        ex("no segments", normal(2), constant([1, 0]), 0),
    ]
    if _name in ("sum", "prod"):
        _examples += [
            ex("empty segment", distinct(5), _GAP, 3),
            ex("no elements", normal(0, 2), constant(np.zeros(0, np.int64)), 2),
            ex("complex", complex_normal(5), _GAP, 3),
        ]
    else:
        _examples += [
            ex("ties", values([2.0, 3.0, 2.0, 3.0, 3.0]), _TWO, 2, kink=True),
            ex("empty segment", distinct(5), _GAP, 3, call=_but_segment_1(_call), reference=_but_segment_1(_reference)),
        ]
    if _name == "prod":
        _examples += [ex("zeros", values([0.0, 0.0, 2.0, 0.0, 3.0]), constant([0, 0, 1, 1, 1]), 2)]
    composite(f"segment_{_name}", *_examples, reference=_reference)

# ---------------------------------------------------------------- steps of optimizers


def _sgd(xp: Any, p: Any, g: Any, v: Any, donate: bool, **o: Any) -> Any:
    d = (-g if o["maximize"] else g) + o["weight_decay"] * p
    v = o["momentum"] * v + (1 - o["dampening"]) * d if o["momentum"] else v
    step = d + o["momentum"] * v if o["nesterov"] else v
    return p - o["lr"] * (step if o["momentum"] else d), v


def _adam(xp: Any, p: Any, g: Any, m: Any, v: Any, donate: bool, step: int, **o: Any) -> Any:
    p, g = p * (o["shrink"] or 1), g + o["decay"] * p
    m, v = o["beta1"] * m + (1 - o["beta1"]) * g, o["beta2"] * v + (1 - o["beta2"]) * g**2
    return p - o["rate"] * m / (np.sqrt(v) + o["floor"]), m, v


SGD: dict[str, Any] = {"lr": 0.1, "momentum": 0.0, "dampening": 0.0, "nesterov": False, "weight_decay": 0.0}
SGD |= {"maximize": False, "donate": False}
ADAM: dict[str, Any] = {"rate": 0.06, "floor": 1e-9, "beta1": 0.9, "beta2": 0.99, "decay": 0.0, "shrink": None}
ADAM |= {"step": 3, "donate": False}
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
