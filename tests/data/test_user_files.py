"""Data sets of one's own: npz archives and csv tables, good and bad."""

import contextlib
import gzip
import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from damage import damaged, read_or_refused
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import fails, refuses

from agrad import data
from agrad.errors import LENGTH, ConfigurationError, DataError, listed, printable

RNG = np.random.default_rng(11)
X = RNG.normal(5, 3, (40, 2, 3))
Y = np.arange(40) % 4


def bytes_of(save, *args, **arrays):
    buffer = io.BytesIO()
    save(buffer, *args, **arrays)
    return buffer.getvalue()


def npz(save=np.savez, **arrays):
    return bytes_of(save, **arrays)


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# -- npz --


def test_npz_is_split_and_standardised_on_the_train_part(tmp_path):
    path = written(tmp_path / "a.npz", npz(X=X, y=Y))
    d = data.load_npz(path, test_fraction=0.25, seed=3, dtype="float64")
    assert d.X_train.shape == (28, 6) and d.X_test.shape == (12, 6)
    assert np.bincount(d.y_train).tolist() == [7] * 4 and np.bincount(d.y_test).tolist() == [3] * 4
    assert d.feature_shape == (2, 3) and d.n_classes == 4 and d.class_names == ("0", "1", "2", "3")
    np.testing.assert_allclose(d.X_train.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(d.X_train.std(0), 1, rtol=1e-12)
    most, few = data.stratified_split(Y, 0.25, 3)
    raw = X.reshape(40, 6)
    np.testing.assert_allclose(d.X_test, (raw[few] - raw[most].mean(0)) / raw[most].std(0), rtol=1e-12)
    assert np.array_equal(d.X_test, d.scaled(X[few])) and np.array_equal(d.y_test, Y[few])
    again = data.load_npz(path, test_fraction=0.25, seed=3, dtype="float64")
    other = data.load_npz(path, test_fraction=0.25, seed=4, dtype="float64")
    assert np.array_equal(again.X_train, d.X_train) and not np.array_equal(other.X_train, d.X_train)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array(["cat", "ant", "bee", "dog"])[Y], ("ant", "bee", "cat", "dog")),
        (np.array([b"x", b"\xc3\xa9", b"y", b"z"])[Y], ("x", "y", "z", "é")),
        (np.array([30, -5, 7, 100])[Y], ("-5", "7", "30", "100")),
        (np.array([3.0, 0.0, 1.0, 9.0], "f4")[Y], ("0", "1", "3", "9")),
        (Y.astype(np.uint64) + np.uint64(2**64 - 9), tuple(str(2**64 - 9 + k) for k in range(4))),
        (Y < 2, ("False", "True")),
    ],
)
def test_npz_labels_become_class_numbers(tmp_path, labels, names):
    path = written(tmp_path / "a.npz", npz(X=X[:36], y=labels[:36], X_test=X[36:], y_test=labels[36:]))
    d = data.load_npz(path)
    assert d.class_names == names and d.n_classes == len(names)
    text = [v.decode() if isinstance(v, bytes) else str(int(v) if v.dtype.kind == "f" else v) for v in labels]
    assert [d.class_names[k] for k in d.y_train] + [d.class_names[k] for k in d.y_test] == text


@pytest.mark.parametrize(
    ("scaling", "dtype", "mean", "scale"),
    [("auto", "u1", 0, 255), ("bytes", "f4", 0, 255), ("none", "i2", 0, 1), ("auto", "i2", None, None)],
)
def test_npz_scaling(tmp_path, scaling, dtype, mean, scale):
    d = data.load_npz(written(tmp_path / "a.npz", npz(X=(X * 4 + 60).astype(dtype), y=Y)), scaling=scaling)
    if mean is None:
        np.testing.assert_allclose(d.X_train.std(0), 1, rtol=1e-5)
    else:
        assert (d.mean == mean).all() and (d.scale == scale).all()


def test_a_feature_that_does_not_vary_becomes_zero(tmp_path):
    constant = X.reshape(40, 6).copy()
    constant[:, 2] = 0.1
    constant[:, 4] = 1e9 / 3
    d = data.load_npz(written(tmp_path / "a.npz", npz(X=constant, y=Y)), dtype="float64")
    assert np.abs(d.X_train[:, [2, 4]]).max() < 1e-6 and np.abs(d.X_test[:, [2, 4]]).max() < 1e-6
    assert d.scale[2] == 1 and d.scale[4] == 1


def with_value(value):
    bad = X.copy()
    bad[3, 1, 1] = value
    return bad


def member(shape, descr, body=b""):
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    return bytes_of(np.lib.format.write_array_header_1_0, header) + body


def archived(packing=zipfile.ZIP_STORED, **members):
    """Return an archive of files, whose contents need not be arrays."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def no_character(code):
    labels = np.array(["a", "b"] * 20)
    labels.view(np.uint32)[3] = code
    return labels


NPZ = [
    ({"x": X, "labels": Y}, "missing X, y, found labels, x"),
    ({}, "missing X, y, found none"),
    ({"X": X, "y": Y[:-1]}, "expected one label for each of 40 examples"),
    ({"X": X, "y": np.eye(4)[Y]}, r"found labels of shape \(40, 4\)"),
    ({"X": X[:0], "y": Y[:0]}, "one example or more"),
    ({"X": X[:, :, :0], "y": Y}, "one example or more"),
    ({"X": np.float64(3), "y": Y}, "one example or more"),
    ({"X": with_value(np.nan), "y": Y}, "found nan at example 3, feature 4"),
    ({"X": with_value(-np.inf), "y": Y}, "found -inf at example 3, feature 4"),
    ({"X": X * 1e300, "y": Y}, "too large to standardize"),
    ({"X": X + 1j, "y": Y}, "real numbers, found dtype complex128"),
    ({"X": X.astype(str), "y": Y}, "real numbers, found dtype <U"),
    ({"X": X, "y": Y + 0.5}, "integers or text as labels, found 0.5 at example 0"),
    ({"X": X, "y": np.where(Y == 1, np.nan, Y)}, "found nan at example 1"),
    ({"X": X, "y": Y * 1j}, "found dtype complex128"),
    ({"X": X, "y": Y * 0 + 7}, "found only the label '7'"),
    ({"X": X, "y": np.array([b"\xff", b"a"])[Y // 2]}, "labels in UTF-8"),
    ({"X": X, "y": no_character(0x110000)}, "found the code 0x110000"),
    ({"X": X, "y": no_character(0xD800)}, "found the code 0xd800"),
    ({"X": X, "y": Y, "X_test": X}, "both X_test and y_test or neither"),
    ({"X": X, "y": Y, "X_test": X, "y_test": Y + 1}, r"labels of the train part \(0, 1, 2, 3\), found '4'"),
    ({"X": X, "y": Y, "X_test": X, "y_test": Y.astype(str)}, "labels of the same kind"),
    ({"X": X, "y": Y, "X_test": X[:, :1], "y_test": Y}, "examples of one shape"),
    ({"X": X, "y": Y, "X_test": X[:0], "y_test": Y[:0]}, "one example or more"),
    ({"X": X[:4], "y": Y[:4]}, "2 examples or more"),
    ({"X": X.astype(object), "y": Y}, "found Python objects"),
    (bytes_of(np.save, X), "found 93 4e 55 4d"),
    (b"", "an empty file"),
    (b"PK\3\4 nothing of the kind", "a damaged one"),
    (npz(X=X, y=Y)[:-30], "a damaged one"),
    *((archived(X=content, y=b""), message) for content, message in (
        (member((10**11, 2), "<f8", bytes(64)), r"'X': expected 1600000000000 bytes .* found 64"),
        *((member((10**12,), descr), "elements of no size") for descr in ("|V0", "<U0", "|S0")),
        (member((10**20,) * 30, "|u1"), r"for shape \(1000.* and dtype uint8, found 0"),
        (member((7,), [(f"field {n}", "<f8") for n in range(300)]), "'X': expected 16800 bytes"),
        (member((2,), "|u1").replace(b"False", b"Wrong") + bytes(2), "a damaged one: malformed"),
        (member((2,), "|u1").replace(b"(2,)", b"(2,") + bytes(2), "a damaged one: .*EOF"),
    )),
    (archived(zipfile.ZIP_BZIP2, X=member((3_000_000,), "|u1", bytes(3_000_000)), y=b""),
     r"found bzip2, .* Save the file again with numpy\.savez_compressed"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), NPZ, ids=[message for _, message in NPZ])
def test_npz_content_that_cannot_be_used(tmp_path, content, message):
    path = written(tmp_path / "own.npz", content if isinstance(content, bytes) else npz(**content))
    text = str(fails(DataError, message, data.load_npz, path))
    assert str(path) in text and len(text) - len(str(tmp_path)) <= 300


def test_archives_of_any_program_are_read(tmp_path):
    old = bytes_of(np.save, X).replace(b"(40, 2, 3)", b"(40L, 2, 3)").replace(b"}  ", b"} ", 1)  # of Python 2
    assert np.array_equal(data.read_npz(written(tmp_path / "a.npz", archived(X=old)))["X"], X)
    zeros = np.zeros(3_000_000)  # which deflate packs best
    for content, size in (
        (archived(zipfile.ZIP_BZIP2, X=member((20_000,), "|u1", bytes(range(200)) * 100)), 20_000),
        (npz(np.savez_compressed, X=zeros), zeros.size),
    ):
        assert data.read_npz(written(tmp_path / "a.npz", content))["X"].shape == (size,)


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
    # a header of 4 GiB reserves nothing either
    short = struct.pack(">4BI", 0, 0, 8, 1, 2**32 - 1) + bytes(100)
    for content, message in (
        (header + bytes(50_000_000), "longer than its header says"),
        (short, "found 100; the file is truncated"),
    ):
        path = written(tmp_path / "a.gz", gzip.compress(content, 1))
        with little_memory():
            fails(DataError, message, data.read_idx, path)
    assert data.read_idx(written(path, gzip.compress(header + bytes(100)))).shape == (100,)
    content, claimed = member((3_000_000_000,), "|u1", bytes(1000)), 3_000_000_000
    packed, size = archived(zipfile.ZIP_DEFLATED, X=content), struct.pack("<I", len(content))
    assert packed.count(size) == 2
    written(path, packed.replace(size, struct.pack("<I", claimed + len(content) - 1000)))
    with little_memory():
        fails(DataError, r"'X': expected 3000000000 bytes .* cannot hold so many", data.read_npz, path)
    written(path, archived(**{"X" * 900: member((3,), "|u1", bytes(2))}))
    fails(DataError, r"array 'X{1,50}\.\.\.'?: expected 3 bytes .{1,100}found 2$", data.read_npz, path)


def test_npz_options_that_make_no_sense(tmp_path):
    path = written(tmp_path / "a.npz", npz(X=X, y=Y))
    for option, value, message in (
        ("test_fraction", 0, "fraction to hold out must be between 0 and 1, got 0"),
        ("scaling", "other", "scaling must be one of auto, .* got 'other'"),
        ("dtype", "int64", "dtype must be one of float32, float64, got 'int64'"),
        ("seed", -1, "seed must not be negative, got -1"),
    ):
        fails(ConfigurationError, message, data.load_npz, path, **{option: value})


# -- csv --

TABLE = "a,kind,b\n" + "".join(f"{i},{('no', 'yes', 'maybe')[i % 3]},{i * 0.5 - 3}\n" for i in range(12))


@pytest.mark.parametrize("label", ["kind", 1, -2, "1"])
def test_csv(tmp_path, label):
    path = written(tmp_path / "a.csv", TABLE)
    d = data.load_csv(path, label, test_fraction=0.25, scaling="none", dtype="float64")
    assert d.class_names == ("maybe", "no", "yes") and d.feature_names == ("a", "b")
    assert d.X_train.shape == (9, 2) and d.X_test.shape == (3, 2)
    rows = np.concatenate([d.X_train, d.X_test])
    assert sorted(rows[:, 0]) == list(range(12)) and np.array_equal(rows[:, 1], rows[:, 0] * 0.5 - 3)
    kinds = [d.class_names[k] for k in np.concatenate([d.y_train, d.y_test])]
    assert kinds == [["no", "yes", "maybe"][int(a) % 3] for a in rows[:, 0]]
    assert data.load_csv(path, label).mean.shape == (2,)
    for delimiter in ("", "ab", "\n", '"'):
        fails(ConfigurationError, "delimiter", data.load_csv, path, label, delimiter=delimiter)


def test_csv_forms_that_programs_write(tmp_path):
    text = '\ufeff"a b"; target ;"c"\r\n1;10;" 2.5"\r\n\r\n3e0;9;-4\r\n'
    table = data.read_csv(written(tmp_path / "a.csv", text))
    labels = table.labels("target")
    assert table.names == ("a b", "target", "c") and labels.tolist() == [10, 9] and labels.dtype == np.int64
    X = table.numbers(["a b", "c"])
    assert X.tolist() == [[1, 2.5], [3, -4]] and X.dtype == np.float64
    table = data.read_csv(written(tmp_path / "b.csv", "x,y\n1,2\n"))
    assert table.numbers().tolist() == [[1, 2]] and table.names == ("x", "y")


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        ("", "k", "found an empty file"),
        ("a,k\n", "k", "one row of data or more under the header, found none"),
        ("1,2\n3,4\n", 1, "a header row"),
        ("a,k\n1,x\n\n2,y,z\n", "k", "line 4: expected 2 columns as in the header, found 3"),
        ("a,k\n1,x\nlong,y\n", "k", "line 3, column 'a': expected a finite number, found 'long'"),
        ("a,b,k\n1,,x\n", "k", "line 2, column 'b': expected a finite number, found nothing"),
        ("a,k\nnan,x\n", "k", "line 2, column 'a': expected a finite number, found 'nan'"),
        ("a,k\n1, \n", "k", "line 2, column 'k': expected a label, found nothing"),
        ("a,k\n1,x\n", "c", r"expected a column 'c', found the columns a, k \(numbered 0 to 1\)"),
        ("age,kind\n1,x\n", "kin", r"\(numbered 0 to 1\)\. Did you mean 'kind'\?"),
        ("a,k\n1,x\n", 2, "expected a column 2"),
        ("a,k\n1,x\n", -3, "expected a column -3"),
        ("k\nx\n", "k", "one column of features or more"),
        ("a,k\n1,2.5\n2,1\n", "k", "found the number '2.5' in row 1"),
        ("a,k\n1,9007199254740992\n2,9007199254740993\n", "k", "integers below 2.*found the number '9007199254740992'"),
        ("a,k\n1,x\n2,x\n", "k", "found only the label 'x'"),
        ("a,k\n1,x\n2,y\n", "k", "2 examples or more"),
        ('a,k\n1,"x\n2,y\n', "k", "damaged"),
        (b"a,k\n1,\xff\n2,\xff\n", "k", "found only the label 'ÿ'"),
        (b"\x89PNG\r\n\x1a\n\0\0", "k", "UTF-8 or another encoding, found a binary file"),
        (b"PK\3\4 no archive", "k", "cannot be read: File is not a zip file"),
        (gzip.compress(TABLE.encode(), mtime=0)[:-9], "k", "cannot be read: Compressed file ended"),
    ],
)
def test_csv_content_that_cannot_be_used(tmp_path, text, label, message):
    path = written(tmp_path / "own.csv", text)
    assert str(path) in str(fails(DataError, message, data.load_csv, path, label))


# -- columns, classes and quantities --


def table(path, names, *columns):
    rows = "".join(",".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
    return written(path, f"{','.join(names)}\n{rows}")


@pytest.mark.parametrize("names", ["a,a,k", "k,a,k", "a,,,k", "a, a ,k"])
def test_each_column_has_a_name_of_its_own(tmp_path, names):
    written(tmp_path / "a.csv", f"{names}\n{','.join('1' * len(names.split(',')))}\n")
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


def test_messages_on_files_are_a_few_printable_lines():
    assert printable("a\tb\né\x1b\u202e\ud800\x7f") == "a\tb\né\\x1b\\u202e\\ud800\\x7f"
    assert str(DataError("short: \x1b[2J")) == "short: \\x1b[2J"
    long = str(DataError("\x1b" * 10**6))
    assert len(long) <= LENGTH + 3 and long.endswith("...") and long.isprintable()
    lines = str(DataError("\n".join(map(str, range(50))))).splitlines()
    assert lines[:2] == ["0", "1"] and len(lines) == 13 and lines[-1] == "... 50 lines"
    assert listed(["x" * 1000, "a\nb", "c"], 2) == f"{'x' * 40}..., a\\nb, ... 3 in all"


# -- damaged files --

SMALL = {"X": X[:12, 0], "y": Y[:12]}
IDX = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6))


def read_small(path):
    arrays = data.read_npz(path, required=("X", "y"))
    # the archive's checksums see to it that what can still be read is what was written
    assert all(np.array_equal(arrays[name], SMALL[name]) for name in SMALL)


def read_kinds(path):
    d = data.load_csv(path, "kind")
    assert np.isfinite(d.X_train).all() and d.n_classes >= 2


@pytest.mark.parametrize(
    ("read", "contents"),
    [
        (read_small, [damaged(npz(**SMALL)), damaged(npz(np.savez_compressed, **SMALL))]),
        (read_kinds, [damaged(TABLE.encode()), st.text(max_size=60).map(str.encode)]),
        (data.read_idx, [damaged(IDX), damaged(gzip.compress(IDX, mtime=0))]),
    ],
    ids=["npz", "csv", "idx"],
)
@pytest.mark.filterwarnings("ignore:.*numbers the rows:UserWarning")
def test_damaged_files_are_read_or_refused(tmp_path_factory, read, contents):
    path = tmp_path_factory.mktemp("fuzz") / "a"

    @settings(max_examples=100, deadline=None, database=None)
    @given(content=st.one_of(*contents, st.binary(max_size=60)))
    def check(content):
        read_or_refused(read, written(path, content))

    check()


# -- the record --


def record(**change):
    numbers = {"mean": np.zeros(2), "scale": np.ones(2), "n_classes": 2, "feature_shape": (2,)}
    train, test = {"X_train": np.zeros((3, 2)), "y_train": np.array([0, 1, 0])}, {"X_test": np.zeros((1, 2))}
    parts = {"name": "own", "class_names": ("a", "b"), "y_test": np.array([1]), **numbers, **train, **test}
    return data.ClassificationData(**parts | change)


test_a_data_set_is_whole_or_refused = refuses([(DataError, message, lambda given=given: record(**given))
    for given, message in (
        ({"X_train": np.zeros((3, 2), np.int64)}, "expected float32 or float64"),
        ({"y_train": np.array([0, 1, 2])}, "labels from 0 to 1, found 2 at example 2"),
        ({"y_test": np.array([-1])}, "found -1 at example 0"),
        ({"y_train": np.array([0, 1, 1], np.int32)}, "expected int64"),
        ({"y_train": np.array([1, 1, 1])}, "found only 'b'"),
        ({"X_test": np.zeros((1, 3))}, "features in the test part: expected 2, found 3"),
        ({"X_test": np.zeros((1, 2), np.float32)}, "the dtype of the test part"),
        ({"X_test": np.full((1, 2), np.inf)}, "found inf at example 0, feature 0"),
        ({"feature_shape": (3,)}, "feature_shape"),
        ({"mean": np.zeros(3)}, "means"),
        ({"scale": np.ones(1)}, "scales"),
        ({"class_names": ("a",)}, "class names"),
        ({"feature_names": ("a",)}, "feature names"),
        ({"y_test": np.array([0, 0])}, "found 2 labels"),
    )])  # fmt: skip
