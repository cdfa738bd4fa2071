"""Optimizers, learning rate schedules and gradient clipping."""

from agrad.optim.algorithms import SGD, Adam, AdamW
from agrad.optim.optimizer import Optimizer, clip_grad_norm
from agrad.optim.schedules import Constant, Cosine, Exponential, Step, Warmup

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Constant",
    "Cosine",
    "Exponential",
    "Optimizer",
    "Step",
    "Warmup",
    "clip_grad_norm",
]
