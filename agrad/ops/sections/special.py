"""Special functions: ``agrad.special``."""

from typing import TYPE_CHECKING, Any, overload

from agrad.engine.tensor import Tensor
from agrad.ops.special.bessel import (
    i0 as i0,
    i0e as i0e,
    i1 as i1,
    i1e as i1e,
    iv as iv,
    j0 as j0,
    j1 as j1,
    jn as jn,
    y0 as y0,
    y1 as y1,
)
from agrad.ops.special.entropy import (
    entr as entr,
    expit as expit,
    kl_div as kl_div,
    log_expit as log_expit,
    log_softmax as log_softmax,
    logit as logit,
    logsumexp as logsumexp,
    rel_entr as rel_entr,
    softmax as softmax,
    xlog1py as xlog1py,
    xlogy as xlogy,
)
from agrad.ops.special.exponential import (
    exp1 as exp1,
    expi as expi,
    lambertw as lambertw,
)
from agrad.ops.special.gamma import (
    beta as beta,
    betaln as betaln,
    digamma as digamma,
    gamma as gamma,
    gammaln as gammaln,
    polygamma as polygamma,
    zeta as zeta,
)
from agrad.ops.special.incomplete import (
    betainc as betainc,
    gammainc as gammainc,
    gammaincc as gammaincc,
)
from agrad.ops.special.normal import (
    erf as erf,
    erfc as erfc,
    erfcinv as erfcinv,
    erfcx as erfcx,
    erfinv as erfinv,
    log_ndtr as log_ndtr,
    ndtr as ndtr,
    ndtri as ndtri,
    sinc as sinc,
)

if TYPE_CHECKING:  # found by agrad.interop.scipy at their first use

    @overload
    def _word(x: Tensor, /, *arrays: Any) -> Tensor: ...
    @overload
    def _word(*arrays: Any) -> Any: ...
    def _word(*arrays: Any) -> Any: ...

    bdtr = bdtrc = betaincc = binom = boxcox = boxcox1p = cbrt = chdtr = chdtrc = _word
    cosdg = cosm1 = cotdg = exp10 = exp2 = expm1 = exprel = fdtr = fdtrc = _word
    gammasgn = gdtr = gdtrc = huber = inv_boxcox = inv_boxcox1p = jv = log1p = loggamma = _word
    multigammaln = nbdtr = nbdtrc = pdtr = pdtrc = poch = pseudo_huber = psi = radian = _word
    rgamma = sindg = softplus = stdtr = tandg = zetac = _word
