"""Steps on CuPy that update all parameters by one kernel: the bits of one kernel a parameter, in fewer launches."""

import functools
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from processes import run_program
from refusals import fails
from training_steps import OPTIMIZERS

import agrad
from agrad import optim

pytestmark = pytest.mark.needs("cupy", "cuda_on_cpu")

SHAPES = [(), (1,), (3, 5), (0,), (2, 3, 4), (1024,), (1025,), (41, 100)]
LAYOUTS: list[Callable[[Any], Any]] = [
    lambda a: a,
    lambda a: a.T.copy().T,
    lambda a: a.repeat(2, axis=-1)[..., ::2] if a.ndim else a,
]
"""Contiguous, with the first axis innermost, and strided."""


def reading(kind: type[optim.Optimizer]) -> type[optim.Optimizer]:
    """An optimizer that reads each parameter as soon as it is updated, as a user's may."""

    class Reading(kind):  # type: ignore[misc,valid-type]
        found: ClassVar[list[np.ndarray]] = []

        @classmethod
        @functools.wraps(kind.update.__func__)  # type: ignore[attr-defined]
        def update(cls, *args: Any, **options: Any) -> Any:
            new = super().update(*args, **options)
            cls.found.append(agrad.asarray(new[0]).numpy().copy())
            return new

    Reading.__name__ = kind.__name__  # which states of optimizers contain
    return Reading


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    values = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype[0] == "c" else 0)
    return np.asarray(values, dtype)


def trained(backend: str, make: Callable[..., optim.Optimizer], dtype: str) -> list[np.ndarray]:
    """Five steps with all layouts, in two groups, of which some leave parameters out."""
    rng = np.random.default_rng(0)
    leaf = lambda a: agrad.asarray(a, backend=backend, requires_grad=True)  # noqa: E731
    ps = [leaf(layout(draw(rng, shape, dtype))) for layout in LAYOUTS for shape in SHAPES]
    optimizer = make([{"params": ps[::2]}, {"params": ps[1::2], "lr": 0.01}], lr=0.1)
    for step in range(5):
        held = [p.data for p in ps[:: step + 2]]  # which are not overwritten
        for i, p in enumerate(ps):
            if step == 2 and i % 3 == 0:
                continue
            g = LAYOUTS[(i + step) % 3](draw(rng, p.shape, dtype))
            p.grad = agrad.asarray(g, backend=backend)
            if i % 7 == step:
                p.grad = agrad.broadcast_to(p.grad[..., :1], p.shape) if p.ndim and p.size else p.grad
        # the arrays of other parameters, whole and as a view
        ps[6].grad, ps[14].grad = ps[14].detach(), ps[6].detach()[::-1]
        optimizer.step()
        optimizer.zero_grad()
        del held
    return [np.array(p.detach().numpy()) for p in ps] + [
        x for name, x in sorted(optimizer.state_dict().items()) if x.shape != ()
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_bits_are_those_of_one_kernel_a_parameter(name: str, dtype: str) -> None:
    kind, options = OPTIMIZERS[name]
    if dtype == "float16" and kind is not optim.SGD:
        options = {**options, "eps": 1e-3}  # 1e-8 is 0
    joint, apart, right = (
        trained(backend, lambda ps, lr, made=made: made(ps, lr, **options), dtype)
        for backend, made in [("cupy", kind), ("cupy", reading(kind)), ("numpy", kind)]
    )
    for a, b, c in zip(joint, apart, right, strict=True):
        np.testing.assert_array_equal(a, b)
        digits = 2e-2 if dtype == "float16" else 2e-4 if dtype in ("float32", "complex64") else 1e-10
        np.testing.assert_allclose(a, c, rtol=digits, atol=digits)


def many(count: int, dtype: str = "float32") -> list[agrad.Tensor]:
    """Parameters of several sizes, with gradients."""
    rng = np.random.default_rng(0)
    found = []
    for k in range(count):
        shape = SHAPES[k % 3] if k % 5 else (1000 + k, 2)
        p = agrad.asarray(draw(rng, shape, dtype), backend="cupy", requires_grad=True)
        p.grad = agrad.asarray(draw(rng, shape, dtype), backend="cupy")
        found.append(p)
    return found


def launches(step: Callable[[], Any]) -> list[str]:
    import cuda_on_cpu

    return [line.partition(" ")[0] for line in cuda_on_cpu.trace(step) if not line.startswith("mem")]


@pytest.mark.parametrize(("name", "most"), [("plain", 101), ("momentum", 72), ("Adam", 56), ("AdamW", 56)], ids=str)
def test_as_many_parameters_in_a_launch_as_its_arguments_can_name(name: str, most: int) -> None:
    kind, options = OPTIMIZERS[name]
    options = {**options, "maximize": False} if kind is not optim.AdamW else options
    for count, expected in [(1, 1), (most, 1), (most + 1, 2), (2 * most + 1, 3)]:
        ps, others = many(count), many(count)
        optimizer, other = kind(ps, 0.1, **options), reading(kind)(others, 0.1, **options)
        optimizer.before_trace()
        other.before_trace()
        assert len(launches(optimizer.step)) == expected
        other.step()
        for p, q in zip(ps, others, strict=True):
            np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())


def test_what_reads_results_at_once_finds_them() -> None:
    for kind in (optim.SGD, optim.Adam):
        ps = many(5)
        made = reading(kind)
        made(ps, lr=0.1).step()
        for p, found in zip(ps, made.found, strict=True):  # type: ignore[attr-defined]
            np.testing.assert_array_equal(p.detach().numpy(), found)


def test_what_differs_is_launched_apart() -> None:
    ps = [*many(3), *many(3, "float64"), *many(3)]
    optimizer = optim.SGD([{"params": ps[:6]}, {"params": ps[6:], "lr": 0.2}], lr=0.1, momentum=0.9)
    optimizer.before_trace()
    assert launches(optimizer.step) == ["agrad_sgd_momentum_parts"] * 3
    ps[0].grad = agrad.asarray(np.ones((2, 1000), np.float32), backend="cupy").T
    assert launches(optimizer.step) == ["agrad_sgd_momentum", *["agrad_sgd_momentum_parts"] * 3]


def test_a_step_that_fails_has_changed_the_parameters_before() -> None:
    ps = many(4)
    before = [p.detach().numpy() for p in ps]
    optimizer = optim.Adam(ps, lr=0.1)
    made: list[Any] = []

    def initial(p: Any, *others: Any) -> Any:
        if len(made) == 2:
            raise MemoryError("the third")
        made.append(type(optimizer).initial(p, *others))
        return made[-1]

    optimizer.initial = initial  # type: ignore[method-assign]
    fails(MemoryError, "the third", optimizer.step)
    changed = [not np.array_equal(p.detach().numpy(), a) for p, a in zip(ps, before, strict=True)]
    assert changed == [True, True, False, False]
    assert all(np.isfinite(p.detach().numpy()).all() for p in ps)
    del optimizer.initial
    made.clear()
    assert launches(optimizer.step)[-1] == "agrad_adam_parts"  # the next one is an ordinary step


def test_another_thread_does_not_wait() -> None:
    from agrad.kernels.cupy.elementwise import JOINT

    (p,) = many(1)
    before = p.detach().numpy()
    with JOINT:
        thread = threading.Thread(target=reading(optim.SGD)([p], lr=0.1).step)
        thread.start()
        thread.join()
        assert not np.array_equal(p.detach().numpy(), before)


def test_a_step_that_is_captured_is_done_by_the_graph() -> None:
    import cupy

    ps, others = many(60), many(60)
    optimizer, other = optim.SGD(ps, 0.1, momentum=0.9), optim.SGD(others, 0.1, momentum=0.9)
    optimizer.step()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        optimizer.step()
        graph = stream.end_capture()
    for done in range(3):
        other.step()
        for p, q in zip(ps, others, strict=True):
            np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy(), err_msg=str(done))
        graph.launch(stream)
        stream.synchronize()


TWO_DEVICES = """
import cupy
import numpy as np
import agrad
from agrad import optim

ps = []
for k in range(4):
    with cupy.cuda.Device(k % 2):
        ps.append(agrad.asarray(cupy.arange(3.0) + k, requires_grad=True))
        ps[-1].grad = agrad.asarray(cupy.ones(3))
held = ps[3].data
optim.SGD(ps, lr=1.0).step()
for k, p in enumerate(ps):
    assert p.data.device.id == k % 2
    np.testing.assert_array_equal(p.detach().numpy(), np.arange(3.0) + k - 1)
ps[2].grad = ps[1].grad
try:
    optim.SGD(ps, lr=1.0).step()
except ValueError as error:
    assert "device" in str(error), error
else:
    raise AssertionError("a gradient on another device")
for k, p in enumerate(ps):
    np.testing.assert_array_equal(p.detach().numpy(), np.arange(3.0) + k - (2 if k < 2 else 1))
assert cupy.cuda.Device().id == 0
"""


def test_each_device_has_a_launch_of_its_own() -> None:
    run_program(TWO_DEVICES, strict=True, CUPY_ON_CPU_DEVICES="2")
