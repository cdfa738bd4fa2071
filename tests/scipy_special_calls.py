"""Calls of ``scipy.special``."""

import numpy as np
from scipy_calls import Calls

CALLS = Calls("special")
add = CALLS.add
_X = np.asarray([[0.3, -1.2, 2.0], [1.1, 0.4, -0.7]])
_B = np.asarray([[1.0, 2.0, 0.5], [0.25, 0.0, 1.5]])
add("logsumexp", lambda m, x: m.logsumexp(x), _X)
add("logsumexp axis", lambda m, x: m.logsumexp(x, axis=1, keepdims=True), _X)
add("logsumexp factors", lambda m, x, b: m.logsumexp(x, axis=0, b=b), _X, _B, fixed=(1,))
add("logsumexp by factors", lambda m, x, b: m.logsumexp(x, b=b), _X, np.abs(_B) + 0.1)
add("logsumexp sign", lambda m, x, b: m.logsumexp(x, axis=1, b=b, return_sign=True)[0], _X, _B - 0.7)
add("softmax", lambda m, x: m.softmax(x), _X)
add("softmax axis", lambda m, x: m.softmax(x, axis=1), _X)
add("log_softmax", lambda m, x: m.log_softmax(x), _X)
add("log_softmax axis", lambda m, x: m.log_softmax(x, axis=0), _X)

# the elementwise functions have tests of their own as functions of agrad.special: here some of each kind of arguments
_P = np.asarray([0.3, 0.7, 0.9])
_S = np.asarray([1.2, 2.5, 4.1])
add("erf", lambda m, x: m.erf(x), _P)
add("betaln", lambda m, x: m.betaln(2, x), _S)
add("xlogy dtypes", lambda m, n, x: m.xlogy(n, x), np.asarray([1, 2, 3]), _P)
add("gammaln", lambda m, x: m.gammaln(x), _S)
add("betainc", lambda m, a, b, x: m.betainc(a, b, x), _S, _S[::-1], _P, fixed=(0, 1))
add("polygamma", lambda m, x: m.polygamma(1, x), _S)
add("jv", lambda m, x: m.jv(2, x), _S)
add("lambertw", lambda m, x: m.lambertw(x), np.asarray([-0.3, 0.5, 2.0, 40.0]))
add("lambertw branch", lambda m, x: m.lambertw(x, -1), np.asarray([-0.36, -0.2, -1e-3]))
_Z = np.asarray([0.3 + 0.2j, -1.2 - 0.7j, 8.0 + 1e-3j])
add("lambertw complex", lambda m, z: m.lambertw(z), _Z)
add("lambertw other branch", lambda m, z: m.lambertw(z, 2), _Z)
add("lambertw of real numbers", lambda m, x: m.lambertw(x, 1), _S)
add("wofz", lambda m, z: m.wofz(z), _Z)
add("wofz of real numbers", lambda m, x: m.wofz(x), _S)
add("zeta", lambda m, x: m.zeta(x), np.asarray([-7.3, -2.0, -0.2, 0.0, 0.4, 0.97, 1.4, 3.0]))
add("zeta of two", lambda m, x, q: m.zeta(x, q), _S, _S[::-1] / 2)
add("hyp2f1", lambda m, z: m.hyp2f1(0.7, 2, 3.5, z), np.asarray([-7.5, -0.4, 0.0, 0.3, 0.95]))
add("exp1", lambda m, x: m.exp1(x), _S)
add("expi", lambda m, x: m.expi(x), np.asarray([-1.5, 0.5, 60.0]))
add("xlogy", lambda m, x, y: m.xlogy(x, y), _P, np.asarray([[1.0], [2.0]]))
add("yn", lambda m, x: m.yn(3, x), _S)
add("yn negative", lambda m, x: m.yn(-3, x), _S)
add("cbrt", lambda m, x: m.cbrt(x), _S)
add("poch", lambda m, z, k: m.poch(z, k), _S, _P)
add("poch numbers", lambda m, z: m.poch(z, 2), _S)
add("comb", lambda m, n, k: m.comb(n, k), _S + 3, _P)
add("comb outside", lambda m, n: m.comb(n, 2), np.asarray([-1.5, 0.5, 3.0]))
add("comb repetition", lambda m, n: m.comb(n, 2, repetition=True), np.asarray([0.5, 3.0]), order=1)
add("perm", lambda m, n, k: m.perm(n, k), _S + 3, _P)
add("perm outside", lambda m, n: m.perm(n, 2), np.asarray([-1.5, 0.5, 3.0]))
add("factorial", lambda m, n: m.factorial(n), _S)
add("factorial negative", lambda m, n: m.factorial(n), np.asarray([-1.5, 0.5, 3.0]))
add("multigammaln", lambda m, a: m.multigammaln(a, 3), _S + 1)
add("multigammaln one", lambda m, a: m.multigammaln(a, 1), _S)

add("zetac", lambda m, x: m.zetac(x), np.asarray([-7.3, -2.0, -0.2, 0.0, 0.4, 0.97, 1.4, 3.0]))
add("rgamma", lambda m, x: m.rgamma(x), np.asarray([-3.0, -2.5, 0.0, 0.7, 4.2]))

# at the ends of domains, and where simple forms cancel
_A = np.asarray
add("perm large", lambda m, n, k: m.perm(n, k), _A([1e8, 1e12, 1e15]), _A([1.0, 1.0, 2.0]), order=0)
add("poch large", lambda m, z, n: m.poch(z, n), _A([1e8, 150.0, 200.0]), _A([-1.5, -149.0, 2.5]), order=0)
add("poch large moderate", lambda m, z, n: m.poch(z, n), _A([150.0, 200.0]), _A([-3.0, 2.5]))
add("boxcox zero", lambda m, x, n: m.boxcox(x, n), _A([0.0, 0.0, 0.0]), _A([2.0, 0.5, 1.0]), order=0)
add(
    "betaincc tiny", lambda m, a, b, x: m.betaincc(a, b, x), _A([0.05, 0.01]), _A([2.0, 1.0]), _A([1e-20, 1e-17]),
    order=0,
)  # fmt: skip
add("rgamma overflow", lambda m, x: m.rgamma(x), _A([-1e10, -200.0, -171.0, -170.5]), order=0)
add("zetac large", lambda m, x: m.zetac(x), _A([-250.5, -200.0, 60.0]), order=0)
add("fdtr infinity", lambda m, n, d, x: m.fdtr(n, d, x), _A(1.0), _A(2.0), _A([np.inf, 0.0, 2.0]), order=0)
add("exprel infinity", lambda m, x: m.exprel(x), _A([-np.inf, 0.0, 8.0]), order=0)
add(
    "stdtr large", lambda m, n, t: m.stdtr(n, t), _A([[1e3], [1e5], [1e7], [np.inf]]),
    _A([-2.5, -0.5, -1e-5, 0.3, 3.0]), order=0, rtol=1e-9,
)  # fmt: skip
add("stdtr many", lambda m, n, t: m.stdtr(n, t), _A([2e4, 1e5]), _A([-0.4, 0.7]), fixed=(0,))
add(
    "comb repetition of none", lambda m, n, k: m.comb(n, k, repetition=True), _A([200.0, 0.0, 0.0, -1.0]),
    _A([-1.0, 200.0, 0.0, 2.0]), order=0,
)  # fmt: skip
