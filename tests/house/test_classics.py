"""The classic beginnings in examples/classics, run as a reader would, with their numbers."""

import importlib.util
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

CLASSICS = Path(__file__).resolve().parents[2] / "examples" / "classics"
MNIST = CLASSICS.parents[2] / "shared" / "data" / "mnist"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"classics_{name}", CLASSICS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)


def test_every_example_is_tested() -> None:
    names = {path.stem for path in CLASSICS.glob("*.py")}
    assert names == {"convolutions", "descent", "mnist", "neuron", "own_operation", "sums", "tape", "two_layers"}


def test_neuron(capsys: pytest.CaptureFixture[str]) -> None:
    found = example("neuron").main()
    close(found["error"], 0.20683027474728838)
    close(found["weight_gradients"], [-1.8427042527651993, 2.8041151672513904, -3.1245854720801205])
    close(found["bias_gradient"], -0.8011757620718258)
    assert "squared error 0.206830" in capsys.readouterr().out


def test_sums(capsys: pytest.CaptureFixture[str]) -> None:
    found = example("sums").main()
    assert found["value"] == 10.0
    assert found["gradients"] == (2.0, 1.0)
    assert found["operations"] == ("add", "add")
    assert found["operands_are_leaves"] == (True, True, True)
    out = capsys.readouterr().out
    assert "<grad_fn of add>" in out
    assert "3  w: add     ()     float64  10.0   1.0       %2, %0  output" in out


def test_descent(capsys: pytest.CaptureFixture[str]) -> None:
    found = example("descent").main(steps=50)
    close(found["points"], [10 * 0.6**k for k in range(51)])
    close(found["minimum"], 5.0)
    assert "step 50" in capsys.readouterr().out


def test_own_operation(capsys: pytest.CaptureFixture[str]) -> None:
    found = example("own_operation").main()
    sigmoid = 1 / (1 + math.exp(-1))
    close(found["gradient"], [1 - sigmoid, 0.5, sigmoid])
    close(found["value"], math.log1p(math.exp(1)))
    close(found["jvp"], sigmoid)
    close(found["second"], sigmoid * (1 - sigmoid))
    assert found["large"] == 1000.0
    assert "softplus" in capsys.readouterr().out


def test_tape(capsys: pytest.CaptureFixture[str]) -> None:
    found = example("tape").main()
    total = math.pi / 2 + 1
    close(found["value"], total)
    assert found["operations"] == [None, None, "sin", "add", "multiply"]
    close(found["values"], [math.pi / 2, 1, 1, total, total])
    close(found["gradients"], [1, 1, total, 1, 1])
    close(found["vjp"], [1, 1])
    close(found["jvp"], [1, 1])
    assert found["tape"] in capsys.readouterr().out


def test_two_layers(capsys: pytest.CaptureFixture[str]) -> None:
    module = example("two_layers")
    found = module.main(steps=300)
    for loss in ("mean_squared_error", "cross_entropy"):
        first, last = found[loss]
        assert last < 0.05 < 0.3 < first
    assert found["classes"] == [0, 1, 1, 0]
    np.testing.assert_allclose(found["answers"], [0, 1, 1, 0], atol=0.05)
    layers = ["matmul", "add", "tanh", "matmul", "add", "subtract", "pow", "mean"]
    assert found["operations"] == [None] * 4 + layers
    assert found["dot"].count(" -> ") == 14  # two operands each, but one for tanh and for mean
    assert "W1" in capsys.readouterr().out


def test_the_gradients_of_two_layers_are_those_on_paper() -> None:
    module = example("two_layers")
    p = module.make_parameters(hidden=3, outputs=2)
    module.cross_entropy(p).backward()
    W1, b1, W2, b2 = (p[name].detach().numpy() for name in ("W1", "b1", "W2", "b2"))
    hidden = np.tanh(module.INPUTS @ W1 + b1)
    logits = hidden @ W2 + b2
    e = np.exp(logits)
    g = (e / e.sum(axis=1, keepdims=True) - np.eye(2)[module.CLASSES]) / 4
    g_hidden = g @ W2.T * (1 - hidden**2)
    for name, expected in {
        "W1": module.INPUTS.T @ g_hidden,
        "b1": g_hidden.sum(axis=0),
        "W2": hidden.T @ g,
        "b2": g.sum(axis=0),
    }.items():
        np.testing.assert_allclose(p[name].grad.numpy(), expected, rtol=1e-12, atol=1e-15)


def test_two_layers_draws_its_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dot = tmp_path / "dot"
    dot.write_text("#!/bin/sh\ncat\n", encoding="utf-8")
    dot.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    target = tmp_path / "graph.svg"
    found = example("two_layers").main(svg=str(target), steps=1)
    assert target.read_text(encoding="utf-8") == found["dot"]


def test_convolutions() -> None:
    # one thread, as in test_mnist; of three epochs fewer digits are told than are asked for
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(CLASSICS.parents[1])}
    command = [sys.executable, "-W", "error", str(CLASSICS / "convolutions.py"), "--epochs", "3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    found = re.search(r"numpy: ([\d.]+)% after", done.stdout)
    assert found is not None, done.stderr
    assert 80 < float(found[1]) < 97
    assert done.returncode == 1


def write_idx(path: Path, array: np.ndarray) -> None:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    path.write_bytes(header + array.astype(np.uint8).tobytes())


def test_mnist_reads_the_directory_it_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    prototypes = rng.integers(0, 256, (10, 28, 28))
    for part, count in (("train", 400), ("t10k", 100)):
        labels = np.arange(count) % 10
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte", labels)
        write_idx(tmp_path / f"{part}-images-idx3-ubyte", prototypes[labels])
    found = example("mnist").main(tmp_path, epochs=4, batch=50)
    assert found["accuracies"][-1] == 1.0
    assert found["losses"][-1] < found["losses"][0]
    assert "epoch 4" in capsys.readouterr().out


def test_the_copy_of_mnist_beside_the_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = example("mnist")
    assert module.NEARBY.resolve() == MNIST.resolve()
    for nearby, expected in ((tmp_path, tmp_path), (tmp_path / "none", None)):
        monkeypatch.setattr(module, "NEARBY", nearby)
        assert module.default_directory() == expected


@pytest.mark.skipif(not MNIST.is_dir(), reason="no copy of MNIST beside the repository (../shared/data/mnist)")
def test_mnist() -> None:
    directory = example("mnist").default_directory()
    # in a process of its own, as threads of BLAS that share cores with other tests cost many times the work
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(CLASSICS.parents[2])}
    command = [sys.executable, "-W", "error", str(CLASSICS / "mnist.py"), "--data-dir", str(directory)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    accuracies = [float(found) for found in re.findall(r"test accuracy ([\d.]+)%", done.stdout)]
    assert len(accuracies) == 3
    assert accuracies[-1] > 90
