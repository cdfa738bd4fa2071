"""Every backend speaks the same words: NumPy's indexing rules, devices, copies to and from the host."""

import functools
import importlib.util
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import array_api_strict as strict
import numpy as np
import pytest
from crossing import runs
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from refusals import fails
from tensors import all_equal

import agrad
import agrad.backends as backends
from agrad.backends.base import Backend
from agrad.errors import DeviceUnavailableError, DtypeError, OperandError, ShapeError
from agrad.shapes import ARRAY, broadcasts_to

TOMORROW = "library_of_tomorrow"
EACH = [
    "numpy",
    "array_api_strict",
    TOMORROW,
    *[pytest.param(name, marks=pytest.mark.needs(name)) for name in ("torch", "jax", "dask")],
    pytest.param("cupy", marks=pytest.mark.skipif(not runs("cupy"), reason="CuPy has no GPU here")),
]
"""The names of all backends, and of one that is made of a namespace alone."""


@functools.cache
def tomorrow() -> ModuleType:
    """A library of the standard that agrad has never heard of: array-api-strict, loaded under another name."""
    path = Path(strict.__file__)
    spec = importlib.util.spec_from_file_location(TOMORROW, path, submodule_search_locations=[str(path.parent)])
    assert spec is not None and spec.loader is not None
    made = sys.modules[TOMORROW] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    # its own imports array_api_strict by name
    type(made.zeros(1)).__array_namespace__ = lambda self, api_version=None: made
    return made


def loaded(name: str) -> Backend:
    """Load a backend as if the user had selected it: JAX holds float64 then."""
    tomorrow()
    backend = backends.load(name)
    backend.on_select()
    return backend


@pytest.fixture(params=EACH)
def backend(request: pytest.FixtureRequest) -> Backend:
    return loaded(request.param)


def some_devices(backend: Backend) -> list:
    """The default device, and another that holds every dtype where there is one."""
    return [None, backend.device("device1")] if backend.name in ("array_api_strict", TOMORROW) else [None]


def as_template(index: tuple) -> tuple[tuple, list]:
    """An index as agrad hands it to a backend: a template, and its arrays and lists apart."""
    is_array = [isinstance(entry, (np.ndarray, list)) for entry in index]
    template = tuple(ARRAY if a else entry for a, entry in zip(is_array, index, strict=True))
    return template, [entry for a, entry in zip(is_array, index, strict=True) if a]


def check_index(backend: Backend, shape: tuple[int, ...], index: tuple, device: object, on_host: bool) -> None:
    """All three words at one index, against what NumPy does with it."""
    data = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
    template, arrays = as_template(index)
    x = backend.from_host(data, device)
    given_arrays = [a if on_host or isinstance(a, list) else backend.from_host(a, device) for a in arrays]
    expected = np.asarray(data[index])

    got = backend.xp.getitem(x, *given_arrays, index=template)
    assert isinstance(got, backend.array_types) and tuple(got.shape) == expected.shape
    assert backend.device_of(got) == backend.device_of(x)
    np.testing.assert_array_equal(backend.to_host(got), expected, strict=True)

    # repeated positions get one and the same value, as which of several wins is nobody's promise
    arrays_of_one = [np.full(shape, -2.0) for shape in ((1,) * expected.ndim, expected.shape)] if expected.ndim else []
    for value in (-1.5, 7, True, *arrays_of_one):
        raw = backend.from_host(value, device) if isinstance(value, np.ndarray) else value
        wanted = data.copy()
        wanted[index] = value
        changed = backend.xp.setitem(x, raw, *given_arrays, index=template)
        assert backend.device_of(changed) == backend.device_of(x)
        np.testing.assert_array_equal(backend.to_host(changed), wanted, strict=True)

    g = np.arange(1.0, 1.0 + expected.size).reshape(expected.shape)
    summed = np.zeros(shape)
    np.add.at(summed, index, g)
    out = backend.xp.scatter_add(backend.from_host(g, device), *given_arrays, index=template, shape=shape)
    assert isinstance(out, backend.array_types) and backend.device_of(out) == backend.device_of(x)
    np.testing.assert_array_equal(backend.to_host(out), summed, strict=True)
    np.testing.assert_array_equal(backend.to_host(x), data, strict=True)


I = np.array  # noqa: E741 - as short as the table below needs
MASK = np.arange(12).reshape(3, 4) % 3 == 0
OF_SHAPES: dict[tuple[int, ...], list[tuple]] = {
    (): [(), (...,), (None,), (None, ..., None), (I(True),), (I(False),), (True,), (False, None)],
    (5,): [
        (2,), (-1,), (slice(None, None, -1),), (slice(-100, 100),), (slice(3, 1),), (slice(1, 3, -1),),
        (slice(None, None, -2),), (I([0, -1, 0, 3]),), (I([[0, 1], [1, 1]]),), (I(3),), (I([], dtype=np.int64),),
        ([],), ([4, 4, 0],), ([True, False, True, False, False],), (I([0, 1, 1], dtype=np.uint8),),
        (I([0, -1, 1], dtype=np.int8),), (I([0, 1, 1], dtype=np.int32),), (I([True, False, True, True, False]),),
        (np.zeros(5, dtype=bool),),
    ],
    (0,): [(I([], dtype=np.int64),), (slice(None, None, -1),), (np.zeros(0, dtype=bool),)],
    (0, 3): [(slice(None), I([0, 0, 2]))],
    (3, 4): [
        (slice(0, 0), np.zeros(0, dtype=bool)), (1, 2), (..., -1), (1,),
        (None, slice(None, None, -2), None, slice(3, 0, -1)), (MASK,), (MASK, None), (None, MASK),
        (slice(None), I([0, 1, 1, -4])), (slice(None, None, -1), I([0, 1, 1])), (I([0, 2]), I([1, 1])),
        (I([[0], [2]]), I([1, 1, 3])), (I([True, False, True]), 2), (I([True, False, True]), I([0, 3])),
        (I([0, 0]), None, slice(1, 3)), (I([0, 0]), None, I([1, 1])), (I([0, 0]), ..., I([1, 1])), (2, I([1, 1])),
        (I(True), 1), (I(False), slice(None)), (I([], dtype=np.int64), slice(0, 0)),
    ],
    (2, 3, 4): [
        (0, slice(None), I([1, 1, 0])), (I([1, 1, 0]), slice(None), 0), (slice(None), 0, I([1, 1, 0])),
        (slice(None), I([0, 1]), I([1, 1])), (slice(None), I([0, 1]), ..., I([1, 1])),
        (I([0, 1]), slice(None, None, -1), I([1, 1])), (slice(None, None, -1), MASK),
        (None, I([1, 1]), None, 0, slice(None, None, -3)), (I([0, 1]), I([[0], [1]]), None, I([2, 2])),
        (..., I([True, False, True, True])), (True, I([1, 0]), slice(None), I([3, 3])),
    ],
    (1, 0): [(..., I([0]), I(False))],
    (2, 0, 4): [(I([1, 1]), slice(None), I([3, 3]))],
}  # fmt: skip
INDICES = [(shape, index) for shape, indices in OF_SHAPES.items() for index in indices]


@pytest.mark.parametrize("on_host", [False, True], ids=["own", "host"])
def test_indexing_words_follow_numpy(backend: Backend, on_host: bool) -> None:
    for device in some_devices(backend):
        for shape, index in INDICES:
            try:
                check_index(backend, shape, index, device, on_host)
            except Exception as error:
                raise AssertionError(f"x of shape {shape} at {index} on {device}") from error


def test_which_shapes_broadcast_to_which() -> None:
    def numpys(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
        try:
            np.broadcast_to(np.empty(shape), target)
        except ValueError:
            return False
        return True

    shapes = [shape for n in range(4) for shape in itertools.product((0, 1, 2), repeat=n)]
    for shape, target in itertools.product(shapes, repeat=2):
        assert broadcasts_to(shape, target) == numpys(shape, target), (shape, target)


@st.composite
def shapes_and_indices(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple]:
    """A shape and any index that NumPy takes for it: every kind of entry, in any order."""
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    index: list = []
    axis = 0
    while axis < len(shape):
        n = shape[axis]
        kinds = ["slice", "all", "mask", "none", "truth", "stop"] + ["int", "array", "array"] * (n > 0)
        kind = draw(st.sampled_from(kinds))
        if kind == "stop":
            break
        if kind == "int":
            index.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            ends = st.none() | st.integers(-n - 2, n + 2)
            index.append(slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, -1, -2, -3]))))
        elif kind == "all":
            index.append(slice(None))
        elif kind == "array":
            own = tuple(1 if draw(st.booleans()) else k for k in batch[draw(st.integers(0, len(batch))) :])
            count = int(np.prod(own, dtype=int))
            values = draw(st.lists(st.integers(-n, n - 1), min_size=count, max_size=count))
            index.append(np.array(values, dtype=np.int64).reshape(own))
        elif kind == "mask":
            ndim = draw(st.integers(1, len(shape) - axis))
            count = int(np.prod(shape[axis : axis + ndim], dtype=int))
            bits = draw(st.lists(st.booleans(), min_size=count, max_size=count))
            index.append(np.array(bits, dtype=bool).reshape(shape[axis : axis + ndim]))
            axis += ndim - 1
        elif kind == "truth":
            index.append(draw(st.sampled_from([True, np.array(True), np.array(False)])))
        if kind == "none":
            index.append(None)
        axis += kind not in ("none", "truth")
        if len(index) > 7:
            break
    if draw(st.booleans()):
        index.insert(draw(st.integers(0, len(index))), Ellipsis)
    return shape, tuple(index)


COMPILES = ("jax", "dask", "cupy")
"""Libraries that take long for each shape they meet for the first time."""


@pytest.mark.parametrize("name", EACH)
def test_indexing_words_follow_numpy_at_any_index(name: str) -> None:
    backend = loaded(name)

    @settings(
        max_examples=30 if name in COMPILES else 60,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    @given(case=shapes_and_indices(), on_host=st.booleans())
    def follows(case: tuple, on_host: bool) -> None:
        shape, index = case
        try:
            np.zeros(shape)[index]
        except IndexError:  # an Ellipsis moved entries to other axes, or masks and arrays do not broadcast
            reject()
        check_index(backend, shape, index, some_devices(backend)[-1], on_host)

    follows()


def own(backend: Backend, a: object, device: object = None) -> object:
    return backend.from_host(np.asarray(a), device)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128"]
)
def test_scatter_add_keeps_every_dtype_and_accumulates(backend: Backend, dtype: str) -> None:
    values = np.arange(1, 13).reshape(3, 4)
    values = values % 2 == 0 if dtype == "bool" else values * (1 - 2j) if "complex" in dtype else values
    g = values.astype(dtype)
    index, arrays = (ARRAY, slice(None)), [np.array([1, 1, -2])]
    for device in some_devices(backend):
        out = backend.xp.scatter_add(own(backend, g, device), *arrays, index=index, shape=(3, 4))
        expected = np.zeros((3, 4), dtype)
        np.add.at(expected, (arrays[0],), g)
        np.testing.assert_array_equal(backend.to_host(out), expected, strict=True)
        assert backend.device_of(out) == backend.device_of(own(backend, g, device))


def test_setitem_takes_the_dtype_of_the_array(backend: Backend) -> None:
    x = own(backend, np.zeros(3, np.float32))
    out = backend.xp.setitem(x, own(backend, np.ones(2)), index=(slice(1, 3),))
    np.testing.assert_array_equal(backend.to_host(out), np.array([0, 1, 1], np.float32), strict=True)


@pytest.mark.parametrize(
    ("index", "part"),
    [((5,), (3,)), ((0, -4), ()), ((ARRAY,), (2, 3)), ((slice(None), ARRAY), (2, 2)), ((0, 0, 0), ())], ids=str,
)  # fmt: skip
@pytest.mark.parametrize("on_host", [False, True], ids=["own", "host"])
def test_an_index_out_of_range_is_an_error(backend: Backend, index: tuple, part: tuple, on_host: bool) -> None:
    if backend.name == "cupy":
        pytest.skip("CuPy wraps integers that are out of range")
    x = own(backend, np.zeros((2, 3)))
    arrays = [np.array([0, 3])] * index.count(ARRAY)
    if not on_host:
        arrays = [own(backend, a) for a in arrays]
    beyond = "[Tt]oo many (indices|entries)" if len(index) > 2 else "out of bounds"
    with pytest.raises((IndexError, ShapeError), match=beyond):
        backend.to_host(backend.xp.getitem(x, *arrays, index=index))
    with pytest.raises((IndexError, ShapeError), match=beyond):
        backend.to_host(backend.xp.setitem(x, 1.0, *arrays, index=index))
    with pytest.raises((IndexError, ShapeError), match=beyond):
        backend.to_host(backend.xp.scatter_add(own(backend, np.ones(part)), *arrays, index=index, shape=(2, 3)))
    if index.count(ARRAY):
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            backend.to_host(backend.xp.take(x, own(backend, np.array([0, 3])), axis=len(index) - 1))


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "float32", "float64", "complex64", "complex128"]
)
def test_the_way_to_the_library_and_back(backend: Backend, dtype: str) -> None:
    for shape, device in itertools.product([(), (3,), (2, 0), (2, 3, 4)], some_devices(backend)):
        a = np.array(np.arange(int(np.prod(shape, dtype=int))).reshape(shape) % 5, dtype)
        for host in (a, a[::-1] if shape else a, a.T.copy().T):
            host.flags.writeable = False
            raw = backend.from_host(host, device)
            assert isinstance(raw, backend.array_types) and tuple(raw.shape) == shape
            assert raw.dtype == getattr(backend.xp, dtype)
            assert backends.backend_of(raw) is backend
            assert backend.device_of(raw) == backend.device(device)
            np.testing.assert_array_equal(backend.to_host(raw), host, strict=True)
            np.testing.assert_array_equal(backends.to_host(raw), host, strict=True)


def test_from_host_copies(backend: Backend) -> None:
    host = np.zeros(1000)
    raw = backend.from_host(host, None)
    host[:] = 1
    backend.synchronize()
    assert not backend.to_host(raw).any()


def test_devices_have_names(backend: Backend) -> None:
    assert backend.device(None) in backend.devices()
    for device in backend.devices():
        assert backend.device(device) == device
    default = "cuda" if backend.name == "cupy" else "cpu"
    assert backend.device(default) in backend.devices()
    for wrong in ("nonsense", "cuda:99", "cpu:99", ""):
        assert backend.find_device(wrong) is None
        message = rf"{backend.name!r} has no device {wrong!r}.*Its devices"
        fails(DeviceUnavailableError, message, backend.device, wrong)


def test_the_vocabulary_is_the_standards(backend: Backend) -> None:
    lacks = {"dask": {"from_dlpack", "broadcast_shapes", "take_along_axis"}}
    lacks_linalg = {"dask": {"cross"}}
    own_names = {name for name in strict.__all__ if not name.startswith("_") and name != "Device"}
    own_names = {name for name in own_names if "strict_flags" not in name and "StrictFlags" not in name}
    assert own_names - set(vars(backend.xp)) == lacks.get(backend.name, set())
    assert set(strict.linalg.__all__) - set(vars(backend.xp.linalg)) == lacks_linalg.get(backend.name, set())
    assert not set(strict.fft.__all__) - set(vars(backend.xp.fft))


def test_names_of_array_api_strict_devices() -> None:
    backend = backends.load("array_api_strict")
    assert backend.device("cpu") == backend.device("CPU_DEVICE") == backend.default_device()
    first, second = backend.device("device1"), backend.device("device2")
    assert backend.device_of(own(backend, [1.0], first)) == first != second
    with pytest.raises(ValueError, match="device"):  # that they do not mix is what the tests above rely on
        backend.xp.add(own(backend, [1.0], first), own(backend, [1.0], second))


@pytest.mark.needs("dask")
def test_chains_of_matrix_functions_share_their_tasks_in_dask() -> None:
    x = agrad.asarray(np.asarray([[2.0, 1.0], [0.0, 3.0]]), backend="dask")
    tasks = []
    for _ in range(6):
        x = agrad.linalg.inv(x) + agrad.linalg.solve(x, x)
        tasks.append(len(dict(x.raw.__dask_graph__())))
    assert tasks[-1] - tasks[-2] == tasks[-2] - tasks[-3]


@pytest.mark.needs("dask")
def test_dask_stays_lazy() -> None:
    backend = backends.load("dask")
    import dask.array as da

    def refuse(block: np.ndarray) -> np.ndarray:
        raise RuntimeError("computed")

    x = da.zeros((4, 6), chunks=(2, 3)).map_blocks(refuse, meta=np.empty((0, 0)))
    i = da.from_array(np.array([0, 3, 3])).map_blocks(lambda block: block * 1, meta=np.empty(0, int))
    results = [
        backend.xp.getitem(x, index=(slice(1, 3), 0)),
        backend.xp.getitem(x, i, index=(slice(None), ARRAY)),
        backend.xp.getitem(x, i, np.array([[1]]), index=(ARRAY, ARRAY)),
        backend.xp.setitem(x, 1.0, i, index=(ARRAY,)),
        backend.xp.scatter_add(x, np.array([0, 0, 1, 1]), index=(ARRAY,), shape=(9, 6)),
    ]
    assert [r.shape for r in results] == [(2,), (4, 3), (1, 3), (4, 6), (9, 6)]
    for result in results:
        fails(RuntimeError, "computed", backend.to_host, result)


@pytest.mark.needs("jax")
def test_jax_indexes_under_its_own_trace() -> None:
    backend = backends.load("jax")
    import jax

    x, i = (own(backend, np.arange(6, dtype=np.float32).reshape(3, 2)), own(backend, np.array([2, 0, 2], np.int32)))

    def traced(x: object, i: object) -> tuple:
        assert backends.backend_of(x) is backend and backend.device_of(x) == backend.default_device()
        picked = backend.xp.getitem(x, i, index=(ARRAY, 1))
        summed = backend.xp.scatter_add(picked, i, index=(ARRAY,), shape=(3,))
        return picked, summed, backend.xp.setitem(summed, 9.0, i, index=(ARRAY,))

    all_equal(jax.jit(traced)(x, i), ([5, 1, 5], [1, 0, 10], [9, 0, 9]))


@pytest.mark.needs("torch")
def test_torch_arrays_as_its_users_make_them() -> None:
    backend = backends.load("torch")
    import torch

    z = torch.tensor([1 + 2j]).conj()
    np.testing.assert_array_equal(backend.to_host(z), [1 - 2j])
    assert backend.to_host(torch.ones(2, requires_grad=True)).tolist() == [1, 1]
    fails(DtypeError, r"bfloat16.*Cast it first", lambda: backend.to_host(torch.ones(2, dtype=torch.bfloat16)))
    fails(DtypeError, "PyTorch has no dtype for <U1", lambda: backend.from_host(np.array(["a"]), None))
    x = torch.arange(12.0).reshape(3, 4).T  # strided, and the result must not remember it
    out = backend.xp.setitem(x.expand(2, 4, 3), 0.0, index=(0, slice(None, None, -2)))
    assert backend.to_host(out)[0, [1, 3]].any() == 0 and (backend.to_host(out)[1] == x.numpy()).all()


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize(
    ("make", "remedy", "operators"),
    [
        (lambda: np.ma.array([1.0, 2.0], mask=[False, True]), "filled", r"numpy\.ma.* x\.detach\(\)"),
        (lambda: np.matrix([[1.0, 2.0]]), "write @", "write @"),
    ],
)
def test_kinds_of_numpys_arrays_that_mean_something_else_are_refused(
    make: Callable, remedy: str, operators: str
) -> None:
    """A mask is not lost, and a matrix product is not made one of elements."""
    array, t = make(), agrad.asarray([1.0, 2.0], requires_grad=True)
    calls = [lambda: agrad.multiply(t, array), lambda: agrad.sum(array), lambda: agrad.asarray(array)]
    calls += [lambda: agrad.grad(lambda x: agrad.sum(agrad.abs(x)))(array)]
    for call in calls:
        fails(OperandError, remedy, call)
    with pytest.raises(TypeError, match=operators):  # NumPy's own operators are asked too
        t * array
