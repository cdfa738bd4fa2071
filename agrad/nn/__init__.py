"""Neural networks: modules, layers, losses and initial values."""

from agrad.nn import init
from agrad.nn.layers import (
    GELU,
    Dropout,
    Flatten,
    Identity,
    Linear,
    LogSoftmax,
    ReLU,
    Sequential,
    Sigmoid,
    Softmax,
    Tanh,
)
from agrad.nn.losses import CrossEntropyLoss, MSELoss
from agrad.nn.module import Module
from agrad.nn.seeding import generator, manual_seed

__all__ = [
    "GELU",
    "CrossEntropyLoss",
    "Dropout",
    "Flatten",
    "Identity",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "Module",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "generator",
    "init",
    "manual_seed",
]
