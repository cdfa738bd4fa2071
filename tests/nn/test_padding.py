"""Padding against PyTorch's: values, derivatives in every mode, and the modules."""

from typing import Any

import numpy as np
import pytest
from torch_parity import Call, check_call, here

from agrad import nn
from agrad.errors import ConfigurationError, ShapeError

F = nn.functional
RNG = np.random.default_rng(21)
LINE, IMAGE, VOLUME = RNG.normal(size=(2, 3, 6)), RNG.normal(size=(2, 2, 4, 5)), RNG.normal(size=(1, 2, 3, 4, 3))
CALLS: list[tuple[Any, dict[str, Any]]] = [
    (LINE, {"pad": (2, 1), "value": 1.5}),
    (IMAGE, {"pad": (1, -2, -1, 3)}),
    (IMAGE, {"pad": (-1, -1), "value": 3.0}),
    (LINE, {"pad": (3, 5), "mode": "reflect"}),
    (IMAGE, {"pad": (2, -1, 0, 3), "mode": "reflect"}),
    (IMAGE[0], {"pad": (7, 1, 0, 2), "mode": "replicate"}),
    (IMAGE, {"pad": (4, 5, 1, 0), "mode": "circular"}),
    (VOLUME, {"pad": (1, 2, 0, 1, 2, 0), "mode": "reflect"}),
    (VOLUME, {"pad": (1, 2, 3, 1, 2, 0), "mode": "circular"}),
]


@pytest.mark.needs("torch")
@pytest.mark.parametrize("call", [Call("pad", [x], how) for x, how in CALLS], ids=lambda call: call.name)
def test_as_pytorch_in_every_mode(backend: str, call: Call) -> None:
    check_call(call)


def test_refusals(backend: str) -> None:
    x = here(LINE)
    for pad, mode, what in (
        ((6, 0), "reflect", "7 elements"), ((0, 7), "circular", "7 elements"), ((-4, -3), "constant", "not remove"),
        ((0, 0, -4, 1), "replicate", "not remove"), ((0, 0, -3, 1), "replicate", "1 elements"),
    ):  # fmt: skip
        with pytest.raises(ShapeError, match=what):
            F.pad(x, pad, mode)
    for how in ({"pad": (1, 1), "mode": "mirror"}, {"pad": (1, 1), "mode": "reflect", "value": 2.0}, {"pad": (1,)},
                {"pad": 1}, {"pad": (1,) * 8}):  # fmt: skip
        with pytest.raises(ConfigurationError, match="pad: "):
            F.pad(x, **how)
    with pytest.raises(ConfigurationError, match=r"ZeroPad2d: padding must be an int or 4 ints, got \(1, 2\)"):
        nn.ZeroPad2d((1, 2))
