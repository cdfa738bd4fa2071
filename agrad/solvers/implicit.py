"""``linear_solve``, and implicit derivatives of solutions.

The solution x of F(x) = 0 is computed without recording. Then F is evaluated once at the solution, and recorded. The
result is the residual r, which depends on all values that F uses except x, also on Tensors that F closes over. By the
implicit function theorem, dx = -A^-1 dr with A = dF/dx. This derivative is attached to x for one transform after the
other, the innermost first. Its linear solve runs on Tensors of the outer transforms and has an implicit derivative
itself. This computes derivatives of every order and mode.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from agrad.engine.backward import backward_pass
from agrad.engine.batching import Batch
from agrad.engine.calls import array_of_number, is_tensor, lift_all, newest_level, record_call, recorded_part, tensor_of
from agrad.engine.explain import called
from agrad.engine.gradients import nodes_before, starting_cotangents
from agrad.engine.joining import moved_beside, started
from agrad.engine.levels import Forward, lift, select
from agrad.engine.namespaces import namespace_of
from agrad.engine.tape import Node, leaf_node, next_id, no_grad, recording_from
from agrad.engine.tensor import Tensor, strip_constant_levels, wrap
from agrad.errors import DtypeError, NotDifferentiableError, OperandError, ShapeError, described
from agrad.solvers.linear import Packing, minus, solved
from agrad.solvers.loops import plain
from agrad.transforms.arguments import is_array, split_level, zeros
from agrad.transforms.calling import differentiable, spread
from agrad.transforms.grad import jvp, vjp
from agrad.transforms.trees import flatten, unflatten

__all__ = ["linear_solve"]

Leaves = Sequence[Any]
Function = Callable[..., Any]
Residual = Callable[[Leaves], list[Any]]


def state_leaves(tree: Any, what: str) -> tuple[list[Any], Any]:
    """Return the leaves of a pytree of floating-point arrays, and its structure.

    Numbers become arrays of the selected backend.
    """
    leaves, spec = flatten(tree)
    if not leaves:
        raise OperandError(f"{what} must contain an array, got {described(tree)}")
    for i, leaf in enumerate(leaves):
        leaves[i] = array_of_number(leaf)
        if not is_array(leaves[i]):
            raise OperandError(f"{what} must contain only arrays, got {described(leaf)}")
        if not differentiable(leaves[i]):
            raise DtypeError(
                f"{what} must have a floating-point dtype, got {leaf.dtype}. Cast it: agrad.astype(x, agrad.float64)."
            )
    return leaves, spec


def tensors_like(leaves: Leaves, out: Leaves) -> list[Any]:
    """Return results, each as a Tensor if its leaf is one."""
    return [tensor_of(o) if is_tensor(leaf) else o for leaf, o in zip(leaves, out, strict=True)]


def checked(out: Any, leaves: Leaves, spec: Any, what: str) -> list[Any]:
    """Return the leaves of a user function's result, which must be like the unknowns."""
    found, found_spec = flatten(out)
    if found_spec != spec:
        raise ShapeError(f"{what} must have the structure of the unknown, {spec}, got {found_spec}")
    for a, b in zip(found, leaves, strict=True):
        if not hasattr(a, "shape") or tuple(a.shape) != tuple(b.shape):
            raise ShapeError(f"{what} must have the shape of the unknown, {tuple(b.shape)}, got {described(a)}")
    return moved_beside(found, leaves)


# ---------------------------------------------------------------- the derivative of a solution


def attach(
    residual: Residual, solution: Leaves, name: str, method: str = "gmres", hidden: Sequence[Any] = ()
) -> list[Any]:
    """Return the solution of residual(x) = 0 with its derivative.

    ``solution`` contains plain values. ``method`` is the method of the linear solves. ``hidden`` are nesting levels to
    remove from the results of the residual.
    """
    levels = tuple(hidden)
    since = next_id()
    rs = _evaluated(residual, levels, solution)
    return _attach(residual, levels, list(solution), rs, since, name, method)


def _without(value: Any, level: Any) -> Any:
    """Return a value without one nesting level, which may be inside other levels."""
    if not isinstance(value, Tensor):
        return value
    data = _without(value.data, level)
    if value.level is level:
        return data
    return wrap(data, value.level, _without(value.node, level))


def _down(value: Any, levels: Sequence[Any]) -> Any:
    """Return a result of a residual without the nesting levels, which are listed from the innermost."""
    value = recorded_part(value)
    for level in levels:
        value = spread(level, value) if isinstance(level, Batch) else recorded_part(_without(value, level))
    return value


def _up(value: Any, levels: Sequence[Any]) -> Any:
    """Return a value with the nesting levels, as a Tensor for a residual."""
    for level in reversed(levels):
        if isinstance(level, Batch):
            value = level.wrap(strip_constant_levels(value))
    return lift(value)


def _evaluated(residual: Residual, levels: Sequence[Any], xs: Leaves) -> list[Any]:
    """Return the residual at ``xs`` without the nesting levels."""
    return [_down(r, levels) for r in residual([_up(x, levels) for x in xs])]


def _attach(
    residual: Residual, levels: tuple[Any, ...], xs: list[Any], rs: list[Any], since: int, name: str, method: str
) -> list[Any]:
    """Implement ``attach`` inside the nesting levels that were removed.

    ``rs`` is the residual there, ``since`` a serial number before the nodes that the residual recorded.
    """
    level = newest_level(rs)
    if level is not None and level.keeps_rules:
        flat = partial(_evaluated, residual, levels)
        return level.defined(name, xs, flat, xs, (), partial(_attached_again, name, method))
    if level is None or not (level.derivative or isinstance(level, Batch)):
        return xs
    below = (*levels, level)
    if isinstance(level, Batch):
        inner = [_down(x, (level,)) for x in xs]
        found = _attach(residual, below, inner, [_down(r, (level,)) for r in rs], since, name, method)
        return [level.wrap(strip_constant_levels(x)) for x in found]
    if not (level.tape or isinstance(level, Forward)):
        raise NotDifferentiableError(f"{name} cannot be differentiated by the transform {level.name!r}")
    inner = [_down(r, (level,)) for r in rs]
    xs = _attach(residual, below, xs, inner, since, name, method)
    if isinstance(level, Forward):
        if newest_level(inner) is not None:  # through the solution, the residual depends on other transforms too
            rs = _evaluated(residual, levels, xs)
        tangents = [split_level(r, level)[1] for r in rs]
        ts = [zeros(x) if t is None else strip_constant_levels(t) for t, x in zip(tangents, xs, strict=True)]
        steps = linear(lambda v: pushed(residual, below, xs, v), lift_all(ts), name, method, hidden=_derivatives(below))
        return [wrap(x, level, strip_constant_levels(lift(-s))) for x, s in zip(xs, steps, strict=True)]

    def pull(node: Node, given: list[Any]) -> list[Any]:
        # with create_graph=True, the global tape records the pass itself: the level is then not removed
        again = any(isinstance(g, Tensor) and g.level is level for g in given)
        off = levels if again else below
        at = on_tape(xs, level, node) if again else xs
        gs = lift_all([zeros(x) if g is None else g for g, x in zip(given, xs, strict=True)])
        if not (again or levels or any(isinstance(x, Tensor) for x in xs)):
            found = _pulled_at_level(residual, level, xs, gs, name, method)
            return [found.get(parent) for parent in parents]
        _, back = vjp(lambda *ys: tuple(residual(ys)), *[_up(x, off) for x in at])

        def product(v: list[Any]) -> list[Any]:
            return [_down(c, off) for c in back(tuple([_up(part, off) for part in v]))]

        us = lift_all(linear(product, gs, name, method, hidden=_derivatives(off)))
        # the residual is recorded again, at the solution, which may itself depend on recorded values
        with recording_from(level.id):
            run = Evaluation(lambda at: _evaluated(residual, levels, at), level, at)
            found = run.pulled([-u for u in us], again=again)
        return [found.get(parent) for parent in parents]

    parents = nodes_before([node for _, node in (split_level(r, level) for r in rs) if node is not None], since)
    nodes = record_call(name, parents, len(xs), pull)
    return [wrap(x, level, node) for x, node in zip(xs, nodes, strict=True)]


def _attached_again(name: str, method: str, residual: Residual, xs: Leaves, _: Leaves) -> list[Any]:
    """Return a solution with its derivative when a program is interpreted."""
    return attach(residual, [plain(x) for x in xs], name, method)


class Evaluation:
    """One evaluation of a function of Tensors of a transform, which records it."""

    def __init__(self, function: Residual, level: Any, starts: Sequence[Tensor]) -> None:
        self.level, self.starts, self.since = level, starts, next_id()
        with recording_from(level.id):
            self.outs: list[Any] = [recorded_part(r) for r in called(function, starts)]
        self.ends: list[Any] = [split_level(r, level)[1] for r in self.outs]

    def pulled(self, gs: Leaves, retain: bool = False, again: bool = False) -> dict[Node, Any]:
        """Return the cotangents of all nodes. With ``again``, the pass is recorded."""
        starts = starting_cotangents(self.ends, [strip_constant_levels(g) for g in gs])
        return backward_pass(starts, retain=retain or again, level=self.level if again else None, since=self.since)


def _pulled_at_level(residual: Residual, level: Any, xs: Leaves, gs: Leaves, name: str, method: str) -> dict[Node, Any]:
    """Return the cotangents of the nodes that the residual uses, for a solution of plain values.

    The transform records the residual once. Each product with the transposed matrix is a pass over this record.
    """
    run = Evaluation(residual, level, [wrap(x, level, leaf_node()) for x in xs])

    def product(v: Leaves) -> list[Any]:
        found = run.pulled(v, retain=True)
        parts = zip(run.starts, v, strict=True)
        return lift_all([found[x.node] if x.node in found else zeros(part) for x, part in parts])

    return run.pulled([-u for u in lift_all(linear(product, gs, name, method))])


def on_tape(values: Leaves, level: Any, node: Node) -> list[Any]:
    """Return the outputs of a recorded call as Tensors of its nesting level."""
    nodes = [node] if len(values) == 1 else [select(node, i) for i in range(len(values))]
    return [wrap(value, level, n) for value, n in zip(values, nodes, strict=True)]


def _derivatives(levels: Sequence[Any]) -> list[Any]:
    return [level for level in levels if level.derivative]


def pushed(residual: Residual, levels: Sequence[Any], xs: Leaves, vs: Leaves) -> list[Any]:
    """Return the derivative of the residual along ``vs``, inside the nesting levels."""
    primals, tangents = (tuple([_up(value, levels) for value in values]) for values in (xs, vs))
    _, out = jvp(lambda *ys: tuple(residual(ys)), primals, tangents)
    return [_down(t, levels) for t in out]


def linear(
    matvec: Callable[[list[Any]], list[Any]],
    b: Leaves,
    name: str,
    method: str = "gmres",
    *,
    hidden: Sequence[Any] = (),
    guess: Leaves | None = None,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
) -> list[Any]:
    """Return the differentiable solution of matvec(x) = b, of lists of arrays."""
    packing = Packing(b)
    with no_grad():
        right = packing.pack(b)
        start = namespace_of((right,)).zeros_like(right) if guess is None else packing.pack(guess)
        right, start = lift_all([right, start])
        found = solved(packing.on_vectors(matvec), right, start, method, rtol, atol, maxiter, name)
        xs = packing.unpack(found)

    def residual(ys: Leaves) -> list[Any]:
        return [minus(y, right) for y, right in zip(matvec(list(ys)), b, strict=True)]

    return attach(residual, xs, name, method, hidden)


# ---------------------------------------------------------------- public functions


def linear_solve(
    matvec: Function,
    b: Any,
    x0: Any = None,
    *,
    method: Literal["gmres", "cg", "bicgstab"] = "gmres",
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
) -> Any:
    """Solve the linear system ``matvec(x) = b`` without the matrix.

    Use it for a matrix that is known only by its products. The solution is differentiable in any mode and order with
    respect to ``b`` and all values that ``matvec`` uses. The iteration ends when the norm of the residual is at most
    rtol * norm(b) + atol.

    Parameters
    ----------
    matvec : callable
        Linear function of a pytree like ``b``, which returns such a pytree and consists of agrad functions.
    b : pytree of floating-point arrays
        Right-hand side.
    x0 : pytree like ``b``, optional
        Initial guess. By default 0.
    method : {"gmres", "cg", "bicgstab"}, default "gmres"
        "gmres" and "bicgstab" (which uses less memory) are for any matrix, "cg" for a Hermitian positive definite one.
    rtol : float, optional
        Relative tolerance. By default, the machine epsilon of the dtype to the power 3/4.
    atol : float, default 0.0
        Absolute tolerance.
    maxiter : int, optional
        Maximum number of products. By default, ten times the number of unknowns, and at least 200.

    Returns
    -------
    pytree like ``b``
        Solution. Inside ``jit`` it is NaN if the iteration does not converge.

    Raises
    ------
    ConvergenceError
        If the iteration does not converge in ``maxiter`` products.

    See Also
    --------
    agrad.linalg.solve : Solve a system with a matrix as an array.
    agrad.root : Solve nonlinear equations.

    Notes
    -----
    GMRES: Saad and Schultz, SIAM J. Sci. Stat. Comput. 7 (1986). Conjugate gradients: Hestenes and Stiefel, J. Res.
    Nat. Bur. Standards 49 (1952). BiCGSTAB: van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992).

    Examples
    --------
    >>> a = np.asarray([[4.0, 1.0], [1.0, 3.0]])
    >>> def solution(b):
    ...     return agrad.linear_solve(lambda x: a @ x, b, method="cg")
    >>> solution(np.asarray([1.0, 2.0])).round(4)
    array([0.0909, 0.6364])
    >>> agrad.grad(lambda b: solution(b)[0])(np.asarray([1.0, 2.0])).round(4)
    array([ 0.2727, -0.0909])
    """
    if not callable(matvec):
        raise OperandError(
            f"linear_solve: matvec must be a function, got {described(matvec)}. For a matrix a, pass lambda x: a @ x, "
            "or use agrad.linalg.solve."
        )
    leaves, spec = state_leaves(b, "linear_solve: b")

    def flat(xs: Leaves) -> list[Any]:
        return checked(matvec(unflatten(spec, xs)), leaves, spec, "linear_solve: the result of matvec")

    leaves = started(leaves, flat)
    guess = None if x0 is None else checked(x0, leaves, spec, "linear_solve: x0")
    out = linear(flat, leaves, "linear_solve", method, guess=guess, rtol=rtol, atol=atol, maxiter=maxiter)
    return unflatten(spec, tensors_like(leaves, out))
