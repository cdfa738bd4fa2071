"""The solvers inside a trace: loops as operations, NaN in the place of errors."""

from collections.abc import Callable
from typing import Any

from agrad.backends import backend_of
from agrad.control.bodies import example
from agrad.control.flow import while_loop
from agrad.engine.calls import lift_all
from agrad.engine.levels import namespace_of
from agrad.engine.tape import mode
from agrad.solvers.linear import magnitude, minus, norm, precision
from agrad.transforms.vmap import vmap

Operator = Callable[[Any], Any]

DENSE = 1000
"""The most unknowns of a linear system whose matrix is computed whole."""


def in_trace() -> bool:
    """Return True while a function is traced."""
    return mode().trace is not None


def _is_good(size: Any, tolerance: Any) -> Any:
    size, tolerance = lift_all([size, tolerance])
    xp = namespace_of((size, tolerance))
    return xp.logical_and(size <= tolerance, xp.isfinite(tolerance))


def _or_nan(good: Any, x: Any) -> Any:
    """Return ``x``, or NaN where an iteration did not converge."""
    good, x = lift_all([good, x])
    return namespace_of((x,)).where(good, x, float("nan"))


def solved(a: Operator, b: Any, x: Any, method: str, tolerance: Any, limit: int) -> Any:
    """Return the solution of a x = b from a first guess ``x``.

    Up to ``DENSE`` unknowns the matrix is computed, and factorized. Beyond, ``limit`` products with it are allowed, of
    conjugate gradients or BiCGSTAB, and the solution is NaN if they do not suffice.
    """
    if int(b.shape[0]) <= DENSE:
        raw = example(b)
        backend = backend_of(raw)
        rows = backend.xp.eye(int(b.shape[0]), dtype=raw.dtype, device=backend.device_of(raw))
        columns, b = lift_all([vmap(a)(rows), b])
        return namespace_of((b,)).linalg.solve(columns.T, b)
    step = _conjugate_step if method == "cg" else _stabilized_step
    r = minus(b, a(x))
    x, r = lift_all([x, r])
    xp = namespace_of((r,))
    rest = () if method == "cg" else (r,)

    def goes_on(state: Any) -> Any:
        return xp.logical_and(state[3] > tolerance, state[4] < limit)

    def advance(state: Any) -> Any:
        x, r, p, _, applied = state
        x, r, p = step(a, x, r, p, *rest)
        return x, r, p, norm(r), applied + 2

    x, _, _, size, _ = while_loop(goes_on, advance, (x, r, r, norm(r), 1))
    return _or_nan(_is_good(size, 2 * tolerance), x)


def linear(a: Operator, b: Any, x: Any, method: str, rtol: float | None, atol: float, maxiter: int | None) -> Any:
    """Return the solution of a x = b; see ``linear.solved``."""
    rtol = precision(b) ** 0.75 if rtol is None else rtol
    scale = magnitude(b)
    b = b / scale
    limit = maxiter or max(200, 10 * int(b.shape[0]))
    return solved(a, b, x / scale, method, norm(b) * rtol + atol / scale, limit) * scale


def _over(a: Any, b: Any) -> Any:
    xp = namespace_of((a, b))
    return xp.where(b == 0, 0.0 * a, a / xp.where(b == 0, xp.ones_like(b), b))


def _dot(a: Any, b: Any) -> Any:
    return namespace_of((a, b)).vecdot(a, b)


def _conjugate_step(a: Operator, x: Any, r: Any, p: Any) -> tuple[Any, Any, Any]:
    """Take a step of conjugate gradients; see ``linear.conjugate_gradient``."""
    square, ap = _dot(r, r), a(p)
    step = _over(square, _dot(p, ap))
    x, r = x + step * p, r - step * ap
    return x, r, r + _over(_dot(r, r), square) * p


def _stabilized_step(a: Operator, x: Any, r: Any, p: Any, shadow: Any) -> tuple[Any, Any, Any]:
    """Take a step of BiCGSTAB; see ``linear.bicgstab``."""
    rho, v = _dot(shadow, r), a(p)
    alpha = _over(rho, _dot(shadow, v))
    s = r - alpha * v
    t = a(s)
    omega = _over(_dot(t, s), _dot(t, t))
    x, r = x + alpha * p + omega * s, s - omega * t
    return x, r, r + _over(_dot(shadow, r), rho) * _over(alpha, omega) * (p - omega * v)


def contracted(step: Operator, x: Any, rtol: float, atol: float, maxiter: int) -> Any:
    """Return the fixed point of a function of vectors, NaN if not reached."""
    after = step(x)
    x, after = lift_all([x, after])
    xp = namespace_of((after,))

    def tolerance(x: Any) -> Any:
        return norm(x) * rtol + atol

    def goes_on(state: Any) -> Any:
        _, left, bound, count = state
        return xp.logical_and(xp.logical_not(left <= bound), count < maxiter)

    def advance(state: Any) -> Any:
        x, *_, count = state
        after = step(x)
        return after, norm(after - x), tolerance(x), count + 1

    x, left, bound, _ = while_loop(goes_on, advance, (after, norm(after - x), tolerance(x), 1))
    return _or_nan(_is_good(left, bound), x)


def newton(
    at: Operator, product: Callable[[Any, Any], Any], x: Any, rtol: float | None, atol: float | None, maxiter: int
) -> Any:
    """Return a root of a function of vectors by Newton's method, or NaN.

    product: from a vector and a point to the derivative there along it. A step is halved until the norm decreases.
    """
    r = at(x)
    x, r = lift_all([x, r])
    xp = namespace_of((x, r))
    size = norm(r)
    small = precision(x) ** 0.75
    tolerance = size * (small if rtol is None else rtol) + (small if atol is None else atol)

    def goes_on(state: Any) -> Any:
        _, _, size, count = state
        return xp.logical_and(xp.logical_not(size <= tolerance), count < maxiter)

    def advance(state: Any) -> Any:
        x, r, size, count = state
        scale = magnitude(r)
        bound = norm(r / scale) * 1e-6
        step = solved(lambda v: product(v, x), -r / scale, xp.zeros_like(r), "gmres", bound, 10 * r.shape[0]) * scale

        def is_up(tried: Any) -> Any:
            factor, left, tries = tried
            down = xp.logical_or(left <= size * (1 - 1e-4 * factor), size <= tolerance)
            return xp.logical_and(xp.logical_not(down), tries < 30)

        def halve(tried: Any) -> Any:
            factor, _, tries = tried
            return factor / 2, norm(at(x + step * (factor / 2))), tries + 1

        one = xp.ones_like(size)
        factor, left, tries = while_loop(is_up, halve, (one, norm(at(x + step)), 0))
        after = x + step * factor
        return after, at(after), left, count + xp.where(tries < 30, tries * 0 + 1, tries * 0 + maxiter)

    x, _, size, _ = while_loop(goes_on, advance, (x, r, size, 0))
    return _or_nan(_is_good(size, tolerance), x)
