"""Embedding layers."""

from typing import Any, Literal

import agrad
from agrad.errors import ConfigurationError
from agrad.expect import numbers
from agrad.nn import functional, init
from agrad.nn.module import Module
from agrad.nn.seeding import Rng

__all__ = ["Embedding", "EmbeddingBag"]


class Embedding(Module):
    """Learnable embedding table, see ``functional.embedding``.

    ``weight`` has the shape (num_embeddings, embedding_dim). Initial values are normal with mean 0 and variance 1, and
    0 in the row ``padding_idx``.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Number of rows of the table, and their length.
    padding_idx : int, optional
        Index of a row that is not trained, and that ``EmbeddingBag`` ignores. A negative index counts from the end.

    Examples
    --------
    >>> layer = agrad.nn.Embedding(10, 3)
    >>> layer(np.array([[1, 2], [4, 4]])).shape
    (2, 2, 3)
    >>> layer(np.array([4, 4])).sum().backward()
    >>> layer.weight.grad[3:5]
    Tensor([[0.0, 0.0, 0.0],
            [2.0, 2.0, 2.0]], dtype=float32, backend=numpy, device=cpu)
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
        self.num_embeddings: int = numbers("Embedding", "num_embeddings", num_embeddings, 1, 1)[0]
        self.embedding_dim: int = numbers("Embedding", "embedding_dim", embedding_dim, 1, 1)[0]
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ConfigurationError(f"Embedding: padding_idx must be one of {num_embeddings} rows, got {padding_idx}")
        self.padding_idx: int | None = None if padding_idx is None else padding_idx % num_embeddings
        values = init.normal((self.num_embeddings, self.embedding_dim), 1.0, rng)
        if self.padding_idx is not None:
            values[self.padding_idx] = 0
        self.weight: agrad.Tensor = init.parameter(values, dtype=dtype, backend=backend, device=device)

    def forward(self, x: Any, /) -> agrad.Tensor:
        """Return rows of shape (..., embedding_dim) for integers of shape (...)."""
        return functional.embedding(x, self.weight, self.padding_idx)

    def settings(self) -> str:
        more = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{more}"


class EmbeddingBag(Embedding):
    """Embedding table with reduced bags of rows, see ``functional.embedding_bag``.

    The table is the same as in ``Embedding``.

    Parameters
    ----------
    mode, include_last_offset
        Options of ``functional.embedding_bag``.

    Examples
    --------
    >>> agrad.nn.EmbeddingBag(10, 3, mode="sum")(np.array([1, 2, 4, 4]), np.array([0, 2])).shape
    (2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        mode: Literal["mean", "sum", "max"] = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        rng: Rng = None,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        place = {"dtype": dtype, "backend": backend, "device": device}
        super().__init__(num_embeddings, embedding_dim, padding_idx, rng=rng, **place)
        self.mode: str = mode
        self.include_last_offset: bool = include_last_offset

    def forward(self, x: Any, offsets: Any = None, per_sample_weights: Any = None, /) -> agrad.Tensor:
        """Return the reduced bags of the rows with the indices ``x``.

        Parameters
        ----------
        x, offsets, per_sample_weights
            Row indices, starts of the bags and factors of the rows, as for ``functional.embedding_bag``.

        Returns
        -------
        array of shape (bags, embedding_dim)
        """
        return functional.embedding_bag(
            x,
            self.weight,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def settings(self) -> str:
        return f"{super().settings()}, mode={self.mode!r}"
