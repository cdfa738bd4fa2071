"""Handlers of ``numpy.emath``, which extends real functions to complex results."""

from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import Floating, PromotedFloating, as_complex, is_complex
from agrad.interop.table import implements


def _extended(x: Tensor, limit: int) -> Tensor:
    """Return a real Tensor as a complex one if an element is below 0, or for limit 1 outside of [-1, 1]."""
    extends = not is_complex(x) and bool(agrad.any(agrad.abs(x) > 1 if limit else x < 0))
    return as_complex(x) if extends else x


def _handler(name: str, limit: int) -> Any:
    def handler(x: Floating) -> Tensor:
        return getattr(np, name)(_extended(x, limit))

    return handler


for _limit, _names in enumerate(("sqrt log log2 log10", "arccos arcsin arctanh")):
    for _name in _names.split():
        implements(f"emath.{_name}")(_handler(_name, _limit))


@implements("emath.logn")
def _logn(n: PromotedFloating, x: PromotedFloating) -> Any:
    return np.log(_extended(x, 0)) / np.log(_extended(n, 0))


@implements("emath.power")
def _power(x: PromotedFloating, p: PromotedFloating) -> Any:
    return np.power(_extended(x, 0), p)
