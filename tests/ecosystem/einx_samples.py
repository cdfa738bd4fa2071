"""einx: every operation, in its notation."""

import functools
from typing import Any

import einx
import numpy as np

from ecosystem.trial import Samples

SAMPLES = Samples()

rng = np.random.default_rng(0)
A, B = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
T = rng.normal(size=(2, 3, 4))
V = rng.normal(size=4)
N = np.asarray([2, 0, 1])


def of(names: str, notation: str, *inputs: np.ndarray, label: str = "", given: Any = None, **settings: Any) -> None:
    """File a sample of each operation of the inputs, or of ``given(*inputs)``."""
    for name in names.split():
        f = functools.partial(_called, name, notation, given or (lambda *a: a), settings)
        SAMPLES.add(name, f, *inputs, label=label)


def _called(name: str, notation: str, given: Any, settings: dict[str, Any], *arrays: Any) -> Any:
    # by the standard, whichever arrays einx has met before
    return getattr(einx, name)(notation, *given(*arrays), **settings, backend="arrayapi")


of("sum mean max min prod std var logsumexp softmax log_softmax flip sort argmax argmin argsort", "a [b]", A)
of("sum mean max logsumexp", "a [b c]", T, label="two axes")
of("all any count_nonzero", "a [b]", A, given=lambda a: (a > 0,))
of("add subtract multiply divide true_divide maximum minimum logaddexp", "a b, b", A, abs(V) + 0.5)
of("equal not_equal greater greater_equal less less_equal floor_divide", "a b, b", A, V)
of("logical_and logical_or", "a b, b", A, V, given=lambda a, b: (a > 0, b > 0))
of("add", "a b, c -> a b c", A, B[0], label="an outer sum")
of("where", "a b, a b, b", A, V, given=lambda a, b: (a > 0, a, b))
of("dot", "a [b], [b] c -> a c", A, B)
of("dot", "x a [b], [b] c -> x a c", T, B, label="a batch axis")
of("dot", "x a [b], x c [b] -> x a c", T, 2 * T, label="a batch of both")
of("id", "a b -> b a", A, label="transposed")
of("id", "a (b c) -> a b c", A, b=2, label="an axis divided")
of("id", "x a b -> (x a) b", T, label="axes joined")
of("id", "a b -> a b c", A, c=3, label="repeated")
of("id", "a b, c -> (a + c) b", A, V[:1], label="concatenated")
of("rearrange", "a b -> b a", A)
of("roll", "a [b]", A, shift=1)
of("get_at", "[a] b, c -> c b", A, N)
of("get_at", "x [a] b, x -> x b", T, N, given=lambda t, n: (t, n[:2]), label="a batch axis")
SAMPLES.add("solve_axes", lambda a: [int(n) for n in einx.solve_axes("a b", a).values()], A)


def public() -> list[str]:
    """Return the names of the package's public functions."""
    return [name for name in dir(einx) if not name.startswith("_")]
