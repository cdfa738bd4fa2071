"""Fixtures of the command line's tests: a way to run it, data files, a model."""

import re

import numpy as np
import pytest
from cli_files import table
from refusals import pattern

from agrad.cli import main


@pytest.fixture
def run(capfd):
    """Run the command line; gives the exit code and what was printed on each output."""

    def run(*argv):
        capfd.readouterr()
        code = main([str(word) for word in argv])
        return (code, *capfd.readouterr())

    return run


@pytest.fixture
def ran(run):
    """Run a command that must succeed; gives what was printed on each output."""

    def ran(*argv):
        code, out, err = run(*argv)
        assert code == 0, out + err
        return out, err

    return ran


@pytest.fixture
def refused(run):
    """Check the exit code and a part of the error of a command that prints nothing else; gives the error."""

    def refused(code, text, *argv):
        found, out, err = run(*argv)
        assert (found, out) == (code, ""), err
        assert f"agrad {argv[0]}: error: " in err
        assert re.search(pattern(text), err, re.DOTALL), err
        return err

    return refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with data files of a user.

    blobs.npz, and the same examples as flowers.csv, whose test part is another one.
    """
    rng = np.random.default_rng(3)
    y = np.arange(90) % 3
    X = np.round(rng.normal(size=(90, 3)) + 4 * np.eye(3)[y], 4)
    folder = tmp_path_factory.mktemp("data")
    np.savez(folder / "blobs.npz", X=X, y=y + 5)
    table(folder / "flowers.csv", ["a", "b", "c", "kind"], [[*x, f"k{k}"] for x, k in zip(X, y, strict=True)])
    return folder


@pytest.fixture(scope="module")
def model(folder):
    """Return a model trained on flowers.csv."""
    path = folder / "flowers.safetensors"
    words = ["train", "--data", str(folder / "flowers.csv"), "--label", "kind", "--hidden", "8", "--epochs", "30"]
    assert main([*words, "--lr", "0.02", "--quiet", "--save", str(path)]) == 0
    return path
