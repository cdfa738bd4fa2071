"""Files of data that mislead: columns, and quantities for classes; and what saves leave."""

import os
import stat

import numpy as np
import pytest
from refusals import fails

from agrad import data, optim
from agrad.data import files
from agrad.errors import LENGTH, DataError, listed, printable
from agrad.nn import Linear

RNG = np.random.default_rng(5)


def table(path, names, *columns):
    rows = "".join(",".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
    path.write_text(f"{','.join(names)}\n{rows}")
    return path


# -- columns --


@pytest.mark.parametrize("names", ["a,a,k", "k,a,k", "a,,,k", "a, a ,k"])
def test_each_column_has_a_name_of_its_own(tmp_path, names):
    (tmp_path / "a.csv").write_text(f"{names}\n{','.join('1' * len(names.split(',')))}\n")
    match = r"a different name for each column, found '\w?' \(columns \d and \d"
    fails(DataError, match, data.read_csv, tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("name", "values", "warned"),
    [
        ("Unnamed: 0", range(40), True),
        ("Unnamed: 0", range(1, 41), True),
        ("", RNG.permutation(1000)[:40], True),
        ("", [0.5 * i for i in range(40)], False),
        ("", [0] * 40, False),
        ("row", range(40), False),
    ],
)
def test_an_index_column_is_warned_of(tmp_path, recwarn, name, values, warned):
    path = table(tmp_path / "a.csv", [name, "x", "k"], values, range(40), ["n", "y"] * 20)
    lines = []
    assert data.load_csv(path, "k", report=lines.append).n_features == 2
    assert len(lines) == warned and not recwarn.list
    data.load_csv(path, "k")
    assert [f"the column {name!r} numbers the rows" in str(w.message) for w in recwarn.list] == [True] * warned


# -- quantities --

FRACTIONS = RNG.normal(size=40)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (FRACTIONS, "40 different values in 40 rows"),
        (RNG.permutation(40).astype(float), "found 1 of '0'"),
        ([*range(20), 30] + [*range(20)] * 4, "found 1 of '30'; these are quantities (21 different values in 101"),
        (["?", *FRACTIONS[1:]], "among others; these are quantities"),
        (["?", *range(39)], "found 1 of '0'"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_quantities_are_no_classes(tmp_path, labels, message, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        load, given = data.load_csv, (table(path, ["x", "k"], range(len(labels)), labels), "k")
    else:
        np.savez(path, X=np.arange(len(labels)), y=np.array(labels))
        load, given = data.load_npz, (path,)
    text = str(fails(DataError, "--task regression", load, *given))
    assert "write them as text" in text and path.name in text
    if kind == "npz" or "?" in labels:
        assert message in text


CLASSES = np.arange(39) % 20, np.arange(300) % 60, [f"c{i // 2}" for i in range(60)], ["?", *[1, 2, 3] * 13]


@pytest.mark.parametrize("labels", [*CLASSES, ["v1.5", "2.5"] * 20])
def test_classes_are_no_quantities(tmp_path, labels):
    table(tmp_path / "a.csv", ["x", "k"], range(len(labels)), labels)
    np.savez(tmp_path / "a.npz", X=np.arange(len(labels)), y=np.array(labels))
    for found in (data.load_csv(tmp_path / "a.csv", "k"), data.load_npz(tmp_path / "a.npz")):
        assert found.n_classes == len(set(labels))


# -- messages --


def test_messages_on_files_are_a_few_printable_lines():
    assert printable("a\tb\né\x1b\u202e\ud800\x7f") == "a\tb\né\\x1b\\u202e\\ud800\\x7f"
    assert str(DataError("short: \x1b[2J")) == "short: \\x1b[2J"
    long = str(DataError("\x1b" * 10**6))
    assert len(long) <= LENGTH + 3 and long.endswith("...") and long.isprintable()
    lines = str(DataError("\n".join(map(str, range(50))))).splitlines()
    assert lines[:2] == ["0", "1"] and len(lines) == 13 and lines[-1] == "... 50 lines"
    assert listed(["x" * 1000, "a\nb", "c"], 2) == f"{'x' * 40}..., a\\nb, ... 3 in all"


# -- what a save keeps and leaves --


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_save_keeps_the_permissions_of_the_file(tmp_path, mode):
    (tmp_path / "m").write_bytes(b"old")
    (tmp_path / "m").chmod(mode)
    with files.written_whole(tmp_path / "m") as file:
        # nobody else may read what is not yet in place either
        assert stat.S_IMODE(os.stat(file.name).st_mode) == mode
        file.write(b"new")
    assert (tmp_path / "m").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == mode


@pytest.mark.skipif(files.fcntl is None, reason="files are locked with fcntl")
def test_a_save_removes_what_killed_ones_left_and_nothing_else(tmp_path):
    for name in (".agrad-1-0123456789ab.tmp", ".agrad-notes", "other.tmp"):
        (tmp_path / name).write_bytes(b"left")
    (tmp_path / ".agrad-folder.tmp").mkdir()
    with files.written_whole(tmp_path / "one") as file:
        file.write(b"1")
        # one that is being written is left alone
        files.write_whole(tmp_path / "two", b"2")
    assert sorted(os.listdir(tmp_path)) == [".agrad-folder.tmp", ".agrad-notes", "one", "other.tmp", "two"]
    assert (tmp_path / "one").read_bytes() == b"1" and (tmp_path / "two").read_bytes() == b"2"


# -- the state of optimizers --


def test_counts_that_no_run_reaches_are_refused():
    optimizer = optim.Adam(Linear(2, 1).parameters())
    scale = optim.LossScale(optimizer)
    zeros = {f"{i}.{slot}": np.zeros(shape, "f4") for i, shape in enumerate([(2, 1), (1,)]) for slot in "mv"}
    for steps, taken in ((2**40, 2**40), (3, 4)):
        counts = {name: np.array(taken) for name in ("0.step", "1.step")}
        state = zeros | counts | {"steps": np.array(steps), "lr": np.array(0.1)}
        fails(DataError, r"steps must be below 2\*\*31", optimizer.load_state_dict, state)
    for value, good in ((np.nan, 0), (0.0, 0), (np.inf, 0), (1.0, 2**40)):
        state = {"scale": np.array(value), "good_steps": np.array(good)}
        fails(DataError, r"scale must be from 2\*\*-126", scale.load_state_dict, state)
    assert scale.scale == 2.0**16
