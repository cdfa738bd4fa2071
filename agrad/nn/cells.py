"""Cells of recurrent networks, which compute one step each."""

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import agrad
from agrad.errors import ShapeError
from agrad.expect import numbers, one_of
from agrad.nn import functional, init
from agrad.nn.module import Module
from agrad.nn.seeding import Rng

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]

State = tuple[Any, ...]
Step = Callable[[Any, State, Callable[[Any], Any]], State]
"""From the products of the input, a state, and the function of the products of a hidden state, to the next state."""


def tanh_step(given: Any, state: State, products: Callable[[Any], Any]) -> State:
    return (agrad.tanh(given + products(state[0])),)


def relu_step(given: Any, state: State, products: Callable[[Any], Any]) -> State:
    return (agrad.relu(given + products(state[0])),)


def lstm_step(given: Any, state: State, products: Callable[[Any], Any]) -> State:
    hidden, cell = state
    gates = given + products(hidden)
    n = cell.shape[-1]
    kept = agrad.sigmoid(gates[..., : 2 * n])
    cell = kept[..., n:] * cell + kept[..., :n] * agrad.tanh(gates[..., 2 * n : 3 * n])
    return agrad.sigmoid(gates[..., 3 * n :]) * agrad.tanh(cell), cell


def gru_step(given: Any, state: State, products: Callable[[Any], Any]) -> State:
    (hidden,) = state
    further = products(hidden)
    n = hidden.shape[-1]
    gates = agrad.sigmoid(given[..., : 2 * n] + further[..., : 2 * n])
    new = agrad.tanh(given[..., 2 * n :] + gates[..., :n] * further[..., 2 * n :])
    return (new + gates[..., n:] * agrad.subtract(hidden, new),)


NONLINEARITIES: dict[str, Step] = {"tanh": tanh_step, "relu": relu_step}


def products_of(weight: Any, bias: Any) -> Callable[[Any], Any]:
    """Return the function ``h @ weight.T + bias``."""
    turned = agrad.permute_dims(weight, (1, 0))
    if bias is None:
        return lambda h: agrad.matmul(h, turned)
    return lambda h: agrad.linear(h, turned, bias)


class _Cell(Module):
    """Base class of recurrent cells.

    Parameters
    ----------
    input_size, hidden_size : int
        Lengths of the last axis of the input and of the state.
    bias : bool
        False for no bias.
    """

    bias_ih: agrad.Tensor | Any
    bias_hh: agrad.Tensor | Any

    gates: ClassVar[int]
    states: ClassVar[int] = 1
    _step: Step

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        rng: Rng = None,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        name, place = type(self).__name__, {"dtype": dtype, "backend": backend, "device": device}
        (self.input_size,) = numbers(name, "input_size", input_size, 1, 1)
        (self.hidden_size,) = numbers(name, "hidden_size", hidden_size, 1, 1)
        rows, bound = self.gates * self.hidden_size, 1 / math.sqrt(self.hidden_size)

        def drawn(*shape: int) -> agrad.Tensor:
            return init.parameter(init.uniform(shape, bound, rng), **place)

        self.weight_ih, self.weight_hh = drawn(rows, self.input_size), drawn(rows, self.hidden_size)
        self.bias_ih, self.bias_hh = (drawn(rows), drawn(rows)) if bias else (None, None)

    def _next(self, x: Any, state: State | None) -> State:
        if len(x.shape) not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: x must have shape (n, {self.input_size}) or ({self.input_size},), got "
                f"{tuple(x.shape)}"
            )
        given = functional.linear(x, self.weight_ih, self.bias_ih)
        shape = (*x.shape[:-1], self.hidden_size)
        if state is None:
            state = (agrad.zeros_like(given[..., : self.hidden_size]),) * self.states
        checked_state(type(self).__name__, state, [shape] * self.states)
        return self._step(given, state, products_of(self.weight_hh, self.bias_hh))

    def forward(self, input: Any, hx: Any = None) -> agrad.Tensor:
        """Return the next state.

        Parameters
        ----------
        input : array of shape (n, input_size) or (input_size,)
        hx : array of shape (n, hidden_size) or (hidden_size,), optional
            State. By default, zeros.

        Returns
        -------
        array of shape (n, hidden_size) or (hidden_size,)
        """
        return self._next(input, None if hx is None else (hx,))[0]

    def settings(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + (", bias=False" if self.bias_ih is None else "")


def checked_state(name: str, state: State, shapes: list[tuple[int, ...]]) -> State:
    """Return a state, or raise ``ShapeError`` if its shapes differ from ``shapes``."""
    found = [tuple(getattr(part, "shape", ())) for part in state]
    if found != shapes:
        raise ShapeError(f"{name}: the state must have shape {' and '.join(map(str, shapes))}, got {found}")
    return state


class RNNCell(_Cell):
    """Elman RNN cell, one step of a recurrent network.

    The new state is ``tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)``, or the same with ReLU.
    ``weight_ih`` has the shape (hidden_size, input_size), ``weight_hh`` (hidden_size, hidden_size), and the biases
    (hidden_size,), as in PyTorch. Initial values are uniform between -1 / sqrt(hidden_size) and 1 / sqrt(hidden_size).

    Parameters
    ----------
    nonlinearity : "tanh" or "relu"
        Activation function.

    Examples
    --------
    >>> agrad.nn.RNNCell(3, 5)(np.ones((2, 3))).shape
    (2, 5)
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        *,
        rng: Rng = None,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        self._step = NONLINEARITIES[one_of("RNNCell", "nonlinearity", nonlinearity, NONLINEARITIES)]
        super().__init__(input_size, hidden_size, bias, rng=rng, dtype=dtype, backend=backend, device=device)


class LSTMCell(_Cell):
    """LSTM cell, one step of a long short-term memory network.

    The parameters are the same as in ``RNNCell``, with 4 * hidden_size rows. As in PyTorch, the rows are ordered: input
    gate, forget gate, cell, output gate.

    Notes
    -----
    S. Hochreiter and J. Schmidhuber (1997), Neural Computation 9; with the forget gate of F. Gers, J. Schmidhuber and
    F. Cummins (2000), Neural Computation 12.

    Examples
    --------
    >>> h, c = agrad.nn.LSTMCell(3, 5)(np.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 5), (2, 5))
    """

    gates = 4
    states = 2
    _step = staticmethod(lstm_step)

    def forward(self, input: Any, hx: tuple[Any, Any] | None = None) -> tuple[agrad.Tensor, agrad.Tensor]:
        """Return the next hidden state and cell.

        Parameters
        ----------
        input : array of shape (n, input_size) or (input_size,)
        hx : tuple of two arrays of shape (n, hidden_size) or (hidden_size,), optional
            Hidden state and cell. By default, zeros.

        Returns
        -------
        tuple of two arrays of shape (n, hidden_size) or (hidden_size,)
        """
        hidden, cell = self._next(input, None if hx is None else tuple(hx))
        return hidden, cell


class GRUCell(_Cell):
    """GRU cell, one step of a network with gated recurrent units.

    The parameters are the same as in ``RNNCell``, with 3 * hidden_size rows. As in PyTorch, the rows are ordered: reset
    gate, update gate, new state, and the reset gate follows the product. Reference: K. Cho et al. (2014),
    arXiv:1406.1078.

    Examples
    --------
    >>> cell, state = agrad.nn.GRUCell(3, 5), None
    >>> for step in np.ones((7, 2, 3)):
    ...     state = cell(step, state)
    >>> state.shape
    (2, 5)
    """

    gates = 3
    _step = staticmethod(gru_step)
