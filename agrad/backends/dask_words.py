"""Words of the standard that Dask says for some chunks only."""

from typing import Any

import array_api_compat.dask.array as compat
import dask.array as da
import numpy as np

from agrad.shapes import size


def reshape(x: da.Array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    """``x`` in another shape; in one chunk where its chunks do not split or merge evenly."""
    if not size(x.shape):
        # Dask loses the chunks of what is empty
        return da.zeros(np.zeros(x.shape, bool).reshape(shape).shape, dtype=x.dtype)
    try:
        return compat.reshape(x, shape, copy=copy)
    except NotImplementedError:
        return compat.reshape(x.rechunk(x.shape), shape, copy=copy)
