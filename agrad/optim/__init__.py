"""Optimizers, learning rate schedules, gradient clipping and loss scaling."""

from agrad.optim.algorithms import SGD, Adam, AdamW
from agrad.optim.optimizer import Optimizer, clip_grad_norm
from agrad.optim.scaling import LossScale
from agrad.optim.schedules import Constant, Cosine, Exponential, Step, Warmup

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Constant",
    "Cosine",
    "Exponential",
    "LossScale",
    "Optimizer",
    "Step",
    "Warmup",
    "clip_grad_norm",
]
