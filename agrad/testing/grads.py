"""``check_grads``: finite differences against the derivatives of a function."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import agrad
from agrad.backends import backend_of_type
from agrad.dtypes import dtype_name, is_floating
from agrad.errors import ConfigurationError, DerivativeError, DtypeError, KinkError, OperandError
from agrad.testing.numerics import host, norm, pairing, placed, random_like
from agrad.transforms.trees import argument_names, flatten, paths, unflatten

Function = Callable[..., Any]

_ELEMENTS = 256
"""The number of elements that are tried one by one for the wrong one."""


class _Precision(NamedTuple):
    """The accuracy of finite differences in a dtype."""

    unit: float
    step: float
    factors: tuple[float, ...]
    """Factors of the step, tried in turn until the differences settle."""
    rtol: float
    atol: float


_DOUBLE = _Precision(2.0**-53, 1e-4, (1.0, 1 / 16, 16.0, 1 / 256, 256.0, 1 / 4096), 1e-6, 1e-8)
_SINGLE = _Precision(2.0**-24, 1e-2, (1.0, 1 / 4, 4.0, 1 / 16), 1e-2, 1e-3)
_MODES = {"rev": "reverse mode", "fwd": "forward mode"}


class _Slope(NamedTuple):
    """A derivative by finite differences, and its uncertainty."""

    value: float
    doubt: float
    """The difference between the values at two steps, with their rounding."""
    step: float


def check_grads(
    f: Function,
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    *,
    rtol: float | None = None,
    atol: float | None = None,
    eps: float | None = None,
    directions: int = 2,
    seed: int = 0,
) -> None:
    """Check the derivatives of a function against finite differences.

    Derivatives are evaluated at one point, along random directions of each leaf, with random weights of all outputs.
    The differences are central, at two steps, and extrapolated. Both agree if they differ by at most ``atol + rtol *
    size``, where size is the size of the derivative in all directions. Complex leaves are perturbed in their real and
    imaginary parts.

    Parameters
    ----------
    f : function
        Function of pytrees of floating-point arrays that returns pytrees of arrays. It is called with Tensors.
    args : tuple
        Its arguments. All leaves are differentiated (Python floats and complex numbers count as arrays of the selected
        backend). Bind other arguments first: ``lambda x: f(x, 3)``.
    order : int
        Maximum order of derivatives. With 2, also check the derivatives of the derivatives, in every order of
        ``modes``.
    modes : sequence of {"fwd", "rev"}
        ``"fwd"`` for ``jvp``, ``"rev"`` for ``vjp``.
    rtol, atol : float or None
        Tolerances. By default, 1e-6 and 1e-8 in double precision, 1e-2 and 1e-3 in single precision.
    eps : float or None
        Fixed step. By default, the step starts at 1e-4 in double precision and 1e-2 in single precision and changes
        until the differences settle.
    directions : int
        Number of random directions.
    seed : int
        Seed of directions and weights.

    Raises
    ------
    DerivativeError
        If a derivative is wrong. The message includes the argument and the element with the largest error, with both
        numbers, or the output whose value changes when it is differentiated. It is an ``AssertionError``.
    KinkError
        If ``f`` has no derivative at the point, as one-sided differences at two steps show.
    DtypeError
        If an argument or an output has an integer dtype.
    OperandError
        If ``args`` is not a tuple, or a leaf is not an array.
    ConfigurationError
        If a mode is unknown, or the order is less than 1.

    Examples
    --------
    >>> agrad.testing.check_grads(lambda x: agrad.sin(x) ** 2, (np.asarray([0.1, 0.2]),), order=2)
    >>> wrong = agrad.elementwise("wrong", lambda g, x: 2 * g * x, forward=lambda xp, x, /: x**3)
    >>> agrad.testing.check_grads(wrong, (np.asarray([1.0, 3.0]),))
    Traceback (most recent call last):
        ...
    agrad.errors.DerivativeError: check_grads of wrong: ... a factor of ...
    """
    if order < 1 or not modes or not set(modes) <= set(_MODES):
        raise ConfigurationError(
            f"check_grads: order must be at least 1 and modes must be among 'fwd' and 'rev', got order={order}, "
            f"modes={modes!r}"
        )
    if not isinstance(args, (tuple, list)):
        raise OperandError(
            f"check_grads: args must be a tuple with one entry for each argument of f, got {type(args).__name__}"
        )
    problem = _Problem(f, tuple(args), seed, directions, eps, rtol, atol)
    with np.errstate(all="ignore"):  # values that are not finite are reported
        _run(problem, order, tuple(dict.fromkeys(modes)))


def _run(problem: "_Problem", order: int, modes: tuple[str, ...]) -> None:
    """Check a problem in all orders."""
    functions: list[tuple[str, Function]] = [("", problem.call)]
    for k in range(order):
        derivatives = [
            (f"{_MODES[mode]} over {label}" if label else _MODES[mode], mode, function)
            for label, function in functions
            for mode in modes
        ]
        for label, mode, function in derivatives:
            problem.check(function, mode, label)
        if k + 1 < order:
            functions = [(label, problem.derived(function, mode)) for label, mode, function in derivatives]


def _names(f: Function, args: tuple[Any, ...]) -> list[str]:
    """Return the name of each leaf: ``argument 0 (params)['w']``."""
    names = argument_names(f, args)
    whole = [f"argument {i}" + (f" ({names[i]})" if names else "") for i in range(len(args))]
    return [name + path for name, arg in zip(whole, args, strict=True) for path in paths(arg)]


def _differentiable(leaf: Any, place: str) -> Any:
    """Return a leaf as a raw floating array, or raise."""
    if type(leaf) in (float, complex):
        leaf = agrad.asarray(leaf, dtype=agrad.float64 if type(leaf) is float else agrad.complex128)
    raw = leaf.raw if isinstance(leaf, agrad.Tensor) else leaf
    if isinstance(raw, (bool, int)):
        raise DtypeError(
            f"check_grads: {place} must have a derivative, got the {type(raw).__name__} {raw}. Write {float(raw)}, or "
            "bind it first: lambda x: f(x, n)."
        )
    if backend_of_type(type(raw)) is None:
        raise OperandError(
            f"check_grads: {place} must be an array, got {type(raw).__name__}. Bind it first: lambda x: f(x, option)."
        )
    if not is_floating(raw.dtype):
        raise DtypeError(
            f"check_grads: {place} must have a floating-point dtype, got {dtype_name(raw.dtype)}. Cast it, "
            "agrad.astype(x, agrad.float64), or bind it first: lambda x: f(x, indices)."
        )
    return raw


class _Problem:
    """A function of leaves, the point, and the way to take differences there."""

    def __init__(
        self,
        f: Function,
        args: tuple[Any, ...],
        seed: int,
        directions: int,
        eps: float | None,
        rtol: float | None,
        atol: float | None,
    ) -> None:
        self.f = f
        self.title = f"check_grads of {getattr(f, '__name__', 'a function')}"
        leaves, self.spec = flatten(args)
        if not leaves:
            raise OperandError("check_grads: args must contain an argument to differentiate with respect to")
        self.places = _names(f, args)
        self.raws = [_differentiable(leaf, place) for leaf, place in zip(leaves, self.places, strict=True)]
        self.point = [np.array(host(raw)) for raw in self.raws]
        self.seed, self.directions = seed, directions
        self.rng = np.random.default_rng(seed)
        self.single = any(dtype_name(raw.dtype) in ("float32", "complex64") for raw in self.raws)
        precision = _SINGLE if self.single else _DOUBLE
        if eps is not None:
            precision = precision._replace(step=eps, factors=(1.0,))
        self.precision = precision
        self.rtol = precision.rtol if rtol is None else rtol
        self.atol = precision.atol if atol is None else atol
        self.tensors = [agrad.asarray(raw) for raw in self.raws]
        with agrad.no_grad():
            first, again = self.values(self.call, self.point), self.values(self.call, self.point)
        for i, (a, b) in enumerate(zip(first, again, strict=True)):
            if not np.all(np.isfinite(a)):
                raise DerivativeError(f"{self.title}: output {i} is not finite at this point")
            if not np.array_equal(a, b):
                raise DerivativeError(
                    f"{self.title}: output {i} has different values when it is computed again. Fix the random key or "
                    "seed of the function."
                )

    def call(self, *leaves: Any) -> tuple[Any, ...]:
        """Return the floating-point arrays that ``f`` returns."""
        found, _ = flatten(self.f(*unflatten(self.spec, leaves)))
        for i, leaf in enumerate(found):
            if hasattr(leaf, "dtype") and not is_floating(leaf.dtype):
                raise DtypeError(
                    f"{self.title}: output {i} has dtype {dtype_name(leaf.dtype)}, which has no derivative. Omit it: "
                    "lambda x: f(x)[0]."
                )
        kept = tuple([leaf for leaf in found if hasattr(leaf, "dtype")])
        if not kept:
            raise OperandError(f"{self.title}: f must return an array with a derivative to check")
        return kept

    def values(self, function: Function, point: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the outputs on the host at a point on the host."""
        given = [agrad.asarray(placed(at, raw)) for at, raw in zip(point, self.raws, strict=True)]
        return [np.asarray(host(y)).astype(np.result_type(host(y).dtype, np.float64)) for y in function(*given)]

    # ---------------------------------------------------------------- derivatives by agrad

    def derived(self, function: Function, mode: str) -> Function:
        """Return a derivative of a function as a function.

        Cotangents and tangents depend on the point, which shows rules that treat them as constants.
        """
        if mode == "rev":
            weights = [agrad.asarray(g) for g in self._weights(function)]

            def pulled(*at: Any) -> tuple[Any, ...]:
                ys, pull = agrad.vjp(function, *at)
                return tuple(pull(tuple([g * (1 + 2 * y) for g, y in zip(weights, ys, strict=True)])))

            return pulled
        tangents = [agrad.asarray(v) for v in random_like(self.raws, self.rng)]

        def pushed(*at: Any) -> tuple[Any, ...]:
            along = tuple([v * (1 + x) for v, x in zip(tangents, at, strict=True)])
            return tuple(agrad.jvp(function, at, along)[1])

        return pushed

    def _weights(self, function: Function) -> list[Any]:
        """Return random weights of the outputs of a function."""
        with agrad.no_grad():
            return random_like(function(*self.tensors), self.rng)

    def check(self, function: Function, mode: str, label: str) -> None:
        """Compare in random directions; raise for a wrong derivative."""
        self._check_values(function, mode, label)
        for _ in range(self.directions):
            weights = self._weights(function)
            analytic = self._analytic(function, mode, weights)
            for i in range(len(self.raws)):
                v = host(random_like([self.raws[i]], self.rng)[0])
                got, size = analytic(i, v)
                slope = self.difference(function, weights, i, v)
                if self._off(got, slope, size):
                    self._diagnose(function, label, weights, analytic, i, (got, slope))

    def _check_values(self, function: Function, mode: str, label: str) -> None:
        """Raise if differentiation changes the outputs: a rule may compute them itself."""
        with agrad.no_grad():
            plain = function(*self.tensors)
        if mode == "rev":
            differentiated, _ = agrad.vjp(function, *self.tensors)
        else:
            zeros = tuple([agrad.zeros_like(x) for x in self.tensors])
            differentiated, _ = agrad.jvp(function, tuple(self.tensors), zeros)
        for i, (y, expected) in enumerate(zip(differentiated, plain, strict=True)):
            kinds = [f"{dtype_name(array.dtype)}{tuple(array.shape)}" for array in (y, expected)]
            if kinds[0] != kinds[1]:
                raise DerivativeError(
                    f"{self.title}: output {i} is {kinds[0]} in the {label} pass, but {kinds[1]} without it"
                )
            found, wanted = np.asarray(host(y)), np.asarray(host(expected))
            off = ~np.isclose(found, wanted, self.rtol, self.atol, equal_nan=True)
            if np.any(off):
                at = tuple(int(k) for k in np.argwhere(off)[0])
                raise DerivativeError(
                    f"{self.title}: the value of output {i}{f', element {list(at)},' if at else ''} is "
                    f"{found[at]:.10g} in the {label} pass, but {wanted[at]:.10g} without it. A rule does not compute "
                    "the same values as the function."
                )

    def _analytic(self, function: Function, mode: str, weights: list[Any]) -> Callable[[int, Any], tuple[float, float]]:
        """Return the derivative along ``v`` in leaf ``i``, and its size in all directions."""
        if mode == "rev":
            _, pull = agrad.vjp(function, *self.tensors)
            found = pull(tuple([agrad.asarray(g) for g in weights]))
            return lambda i, v: (pairing(found[i], v), norm([found[i]]) * norm([v]))

        def along(i: int, v: Any) -> tuple[float, float]:
            tangents = [agrad.zeros_like(x) for x in self.tensors]
            tangents[i] = agrad.asarray(placed(v, self.raws[i]))
            _, ts = agrad.jvp(function, tuple(self.tensors), tuple(tangents))
            total = sum(pairing(g, t) for g, t in zip(weights, ts, strict=True))
            return total, norm(weights) * norm(ts)

        return along

    # ---------------------------------------------------------------- differences

    def _moved(self, i: int, v: Any, h: float) -> list[np.ndarray]:
        """Return the point moved by ``h`` along ``v`` in leaf ``i``."""
        point = list(self.point)
        wide = np.result_type(point[i].dtype, np.float64)
        point[i] = point[i].astype(wide) + h * np.asarray(v).astype(wide)
        return point

    def _change(self, function: Function, weights: list[Any], i: int, v: Any, after: float, before: float) -> float:
        """Return the weighted outputs at a step ``after`` less those at ``before``."""
        with np.errstate(all="ignore"):
            a = self.values(function, self._moved(i, v, after))
            b = self.values(function, self._moved(i, v, before))
            return sum(pairing(g, x - y) for g, x, y in zip(weights, a, b, strict=True))

    def difference(self, function: Function, weights: list[Any], i: int, v: Any) -> _Slope:
        """Return the derivative along ``v`` in leaf ``i`` by the best central differences."""
        best, least = _Slope(np.nan, np.inf, self.precision.step), np.inf
        with agrad.no_grad():
            noise = self.precision.unit * norm(weights) * norm(self.values(function, self.point))
            for factor in self.precision.factors:
                h = self.precision.step * factor
                coarse = self._change(function, weights, i, v, h, -h) / (2 * h)
                fine = self._change(function, weights, i, v, h / 2, -h / 2) / h
                slope = (4 * fine - coarse) / 3
                doubt = abs(fine - coarse) + noise / h
                unsettled = doubt / (self.atol + self.rtol * abs(slope))
                if np.isfinite(slope) and unsettled < least:
                    best, least = _Slope(slope, doubt, h), unsettled
                if least <= 0.1:
                    break
        return best

    def _off(self, got: float, slope: _Slope, size: float) -> bool:
        """Return True if a derivative differs from the finite difference too much."""
        if not np.isfinite(got) or not np.isfinite(slope.value):
            return True
        rounding = 8 * self.precision.unit * size / slope.step
        return abs(got - slope.value) > self.atol + self.rtol * max(size, abs(slope.value)) + rounding

    # ---------------------------------------------------------------- the wrong element

    def _elements(self, i: int, off: Callable[[Any], float]) -> Iterator[tuple[tuple[int, ...], Any]]:
        """Return unit directions of a leaf: all, or those in the half that differs."""
        x = self.point[i]
        chosen = np.arange(x.size)
        while chosen.size > _ELEMENTS:
            halves = np.array_split(chosen, 2)
            sizes = []
            for half in halves:
                v = np.zeros(x.size, dtype=x.dtype)
                v[half] = self.rng.choice([-1.0, 1.0], half.size)
                sizes.append(off(v.reshape(x.shape)))
            chosen = halves[int(np.argmax(sizes))]
        for flat in chosen:
            for unit in (1.0, 1j) if np.iscomplexobj(x) else (1.0,):
                v = np.zeros(x.size, dtype=x.dtype)
                v[flat] = unit
                yield tuple(int(k) for k in np.unravel_index(int(flat), x.shape)), v.reshape(x.shape)

    def _diagnose(
        self, function: Function, label: str, weights: list[Any], analytic: Any, i: int, found: tuple[float, _Slope]
    ) -> None:
        """Raise with the element that is most wrong, or with the kink."""

        def gap(v: Any) -> float:
            difference = abs(analytic(i, v)[0] - self.difference(function, weights, i, v).value)
            return np.inf if np.isnan(difference) else difference

        wrong: list[tuple[float, tuple[int, ...], Any, float, _Slope]] = []
        seen = 0
        for element, v in self._elements(i, gap):
            seen += 1
            got, size = analytic(i, v)
            slope = self.difference(function, weights, i, v)
            if self._off(got, slope, size):
                error = abs(got - slope.value)
                wrong.append((np.inf if np.isnan(error) else error, element, v, got, slope))
        wrong.sort(key=lambda entry: -entry[0])
        kink = None
        for _, element, v, got, slope in wrong:
            sides = self._sides(function, weights, i, v, got, slope)
            if sides is None and np.isfinite(got):
                self._report(label, i, element, v, got, slope, len(wrong), seen)
            if sides is not None and kink is None:
                kink = (element, v, got, sides)
        if kink is not None:
            element, v, got, sides = kink
            raise KinkError(
                f"{self.title}: there is a kink at {self._where(i, element, v)}, so the {label} derivative does not "
                f"exist: {sides}, agrad returns {got:.6g}. Check at another point."
            )
        if wrong:
            self._report(label, i, *wrong[0][1:], len(wrong), seen)
        self._report(label, i, None, None, *found, 0, seen)

    def _where(self, i: int, element: tuple[int, ...] | None, v: Any) -> str:
        """Return the name of an element, for messages."""
        text = self.places[i]
        if element:
            text += f", element {list(element)}"
        if v is not None and np.any(np.imag(v)):
            text += ", imaginary part"
        return text

    def _sides(self, function: Function, weights: list[Any], i: int, v: Any, got: float, slope: _Slope) -> str | None:
        """Return a text about a kink or a jump by one-sided differences, or None.

        If the derivative exists, their gap shrinks with the step. At a kink it remains and explains the error. At a
        jump the difference quotient grows as the inverse of the step.
        """
        with agrad.no_grad():
            found = []
            for h in (slope.step, slope.step / 8):
                right = self._change(function, weights, i, v, h, 0.0) / h
                left = self._change(function, weights, i, v, 0.0, -h) / h
                found.append((left, right))
        (left, right), (left_near, right_near) = found
        if np.isfinite(right_near) != np.isfinite(left_near):
            return f"on one side it is not finite (slope {left_near:.6g} on the left and {right_near:.6g} on the right)"
        words = f"{left_near:.6g} on the left and {right_near:.6g} on the right"
        for near, far in ((left_near, left), (right_near, right)):
            if abs(near) > 6 * abs(far) and abs(near) > 10 * abs(got):
                return f"it jumps, as the slope grows when the step shrinks, to {words}"
        coarse, fine = abs(right - left), abs(right_near - left_near)
        least = 10 * (self.atol + self.rtol * abs(left_near))
        if np.isfinite(fine) and fine > 0.5 * coarse and fine > least and not fine < 0.2 * abs(got - slope.value):
            return f"the slopes differ, {words}"
        return None

    def _report(
        self,
        label: str,
        i: int,
        element: tuple[int, ...] | None,
        v: Any,
        got: float,
        slope: _Slope,
        wrong: int,
        seen: int,
    ) -> None:
        """Raise the ``DerivativeError`` for an element, or for a whole argument."""
        text = (
            f"{self.title}: the {label} derivative with respect to {self._where(i, element, v)} is wrong: agrad "
            f"returns {got:.10g}, finite differences {slope.value:.10g} (step {slope.step:.2g}, "
            f"differing by {slope.doubt:.2g} between two)"
        )
        if slope.value and np.isfinite(slope.value):
            text += f", a factor of {got / slope.value:.6g}"
        if wrong:
            text += f"\n{wrong} of {seen} checked elements of this argument are wrong, this one has the largest error"
        if v is None:
            text += f"\nin a random direction of the argument (seed {self.seed}), but at no single element"
        if np.isnan(slope.value):
            text += "\nthe function is not finite near the point: pass a smaller eps, or another point"
        elif slope.doubt > 10 * (self.atol + self.rtol * abs(slope.value)):
            text += "\nthe differences do not converge, because the function is noisy or changes fast: pass another eps"
        if self.single:
            text += "\nin single precision, differences are accurate to about 1e-3: check float64 arguments"
        raise DerivativeError(text)
