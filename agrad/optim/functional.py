"""Optimizers as pure functions of parameters, gradients and state."""

from typing import TYPE_CHECKING, Any

import agrad
from agrad import tree
from agrad.errors import ConfigurationError, DtypeError, OperandError, ShapeError
from agrad.optim.checks import number

if TYPE_CHECKING:
    from agrad.optim.optimizer import Optimizer


class Transform:
    """An optimizer as pure functions, made by ``transform`` of its class.

    ::

        step = optim.Adam.transform(lr=0.1)
        state = step.init(params)
        params, state = step.update(grads, state, params)

    Parameters, gradients and state are nested containers of arrays. Nothing is written to. The functions can be
    jitted, mapped, and differentiated by parameters, gradients, state and ``lr``.

    Parameters
    ----------
    kind : type
        A class of optimizers.
    options : dict of str to object
        Its checked options.

    Raises
    ------
    ConfigurationError
        If ``lr`` is a schedule.

    Examples
    --------
    >>> step = agrad.optim.SGD.transform(lr=0.1)
    >>> params = {"w": np.array([1.0, 2.0])}
    >>> gradient = agrad.grad(lambda p: (p["w"] ** 2).sum())(params)
    >>> params, state = step.update(gradient, step.init(params), params)
    >>> isinstance(step, agrad.optim.Transform), params
    (True, {'w': array([0.8, 1.6])})
    """

    def __init__(self, kind: "type[Optimizer]", options: dict[str, Any]) -> None:
        if callable(options["lr"]):
            raise ConfigurationError(
                f"{kind.__name__}.transform: lr is a number; give the rate of a schedule at each step, "
                "update(grads, state, params, lr=schedule(n))"
            )
        self.kind, self.options = kind, options
        self.slots: tuple[str, ...] = kind.slots_of(options)

    def init(self, params: Any) -> dict[str, Any]:
        """Return the state before the first step.

        Parameters
        ----------
        params : array or nested container
            The parameters.

        Returns
        -------
        dict of str to object
            ``count``, an int32 array (1,) with the steps taken, and for each array that the optimizer keeps for a
            parameter a container like ``params``.

        Raises
        ------
        ConfigurationError
            If there are no parameters.
        DtypeError
            If a parameter is not floating.

        Examples
        --------
        >>> state = agrad.optim.Adam.transform(lr=0.1).init({"w": np.zeros(2)})
        >>> sorted(state), state["count"]
        (['count', 'm', 'v'], array([0], dtype=int32))
        """
        what = f"{self.kind.__name__}.transform"
        leaves, structure = tree.flatten(params)
        if not leaves:
            raise ConfigurationError(f"{what}: init was given no parameters")
        for i, p in enumerate(leaves):
            if not hasattr(p, "dtype"):
                raise OperandError(f"{what}: parameter {i} is a {type(p).__name__}, not an array")
            if not agrad.isdtype(p.dtype, ("real floating", "complex floating")):
                raise DtypeError(f"{what}: parameter {i} has dtype {p.dtype}, which has no derivative; cast it")
        made = [self.kind.initial(p, self.slots, self.options) for p in leaves]
        state = {slot: tree.unflatten(structure, [arrays[j] for arrays in made]) for j, slot in enumerate(self.slots)}
        # of shape (1,), because NumPy returns scalars of another type for arrays of shape ()
        zero = agrad.reshape(agrad.sum(agrad.zeros_like(agrad.real(leaves[0]))), (1,))
        return {"count": agrad.astype(zero, agrad.int32), **state}

    def update(self, grads: Any, state: dict[str, Any], params: Any, lr: Any = None) -> tuple[Any, dict[str, Any]]:
        """Return the parameters and the state after a step.

        Parameters
        ----------
        grads : array or nested container
            The gradients, as ``agrad.grad`` gives them: like ``params``.
        state : dict of str to object
            The state of ``init`` or of the step before.
        params : array or nested container
            The parameters.
        lr : float, array or None
            The rate of this step, by default that of the transform.

        Returns
        -------
        tuple
            (params, state): the new ones.

        Raises
        ------
        OperandError, ShapeError, DtypeError
            If gradients or state do not fit the parameters.
        ConfigurationError
            If ``lr`` is a number below 0.

        Examples
        --------
        >>> step = agrad.optim.SGD.transform(lr=0.1)
        >>> params = {"w": np.array([1.0, 2.0])}
        >>> step.update({"w": np.array([10.0, 0.0])}, step.init(params), params)[0]
        {'w': array([0., 2.])}
        """
        what = f"{self.kind.__name__}.transform"
        found = list(state) if isinstance(state, dict) else [type(state).__name__]
        if set(found) != {"count", *self.slots}:
            raise OperandError(f"{what}: a state has {', '.join(['count', *self.slots])}, found {', '.join(found)}")
        leaves, structure = tree.flatten(params)
        given = self._like("grads", grads, structure)
        slots = [self._like(slot, state[slot], structure) for slot in self.slots]
        options = self.options if lr is None else {**self.options, "lr": self._rate(lr)}
        count = state["count"] + 1
        number_of_step = agrad.reshape(count, ())
        made = []
        for i, (p, g) in enumerate(zip(leaves, given, strict=True)):
            if g.shape != p.shape:
                raise ShapeError(f"{what}: gradient {i} has shape {tuple(g.shape)}, the parameter {tuple(p.shape)}")
            if g.dtype != p.dtype:
                raise DtypeError(f"{what}: gradient {i} has dtype {g.dtype}, the parameter {p.dtype}")
            if agrad.isdtype(p.dtype, "complex floating"):
                g = agrad.conj(g)
            made.append(self.kind.update(p, g, tuple([s[i] for s in slots]), number_of_step, None, **options))
        new, *arrays = (tree.unflatten(structure, list(column)) for column in zip(*made, strict=True))
        return new, {"count": count, **dict(zip(self.slots, arrays, strict=True))}

    def _rate(self, lr: Any) -> Any:
        return lr if hasattr(lr, "shape") else number(f"{self.kind.__name__}.transform", "lr", lr)

    def _like(self, name: str, value: Any, structure: Any) -> list[Any]:
        """Return the leaves of a container, which has the structure of the parameters."""
        leaves, found = tree.flatten(value)
        if found != structure:
            raise OperandError(
                f"{self.kind.__name__}.transform: {name} has the structure {found}, the parameters {structure}"
            )
        return leaves

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.options.items() if name == "lr" or value)
        return f"{self.kind.__name__}.transform({shown})"
