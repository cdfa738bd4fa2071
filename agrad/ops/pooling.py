"""Maxima and sums of windows along the last axes.

Both go axis by axis, from the last one to the first. Of equal elements of a window the derivative then goes to the
first, row by row: the first along the last axis, in the first row that has the maximum.
"""

from functools import reduce
from typing import Any

from agrad.ops.definition import primitive
from agrad.ops.indexing import scatter_sum
from agrad.ops.selection import where_p
from agrad.shapes import window_places

Steps = tuple[int, ...]


def _axes(ndim: int, *settings: Steps) -> list[tuple[int, ...]]:
    """Return each pooled axis with its options, the last axis first."""
    return [(ndim - i, *values) for i, values in enumerate(reversed(list(zip(*settings, strict=True))), 1)]


def _hit(xp: Any, part: Any, y: Any) -> Any:
    return xp.logical_or(xp.equal(part, y), xp.isnan(part))


@primitive(batch="leading", decompose=True, rule_traits={"vjp:x": {"decompose": True}})
def max_pool(xp: Any, x: Any, /, *, kernel: Steps, strides: Steps, dilation: Steps) -> Any:
    """Return the maxima of windows; the first of equal elements has the derivative."""
    for how in _axes(x.ndim, kernel, strides, dilation):
        x = reduce(xp.maximum, [x[place] for place in window_places(x.shape, *how)])
    return x


@max_pool.vjp
def max_pool_vjp(xp: Any, g: Any, x: Any, y: Any, *, kernel: Steps, strides: Steps, dilation: Steps) -> Any:
    axes, arrays = _axes(x.ndim, kernel, strides, dilation), [x]
    for how in axes[:-1]:
        arrays.append(reduce(xp.maximum, [arrays[-1][place] for place in window_places(arrays[-1].shape, *how)]))
    for how, before, after in reversed(list(zip(axes, arrays, [*arrays[1:], y], strict=True))):
        places, terms = window_places(before.shape, *how), []
        for place in places[:-1]:
            hit = _hit(xp, before[place], after)
            terms.append(where_p(hit, g, 0))
            g = where_p(hit, 0, g)
        terms.append(g)
        g = scatter_sum(*terms, indices=tuple(places), shape=before.shape)
    return g


@max_pool.jvp
def max_pool_jvp(xp: Any, t: Any, x: Any, *, kernel: Steps, strides: Steps, dilation: Steps) -> Any:
    for how in _axes(x.ndim, kernel, strides, dilation):
        places = window_places(x.shape, *how)
        after, chosen = reduce(xp.maximum, [x[place] for place in places]), t[places[-1]]
        for place in reversed(places[:-1]):
            chosen = xp.where(_hit(xp, x[place], after), t[place], chosen)
        x, t = after, chosen
    return t


@primitive(linear="x", batch="leading", decompose=True)
def sum_pool(xp: Any, x: Any, /, *, kernel: Steps, strides: Steps) -> Any:
    """Return the sums of windows."""
    for how in _axes(x.ndim, kernel, strides):
        x = reduce(xp.add, [x[place] for place in window_places(x.shape, *how)])
    return x


@sum_pool.vjp
def sum_pool_vjp(xp: Any, g: Any, x_meta: Any, *, kernel: Steps, strides: Steps) -> Any:
    for axis, *how in reversed(_axes(len(x_meta.shape), kernel, strides)):
        shape = (*g.shape[:axis], x_meta.shape[axis], *g.shape[axis + 1 :])
        places = window_places(shape, axis, *how)
        g = scatter_sum(*[g] * len(places), indices=tuple(places), shape=shape)
    return g
