"""What to say where an array library refuses an operation: the shapes, devices and kinds of what it was given."""

from typing import Any

import numpy as np

from agrad.backends import backend_of_type
from agrad.engine.levels import NUMBERS
from agrad.engine.tensor import Tensor
from agrad.errors import AgradError, MixedBackendsError, OperandError, ShapeError
from agrad.shapes import broadcast_shapes, unlike_product


def explained(primitive: Any, args: tuple[Any, ...], error: Exception) -> Exception:
    """The error where a library refused: agrad's own for shapes, devices and numbers, or the library's with a note."""
    if isinstance(error, AgradError):
        return error
    name = primitive.name
    shapes = [tuple(a.shape) for a in args if hasattr(a, "shape")]
    text = " and ".join(map(str, shapes))
    if name == "matmul" and len(shapes) == 2 and unlike_product(*shapes):
        return ShapeError(f"matmul: shapes {text} do not multiply")
    if primitive.broadcasts and name != "matmul":
        matrices = name in ("linalg.solve", "linalg.over_triangle")
        try:
            broadcast_shapes(*([shape[:-2] for shape in shapes] if matrices else shapes))
        except ShapeError:
            return ShapeError(f"{name}: shapes {text} do not broadcast")
    raws = [a.raw if isinstance(a, Tensor) else a for a in args]
    arrays = [a for a in raws if hasattr(a, "shape") and not isinstance(a, np.generic)]
    backends = [(backend_of_type(type(a)), a) for a in arrays]
    devices = {str(backend.device_of(a)) for backend, a in backends if backend is not None}
    if len(devices) > 1:
        return MixedBackendsError(
            f"{name} was given arrays on the devices {' and '.join(sorted(devices))}; move one: x.to_device(device)"
        )
    numbers = [a for a in raws if isinstance(a, (*NUMBERS, np.generic))]
    if primitive.variadic and numbers and backends and backends[0][0] is not None:
        made = f"agrad.asarray({numbers[0]!r}, backend={backends[0][0].name!r})"
        return OperandError(f"{name} takes arrays, not the number {numbers[0]!r}; make one of it: {made}")
    error.add_note(f"in agrad's {name} on shapes {text}")
    return error
