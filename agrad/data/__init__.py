"""Examples: data sets, the batches of training, and readers of files.

`Dataset`, `DataLoader` and the classes around them have the names and meanings of `torch.utils.data`. `load_digits`,
`load_mnist`, `load_npz`, `load_csv` and `load_table` return `ClassificationData` or `RegressionData`, NumPy arrays with
a train and a test part; `read_csv`, `read_parquet` and `read_table` return a `Table`, and a `TableEncoder` converts it
to numbers. A loader raises `agrad.errors.DataError` for a file that it cannot use, and loads nothing then.
"""

from agrad.data.archives import read_npz as read_npz
from agrad.data.classification import *
from agrad.data.collate import default_collate as default_collate
from agrad.data.datasets import *
from agrad.data.digits import load_digits as load_digits
from agrad.data.encoder import TableEncoder as TableEncoder
from agrad.data.idx import read_idx as read_idx
from agrad.data.images import ImageFolder as ImageFolder
from agrad.data.loader import DataLoader as DataLoader
from agrad.data.mnist import *
from agrad.data.order import *
from agrad.data.regression import RegressionData as RegressionData
from agrad.data.samplers import *
from agrad.data.tablefiles import *
from agrad.data.tables import *
from agrad.data.tabular import load_table as load_table
from agrad.data.user_files import *
from agrad.faces import list_names as _list_names

_list_names(globals())
