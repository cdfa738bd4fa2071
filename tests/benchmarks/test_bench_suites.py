"""Suites of layers, kernels and tables: all that is measured computes the same, and goals that are missed are named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import fails
from tensors import all_close
from test_bench import tables as markdown

from agrad import data
from agrad.backends import load
from agrad.registry import KERNELS
from bench import conv, conv_jobs, kernels, tables
from bench.common import Missing, Timing
from bench.suites import Options
from bench.tables_data import SOURCES, target_of, write

# -- layers --

LAYERS = {conv_jobs.TORCH: "torch", conv_jobs.JAX: "jax", "agrad, torch": "torch"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.needs(m)) for n, m in LAYERS.items()])
def test_layers_of_the_libraries_compute_the_same(name: str) -> None:
    chosen = ("conv2d", "conv1d", "max_pool2d", "avg_pool2d", "layer_norm", "rms_norm", "batch_norm")
    ours, theirs = (conv_jobs.job(True, chosen, which) for which in (conv_jobs.EAGER, name))
    expected, found = ours.step(), theirs.step()
    assert len(expected) == 2 * len(conv_jobs.calls(quick=True))
    conv.check({conv_jobs.EAGER: expected, name: found})


def test_another_gradient_is_an_error() -> None:
    row = {"conv2d: forward": [[1.0, 5.0], [2.0, 9.0]]}
    conv.check({conv.EAGER: row, conv.TORCH: {"conv2d: forward": [[1.0, 5.0], [2.00001, 9.0]]}})
    other = {conv.EAGER: row, conv.TORCH: {"conv2d: forward": [[1.0, 5.0], [2.1, 9.0]]}}
    fails(Missing, "conv2d: forward: PyTorch computes", conv.check, other)
    assert conv_jobs.fingerprint(np.asarray([1.0, -2.0])) == [1 - 2 * np.cos(1), 3.0]


def test_a_missed_goal_is_said() -> None:
    row = f"{conv.SMALL}: {conv.FORWARD}"
    timings = {row: {conv.EAGER: Timing([4.0, 4.0]), conv.TORCH: Timing([1.0, 1.0])}}
    text, short = conv.table(timings)
    assert markdown(text)[0][2] == [row, "4e+03 (4.00 x)", "1e+03"]
    assert short == [f"{row}: agrad needs 4.00 x the PyTorch time, goal 3"]
    timings[row][conv.EAGER] = Timing([2.0, 2.0])
    assert conv.table(timings)[1] == []


# -- kernels --

# updates write into their arguments
OURS = [key[1:] for key in KERNELS if key[0] == "numpy" and not key[1].endswith("_update") and "(" not in key[2]]


def results(found: Any) -> list[Any]:
    if isinstance(found, tuple):
        return [x for part in found for x in results(part)]
    return [found]


@pytest.mark.parametrize(("name", "part"), OURS, ids=[f"{name} {part}" for name, part in OURS])
def test_a_kernel_and_the_general_rule_compute_the_same(name: str, part: str) -> None:
    calls, error = kernels.pair(load("numpy"), name, part, kernels.Case(name, 1 << 12, "float64")), 1e-9
    if calls is None:  # the guard accepts only long arrays of float32
        calls, error = kernels.pair(load("numpy"), name, part, kernels.Case(name, 1 << 15, "float32")), 2e-7
    assert calls is not None
    general, own = calls
    all_close(results(general()), results(own()), rtol=1e-6, atol=error)


def test_a_quick_run_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {key: KERNELS[key] for key in KERNELS if key[:2] in (("numpy", "relu"), ("numpy", "add"))}
    monkeypatch.setattr("agrad.registry.KERNELS", chosen)
    options = Options(("numpy",), (), (64,), "float32", None, 1, 0.001, (), True)
    report = kernels.run(options)
    assert {name.partition(",")[0] for name in report.record["seconds"]} == {f"{key[1]} {key[2]}" for key in chosen}
    assert "relu vjp:x" in report.text


# -- tables --


@pytest.mark.parametrize("name", ["interactions", "rules"])
def test_the_peers_have_the_rows_of_agrad_train(name: str, tmp_path: Path) -> None:
    source, file = SOURCES[name], tmp_path / "table.csv"
    write(file, source, 3)
    train, test = tables.rows_of(source, file)
    held = data.load_table(file, source.target, task=source.task, report=lambda line: None)
    y = np.array(target_of(source, file))
    assert len({*train, *test}) == y.size
    for rows, part in ((train, held.y_train), (test, held.y_test)):
        if source.task == "classification":
            assert np.array(held.class_names)[part].tolist() == y[rows].tolist()
        else:
            found = part[:, 0] * held.target_scale[0] + held.target_mean[0]
            assert found == pytest.approx(y[rows].astype(float), rel=1e-4, abs=1e-3)


def test_each_seed_shuffles_the_rows(tmp_path: Path) -> None:
    texts = []
    for seed in (0, 1, 0):
        write(tmp_path / "table.csv", SOURCES["missing"], seed)
        texts.append((tmp_path / "table.csv").read_text().splitlines())
    assert texts[0] == texts[2] != texts[1]
    assert sorted(texts[0]) == sorted(texts[1])


def test_a_table_below_the_perceptron_is_named() -> None:
    scores = {
        name: {"agrad train": [0.8, 0.9], "MLP": [mlp], "trees": [0.86]}
        for name, mlp in (("iris", 0.861), ("wine", 0.859))
    }
    seconds = {name: {"agrad train": [2.0, 4.0], "MLP": [1.0], "trees": [1.0]} for name in scores}
    text = tables.report_of(scores, seconds, {}, {}).text
    assert "below the MLP (goal: none): iris (-0.0110). Mean difference -0.0100." in text
    assert "Mean difference to the trees -0.0100" in text
    assert "Median table 3.0 s" in text and "over 2 seeds" in text
