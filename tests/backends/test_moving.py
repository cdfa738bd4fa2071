"""Between libraries: DLPack both ways, ``to`` with its gradient, and several backends at work in one process."""

import importlib.util
import itertools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from crossing import runs
from refusals import fails

import agrad
from agrad.backends import load
from agrad.errors import DetachError, DeviceUnavailableError, MixedBackendsError


def marked(*names: str) -> Any:
    """A parameter of one or several backends, marked with the libraries that it needs."""
    return pytest.param(*names, marks=[pytest.mark.needs(name) for name in names if name in ("torch", "jax", "dask")])


ALL = ("numpy", "array_api_strict", "torch", "jax", "dask", *(["cupy"] if runs("cupy") else []))
HERE = ["numpy", "array_api_strict", *[name for name in ALL[2:] if importlib.util.find_spec(name) is not None]]
SHARING = [name for name in ALL if name != "dask"]
SHARING_PAIRS = [marked(*pair) for pair in itertools.product(SHARING, SHARING)]
PAIRS = [marked(*pair) for pair in itertools.permutations(ALL, 2)]
VALUES = np.arange(12.0, dtype=np.float32).reshape(3, 4)


def on(name: str, values: np.ndarray = VALUES) -> Any:
    """A raw array of a backend. Its memory begins where JAX can use it as it is."""
    room = np.empty(values.size * values.itemsize + 64, np.uint8)
    start = -room.ctypes.data % 64
    aligned = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    aligned[...] = values
    if name == "numpy":
        return aligned
    raw = load(name).from_host(aligned, None)
    return load(name).xp.from_dlpack(aligned) if name in ("torch", "array_api_strict") else raw


def address(x: Any) -> int:
    raw = x.raw if isinstance(x, agrad.Tensor) else x
    for find in (
        lambda: raw.data_ptr(),
        lambda: raw.unsafe_buffer_pointer(),
        lambda: raw.data.ptr,
        lambda: np.asarray(raw).__array_interface__["data"][0],
    ):
        try:
            return find()
        except AttributeError:
            pass
    raise AssertionError(type(raw))


@pytest.mark.parametrize("name", [marked(name) for name in ALL])
def test_an_array_stays_on_its_backend(name: str) -> None:
    """Whatever is selected, what is made of a library's array is of that library, and so are its gradients."""
    raw = on(name)
    for selected in HERE:
        with agrad.use_backend(selected):
            x = agrad.asarray(raw, requires_grad=True)
            y = agrad.sum(
                agrad.tanh(x[1:, ::2] @ agrad.matrix_transpose(x[:2, ::2])) * 2.0 + agrad.zeros_like(x[:2, :2])
            )
            y.backward()
            assert y.backend == x.grad.backend == (x + 1).backend == name
            assert isinstance(y.raw, load(name).array_types)


# ------------------------------------------------------------------ DLPack


@pytest.mark.parametrize(("source", "target"), SHARING_PAIRS)
def test_memory_is_shared_where_that_can_be(source: str, target: str) -> None:
    raw = on(source)
    on_host = {"cupy"} & {source, target}
    for copy in (None, False, True):
        if on_host and source != target and copy is False:
            fails(BufferError, "needs a copy", agrad.from_dlpack, raw, backend=target, copy=copy)
            continue
        x = agrad.from_dlpack(raw, backend=target, copy=copy)
        assert isinstance(x, agrad.Tensor)
        assert (x.backend, x.dtype, x.shape) == (target, agrad.float32, (3, 4))
        np.testing.assert_array_equal(x.numpy(), VALUES)
        if not on_host:
            assert (address(x) == address(raw)) == (copy is not True)
    if on_host:
        return
    # the library takes Tensors itself
    x = agrad.asarray(raw)
    taken = load(target).xp.from_dlpack(x)
    assert isinstance(taken, load(target).array_types)
    assert address(taken) == address(x)
    np.testing.assert_array_equal(load(target).to_host(taken), VALUES)
    assert x.__dlpack_device__() == x.raw.__dlpack_device__()
    with pytest.raises(DetachError, match=r"\.detach\(\)"):
        load(target).xp.from_dlpack(agrad.asarray(on(source), requires_grad=True))
    load(target).xp.from_dlpack(agrad.asarray(on(source), requires_grad=True).detach())


def test_what_is_asked_of_dlpack_is_handed_on() -> None:
    class Recording(np.ndarray):
        asked: dict[str, Any]

        def __dlpack__(self, **asked: Any) -> Any:
            type(self).asked = asked
            return super().__dlpack__(**asked)

    x = agrad.asarray(np.zeros(3).view(Recording))
    x.__dlpack__()
    assert Recording.asked == {}
    x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=True)
    assert Recording.asked == {"max_version": (1, 0), "dl_device": (1, 0), "copy": True}
    with pytest.raises((RuntimeError, ValueError), match="stream"):  # NumPy's error, which is a ValueError since 2.5
        x.__dlpack__(stream=1)
    assert Recording.asked == {"stream": 1}


@pytest.mark.needs("dask")
def test_what_cannot_be_handed_over_says_so() -> None:
    x = agrad.asarray(on("dask"))
    for ask in (x.__dlpack__, x.__dlpack_device__):
        fails(BufferError, r"'dask' do not support __dlpack.*x.to\('numpy'\)", ask)
    with pytest.raises(BufferError, match=r"an array of 'numpy' as one of 'dask' needs a copy"):
        agrad.from_dlpack(VALUES, backend="dask", copy=False)
    np.testing.assert_array_equal(agrad.from_dlpack(x, backend="numpy").numpy(), VALUES)


def test_the_interface_of_cuda_arrays() -> None:
    """Only for memory on a CUDA device, so that ``hasattr`` tells; here a NumPy array says it were."""
    for name in HERE:
        assert hasattr(agrad.asarray(on(name)), "__cuda_array_interface__") == (name == "cupy")
        if name != "cupy":
            assert not hasattr(agrad.asarray(on(name), requires_grad=True), "__cuda_array_interface__")

    class OnDevice(np.ndarray):
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.ctypes.data, False), "version": 3}

    x = agrad.asarray(VALUES.view(OnDevice))
    assert x.__cuda_array_interface__["data"] == (VALUES.ctypes.data, False)
    x.requires_grad = True
    with pytest.raises(DetachError, match=r"__cuda_array_interface__ .*\.detach\(\)"):
        _ = x.__cuda_array_interface__


# ------------------------------------------------------------------ to


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_derivatives_pass_through_to(source: str, target: str) -> None:
    x = agrad.asarray(on(source), requires_grad=True)
    moved = x.to(target)
    assert (moved.backend, moved.dtype, moved.shape) == (target, agrad.float32, (3, 4))
    loss = agrad.sum(agrad.exp(moved / 4) * moved)
    assert loss.backend == target
    loss.backward()
    assert (x.grad.backend, x.grad.device, x.grad.dtype) == (source, x.device, agrad.float32)
    np.testing.assert_allclose(x.grad.numpy(), np.exp(VALUES / 4) * (1 + VALUES / 4), rtol=1e-6)
    # in forward mode, and of the second order
    x, v = agrad.asarray(on(source)), agrad.asarray(on(source, np.ones_like(VALUES)))

    def f(x: Any) -> Any:
        return agrad.sum((x.to(target) ** 3).to(source))

    value, tangent = agrad.jvp(f, (x,), (v,))
    assert (value.backend, tangent.backend) == (source, source)
    np.testing.assert_allclose(tangent.numpy(), (3 * VALUES**2).sum(), rtol=1e-6)
    gradient, product = agrad.jvp(agrad.grad(f), (x,), (v,))
    assert (gradient.backend, product.backend) == (source, source)
    np.testing.assert_allclose(product.numpy(), 6 * VALUES, rtol=1e-6)


def test_to_another_device() -> None:
    first, second = (load("array_api_strict").device(name) for name in ("cpu", "device1"))
    x = agrad.asarray(on("array_api_strict"), requires_grad=True)
    for where in ("device1", second):
        x.zero_grad()
        moved = x.to(where)
        assert (moved.backend, moved.device) == ("array_api_strict", second)
        agrad.sum(moved * moved).backward()
        assert x.grad.device == first
        np.testing.assert_allclose(x.grad.numpy(), 2 * VALUES)
    assert x.to("cpu") is x


def test_from_dlpack_puts_an_array_on_the_device_that_is_asked_for() -> None:
    class Foreign:
        """An array of a library that agrad does not know."""

        def __dlpack__(self, **asked: Any) -> Any:
            return VALUES.__dlpack__(**asked)

        def __dlpack_device__(self) -> Any:
            return VALUES.__dlpack_device__()

    first, second = (load("array_api_strict").device(name) for name in ("cpu", "device1"))
    own = on("array_api_strict")
    with agrad.use_backend("array_api_strict"):
        for source in (VALUES, own, agrad.asarray(own), agrad.asarray(VALUES), Foreign()):
            for where in ("device1", second):
                x = agrad.from_dlpack(source, device=where)
                assert (x.backend, x.device, x.dtype) == ("array_api_strict", second, agrad.float32)
                np.testing.assert_array_equal(x.numpy(), VALUES)
            assert agrad.from_dlpack(source).device == first
        fails(BufferError, "device device1 needs a copy", agrad.from_dlpack, own, device="device1", copy=False)
        assert address(agrad.from_dlpack(own, device="cpu", copy=False)) == address(own)
        fails(DeviceUnavailableError, "no device 'moon'", agrad.from_dlpack, own, device="moon")
    leaf = agrad.asarray(VALUES, requires_grad=True)
    moved = agrad.from_dlpack(leaf, backend="array_api_strict", device="device1")
    assert moved.device == second
    agrad.sum(moved * moved).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), 2 * VALUES)


# ------------------------------------------------------------------ several backends in one process


def trained(name: str, steps: int = 8) -> list[float]:
    """The losses of a small network on a backend, born of the selection."""
    with agrad.use_backend(name):
        source = agrad.random.Generator(3)
        model = agrad.nn.Sequential(
            agrad.nn.Linear(4, 8, rng=source, dtype="float64"),
            agrad.nn.Tanh(),
            agrad.nn.Dropout(0.2, rng=source),
            agrad.nn.Linear(8, 1, rng=source, dtype="float64"),
        )
        optimizer = agrad.optim.Adam(model.parameters(), lr=0.05)
        x = agrad.random.normal(agrad.random.key(1), (16, 4), dtype="float64")
        target = agrad.sum(x * x, axis=1, keepdims=True)
        losses = []
        for _ in range(steps):
            loss = agrad.mean((model(x) - target) ** 2)
            assert loss.backend == name
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses


def test_backends_take_turns_in_one_process() -> None:
    expected = trained("numpy")
    for name in HERE:
        np.testing.assert_allclose(trained(name), expected, rtol=1e-9)
    with pytest.raises(
        MixedBackendsError, match=r'add was given arrays of numpy and of array_api_strict\. .*x\.to\("numpy"\)'
    ):
        agrad.asarray(on("numpy")) + agrad.asarray(on("array_api_strict"))


def test_backends_at_work_in_threads_at_once() -> None:
    names = [name for name in HERE if name != "dask"] * 2
    gate = threading.Barrier(len(names))
    expected = trained("numpy")

    def work(name: str) -> tuple[str, list[float]]:
        gate.wait(timeout=60)
        found = trained(name)
        return agrad.get_backend(), found

    before = agrad.get_backend()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    try:
        with ThreadPoolExecutor(len(names)) as pool:
            results = list(pool.map(work, names))
    finally:
        sys.setswitchinterval(interval)
    for name, (selected, losses) in zip(names, results, strict=True):
        assert selected == before
        np.testing.assert_allclose(losses, expected, rtol=1e-9, err_msg=name)
