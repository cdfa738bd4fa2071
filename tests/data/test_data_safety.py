"""Files of data that mislead: columns, quantities for classes, archives larger than they say; and what saves leave."""

import contextlib
import gzip
import io
import os
import stat
import struct
import tracemalloc
import zipfile

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
    with pytest.raises(DataError) as raised:
        if kind == "csv":
            data.load_csv(table(path, ["x", "k"], range(len(labels)), labels), "k")
        else:
            np.savez(path, X=np.arange(len(labels)), y=np.array(labels))
            data.load_npz(path)
    text = str(raised.value)
    assert "--task regression" in text and "write them as text" in text and path.name in text
    if kind == "npz" or "?" in labels:
        assert message in text


@pytest.mark.parametrize(
    "labels",
    [
        np.arange(39) % 20,
        np.arange(300) % 60,
        [f"c{i // 2}" for i in range(60)],
        ["?", *[1, 2, 3] * 13],
        ["v1.5", "2.5"] * 20,
    ],
)
def test_classes_are_no_quantities(tmp_path, labels):
    path = table(tmp_path / "a.csv", ["x", "k"], range(len(labels)), labels)
    assert data.load_csv(path, "k").n_classes == len(set(labels))
    np.savez(tmp_path / "a.npz", X=np.arange(len(labels)), y=np.array(labels))
    assert data.load_npz(tmp_path / "a.npz").n_classes == len(set(labels))


# -- unpacking --


@contextlib.contextmanager
def little_memory():
    """Fail if the body allocates 10 MB."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_no_more_is_unpacked_than_the_header_says(tmp_path):
    header = struct.pack(">4BI", 0, 0, 8, 1, 100)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(header + bytes(50_000_000), 1))
    (tmp_path / "whole.gz").write_bytes(gzip.compress(header + bytes(100)))
    # a header of 4 GiB reserves nothing either
    (tmp_path / "short.gz").write_bytes(gzip.compress(struct.pack(">4BI", 0, 0, 8, 1, 2**32 - 1) + bytes(100)))
    for name, message in (("bomb", "longer than its header says"), ("short", "found 100; the file is truncated")):
        with little_memory(), pytest.raises(DataError, match=message):
            data.read_idx(tmp_path / f"{name}.gz")
    assert data.read_idx(tmp_path / "whole.gz").shape == (100,)


def member(shape, descr, body=b""):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue() + body


def test_an_archive_too_small_for_what_it_claims(tmp_path):
    content, claimed = member((3_000_000_000,), "|u1", bytes(1000)), 3_000_000_000
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", content)
    size = struct.pack("<I", len(content))
    assert buffer.getvalue().count(size) == 2
    lie = struct.pack("<I", claimed + len(content) - 1000)
    (tmp_path / "a.npz").write_bytes(buffer.getvalue().replace(size, lie))
    with little_memory(), pytest.raises(DataError, match=r"'X': expected 3000000000 bytes .* cannot hold so many"):
        data.read_npz(tmp_path / "a.npz")


def archived(path, content, name="X.npy", packing=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr(name, content)
    return path


def test_an_archive_packed_by_another_method_says_so(tmp_path):
    few, many = member((20_000,), "|u1", bytes(range(200)) * 100), member((3_000_000,), "|u1", bytes(3_000_000))
    found = data.read_npz(archived(tmp_path / "a.npz", few, packing=zipfile.ZIP_BZIP2))
    assert found["X"].shape == (20_000,)
    with pytest.raises(DataError, match=r"found bzip2, .* Save the file again with numpy\.savez_compressed"):
        data.read_npz(archived(tmp_path / "a.npz", many, packing=zipfile.ZIP_BZIP2))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("X.npy", member((10**20,) * 30, "|u1")),
        ("X.npy", member((7,), [(f"field {n}", "<f8") for n in range(300)])),
        ("X.npy", member((2,), "|u1").replace(b"False", b"Wrong") + bytes(2)),
        ("X.npy", member((2,), "|u1").replace(b"(2,)", b"(2,") + bytes(2)),
        ("X" * 900 + ".npy", member((3,), "|u1", bytes(2))),
    ],
)
def test_messages_about_damaged_headers_are_short(tmp_path, name, content):
    with pytest.raises(DataError) as caught:
        data.read_npz(archived(tmp_path / "a.npz", content, name))
    assert len(str(caught.value)) - len(str(tmp_path)) <= 300, str(caught.value)


def test_zeros_that_deflate_packs_best_are_read(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros(3_000_000))
    assert data.read_npz(tmp_path / "a.npz")["X"].shape == (3_000_000,)


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
