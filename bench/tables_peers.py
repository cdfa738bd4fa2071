"""Fit a peer of ``agrad train`` to a table, and print its score, in a separate process.

``python bench/tables_peers.py KIND FILE TARGET TASK SEED ROWS``: ``mlp`` or ``trees`` of scikit-learn, a csv file, its
target, the task, a seed, and a file with the numbers of the rows to train on and to test on.
"""

import sys
import warnings

import numpy as np
import pandas as pd
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

MOST = 200
"""Maximum number of categories; the trees accept at most 255."""


def perceptron(numbers: list[str], words: list[str], task: str, seed: int) -> object:
    """Return an MLP with default options behind the usual preprocessing."""
    before = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")), words),
    )
    if task == "classification":
        return make_pipeline(before, MLPClassifier(random_state=seed))
    model = make_pipeline(before, MLPRegressor(random_state=seed))
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def main(kind: str, file: str, target: str, task: str, seed: str, rows: str) -> None:
    """Print the accuracy, or R2, on the rows to test on."""
    warnings.simplefilter("ignore")  # for iterations that end before they converge, by default
    table = pd.read_csv(file)
    with np.load(rows) as held:
        train, test = held["train"], held["test"]
    y = table.pop(target)
    y = y.to_numpy(float) if task == "regression" else y.astype(str).to_numpy()
    if "date" in table:
        date = pd.to_datetime(table.pop("date"))
        table["year"], table["month"], table["weekday"] = date.dt.year, date.dt.month, date.dt.weekday
        table["days"] = (date - date.min()).dt.days
    numbers = table.select_dtypes("number").columns.tolist()
    words = [name for name in table if name not in numbers]
    if kind == "mlp":
        model = perceptron(numbers, words, task, int(seed))
    else:
        for name in words:
            known = table[name].iloc[train].value_counts().index[:MOST]
            table[name] = pd.Categorical(table[name], categories=sorted(known))
        trees = HistGradientBoostingClassifier if task == "classification" else HistGradientBoostingRegressor
        model = trees(categorical_features="from_dtype", random_state=int(seed))
    print(model.fit(table.iloc[train], y[train]).score(table.iloc[test], y[test]))


if __name__ == "__main__":
    main(*sys.argv[1:])
