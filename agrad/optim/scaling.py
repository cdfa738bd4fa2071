"""Loss scaling for float16 gradients."""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

import agrad
from agrad.engine.scalars import Stateful, mark_state_used
from agrad.errors import ConfigurationError, DataError, OperandError
from agrad.nn.module import check_state, encoded, on_device_of, without_options
from agrad.ops.updates import donatable, renew_p
from agrad.optim.checks import integer, number
from agrad.optim.optimizer import Optimizer

SMALLEST, LARGEST = 2.0**-126, 2.0**126
"""Bounds of a scale: the scale and its reciprocal are normal float32 numbers."""


class LossScale(Stateful):
    """Dynamic loss scaling, for gradients that are too small for float16.

    ::

        scale = optim.LossScale(optimizer)
        scale(loss).backward()
        scale.step()                # instead of optimizer.step()
        optimizer.zero_grad()

    A step divides the gradients of its optimizers by the scale. If a gradient is infinite or NaN, the step is skipped:
    parameters and optimizer states are unchanged, and the scale is multiplied by ``backoff_factor``. After
    ``growth_interval`` successful steps in a row, the scale is multiplied by ``growth_factor``. Nothing is read back
    from the device, eagerly or in a compiled function. Schedules count skipped steps, but the bias corrections of Adam
    do not. A custom optimizer receives its ``count`` as an array of shape ().

    Reference: Micikevicius et al. 2018, arXiv:1710.03740.

    Parameters
    ----------
    *optimizers : Optimizer
        At least one optimizer whose gradients come from the scaled loss. All parameters must be on one device.
    init_scale : float
        Initial scale, from 2**-126 to 2**126.
    growth_factor : float
        Factor after successful steps, at least 1.
    backoff_factor : float
        Factor after a skipped step, between 0 and 1.
    growth_interval : int
        Number of successful steps in a row before the scale grows.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
    >>> scale = agrad.optim.LossScale(agrad.optim.SGD([w], lr=0.1))
    >>> scale((w * w).sum()).backward()
    >>> scale.step()
    >>> w.detach()
    Tensor([0.8, 1.6], dtype=float64, backend=numpy, device=cpu)
    """

    traced_attributes: ClassVar[tuple[str, ...]] = ("_state",)

    def __init__(
        self,
        *optimizers: Optimizer,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ) -> None:
        if not optimizers or not all(isinstance(o, Optimizer) for o in optimizers):
            raise OperandError("LossScale: the arguments must be one or more optimizers. Pass LossScale(optimizer).")
        self.optimizers = optimizers
        self.growth_factor: Any = number("LossScale", "growth_factor", growth_factor)
        self.backoff_factor: Any = number("LossScale", "backoff_factor", backoff_factor, 1)
        first = number("LossScale", "init_scale", init_scale)
        if self.growth_factor < 1 or not self.backoff_factor or not SMALLEST <= first <= LARGEST:
            raise ConfigurationError(
                "LossScale: growth_factor must be at least 1, backoff_factor between 0 and 1, and init_scale from "
                f"2**-126 to 2**126, got {growth_factor!r}, {backoff_factor!r} and {init_scale!r}"
            )
        self.growth_interval: int = integer("LossScale", "growth_interval", growth_interval)
        self._finite: Any = None
        """On the device, True if all gradients are finite. None before they are divided."""
        self._set(first, 0)
        for optimizer in optimizers:
            optimizer.count_on_device()

    def _set(self, scale: float, good: int) -> None:
        like = self.optimizers[0].parameters[0]
        # of shape (1,), because NumPy returns scalars of another type for arrays of shape ()
        self._state = [
            on_device_of(like, np.array([scale], np.float32)),
            on_device_of(like, np.array([good], np.int32)),
        ]

    def __call__(self, loss: Any) -> Any:
        """Return ``loss`` multiplied by the scale, on which to call ``backward``."""
        mark_state_used(self)
        scale = agrad.reshape(self._state[0], ())
        return loss * agrad.astype(scale, loss.dtype)

    @property
    def scale(self) -> float:
        """Scale as a number, read from the device."""
        return float(agrad.asarray(self._state[0])[0])

    def unscale(self) -> None:
        """Divide the gradients by the scale, to read or clip them before ``step``.

        Examples
        --------
        >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
        >>> scale = agrad.optim.LossScale(agrad.optim.SGD([w], lr=0.1))
        >>> scale((w * w).sum()).backward()
        >>> scale.unscale()
        >>> w.grad
        Tensor([2.0, 4.0], dtype=float64, backend=numpy, device=cpu)
        """
        mark_state_used(self)
        if self._finite is not None:
            raise ConfigurationError("LossScale: the gradients were already divided by the scale. Call step() first.")
        with agrad.no_grad():
            inverse = 1.0 / agrad.reshape(self._state[0], ())
            tensors = [t for optimizer in self.optimizers for t in optimizer.parameters if t.grad is not None]
            if not tensors:
                raise ConfigurationError("LossScale: no parameter has a gradient. Call scale(loss).backward() first.")
            found = []
            for g in [tensor.grad.detach() for tensor in tensors]:
                # a separate quotient: a compiled function computes it inside the test, without writing it
                size = agrad.abs(g) if agrad.isdtype(g.dtype, "real floating") else g
                found.append(agrad.all(agrad.isfinite(agrad.astype(size * inverse, g.dtype, copy=False))))
            self._finite = functools.reduce(agrad.logical_and, found).bare
            for tensor in tensors:
                g = tensor.grad.detach()
                tensor.grad = agrad.astype(g * inverse, g.dtype, copy=False)

    def step(self) -> None:
        """Step each optimizer if all gradients are finite, then adapt the scale.

        Examples
        --------
        >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
        >>> scale = agrad.optim.LossScale(agrad.optim.SGD([w], lr=0.1))
        >>> scale(np.inf * w.sum()).backward()
        >>> scale.step()  # skipped, because the gradient is infinite
        >>> w.detach()
        Tensor([1.0, 2.0], dtype=float64, backend=numpy, device=cpu)
        """
        if self._finite is None:
            self.unscale()
        else:
            mark_state_used(self)
        finite, self._finite = self._finite, None
        # nothing else references the state: compiled functions may overwrite it if they may overwrite the parameter
        donate = donatable(self.optimizers[0].parameters[0])
        for optimizer in self.optimizers:
            optimizer.step(where=finite)
        scale, good = self._state
        with agrad.no_grad():
            count = agrad.where(finite, good + 1, 0 * good)
            grows = count >= self.growth_interval
            grown = agrad.where(grows, agrad.minimum(scale, LARGEST / self.growth_factor) * self.growth_factor, scale)
            shrunk = agrad.maximum(scale, SMALLEST / self.backoff_factor) * self.backoff_factor
            new = agrad.where(finite, grown, shrunk), agrad.where(grows, 0 * count, count)
            self._state = [renew_p(a != b, a, b, donate=donate) for a, b in zip((scale, good), new, strict=True)]

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the state as NumPy arrays on the host.

        Returns
        -------
        dict of str to numpy.ndarray
            ``scale``, float64, and ``good_steps``, int64, of shape (), and the options, which must be equal when the
            state is loaded.
        """
        scale, good = (agrad.asarray(x).numpy() for x in self._state)
        state = {"scale": np.array(scale[0], np.float64), "good_steps": np.array(good[0], np.int64)}
        return state | encoded(self._options())

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("growth_factor", "backoff_factor", "growth_interval")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state that ``state_dict`` returned.

        Parameters
        ----------
        state : mapping of str to array
            Arrays that ``state_dict`` returned, on any backend.
        """
        given = {name: np.asarray(value) for name, value in state.items()}
        given = without_options("the state of LossScale", given, self._options())
        check_state("the state of LossScale", given, {"scale": ((), "float64")}, ["good_steps"])
        scale, good = float(given["scale"]), int(given["good_steps"])
        if not SMALLEST <= scale <= LARGEST or good >= 2**31:
            raise DataError(
                "the state of LossScale: scale must be from 2**-126 to 2**126 and good_steps below 2**31, got "
                f"{scale!r} and {good}"
            )
        self._set(scale, good)

    def __repr__(self) -> str:
        return (
            f"LossScale({self.scale:g}, growth_factor={self.growth_factor:g}, "
            f"backoff_factor={self.backoff_factor:g}, growth_interval={self.growth_interval})"
        )
