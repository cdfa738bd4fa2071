"""Averages of the weights of a model over training steps."""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError, OperandError
from agrad.expect import one_of
from agrad.nn import BatchNorm1d, BatchNorm2d, BatchNorm3d
from agrad.nn.module import Module, on_device_of
from agrad.optim.checks import integer, share
from agrad.optim.lr_scheduler.base import LRScheduler, numbers_for_groups
from agrad.optim.optimizer import Optimizer
from agrad.optim.schedules import half_cosine

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip

Average = Callable[[Any, Any, Any], Any]
Averages = Callable[[Sequence[Any], Sequence[Any], Any], Sequence[Any]]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return an update function of an exponential moving average.

    Parameters
    ----------
    decay : float
        Decay rate of the average, from 0 to 1.

    Returns
    -------
    function
        Function from (average, value, number of values so far) to decay * average + (1 - decay) * value.

    Examples
    --------
    >>> agrad.optim.swa_utils.get_ema_avg_fn(decay=0.9)(np.array([1.0]), np.array([2.0]), 5)
    array([1.1])
    """
    share("get_ema_avg_fn", "decay", decay)
    return lambda average, value, count: average * decay + value * (1 - decay)


def get_swa_avg_fn() -> Average:
    """Return an update function of an equally weighted mean.

    Returns
    -------
    function
        Function from (mean, value, number of values so far) to the mean including the value.

    Examples
    --------
    >>> agrad.optim.swa_utils.get_swa_avg_fn()(np.array([1.0]), np.array([5.0]), 3)  # 5.0 is the fourth value
    array([2.])
    """

    def add(mean: Any, value: Any, count: Any) -> Any:
        more = count + 1
        return mean + (value - mean) / (more if isinstance(more, int) else agrad.astype(more, agrad.real(mean).dtype))

    return add


def _of_all(function: Average) -> Averages:
    return lambda averages, values, count: [function(a, v, count) for a, v in zip(averages, values, strict=True)]


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """Return ``get_ema_avg_fn`` for lists of averages and values.

    Parameters
    ----------
    decay : float
        Decay rate of the averages, from 0 to 1.

    Returns
    -------
    function

    Examples
    --------
    >>> agrad.optim.swa_utils.get_ema_multi_avg_fn(decay=0.9)([np.array([1.0])], [np.array([2.0])], 5)
    [array([1.1])]
    """
    return _of_all(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Averages:
    """Return ``get_swa_avg_fn`` for lists of means and values.

    Returns
    -------
    function

    Examples
    --------
    >>> agrad.optim.swa_utils.get_swa_multi_avg_fn()([np.array([1.0])], [np.array([5.0])], 3)
    [array([2.])]
    """
    return _of_all(get_swa_avg_fn())


class AveragedModel(Module):
    """Copy of a model with averaged parameters.

    ::

        averaged = optim.swa_utils.AveragedModel(model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.999))
        ...                                  # after each step, jitted or not:
        averaged.update_parameters(model)
        prediction = averaged(x)             # with the averages

    It is a Module, so you can save, load, move and evaluate it like any other.

    Reference: Izmailov et al. 2018, arXiv:1803.05407; Polyak and Juditsky 1992, SIAM Journal on Control and
    Optimization 30, 838.

    Parameters
    ----------
    model : Module
        Model to copy.
    device : str, device or None
        Device of the copy. By default, the device of the model.
    avg_fn : function or None
        Function from (average, value, number of values so far) to the new average. By default, the mean.
    multi_avg_fn : function or None
        The same function for lists of parameters. It returns the new averages.
    use_buffers : bool
        True to average floating-point buffers as well. Otherwise, buffers are copied from the model.

    Examples
    --------
    >>> model = agrad.nn.Linear(1, 1, bias=False, dtype=agrad.float64)
    >>> average = agrad.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = agrad.nn.init.constant_(model.weight, value)
    ...     average.update_parameters(model)
    >>> average(np.array([10.0])).detach()
    Tensor([30.0], dtype=float64, backend=numpy, device=cpu)
    """

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        if not isinstance(model, Module) or not model.parameters():
            raise OperandError(f"AveragedModel: model must be a Module with parameters, got {model!r}")
        if avg_fn is not None and multi_avg_fn is not None:
            raise ConfigurationError("AveragedModel: avg_fn and multi_avg_fn cannot be combined. Pass one of them.")
        self.module: Module = copy.deepcopy(model)
        self.module.zero_grad()
        if device is not None:
            self.module.to(device)
        self.multi_avg_fn: Averages = multi_avg_fn or _of_all(avg_fn or get_swa_avg_fn())
        self.use_buffers: bool = bool(use_buffers)
        first = self.module.parameters()[0]
        self.n_averaged = agrad.asarray(on_device_of(first, np.zeros(1, np.int64)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the copy with the averaged parameters."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Update the averages with the parameters of the model.

        The first call copies the parameters. Nothing is read back from a device.

        Parameters
        ----------
        model : Module
            Model that was copied, or one with the same structure.

        Examples
        --------
        >>> model = agrad.nn.Linear(1, 1)
        >>> average = agrad.optim.swa_utils.AveragedModel(model)
        >>> average.update_parameters(model)
        >>> int(average.n_averaged[0])
        1
        """
        mine, theirs = (dict(m.named_parameters() + m.named_buffers()) for m in (self.module, model))
        shapes = [{name: tensor.shape for name, tensor in found.items()} for found in (mine, theirs)]
        if shapes[0] != shapes[1]:
            wrong = [name for name in {**mine, **theirs} if shapes[0].get(name) != shapes[1].get(name)]
            raise OperandError(
                f"AveragedModel: model must match the averaged one, got differences in {', '.join(wrong[:5])}"
            )
        parameters = dict(self.module.named_parameters())
        with agrad.no_grad():
            count = agrad.reshape(self.n_averaged.detach(), ())
            values = {name: self._here(tensor, mine[name]) for name, tensor in theirs.items()}
            kinds = ("real floating", "complex floating")
            taken = [n for n, x in mine.items() if n in parameters or (self.use_buffers and x.dtype.kind in kinds)]
            averages = [mine[name].detach() for name in taken]
            new = self.multi_avg_fn(averages, [values[name] for name in taken], count)
            for name, average in zip(taken, new, strict=True):
                values[name] = agrad.where(count == 0, values[name], agrad.astype(average, mine[name].dtype))
            for name, tensor in mine.items():
                tensor.assign(values[name].bare)
            self.n_averaged.assign((self.n_averaged + 1).bare)

    @staticmethod
    def _here(tensor: agrad.Tensor, like: agrad.Tensor) -> agrad.Tensor:
        value = tensor.detach()
        return value if (value.backend, value.device) == (like.backend, like.device) else value.to(like.device)


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of batch normalization layers.

    Averaged weights have no running statistics, because they were not used in training.

    Parameters
    ----------
    loader : iterable
        Batches, each an array, or a tuple or list whose first element is the array.
    model : Module
        Model, which is called on each batch in training mode.
    device : str, device or None
        Device to which batches are moved.

    Examples
    --------
    >>> model = agrad.nn.BatchNorm1d(2)
    >>> agrad.optim.swa_utils.update_bn([np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0], [7.0, 8.0]])], model)
    >>> model.running_mean
    Tensor([4.0, 5.0], dtype=float32, backend=numpy, device=cpu)
    """
    kinds = (BatchNorm1d, BatchNorm2d, BatchNorm3d)
    found = [m for _, m in model.named_modules() if isinstance(m, kinds) and m.running_mean is not None]
    if not found:
        return
    modes = [(module, module.training) for _, module in model.named_modules()]
    momenta = [module.momentum for module in found]
    model.train()
    try:
        with agrad.no_grad():
            for n, batch in enumerate(loader):
                x = batch[0] if isinstance(batch, (list, tuple)) else batch
                for module in found:
                    module.momentum = 1 / (n + 1)  # the mean of all batches so far
                model(x if device is None else agrad.asarray(x).to(device))
    finally:
        for module, momentum in zip(found, momenta, strict=True):
            module.momentum = momentum
        for module, mode in modes:
            module.training = mode


class SWALR(LRScheduler):
    """Annealing of the rates to ``swa_lr``, which then remain constant.

    Parameters
    ----------
    swa_lr : float or list of float
        Final rate, or one for each group.
    anneal_epochs : int
        Number of steps to the final rate, at least 0.
    anneal_strategy : str
        ``"cos"`` for a cosine curve, ``"linear"`` for a linear change.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> scheduler = agrad.optim.swa_utils.SWALR(optimizer, swa_lr=0.1, anneal_epochs=2, anneal_strategy="linear")
    >>> for _ in range(5):
    ...     print(round(scheduler.get_last_lr()[0], 4), end=" ")
    ...     optimizer.step()
    ...     scheduler.step()
    1.0 0.55 0.1 0.1 0.1
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        self.swa_lrs: list[float] = numbers_for_groups("SWALR", "swa_lr", swa_lr, optimizer)
        self.anneal_epochs: int = integer("SWALR", "anneal_epochs", anneal_epochs, 0)
        self.anneal_strategy: Any = one_of("SWALR", "anneal_strategy", anneal_strategy, ("cos", "linear"))
        super().__init__(optimizer, last_epoch)

    def factor(self, n: int) -> float:
        """Return the remaining share of the change to ``swa_lr`` after ``n`` steps."""
        passed = min(1.0, n / self.anneal_epochs) if self.anneal_epochs else 1.0
        return half_cosine(passed) if self.anneal_strategy == "cos" else 1 - passed

    def closed(self) -> list[float]:
        left = self.factor(self.last_epoch)
        return [swa + (base - swa) * left for base, swa in zip(self.base_lrs, self.swa_lrs, strict=True)]

    def get_lr(self) -> list[float]:
        now, before = self.factor(self.last_epoch), self.factor(self.last_epoch - 1)
        ratio = now / before if before else 0.0
        return [swa + (lr - swa) * ratio for lr, swa in zip(self._rates(), self.swa_lrs, strict=True)]

    def start(self) -> None:
        self.last_epoch = 0
        self._set(self._rates() if self.anneal_epochs else self.swa_lrs)
