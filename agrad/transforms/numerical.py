"""``numerical_rule``: central differences as the derivative of a black box."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agrad.backends import backend_of
from agrad.dtypes import dtype_name, is_complex
from agrad.engine.calls import lift_all
from agrad.engine.namespaces import namespace_of
from agrad.engine.tensor import Tensor
from agrad.errors import ConfigurationError, NotDifferentiableError
from agrad.transforms.arguments import check_function, paired
from agrad.transforms.calling import Back, Rules, Values, call, differentiable, tensors_where_given
from agrad.transforms.trees import flatten_all, unflatten


def numerical_rule(f: Callable[..., Any], step: float | None = None) -> Callable[..., Any]:
    """Return ``f`` as a black box with central differences for its derivative.

    Forward mode calls ``f`` twice a tangent, reverse mode twice an element of the arguments, which suits few elements.
    Second derivatives are differences of differences, with a third of the digits at best. ``vmap`` calls ``f`` once a
    member. ``agrad.graph`` shows it as numerical.

    Parameters
    ----------
    f : callable
        Takes and returns nested containers of raw real arrays, computed by any means.
    step : float, optional
        The distance by which an element is moved, relative to the greater of its size and 1. By default the cube root
        of the dtype's precision, which leaves about two thirds of its digits.

    Returns
    -------
    callable
        A function like ``f``.

    Raises
    ------
    OperandError, ConfigurationError
        For an ``f`` that is not callable, and a step that is not positive and finite.
    NotDifferentiableError
        Where a complex argument is differentiated.

    See Also
    --------
    agrad.custom_vjp : A rule written by hand.
    agrad.testing.check_grads : Compares derivatives with differences.

    Examples
    --------
    >>> import math
    >>> erf = agrad.numerical_rule(np.vectorize(math.erf))
    >>> round(float(agrad.grad(erf)(0.0)), 6)
    1.128379
    """
    check_function("numerical_rule", f)
    if step is not None and not (isinstance(step, (int, float)) and 0 < step < math.inf):
        raise ConfigurationError(f"numerical_rule: step is above 0 and finite, not {step!r}")

    @functools.wraps(f, updated=())
    def black_box(*args: Any) -> Any:
        leaves, spec = flatten_all(args)
        rules = _Differences(f, spec, step)
        out = tensors_where_given(call(rules, leaves), leaves)
        return unflatten(rules.out_spec, out)

    return black_box


class _Differences(Rules):
    """The rules of one call of a numerical function."""

    loop = True

    def __init__(self, f: Callable[..., Any], spec: Any, step: float | None) -> None:
        self.f, self.spec, self.step = f, spec, step
        self.name = f"numerical {getattr(f, '__name__', type(f).__name__)}"
        self.out_spec: Any = None

    def primal(self, leaves: Values) -> list[Any]:
        out, self.out_spec = flatten_all(self.f(*unflatten(self.spec, leaves)))
        return out

    def _relative(self, leaf: Any) -> float:
        if is_complex(leaf.dtype):
            raise NotDifferentiableError(f"{self.name} is for real arguments; give it the real and imaginary parts")
        return self.step or float(np.finfo(dtype_name(leaf.dtype)).eps) ** (1 / 3)

    def _slope(self, leaves: Values, moves: dict[int, Any], width: float) -> list[Any]:
        """Return the outputs' difference over ``width``.

        The leaves are moved up and down by ``moves``.
        """
        ends = []
        for sign in (1.0, -1.0):
            moved = list(leaves)
            for i, move in moves.items():
                leaf, move = lift_all([leaves[i], move])
                moved[i] = leaf + move * sign
            ends.append(lift_all(call(self, lift_all(moved))))
        return [(a - b) / width if differentiable(a) else None for a, b in zip(*ends, strict=True)]

    def forward(self, leaves: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
        outs = call(self, leaves)
        size = max([1.0, *(_size(leaves[i]) for i in traced)])
        length = max([_size(t) for t in tangents], default=0.0)
        h = max(self._relative(leaves[i]) for i in traced) * size / (length or 1.0)
        moves = {i: t * h for i, t in zip(traced, tangents, strict=True)}
        return outs, self._slope(leaves, moves, 2 * h)

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        outs = call(self, leaves)

        def back(gs: list[Any]) -> list[Any]:
            found: list[Any] = [None] * len(leaves)
            for i in traced:
                leaf = leaves[i]
                slopes = []
                for unit, size in _units(leaf):
                    h = self._relative(leaf) * size
                    moved = self._slope(leaves, {i: unit * h}, 2 * h)
                    slopes.append(paired([slope for slope in moved if slope is not None], gs))
                if slopes:
                    xp = namespace_of(slopes)
                    found[i] = xp.reshape(xp.stack(lift_all(slopes)), tuple(leaf.shape))
            return found

        return outs, back


def _host(value: Any) -> np.ndarray:
    raw = value.raw if isinstance(value, Tensor) else value
    return np.asarray(backend_of(raw).to_host(raw))


def _size(value: Any) -> float:
    return float(np.max(np.abs(_host(value)), initial=0.0))


def _units(leaf: Any) -> Any:
    """Yield each element's unit array, and the greater of its size and 1.

    For a mapped leaf it is the size of all elements.
    """
    raw = leaf.raw if isinstance(leaf, Tensor) else leaf
    backend = backend_of(raw)
    host = _host(leaf)
    shape = tuple(leaf.shape)
    sizes = np.maximum(1.0, np.abs(host) if host.shape == shape else _size(leaf))
    sizes = np.broadcast_to(sizes, shape)
    for place in np.ndindex(*shape):
        unit = np.zeros(shape, host.dtype)
        unit[place] = 1
        yield lift_all([backend.from_host(unit, backend.device_of(raw)), leaf])[0], float(sizes[place])
