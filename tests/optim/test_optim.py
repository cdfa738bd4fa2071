"""Optimizers: PyTorch's numbers, every backend, and updates in place that nobody can see."""

import math
from typing import Any

import numpy as np
import pytest
from refusals import fails
from tensors import all_close, draw, host, leaf, same_state, set_grad
from test_optimizers import ADAM_OPTIONS, SGD_OPTIONS
from training_steps import same_jitted, step_of

import agrad
from agrad import nn, optim
from agrad.backends import load
from agrad.errors import ConfigurationError, DataError, DtypeError, MixedBackendsError
from agrad.ops.updates import adam_update_p, sgd_update_p

EVERY = [(optim.SGD, options) for options in SGD_OPTIONS]
EVERY += [(kind, options) for kind in (optim.Adam, optim.AdamW) for options in ADAM_OPTIONS]
NAMES = [f"{kind.__name__}-{'-'.join(options) or 'plain'}" for kind, options in EVERY]


# ------------------------------------------------------------------ the numbers


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("kind", "options"), EVERY, ids=NAMES)
@pytest.mark.parametrize("shape", [(), (0, 3), (90_001,)], ids=str)
def test_numpy_kernels_are_the_generic_bodies(
    kind: type[optim.Optimizer], options: dict[str, Any], shape: tuple[int, ...], dtype: str
) -> None:
    with agrad.use_backend("numpy"):
        w = leaf(draw(*shape).astype(dtype))
        optimizer = kind([w], lr=0.05, **options)
        for step in range(3):
            g = draw(*shape, seed=step + 1).astype(dtype)
            set_grad(w, np.asarray(g))
            p = host(w)
            arrays = [np.array(a) for a in optimizer.arrays[0]] or [np.zeros_like(p) for _ in optimizer.parts[0].slots]
            optimizer.step()
            with pytest.MonkeyPatch.context() as patch:
                for operation in (sgd_update_p, adam_update_p):
                    patch.setitem(operation.primitive.raw, np.ndarray, operation.primitive.generic(load("numpy")))
                new, *arrays = optimizer.update(p, g, tuple(arrays), step + 1, False, **optimizer.settings(0))
            # where nothing is kept, the generic body's m + (g - m) is not quite g, and the step divides it by abs(g)
            units = 1000 if options.get("betas") == (0.0, 0.0) else 4
            close = {"rtol": 8 * np.finfo(dtype).eps, "atol": units * np.finfo(dtype).eps}
            np.testing.assert_allclose(host(w), new, **close)
            all_close(optimizer.arrays[0], arrays, **close)


@pytest.mark.parametrize("shape", [(70, 80), (100_000,)], ids=str)
@pytest.mark.parametrize(("kind", "options"), EVERY, ids=NAMES)
def test_gradients_that_are_views_on_numpy(
    kind: type[optim.Optimizer], options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    """What flip, sum and steps of an index leave as gradients: reversed, repeated and strided elements."""
    wide = draw(*shape[:-1], 2 * shape[-1])
    optimizer = kind([agrad.asarray(draw(*shape), backend="numpy", requires_grad=True)], lr=0.05, **options)
    for g in (np.flip(draw(*shape)), np.broadcast_to(np.float64(0.5), shape), wide[..., ::2]):
        for donate in (False, True):
            found = []
            for given in (g, g.copy()):
                state = [np.full(shape, 0.1) for _ in optimizer.parts[0].slots]
                found.append(optimizer.update(draw(*shape, seed=5), given, state, 3, donate, **optimizer.settings(0)))
            all_close(*found, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("size", [100, 5000], ids=["small", "large"])
@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_adams_moments_on_numpy_never_are_denormal(size: int, beta: float) -> None:
    """Where the gradient stays 0 they go from small normal numbers to 0, and are not held up between."""
    w = leaf(np.ones(size, np.float32))
    optimizer = optim.Adam([w], betas=(beta, 0.999))
    for step in range(450):
        w.grad = agrad.asarray(np.full(size, 1e-20 if step < 3 else 0, np.float32))
        optimizer.step()
        m = np.abs(optimizer.state_dict()["0.m"])
        assert not ((m > 0) & (m < np.finfo(np.float32).tiny)).any(), step
    assert not m.any()


@pytest.mark.parametrize(
    ("options", "dtype"), [({}, "float64"), ({"nesterov": True}, "float32"), ({"maximize": True}, "float32")], ids=str
)
def test_velocities_on_numpy_do_not_stay_denormal(options: dict[str, Any], dtype: str) -> None:
    """Of a column whose gradient stays 0; the others keep theirs, small as they are, and so do their parameters."""
    tiny = np.finfo(dtype).tiny
    w = leaf(np.zeros((40, 100), dtype))
    g = np.full((40, 100), 1e-20, dtype)
    w.grad = agrad.asarray(g.copy())
    optimizer = optim.SGD([w], momentum=0.5, **options)
    g[:, 7] = 0
    for _ in range(100 if dtype == "float32" else 1000):
        optimizer.step()
        w.grad = agrad.asarray(g)
        v = np.abs(optimizer.state_dict()["0.v"])
        assert np.sum((v > 0) & (v < tiny)) == 0
    assert not v[:, 7].any()
    np.testing.assert_allclose(np.delete(v, 7, 1), 2e-20, rtol=1e-6)


def test_a_jitted_steps_velocity_does_not_stay_denormal() -> None:
    x, y = np.ones((4, 100), np.float32), np.zeros((4, 100), np.float32)
    w = leaf(np.full((100, 100), 1e-10, np.float32))
    optimizer = optim.SGD([w], momentum=0.5, lr=1e-30)
    step = agrad.jit(step_of(optimizer, lambda x, y: agrad.sum((agrad.asarray(x) @ w) * y)))
    for count in range(200):
        step(x, y if count else y + 1)
    assert not optimizer.state_dict()["0.v"].any()


def test_clip_grad_norm_of_narrow_gradients_does_not_overflow() -> None:
    w = agrad.asarray(np.zeros(4, np.float16), requires_grad=True)
    w.grad = agrad.asarray(np.full(4, 300.0, np.float16))
    assert optim.clip_grad_norm([w], 1.0).item() == 600.0
    np.testing.assert_allclose(host(w.grad), np.full(4, 0.5, np.float16), rtol=1e-3, strict=True)


# ------------------------------------------------------------------ schedules, the rate, errors


def test_schedules_are_functions_of_the_step() -> None:
    high, low = (0.2 + 0.8 * (1 + sign * math.sqrt(0.5)) / 2 for sign in (1, -1))
    for schedule, rates in (
        (optim.Constant(0.3), [0.3, 0.3]),
        (optim.Cosine(1.0, 4, 0.2), [1, high, 0.6, low, 0.2, 0.2]),
        (optim.Step(1.0, 2, 0.5), [1, 1, 0.5, 0.5, 0.25]),
        (optim.Exponential(1.0, 0.5), [1, 0.5, 0.25]),
        (optim.Warmup(optim.Constant(1.0), 4), [0.25, 0.5, 0.75, 1, 1, 1]),
    ):
        np.testing.assert_allclose([schedule(n) for n in range(len(rates))], rates, rtol=1e-15)


def test_a_schedule_or_a_setting_is_the_rate() -> None:
    w = leaf(np.zeros(1))
    optimizer = optim.SGD([w], lr=lambda n: 1.0 + n)
    set_grad(w, np.ones(1))
    for seen in (1.0, 2.0, 3.0, 0.5):
        if seen == 0.5:
            optimizer.lr = 0.5
        assert optimizer.rate == seen
        optimizer.step()
    assert (host(w).tolist(), optimizer.steps) == ([-6.5], 4)
    fails(ConfigurationError, "lr", setattr, optimizer, "lr", -1.0)
    optimizer.lr = lambda n: math.inf
    fails(ConfigurationError, "lr at step 4", optimizer.step)
    assert host(w).tolist() == [-6.5] and "lr=0.1" in repr(optim.Adam([w], lr=0.1))


def test_nothing_is_half_stepped_or_half_loaded() -> None:
    a, b = leaf(draw(3)), leaf(draw(2))
    optimizer = optim.Adam([a, b])
    set_grad(a, np.ones(3))
    b.grad = agrad.asarray(np.ones(2, np.float32))
    before = host(a)
    fails(DtypeError, r"gradient of parameter 1 .* float64, got float32", optimizer.step)
    with agrad.use_backend("array_api_strict"):
        b.grad = agrad.asarray(np.ones(2), backend="array_api_strict")
    fails(MixedBackendsError, "array_api_strict", optimizer.step)
    np.testing.assert_array_equal(host(a), before)
    set_grad(b, np.ones(2))
    optimizer.step()
    good = optimizer.state_dict()
    assert {"0.m", "0.step", "0.v", "1.m", "1.step", "1.v", "lr", "steps"} < set(good)
    for wrong in (
        {**good, "0.m": good["0.m"][:2]},
        {**good, "0.m": good["0.m"].astype(np.float32)},
        {**good, "2.m": good["0.m"]},
        {**good, "0.step": np.array(-1)},
        {name: value for name, value in good.items() if name != "1.v"},
        {name: value for name, value in good.items() if name != "steps"},
    ):
        fails(DataError, "was not loaded", optimizer.load_state_dict, wrong)
    same_state(optimizer.state_dict(), good)


def test_state_of_a_moved_parameter_is_an_error() -> None:
    model = nn.Linear(3, 2, bias=False)
    w = model.weight
    optimizer = optim.Adam([w])
    w.grad = agrad.ones_like(w)
    optimizer.step()
    model.to("array_api_strict")
    assert w.grad is None and w.backend == "array_api_strict"
    w.grad = agrad.ones_like(w)
    fails(MixedBackendsError, "Create a new optimizer", optimizer.step)
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()


def test_clip_grad_norm_in_a_jitted_step(backend: str) -> None:
    def train(jit: Any) -> list[Any]:
        nn.manual_seed(0)
        model = nn.Linear(3, 2, dtype=agrad.float64)
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            agrad.sum(model(x) ** 2).backward()
            norm = optim.clip_grad_norm(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
            return norm

        run, x = jit(step), agrad.ones((2, 3))
        return [run(x) for _ in range(3)] + model.parameters()

    same_jitted(train, rtol=1e-5, atol=1e-7)
