"""PyTorch: its tensors as arrays, without recording by PyTorch autograd."""

import math
from functools import partial
from operator import attrgetter
from typing import Any

import array_api_compat.torch as compat
import numpy as np
import torch

from agrad import philox
from agrad.backends import special as special_functions
from agrad.backends.base import Backend, vocabulary
from agrad.backends.convolution import Windows
from agrad.backends.indexing import explicit, host_index, positions
from agrad.errors import DtypeError
from agrad.kernels.numpy import random as host_random
from agrad.registry import kernel
from agrad.shapes import ARRAY


def subtract(x1: Any, x2: Any, /) -> torch.Tensor:
    """Subtract. As in NumPy, 1 - mask is an integer array."""
    try:
        return compat.subtract(x1, x2)
    except RuntimeError:
        kinds = {getattr(x, "dtype", type(x)) for x in (x1, x2)}
        if torch.bool not in kinds or not kinds & {int, float, complex}:
            raise
        return compat.subtract(*[x.to(torch.int64) if isinstance(x, torch.Tensor) else x for x in (x1, x2)])


# ------------------------------------------------------------------ indexing


def _index_tensor(entry: Any, device: torch.device) -> torch.Tensor:
    if not isinstance(entry, torch.Tensor):
        entry = torch.from_numpy(np.array(host_index(entry, np.asarray)))
    # PyTorch interprets uint8 as a mask, and supports no other unsigned or short index
    return entry.to(device, entry.dtype if entry.dtype == torch.bool else torch.int64)


def _is_odd(entry: Any) -> bool:
    """Return True if PyTorch and NumPy interpret an entry of an index differently."""
    if isinstance(entry, torch.Tensor):
        return entry.dtype == torch.bool and not (entry.ndim and entry.numel())
    return isinstance(entry, (bool, np.bool_)) or (isinstance(entry, slice) and (entry.step or 1) < 0)


def _at(x: torch.Tensor, indices: tuple[Any, ...], index: tuple[Any, ...]) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """Return x and the index, both flat if PyTorch and NumPy interpret it differently."""
    if not indices and not any(map(_is_odd, index)):
        return x, index
    arrays = [_index_tensor(entry, x.device) for entry in indices]
    rest = iter(arrays)
    entries = [next(rest) if entry is ARRAY else entry for entry in index]
    odd = any(map(_is_odd, entries))
    if len(arrays) < len(index) and any(a.ndim for a in arrays) and not odd:
        # mixed with index arrays, an integer is an index array in NumPy, but not in PyTorch
        entries = [_at_least_1d(entry, x.device) for entry in entries]
        if Ellipsis in index:
            place = index.index(Ellipsis)
            missing = x.ndim - sum(a.ndim if a.dtype == torch.bool else 1 for a in entries if hasattr(a, "ndim"))
            missing -= sum(isinstance(entry, slice) for entry in entries)
            entries[place : place + 1] = [slice(None)] * missing
            # an Ellipsis of zero axes separates index arrays in NumPy, but not in PyTorch
            odd = not missing and sum(hasattr(entry, "ndim") for entry in entries) > 1
    if odd:
        where = positions(index, [a.cpu().numpy() for a in arrays], tuple(x.shape))
        return x.reshape(-1), (torch.from_numpy(where).to(x.device),)
    return x, tuple(entries)


def _at_least_1d(entry: Any, device: torch.device) -> Any:
    if isinstance(entry, (int, np.integer)):
        return torch.tensor([entry], device=device)
    return entry.reshape(1) if isinstance(entry, torch.Tensor) and not entry.ndim else entry


def _ascending(x: torch.Tensor, index: tuple[Any, ...]) -> tuple[list[int], tuple[Any, ...]]:
    """Return the axes of x to reverse first, and a basic index with positive steps."""
    odd = [entry for entry in index if _is_odd(entry)]
    if not (odd and all(isinstance(entry, slice) for entry in odd)) or ARRAY in index:
        return [], index
    axes: list[int] = []
    out: list[Any] = []
    axis = 0
    for entry in explicit(index, tuple(x.shape)):
        if isinstance(entry, slice) and entry.step and entry.step < 0:
            last = x.shape[axis] - 1
            picked = range(last + 1)[entry]
            out.append(slice(last - picked[0], last - picked[-1] + 1, -entry.step))
            axes.append(axis)
        else:
            out.append(entry)
        axis += entry is not None
    return axes, tuple(out)


def getitem(x: torch.Tensor, /, *indices: Any, index: tuple[Any, ...]) -> torch.Tensor:
    axes, index = _ascending(x, index)
    array, where = _at(x.flip(axes) if axes else x, indices, index)
    return array[where]


def setitem(x: torch.Tensor, value: Any, /, *indices: Any, index: tuple[Any, ...]) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        value = value.to(x.dtype)
    axes, index = _ascending(x, index)
    array, where = _at(x.flip(axes) if axes else x.clone(), indices, index)
    array[where] = value
    out = array.reshape(x.shape)
    return out.flip(axes) if axes else out


def convolution(x: torch.Tensor, w: torch.Tensor, /, *, how: Windows) -> torch.Tensor:
    """Call the PyTorch convolution, transposed for zeros between elements."""
    f, (strides, padding, x_dilation, w_dilation, groups) = torch.nn.functional, how
    if not x.numel() or not w.numel():  # PyTorch raises for some of them
        return x.new_zeros((x.shape[0], w.shape[0], *how.lengths(x.shape, w.shape)))
    if all(step == 1 for step in x_dilation):
        return _CONVOLUTIONS[x.ndim - 3](_framed(x, padding), w, None, strides, 0, w_dilation, groups)
    rows, c, *kernel = w.shape
    w = w.reshape(groups, rows // groups, c, *kernel).transpose(1, 2).reshape(groups * c, rows // groups, *kernel)
    transposed = (f.conv_transpose1d, f.conv_transpose2d, f.conv_transpose3d)[x.ndim - 3]
    y = transposed(x, w.flip(tuple(range(2, x.ndim))), None, x_dilation, 0, 0, groups, w_dilation)
    edges = [d * (k - 1) for k, d in zip(kernel, w_dilation, strict=True)]
    pads = [(low - e, high - e) for (low, high), e in zip(padding, edges, strict=True)]
    return _framed(y, pads)[(..., *(slice(None, None, s) for s in strides))]


_CONVOLUTIONS = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)


def _framed(x: torch.Tensor, padding: Any) -> torch.Tensor:
    """Return ``x`` with zeros around it. A negative padding removes elements."""
    flat = [n for pair in reversed(padding) for n in pair]
    return torch.nn.functional.pad(x, flat) if any(flat) else x


def _derivative(place: int, g: Any, x: Any, w: Any, how: Windows) -> Any:
    """Return the PyTorch derivative with respect to ``x`` (place 0) or ``w`` (1); only its shape is read.

    PyTorch supports it without zeros between elements, with equal padding on both sides, and conjugates complex
    numbers.
    """
    evenly = set(how.x_dilation) == {1} and all(low == high >= 0 for low, high in how.padding)
    if not evenly or not g.is_floating_point() or not (g.numel() and x.numel() and w.numel()):
        return NotImplemented
    pads = [low for low, _ in how.padding]
    return torch.ops.aten.convolution_backward(
        g, x, w, None, how.strides, pads, how.w_dilation, False, [0] * len(pads), how.groups,
        [place == 0, place == 1, False],
    )[place]  # fmt: skip


@kernel("torch", "convolution", "vjp:x")
def convolution_x(g: Any, w: Any, x_meta: Any, *, how: Windows) -> Any:
    return _derivative(0, g, g.new_empty(x_meta.shape), w, how)


@kernel("torch", "convolution", "vjp:w")
def convolution_w(g: Any, x: Any, w_meta: Any, *, how: Windows) -> Any:
    return _derivative(1, g, x, g.new_empty(w_meta.shape), how)


def scatter_add(g: torch.Tensor, /, *indices: Any, index: tuple[Any, ...], shape: tuple[int, ...]) -> torch.Tensor:
    out = torch.zeros(shape, dtype=g.dtype, device=g.device)
    axes, index = _ascending(out, index)
    array, where = _at(out, indices, index)
    tensors = [entry if isinstance(entry, torch.Tensor) else None for entry in where]
    if not indices and array is out:
        array[where] = g
    elif len(indices) == len(index):
        array.index_put_(where, g, accumulate=True)
    elif all(tensor is not None or entry == slice(None) for entry, tensor in zip(where, tensors, strict=True)):
        torch.ops.aten.index_put_(array, tensors, g, True)
    else:
        places = torch.arange(out.numel(), device=g.device).reshape(shape)[where]
        out.view(-1).index_put_((places,), g, accumulate=True)
    return out.flip(axes) if axes else out


# ------------------------------------------------------------------ sets and searching


def isin(x1: torch.Tensor, x2: torch.Tensor, /, *, invert: bool = False) -> torch.Tensor:
    dtype = compat.result_type(x1, x2)
    x1, x2 = x1.to(dtype), x2.to(dtype)
    # the PyTorch function supports no unsigned integers except uint8; equal integers have equal bits
    if dtype == torch.uint64:
        x1, x2 = x1.view(torch.int64), x2.view(torch.int64)
    elif dtype in (torch.uint16, torch.uint32):
        x1, x2 = x1.to(torch.int64), x2.to(torch.int64)
    return torch.isin(x1, x2, invert=invert)


def searchsorted(x1: torch.Tensor, x2: torch.Tensor, /, *, side: str = "left") -> torch.Tensor:
    # PyTorch issues warnings for the copies that it would create itself
    return torch.searchsorted(x1.contiguous(), x2.contiguous(), side=side)


def unique_all(x: torch.Tensor, /) -> tuple[torch.Tensor, ...]:
    # PyTorch's unique does not return the first position of an element
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    places = torch.arange(x.numel(), device=x.device)
    first = torch.full(values.shape, x.numel(), dtype=torch.int64, device=x.device)
    first.scatter_reduce_(0, inverse.reshape(-1), places, "amin")
    return values, first, inverse, counts


# ------------------------------------------------------------------ devices and memory


def matmul(x1: torch.Tensor, x2: torch.Tensor, /) -> torch.Tensor:
    """Multiply matrices.

    A sparse matrix multiplies all columns of a batch at once, because PyTorch does not multiply it with batches.
    """
    try:
        return compat.matmul(x1, x2)
    except RuntimeError:
        if x1.layout is torch.strided or x1.ndim != 2 or x2.ndim < 3:
            raise
    columns = torch.movedim(x2, -2, 0)
    y = compat.matmul(x1, columns.reshape(columns.shape[0], -1))
    return torch.movedim(y.reshape(y.shape[0], *columns.shape[1:]), 0, -2)


def _devices() -> list[torch.device]:
    found = [torch.device("cpu")]
    found += [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append(torch.device("mps", 0))
    return found


def _find_device(name: str) -> torch.device | None:
    try:
        wanted = torch.device(name)
    except RuntimeError:
        return None
    if wanted.type == "cpu":
        return torch.device("cpu") if not wanted.index else None
    if wanted.index is None:
        current = torch.cuda.current_device() if wanted.type == "cuda" and torch.cuda.is_available() else 0
        wanted = torch.device(wanted.type, current)
    return wanted if wanted in _devices() else None


def _to_host(x: torch.Tensor) -> np.ndarray:
    try:
        return x.detach().cpu().resolve_conj().resolve_neg().numpy()
    except TypeError as error:
        raise DtypeError(f"NumPy has no dtype for {x.dtype}. Cast it first: agrad.astype(x, agrad.float32).") from error


def _from_host(a: np.ndarray, device: torch.device | None) -> torch.Tensor:
    try:
        own = torch.from_numpy(np.array(a, order="C"))
    except TypeError as error:
        raise DtypeError(f"PyTorch has no dtype for {a.dtype}. Cast the array first.") from error
    return own.to(device if device is not None else torch.get_default_device())


def _synchronize() -> None:
    if torch.cuda.is_initialized():
        for i in range(torch.cuda.device_count()):
            torch.cuda.synchronize(i)
    if torch.backends.mps.is_available():
        torch.mps.synchronize()


def _shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _laid_out_like(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return x if x.stride() == like.stride() else torch.empty_like(like).copy_(x)


def _sparse(values: Any, where: Any) -> Any:
    index = torch.as_tensor(np.stack([where.rows, where.columns]), device=values.device)
    return torch.sparse_coo_tensor(index, values, where.shape, is_coalesced=True, check_invariants=False)


BACKEND = Backend(
    name="torch",
    weak_dtypes=True,
    xp=vocabulary(
        compat,
        getitem=getitem,
        setitem=setitem,
        scatter_add=scatter_add,
        from_parts=lambda x1, x2: torch.complex(*torch.broadcast_tensors(x1, x2)),
        unique_all=unique_all,
        isin=isin,
        convolution=convolution,
        matmul=matmul,
        searchsorted=searchsorted,
        subtract=subtract,
        special=special_functions.TORCH,
    ),
    version=torch.__version__,
    array_types=(torch.Tensor,),
    default_device=torch.get_default_device,
    devices=_devices,
    find_device=_find_device,
    to_host=_to_host,
    from_host=_from_host,
    synchronize=_synchronize,
    laid_out_like=_laid_out_like,
    strides=lambda x: x.stride(),
    row_major=lambda x: x.is_contiguous(),
    shares_memory=_shares_memory,
    sparse=_sparse,
    memory=lambda x: None if 0 in x.stride() else x.untyped_storage().data_ptr(),
    content=lambda x: None if x.is_inference() else partial(attrgetter("_version"), x),
)

# ------------------------------------------------------------------ linear algebra


def solve_or_nan(x1: torch.Tensor, x2: torch.Tensor, /) -> torch.Tensor:
    dtype = torch.promote_types(x1.dtype, x2.dtype)
    # matrices that PyTorch would interpret as a batch of vectors
    x2 = x2[None] if x1.shape[:-1] == x2.shape else x2
    found, info = torch.linalg.solve_ex(x1.to(dtype), x2.to(dtype))
    return found.masked_fill((info != 0)[..., None, None], math.nan)


vars(BACKEND.xp.linalg).update(solve_or_nan=solve_or_nan)


@kernel("torch", "linalg.over_triangle", "forward", when=lambda x1, x2: x1.dtype == x2.dtype)
def over_triangle(x1: torch.Tensor, x2: torch.Tensor, *, upper: bool, checked: bool = False) -> torch.Tensor:
    return torch.linalg.solve_triangular(x2, x1, upper=upper, left=False)


@kernel("torch", "linalg.matrix_exp", "forward")
def matrix_exp(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.matrix_exp(x)


# ------------------------------------------------------------------ softmax


def _file_softmax(name: str) -> None:
    own = getattr(torch, name)
    back = getattr(torch.ops.aten, f"_{name}_backward_data")

    @kernel("torch", name, "forward", when=torch.is_floating_point)
    def softmax(x: torch.Tensor, *, axis: int) -> torch.Tensor:
        found: torch.Tensor = own(x, axis)
        return found

    @kernel("torch", name, "vjp:x", when=lambda g, y: g.dtype == y.dtype and torch.is_floating_point(y))
    def softmax_vjp(g: torch.Tensor, y: torch.Tensor, *, axis: int) -> torch.Tensor:
        found: torch.Tensor = back(g, y, axis, y.dtype)
        return found


_file_softmax("softmax")
_file_softmax("log_softmax")

# ------------------------------------------------------------------ random numbers

_FROM_HOST = 1 << 20
"""The number of words up to which the host draws for another device. An estimate: 450 launches cost as much as these
words at 3 ns each and a copy."""


def _count(settings: dict[str, Any]) -> int:
    return math.prod(settings["shape"]) if "shape" in settings else settings.get("n") or 2 * settings.get("count", 0)


def _on_host(*arrays: torch.Tensor) -> bool:
    return all(array.device.type == "cpu" for array in arrays)


def _draw(name: str, key: torch.Tensor, *arrays: torch.Tensor, **settings: Any) -> torch.Tensor:
    """Draw by the NumPy Philox generator; long draws for another device use operations there."""
    if not _on_host(key) and _count(settings) > _FROM_HOST:
        found: torch.Tensor = getattr(philox, name)(BACKEND.xp, philox.generic(BACKEND.xp, key), **settings)
        return found
    given = [array.detach().cpu().numpy() for array in (key, *arrays)]
    return torch.from_numpy(np.asarray(getattr(host_random, name)(*given, **settings))).to(key.device)


host_random.file_draws("torch", _draw, _on_host)
