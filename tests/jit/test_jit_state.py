"""``agrad.jit`` of functions with state: modules, optimizers, gradients, random masks, and what it refuses."""

import contextvars
import copy
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from jit_help import close, descent, in_threads, same_steps, same_training
from refusals import fails

import agrad
from agrad import nn, optim
from agrad.errors import ConfigurationError, TracedValueError

RNG = np.random.default_rng(3)
ROWS = RNG.standard_normal((12, 5))
X = ROWS.astype(np.float32)
Y = RNG.integers(0, 3, 12)

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.05),
    "momentum": lambda p: optim.SGD(p, lr=lambda step: 0.1 * 0.7**step, momentum=0.9),
    "dampening": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.2, weight_decay=0.01),
    "nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, maximize=True),
    "adam": lambda p: optim.Adam(p, lr=0.01, weight_decay=0.1),
    "adamw": lambda p: optim.AdamW(p, lr=optim.Cosine(0.01, 10)),
    "a scaled loss": lambda p: optim.LossScale(optim.Adam(p, lr=0.05), init_scale=8.0, growth_interval=2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_steps(name: str, backend: str, place: Any) -> None:
    """A jitted step is the step: losses, parameters, moments, counts and the masks of dropout."""
    if backend == "dask":
        pytest.skip("covered by the values; lazy optimizers are slow")
    assert same_training(OPTIMIZERS[name], place).cache_info().misses <= 3


@pytest.mark.needs("jax")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_steps_that_xla_compiles(name: str, dtype: str) -> None:
    jitted = same_training(OPTIMIZERS[name], dtype=dtype, compiler="jax")
    assert jitted.cache_info().misses <= 2  # dampening has no momentum at first


def network(dropout: float = 0.0) -> nn.Sequential:
    rng = np.random.default_rng(0)
    layers = [nn.Linear(5, 8, rng=rng), nn.ReLU(), nn.Dropout(dropout, rng=rng), nn.Linear(8, 3, rng=rng)]
    return nn.Sequential(*layers)


def test_a_changed_learning_rate_is_used_and_traces_nothing_anew() -> None:
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = agrad.jit(descent(optimizer, lambda x, y: agrad.cross_entropy(model(x), y), "first"))
    for rate in (0.1, 0.1, 0.0):
        optimizer.lr = rate
        before = model.state_dict()
        step(X, Y)
        same = [np.array_equal(value, before[name]) for name, value in model.state_dict().items()]
        assert all(same) is (rate == 0)
    assert step.cache_info().misses == 1


def test_evaluation_and_training_mode_are_two_programs() -> None:
    model = network(0.5)
    forward = agrad.jit(model)
    x = agrad.asarray(X)
    assert not np.array_equal(forward(x).detach().numpy(), forward(x).detach().numpy())
    model.eval()
    np.testing.assert_allclose(forward(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-6)
    assert forward.cache_info().misses == 2
    assert model[2].calls == 2


def test_a_leaf_that_nothing_leads_to_is_found_when_it_is_met() -> None:
    hidden: dict[Any, Any] = {}

    class Vault:
        __slots__ = ("w",)

    vault = Vault()
    vault.w = agrad.asarray(np.asarray([1.0, 2.0]), requires_grad=True)
    hidden["get"] = lambda: vault.w

    @agrad.jit
    def f(x: Any) -> Any:
        penalty = agrad.sum(getattr(vault, "w") ** 2)  # noqa: B009
        return agrad.sum(x) + penalty

    x = np.asarray([1.0, 1.0])
    assert f(x).item() == 7.0
    with agrad.no_grad():
        vault.w[0] = 3.0
    assert f(x).item() == 15.0
    f(x).backward()
    np.testing.assert_array_equal(vault.w.grad.numpy(), [6.0, 4.0])


def test_buffers_are_written_back() -> None:
    class Norm(nn.Module):
        def __init__(self) -> None:
            self.mean = agrad.zeros(5)

        def forward(self, x: Any) -> Any:
            with agrad.no_grad():
                self.mean[...] = 0.5 * self.mean + 0.5 * agrad.mean(x, axis=0)
            return x - self.mean

    made: list[Norm] = []
    forward = same_steps(lambda: made.append(Norm()) or made[-1], lambda k: agrad.asarray((k + 1) * ROWS), count=3)
    close(*[norm.mean for norm in made])
    assert forward.cache_info() == (2, 1, 64, 1)
    assert type(made[1].mean) is agrad.Tensor


def test_replaced_layers_and_parameters_are_seen() -> None:
    model = network()
    forward, bias = agrad.jit(model), agrad.asarray(np.ones(8, np.float32), requires_grad=True)
    for change in (list, lambda: model.__setitem__(3, nn.Linear(8, 2)), lambda: setattr(model[0], "bias", bias)):
        change()
        close(forward(agrad.asarray(X)), model(agrad.asarray(X)), rtol=1e-6)


def test_arguments_that_require_a_gradient() -> None:
    """Gradients made inside the function are added to the caller's own leaves; leaves of the same kind share it."""

    @agrad.jit
    def step(w: Any, x: Any) -> Any:
        loss = agrad.sum((w * x) ** 2)
        loss.backward()
        return loss

    for k in (2.0, 3.0):
        leaf, x = agrad.asarray(np.asarray([1.0, k]), requires_grad=True), np.ones(2)
        step(leaf, x)
        step(leaf, x)
        np.testing.assert_allclose(leaf.grad.numpy(), 4 * leaf.detach().numpy())
    assert step.cache_info().misses == 2  # without and with a gradient to add to


def test_values_that_leave_a_trace_by_the_side_door() -> None:
    kept: Any = queue.SimpleQueue()

    @agrad.jit
    def f(x: Any) -> Any:
        kept.put(x * 2)
        return x

    f(X)
    fails(TracedValueError, "Return it", lambda: kept.get() + 1)


@pytest.mark.parametrize("steer", [lambda x: x[int(agrad.argmax(x[:, 0]))], lambda x: agrad.asarray(np.asarray(x))])
def test_values_that_steer_python(steer: Any) -> None:
    fails(TracedValueError, "traced", lambda: agrad.jit(steer)(X))
    fails(TracedValueError, "traced", lambda: agrad.jit(agrad.grad(lambda x: agrad.sum(agrad.asarray(steer(x)))))(X))


def test_state_is_as_it_was_where_the_function_raises() -> None:
    model = network()
    optimizer = optim.Adam(model.parameters())
    before, arrays = model.state_dict(), [p.data for p in model.parameters()]

    @agrad.jit
    def step(x: Any) -> Any:
        agrad.sum(model(x)).backward()
        optimizer.step()
        raise RuntimeError("in the middle")

    fails(RuntimeError, "in the middle", step, X)
    assert all(p.data is a and type(p) is agrad.Tensor for p, a in zip(model.parameters(), arrays, strict=True))
    assert all(p.grad is None for p in model.parameters())
    assert optimizer.steps == 0
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_threads_share_a_jitted_function() -> None:
    model = network()
    forward = agrad.jit(model)
    model.eval()
    expected = {n: model(agrad.asarray(X[:n])).detach().numpy() for n in range(1, 9)}

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(40):
            n = int(rng.integers(1, 9))
            close(forward(agrad.asarray(X[:n])), expected[n], rtol=1e-5, atol=1e-6)

    in_threads(work, 4)
    assert forward.cache_info().misses == 8


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "a scaled loss"])
def test_a_gradient_that_is_the_parameter(name: str) -> None:
    start, leaves = np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32), []

    def made() -> Any:
        w = agrad.asarray(start.copy(), requires_grad=True)
        leaves.append(w)
        return descent(OPTIMIZERS[name]([w]), lambda: agrad.sum(w * (w.detach() * 1.0)))

    same_steps(made, rtol=1e-4, atol=1e-5)
    close(*leaves, rtol=1e-4, atol=1e-5)


def test_another_thread_does_not_compute_with_state_that_is_being_traced() -> None:
    model = network()
    x = np.ones((3, 5), np.float32)
    tracing, looked = threading.Event(), threading.Event()

    def step(x: Any) -> Any:
        out = model(x)
        tracing.set()
        assert looked.wait(10)
        return out

    def other() -> None:
        assert tracing.wait(10)
        try:
            model(x)
        finally:
            looked.set()

    before = model(x).detach().numpy()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other)
        given = agrad.jit(step)(x)
    error = waiting.exception()
    assert isinstance(error, TracedValueError) and "step is being traced in another thread" in str(error)
    np.testing.assert_allclose(given.detach().numpy(), before, rtol=1e-6)
    np.testing.assert_array_equal(model(x).detach().numpy(), before)


def test_a_retained_graph_keeps_its_values_through_a_jitted_step() -> None:
    """The update writes elsewhere where a recorded graph still needs the old parameters."""
    w = agrad.asarray(np.asarray([1.0, 2.0]), requires_grad=True)
    step = agrad.jit(descent(optim.SGD([w], lr=0.5), lambda x: agrad.sum(w * x)))
    kept = agrad.sum(w * w * w)
    view = w.detach()
    x = np.asarray([1.0, 1.0])
    step(x)
    step(x)
    np.testing.assert_array_equal(view.numpy(), [1.0, 2.0])
    np.testing.assert_array_equal(w.detach().numpy(), [0.0, 1.0])
    kept.backward()
    np.testing.assert_array_equal(w.grad.numpy(), [3.0, 12.0])


def test_a_gradient_that_depends_on_no_input(backend: str) -> None:
    """The gradient of the last bias is a constant of the program, and has the dtype of its traced parameter."""
    w = agrad.asarray(agrad.ones(3, dtype=agrad.float32).data, requires_grad=True)
    step = agrad.jit(descent(optim.SGD([w], lr=0.5), lambda x: agrad.sum(w + x), "first"))
    for value in (3.0, 1.5, 0.0):
        assert step(agrad.zeros(3, dtype=agrad.float32)).item() == value


def test_the_first_copy_of_an_instance_may_be_in_a_trace() -> None:
    """Python files the names of slots in the class then."""
    pair = type("Pair", (), {})()
    pair.first = 2.0
    f = agrad.jit(lambda x: x * copy.copy(pair).first)
    assert [f(np.ones(1)).tolist() for _ in range(2)] == [[2.0], [2.0]] and f.cache_info().misses == 1


# ------------------------------------------------------------------ state that a function makes itself


def drawn(x: Any) -> Any:
    return x * agrad.random.uniform(agrad.random.Generator(0).key(), (), dtype=x.dtype)


def normalized(x: Any) -> Any:
    return nn.BatchNorm1d(5)(x)


def in_a_loop(x: Any) -> Any:
    return agrad.fori_loop(0, 3, lambda i, h: drawn(h), x)


@pytest.mark.parametrize("f", [drawn, normalized, in_a_loop])
def test_objects_with_state_that_a_function_makes_are_its_own(f: Callable[[Any], Any]) -> None:
    compiled = agrad.jit(f)
    for x in (ROWS, 2 * ROWS):
        close(compiled(x), f(x), rtol=1e-5, atol=1e-6)
    assert compiled.cache_info().misses == 1
    assert agrad.eval_shape(f, ROWS).shape == ROWS.shape


@pytest.mark.parametrize(
    ("make", "use"),
    [
        (lambda: agrad.asarray(1.0, requires_grad=True), lambda kept, x: kept * x),
        (lambda: agrad.random.Generator(0), lambda kept, x: x * agrad.random.uniform(kept.key(), ())),
    ],
)
def test_state_that_each_trace_replaces_unseen_ends_the_traces(make: Any, use: Any) -> None:
    hidden = contextvars.ContextVar[Any]("hidden")
    hidden.set(make())

    def f(x: Any) -> Any:
        kept = hidden.get()
        hidden.set(make())
        return use(kept, x)

    fails(ConfigurationError, "creates new state each time it is traced", lambda: agrad.jit(f)(np.ones(())))
