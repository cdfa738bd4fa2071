"""Base class of optimizers."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar
from typing import Any, ClassVar, TypeVar, overload

import numpy as np

import agrad
from agrad.backends import backend_of
from agrad.engine.scalars import Stateful, host_call, mark_state_used
from agrad.errors import ConfigurationError
from agrad.nn.module import on_device_of
from agrad.ops.updates import by_parts, donatable, jointly, renew_p
from agrad.optim.checks import leaves, number, refuse_other
from agrad.optim.counts import each, grouped, split
from agrad.optim.functional import Transform
from agrad.optim.groups import Choice, Group, Part, given_groups, without_names
from agrad.optim.options import Declared, Params, Rate
from agrad.optim.saving import checked_state, saved_state

Loss = TypeVar("Loss")


class Optimizer(Declared, Stateful):
    """Base class of optimizers.

    A step updates the parameters that have a gradient, and reads nothing back from a device.

    NumPy and CuPy arrays are overwritten if nothing else references them. Otherwise, the parameter gets a new array. Do
    not record with a parameter in one thread while another thread runs a step.

    The options of a single group are attributes (``optimizer.lr``), which you can set at any time. With several groups,
    reading an attribute requires that all groups agree, and setting it changes all groups. ``param_groups`` contains
    the options of each group.

    Parameters
    ----------
    options : dict of str to object
        Options by name. ``lr`` is a number, or a schedule: a function from the number of steps taken to the rate.

    Examples
    --------
    >>> model = agrad.nn.Linear(2, 1)
    >>> optimizer = agrad.optim.SGD([{"params": [model.weight]}, {"params": [model.bias], "lr": 0.01}], lr=0.1)
    >>> isinstance(optimizer, agrad.optim.Optimizer), [group["lr"] for group in optimizer.param_groups]
    (True, [0.1, 0.01])
    """

    slots: ClassVar[tuple[str, ...]] = ()
    """Names of the state arrays per parameter."""

    params: InitVar[Params]
    lr: Rate = 1e-3

    traced_attributes: ClassVar[tuple[str, ...]] = (
        "steps", "numbers", "choices", "_counts", "_members", "arrays", "_taken",
    )  # fmt: skip
    """Attributes that compiled functions read and write at each call."""

    def __init__(self, params: Params, options: dict[str, Any]) -> None:
        self._begin(params, options)

    def _begin(self, params: Params, options: dict[str, Any]) -> None:
        self._name = type(self).__name__
        self.defaults: dict[str, Any] = self.checked(options)
        self.parameters: list[agrad.Tensor] = []
        self.steps: int = 0
        self.parts: list[Part] = []
        self.numbers: list[list[Any]] = []
        """Numeric options of each group that may change, by name."""
        self.choices: list[Any] = []  # the other options of each group
        self.places: tuple[int, ...] = ()  # the number of the group of each parameter
        self._complex: tuple[bool, ...] = ()
        self._counts: list[int] = []
        self._members: list[Choice] = []
        """Indices of the parameters of each step count."""
        self.arrays: list[tuple[Any, ...]] = []
        self._taken: list[Any] = []
        """int32 array with the counts on the device, if steps can be skipped."""
        groups = given_groups(params, self._name)
        if not groups:
            raise ConfigurationError(f"{self._name}: parameters must not be empty")
        for group in groups:
            self.add_param_group(group)

    # ------------------------------------------------------------------ the formula

    @classmethod
    def slots_of(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the state arrays per parameter for these options.

        Parameters
        ----------
        options : mapping of str to object
            Options of a group.

        Returns
        -------
        tuple of str
        """
        return cls.slots

    @classmethod
    def initial(cls, p: Any, slots: tuple[str, ...], options: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the initial state of a parameter, by default zeros.

        Parameters
        ----------
        p : array
            Parameter as a plain array.
        slots : tuple of str
            Names of the arrays.
        options : mapping of str to object
            Options of its group, with ``lr`` as a number.

        Returns
        -------
        tuple of array
        """
        return tuple([agrad.zeros_like(p) for _ in slots])

    @classmethod
    def update(
        cls, p: Any, g: Any, arrays: tuple[Any, ...], count: Any, donate: bool | None, **options: Any
    ) -> tuple[Any, ...]:
        """Return the updated parameter and its updated state.

        Parameters
        ----------
        p, g : array
            Parameter and its gradient, of the same shape and dtype.
        arrays : tuple of array
            State, an array for each name in ``slots``.
        count : int or array
            Step number of the parameter, from 1: an int, or an array of shape () if steps can be skipped, because then
            only the device knows the number.
        donate : bool or None
            True if the arrays may be overwritten, None if the operations are recorded for differentiation.
        **options : object
            Options of the group, with ``lr`` as a number.

        Returns
        -------
        tuple of array
            Updated parameter, then its state.
        """
        return by_parts(cls._formula, p, g, arrays, count, options)

    @staticmethod
    def _formula(xp: Any, p: Any, g: Any, arrays: Any, count: Any, **options: Any) -> tuple[Any, ...]:
        """Return the updated real parameter and state, computed in a namespace."""
        raise ConfigurationError("Optimizer does not define an update. Use a subclass in agrad.optim, such as Adam.")

    @classmethod
    def checked(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options as they are used: numbers as floats, flags as Booleans.

        Parameters
        ----------
        options : mapping of str to object
            All options by name.

        Returns
        -------
        dict of str to object
        """
        what, found = cls.__name__, dict(options)
        for name, check in cls.checks.items():
            found[name] = check(what, name, options[name], cls.bounds.get(name))
        return found

    @classmethod
    def transform(cls, **options: Any) -> Transform:
        """Return the optimizer as pure functions of parameters, gradients and state.

        Parameters
        ----------
        **options : object
            Options of the class by name. ``lr`` cannot be a schedule.

        Returns
        -------
        Transform
            Object with ``init(params)`` and ``update(grads, state, params)``.

        Examples
        --------
        >>> step = agrad.optim.Adam.transform(lr=0.1)
        >>> params, grads = {"w": np.array([1.0, 2.0])}, {"w": np.array([2.0, -4.0])}
        >>> params, state = step.update(grads, step.init(params), params)
        >>> params["w"].round(4)
        array([0.9, 2.1])
        """
        try:
            bound = inspect.signature(cls).bind((), **options)
        except TypeError as error:
            raise ConfigurationError(f"{cls.__name__}.transform: {error}") from None
        bound.apply_defaults()
        _, *names = bound.arguments
        return Transform(cls, cls.checked({name: bound.arguments[name] for name in names}))

    # ------------------------------------------------------------------ groups and rates

    @property
    def param_groups(self) -> list[Group]:
        """Options of each parameter group, to read and to set."""
        return [Group(self, k) for k in range(len(self.parts))]

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add a parameter group.

        Parameters
        ----------
        param_group : mapping of str to object
            ``params``, and options that differ from the options of the optimizer.

        Examples
        --------
        >>> w, b = agrad.nn.Parameter(np.ones(2)), agrad.nn.Parameter(np.zeros(1))
        >>> optimizer = agrad.optim.SGD([w], lr=0.1)
        >>> optimizer.add_param_group({"params": [b], "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        what = f"{self._name}, group {len(self.parts)}" if self.parts else self._name
        if "params" not in param_group:
            raise ConfigurationError(f"{what}: a group must have the key 'params', got {list(param_group)}")
        params, names = without_names(param_group["params"], what)
        tensors = leaves(params, what)
        own = {id(tensor): i for i, tensor in enumerate(self.parameters)}
        for i, tensor in enumerate(tensors):
            if id(tensor) in own:
                raise ConfigurationError(
                    f"{what}: parameter {i} is already in another group, as parameter {own[id(tensor)]}. Pass it once."
                )
        rest = {name: value for name, value in param_group.items() if name != "params"}
        options = self.checked({**self.defaults, **{n: v for n, v in rest.items() if n in self.defaults}})
        extra = {name: value for name, value in rest.items() if name not in self.defaults}
        if names is not None:
            extra["param_names"] = names
        rate = options.pop("lr")
        part = Part(tensors, options, extra)
        part.schedule = rate if callable(rate) else None
        part.slots = self.slots_of(options)
        self.numbers = [*self.numbers, [0.0 if callable(rate) else rate]]
        self.choices = [*self.choices, part.choice()]
        self.parts = [*self.parts, part]
        self.parameters += tensors
        self.places += (len(self.parts) - 1,) * len(tensors)
        self._complex += tuple([tensor.dtype.kind == "complex floating" for tensor in tensors])
        self.arrays = [*self.arrays, *[()] * len(tensors)]
        self._set_counts(*grouped([*self._steps_taken(), *[0] * len(tensors)]))

    def indices(self, k: int) -> list[int]:
        """Return the indices of the parameters of a group.

        Parameters
        ----------
        k : int
            Index of the group.

        Returns
        -------
        list of int
        """
        return [i for i, place in enumerate(self.places) if place == k]

    @property
    def rate(self) -> float:
        """Learning rate of the next step as a number, if all groups agree."""
        rates = [self.settings(k)["lr"] for k in range(len(self.parts))]
        if any(rate != rates[0] for rate in rates[1:]):
            raise ConfigurationError(f"{self._name}: the groups have different learning rates: {rates!r}")
        return rates[0]

    def settings(self, k: int) -> dict[str, Any]:
        """Return the options of a group for the next step, with ``lr`` as a number.

        Parameters
        ----------
        k : int
            Index of the group.

        Returns
        -------
        dict of str to object
        """
        part = self.parts[k]
        options = part.options | dict(zip(part.names, self.numbers[k], strict=True))
        if part.schedule is not None:
            options["lr"] = host_call(self._scheduled, part.schedule, self.steps)
        return options

    def _scheduled(self, schedule: Callable[[int], float], steps: int) -> float:
        return number(self._name, f"lr at step {steps}", schedule(steps))

    # ------------------------------------------------------------------ the step

    def before_trace(self) -> None:
        """Create all state, so that the first trace can be used for later steps."""
        counts = each(self._members, self._counts)
        for k, part in enumerate(self.parts):
            options = self.settings(k)
            for i in self.indices(k):
                # the state of a parameter before its first step is created again: options may have changed
                if not self.arrays[i] or not counts[i]:
                    self.arrays[i] = self.initial(self.parameters[i].data, part.slots, options)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set ``.grad`` of all parameters to None, or to zeros.

        Parameters
        ----------
        set_to_none : bool
            False to replace existing gradients with zeros.

        Examples
        --------
        >>> w = agrad.nn.Parameter(np.ones(2))
        >>> (w * w).sum().backward()
        >>> agrad.optim.SGD([w]).zero_grad()
        >>> w.grad is None
        True
        """
        for tensor in self.parameters:
            if set_to_none:
                tensor.grad = None
            elif tensor.grad is not None:
                tensor.grad = agrad.zeros_like(tensor.grad.detach())

    @overload
    def step(self, closure: None = None, *, where: Any = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], Loss], *, where: Any = None) -> Loss: ...
    def step(self, closure: Callable[[], Any] | None = None, *, where: Any = None) -> Any:
        """Update each parameter that has a gradient.

        Parameters
        ----------
        closure : function or None
            Function without arguments that computes the gradients and returns the loss. It is called first.
        where : array or None
            Plain Boolean array of shape (), which is not read back. If it is False, the step is skipped, and only
            schedules count it.

        Returns
        -------
        object
            Loss that ``closure`` returned, or None.

        Raises
        ------
        MixedBackendsError, DtypeError
            If the backend or dtype of a gradient or of the state differs from the parameter. Nothing is changed then.

        Examples
        --------
        >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
        >>> (w * w).sum().backward()
        >>> agrad.optim.SGD([w], lr=0.25).step()
        >>> w.detach()
        Tensor([0.5, 1.0], dtype=float64, backend=numpy, device=cpu)
        """
        loss = None if closure is None else agrad.enable_grad()(closure)()
        mark_state_used(self)
        ready = self._ready()
        parts, places = self.parts, self.places
        settings = list(map(self.settings, range(len(parts))))
        masked = where is not None or bool(self._taken)
        own_first = masked and donatable(self.parameters[0])
        if len(ready) < len(self.parameters):
            members, before = split(self._members, {i for i, _, _ in ready})
            if len(members) > len(self._members):
                self._set_counts(members, [self._counts[k] for k in before], before)
        counts: Any = self._counts
        if masked:
            self.count_on_device()
            (counts,) = self._taken
            where = on_device_of(self.parameters[0], np.array(True)) if where is None else where
        following, stepped = [counts[k] + 1 for k in range(len(self._members))], set()
        place = each(self._members, range(len(following))) if len(following) > 1 else [0] * len(self.parameters)
        with jointly(None if masked else self.update, self.parameters[0]):
            for i, tensor, g in ready:
                own = donatable(tensor)  # before a variable here references the array
                p, part, options = tensor.data, parts[places[i]], settings[places[i]]
                # kernels treat options as constants, and support no condition
                recorded = masked or (part.names != ("lr",) and isinstance(p, agrad.Tensor))
                g = agrad.conj(g) if self._complex[i] else g
                if masked:
                    # a skipped step is also computed, from zeros, which raise no warnings
                    g = agrad.where(where, g, agrad.zeros_like(g))
                old = self.arrays[i] or (self.initial(p, part.slots, options) if part.slots else ())
                new, *state = self.update(p, g, old, following[place[i]], None if recorded else own, **options)
                if masked:
                    new, *state = [renew_p(where, *x, donate=own) for x in zip((p, *old), (new, *state), strict=True)]
                self.arrays[i] = tuple(state)
                stepped.add(place[i])
                if new is not p:
                    tensor.assign(new)
        for k in stepped:
            self._counts[k] += 1
        if masked:
            taken = np.array([k in stepped for k in range(len(following))], np.int32)
            new = counts + on_device_of(self.parameters[0], taken)
            self._taken = [renew_p(where, counts, new, donate=own_first)]  # nothing else references this array
        self.steps += 1
        return loss

    def compute(self, *tensors: agrad.Tensor) -> None:
        """Compute the parameters and the state on a lazy backend, such as Dask.

        Call it after each step of a loop on Dask arrays, whose graph grows with every step. `Trainer` calls it.

        Parameters
        ----------
        *tensors : Tensor
            Tensors to compute in the same pass, in place, such as the loss and the buffers of a model.

        Examples
        --------
        >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.array([1.0, 2.0]))], lr=0.25)
        >>> optimizer.compute()
        >>> optimizer.parameters[0].detach()
        Tensor([1.0, 2.0], dtype=float64, backend=numpy, device=cpu)
        """
        backend, held = backend_of(self.parameters[0].raw), [*self.parameters, *tensors]
        if backend.lazy:
            made = [tensor.data for tensor in held] + [x for slots in self.arrays for x in slots] + self._taken
            kept = iter(backend.computed(made))
            for tensor in held:
                tensor.assign(next(kept))
            self.arrays, self._taken = [tuple([next(kept) for _ in slots]) for slots in self.arrays], [*kept]

    def count_on_device(self) -> None:
        """Count the steps of each parameter on its device, if steps can be skipped."""
        if not self._taken:
            self._taken = [on_device_of(self.parameters[0], np.array(self._counts, np.int32))]

    def _set_counts(self, members: list[Choice], counts: list[int], before: Sequence[int] | None = None) -> None:
        """Set the counts. before: the index of each count on the device, None to use the host counts."""
        self._members, self._counts, taken, self._taken = members, counts, self._taken, []
        if taken and before is not None:
            index = on_device_of(self.parameters[0], np.array(before, np.int64))
            self._taken = [agrad.take(taken[0], index, axis=0)]
        elif taken:
            self.count_on_device()

    def _ready(self) -> list[tuple[int, agrad.Tensor, Any]]:
        """Return the indices and gradient arrays of the parameters that have a gradient."""
        ready = []
        for i, tensor in enumerate(self.parameters):
            grad = tensor.grad
            if grad is None:
                continue
            kind, dtype = type(tensor.data), tensor.data.dtype
            raw = grad.data if type(grad) is agrad.Tensor else grad.bare
            if type(raw) is not kind or raw.dtype != dtype:
                refuse_other(self._name, i, tensor, "gradient", raw)
            ready.append((i, tensor, raw))
            if arrays := self.arrays[i]:
                raw = arrays[0]
                if type(raw) is not kind or raw.dtype != dtype:
                    refuse_other(self._name, i, tensor, "state", raw)
        return ready

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the state as NumPy arrays by name, to resume a run.

        Returns
        -------
        dict of str to numpy.ndarray
            ``steps``; ``lr`` if it is a number; and for the i-th parameter, after its first step, ``i.step`` and its
            arrays (``i.m``, ``i.v``). Other options have names like ``groups.0.momentum``. ``class``, ``groups``,
            ``dtypes``, ``i.shape`` and ``i.name`` are compared when the state is loaded. Strings are arrays of bytes.

        Examples
        --------
        >>> state = agrad.optim.SGD([agrad.nn.Parameter(np.ones(2))], momentum=0.9).state_dict()
        >>> state["groups.0.momentum"], state["0.shape"]
        (array(0.9), array([2]))
        """
        return saved_state(self, self._steps_taken())

    def _steps_taken(self) -> list[int]:
        """Return the steps of each parameter."""
        return each(self._members, agrad.asarray(self._taken[0]).numpy().tolist() if self._taken else self._counts)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the state of an optimizer with equal parameters.

        Class, names, shapes, dtypes and flags must be equal. Numeric options are loaded, except a rate that is a
        schedule. An option that is missing in a file of an older version is unchanged.

        Parameters
        ----------
        state : mapping of str to array
            Arrays that ``state_dict`` returned, on any backend.

        Raises
        ------
        ConfigurationError, DataError
            If the state does not fit. The message lists the differences, and the optimizer is unchanged.

        Examples
        --------
        >>> w = agrad.nn.Parameter(np.ones(2))
        >>> first, second = agrad.optim.Adam([w], lr=0.1), agrad.optim.Adam([w], lr=0.2)
        >>> second.load_state_dict(first.state_dict())
        >>> second.param_groups[0]["lr"]
        0.1
        """
        self.steps, counts, arrays, options = checked_state(self, state)
        self.arrays = [() for _ in arrays]  # the numbers may require another state than before
        for group, now in zip(self.param_groups, options, strict=True):
            group.update({n: v for n, v in now.items() if group[n] != v and not callable(group[n])})
        self.arrays = arrays
        self._set_counts(*grouped(counts))

    def __repr__(self) -> str:
        if len(self.parts) > 1:
            return f"{self._name}({', '.join(map(repr, self.param_groups))})"
        (group,) = self.param_groups
        given = {name: group[name] for name in self.defaults}
        text = ", ".join(f"{name}={value!r}" for name, value in given.items() if name == "lr" or value)
        return f"{self._name}({len(self.parameters)} parameters, {text})"
