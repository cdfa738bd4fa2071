"""The base class of optimizers: parameters, the step over them, and saved state."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import agrad
from agrad.engine.scalars import host_call, mark_state_used
from agrad.errors import (
    ConfigurationError,
    DataError,
    DtypeError,
    MixedBackendsError,
    NotDifferentiableError,
    OperandError,
)
from agrad.nn.module import Module, check_state, on_device_of
from agrad.ops.updates import donatable

Rate = float | Callable[[int], float]
"""A learning rate, or a schedule.

A schedule is a function from the number of steps taken so far to the rate of the next one.
"""


def leaves(parameters: Iterable[agrad.Tensor], what: str, traced: bool = False) -> list[agrad.Tensor]:
    """Return the parameters as a list, checked to be distinct leaf Tensors.

    traced: True if they may be those of a jitted function that is being traced.
    """
    if isinstance(parameters, (agrad.Tensor, Module)):
        remedy = "[tensor]" if isinstance(parameters, agrad.Tensor) else "model.parameters()"
        raise OperandError(f"{what} takes a list of Tensors, not one {type(parameters).__name__}: write {remedy}")
    found = list(parameters)
    if not found:
        raise ConfigurationError(f"{what} was given no parameters")
    first: dict[int, int] = {}
    for i, tensor in enumerate(found):
        if not isinstance(tensor, agrad.Tensor):
            raise OperandError(f"{what}: parameter {i} is a {type(tensor).__name__}, not a Tensor")
        inside = isinstance(tensor.data, agrad.Tensor) and not (traced and tensor.data.level.name == "trace")
        if not tensor.is_leaf or inside:
            raise NotDifferentiableError(
                f"{what}: parameter {i} is the result of an operation; a parameter is a leaf, made with "
                "agrad.asarray(x, requires_grad=True)"
            )
        if tensor.dtype.kind not in ("real floating", "complex floating"):
            raise DtypeError(f"{what}: parameter {i} has dtype {tensor.dtype}, which has no derivative; cast it first")
        if first.setdefault(id(tensor), i) != i:
            raise ConfigurationError(
                f"{what}: parameters {first[id(tensor)]} and {i} are the same Tensor; give it once"
            )
    return found


def number(what: str, name: str, value: Any, below: float | None = None) -> float:
    """Return ``value`` as a float, checked to be 0 or more, and less than ``below``."""
    good = isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool)
    if not good or not 0 <= value < (float("inf") if below is None else below):
        limit = "0 or more" if below is None else f"0 or more, and less than {below:g}"
        raise ConfigurationError(f"{what}: {name} is a finite number of {limit}, not {value!r}")
    return float(value)


class Optimizer:
    """Base class of optimizers, which change parameters by their gradients.

    A step does not change parameters without a gradient, nor their state. Nothing is read back from a device.

    NumPy's and CuPy's arrays are overwritten if no other reference to them exists. If a recorded graph, a view or a
    variable still holds a parameter's array, that array is not changed, and the parameter gets a new one. Do not record
    with a parameter in one thread while another takes a step: the graph might hold half changed values.

    Parameters
    ----------
    parameters : iterable of Tensor
        Leaf Tensors of any shapes and floating dtypes.
    lr : float or function
        The learning rate, or a schedule: a function from the number of steps taken to the rate. It may be set at any
        time.

    Raises
    ------
    ConfigurationError
        If there are no parameters, one is given twice, or ``lr`` is below 0.
    OperandError, DtypeError, NotDifferentiableError
        If a parameter is not a Tensor, not floating, or not a leaf.
    """

    slots: tuple[str, ...] = ()
    """The names of the arrays kept for each parameter."""

    traced_attributes = ("steps", "_lr", "_counts", "_arrays", "_taken")
    """The attributes that functions made by ``agrad.jit`` read and write at each call."""

    def __init__(self, parameters: Iterable[agrad.Tensor], lr: Rate) -> None:
        self._name = type(self).__name__
        self.parameters = leaves(parameters, self._name)
        self.steps = 0
        self.lr = lr
        self._counts = [0] * len(self.parameters)
        self._complex = [tensor.dtype.kind == "complex floating" for tensor in self.parameters]
        self._arrays: list[tuple[Any, ...]] = [()] * len(self.parameters)
        self._taken: list[Any] = []
        """One int32 array (parameters,) with the steps of each, if steps may be left out."""

    def update(self, p: Any, g: Any, arrays: tuple[Any, ...], count: int, lr: float, donate: bool) -> tuple[Any, ...]:
        """Return the new raw parameter and the new arrays of its state.

        Parameters
        ----------
        p, g : array
            The raw parameter and its gradient, of one shape and dtype.
        arrays : tuple of array
            The state, an array for each name in ``slots``.
        count : int or array
            The number of the parameter's step, from 1: an int, or a raw array of shape () if steps may be left out,
            because only the device then has the number.
        lr : float
            The learning rate of the step.
        donate : bool
            True if the arrays may be overwritten.

        Returns
        -------
        tuple of array
            The parameter, then its state.
        """
        raise ConfigurationError(f"{self._name} defines no update; use SGD, Adam or AdamW")

    @property
    def lr(self) -> Rate:
        """The learning rate, or the schedule, as set."""
        return self._lr

    @lr.setter
    def lr(self, value: Rate) -> None:
        self._lr = value if callable(value) else number(self._name, "lr", value)

    @property
    def rate(self) -> float:
        """The learning rate of the next step, as a number."""
        lr = self._lr
        return host_call(self._scheduled, self.steps) if callable(lr) else lr

    def _scheduled(self, steps: int) -> float:
        assert callable(self._lr)
        return number(self._name, f"lr at step {steps}", self._lr(steps))

    def before_trace(self) -> None:
        """Make all state that steps need, for the first trace to serve the next step."""
        for i, tensor in enumerate(self.parameters):
            if not self._arrays[i]:
                self._arrays[i] = tuple([agrad.zeros_like(tensor.data) for _ in self.slots])

    def zero_grad(self) -> None:
        """Set ``.grad`` of all parameters to None."""
        for tensor in self.parameters:
            tensor.grad = None

    def step(self, *, where: Any = None) -> None:
        """Change each parameter that has a gradient by it.

        Parameters
        ----------
        where : array or None
            A raw array of shape () of truth values. If it is false, parameters and state stay as they are, and only
            schedules count the step. It is not read back.

        Raises
        ------
        MixedBackendsError, DtypeError
            If a gradient or the state of an earlier step has another backend or dtype than the parameter. Nothing is
            changed then.
        """
        mark_state_used(self)
        ready = self._ready()
        rate = self.rate
        masked = where is not None or bool(self._taken)
        counts: Any = self._counts
        if masked:
            self.count_on_device()
            (counts,) = self._taken
            where = on_device_of(self.parameters[0], np.array(True)) if where is None else where
        for i, tensor, g in ready:
            donate = not masked and donatable(tensor)  # before a variable here holds the array
            p = tensor.data
            if self._complex[i]:
                g = agrad.conj(g)
            if masked:
                # a step that is left out is computed too, of zeros, which raise no warnings
                g = agrad.where(where, g, agrad.zeros_like(g))
            old = self._arrays[i] or tuple([agrad.zeros_like(p) for _ in self.slots])
            new, *state = self.update(p, g, old, counts[i] + 1, rate, donate)
            if masked:
                new = agrad.where(where, new, p)
                state = [agrad.where(where, a, b) for a, b in zip(state, old, strict=True)]
            self._counts[i] += 1
            self._arrays[i] = tuple(state)
            if new is not p:
                tensor.assign(new)
        if masked:
            part = np.zeros(len(self.parameters), np.int32)
            part[[i for i, _, _ in ready]] = 1
            self._taken = [counts + agrad.astype(where, agrad.int32) * on_device_of(self.parameters[0], part)]
        self.steps += 1

    def count_on_device(self) -> None:
        """Count the steps of each parameter on its device, if some may be left out."""
        if not self._taken:
            self._taken = [on_device_of(self.parameters[0], np.array(self._counts, np.int32))]

    def _ready(self) -> list[tuple[int, agrad.Tensor, Any]]:
        """Return the parameters that have a gradient, by number, each with the gradient's array."""
        ready = []
        for i, tensor in enumerate(self.parameters):
            grad = tensor.grad
            if grad is None:
                continue
            kind, dtype = type(tensor.data), tensor.data.dtype
            raw = grad.data if type(grad) is agrad.Tensor else grad.bare
            if type(raw) is not kind or raw.dtype != dtype:
                self._check(i, tensor, "gradient", raw)
            ready.append((i, tensor, raw))
            if arrays := self._arrays[i]:
                raw = arrays[0]
                if type(raw) is not kind or raw.dtype != dtype:
                    self._check(i, tensor, "state", raw)
        return ready

    def _check(self, i: int, tensor: agrad.Tensor, what: str, raw: Any) -> None:
        remedy = "forget it with zero_grad()" if what == "gradient" else "make a new optimizer after moving or casting"
        if type(raw) is not type(tensor.data) and agrad.asarray(raw).backend != tensor.backend:
            raise MixedBackendsError(
                f"{self._name}: the {what} of parameter {i} is on {agrad.asarray(raw).backend}, "
                f"the parameter on {tensor.backend}; {remedy}"
            )
        if agrad.asarray(raw).dtype != tensor.dtype:  # one of the two may be traced
            raise DtypeError(
                f"{self._name}: the {what} of parameter {i} has dtype {agrad.asarray(raw).dtype}, "
                f"the parameter {tensor.dtype}; {remedy}"
            )

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the state of a resumed run by name, as NumPy arrays on the host.

        Options are not in it: make the optimizer with the same ones.

        Returns
        -------
        dict of str to numpy.ndarray
            ``steps``; ``lr`` if it is a number; and for the i-th parameter, once it has taken a step, ``i.step`` and
            its arrays (``i.m`` and ``i.v`` of Adam).
        """
        state = {"steps": np.array(self.steps, dtype=np.int64)}
        if not callable(self._lr):
            state["lr"] = np.array(self._lr, dtype=np.float64)
        counts = agrad.asarray(self._taken[0]).numpy().tolist() if self._taken else self._counts
        for i, arrays in enumerate(self._arrays):
            if counts[i]:
                state[f"{i}.step"] = np.array(counts[i], dtype=np.int64)
            for slot, raw in zip(self.slots, arrays if counts[i] else (), strict=False):
                state[f"{i}.{slot}"] = np.array(agrad.asarray(raw).numpy())
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the state of an equal optimizer of parameters of equal shapes and dtypes.

        The arrays are put where the parameters are. A learning rate that is a schedule stays.

        Parameters
        ----------
        state : mapping of str to array
            Arrays of ``state_dict``, saved on any backend.

        Raises
        ------
        DataError
            If the state does not fit. The message lists the differences, and the optimizer is unchanged.
        """
        given = {name: np.asarray(value) for name, value in state.items()}
        expected: dict[str, tuple[tuple[int, ...], str]] = {}
        if not callable(self._lr) or "lr" in given:
            expected["lr"] = ((), "float64")
        started = [i for i in range(len(self.parameters)) if any(n.startswith(f"{i}.") for n in given)]
        for i in started:
            tensor = self.parameters[i]
            expected.update({f"{i}.{slot}": (tensor.shape, tensor.dtype.name) for slot in self.slots})
        check_state(f"the state of {self._name}", given, expected, ["steps", *(f"{i}.step" for i in started)])
        rate = self._lr if callable(self._lr) else number(self._name, "lr", float(given["lr"]))
        arrays: list[tuple[Any, ...]] = [()] * len(self.parameters)
        counts = [0] * len(self.parameters)
        for i in started:
            counts[i] = int(given[f"{i}.step"])
            arrays[i] = tuple([on_device_of(self.parameters[i], given[f"{i}.{slot}"]) for slot in self.slots])
        steps = int(given["steps"])
        if not max(counts) <= steps < 2**31:
            raise DataError(
                f"the state of {self._name}: expected fewer than 2**31 steps and no parameter with more, "
                f"found {steps} and {max(counts)}"
            )
        self.steps, self._lr, self._arrays, self._counts = steps, rate, arrays, counts
        if self._taken:
            self._taken = []
            self.count_on_device()

    def options(self) -> dict[str, Any]:
        """Return the options of the optimizer by name, without ``lr``.

        Returns
        -------
        dict of str to object
            The options that ``repr`` shows.
        """
        return {}

    def __repr__(self) -> str:
        options = {"lr": self._lr, **self.options()}
        text = ", ".join(f"{name}={value!r}" for name, value in options.items())
        return f"{self._name}({len(self.parameters)} parameters, {text})"


def clip_grad_norm(parameters: Iterable[agrad.Tensor], max_norm: float) -> agrad.Tensor:
    """Scale the gradients to a norm of all together of at most ``max_norm``.

    Parameters without a gradient count as 0. The gradients' Tensors are replaced, not changed. Nothing is read back
    from the device.

    Parameters
    ----------
    parameters : iterable of Tensor
        Leaf Tensors of one device.
    max_norm : float
        The largest norm, 0 or more.

    Returns
    -------
    Tensor
        The norm before, of shape (), on the device of the gradients.

    Raises
    ------
    ConfigurationError
        If ``max_norm`` is not a number of 0 or more.
    """
    bound = number("clip_grad_norm", "max_norm", max_norm)
    found = [tensor for tensor in leaves(parameters, "clip_grad_norm", traced=True) if tensor.grad is not None]
    if not found:
        return agrad.zeros(())
    total: Any = None
    with agrad.no_grad():
        for tensor in found:
            g = tensor.grad.detach()  # type: ignore[union-attr]
            flat = agrad.reshape(g, (-1,))
            part = (
                agrad.real(agrad.vecdot(flat, flat))
                if agrad.isdtype(g.dtype, "complex floating")
                else agrad.vecdot(flat, flat)
            )
            total = part if total is None else total + part
        norm = agrad.sqrt(total)
        # the same term as PyTorch's: it prevents a division by a norm of 0
        factor = agrad.minimum(bound / (norm + 1e-6), 1.0)
        for tensor in found:
            g = tensor.grad.detach()  # type: ignore[union-attr]
            tensor.grad = agrad.astype(g * factor, g.dtype, copy=False)
    return norm
