"""Dask: lazy arrays in chunks.

Indexing that Dask does not support becomes one task on whole arrays. Each chunk of random numbers is a task that starts
the NumPy Philox generator at the chunk's position in the stream.
"""

import math
import weakref
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import array_api_compat.dask.array as compat
import dask
import dask.array as da
import numpy as np
from dask.base import tokenize

from agrad.backends.base import file_forms
from agrad.backends.generic import of_namespace
from agrad.backends.indexing import explicit, host_index
from agrad.backends.numpy import backend as host
from agrad.backends.special import NUMPY, SpecialWords, in_double
from agrad.kernels.numpy import random as host_random
from agrad.kernels.numpy.scatter import scatter_add as host_scatter_add
from agrad.philox import WIDTHS
from agrad.registry import PRIMITIVES, kernel
from agrad.shapes import ARRAY, fill_index, size

# ------------------------------------------------------------------ indexing


_masks: dict[int, np.ndarray] = {}
"""The values of masks that were computed, by the ids of their arrays, while these exist."""


def _mask_values(mask: da.Array) -> np.ndarray:
    if id(mask) not in _masks:
        values = _to_host(mask)
        _masks[id(mask)] = values
        weakref.finalize(mask, _masks.pop, id(mask), None)
    return _masks[id(mask)]


def _known(indices: tuple[Any, ...]) -> list[Any]:
    """Return index arrays with every mask computed, because masks determine shapes.

    A mask is computed once, for the forward and the backward pass.
    """
    return [i if isinstance(i, da.Array) and i.dtype != bool else host_index(i, _mask_values) for i in indices]


def _shape_at(index: tuple[Any, ...], arrays: list[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of ``x[index]`` from only the shapes of the integer arrays."""
    stand_ins = [np.zeros(a.shape, np.intp) if isinstance(a, da.Array) else a for a in arrays]
    return np.broadcast_to(np.False_, shape)[fill_index(index, stand_ins)].shape


def _one_block(x: Any) -> Any:
    # for an array itself, Dask would copy its graph, and a chain of tasks would grow exponentially
    if not isinstance(x, da.Array):
        return x
    return (x.rechunk(-1) if x.npartitions > 1 else x).to_delayed(optimize_graph=False).item()


def _one_task(function: Callable[..., Any], shape: tuple[int, ...], dtype: Any, *arrays: Any) -> da.Array:
    def whole(*values: Any) -> np.ndarray:
        return np.asarray(function(*values))

    made = dask.delayed(whole, pure=False)(*map(_one_block, arrays))
    return da.from_delayed(made, shape=shape, dtype=dtype, meta=np.empty((0,) * len(shape), dtype=dtype))


def _slices_only(index: tuple[Any, ...]) -> bool:
    return all(entry is ARRAY or entry is Ellipsis or isinstance(entry, slice) for entry in index)


def _one_array(index: tuple[Any, ...], arrays: list[Any], shape: tuple[int, ...]) -> int | None:
    """Return the axis of an index of slices and one integer array, or None for other indices."""
    if len(arrays) != 1 or arrays[0].dtype == bool or not _slices_only(index) or not size(shape):
        return None
    return explicit(index, shape).index(ARRAY)


def _without_array(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple([slice(None) if entry is ARRAY else entry for entry in explicit(index, shape)])


def _taken(x: da.Array, indices: da.Array, axis: int) -> da.Array:
    """Return the elements at positions along an axis, in the chunks of the positions."""
    axes, new = tuple(range(x.ndim)), tuple(range(x.ndim, x.ndim + indices.ndim))
    index = (slice(None),) * axis + (ARRAY,)

    def chunk(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        return host.getitem(x, indices, index=index)

    out = (*axes[:axis], *new, *axes[axis + 1 :])
    return da.blockwise(chunk, out, x, axes, indices, new, concatenate=True, dtype=x.dtype, meta=_like(out, x.dtype))


def _added(g: da.Array, indices: da.Array, axis: int, n: int) -> da.Array:
    """Return zeros of length ``n`` along an axis with ``g`` added at positions: a tree of sums over the chunks."""
    axes = tuple(range(g.ndim))
    own, others = axes[axis : axis + indices.ndim], (*axes[:axis], *axes[axis + indices.ndim :])
    out = (*own, *others[:axis], g.ndim, *others[axis:])
    index = (slice(None),) * axis + (ARRAY,)

    def chunk(g: np.ndarray, indices: np.ndarray) -> np.ndarray:
        shape = (*g.shape[:axis], n, *g.shape[axis + indices.ndim :])
        return host_scatter_add(g, indices, index=index, shape=shape).reshape((1,) * indices.ndim + shape)

    parts = da.blockwise(
        chunk,
        out,
        g,
        axes,
        indices,
        own,
        new_axes={g.ndim: n},
        adjust_chunks=dict.fromkeys(own, 1),
        dtype=g.dtype,
        meta=_like(out, g.dtype),
    )
    return parts.sum(axis=tuple(range(len(own))), dtype=g.dtype)


def _like(axes: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.empty((0,) * len(axes), dtype)


def getitem(x: da.Array, /, *indices: Any, index: tuple[Any, ...]) -> da.Array:
    at = None if indices else explicit(index, x.shape)
    if at is not None:
        return x[at]
    arrays = _known(indices)
    axis = _one_array(index, arrays, x.shape)
    # with an index that is a Dask array, Dask silently drops integers out of range
    if axis is not None and isinstance(arrays[0], da.Array):
        return _taken(x[_without_array(index, x.shape)], arrays[0], axis)
    if axis is not None and arrays[0].ndim == 1:
        return x[fill_index(explicit(index, x.shape), arrays)]
    return _one_task(partial(host.getitem, index=index), _shape_at(index, arrays, x.shape), x.dtype, x, *arrays)


def _as_slices(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[Any, ...]] | None:
    """Return a basic index as only slices, and the index that adapts a value to their number of axes.

    Returns None for an index with Booleans or arrays.
    """
    entries = explicit(index, shape)
    if entries is None or any(entry is ARRAY for entry in entries):
        return None
    slices, of_value = [], []
    for entry in entries:
        if entry is None:
            of_value.append(0)
            continue
        n, whole = shape[len(slices)], isinstance(entry, slice)
        start = 0 if whole else int(entry) % n
        slices.append((slice(0, n, 1) if entry == slice(None) else entry) if whole else slice(start, start + 1))
        of_value.append(slice(None) if whole else None)
    return tuple(slices), tuple(of_value)


def setitem(x: da.Array, value: Any, /, *indices: Any, index: tuple[Any, ...]) -> da.Array:
    arrays = _known(indices)
    picked = _shape_at(index, arrays, x.shape)
    if hasattr(value, "shape"):
        np.broadcast_to(np.broadcast_to(np.False_, value.shape), picked)  # raises now, not when it is computed
    found = None if indices or not size(picked) else _as_slices(index, x.shape)
    if found is not None:
        slices, of_value = found
        out = x.copy()
        out[slices] = da.broadcast_to(value, picked)[of_value] if hasattr(value, "shape") else value
        return out
    return _one_task(partial(host.setitem, index=index), x.shape, x.dtype, x, value, *arrays)


def take(x: da.Array, indices: Any, /, *, axis: int | None = None) -> da.Array:
    # with an index that is a Dask array, Dask's take warns for complex elements and returns the shape of x
    before = 0 if axis is None else axis % x.ndim
    return getitem(x, indices, index=(slice(None),) * before + (ARRAY,))


_SMALL = 1 << 20
"""Bytes up to which a chunk need not be smaller."""


def _zeros_around(g: da.Array, slices: tuple[slice, ...], shape: tuple[int, ...]) -> da.Array:
    """Return zeros with ``g`` at slices, in regular chunks that are no larger than the chunks of ``g``.

    If ``g`` covers only a small part of an axis, that axis has larger chunks, up to 1 MiB.
    """
    chunks: list[Any] = []
    for n, part, lengths in zip(shape, g.shape, g.chunks, strict=True):
        longest = n if 10 * max(lengths) >= 9 * n else max(lengths)
        chunks.append(longest if 4 * part >= n else "auto")
    limit = max(_SMALL, math.prod(map(max, g.chunks)) * g.dtype.itemsize)
    return da.zeros(shape, dtype=g.dtype, chunks=da.core.normalize_chunks(tuple(chunks), shape, limit, g.dtype))


def scatter_add(g: da.Array, /, *indices: Any, index: tuple[Any, ...], shape: tuple[int, ...]) -> da.Array:
    arrays = _known(indices)
    found = None if indices or not size(g.shape) else _as_slices(index, shape)
    if found is not None and all(entry == slice(0, n, 1) for entry, n in zip(found[0], shape, strict=True)):
        return g[found[1]]
    if found is not None:
        slices, of_value = found
        out = _zeros_around(g[of_value], slices, shape)
        out[slices] = g[of_value]
        return out
    axis = _one_array(index, arrays, shape) if size(g.shape) else None
    if axis is not None:
        slices = _without_array(index, shape)
        inner = np.broadcast_to(np.False_, shape)[slices].shape
        own = g.chunks[axis : axis + arrays[0].ndim]
        array = arrays[0] if isinstance(arrays[0], da.Array) else da.from_array(arrays[0], chunks=own)
        added = _added(g, array, axis, inner[axis])
        return scatter_add(added, index=slices, shape=shape)
    return _one_task(partial(host_scatter_add, index=index, shape=shape), shape, g.dtype, g, *arrays)


def broadcast_to(x: da.Array, /, shape: tuple[int, ...]) -> da.Array:
    # the Dask function creates one chunk for every new axis
    if not size(shape):
        return da.broadcast_to(x, shape)
    lead = len(shape) - x.ndim
    kept = [c if n == m else "auto" for c, n, m in zip(x.chunks, x.shape, shape[lead:], strict=True)]
    chunks = da.core.normalize_chunks((*["auto"] * lead, *kept), shape, dtype=x.dtype)
    return da.broadcast_to(x, shape, chunks=chunks)


# ------------------------------------------------------------------ functions of the standard


_MATRIX_FUNCTIONS = (
    "cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lu", "matrix_power", "pinv", "qr", "slogdet",
    "solve", "solve_or_nan", "svd", "svdvals",
)  # fmt: skip
"""Linear algebra of stacks of matrices. Dask supports a part of it, for one matrix in suitable chunks, and its cholesky
returns the other triangle. Here each function becomes one task on whole arrays. QR and SVD of a tall matrix in chunks
of rows use the Dask functions, and right-hand sides of equations keep their chunks of columns."""


def _extreme(name: str) -> Callable[..., Any]:
    function, on_host = getattr(compat, name), getattr(host.BACKEND.xp, name)

    def extreme(x: da.Array, /, *, axis: Any = None, keepdims: bool = False) -> da.Array:
        if size(x.shape):
            return function(x, axis=axis, keepdims=keepdims)
        # Dask requires an identity even if the batch is empty and none is needed
        like = on_host(np.zeros(x.shape, x.dtype), axis=axis, keepdims=keepdims)
        return da.zeros(like.shape, dtype=like.dtype)

    return extreme


def _identity(x: da.Array) -> np.ndarray:
    return np.ones(x.shape, x.dtype) if x.ndim == 1 else np.eye(*x.shape[-2:], dtype=x.dtype)


# the Dask functions multiply by ones of the array's dtype, cast from another dtype with a warning if it is complex
def tril(x: da.Array, /, *, k: int = 0) -> da.Array:
    return da.where(da.tri(*x.shape[-2:], k=k, dtype=bool), x, 0)


def triu(x: da.Array, /, *, k: int = 0) -> da.Array:
    return da.where(da.tri(*x.shape[-2:], k=k - 1, dtype=bool), 0, x)


def _filled_like(name: str) -> Callable[..., Any]:
    """Return ``zeros_like`` or ``ones_like`` with a name of shape and dtype.

    To make a name, Dask would pickle a function of its own, which needs more time than an operation.
    """
    function = getattr(compat, name)

    def like(x: da.Array, /, *, dtype: Any = None, device: Any = None) -> da.Array:
        dtype = x.dtype if dtype is None else np.dtype(dtype)
        return function(x, dtype=dtype, device=device, name=f"{name}-{tokenize(x.chunks, dtype)}")

    return like


_TALL: dict[str, dict[str, Any]] = {"qr": {}, "svd": {"full_matrices": False}, "svdvals": {}}


def _is_tall(x: da.Array) -> bool:
    """Return True for a matrix in chunks of rows that has at least as many rows as columns."""
    return x.ndim == 2 and x.numblocks[0] > 1 and x.numblocks[1] == 1 and min(x.chunks[0]) >= x.shape[1]


def _tall(name: str, function: Callable[..., Any], x: da.Array, **settings: Any) -> Any:
    like = function(np.eye(x.shape[1], dtype=x.dtype), **settings)
    parts = da.linalg.tsqr(x, compute_svd=name != "qr")
    return parts[1] if name == "svdvals" else type(like)(*parts)


def _by_columns(function: Callable[..., Any], a: da.Array, b: da.Array) -> da.Array:
    dtype = np.result_type(a.dtype, b.dtype)
    n = {0: a.shape[0]}
    return da.blockwise(function, (0, 1), a, (2, 3), b, (4, 1), concatenate=True, new_axes=n, dtype=dtype)


def _matrix_function(name: str) -> Callable[..., Any]:
    function = getattr(host.BACKEND.xp.linalg, name)

    def on_whole_arrays(*arrays: Any, **settings: Any) -> Any:
        if name in _TALL and _TALL[name].items() <= settings.items() and _is_tall(arrays[0]):
            return _tall(name, function, *arrays, **settings)
        if name in ("solve", "solve_or_nan") and arrays[0].ndim == arrays[1].ndim == 2 and size(arrays[1].shape):
            return _by_columns(function, *arrays)
        # its result for identity matrices of the same lengths has the shapes and dtypes of the matrices to be computed
        matrices, others = (arrays[:1], arrays[1:]) if name == "matrix_power" else (arrays, ())
        trial = function(*map(_identity, matrices), *others, **settings)
        batch = np.broadcast_shapes(*[x.shape[:-2] for x in matrices])

        def part(i: int | None, like: Any) -> da.Array:
            def one(*values: Any) -> Any:
                out = function(*values, *others, **settings)
                return out if i is None else out[i]

            return _one_task(one, (*batch, *like.shape), like.dtype, *matrices)

        if not isinstance(trial, tuple):
            return part(None, trial)
        parts = [part(i, like) for i, like in enumerate(trial)]
        return type(trial)(*parts) if hasattr(trial, "_fields") else tuple(parts)

    on_whole_arrays.__name__ = name
    return on_whole_arrays


def _transform(name: str) -> Callable[..., Any]:
    """Return a Fourier transform of Dask, which requires its axes in one chunk."""
    function = getattr(compat.fft, name)

    def transform(x: da.Array, /, **settings: Any) -> da.Array:
        axes = settings.get("axes", settings.get("axis", -1))
        if axes is None:
            axes = range(-len(settings.get("s") or x.shape), 0)
        axes = (axes,) if isinstance(axes, int) else axes
        return function(x.rechunk(dict.fromkeys([axis % x.ndim for axis in axes], -1)), **settings)

    transform.__name__ = name
    return transform


def _computed(name: str) -> Callable[..., Any]:
    """Return a function that computes its argument, which determines the result's shape.

    The Dask function leaves the shape unknown.
    """
    function = getattr(host.BACKEND.xp, name)

    def at_once(x: da.Array, /) -> Any:
        found = function(_to_host(x))
        return tuple(map(da.from_array, found)) if isinstance(found, tuple) else da.from_array(found)

    at_once.__name__ = name
    return at_once


def reshape(x: da.Array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    """Return ``x`` in another shape.

    The result is one chunk if the chunks of ``x`` do not split or merge evenly.
    """
    if not size(x.shape):
        # the Dask function fails for an empty array
        return da.zeros(np.zeros(x.shape, bool).reshape(shape).shape, dtype=x.dtype)
    try:
        return compat.reshape(x, shape, copy=copy)
    except NotImplementedError:
        return compat.reshape(x.rechunk(x.shape), shape, copy=copy)


def repeat(x: da.Array, repeats: int, /, *, axis: int) -> da.Array:
    if size(x.shape):
        return da.repeat(x, repeats, axis=axis)
    # the Dask function fails for an empty array, which has no pieces to join
    return da.zeros((*x.shape[:axis], repeats * x.shape[axis], *x.shape[axis + 1 :]), dtype=x.dtype)


def searchsorted(x1: da.Array, x2: da.Array, /, *, side: str = "left") -> da.Array:
    return _one_task(partial(np.searchsorted, side=side), x2.shape, np.intp, x1, x2)


def _chunked(function: Callable[..., Any], *arrays: Any, **settings: Any) -> Any:
    """Return an elementwise function of NumPy arrays, applied chunk by chunk.

    The result has the dtype of the first array.
    """
    dtype = arrays[0].dtype

    def on_chunk(*chunks: Any) -> Any:
        return function(*chunks, **settings).astype(dtype, copy=False)

    return da.core.elemwise(on_chunk, *arrays, dtype=dtype)


def _special_functions() -> dict[str, Callable[..., Any]]:
    return {name: partial(_chunked, own) for name, own in NUMPY.functions().items()}


def _in_double(xp: Any, form: Callable[..., Any], dtype: Any, *arrays: Any, **settings: Any) -> Any:
    return _chunked(partial(in_double, host.BACKEND.xp, form, dtype), *arrays, **settings)


def _to_host(x: da.Array) -> np.ndarray:
    return np.asarray(x.compute())


_OWN = (getitem, setitem, take, scatter_add, broadcast_to, tril, triu, reshape, repeat, searchsorted)
_COMPUTED = ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values")

BACKEND = of_namespace(
    compat,
    "dask",
    {
        **{function.__name__: function for function in _OWN},
        **{name: _computed(name) for name in _COMPUTED},
        **{name: _extreme(name) for name in ("max", "min")},
        **{name: _filled_like(name) for name in ("zeros_like", "ones_like")},
        "special": SpecialWords(_special_functions, _in_double),
        "float16": np.float16,
        "fft": {n: _transform(n) for n in dir(compat.fft) if n.endswith(("fft", "fftn"))},
        "linalg": {n: _matrix_function(n) for n in _MATRIX_FUNCTIONS if hasattr(host.BACKEND.xp.linalg, n)},
    },
    array_types=(da.Array,),
    devices=lambda: ("cpu",),
    device_of=lambda x: "cpu",
    accepts_numpy=True,
    to_host=_to_host,
    from_host=lambda a, device: da.from_array(np.array(a)),
    computed=lambda arrays: dask.persist(*arrays),
    content=lambda x: partial(attrgetter("name"), x),
)

# ------------------------------------------------------------------ functions of matrices


def _form(name: str, x: da.Array, **settings: Any) -> da.Array:
    """Return the generic form as one task, because its steps depend on the values."""
    return _one_task(partial(PRIMITIVES[name].forward, host.BACKEND.xp, **settings), x.shape, x.dtype, x)


file_forms("dask", _form)

# ------------------------------------------------------------------ random numbers

_CHUNK = 1 << 20
"""Words of the generator in a chunk, a multiple of 4."""


def _in_chunks(key: Any, shape: tuple[int, ...], dtype: Any, per_word: int, draw: Callable[..., np.ndarray]) -> Any:
    """Return ``draw(key, first word, count)`` of all chunks, joined and reshaped."""
    n, step = math.prod(shape), _CHUNK * per_word
    parts = []
    for start in range(0, n, step):
        count = min(step, n - start)
        parts.append(_task(draw, (count,), dtype, key, start // per_word, count))
    return reshape(da.concatenate(parts) if parts else da.zeros((0,), dtype=dtype), shape)


def _task(draw: Callable[..., np.ndarray], shape: tuple[int, ...], dtype: Any, *arguments: Any) -> Any:
    return da.from_delayed(dask.delayed(draw, pure=True)(*arguments), shape, dtype=dtype)


@kernel("dask", "random_keys", "forward")
def keys(key: Any, *, count: int, domain: int, data: int) -> Any:
    return _task(partial(host_random.keys, count=count, domain=domain, data=data), (count, 4), np.uint32, key)


@kernel("dask", "random_bits", "forward")
def bits(key: Any, *, shape: tuple[int, ...], dtype: str) -> Any:
    return _in_chunks(key, shape, dtype, 64 // WIDTHS[dtype], partial(host_random.flat_bits, dtype=dtype))


@kernel("dask", "random_uniform", "forward")
def uniform(key: Any, *, shape: tuple[int, ...], dtype: str, interior: bool) -> Any:
    draw = partial(host_random.flat_uniform, dtype=dtype, interior=interior)
    return _in_chunks(key, shape, dtype, 1, draw)


@kernel("dask", "random_mask", "forward")
def mask(key: Any, *, shape: tuple[int, ...], threshold: int) -> Any:
    return _in_chunks(key, shape, np.bool_, 2, partial(host_random.flat_mask, threshold=threshold))


@kernel("dask", "random_integers", "forward")
def integers(key: Any, *, low: int, high: int, shape: tuple[int, ...], dtype: str) -> Any:
    draw = partial(host_random.integers, low=low, high=high, shape=shape, dtype=dtype)
    return _task(draw, shape, dtype, key)


@kernel("dask", "random_permutation", "forward")
def permutation(key: Any, *, n: int) -> Any:
    return _task(partial(host_random.permutation, n=n), (n,), np.intp, key)
