"""Solvers of nonlinear equations: ``fixed_point`` and ``root``."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from agrad.backends import backend_of
from agrad.control.bodies import example
from agrad.engine.calls import lift_all
from agrad.engine.joining import started
from agrad.engine.namespaces import namespace_of
from agrad.engine.tape import no_grad
from agrad.errors import check_functions
from agrad.solvers.implicit import attach, checked, pushed, state_leaves, tensors_like
from agrad.solvers.linear import Packing, largest, minus, norm, precision, solved
from agrad.solvers.loops import anywhere, in_trace, iterate, plain, reached, within
from agrad.transforms.trees import unflatten

__all__ = ["fixed_point", "root"]

Leaves = Sequence[Any]
Function = Callable[..., Any]
Residual = Callable[[Leaves], list[Any]]


def fixed_point(
    f: Function, x0: Any, *args: Any, rtol: float | None = None, atol: float | None = None, maxiter: int = 1000
) -> Any:
    """Find a fixed point ``f(x, *args) = x`` by iteration.

    The solution is differentiable in any mode and order with respect to ``args`` and all values that ``f`` closes over.
    The iterations are not differentiated, and the derivative with respect to ``x0`` is 0. The iteration ends when
    norm(f(x) - x) is at most atol + rtol * norm(x).

    Parameters
    ----------
    f : callable
        Function that returns a pytree like ``x0``. It consists of agrad functions and is a contraction near the
        solution.
    x0 : pytree of floating-point arrays
        Initial guess.
    *args
        Further arguments of ``f``.
    rtol, atol : float, optional
        Tolerances. By default, the machine epsilon of the dtype to the power 3/4.
    maxiter : int, default 1000
        Maximum number of iterations.

    Returns
    -------
    pytree like ``x0``
        Fixed point. Inside ``jit`` it is NaN if the iteration does not converge.

    Raises
    ------
    ConvergenceError
        If the iteration does not converge in ``maxiter`` iterations.

    See Also
    --------
    agrad.root : Find a root by the Newton method.

    Examples
    --------
    >>> def cosine(a):
    ...     return agrad.fixed_point(lambda x, a: agrad.cos(a * x), np.asarray(0.5), a)
    >>> round(float(cosine(np.asarray(1.0))), 6), round(float(agrad.grad(cosine)(1.0)), 6)
    (0.739085, -0.297474)
    """

    def moves(step: Residual) -> Residual:
        return lambda xs: [minus(x, after) for x, after in zip(xs, step(xs), strict=True)]

    return _solution("fixed_point", f, x0, args, partial(_contracted, rtol, atol, maxiter), moves, "contraction")


def _solution(
    name: str,
    f: Function,
    x0: Any,
    args: tuple[Any, ...],
    solve: Callable[[Residual, list[Any]], list[Any]],
    residual_of: Callable[[Residual], Residual],
    method: str,
) -> Any:
    """Return the solution of an equation. Its derivative is computed by linear solves with ``method``."""
    check_functions(name, f=f)
    leaves, spec = state_leaves(x0, f"{name}: x0")

    def function(xs: Leaves) -> list[Any]:
        return checked(f(unflatten(spec, xs), *args), leaves, spec, f"{name}: the result of f")

    leaves = started(leaves, function)
    with no_grad():
        found = solve(function, [plain(x) for x in leaves])
    return unflatten(spec, tensors_like(leaves, attach(residual_of(function), found, name, method)))


def _contracted(rtol: float | None, atol: float | None, maxiter: int, step: Residual, xs: list[Any]) -> list[Any]:
    """Return the arrays that a step does not change."""
    packing = Packing(xs)
    x = packing.pack(xs)
    f = packing.on_vectors(step)
    small, lazy = precision(x) ** 0.75, backend_of(example(x)).lazy
    rtol, atol = (small if given is None else given for given in (rtol, atol))

    def advance(state: Sequence[Any]) -> tuple[Any, ...]:
        _, after, left, bound = state
        return moved(after, bound + left)

    def moved(x: Any, bound: Any) -> tuple[Any, ...]:
        before, after = lift_all([x, f(x)])
        left, bound = lift_all([norm(after - before), bound])
        return before, after, left, bound

    def goes_on(state: Sequence[Any]) -> Any:
        before, _, left, bound = state
        # the bound on the norm avoids computing the norm at each iteration; a lazy library computes both at once
        if not in_trace() and not lazy and anywhere(left > bound * rtol + atol):
            return True
        good = within(left, norm(before) * rtol + atol)
        return namespace_of((good,)).logical_not(good)

    (before, after, left, _), _ = iterate(goes_on, advance, moved(x, norm(x)), maxiter - 1)

    def error() -> str:
        return (
            f"fixed_point: f must converge in {maxiter} iterations, got a last step of {largest(left):.3g}. Pass a "
            "better x0 or a larger maxiter, or solve f(x) - x = 0 by agrad.root, which needs no contraction."
        )

    return packing.unpack(reached(after, left, norm(before) * rtol + atol, error))


def root(
    f: Function, x0: Any, *args: Any, rtol: float | None = None, atol: float | None = None, maxiter: int = 50
) -> Any:
    """Find a root ``f(x, *args) = 0`` by the Newton method.

    GMRES computes the steps, which are halved until the norm decreases. The iteration ends when norm(f(x)) is at most
    atol + rtol * norm(f(x0)). Derivatives are computed as by :func:`agrad.fixed_point`.

    Parameters
    ----------
    f : callable
        Function that returns a pytree like ``x0``. It consists of agrad functions.
    x0 : pytree of floating-point arrays
        Initial guess.
    *args
        Further arguments of ``f``.
    rtol, atol : float, optional
        Tolerances. By default, the machine epsilon of the dtype to the power 3/4.
    maxiter : int, default 50
        Maximum number of steps.

    Returns
    -------
    pytree like ``x0``
        Root. Inside ``jit`` it is NaN if the iteration does not converge.

    Raises
    ------
    ConvergenceError
        If the iteration does not converge in ``maxiter`` steps, or no step decreases the norm.

    See Also
    --------
    agrad.fixed_point : Solve x = f(x).
    agrad.linear_solve : Solve linear equations.

    Examples
    --------
    >>> def cube_root(a):
    ...     return agrad.root(lambda x, a: x**3 - a, np.asarray(1.0), a)
    >>> round(float(cube_root(np.asarray(8.0))), 6), round(float(agrad.grad(cube_root)(8.0)), 6)
    (2.0, 0.083333)
    """
    return _solution("root", f, x0, args, partial(_newton, rtol, atol, maxiter), lambda residual: residual, "gmres")


def _newton(rtol: float | None, atol: float | None, maxiter: int, residual: Residual, xs: list[Any]) -> list[Any]:
    """Return a root by the Newton method. A step is halved until the norm decreases."""
    packing = Packing(xs)
    f = packing.on_vectors(residual)

    def at(x: Any) -> tuple[Any, Any, Any]:
        x, r = lift_all([x, f(x)])
        return x, r, norm(r)

    def along(v: Any, x: Any) -> Any:
        return packing.pack(pushed(residual, (), packing.unpack(x), packing.unpack(v)))

    def advance(state: Sequence[Any]) -> tuple[Any, ...]:
        x, r, size, _ = state
        xp = namespace_of((r,))
        step = solved(partial(along, x=x), -r, xp.zeros_like(r), "gmres", 1e-6, 0.0, None, "root", strict=False)

        def is_down(scale: Any, left: Any) -> Any:
            return (left <= size * (1 - 1e-4 * scale)) | (size <= tolerance)

        def halve(tried: Sequence[Any]) -> tuple[Any, ...]:
            scale, *_, down = tried
            return moved(xp.where(down, scale, scale / 2))

        def moved(scale: Any) -> tuple[Any, ...]:
            x_, r_, left = at(x + step * scale)
            return scale, x_, r_, left, is_down(scale, left)

        (_, *found), _ = iterate(lambda s: xp.logical_not(s[-1]), halve, moved(xp.ones_like(size)), 29)
        return tuple(found)

    first = at(packing.pack(xs))
    small = precision(first[0]) ** 0.75
    tolerance = first[2] * (small if rtol is None else rtol) + (small if atol is None else atol)
    state = (*first, first[2] == first[2])
    (x, _, size, _), _ = iterate(lambda s: (s[2] > tolerance) & s[3], advance, state, maxiter)

    def error() -> str:
        return (
            f"root: norm(f(x)) must decrease to {largest(tolerance):.3g}, got {largest(size):.3g}. Pass an x0 nearer "
            "to a root, or a larger maxiter or atol."
        )

    return packing.unpack(reached(x, size, tolerance, error))
