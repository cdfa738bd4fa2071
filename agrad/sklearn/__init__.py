"""Estimators for scikit-learn: multilayer perceptrons, tables, and any network."""

from agrad.errors import MissingExtraError

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        "agrad.sklearn needs scikit-learn, which is not installed. Install it with: pip install 'agrad[sklearn]'"
    ) from error

from agrad.sklearn.mlp import MLPClassifier, MLPRegressor
from agrad.sklearn.network import NetworkClassifier, NetworkRegressor
from agrad.sklearn.table import TableClassifier, TableRegressor

__all__ = [
    "MLPClassifier", "MLPRegressor", "NetworkClassifier", "NetworkRegressor", "TableClassifier", "TableRegressor",
]  # fmt: skip
