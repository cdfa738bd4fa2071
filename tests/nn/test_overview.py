"""The summary of a model, which does not change it, and modules in notebooks."""

from typing import Any
from xml.etree import ElementTree

from refusals import fails
from tensors import same_state

import agrad
from agrad import nn


class Twice(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(4, 4)
        self.again = self.first
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.unused = nn.Linear(2, 2)
        self.unused.requires_grad_(False)

    def forward(self, x: Any, y: Any = 0) -> Any:
        return self.drop(self.norm(self.first(self.first(x)))) + y, {"x": x, "y": None}


def test_the_table(backend: str) -> None:
    model = Twice()
    found = nn.summary(model, (3, 4))
    assert str(found).splitlines() == [
        "layer                output shape                    parameters  trainable",
        "-" * 102,
        "Twice                [(3, 4), {x: (3, 4), y: None}]",
        "  first: Linear      (3, 4)                                  20         20  also again; called 2 times",
        "  norm: BatchNorm1d  (3, 4)                                   8          8",
        "  drop: Dropout      (3, 4)",
        "  unused: Linear                                              6          0  not called",
        "34 parameters, 28 of them trainable",
    ]
    assert (found.total, found.trainable) == (34, 28)
    assert "called 2 times" in str(nn.summary(model, ((3, 4), agrad.ones(4))))


def test_nothing_is_changed(backend: str) -> None:
    model = Twice()
    model.norm.eval()
    model.register_forward_hook(lambda m, args, out: out)
    before, grads = model.state_dict(), [p.grad for p in model.parameters()]
    nn.summary(model, (3, 4))
    fails(Exception, "Linear", nn.summary, model, (3, 5))
    same_state(model.state_dict(), before)
    assert [m.training for m in model.modules()] == [True, True, False, True, True]
    assert [p.grad for p in model.parameters()] == grads
    assert vars(model.drop).keys() == {"p", "seed", "calls"}
    assert model.first._hooks is None and model._hooks is not None


def test_integers_and_no_parameters(backend: str) -> None:
    assert "(2, 3, 4)" in str(nn.summary(nn.Embedding(5, 4), (2, 3), dtype="int64"))
    assert str(nn.summary(nn.ReLU(), (2,))).endswith("0 parameters, 0 of them trainable")


def lines(model: nn.Module) -> list[str]:
    return [text.strip() for text in ElementTree.fromstring(model._repr_html_()).itertext() if text.strip()]


def test_modules_unfold_to_their_tensors(backend: str) -> None:
    with agrad.use_backend(backend):
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Sequential(nn.ReLU(), nn.Dropout(0.1)))
        model[0].bias.requires_grad = False
    device = model[0].bias.device
    assert lines(model) == [
        "Sequential, 56 parameters", "0: Linear, 40 parameters", f"weight: (4, 8) float32 on {device}",
        f"bias: (8,) float32 on {device}, no gradient", "1: BatchNorm1d, 16 parameters",
        f"weight: (8,) float32 on {device}", f"bias: (8,) float32 on {device}",
        f"running_mean: (8,) float32 on {device}, buffer", f"running_var: (8,) float32 on {device}, buffer",
        "2: Sequential", "0: ReLU()", "1: Dropout(p=0.1)",
    ]  # fmt: skip


def test_names_are_escaped_and_parts_of_two_places_stand_in_both() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            self.first: Any = nn.ReLU()
            self.parts: Any = {"<b>": self.first}

    model = Twice()
    assert lines(model) == ["Twice", "first: ReLU()", "parts.<b>: ReLU()"]
    assert "&lt;b&gt;" in model._repr_html_()
    assert lines(nn.ReLU()) == ["ReLU()"]
