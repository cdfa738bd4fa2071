"""array-api-extra: every function, and every method of ``at``."""

import functools

import array_api_extra as xpx
import numpy as np

from ecosystem.trial import Samples

SAMPLES = Samples()


def public() -> list[str]:
    """Return the names of the package's public functions."""
    return [name for name in xpx.__all__ if not name.startswith("__")]


rng = np.random.default_rng(0)
X = rng.normal(size=(3, 4))
Y = rng.normal(size=(3, 4))
Z = X + 1j * Y
V = rng.normal(size=5)
N = np.asarray([2, 0, 1, 2])
HOLES = np.where(X > 1, np.nan, X)

add, of = SAMPLES.add, functools.partial(SAMPLES.of, xpx, "")
add("apply_where", lambda x: xpx.apply_where(x > 0, x, lambda a: a**1.5, lambda a: a * 2), X, label="two functions")
add("apply_where", lambda x: xpx.apply_where(x > 0, x, lambda a: a**1.5, fill_value=0.5), X, label="fill_value")
_both = lambda x, y: xpx.apply_where(x > y, (x, y), lambda a, b: a * b, lambda a, b: a - b)  # noqa: E731
add("apply_where", _both, X, Y, label="two arguments")
add("argpartition", lambda v: xpx.argpartition(v, 2)[2:3], V)
for _how, _value in (
    ("set", 2.0), ("add", 2.0), ("subtract", 2.0), ("multiply", 3.0), ("divide", 4.0), ("power", 2.0), ("min", 0.1),
    ("max", 0.1),
):  # fmt: skip
    add("at", lambda x, h=_how, v=_value: getattr(xpx.at(x)[1], h)(v), abs(X), label=_how)
    _copied = lambda x, y, h=_how: getattr(xpx.at(x, x > 0.5), h)(y[0, 0], copy=True)  # noqa: E731
    add("at", _copied, abs(X), abs(Y), label=f"{_how}, a mask, a copy")
add("at", lambda x, y: xpx.at(x, slice(1, None)).set(y[1:], copy=True), X, Y, label="set, an array")
of("atleast_nd", X, ndim=3)
of("create_diagonal", V, offset=-1, label="offset")
of("expand_dims", X, axis=(0, 2))
add("lazy_apply", lambda x: xpx.lazy_apply(lambda a: a**2, x), X, label="the array's own functions")
add("lazy_apply", lambda x: xpx.lazy_apply(np.sin, x, as_numpy=True), X, label="as_numpy")
add("nan_to_num", lambda x: xpx.nan_to_num(x, fill_value=0.5), HOLES)
add("one_hot", lambda n: xpx.one_hot(n, 3), N)
add("pad", lambda x: xpx.pad(x, 2, constant_values=1.5), X)
add("pad", lambda x: xpx.pad(x, ((1, 0), (0, 2))), X, label="by axis")
add("partition", lambda v: xpx.partition(v, 2)[2:3], V)
add("setdiff1d", lambda v: xpx.setdiff1d(v, v[:2]), V)
add("union1d", lambda v, w: xpx.union1d(v, w), V, V + 1)
add("unravel_index", lambda n: xpx.unravel_index(n, (2, 3)), N)
of("angle", Z)
of("cov create_diagonal deg2rad rad2deg sinc", X)
of("isclose", X, X + 1e-9)
of("isin", N, N[:2])
of("kron", X, V)
of("nunique", N)
of("searchsorted", np.sort(V), X)
of("nanmax nanmean nanmin nansum", HOLES, axis=1)
