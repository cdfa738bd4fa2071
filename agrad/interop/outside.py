"""NumPy's functions that only read values, and those that take no Tensors.

A function that prints may read any values, as ``repr``. A function that saves takes no Tensor with a gradient.
"""

import numpy as np

from agrad.interop.arguments import on_host
from agrad.interop.table import find, implements, refuses

# ------------------------------------------------------------------ reading

for _name in ("array2string", "array_repr", "array_str", "min_scalar_type"):
    implements(_name)(on_host(find(_name)))
for _name in ("save", "savetxt", "savez", "savez_compressed"):
    # the conversion raises an error for a Tensor with a gradient, which names .detach()
    implements(_name)(on_host(find(_name), np.asarray))


# ------------------------------------------------------------------ refused

_DATES = "it is about dates, of which Tensors hold none"

refuses("isnat", "busday_count", "busday_offset", "is_busday", "datetime_as_string", remedy=_DATES)
refuses(
    "histogram2d",
    "histogramdd",
    remedy="use numpy.histogram on each axis, or detach: numpy.histogramdd(x.detach().numpy())",
)
refuses(
    "may_share_memory",
    "shares_memory",
    remedy="ask it of the arrays themselves: numpy.shares_memory(x.raw, y.raw)",
)
