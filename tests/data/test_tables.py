"""Tables of numbers, words and dates, from text and Parquet; and folders of images."""

import sys
import zipfile

import numpy as np
import pytest
from refusals import fails

from agrad import data
from agrad.data import tablefiles
from agrad.data.encodings import values_of
from agrad.errors import DataError, MissingExtraError

MIXED = """id;height;city;born;mark
1;1.5;Rome;2020-01-31;?
2;NA;;2021-02-28T10:30;3
3; 2e1 ;São Paulo;;-
4;inf;NA;1999-12-31 23:59:59.5;0
"""


@pytest.fixture(params=["csv", pytest.param("pyarrow", marks=pytest.mark.needs("pyarrow"))])
def reader(request, monkeypatch):
    """Read text by Python's module, or by pyarrow."""
    if request.param == "csv":
        for name in ("pyarrow", "pyarrow.csv", "pyarrow.parquet", "PIL", "PIL.Image"):
            monkeypatch.setitem(sys.modules, name, None)
    else:
        # the package is used, where it can be
        monkeypatch.setattr(tablefiles, "_by_csv", lambda *args: pytest.fail("read by Python's module"))
    return request.param


def written(path, text):
    path.write_bytes(text.encode())
    return path


@pytest.mark.usefixtures("reader")
def test_columns_have_kinds_and_missing_values(tmp_path):
    table = data.read_csv(written(tmp_path / "a.csv", MIXED))
    assert len(table) == 4 and table.delimiter == ";"
    assert {c.name: c.kind for c in table.columns} == {
        "id": "number", "height": "number", "city": "word", "born": "date", "mark": "number",
    }  # fmt: skip
    assert table["id"].values.tolist() == [1, 2, 3, 4] and table["id"].values.dtype == np.float64
    assert table[1].missing.tolist() == [False, True, False, False]
    np.testing.assert_array_equal(table[1].values, [1.5, np.nan, 20, np.inf])
    # in words, NA is missing too, and kept
    assert table["city"].values.tolist() == ["Rome", "", "São Paulo", "NA"]
    assert table["city"].missing.tolist() == [False, True, False, True]
    assert table["city"].marks == ("NA",) and table["mark"].marks == ("-", "?")
    born = np.array(["2020-01-31", "2021-02-28T10:30", "NaT", "1999-12-31T23:59:59.5"], "datetime64[us]")
    np.testing.assert_array_equal(table["born"].values, born)
    assert table["born"].missing.tolist() == [False, False, True, False]
    assert table[-1].missing.tolist() == [True, False, True, False]
    assert str(table).splitlines() == [
        f"table {str(tmp_path / 'a.csv')!r}: 4 rows, 5 columns, separated by ';'",
        "  id      number",
        "  height  number, 1 missing ('NA')",
        "  city    word, 2 missing ('NA')",
        "  born    date, 1 missing",
        "  mark    number, 2 missing ('-', '?')",
    ]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ("1 2 3", "number"),
        ("1 nan ?", "number"),
        ("1_0 2 3", "word"),
        ("0x1 2 3", "word"),
        ("1 NAN ?", "number"),
        ("? ? ?", "word"),
        ("none 1 other", "word"),
        ("2020-01-01 NA 2020-01-02", "date"),
        ("2020-13-01 2020-01-01 NA", "word"),
        ("2020-01-01 today NaT", "word"),
        ("2020-01-01T00:00+01:00 a b", "word"),
        ("True False True", "word"),
    ],
)
def test_the_kind_of_a_column(tmp_path, cells, kind):
    text = "".join(f"{k},{cell}\n" for k, cell in enumerate(cells.split()))
    path = written(tmp_path / "a.csv", f"n,x\n{text}")
    assert data.read_csv(path)["x"].kind == kind
    kept = data.read_csv(path, words=["x"])["x"]
    assert kept.kind == "word" and kept.values.tolist() == cells.split() and not kept.missing.any()


@pytest.mark.needs("pyarrow")
@pytest.mark.parametrize("form", ["plain", "quoted", "late word"])
def test_large_tables_are_the_same_by_both_readers(tmp_path, monkeypatch, form):
    rng = np.random.default_rng(3)
    numbers = (rng.normal(size=3000) * 10.0 ** rng.integers(-300, 300, 3000)).tolist()
    words = [("a b", '"ä"' if form == "quoted" else "ä", " c ", "")[k] for k in rng.integers(0, 4, 3000)]
    late = ["1"] * 2999 + ["word" if form == "late word" else "2"]
    rows = zip(map(repr, numbers), words, ["" if k % 7 else str(k) for k in range(3000)], late, strict=True)
    text = '\ufeff"x",w,m,late\r\n' + "\r\n".join(",".join(row) for row in rows)
    by_csv, calls = tablefiles._by_csv, []
    monkeypatch.setattr(tablefiles, "_by_csv", lambda *args: calls.append(form) or by_csv(*args))
    path = written(tmp_path / "a.csv", text)
    first = data.read_csv(path)
    assert not calls
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    second = data.read_csv(path)
    assert len(calls) == 1
    assert first["x"].values.tobytes() == second["x"].values.tobytes() == np.array(numbers).tobytes()
    assert [c.kind for c in first.columns] == ["number", "word", "number", "word" if form == "late word" else "number"]
    for one, other in zip(first.columns, second.columns, strict=True):
        assert one.kind == other.kind and np.array_equal(one.missing, other.missing)
        assert [str(value) for value in one.values] == [str(value) for value in other.values]


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2,5\n", ";"),
        ("a\tb c\n1\t2\n", "\t"),
        ("a|b\n1|2,3\n", "|"),
        ("a\n1\n", ","),
        ("a,b;c\n1,2;3\n", ","),
        ('a,"b;c"\n1,2\n', ","),
    ],
)
def test_the_delimiter_is_guessed(tmp_path, text, delimiter):
    assert data.read_csv(written(tmp_path / "a.csv", text)).delimiter == delimiter


def test_text_as_it_is_found(tmp_path):
    path, match = written(tmp_path / "a.csv", "a;b;c\n1;2\n"), r"line 2: expected 3 columns .* 2 \(separated by ';'\)"
    fails(DataError, match, data.read_csv, path)
    table = data.read_csv(written(path, "# a table\na b\n1 2\n"))
    match = r"expected a column 'b', found only '# a table'. Write .* separated by commas"
    fails(DataError, match, table.__getitem__, "b")
    # which pyarrow refuses
    assert data.read_csv(written(path, "aéb\n1é2\n"), delimiter="é").numbers().tolist() == [[1, 2]]
    # macOS packs other files too
    with zipfile.ZipFile(tmp_path / "t.csv.zip", "w") as archive:
        archive.writestr("t.csv", "a,b\n1,2\n")
        archive.writestr("__MACOSX/._t.csv", b"\0\5")
    assert data.read_csv(tmp_path / "t.csv.zip")["b"].values.tolist() == [2.0]


@pytest.mark.usefixtures("reader")
def test_cells_that_are_no_numbers_are_named(tmp_path):
    path = written(tmp_path / "a.csv", f"\n{MIXED}")
    table = data.read_csv(path)
    infinite = data.read_csv(written(tmp_path / "b.csv", "\n" + MIXED.replace("NA", "7")))
    number = "expected a finite number, found"
    for call, arguments, match in (
        (table.numbers, ["id", "height"], rf"a\.csv': line 4, column 'height': {number} 'NA'"),
        (infinite.numbers, ["height"], f"line 6, column 'height': {number} 'inf'"),
        (table.numbers, ["city"], f"line 3, column 'city': {number} 'Rome'"),
        (table.labels, "city", "line 4, column 'city': expected a label, found nothing"),
        (table.__getitem__, "size", "expected a column 'size', found the columns id, height"),
    ):
        fails(DataError, match, call, arguments)
    assert table.numbers(["id"]).tolist() == [[1], [2], [3], [4]]
    assert table.labels("id").tolist() == [1, 2, 3, 4] and table.labels("id").dtype == np.int64
    # a file that has changed since is not quoted
    written(path, "a\n")
    fails(DataError, f"row 2 of the data, column 'height': {number} nothing", table.numbers, ["id", "height"])


def test_a_file_without_optional_packages(tmp_path, reader):
    path = written(tmp_path / "a.parquet", "PAR1 PAR1")
    if reader == "pyarrow":
        fails(DataError, "expected a Parquet file, found a damaged one", data.read_parquet, path)
        return
    for read in (data.read_parquet, data.ImageFolder):
        fails(MissingExtraError, r"pip install 'agrad\[data\]'", read, path)


@pytest.mark.needs("pyarrow")
def test_parquet(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    columns = {
        "n": pa.array([1, None, 3], pa.int32()),
        "x": pa.array([0.5, float("nan"), 1.0], pa.float32()),
        "b": [True, False, None],
        "w": pa.array(["a", None, "a"]).dictionary_encode(),
        "d": pa.array(np.array(["2020-01-01", "NaT", "2021-01-01"], "datetime64[ns]")),
    }
    parquet.write_table(pa.table(columns), path)
    table = data.read_parquet(path)
    assert [(c.name, c.kind, c.missing.tolist().index(True)) for c in table.columns] == [
        *(("n", "number", 1), ("x", "number", 1), ("b", "number", 2), ("w", "word", 1), ("d", "date", 1)),
    ]
    np.testing.assert_array_equal(table["b"].values, [1, 0, np.nan])
    assert table["w"].values.tolist() == ["a", "", "a"] and table["d"].values.dtype == "datetime64[us]"
    assert table.delimiter is None and "separated" not in str(table)
    far = {
        "days": pa.array([2**31 - 1, None, -(2**31)], pa.date32()),
        "ms": pa.array([2**62, None, 3], pa.timestamp("ms")),
    }
    parquet.write_table(pa.table(far), tmp_path / "far.parquet")
    far = data.read_parquet(tmp_path / "far.parquet")
    assert far["days"].values.astype("datetime64[D]").astype(str).tolist() == ["5881580-07-11", "NaT", "-5877641-06-23"]
    times = far["ms"].values
    assert times.astype(np.int64)[[0, 2]].tolist() == [2**62, 3] and times.dtype == "datetime64[ms]"
    fails(DataError, "column 'days': expected a date within 292,000 years of 1970", values_of, far, far["days"], "date")
    fails(DataError, "row 2 of the data, column 'n': expected a finite number, found nothing", table.numbers, ["n"])
    for bad, message in (
        ({"l": [[1], [2]]}, "column 'l': expected numbers, strings or dates, found list<"),
        ({"n": pa.array([], pa.int32())}, "one row and one column or more, found 0 rows"),
    ):
        parquet.write_table(pa.table(bad), path)
        fails(DataError, message, data.read_parquet, path)


# -- images --


@pytest.fixture
def folder(tmp_path):
    from PIL import Image

    pictures = np.random.default_rng(1).integers(0, 256, (3, 4, 5, 3), dtype=np.uint8)
    pictures = dict(zip(("dogs/b.png", "dogs/more/a.PNG", "cats/c.png"), pictures, strict=True))
    for name, picture in pictures.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(tmp_path / name)
    Image.fromarray(pictures["cats/c.png"][:, :, 0]).save(tmp_path / "cats" / "grey.bmp")
    for name in ("dogs/notes.txt", "dogs/.hidden.png", "readme.md"):
        (tmp_path / name).write_text("text")
    (tmp_path / ".cache").mkdir()
    return tmp_path, pictures


@pytest.mark.needs("PIL")
def test_a_folder_of_images(folder):
    root, pictures = folder

    def names(images):
        return [path.removeprefix(f"{root}/") for path, _ in images.samples]

    images = data.ImageFolder(root)
    assert images.classes == ["cats", "dogs"] and images.class_to_idx == {"cats": 0, "dogs": 1}
    assert images.targets == [0, 0, 1, 1] and len(images) == 4
    assert names(images) == ["cats/c.png", "cats/grey.bmp", "dogs/b.png", "dogs/more/a.PNG"]
    grey = pictures["cats/c.png"][:, :, [0, 0, 0]]
    for (image, label), name, target in zip(images, names(images), images.targets, strict=True):
        assert np.array_equal(image, pictures.get(name, grey)) and label == target
        assert image.dtype == np.uint8 and image.flags.writeable
    (batch,) = data.DataLoader(data.ImageFolder(root, lambda image: image.size), 4, num_workers=2)
    assert [part.tolist() for part in batch[0]] == [[5] * 4, [4] * 4] and batch[1].tolist() == [0, 0, 1, 1]
    for target, name in (("..", "up"), (".", "same"), ("../more", "more/own"), ("../cats", "cats too")):
        (root / "dogs" / name).symlink_to(target)
    (root / "cats" / "dogs").symlink_to("../dogs")
    assert names(data.ImageFolder(root)) == [
        *("cats/c.png", "cats/dogs/b.png", "cats/dogs/more/a.PNG", "cats/grey.bmp", "dogs/b.png"),
        *("dogs/cats too/c.png", "dogs/cats too/grey.bmp", "dogs/more/a.PNG"),
    ]


@pytest.mark.needs("PIL")
def test_images_that_cannot_be_used_are_named(folder):
    root, _ = folder
    path = root / "dogs" / "b.png"
    path.write_bytes(path.read_bytes()[:60])
    images = data.ImageFolder(root)
    fails(DataError, r"dogs/b\.png' is not a complete image: .*\. Download it again", images.__getitem__, 2)
    loader = data.DataLoader(images, 2, num_workers=2, collate_fn=list)
    fails(DataError, r"dogs/b\.png' is not a complete image", list, loader)
    (root / "empty").mkdir()
    for place, match in (
        (root, "empty': expected one image or more of the class 'empty'"),
        (root / "dogs" / "more", "more': expected a folder of images for each class, found no folder"),
        (root / "none", "none': expected a folder of images, but it cannot be read: No such file"),
    ):
        fails(DataError, match, data.ImageFolder, place)


def test_decimal_commas_are_read_where_they_can_be_nothing_else(tmp_path):
    path = written(tmp_path / "t.csv", "price;size;code\n1,5;3;1,234\n;-2,25;5,678\n-7;;9,000\n")
    table = data.read_csv(path)
    assert [column.kind for column in table.columns] == ["number", "number", "word"] and table.decimal == ","
    np.testing.assert_array_equal(table["price"].values, [1.5, np.nan, -7.0])
    np.testing.assert_array_equal(table["size"].values, [3.0, -2.25, np.nan])
    assert data.read_csv(path, words=["price"])["price"].values.tolist() == ["1.5", "", "-7"]
    assert data.read_csv(written(path, "a\tb\n1.5\t2\n")).decimal == "."
    table = data.read_csv(written(path, "a;b\n0,125;1,250\n-0,750;2,500\n"))
    assert table["a"].values.tolist() == [0.125, -0.75] and table["b"].kind == "word"
