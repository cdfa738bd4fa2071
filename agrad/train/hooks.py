"""The base class of callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from agrad.train.history import Record

if TYPE_CHECKING:
    from agrad.train.trainer import Trainer


class Callback:
    """Base class of callbacks, whose methods a `Trainer` calls.

    By default, the methods do nothing. A record is a dictionary. Later callbacks and the history receive the entries
    that a callback adds to it. Callbacks with `saves = True` are called last, and first at the end of training.

    Examples
    --------
    >>> class Losses(agrad.train.Callback):
    ...     def on_epoch_end(self, trainer, record):
    ...         print(record["epoch"], record["loss"] < 5)
    >>> model = agrad.nn.Linear(1, 1)
    >>> optimizer = agrad.optim.SGD(model.parameters(), lr=0.1)
    >>> trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), optimizer, callbacks=[Losses()])
    >>> _ = trainer.fit(np.zeros((4, 1)), np.zeros((4, 1)), epochs=2, progress=False)
    1 True
    2 True
    """

    saves = False
    """True if the callback saves the run, and so must see it after the other ones."""

    first_rank_only = False
    """True if the callback prints or writes separate files. On several ranks, it is called only on rank 0."""

    def on_fit_begin(self, trainer: Trainer, record: Record) -> None:
        """Called at the start of training.

        Parameters
        ----------
        trainer : Trainer
            The trainer.
        record : dict
            `epochs` and `batches` (None if not known), the finished ones: `epoch`, `batch`, `step`; `resumed`, and more
            about the run.
        """

    def on_epoch_begin(self, trainer: Trainer) -> None:
        """Called at the start of an epoch, or of the rest of one in a resumed run.

        Parameters
        ----------
        trainer : Trainer
            The trainer.
        """

    def on_step_end(self, trainer: Trainer) -> None:
        """Called after a step, when its loss is still on the device.

        Parameters
        ----------
        trainer : Trainer
            The trainer.
        """

    def on_losses(self, trainer: Trainer, losses: np.ndarray, record: Record) -> None:
        """Called with the losses of the last steps, read from the device together.

        Parameters
        ----------
        trainer : Trainer
            The trainer.
        losses : numpy.ndarray
            The loss of each step, of shape (k,).
        record : dict
            `epoch`, `batch`, `step`, and loss, metrics and `samples_per_second` so far in the epoch.
        """

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        """Called after each epoch.

        Parameters
        ----------
        trainer : Trainer
            The trainer.
        record : dict
            The record that the history keeps.
        """

    def on_fit_end(self, trainer: Trainer, record: Record) -> None:
        """Called at the end of training, for any reason.

        Parameters
        ----------
        trainer : Trainer
            The trainer.
        record : dict
            `event` is ``"end"``, ``"interrupted"`` by a signal, ``"diverged"`` or ``"failed"`` by an error; and
            `epoch`, `step`, `seconds`, `samples_per_second`.
        """

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the state that a resumed run needs.

        Returns
        -------
        dict of str to numpy.ndarray
            Arrays by name.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Load a state of `state_dict`.

        Parameters
        ----------
        state : mapping of str to numpy.ndarray
            Arrays by name.
        """
