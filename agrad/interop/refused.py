"""NumPy functions that only read values, and those without Tensor support.

Functions that print may read any values, as ``repr`` does. Functions that save do not accept a Tensor with a gradient.
"""

import importlib
from typing import Any

import numpy as np

import agrad
from agrad.interop.arguments import on_host
from agrad.interop.table import find, implements, refuses

_MATH = {
    "fabs": "abs", "fsum": "sum", "erf": "special.erf", "erfc": "special.erfc", "gamma": "special.gamma",
    "lgamma": "special.gammaln",
}  # fmt: skip
"""Functions of ``math`` whose names differ in agrad."""


def counterpart(called: str) -> str:
    """Return the agrad function for one of ``math`` or SciPy, or an empty string."""
    if called == "numpy.bmat":
        return "numpy.block"
    module, _, name = called.partition(".")
    if module not in ("math", "cmath", "scipy"):
        return ""
    if module != "scipy":
        path = _MATH.get(name, name)
        found: Any = agrad
    else:
        path, found = called, None
        parts = called.split(".")
        for n in range(len(parts) - 1, 0, -1):
            try:
                found = importlib.import_module(".".join(["agrad", *parts[:n]]))
            except ImportError:
                continue
            path = ".".join(parts[n:])
            break
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is None:
        return ""
    return f"agrad.{path}" if module != "scipy" else f"agrad.{called}"


# ------------------------------------------------------------------ reading

for _name in ("array2string", "array_repr", "array_str", "min_scalar_type"):
    implements(_name)(on_host(find(_name)))
for _name in ("save", "savetxt", "savez", "savez_compressed"):
    # the conversion raises an error for a Tensor with a gradient, which names .detach()
    implements(_name)(on_host(find(_name), np.asarray))


# ------------------------------------------------------------------ not supported

_DATES = "Call it on NumPy arrays of dates; Tensors cannot hold dates"

refuses("isnat", "busday_count", "busday_offset", "is_busday", "datetime_as_string", remedy=_DATES)
refuses(
    "histogram2d",
    "histogramdd",
    remedy="Use numpy.histogram on each axis, or detach: numpy.histogramdd(x.detach().numpy())",
)
refuses(
    "may_share_memory",
    "shares_memory",
    remedy="Pass the plain arrays: numpy.shares_memory(x.raw, y.raw)",
)
