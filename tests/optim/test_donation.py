"""Updates in place: they happen where nobody can see them, and only there."""

import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tensors import draw, host, leaf, set_grad
from training_steps import step_of

import agrad
from agrad import nn, optim
from agrad.backends.numpy.backend import donatable


def stepped(w: agrad.Tensor, kind: Callable[..., optim.Optimizer]) -> optim.Optimizer:
    optimizer = kind([w], lr=0.1)
    set_grad(w, draw(*w.shape, seed=3))
    optimizer.step()
    return optimizer


def all_of(a: np.ndarray) -> np.ndarray:
    return a


def twice(a: np.ndarray) -> np.ndarray:
    return 2 * a


def from_second(a: np.ndarray) -> np.ndarray:
    return a[1:]


HOLDERS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "variable": (lambda w: w.data, np.asarray, all_of),
    "detach": (lambda w: w.detach(), lambda held: held.numpy(), all_of),
    "slice": (lambda w: w.detach().numpy()[1:], np.asarray, from_second),
    "memoryview": (lambda w: memoryview(w.data), np.asarray, all_of),
    "dlpack": (lambda w: np.from_dlpack(w.data), np.asarray, all_of),
    "slice of a Tensor": (lambda w: w.detach()[1:], lambda held: held.numpy(), from_second),
    "recorded view": (lambda w: agrad.matrix_transpose(w), host, np.transpose),
    "twin": (lambda w: agrad.asarray(w.data, requires_grad=True), host, all_of),
    "closure": (lambda w: (lambda raw: lambda: raw)(w.data), lambda held: held(), all_of),
    "pullback": (lambda w: agrad.vjp(lambda x: x**2, w)[1], lambda held: host(held(np.ones((5, 3)))[0]), twice),
    "nditer": (lambda w: np.nditer(w.data), lambda held: held.operands[0], all_of),
}
"""Ways to see a parameter's array: how to hold it, how to look, and what part of the array it is."""


KINDS = [
    pytest.param(optim.SGD, id="SGD"),
    pytest.param(lambda ps, lr: optim.SGD(ps, lr, momentum=0.9), id="momentum"),
    pytest.param(optim.Adam, id="Adam"),
]


@pytest.mark.parametrize("kind", KINDS)
class TestInPlace:
    def test_alone_it_is_overwritten(self, kind: Any) -> None:
        for shape in ((), (5, 3)):
            w = leaf(draw(*shape))
            before, address = host(w), id(w.data)
            stepped(w, kind)
            assert id(w.data) == address
            assert not np.array_equal(host(w), before)

    @pytest.mark.parametrize(("hold", "see", "part"), HOLDERS.values(), ids=HOLDERS)
    def test_whoever_holds_it_sees_no_change(self, kind: Any, hold: Any, see: Any, part: Any) -> None:
        w = leaf(draw(5, 3))
        before = host(w)
        held = hold(w)
        optimizer = stepped(w, kind)
        after = host(w)
        assert not np.array_equal(after, before)
        np.testing.assert_array_equal(see(held), part(before))
        # once let go, it is in place again, and goes on from the same values
        del held
        address = id(w.data)
        optimizer.step()
        assert id(w.data) == address
        twin = leaf(before)
        again = stepped(twin, kind)
        np.testing.assert_array_equal(host(twin), after)
        again.step()
        np.testing.assert_array_equal(host(twin), host(w))

    @pytest.mark.parametrize("recorded", [False, True], ids=["retained", "recorded"])
    def test_a_graph_keeps_its_values(self, kind: Any, recorded: bool) -> None:
        w = leaf(draw(4))
        before = host(w)
        loss = agrad.sum(w**3)
        loss.backward(retain_graph=True, create_graph=recorded)
        g = w.grad
        kind([w], lr=0.1).step()
        assert not np.array_equal(host(w), before)
        w.grad = None
        (agrad.sum(g) if recorded else loss).backward()
        np.testing.assert_allclose(host(w.grad), 6 * before if recorded else 3 * before**2)

    def test_a_constant_that_the_tape_does_not_keep(self, kind: Any) -> None:
        w, x = leaf(draw(4)), leaf(draw(4, seed=1))
        before = host(w)
        y = w.detach() + x
        stepped(w, kind)
        assert not np.array_equal(host(w), before)
        assert repr(y.op.args[0]) == "(not kept)"  # rather than the new values

    def test_memory_that_is_not_its_own(self, kind: Any) -> None:
        buffer = bytearray(draw(6).tobytes())
        before = bytes(buffer)
        w = agrad.asarray(np.frombuffer(buffer), requires_grad=True)
        stepped(w, kind)
        assert bytes(buffer) == before
        read_only = draw(6)
        read_only.setflags(write=False)
        w = agrad.asarray(read_only, requires_grad=True)
        del read_only
        stepped(w, kind)

    def test_two_parameters_of_one_array(self, kind: Any) -> None:
        raw = draw(4)
        before = raw.copy()
        one, two = (agrad.asarray(raw, requires_grad=True) for _ in range(2))
        three = agrad.asarray(raw[:2], requires_grad=True)
        del raw
        optimizer = kind([one, two, three], lr=0.1)
        g = draw(4, seed=8)
        for tensor in (one, two, three):
            set_grad(tensor, g[: tensor.size])
        optimizer.step()
        assert not np.array_equal(host(one), before)
        np.testing.assert_array_equal(host(one), host(two))
        np.testing.assert_array_equal(host(one)[:2], host(three))

    def test_a_gradient_that_is_the_parameter_itself(self, kind: Any) -> None:
        w, twin = leaf(draw(6)), leaf(draw(6))
        w.grad = w.detach()
        set_grad(twin, draw(6))
        for tensor in (w, twin):
            kind([tensor], lr=0.1).step()
        np.testing.assert_array_equal(host(w), host(twin))

    def test_any_layout(self, kind: Any) -> None:
        plain = leaf(draw(5, 4))
        turned = agrad.asarray(np.asfortranarray(draw(5, 4)), requires_grad=True)
        strided = agrad.asarray(np.repeat(draw(5, 4), 2, axis=1)[:, ::2], requires_grad=True)
        optimizer = kind([plain, turned, strided], lr=0.1)
        for step in range(3):
            g = draw(5, 4, seed=step)
            set_grad(plain, g)
            turned.grad = agrad.asarray(g.copy())
            strided.grad = agrad.asarray(np.asfortranarray(g))
            optimizer.step()
        np.testing.assert_array_equal(host(turned), host(plain))
        np.testing.assert_array_equal(host(strided), host(plain))

    def test_no_memory_of_the_size_of_a_parameter_is_asked_for(self, kind: Any) -> None:
        w = leaf(draw(500_000))
        optimizer = stepped(w, kind)

        def allocated() -> int:
            tracemalloc.reset_peak()
            start = tracemalloc.get_traced_memory()[0]
            optimizer.step()
            return tracemalloc.get_traced_memory()[1] - start

        tracemalloc.start()
        try:
            optimizer.step()
            assert allocated() < 100_000
            held = w.data
            assert allocated() >= 4_000_000  # the measure itself sees an allocation
            del held
        finally:
            tracemalloc.stop()


def test_an_ordinary_training_step_is_in_place() -> None:
    nn.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    x, labels = draw(8, 6).astype("float32"), np.arange(8) % 3
    step = step_of(optim.Adam(model.parameters()), lambda: agrad.cross_entropy(model(x), labels))
    addresses = [id(p.data) for p in model.parameters()]
    for _ in range(3):
        step()
        assert [id(p.data) for p in model.parameters()] == addresses


def test_the_count_is_right_in_other_frames() -> None:
    w = leaf(draw(3))
    results = []

    def ask() -> None:
        results.extend(donatable(w))
        held = w.data
        results.extend(donatable(w))
        del held

    ask()
    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            pool.submit(ask).result()
    for _ in range(2000):  # past every specialisation of the interpreter
        ask()
    assert results == [True, False] * (len(results) // 2)


class TestCotangents:
    """Those of what is used twice are added up in the first one's memory, where nobody else holds it."""

    N = 250_000

    def peak(self, f: Callable[[Any], Any]) -> float:
        """Arrays of N numbers that a backward pass has at once, beside those of the tape."""
        y = f(agrad.asarray(draw(self.N), requires_grad=True))
        tracemalloc.start()
        try:
            start = tracemalloc.get_traced_memory()[0]
            y.backward(retain_graph=True)
            return (tracemalloc.get_traced_memory()[1] - start) / (8 * self.N)
        finally:
            tracemalloc.stop()

    def test_a_sum_of_two_asks_for_no_memory(self) -> None:
        # two products with the ones that sum gives back; a third would be their sum
        assert self.peak(lambda x: agrad.sum(x * 3.0) + agrad.sum(x * 5.0)) < 2.5

    def test_what_else_is_held_stays_as_it_is(self) -> None:
        x = agrad.asarray(draw(self.N), requires_grad=True)
        y = x * 2
        early, late = y * 3.0, y + 1.0
        seen: list[Any] = []
        late.register_hook(lambda g: seen.append(g.numpy()[1:]))  # a view of it
        start = draw(self.N, seed=1)
        agrad.sum(early * start + late * start).backward()
        np.testing.assert_array_equal(seen[0], start[1:])
        np.testing.assert_allclose(host(x.grad), 8 * start)
