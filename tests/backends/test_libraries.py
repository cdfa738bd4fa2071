"""What libraries of the standard bring: any precision, models in ONNX, GPUs of Intel and Apple."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace
from crossing import runs
from generic_faults import FAULTS, Fault
from processes import run_program
from refusals import fails
from tensors import all_close

import agrad
from agrad.backends import load, to_host
from agrad.errors import DtypeError, MissingFunctionError, OperandError


def raw(value: Any) -> Any:
    return value.raw if isinstance(value, agrad.Tensor) else value


def installed(fault: Fault) -> Any:
    marks = pytest.mark.needs(fault.library)
    return pytest.param(fault, marks=marks, id=f"{fault.library}-{FAULTS.index(fault)}")


@pytest.mark.parametrize("fault", [*map(installed, FAULTS)])
def test_faults_of_libraries_are_there_without_agrad(fault: Fault) -> None:
    assert fault.is_shown(), f"{fault.library} has mended {fault.call}: take it out of tests/generic_faults.py"


def programs(page: str) -> list[tuple[str, str]]:
    """Return the programs of a page that need a library, each with the text below it."""
    text = (Path(agrad.__file__).parents[1] / page).read_text(encoding="utf-8")
    return re.findall(r"```py\n(.*?)```(?:\n\n```text\n(.*?)```)?", text, flags=re.S)


def numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"-?\d+\.\d*", text)]


@pytest.mark.needs("mparray", "ndonnx", "onnxruntime", "cubed")
@pytest.mark.parametrize("page", ["README.md", "docs/howto/other_libraries.md"])
def test_programs_of_the_pages(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import cubed
    import zarr
    from mpmath import mp

    monkeypatch.chdir(tmp_path)
    host = np.arange(6.0)
    cubed.to_zarr(cubed.asarray(host, chunks=(2,)), "x.zarr")
    scope: dict[str, Any] = {"agrad": agrad, "energy": energy}
    shown = 0
    with mp.workdps(mp.dps):
        for program, text in programs(page):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(program, page, "exec"), scope)
            np.testing.assert_allclose(numbers(out.getvalue()), numbers(text), rtol=1e-7)
            shown += len(numbers(text))
    assert shown > 6 or page == "README.md"
    np.testing.assert_allclose(zarr.open_array("gradient.zarr")[:], host * np.sin(2 * host), rtol=1e-13)


def energy(x: Any, stiffness: Any) -> Any:
    xp = array_namespace(x, stiffness)
    return xp.sum(stiffness * xp.sin(x) ** 2)


@pytest.mark.needs("sparse")
def test_a_class_with_the_operators_of_numpy_is_no_numpy_array() -> None:
    import sparse

    x = sparse.COO.from_numpy(np.asarray([0.0, 1.0, 2.0]))
    found = agrad.grad(lambda x: agrad.sum(x * x))(x)
    assert isinstance(found, sparse.COO)
    np.testing.assert_array_equal(found.todense(), [0.0, 2.0, 4.0])


# ---------------------------------------------------------------- mparray


@pytest.mark.needs("mparray")
def test_a_hessian_to_50_digits() -> None:
    import mparray
    import mpmath
    from mpmath import mp

    def f(x: Any) -> Any:
        return agrad.exp(agrad.sin(x[0] * x[1])) + agrad.log(1 + x[2] ** 2) * x[0] ** 3 / (2 + agrad.cos(x[1]))

    def by_mpmath(a: Any, b: Any, c: Any) -> Any:
        return mp.exp(mp.sin(a * b)) + mp.log(1 + c**2) * a**3 / (2 + mp.cos(b))

    with mp.workdps(50):
        point = [mp.mpf("0.3"), mp.mpf("-1.7"), mp.mpf("2.5")]
        x = mparray.asarray(point)
        found, jitted = agrad.hessian(f)(x), agrad.jit(agrad.hessian(f))
        again = [jitted(x), jitted(x)]
        with mp.workdps(110):
            for i in range(3):
                for j in range(3):
                    orders = tuple(int(i == k) + int(j == k) for k in range(3))
                    expected = mpmath.diff(by_mpmath, tuple(point), orders)
                    for hessian in (found, *again):
                        assert abs(raw(hessian)._data[i, j] - expected) < mp.mpf(10) ** -47


@pytest.mark.needs("mparray")
def test_formulas_for_float64_refuse_wider_numbers() -> None:
    import mparray
    from mpmath import mp

    functions = (agrad.erf, agrad.special.gammaln, agrad.special.ndtri)
    with mp.workdps(50):
        for function in functions:
            with pytest.raises(DtypeError, match="must have at most the digits of float64"):
                function(mparray.asarray([mp.mpf("0.3")]))
    for function in functions:
        found = to_host(function(mparray.asarray([0.3])))
        np.testing.assert_allclose(found, function(np.asarray([0.3])), rtol=1e-13)


# ---------------------------------------------------------------- ndonnx


def loss(w: Any, b: Any, x: Any, t: Any) -> Any:
    h = agrad.tanh(x @ w + b)
    return agrad.mean((agrad.sum(h, axis=1) - t) ** 2) + 0.01 * agrad.sum(w[1:, ::2] ** 2)


def run(inputs: dict[str, Any], outputs: dict[str, Any], values: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run a model by onnxruntime."""
    import ndonnx
    import onnxruntime

    model = ndonnx.build(inputs, {name: raw(value) for name, value in outputs.items()})
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return list(session.run(list(outputs), values))


@pytest.mark.needs("ndonnx", "onnxruntime")
def test_value_gradient_and_a_step_of_training_as_a_model() -> None:
    import ndonnx

    rng = np.random.default_rng(0)
    values = {"w": (3, 4), "b": (4,), "x": (5, 3), "t": (5,)}
    values = {name: rng.normal(size=shape) for name, shape in values.items()}

    def step(w: Any, b: Any, x: Any, t: Any) -> dict[str, Any]:
        y, (gw, gb) = agrad.value_and_grad(loss, (0, 1))(w, b, x, t)
        return {"y": y, "w1": w - 0.1 * gw, "b1": b - 0.1 * gb, "H": agrad.hessian(loss, 1)(w, b, x, t)}

    inputs = {name: ndonnx.argument(shape=a.shape, dtype=ndonnx.float64) for name, a in values.items()}
    found = run(inputs, step(*inputs.values()), values)
    all_close(found, step(*values.values()).values(), rtol=1e-13, atol=1e-14)


@pytest.mark.needs("ndonnx", "onnxruntime")
def test_integer_inputs_choose_rows_of_an_embedding() -> None:
    import ndonnx

    rng = np.random.default_rng(0)
    values = {"w": rng.normal(size=(4, 3)), "i": np.asarray([3, -1, 0, 3])}
    inputs = {
        "w": ndonnx.argument(shape=(4, 3), dtype=ndonnx.float64),
        "i": ndonnx.argument(shape=(4,), dtype=ndonnx.int64),
    }

    def gradient(w: Any, i: Any) -> dict[str, Any]:
        return {"g": agrad.grad(lambda w: agrad.sum(w[i] ** 3))(agrad.asarray(w))}

    tensors = {name: agrad.asarray(value) for name, value in inputs.items()}
    np.testing.assert_allclose(run(inputs, gradient(**tensors), values)[0], raw(gradient(**values)["g"]), rtol=1e-14)
    mask = agrad.asarray(ndonnx.argument(shape=(4,), dtype=ndonnx.bool))
    fails(OperandError, "cannot be read here", lambda: agrad.grad(lambda w: agrad.sum(w[mask]))(tensors["w"]))
    fails(OperandError, "cannot be read here", lambda: to_host(inputs["w"]))


# ---------------------------------------------------------------- cubed, mlx and dpnp


@pytest.mark.needs("cubed")
def test_cubed_takes_as_many_elements_as_there_are() -> None:
    """Its own ``take`` returns x then; and its broadcast arrays have chunks of one element."""
    import cubed

    host = np.arange(6.0).reshape(3, 2)
    x = agrad.asarray(cubed.asarray(host))
    for places in ([2, 0, 1], [1, 1, 0], [2, 0], [0, 1, 2, 2]):
        assert x[places].numpy().tolist() == host[places].tolist()
    assert x[:, [1, 0]].numpy().tolist() == host[:, [1, 0]].tolist()
    g = agrad.grad(lambda x: agrad.sum(agrad.sin(x) * x**2) + agrad.mean(x[1:] * x[:-1]))
    large = np.random.default_rng(0).normal(size=(40, 30))
    found = g(cubed.asarray(large, chunks=(10, 30)))
    np.testing.assert_allclose(to_host(found), g(large), rtol=1e-13, atol=1e-13)
    assert max(found.chunksize) > 1
    lazy = agrad.asarray(cubed.asarray(np.asarray([True, False, True])) | cubed.asarray(np.asarray([False] * 3)))
    fails(OperandError, "cannot be read here", lambda: x[lazy])


# ---------------------------------------------------------------- mlx and dpnp


@pytest.mark.needs("cubed")
def test_a_gradient_in_a_share_of_its_memory(tmp_path: Any) -> None:
    """An array of 2 MB, and 1.25 MB a task: Cubed refuses a plan of which one operation needs more."""
    import cubed
    import zarr

    spec = cubed.Spec(str(tmp_path), allowed_mem="1.25MB", reserved_mem="0MB")
    host = np.random.default_rng(0).normal(size=(500, 500))
    x = cubed.from_array(host, chunks=(125, 125), spec=spec)
    found = agrad.grad(lambda x: agrad.sum(agrad.sin(x) * x**2) + agrad.mean(x[1:] * x[:-1]))(x)
    cubed.to_zarr(found, str(tmp_path / "g.zarr"))
    expected = np.cos(host) * host**2 + 2 * host * np.sin(host)
    expected[1:] += host[:-1] / host[1:].size
    expected[:-1] += host[1:] / host[1:].size
    np.testing.assert_allclose(zarr.open_array(str(tmp_path / "g.zarr"))[:], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.needs("cubed")
def test_special_functions_of_cubed_are_one_operation() -> None:
    import cubed

    host = np.asarray([0.3, -1.2, 2.0])
    for function in (agrad.erf, agrad.special.gammaln, lambda x: agrad.special.ndtri((x + 2) / 5)):
        found = agrad.grad(lambda x, f=function: agrad.sum(f(x)))(cubed.asarray(host, chunks=(2,)))
        np.testing.assert_allclose(to_host(found), agrad.grad(lambda x, f=function: agrad.sum(f(x)))(host), rtol=1e-12)
        assert len(found.plan().dag) < 60


@pytest.mark.needs("mlx")
def test_mlx_refuses_what_it_computes_in_fewer_digits() -> None:
    x = agrad.asarray([[4.0, 1.0], [1.0, 3.0]], dtype=agrad.float64, backend="mlx")
    fails(DtypeError, "float32 and complex64", agrad.fft.fft, x)
    fails(MissingFunctionError, r"linalg\.eig", agrad.linalg.eig, x)
    fails(MissingFunctionError, "mode", agrad.linalg.qr, x, mode="complete")


@pytest.mark.needs("mlx")
def test_mlx_sorts_and_sums_by_the_standard() -> None:
    xp = load("mlx").xp
    host = np.asarray([2, 1, 2, 0, 1], dtype=np.int32)
    x = load("mlx").from_host(host, None)
    assert np.asarray(xp.argsort(x, descending=True)).tolist() == [0, 2, 1, 4, 3]
    assert np.asarray(xp.sort(x, descending=True)).tolist() == [2, 2, 1, 1, 0]
    assert str(xp.sum(x).dtype).endswith("int64") and xp.argmax(x).dtype == xp.int64
    assert np.asarray(xp.cumulative_sum(x, include_initial=True)).tolist() == [0, 2, 3, 5, 5, 6]
    assert np.asarray(xp.signbit(xp.asarray([0.0, -0.0, -1.0, float("inf")]))).tolist() == [False, True, True, False]


EACH = [
    pytest.param(n, marks=pytest.mark.skipif(not runs(n), reason=f"{n} does not run here")) for n in ("mlx", "dpnp")
]


@pytest.mark.parametrize("name", EACH)
def test_a_network_trains_by_the_command_line(name: str, tmp_path: Any) -> None:
    """By a process of its own: the variable is read once."""
    code = "import sys; from agrad.cli import main; sys.exit(main())"
    options = ["--epochs", 1, "--batch-size", 256, "--save", tmp_path / "model"]
    assert name in run_program(code, "train", *options, AGRAD_BACKEND=name)
