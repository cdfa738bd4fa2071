"""Initial value problems."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import agrad
from agrad.errors import RefusedFunctionError, ShapeError
from agrad.interop.arguments import constant, is_concrete, values_of
from agrad.scipy.shared import array, arrays, function, unsupported

__all__ = ["OdeResult", "odeint", "solve_ivp"]


class OdeResult(NamedTuple):
    """The solution of an initial value problem.

    Like ``scipy.integrate.solve_ivp`` returns it: times ``t`` of shape (n,), and ``y`` of shape (..., n) for ``y0`` of
    shape (...). ``success`` is True and ``status`` is 0: a failure raises an error.

    Examples
    --------
    >>> from agrad.scipy import integrate
    >>> found = integrate.solve_ivp(lambda t, y: -y, (0.0, 1.0), np.asarray([1.0]), t_eval=np.asarray([0.0, 1.0]))
    >>> isinstance(found, integrate.OdeResult), found.success, found.y.round(4)
    (True, True, array([[1.    , 0.3681]]))
    """

    t: Any
    y: Any
    success: bool
    message: str
    status: int


@unsupported("dense_output", "events", fix="Use t_eval")
def solve_ivp(
    fun: Callable[..., Any],
    t_span: Sequence[float],
    y0: Any,
    method: str = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Sequence[Any] | None = None,
    **options: Any,
) -> OdeResult:
    """Solve ``dy/dt = fun(t, y, *args)`` from the first time to the last.

    Like ``scipy.integrate.solve_ivp``, differentiable with respect to ``y0`` and ``args``, in the tolerances ``rtol``
    and ``atol``. Times are constants. ``fun`` is computed with agrad.

    - ``method`` must be "RK45" (Dormand-Prince) or "tsit5" (Tsitouras), which ``agrad.odeint`` computes. It controls
      step sizes differently from SciPy, so values agree up to the tolerances.
    - ``t_eval`` is by default the first and the last time, whereas SciPy returns each step.
    - ``dense_output``, ``events``, and other options than ``rtol``, ``atol``, ``first_step`` and ``max_step`` are not
      supported. ``vectorized`` is ignored.

    Raises
    ------
    ConvergenceError
        If SciPy would return a result without success.
    DetachError
        If the times are recorded.

    Examples
    --------
    >>> from agrad.scipy import integrate
    >>> def end(rate):
    ...     found = integrate.solve_ivp(lambda t, y: -rate * y, (0.0, 2.0), np.asarray([1.0]), rtol=1e-8, atol=1e-8)
    ...     return found.y[0, -1]
    >>> round(float(end(0.5)), 4), round(float(agrad.grad(end)(0.5)), 4)
    (0.3679, -0.7358)
    """
    methods = {"RK45": "dopri5", "tsit5": "tsit5"}
    others = [name for name in options if name not in ("rtol", "atol", "first_step", "max_step")]
    if others or method not in methods:
        what = others[0] if others else f"method={method!r}"
        raise RefusedFunctionError(f"solve_ivp: {what} is not supported. Use method='RK45' and t_eval.")
    first, last = (float(t) for t in t_span)
    wanted = np.asarray([first, last] if t_eval is None else t_eval, dtype=float)
    order = np.sign(last - first)
    inside = np.all((wanted - first) * order >= 0) and np.all((last - wanted) * order >= 0)
    if wanted.ndim != 1 or not inside or np.any(np.diff(wanted) * order <= 0):
        raise ShapeError("solve_ivp: t_eval must be 1-D, with times in the order of t_span and within it")

    def solution(y0: Any, *args: Any) -> OdeResult:
        y0 = array(y0)
        kind = y0.dtype.name.replace("complex128", "float64").replace("complex64", "float32")
        begins = wanted.size > 0 and wanted[0] == first
        times = constant((wanted if begins else np.concatenate([[first], wanted])).astype(kind), y0)
        if times.shape[0] > 1:
            settings = {"rtol": 1e-3, "atol": 1e-6} | options
            y = agrad.odeint(
                lambda y, t, *more: fun(t, y, *more), y0, times, args=args, method=methods[method], **settings
            )
        else:
            y = agrad.expand_dims(y0, axis=0)
        if not begins:
            times, y = times[1:], y[1:, ...]
        return OdeResult(times, agrad.moveaxis(y, 0, -1), True, "The end of the interval is reached.", 0)

    return function(solution)(y0, *(args or ()))


def _moved(slope: Any, y: Any, start: Any, end: Any, args: Any) -> Any:
    """Return y at an equal time, with its derivatives with respect to both times up to the fourth."""
    h = end - start
    k1 = slope(y, start, *args)
    k2 = slope(y + 0.5 * h * k1, start + 0.5 * h, *args)
    k3 = slope(y + 0.5 * h * k2, start + 0.5 * h, *args)
    k4 = slope(y + h * k3, end, *args)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


@unsupported("Dfun", "col_deriv", "full_output", "ml", "mu", "tcrit", "hmin", "ixpr", "mxhnil", "mxordn", "mxords")
@unsupported("printmessg")
def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: Any = (),
    Dfun: None = None,
    col_deriv: Any = 0,
    full_output: Any = 0,
    ml: Any = None,
    mu: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
    tcrit: None = None,
    h0: float = 0.0,
    hmax: float = 0.0,
    hmin: float = 0.0,
    ixpr: Any = 0,
    mxstep: int = 0,
    mxhnil: int = 0,
    mxordn: int = 12,
    mxords: int = 5,
    printmessg: Any = 0,
    tfirst: bool = False,
) -> Any:
    """Solve ``dy/dt = func(y, t, *args)`` at the times ``t``.

    Like ``scipy.integrate.odeint``, differentiable with respect to ``y0`` of shape (m,) or (), ``t`` of shape (n,) and
    ``args``. The result has shape (n, m). The same tolerances apply to the derivatives. ``func`` is computed with
    agrad.

    The method is the Dormand-Prince method of ``agrad.odeint``, which is not suited to stiff equations, unlike the
    SciPy method. ``rtol``, ``atol``, ``h0``, ``hmax``, ``mxstep`` (by default 10,000) and ``tfirst`` are supported,
    other options are not.

    Raises
    ------
    ConvergenceError
        If SciPy would warn.

    Examples
    --------
    >>> from agrad.scipy import integrate
    >>> def decayed(rate):
    ...     return integrate.odeint(lambda y, t: -rate * y, np.asarray([1.0]), np.asarray([0.0, 1.0, 2.0]))
    >>> decayed(0.5).round(4)
    array([[1.    ],
           [0.6065],
           [0.3679]])
    >>> round(float(agrad.grad(lambda rate: decayed(rate)[-1, 0])(0.5)), 4)
    -0.7358
    """

    def solution(y0: Any, t: Any, *args: Any) -> Any:
        t, y0 = arrays(t, y0)[0], array(y0)
        if y0.ndim > 1 or t.ndim != 1 or not t.size:
            raise ShapeError("odeint: y0 and t must be 1-D, and t must have at least one time")
        y0 = agrad.reshape(y0, (-1,))
        places = values_of(t) if is_concrete(t) else np.arange(t.size)
        begins = [i for i in range(t.size) if i == 0 or places[i] != places[i - 1]]

        def slope(y: Any, s: Any, *more: Any) -> Any:
            out = func(s, y, *more) if tfirst else func(y, s, *more)
            return agrad.reshape(agrad.asarray(out), (-1,))

        tolerances = {"rtol": rtol, "atol": atol}
        found: dict[str, Any] = {name: 1.49012e-8 if value is None else value for name, value in tolerances.items()}
        found |= {"first_step": h0 or None, "max_step": hmax or None, "maxsteps": mxstep or 10_000}
        if len(begins) == t.size > 1:
            return agrad.odeint(slope, y0, t, args=args, **found)
        apart = agrad.take(t, constant(np.asarray(begins), t), axis=0)
        rows = agrad.expand_dims(y0, axis=0) if len(begins) == 1 else agrad.odeint(slope, y0, apart, args=args, **found)
        runs = zip(begins, [*begins[1:], t.size], strict=True)
        out = [
            rows[k] if i == begin else _moved(slope, rows[k], t[begin], t[i], args)
            for k, (begin, end) in enumerate(runs)
            for i in range(begin, end)
        ]
        return agrad.stack(out)

    return function(solution)(y0, t, *(args if isinstance(args, tuple) else (args,)))
