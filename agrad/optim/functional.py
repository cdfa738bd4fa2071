"""Optimizers as pure functions of parameters, gradients and state."""

from typing import TYPE_CHECKING, Any

import agrad
from agrad import tree
from agrad.errors import ConfigurationError, DtypeError, OperandError, ShapeError
from agrad.optim.checks import number

if TYPE_CHECKING:
    from agrad.optim.optimizer import Optimizer


class Transform:
    """Optimizer as pure functions, created by the ``transform`` method.

    ::

        step = optim.Adam.transform(lr=0.1)
        state = step.init(params)
        params, state = step.update(grads, state, params)

    Parameters, gradients and state are pytrees of arrays, which are never modified. You can compile, vectorize and
    differentiate the functions, with respect to parameters, gradients, state and ``lr``.

    Parameters
    ----------
    kind : type
        Class of an optimizer.
    options : dict of str to object
        Checked options of the optimizer.

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
                f"{kind.__name__}.transform: lr must be a number. Pass the rate of a schedule at each step: "
                "update(grads, state, params, lr=schedule(n))."
            )
        self.kind: type[Optimizer] = kind
        self.options: dict[str, Any] = options
        self.slots: tuple[str, ...] = kind.slots_of(options)

    def init(self, params: Any) -> dict[str, Any]:
        """Return the state before the first step.

        Parameters
        ----------
        params : array or pytree
            Parameters.

        Returns
        -------
        dict of str to object
            ``count``, an int32 array of shape (1,) with the number of steps taken, and a pytree like ``params`` for
            each array that the optimizer keeps per parameter.

        Examples
        --------
        >>> state = agrad.optim.Adam.transform(lr=0.1).init({"w": np.zeros(2)})
        >>> sorted(state), state["count"]
        (['count', 'm', 'v'], array([0], dtype=int32))
        """
        what = f"{self.kind.__name__}.transform"
        leaves, structure = tree.flatten(params)
        if not leaves:
            raise ConfigurationError(f"{what}: params must not be empty")
        for i, p in enumerate(leaves):
            if not hasattr(p, "dtype"):
                raise OperandError(f"{what}: parameter {i} must be an array, got {type(p).__name__}")
            if not agrad.isdtype(p.dtype, ("real floating", "complex floating")):
                raise DtypeError(f"{what}: parameter {i} must be floating-point, got {p.dtype}. Cast it first.")
        made = [self.kind.initial(p, self.slots, self.options) for p in leaves]
        state = {slot: tree.unflatten(structure, [arrays[j] for arrays in made]) for j, slot in enumerate(self.slots)}
        # of shape (1,), because NumPy returns scalars of another type for arrays of shape ()
        zero = agrad.reshape(agrad.sum(agrad.zeros_like(agrad.real(leaves[0]))), (1,))
        return {"count": agrad.astype(zero, agrad.int32), **state}

    def update(self, grads: Any, state: dict[str, Any], params: Any, lr: Any = None) -> tuple[Any, dict[str, Any]]:
        """Return the parameters and the state after a step.

        Parameters
        ----------
        grads : array or pytree
            Gradients with the structure of ``params``, as ``agrad.grad`` returns them.
        state : dict of str to object
            State from ``init`` or from the previous step.
        params : array or pytree
            Parameters.
        lr : float, array or None
            Learning rate of this step. By default, the rate of the transform.

        Returns
        -------
        tuple
            New parameters and state.

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
            raise OperandError(f"{what}: a state must have {', '.join(['count', *self.slots])}, got {', '.join(found)}")
        leaves, structure = tree.flatten(params)
        given = self._like("grads", grads, structure)
        slots = [self._like(slot, state[slot], structure) for slot in self.slots]
        options = self.options if lr is None else {**self.options, "lr": self._rate(lr)}
        count = state["count"] + 1
        number_of_step = agrad.reshape(count, ())
        made = []
        for i, (p, g) in enumerate(zip(leaves, given, strict=True)):
            if g.shape != p.shape:
                raise ShapeError(f"{what}: gradient {i} must have shape {tuple(p.shape)}, got {tuple(g.shape)}")
            if g.dtype != p.dtype:
                raise DtypeError(f"{what}: gradient {i} must have the dtype of its parameter, {p.dtype}, got {g.dtype}")
            if agrad.isdtype(p.dtype, "complex floating"):
                g = agrad.conj(g)
            made.append(self.kind.update(p, g, tuple([s[i] for s in slots]), number_of_step, None, **options))
        new, *arrays = (tree.unflatten(structure, list(column)) for column in zip(*made, strict=True))
        return new, {"count": count, **dict(zip(self.slots, arrays, strict=True))}

    def _rate(self, lr: Any) -> Any:
        return lr if hasattr(lr, "shape") else number(f"{self.kind.__name__}.transform", "lr", lr)

    def _like(self, name: str, value: Any, structure: Any) -> list[Any]:
        """Return the leaves of a pytree, checked to have the structure of the parameters."""
        leaves, found = tree.flatten(value)
        if found != structure:
            raise OperandError(
                f"{self.kind.__name__}.transform: {name} must have the structure of the parameters, {structure}, got "
                f"{found}"
            )
        return leaves

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.options.items() if name == "lr" or value)
        return f"{self.kind.__name__}.transform({shown})"
