"""NumPy polynomial functions for Tensors.

Coefficients begin with the highest power."""

import warnings
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    Promoted,
    between_zeros,
    constant,
    flat,
    inexact,
    is_complex,
    promoted,
    rejects,
    tensor,
    tensors,
    values_of,
    zeros,
)
from agrad.interop.creation import vander
from agrad.interop.linear_algebra import eigvals, lstsq
from agrad.interop.signals import convolved
from agrad.interop.table import implements


def _coefficients(*polynomials: Any) -> list[Tensor]:
    return promoted(*[flat(p) if p.ndim == 0 else p for p in tensors(*polynomials)])


def _joined(a: Any, b: Any) -> list[Tensor]:
    """Return coefficients of one length, with zeros for missing powers."""
    parts = _coefficients(a, b)
    n = max(p.shape[0] for p in parts)
    return [between_zeros(p, {0: (n - p.shape[0], 0)}) for p in parts]


@implements("polyadd")
def _polyadd(a1: Any, a2: Any) -> Tensor:
    a, b = _joined(a1, a2)
    return a + b


@implements("polysub")
def _polysub(a1: Any, a2: Any) -> Tensor:
    a, b = _joined(a1, a2)
    return a - b


@implements("polymul")
def _polymul(a1: Any, a2: Any) -> Tensor:
    return convolved(*_coefficients(a1, a2))


@implements("polydiv")
def _polydiv(u: Any, v: Any) -> tuple[Tensor, Tensor]:
    u, v = [inexact(p) for p in _coefficients(u, v)]
    steps = max(u.shape[0] - v.shape[0] + 1, 0)
    quotient = []
    rest = u
    for k in range(steps):
        factor = rest[0] / v[0]
        quotient.append(factor)
        head = rest[: v.shape[0]] - factor * v
        # the first coefficient has become 0
        rest = agrad.concat([head[1:], rest[v.shape[0] :]]) if k < steps - 1 or rest.shape[0] > 1 else head
    q = agrad.stack(quotient) if quotient else agrad.zeros_like(u)[:1]
    host = values_of(rest)
    while rest.shape[0] > 1 and np.allclose(host[0], 0, rtol=1e-14):
        rest, host = rest[1:], host[1:]
    return q, rest


@implements("polyval")
def _polyval(p: Promoted, x: Promoted) -> Any:
    out = agrad.zeros_like(x)
    for i in range(p.shape[0]):
        out = out * x + p[i]
    return out


@implements("polyder")
def _polyder(p: Tensor, m: int = 1) -> Tensor:
    (p,) = promoted(flat(p), least=np.int64)
    if m < 0:
        raise ValueError(f"numpy.polyder: m must be at least 0, got {m}")
    for _ in range(int(m)):
        n = p.shape[0] - 1
        if n < 1:
            return p[:0]
        p = p[:-1] * constant(np.arange(n, 0, -1).astype(p.dtype.name), p)
    return p


@implements("polyint")
def _polyint(p: Tensor, m: int = 1, k: Any = None) -> Tensor:
    m = int(m)
    if m < 0:
        raise ValueError(f"numpy.polyint: m must be at least 0, got {m}")
    p = inexact(promoted(flat(p), least=np.int64)[0])
    constants = flat(tensor(0.0 if k is None else k, p))
    if constants.shape[0] == 1 and m > 1:
        constants = agrad.broadcast_to(constants, (m,))
    if constants.shape[0] < m:
        raise ValueError(f"numpy.polyint: k must be one constant or {m}")
    p, constants = promoted(p, constants)
    for i in range(m):
        powers = constant(np.arange(p.shape[0], 0, -1).astype(p.dtype.name), p)
        p = agrad.concat([p / powers, constants[i : i + 1]])
    return p


@implements("roots")
def _roots(p: Tensor) -> Tensor:
    p = flat(p)
    places = np.flatnonzero(values_of(p))
    if not len(places):
        return zeros((0,), p, agrad.float64)
    count = p.shape[0] - int(places[-1]) - 1
    p = inexact(p[int(places[0]) : int(places[-1]) + 1])
    n = p.shape[0] - 1
    if n < 1:
        return zeros((count,), p)
    shift = constant(np.eye(n, k=-1)[1:].astype(p.dtype.name), p)
    found = eigvals(agrad.concat([agrad.reshape(-p[1:] / p[0], (1, n)), shift], axis=0))
    return agrad.concat([found, zeros((count,), found)]) if count else found


@implements("poly")
def _poly(seq_of_zeros: Tensor) -> Tensor:
    x = seq_of_zeros
    if x.ndim == 2 and x.shape[0] == x.shape[1]:
        x = eigvals(x)
    elif x.ndim != 1:
        raise ValueError("numpy.poly: seq_of_zeros must be a vector of roots or a square matrix")
    out = agrad.ones_like(x[:1])
    for i in range(x.shape[0]):
        out = between_zeros(out, {0: (0, 1)}) - between_zeros(out, {0: (1, 0)}) * x[i : i + 1]
    if is_complex(out):
        # coefficients are real if the roots are conjugate pairs
        roots = np.sort_complex(values_of(x))
        if np.all(roots == np.sort_complex(roots.conj())):
            out = agrad.real(out)
    return out


@implements("polyfit")
def _polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    x, y, w = tensors(x, y, w)
    x, y = promoted(inexact(x), inexact(y))
    deg = int(deg)
    if deg < 0 or x.ndim != 1 or not x.size or y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        raise TypeError("numpy.polyfit: x must have shape (n,), y (n,) or (n, k), and deg must be at least 0")
    rcond = x.shape[0] * agrad.finfo(x.dtype).eps if rcond is None else rcond
    left, right = vander(x, deg + 1), y
    if w is not None:
        left = left * w[:, None]
        right = right * (w[:, None] if right.ndim == 2 else w)
    scale = agrad.sqrt(agrad.sum(left * left, axis=0))
    left = left / scale
    scaled = cov and cov != "unscaled"
    c, residuals, rank, s = lstsq(left, right, rcond)
    if rank != deg + 1 and not full:
        warnings.warn(
            f"numpy.polyfit: {x.shape[0]} points do not determine a polynomial of degree {deg}",
            np.exceptions.RankWarning,
            stacklevel=4,
        )
    c = agrad.matrix_transpose(agrad.matrix_transpose(c) / scale) if c.ndim == 2 else c / scale
    if full:
        return c, residuals, rank, s, rcond
    if not cov:
        return c
    if c.ndim == 2:
        raise rejects("polyfit", "cov is not supported for several fits of Tensors", "Fit them one by one")
    base = agrad.linalg.inv(agrad.matmul(agrad.matrix_transpose(left), left))
    base = base / (scale[:, None] * scale[None, :])
    if not scaled:
        return c, base
    if x.shape[0] <= deg + 1:
        raise ValueError("numpy.polyfit: there are too few points to scale the covariance. Pass cov='unscaled'.")
    return c, base * (residuals[0] / (x.shape[0] - deg - 1))
