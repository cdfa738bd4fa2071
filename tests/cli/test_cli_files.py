"""``agrad train`` and saved models on files as people have them."""

import csv
import gzip

import numpy as np
import pytest
from refusals import fails

from agrad import data
from agrad.cli import main
from agrad.data import tablefiles, user_files
from agrad.errors import DataError

pytest_plugins = ["cli_fixtures"]
pytestmark = pytest.mark.needs("safetensors")

FAST = ("--hidden", "8", "--lr", "0.02")


def adults(path, encoding="utf-8", pack=bytes, header=True, rows=120):
    """Write a table with marks of missing values, thousands, a currency, dates and letters beyond ASCII."""
    lines = ["edad;país;salario;fecha;clase"] * header
    for row in range(rows):
        age, pay = ("?", str(20 + row % 40))[row % 9 > 0], f"${1 + row % 3},{100 + 7 * row % 900:03}.50"
        country = ("España", "Perú", "?", "Chile")[row % 4]
        lines.append(f"{age};{country};{pay};Jan {1 + row % 28} 2000;{('sí', 'no')[row % 2]}")
    path.write_bytes(pack(("\n".join(lines) + "\n").encode(encoding)))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-be", "utf-32", "utf-32-le"])
def test_encodings_are_guessed_and_named_and_files_unpacked(ran, tmp_path, encoding):
    packed = encoding in ("latin-1", "utf-16")
    path = adults(tmp_path / f"t.csv{'.gz' * packed}", encoding, gzip.compress if packed else bytes)
    out, _ = ran("train", "--data", path, "--label", "clase", *FAST, "--epochs", "1", "--save", tmp_path / "m.st")
    first = out.splitlines()[0]
    assert "(1 number, 1 word, 1 number, 1 date)" in first or "(2 numbers, 1 word, 1 date)" in first
    if not encoding.startswith("utf-8"):
        assert f"in the encoding {'cp1252' if encoding == 'latin-1' else encoding}" in first
    for part in (
        "missing values: 'edad' (14: '?'), 'país' (30: '?')",
        "read as numbers with ',' and '$': 'salario'",
        "read as dates in the form %b %d %Y: 'fecha'",
        "'clase' has 2 different words",
    ):
        assert part in out
    assert "the test part of" in ran("evaluate", tmp_path / "m.st")[0]
    told, _ = ran("predict", tmp_path / "m.st", "--data", adults(tmp_path / "other.csv", rows=7))
    assert {line.split(",")[1] for line in told.splitlines()[1:]} <= {"sí", "no"}


def test_a_missing_header_is_said_and_named(ran, refused, tmp_path):
    rng = np.random.default_rng(1)
    lines = [f"{'MFI'[k % 3]},{x:.3f},{y:.3f},{k % 4}" for k, (x, y) in enumerate(rng.normal(size=(60, 2)))]
    data, new, model = tmp_path / "abalone.data", tmp_path / "new.data", tmp_path / "m.st"
    data.write_text("\n".join(lines) + "\n")
    words = ("train", "--data", data, "--label", "3", *FAST, "--epochs", "1")
    refused(1, "found a row like the data (M, ...--no-header...--header", *words)
    out, _ = ran(*words, "--no-header", "--save", model)
    assert "60 rows, 3 columns to learn from" in out and "without a header" in out
    new.write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    assert len(ran("predict", model, "--data", new)[0].splitlines()) == 61
    assert "the test part of" in ran("evaluate", model)[0]
    assert "59 rows" in ran(*words, "--header", "--save", model)[0]
    assert len(ran("predict", model, "--data", data)[0].splitlines()) == 60


@pytest.mark.parametrize(
    ("text", "like_data"),
    [
        ("country,2019,2020,2021\nA,1.5,2.5,3\nB,2,3,4\n", False),
        ("id,x\n1,2\n2,3\n", False),
        (",x\n1,2\n2,3\n", False),
        ("5.1,3.5,setosa\n4.9,3,setosa\n", True),
        ("setosa,5.1\nsetosa,4.9\n", True),
        ("p,x\n" + "p,x\ne,y\n" * 9, True),
        ("who,what\n" + "p,x\ne,y\n" * 9, False),
        ("2000-01-01,a\n2000-01-02,b\n", True),
        ("1,1\n3,4\n", True),
    ],
)
def test_a_first_line_like_the_data(tmp_path, text, like_data):
    (tmp_path / "t.csv").write_text(text)
    if like_data:
        fails(DataError, "header=False in Python", data.read_csv, tmp_path / "t.csv")
    else:
        assert len(data.read_csv(tmp_path / "t.csv")) == text.count("\n") - 1
    table = data.read_csv(tmp_path / "t.csv", header=False)
    assert len(table) == text.count("\n") and table.names[:2] == ("c0", "c1")


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        ("Jan 1 2000|Feb 3 2001", ["2000-01-01", "2001-02-03"]),
        ("January 1, 2000|February 3, 2001", ["2000-01-01", "2001-02-03"]),
        ("1 Jan 2000|3 Feb 2001 ", ["2000-01-01", "2001-02-03"]),
        ("2015/01/01 01:00:00|2015/1/2 02:30", ["2015-01-01T01:00", "2015-01-02T02:30"]),
        ("31.12.1999|1.2.2000", ["1999-12-31", "2000-02-01"]),
        ("12/31/1999 11:30 PM|1/2/2000 1:00 AM", ["1999-12-31T23:30", "2000-01-02T01:00"]),
        ("31/12/1999|?", ["1999-12-31", "NaT"]),
        ("3,995.383|12,995", [3995.383, 12995]),
        ("$3,995.50|-$1", [3995.5, -1]),
        ("3 995|1'234'567", [3995, 1234567]),
        ("7 EUR|8 EUR", [7, 8]),
        ("12.5%|3%", [12.5, 3]),
        ("7 EUR|8 USD", None),
        ("1,2,3|4,5", None),
        ("May|March", None),
        ("2020-01-31T10:30:00Z|2020-02-01T00:00:00.5Z", ["2020-01-31T10:30", "2020-02-01T00:00:00.5"]),
        ("2020-01-31 10:30:00+00:00|", ["2020-01-31T10:30", "NaT"]),
        ("2020-01-31T10:30:00+02:00|2020-01-31T10:30:00+02:00", None),
        ("12345|N/A", [12345, np.nan]),
    ],
)
def test_cells_in_other_forms(tmp_path, cells, values):
    lines = [f'"{cell}",x' for cell in cells.split("|")]
    (tmp_path / "t.csv").write_text("\n".join(["a,b", *lines]) + "\n")
    column = data.read_csv(tmp_path / "t.csv")["a"]
    if values is None:
        assert column.kind == "word" and not column.missing.any()
    else:
        expected = np.array(values, "datetime64[us]" if isinstance(values[0], str) else np.float64)
        np.testing.assert_array_equal(column.values, expected)


def test_prices_are_no_classes(ran, refused, tmp_path):
    def written(*lines):
        (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")

    written("rooms,price", *(f"{row % 7},{1000 + 3 * row}" for row in range(300)))
    words = ("train", "--data", tmp_path / "t.csv", "--label", "price", *FAST, "--epochs", "1")
    assert len(refused(1, "--task regression", *words, "--task", "classification")) < 400 + len(str(tmp_path))
    ran(*words)
    # with a currency, three digits after a comma are thousands
    written("size;price", *(f"{k},5;{k},{k:03} €" for k in range(1, 300)))
    assert "task: regression, because 'price' has 299" in ran(*words)[0]
    written("size,price", *(f"{k},name {k}" for k in range(300)))
    refused(1, "found 300 different labels, such as 'name 0'. Name another target column with --label", *words)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Return a model trained on t.csv, which is in the same folder."""
    folder = tmp_path_factory.mktemp("fitted")
    words = ("train", "--data", adults(folder / "t.csv"), "--label", "clase", *FAST, "--epochs", "1", "--quiet")
    assert main([*map(str, words), "--save", str(folder / "m.st")]) == 0
    return folder / "m.st"


def test_evaluate_reads_a_file_once(run, tmp_path, fitted, monkeypatch):
    X, reads = np.arange(40.0).reshape(20, 2), []
    np.savez(tmp_path / "a.npz", X=X, y=np.arange(20) % 2)
    assert run("train", "--data", tmp_path / "a.npz", *FAST, "--epochs", "1", "--save", tmp_path / "a.st")[0] == 0
    np.savez(tmp_path / "b.npz", X=X + 1, y=np.arange(20) % 2)
    for module, name in ((tablefiles, "_read_text"), (user_files, "read_npz")):
        read = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, read=read, **options: reads.append(1) or read(*args, **options))
    for model, path, part in (
        (fitted, fitted.parent / "t.csv", "the test part of"),
        (fitted, adults(tmp_path / "other.csv", rows=60), "all of"),
        (tmp_path / "a.st", tmp_path / "b.npz", "all of"),
    ):
        reads.clear()
        assert part in run("evaluate", model, "--data", path)[1] and len(reads) == 1


def test_columns_are_checked_before_they_are_read(refused, tmp_path, fitted, monkeypatch):
    names = [f"wrong column {k}" for k in range(20_000)]
    (tmp_path / "wrong.csv").write_text(",".join(names) + "\n" + ",".join("1" * 20_000) + "\n")
    for name in ("_by_pyarrow", "_by_csv"):
        monkeypatch.setattr(tablefiles, name, lambda *args: pytest.fail("the rows were read"))
    for command in ("predict", "evaluate"):
        err = refused(1, "missing: edad, país", command, fitted, "--data", tmp_path / "wrong.csv")
        assert len(err) < 400 + len(str(tmp_path))


@pytest.mark.parametrize(
    ("odd", "place"),
    [
        *(("x" * 1000, "label"), ("\x1b[31m" * 90, "cell"), ("é'\u202e\" *" * 200, "name"), ("1," * 300, "both")),
        ("0" * 500, "cell"),
    ],
)
def test_messages_are_short_whatever_a_cell_has(run, tmp_path, fitted, odd, place):
    with open(fitted.parent / "t.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter=";"))
    if place == "name":
        rows[0][:2] = [odd, odd + "2"]
    elif place == "label":
        rows[3][4] = odd
    else:
        for row in rows[2 : 50 if place == "both" else 4]:
            row[:4] = [odd] * 4
    with open(tmp_path / "odd.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=";").writerows(rows)
    for words in (
        ("predict", fitted),
        ("evaluate", fitted),
        ("train", "--label", "clase", "--epochs", "1", *FAST),
        ("train", "--label", "salario", "--epochs", "1", *FAST),
    ):
        _, out, err = run(*words, "--data", tmp_path / "odd.csv")
        about = [line for line in out.splitlines() if "odd.csv" in line]
        assert max(len(line.replace(str(tmp_path), "")) for line in [*err.splitlines(), *about, ""]) <= 430
