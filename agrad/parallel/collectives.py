"""Collective operations: arrays of all ranks combined, as operations with derivatives.

The derivative of a program on several ranks is that of the sum of all ranks' results: each rank differentiates its own
result, and the collective operations carry cotangents to the ranks that their values came from.
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


def _exchanged(kind: str, x: Any, axis: int = 0, root: int = 0) -> Any:
    """Return what this rank gets, as an array of the backend and the device of its own."""
    ranks, backend = world(), backend_of(x)
    direct = ranks.cuda_aware and hasattr(x, "__cuda_array_interface__") and kind == "sum"
    if direct and ranks.comm is not None and mode().trace is None:
        backend.synchronize()
        return ranks._total(x)
    here = np.moveaxis(np.asarray(backend.to_host(x)), axis, 0) if x.shape else np.asarray(backend.to_host(x))
    # a trace records the operation and sends nothing: other ranks may replay what this one traces
    trace = mode().trace
    if trace is not None and not trace.evaluating:
        raise TracedValueError(f"parallel: a message ({kind}) in a traced function must be recorded, got a constant.")
    alone = ranks.comm is None or trace is not None
    found = _alone(kind, here, ranks) if alone else _MESSAGES[kind](ranks, np.ascontiguousarray(here), root)
    out = np.moveaxis(found, 0, axis) if x.shape else found.reshape(())
    return backend.from_host(np.array(out), backend.device_of(x))


def _alone(kind: str, x: np.ndarray, ranks: World) -> np.ndarray:
    if kind == "gather":
        return np.concatenate([x] * ranks.size)
    return x[: x.shape[0] // ranks.size] if kind == "scatter" else x


def _sum(ranks: World, x: np.ndarray, root: int = 0) -> np.ndarray:
    if x.dtype.char in "efdFDgGbBhHiIlLqQ":
        return ranks._total(x.astype(np.float32)).astype(x.dtype) if x.dtype.char == "e" else ranks._total(x)
    if x.dtype == bool:
        raise DtypeError(
            "parallel: sums over ranks must be of numbers, got Booleans. Cast them with agrad.astype first."
        )
    return ranks._total(x.astype(np.float32)).astype(x.dtype)


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
    total = _sum(ranks, x)
    return total if ranks.rank == root else np.zeros_like(total)


_MESSAGES = {
    "sum": _sum,
    "gather": _gather,
    "scatter": _scatter,
    "all to all": _all_to_all,
    "from root": _from_root,
    "to root": _to_root,
}


# ------------------------------------------------------------------ operations


def _recorded(x: Any) -> Any:
    """Return an array that a trace records operations on, also for a constant."""
    trace = mode().trace
    if trace is None or (isinstance(x, agrad.Tensor) and isinstance(x.data, agrad.Tensor)):
        return x
    return trace.stand_in(agrad.asarray(x))


@agrad.primitive(name="parallel.allreduce", linear="x", batch="leading", has_effect=True, no_alias=True)
def allreduce_p(xp: Any, x: Any, /) -> Any:
    return _exchanged("sum", x)


@allreduce_p.vjp
def _allreduce_vjp(g: Any) -> Any:
    return allreduce_p(_recorded(g))


@agrad.primitive(name="parallel.allgather", linear="x", batch="axis", has_effect=True, no_alias=True)
def allgather_p(xp: Any, x: Any, /, *, axis: int) -> Any:
    return _exchanged("gather", x, axis)


@agrad.primitive(name="parallel.reduce_scatter", linear="x", batch="axis", has_effect=True, no_alias=True)
def reduce_scatter_p(xp: Any, x: Any, /, *, axis: int) -> Any:
    return _exchanged("scatter", x, axis)


@allgather_p.vjp
def _allgather_vjp(g: Any, *, axis: int) -> Any:
    return reduce_scatter_p(_recorded(g), axis=axis)


@reduce_scatter_p.vjp
def _reduce_scatter_vjp(g: Any, *, axis: int) -> Any:
    return allgather_p(_recorded(g), axis=axis)


@agrad.primitive(name="parallel.alltoall", linear="x", batch="axis", has_effect=True, no_alias=True)
def alltoall_p(xp: Any, x: Any, /, *, axis: int) -> Any:
    return _exchanged("all to all", x, axis)


@alltoall_p.vjp
def _alltoall_vjp(g: Any, *, axis: int) -> Any:
    return alltoall_p(_recorded(g), axis=axis)


@agrad.primitive(name="parallel.broadcast", linear="x", batch="leading", has_effect=True, no_alias=True)
def broadcast_p(xp: Any, x: Any, /, *, root: int) -> Any:
    return _exchanged("from root", x, root=root)


@agrad.primitive(name="parallel.reduce", linear="x", batch="leading", has_effect=True, no_alias=True)
def reduce_p(xp: Any, x: Any, /, *, root: int) -> Any:
    return _exchanged("to root", x, root=root)


@broadcast_p.vjp
def _broadcast_vjp(g: Any, *, root: int) -> Any:
    return reduce_p(_recorded(g), root=root)


@reduce_p.vjp
def _reduce_vjp(g: Any, *, root: int) -> Any:
    return broadcast_p(_recorded(g), root=root)


# ------------------------------------------------------------------ public functions


def _axis(name: str, x: Any, axis: int, parts: int = 1) -> int:
    """Return an axis from the front. Raise ``ShapeError`` for one that cannot be divided among the ranks."""
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

    All ranks must call it, in the same order, with arrays of one shape and dtype; so with each function here. A
    compiled function (`agrad.jit`) keeps these calls, even without a use of the result, in their order.

    Parameters
    ----------
    x : array
        Numbers, of any shape. The sum has the same bits on all ranks.

    Returns
    -------
    array
        An array like ``x``. The operation is its own transpose.

    Raises
    ------
    DtypeError
        If ``x`` is Boolean.

    Examples
    --------
    >>> agrad.parallel.allreduce(np.array([1.0, 2.0]))  # on one rank
    array([1., 2.])
    """
    return allreduce_p(_recorded(x))


def allgather(x: Any, /, *, axis: int = 0) -> Any:
    """Return the arrays of all ranks, concatenated along an axis in the order of the ranks.

    Parameters
    ----------
    x : array
        An array with one axis or more, of any dtype.
    axis : int
        The axis.

    Returns
    -------
    array
        Axis ``axis`` is ``world().size`` times as long. The transpose is ``reduce_scatter``.

    Raises
    ------
    ShapeError
        If ``x`` has no such axis.

    Examples
    --------
    >>> agrad.parallel.allgather(np.array([1.0, 2.0]))  # on one rank
    array([1., 2.])
    """
    return allgather_p(_recorded(x), axis=_axis("allgather", x, axis))


def reduce_scatter(x: Any, /, *, axis: int = 0) -> Any:
    """Return the part of this rank of the sum of all ranks' arrays.

    Parameters
    ----------
    x : array
        Numbers, with one axis or more.
    axis : int
        The axis that is divided: its first part belongs to rank 0.

    Returns
    -------
    array
        Axis ``axis`` is divided by ``world().size``. The transpose is ``allgather``.

    Raises
    ------
    ShapeError
        If ``x`` has no such axis, or its length is not a multiple of the number of ranks.

    Examples
    --------
    >>> agrad.parallel.reduce_scatter(np.array([1.0, 2.0]))  # on one rank
    array([1., 2.])
    """
    return reduce_scatter_p(_recorded(x), axis=_axis("reduce_scatter", x, axis, world().size))


def alltoall(x: Any, /, *, axis: int = 0) -> Any:
    """Return the parts that all ranks have for this one.

    Parameters
    ----------
    x : array
        An array with one axis or more, of any dtype.
    axis : int
        The axis that is divided: its k-th part goes to rank k.

    Returns
    -------
    array
        The parts from all ranks in their order, in the shape of ``x``. The operation is its own transpose.

    Raises
    ------
    ShapeError
        If ``x`` has no such axis, or its length is not a multiple of the number of ranks.

    Examples
    --------
    >>> agrad.parallel.alltoall(np.array([1.0, 2.0]))  # on one rank
    array([1., 2.])
    """
    return alltoall_p(_recorded(x), axis=_axis("alltoall", x, axis, world().size))


def broadcast(x: Any, /, *, root: int = 0) -> Any:
    """Return the array of one rank.

    Parameters
    ----------
    x : array
        An array of any dtype, with the same shape and dtype on all ranks.
    root : int
        The rank whose array all get. The cotangents of all ranks are added there.

    Returns
    -------
    array
        The array of rank ``root``.

    Raises
    ------
    ShapeError
        If there is no such rank.

    Examples
    --------
    >>> agrad.parallel.broadcast(np.array([1.0, 2.0]))  # on one rank
    array([1., 2.])
    """
    if not 0 <= root < world().size:
        raise ShapeError(f"broadcast: root must be a rank from 0 to {world().size - 1}, got {root}")
    return broadcast_p(_recorded(x), root=root)
