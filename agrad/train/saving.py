"""A run in one file: model, optimizer, loss scale, callbacks and position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import agrad
from agrad.data.files import StrPath
from agrad.errors import DataError
from agrad.nn import checkpoint
from agrad.nn.saving import MODEL, RUN, load_all
from agrad.train import progress as progresses

if TYPE_CHECKING:
    from agrad.train.trainer import Trainer

OPTIMIZER, SCALE, CALLBACKS = "optimizer.", "loss_scale.", "callbacks."


def places(trainer: Trainer) -> dict[str, Any]:
    """Return what has state, by the beginnings of the names of its arrays."""
    found: dict[str, Any] = {MODEL: trainer.model, OPTIMIZER: trainer.optimizer}
    if trainer.scale is not None:
        found[SCALE] = trainer.scale
    counts: dict[str, int] = {}
    for callback in trainer.callbacks:
        name = type(callback).__name__
        counts[name] = counts.get(name, 0) + 1
        found[f"{CALLBACKS}{name}.{counts[name]}."] = callback
    return found


def save(trainer: Trainer, path: StrPath, more: dict[str, Any]) -> None:
    """Write the state of a trainer to a file, or nothing. Raises ``SaveError``."""
    tensors = {
        prefix + name: np.asarray(value)
        for prefix, thing in places(trainer).items()
        for name, value in thing.state_dict().items()
    }
    metadata = {"format": RUN, "agrad": agrad.__version__, "progress": trainer.progress.as_metadata(), **more}
    checkpoint.save(path, tensors, metadata)


def load(trainer: Trainer, path: StrPath) -> dict[str, Any]:
    """Load a file of `save` into a trainer, and return its metadata.

    Raises ``DataError``; then nothing is changed.
    """
    tensors, metadata = checkpoint.load(path)
    if metadata.get("format") != RUN:
        raise DataError(
            f"{str(path)!r}: expected a run that Trainer.save wrote, found format {metadata.get('format')!r}"
        )
    progress = progresses.from_metadata(metadata.get("progress"), str(path))
    targets = places(trainer)
    states: dict[str, dict[str, np.ndarray]] = {prefix: {} for prefix in targets}
    for name, value in tensors.items():
        prefix = next((prefix for prefix in targets if name.startswith(prefix)), None)
        if prefix is None:
            raise DataError(f"{str(path)!r} contains {_lost(name)}. Create the trainer as in the saved run.")
        states[prefix][name.removeprefix(prefix)] = value
    load_all([(thing, states[prefix]) for prefix, thing in targets.items()], f"{str(path)!r} does not fit this trainer")
    trainer.progress = progress
    return metadata


def _lost(name: str) -> str:
    """Describe what the trainer lacks for an array of a file."""
    if name.startswith(CALLBACKS):
        return f"the state of the callback {name.split('.')[1]}, which this trainer has not"
    return "a loss scale, of precision='float16'" if name.startswith(SCALE) else f"{name}, which this trainer has not"
