"""``scipy.special``: the functions for other libraries' arrays, in their domains."""

from typing import Any

import numpy as np
from scipy import special

from ecosystem.trial import Samples

SAMPLES = Samples()
add = SAMPLES.add
NOT_TRIED: dict[str, str] = {}

rng = np.random.default_rng(0)
X = rng.normal(size=6)
P = rng.uniform(0.1, 0.9, size=6)
Q = rng.uniform(0.1, 0.9, size=6)
A = rng.uniform(0.6, 3.0, size=6)
B = rng.uniform(0.6, 3.0, size=6)
C = rng.uniform(1.2, 3.0, size=6)
K = np.asarray([1, 2, 3, 0, 1, 2])
N = np.asarray([4, 5, 6, 3, 4, 5])
FEW = np.asarray([1, 2, 3, 1, 2, 2])

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("cbrt", "exp10", "exp2", "expm1", "expit", "log_expit", "sinc", "sindg", "cosdg", "tandg",
                     "cotdg", "cosm1", "erf", "erfc", "erfcx", "ndtr", "log_ndtr", "exprel", "i0", "i0e", "i1", "i1e",
                     "j0", "j1", "expi"), (X,)),
    **dict.fromkeys(("gamma", "gammaln", "gammasgn", "loggamma", "psi", "digamma", "rgamma", "exp1", "k0", "k0e", "k1",
                     "k1e", "y0", "y1", "entr", "spence", "log1p"), (A,)),
    **dict.fromkeys(("logit", "ndtri", "erfinv", "erfcinv", "ellipk", "ellipkm1"), (P,)),
    "zetac": (C,),
    "bdtr": (K + 0.4, N, P), "bdtrc": (K + 0.4, N, P), "bdtri": (K + 0.4, N, P),
    **dict.fromkeys(("betainc", "betaincc", "betaincinv"), (A, B, P)),
    **dict.fromkeys(("betaln", "beta", "binom", "poch"), (A, B)),
    **dict.fromkeys(("boxcox", "boxcox1p"), (A, X)), "inv_boxcox": (P, A), "inv_boxcox1p": (P, A),
    **dict.fromkeys(("chdtr", "chdtrc"), (A, B)), "chdtri": (A, P),
    "expn": (FEW, A), **dict.fromkeys(("fdtr", "fdtrc", "fdtri"), (A, B, P)),
    **dict.fromkeys(("gammainc", "gammaincc"), (A, B)), **dict.fromkeys(("gammaincinv", "gammainccinv"), (A, P)),
    **dict.fromkeys(("gdtr", "gdtrc"), (A, B, C)),
    **dict.fromkeys(("huber", "pseudo_huber"), (A, X)),
    "hyp1f1": (A, B, X), "kl_div": (A, B), "rel_entr": (A, B), "xlogy": (A, B), "xlog1py": (A, B),
    "lpmv": (np.asarray([0, 1, 1, 0, 2, 1]), np.asarray([2, 2, 3, 1, 3, 1]), P),
    **dict.fromkeys(("nbdtr", "nbdtrc", "nbdtri"), (FEW, N, P)),
    **dict.fromkeys(("pdtr", "pdtrc"), (FEW + 0.4, A)), "pdtri": (FEW, P),
    "stdtr": (A, X), "stdtrit": (A, P),
    "polygamma": (FEW, A), "yn": (FEW, A), "jn": (FEW, A), "zeta": (C, A), "iv": (A, B),
}  # fmt: skip
"""The arguments by the function's name: floating ones are differentiated."""

for _name, _inputs in ARGUMENTS.items():
    add(f"special.{_name}", lambda *a, n=_name: getattr(special, n)(*a), *_inputs)
for _order in (1, 2):
    add("special.polygamma", lambda a, n=_order: special.polygamma(n, a), A, label=f"order {_order}")
    add("special.jn", lambda a, n=_order: special.jn(n, a), A, label=f"order {_order}")
add("special.iv", lambda v, x: special.iv(v, x), A, B, fixed=(0,), label="the order a constant")
add("special.multigammaln", lambda a: special.multigammaln(a, 2), A)
add("special.radian", lambda d, m, s: special.radian(d, m, s), A, B, C)
add("special.logsumexp", lambda x: special.logsumexp(x), X)
add("special.logsumexp", lambda x: special.logsumexp(x, axis=0, keepdims=True), X, label="axis")
add("special.logsumexp", lambda x, b: special.logsumexp(x, b=b), X, A, label="weighted")
add("special.logsumexp", lambda x, b: special.logsumexp(x, b=b, return_sign=True), X, X - 0.1, label="with a sign")
for _name in ("softmax", "log_softmax"):
    add(f"special.{_name}", lambda x, n=_name: getattr(special, n)(x), X)
    add(f"special.{_name}", lambda x, n=_name: getattr(special, n)(x, axis=1), X.reshape(2, 3), label="axis")
