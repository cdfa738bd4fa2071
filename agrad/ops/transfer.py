"""Moving an array to another device or to another backend: linear, so gradients move back."""

from typing import Any

import array_api_compat

from agrad.backends import backend_of, load
from agrad.engine.levels import AMBIENT
from agrad.engine.notation import primitive
from agrad.engine.tensor import Tensor, wrap
from agrad.ops.shared import ndim_of, raw_of
from agrad.registry import CALLS


@primitive(linear="x", batch="leading", may_alias=True)
def transfer(xp: Any, x: Any, /, *, target: tuple[str, Any], source: tuple[str, Any]) -> Any:
    """``x`` on another backend and device; ``target`` and ``source`` are (backend, device)."""
    name, device = target
    here = backend_of(x)
    if here.name == name:
        return array_api_compat.to_device(x, device)
    return load(name).from_host(here.to_host(x), device)


@transfer.vjp
def transfer_vjp(g: Any, *, target: tuple[str, Any], source: tuple[str, Any]) -> Any:
    return transfer.bind(g, target=source, source=target)


def to(x: Any, where: Any, /) -> Any:
    """``x`` on another backend, named (``"cupy"``), or on another device of its own backend. Differentiable."""
    ndim_of(x, "to")
    raw = raw_of(x)
    here = backend_of(raw)
    source = (here.name, here.device_of(raw))
    if isinstance(where, str) and here.find_device(where) is None:
        target = load(where)
        if target is here:
            return x
        return transfer.bind(x, target=(target.name, target.default_device()), source=source)
    device = here.device(where)
    if device == source[1]:
        return x
    return transfer.bind(x, target=(here.name, device), source=source)


def to_device(x: Any, device: Any, /, *, stream: Any = None) -> Any:
    """``x`` on another device of the same backend. Differentiable. Raises ``DeviceUnavailableError``."""
    ndim_of(x, "to_device")
    raw = raw_of(x)
    here = backend_of(raw)
    source, target = here.device_of(raw), here.device(device)
    if source == target:
        return x
    return transfer.bind(x, target=(here.name, target), source=(here.name, source))


def rebuild(raw: Any, requires_grad: bool) -> Tensor:
    """A Tensor from what pickle or copy kept of it."""
    tensor = wrap(raw, AMBIENT)
    if requires_grad:
        tensor.requires_grad = True
    return tensor


CALLS["inspect_rebuild"] = rebuild

__all__ = ["to", "to_device"]
