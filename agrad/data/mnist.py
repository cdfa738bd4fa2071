"""MNIST's four IDX files: from a directory, the cache, or the network."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agrad.data.classification import ClassificationData, float_name
from agrad.data.download import fetch
from agrad.data.files import StrPath
from agrad.data.idx import read_idx
from agrad.data.regression import dataset
from agrad.errors import DataError

__all__ = ["cache_directory", "load_mnist"]

CHECKSUMS: Mapping[str, str] = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
"""SHA-256 of the unpacked files, because mirrors pack them differently."""
STEMS = tuple(CHECKSUMS)
MIRRORS: Sequence[str] = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://raw.githubusercontent.com/fgnt/mnist/master/",
)


def cache_directory() -> str:
    """Return the directory of downloads.

    Returns
    -------
    str
        `$AGRAD_CACHE`, or `$XDG_CACHE_HOME/agrad`, or `~/.cache/agrad`.

    Examples
    --------
    >>> import os
    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, AGRAD_CACHE="/data/agrad"):
    ...     agrad.data.cache_directory()
    '/data/agrad'
    """
    chosen = os.environ.get("AGRAD_CACHE")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    base = os.environ.get("XDG_CACHE_HOME", "")
    # the XDG specification says to ignore a relative path
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "agrad")


def load_mnist(
    directory: StrPath | None = None,
    *,
    dtype: str = "float32",
    mirrors: Sequence[str] = MIRRORS,
    checksums: Mapping[str, str] = CHECKSUMS,
    timeout: float = 30.0,
    report: Callable[[str], None] | None = None,
) -> ClassificationData:
    """Return MNIST: 60,000 images of 28 x 28 to train on and 10,000 to test with.

    Pixels are divided by 255. The four files are `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`,
    `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte`.

    Parameters
    ----------
    directory : str, path or None
        Directory with the four files, each gzipped (`.gz`) or not; `.idx` may replace `-idx`. It may contain another
        data set in the same files with labels from 0 to 9, for example Fashion-MNIST. None for the cache,
        `cache_directory()`/mnist; files that are missing or damaged there are downloaded.
    dtype : str
        The dtype of X, float32 or float64.
    mirrors : sequence of str
        Addresses that end in a slash. The first good copy is used.
    checksums : mapping of str to str
        SHA-256 of each unpacked file by name.
    timeout : float
        Seconds to wait for an answer.
    report : function or None
        Function that is called with a line of text before each download.

    Returns
    -------
    ClassificationData
        The images, with d = 784.

    Raises
    ------
    DataError
        If a file is missing, damaged, does not fit the others, or cannot be downloaded. The message contains a fix.
    SaveError
        If the cache cannot be written.
    ConfigurationError
        If the dtype has another value.

    Examples
    --------
    >>> import os, struct, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in ("train", "t10k"):
    ...         with open(os.path.join(folder, part + "-images-idx3-ubyte"), "wb") as file:
    ...             _ = file.write(struct.pack(">4I", 0x803, 10, 28, 28) + bytes(10 * 28 * 28))
    ...         with open(os.path.join(folder, part + "-labels-idx1-ubyte"), "wb") as file:
    ...             _ = file.write(struct.pack(">2I", 0x801, 10) + bytes(range(10)))
    ...     data = agrad.data.load_mnist(folder)
    >>> data.X_train.shape, data.y_test
    ((10, 784), array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]))
    """
    dtype = float_name(dtype)
    if directory is None:
        where = os.path.join(cache_directory(), "mnist")
        paths = [os.path.join(where, f"{stem}.gz") for stem in STEMS]
        fetch(dict(zip(STEMS, paths, strict=True)), checksums, mirrors, timeout, report)
    else:
        where = os.fspath(directory)
        paths = find_files(where)
    arrays = [read_idx(path) for path in paths]
    for path, images, labels in zip(paths[::2], arrays[::2], arrays[1::2], strict=True):
        if images.ndim != 3 or images.dtype != np.uint8 or images.size == 0:
            raise DataError(
                f"{path!r}: expected images, uint8 of shape (n, height, width), found {images.dtype} of shape "
                f"{images.shape}"
            )
        if labels.dtype != np.uint8:
            raise DataError(f"{where!r}: expected labels, uint8 of shape (n,), found {labels.dtype} of {labels.shape}")
    images, _, test_images, _ = arrays
    if images.shape[1:] != test_images.shape[1:]:
        raise DataError(
            f"{where!r}: expected images of one size, found {images.shape[1:]} to train and {test_images.shape[1:]} "
            "to test"
        )
    parts = [(X, y.astype(np.int64)) for X, y in zip(arrays[::2], arrays[1::2], strict=True)]
    d = images[0].size
    return dataset("classification", "mnist", where, parts, np.zeros(d), np.full(d, 255.0), tuple("0123456789"), dtype)


def find_files(directory: str) -> list[str]:
    """Return the paths of the four files in `directory`, as in `STEMS`.

    Raises `DataError`, which names those missing.
    """
    if not os.path.isdir(directory):
        raise DataError(f"{directory!r}: expected a directory with the four MNIST files, found no such directory")
    found = {}
    for stem in STEMS:
        names = [name + end for name in (stem, stem.replace("-idx", ".idx")) for end in (".gz", "")]
        found[stem] = [path for name in names if os.path.isfile(path := os.path.join(directory, name))]
    if missing := [stem for stem, paths in found.items() if not paths]:
        raise DataError(
            f"{directory!r}: expected four MNIST files, gzipped (.gz) or not; missing: {', '.join(missing)}"
        )
    return [paths[0] for paths in found.values()]
