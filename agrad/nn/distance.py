"""Distances and angles of vectors as modules."""

from agrad.nn import functional
from agrad.nn.function_module import ArraysFunctionModule


class CosineSimilarity(ArraysFunctionModule):
    """The function ``functional.cosine_similarity`` as a module.

    Parameters
    ----------
    dim : int
        The axis of the vectors.
    eps : float
        The least norm that is divided by.

    Examples
    --------
    >>> agrad.nn.CosineSimilarity()(np.array([[3.0, 4.0]]), np.array([[4.0, 3.0]])).round(4)
    array([0.96])
    """

    function = staticmethod(functional.cosine_similarity)

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        self.dim, self.eps = dim, eps


class PairwiseDistance(ArraysFunctionModule):
    """The function ``functional.pairwise_distance`` as a module.

    Parameters
    ----------
    p : float
        The order of the norm.
    eps : float
        A number that keeps equal vectors apart.
    keepdim : bool
        True to keep the axis with length one.

    Examples
    --------
    >>> agrad.nn.PairwiseDistance()(np.array([[3.0, 4.0]]), np.zeros((1, 2))).round(4)
    array([5.])
    """

    function = staticmethod(functional.pairwise_distance)

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        self.p, self.eps, self.keepdim = p, eps, keepdim
