"""Root finders of SciPy with derivatives of agrad."""

import warnings
from typing import Any

import numpy as np

import agrad
from agrad.interop.arguments import values_of
from agrad.scipy.optimize.problems import Problem
from agrad.scipy.shared import array, is_array

__all__ = ["fsolve", "root", "root_scalar"]


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
    problem = Problem("root", jit, fun, x0, *args, **kwargs)
    how, values, jac = problem.how, problem.values, problem.how.get("jac")
    problem.start(fun, x0, how.pop("args", ()), jac)
    slopes = agrad.jacobian(values) if how.get("method", "hybr").lower() in ("hybr", "lm") else None
    problem.supplied &= slopes is not None
    how["jac"] = problem.derivative(jac, slopes, problem.size)
    how["fun"] = problem.on_host(values)
    how["callback"] = problem.callback(how.get("callback"))
    result, result["x"] = problem.solve(problem.run, values, {"fun": values})
    return result


def fsolve(
    func: Any,
    x0: Any,
    args: Any = (),
    fprime: Any = None,
    full_output: bool = False,
    *,
    jit: bool | None = None,
    **options: Any,
) -> Any:
    """Solve a system of equations by the default method of ``root``.

    Like ``scipy.optimize.fsolve``, with ``jit`` as in ``minimize``. ``x0`` is flattened. ``options`` are those of
    SciPy, by keyword. With ``full_output``, the second result contains all fields of the result of ``root``.

    Warns
    -----
    RuntimeWarning
        If the method does not converge and ``full_output`` is False.

    Examples
    --------
    >>> from agrad.scipy import optimize
    >>> def cube_root(a):
    ...     return optimize.fsolve(lambda x, a: x**3 - a, 1.0, args=(a,))[0]
    >>> round(float(cube_root(np.asarray(8.0))), 4), round(float(agrad.grad(cube_root)(8.0)), 4)
    (2.0, 0.0833)
    """
    options["eps"] = options.pop("epsfcn", None)
    start = agrad.reshape(array(x0), (-1,)) if is_array(x0) else np.ravel(values_of(x0)).tolist()
    found = root(func, start, args, jac=fprime, jit=jit, options=options)
    last = next((one for one in found.get("members", ()) if not one.success), found.get("members", [found])[-1])
    if full_output:
        return found.x, {**found, "fvec": found.get("fun")}, last.status, last.message
    if not last.success:
        warnings.warn(last.message, RuntimeWarning, stacklevel=2)
    return found.x


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
    problem = Problem("root_scalar", jit, f, *args, **kwargs)
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
