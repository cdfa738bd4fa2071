"""Faults of libraries of the standard, each shown by a call without agrad, and the rows of the table that they lose.

``python tests/generic_counts.py --write`` writes them into docs/backends.md, and the tests skip these rows. A test
holds that each call still fails: a fault that a new version has mended leaves this list.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

__all__ = ["FAULTS", "KNOWN", "Fault"]


@dataclass(frozen=True)
class Fault:
    """A call of a library, its wrong result, and the rows whose values or derivatives it makes wrong."""

    library: str
    call: str
    result: str
    rows: str
    shown: Callable[[Any], bool]
    """Given the library's module: does the call still fail?"""

    def is_shown(self) -> bool:
        """Return True if the installed library has the fault."""
        name = self.library
        module = import_module("mlx.core" if name == "mlx" else name)
        return self.shown(module)


def raises(call: Callable[[Any], Any], *kinds: type[Exception]) -> Callable[[Any], bool]:
    """Return a check that a call raises one of these errors."""

    def shown(xp: Any) -> bool:
        try:
            call(xp)
        except kinds:
            return True
        return False

    return shown


def host(x: Any) -> np.ndarray:
    """Return an array of a library as NumPy's."""
    return np.asarray(next((getattr(x, n)() for n in ("unwrap_numpy", "todense") if hasattr(x, n)), x))


def rough(names: str) -> Callable[[Any], bool]:
    """Return a check that functions of float64 have fewer than 11 digits."""

    def shown(xp: Any) -> bool:
        for name in names.split():
            at = np.linspace(0.1, 0.9, 9) + (name == "acosh")
            with warnings.catch_warnings(action="ignore"):  # ndonnx says that it casts to float32
                got, want = host(getattr(xp, name)(xp.asarray(at, dtype=xp.float64))), getattr(np, name)(at)
            if np.allclose(got, want, rtol=1e-11, atol=0):
                return False
        return True

    return shown


def wrong(call: Callable[[Any], Any], expected: Any) -> Callable[[Any], bool]:
    """Return a check that a call does not give what it should."""
    return lambda xp: not np.array_equal(host(call(xp)), expected)


UNEVEN = np.arange(4.0)
POINT = np.asarray([-0.5, 2.0])
FAULTS = [
    Fault("mlx", "`mx.exp(x)`, `mx.sin(x)`, `mx.cos(x)` of float64", "right to 8 digits", "", rough("exp sin cos")),
    Fault("mlx", "`mx.fft.fft(x)` of float64", "complex64; agrad raises an error", "", lambda mx: (
        mx.fft.fft(mx.array(UNEVEN, dtype=mx.float64)).dtype == mx.complex64)),
    Fault("cubed", "`cubed.take(x, i)` of as many indices as `x` is long", "`x` itself; agrad works around it", "",
          wrong(lambda xp: xp.take(xp.asarray([1, 2]), xp.asarray([1, 0]), axis=0).compute(), [2, 1])),
    Fault("cubed", "`cubed.broadcast_to(x, shape)`", "chunks of one element; agrad works around it", "",
          lambda xp: max(xp.broadcast_to(xp.asarray(1.0), (40,)).chunksize) == 1),
    Fault("cubed", "`cubed.concat` of unequal lengths on a negative axis", "ValueError; agrad works around it", "",
          raises(lambda xp: xp.concat([xp.ones((2,)), xp.ones((1,))], axis=-1), ValueError)),
    Fault("cubed", "`cubed.reshape` of chunks that do not merge evenly", "ValueError; agrad works around it", "",
          raises(lambda xp: xp.reshape(xp.asarray(np.ones((3, 2)), chunks=(3, 1)), (6,)), ValueError)),
    Fault("cubed", "`cubed.linalg.svd(x)` with `full_matrices=True`", "ValueError", "linalg.svd", raises(
        lambda xp: xp.linalg.svd(xp.asarray(np.eye(2))), ValueError)),
    Fault("ndonnx", "`cos`, `sinh`, `cosh`, `tan` and others of float64", "computed in float32, with a warning",
          "sin cos tan asin acos atan sinh cosh acosh atanh", rough("cos tan asin acos atan sinh cosh acosh atanh")),
    Fault("ndonnx", "`ndonnx.cumulative_prod(x)` of negative numbers", "NaN", "cumulative_prod",
          wrong(lambda xp: xp.cumulative_prod(xp.asarray([-1.0, 2.0])), [-1.0, -2.0])),
    *(Fault("ndonnx", f"`ndonnx.{name}(x, y)`", "NotImplementedError", rows, raises(
        lambda xp, name=name: getattr(xp, name)(xp.asarray(POINT), xp.asarray(POINT)), NotImplementedError))
      for name, rows in {"hypot": "hypot asinh", "atan2": "atan2", "copysign": "copysign leg_share",
                         "nextafter": "nextafter"}.items()),
    Fault("mparray", "`mparray.nextafter(x, y)` of negative `x`", "NaN", "nextafter",
          lambda xp: bool(xp.isnan(xp.nextafter(xp.asarray([-1.0]), xp.asarray([2.0])))[0])),
    Fault("mparray", "`mparray.maximum(x, y)`, `minimum` of integers", "ValueError",
          "segment_prod segment_max segment_min", raises(
              lambda xp: xp.maximum(xp.asarray([1]), xp.asarray([2])), ValueError)),
    Fault("mparray", "`mparray.linspace(0, 1, 4)`", "16 digits", "", lambda xp: _sixteen_digits(xp)),
    Fault("sparse", "`sparse.concat`, `stack` of arrays with other fill values", "ValueError",
          "prod diff setitem linalg.cross linalg.matrix_exp", raises(
              lambda xp: xp.concat([xp.zeros((1,)), xp.ones((1,))], axis=0), ValueError)),
    Fault("sparse", "`sparse.take(x, i)` of a sparse `i`", "IndexError", "take linalg.diagonal", raises(
        lambda xp: xp.take(xp.asarray(UNEVEN), xp.asarray(np.asarray([1, 0])), axis=0), IndexError)),
    Fault("sparse", "`sparse.sort(x)`", "ValueError: no stable order", "sort", raises(
        lambda xp: xp.sort(xp.asarray(UNEVEN), stable=True), ValueError)),
]  # fmt: skip
KNOWN = {(fault.library, row): fault for fault in FAULTS for row in fault.rows.split()}


def _sixteen_digits(xp: Any) -> bool:
    mp = import_module("mpmath").mp
    with mp.workdps(50):
        return abs(xp.linspace(0, 1, 4)._data[1] - mp.mpf(1) / 3) > mp.mpf(10) ** -20
