"""The training step on several ranks, by the mean of their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import agrad
from agrad import tree
from agrad.backends import load
from agrad.backends.base import DeviceSpec
from agrad.train.loop import Sums
from agrad.train.step import JITTED, Step, called, check_loss, parts_of, raw
from agrad.train.streaming import Metric

if TYPE_CHECKING:
    from agrad.train.trainer import Trainer


class Summed(Metric):
    """A metric whose parts are the sums over the examples of all ranks."""

    def __init__(self, metric: Metric) -> None:
        self.metric: Metric = metric
        self.parts: int = 0

    def terms(self, parts: Sequence[np.ndarray], sizes: np.ndarray) -> list[np.ndarray]:
        return [*parts]

    def result(self, sums: Sequence[np.ndarray]) -> float:
        return self.metric.result(sums)

    def of(self, parts: Iterator[Any], rows: int) -> list[np.ndarray]:
        """Return the sums over the examples of this rank, from the parts of the metric."""
        columns = [next(parts) for _ in range(self.metric.parts)]
        found = [term[0] for term in self.metric.terms(columns, np.asarray([rows], np.float64))]
        self.parts = len(found)
        return found


class RankStep:
    """A step of all ranks.

    The message contains gradients, buffers, loss and metrics, and whether this rank must stop. A rank without rows
    computes the rows of rank 0 with weight zero. ``weights``: class weights by label.
    """

    def __init__(
        self, trainer: Trainer, loss: Callable[..., Any], weights: Mapping[int, float] | None, jit: bool | None
    ) -> None:
        self.trainer: Trainer = trainer
        self.weights: Mapping[int, float] | None = weights
        self.metrics: dict[str, Summed] = {name: Summed(metric) for name, metric in trainer.streaming.items()}
        self.sums: Sums = Sums(self.metrics, DeviceSpec(load("numpy"), None))  # type: ignore[arg-type]
        self.adds: bool = getattr(loss, "reduction", "mean") == "sum"
        self.stopped: Callable[[], bool] = lambda: False
        self.halted: bool = False
        """True on all ranks if one was asked to stop before the last step."""
        model, optimizer, scale = trainer.model, trainer.optimizer, trainer.scale
        streaming = list(trainer.streaming.values())

        def local(x: Any, y: Any) -> tuple[Any, list[Any], list[Any]]:
            output = called(model, x)
            value = loss(output, y)
            check_loss(value)
            (value if scale is None else scale(value)).backward()
            gradients = [None if p.grad is None else p.grad.detach() for p in optimizer.parameters]
            optimizer.zero_grad()
            return value.detach(), parts_of(streaming, output, y), gradients

        def update(gradients: list[Any]) -> None:
            for p, g in zip(optimizer.parameters, gradients, strict=True):
                p.grad = None if g is None else agrad.asarray(g)
            (optimizer if scale is None else scale).step()
            optimizer.zero_grad()

        self._local = Step(local, trainer.place, jit, trainer.precision)
        traced = trainer.place.backend.name in JITTED if jit is None else jit
        self._update = agrad.jit(update) if traced else update

    def __call__(self, x: Any, y: Any, size: int) -> tuple[Any, list[Any]]:
        """Take a step with the rows of this rank, of a batch of ``size`` examples."""
        trainer, progress = self.trainer, self.trainer.progress
        trainer.world.note(epoch=progress.epoch + 1, step=progress.step + len(self.sums.sizes) + 1)
        loss, parts, gradients = self._local(x, y)
        has_rows = size > trainer.world.rank
        count = float(has_rows) if self.adds else has_rows * self._count(y)
        there = [g is not None for g in gradients]
        columns = iter([self._host(part).astype(np.float64)[None] for part in parts])
        rows = int(tree.leaves(x)[0].shape[0])
        terms = [term for metric in self.metrics.values() for term in metric.of(columns, rows)]
        numbers = [np.asarray([count, *there], np.float64), self._host(loss).astype(np.float64) * count, *terms]
        buffers = [*trainer.model.buffers()]
        held = zip([*trainer.optimizer.parameters, *buffers], [*gradients, *buffers], strict=True)
        wide = [_wide(self._host(p if g is None else g)) * (0 if g is None else count) for p, g in held]
        sent = [a if has_rows else np.zeros_like(a) for a in (*numbers, *wide)]
        (stop,), (total, *found), value, *others = trainer.world.sum([np.asarray([self.stopped()], np.float64), *sent])
        self.halted = bool(stop)
        terms, wide = others[: len(terms)], others[len(terms) :]
        means = [a / (1.0 if self.adds else total) for a in wide[: len(found)]]
        pairs = zip(trainer.optimizer.parameters, means, found, strict=True)
        self._update([self._placed(a, p) if has else None for p, a, has in pairs])
        for b, a in zip(buffers, wide[len(found) :], strict=True):
            b.assign(self._placed(a / total, b))
        return value / (1.0 if self.adds else total), terms

    def _count(self, y: Any) -> float:
        """Return the number of examples of targets, or the sum of their weights."""
        if self.weights is None:
            return float(tree.leaves(y)[0].shape[0])
        found, counts = np.unique(self._host(y), return_counts=True)
        return float(sum(self.weights[int(c)] * n for c, n in zip(found, counts, strict=True)))

    def _host(self, x: Any) -> np.ndarray:
        return np.asarray(self.trainer.place.backend.to_host(raw(x)))

    def _placed(self, a: np.ndarray, like: Any) -> Any:
        """Return a host array as an array of the model, like one of its arrays."""
        exact = agrad.isdtype(like.dtype, ("real floating", "complex floating"))
        place = self.trainer.place
        return place.backend.from_host((a if exact else np.rint(a)).astype(like.dtype.name), place.device)


def _wide(a: np.ndarray) -> np.ndarray:
    """Return numbers in a dtype in which MPI adds them."""
    return a if a.dtype.char in "fdFD" else a.astype(np.float32 if a.dtype.itemsize == 2 else np.float64)
