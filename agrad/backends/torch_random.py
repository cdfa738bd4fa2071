"""Random numbers for PyTorch: drawn by NumPy's Philox, on the CPU into memory that the two libraries share.

Draws for another device come from the host too, up to a number of words; beyond it they are computed there, in array
operations. The bits are the same either way.
"""

import math
from functools import wraps
from types import SimpleNamespace
from typing import Any

import array_api_compat.torch as compat
import numpy as np
import torch

from agrad import philox
from agrad.backends import host_random
from agrad.registry import kernel

_FROM_HOST = 1 << 20
"""Words up to which the host serves another device: an estimate, of 450 launches against 3 ns a word and a copy."""

_XP = SimpleNamespace(
    **{name: getattr(compat, name) for name in dir(compat) if not name.startswith("_")},
    arange_like=lambda x, n: torch.arange(n, device=x.device),
)


def _count(settings: dict[str, Any]) -> int:
    return math.prod(settings["shape"]) if "shape" in settings else settings.get("n") or 2 * settings.get("count", 0)


def _file(name: str) -> None:
    on_host, generic = getattr(host_random, name), getattr(philox, name)

    @wraps(on_host)
    def draw(key: torch.Tensor, **settings: Any) -> torch.Tensor:
        if key.device.type != "cpu" and _count(settings) > _FROM_HOST:
            return generic(_XP, philox.generic(_XP, key), **settings)
        return torch.from_numpy(on_host(key.cpu().numpy(), **settings)).to(key.device)

    kernel("torch", f"random_{name}", "forward")(draw)


def _on_host(*arrays: torch.Tensor) -> bool:
    return all(array.device.type == "cpu" for array in arrays)


@kernel("torch", "random_normal", "forward", when=_on_host)
def normal(key: torch.Tensor, *, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    return torch.from_numpy(host_random.normal(key.numpy(), shape=shape, dtype=dtype))


@kernel("torch", "random_log_gamma", "forward", when=_on_host)
def log_gamma(key: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.asarray(host_random.log_gamma(key.numpy(), alpha.detach().numpy())))


for _name in ("keys", "bits", "uniform", "mask", "integers", "permutation"):
    _file(_name)
