"""The rows of operations for speed, which could be composed of others."""

import numpy as np
from table import complex_normal, constant, distinct, ex, normal, row, values

import agrad
from agrad.registry import PRIMITIVES

# fmt: off
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
