"""NumPy's functions that take no Tensors, and those that only read values.

A function that prints reads the values, as ``repr`` does; one that would have to leave the graph is refused.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from agrad import Tensor
from agrad.interop.arguments import like_of
from agrad.interop.table import find, implements, refuses

# ------------------------------------------------------------------ reading


def _printing(function: Callable[..., Any]) -> Callable[..., Any]:
    def handler(a: Any, *args: Any, **settings: Any) -> Any:
        return function(a.detach().numpy(), *args, **settings)

    return handler


def _saving(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return NumPy's function of the values; a Tensor with a gradient is refused."""

    def handler(*args: Any, **settings: Any) -> Any:
        return function(*map(_without_gradient, args), **{k: _without_gradient(v) for k, v in settings.items()})

    return handler


def _without_gradient(value: Any) -> Any:
    if isinstance(value, Tensor):
        return np.asarray(value)  # its error names .detach()
    if isinstance(value, (list, tuple)) and like_of(value) is not None:
        return type(value)(_without_gradient(part) for part in value)
    return value


for _name in ("array2string", "array_repr", "array_str"):
    implements(_name)(_printing(find(_name)))
for _name in ("save", "savetxt", "savez", "savez_compressed"):
    implements(_name)(_saving(find(_name)))


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


# ------------------------------------------------------------------ not asked

NOT_ASKED: dict[str, str] = {}
"""NumPy's other names, which do not dispatch on Tensors, with what happens to one."""


def _aside(reason: str, names: str) -> None:
    NOT_ASKED.update(dict.fromkeys(names.split(), reason))


_aside(
    "makes an array of numbers; with `like=` a Tensor, it makes a Tensor where that is",
    "arange empty eye frombuffer fromfile fromfunction fromiter fromstring full genfromtxt identity loadtxt ones tri "
    "zeros",
)
_aside(
    "converts to an ndarray: an error that names `.detach()` for a Tensor that requires a gradient; with `like=` a "
    "Tensor, differentiable",
    "array asanyarray asarray ascontiguousarray asfortranarray require",
)
_aside(
    "converts to an ndarray: an error that names `.detach()` for a Tensor that requires a gradient; use "
    "`agrad.asarray`",
    "asarray_chkfinite asmatrix bmat matrix from_dlpack broadcast ndenumerate nditer nested_iters vectorize",
)
_aside(
    "numbers in, numbers out: an error that names `.detach()` for a Tensor that requires a gradient",
    "bartlett blackman hamming hanning kaiser base_repr binary_repr format_float_positional format_float_scientific",
)
_aside(
    "makes indices or shapes of whole numbers",
    "broadcast_shapes diag_indices indices mask_indices ndindex tril_indices triu_indices",
)
_aside("is about dtypes", "dtype finfo iinfo isdtype issubdtype mintypecode promote_types typename")
_aside("asks what an object is; it reads no values", "iterable isscalar isfortran")
_aside("calls `numpy.vstack`, and works as that does", "row_stack")
_aside("calls the functions above, and works as they do", "poly1d")
_aside("makes a ufunc of a Python function, which is refused: write the function with array operations", "frompyfunc")
_aside(
    "is of NumPy itself: a class of arrays, files, settings or help",
    "busdaycalendar flatiter memmap ndarray recarray ufunc datetime_data errstate fromregex get_include "
    "get_printoptions getbufsize geterr geterrcall info load printoptions set_printoptions setbufsize seterr "
    "seterrcall show_config show_runtime test linalg.LinAlgError linalg.test fft.test",
)
_aside("makes an array of frequencies; use `agrad.fft`'s for a Tensor", "fft.fftfreq fft.rfftfreq")
