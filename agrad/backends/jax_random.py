"""Random numbers for JAX: NumPy's Philox on the CPU, and elsewhere, and in traces, the generic one compiled.

The generic one computes in 64 bits. Where JAX's 64-bit mode is off it is on inside the compiled function alone, so that
the bits are the same in both modes.
"""

from collections.abc import Callable
from functools import cache, wraps
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agrad import philox
from agrad.backends import host_random
from agrad.errors import DtypeError
from agrad.registry import kernel

try:
    from jax import enable_x64
except ImportError:  # where it was before JAX 0.8
    from jax.experimental import enable_x64

_XP = SimpleNamespace(
    **{name: getattr(jnp, name) for name in ("any", "argsort", "reshape", "stack", "where", *philox.FRACTIONS)},
    **{name: getattr(jnp, name) for name in ("int32", "int64", *philox.WIDTHS)},
    astype=lambda x, dtype: x.astype(dtype),
    arange_like=lambda x, n: jnp.arange(n),
)


def _check(dtype: str) -> None:
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise DtypeError(
            f"JAX has no {dtype} while its 64-bit mode is off; "
            "select the backend with agrad.set_backend('jax'), which turns it on, or name another dtype"
        )


def _on_host(*arrays: jax.Array) -> bool:
    return not any(isinstance(array, jax.core.Tracer) for array in arrays) and all(
        device.platform == "cpu" for array in arrays for device in array.devices()
    )


def _blocks(counter: philox.Block, key: tuple[Any, Any]) -> philox.Block:
    """The rounds as a loop of the compiled program: written out, they take a second to compile wherever they stand."""

    def turn(_: Any, state: Any) -> Any:
        return philox.turn(*state)

    return jax.lax.fori_loop(0, philox.ROUNDS, turn, (counter, key))[0]


@cache
def _compiled(name: str, settings: tuple[tuple[str, Any], ...], dtype: str | None) -> Callable[..., Any]:
    """The generic function, compiled once for each set of settings; its result cast to ``dtype`` where one is given."""
    form = getattr(philox, name)

    def run(key: jax.Array) -> jax.Array:
        out = form(_XP, philox.generic(_XP, key, _blocks), **dict(settings))
        return out if dtype is None else out.astype(dtype)

    return jax.jit(run)


def _file(name: str) -> None:
    on_host = getattr(host_random, name)

    @wraps(on_host)
    def draw(key: jax.Array, **settings: Any) -> jax.Array:
        if "dtype" in settings:
            _check(settings["dtype"])
        # the library's own dtype of indices
        dtype = str(jax.dtypes.canonicalize_dtype(np.int64)) if name == "permutation" else None
        if _on_host(key):
            values = on_host(np.asarray(key), **settings)
            return jax.device_put(values if dtype is None else values.astype(dtype), key.sharding)
        with enable_x64(True):
            return _compiled(name, tuple(sorted(settings.items())), dtype)(key)

    kernel("jax", f"random_{name}", "forward")(draw)


@kernel("jax", "random_normal", "forward", when=_on_host)
def normal(key: jax.Array, *, shape: tuple[int, ...], dtype: str) -> jax.Array:
    _check(dtype)
    return jax.device_put(host_random.normal(np.asarray(key), shape=shape, dtype=dtype), key.sharding)


@kernel("jax", "random_log_gamma", "forward", when=_on_host)
def log_gamma(key: jax.Array, alpha: jax.Array) -> jax.Array:
    return jax.device_put(host_random.log_gamma(np.asarray(key), np.asarray(alpha)), key.sharding)


for _name in ("keys", "bits", "uniform", "mask", "integers", "permutation"):
    _file(_name)
