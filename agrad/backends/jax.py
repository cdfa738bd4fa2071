"""JAX: immutable arrays; its 64-bit switch is turned on when the backend is selected, and nowhere else."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import agrad.backends.jax_random  # noqa: F401 - files kernels
from agrad.backends import special_words
from agrad.backends.base import Backend, vocabulary
from agrad.backends.indexing import check_bounds, host_index, positions
from agrad.errors import DtypeError
from agrad.shapes import fill_index


def _arrays(index: tuple[Any, ...], indices: tuple[Any, ...], shape: tuple[int, ...]) -> list[Any]:
    """The index arrays, once every integer that can be seen without waiting is known to be in range.

    JAX clamps or drops what is out of range; an array under a trace or on an accelerator is left to it.
    """
    arrays = [i if isinstance(i, jax.Array) else host_index(i, np.asarray) for i in indices]
    check_bounds(index, [_visible(array) for array in arrays], shape)
    return arrays


def _visible(array: Any) -> np.ndarray | None:
    if isinstance(array, np.ndarray):
        return array
    hidden = isinstance(array, jax.core.Tracer) or any(d.platform != "cpu" for d in array.devices())
    return None if hidden and array.dtype != bool else np.asarray(array)


def _at(x: jax.Array, indices: tuple[Any, ...], index: tuple[Any, ...]) -> tuple[jax.Array, tuple[Any, ...] | Any]:
    """What to index and by what: ``x`` itself, or ``x`` flat where JAX reads the index unlike NumPy."""
    arrays = _arrays(index, indices, x.shape)
    # a truth value beside other index arrays moves their axes in NumPy, and does not in JAX
    odd = any(isinstance(i, (bool, np.bool_)) for i in index) or any(a.dtype == bool and not a.ndim for a in arrays)
    if odd:
        return x.reshape(-1), positions(index, [np.asarray(a) for a in arrays], x.shape)
    return x, fill_index(index, arrays)


def getitem(x: jax.Array, /, *indices: Any, index: tuple[Any, ...]) -> jax.Array:
    array, where = _at(x, indices, index)
    return array[where]


def setitem(x: jax.Array, value: Any, /, *indices: Any, index: tuple[Any, ...]) -> jax.Array:
    if isinstance(value, jax.Array):
        value = value.astype(x.dtype)
    array, where = _at(x, indices, index)
    return array.at[where].set(value).reshape(x.shape)


def scatter_add(g: jax.Array, /, *indices: Any, index: tuple[Any, ...], shape: tuple[int, ...]) -> jax.Array:
    array, where = _at(jnp.zeros(shape, dtype=g.dtype, device=_device_of(g)), indices, index)
    out = array.at[where].add(g) if g.dtype != bool else array.at[where].max(g)
    return out.reshape(shape)


def searchsorted(x1: jax.Array, x2: jax.Array, /, *, side: str = "left") -> jax.Array:
    # JAX gives 32 bits where the standard has the default dtype of indices
    return jnp.searchsorted(x1, x2, side=side).astype(jnp.asarray(0).dtype)


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
    # device_put may keep the memory it is given, so it is given a copy of its own
    own = jax.device_put(np.array(a), device)
    if own.dtype != a.dtype:
        raise DtypeError(
            f"JAX would turn {a.dtype} into {own.dtype}, as its 64-bit mode is off; "
            "select the backend with agrad.set_backend('jax'), which turns it on, or cast the array"
        )
    return own


def _synchronize() -> None:
    jax.effects_barrier()
    jax.block_until_ready(jax.live_arrays())


BACKEND = Backend(
    name="jax",
    xp=vocabulary(
        jnp,
        getitem=getitem,
        setitem=setitem,
        scatter_add=scatter_add,
        from_parts=lambda x1, x2: jax.lax.complex(*jnp.broadcast_arrays(x1, x2)),
        searchsorted=searchsorted,
        special=special_words.JAX,
    ),
    version=jax.__version__,
    array_types=(jax.Array, jax.core.Tracer),
    default_device=_default_device,
    devices=_devices,
    find_device=_find_device,
    device_of=_device_of,
    to_host=lambda x: np.asarray(x),
    from_host=_from_host,
    synchronize=_synchronize,
    on_select=lambda: jax.config.update("jax_enable_x64", True),
)
