"""Runge-Kutta methods: their tableaux, and steps on raw arrays.

A state is one row, of shape (1, n), so that the slopes of a step's stages are joined to a matrix and a combination of
them is one product with a row of the tableau.
"""

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from agrad.backends import backend_of
from agrad.dtypes import is_complex
from agrad.engine.namespaces import namespace_of
from agrad.errors import ConfigurationError, ConvergenceError, DtypeError
from agrad.solvers.linear import precision

Slope = Callable[[Any, float, bool], Any]
"""The time derivative of a row, at a time; True with the last stage of a step."""


class Method(NamedTuple):
    """The tableau of an explicit method, and its interpolation.

    The last row of ``weights`` are those of the solution, so that the last stage's slope is the next step's first.
    """

    nodes: tuple[float, ...]
    weights: tuple[tuple[float, ...], ...]
    error: tuple[float, ...] = ()
    """The weights of the difference to the method of the next lower order; empty for steps of a fixed size."""
    dense: tuple[tuple[float, ...], ...] = ()
    """By stage, the coefficients of x, x**2, x**3, x**4 of its weight at the part x of a step."""


def _product(factor: float, *roots: float | tuple[float, float], powers: int) -> tuple[float, ...]:
    """Return the four coefficients of a polynomial, given by its factors.

    They are x to the power ``powers``, x - root for a number, and x**2 + b x + c for a pair.
    """
    found = np.polynomial.Polynomial([0.0] * powers + [factor])
    for root in roots:
        found *= np.polynomial.Polynomial([root[1], root[0], 1.0] if isinstance(root, tuple) else [-root, 1.0])
    return tuple([*found.coef[1:].tolist(), 0.0, 0.0, 0.0][:4])


METHODS = {
    # Dormand and Prince, A family of embedded Runge-Kutta formulae, J. Comput. Appl. Math. 6 (1980); the interpolation
    # is that of Shampine, Some practical Runge-Kutta formulas, Math. Comp. 46 (1986)
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
    """The settings of an integration."""

    method: str = "dopri5"
    rtol: float | None = None
    atol: float | None = None
    maxsteps: int = 10_000
    first_step: float | None = None
    max_step: float | None = None
    steps: int | None = None

    def check(self) -> None:
        """Raise ``ConfigurationError`` for settings that make no sense together."""
        if self.method not in METHODS:
            raise ConfigurationError(f"odeint: method is one of {', '.join(map(repr, METHODS))}, not {self.method!r}")
        for name in ("first_step", "max_step", "steps"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigurationError(f"odeint: {name} is {value!r}; it must be greater than 0")
        adaptive = bool(METHODS[self.method].error)
        if adaptive and self.steps is not None:
            raise ConfigurationError(
                f"odeint: steps is for method='rk4'; {self.method!r} finds its own by rtol and atol"
            )
        if not adaptive and self.first_step is not None:
            raise ConfigurationError("odeint: first_step is for methods with an error estimate, not for 'rk4'")
        if not adaptive and (self.steps is None) == (self.max_step is None):
            raise ConfigurationError(
                "odeint: method='rk4' takes steps of a fixed size: give their number between two times as steps, or "
                "their greatest size as max_step"
            )


class Step(NamedTuple):
    """A step that was taken."""

    start: float
    size: float
    state: Any
    """The row that the step starts from."""
    ends: int | None
    """The number of the time at which the step ends, None where it ends at none."""
    inside: range
    """The numbers of the times inside the step, which are interpolated."""
    parts: Any
    """The weights of the slopes at these times, an array of shape (times, stages), or None."""


class Tableau:
    """A method's weights as rows of the library, the dtype and the device of a state."""

    def __init__(self, name: str, like: Any) -> None:
        method = METHODS[name]
        self.name, self.nodes, self.dense = name, method.nodes, np.asarray(method.dense)
        backend = backend_of(like)
        self.xp, self.dtype, self.device = backend.xp, like.dtype, backend.device_of(like)
        self.concat = self.xp.concat
        self.matrix = np.asarray([[*row, *[0.0] * (len(method.weights) - len(row))] for row in method.weights])
        self.columns: dict[tuple[int, int], Any] = {}
        self.rows = [self.array([row]) if row else None for row in method.weights]
        self.error = self.array([method.error]) if method.error else None

    def array(self, values: Any) -> Any:
        """Return weights as an array."""
        return self.xp.asarray(np.asarray(values).tolist(), dtype=self.dtype, device=self.device)

    def moved(self, y: Any, slopes: "Slopes", stage: int, h: float) -> Any:
        """Return the state of a stage."""
        return (self.rows[stage] @ slopes.first(stage)) * h + y

    def cast(self, slope: Any) -> Any:
        """Return a slope with the state's dtype."""
        if slope.dtype == self.dtype:
            return slope
        if is_complex(slope.dtype) and not is_complex(self.dtype):
            raise DtypeError(f"odeint: f gave {slope.dtype} for a y0 of {self.dtype}; give y0 a complex dtype")
        return namespace_of((slope,)).astype(slope, self.dtype)

    def column(self, stage: int, count: int) -> Any:
        """Return the weights of a stage's slope in the later stages, a row."""
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

    def parts(self, places: Sequence[float]) -> np.ndarray:
        """Return the weights of the slopes at parts of a step, a row for each."""
        return (np.asarray(places)[:, None] ** np.arange(1, 5)) @ self.dense.T


class Slopes:
    """The slopes of a step's stages, as a matrix with a row for each."""

    def __init__(self, tableau: Tableau, like: Any) -> None:
        self.concat = tableau.concat
        self.rows: list[Any] = []
        writable = backend_of(like).shares_memory is not None
        self.matrix = (
            tableau.xp.empty((len(tableau.nodes), like.shape[1]), dtype=like.dtype, device=tableau.device)
            if writable
            else None
        )

    def add(self, slope: Any) -> None:
        """Add the slope of the next stage."""
        if self.matrix is not None:
            self.matrix[len(self.rows) : len(self.rows) + 1, :] = slope
        self.rows.append(slope)

    def first(self, count: int) -> Any:
        """Return the slopes of the first stages."""
        if self.matrix is not None:
            return self.matrix[:count, :]
        return self.rows[0] if count == 1 else self.concat(self.rows[:count], axis=0)

    def begin(self, slope: Any) -> None:
        """Begin a step with the slope of its first stage."""
        self.rows = []
        self.add(slope)


def integrate(slope: Slope, y: Any, times: Sequence[float], options: Options, taken: list[Step] | None = None) -> Any:
    """Return the states at the times, of shape (times, n), from the first one ``y``.

    ``taken`` gets the steps.
    """
    solver = _Solver(slope, y, times, options, taken)
    if solver.tableau.error is None:
        solver.fixed()
    else:
        solver.adaptive()
    return solver.tableau.xp.concat(solver.rows, axis=0)


class _Solver:
    """One integration."""

    def __init__(
        self, slope: Slope, y: Any, times: Sequence[float], options: Options, taken: list[Step] | None
    ) -> None:
        self.slope, self.times, self.options, self.taken = slope, times, options, taken
        self.tableau = Tableau(options.method, y)
        self.computed = backend_of(y).computed
        self.slopes = Slopes(self.tableau, y)
        self.y, self.k = y, slope(y, times[0], False)
        self.rows = [y]
        small = precision(y) ** 0.5
        self.rtol, self.atol = (small if given is None else given for given in (options.rtol, options.atol))

    def stages(self, s: float, h: float, end: float) -> tuple[Any, Any]:
        """Return the state at ``end`` = s + h, and the slope there."""
        tableau, slopes, y = self.tableau, self.slopes, self.y
        slopes.begin(self.k)
        last = len(tableau.nodes) - 1
        for i in range(1, last):
            node = tableau.nodes[i]
            k = self.slope(tableau.moved(y, slopes, i, h), end if node == 1.0 else s + node * h, False)
            slopes.add(self.computed([k])[0])
        moved = tableau.moved(y, slopes, last, h)
        k = self.slope(moved, end, True)
        slopes.add(k)
        return moved, k

    def accept(self, s: float, h: float, moved: Any, k: Any, inside: range, ends: int | None) -> None:
        """Take a step, with the times in it."""
        parts = None
        if inside:
            parts = self.tableau.array(self.tableau.parts([(self.times[i] - s) / h for i in inside]))
            self.rows.append((parts @ self.slopes.first(len(self.tableau.nodes))) * h + self.y)
        if ends is not None:
            self.rows.append(moved)
        if self.taken is not None:
            self.taken.append(Step(s, h, self.y, ends, inside, parts))
        self.y, self.k = moved, k

    def fixed(self) -> None:
        """Take steps of equal size from each time to the next."""
        for i, (start, end) in enumerate(itertools.pairwise(self.times), 1):
            count = self.options.steps
            if count is None:
                assert self.options.max_step is not None
                count = max(1, math.ceil(abs(end - start) / self.options.max_step * (1 - 1e-12)))
            h = (end - start) / count
            for j in range(count):
                last = j == count - 1
                moved, k = self.stages(start + j * h, h, end if last else start + (j + 1) * h)
                moved, k = self.computed([moved, k])
                self.accept(start + j * h, h, moved, k, range(0), i if last else None)

    def size(self, v: Any) -> float:
        """Return the root of the mean square of a row; 0 if empty."""
        count = v.shape[1]
        if not count:
            return 0.0
        xp = self.tableau.xp
        v = xp.abs(v)
        return math.sqrt(float((v @ xp.matrix_transpose(v))[0, 0]) / count)

    def first(self, whole: float) -> float:
        """Return the size of the first step.

        Hairer, Norsett and Wanner, Solving Ordinary Differential Equations I, section II.4.
        """
        if self.options.first_step is not None:
            return self.options.first_step
        sign = 1.0 if self.times[-1] > self.times[0] else -1.0
        scale = self.atol + self.rtol * self.tableau.xp.abs(self.y)
        size, speed = self.size(self.y / scale), self.size(self.k / scale)
        guess = min(whole, 1e-6 if min(size, speed) < 1e-5 or not math.isfinite(speed) else 0.01 * size / speed)
        ahead = self.slope(self.y + self.k * (sign * guess), self.times[0] + sign * guess, False)
        bend = max(speed, self.size((ahead - self.k) / scale) / guess)
        if not math.isfinite(bend):
            return guess
        return min(100 * guess, max(1e-6, guess * 1e-3) if bend <= 1e-15 else (0.01 / bend) ** 0.2)

    def adaptive(self) -> None:
        """Take steps whose estimated error stays below the tolerances."""
        times, options, tableau = self.times, self.options, self.tableau
        xp, rtol, atol = tableau.xp, self.rtol, self.atol
        finish = times[-1]
        sign = 1.0 if finish > times[0] else -1.0
        limit = math.inf if options.max_step is None else options.max_step
        s, at, tries = times[0], 1, 0
        step = self.first(abs(finish - s))
        size = xp.abs(self.y)
        while at < len(times):
            step = min(step, limit)
            left = abs(finish - s)
            last = step >= left
            h = sign * (left if last else step)
            end = finish if last else s + h
            moved, k = self.stages(s, h, end)
            grown = xp.abs(moved)
            off = ((tableau.error @ self.slopes.first(len(tableau.nodes))) * h) / (
                atol + rtol * xp.maximum(size, grown)
            )
            off, moved, k = self.computed([off, moved, k])
            error = self.size(off)
            tries += 1
            if not math.isfinite(error):
                step = abs(h) * 0.2
            else:
                # the fifth root, as the error is of the fifth order in the step
                step = abs(h) * min(10.0, max(0.2, 0.9 * max(error, 1e-10) ** -0.2))
            if error <= 1:
                inside = at
                while inside < len(times) and sign * (end - times[inside]) > 0:
                    inside += 1
                ends = inside if inside < len(times) and times[inside] == end else None
                self.accept(s, h, moved, k, range(at, inside), ends)
                s, size = end, grown
                following = inside + (ends is not None)
                at, tries = following, tries if following == at else 0
                if at == len(times):
                    return
            if step <= 4 * sys.float_info.epsilon * max(abs(s), abs(finish)) or tries >= options.maxsteps:
                break
        raise ConvergenceError(
            f"odeint: the step from {times[at - 1]:g} to {times[at]:g} has become {step:.3g} at {s:.6g} without "
            "reaching the end; the equation may be stiff or singular there: give a greater rtol, atol or maxsteps"
        )
