"""``scipy.special``: the functions for other libraries' arrays, in their domains."""

import functools

import numpy as np
import scipy

from ecosystem.trial import Samples

SAMPLES = Samples()

rng = np.random.default_rng(0)
X = rng.normal(size=6)
P = rng.uniform(0.1, 0.9, size=6)
A = rng.uniform(0.6, 3.0, size=6)
B = rng.uniform(0.6, 3.0, size=6)
C = rng.uniform(1.2, 3.0, size=6)
K = np.asarray([1, 2, 3, 0, 1, 2])
N = np.asarray([4, 5, 6, 3, 4, 5])
FEW = np.asarray([1, 2, 3, 1, 2, 2])

of = functools.partial(SAMPLES.of, scipy, "special")
of("cbrt exp10 exp2 expm1 expit log_expit sinc sindg cosdg tandg cotdg cosm1 erf erfc erfcx ndtr log_ndtr exprel", X)
of("i0 i0e i1 i1e j0 j1 expi logsumexp softmax log_softmax", X)
of("gamma gammaln gammasgn loggamma psi digamma rgamma exp1 k0 k0e k1 k1e y0 y1 entr spence log1p", A)
of("logit ndtri erfinv erfcinv ellipk ellipkm1", P)
of("zetac", C)
of("bdtr bdtrc bdtri", K + 0.4, N, P)
of("betainc betaincc betaincinv fdtr fdtrc fdtri", A, B, P)
of("betaln beta binom poch chdtr chdtrc gammainc gammaincc kl_div rel_entr xlogy xlog1py iv", A, B)
of("boxcox boxcox1p huber pseudo_huber stdtr", A, X)
of("inv_boxcox inv_boxcox1p", P, A)
of("chdtri gammaincinv gammainccinv stdtrit", A, P)
of("expn polygamma yn jn", FEW, A)
of("gdtr gdtrc radian", A, B, C)
of("hyp1f1", A, B, X)
of("lpmv", np.asarray([0, 1, 1, 0, 2, 1]), np.asarray([2, 2, 3, 1, 3, 1]), P)
of("nbdtr nbdtrc nbdtri", FEW, N, P)
of("pdtr pdtrc", FEW + 0.4, A)
of("pdtri", FEW, P)
of("zeta", C, A)
for _order in (1, 2):
    of("polygamma jn", _order, A, label=f"order {_order}")
of("iv", A, B, fixed=(0,), label="the order a constant")
of("multigammaln", A, 2)
of("logsumexp", X, axis=0, keepdims=True, label="axis")
of("logsumexp", X, b=A, label="weighted")
of("logsumexp", X, b=X - 0.1, return_sign=True, label="with a sign")
of("softmax log_softmax", X.reshape(2, 3), axis=1, label="axis")
