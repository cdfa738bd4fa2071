"""Distances and angles between vectors as modules."""

from agrad.nn import functional
from agrad.nn.function_module import ArraysFunctionModule

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(ArraysFunctionModule, function=functional.cosine_similarity):
    """Cosine similarity, see ``functional.cosine_similarity``.

    Examples
    --------
    >>> agrad.nn.CosineSimilarity()(np.array([[3.0, 4.0]]), np.array([[4.0, 3.0]])).round(4)
    array([0.96])
    """

    dim: int = 1
    eps: float = 1e-8


class PairwiseDistance(ArraysFunctionModule, function=functional.pairwise_distance):
    """Distance between vectors, see ``functional.pairwise_distance``.

    Examples
    --------
    >>> agrad.nn.PairwiseDistance()(np.array([[3.0, 4.0]]), np.zeros((1, 2))).round(4)
    array([5.])
    """

    p: float = 2.0
    eps: float = 1e-6
    keepdim: bool = False
