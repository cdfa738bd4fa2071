"""Functions of neural networks with complex numbers: analytic ones take them, all others refuse them."""

from typing import Any

import numpy as np
import pytest
from test_activations import CALLS as ACTIVATIONS
from test_losses import CLASSES, ELEMENTWISE
from torch_parity import here

from agrad.errors import DtypeError
from agrad.nn import functional

TAKEN = """glu log_softmax normalize pairwise_distance sigmoid silu softmax softmin softsign tanh tanhshrink
    triplet_margin_loss""".split()  # noqa: SIM905
"""Functions whose formula holds for complex numbers."""
CALLS = {call.function: call for call in ACTIVATIONS + ELEMENTWISE + CLASSES}


@pytest.mark.parametrize("name", sorted({*CALLS, "hardsigmoid"} - set(TAKEN)))
def test_complex_numbers_are_refused(backend: str, name: str) -> None:
    call = CALLS.get(name, ACTIVATIONS[0])

    def turned(array: Any) -> Any:
        return array if array is None else here(array * (1 + 0.5j) if array.dtype.kind == "f" else array)

    with pytest.raises(DtypeError, match=r"(takes|must be) real"):
        getattr(functional, name)(*[turned(array) for array in call.arrays], **call.options)


def test_complex_sigmoid_linear_unit(backend: str) -> None:
    z = np.array([0.5 + 1j, -2 - 0.25j])
    np.testing.assert_allclose(np.asarray(functional.silu(z)), z / (1 + np.exp(-z)), rtol=1e-14)
