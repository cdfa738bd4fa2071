"""Distances by the names of ``scipy.spatial``."""

from agrad.scipy.spatial import distance

__all__ = ["distance"]
