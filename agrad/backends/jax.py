"""JAX: immutable arrays. Selecting the backend turns on the 64-bit mode.

Random numbers come from the NumPy Philox generator on the CPU. On other devices, and in traces, the generic form draws
them, compiled. It needs 64-bit integers: the 64-bit mode is on inside the compiled function, and the bits are the same
in both modes.
"""

from collections.abc import Callable
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agrad import philox
from agrad.backends import special as special_functions
from agrad.backends.base import Backend, broadcast_batches, file_forms, vocabulary
from agrad.backends.convolution import Windows
from agrad.backends.indexing import check_bounds, explicit, host_index, positions
from agrad.backends.numpy.linalg import unpacked
from agrad.errors import DtypeError, TracedValueError
from agrad.kernels.numpy import random as host_random
from agrad.registry import PRIMITIVES, kernel
from agrad.shapes import ARRAY, fill_index

try:
    from jax import enable_x64
except ImportError:  # before JAX 0.8
    from jax.experimental import enable_x64

# ------------------------------------------------------------------ indexing


def _arrays(index: tuple[Any, ...], indices: tuple[Any, ...], shape: tuple[int, ...]) -> list[Any]:
    """Return the index arrays, or raise ``IndexRangeError`` for integers out of range.

    JAX clamps or drops these silently. Arrays in a trace or on an accelerator are not checked.
    """
    arrays = [i if isinstance(i, jax.Array) else host_index(i, np.asarray) for i in indices]
    check_bounds(index, [_visible(array) for array in arrays], shape)
    return arrays


def _visible(array: Any) -> np.ndarray | None:
    if isinstance(array, np.ndarray):
        return array
    traced = isinstance(array, jax.core.Tracer)
    if traced and array.dtype == bool:
        raise TracedValueError(
            "x[i]: a function that JAX traces does not support a Boolean index, because the shape of the result "
            "depends on values. Use agrad.where(mask, value, x)."
        )
    hidden = traced or any(d.platform != "cpu" for d in array.devices())
    return None if hidden and array.dtype != bool else np.asarray(array)


def _at(x: jax.Array, indices: tuple[Any, ...], index: tuple[Any, ...]) -> tuple[jax.Array, tuple[Any, ...] | Any]:
    """Return ``x`` and the index, both flat if JAX and NumPy interpret it differently."""
    arrays = _arrays(index, indices, x.shape)
    # a Boolean mixed with other index arrays moves their axes in NumPy, but not in JAX
    odd = any(isinstance(i, (bool, np.bool_)) for i in index) or any(a.dtype == bool and not a.ndim for a in arrays)
    if odd:
        return x.reshape(-1), positions(index, [np.asarray(a) for a in arrays], x.shape)
    return x, fill_index(index, arrays)


def getitem(x: jax.Array, /, *indices: Any, index: tuple[Any, ...]) -> jax.Array:
    array, where = _at(x, indices, index)
    if any(isinstance(i, jax.core.Tracer) for i in indices):
        return array.at[where].get(mode="fill")  # NaN out of range, for which JAX would return another element
    return array[where]


def take(x: jax.Array, indices: Any, /, *, axis: int = 0) -> jax.Array:
    return getitem(x, indices, index=(slice(None),) * (axis % x.ndim) + (ARRAY,))


def _is_whole(index: tuple[Any, ...]) -> bool:
    """Return True for the index of a whole array, which needs no scatter."""
    return all(i is Ellipsis or (isinstance(i, slice) and i == slice(None)) for i in index)


def setitem(x: jax.Array, value: Any, /, *indices: Any, index: tuple[Any, ...]) -> jax.Array:
    if isinstance(value, jax.Array):
        value = value.astype(x.dtype)
    if _is_whole(index) and jnp.ndim(value) <= x.ndim:
        return jnp.broadcast_to(jnp.asarray(value, dtype=x.dtype), x.shape)
    array, where = _at(x, indices, index)
    return array.at[where].set(value).reshape(x.shape)


def convolution(x: jax.Array, w: jax.Array, /, *, how: Windows) -> jax.Array:
    padding: Any = how.padding
    x_dilation: Any = how.x_dilation
    if any(min(pair) < 0 for pair in padding):
        # XLA convolutions on the CPU read outside of x if one end is cut and the other padded
        cuts = [(min(low, 0), min(high, 0), d - 1) for (low, high), d in zip(padding, x_dilation, strict=True)]
        x = jax.lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *cuts])
        padding, x_dilation = [(max(low, 0), max(high, 0)) for low, high in padding], [1] * len(padding)
    return jax.lax.conv_general_dilated(
        x,
        w,
        how.strides,
        padding,
        lhs_dilation=x_dilation,
        rhs_dilation=how.w_dilation,
        feature_group_count=how.groups,
    )


def scatter_add(g: jax.Array, /, *indices: Any, index: tuple[Any, ...], shape: tuple[int, ...]) -> jax.Array:
    at = None if indices else explicit(index, shape)
    if at is not None:
        return _padded(g, at, shape)
    array, where = _at(jnp.zeros(shape, dtype=g.dtype, device=_device_of(g)), indices, index)
    out = array.at[where].add(g) if g.dtype != bool else array.at[where].max(g)
    return out.reshape(shape)


def _padded(g: jax.Array, index: tuple[Any, ...], shape: tuple[int, ...]) -> jax.Array:
    """Return zeros with ``g`` at an index of slices and integers.

    XLA fuses this with the sums around it, but does not fuse a scatter.
    """
    lengths, flipped, padding = [], [], []
    for axis, (entry, n) in enumerate(zip((e for e in index if e is not None), shape, strict=True)):
        places = range(n)[entry] if isinstance(entry, slice) else [range(n)[entry]]
        first, last = (min(places[0], places[-1]), max(places[0], places[-1])) if places else (n, n - 1)
        if len(places) > 1 and places[0] > places[1]:
            flipped.append(axis)
        step = abs(places[1] - places[0]) if len(places) > 1 else 1
        lengths.append(len(places))
        padding.append((first, n - 1 - last, step - 1))
    return jax.lax.pad(jax.lax.rev(g.reshape(lengths), flipped), jnp.zeros((), g.dtype), padding)


def searchsorted(x1: jax.Array, x2: jax.Array, /, *, side: str = "left") -> jax.Array:
    # JAX returns 32 bits; the standard requires the default dtype of indices
    return jnp.searchsorted(x1, x2, side=side).astype(jnp.asarray(0).dtype)


def iterate(going: Callable[..., Any], step: Callable[..., tuple[Any, ...]], *values: Any) -> tuple[Any, ...]:
    found: tuple[Any, ...] = jax.lax.while_loop(lambda state: going(*state), lambda state: step(*state), values)
    return found


# ------------------------------------------------------------------ devices and memory


def _devices() -> list[jax.Device]:
    found = jax.local_devices()
    return found if found[0].platform == "cpu" else [*found, *jax.local_devices(backend="cpu")]


def _default_device() -> jax.Device:
    chosen = jax.config.jax_default_device
    if isinstance(chosen, str):
        return jax.local_devices(backend=chosen)[0]
    return chosen if chosen is not None else jax.local_devices()[0]


def _find_device(name: str) -> jax.Device | None:
    kind, _, number = name.partition(":")
    kind = {"cuda": "gpu", "rocm": "gpu"}.get(kind, kind)
    of_kind = [d for d in _devices() if d.platform == kind]
    if not number:
        return of_kind[0] if of_kind else None
    return next((d for d in of_kind if str(d.id) == number), None)


def _device_of(x: jax.Array) -> Any:
    return _default_device() if isinstance(x, jax.core.Tracer) else x.device


def _from_host(a: np.ndarray, device: Any) -> jax.Array:
    # a copy, because device_put may keep the given memory
    own = jax.device_put(np.array(a), device)
    if own.dtype != a.dtype:
        raise DtypeError(
            f"JAX converts {a.dtype} to {own.dtype}, because its 64-bit mode is off. Call agrad.set_backend('jax'), "
            "which turns it on, or cast the array."
        )
    return own


def _synchronize() -> None:
    jax.effects_barrier()
    jax.block_until_ready(jax.live_arrays())


def _sparse(values: Any, where: Any) -> Any:
    from jax.experimental.sparse import BCOO

    index = jnp.asarray(np.stack([where.rows, where.columns], axis=1))
    return BCOO((values, index), shape=where.shape, indices_sorted=True, unique_indices=True)


BACKEND = Backend(
    name="jax",
    xp=vocabulary(
        jnp,
        getitem=getitem,
        setitem=setitem,
        scatter_add=scatter_add,
        take=take,
        from_parts=lambda x1, x2: jax.lax.complex(*jnp.broadcast_arrays(x1, x2)),
        searchsorted=searchsorted,
        convolution=convolution,
        iterate=iterate,
        special=special_functions.JAX,
    ),
    version=jax.__version__,
    array_types=(jax.Array, jax.core.Tracer),
    default_device=_default_device,
    devices=_devices,
    find_device=_find_device,
    device_of=_device_of,
    device_name=lambda x: str(_device_of(x)),
    to_host=lambda x: np.asarray(x),
    from_host=_from_host,
    synchronize=_synchronize,
    sparse=_sparse,
    on_select=lambda: jax.config.update("jax_enable_x64", True),
)


@kernel("jax", "transfer", "forward", when=lambda x: isinstance(x, jax.core.Tracer))
def transfer(x: jax.Array, *, target: tuple[str, Any], source: tuple[str, Any]) -> jax.Array:
    return x  # JAX runs all of a loop or branch that it traces


# ------------------------------------------------------------------ linear algebra


def lu(x: jax.Array, /) -> tuple[jax.Array, ...]:
    packed, _, order = jax.lax.linalg.lu(x)
    return unpacked(jnp, packed, order)


vars(BACKEND.xp.linalg).update(lu=lu, solve_or_nan=BACKEND.xp.linalg.solve)


@kernel("jax", "linalg.over_triangle", "forward", when=lambda x1, x2: x1.dtype == x2.dtype)
def over_triangle(x1: jax.Array, x2: jax.Array, *, upper: bool, checked: bool = False) -> jax.Array:
    x1, x2 = broadcast_batches(jnp, x1, x2)
    return jax.lax.linalg.triangular_solve(x2, x1, lower=not upper)


@cache
def _compiled_form(name: str, settings: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    return jax.jit(partial(PRIMITIVES[name].forward, BACKEND.xp, **dict(settings)))


def _form(name: str, x: jax.Array, **settings: Any) -> jax.Array:
    """Return the generic form, compiled as a whole."""
    found: jax.Array = _compiled_form(name, tuple(settings.items()))(x)
    return found


file_forms("jax", _form)

# ------------------------------------------------------------------ random numbers

_XP = SimpleNamespace(**{**vars(BACKEND.xp), "arange_like": lambda x, n: jnp.arange(n)})
"""The namespace of the generic draws. In a trace, an array has no device."""


def _refuse(wrong: bool, what: str, remedy: str) -> None:
    if wrong:
        mode = "Call agrad.set_backend('jax'), which turns it on"
        raise DtypeError(f"JAX {what} while its 64-bit mode is off. {mode}, or {remedy}.")


def _on_host(*arrays: jax.Array) -> bool:
    return not any(isinstance(array, jax.core.Tracer) for array in arrays) and all(
        device.platform == "cpu" for array in arrays for device in array.devices()
    )


def _blocks(counter: philox.Block, key: tuple[Any, Any]) -> philox.Block:
    """Compute ``philox.blocks`` by a loop of the compiled program.

    Without a loop, the rounds need a second to compile at each use.
    """

    def turn(_: Any, state: Any) -> Any:
        return philox.turn(*state)

    return jax.lax.fori_loop(0, philox.ROUNDS, turn, (counter, key))[0]


@cache
def _compiled(name: str, settings: tuple[tuple[str, Any], ...], dtype: str | None) -> Callable[..., Any]:
    """Return the generic function, compiled once for each set of keyword arguments.

    Its result is cast to ``dtype`` unless that is None.
    """
    form = getattr(philox, name)

    def run(key: jax.Array) -> jax.Array:
        out = form(_XP, philox.generic(_XP, key, _blocks), **dict(settings))
        return out if dtype is None else out.astype(dtype)

    return jax.jit(run)


def _draw(name: str, key: jax.Array, *arrays: jax.Array, **settings: Any) -> jax.Array:
    """Draw by the NumPy Philox generator on the CPU, otherwise by the compiled generic form."""
    kind = settings.get("dtype", "int32")
    _refuse(jax.dtypes.canonicalize_dtype(kind) != kind, f"has no {kind}", "name another dtype")
    # the dtype of indices in the library
    dtype = str(jax.dtypes.canonicalize_dtype(np.int64)) if name == "permutation" else None
    if _on_host(key, *arrays):
        values = getattr(host_random, name)(*map(np.asarray, (key, *arrays)), **settings)
        return jax.device_put(values if dtype is None else values.astype(dtype), key.sharding)
    old = not hasattr(jax, "enable_x64") and not jax.config.jax_enable_x64 and isinstance(key, jax.core.Tracer)
    _refuse(old, "before 0.8 cannot draw random numbers in a traced function", "install a newer JAX")
    with enable_x64(True):
        return _compiled(name, tuple(sorted(settings.items())), dtype)(key)


host_random.file_draws("jax", _draw, _on_host)
