"""Runge-Kutta methods: their tableaux, and their steps.

A state is a row of shape (1, n), and the derivatives at the stages are the rows of a matrix. Times and step sizes are
Python numbers. Inside a trace, states are vectors of shape (n,), and numbers are Tensors of shape ().
"""

import math
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from agrad.backends import backend_of
from agrad.control.bodies import example
from agrad.control.steps import computed
from agrad.dtypes import is_complex
from agrad.engine.levels import lift
from agrad.engine.namespaces import namespace_of
from agrad.errors import ConfigurationError, ConvergenceError, DtypeError
from agrad.expect import one_of
from agrad.registry import namespace
from agrad.solvers.linear import precision
from agrad.solvers.loops import in_trace, scan, while_loop

Slope = Callable[[Any, Any, bool], Any]
"""The time derivative of a row at a time. The last argument is True for the last stage of a step."""

REALS = SimpleNamespace(
    where=lambda condition, a, b: a if condition else b,
    minimum=min,
    maximum=max,
    sqrt=math.sqrt,
    ceil=math.ceil,
    isfinite=math.isfinite,
    sign=lambda x: math.copysign(1.0, x),
)
"""Functions of Python numbers with array API names."""


class Method(NamedTuple):
    """The tableau of an explicit method, and its interpolation.

    The last row of ``weights`` is the solution: the derivative at the last stage is the first of the next step.
    """

    nodes: tuple[float, ...]
    weights: tuple[tuple[float, ...], ...]
    error: tuple[float, ...] = ()
    """The weights of the difference from the method of the next lower order; empty for equal steps."""
    dense: tuple[tuple[float, ...], ...] = ()
    """For each stage, the coefficients of x, x**2, x**3, x**4 in its weight at the fraction x of a step."""


def _product(factor: float, *roots: float | tuple[float, float], powers: int) -> tuple[float, ...]:
    """Return the four coefficients of a polynomial, given by its factors.

    The factors are x to the power ``powers``, x - root for each number, and x**2 + b x + c for each pair.
    """
    found = np.polynomial.Polynomial([0.0] * powers + [factor])
    for root in roots:
        found *= np.polynomial.Polynomial([root[1], root[0], 1.0] if isinstance(root, tuple) else [-root, 1.0])
    return tuple([*found.coef[1:].tolist(), 0.0, 0.0, 0.0][:4])


METHODS = {
    # Dormand and Prince, A family of embedded Runge-Kutta formulae, J. Comput. Appl. Math. 6 (1980); the interpolation
    # is by Shampine, Some practical Runge-Kutta formulas, Math. Comp. 46 (1986)
    "dopri5": Method(
        nodes=(0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0),
        weights=(
            (),
            (1 / 5,),
            (3 / 40, 9 / 40),
            (44 / 45, -56 / 15, 32 / 9),
            (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
            (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
            (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
        ),
        error=(71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40),
        dense=(
            (1.0, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432),
            (0.0, 0.0, 0.0, 0.0),
            (0.0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799),
            (0.0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072),
            (0.0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632),
            (0.0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844),
            (0.0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423),
        ),
    ),
    # Tsitouras, Runge-Kutta pairs of order 5(4) satisfying only the first column simplifying assumption, Comput. Math.
    # Appl. 62 (2011)
    "tsit5": Method(
        nodes=(0.0, 0.161, 0.327, 0.9, 0.9800255409045097, 1.0, 1.0),
        weights=(
            (),
            (0.161,),
            (-0.008480655492356989, 0.335480655492357),
            (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
            (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
            (5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383),
            (
                0.09646076681806523,
                0.01,
                0.4798896504144996,
                1.379008574103742,
                -3.290069515436081,
                2.324710524099774,
            ),
        ),
        error=(
            -0.00178001105222577714,
            -0.0008164344596567469,
            0.007880878010261995,
            -0.1447110071732629,
            0.5823571654525552,
            -0.45808210592918697,
            1 / 66,
        ),
        dense=(
            _product(-1.0530884977290216, 1.3299890189751412, (-1.4364028541716351, 0.7139816917074209), powers=1),
            _product(0.1017, (-2.1966568338249754, 1.2949852507374631), powers=2),
            _product(2.490627285651252793, (-2.38535645472061657, 1.57803468208092486), powers=2),
            _product(-16.54810288924490272, 1.21712927295533244, 0.61620406037800089, powers=2),
            _product(47.37952196281928122, 1.203071208372362603, 0.658047292653547382, powers=2),
            _product(-34.87065786149660974, 1.2, 0.666666666666666667, powers=2),
            _product(2.5, 1.0, 0.6, powers=2),
        ),
    ),
    # Kutta, Beitrag zur naeherungsweisen Integration totaler Differentialgleichungen, Z. Math. Phys. 46 (1901)
    "rk4": Method(
        nodes=(0.0, 1 / 2, 1 / 2, 1.0, 1.0),
        weights=((), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
    ),
}


class Options(NamedTuple):
    """The options of an integration."""

    method: str = "dopri5"
    rtol: float | None = None
    atol: float | None = None
    maxsteps: int = 10_000
    first_step: float | None = None
    max_step: float | None = None
    steps: int | None = None

    def check(self) -> None:
        """Raise ``ConfigurationError`` for invalid options."""
        one_of("odeint", "method", self.method, METHODS)
        for name in ("first_step", "max_step", "steps"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigurationError(f"odeint: {name} must be positive, got {value!r}")
        adaptive = bool(METHODS[self.method].error)
        unused = "steps" if adaptive else "first_step"
        if getattr(self, unused) is not None:
            raise ConfigurationError(f"odeint: {unused} must be None for method={self.method!r}")
        if not adaptive and (self.steps is None) == (self.max_step is None):
            raise ConfigurationError(
                "odeint: method='rk4' must get either steps, the number of steps between two times, or max_step"
            )


class Step(NamedTuple):
    """An accepted step."""

    start: Any
    size: Any
    state: Any
    """The row at the start of the step."""
    ends: int | None = None
    """The index of the time at the end of the step, or None."""
    inside: range = range(0)
    """The indices of the times inside the step."""
    parts: Any = None
    """The weights of the stage derivatives at the times inside the step, an array of shape (times, stages), or None."""


class Tableau:
    """The weights of a method as arrays with the library, dtype and device of a state."""

    def __init__(self, name: str, like: Any) -> None:
        self.method, self.traced = METHODS[name], in_trace()
        weights, raw = self.method.weights, example(like)
        self.nodes, self.dense = self.method.nodes, np.asarray(self.method.dense)
        backend = backend_of(raw)
        self.raw_xp, self.dtype, self.device = backend.xp, raw.dtype, backend.device_of(raw)
        self.real_dtype: Any = backend.xp.real(raw).dtype if is_complex(raw.dtype) else raw.dtype
        self.xp: SimpleNamespace = namespace if self.traced else backend.xp
        self.writable: bool = not self.traced and backend.shares_memory is not None
        self.matrix = np.asarray([[*row, *[0.0] * (len(weights) - len(row))] for row in weights])
        self.columns: dict[tuple[int, int], Any] = {}
        self.rows: list[Any | None] = [] if self.traced else [self.array([row]) if row else None for row in weights]
        self.before: tuple[int, ...] = () if self.traced else (1,)
        """The leading axes of a state."""
        error = self.method.error if self.traced else [self.method.error]
        self.error: Any = self.array(error) if self.method.error else None

    def array(self, values: Any) -> Any:
        """Return weights as an array."""
        return self.lifted(self.raw_xp.asarray(np.asarray(values).tolist(), dtype=self.dtype, device=self.device))

    def lifted(self, array: Any) -> Any:
        """Return an array as a Tensor inside a trace."""
        return lift(array) if self.traced else array

    def cast(self, slope: Any) -> Any:
        """Return a derivative with the dtype of the state."""
        if slope.dtype == self.dtype:
            return slope
        if is_complex(slope.dtype) and not is_complex(self.dtype):
            raise DtypeError(
                f"odeint: f must return {self.dtype} like y0, got {slope.dtype}. Pass y0 with a complex dtype."
            )
        return namespace_of((slope,)).astype(slope, self.dtype)

    def like(self, number: Any) -> Any:
        """Return a number; a traced number has the precision of the state."""
        return as_dtype(number, self.real_dtype) if self.traced else number

    def column(self, stage: int, count: int) -> Any:
        """Return the weights of a stage's derivative in the later stages, a row."""
        key = (stage, count)
        if key not in self.columns:
            self.columns[key] = self.array([self.matrix[stage + 1 : count, stage]])
        return self.columns[key]

    def solution(self, count: int) -> Any:
        """Return the weights of the solution, of shape (count, 1)."""
        key = (-1, count)
        if key not in self.columns:
            self.columns[key] = self.array(self.matrix[-1, :count, None])
        return self.columns[key]

    def parts(self, places: Any) -> Any:
        """Return the weights of the stages' derivatives at fractions of a step, in rows.

        Inside a trace there is one fraction, and the weights are for the difference from the end of the step.
        """
        if not self.traced:
            return self.array((np.asarray(places)[:, None] ** np.arange(1, 5)) @ self.dense.T)
        powers = self.lifted(self.raw_xp.arange(5, dtype=example(places).dtype, device=self.device))
        return as_dtype(places**powers, self.dtype) @ self.array(np.concatenate([-self.matrix[-1:], self.dense.T]))


def as_dtype(x: Any, dtype: Any) -> Any:
    """Return a Tensor with a dtype."""
    return x if x.dtype == dtype else namespace.astype(x, dtype)


class Slopes:
    """The derivatives at the stages of a step, as a matrix with a row for each."""

    def __init__(self, tableau: Tableau, like: Any) -> None:
        self.tableau = tableau
        self.rows: list[Any] = []
        shape = (len(tableau.nodes), like.shape[-1])
        self.matrix = tableau.xp.empty(shape, dtype=like.dtype, device=tableau.device) if tableau.writable else None

    def add(self, slope: Any) -> None:
        """Add the derivative at the next stage."""
        if self.matrix is not None:
            self.matrix[len(self.rows) : len(self.rows) + 1, :] = slope
        self.rows.append(slope)

    def first(self, count: int) -> Any:
        """Return the derivatives at the first stages."""
        if self.matrix is not None:
            return self.matrix[:count, :]
        if self.tableau.traced:
            return namespace.stack(self.rows[:count])
        return self.rows[0] if count == 1 else self.tableau.xp.concat(self.rows[:count], axis=0)

    def moved(self, y: Any, stage: int, h: Any) -> Any:
        """Return the state of a stage of a step from ``y``."""
        tableau = self.tableau
        if not tableau.traced:
            return (tableau.rows[stage] @ self.first(stage)) * h + y
        parts = [w * k for w, k in zip(tableau.method.weights[stage], self.rows, strict=False) if w]
        return sum(parts[1:], parts[0]) * tableau.like(h) + y  # one fused group of operations

    def begin(self, slope: Any) -> None:
        """Begin a step with the derivative at its first stage."""
        self.rows = []
        self.add(slope)


class Solver:
    """One integration, from the row ``y``.

    ``times`` are Python numbers, or an array inside a trace. ``taken`` receives the steps, or one ``TracedSteps``
    inside a trace. A failed integration raises ``ConvergenceError``; inside a trace, all later states are NaN.
    """

    def __init__(self, slope: Slope, y: Any, times: Any, options: Options, taken: list[Any] | None) -> None:
        self.slope, self.options, self.taken = slope, options, taken
        self.tableau = tableau = Tableau(options.method, y)
        if tableau.traced:
            y, times = lift(y), lift(times)
        self.reals: Any = namespace if tableau.traced else REALS
        self.y, self.times, self.rows = y, times, [y]
        self.slopes: Slopes = Slopes(tableau, y)
        self.k: Any = slope(y, times[0], False)
        small = precision(y) ** 0.5
        self.rtol, self.atol = (small if given is None else given for given in (options.rtol, options.atol))
        self.finish, self.sign = times[-1], self.reals.sign(times[-1] - times[0])
        self.at: int = 1
        """The index of the next time, without a trace."""

    def solve(self) -> Any:
        """Return the states at the times, of shape (times, n)."""
        xp, y, t = self.tableau.xp, self.y, self.times
        if self.tableau.error is None:
            _, rows = scan(self._equal_steps, (y, self.k), [t[:-1], t[1:]])
        else:
            carry = (t[0], y, self.k, self._first(), *self._none())
            while not self.tableau.traced and self.at < len(t):
                carry, _ = self._until(carry, [t[self.at]])
            if self.tableau.traced:
                _, (rows, *steps) = scan(self._until, carry, [t[1:]])
                if self.taken is not None:
                    self.taken.append(TracedSteps(self, *steps))
        if not self.tableau.traced:
            return xp.concat(self.rows, axis=0)
        return xp.concat([xp.expand_dims(y, axis=0), rows], axis=0)

    def _none(self) -> tuple[Any, Any]:
        """Return the size and the stage derivatives of a step before the first step."""
        if not self.tableau.traced:
            return 1.0, None
        return namespace.ones_like(self.finish), namespace.stack([0 * self.k] * len(self.tableau.nodes))

    def stages(self, y: Any, k: Any, s: Any, h: Any, end: Any) -> tuple[Any, Any]:
        """Return the state at ``end`` = s + h, and the derivative there."""
        nodes, slopes = self.tableau.nodes, self.slopes
        slopes.begin(k)
        last = len(nodes) - 1
        for i in range(1, last):
            k = self.slope(slopes.moved(y, i, h), end if nodes[i] == 1.0 else s + nodes[i] * h, False)
            slopes.add(k)
        moved = slopes.moved(y, last, h)
        k = self.slope(moved, end, True)
        slopes.add(k)
        return moved, k

    def _accept(self, start: float, h: float, end: float, y: Any, moved: Any) -> None:
        """Store a step, and the states at the times in it."""
        times, at = self.times, self.at
        while self.at < len(times) and self.sign * (end - times[self.at]) > 0:
            self.at += 1
        inside, ends, parts = range(at, self.at), None, None
        if inside:
            parts = self.tableau.parts([(times[i] - start) / h for i in inside])
            self.rows.append((parts @ self.slopes.first(len(self.tableau.nodes))) * h + y)
        if self.at < len(times) and times[self.at] == end:
            ends, self.at = self.at, self.at + 1
            self.rows.append(moved)
        if self.taken is not None:
            self.taken.append(Step(start, h, y, ends, inside, parts))

    def _equal_steps(self, carry: Sequence[Any], times: Sequence[Any]) -> tuple[Any, Any]:
        """Perform equal steps from a time to the next."""
        reals, most, (start, end) = self.reals, self.options.max_step, times
        count = self.options.steps
        if count is None:
            count = reals.maximum(reals.ceil(abs(end - start) / most * (1 - 1e-12)), 1.0)
        h = (end - start) / count

        def advance(state: Any) -> Any:
            j, y, k = state
            begun, to = start + j * h, reals.where(j + 1 >= count, end, start + (j + 1) * h)
            moved, k = self.stages(y, k, begun, h, to)
            if not self.tableau.traced:
                moved, k = computed([moved, k])
                self._accept(begun, h, to, y, moved)
            return j + 1, moved, k

        _, y, k = while_loop(lambda state: state[0] < count, advance, (0 * start, *carry))
        return (y, k), y

    def _size(self, v: Any) -> Any:
        """Return the root mean square of a row, or 0 if it is empty."""
        xp = self.tableau.xp
        v = xp.abs(v)
        square, count = xp.vecdot(v, v), max(1, v.shape[-1])
        if self.tableau.traced:
            return xp.sqrt(as_dtype(square / count, self.times.dtype))
        return math.sqrt(square[0] / count)

    def _first(self) -> Any:
        """Return the size of the first step.

        Hairer, Norsett and Wanner, Solving Ordinary Differential Equations I, section II.4.
        """
        reals, y, k, start, like = self.reals, self.y, self.k, self.times[0], self.tableau.like
        if self.options.first_step is not None:
            return self.options.first_step + 0 * start
        whole = abs(self.finish - start)
        scale = self.atol + self.rtol * self.tableau.xp.abs(y)
        size, speed = self._size(y / scale), self._size(k / scale)
        usual = (reals.minimum(size, speed) >= 1e-5) & reals.isfinite(speed)
        guess = reals.minimum(reals.where(usual, 0.01 * size / reals.where(usual, speed, 1.0), 1e-6), whole)
        ahead = self.slope(y + k * like(self.sign * guess), start + self.sign * guess, False)
        bend = reals.maximum(speed, self._size((ahead - k) / scale) / guess)
        curved = bend > 1e-15
        found = reals.where(curved, (0.01 / reals.where(curved, bend, 1.0)) ** 0.2, reals.maximum(guess * 1e-3, 1e-6))
        return reals.where(reals.isfinite(bend), reals.minimum(100 * guess, found), guess)

    def attempt(self, state: Sequence[Any]) -> tuple[Any, ...]:
        """Try a step, and accept it if its estimated error is below the tolerances.

        The state contains the time, the row and its derivative, the size of the next step, the number of tries, the
        size and the stage derivatives of the last step, and optionally the number of accepted steps.
        """
        s, y, k, size, tries, _, _, *count = state
        reals, tableau = self.reals, self.tableau
        xp, finish = tableau.xp, self.finish
        left = abs(finish - s)
        if self.options.max_step is not None:
            size = reals.minimum(size, self.options.max_step)
        h = self.sign * reals.minimum(size, left)
        end = reals.where(size >= left, finish, s + h)
        moved, ahead = self.stages(y, k, s, h, end)
        slopes = self.slopes.first(len(tableau.nodes))
        scale = self.atol + self.rtol * xp.maximum(xp.abs(y), xp.abs(moved))
        off = ((tableau.error @ slopes) * tableau.like(h)) / scale
        if not tableau.traced:
            off, moved, ahead, *self.slopes.rows = computed([off, moved, ahead, *self.slopes.rows])
        error = self._size(off)
        good = error <= 1
        error = reals.where(reals.isfinite(error), error, math.inf)
        # the fifth root, as the error is of the fifth order in the step
        size = abs(h) * reals.minimum(reals.maximum(0.9 * reals.maximum(error, 1e-10) ** -0.2, 0.2), 10.0)
        if tableau.traced:
            count = [reals.where(good, number + 1, number) for number in count]
            end, y, k = [reals.where(good, new, old) for new, old in ((end, s), (moved, y), (ahead, k))]
        elif good:
            self._accept(s, h, end, y, moved)
            y, k = moved, ahead
        else:
            end = s
        smallest = 4 * sys.float_info.epsilon * reals.maximum(abs(end), abs(finish))
        tries = reals.where(size > smallest, tries + 1, float(self.options.maxsteps))
        return end, y, k, size, tries, h, slopes, *count

    def _until(self, carry: Sequence[Any], times: Sequence[Any]) -> tuple[Any, Any]:
        """Perform steps up to a time; inside a trace, interpolate the last one there."""
        (time,), sign, most, tableau = times, self.sign, float(self.options.maxsteps), self.tableau
        none = 0 * self.finish
        counted = [none] if tableau.traced and self.taken is not None else []

        def goes_on(state: Sequence[Any]) -> Any:
            return (sign * (time - state[0]) > 0) & (state[4] < most)

        first = (*carry[:4], none, *carry[4:], *counted)
        s, y, k, size, _, h, slopes, *count = while_loop(goes_on, self.attempt, first)
        arrived = sign * (s - time) >= 0
        if not tableau.traced:
            if not arrived:
                raise ConvergenceError(
                    f"odeint: the integration from {self.times[self.at - 1]:g} to {time:g} must reach the end, got to "
                    f"{s:.6g} with steps of {size:.3g}. The equation may be stiff or singular there. Pass a larger "
                    "rtol, atol or maxsteps."
                )
            return (s, y, k, size, h, slopes), None
        s = namespace.where(arrived, s, float("nan"))
        part = 1 + (time - s) / h
        row = y + (tableau.parts(part) @ slopes) * tableau.like(h)
        if count:
            state = y - (tableau.array(tableau.matrix[-1]) @ slopes) * tableau.like(h)
            count = [*carry[:4], *count, part, s - h, h, state]
        return (s, y, k, size, h, slopes), (row, *count)


class TracedSteps(NamedTuple):
    """The steps of an integration inside a trace.

    The arrays have an entry for each time except the first. ``time``, ``row``, ``slope`` and ``size`` are the state
    before the steps to the time; ``slope`` is the derivative.
    """

    solver: Solver
    time: Any
    row: Any
    slope: Any
    size: Any
    count: Any
    """The number of accepted steps to the time, 0 if an earlier step reached it."""
    part: Any
    """The time as a fraction of the last step."""
    start: Any
    """The start, size and first row of the last step."""
    last: Any
    state: Any
