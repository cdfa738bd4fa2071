"""The examples and tutorials: they run as a reader would run them, with their numbers, options and tables."""

import ast
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

import agrad

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples"
CLASSICS, TEXTS = FOLDER / "classics", FOLDER / "text"
EXAMPLES = [file for file in sorted(FOLDER.glob("*.py")) if "run(main, __doc__" in file.read_text(encoding="utf-8")]
MNIST = ROOT.parent / "shared" / "data" / "mnist"


def load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def started(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run an example in a new process on one thread: threads that share cores with other tests cost much more."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", str(file), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_every_example_is_tested() -> None:
    classics = {"convolutions", "descent", "mnist", "neuron", "own_operation", "sums", "tape", "two_layers"}
    assert {path.stem for path in CLASSICS.glob("*.py")} == classics
    assert {path.stem for path in TEXTS.glob("*.py")} == {*REACHED, "characters"}


def bound(file: Path) -> str:
    """Return the number that an example must reach, as it is written there."""
    found = re.search(r"^(LEAST|MOST) = (\S+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, file
    return ("at least " if found[1] == "LEAST" else "at most ") + found[2]


def test_the_table_has_every_example_with_its_bound() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`(\w+)\.py`\]\(\1\.py\) .* \| (at (?:least|most) [-.\d]+) \| .* \|$", text, re.MULTILINE)
    assert len(EXAMPLES) >= 7
    assert rows == [(file.stem, bound(file)) for file in EXAMPLES]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_a_page_that_says_how_it_is_run(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert f"python examples/{file.name} --backend NAME --plot FILE.png" in str(ast.get_docstring(ast.parse(text)))
    assert len(text.splitlines()) <= 160


def ended(monkeypatch: pytest.MonkeyPatch, number: float, *words: str, **bounds: float) -> Any:
    """Return the exit code of an example with that number."""
    seen, code = [], 0

    def example() -> tuple[float, Any]:
        seen.append(agrad.get_backend())
        return number, lambda plt: plt.plot([0, 1], [1, 0])

    monkeypatch.setattr(sys, "argv", ["example.py", *words])
    try:
        load(FOLDER / "common.py").run(example, "An example.", **bounds)
    except SystemExit as end:
        code = end.code
    assert seen == ["numpy"]
    return code


@pytest.mark.parametrize(
    ("number", "bounds", "code"),
    [
        (0.9, {"least": 0.9}, 0),
        (0.8, {"least": 0.9}, 1),
        (0.1, {"most": 0.1}, 0),
        (0.2, {"most": 0.1}, 1),
        (np.nan, {"most": 0.1}, 1),
        (np.nan, {"least": 0.1}, 1),
    ],
)
def test_a_missed_number_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: float, bounds: Any, code: int
) -> None:
    assert ended(monkeypatch, number, **bounds) == code
    assert ("NOT as asked" in capsys.readouterr().out) == bool(code)


@pytest.mark.needs("matplotlib")
def test_the_picture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    assert ended(monkeypatch, 1.0, "--plot", str(path), least=0.0) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_no_picture_without_matplotlib(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert ended(monkeypatch, 1.0, "--plot", str(tmp_path / "picture.png"), least=0.0) == 0
    assert "matplotlib is not installed" in capsys.readouterr().out


SIGMOID = 1 / (1 + math.exp(-1))
TOTAL = math.pi / 2 + 1
FOUND: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "neuron": (
        {
            "error": 0.20683027474728838,
            "weight_gradients": [-1.8427042527651993, 2.8041151672513904, -3.1245854720801205],
            "bias_gradient": -0.8011757620718258,
        },
        ("squared error 0.206830",),
    ),
    "sums": (
        {"value": 10.0, "gradients": (2.0, 1.0), "operations": ("add", "add"), "operands_are_leaves": (True,) * 3},
        ("<grad_fn of add>", "3  w: add     ()     float64  10.0   1.0       %2, %0  output"),
    ),
    "descent": ({"points": [10 * 0.6**k for k in range(51)], "minimum": 5.0}, ("step 50",)),
    "own_operation": (
        {
            "gradient": [1 - SIGMOID, 0.5, SIGMOID],
            "value": math.log1p(math.exp(1)),
            "jvp": SIGMOID,
            "second": SIGMOID * (1 - SIGMOID),
            "large": 1000.0,
        },
        ("softplus",),
    ),
    "tape": (
        {
            "value": TOTAL,
            "operations": [None, None, "sin", "add", "multiply"],
            "values": [math.pi / 2, 1, 1, TOTAL, TOTAL],
            "gradients": [1, 1, TOTAL, 1, 1],
            "vjp": [1, 1],
            "jvp": [1, 1],
        },
        ("multiply",),
    ),
}
"""What the main function of a classic returns, and parts of what it prints."""


@pytest.mark.parametrize("name", FOUND)
def test_a_classic(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected, printed = FOUND[name]
    found = load(CLASSICS / f"{name}.py").main(**({"steps": 50} if name == "descent" else {}))
    for key, value in expected.items():
        if key == "operations":
            assert found[key] == value
        else:
            np.testing.assert_allclose(found[key], value, rtol=1e-12, atol=0)
    out = capsys.readouterr().out
    assert all(text in out for text in (*printed, found.get("tape", "")))


def test_two_layers(capsys: pytest.CaptureFixture[str]) -> None:
    module = load(CLASSICS / "two_layers.py")
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


def test_convolutions() -> None:
    # after three epochs fewer digits are told than are asked for
    done = started(CLASSICS / "convolutions.py", "--epochs", "3")
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
    found = load(CLASSICS / "mnist.py").main(tmp_path, epochs=4, batch=50)
    assert found["accuracies"][-1] == 1.0
    assert found["losses"][-1] < found["losses"][0]
    assert "epoch 4" in capsys.readouterr().out


def test_the_copy_of_mnist_beside_the_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = load(CLASSICS / "mnist.py")
    assert module.NEARBY.resolve() == MNIST.resolve()
    for nearby, expected in ((tmp_path, tmp_path), (tmp_path / "none", None)):
        monkeypatch.setattr(module, "NEARBY", nearby)
        assert module.default_directory() == expected


@pytest.mark.skipif(not MNIST.is_dir(), reason="no copy of MNIST beside the repository (../shared/data/mnist)")
def test_mnist() -> None:
    directory = load(CLASSICS / "mnist.py").default_directory()
    done = started(CLASSICS / "mnist.py", "--data-dir", str(directory))
    assert done.returncode == 0, done.stderr
    accuracies = [float(found) for found in re.findall(r"test accuracy ([\d.]+)%", done.stdout)]
    assert len(accuracies) == 3
    assert accuracies[-1] > 90


REACHED = {"lstm": (110, 0.9), "transformer": (170, 0.95)}
"""Steps of training, and the share of the baseline's bits a character of held out text that they fall below."""
SHORT = 40, 1.1
"""The same of runs that are not thorough; the LSTM needs 1.3 times the bits after 5 steps."""


def run(name: str, backend: str, steps: int) -> tuple[float, float, str]:
    """Run an example, and return its bits a character, those of the baseline, and its text."""
    done = started(TEXTS / f"{name}.py", "--backend", backend, "--steps", str(steps))
    assert done.returncode == 0, done.stderr
    found = re.search(r"held out text: ([\d.]+) bits a character, ([\d.]+) by counts of pairs\n", done.stdout)
    assert found is not None
    return float(found[1]), float(found[2]), done.stdout[found.end() : -1]


@pytest.mark.parametrize("name", REACHED)
def test_a_model_of_characters_learns(name: str, request: pytest.FixtureRequest) -> None:
    steps, share = REACHED[name] if request.config.getoption("--thorough") else SHORT
    bits, baseline, text = run(name, "numpy", steps)
    assert bits < share * baseline
    assert len(text) == 300


@pytest.mark.needs("torch")
def test_on_another_backend() -> None:
    here, there = (run("transformer", backend, 5) for backend in ("numpy", "torch"))
    assert abs(here[0] - there[0]) < 1e-3
    assert here[0] < 6.5


TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
TUTORIALS_NEED = {"10_any_library": ("mparray", "ndonnx", "onnxruntime")}
"""What a tutorial needs besides Matplotlib."""
SMALLER = {"07_implicit_odes": ("range(6)", "range(1)"), "08_likelihood_hmc": ("10, 500", "10, 100")}
"""What the test replaces in a tutorial, to compute less."""


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(f, id=f.stem, marks=pytest.mark.needs("matplotlib", *TUTORIALS_NEED.get(f.stem, ())))
        for f in TUTORIALS
    ],
)
def test_a_tutorial_runs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    old, new = SMALLER.get(file.stem, ("", ""))
    text = file.read_text(encoding="utf-8")
    assert old in text
    shown = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plt, "show", lambda: shown.append(plt.get_fignums()))
        exec(compile(text.replace(old, new) if old else text, str(file), "exec"), {"__name__": "__main__"})
    plt.close("all")
    assert shown
    assert capsys.readouterr().out


def test_tutorials_end_with_a_summary() -> None:
    assert len(TUTORIALS) == 10
    assert all("# Summary\n" in file.read_text(encoding="utf-8") for file in TUTORIALS)
