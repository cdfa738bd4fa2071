"""Schedulers with PyTorch's names, which set an optimizer's rates step by step."""

from agrad.optim.lr_scheduler.base import LRScheduler
from agrad.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from agrad.optim.lr_scheduler.cyclic import CyclicLR, OneCycleLR
from agrad.optim.lr_scheduler.factors import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from agrad.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
