"""Problems of ``scipy.optimize``: unknowns, functions, derivatives of solutions."""

import inspect
from typing import Any

import numpy as np

import agrad
from agrad import Tensor, errors, linalg, tree
from agrad.engine.scalars import refuse_trace
from agrad.interop.arguments import constant, is_complex, is_concrete, values_of
from agrad.scipy.shared import array, created, is_array, library
from agrad.solvers.implicit import attach, newest_level, plain, recorded_part


class Problem:
    """A call of a function of ``scipy.optimize``, with the unknowns as one vector.

    ``how`` are its arguments. Functions get the vector and the user's further arguments.
    """

    def __init__(self, name: str, jit: bool | None, *args: Any, **kwargs: Any) -> None:
        refuse_trace(f"agrad.scipy.optimize.{name}", "Call it outside; fun itself may be jitted.")
        optimize = library("scipy.optimize", f"agrad.scipy.optimize.{name}")
        self.scipy, self.name, self.jit = optimize, name, jit
        self.how = inspect.signature(getattr(optimize, name)).bind(*args, **kwargs).arguments

    def start(self, fun: Any, x0: Any, args: Any, jac: Any) -> None:
        """Store the function, the start, further arguments, and the user's derivative."""
        errors.check_functions(self.name, fun=fun)
        self.given, self.fun, self.supplied = fun, (lambda *x: fun(*x)[0]) if jac is True else fun, jac is None
        self.args = args if isinstance(args, tuple) else (args,)
        like = next((agrad.asarray(leaf) for leaf in tree.leaves(self.args) if is_array(leaf)), None)

        def made(x: Any) -> Any:
            if is_array(x) and not isinstance(x, np.generic):
                return x
            return (created(np.asarray(x) * 1.0) if like is None else constant(np.asarray(x) * 1.0, like)).data

        leaves, spec = tree.flatten(made(np.atleast_1d(x0).tolist()) if _are_numbers(x0) else tree.map(made, x0))
        self.single = spec == tree.structure(0.0)
        self.tensors = [isinstance(leaf, Tensor) for leaf in leaves]
        leaves = [array(leaf) for leaf in leaves]
        if not leaves or any(map(is_complex, leaves)):
            raise errors.DtypeError(f"{self.name}: x0 must hold real arrays, got {x0!r}. Split complex ones into two.")
        vector, self.unravel = tree.ravel(tree.unflatten(spec, leaves))
        self.x0, self.size, self.like = plain(vector), vector.shape[0], agrad.asarray(vector)

    def vector(self, x: Any) -> Any:
        """Return host numbers as a plain vector on the device of the unknowns."""
        kind = "float64" if self.like.dtype == agrad.float64 else "float32"
        return agrad.astype(constant(np.asarray(x, kind), self.like), self.like.dtype, copy=False).data

    def tree(self, x: Any) -> Any:
        """Return the pytree with the elements of a vector."""
        leaves, spec = tree.flatten(self.unravel(x))
        return tree.unflatten(spec, [agrad.asarray(x) if t else x for x, t in zip(leaves, self.tensors, strict=True)])

    def bounds(self, given: Any, in_pairs: bool = False) -> Any:
        """Return bounds (numbers or pytrees like the unknowns) as a SciPy object."""
        if given is None or hasattr(given, "lb"):
            return given
        like = self.tree(self.vector(np.zeros(self.size)))

        def flat(limit: Any, free: float) -> Any:
            if not self.single and isinstance(limit, (dict, tuple, list)):
                limit = tree.ravel(tree.map(lambda x, y: np.broadcast_to(values_of(y), x.shape), like, limit))[0]
            limit = np.asarray(limit, float)  # None becomes NaN
            limit = np.ravel(limit) if limit.ndim else np.full(self.size, limit)
            return np.where(np.isnan(limit), free, limit)

        low, high = zip(*given, strict=True) if in_pairs and self.single else given
        return self.scipy.Bounds(flat(low, -np.inf), flat(high, np.inf))

    def values(self, vector: Any, args: Any) -> Any:
        """Return the elements of the function's result."""
        return elements(self.fun(self.tree(vector), *args))

    def value(self, vector: Any, args: Any) -> Any:
        """Return the objective, of shape () if it is one number."""
        y = self.values(vector, args)
        return y[0] if y.shape == (1,) else y

    def on_device(self, f: Any, ours: bool = True) -> Any:
        """Return a function of vectors, traced if agrad differentiates it."""
        ours = ours and self.supplied
        runs = [lambda args, *vectors: f(*(map(agrad.asarray, vectors) if ours else vectors), args)]
        if ours and self.like.backend in ("numpy", "torch", "jax", "cupy") if self.jit is None else self.jit:
            runs.append(agrad.jit(runs[0]))

        def call(*vectors: Any) -> Any:
            with agrad.no_grad():
                if len(runs) == 1 or self.jit:
                    return runs[-1](self.known, *vectors)
                try:
                    return runs[1](self.known, *vectors)
                except TypeError:  # Python code branches on values, or an argument has no hash
                    runs.pop()
            return call(*vectors)

        return call

    def on_host(self, f: Any, ours: bool = True, columns: int = 0) -> Any:
        """Return a function of NumPy vectors with results of float64."""
        call = self.on_device(f, ours)

        def read(out: Any) -> Any:
            out = agrad.asarray(plain(out))
            if not is_concrete(out):
                raise errors.TracedValueError(f"{self.name}: fun must not capture values of a vmap. Pass them in args.")
            out = out.numpy().astype(np.float64, casting="same_kind")
            return np.reshape(out, (-1, columns)) if columns else out

        return lambda *vectors: tree.map(read, call(*map(self.vector, vectors)))

    def derivative(self, given: Any, f: Any, columns: int = 0, order: int = 1) -> Any:
        """Return ``f`` or the user's function. True selects part ``order`` of its result."""
        if given is None and f is not None:
            return self.on_host(f, columns=columns)
        user = (lambda *x: self.given(*x)[order]) if given is True else given

        def call(*vectors: Any) -> Any:
            return elements(user(*map(self.tree, vectors[:-1]), *vectors[-1]))

        return self.on_host(call, False, columns) if callable(user) else user

    def callback(self, user: Any) -> Any:
        """Return a callback for SciPy that passes the unknowns as a pytree."""
        if user is None or set(inspect.signature(user).parameters) != {"intermediate_result"}:
            return user and (lambda x, *state: user(self.tree(self.vector(x)), *state))

        def tell(intermediate_result: Any) -> Any:
            x = self.tree(self.vector(intermediate_result.x))
            return user(intermediate_result=type(intermediate_result)(intermediate_result, x=x))

        return tell

    def run(self, x: Any) -> tuple[Any, Any]:
        """Return the SciPy result from a start, and its unknowns."""
        result = getattr(self.scipy, self.name)(**self.how | {"x0": x})
        return result, np.ravel(result.x)

    def solve(self, solver: Any, equation: Any, fields: Any, bounds: Any = None, scaled: bool = False) -> Any:
        """Return the SciPy result, and the unknowns with implicit derivatives.

        ``solver`` returns the result and the vector from a start. ``fields`` are parts of the result, recomputed if
        they are recorded. ``equation`` is 0 at the solution v, or v = P(v - equation) with the projection P on the
        bounds. ``scaled``: unknowns of least squares are scaled by the columns of the Jacobian.
        """
        known = tree.map(plain, self.args)
        result, x = self._solved(solver, self.x0, known)
        v = agrad.asarray(x)
        if any(newest_level([recorded_part(f(v if self.supplied else x, self.args))]) for f in fields.values()):
            if equation is None:
                raise errors.NotDifferentiableError(f"{self.name}: constraints are not differentiable. Use bounds.")
            sizes = linalg.vector_norm(agrad.jacobian(self.values)(v, known), axis=0) if scaled else agrad.ones_like(v)
            scale = agrad.stop_gradient(1 / agrad.where(sizes > 0, sizes, agrad.ones_like(sizes)))

            def residual(us: Any) -> list[Any]:
                u = agrad.asarray(us[0])
                r = scale * agrad.asarray(equation(u * scale, self.args))
                if bounds is None:
                    return [r]
                return [u - agrad.clip(u - r, *(agrad.asarray(self.vector(b)) / scale for b in (bounds.lb, bounds.ub)))]

            x = agrad.asarray(attach(residual, [plain(v / scale)], self.name)[0]) * scale
            result.update({name: f(x, self.args) for name, f in fields.items()})
        return result, self.tree(x)

    def _solved(self, solver: Any, x: Any, known: Any) -> tuple[Any, Any]:
        """Return the result of a solver on the host, or one for each batch element."""
        level = newest_level([x, *tree.leaves(known)])
        if level is None:
            self.known = known
            result, x = solver(np.asarray(values_of(x), np.float64))
            return result, self.vector(x)
        members = []
        for i in range(level.members):
            one = tree.map(lambda leaf, i=i: leaf.data[i, ...] if newest_level([leaf]) is level else leaf, (x, known))
            members.append(self._solved(solver, *one))
        x = level.wrap(plain(agrad.stack([agrad.asarray(x) for _, x in members])))
        return self.scipy.OptimizeResult(members=[result for result, _ in members]), x


def elements(out: Any) -> Any:
    """Return the elements of a pytree as a Tensor vector."""
    return agrad.asarray(tree.ravel(out)[0])


def _are_numbers(x0: Any) -> bool:
    """Return True for a number, and for nested lists of numbers."""
    return all(map(_are_numbers, x0)) if type(x0) in (list, tuple) and x0 else np.isscalar(x0)
