"""pandas: frames and series of data beside Tensors of parameters."""

import warnings

import numpy as np
import pandas as pd

from ecosystem.trial import Samples

SAMPLES = Samples()

rng = np.random.default_rng(0)
X = rng.normal(size=(4, 3))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"], index=[10, 20, 30, 40])
SERIES = FRAME["a"]
GROUPS = pd.Series(["u", "v", "u", "w"], dtype="category")
W, U = rng.normal(size=3), rng.normal(size=4)

add = SAMPLES.add
add("DataFrame.to_numpy", lambda w: FRAME.to_numpy() @ w, W, label="frame @ x")
add("DataFrame.to_numpy", lambda u: u @ FRAME.to_numpy(), U, label="x @ frame")
add("DataFrame.values", lambda u: u[:, None] * FRAME.values, U)
add("Series.to_numpy", lambda u: u * SERIES.to_numpy(), U)
add("Series.to_numpy", lambda u: SERIES.to_numpy() - u, U, label="first")
add("Series.array", lambda u: u * np.asarray(SERIES.array), U)
add("Index.to_numpy", lambda u: u * FRAME.index.to_numpy(), U)
add("Series.cat.codes", lambda w: w[GROUPS.cat.codes.to_numpy()], W, label="x[codes]")
add("get_dummies", lambda w: pd.get_dummies(GROUPS).to_numpy(dtype=float) @ w, W)
add("factorize", lambda w: w[pd.factorize(GROUPS)[0]], W)
add("Series.between", lambda u: u[SERIES.between(0, 5).to_numpy()], U, label="x[mask]")
add("Series.to_list", lambda u: u * np.asarray(SERIES.to_list()), U)
add("DataFrame.iterrows", lambda w: sum(w @ row.to_numpy() for _, row in FRAME.iterrows()), W)
add("DataFrame.itertuples", lambda w: sum(w[0] * row.a + w[1] * row.b for row in FRAME.itertuples()), W)
add("DataFrame.groupby", lambda u: [(u[at] ** 2).sum() for at in FRAME.groupby(GROUPS.to_list()).indices.values()], U)
add("Series.items", lambda u: sum(x * u[i] for i, (_, x) in enumerate(SERIES.items())), U)
add("Series.iloc", lambda u: u * SERIES.iloc[0], U, label="a number")
add("DataFrame.at", lambda u: u * FRAME.at[10, "a"], U, label="a number")
add("Tensor * Series", lambda u: np.asarray(u * SERIES) if isinstance(u, np.ndarray) else u * SERIES, U)
add("Series * Tensor", lambda u: np.asarray(SERIES * u) if isinstance(u, np.ndarray) else SERIES * u, U)
add("DataFrame @ Tensor", lambda w: np.asarray(FRAME @ w) if isinstance(w, np.ndarray) else FRAME @ w, W)
add("Tensor @ DataFrame", lambda u: u @ FRAME if not isinstance(u, np.ndarray) else np.asarray(u @ FRAME), U)
add("numpy.multiply", lambda u: np.asarray(np.multiply(u, SERIES)) if isinstance(u, np.ndarray)
    else np.multiply(u, SERIES), U)  # fmt: skip
add("Tensor[Series]", lambda u: u[SERIES > 0], U)
add("Series(Tensor)", lambda u: pd.Series(u).to_numpy(), U)
add("DataFrame(Tensor)", lambda u: pd.DataFrame({"u": u})["u"].to_numpy(), U)
add("DataFrame.assign", lambda u: FRAME.assign(u=u)["u"].to_numpy(), U)
add("Series.where", lambda u: SERIES.where(SERIES > 0, u).to_numpy(), U)


warnings.filterwarnings("ignore", module="pandas")
