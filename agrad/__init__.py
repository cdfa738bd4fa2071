"""agrad: automatic differentiation for the Python array API standard.

The same engine and derivative rules run on NumPy, CuPy, PyTorch, JAX, Dask and array-api-strict. This module is an
array API namespace whose arrays are Tensors.
"""

import importlib as _importlib
import agrad.starting as _starting  # noqa: F401 - first, to handle Ctrl-C while the others are imported
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
from agrad.engine.states import note_state as note_state
from agrad.engine.tape import detect_anomaly as detect_anomaly, enable_grad as enable_grad, no_grad as no_grad
from agrad.engine.tensor import Tensor as Tensor
from agrad.faces import list_names as _list_names
from agrad.foreign import function_word as _function_word
from agrad.ops import *
from agrad.ops.inspection import __array_namespace_info__ as __array_namespace_info__
from agrad.registry import CALLS as _CALLS
from agrad.shapes import broadcast_shapes as broadcast_shapes

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
    from agrad import data as data, errors as errors, fft as fft, linalg as linalg, nn as nn, numpy as numpy
    from agrad import optim as optim, parallel as parallel, plotting as plotting, random as random, scipy as scipy
    from agrad import special as special, testing as testing, train as train, tree as tree, registry as registry
    from agrad.control.flow import *
    from agrad.inspecting.compare import compare_backends as compare_backends
    from agrad.inspecting.profile import profile as profile
    from agrad.inspecting.recorder import graph as graph
    from agrad.interop.namespace import cumsum as cumsum, einsum as einsum, gradient as gradient, pad as pad
    from agrad.interop.namespace import quantile as quantile, transpose as transpose
    from agrad.jit.api import jit as jit
    from agrad.jit.shapes import ShapeDtype as ShapeDtype, eval_shape as eval_shape
    from agrad.nn.saving import load as load, save as save
    from agrad.solvers.equations import *
    from agrad.solvers.implicit import *
    from agrad.solvers.ode import odeint as odeint
    from agrad.transforms.checkpoint import checkpoint as checkpoint
    from agrad.transforms.custom import *
    from agrad.transforms.grad import *
    from agrad.transforms.jacobian import *
    from agrad.transforms.linear import *
    from agrad.transforms.numerical import numerical_rule as numerical_rule
    from agrad.transforms.vmap import vmap as vmap
    from agrad.transforms.sparse import *
    from agrad.transforms.sparse_array import SparseArray as SparseArray

# packages that use only this module, imported on first use to keep this import fast
_PACKAGES = (
    *("data", "fft", "linalg", "nn", "optim", "parallel", "plotting", "random", "scipy"),
    *("special", "testing", "train", "tree"),
)

# functions and classes imported on first use, by module
_MODULES = {
    "control.flow": ("cond", "fori_loop", "scan", "switch", "while_loop"),
    "inspecting.compare": ("compare_backends",),
    "inspecting.profile": ("profile",),
    "inspecting.recorder": ("graph",),
    # with NumPy names, which libraries search for in the package of the class of an array
    "interop.namespace": ("cumsum", "einsum", "gradient", "pad", "quantile", "transpose"),
    "jit.api": ("jit",),
    "jit.shapes": ("ShapeDtype", "eval_shape"),
    "nn.saving": ("load", "save"),
    "solvers.equations": ("fixed_point", "root"),
    "solvers.implicit": ("linear_solve",),
    "solvers.ode": ("odeint",),
    "transforms.checkpoint": ("checkpoint",),
    "transforms.custom": ("custom_jvp", "custom_vjp", "stop_gradient"),
    "transforms.grad": ("grad", "jvp", "value_and_grad", "vjp"),
    "transforms.jacobian": ("hessian", "jacfwd", "jacobian", "jacrev"),
    "transforms.linear": ("elementwise_grad", "gnvp", "hvp", "linear_transpose", "linearize"),
    "transforms.numerical": ("numerical_rule",),
    "transforms.sparse": ("sparse_hessian", "sparse_jacobian"),
    "transforms.sparse_array": ("SparseArray",),
    "transforms.vmap": ("vmap",),
}
_FUNCTIONS = {name: module for module, names in _MODULES.items() for name in names}


def _answer(module: str, *names: str) -> None:
    """Register functions of the engine that are imported at their first call."""
    for name in names:

        def load(*args: _Any, name: str = name) -> _Any:
            _CALLS[name] = getattr(_importlib.import_module(f"agrad.{module}"), name)
            return _CALLS[name](*args)

        _CALLS[name] = load


_answer("interop.numpy", "array_ufunc", "array_function", "array_method", "flat_iterator", "special_function")
_answer("interop.foreign_operators", "operator_beside", "values_of_labelled")
_answer("interop.refused", "counterpart")
_answer("interop.bound_namespace", "array_namespace")
_answer("inspecting.values", "op", "parents", "grad_fn", "represent")
_answer("inspecting.html", "represent_html")


if not _typing.TYPE_CHECKING:  # otherwise, checkers would accept any name

    def __getattr__(name: str) -> _Any:
        if name in _PACKAGES or name == "numpy":  # which a star import must not take for NumPy
            return _importlib.import_module(f"agrad.{name}")
        if name in _FUNCTIONS:
            found = getattr(_importlib.import_module(f"agrad.{_FUNCTIONS[name]}"), name)
            return globals().setdefault(name, found)
        if name == "lib":  # xarray looks for windows there; it is not a public name
            return _importlib.import_module("agrad.interop.namespace").lib
        word = _function_word(name)
        raise AttributeError(f"module 'agrad' has no attribute {name!r}" + (f". Write {word}." if word else ""))


def __dir__() -> list[str]:
    return globals()["__all__"].copy()


_importlib.import_module("agrad.jit")  # now, because the import of the package sets this name, which is a function
del globals()["jit"]
_list_names(globals(), "errors", *_PACKAGES, *_FUNCTIONS)

_await_einops()
