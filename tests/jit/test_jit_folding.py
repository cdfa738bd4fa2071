"""Products folded into steps of momentum, and the routines of BLAS below them."""

from typing import Any

import numpy as np
import pytest
from jit_help import close, descent, network, same_steps

import agrad
from agrad import nn, optim
from agrad.kernels.numpy.blas import ROUTINES, added_multiple, address, laid, product_adder

needs_routines = pytest.mark.skipif(not ROUTINES, reason="NumPy's BLAS has no known names")


# ------------------------------------------------------------------ BLAS


@needs_routines
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5, 3, 4), (1, 1, 1), (7, 1, 9), (1, 6, 5), (5, 6, 1), (1, 1, 8), (40, 300, 33)])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("beta", [0.9, 1.0])
def test_product_adder(dtype: str, shape: tuple[int, int, int], turned: str, beta: float) -> None:
    m, k, n = shape
    rng = np.random.default_rng(m + k + n)
    a = rng.normal(size=(k, m)).astype(dtype).T if "a" in turned else rng.normal(size=(m, k)).astype(dtype)
    b = rng.normal(size=(n, k)).astype(dtype).T if "b" in turned else rng.normal(size=(k, n)).astype(dtype)
    out = rng.normal(size=(m, n)).astype(dtype)
    expected = a.astype(float) @ b.astype(float) + beta * out.astype(float)
    product_adder(out.dtype, shape)(laid(a), laid(b), beta, address(out))
    np.testing.assert_allclose(out, expected, rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-5)


@needs_routines
def test_added_multiple() -> None:
    x, out = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    added_multiple(-0.5, x, out)
    np.testing.assert_array_equal(out, 1 - 0.5 * x)


# ------------------------------------------------------------------ steps


def _trained(jitted: bool, size: int = 4, hold: bool = False, **settings: Any) -> tuple[list[np.ndarray], str]:
    rng = np.random.default_rng(0)
    model = network(64, 128, 64, 3, scale=1 / 8)
    x, t = (agrad.asarray(rng.normal(size=(size, n)).astype(np.float32)) for n in (64, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.01, **settings)
    step = descent(optimizer, lambda x, t: agrad.mean((model(x) - t) ** 2))
    run = agrad.jit(step) if jitted else step
    held = []
    for _ in range(6):
        if hold:  # as somebody does who looks at the values before a step: they must stay as they are
            held.append([(p.data, p.data.copy()) for p in model.parameters()])
        run(x, t)
    for now, then in (pair for pairs in held for pair in pairs):
        np.testing.assert_array_equal(now, then)
    shown = str(agrad.jit(step).lower(x, t)) if jitted else ""
    return [p.detach().numpy() for p in model.parameters()], shown


@needs_routines
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("hold", [False, True])
def test_a_folded_step_is_the_ordinary_one(size: int, hold: bool) -> None:
    got, shown = _trained(True, size, hold, momentum=0.9)
    final = shown.split("# fusion")[1]
    assert "= sgd_update_of_a_product" in final
    assert "= sgd_update_of_a_row_sum" in final
    close(got, _trained(False, size, momentum=0.9)[0], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.9, "dampening": 0.5},
        {"momentum": 0.9, "weight_decay": 0.1},
        {"momentum": 0.9, "maximize": True},
        {"momentum": 0.9, "routines": False},
    ],
    ids=str,
)
def test_other_steps_are_not_folded(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor any step without the routines of BLAS."""
    settings = dict(settings)
    if not settings.pop("routines", True):
        # the table itself: ``agrad.jit`` is a function, and hides the package of its name
        for dtype in list(ROUTINES):
            monkeypatch.delitem(ROUTINES, dtype)
    got, shown = _trained(True, **settings)
    assert "update of a" not in shown
    close(got, _trained(False, **settings)[0], rtol=2e-5, atol=1e-6)


def test_gradients_that_stay_are_not_folded() -> None:
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = agrad.jit(descent(optimizer, lambda x: agrad.sum(model(x) ** 2), "first"))
    x = agrad.ones((4, 3), dtype=agrad.float32)
    for _ in range(3):
        step(x)
    before = model.weight.detach().numpy().copy()
    (agrad.sum(model(x) ** 2)).backward()  # adds to the gradient that the step left
    assert model.weight.grad is not None
    assert "update of a" not in str(step.lower(x))
    np.testing.assert_array_equal(before, model.weight.detach().numpy())


@needs_routines
def test_a_product_that_reads_what_an_earlier_step_writes_is_not_moved_behind_it() -> None:
    """The second weight's gradient is a product with the first weight itself, whose step comes first."""
    x = np.random.default_rng(1).normal(size=(96, 96)).astype(np.float32) / 10

    def made() -> Any:
        first, second = (agrad.asarray(x * np.float32(k), requires_grad=True) for k in (0.5, 0.25))
        train = descent(optim.SGD([first, second], lr=0.1, momentum=0.9), lambda: agrad.sum(first @ second))
        return lambda: (train(), first.detach() + 0, second.detach() + 0)[1:]

    same_steps(made, rtol=2e-5, atol=1e-6)
