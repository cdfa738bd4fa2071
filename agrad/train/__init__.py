"""Training: `Trainer` with `fit`, `evaluate` and `predict`, callbacks and metrics."""

from agrad.train import callbacks, metrics
from agrad.train.callbacks import (
    Callback,
    Checkpoint,
    EarlyStopping,
    JSONLogger,
    LambdaCallback,
    LearningCurves,
    ProgressBar,
    Scheduler,
)
from agrad.train.history import History
from agrad.train.trainer import Trainer

__all__ = [
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "History",
    "JSONLogger",
    "LambdaCallback",
    "LearningCurves",
    "ProgressBar",
    "Scheduler",
    "Trainer",
    "callbacks",
    "metrics",
]
