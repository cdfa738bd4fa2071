"""einx: every operation, in its notation."""

import functools
from collections.abc import Callable
from typing import Any

import einx
import numpy as np

from ecosystem.trial import Samples

SAMPLES = Samples()

rng = np.random.default_rng(0)
A, B = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
P = rng.uniform(0.2, 2.0, size=(3, 4))
T = rng.normal(size=(2, 3, 4))
V = rng.normal(size=4)
N = np.asarray([2, 0, 1])

add = SAMPLES.add


def op(name: str) -> Callable[..., Any]:
    """Return an operation that computes by the standard, whichever arrays einx has met before."""
    return functools.partial(getattr(einx, name), backend="arrayapi")


for _name in ("sum", "mean", "max", "min", "prod", "std", "var", "logsumexp", "softmax", "log_softmax", "flip", "sort"):
    add(_name, lambda a, f=_name: op(f)("a [b]", a), A)
for _name in ("sum", "mean", "max", "logsumexp"):
    add(_name, lambda a, f=_name: op(f)("a [b c]", a), T, label="two axes")
for _name in ("argmax", "argmin", "argsort"):
    add(_name, lambda a, f=_name: op(f)("a [b]", a), A)
for _name in ("all", "any", "count_nonzero"):
    add(_name, lambda a, f=_name: op(f)("a [b]", a > 0), A)
for _name in ("add", "subtract", "multiply", "divide", "true_divide", "maximum", "minimum", "logaddexp"):
    add(_name, lambda a, b, f=_name: op(f)("a b, b", a, b), A, abs(V) + 0.5)
for _name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal", "floor_divide"):
    add(_name, lambda a, b, f=_name: op(f)("a b, b", a, b), A, V)
for _name in ("logical_and", "logical_or"):
    add(_name, lambda a, b, f=_name: op(f)("a b, b", a > 0, b > 0), A, V)
add("add", lambda a, b: op("add")("a b, c -> a b c", a, b), A, B[0], label="an outer sum")
add("where", lambda a, b: op("where")("a b, a b, b", a > 0, a, b), A, V)
add("dot", lambda a, b: op("dot")("a [b], [b] c -> a c", a, b), A, B)
add("dot", lambda t, b: op("dot")("x a [b], [b] c -> x a c", t, b), T, B, label="a batch axis")
add("dot", lambda t, u: op("dot")("x a [b], x c [b] -> x a c", t, u), T, 2 * T, label="a batch of both")
add("id", lambda a: op("id")("a b -> b a", a), A, label="transposed")
add("id", lambda a: op("id")("a (b c) -> a b c", a, b=2), A, label="an axis divided")
add("id", lambda t: op("id")("x a b -> (x a) b", t), T, label="axes joined")
add("id", lambda a: op("id")("a b -> a b c", a, c=3), A, label="repeated")
add("id", lambda a, b: op("id")("a b, c -> (a + c) b", a, b), A, V[:1], label="concatenated")
add("rearrange", lambda a: op("rearrange")("a b -> b a", a), A)
add("roll", lambda a: op("roll")("a [b]", a, shift=1), A)
add("get_at", lambda a, n: op("get_at")("[a] b, c -> c b", a, n), A, N)
add("get_at", lambda t, n: op("get_at")("x [a] b, x -> x b", t, n[:2]), T, N, label="a batch axis")
add("solve_axes", lambda a: [int(n) for n in einx.solve_axes("a b", a).values()], A)

NOT_TRIED = {
    "check, matches, solve, solve_shapes": "concern only shapes",
    "set_at, add_at, subtract_at": "einx does not support them for arrays of the standard",
    "arange": "returns integers",
    "elementwise, reduce, vmap, vmap_with_axis": "were removed from einx",
    "arrayapi, backend, errors, experimental, jax, mlx, numpy, tensorflow, tinygrad, torch": "are modules",
    "Tensor": "is a type",
}


def public() -> list[str]:
    """Return the names of the package's public functions."""
    known = {name for names in NOT_TRIED for name in names.split(", ")}
    return [name for name in dir(einx) if not name.startswith("_") and name not in known]
