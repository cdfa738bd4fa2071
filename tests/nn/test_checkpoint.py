"""Models and training state on the disk: what comes back, what is refused, and no save half done."""

import builtins
import errno
import json
import os
import signal
import stat

import numpy as np
import pytest
from damage import damaged, read_or_refused
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from refusals import fails, pattern

from agrad.data import files
from agrad.errors import ConfigurationError, DataError, DtypeError, MissingExtraError, SaveError
from agrad.nn import checkpoint

pytestmark = pytest.mark.needs("safetensors")

FUZZ = settings(max_examples=100, deadline=None, database=None)
FEW = settings(FUZZ, max_examples=30)
TENSORS = {
    "0.weight": np.arange(12, dtype=np.float32).reshape(3, 4) / 7,
    "0.bias": np.array([1.5, -0.0, np.inf]),
    "optimizer.0.step": np.array(7),
    "empty": np.zeros((0, 5), np.float16),
}
METADATA = {"model": {"hidden": [256, 128], "activation": "relu"}, "epoch": 3, "lr": 0.1, "name": "é\ud800", "x": None}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def same(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def packed(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


# -- what comes back --


def test_what_is_saved_comes_back(tmp_path):
    from safetensors.numpy import load_file

    path = tmp_path / "m.safetensors"
    checkpoint.save(path, TENSORS, METADATA)
    assert os.listdir(tmp_path) == ["m.safetensors"]
    tensors, metadata = checkpoint.load(path)
    assert metadata == METADATA
    assert all(array.flags.writeable and array.flags.owndata for array in tensors.values())
    for found in (tensors, load_file(path)):
        assert found.keys() == TENSORS.keys() and all(same(found[name], value) for name, value in TENSORS.items())
    for again in (TENSORS, {name: TENSORS[name] for name in reversed(TENSORS)}):
        checkpoint.save(tmp_path / "again", again, METADATA)
        assert (tmp_path / "again").read_bytes() == path.read_bytes()


@FEW
@given(
    value=st.sampled_from(checkpoint.DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    ),
    form=st.sampled_from(["C", "F", "reversed", "big-endian", "every second"]),
)
def test_any_array_comes_back_bit_for_bit(scratch, value, form):
    changes = {
        "F": lambda a: a.copy(order="F"),
        "reversed": np.transpose,
        "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
        "every second": lambda a: a[::2] if a.ndim else a,
    }
    value = changes.get(form, np.copy)(value)
    checkpoint.save(scratch / "a", {"a": value}, {})
    found = checkpoint.load(scratch / "a")[0]["a"]
    assert same(found, value.astype(value.dtype.newbyteorder("=")))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@FEW
@given(metadata=st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_any_metadata_comes_back(scratch, metadata):
    checkpoint.save(scratch / "a", {}, metadata)
    assert checkpoint.load(scratch / "a") == ({}, metadata)


# -- what cannot be saved --


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return {"a": value}


NUMBERS = np.zeros(2)
NOT_SAVED = [
    (DtypeError, "tensor 'a': ... got complex128", {"a": NUMBERS + 1j}, {}),
    (DtypeError, "tensor 'a': ... got <U1", {"a": np.array(["x"])}, {}),
    (DtypeError, "tensor 'a': ... got object", {"a": np.array([None])}, {}),
    (ConfigurationError, "tensor names must be non-empty strings, got ''", {"": NUMBERS}, {}),
    (ConfigurationError, "tensor names must be ..., got '__metadata__'", {"__metadata__": NUMBERS}, {}),
    (ConfigurationError, "tensor names must be ..., got 3", {3: NUMBERS}, {}),
    (ConfigurationError, "tensor names must be non-empty strings", {"\ud800": NUMBERS}, {}),
    (ConfigurationError, "metadata: keys must be strings, got 1", {}, {1: 2}),
    (ConfigurationError, "metadata['a'][0]['b']: keys must be strings, got None", {}, {"a": [{"b": {None: 1}}]}),
    (ConfigurationError, "metadata['a']: ... got float32", {}, {"a": np.float32(1)}),
    (ConfigurationError, "metadata['a']: ... got set", {}, {"a": {1, 2}}),
    (ConfigurationError, "metadata: nesting depth must be at most 100", {}, nested(5000)),
    (ConfigurationError, "at most 1000 bytes", {}, {"a": "x" * 1000}),
]
"""Classes of errors, parts of messages, and the tensors and metadata that are refused."""


@pytest.mark.parametrize("row", range(len(NOT_SAVED)))
def test_what_cannot_be_saved(tmp_path, monkeypatch, row):
    error, text, tensors, metadata = NOT_SAVED[row]
    monkeypatch.setattr(checkpoint, "HEADER_LIMIT", 1000)
    fails(error, pattern(text), checkpoint.save, tmp_path / "a", tensors, metadata)
    assert os.listdir(tmp_path) == []


def test_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "safetensors", None)
    for call in (lambda p: checkpoint.save(p, {}, {}), checkpoint.load):
        fails(MissingExtraError, r"pip install 'agrad\[train\]'", call, tmp_path / "a")


# -- what cannot be loaded --

ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
OURS = {"__metadata__": {"agrad": "{}"}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a safetensors file: it must have at least 8 bytes, got 0"),
        (b"1234567", "is not a safetensors file: it must have at least 8 bytes, got 7"),
        (b"PK\3\4" * 8, "the header must have at most"),
        (packed(OURS)[:-1], "is truncated: the header must have 33 bytes, got 32"),
        (packed(b"{not json"), "not JSON"),
        (packed(b"\xff\xfe{"), "not JSON"),
        (packed(b"[" * 100_000), "not JSON"),
        (packed([1]), "is not a safetensors file: the header is not a JSON object"),
        (packed(OURS | {"a": ENTRY}, bytes(7)), "is truncated: the arrays after the header must have 8 bytes, got 7"),
        (packed(OURS | {"a": ENTRY}, bytes(9)), "longer than its header says: .* got 9"),
        (packed(OURS | {"a": ENTRY | {"shape": [3]}}, bytes(8)), "the safetensors file is damaged"),
        (packed(OURS | {"a": ENTRY | {"dtype": "F99"}}, bytes(8)), "the safetensors file is damaged"),
        (packed(OURS | {"a": ENTRY | {"dtype": "BF16", "shape": [4]}}, bytes(8)), "arrays must have one of the dtypes"),
        (packed(OURS | {"a": {"dtype": "F32"}}), "the safetensors file is damaged"),
        (packed(OURS | {"a": 3}), "the safetensors file is damaged"),
        (packed({"a": ENTRY}, bytes(8)), "was not saved by agrad: the header must contain the key 'agrad'"),
        (packed({"__metadata__": {"format": "pt"}}), "was not saved by agrad: the header must contain the key 'agrad'"),
        (packed({"__metadata__": {"agrad": "[1]"}}), "'agrad' in the header must be a JSON object"),
        (packed({"__metadata__": {"agrad": "{"}}), "'agrad' in the header must be a JSON object"),
        (packed({"__metadata__": {"agrad": 3}}), "the safetensors file is damaged"),
    ],
)
def test_files_that_cannot_be_loaded(tmp_path, content, message):
    path = tmp_path / "m.safetensors"
    path.write_bytes(content)
    assert str(path) in str(fails(DataError, message, checkpoint.load, path))


def test_what_is_expected(tmp_path):
    path = tmp_path / "m"
    checkpoint.save(path, TENSORS, {})
    expected = {name: (value.shape, value.dtype.name) for name, value in TENSORS.items()}
    assert checkpoint.load(path, expected)[0].keys() == TENSORS.keys()
    assert checkpoint.load(path, expected | {"0.bias": ((3,), None)})[0].keys() == TENSORS.keys()
    wrong = expected | {"0.weight": ((4, 3), "float64"), "1.bias": ((2,), "float32")}
    del wrong["empty"]
    match = r"0.weight: must be float64 of shape \(4, 3\), got float32 of \(3, 4\)"
    text = str(fails(DataError, match, checkpoint.load, path, wrong))
    for part in (str(path), "1.bias: must be float32 of shape (2,), got none", "empty: not expected"):
        assert part in text
    fails(DataError, r"\.\.\. 104 in all", checkpoint.load, path, {f"p{i}": ((1,), None) for i in range(100)})


@FUZZ
@given(choice=st.data())
def test_load_fuzz(scratch, choice):
    checkpoint.save(scratch / "whole", TENSORS, {"epoch": 1})
    body = st.one_of(damaged((scratch / "whole").read_bytes()), st.binary(max_size=60).map(packed))
    (scratch / "a").write_bytes(choice.draw(body))
    found = read_or_refused(checkpoint.load, scratch / "a")
    assert found is None or (len(found[0]) == len(TENSORS) and isinstance(found[1], dict))


VALUE = st.sampled_from(
    [None, 0, -1, 8, 2**63, 1e300, "F32", "I64", [], [0, 8], [8, 0], [2], [2**62, 4], {}, {"agrad": "{}"}]
)


@FUZZ
@given(
    header=st.dictionaries(
        st.sampled_from(["a", "b", "__metadata__"]),
        VALUE | st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets"]), VALUE, min_size=3),
    ),
    size=st.integers(0, 16),
)
def test_load_fuzz_headers(scratch, header, size):
    (scratch / "h").write_bytes(packed(OURS | header, bytes(size)))
    found = read_or_refused(checkpoint.load, scratch / "h")
    assert found is None or sum(value.nbytes for value in found[0].values()) == size


# -- whole or not at all --


def forbid(monkeypatch, *places):
    """Pretend that permission to write to `places` is missing (the superuser has it everywhere)."""
    real, places = os.access, [str(place) for place in places]
    monkeypatch.setattr(os, "access", lambda p, mode: not (mode & os.W_OK and str(p) in places) and real(p, mode))


@pytest.mark.parametrize("write", [checkpoint.check_writable, lambda path: checkpoint.save(path, {}, {})])
def test_places_that_cannot_be_written_to(tmp_path, monkeypatch, write):
    for name in ("file", "read-only"):
        (tmp_path / name).write_text("kept")
    for name in ("folder", "closed"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "none" / "m")
    forbid(monkeypatch, tmp_path / "closed", tmp_path / "read-only")
    before = sorted(os.listdir(tmp_path))
    for name, message in (
        ("none/m.safetensors", r"the directory .*none' does not exist\. Create it first"),
        ("file/m.safetensors", "is not a directory"),
        ("file/deeper/m.safetensors", "does not exist|not a directory"),
        ("folder", "it is a directory"),
        ("folder/", "the name of a file is expected"),
        ("pipe", "not a regular file"),
        ("dangling", "does not exist"),
        ("closed/m", "no permission to write into"),
        ("read-only", "read-only"),
        ("x" * 300, "File name too long"),
        ("a\0b", "null"),
    ):
        fails(SaveError, message, write, f"{tmp_path}/{name}")
    fails(SaveError, "the name of a file is expected", write, "")
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "file").read_text() == (tmp_path / "read-only").read_text() == "kept"


def test_a_read_only_file_system_is_found(tmp_path, monkeypatch):
    real = builtins.open

    def refusing(path, mode="r", *args, **kwargs):
        if "x" in mode:
            raise OSError(errno.EROFS, "Read-only file system")
        return real(path, mode, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", refusing)
    match = r"Read-only file system\. Choose another path"
    fails(SaveError, match, checkpoint.check_writable, tmp_path / "m")


def test_check_writable_touches_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").write_text("kept")
    for path in (tmp_path / "m", tmp_path / "new", "in the current directory"):
        checkpoint.check_writable(path)
    assert os.listdir(tmp_path) == ["m"] and (tmp_path / "m").read_text() == "kept"


def test_a_symbolic_link_stays_one_and_the_umask_decides_who_may_read(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "m")
    before = os.umask(0o027)
    try:
        checkpoint.save(tmp_path / "link", {}, {"a": 1})
    finally:
        os.umask(before)
    assert (tmp_path / "link").is_symlink() and os.listdir(tmp_path / "real") == ["m"]
    assert checkpoint.load(tmp_path / "link")[1] == {"a": 1}
    assert (tmp_path / "link").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "m' cannot be written: No space left on device"),
        (KeyboardInterrupt("Ctrl-C"), "^Ctrl-C$"),
    ],
)
def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch, call, error, message):
    path = tmp_path / "m"
    checkpoint.save(path, TENSORS, {"epoch": 1})
    before = path.read_bytes()

    def fail(*args):
        raise error

    monkeypatch.setattr(files.os, call, fail)
    fails((KeyboardInterrupt, SaveError), message, checkpoint.save, path, TENSORS, {"epoch": 2})
    with pytest.raises(RuntimeError, match="mine"), files.written_whole(path) as file:
        file.write(b"half")
        raise RuntimeError("mine")
    assert os.listdir(tmp_path) == ["m"] and path.read_bytes() == before


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


def kill(*args):
    os.kill(os.getpid(), signal.SIGKILL)


def half(descriptor):
    os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
    kill()


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize(("call", "instead"), [("fsync", half), ("fsync", kill), ("replace", kill)])
def test_killed_at_a_stage_of_a_save(tmp_path, call, instead):
    def save(step):
        checkpoint.save(tmp_path / "m", {"w": np.full((400, 400), step), "b": np.full(50, step)}, {"step": step})

    save(0)
    child = os.fork()
    if not child:
        try:
            setattr(files.os, call, instead)
            save(1)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    tensors, metadata = checkpoint.load(tmp_path / "m", {"w": ((400, 400), "int64"), "b": ((50,), "int64")})
    assert metadata == {"step": 0} and not tensors["w"].any() and not tensors["b"].any()
    (left,) = (name for name in os.listdir(tmp_path) if name != "m")
    assert left.startswith(".agrad-") and left.endswith(".tmp")
