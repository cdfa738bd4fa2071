"""Calls of ``scipy.spatial.distance``."""

import numpy as np
from scipy_calls import Calls

CALLS = Calls("spatial.distance")
add = CALLS.add
_rng = np.random.default_rng(3)
_U, _V, _W = _rng.normal(size=4), _rng.normal(size=4), _rng.uniform(0.3, 2.0, 4)
_A, _B = _rng.normal(size=(3, 2)), _rng.normal(size=(4, 2))
_P, _Q = _rng.uniform(0.1, 1.0, (4, 2)), _rng.uniform(0.1, 1.0, (4, 2))
_W2 = np.asarray([0.5, 1.5])
_M = np.asarray([[2.0, 0.3], [0.3, 1.0]])
_NEAR = _A + 1e-5 * _rng.normal(size=_A.shape)
for _name in ("euclidean", "sqeuclidean", "cityblock", "canberra", "braycurtis", "cosine", "correlation"):
    add(_name, lambda m, u, v, f=_name: getattr(m, f)(u, v), _U, _V)
    add(f"{_name} weights", lambda m, u, v, w, f=_name: getattr(m, f)(u, v, w), _U, _V, _W)
add("euclidean complex", lambda m, u, v: m.euclidean(u, v), _U + 1j * _V, _V - 2j * _U)
add("correlation not centered", lambda m, u, v: m.correlation(u, v, centered=False), _U, _V)
add("chebyshev", lambda m, u, v: m.chebyshev(u, v), _U, _V)
add("chebyshev weights", lambda m, u, v, w: m.chebyshev(u, v, w), _U, _V, _W * [1, 0, 0, 1])
add("minkowski", lambda m, u, v: m.minkowski(u, v, 3), _U, _V)
add("minkowski weights", lambda m, u, v, w: m.minkowski(u, v, p=2.5, w=w), _U, _V, _W)
add("minkowski one", lambda m, u, v, w: m.minkowski(u, v, 1, w), _U, _V, _W)
add("minkowski greatest", lambda m, u, v: m.minkowski(u, v, np.inf), _U, _V)
add("minkowski below one", lambda m, u, v: m.minkowski(u, v, 0.5), _U, _V)
add("seuclidean", lambda m, u, v, w: m.seuclidean(u, v, w), _U, _V, _W)
add("seuclidean pair", lambda m, u, v, w: m.seuclidean(u, v, V=w), _A[0], _B[0], _W2)
add("mahalanobis", lambda m, u, v, a: m.mahalanobis(u, v, a), _A[0], _B[0], _M)
add(
    "mahalanobis unsymmetric", lambda m, u, v, a: m.mahalanobis(u, v, a), _A[1], _B[2],
    _M + np.asarray([[0, 0.2], [0, 0]]),
)  # fmt: skip
add("jensenshannon", lambda m, p, q: m.jensenshannon(p, q), _P, _Q)
add("jensenshannon axis", lambda m, p, q: m.jensenshannon(p, q, 2.0, axis=1, keepdims=True), _P, _Q)
for _name in ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "canberra", "braycurtis", "cosine", "seuclidean",
              "mahalanobis"):  # fmt: skip
    add(f"cdist {_name}", lambda m, a, b, f=_name: m.cdist(a, b, f), _A, _B)
    add(f"pdist {_name}", lambda m, b, f=_name: m.pdist(b, f), _B)
add("cdist minkowski", lambda m, a, b, w: m.cdist(a, b, "minkowski", p=3, w=w), _A, _B, _W2)
add("cdist weights", lambda m, a, b, w: m.cdist(a, b, "cityblock", w=w), _A, _B, _W2)
add("cdist correlation", lambda m, a, b: m.cdist(a, b, "correlation"), _P.T, _Q.T)
add("cdist jensenshannon", lambda m, a, b: m.cdist(a, b, "jensenshannon"), _P.T, _Q.T)
add("cdist inverse covariance", lambda m, a, b, v: m.cdist(a, b, "mahalanobis", VI=v), _A, _B, _M)
add("cdist variances", lambda m, a, b, v: m.cdist(a, b, "seuclidean", V=v), _A, _B, _W2)
add("cdist function", lambda m, a, b: m.cdist(a, b, lambda u, v: ((u - v) ** 2 * u).sum()), _A, _B)
add("cdist near", lambda m, a, b: m.cdist(a, b, "sqeuclidean"), _A, _NEAR)
add("pdist minkowski", lambda m, b: m.pdist(b, "minkowski", p=1.5), _B)
add("squareform", lambda m, x: m.squareform(x), _rng.uniform(size=6))
add("squareform distances", lambda m, b: m.squareform(m.pdist(b)), _B)
add("squareform back", lambda m, b: m.squareform(m.squareform(m.pdist(b)), "tovector"), _B)
add("squareform unchecked", lambda m, x: m.squareform(x, checks=False), _rng.normal(size=(3, 3)))
