"""The solvers inside a trace: loops as operations, NaN in the place of errors."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agrad.backends import backend_of
from agrad.control.bodies import example, id_above
from agrad.control.staged import staged_scan, staged_while
from agrad.dtypes import is_complex
from agrad.engine.calls import lift_all
from agrad.engine.levels import lift
from agrad.engine.namespaces import namespace_of
from agrad.engine.tape import mode
from agrad.engine.tensor import Tensor, strip_constant_levels
from agrad.registry import namespace
from agrad.solvers.linear import magnitude, minus, norm, precision
from agrad.solvers.runge_kutta import METHODS, Options, Tableau
from agrad.transforms.trees import flatten
from agrad.transforms.vmap import vmap

Operator = Callable[[Any], Any]

DENSE = 1000
"""The most unknowns of a linear system whose matrix is computed whole."""


def in_trace() -> bool:
    """Return True while a function is traced."""
    return mode().trace is not None


def _age(values: Any) -> Any:
    """Return the number of the trace of a loop with these first values.

    Levels that are newer than the values record above the loop: an equation may use them inside.
    """
    leaves = [strip_constant_levels(leaf) for leaf in flatten(values)[0] if isinstance(leaf, Tensor)]
    return id_above(mode().trace, *[leaf.level for leaf in leaves if isinstance(leaf, Tensor)])


def while_loop(goes_on: Callable[[Any], Any], advance: Callable[[Any], Any], init: Any) -> Any:
    """Return the last value of a loop that is as old as its first values."""
    return staged_while(goes_on, advance, init, _age(init))


def scan(step: Callable[..., Any], init: Any, xs: Sequence[Any], reverse: bool = False) -> tuple[Any, Any]:
    """Return the carry and rows of a scan that is as old as its first values."""
    return staged_scan(step, init, xs, int(xs[0].shape[0]), reverse, 0, _age((init, xs)))


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
        columns, b = lift_all([vmap(a, randomness="same")(rows), b])
        return namespace_of((b,)).linalg.solve(columns.T, b)
    step = _conjugate_step if method == "cg" else _stabilized_step
    r = minus(b, a(x))
    x, r = lift_all([x, r])
    rest = () if method == "cg" else (r,)

    def goes_on(state: Any) -> Any:
        return namespace.logical_and(state[3] > tolerance, state[4] < limit)

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
    xp = namespace

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
    xp, size = namespace, norm(r)
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


# ------------------------------------------------------------------ initial value problems


class Integration:
    """One integration of ``slope``, a function of vectors and times.

    See ``runge_kutta``. Where it fails the state is NaN from there on.
    """

    def __init__(self, slope: Callable[[Any, Any], Any], y: Any, t: Any, options: Options) -> None:
        self.slope, self.y, self.t, self.options = slope, lift(y), lift(t), options
        self.method = METHODS[options.method]
        small = precision(y) ** 0.5
        self.rtol, self.atol = (small if given is None else given for given in (options.rtol, options.atol))

    def rows(self) -> Any:
        """Return the states at the times, of shape (times, n)."""
        y, t = self.y, self.t
        k = self.slope(y, t[0])
        _, rows = self._adaptive(k) if self.method.error else scan(self._equal_steps, (y, k), [t[:-1], t[1:]])
        return namespace.concat([namespace.expand_dims(y, axis=0), rows], axis=0)

    def _like(self, number: Any) -> Any:
        """Return a real number with the precision of the state."""
        y = self.y
        return _cast(number, namespace.real(y).dtype if is_complex(y.dtype) else y.dtype)

    def _size(self, v: Any) -> Any:
        """Return the root of the mean square of a vector; 0 if empty."""
        v = abs(v)
        return namespace.sqrt(namespace.sum(v * v) / max(1, int(v.shape[0])))

    def _stages(self, y: Any, k: Any, s: Any, h: Any, end: Any) -> tuple[Any, list[Any]]:
        """Return the state at ``end`` = s + h, and the slopes of the stages."""
        moved, slopes, step = y, [k], self._like(h)
        for node, weights in zip(self.method.nodes[1:], self.method.weights[1:], strict=True):
            moved = y + step * _combined(weights, slopes)
            slopes.append(self.slope(moved, end if node == 1.0 else s + node * h))
        return moved, slopes

    def _equal_steps(self, carry: Sequence[Any], times: Sequence[Any]) -> tuple[Any, Any]:
        """Take steps of equal size from a time to the next."""
        xp, options, (start, end) = namespace, self.options, times
        count = options.steps
        if options.max_step is not None and count is None:
            count = xp.maximum(xp.ceil(abs(end - start) / options.max_step * (1 - 1e-12)), 1.0)
        h = (end - start) / count

        def advance(state: Any) -> Any:
            j, y, k = state
            to = xp.where(j + 1 >= count, end, start + (j + 1) * h)
            moved, slopes = self._stages(y, k, start + j * h, h, to)
            return j + 1, moved, slopes[-1]

        _, y, k = while_loop(lambda state: state[0] < count, advance, (0 * start, *carry))
        return (y, k), y

    def _first(self, k: Any) -> Any:
        """Return the size of the first step; see ``runge_kutta``."""
        xp, y, t = namespace, self.y, self.t
        if self.options.first_step is not None:
            return xp.full_like(t[0], self.options.first_step)
        scale = self.atol + self.rtol * abs(y)
        size, speed, whole = self._size(y / scale), self._size(k / scale), t[-1] - t[0]
        small = xp.logical_or(xp.minimum(size, speed) < 1e-5, xp.logical_not(xp.isfinite(speed)))
        guess = xp.where(small, 1e-6, 0.01 * size / xp.where(small, 1.0, speed))
        guess = xp.minimum(self._like(abs(whole)), guess)
        along = xp.where(self._like(whole) < 0, -guess, guess)
        ahead = self.slope(y + k * along, t[0] + _cast(along, t.dtype))
        bend = xp.maximum(speed, self._size((ahead - k) / scale) / guess)
        flat = bend <= 1e-15
        found = xp.where(flat, xp.maximum(guess * 1e-3, 1e-6), (0.01 / xp.where(flat, 1.0, bend)) ** 0.2)
        return _cast(xp.where(xp.isfinite(bend), xp.minimum(100 * guess, found), guess), t.dtype)

    def _adaptive(self, k: Any) -> tuple[Any, Any]:
        """Take steps whose estimated error stays below the tolerances; interpolate at the times inside them."""
        xp, y, t, options = namespace, self.y, self.t, self.options
        rtol, atol, most = self.rtol, self.atol, options.maxsteps
        finish, sign = t[-1], xp.sign(t[-1] - t[0])
        none, one = 0 * finish, xp.ones_like(finish)
        tableau = Tableau(options.method, example(y))
        errors, powers = tableau.array(self.method.error), _cast(tableau.xp.arange(5, device=tableau.device), t.dtype)
        # the weights of the state inside a step less those of the state at its end
        dense = tableau.array(np.concatenate([-tableau.matrix[-1:].T, tableau.dense], axis=1))

        def advance(state: Any) -> Any:
            """Try a step from the time ``s``."""
            s, y, k, size, tries, *_ = state
            left = abs(finish - s)
            if options.max_step is not None:
                size = xp.minimum(size, options.max_step)
            h = sign * xp.minimum(size, left)
            to = xp.where(size >= left, finish, s + h)
            moved, slopes = self._stages(y, k, s, h, to)
            matrix = xp.stack(slopes)
            off = self._like(h) * xp.matmul(errors, matrix)
            error = self._size(off / (atol + rtol * xp.maximum(abs(y), abs(moved))))
            error = xp.where(xp.isfinite(error), error, float("inf"))
            factor = xp.minimum(xp.maximum(0.9 * xp.maximum(error, 1e-10) ** -0.2, 0.2), 10.0)
            size, good = abs(h) * _cast(factor, t.dtype), error <= 1
            s = xp.where(good, to, s)
            least = 4 * sys.float_info.epsilon * xp.maximum(abs(s), abs(finish))
            tries = xp.where(size > least, tries + 1, float(most))
            return s, xp.where(good, moved, y), xp.where(good, slopes[-1], k), size, tries, h, matrix

        def until(carry: Sequence[Any], times: Sequence[Any]) -> tuple[Any, Any]:
            """Take steps up to a time at least, and interpolate the last one there."""
            (time,) = times

            def goes_on(state: Any) -> Any:
                return xp.logical_and(sign * (time - state[0]) > 0, state[4] < most)

            s, y, k, size, _, h, matrix = while_loop(goes_on, advance, (*carry[:4], none, *carry[4:]))
            s = xp.where(sign * (s - time) >= 0, s, float("nan"))
            parts = xp.matmul(dense, _cast((1 + (time - s) / h) ** powers, y.dtype))
            return (s, y, k, size, h, matrix), y + self._like(h) * xp.matmul(parts, matrix)

        none_taken = xp.stack([xp.zeros_like(k)] * len(self.method.nodes))
        return scan(until, (t[0], y, k, self._first(k), one, none_taken), [t[1:]])


def _cast(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else namespace.astype(x, dtype)


def _combined(weights: Sequence[float], slopes: Sequence[Any]) -> Any:
    """Return the sum of slopes with weights."""
    parts = [weight * slope for weight, slope in zip(weights, slopes, strict=True) if weight]
    return sum(parts[1:], parts[0])
