"""``numerical_rule``: central differences as the derivative of any function."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agrad.backends import backend_of
from agrad.dtypes import dtype_name, is_complex
from agrad.engine.calls import lift_all
from agrad.engine.namespaces import namespace_of
from agrad.engine.tensor import raw_of
from agrad.errors import ConfigurationError, NotDifferentiableError
from agrad.transforms.arguments import check_function, paired
from agrad.transforms.calling import Back, Rules, Values, call, differentiable, tensors_where_given
from agrad.transforms.trees import flatten_all, unflatten


def numerical_rule(f: Callable[..., Any], step: float | None = None) -> Callable[..., Any]:
    """Return ``f`` with central finite differences as its derivative.

    Use it for code that agrad cannot differentiate. Forward mode calls ``f`` twice for each tangent, and reverse mode
    twice for each element of the arguments. First derivatives have about two thirds of the digits of the dtype, and
    second derivatives at most one third. ``vmap`` calls ``f`` once for each batch element.

    Parameters
    ----------
    f : callable
        Function of pytrees of plain real arrays that returns such a pytree. It can call any library.
    step : float, optional
        Step of the differences, relative to the larger of 1 and the magnitude of the element. By default, the cube root
        of the machine epsilon of the dtype.

    Returns
    -------
    callable
        Function with the signature of ``f``.

    Raises
    ------
    OperandError, ConfigurationError
        If ``f`` is not callable, or ``step`` is not positive and finite.
    NotDifferentiableError
        If you differentiate with respect to a complex argument.

    See Also
    --------
    agrad.custom_vjp : Define the derivative by a rule.
    agrad.testing.check_grads : Compare derivatives with finite differences.

    Examples
    --------
    >>> import math
    >>> erf = agrad.numerical_rule(np.vectorize(math.erf))
    >>> round(float(agrad.grad(erf)(0.0)), 6)
    1.128379
    """
    check_function("numerical_rule", f)
    if step is not None and not (isinstance(step, (int, float)) and 0 < step < math.inf):
        raise ConfigurationError(f"numerical_rule: step must be positive and finite, got {step!r}")

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
            raise NotDifferentiableError(
                f"{self.name}: arguments must be real, got {dtype_name(leaf.dtype)}. Pass the real and imaginary parts."
            )
        return self.step or float(np.finfo(dtype_name(leaf.dtype)).eps) ** (1 / 3)

    def _difference_quotient(self, leaves: Values, moves: dict[int, Any], width: float) -> list[Any]:
        """Return the difference of the outputs, divided by ``width``.

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
        return outs, self._difference_quotient(leaves, moves, 2 * h)

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        outs = call(self, leaves)

        def back(gs: list[Any]) -> list[Any]:
            found: list[Any] = [None] * len(leaves)
            for i in traced:
                leaf = leaves[i]
                derivatives = []
                for unit, size in _units(leaf):
                    h = self._relative(leaf) * size
                    moved = self._difference_quotient(leaves, {i: unit * h}, 2 * h)
                    derivatives.append(paired([quotient for quotient in moved if quotient is not None], gs))
                if derivatives:
                    xp = namespace_of(derivatives)
                    found[i] = xp.reshape(xp.stack(lift_all(derivatives)), tuple(leaf.shape))
            return found

        return outs, back


def _host(value: Any) -> np.ndarray:
    raw = raw_of(value)
    return np.asarray(backend_of(raw).to_host(raw))


def _size(value: Any) -> float:
    return float(np.max(np.abs(_host(value)), initial=0.0))


def _units(leaf: Any) -> Any:
    """Yield the unit array of each element, and the larger of 1 and its magnitude.

    For a mapped leaf it is the largest magnitude of all elements.
    """
    raw = raw_of(leaf)
    backend = backend_of(raw)
    host = _host(leaf)
    shape = tuple(leaf.shape)
    sizes = np.maximum(1.0, np.abs(host) if host.shape == shape else _size(leaf))
    sizes = np.broadcast_to(sizes, shape)
    for place in np.ndindex(*shape):
        unit = np.zeros(shape, host.dtype)
        unit[place] = 1
        yield lift_all([backend.from_host(unit, backend.device_of(raw)), leaf])[0], float(sizes[place])
