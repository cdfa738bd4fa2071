"""Optimizers, learning rates, clipping, loss scaling and averages of weights."""

from agrad.faces import list_names as _list_names
from agrad.optim import lr_scheduler as lr_scheduler
from agrad.optim import swa_utils as swa_utils
from agrad.optim.adam import *
from agrad.optim.adaptive import *
from agrad.optim.clipping import *
from agrad.optim.functional import Transform as Transform
from agrad.optim.lbfgs import LBFGS as LBFGS
from agrad.optim.optimizer import Optimizer as Optimizer
from agrad.optim.scaling import LossScale as LossScale
from agrad.optim.schedules import *
from agrad.optim.sgd import *

_list_names(globals(), "lr_scheduler", "swa_utils")
