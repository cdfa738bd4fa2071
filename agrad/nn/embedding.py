"""Embedding: a learnt table of rows."""

from typing import Any

from agrad.errors import ConfigurationError
from agrad.nn import functional, init
from agrad.nn.functional.convolution import numbers
from agrad.nn.module import Module
from agrad.nn.seeding import Rng


class Embedding(Module):
    """The function ``functional.embedding`` with a learnt table.

    ``weight`` has the shape (num_embeddings, embedding_dim) and starts normal, with mean 0 and variance 1; the row
    ``padding_idx`` starts at 0.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        The rows of the table, and their length.
    padding_idx : int, optional
        A row that is not trained; a negative one counts from the end.
    rng : agrad.random.Generator, numpy.random.Generator or None
        The source of initial values, by default the generator that ``nn.manual_seed`` starts.
    dtype : dtype or None
        The dtype of the table, by default float32.
    backend : str or None
        Its backend, by default the selected one.
    device : device or None
        Its device, by default that of the backend.

    Raises
    ------
    ConfigurationError
        For lengths below 1, or a ``padding_idx`` that names no row.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        rng: Rng = None,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        (self.num_embeddings,) = numbers("Embedding", "num_embeddings", num_embeddings, 1, 1)
        (self.embedding_dim,) = numbers("Embedding", "embedding_dim", embedding_dim, 1, 1)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ConfigurationError(f"Embedding: padding_idx is one of {num_embeddings} rows, not {padding_idx}")
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        values = init.normal((self.num_embeddings, self.embedding_dim), 1.0, rng)
        if self.padding_idx is not None:
            values[self.padding_idx] = 0
        self.weight = init.parameter(values, dtype=dtype, backend=backend, device=device)

    def forward(self, x: Any, /) -> Any:
        """Return the rows that ``x`` names.

        Parameters
        ----------
        x : array
            Array of any shape and an integer dtype.

        Returns
        -------
        array
            Array of shape (..., embedding_dim).
        """
        return functional.embedding(x, self.weight, self.padding_idx)

    def settings(self) -> str:
        more = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{more}"
