"""Pictures: what is drawn, on whose axes, and what is refused."""

import sys
from typing import Any

import numpy as np
import pytest
from refusals import fails, refuses

import agrad
from agrad import nn, plotting
from agrad.errors import ConfigurationError, MissingExtraError, OperandError

RECORDS = [{"epoch": k, "step": 10 * k, "loss": 2.0 / k, "accuracy": 0.5, "validation_loss": 3.0 / k} for k in (1, 2)]


@pytest.fixture
def axes() -> Any:
    """The axes of a figure that no window shows."""
    figure = pytest.importorskip("matplotlib.figure").Figure()
    return figure.subplots()


@pytest.mark.needs("matplotlib")
def test_curves_of_training_and_validation(axes: Any) -> None:
    (panel,) = plotting.curves(RECORDS, ["val_loss"], axes=axes)
    assert panel is axes and panel.get_yscale() == "log"
    drawn = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert drawn == {"training": [2.0, 1.0], "validation": [3.0, 1.5]}


@pytest.mark.needs("matplotlib")
def test_a_diverged_run_is_drawn_without_a_warning(axes: Any) -> None:
    plotting.curves([{"epoch": 1, "loss": float("nan")}], axes=axes)
    assert axes.get_yscale() == "linear"


@pytest.mark.needs("matplotlib")
def test_norms_of_gradients_of_every_backend(backend: str, axes: Any) -> None:
    several = [np.zeros(2), None, np.array([np.inf]), np.array([3e200, 4e200])]
    plotting.gradient_norms({"w": agrad.asarray([3.0, 4.0], backend=backend), "b": several}, axes=axes)
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([5.0, 5e200])
    assert [round(bar.get_y() + 0.4) for bar in axes.patches] == [0, 4]
    assert [(t.get_position()[1], t.get_text()) for t in axes.texts] == [(1, "0"), (2, "no gradient"), (3, "inf")]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["w", "b.0", "b.1", "b.2", "b.3"]


@pytest.mark.needs("matplotlib")
def test_gradients_of_a_module(axes: Any) -> None:
    model = nn.Linear(3, 2, bias=False)
    model(np.ones((1, 3), dtype=np.float32)).sum().backward()
    plotting.gradient_norms(model, axes=axes)
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([6**0.5])


@pytest.mark.needs("matplotlib")
def test_every_entry_of_a_large_jacobian_is_seen(backend: str, axes: Any) -> None:
    jacobian = np.zeros((1500, 3, 20))
    jacobian[777, 1, 13] = np.nan
    plotting.sparsity(agrad.asarray(jacobian, backend=backend), rows=1, axes=axes)
    (image,) = axes.images
    dots, (left, right, bottom, top) = np.asarray(image.get_array()), image.get_extent()
    ((row, column),) = np.argwhere(dots)
    height, width = (bottom - top) / dots.shape[0], (right - left) / dots.shape[1]
    assert top + row * height <= 777 <= top + (row + 1) * height
    assert left + column * width <= 33 <= left + (column + 1) * width
    assert axes.get_title().startswith("1 of 90,000 entries")


test_bad_input = refuses([
    (OperandError, "at least 2 axes, got ndarray of shape", lambda: plotting.sparsity(np.ones(3))),
    (OperandError, "at least 2 axes, got", lambda: plotting.sparsity({"x": np.ones((2, 2))})),
    (OperandError, "must have entries", lambda: plotting.sparsity(np.ones((0, 2)))),
    (ConfigurationError, "must be from 1 to 2 for 3 axes, got None", lambda: plotting.sparsity(np.ones((2, 2, 2)))),
    (ConfigurationError, "rows must be from 1 to 1 for 2 axes, got 2", lambda: plotting.sparsity(np.ones((2, 2)), 2)),
    (OperandError, "must contain arrays, got none", lambda: plotting.gradient_norms({})),
    (OperandError, "w must be an array, got float", lambda: plotting.gradient_norms({"w": 1.0})),
    (ConfigurationError, "must contain records", lambda: plotting.curves([])),
    (ConfigurationError, "names must be among loss, accuracy, got 'f1'", lambda: plotting.curves(RECORDS, ["f1"])),
    (ConfigurationError, "axes must contain 2 axes", lambda: plotting.curves(RECORDS, axes=[None])),
])  # fmt: skip


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    fails(MissingExtraError, r"agrad\[plot\]", lambda: plotting.sparsity(np.eye(2)))
