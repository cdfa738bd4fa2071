"""A backend made of a namespace alone: array-api-strict under a name that nobody knows, and NumPy without writes."""

from types import ModuleType, SimpleNamespace
from typing import Any

import array_api_strict
import numpy as np
import pytest
from refusals import fails
from tensors import all_close
from test_backends import INDICES, TOMORROW, as_template, check_index
from test_backends import tomorrow as library_of_tomorrow
from test_moving import trained

import agrad
from agrad import backends
from agrad.backends import backend_of, generic, load, to_host
from agrad.backends.generic_functions import ExtensionFunctions
from agrad.errors import (
    BackendUnavailableError,
    DeviceUnavailableError,
    MissingFunctionError,
    OperandError,
)
from agrad.shapes import ARRAY


@pytest.fixture(scope="module", autouse=True)
def tomorrow() -> ModuleType:
    return library_of_tomorrow()


def energy(x: Any) -> Any:
    return agrad.sum(agrad.sin(x) * x[::-1] ** 2) + x[0] * agrad.max(x)


X = np.asarray([0.5, -1.0, 2.0])


def test_arrays_of_an_unknown_library_are_differentiated(tomorrow: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agrad.backends._of_type", {})  # as if nobody had asked for it by name
    monkeypatch.delitem(backends._loaded, TOMORROW, raising=False)
    x = tomorrow.asarray(X)
    assert backend_of(x).name == TOMORROW and type(x) is not type(array_api_strict.asarray(X))
    g = agrad.grad(energy)(x)
    assert type(g) is type(x)
    np.testing.assert_allclose(to_host(g), agrad.grad(energy)(X), rtol=1e-14)
    np.testing.assert_allclose(to_host(agrad.hessian(energy)(x)), agrad.hessian(energy)(X), rtol=1e-14)
    _, tangent = agrad.jvp(energy, (x,), (x,))
    np.testing.assert_allclose(to_host(tangent), agrad.jvp(energy, (X,), (X,))[1], rtol=1e-14)

    def written(x: Any) -> Any:
        y = agrad.asarray(x) * 1
        y[1:] = y[:-1] ** 2
        return agrad.sum(y**2)

    rows = np.asarray([X, 2 * X])
    fast = agrad.jit(agrad.vmap(agrad.grad(written)))
    for scale in (1.0, 3.0):
        right = agrad.vmap(agrad.grad(written))(scale * rows)
        np.testing.assert_allclose(to_host(fast(tomorrow.asarray(scale * rows))), right, rtol=1e-14)
    assert fast.cache_info().hits == 1


def test_a_program_moves_by_the_import_name() -> None:
    np.testing.assert_allclose(trained(TOMORROW), trained("numpy"), rtol=1e-9)
    with agrad.use_backend(TOMORROW):
        assert agrad.get_backend() == TOMORROW == agrad.zeros(2).backend
    assert TOMORROW in agrad.available_backends()
    with agrad.use_backend(TOMORROW, "device1"):
        assert "device1" in str(agrad.zeros(2).device)
    fails(DeviceUnavailableError, f"{TOMORROW!r} has no device 'gpu'", agrad.set_backend, TOMORROW, "gpu")


def test_what_a_library_lacks_is_named(tomorrow: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    x = tomorrow.asarray([[1.0, 2.0], [3.0, 4.0]])
    backend = load(TOMORROW)
    monkeypatch.delattr(backend.xp, "atanh")
    monkeypatch.delattr(backend.xp.linalg, "pinv")
    fails(MissingFunctionError, rf"{TOMORROW} has no atanh\. Move the arrays", lambda: agrad.atanh(x / 9))
    fails(MissingFunctionError, rf"{TOMORROW} has no linalg\.pinv", agrad.linalg.pinv, x)


def test_names_of_no_namespace() -> None:
    for name in ("no_such_library", "no.such.library", "numpy.linalg", "torch.linalg"):
        fails(BackendUnavailableError, f"Backend {name!r} is unknown. agrad knows .* import names", load, name)
    fails(BackendUnavailableError, "'json' is not a namespace of the array API standard", load, "json")


# ---------------------------------------------------------------- the functions beyond the standard


@pytest.mark.parametrize("on_host", [True, False])
def test_indexing_follows_numpy_without_writes(
    tomorrow: ModuleType, on_host: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = generic.of_namespace(tomorrow)
    monkeypatch.setattr(backend.xp.getitem.__self__, "writes", False)
    for shape, index in INDICES:
        check_index(backend, shape, index, None, on_host)


INTEGERS = [entry for entry in INDICES if not any(isinstance(i, (list, bool)) for i in entry[1])]


def unread(backend: Any) -> ExtensionFunctions:
    """Return functions that cannot read the values of index arrays."""
    return ExtensionFunctions(backend.xp, lambda a, like: backend.from_host(a, None), lambda array: None, writes=True)


def test_integers_that_cannot_be_read_are_arithmetic(tomorrow: ModuleType) -> None:
    """Reading and adding at integer arrays after whole axes; every other index is refused by name."""
    backend = generic.of_namespace(tomorrow)
    extension = unread(backend)
    counts = [0, 0]
    for shape, index in INTEGERS:
        template, arrays = as_template(index)
        if not arrays or not np.prod(shape):
            continue
        data = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
        own = [backend.from_host(a, None) for a in arrays]
        try:
            got = extension.getitem(backend.from_host(data, None), *own, index=template)
        except OperandError as error:
            counts[0] += "cannot be read here" in str(error)
            continue
        counts[1] += 1
        np.testing.assert_array_equal(to_host(got), data[index], strict=True)
        added = np.zeros(shape)
        np.add.at(added, index, data[index])
        found = extension.scatter_add(
            backend.from_host(np.asarray(data[index]), None), *own, index=template, shape=shape
        )
        np.testing.assert_array_equal(to_host(found), added, strict=True)
    assert min(counts) > 5


def test_an_unread_mask_writes_numbers_only(tomorrow: ModuleType) -> None:
    backend = generic.of_namespace(tomorrow)
    extension = unread(backend)
    x, mask = tomorrow.asarray(X), tomorrow.asarray(X > 0)
    assert to_host(extension.setitem(x, 9.0, mask, index=(ARRAY,))).tolist() == [9.0, -1.0, 9.0]
    with pytest.raises(OperandError, match="one mask and v a number"):
        extension.setitem(x, tomorrow.asarray([1.0, 2.0]), mask, index=(ARRAY,))
    fails(OperandError, "integer arrays after whole axes", extension.getitem, x, mask, index=(ARRAY,))


def test_complex_numbers_of_infinite_parts_and_signed_zeros(tomorrow: ModuleType) -> None:
    parts = np.asarray([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan])
    re, im = (a.ravel() for a in np.meshgrid(parts, parts))
    got = to_host(generic.of_namespace(tomorrow).xp.from_parts(tomorrow.asarray(re), tomorrow.asarray(im)))
    np.testing.assert_array_equal(got.real, re)
    np.testing.assert_array_equal(got.imag, im)
    known = ~np.isnan(re) & ~np.isnan(im)
    np.testing.assert_array_equal(np.signbit(got.real)[known], np.signbit(re)[known])
    np.testing.assert_array_equal(np.signbit(got.imag)[known], np.signbit(im)[known])


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 3), (1, 1), (0, 2), (2, 0, 0)])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.int64])
def test_lu_by_functions_of_the_standard(tomorrow: ModuleType, shape: tuple[int, ...], dtype: Any) -> None:
    rng = np.random.default_rng(len(shape) + shape[-1])
    a = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype == np.complex128 else 0)
    for x in ((4 * a).astype(dtype), np.zeros(shape, dtype), np.ones(shape, dtype)):
        all_close(agrad.linalg.lu(tomorrow.asarray(x)), agrad.linalg.lu(x), rtol=1e-12, atol=1e-12)


def test_devices_by_their_kind() -> None:
    """As dpnp lists them, whose own names are selectors; no GPU is needed to hold a name."""

    class Listed:
        def __init__(self, kind: str) -> None:
            self.kind = kind

        def __repr__(self) -> str:
            return f"<dpctl.SyclDevice [backend_type.level_zero, device_type.{self.kind}, Intel]>"

    listed = [Listed("cpu"), Listed("gpu")]

    def zeros(shape: Any, device: str) -> Any:
        if device == "gpu:0":
            return SimpleNamespace(device=listed[1])
        raise ValueError(device)

    library, info = SimpleNamespace(zeros=zeros), SimpleNamespace(devices=lambda: listed)
    found = {name: generic._device_by_name(library, info, name) for name in ("cpu", "gpu", "gpu:0", "intel", "tpu")}
    assert found == {"cpu": listed[0], "gpu": listed[1], "gpu:0": listed[1], "intel": None, "tpu": None}


def test_solutions_of_singular_matrices_are_nan(tomorrow: ModuleType) -> None:
    xp = generic.of_namespace(tomorrow).xp
    a = np.asarray([[[1.0, 2.0], [2.0, 4.0]], [[2.0, 0.0], [0.0, 4.0]]])
    y = to_host(xp.linalg.solve_or_nan(tomorrow.asarray(a), tomorrow.asarray(np.ones((2, 2, 1)))))
    assert np.isnan(y[0]).all() and y[1, :, 0].tolist() == [0.5, 0.25]


# ---------------------------------------------------------------- arrays whose values are not to be read


def test_no_value_of_a_lazy_array_is_read(tomorrow: ModuleType) -> None:
    def read(x: Any) -> np.ndarray:
        raise AssertionError("a value was read")

    host = generic._Host(generic.of_namespace(tomorrow).xp, read, lazy=True)
    known = host.array(np.asarray([2, 0]))
    assert host.values(known).tolist() == [2, 0]
    assert host.values(tomorrow.asarray([2, 0])) is None
    assert host.values([1, 0]).tolist() == [1, 0]
    del known
    assert not host.hosted


@pytest.mark.needs("marray")
def test_masked_elements_are_refused() -> None:
    import marray

    mxp = marray.masked_namespace(np)
    whole = mxp.asarray(X)
    np.testing.assert_allclose(to_host(agrad.grad(energy)(whole)), agrad.grad(energy)(X), rtol=1e-14)
    masked = mxp.asarray(X, mask=X > 1)
    calls = [lambda: agrad.grad(lambda x: agrad.mean(x**2))(masked), lambda: to_host(masked)]
    calls += [lambda: agrad.sum(masked), lambda: agrad.asarray(masked)[0]]
    calls += [lambda: agrad.exp(agrad.asarray(whole) + masked), lambda: (agrad.asarray(whole) * masked).numpy()]
    for call in calls:
        fails(OperandError, "masked elements", call)
