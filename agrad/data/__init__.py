"""Data sets for classification as NumPy arrays, and the order of their examples.

`load_digits` reads a file of the package; `load_mnist`, `load_npz` and `load_csv` read other files. All return a
`ClassificationData`, or raise `agrad.errors.DataError` and load nothing.
"""

from agrad.data.classification import ClassificationData, scaled, stratified_split
from agrad.data.digits import load_digits
from agrad.data.idx import read_idx
from agrad.data.mnist import cache_directory, load_mnist
from agrad.data.order import batches, epoch_order
from agrad.data.own import load_csv, load_npz
from agrad.data.tables import Table, read_csv, read_npz

__all__ = [
    "ClassificationData",
    "Table",
    "batches",
    "cache_directory",
    "epoch_order",
    "load_csv",
    "load_digits",
    "load_mnist",
    "load_npz",
    "read_csv",
    "read_idx",
    "read_npz",
    "scaled",
    "stratified_split",
]
