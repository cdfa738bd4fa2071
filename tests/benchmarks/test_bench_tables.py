"""The suite ``tables``: all candidates have the same rows, and goals that are missed are named."""

from pathlib import Path

import numpy as np
import pytest

from agrad import data
from bench import tables
from bench.tables_data import SOURCES, target_of, write


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
