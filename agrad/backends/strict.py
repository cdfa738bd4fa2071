"""array-api-strict: only the standard, on several devices that cannot be mixed.

Its arrays hold NumPy arrays, which have views and an order in memory.
"""

from typing import Any

import array_api_strict as strict
import numpy as np

from agrad.backends.base import CONTENT
from agrad.backends.generic import of_namespace
from agrad.backends.numpy import backend as host
from agrad.backends.special import SpecialWords, in_double


def _in_double(xp: Any, form: Any, dtype: Any, *arrays: Any, **settings: Any) -> Any:
    # on NumPy, because the library's checks of a form's thousand operations need a second
    found = in_double(host.BACKEND.xp, form, arrays[0]._array.dtype, *(a._array for a in arrays), **settings)
    return strict.asarray(found, device=arrays[0].device)


BACKEND = of_namespace(
    strict,
    functions={"special": SpecialWords(evaluate=_in_double)},
    to_host=lambda x: x._array,
    laid_out_like=lambda x, like: (
        x
        if x._array.strides == like._array.strides
        else strict.asarray(host.laid_out_like(x._array, like._array), device=x.device)
    ),
    strides=lambda x: x._array.strides,
    row_major=lambda x: x._array.flags.c_contiguous,
    memory=lambda x: host.memory(x._array),
    shares_memory=lambda a, b: np.may_share_memory(a._array, b._array),
    read_only=lambda x: not x._array.flags.writeable,
    content=lambda x: x._array.tobytes if x._array.nbytes <= CONTENT else None,
)
