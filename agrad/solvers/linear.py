"""Matrix-free solvers of linear systems: GMRES, conjugate gradients and BiCGSTAB.

A vector is a 1-D array. ``Packing`` converts a list of arrays to one. Under ``vmap`` each batch element has its own
system, and iterations continue until all have converged. Quotients with a divisor of 0 are 0, so that elements that
have converged do not change.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agrad.backends import backend_of
from agrad.control.bodies import example
from agrad.control.steps import computed
from agrad.dtypes import dtype_name, is_complex
from agrad.engine.calls import lift_all
from agrad.engine.levels import lift
from agrad.engine.namespaces import NAMESPACES, namespace_of
from agrad.engine.tensor import Tensor
from agrad.errors import ConfigurationError
from agrad.solvers.loops import anywhere, in_trace, iterate, plain, raw_of, reached
from agrad.transforms.vmap import vmap

Operator = Callable[[Any], Any]

DENSE = 1000
"""The largest number of unknowns for which a trace computes the whole matrix of a linear system."""


def precision(value: Any) -> float:
    """Return the relative precision of an array's dtype."""
    return _limits(dtype_name(value.dtype))[0]


@functools.cache
def _limits(name: str) -> tuple[float, float, float]:
    """Return the precision of a dtype, and the bounds of sums of squares without underflow or overflow."""
    about = np.finfo(name)
    return float(about.eps), float(about.tiny) / float(about.eps), float(about.max)


def norm(v: Any) -> Any:
    """Return the Euclidean norm of a vector, computed without overflow or underflow."""
    xp = NAMESPACES[type(v)]
    if not isinstance(v, Tensor) and not backend_of(v).lazy:
        _, least, most = _limits(dtype_name(v.dtype))
        with np.errstate(all="ignore"):
            square = _real(xp.vecdot(v, v))
        if least < square < most:
            return xp.sqrt(square)
    size = magnitude(v)
    v = v / size
    return size * xp.sqrt(xp.sum(_real(_conj(v) * v)))


def magnitude(v: Any) -> Any:
    """Return the largest magnitude in a vector, or 1 if it is 0 or not finite."""
    xp = namespace_of((v,))
    if not v.shape[0]:
        return xp.ones_like(xp.sum(_real(v)))
    size = xp.max(abs(v))
    return xp.where(xp.logical_and(size > 0, xp.isfinite(size)), size, xp.ones_like(size))


def _dot(a: Any, b: Any) -> Any:
    a, b = lift_all([a, b])
    return namespace_of((a, b)).vecdot(a, b)


def minus(a: Any, b: Any) -> Any:
    """Return a - b, of arrays or Tensors."""
    a, b = lift_all([a, b])
    return a - b


def _over(a: Any, b: Any) -> Any:
    """Return a / b, or 0 if b is 0."""
    a, b = lift_all([a, b])
    xp = namespace_of((a, b))
    none = b == 0
    quotient = a / xp.where(none, xp.ones_like(b), b)
    return xp.where(none, xp.zeros_like(quotient), quotient)


def _conj(value: Any) -> Any:
    return namespace_of((value,)).conj(value) if is_complex(value.dtype) else value


def _real(value: Any) -> Any:
    return namespace_of((value,)).real(value) if is_complex(value.dtype) else value


class Packing:
    """The layout of a list of arrays in one vector of their common dtype."""

    def __init__(self, leaves: Sequence[Any]) -> None:
        self.shapes: list[tuple[Any, ...]] = [tuple(leaf.shape) for leaf in leaves]
        self.dtypes: list[Any] = [leaf.dtype for leaf in leaves]
        self.alike: bool = len({dtype_name(dtype) for dtype in self.dtypes}) == 1
        self.ends: Any = np.cumsum([math.prod(shape) for shape in self.shapes]).tolist()

    def pack(self, leaves: Sequence[Any], before: tuple[int, ...] = ()) -> Any:
        """Return the vector of the plain values of arrays; see ``join``."""
        if len(leaves) > 1:
            return plain(self.join([plain(leaf) for leaf in leaves], before))
        leaf = plain(leaves[0])
        return plain(NAMESPACES[type(leaf)].reshape(leaf, (*before, self.ends[0])))

    def unpack(self, vector: Any, before: tuple[int, ...] = ()) -> list[Any]:
        """Return the arrays in a vector as plain values; see ``part``."""
        if len(self.shapes) == 1 and vector.dtype == self.dtypes[0]:
            return [plain(NAMESPACES[type(vector)].reshape(vector, (*before, *self.shapes[0])))]
        return [plain(part) for part in self.part(vector, before)]

    def join(self, leaves: Sequence[Any], before: tuple[int, ...] = ()) -> Any:
        """Return the vector of the arrays, with their common leading axes ``before``."""
        xp = namespace_of(leaves)
        sizes = [end - start for start, end in zip([0, *self.ends], self.ends, strict=False)]
        dtype = xp.result_type(*leaves)
        flat = [
            xp.reshape(xp.astype(leaf, dtype, copy=False), (*before, size))
            for leaf, size in zip(leaves, sizes, strict=True)
        ]
        return xp.concat(flat, axis=-1)

    def part(self, vector: Any, before: tuple[int, ...] = ()) -> list[Any]:
        """Return the arrays in a vector with the leading axes ``before``."""
        xp = NAMESPACES[type(vector)]
        parts, start = [], 0
        for shape, end in zip(self.shapes, self.ends, strict=True):
            parts.append(xp.reshape(vector[..., start:end], (*before, *shape)))
            start = end
        if not self.alike or vector.dtype != self.dtypes[0]:
            parts = [self._cast(part, dtype) for part, dtype in zip(parts, self.dtypes, strict=True)]
        return parts

    @staticmethod
    def _cast(part: Any, dtype: Any) -> Any:
        xp = namespace_of((part,))
        if is_complex(part.dtype) and not is_complex(dtype):
            part = xp.real(part)
        return part if dtype_name(part.dtype) == dtype_name(dtype) else xp.astype(part, dtype)

    def on_vectors(self, f: Callable[[list[Any]], Sequence[Any]]) -> Operator:
        """Return a function of lists of Tensors as a function of plain vectors."""
        return lambda vector: self.pack(f([lift(part) for part in self.unpack(vector)]))


def _residual(a: Operator, b: Any, x: Any) -> list[Any]:
    """Return x and b - a x, as Tensors if one of them is."""
    return lift_all([x, minus(b, a(x))])


def gmres(a: Operator, b: Any, x: Any, tolerance: Any, maxiter: int, restart: int = 40) -> tuple[Any, Any, int]:
    """Solve a x = b by GMRES(restart), for any matrix.

    Saad and Schultz, SIAM J. Sci. Stat. Comput. 7 (1986), with Givens rotations. ``x`` is the initial guess. Returns
    the solution, the norm of its residual, and the number of products with the matrix.
    """
    applied = 0
    length = int(b.shape[0])
    while True:
        x, r = _residual(a, b, x)
        size = norm(r)
        x, r, size, going = computed([x, r, size, size > tolerance])
        applied += 1
        if applied >= maxiter or not anywhere(going):
            return x, size, applied
        basis = [_over(r, size)]
        rotations: list[tuple[Any, Any]] = []
        columns: list[list[Any]] = []
        right = [size]
        for j in range(min(restart, length)):
            w = a(basis[j])
            applied += 1
            w, *vectors = lift_all([w, *basis])
            xp = namespace_of(vectors)
            known = xp.stack(vectors)
            h = xp.matmul(_conj(known), w)
            w = w - xp.matmul(h, known)
            again = xp.matmul(_conj(known), w)  # a second time, because rounding leaves a remainder
            w, h = w - xp.matmul(again, known), h + again
            column, below = [h[i, ...] for i in range(j + 1)], norm(w)
            # if w is below rounding, its direction is noise
            scale = xp.sum(abs(h))
            below = xp.where(below <= 4 * precision(b) * scale, xp.zeros_like(below), below)
            basis.append(_over(w, below))
            for i, (c, s) in enumerate(rotations):
                column[i], column[i + 1 :] = (
                    c * column[i] + s * column[i + 1],
                    [_conj(c) * column[i + 1] - s * column[i], *column[i + 2 :]],
                )
            top = column[-1]
            length_of = xp.hypot(abs(top), below)
            none = length_of == 0
            c = xp.where(none, xp.ones_like(top), _over(_conj(top), length_of))
            s = _over(below, length_of)
            column[-1] = c * top + s * below
            columns.append(column)
            right.append(-s * right[-1])
            right[-2] = c * right[-2]
            going = abs(right[-1]) > tolerance
            going, c, s, basis[-1], right[-2], right[-1], *column[:] = computed(
                [going, c, s, basis[-1], *right[-2:], *column]
            )
            rotations.append((c, s))
            if applied >= maxiter or not anywhere(going):
                break
        weights: list[Any] = [None] * len(columns)
        for i in reversed(range(len(columns))):
            rest = right[i]
            for k in range(i + 1, len(columns)):
                rest = rest - columns[k][i] * weights[k]
            weights[i] = _over(rest, columns[i][i])
        for weight, v in zip(weights, basis, strict=False):
            x = x + weight * v


def conjugate_gradient(a: Operator, b: Any, x: Any, tolerance: Any, maxiter: int) -> tuple[Any, Any, Any]:
    """Solve a x = b by conjugate gradients, for a Hermitian positive definite matrix.

    Hestenes and Stiefel, J. Res. Nat. Bur. Standards 49 (1952). Returns the same values as ``gmres``.
    """

    def advance(state: Sequence[Any]) -> tuple[Any, ...]:
        x, r, p, before, _ = state
        ap = a(p)
        step = _over(before, _real(_dot(p, ap)))
        x = x + step * p
        r = r - step * ap
        square = _real(_dot(r, r))
        return x, r, r + _over(square, before) * p, square, namespace_of((square,)).sqrt(square)

    x, r = _residual(a, b, x)
    square = _real(_dot(r, r))
    first = (x, r, r, square, namespace_of((square,)).sqrt(square))
    (x, *_, size), steps = iterate(lambda state: state[-1] > tolerance, advance, first, maxiter - 1)
    return x, size, steps + 1


def bicgstab(a: Operator, b: Any, x: Any, tolerance: Any, maxiter: int) -> tuple[Any, Any, Any]:
    """Solve a x = b by BiCGSTAB, for any matrix, with little memory.

    van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992). Returns the same values as ``gmres``.
    """

    def advance(state: Sequence[Any]) -> tuple[Any, ...]:
        x, r, p, before, _ = state
        v = a(p)
        alpha = _over(before, _dot(shadow, v))
        s = r - alpha * v
        t = a(s)
        omega = _over(_dot(t, s), _dot(t, t))
        x = x + alpha * p + omega * s
        r = s - omega * t
        rho = _dot(shadow, r)
        return x, r, r + _over(rho, before) * _over(alpha, omega) * (p - omega * v), rho, norm(r)

    x, shadow = _residual(a, b, x)
    first = (x, shadow, shadow, _dot(shadow, shadow), norm(shadow))
    (x, *_, size), steps = iterate(lambda state: state[-1] > tolerance, advance, first, maxiter // 2)
    return x, size, 2 * steps + 1


def contraction(a: Operator, b: Any, x: Any, tolerance: Any, maxiter: int) -> tuple[Any, Any, int]:
    """Solve a x = b by x + (b - a x), for a matrix close to the identity.

    Richardson, Phil. Trans. R. Soc. A 210 (1911). If a step reduces the residual by less than a third, GMRES continues.
    Returns the same values as ``gmres``.
    """
    applied, before = 0, None
    while True:
        x, r = _residual(a, b, x)
        x, r, size = computed([x, r, norm(r)])
        applied += 1
        if applied >= maxiter or not anywhere(size > tolerance):
            return x, size, applied
        if before is not None and anywhere(size > before * (2 / 3)):
            x, size, more = gmres(a, b, x, tolerance, maxiter - applied)
            return x, size, applied + more
        x, before = x + r, size


METHODS: dict[str, Callable[..., tuple[Any, Any, int]]] = {
    "gmres": gmres,
    "cg": conjugate_gradient,
    "bicgstab": bicgstab,
}
INNER = {**METHODS, "contraction": contraction}
"""The methods, including one for internal use."""


def solved(
    a: Operator,
    b: Any,
    x: Any,
    method: str,
    rtol: float | None,
    atol: float,
    maxiter: int | None,
    name: str,
    strict: bool = True,
) -> Any:
    """Return the solution of a x = b from an initial guess ``x``.

    ``b`` is scaled to elements of at most 1, because squares could overflow or underflow. With ``strict``, raise
    ``ConvergenceError`` if the tolerance is not reached. A trace factorizes a matrix of up to ``DENSE`` rows. For
    larger ones it uses BiCGSTAB unless the method is conjugate gradients.
    """
    if method not in INNER:
        raise ConfigurationError(f"{name}: method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
    length = int(b.shape[0])
    if in_trace():
        if length <= DENSE:
            return _factorized(a, b)
        method = method if method == "cg" else "bicgstab"
    rtol = precision(b) ** 0.75 if rtol is None else rtol
    scale = magnitude(b)
    b = b / scale
    tolerance = norm(b) * rtol + atol / scale
    x, size, applied = INNER[method](a, b, x / scale, tolerance, maxiter or max(200, 10 * length))
    if not strict:
        return x * scale

    def error() -> str:
        left, wanted = largest(size * scale), largest(tolerance * scale)
        return (
            f"{name}: the residual must decrease to {wanted:.3g}, got {left:.3g} after {applied} products with the "
            f"matrix by {method}. Check that the matrix is not singular, or pass a larger maxiter or rtol, or another "
            "method."
        )

    return reached(x, size, 2 * tolerance, error) * scale


def _factorized(a: Operator, b: Any) -> Any:
    """Return the solution of a x = b by a factorization of the whole matrix."""
    raw = example(b)
    backend = backend_of(raw)
    rows = backend.xp.eye(int(b.shape[0]), dtype=raw.dtype, device=backend.device_of(raw))
    columns, b = lift_all([vmap(a, randomness="same")(rows), b])
    return namespace_of((b,)).linalg.solve(columns.T, b)


def largest(value: Any) -> float:
    """Return the largest element of the whole batch as a number, at least 0."""
    raw = raw_of(value)
    return float(np.max(np.asarray(backend_of(raw).to_host(raw)), initial=0.0))
