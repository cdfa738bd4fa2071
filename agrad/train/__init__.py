"""Training: `Trainer` with `fit`, `evaluate` and `predict`, callbacks and metrics."""

from agrad.faces import list_names as _list_names
from agrad.train import callbacks as callbacks
from agrad.train import metrics as metrics
from agrad.train.callbacks import *
from agrad.train.history import History as History
from agrad.train.trainer import Trainer as Trainer

_list_names(globals(), "callbacks", "metrics")
