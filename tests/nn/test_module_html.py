"""Modules in notebooks."""

from typing import Any
from xml.etree import ElementTree

import agrad
from agrad import nn


def lines(model: nn.Module) -> list[str]:
    return [text.strip() for text in ElementTree.fromstring(model._repr_html_()).itertext() if text.strip()]


def test_modules_unfold_to_their_tensors(backend: str) -> None:
    with agrad.use_backend(backend):
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Sequential(nn.ReLU(), nn.Dropout(0.1)))
        model[0].bias.requires_grad = False
    device = model[0].bias.device
    assert lines(model) == [
        "Sequential, 56 parameters",
        "0: Linear, 40 parameters",
        f"weight: (4, 8) float32 on {device}",
        f"bias: (8,) float32 on {device}, no gradient",
        "1: BatchNorm1d, 16 parameters",
        f"weight: (8,) float32 on {device}",
        f"bias: (8,) float32 on {device}",
        f"running_mean: (8,) float32 on {device}, buffer",
        f"running_var: (8,) float32 on {device}, buffer",
        "2: Sequential",
        "0: ReLU()",
        "1: Dropout(p=0.1)",
    ]


def test_names_are_escaped_and_parts_of_two_places_stand_in_both() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            self.first: Any = nn.ReLU()
            self.parts: Any = {"<b>": self.first}

    model = Twice()
    assert lines(model) == ["Twice", "first: ReLU()", "parts.<b>: ReLU()"]
    assert "&lt;b&gt;" in model._repr_html_()
    assert lines(nn.ReLU()) == ["ReLU()"]
