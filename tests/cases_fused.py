"""The rows of operations for speed, which could be composed of others."""

from typing import Any

import numpy as np
from table import complex_normal, constant, distinct, ex, normal, row, values

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
