"""Transfer to another device or backend. It is linear: gradients move back."""

from typing import Any

import array_api_compat

from agrad.backends import Backend, backend_of, load
from agrad.dtypes import DTYPES, dtype_name
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.tensor import Tensor, raw_of, wrap
from agrad.errors import BackendUnavailableError
from agrad.ops.definition import primitive, public_of_array
from agrad.ops.shared import ndim_of
from agrad.registry import CALLS

__all__ = ["to", "to_device"]


@primitive(linear="x", batch="leading", may_alias=True, sparsity="same", capturable=False)
def transfer(xp: Any, x: Any, /, *, target: tuple[str, Any], source: tuple[str, Any]) -> Any:
    """Move ``x``; ``target`` and ``source`` are (backend, device)."""
    name, device = target
    here = backend_of(x)
    if here.name == name:
        return x if here.device_of(x) == device else array_api_compat.to_device(x, device)
    return load(name).from_host(here.to_host(x), device)


@transfer.vjp
def transfer_vjp(g: Any, *, target: tuple[str, Any], source: tuple[str, Any]) -> Any:
    return transfer(g, target=source, source=target)


@public_of_array
def to(x: Any, where: Any, /) -> Any:
    """Move an array to another backend or device.

    Differentiable.

    Parameters
    ----------
    x : array of any shape and dtype
    where : str or device
        Name of a backend, such as ``"cupy"``, or a device of the backend of the array.

    Returns
    -------
    array
        ``x`` itself if it is already there.

    Examples
    --------
    >>> x = agrad.asarray([1.0, 2.0])
    >>> agrad.to(x, "array_api_strict").backend
    'array_api_strict'
    >>> agrad.grad(lambda x: agrad.sum(agrad.to(x, "array_api_strict") ** 2))(x)
    Tensor([2.0, 4.0], dtype=float64, backend=numpy, device=cpu)
    """
    ndim_of(x, "to")
    raw = raw_of(x)
    here = backend_of(raw)
    if not isinstance(where, str) and where is not None and dtype_name(where) in DTYPES:
        raise _no_place(dtype_name(where), here)
    if not isinstance(where, str) or here.find_device(where) is not None:
        return to_device(x, where)
    try:
        target = load(where)
    except BackendUnavailableError:
        if where not in DTYPES and where.partition(":")[0] not in ("cpu", "cuda", "gpu", "mps", "tpu", "xpu"):
            raise
        raise _no_place(where, here) from None
    if target is here:
        return x
    return transfer(x, target=(target.name, target.default_device()), source=(here.name, here.device_of(raw)))


def _no_place(where: Any, here: Backend) -> BackendUnavailableError:
    fix = f"x.astype({where!r})" if where in DTYPES else 'x.to("cupy") for a CUDA device, x.to("numpy") for the CPU'
    return BackendUnavailableError(
        f"to: where must be a backend, or a device of {here.name!r}, got {where!r}. Write {fix}."
    )


@public_of_array
def to_device(x: Any, device: Any, /, *, stream: Any = None) -> Any:
    """Move an array to another device of its backend.

    Differentiable.

    Parameters
    ----------
    x : array of any shape and dtype
    device : device
        Device of the backend, or its name.
    stream : object, optional
        Not used.

    Returns
    -------
    array
        ``x`` itself if it is already there.

    Examples
    --------
    >>> x = agrad.to_device(agrad.asarray([1.0, 2.0]), "cpu")
    >>> x.device
    'cpu'
    """
    ndim_of(x, "to_device")
    raw = raw_of(x)
    here = backend_of(raw)
    source, target = here.device_of(raw), here.device(device)
    if source == target:
        return x
    return transfer(x, target=(here.name, target), source=(here.name, source))


def _move_beside(x: Any, like: Any) -> Any:
    """Return ``x`` on the backend and device of ``like``."""
    raw, like = raw_of(x), raw_of(like)
    here, there = backend_of(raw), backend_of(like)
    return transfer(x, target=(there.name, there.device_of(like)), source=(here.name, here.device_of(raw)))


def rebuild(raw: Any, requires_grad: bool, role: Any = None) -> Tensor:
    """Create a Tensor from a plain array; pickles and copies also call it."""
    tensor = wrap(raw, GLOBAL_TAPE)
    tensor._link = None  # an array, and no scalar
    if requires_grad:
        tensor.requires_grad = True
    if role is not None:
        tensor._role = role
    return tensor


CALLS["move_beside"] = _move_beside
