"""SciPy minimizers, root finders and fits with derivatives of agrad."""

import copy
import functools
import inspect
from typing import Any

import numpy as np

import agrad
from agrad import Tensor, errors, linalg, tree
from agrad.engine.scalars import refuse_trace
from agrad.interop.arguments import constant, is_complex, is_concrete, values_of
from agrad.scipy.shared import array, created, is_array, library
from agrad.solvers.implicit import attach, newest_level, plain, recorded_part

__all__ = ["curve_fit", "least_squares", "minimize", "root", "root_scalar"]

_PRODUCTS = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")
_HESSIANS = ("dogleg", "trust-exact")
_UNBOUNDED = ("cg", "bfgs", "newton-cg", "trust-ncg", "trust-krylov", *_HESSIANS)
_LOSSES: dict[str, Any] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (agrad.sqrt(1 + z) - 1),
    "huber": lambda z: agrad.where(z <= 1, z, 2 * agrad.sqrt(agrad.where(z <= 1, 1.0, z)) - 1),
    "cauchy": agrad.log1p,
    "arctan": agrad.atan,
}


class _Problem:
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
        return _elements(self.fun(self.tree(vector), *args))

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
            return _elements(user(*map(self.tree, vectors[:-1]), *vectors[-1]))

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


def _elements(out: Any) -> Any:
    """Return the elements of a pytree as a Tensor vector."""
    return agrad.asarray(tree.ravel(out)[0])


def _are_numbers(x0: Any) -> bool:
    """Return True for a number, and for nested lists of numbers."""
    return all(map(_are_numbers, x0)) if type(x0) in (list, tuple) and x0 else np.isscalar(x0)


def minimize(fun: Any, x0: Any, *args: Any, jit: bool | None = None, **kwargs: Any) -> Any:
    """Minimize a function with a SciPy method and derivatives of agrad.

    Like ``scipy.optimize.minimize``. Gradients, Hessians, Hessian products and Jacobians of constraints that you do not
    pass come from agrad. ``method="agrad-lbfgs"`` uses ``agrad.optim.LBFGS``, accepts its options, and keeps its
    vectors on the device.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)`` returns one real number.
    x0 : pytree of floating-point arrays, or nested lists of numbers
        The start. A list of numbers becomes an array on the backend of the first array of ``args``.
    *args, **kwargs : object
        Arguments of the SciPy function. Functions among them receive pytrees like ``x0``. For a pytree, ``bounds`` is a
        pair of numbers or pytrees.
    jit : bool, optional
        True to trace ``fun``. By default, functions that agrad differentiates are traced on NumPy, PyTorch, JAX and
        CuPy unless their Python code branches on values.

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``x`` is a pytree like ``x0``. ``x`` and ``fun`` are differentiable with respect to ``args`` and Tensors that
        ``fun`` captures. Other fields are constant NumPy arrays of the unknowns as one vector. Under ``vmap``,
        ``members`` lists the SciPy results.

    Raises
    ------
    TracedValueError
        Inside a compiled function, or if ``fun`` captures values of a ``vmap``. Pass them in ``args``.
    NotDifferentiableError
        If a solution under ``constraints`` is differentiated.

    Notes
    -----
    SciPy computes in float64, ``fun`` in the dtypes of ``x0``. Derivatives are computed by the implicit function
    theorem, which assumes an exact solution. Check ``success``.

    Examples
    --------
    >>> from agrad.scipy import optimize
    >>> def fun(x, a):
    ...     return agrad.sum((x["w"] - a) ** 2) + (x["b"] - 1.0) ** 4
    >>> start = {"w": np.zeros(2), "b": np.asarray(0.0)}
    >>> optimize.minimize(fun, start, args=(np.asarray([1.0, 2.0]),)).x["w"].round(4)
    array([1., 2.])
    >>> agrad.grad(lambda a: optimize.minimize(fun, start, args=(a,)).x["w"][0])(np.asarray([1.0, 2.0])).round(4)
    array([1., 0.])
    """
    problem = _Problem("minimize", jit, fun, x0, *args, **kwargs)
    how, value = problem.how, problem.value
    jac, hess, method, rules = how.get("jac"), how.get("hess"), how.get("method"), how.get("constraints", ())
    problem.start(fun, x0, how.pop("args", ()), jac)
    method = method.lower() if isinstance(method, str) else method
    problem.supplied &= method not in ("nelder-mead", "powell", "cobyla", "cobyqa")
    how["bounds"] = problem.bounds(how.get("bounds"), in_pairs=True)
    rules = [_constraint(problem, c) for c in (rules if isinstance(rules, (list, tuple)) else [rules])]
    solver: Any = functools.partial(_lbfgs, problem, dict(how)) if method == "agrad-lbfgs" else problem.run

    def product(v: Any, p: Any, args: Any) -> Any:
        return agrad.hvp(lambda v: value(v, args), (v,), (p,))[0]

    products = product if jac is None and hess is None and method in _PRODUCTS else None
    matrix = agrad.hessian(value) if jac is None and method in _HESSIANS else None

    how |= {
        "fun": problem.on_host(agrad.value_and_grad(value) if problem.supplied else value),
        "jac": True if problem.supplied else problem.derivative(jac, None),
        "hess": problem.derivative(hess, matrix, problem.size),
        "hessp": problem.derivative(how.get("hessp"), products),
        "constraints": [rule for rule, _ in rules],
        "callback": problem.callback(how.get("callback")),
    }

    fields = {"fun": value} | {f"constraint {i}": values for i, (_, values) in enumerate(rules)}
    bounds, slope = None if method in _UNBOUNDED else how["bounds"], None if rules else agrad.grad(value)
    result, result["x"] = problem.solve(solver, slope, fields, bounds)
    return result


def _lbfgs(problem: _Problem, how: dict[str, Any], x: Any) -> tuple[Any, Any]:
    """Minimize with ``agrad.optim.LBFGS``, whose vectors remain on the device."""
    other = [name for name in how if how[name] is not None and name not in ("fun", "x0", "method", "tol", "options")]
    if other:
        raise errors.ConfigurationError(f"minimize: 'agrad-lbfgs' does not support {other[0]}. Use a method of SciPy.")
    evaluate = problem.on_device(agrad.value_and_grad(problem.value))
    unknown = agrad.nn.Parameter(problem.vector(x))
    tol = {} if how.get("tol") is None else dict.fromkeys(("tolerance_grad", "tolerance_change"), how["tol"])
    options = {"max_iter": 1000, "line_search_fn": "strong_wolfe", **tol, **(how.get("options") or {})}
    optimizer = agrad.optim.LBFGS([unknown], **options)

    def closure() -> Any:
        value, unknown.grad = map(agrad.asarray, evaluate(unknown.detach().raw))
        return value

    optimizer.step(closure)
    calls, steps, group = optimizer.evaluations, optimizer.iterations, optimizer.param_groups[0]
    limit, found = steps >= group["max_iter"] or calls >= group["max_eval"], problem.scipy.OptimizeResult()
    found.update(success=not limit, status=int(limit), message=f"{'A limit' if limit else 'Convergence'} is reached.")
    found.update(fun=closure().item(), jac=values_of(unknown.grad), nit=steps, nfev=calls, njev=calls)
    return found, values_of(unknown)


def _constraint(problem: _Problem, given: Any) -> tuple[Any, Any]:
    """Return a constraint with its Jacobian by agrad, and the function in it."""
    made = copy.copy(given)
    parts = made if isinstance(given, dict) else vars(made)
    fun, jac, args = parts.get("fun"), parts.get("jac"), parts.get("args", ())

    def values(v: Any, _: Any) -> Any:
        return _elements(fun(problem.tree(v), *args)) if fun else v

    if fun:  # it is not linear
        given = (lambda x, *_: jac(x, *args)) if callable(jac) else None
        jac = problem.derivative(given, agrad.jacobian(values), problem.size)
        parts.update(fun=problem.on_host(values), jac=jac, args=())
    return made, values


def root(fun: Any, x0: Any, *args: Any, jit: bool | None = None, **kwargs: Any) -> Any:
    """Solve a system of equations by a method of SciPy, with agrad's Jacobian.

    Like ``scipy.optimize.root``, with the pytrees, ``jit`` and result of ``minimize``. ``fun(x, *args)`` returns as
    many numbers as ``x`` has.

    See Also
    --------
    agrad.root : Newton's method on the device, which ``jit`` can trace.

    Examples
    --------
    >>> from agrad.scipy import optimize
    >>> def fun(x, a):
    ...     return [x[0] + 0.5 * (x[0] - x[1]) ** 3 - a, 0.5 * (x[1] - x[0]) ** 3 + x[1]]
    >>> optimize.root(fun, [0.0, 0.0], args=(np.asarray(1.0),)).x.round(4)
    array([0.8412, 0.1588])
    >>> round(float(agrad.grad(lambda a: optimize.root(fun, [0.0, 0.0], args=(a,)).x[0])(1.0)), 4)
    0.7086
    """
    problem = _Problem("root", jit, fun, x0, *args, **kwargs)
    how, values, jac = problem.how, problem.values, problem.how.get("jac")
    problem.start(fun, x0, how.pop("args", ()), jac)
    slopes = agrad.jacobian(values) if how.get("method", "hybr").lower() in ("hybr", "lm") else None
    problem.supplied &= slopes is not None
    how["jac"] = problem.derivative(jac, slopes, problem.size)
    how["fun"] = problem.on_host(values)
    how["callback"] = problem.callback(how.get("callback"))
    result, result["x"] = problem.solve(problem.run, values, {"fun": values})
    return result


def root_scalar(f: Any, *args: Any, jit: bool | None = None, **kwargs: Any) -> Any:
    """Solve one equation of one number by a method of SciPy, with agrad's derivatives.

    Like ``scipy.optimize.root_scalar``, with ``jit`` and derivatives as in ``minimize``. With ``x0`` only, the method
    is Newton's. ``root`` has shape (1,), or the shape of the array ``x0`` or ``bracket[0]``.

    Examples
    --------
    >>> from agrad.scipy import optimize
    >>> def cube_root(a):
    ...     return optimize.root_scalar(lambda x, a: x**3 - a, args=(a,), x0=np.asarray(1.0)).root
    >>> round(float(cube_root(np.asarray(8.0))), 4), round(float(agrad.grad(cube_root)(8.0)), 4)
    (2.0, 0.0833)
    """
    problem = _Problem("root_scalar", jit, f, *args, **kwargs)
    how, start, bracket = problem.how, problem.how.get("x0"), problem.how.get("bracket")
    x0 = bracket[0] if start is None and bracket is not None else start
    problem.start(f, x0, how.pop("args", ()), how.get("fprime") or how.get("fprime2"))
    method = how.get("method") or ("newton" if bracket is None and how.get("x1") is None else "")
    slope, last = agrad.grad(problem.value), {"newton": 1, "halley": 2}.get(method.lower(), 0)
    parts = {"f": problem.value, "fprime": slope, "fprime2": agrad.grad(lambda v, args: slope(v, args)[0])}
    for i, (name, g) in enumerate(parts.items()):
        g = problem.derivative(how.get(name) if i else None, g if i <= last else None, order=i)
        how[name] = g and (lambda x, g=g: np.ravel(g(np.reshape(x, (1,))))[0])

    def solver(x: Any) -> tuple[Any, Any]:
        result = problem.scipy.root_scalar(**how | {"x0": None if start is None else x[0]})
        return result, np.reshape(result.root, (1,))

    result, result["root"] = problem.solve(solver, problem.values, {"value": problem.values})
    return result


def least_squares(fun: Any, x0: Any, *args: Any, jit: bool | None = None, **kwargs: Any) -> Any:
    """Minimize a sum of squares by a method of SciPy, with agrad's Jacobian.

    Like ``scipy.optimize.least_squares``, with the pytrees, ``jit`` and result of ``minimize``. ``fun`` returns a
    pytree of residuals. ``x``, ``cost`` and ``fun`` are differentiable. To use finite differences, as SciPy does by
    default, pass ``jac="2-point"``.

    Examples
    --------
    >>> from agrad.scipy import optimize
    >>> t, y = np.asarray([0.0, 1.0, 2.0, 3.0]), np.asarray([2.0, 1.2, 0.7, 0.5])
    >>> def fun(x, y):
    ...     return x["size"] * agrad.exp(-x["rate"] * t) - y
    >>> start = {"size": 1.0, "rate": 1.0}
    >>> found = optimize.least_squares(fun, start, args=(y,)).x
    >>> round(float(found["size"]), 4), round(float(found["rate"]), 4)
    (1.9907, 0.4966)
    >>> agrad.grad(lambda y: optimize.least_squares(fun, start, args=(y,)).x["rate"])(y).round(4)
    array([ 0.2712, -0.1576, -0.2922, -0.2973])
    """
    problem = _Problem("least_squares", jit, fun, x0, *args, **kwargs)
    how, named, values = problem.how, problem.how.pop("kwargs", {}), problem.values
    problem.start(lambda *given: fun(*given, **named), x0, how.pop("args", ()), how.get("jac"))
    loss, width = how.get("loss", "linear"), how.get("f_scale", 1.0)
    how["fun"] = problem.on_host(values)
    how["jac"] = problem.derivative(how.get("jac"), agrad.jacobian(values), problem.size)
    how["bounds"] = problem.bounds(how.get("bounds", (-np.inf, np.inf)))
    how |= {"callback": problem.callback(how["callback"])} if "callback" in how else {}

    def cost(v: Any, args: Any) -> Any:
        z = (values(v, args) / width) ** 2
        return 0.5 * width**2 * agrad.sum(_LOSSES[loss](z) if isinstance(loss, str) else loss(z)[0])

    fields = {"cost": cost, "fun": values}
    result, result["x"] = problem.solve(problem.run, agrad.grad(cost), fields, how["bounds"], scaled=True)
    return result


def curve_fit(f: Any, xdata: Any, ydata: Any, *args: Any, jit: bool | None = None, **kwargs: Any) -> Any:
    """Fit a model to data by a method of SciPy, with agrad's Jacobian.

    Like ``scipy.optimize.curve_fit``, with ``jit`` as in ``minimize``. The model is ``f(xdata, *parameters)``, or
    ``f(xdata, **parameters)`` if ``p0`` is a dict. Parameters and covariance are differentiable with respect to
    ``xdata``, ``ydata`` of shape (n,), ``sigma`` and Tensors that ``f`` uses. ``nan_policy="omit"`` is not supported.

    Examples
    --------
    >>> from agrad.scipy import optimize
    >>> x, y = np.asarray([0.0, 1.0, 2.0, 3.0]), np.asarray([2.0, 1.2, 0.7, 0.5])
    >>> def model(x, size, rate):
    ...     return size * agrad.exp(-rate * x)
    >>> parameters, covariance = optimize.curve_fit(model, x, y)
    >>> parameters.round(4), np.sqrt(np.diag(covariance)).round(4)
    (array([1.9907, 0.4966]), array([0.044 , 0.0235]))
    >>> agrad.grad(lambda y: optimize.curve_fit(model, x, y)[0][1])(y).round(4)
    array([ 0.2712, -0.1576, -0.2922, -0.2973])
    """
    problem = _Problem("curve_fit", jit, f, xdata, ydata, *args, **kwargs)
    how = problem.how | problem.how.pop("kwargs", {})
    start, jac, absolute = how.get("p0"), how.get("jac"), how.get("absolute_sigma", False)
    if how.get("nan_policy") == "omit":
        raise errors.ConfigurationError("curve_fit: nan_policy='omit' is not supported. Drop the NaNs first.")

    def applied(function: Any) -> Any:
        return lambda p, x, *_: function(x, **p) if isinstance(p, dict) else function(x, *p)

    count = max(len(inspect.signature(f).parameters) - 1, 1) if start is None else 0
    data = [array(x) if is_array(x) or isinstance(x, (list, tuple)) else x for x in (xdata, ydata, how.get("sigma"))]
    problem.start(applied(f), [1.0] * count if start is None else start, tuple(data), jac)
    values = problem.on_host(problem.values)
    slopes = problem.derivative(applied(jac) if callable(jac) else jac, agrad.jacobian(problem.values), problem.size)
    how["f"] = functools.wraps(f)(lambda _, *p: values(np.asarray(p)))
    how["jac"] = (lambda _, *p: slopes(np.asarray(p))) if callable(slopes) else slopes
    how["bounds"] = problem.bounds(how.get("bounds", (-np.inf, np.inf)))

    def misfit(v: Any, args: Any) -> Any:
        rest, sigma = problem.values(v, args) - _elements(args[1]), args[2]
        return rest if sigma is None else rest / sigma if sigma.ndim < 2 else linalg.solve(linalg.cholesky(sigma), rest)

    def covariance(v: Any, args: Any) -> Any:
        rest, matrix = misfit(v, args), agrad.jacobian(misfit)(v, args)
        inverse, more = linalg.inv(linalg.qr(matrix)[1]), rest.shape[0] - problem.size
        return inverse @ inverse.T * (1.0 if absolute else agrad.sum(rest**2) / more if more > 0 else np.inf)

    def solver(x: Any) -> tuple[Any, Any]:
        host = [values_of(a) if is_array(a) else a for a in problem.known]
        given = dict(zip(("xdata", "ydata", "sigma"), host, strict=True)) | {"p0": None if start is None else x}
        popt, pcov, *more = problem.scipy.curve_fit(**how | given | {"full_output": True})
        return problem.scipy.OptimizeResult(pcov=pcov, more=more if how.get("full_output") else []), popt

    slope = agrad.grad(lambda v, args: agrad.sum(misfit(v, args) ** 2))
    result, popt = problem.solve(solver, slope, {"pcov": covariance}, how["bounds"], scaled=True)
    return popt, result["pcov"], *result.get("more", [])
