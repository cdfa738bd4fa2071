"""xarray: DataArrays and Datasets of Tensors."""

import warnings
from typing import Any

import numpy as np
import xarray as xr

from ecosystem.trial import Samples

SAMPLES = Samples()

rng = np.random.default_rng(0)
X = rng.normal(size=(4, 3))
Y = rng.normal(size=(4, 3))
W = rng.normal(size=3)
P = rng.uniform(0.2, 2.0, size=(4, 3))
HOLES = np.where(X > 1, np.nan, X)


def array(x: Any) -> xr.DataArray:
    """Return the sample's array with labels: a time of four steps, three places."""
    coords = {"time": [10, 20, 30, 40], "place": ["a", "b", "c"]}
    return xr.DataArray(x, dims=("time", "place"), coords=coords)


def data(result: Any) -> Any:
    """Return the arrays that xarray's objects hold."""
    if isinstance(result, xr.Dataset):
        return [result[name].data for name in result]
    if isinstance(result, (list, tuple)):
        return [data(part) for part in result]
    return result.data if isinstance(result, (xr.DataArray, xr.Variable)) else result


def one(name: str, function: Any, x: Any = X, label: str = "") -> None:
    """File a sample of a function of one DataArray."""
    SAMPLES.add(name, lambda a: data(function(array(a))), x, label=label)


def two(name: str, function: Any, x: Any = X, y: Any = Y, label: str = "") -> None:
    """File a sample of a function of two DataArrays."""
    SAMPLES.add(name, lambda a, b: data(function(array(a), array(b))), x, y, label=label)


def method(name: str, *arguments: Any, x: Any = X, label: str = "", **options: Any) -> None:
    """File a sample of a method of a DataArray."""
    one(f"DataArray.{name}", lambda a: getattr(a, name)(*arguments, **options), x, label)


# arithmetic
two("DataArray.__add__", lambda a, b: a + b)
one("DataArray.__add__", lambda a: a + 1.5, label="a number")
one("DataArray.__radd__", lambda a: 1.5 + a)
one("DataArray.__add__", lambda a: a + a.mean("time"), label="broadcast by name")
one("DataArray.__add__", lambda a: a.isel(time=slice(0, 3)) + a.isel(time=slice(1, 4)), label="aligned by label")
two("DataArray.__sub__", lambda a, b: a - b)
two("DataArray.__mul__", lambda a, b: a * b)
two("DataArray.__truediv__", lambda a, b: a / b, Y, P)
two("DataArray.__pow__", lambda a, b: a**b, P, Y)
one("DataArray.__neg__", lambda a: -a)
one("DataArray.__abs__", lambda a: abs(a))
one("DataArray.__mod__", lambda a: a % 0.7, P)
two("DataArray.__matmul__", lambda a, b: a @ b.rename(place="other"))
two("DataArray.__gt__", lambda a, b: a > b)
two("DataArray.__iadd__", lambda a, b: a.__iadd__(b))
one("numpy.exp", lambda a: np.exp(a))
two("numpy.hypot", lambda a, b: np.hypot(a, b))

# methods with arguments by position
for _name, _arguments in {
    **dict.fromkeys((
        "sum", "mean", "std", "var", "max", "min", "prod", "median", "cumsum", "cumprod", "argmax", "argmin", "idxmax",
        "differentiate", "integrate", "cumulative_integrate", "diff",
    ), ("time",)),
    "quantile": (0.3, "time"), "reduce": (np.sum, "time"), "isin": ([1.0, 2.0],), "transpose": ("place", "time"),
    "expand_dims": ("run",), "copy": (), "astype": ("float64",), "clip": (-0.5, 0.5), "round": (), "conj": (),
    "to_dataset": ("place",), "polyfit": ("time", 1), "map_blocks": (lambda b: b * 2,), "pipe": (lambda b: b * 2,),
    "to_numpy": (),
}.items():  # fmt: skip
    method(_name, *_arguments)
for _name in ("sum", "mean", "std", "var", "max", "min", "prod", "cumsum", "cumprod"):
    method(_name, "time", x=HOLES, label="nan skipped")
for _name, _arguments in {
    "count": ("time",), "dropna": ("time",), "fillna": (0.5,), "isnull": (), "notnull": (),
}.items():  # fmt: skip
    method(_name, *_arguments, x=HOLES)
for _name in ("T", "real", "imag", "values"):
    one(f"DataArray.{_name}", lambda a, n=_name: getattr(a, n))

# and by name
for _name, _options in {
    "head": {"time": 2}, "tail": {"time": 2}, "thin": {"time": 2}, "roll": {"time": 1}, "interp": {"time": [15, 22]},
    "drop_sel": {"time": 20}, "isel": {"time": [0, 2], "place": -1}, "sel": {"time": 20}, "rename": {"time": "t"},
    "stack": {"z": ("time", "place")}, "shift": {"time": 1, "fill_value": 0.0}, "assign_coords": {"time": [1, 2, 3, 4]},
    "pad": {"time": 1, "constant_values": 0.0}, "sortby": {"variables": "time", "ascending": False},
    "swap_dims": {"time": "t"},
}.items():  # fmt: skip
    method(_name, **_options)
method("sum", label="everything")
method("sum", "time", skipna=False, label="skipna=False")
method("mean", "time", keep_attrs=True, label="keep_attrs")
method("sel", time=[20, 40], place="b", label="several labels")
method("sel", time=22, method="nearest", label="nearest")
method("sel", time=slice(10, 30), label="a slice of labels")
method("copy", deep=False, label="shallow")

# several steps
_WEIGHTS = xr.DataArray(W**2, dims="place")
one("DataArray.all", lambda a: (a > 0).all("time"))
one("DataArray.any", lambda a: (a > 0).any("time"))
one("DataArray.weighted", lambda a: a.weighted(_WEIGHTS).mean("place"))
one("DataArray.groupby", lambda a: a.groupby("place").mean())
one("DataArray.groupby_bins", lambda a: a.groupby_bins("time", [0, 25, 50]).sum())
one("DataArray.coarsen", lambda a: a.coarsen(time=2).mean())
one("DataArray.rolling", lambda a: a.rolling(time=2).mean()[1:])
one("DataArray.rolling", lambda a: a.rolling(time=2).construct("window")[1:], label="construct")
one("DataArray.rolling", lambda a: a.rolling(time=2).construct("window", fill_value=0.0), label="construct, a filling")
one("DataArray.rolling", lambda a: a.rolling(time=2).construct("window", fill_value=0.0).mean("window"),
    label="construct, a filling, mean")  # fmt: skip
one("DataArray.dot", lambda a: a.dot(_WEIGHTS, "place") / _WEIGHTS.sum(), label="a weighted mean")
one("DataArray.dot", lambda a: a.dot(a))
one("DataArray.__getitem__", lambda a: a[1:, 0])
one("DataArray.__getitem__", lambda a: a[{"time": 2}], label="by name")
one("DataArray.__setitem__", lambda a: [a.__setitem__({"time": 1}, 2.0), a][1])
one("DataArray.loc", lambda a: a.loc[20:30, "a"])
one("DataArray.isel", lambda a: a.isel(time=xr.DataArray([0, 2], dims="z"), place=xr.DataArray([1, 2], dims="z")),
    label="pointwise")  # fmt: skip
one("DataArray.where", lambda a: a.where(a > 0)[0, 2])
one("DataArray.where", lambda a: a.where(a > 0, 0.5), label="a filling")
one("DataArray.where", lambda a: a.where(a.time > 20, drop=True), label="drop")
one("DataArray.reindex", lambda a: a.reindex(time=[20, 30, 50])[:2])
one("DataArray.unstack", lambda a: a.stack(z=("time", "place")).unstack("z"))
one("DataArray.squeeze", lambda a: a.expand_dims("run").squeeze("run"))
one("DataArray.shift", lambda a: a.shift(time=1)[1:], label="filled with nan")
one("DataArray.broadcast_like", lambda a: a.isel(time=0, drop=True).broadcast_like(a))
two("DataArray.combine_first", lambda a, b: a.combine_first(b), HOLES)
two("DataArray.equals", lambda a, b: a.equals(b))
one("DataArray.to_pandas", lambda a: a.to_pandas().to_numpy())

# functions
two("concat", lambda a, b: xr.concat([a, b], "run"))
two("concat", lambda a, b: xr.concat([a, b.assign_coords(time=[50, 60, 70, 80])], "time"), label="along an axis")
two("merge", lambda a, b: xr.merge([a.rename("a"), b.rename("b")]))
two("combine_nested", lambda a, b: xr.combine_nested([a, b], "run"))
two("align", lambda a, b: list(xr.align(a.isel(time=slice(0, 3)), b.isel(time=slice(1, 4)), join="inner")))
two("broadcast", lambda a, b: list(xr.broadcast(a, b.isel(time=0, drop=True))))
two("where", lambda a, b: xr.where(a > 0, a, b))
two("dot", lambda a, b: xr.dot(a, b, dim="time"))
two("cov", lambda a, b: xr.cov(a, b, "time"))
two("corr", lambda a, b: xr.corr(a, b, "time"))
two("cross", lambda a, b: xr.cross(a, b, dim="place"))
for _name, _arguments in {"full_like": (2.0,), "zeros_like": (), "ones_like": ()}.items():
    one(_name, lambda a, n=_name, rest=_arguments: getattr(xr, n)(a, *rest))
one("polyval", lambda a: xr.polyval(a, xr.DataArray([1.0, 2.0, 3.0], dims="degree", coords={"degree": [0, 1, 2]})))
two("apply_ufunc", lambda a, b: xr.apply_ufunc(lambda x, y: x * y, a, b))
one("apply_ufunc", lambda a: xr.apply_ufunc(lambda x: np.mean(x, -1), a, input_core_dims=[["time"]]), label="core dims")
one("apply_ufunc", lambda a: xr.apply_ufunc(lambda x: x @ x, a, input_core_dims=[["time"]], vectorize=True),
    label="vectorize")  # fmt: skip
one("Dataset.mean", lambda a: a.to_dataset("place").mean("time"))
one("Dataset.__mul__", lambda a: a.to_dataset("place") * 2)
one("Dataset.to_dataarray", lambda a: a.to_dataset("place").to_dataarray())
one("Dataset.sel", lambda a: a.to_dataset(name="x").sel(time=20))
one("Dataset.map", lambda a: a.to_dataset(name="x").map(np.sin))
SAMPLES.add("Variable.mean", lambda x: xr.Variable(("t", "p"), x).mean("t").data, X)
SAMPLES.add("Variable.__mul__", lambda x, w: (xr.Variable(("t", "p"), x) * xr.Variable(("p",), w)).data, X, W)


warnings.filterwarnings("ignore", module="xarray")
