"""Learning rate schedulers with the PyTorch names."""

from agrad.faces import list_names as _list_names
from agrad.optim.lr_scheduler.base import LRScheduler as LRScheduler
from agrad.optim.lr_scheduler.combined import *
from agrad.optim.lr_scheduler.cyclic import *
from agrad.optim.lr_scheduler.factors import *
from agrad.optim.lr_scheduler.plateau import ReduceLROnPlateau as ReduceLROnPlateau

_list_names(globals())
