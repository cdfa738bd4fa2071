"""Layer, group, batch and instance normalization."""

import math
from collections.abc import Sequence
from operator import index
from typing import Any

import agrad
from agrad.errors import ConfigurationError, ShapeError
from agrad.expect import numbers
from agrad.faces import complete_docstring
from agrad.nn.functional.padding import padded
from agrad.nn.functional.real import of_array, real_only
from agrad.ops.definition import of_first

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm"]


def _standardized(x: Any, axes: tuple[int, ...], eps: float) -> Any:
    centred = agrad.subtract(x, agrad.mean(x, axis=axes, keepdims=True))
    return centred / agrad.sqrt(agrad.mean(agrad.square(centred), axis=axes, keepdims=True) + eps)


def _scaled(y: Any, weight: Any, bias: Any, shape: tuple[int, ...]) -> Any:
    """Return ``y * weight + bias``, both reshaped."""
    if weight is not None:
        y = agrad.multiply(y, agrad.reshape(weight, shape))
    return y if bias is None else agrad.add(y, agrad.reshape(bias, shape))


def _last_axes(name: str, x: Any, normalized_shape: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = tuple(index(n) for n in normalized_shape) if isinstance(normalized_shape, Sequence) else (normalized_shape,)
    if not shape or tuple(x.shape)[-len(shape) :] != shape:
        raise ShapeError(f"{name}: the shape of x must end with the normalized shape {shape}, got {tuple(x.shape)}")
    return shape, tuple(range(len(x.shape) - len(shape), len(x.shape)))


def _channels_second(name: str, x: Any, **arrays: Any) -> tuple[int, ...]:
    """Return the shape that broadcasts an array of one element for each channel."""
    shape = tuple(x.shape)
    if len(shape) < 2:
        raise ShapeError(f"{name}: x must have shape (n, c, ...), got {shape}")
    for what, array in arrays.items():
        if array is not None and tuple(array.shape) != shape[1:2]:
            raise ShapeError(f"{name}: {what} must have shape {shape[1:2]}, one value per channel, got {array.shape}")
    return (1, shape[1], *(1,) * (len(shape) - 2))


def _average(name: str, running: agrad.Tensor, value: Any, momentum: float) -> None:
    """Update running statistics without recording derivatives."""
    new = agrad.stop_gradient(value)
    if getattr(getattr(new, "level", None), "name", None) == "batch":
        raise ConfigurationError(
            f"{name}: running statistics cannot be updated under vmap, because each batch element has its own. Call it "
            "without running statistics (track_running_stats=False), or in evaluation mode."
        )
    with agrad.no_grad():
        running[...] = agrad.add(running * (1 - momentum), agrad.astype(new, running.dtype) * momentum)


def _by_running(
    name: str, option: str, x: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float, around: tuple[int, ...]
) -> Any:
    """Return ``x`` normalized with running statistics."""
    if mean is None or var is None:
        raise ConfigurationError(f"{name}: running_mean and running_var are required. Pass them, or {option}=True.")
    scale = agrad.sqrt(agrad.add(var, eps))
    y = agrad.divide(agrad.subtract(x, agrad.reshape(mean, around)), agrad.reshape(scale, around))
    return _scaled(y, weight, bias, around)


class _Shared:
    """Parameters and result of normalizations.

    Parameters
    ----------
    x : array of shape (n, c, ...) and a real floating-point dtype
    weight, bias : array, optional
        Arrays of shape (c,).
    momentum : float
        Weight of the new statistics in the running statistics.
    eps : float
        Number added to the variance for numerical stability.

    Returns
    -------
    array of the shape and dtype of ``x``
    """


@of_array
def layer_norm(x: Any, /, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Standardize ``x`` over its last axes, then apply a weight and a bias.

    Reference: J. Ba, J. Kiros and G. Hinton (2016), "Layer normalization".

    Parameters
    ----------
    x : array of shape ``(..., *normalized_shape)`` and a real floating-point dtype
    normalized_shape : int or tuple of int
        Lengths of the last axes.
    weight, bias : arrays of shape ``normalized_shape``, optional

    Examples
    --------
    >>> x = np.array([[1.0, 3.0], [10.0, 30.0]])
    >>> agrad.nn.functional.layer_norm(x, 2).round(3)
    array([[-1.,  1.],
           [-1.,  1.]])
    >>> agrad.nn.functional.layer_norm(x, 2, weight=np.array([2.0, 2.0]), bias=np.array([0.0, 1.0])).round(3)
    array([[-2.,  3.],
           [-2.,  3.]])
    """
    shape, axes = _last_axes("layer_norm", x, normalized_shape)
    return _scaled(_standardized(x, axes, eps), weight, bias, shape)


@of_array
def rms_norm(x: Any, /, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Divide ``x`` by its root mean square over the last axes, apply a weight.

    Reference: B. Zhang and R. Sennrich (2019), "Root mean square layer normalization".

    Parameters
    ----------
    x : array of shape ``(..., *normalized_shape)`` and a real floating-point dtype
    normalized_shape : int or tuple of int
        Lengths of the last axes.
    weight : array of shape ``normalized_shape``, optional
    eps : float, optional
        Number added to the mean square. By default, the resolution of the dtype.

    Examples
    --------
    >>> agrad.nn.functional.rms_norm(np.array([[1.0, 7.0]]), 2).round(3)
    array([[0.2, 1.4]])
    """
    shape, axes = _last_axes("rms_norm", x, normalized_shape)
    eps = float(agrad.finfo(x.dtype).eps) if eps is None else eps
    y = agrad.divide(x, agrad.sqrt(agrad.mean(agrad.square(x), axis=axes, keepdims=True) + eps))
    return _scaled(y, weight, None, shape)


@of_array
def group_norm(x: Any, /, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Standardize ``x`` over groups of channels of each batch element.

    Reference: Y. Wu and K. He (2018), "Group normalization".

    Parameters
    ----------
    num_groups : int
        Number of groups, of ``c // num_groups`` channels each.

    Examples
    --------
    >>> agrad.nn.functional.group_norm(np.array([[1.0, 3.0, 10.0, 30.0]]), 2).round(3)
    array([[-1.,  1., -1.,  1.]])
    """
    shape, around = tuple(x.shape), _channels_second("group_norm", x, weight=weight, bias=bias)
    if num_groups < 1 or shape[1] % num_groups:
        raise ConfigurationError(f"group_norm: channels must be a multiple of num_groups={num_groups}, got {shape[1]}")
    length = math.prod(shape[1:]) // num_groups
    y = _standardized(agrad.reshape(x, (shape[0], num_groups, length)), (2,), eps)
    return _scaled(agrad.reshape(y, shape), weight, bias, around)


def _channel_norm(
    name: str, own: tuple[str, bool], x: Any, running: tuple[Any, Any], weight: Any, bias: Any, momentum: float,
    eps: float, axes: tuple[int, ...], what: str,
) -> Any:  # fmt: skip
    """Normalize by statistics along axes, or by running statistics.

    The option ``own`` decides: its name, and True for statistics of ``x``.
    """
    mean, var = running
    around = _channels_second(name, x, running_mean=mean, running_var=var, weight=weight, bias=bias)
    if not own[1]:
        return _by_running(name, own[0], x, mean, var, weight, bias, eps, around)
    if math.prod(x.shape[axis] for axis in axes) < 2:
        raise ShapeError(f"{name}: x must have {what}, got shape {x.shape}")
    if isinstance(mean, agrad.Tensor):
        _average(name, mean, agrad.mean(x, axis=(0, *range(2, len(x.shape)))), momentum)
    if isinstance(var, agrad.Tensor):
        found = agrad.var(x, axis=axes, correction=1)
        _average(name, var, found if 0 in axes else agrad.mean(found, axis=0), momentum)
    return _scaled(_standardized(x, axes, eps), weight, bias, around)


@of_first
def batch_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> agrad.Tensor:
    """Standardize ``x`` over all axes except the channel axis.

    Reference: S. Ioffe and C. Szegedy (2015), "Batch normalization".

    Parameters
    ----------
    running_mean, running_var : array or None
        Arrays of shape (c,), used as mean and variance unless ``training``. In training, Tensors are updated to ``(1 -
        momentum) * old + momentum * new``, with the unbiased variance.
    training : bool
        True to use the mean and variance of ``x``.

    Raises
    ------
    ShapeError, ConfigurationError
        If a shape does not fit, a channel has a single value in training, running statistics are missing in evaluation,
        or they would be updated under ``vmap``.

    Examples
    --------
    >>> x = np.array([[1.0, 10.0], [3.0, 30.0]])
    >>> agrad.nn.functional.batch_norm(x, training=True).round(3)
    array([[-1., -1.],
           [ 1.,  1.]])
    >>> agrad.nn.functional.batch_norm(x, np.array([1.0, 10.0]), np.array([4.0, 100.0])).round(3)
    array([[0., 0.],
           [1., 2.]])
    """
    statistics, axes = (running_mean, running_var), (0, *range(2, len(x.shape)))
    own, what = ("training", training), "more than one value per channel in training"
    return _channel_norm("batch_norm", own, x, statistics, weight, bias, momentum, eps, axes, what)


@of_array
def instance_norm(
    x: Any,
    /,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Standardize ``x`` over each channel of each batch element.

    Reference: D. Ulyanov, A. Vedaldi and V. Lempitsky (2016), "Instance normalization".

    Parameters
    ----------
    running_mean, running_var : array or None
        Arrays of shape (c,), used as mean and variance unless ``use_input_stats``. Otherwise, Tensors are updated to
        ``(1 - momentum) * old + momentum * new``, with the batch mean of the means and unbiased variances.
    use_input_stats : bool
        True to use the mean and variance of ``x``.

    Raises
    ------
    ShapeError, ConfigurationError
        If a shape does not fit, a channel of a batch element has fewer than two values, running statistics are missing
        without ``use_input_stats``, or they would be updated under ``vmap``.

    Examples
    --------
    >>> agrad.nn.functional.instance_norm(np.array([[[1.0, 3.0], [10.0, 30.0]]])).round(3)
    array([[[-1.,  1.],
            [-1.,  1.]]])
    """
    statistics, axes = (running_mean, running_var), tuple(range(2, len(x.shape)))
    own, what = ("use_input_stats", use_input_stats), "more than one value per channel of an example"
    return _channel_norm("instance_norm", own, x, statistics, weight, bias, momentum, eps, axes, what)


@of_array
@real_only
def local_response_norm(x: Any, /, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    """Normalize each element by the mean square of neighboring channels.

    The divisor is ``(k + alpha * mean) ** beta``, where ``mean`` is the mean of the squares of ``size`` channels.
    Channels beyond the first and last count as 0.

    Reference: A. Krizhevsky, I. Sutskever and G. Hinton (2012), "ImageNet classification with deep convolutional neural
    networks".

    Parameters
    ----------
    size : int
        Number of channels in the mean.
    alpha, beta, k : float
        Factor, exponent and constant.

    Examples
    --------
    >>> agrad.nn.functional.local_response_norm(np.array([[[1.0], [2.0]]]), 1, alpha=1.0, beta=1.0).round(4)
    array([[[0.5],
            [0.4]]])
    """
    shape = tuple(x.shape)
    if len(shape) < 3:
        raise ShapeError(f"local_response_norm: x must have shape (n, c, ...) with at least three axes, got {shape}")
    (size,) = numbers("local_response_norm", "size", size, 1, 1)
    squares = padded(agrad.square(x), [(0, 0), (size // 2, (size - 1) // 2)] + [(0, 0)] * (len(shape) - 2))
    total = sum(squares[:, i : i + shape[1], ...] for i in range(size))
    return agrad.divide(x, agrad.pow(total * (alpha / size) + k, beta))


for _name in __all__:
    complete_docstring(globals()[_name], _Shared)
