"""agrad: automatic differentiation for the Python array API standard.

One engine and one set of derivative rules, on NumPy, CuPy, PyTorch, JAX, Dask and array-api-strict. This module names
everything public, and is an array API namespace whose arrays are Tensors.
"""

import importlib as _importlib
import agrad.starting as _starting  # noqa: F401 - first, to hear Ctrl-C while the others are imported
import math as _math
import typing as _typing
from typing import Any as _Any

from agrad.arrival import await_einops as _await_einops
from agrad.backends import (
    available_backends as available_backends,
    get_backend as get_backend,
    set_backend as set_backend,
    use_backend as use_backend,
)
from agrad.dtypes import DTYPES as _DTYPES
from agrad.dtypes import DType as DType
from agrad.engine.notation import elementwise as elementwise, primitive as primitive
from agrad.inspecting.profile import profile as profile
from agrad.engine.states import note_state as note_state
from agrad.engine.tape import detect_anomaly as detect_anomaly, enable_grad as enable_grad, no_grad as no_grad
from agrad.engine.tensor import Tensor as Tensor
from agrad.faces import list_names as _list_names
from agrad.foreign import function_word as _function_word
from agrad.ops import *
from agrad.ops.inspection import __array_namespace_info__ as __array_namespace_info__
from agrad.jit.api import jit as jit
from agrad.jit.shapes import ShapeDtype as ShapeDtype, eval_shape as eval_shape
from agrad.registry import CALLS as _CALLS
from agrad.shapes import broadcast_shapes as broadcast_shapes
from agrad.inspecting.compare import compare_backends as compare_backends
from agrad.transforms.checkpoint import checkpoint as checkpoint
from agrad.control.flow import *
from agrad.transforms.custom import *
from agrad.transforms.grad import *
from agrad.solvers.equations import *
from agrad.solvers.implicit import *
from agrad.transforms.jacobian import *
from agrad.transforms.sparse import *
from agrad.transforms.sparse_array import SparseArray as SparseArray
from agrad.transforms.vmap import vmap as vmap
from agrad.transforms.numerical import numerical_rule as numerical_rule
from agrad.solvers.ode import odeint as odeint
from agrad.transforms.linear import *
from agrad.inspecting.recorder import graph as graph
from agrad import fft as fft, linalg as linalg, special as special

__version__ = "0.1.0"
__array_api_version__ = "2025.12"

bool: DType = _DTYPES["bool"]
int8, int16, int32, int64 = (_DTYPES[name] for name in ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = (_DTYPES[name] for name in ("uint8", "uint16", "uint32", "uint64"))
float32, float64 = _DTYPES["float32"], _DTYPES["float64"]
complex64, complex128 = _DTYPES["complex64"], _DTYPES["complex128"]

e, pi, inf, nan = _math.e, _math.pi, _math.inf, _math.nan
newaxis = None

if _typing.TYPE_CHECKING:  # for type checkers and editors; __getattr__ loads them
    from agrad import data as data, errors as errors, nn as nn, numpy as numpy, optim as optim, parallel as parallel
    from agrad import plotting as plotting, random as random, scipy as scipy, testing as testing, train as train
    from agrad import registry as registry, tree as tree
    from agrad.interop.words import cumsum as cumsum, einsum as einsum, gradient as gradient, pad as pad
    from agrad.interop.words import quantile as quantile, transpose as transpose
    from agrad.nn.saving import load as load, save as save

# built on this module, as any user's package could be, and imported on first use to keep this import fast
_PACKAGES = ("data", "nn", "optim", "parallel", "plotting", "random", "scipy", "testing", "train", "tree")

# functions imported on first use, by module: with NumPy's names, which libraries search for in the package of an
# array's class, and files
_FUNCTIONS = {
    **dict.fromkeys(("cumsum", "einsum", "gradient", "pad", "quantile", "transpose"), "interop.words"),
    **dict.fromkeys(("load", "save"), "nn.saving"),
}


def _answer(name: str, module: str = "numpy") -> None:
    """File a handler of other packages' objects that is loaded at its first call."""

    def load(*args: _Any) -> _Any:
        _CALLS[name] = getattr(_importlib.import_module(f"agrad.interop.{module}"), name)
        return _CALLS[name](*args)

    _CALLS[name] = load


_answer("array_ufunc")
_answer("array_function")
_answer("array_method")
_answer("flat_iterator")
_answer("special_word")
_answer("operator_beside", "beside")
_answer("values_of_labelled", "beside")
_answer("counterpart", "outside")
_answer("array_namespace", "namespaces")


if not _typing.TYPE_CHECKING:  # with it, checkers would take any name for one of agrad's

    def __getattr__(name: str) -> _Any:
        if name in _PACKAGES or name == "numpy":  # which a star import must not take for NumPy
            return _importlib.import_module(f"agrad.{name}")
        if name in _FUNCTIONS or name == "lib":  # xarray looks for windows there; it is no word of agrad's own
            return getattr(_importlib.import_module(f"agrad.{_FUNCTIONS.get(name, 'interop.words')}"), name)
        word = _function_word(name)
        raise AttributeError(f"module 'agrad' has no attribute {name!r}" + (f". Write {word}." if word else ""))


def __dir__() -> list[str]:
    return globals()["__all__"].copy()


_list_names(globals(), "errors", "fft", "linalg", "special", *_PACKAGES, *_FUNCTIONS)

_await_einops()
