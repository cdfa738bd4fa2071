"""Which backend new arrays are born on, what is said of one that cannot run, and whose arrays are whose."""

import contextvars
import sys
import threading
import types
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import array_api_strict as strict
import numpy as np
import pytest
from processes import run_program
from refusals import fails

import agrad.backends as backends
from agrad.backends.base import Backend
from agrad.errors import BackendUnavailableError, DeviceUnavailableError, OperandError


@pytest.fixture(autouse=True)
def nothing_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    """No selection made yet, by a call or by the environment; what was selected comes back afterwards."""
    monkeypatch.setattr(backends, "_process", [])
    monkeypatch.delenv("AGRAD_BACKEND", raising=False)
    monkeypatch.delenv("AGRAD_DEVICE", raising=False)


def test_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGRAD_BACKEND", "array_api_strict")
    monkeypatch.setenv("AGRAD_DEVICE", "device2")
    assert backends.selected().backend.name == "array_api_strict"
    assert backends.selected().device == strict.Device("device2")
    backends.set_backend("numpy")
    assert backends.get_backend() == "numpy"
    with backends.use_backend("array_api_strict", "device1"):
        assert backends.selected().device == strict.Device("device1")
        backends.set_backend("array_api_strict", strict.Device("device2"))
        assert backends.selected().device == strict.Device("device1")
        with backends.use_backend("numpy"):
            assert backends.get_backend() == "numpy" and backends.selected().device is None
        assert backends.selected().device == strict.Device("device1")
    assert backends.selected().device == strict.Device("device2")


def test_use_backend_ends_with_an_error_and_is_of_its_thread() -> None:
    seen = []
    with pytest.raises(ZeroDivisionError, match="by zero"), backends.use_backend("array_api_strict"):
        thread = threading.Thread(target=lambda: seen.append(backends.get_backend()), **_own_context())
        thread.start()
        thread.join()
        seen.append(backends.get_backend())
        1 / 0  # noqa: B018
    assert seen == ["numpy", "array_api_strict"] and backends.get_backend() == "numpy"


def _own_context() -> dict:
    # newer Pythons can let a thread inherit its starter's context
    return {"context": contextvars.Context()} if sys.version_info >= (3, 14) else {}


def test_a_failed_selection_changes_nothing() -> None:
    backends.set_backend("array_api_strict", "device1")
    for name, device, error, message in (
        ("nunpy", None, BackendUnavailableError, "Backend 'nunpy' is unknown. agrad knows 'numpy'"),
        ("numpy", "cuda", DeviceUnavailableError, "'numpy' has no device 'cuda'. Its devices: 'cpu'"),
        ("array_api_strict", "device9", DeviceUnavailableError, "no device 'device9'. Its devices: .*device2"),
    ):
        fails(error, message, backends.set_backend, name, device)
        with pytest.raises(error, match=message), backends.use_backend(name, device):
            pass
    assert backends.selected().device == strict.Device("device1")


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("AGRAD_BACKEND", "nunpy", BackendUnavailableError, "AGRAD_BACKEND=nunpy: Backend 'nunpy' is unknown"),
        ("AGRAD_DEVICE", "cuda", DeviceUnavailableError, "AGRAD_DEVICE: Backend 'numpy' has no device"),
    ],
)
def test_the_environment_is_named_where_it_is_wrong(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, error: type[Exception], message: str
) -> None:
    monkeypatch.setenv(name, value)
    for _ in range(2):  # and it is no better the second time
        fails(error, message, backends.get_backend)
    monkeypatch.setenv(name, "")  # which chooses nothing
    assert backends.get_backend() == "numpy"


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> str:
    """A backend whose library is not installed, as Python tells it."""
    name = "torch"
    for module in [m for m in sys.modules if m == "agrad.backends.torch"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(backends, "_loaded", {k: v for k, v in backends._loaded.items() if k != name})
    return name


def test_a_missing_library_is_named_with_its_remedy(missing: str) -> None:
    message = r"'torch' is not available: .*torch.*pip install 'agrad\[torch\]'"
    fails(BackendUnavailableError, message, backends.load, missing)
    report = backends.available_backends()[missing]
    assert not report.available and report.version is None and report.devices == ()
    assert "agrad[torch]" in report.reason


@pytest.mark.needs("cupy")
def test_cupy_without_a_gpu_gives_the_reason() -> None:
    said = run_program(
        "import agrad.backends as b\n"
        "try: b.load('cupy')\n"
        "except b.BackendUnavailableError as error: print(error)\n"
        "else: print('it runs')",
        CUDA_VISIBLE_DEVICES="-1",
        CUPY_ON_CPU="0",
    )
    for part in ("'cupy' is not available: CuPy", "no usable CUDA device", "agrad[cuda13]"):
        assert part in said


def test_available_backends_reports_each() -> None:
    reports = backends.available_backends()
    assert list(reports)[:6] == ["numpy", "cupy", "torch", "jax", "dask", "array_api_strict"]
    for name, report in reports.items():
        assert report.name == name
        if report.available:
            assert report.version and report.devices and report.reason is None
        else:
            assert report.reason and not report.devices
    assert reports["numpy"].version == np.__version__ and reports["numpy"].devices == ("cpu",)
    assert any("device1" in device for device in reports["array_api_strict"].devices)


class Odd:
    """An array of a library that brings a backend of its own."""


@pytest.fixture
def third_party(monkeypatch: pytest.MonkeyPatch) -> Backend:
    made = Backend(
        name="odd",
        xp=SimpleNamespace(),
        version="1",
        array_types=(Odd,),
        default_device=lambda: "here",
        devices=lambda: ("here",),
        find_device=lambda name: None,
        device_of=lambda x: "here",
        to_host=lambda x: np.arange(3),
        from_host=lambda a, device: Odd(),
        synchronize=lambda: None,
    )
    module = types.ModuleType("odd_arrays_for_agrad")
    module.BACKEND = made
    monkeypatch.setitem(sys.modules, module.__name__, module)
    group_name = "agrad.backends"
    found = [EntryPoint("odd", module.__name__, group_name), EntryPoint("numpy", "no.such.module", group_name)]
    points = {group_name: found}
    monkeypatch.setattr(backends.importlib.metadata, "entry_points", lambda *, group: points.get(group, []))
    monkeypatch.setattr(backends, "_loaded", dict(backends._loaded))
    monkeypatch.setattr(backends, "_of_type", dict(backends._of_type))
    return made


def test_a_third_party_brings_a_backend(third_party: Backend) -> None:
    fails(OperandError, "Odd is not an array", lambda: backends.backend_of(Odd()))
    assert backends.available_backends()["odd"].available
    assert backends.load("odd") is third_party and backends.backend_of(Odd()) is third_party
    np.testing.assert_array_equal(backends.to_host(Odd()), np.arange(3))
    with backends.use_backend("odd"):
        assert backends.get_backend() == "odd"
    fails(BackendUnavailableError, r"agrad knows .*'odd'", backends.load, "even")


@pytest.mark.usefixtures("third_party")
def test_a_third_party_does_not_replace_ours() -> None:
    assert backends.load("numpy").array_types[0] is np.ndarray
    assert backends.available_backends()["numpy"].available


def test_subclasses_and_strangers() -> None:
    class Mine(np.ndarray):
        pass

    assert backends.backend_of(np.zeros(2).view(Mine)).name == "numpy"
    assert backends.backend_of(np.float64(1)).name == "numpy"
    for stranger in (1.0, [1.0], "x", None, object()):
        fails(OperandError, f"{type(stranger).__name__} is not an array", backends.backend_of, stranger)
    assert backends.backend_of_type(int) is None
    # of the library, and no array
    assert backends.backend_of_type(np.dtype) is None and backends.backend_of_type(strict.Device) is None


JAX_HANDED_IN = """
import sys
sys.modules.update(dict.fromkeys(("torch", "dask", "cupy")))  # other libraries take seconds to import
import jax, jax.numpy as jnp, numpy as np
import agrad.backends as b
from agrad.errors import DtypeError
from agrad.shapes import ARRAY
x = jnp.ones(3)
backend = b.backend_of(x)
assert backend.name == "jax"
y = backend.xp.scatter_add(x, np.array([0, 0, 1]), index=(ARRAY,), shape=(2,))
assert y.tolist() == [2, 1] and y.dtype == jnp.float32
assert b.to_host(backend.xp.setitem(x, 2.0, jnp.array([-1]), index=(ARRAY,))).tolist() == [1, 1, 2]
assert b.available_backends()["jax"].available
assert backend.from_host(np.ones(3, np.float32), None).shape == (3,)
assert not jax.config.jax_enable_x64 and jnp.ones(3).dtype == jnp.float32
try:
    backend.from_host(np.ones(3), None)
except DtypeError as error:
    assert "float64" in str(error) and "set_backend('jax')" in str(error)
else:
    raise SystemExit("float64 became float32, and nobody said so")
with b.use_backend("jax"):
    assert jax.config.jax_enable_x64 and backend.from_host(np.ones(3), None).dtype == jnp.float64
"""


@pytest.mark.needs("jax")
def test_jax_switches_only_when_it_is_selected() -> None:
    run_program(JAX_HANDED_IN)


@pytest.mark.needs("jax")
def test_the_selection_of_the_environment_switches_jax() -> None:
    code = "import agrad.backends as b, jax; assert b.get_backend() == 'jax' and jax.config.jax_enable_x64"
    run_program(code, AGRAD_BACKEND="jax", AGRAD_DEVICE="cpu")


def test_no_library_is_imported_before_it_is_used() -> None:
    said = run_program(
        "import sys, agrad.backends as b\n"
        "assert b.get_backend() == 'numpy'\n"
        "print([m for m in ('torch', 'jax', 'dask', 'cupy', 'array_api_strict') if m in sys.modules])"
    )
    assert said.strip() == "[]"
