"""Examples: data sets, the batches of training, and readers of files.

`Dataset`, `DataLoader` and the classes around them have the names and meanings of `torch.utils.data`. `load_digits`,
`load_mnist`, `load_npz`, `load_csv` and `load_table` return `ClassificationData` or `RegressionData`, NumPy arrays with
a train and a test part; `read_csv`, `read_parquet` and `read_table` return a `Table`, and a `TableEncoder` makes
numbers of it. A loader raises `agrad.errors.DataError` for a file that it cannot use,
and loads nothing then.
"""

from agrad.data.archives import read_npz
from agrad.data.classification import ClassificationData, scaled, stratified_split
from agrad.data.collate import default_collate
from agrad.data.datasets import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset, random_split
from agrad.data.digits import load_digits
from agrad.data.encoder import TableEncoder
from agrad.data.idx import read_idx
from agrad.data.images import ImageFolder
from agrad.data.loader import DataLoader
from agrad.data.mnist import cache_directory, load_mnist
from agrad.data.order import batches, epoch_order
from agrad.data.own import load_csv, load_npz
from agrad.data.regression import RegressionData
from agrad.data.samplers import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from agrad.data.tablefiles import read_csv, read_parquet, read_table
from agrad.data.tables import Column, Table
from agrad.data.tabular import load_table

__all__ = [
    "BatchSampler",
    "ClassificationData",
    "Column",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "ImageFolder",
    "IterableDataset",
    "RandomSampler",
    "RegressionData",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "SubsetRandomSampler",
    "Table",
    "TableEncoder",
    "TensorDataset",
    "WeightedRandomSampler",
    "batches",
    "cache_directory",
    "default_collate",
    "epoch_order",
    "load_csv",
    "load_digits",
    "load_mnist",
    "load_npz",
    "load_table",
    "random_split",
    "read_csv",
    "read_idx",
    "read_npz",
    "read_parquet",
    "read_table",
    "scaled",
    "stratified_split",
]
