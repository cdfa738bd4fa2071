"""The summary of a model: its text, and a model that is as it was."""

from typing import Any

import numpy as np
import pytest

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, OperandError


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
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    assert [m.training for m in model.modules()] == [True, True, False, True, True]
    assert [p.grad for p in model.parameters()] == grads
    assert vars(model.drop).keys() == {"p", "seed", "calls"}
    with pytest.raises(Exception, match="Linear"):
        nn.summary(model, (3, 5))
    assert [m.training for m in model.modules()] == [True, True, False, True, True]
    assert model.first._hooks is None and model._hooks is not None


def test_integers_and_no_parameters(backend: str) -> None:
    assert "(2, 3, 4)" in str(nn.summary(nn.Embedding(5, 4), (2, 3), dtype="int64"))
    assert str(nn.summary(nn.ReLU(), (2,))).endswith("0 parameters, 0 of them trainable")


@pytest.mark.parametrize(
    ("error", "match", "make"),
    [
        (OperandError, "summary: model must be a Module, got function", lambda: nn.summary(lambda x: x, (2,))),
        (ConfigurationError, r"arrays or shapes \(tuples of int\), got 'a'", lambda: nn.summary(nn.ReLU(), "a")),
        (ConfigurationError, r"inputs must be arrays or shapes .*, got 1\.5", lambda: nn.summary(nn.ReLU(), (1.5, 2))),
    ],
)
def test_wrong_use_is_an_error(error: type[Exception], match: str, make: Any) -> None:
    with pytest.raises(error, match=match):
        make()
