"""``agrad train --precision``: products in float16 with loss scaling, resumed to the same result, and refusals."""

import json

import pytest

from agrad.nn import checkpoint

pytest_plugins = ["cli_fixtures"]

SMALL = ("--hidden", "8,6", "--batch-size", "7", "--dropout", "0.2", "--lr", "0.01", "--backend", "numpy", "--quiet")


def words(folder, *more):
    return ("train", "--data", folder / "flowers.csv", "--label", "kind", *SMALL, *more)


@pytest.mark.needs("safetensors")
def test_a_resumed_run_in_float16_ends_as_one_that_ran_through(run, folder, tmp_path):
    whole, parts = tmp_path / "whole.st", tmp_path / "parts.st"
    # another schedule depends on the number of epochs, which differs here
    narrow = ("--precision", "float16", "--schedule", "constant")
    assert run(*words(folder, *narrow, "--epochs", "4", "--save", whole, "--log", tmp_path / "log"))[0] == 0
    assert run(*words(folder, *narrow, "--epochs", "2", "--save", parts))[0] == 0
    assert run("train", "--resume", parts, "--epochs", "4", "--backend", "numpy", "--quiet")[0] == 0
    (first, about), (second, _) = (checkpoint.load(str(path)) for path in (whole, parts))
    assert about["config"]["precision"] == json.loads((tmp_path / "log").read_text().splitlines()[0])["precision"]
    assert {"loss_scale.scale", "loss_scale.good_steps"} < set(first)
    assert first["loss_scale.good_steps"] > 0
    for name, value in first.items():
        assert value.dtype == second[name].dtype != "float16"
        assert (value == second[name]).all(), name
    assert run("evaluate", whole, "--quiet")[0] == 0
    code, _, error = run("train", "--resume", parts, "--epochs", "5", "--precision", "tf32")
    assert code != 0
    assert "--precision tf32 conflicts with --resume" in error


def test_the_numbers_are_other_ones(run, folder, tmp_path):
    losses = {}
    for name in ("float32", "float16"):
        log = tmp_path / name
        more = () if name == "float32" else ("--precision", name)
        assert run(*words(folder, *more, "--epochs", "2", "--log", log))[0] == 0
        losses[name] = json.loads(log.read_text().splitlines()[-1])["test_loss"]
    assert losses["float16"] != losses["float32"]
    assert losses["float16"] == pytest.approx(losses["float32"], rel=0.02)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--precision", "half"), "one of float32, tf32, bfloat16, float16"),
        (("--precision", "float16", "--dtype", "float64"), "--dtype float64"),
        (("--precision", "float16", "--no-jit"), "Omit --no-jit"),
        (("--precision", "bfloat16"), "must be 'float16' for NumPy arrays, got 'bfloat16'"),
    ],
)
def test_refusals(run, folder, more, message):
    code, _, error = run(*words(folder, *more, "--epochs", "1"))
    assert code != 0
    assert message in error
    assert "Traceback" not in error
