"""Optimizers, learning rates, clipping, loss scaling and averages of weights."""

from agrad.optim import lr_scheduler, swa_utils
from agrad.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from agrad.optim.adaptive import Adadelta, Adagrad, Lion, RMSprop, Rprop
from agrad.optim.clipping import clip_grad_norm, clip_grad_value
from agrad.optim.functional import Transform
from agrad.optim.lbfgs import LBFGS
from agrad.optim.optimizer import Optimizer
from agrad.optim.scaling import LossScale
from agrad.optim.schedules import Constant, Cosine, Exponential, Step, Warmup
from agrad.optim.sgd import ASGD, SGD

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Constant",
    "Cosine",
    "Exponential",
    "Lion",
    "LossScale",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "Step",
    "Transform",
    "Warmup",
    "clip_grad_norm",
    "clip_grad_value",
    "lr_scheduler",
    "swa_utils",
]
