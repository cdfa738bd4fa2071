"""agrad: automatic differentiation for the Python array API standard.

One engine and one set of derivative rules, on NumPy, CuPy, PyTorch, JAX, Dask and array-api-strict. This module names
everything public, and is an array API namespace whose arrays are Tensors.
"""

import importlib as _importlib
import agrad.starting as _starting  # noqa: F401 - first, to hear Ctrl-C while the others are imported
import math as _math
import typing as _typing
from types import ModuleType as _ModuleType
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
from agrad.engine.notation import elementwise as elementwise
from agrad.engine.notation import primitive as primitive
from agrad.inspecting.profile import profile as profile
from agrad.engine.states import note_state as note_state
from agrad.engine.tape import (
    detect_anomaly as detect_anomaly,
    enable_grad as enable_grad,
    no_grad as no_grad,
)
from agrad.engine.tensor import Tensor as Tensor
from agrad.foreign import function_word as _function_word
from agrad.ops.elementwise import (
    abs as abs,
    acos as acos,
    acosh as acosh,
    add as add,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    bitwise_and as bitwise_and,
    bitwise_invert as bitwise_invert,
    bitwise_left_shift as bitwise_left_shift,
    bitwise_or as bitwise_or,
    bitwise_right_shift as bitwise_right_shift,
    bitwise_xor as bitwise_xor,
    ceil as ceil,
    clip as clip,
    conj as conj,
    copysign as copysign,
    cos as cos,
    cosh as cosh,
    divide as divide,
    equal as equal,
    exp as exp,
    expm1 as expm1,
    floor as floor,
    floor_divide as floor_divide,
    greater as greater,
    greater_equal as greater_equal,
    imag as imag,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    less as less,
    less_equal as less_equal,
    log as log,
    log10 as log10,
    log1p as log1p,
    log2 as log2,
    logaddexp as logaddexp,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    maximum as maximum,
    minimum as minimum,
    multiply as multiply,
    negative as negative,
    nextafter as nextafter,
    not_equal as not_equal,
    positive as positive,
    pow as pow,
    real as real,
    reciprocal as reciprocal,
    remainder as remainder,
    round as round,
    sign as sign,
    signbit as signbit,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    subtract as subtract,
    tan as tan,
    tanh as tanh,
    trunc as trunc,
    where as where,
)
from agrad.ops.cumulative import (
    cumulative_prod as cumulative_prod,
    cumulative_sum as cumulative_sum,
)
from agrad.ops.statistical import (
    max as max,
    mean as mean,
    min as min,
    prod as prod,
    std as std,
    sum as sum,
    var as var,
)
from agrad.ops.searching import (
    all as all,
    any as any,
    argmax as argmax,
    argmin as argmin,
    count_nonzero as count_nonzero,
    nonzero as nonzero,
    searchsorted as searchsorted,
)
from agrad.ops.sorting import (
    argsort as argsort,
    sort as sort,
    topk as topk,
)
from agrad.ops.segments import (
    segment_max as segment_max,
    segment_min as segment_min,
    segment_prod as segment_prod,
    segment_sum as segment_sum,
)
from agrad.ops.sets import (
    isin as isin,
    unique_all as unique_all,
    unique_counts as unique_counts,
    unique_inverse as unique_inverse,
    unique_values as unique_values,
)
from agrad.ops.manipulation import (
    broadcast_arrays as broadcast_arrays,
    broadcast_to as broadcast_to,
    concat as concat,
    expand_dims as expand_dims,
    flip as flip,
    matrix_transpose as matrix_transpose,
    moveaxis as moveaxis,
    permute_dims as permute_dims,
    reshape as reshape,
    squeeze as squeeze,
    stack as stack,
)
from agrad.ops.arrangement import (
    diff as diff,
    repeat as repeat,
    roll as roll,
    tile as tile,
    unstack as unstack,
)
from agrad.ops.indexing import (
    take as take,
    take_along_axis as take_along_axis,
)
from agrad.ops.lengths import hypot as hypot
from agrad.ops.linear_algebra import (
    matmul as matmul,
    tril as tril,
    triu as triu,
)
from agrad.ops.products import (
    tensordot as tensordot,
    vecdot as vecdot,
)
from agrad.ops.casting import (
    astype as astype,
    can_cast as can_cast,
    cast as cast,
    finfo as finfo,
    iinfo as iinfo,
    isdtype as isdtype,
    result_type as result_type,
)
from agrad.ops.conversion import (
    asarray as asarray,
    from_dlpack as from_dlpack,
)
from agrad.ops.creation import (
    arange as arange,
    empty as empty,
    empty_like as empty_like,
    eye as eye,
    full as full,
    full_like as full_like,
    linspace as linspace,
    meshgrid as meshgrid,
    ones as ones,
    ones_like as ones_like,
    zeros as zeros,
    zeros_like as zeros_like,
)
from agrad.ops.transfer import (
    to as to,
    to_device as to_device,
)
from agrad.ops.inspection import __array_namespace_info__ as __array_namespace_info__
from agrad.ops.special import (
    erf as erf,
)
from agrad.ops.composites import (
    cross_entropy as cross_entropy,
    gelu as gelu,
    linear as linear,
    log_softmax as log_softmax,
    logsumexp as logsumexp,
    relu as relu,
    sigmoid as sigmoid,
    softmax as softmax,
    softmax_cross_entropy as softmax_cross_entropy,
)
from agrad.jit.api import jit as jit
from agrad.jit.shapes import ShapeDtype as ShapeDtype
from agrad.jit.shapes import eval_shape as eval_shape
from agrad.registry import CALLS as _CALLS
from agrad.registry import namespace as _namespace
from agrad.shapes import broadcast_shapes as broadcast_shapes
from agrad.inspecting.compare import compare_backends as compare_backends
from agrad.transforms.checkpoint import checkpoint as checkpoint
from agrad.control.flow import (
    cond as cond,
    fori_loop as fori_loop,
    scan as scan,
    switch as switch,
    while_loop as while_loop,
)
from agrad.transforms.custom import (
    custom_jvp as custom_jvp,
    custom_vjp as custom_vjp,
    stop_gradient as stop_gradient,
)
from agrad.transforms.grad import (
    grad as grad,
    jvp as jvp,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from agrad.solvers.implicit import (
    fixed_point as fixed_point,
    linear_solve as linear_solve,
    root as root,
)
from agrad.transforms.jacobian import (
    hessian as hessian,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
)
from agrad.transforms.vmap import vmap as vmap
from agrad.transforms.numerical import numerical_rule as numerical_rule
from agrad.solvers.ode import odeint as odeint
from agrad.transforms.linear import (
    elementwise_grad as elementwise_grad,
    gnvp as gnvp,
    hvp as hvp,
    linear_transpose as linear_transpose,
    linearize as linearize,
)
from agrad.inspecting.recorder import graph as graph

__version__ = "0.1.0"
__array_api_version__ = "2025.12"

if _typing.TYPE_CHECKING:
    from agrad.ops.sections import fft as fft, linalg as linalg, special as special
else:
    linalg, fft, special = _namespace.linalg, _namespace.fft, _namespace.special

bool = _DTYPES["bool"]
int8, int16, int32, int64 = (_DTYPES[name] for name in ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = (_DTYPES[name] for name in ("uint8", "uint16", "uint32", "uint64"))
float32, float64 = _DTYPES["float32"], _DTYPES["float64"]
complex64, complex128 = _DTYPES["complex64"], _DTYPES["complex128"]

e, pi, inf, nan = _math.e, _math.pi, _math.inf, _math.nan
newaxis = None

if _typing.TYPE_CHECKING:  # for type checkers and editors; __getattr__ loads them
    from agrad import (
        data as data,
        errors as errors,
        nn as nn,
        numpy as numpy,
        optim as optim,
        plotting as plotting,
        random as random,
        scipy as scipy,
        testing as testing,
        train as train,
        tree as tree,
    )
    from agrad.nn.saving import load as load, save as save
    from agrad.interop.words import (
        cumsum as cumsum,
        einsum as einsum,
        gradient as gradient,
        pad as pad,
        quantile as quantile,
        transpose as transpose,
    )

# built on this module, as any user's package could be, and imported on first use to keep this import fast
_PACKAGES = ("data", "nn", "optim", "plotting", "random", "scipy", "testing", "train", "tree")

# modules and containers in files
_FILES = ("load", "save")

# functions by NumPy's names, for libraries that search the package of an array's class for them
_WORDS = ("cumsum", "einsum", "gradient", "pad", "quantile", "transpose")


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
        if name in _FILES:
            return getattr(_importlib.import_module("agrad.nn.saving"), name)
        if name in _PACKAGES or name == "numpy":  # which a star import must not take for NumPy
            return _importlib.import_module(f"agrad.{name}")
        if name in _WORDS or name == "lib":  # xarray looks for windows there; it is no word of agrad's own
            return getattr(_importlib.import_module("agrad.interop.words"), name)
        word = _function_word(name)
        raise AttributeError(f"module 'agrad' has no attribute {name!r}" + (f". Write {word}." if word else ""))


def __dir__() -> list[str]:
    return _PUBLIC.copy()


_HERE = [name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _ModuleType)]
_PUBLIC = sorted([*_HERE, "errors", *_PACKAGES, *_FILES, *_WORDS])
# not an assignment: type checkers cannot evaluate it, and would take it for an empty list
globals()["__all__"] = _PUBLIC

_await_einops()
