"""Special functions, with SciPy names."""

import typing as _typing

from agrad.engine.tensor import Tensor as _Tensor
from agrad.faces import list_names as _list_names
from agrad.ops.special.bessel import *
from agrad.ops.special.entropy import *
from agrad.ops.special.exponential import *
from agrad.ops.special.gamma import *
from agrad.ops.special.hypergeometric import *
from agrad.ops.special.incomplete import *
from agrad.ops.special.normal import *
from agrad.registry import namespace as _namespace

if _typing.TYPE_CHECKING:  # found by agrad.interop.scipy at their first use

    @_typing.overload
    def _word(x: _Tensor, /, *arrays: _typing.Any) -> _Tensor: ...
    @_typing.overload
    def _word(*arrays: _typing.Any) -> _typing.Any: ...
    def _word(*arrays: _typing.Any) -> _typing.Any: ...

    bdtr = bdtrc = betaincc = binom = boxcox = boxcox1p = cbrt = chdtr = chdtrc = _word
    cosdg = cosm1 = cotdg = exp10 = exp2 = expm1 = exprel = fdtr = fdtrc = _word
    gammasgn = gdtr = gdtrc = huber = inv_boxcox = inv_boxcox1p = jv = log1p = loggamma = _word
    multigammaln = nbdtr = nbdtrc = pdtr = pdtrc = poch = pseudo_huber = psi = radian = _word
    rgamma = sindg = softplus = stdtr = tandg = zetac = _word


_list_names(globals())
globals()["__getattr__"] = _namespace.special.__getattr__  # in a form that type checkers do not see
