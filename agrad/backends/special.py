"""The special functions of the array libraries, by their SciPy names.

``xp.special`` of a backend is a ``SpecialWords``. A function that it does not have is evaluated in its generic form, by
operations of the array API standard. The modules of the libraries are imported at the first search.
"""

import importlib
import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import ModuleType
from typing import Any

import numpy as np

Function = Callable[..., Any]

ELEMENTWISE = (
    "beta", "betainc", "betaln", "digamma", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp1", "expi",
    "expit", "gamma", "gammainc", "gammaincc", "gammaln", "i0", "i0e", "i1", "i1e", "iv", "j0", "j1", "jn",
    "kl_div", "log_expit", "log_ndtr", "logit", "ndtr", "ndtri", "polygamma", "rel_entr", "sinc", "xlog1py",
    "xlogy", "y0", "y1",
)  # fmt: skip
"""The names of the functions that a backend may have. Arguments are in the order of SciPy."""


def in_double(xp: Any, form: Function, dtype: Any, *arrays: Any, **settings: Any) -> Any:
    """Evaluate a generic form in float64, and cast the result to ``dtype``."""
    # every element goes through every branch, and NumPy would issue warnings in branches that are not chosen
    with np.errstate(all="ignore"):
        out = form(xp, *(xp.astype(a, xp.float64, copy=False) for a in arrays), **settings)
        return xp.astype(out, dtype, copy=False)


_BLOCK = 1 << 13
"""The elements of NumPy arrays for which a generic form is evaluated at once: its temporaries stay in the cache."""


def _in_blocks(xp: Any, form: Function, dtype: Any, *arrays: np.ndarray, **settings: Any) -> Any:
    """Evaluate a generic form in float64, a block of elements at a time."""
    shape = np.broadcast_shapes(*[x.shape for x in arrays])
    if math.prod(shape) <= _BLOCK:
        return in_double(xp, form, dtype, *arrays, **settings)
    flat = [np.broadcast_to(x, shape).reshape(-1) for x in arrays]
    parts = [[x[k : k + _BLOCK] for x in flat] for k in range(0, flat[0].size, _BLOCK)]
    return np.concatenate([in_double(xp, form, dtype, *part, **settings) for part in parts]).reshape(shape)


class SpecialWords:
    """The special functions of a library, which ``functions`` returns on first use.

    ``evaluate(xp, form, dtype, *arrays, **settings)`` runs a generic form on arrays of one floating dtype and returns
    ``dtype`` again. By default it runs in float64, for which the forms are written.
    """

    def __init__(
        self, functions: Callable[[], Mapping[str, Function]] = dict, evaluate: Callable[..., Any] = in_double
    ) -> None:
        self.functions = cache(functions)
        self.evaluate = evaluate

    def find(self, name: str) -> Function | None:
        """Return the library function of that name, or None."""
        return self.functions().get(name)


def _of_module(module: ModuleType, without: tuple[str, ...]) -> dict[str, Any]:
    """Return the functions of a module, except some."""
    return {name: getattr(module, name) for name in ELEMENTWISE if name not in without and hasattr(module, name)}


def _scipy() -> Mapping[str, Function]:
    try:
        module = importlib.import_module("scipy.special")
    except ImportError:
        return {}
    own = _of_module(module, without=("jn", "sinc"))
    own["jn"] = lambda x, *, n: module.jv(float(n), x)
    own["iv"] = partial(_iv, module)
    own["gammaln"] = partial(_gammaln, module)
    own["betainc"] = partial(_betainc, module)
    own["hyp2f1"] = _form_where(_hard_of_hypergeometric, np, module, "hyp2f1", "hypergeometric_forms")
    return own | {name: _form_where(_tail_of_gamma, np, module, name) for name in ("gammainc", "gammaincc")}


_AT_ONCE = 4096
"""Elements passed to a generic form at a time: some need a thousand times the memory of their arguments."""


def _form_where(far: Function, xp: Any, module: ModuleType, name: str, forms: str = "incomplete_forms") -> Function:
    """Return a library function, replaced by the generic form for elements that ``far`` selects."""

    def evaluated(*arrays: Any) -> Any:
        out = getattr(module, name)(*arrays)
        with np.errstate(all="ignore"):
            chosen = far(xp, *arrays)
            if chosen.any():
                form = getattr(importlib.import_module(f"agrad.ops.special.{forms}"), name)
                out = xp.array(out)
                given = [xp.broadcast_to(v, out.shape)[chosen].astype(xp.float64) for v in arrays]
                parts = range(0, len(given[0]), _AT_ONCE)
                out[chosen] = xp.concatenate([form(xp, *(v[k : k + _AT_ONCE] for v in given)) for k in parts])
        return out

    return evaluated


def _tail_of_gamma(xp: Any, a: Any, x: Any) -> Any:
    """Return a mask of elements for which the series of SciPy and CuPy (at most 2,000 terms) end too early."""
    return (a > 1e5) & (a < math.inf) & (abs(x - a) > 4 * xp.sqrt(abs(a)))


def _large_of_beta(xp: Any, a: Any, b: Any, x: Any) -> Any:
    """Return a mask of elements for which CuPy has fewer than 11 digits: 10 at 1e4, 8 at 1e6, 1 at 1e8."""
    return (a + b > 1e3) & (a + b < math.inf)


def _hard_of_hypergeometric(xp: Any, a: Any, b: Any, c: Any, z: Any) -> Any:
    """Return a mask of elements without a measured error of 1e-10 in SciPy, whose error can exceed 1e-6."""
    easy = (abs(a) <= 6) & (abs(b) <= 6) & (c >= 0.5) & (c <= 6) & (z >= -1) & (z <= 0.9)
    return ~easy


def _betainc(module: ModuleType, *arrays: np.ndarray) -> Any:
    """Return ``betainc`` of SciPy in double precision: in single precision, large parameters overflow."""
    return module.betainc(*(x.astype(np.float64, copy=False) for x in arrays)).astype(arrays[0].dtype, copy=False)


def _gammaln(module: ModuleType, x: np.ndarray) -> Any:
    """Return ``gammaln`` of SciPy, and -log(abs(x)) near 0, at which it overflows."""
    out = module.gammaln(x)
    small = (np.abs(x) < 1e-300) & (x != 0)
    return np.where(small, -np.log(np.abs(np.where(small, x, 1))), out).astype(x.dtype) if small.any() else out


def _iv(module: ModuleType, v: np.ndarray, x: np.ndarray) -> Any:
    """Return ``iv`` of SciPy, with the first term of the power series near 0.

    The SciPy function underflows early there or is NaN.
    """
    out = module.iv(v, x)
    small = (np.abs(x) < 1e-100) & (x != 0)
    if not small.any():
        return out
    whole = v == np.floor(v)
    order = np.where(whole, np.abs(v), v)
    size = np.abs(x) / 2
    with np.errstate(under="ignore", over="ignore", divide="ignore"):
        first = size**order * module.rgamma(order + 1)
    odd = whole & (order % 2 == 1)
    first = np.where(x < 0, np.where(whole, np.where(odd, -first, first), np.nan), first)
    return np.where(small, first, out).astype(out.dtype)


def _cupyx() -> Mapping[str, Function]:
    module = importlib.import_module("cupyx.scipy.special")
    # CuPy has no kernel for these, or one with another signature; its i0e and i1e are exp(-abs(x)) times a
    # number that overflows
    own = _of_module(module, without=("i0e", "i1e", "iv", "jn", "sinc"))
    far = {"gammainc": _tail_of_gamma, "gammaincc": _tail_of_gamma, "betainc": _large_of_beta}
    return own | {name: _form_where(f, importlib.import_module("cupy"), module, name) for name, f in far.items()}


def _torch() -> Mapping[str, Function]:
    torch = importlib.import_module("torch")
    # measured with mpmath: ndtr is 0 in the tail, logit loses digits at 1/2, the incomplete gamma functions have 9
    # digits and the Bessel functions j and y (bessel_j0 and so on) 7; polygamma requires its order as a number
    own = _of_module(torch.special, without=("gammainc", "gammaincc", "logit", "ndtr", "polygamma", "sinc"))
    own["log_expit"] = torch.nn.functional.logsigmoid
    return own


_JAX_WITHOUT = (
    "beta", "betaln", "erfinv", "exp1", "expi", "gammainc", "gammaincc", "log_ndtr", "logit", "polygamma",
    "rel_entr", "sinc",
)  # fmt: skip


def _jax() -> Mapping[str, Function]:
    module, xp = importlib.import_module("jax.scipy.special"), importlib.import_module("jax.numpy")
    # measured with mpmath: polygamma is wrong for x < 0, log_ndtr has 1 digit above 8, beta and betaln 7, the
    # incomplete gamma functions 9, erfinv 11, and logit and rel_entr cancel; exp1 and expi are not measured
    own = _of_module(module, without=_JAX_WITHOUT)
    return own | {"betainc": partial(_betainc_on_jax, own["betainc"], xp)}


def _betainc_on_jax(own: Function, xp: Any, a: Any, b: Any, x: Any) -> Any:
    """Return JAX's ``betainc`` where it has digits: it has 8 if a + b is 1e6, and none if it is 1e8.

    For larger parameters returns the function of the host, or NaN in a trace: the generic form needs 20 s to compile.
    """
    jax = importlib.import_module("jax")
    large = (a + b > 1e6) & (a + b < math.inf)
    if isinstance(large, jax.core.Tracer) or not large.any():
        return xp.where(large, math.nan, own(a, b, x))
    return jax.device_put(NUMPY.functions()["betainc"](*map(np.asarray, (a, b, x))), large.sharding)


def _in_jax(xp: Any, form: Function, dtype: Any, *arrays: Any, **settings: Any) -> Any:
    """Evaluate a generic form in float64, or in float32 if the 64-bit mode is off."""
    jax = importlib.import_module("jax")
    if jax.config.jax_enable_x64:
        return in_double(xp, form, dtype, *arrays, **settings)
    return form(xp, *arrays, **settings).astype(dtype)


NUMPY = SpecialWords(_scipy, _in_blocks)
CUPY = SpecialWords(_cupyx)
TORCH = SpecialWords(_torch)
JAX = SpecialWords(_jax, _in_jax)
