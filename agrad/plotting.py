"""Matplotlib plots: training curves, gradient norms, sparsity of Jacobians.

Each function draws on ``axes``, or on a new figure, and returns the axes. It requires Matplotlib
(``pip install 'agrad[plot]'``) and raises ``MissingExtraError`` without it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import agrad
from agrad.data.files import optional
from agrad.errors import ConfigurationError, OperandError, described
from agrad.train.history import curve_names, draw_curve, entry

__all__ = ["curves", "gradient_norms", "sparsity"]

_INCHES = 0.25
"""Height of a bar."""
_DOTS = 400
"""Maximum number of rows and columns of the plot of a Jacobian."""


def _figure(what: str, **options: Any) -> Any:
    """Return the axes of a new figure."""
    pyplot = optional("matplotlib.pyplot", "matplotlib", "plot", f"plotting.{what}")
    return pyplot.subplots(layout="constrained", **options)[1]


def curves(history: Sequence[dict[str, Any]], names: Sequence[str] | None = None, *, axes: Any = None) -> Any:
    """Plot the loss and the metrics of a training run over the epochs.

    Parameters
    ----------
    history : History or sequence of dict
        Records of the epochs, as from ``Trainer.fit``: ``epoch``, ``loss``, metrics, and the same with the prefix
        ``validation_``.
    names : sequence of str, optional
        Values to plot, such as ``["loss", "accuracy"]``. By default, all in the last record.
    axes : Axes or array of Axes, optional
        Axes for each name. By default, axes of a new figure, side by side.

    Returns
    -------
    ndarray of Axes
        Axes for each name.

    Examples
    --------
    >>> history = [{"epoch": 1, "loss": 2.0, "accuracy": 0.5}, {"epoch": 2, "loss": 0.5, "accuracy": 0.75}]
    >>> left, right = agrad.plotting.curves(history)
    >>> left.get_ylabel(), right.lines[0].get_ydata()
    ('loss', array([0.5 , 0.75]))
    """
    have = curve_names(history)
    if not history:
        raise ConfigurationError("plotting.curves: history must contain records, got none")
    chosen = have if names is None else [entry(name).removeprefix("validation_") for name in names]
    unknown = [name for name in chosen if name not in have]
    if unknown:
        raise ConfigurationError(
            f"plotting.curves: names must be among {', '.join(have)}, got {', '.join(map(repr, unknown))}"
        )
    if axes is None:
        axes = _figure("curves", ncols=len(chosen), figsize=(4.5 * len(chosen), 3.5))
    panels = np.atleast_1d(axes).ravel()
    if len(panels) != len(chosen):
        raise ConfigurationError(
            f"plotting.curves: axes must contain {len(chosen)} axes, one for each name, got {len(panels)}"
        )
    for panel, name in zip(panels, chosen, strict=True):
        draw_curve(panel, history, name)
    return panels


def gradient_norms(gradients: Any, *, axes: Any = None) -> Any:
    """Plot the norm of the gradient of each parameter.

    The length of a bar is the Euclidean norm, on a logarithmic axis. Norms that fall from layer to layer by orders of
    magnitude show vanishing gradients. A bar of length zero has a label: ``0``, ``no gradient``, or a value that is not
    finite.

    Parameters
    ----------
    gradients : Module, or nested dict, list or tuple of arrays
        Module after the backward pass, or a result of ``agrad.grad``.
    axes : Axes, optional
        Axes to plot on. By default, axes of a new figure.

    Returns
    -------
    Axes
        Bars, in the order of the parameters from the top.

    Examples
    --------
    >>> model = agrad.nn.Sequential(agrad.nn.Linear(4, 8), agrad.nn.Tanh(), agrad.nn.Linear(8, 1))
    >>> model(np.ones((2, 4), dtype=np.float32)).sum().backward()
    >>> axes = agrad.plotting.gradient_norms(model)
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['0.weight', '0.bias', '2.weight', '2.bias']
    """
    if isinstance(gradients, agrad.nn.Module):
        named = {name: tensor.grad for name, tensor in gradients.named_parameters()}
    else:
        named = dict(_named(gradients, ""))
    if not named:
        raise OperandError("plotting.gradient_norms: gradients must contain arrays, got none")
    norms = {name: None if value is None else _norm(value) for name, value in named.items()}
    if axes is None:
        axes = _figure("gradient_norms", figsize=(6, 1 + _INCHES * len(norms)))
    drawn = {name: norm for name, norm in norms.items() if norm and math.isfinite(norm)}
    places = {name: k for k, name in enumerate(norms)}
    axes.barh([places[name] for name in drawn], list(drawn.values()))
    for name, norm in norms.items():
        if name not in drawn:
            text = "no gradient" if norm is None else f"{norm:g}"
            axes.text(0.01, places[name], text, transform=axes.get_yaxis_transform(), va="center")
    axes.set_yticks(range(len(norms)), list(norms))
    axes.set_ylim(len(norms) - 0.5, -0.5)
    if drawn:
        axes.set_xscale("log")
    axes.set_xlabel("norm of the gradient")
    return axes


def _named(value: Any, name: str) -> Any:
    """Yield the arrays of nested dicts, lists and tuples with their names."""
    if value is None or hasattr(value, "shape"):
        yield name, value
        return
    if not isinstance(value, (Mapping, list, tuple)):
        raise OperandError(
            f"plotting.gradient_norms: {name or 'gradients'} must be an array, got {type(value).__name__}"
        )
    for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from _named(inner, f"{name}.{key}" if name else str(key))


def _host(value: Any) -> Any:
    """Return an array as a NumPy array, without its derivative."""
    return agrad.asarray(value).detach().numpy()


def _norm(value: Any) -> float:
    array = _host(value)
    largest = float(np.max(np.abs(array), initial=0.0))
    # divided by the largest, so that squares neither overflow nor vanish
    scaled = np.abs(array.astype(np.result_type(array, np.float64))) / largest if 0 < largest < math.inf else array
    return float(largest * np.sqrt(np.sum(scaled**2))) if 0 < largest < math.inf else largest


def sparsity(jacobian: Any, rows: int | None = None, *, axes: Any = None) -> Any:
    """Plot the entries of a Jacobian that are not zero.

    Parameters
    ----------
    jacobian : array with at least 2 axes
        Result of ``agrad.jacobian`` or ``agrad.hessian``: the axes of the value of the function, then the axes of its
        argument. NaN counts as not zero.
    rows : int, optional
        Number of axes of the value, which become the rows of the plot. By default, half of all axes. Required for an
        odd number of axes.
    axes : Axes, optional
        Axes to plot on. By default, axes of a new figure.

    Returns
    -------
    Axes
        Axes of the plot. The title contains the number of entries that are not zero, and their share.

    Examples
    --------
    >>> jacobian = agrad.jacobian(lambda x: agrad.diff(x) ** 2)(np.linspace(0.0, 1.0, 6))
    >>> agrad.plotting.sparsity(jacobian).get_title()
    '10 of 30 entries are not zero (33 %)'
    """
    if getattr(jacobian, "ndim", 0) < 2:
        raise OperandError(
            f"plotting.sparsity: jacobian must be an array with at least 2 axes, got {described(jacobian)}"
        )
    array = _host(jacobian)
    split = array.ndim // 2 if rows is None else rows
    if not 1 <= split < array.ndim or (rows is None and array.ndim % 2):
        raise ConfigurationError(
            f"plotting.sparsity: rows must be from 1 to {array.ndim - 1} for {array.ndim} axes, got {rows}"
        )
    shape = math.prod(array.shape[:split]), math.prod(array.shape[split:])
    if 0 in shape:
        raise OperandError(f"plotting.sparsity: jacobian must have entries, got shape {array.shape}")
    filled = array.reshape(shape) != 0
    if axes is None:
        axes = _figure("sparsity", figsize=(4.5, 4.5))
    # of more entries than dots, a dot is black if one of its entries is not zero
    edges = [np.arange(0, n, max(1, math.ceil(n / _DOTS))) for n in shape]
    dots = np.logical_or.reduceat(np.logical_or.reduceat(filled, edges[0], axis=0), edges[1], axis=1)
    extent = (-0.5, shape[1] - 0.5, shape[0] - 0.5, -0.5)
    aspect = "equal" if max(shape) < 4 * min(shape) else "auto"
    axes.imshow(dots, cmap="binary", vmin=0, vmax=1, interpolation="nearest", extent=extent, aspect=aspect)
    count = int(filled.sum())
    axes.set_title(f"{count:,} of {filled.size:,} entries are not zero ({100 * count / filled.size:.2g} %)")
    axes.set_xlabel("entry of the argument")
    axes.set_ylabel("entry of the value")
    return axes
