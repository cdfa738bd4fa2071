"""Having a lazy backend work out, once a step, what the step made."""

from __future__ import annotations

from typing import Any

from agrad.backends import backend_of


def settle(model: Any, optimizer: Any, *pending: list[Any]) -> None:
    """Compute parameters, state and the last of each ``pending`` list with Dask.

    All of them in one pass.

    A promise that is never kept would grow by every step, and be worked out anew by every use of it.
    """
    parameters = model.parameters()
    state = [array for arrays in optimizer._arrays for array in arrays]
    last = [values[-1] for values in pending]
    kept = iter(backend_of(last[0]).computed([*(tensor.data for tensor in parameters), *state, *last]))
    for tensor in parameters:
        tensor.assign(next(kept))
    optimizer._arrays = [tuple(next(kept) for _ in arrays) for arrays in optimizer._arrays]
    for values in pending:
        values[-1] = next(kept)
