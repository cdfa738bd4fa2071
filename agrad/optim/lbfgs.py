"""L-BFGS optimizer."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

import agrad
from agrad.engine.scalars import refuse_trace
from agrad.errors import ConfigurationError, DtypeError
from agrad.expect import one_of
from agrad.nn.module import check_state, encoded, on_device_of, without_options
from agrad.optim.checks import integer, number
from agrad.optim.line_search import Point, strong_wolfe
from agrad.optim.optimizer import Optimizer
from agrad.optim.options import Rate
from agrad.optim.saving import identity

CURVED = 1e-10
"""Smallest product of a step and its gradient change that is stored."""
_SCALARS = ("t", "loss", "scale")
"""Numbers of the memory that are saved."""


class _Memory:
    """Memory of the previous steps. A compiled closure, which calls ``zero_grad``, does not trace it."""

    def __init__(self) -> None:
        self.iterations = self.evaluations = 0
        self.t = self.loss = self.slope = self.length = 0.0
        self.scale: Any = 1.0
        """Multiple of the identity with which the inverse Hessian starts: a number or a scalar array."""
        self.direction: Any = None
        self.gradient: Any = None
        self.history: list[tuple[Any, Any, float]] = []
        """Stored updates: changes of the gradient, of the parameters, and the reciprocal of their product."""


class LBFGS(Optimizer):
    """L-BFGS optimizer (limited-memory Broyden-Fletcher-Goldfarb-Shanno).

    ``step`` calls ``closure`` up to ``max_eval`` times and runs up to ``max_iter`` iterations. It reads from the device
    once after each call of ``closure``, and once for each direction. You cannot call it inside a compiled function, but
    the closure may call one. Real and imaginary parts of complex parameters are independent variables.

    Reference: Nocedal 1980, Mathematics of Computation 35, 773; Liu and Nocedal 1989, Mathematical Programming 45, 503.

    Parameters
    ----------
    params : iterable of Tensor or of (str, Tensor)
        Leaf Tensors of any shapes and the same precision, on one device, as one group.
    lr : float or function
        First step length to try along a direction, or a schedule of it.
    max_iter : int
        Maximum number of iterations per ``step``.
    max_eval : int or None
        Maximum number of calls of ``closure`` per ``step``. By default, max_iter * 5 // 4.
    tolerance_grad : float
        Tolerance for the largest element of the gradient at which ``step`` stops.
    tolerance_change : float
        Tolerance for the change of the parameters and of the loss at which ``step`` stops.
    history_size : int
        Number of past updates to keep.
    line_search_fn : str or None
        ``"strong_wolfe"`` for a line search along each direction, None to use ``lr`` as the step length.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([-1.0, 1.0]))
    >>> optimizer = agrad.optim.LBFGS([w], max_iter=100, line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> _ = optimizer.step(closure)
    >>> w.detach().round(4)
    Tensor([1.0, 1.0], dtype=float64, backend=numpy, device=cpu)
    """

    lr: Rate = 1.0
    max_iter: int = 20
    max_eval: int | None = None
    tolerance_grad: float = 1e-7
    tolerance_change: float = 1e-9
    history_size: int = 100
    line_search_fn: str | None = None

    @property
    def iterations(self) -> int:
        """Number of iterations so far."""
        return self._memory.iterations

    @property
    def evaluations(self) -> int:
        """Number of calls of ``closure`` so far."""
        return self._memory.evaluations

    @classmethod
    def checked(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        found = super().checked(options)
        integer("LBFGS", "max_iter", found["max_iter"])
        if found["max_eval"] is None:
            found["max_eval"] = found["max_iter"] * 5 // 4
        integer("LBFGS", "max_eval", found["max_eval"])
        integer("LBFGS", "history_size", found["history_size"])
        one_of("LBFGS", "line_search_fn", found["line_search_fn"], (None, "strong_wolfe"))
        return found

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        if self.parts:
            raise ConfigurationError("LBFGS: parameters must be one group. Pass all parameters in one list.")
        self._memory = _Memory()
        super().add_param_group(param_group)
        dtypes = {agrad.real(p.detach()).dtype for p in self.parameters}
        if len(dtypes) > 1:
            raise DtypeError(f"LBFGS: parameters must have one precision, got {', '.join(map(str, dtypes))}")

    @classmethod
    def transform(cls, **options: Any) -> NoReturn:
        """Raise an error: L-BFGS steps evaluate the loss and are not pure functions.

        Parameters
        ----------
        **options : object
            Not used.

        Returns
        -------
        NoReturn
        """
        raise ConfigurationError("LBFGS: transform is not supported, as steps call the loss. Call step(closure).")

    # ------------------------------------------------------------------ flat vectors

    def _flat(self, tensors: list[Any]) -> Any:
        """Return the elements of arrays like the parameters as one real vector."""
        parts: list[Any] = []
        for x, p, is_complex in zip(tensors, self.parameters, self._complex, strict=True):
            x = agrad.zeros_like(p.detach()) if x is None else x.detach()
            flat = agrad.reshape(x, (-1,))
            parts += [agrad.real(flat), agrad.imag(flat)] if is_complex else [flat]
        return agrad.concat(parts)

    def _flat_gradient(self) -> Any:
        grads = [p.grad for p in self.parameters]
        pairs = zip(grads, self._complex, strict=True)
        return self._flat([agrad.conj(g) if c and g is not None else g for g, c in pairs])

    def _move(self, start: list[Any], t: float, direction: Any) -> None:
        """Set the parameters to ``start + t * direction``."""
        at = 0
        for p, x, is_complex in zip(self.parameters, start, self._complex, strict=True):
            change = direction[at : at + p.size] * t
            at += p.size
            if is_complex:
                change = agrad.astype(change, p.dtype) + agrad.astype(direction[at : at + p.size] * t, p.dtype) * 1j
                at += p.size
            p.assign((x + agrad.reshape(change, p.shape)).raw)

    # ------------------------------------------------------------------ the step

    def step(self, closure: Callable[[], Any] | None = None, *, where: Any = None) -> Any:
        """Run iterations until one of the limits is reached.

        Parameters
        ----------
        closure : function
            Function without arguments that resets the gradients, computes the gradients of the loss (``zero_grad``,
            then ``backward``) and returns the loss.
        where : None
            Not supported, because steps cannot be skipped.

        Returns
        -------
        object
            Loss of the first call.
        """
        refuse_trace("LBFGS.step", "Call it outside; the closure may call a jitted function")
        if closure is None or where is not None:
            raise ConfigurationError(
                "LBFGS: step requires a closure and cannot be skipped. Pass a function that calls zero_grad() and "
                "backward(), and returns the loss."
            )
        options = self.settings(0)
        with agrad.no_grad():
            first, here = self._evaluate(closure)
            calls = 1
            for k in range(options["max_iter"]):
                if k == 0 and here.size <= options["tolerance_grad"]:
                    break
                self._memory.iterations += 1
                self._remember(here, options["history_size"])
                t = options["lr"] * (min(1.0, 1.0 / here.slope) if self.iterations == 1 else 1.0)
                self._memory.direction = d = self._quasi_newton(here.gradient)
                self._memory.slope, self._memory.length = self._read(d, agrad.vecdot(here.gradient, d))
                self._memory.gradient, self._memory.loss, self._memory.t = here.gradient, here.loss, t
                if self._memory.slope > -options["tolerance_change"]:
                    break
                is_last = k == options["max_iter"] - 1
                here, more = self._along(closure, here, options, options["max_eval"] - calls, is_last)
                calls += more
                if is_last or calls >= options["max_eval"] or self._is_done(here, options):
                    break
        self.steps += 1
        return first

    def _evaluate(self, closure: Callable[[], Any], t: float = 0.0) -> tuple[Any, Point]:
        """Return the loss and the point. Without a direction, its derivative is the 1-norm of the gradient."""
        with agrad.enable_grad():
            loss = closure()
        self._memory.evaluations += 1
        gradient, d = self._flat_gradient(), self._memory.direction
        along = agrad.sum(agrad.abs(gradient)) if d is None else agrad.vecdot(gradient, d)
        value, slope, size = self._read(gradient, loss, along)
        return loss, Point(t, value, gradient, slope, size)

    def _read(self, flat: Any, *scalars: Any) -> list[float]:
        """Return scalars and the largest element of a vector as numbers, by one transfer from the device.

        A lazy backend computes the vector and the parameters too.
        """
        found = [*scalars, agrad.max(agrad.abs(flat)) if flat.size else agrad.sum(flat)]
        found = [agrad.reshape(agrad.asarray(x, backend=flat.backend, device=flat.device), ()) for x in found]
        dtype = agrad.result_type(*found)
        read = agrad.stack([agrad.astype(x, dtype) for x in found])
        self.compute(flat, read)
        return read.tolist()

    def _remember(self, here: Point, most: int) -> None:
        """Keep the last changes of gradient and parameters, if the loss is curved along them."""
        product = self._memory.t * (here.slope - self._memory.slope)
        if self._memory.gradient is None or not product > CURVED:
            return
        y, s = here.gradient - self._memory.gradient, self._memory.direction * self._memory.t
        self._memory.history = [*self._memory.history, (y, s, 1.0 / product)][-most:]
        self._memory.scale = product / agrad.vecdot(y, y)

    def _quasi_newton(self, gradient: Any) -> Any:
        """Return minus the product of the approximate inverse Hessian and the gradient."""
        d = -gradient
        shares = []
        for y, s, reciprocal in reversed(self._memory.history):
            shares.append(agrad.vecdot(s, d) * reciprocal)
            d = d - y * shares[-1]
        d = d * self._memory.scale
        for (y, s, reciprocal), share in zip(self._memory.history, reversed(shares), strict=True):
            d = d + s * (share - agrad.vecdot(y, d) * reciprocal)
        return d

    def _along(self, closure: Any, start: Point, options: Any, most: int, is_last: bool) -> tuple[Point, int]:
        """Move along the direction; return the point there, and the calls of ``closure`` that it took."""
        origin = [p.detach() for p in self.parameters]
        d, t = self._memory.direction, self._memory.t

        def evaluate(t: float) -> Point:
            self._move(origin, t, d)
            return self._evaluate(closure, t)[1]

        if options["line_search_fn"] is None:
            if is_last:  # nothing reads the loss there
                self._move(origin, t, d)
                return start, 0
            return evaluate(t), 1
        start = start._replace(t=0.0, slope=self._memory.slope)
        found, more = strong_wolfe(evaluate, start, t, self._memory.length, options["tolerance_change"], most)
        self._move(origin, found.t, d)
        self._memory.t = found.t
        return found, more

    def _is_done(self, here: Point, options: dict[str, Any]) -> bool:
        """Return True if the gradient is small, or parameters or loss hardly changed."""
        change, memory = options["tolerance_change"], self._memory
        is_still = memory.length * abs(memory.t) <= change or abs(here.loss - memory.loss) < change
        return here.size <= options["tolerance_grad"] or is_still

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the state as NumPy arrays by name, to resume a run.

        Returns
        -------
        dict of str to numpy.ndarray
            Counts, ``lr`` if it is a number, and after the first step the last direction, gradient and loss, and the
            stored updates. Also class, options and shapes, which must be equal when the state is loaded.
        """
        counts = {"steps": self.steps, "iterations": self.iterations, "evaluations": self.evaluations}
        state = encoded(self._identity()) | {name: np.array(value, np.int64) for name, value in counts.items()}
        if self.parts[0].schedule is None:
            state["lr"] = np.array(self.numbers[0][0])
        if self._memory.gradient is not None:
            state |= {name: np.array(float(getattr(self._memory, name))) for name in _SCALARS}
            state |= {"direction": _host(self._memory.direction), "gradient": _host(self._memory.gradient)}
            columns = list(zip(*self._memory.history, strict=True)) or [(), (), ()]
            for name, column in zip(("changes", "moves"), columns, strict=False):
                like = state["gradient"]
                state[name] = np.array([_host(x) for x in column], like.dtype).reshape(len(column), like.size)
            state["reciprocals"] = np.array(columns[2], np.float64)
        return state

    def _identity(self) -> dict[str, Any]:
        options = {name: value for name, value in self.param_groups[0].items() if name in self.defaults}
        return identity(self) | {f"groups.0.{name}": value for name, value in options.items() if name != "lr"}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the state of an optimizer with equal options, shapes and dtypes.

        Parameters
        ----------
        state : mapping of str to array
            Arrays that ``state_dict`` returned, on any backend.
        """
        given = {name: np.asarray(value) for name, value in state.items()}
        given = without_options("the state of LBFGS", given, self._identity())
        flat = self._flat([None] * len(self.parameters))
        like, dtype = (flat.size,), flat.dtype.name
        expected: dict[str, tuple[tuple[int, ...], str]] = {}
        if self.parts[0].schedule is None:
            expected["lr"] = ((), "float64")
        if "gradient" in given:
            kept = given["reciprocals"].size if "reciprocals" in given else 0
            expected |= dict.fromkeys(_SCALARS, ((), "float64"))
            expected |= {"direction": (like, dtype), "gradient": (like, dtype), "reciprocals": ((kept,), "float64")}
            expected |= dict.fromkeys(("changes", "moves"), ((kept, *like), dtype))
        check_state("the state of LBFGS", given, expected, ["steps", "iterations", "evaluations"])
        rate = number("LBFGS", "lr", float(given["lr"])) if "lr" in expected else None
        self._memory = _Memory()
        if rate is not None:
            self.numbers[0][0] = rate
        self.steps, self._memory.iterations, self._memory.evaluations = (
            int(given[name]) for name in ("steps", "iterations", "evaluations")
        )
        if "gradient" in given:
            for name in _SCALARS:
                setattr(self._memory, name, float(given[name]))

            def place(values: np.ndarray) -> Any:
                return agrad.asarray(on_device_of(self.parameters[0], values))

            self._memory.direction, self._memory.gradient = place(given["direction"]), place(given["gradient"])
            self._memory.slope = agrad.vecdot(self._memory.gradient, self._memory.direction).item()
            rows = zip(given["changes"], given["moves"], given["reciprocals"], strict=True)
            self._memory.history = [(place(y), place(s), float(r)) for y, s, r in rows]


def _host(x: Any) -> np.ndarray:
    return np.array(agrad.asarray(x).numpy())
