"""The position of a training run, saved with a model to resume from."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from agrad.errors import DataError


@dataclass
class Progress:
    """The finished epochs and steps, and the finished steps of this epoch (`batch`)."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    loss: float = 0.0
    """The sum of the losses of the examples seen in this epoch."""
    sums: dict[str, list[Any]] = field(default_factory=dict)
    """By the name of a metric its sums over these examples: numbers, or nested lists of numbers."""
    seen: int = 0
    """The number of examples seen in this epoch."""
    seconds: float = 0.0
    """The time of all training steps, in all parts of the run."""
    rate: float = 0.0
    """Learning rate of the last step of this epoch, after that step; 0 in files of older versions."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """One record for each finished epoch."""

    def begin_epoch(self) -> None:
        """Forget the sums over the examples of an epoch."""
        self.batch = self.seen = 0
        self.loss, self.sums = 0.0, {}

    def fits(self, batches: int, size: int) -> bool:
        """Return True if the numbers agree for epochs of ``batches`` steps."""
        return (
            self.batch < batches
            and self.step == self.epoch * batches + self.batch
            and self.seen == self.batch * size
            and bool(self.sums) <= bool(self.seen)
        )

    def as_metadata(self) -> dict[str, Any]:
        """Return the position as a JSON object."""
        return asdict(self)


def from_metadata(saved: Any, path: str) -> Progress:
    """Return the position of a saved run. Raises ``DataError`` for other content."""
    kinds = {entry.name: entry.type for entry in fields(Progress)}
    good = isinstance(saved, dict) and {"rate", *saved} == set(kinds)
    if good:
        saved = {"rate": 0.0, **saved}
        for name, kind in kinds.items():
            value = saved[name]
            if kind == "int":
                good &= type(value) is int and value >= 0
            elif kind == "float":
                good &= type(value) is float and math.isfinite(value)
            elif name == "sums":
                good &= isinstance(value, dict) and all(map(_are_sums, value.values()))
            else:
                good &= isinstance(value, list) and all(
                    _is_record(number, record) for number, record in enumerate(value, 1)
                )
    if not good or len(saved["history"]) != saved["epoch"]:
        raise DataError(f"{path!r}: expected the progress of the run in the header, found {str(saved)[:80]}")
    return Progress(**saved)


def _are_sums(value: Any) -> bool:
    """Return True for a list of finite numbers, or of arrays of them as lists."""
    try:
        return isinstance(value, list) and all(np.isfinite(np.asarray(x, np.float64)).all() for x in value)
    except (TypeError, ValueError):
        return False


def _is_record(number: int, record: Any) -> bool:
    """Return True for the record of an epoch of that number."""
    if not isinstance(record, dict) or record.get("event") != "epoch" or record.get("epoch") != number:
        return False
    return all(type(value) in (int, float) for name, value in record.items() if name != "event")
