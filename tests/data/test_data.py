"""Data sets: what the loaders give for good files, and what they say of bad ones."""

import gzip
import hashlib
import http.server
import os
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import fails

from agrad import data
from agrad.data import mnist
from agrad.data.order import permutation
from agrad.errors import DataError, SaveError
from agrad.nn import checkpoint

RNG = np.random.default_rng(7)
CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx(array):
    header = bytes([0, 0, CODES[array.dtype.str[1:]], array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


# -- the digits inside the package --


def test_digits():
    # the accuracy that the documentation states is for this split: it must never move
    d, again = data.load_digits(), data.load_digits(dtype="float64")
    assert d.X_train.dtype == np.float32 and d.y_train.dtype == d.y_test.dtype == np.int64
    assert (d.n_classes, d.n_features, d.feature_shape) == (10, 64, (8, 8))
    assert again.X_train.dtype == np.float64 and np.array_equal(again.X_train, d.X_train)
    parts = [part.astype(np.uint8) for part in (d.X_train * 16, d.X_test * 16, d.y_train, d.y_test)]
    digests = [hashlib.sha256(part.tobytes()).hexdigest()[:16] for part in parts]
    assert digests == ["bbd14810556ec9d2", "00517e14cea5a360", "704dda749a60b2f5", "1becdccb6ef79354"]


def test_scaled_treats_new_examples_alike():
    d = data.load_digits()
    raw = (d.X_test * 16).astype(np.uint8).reshape(-1, 8, 8)
    assert np.array_equal(d.scaled(raw), d.X_test)
    flat = raw.reshape(-1, 64).astype(float)
    flat[300, 1] = np.nan
    fails(DataError, "expected 64 features an example, as in training; found 63", d.scaled, flat[:, :63])
    fails(DataError, "found nan at example 300, feature 1", d.scaled, flat)
    found = data.scaled([[1, 3], [5, 7]], np.array([1.0, 3.0]), np.array([2.0, 4.0]), "float32")
    assert found.dtype == np.float32 and found.tolist() == [[0.0, 0.0], [2.0, 1.0]]


# -- IDX and MNIST --


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_reads_every_dtype(tmp_path, dtype, pack):
    array = RNG.integers(-100, 100, (3, 2, 4)).astype(dtype)
    (tmp_path / "a").write_bytes(pack(idx(array)))
    found = data.read_idx(tmp_path / "a")
    assert found.dtype == array.dtype and found.dtype.isnative and found.flags.writeable
    assert np.array_equal(found, array)


WEIGHTS = pytest.param(checkpoint.load, marks=pytest.mark.needs("safetensors"))
GOOD = idx(np.arange(6, dtype=np.uint8).reshape(2, 3))
PACKED = gzip.compress(GOOD, mtime=0)  # the time would be in the tests' names, which workers must agree on


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "4 bytes or more, found 0"),
        (b"\0\0\x08", "4 bytes or more, found 3"),
        (b"\0\1" + GOOD[2:], "found 00 01 08 02"),
        (b"\0\0\x0a" + GOOD[3:], "found 00 00 0a 02"),
        (b"\0\0\x08\0", "one dimension or more"),
        (GOOD[:9], "expected 12 bytes of header for 2 dimensions, found 9"),
        (GOOD[:-1], r"expected 6 bytes of data for shape \(2, 3\) and dtype uint8, found 5; .*truncated"),
        (GOOD + b"x", "found 7; the file is longer"),
        (b"\0\0\x08\x03" + b"\xff" * 12 + b"abc", "truncated"),
        (PACKED[:-3], "Compressed file ended"),
        (gzip.compress(GOOD, 0, mtime=0)[:20], "Compressed file ended"),
        (PACKED[:-8] + b"\0" * 8, "CRC check failed"),
        (b"\x1f\x8b", "Compressed file ended"),
        (b"\0\0\x08\x46" + b"\0\0\0\1" * 70 + b"a", "no array can have the shape"),
    ],
)
def test_idx_damage_is_named(tmp_path, content, message):
    path = tmp_path / "images-idx3"
    path.write_bytes(content)
    assert str(path) in str(fails(DataError, message, data.read_idx, path))


@pytest.mark.parametrize("read", [data.read_idx, data.load_npz, data.read_csv, WEIGHTS])
def test_files_that_are_none_are_named(tmp_path, read):
    for path, message in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory"), ("a\0b", "null byte")):
        fails(DataError, f"cannot be read: .*{message}", read, path)


def small_mnist():
    images = RNG.integers(0, 256, (40, 28, 28)).astype(np.uint8)
    labels = (np.arange(40) % 10).astype(np.uint8)
    arrays = (images[:30], labels[:30], images[30:], labels[30:])
    return dict(zip(mnist.STEMS, arrays, strict=True))


def write_mnist(directory, arrays, rename=str, pack=bytes):
    for stem, array in arrays.items():
        (directory / rename(stem)).write_bytes(pack(idx(array)))


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_from_a_directory(tmp_path, packed):
    arrays = small_mnist()
    rename, pack = (lambda s: f"{s}.gz", gzip.compress) if packed else (lambda s: s.replace("-idx", ".idx"), bytes)
    write_mnist(tmp_path, arrays, rename, pack)
    d = data.load_mnist(tmp_path)
    images, labels, test_images, test_labels = arrays.values()
    assert d.feature_shape == (28, 28) and d.n_classes == 10 and d.X_train.dtype == np.float32
    assert np.array_equal(d.X_train, images.reshape(30, 784) / np.float32(255))
    assert np.array_equal(d.X_test, test_images.reshape(10, 784) / np.float32(255))
    assert np.array_equal(d.y_train, labels) and np.array_equal(d.y_test, test_labels)


@pytest.mark.parametrize(
    ("stem", "change", "message"),
    [
        (1, lambda a: a[:-1], "train part: expected a label for each of 30 examples, found 29"),
        (1, lambda a: np.where(np.arange(30) == 4, 10, a).astype(np.uint8), "found 10 at example 4"),
        (1, lambda a: a.astype(np.int8), "expected labels"),
        (1, lambda a: a * np.uint8(0), "2 classes or more"),
        (0, lambda a: a.reshape(30, 784), "expected images"),
        (0, lambda a: a[:0], "expected images"),
        (2, lambda a: a[:, :27], "images of one size"),
        (3, lambda a: a[:0], "test part: expected a label for each of 10"),
    ],
)
def test_mnist_parts_that_do_not_fit(tmp_path, stem, change, message):
    arrays = small_mnist()
    name = mnist.STEMS[stem]
    arrays[name] = change(arrays[name])
    write_mnist(tmp_path, arrays)
    fails(DataError, message, data.load_mnist, tmp_path)


def test_mnist_missing_files_are_all_named(tmp_path):
    write_mnist(tmp_path, dict([*small_mnist().items()][1:3]))
    fails(DataError, f"missing: {mnist.STEMS[0]}, {mnist.STEMS[3]}", data.load_mnist, tmp_path)
    fails(DataError, "no such directory", data.load_mnist, tmp_path / "none")


@pytest.mark.skipif("AGRAD_TEST_MNIST" not in os.environ, reason="AGRAD_TEST_MNIST names no copy of MNIST")
def test_mnist_checksums_are_those_of_the_real_files():
    folder = os.environ["AGRAD_TEST_MNIST"]
    for stem, path in zip(mnist.STEMS, mnist.find_files(folder), strict=True):
        content = Path(path).read_bytes()
        content = gzip.decompress(content) if path.endswith(".gz") else content
        assert hashlib.sha256(content).hexdigest() == mnist.CHECKSUMS[stem]
    d = data.load_mnist(folder)
    assert d.X_train.shape == (60000, 784) and d.X_test.shape == (10000, 784)


# -- downloads, from a server on this machine --


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A mirror's address, the dictionary of what it serves (path to bytes) and the list of requests."""
    files, requests = {}, []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            if self.path not in files:
                self.send_error(404)
                return
            content = files[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content) + (50 if "/cut/" in self.path else 0)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    monkeypatch.setenv("AGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", files, requests
        server.shutdown()
        thread.join()


def publish(files, folder):
    """Serve a small MNIST under `folder`; give back its arrays and checksums."""
    arrays = small_mnist()
    files.update({f"{folder}{stem}.gz": gzip.compress(idx(array)) for stem, array in arrays.items()})
    return arrays, {stem: hashlib.sha256(idx(array)).hexdigest() for stem, array in arrays.items()}


def test_mnist_download_then_cache(served, tmp_path):
    address, files, requests = served
    arrays, checksums = publish(files, "/good/")
    said = []
    options = {"mirrors": [f"{address}/good/"], "checksums": checksums, "timeout": 10}
    d = data.load_mnist(report=said.append, **options)
    assert np.array_equal(d.y_train, arrays[mnist.STEMS[1]])
    assert len(requests) == 4 and len(said) == 4 and said[0].startswith(f"downloading {address}/good/train-images")
    cache = tmp_path / "cache" / "mnist"
    assert sorted(os.listdir(cache)) == sorted(f"{stem}.gz" for stem in mnist.STEMS)
    assert np.array_equal(data.load_mnist(**options).X_test, d.X_test)
    assert len(requests) == 4
    damaged_file = cache / f"{mnist.STEMS[2]}.gz"
    damaged_file.write_bytes(damaged_file.read_bytes()[:-9])
    assert np.array_equal(data.load_mnist(**options).X_test, d.X_test)
    assert requests[4:] == [f"/good/{mnist.STEMS[2]}.gz"]
    assert np.array_equal(data.load_mnist(cache).X_test, d.X_test)


@pytest.mark.parametrize("fault", ["missing", "wrong", "cut", "html", "unreachable"])
def test_mnist_download_goes_to_the_next_mirror(served, fault):
    address, files, requests = served
    arrays, checksums = publish(files, "/good/")
    for stem, array in arrays.items():
        good = files[f"/good/{stem}.gz"]
        bad = {"wrong": gzip.compress(idx(array) + b"!"), "cut": good[:-10], "html": b"<html>sign in</html>"}
        if fault in bad:
            files[f"/{fault}/{stem}.gz"] = bad[fault]
    first = "http://127.0.0.1:9/" if fault == "unreachable" else f"{address}/{fault}/"
    d = data.load_mnist(mirrors=[first, f"{address}/good/"], checksums=checksums, timeout=10)
    assert np.array_equal(d.y_test, arrays[mnist.STEMS[3]])
    assert len(requests) == (4 if fault == "unreachable" else 8)


def test_mnist_without_a_network_says_what_to_do(served, tmp_path):
    mirrors = ["http://127.0.0.1:9/a/", "http://127.0.0.1:9/b/"]
    message = str(fails(DataError, "refused", data.load_mnist, mirrors=mirrors, timeout=10))
    cache = tmp_path / "cache" / "mnist"
    parts = (*mirrors, *mnist.STEMS, "--data-dir DIR", "AGRAD_CACHE", "--data digits", str(cache))
    assert [part for part in parts if part not in message] == os.listdir(cache) == []


def test_mnist_unwritable_cache_is_found_before_a_download(served, tmp_path, monkeypatch):
    address, files, requests = served
    _, checksums = publish(files, "/good/")
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("AGRAD_CACHE", str(tmp_path / "file" / "cache"))
    fails(SaveError, "Set AGRAD_CACHE", data.load_mnist, mirrors=[f"{address}/good/"], checksums=checksums)
    assert requests == []


def test_cache_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    for own, xdg, found in (
        ("/a/b", "", "/a/b"),
        ("", "/c", "/c/agrad"),
        ("", "relative", "/home/someone/.cache/agrad"),
    ):
        monkeypatch.setenv("AGRAD_CACHE", own)
        monkeypatch.setenv("XDG_CACHE_HOME", xdg)
        assert data.cache_directory() == found


# -- the order of the examples --


def test_epoch_order_is_a_permutation_fixed_for_ever():
    assert data.epoch_order(0, 0, 10).tolist() == [9, 7, 2, 0, 4, 3, 5, 6, 1, 8]
    order = data.epoch_order(3, 5, 1000)
    assert order.dtype == np.int64 and np.array_equal(np.sort(order), np.arange(1000))
    others = [data.epoch_order(3, 6, 1000), data.epoch_order(4, 5, 1000), permutation(1000, 3, 1)]
    assert all((order == other).mean() < 0.05 for other in others)
    assert data.epoch_order(0, 0, 0).shape == (0,)


@given(n=st.integers(0, 60), size=st.integers(1, 20), start=st.integers(0, 12), drop=st.booleans())
@settings(deadline=None, database=None)
def test_batches_cover_an_epoch_once(n, size, start, drop):
    every = list(data.batches(n, size, seed=1, epoch=2, drop_last=drop))
    kept = n - n % size if drop else n
    assert [len(batch) for batch in every[:-1]] == [size] * (len(every) - 1)
    order = data.epoch_order(1, 2, n)[:kept]
    assert np.array_equal(np.concatenate([np.empty(0, np.int64), *every]), order)
    rest = list(data.batches(n, size, seed=1, epoch=2, start=start, drop_last=drop))
    assert [batch.tolist() for batch in rest] == [batch.tolist() for batch in every[start:]]


@given(y=st.lists(st.integers(0, 4), max_size=60), fraction=st.floats(0.01, 0.99), seed=st.integers(0, 9))
@settings(deadline=None, database=None)
def test_stratified_split(y, fraction, seed):
    y = np.array(y, np.int64)
    sizes = np.bincount(y, minlength=5)
    if sizes.max() < 2:
        fails(DataError, "2 examples or more", data.stratified_split, y, fraction, seed)
        return
    most, few = data.stratified_split(y, fraction, seed)
    assert np.array_equal(np.sort(np.concatenate([most, few])), np.arange(y.size))
    assert most.size and few.size and (np.diff(most) > 0).all() and (np.diff(few) > 0).all()
    assert set(y[most]) == set(y)
    assert (np.abs(np.bincount(y[few], minlength=5) - sizes * fraction) <= 1).all()
    assert np.array_equal(few, data.stratified_split(y, fraction, seed)[1])
