"""Recurrent networks with the PyTorch names and parameters."""

import math
from typing import Any, ClassVar, Literal

import numpy as np

import agrad
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.expect import numbers, one_of
from agrad.nn import functional, init
from agrad.nn.cells import NONLINEARITIES, State, Step, checked_state, gru_step, lstm_step, products_of
from agrad.nn.dropout import Dropout
from agrad.nn.functional.real import places
from agrad.nn.module import Module
from agrad.nn.seeding import Rng

__all__ = ["GRU", "LSTM", "RNN"]


class _Recurrent(Module):
    """Base class of recurrent networks.

    Parameters
    ----------
    input_size, hidden_size : int
        Lengths of the last axis of the input and of the state.
    num_layers : int
        Number of layers. Each layer processes the outputs of the previous one.
    bias : bool
        False for no bias.
    batch_first : bool
        True for inputs and outputs of shape (n, l, ...), False for (l, n, ...).
    dropout : float
        Probability of zeroing an element between layers in training.
    bidirectional : bool
        True to add a reverse direction, from the last step to the first. Its outputs are concatenated after the forward
        outputs.
    """

    gates: ClassVar[int]
    _step: Step
    proj_size: int = 0

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        rng: Rng = None,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        name, place = type(self).__name__, {"dtype": dtype, "backend": backend, "device": device}
        self.input_size: int = numbers(name, "input_size", input_size, 1, 1)[0]
        self.hidden_size: int = numbers(name, "hidden_size", hidden_size, 1, 1)[0]
        self.num_layers: int = numbers(name, "num_layers", num_layers, 1, 1)[0]
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        self.dropout = Dropout(dropout, rng) if dropout else None
        rows, bound = self.gates * self.hidden_size, 1 / math.sqrt(self.hidden_size)
        for layer in range(self.num_layers):
            width = self.input_size if layer == 0 else len(self._directions()) * self._width()
            for suffix in self._directions():
                shapes = {"weight_ih": (rows, width), "weight_hh": (rows, self._width())}
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
                shapes |= {"weight_hr": (self.proj_size, self.hidden_size)} if self.proj_size else {}
                for what, shape in shapes.items():
                    drawn = init.parameter(init.uniform(shape, bound, rng), **place)
                    setattr(self, f"{what}_l{layer}{suffix}", drawn)

    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def _width(self) -> int:
        """Return the length of a hidden state."""
        return self.proj_size or self.hidden_size

    def _all_steps(self, x: Any, hx: State | None, lengths: Any) -> tuple[Any, State]:
        """Return the outputs of all steps and the last states of all layers and directions."""
        shape = tuple(x.shape)
        turned = self.batch_first and len(shape) == 3
        if len(shape) not in (2, 3) or shape[-1] != self.input_size or not shape[turned]:
            form = ("n, l" if self.batch_first else "l, n") + f", {self.input_size}"
            raise ShapeError(
                f"{type(self).__name__}: x must have shape ({form}) with l of at least 1, or without n, got {shape}"
            )
        if turned:
            x = agrad.moveaxis(x, 0, 1)
        inside = None if lengths is None else self._inside(x, lengths)
        if inside is not None:
            x = agrad.where(inside, x, 0.0)  # a NaN past an end would reach the weights' derivatives
        hx = None if hx is None else self._checked(x, hx)
        last: list[State] = []
        for layer in range(self.num_layers):
            x = x if layer == 0 or self.dropout is None else self.dropout(x)
            rows = []
            for suffix in self._directions():
                state = None if hx is None else tuple(part[len(last), ...] for part in hx)
                out, state = self._direction(x, state, f"l{layer}{suffix}", inside)
                rows.append(out)
                last.append(state)
            x = rows[0] if len(rows) == 1 else agrad.concat(rows, axis=-1)
        return agrad.moveaxis(x, 0, 1) if turned else x, tuple(agrad.stack(parts) for parts in zip(*last, strict=True))

    def _checked(self, x: Any, hx: State) -> State:
        count = self.num_layers * len(self._directions())
        shapes = [(count, *x.shape[1:-1], width) for width in self._widths()]
        return checked_state(type(self).__name__, hx, shapes)

    def _inside(self, x: Any, lengths: Any) -> Any:
        """Return a mask of the steps inside their sequences, of shape (l, n, 1)."""
        name, (count, *batch, _) = type(self).__name__, x.shape
        shape = tuple(getattr(lengths, "shape", ()))
        if len(batch) != 1 or shape != tuple(batch):
            raise ShapeError(
                f"{name}: lengths must be an array of shape {tuple(batch)}, one integer for each sequence of a batch, "
                f"got {shape}"
            )
        if not agrad.isdtype(lengths.dtype, "integral"):
            raise DtypeError(f"{name}: lengths must be integers, got {lengths.dtype}")
        raw = lengths.data if isinstance(lengths, agrad.Tensor) else lengths
        if isinstance(raw, np.ndarray) and raw.size and not 1 <= raw.min() <= raw.max() <= count:
            raise ConfigurationError(f"{name}: lengths must be from 1 to {count}, got {raw.min()} to {raw.max()}")
        at = agrad.expand_dims(places(count, lengths), axis=-1)
        return agrad.expand_dims(agrad.less(at, lengths), axis=-1)

    def _direction(self, x: Any, state: State | None, suffix: str, inside: Any) -> tuple[Any, State]:
        """Return the outputs and the last state of one direction of a layer."""
        weight_ih, weight_hh, bias_ih, bias_hh, weight_hr = (
            getattr(self, f"{what}_{suffix}", None)
            for what in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        )
        given = functional.linear(x, weight_ih, bias_ih)
        if state is None:
            state = tuple(agrad.zeros_like(given[0, ..., :width]) for width in self._widths())
        products = products_of(weight_hh, bias_hh)
        projected = None if weight_hr is None else products_of(weight_hr, None)

        def step(state: State, now: tuple[Any, Any]) -> tuple[State, Any]:
            row, within = now
            new = self._step(row, state, products)
            if projected is not None:
                new = (projected(new[0]), *new[1:])
            if within is None:
                return new, new[0]
            out = agrad.where(within, new[0], 0.0)
            return tuple(agrad.where(within, a, b) for a, b in zip(new, state, strict=True)), out

        state, rows = agrad.scan(step, state, (given, inside), reverse=suffix.endswith("reverse"))
        return rows, state

    def _widths(self) -> tuple[int, ...]:
        """Return the lengths of the parts of a state."""
        return (self.hidden_size,)

    def forward(self, input: Any, hx: Any = None, *, lengths: Any = None) -> tuple[agrad.Tensor, agrad.Tensor]:
        """Return the outputs of all steps and the last states.

        Parameters
        ----------
        input : array
            Array of shape (l, n, input_size), with ``batch_first`` (n, l, input_size), or (l, input_size).
        hx : array of shape (num_layers * directions, n, hidden_size), optional
            Initial states. By default, zeros.
        lengths : array of integers of shape (n,), optional
            Lengths of the sequences, in any order. Steps after the end of a sequence do not change its state, and their
            outputs are 0.

        Returns
        -------
        tuple
            Outputs of shape (l, n, directions * hidden_size), with the axes ordered as in the input, and the last
            states in the shape of ``hx``.
        """
        out, (hidden,) = self._all_steps(input, None if hx is None else (hx,), lengths)
        return out, hidden

    def settings(self) -> str:
        shown = [f"{self.input_size}, {self.hidden_size}"]
        plain = {"num_layers": 1, "bias": True, "batch_first": False, "bidirectional": False, "proj_size": 0}
        shown += [f"{name}={getattr(self, name)}" for name, usual in plain.items() if getattr(self, name) != usual]
        return ", ".join(shown)


class RNN(_Recurrent):
    """Elman recurrent network.

    Each step computes ``tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)``, or the same with ReLU.

    Layer k has the parameters ``weight_ih_l{k}`` of shape (hidden_size, width), ``weight_hh_l{k}`` of shape
    (hidden_size, hidden_size), and ``bias_ih_l{k}`` and ``bias_hh_l{k}`` of shape (hidden_size,). The width is
    ``input_size`` in the first layer, and the length of the outputs in the others. Parameters of the reverse direction
    end with ``_reverse``. Names and layout are the same as in PyTorch. Initial values are uniform between -1 /
    sqrt(hidden_size) and 1 / sqrt(hidden_size).

    Parameters
    ----------
    nonlinearity : "tanh" or "relu"
        Activation function.

    Examples
    --------
    >>> y, last = agrad.nn.RNN(3, 5, batch_first=True)(np.ones((2, 7, 3)))
    >>> y.shape, last.shape
    ((2, 7, 5), (1, 2, 5))
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        rng: Rng = None,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        self._step = NONLINEARITIES[one_of("RNN", "nonlinearity", nonlinearity, NONLINEARITIES)]
        place = {"dtype": dtype, "backend": backend, "device": device}
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, rng=rng, **place
        )


class LSTM(_Recurrent):
    """Long short-term memory (LSTM) network.

    The parameters have the names of ``RNN``, and 4 * hidden_size rows in the order input gate, forget gate, cell,
    output gate. With ``proj_size``, each layer also has ``weight_hr_l{k}`` of shape (proj_size, hidden_size), and
    hidden states have this length.

    Parameters
    ----------
    proj_size : int
        Length to which hidden states are projected. 0 for no projection.

    Notes
    -----
    S. Hochreiter and J. Schmidhuber (1997), Neural Computation 9; with the forget gate of F. Gers, J. Schmidhuber and
    F. Cummins (2000), Neural Computation 12. Projections: H. Sak, A. Senior and F. Beaufays (2014), arXiv:1402.1128.

    Examples
    --------
    >>> y, (h, c) = agrad.nn.LSTM(3, 5, bidirectional=True)(np.ones((7, 2, 3)))
    >>> y.shape, h.shape, c.shape
    ((7, 2, 10), (2, 2, 5), (2, 2, 5))
    """

    gates = 4
    _step = staticmethod(lstm_step)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        rng: Rng = None,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        self.proj_size: int = numbers("LSTM", "proj_size", proj_size, 1, 0)[0]
        if self.proj_size >= hidden_size:
            raise ConfigurationError(f"LSTM: proj_size must be less than hidden_size={hidden_size}, got {proj_size}")
        place = {"dtype": dtype, "backend": backend, "device": device}
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, rng=rng, **place
        )

    def _widths(self) -> tuple[int, ...]:
        return (self._width(), self.hidden_size)

    def forward(
        self, input: Any, hx: tuple[Any, Any] | None = None, *, lengths: Any = None
    ) -> tuple[agrad.Tensor, tuple[agrad.Tensor, agrad.Tensor]]:
        """Return the outputs of all steps and the last hidden states and cells.

        Parameters
        ----------
        input : array
            Array of shape (l, n, input_size), with ``batch_first`` (n, l, input_size), or (l, input_size).
        hx : tuple of two arrays, optional
            Initial hidden states of shape (num_layers * directions, n, proj_size or hidden_size), and cells of shape
            (num_layers * directions, n, hidden_size). By default, zeros.
        lengths : array, optional
            Same as for ``RNN``.

        Returns
        -------
        tuple
            Outputs of shape (l, n, directions * length of a hidden state), with the axes ordered as in the input, and
            the pair of the last hidden states and cells in the shapes of ``hx``.
        """
        out, (hidden, cell) = self._all_steps(input, None if hx is None else tuple(hx), lengths)
        return out, (hidden, cell)


class GRU(_Recurrent):
    """Network of gated recurrent units (GRU).

    The parameters have the names of ``RNN``, and 3 * hidden_size rows in the order reset gate, update gate, new state.
    As in PyTorch, the reset gate follows the product. Reference: K. Cho et al. (2014), arXiv:1406.1078.

    Examples
    --------
    >>> y, last = agrad.nn.GRU(3, 5, num_layers=2)(np.ones((7, 2, 3)))
    >>> y.shape, last.shape
    ((7, 2, 5), (2, 2, 5))
    """

    gates = 3
    _step = staticmethod(gru_step)
