"""Tables on the disk, as the tests of the command line write and read them."""

import csv
import gzip
import json
import struct

import numpy as np

from agrad.nn import checkpoint


def table(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return header, rows


def records(path):
    """Return the records of a log."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def tensors(path):
    """Return the dtypes, shapes and bytes of the arrays of a saved model."""
    return {name: (a.dtype, a.shape, a.tobytes()) for name, a in checkpoint.load(path)[0].items()}


def mnist(folder):
    """Write the four files of a small MNIST, the labels packed."""
    for part, n in (("train", 40), ("t10k", 20)):
        labels = (np.arange(n) % 10).astype(np.uint8)
        images = np.random.default_rng(0).integers(0, 60, (n, 5, 4), dtype=np.uint8) + labels[:, None, None] * 19
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, n, 5, 4) + images.tobytes())
        packed = gzip.compress(struct.pack(">4BI", 0, 0, 8, 1, n) + labels.tobytes())
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(packed)
