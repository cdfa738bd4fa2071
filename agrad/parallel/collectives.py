"""Collective operations on the arrays of all ranks, with derivatives.

The derivative of a program on several ranks is the derivative of the sum of the results of all ranks. Each rank
differentiates its own result, and collective operations send cotangents to the ranks that their values came from.
"""

from typing import Any

import numpy as np

import agrad
from agrad.backends import backend_of
from agrad.engine.tape import mode
from agrad.errors import DtypeError, ShapeError, TracedValueError
from agrad.parallel.ranks import World, world

__all__ = ["allgather", "allreduce", "alltoall", "broadcast", "reduce_scatter"]


# ------------------------------------------------------------------ messages


def _sum(ranks: World, x: np.ndarray, root: int = 0) -> np.ndarray:
    if x.dtype == bool:
        raise DtypeError("parallel: sums over ranks must be of numbers, got Booleans. Cast them with agrad.astype.")
    # MPI adds no float16 and no bfloat16
    wide = x if x.dtype.char in "fdFDbBhHiIlLqQ" else x.astype(np.float32)
    return ranks._total(wide).astype(x.dtype, copy=False)


def _bytes(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1).view(np.uint8)


def _gather(ranks: World, x: np.ndarray, root: int) -> np.ndarray:
    out = np.empty((ranks.size * x.shape[0], *x.shape[1:]), x.dtype)
    ranks.comm.Allgather(_bytes(x), _bytes(out))
    return out


def _scatter(ranks: World, x: np.ndarray, root: int) -> np.ndarray:
    n = x.shape[0] // ranks.size
    return _sum(ranks, x)[ranks.rank * n : (ranks.rank + 1) * n]


def _all_to_all(ranks: World, x: np.ndarray, root: int) -> np.ndarray:
    out = np.empty_like(x)
    ranks.comm.Alltoall(_bytes(x), _bytes(out))
    return out


def _from_root(ranks: World, x: np.ndarray, root: int) -> np.ndarray:
    out = x.copy()
    ranks.comm.Bcast(_bytes(out), root=root)
    return out


def _to_root(ranks: World, x: np.ndarray, root: int) -> np.ndarray:
    return _sum(ranks, x) * (ranks.rank == root)


_ALONG = {"gather": _gather, "scatter": _scatter, "all to all": _all_to_all}
"""The messages that divide or join arrays along an axis."""
_MESSAGES = {"sum": _sum, "from root": _from_root, "to root": _to_root, **_ALONG}
_TRANSPOSES = {"gather": "scatter", "scatter": "gather", "from root": "to root", "to root": "from root"}
"""The transposes of messages that are not their own transposes."""


def _without_ranks(kind: str, x: np.ndarray, ranks: World) -> np.ndarray:
    """Return an array like the result of a message."""
    if kind == "gather":
        return np.concatenate([x] * ranks.size)
    return x[: x.shape[0] // ranks.size] if kind == "scatter" else x


@agrad.primitive(name="parallel.exchange", linear="x", batch="axis", has_effect=True, no_alias=True)
def exchange_p(xp: Any, x: Any, /, *, kind: str, axis: int, root: int) -> Any:
    """Return the array that this rank receives by a message."""
    ranks, backend, trace = world(), backend_of(x), mode().trace
    if trace is not None and not trace.evaluating:
        raise TracedValueError(f"parallel: a message ({kind}) in a traced function must be recorded, got a constant.")
    # a trace sends nothing: other ranks may replay what this one traces
    send = ranks.comm is not None and trace is None
    if send and kind == "sum" and ranks.cuda_aware and hasattr(x, "__cuda_array_interface__"):
        backend.synchronize()
        return ranks._total(x)
    axis = axis if kind in _ALONG else 0
    here = np.atleast_1d(np.asarray(backend.to_host(x)))
    moved = np.ascontiguousarray(np.moveaxis(here, axis, 0))
    found = np.moveaxis(_MESSAGES[kind](ranks, moved, root) if send else _without_ranks(kind, moved, ranks), 0, axis)
    return backend.from_host(np.array(found if x.shape else found.reshape(())), backend.device_of(x))


@exchange_p.vjp
def _exchange_vjp(g: Any, *, kind: str, axis: int, root: int) -> Any:
    return _exchange(g, _TRANSPOSES.get(kind, kind), axis, root)


def _exchange(x: Any, kind: str, axis: int = 0, root: int = 0) -> Any:
    """Call the operation. In a trace, replace a constant, with which it would not be recorded."""
    trace = mode().trace
    if trace is not None and not (isinstance(x, agrad.Tensor) and isinstance(x.data, agrad.Tensor)):
        x = trace.stand_in(agrad.asarray(x))
    return exchange_p(x, kind=kind, axis=axis, root=root)


# ------------------------------------------------------------------ public functions


def _axis(name: str, x: Any, axis: int, parts: int = 1) -> int:
    """Return an axis as a nonnegative number. Raise ``ShapeError`` if it cannot be divided among the ranks."""
    if not -len(x.shape) <= axis < len(x.shape):
        raise ShapeError(f"{name}: axis must be an axis of x, got {axis} for shape {tuple(x.shape)}")
    axis %= len(x.shape)
    if x.shape[axis] % parts:
        raise ShapeError(
            f"{name}: the length of axis {axis} must be a multiple of the {parts} ranks, got {x.shape[axis]}"
        )
    return axis


def allreduce(x: Any, /) -> Any:
    """Return the sum of the arrays of all ranks.

    All ranks must call collective operations in the same order, with arrays of the same shapes and dtypes. A compiled
    function (:func:`agrad.jit`) makes these calls even if their results are not used.

    Parameters
    ----------
    x : array
        Numeric array of any shape.

    Returns
    -------
    array
        Array like ``x``, with the same bits on all ranks. The operation is its own transpose.

    Examples
    --------
    >>> agrad.parallel.allreduce(np.array([1.0, 2.0]))  # on one rank
    array([1., 2.])
    """
    return _exchange(x, "sum")


def allgather(x: Any, /, *, axis: int = 0) -> Any:
    """Concatenate the arrays of all ranks along an axis.

    Parameters
    ----------
    x : array
        Array of any dtype with at least one axis.
    axis : int, default 0
        Axis to concatenate along, in the order of the ranks.

    Returns
    -------
    array
        Array whose axis is ``world().size`` times as long. The transpose is :func:`agrad.parallel.reduce_scatter`.

    Examples
    --------
    >>> agrad.parallel.allgather(np.array([1.0, 2.0]))  # on one rank
    array([1., 2.])
    """
    return _exchange(x, "gather", _axis("allgather", x, axis))


def reduce_scatter(x: Any, /, *, axis: int = 0) -> Any:
    """Return one part of the sum of the arrays of all ranks.

    Parameters
    ----------
    x : array
        Numeric array with at least one axis.
    axis : int, default 0
        Axis to divide. Its length must be a multiple of the number of ranks, and rank k receives part k.

    Returns
    -------
    array
        Array whose axis is ``world().size`` times as short. The transpose is :func:`agrad.parallel.allgather`.

    Examples
    --------
    >>> agrad.parallel.reduce_scatter(np.array([1.0, 2.0]))  # on one rank
    array([1., 2.])
    """
    return _exchange(x, "scatter", _axis("reduce_scatter", x, axis, world().size))


def alltoall(x: Any, /, *, axis: int = 0) -> Any:
    """Exchange parts of arrays between all ranks.

    Parameters
    ----------
    x : array
        Array of any dtype with at least one axis.
    axis : int, default 0
        Axis to divide. Its length must be a multiple of the number of ranks, and part k is sent to rank k.

    Returns
    -------
    array
        The received parts, concatenated in the order of the ranks. The operation is its own transpose.

    Examples
    --------
    >>> agrad.parallel.alltoall(np.array([1.0, 2.0]))  # on one rank
    array([1., 2.])
    """
    return _exchange(x, "all to all", _axis("alltoall", x, axis, world().size))


def broadcast(x: Any, /, *, root: int = 0) -> Any:
    """Return the array of one rank on all ranks.

    Parameters
    ----------
    x : array
        Array of any dtype.
    root : int, default 0
        Rank whose array is sent. The cotangents of all ranks are added there.

    Returns
    -------
    array
        Array of rank ``root``.

    Examples
    --------
    >>> agrad.parallel.broadcast(np.array([1.0, 2.0]))  # on one rank
    array([1., 2.])
    """
    if not 0 <= root < world().size:
        raise ShapeError(f"broadcast: root must be a rank from 0 to {world().size - 1}, got {root}")
    return _exchange(x, "from root", root=root)
