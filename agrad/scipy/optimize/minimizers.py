"""SciPy minimizers and fits with derivatives of agrad."""

import copy
import functools
import inspect
from typing import Any

import numpy as np

import agrad
from agrad import errors, linalg
from agrad.interop.arguments import values_of
from agrad.scipy.optimize.problems import Problem, elements
from agrad.scipy.shared import array, is_array

__all__ = ["curve_fit", "least_squares", "minimize"]

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
    problem = Problem("minimize", jit, fun, x0, *args, **kwargs)
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


def _lbfgs(problem: Problem, how: dict[str, Any], x: Any) -> tuple[Any, Any]:
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


def _constraint(problem: Problem, given: Any) -> tuple[Any, Any]:
    """Return a constraint with its Jacobian by agrad, and the function in it."""
    made = copy.copy(given)
    parts = made if isinstance(given, dict) else vars(made)
    fun, jac, args = parts.get("fun"), parts.get("jac"), parts.get("args", ())

    def values(v: Any, _: Any) -> Any:
        return elements(fun(problem.tree(v), *args)) if fun else v

    if fun:  # it is not linear
        given = (lambda x, *_: jac(x, *args)) if callable(jac) else None
        jac = problem.derivative(given, agrad.jacobian(values), problem.size)
        parts.update(fun=problem.on_host(values), jac=jac, args=())
    return made, values


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
    problem = Problem("least_squares", jit, fun, x0, *args, **kwargs)
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
    problem = Problem("curve_fit", jit, f, xdata, ydata, *args, **kwargs)
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
        rest, sigma = problem.values(v, args) - elements(args[1]), args[2]
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
