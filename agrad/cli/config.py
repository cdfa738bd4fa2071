"""The options of a training run: defaults for each data set, saved form."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from agrad.errors import ConfigurationError, DataError

CHOICES = {
    "task": ("auto", "classification", "regression"),
    "model": ("mlp", "conv", "table"),
    "class_weight": ("none", "balanced"),
    "dtype": ("float32", "float64"),
    "precision": ("float32", "tf32", "bfloat16", "float16"),
    "activation": ("relu", "tanh", "sigmoid", "gelu"),
    "optimizer": ("adam", "adamw", "sgd"),
    "schedule": ("constant", "cosine", "step", "exponential", "warmup"),
}
"""The options with a few permitted names."""

COLUMNS = ("categorical", "keep", "drop")
"""The options that are names of columns."""

TABLES = (".csv", ".tsv", ".txt", ".data", ".parquet")
PACKED = (".gz", ".bz2", ".xz", ".zip")

DEFAULTS: dict[str, dict[str, Any]] = {
    # small, because a BLAS then multiplies on one thread; two on busy cores take ten times as long
    "digits": {
        "hidden": (128, 64),
        "epochs": 60,
        "batch_size": 32,
        "lr": 3e-3,
        "dropout": 0.2,
        "schedule": "cosine",
    },
    "mnist": {"epochs": 8, "batch_size": 128, "lr": 3e-3, "schedule": "cosine"},
    "tables": {
        "model": "table",
        "hidden": None,
        "epochs": None,
        "batch_size": None,
        "lr": 2e-3,
        "optimizer": "adamw",
        "dropout": 0.1,
        "schedule": "cosine",
        "validation": None,
        "patience": None,
        "members": None,
    },
}
"""The defaults for a named data set, and for files of tables, that differ from those of `Config`.

None stands for a number that follows the training rows, see `models.settled`."""

OPEN = ("hidden", "epochs", "batch_size", "validation", "patience", "members")
"""The options that follow the rows of a table where none is named."""

OF_MODEL: dict[str, dict[str, Any]] = {"mlp": {"members": 1}, "conv": {"hidden": (64,), "members": 1}, "table": {}}
"""The defaults for a kind of network that differ from those for the data."""

OF_OPTIMIZER: dict[str, dict[str, Any]] = {"adam": {}, "adamw": {"weight_decay": 0.01}, "sgd": {"lr": 0.05}}
"""The defaults for an optimizer that differ from those for the data."""

MOVABLE = ("epochs", "data", "patience")
"""The options that may change in a resumed run."""


def option(name: str) -> str:
    """Return the command-line option of a field: ``--batch-size`` for ``batch_size``."""
    return "--" + name.replace("_", "-")


def shown(value: Any) -> str:
    """Return the value of an option as text of the command line."""
    if value is None:
        return "by rows"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value)


@dataclass(frozen=True)
class Config:
    """The options that determine the numbers of a run.

    The defaults are those for data that `DEFAULTS` does not list.

    Of a table some are None until `models.settled` knows its rows. Raises ``ConfigurationError``, naming the option,
    for a value out of range.
    """

    data: str = "digits"
    label: str | None = None
    task: str = "auto"
    header: bool | None = None
    categorical: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    id: str | None = None
    class_weight: str = "none"
    model: str = "mlp"
    dtype: str = "float32"
    precision: str = "float32"
    hidden: tuple[int, ...] | None = (256, 128)
    activation: str = "relu"
    epochs: int | None = 20
    batch_size: int | None = 64
    lr: float = 1e-3
    optimizer: str = "adam"
    weight_decay: float = 0.0
    dropout: float = 0.0
    schedule: str = "constant"
    seed: int = 0
    validation: float | None = 0.0
    patience: int | None = 20
    members: int | None = 1

    def __post_init__(self) -> None:
        text = isinstance(self.data, str) and self.data and "\0" not in self.data
        widths = isinstance(self.hidden, tuple) and all(_whole(n, 1, 2**31) for n in self.hidden)
        narrow = self.dtype == "float32" or self.precision == "float32"
        for name, good, expected in (
            *((name, getattr(self, name) in names, f"one of {', '.join(names)}") for name, names in CHOICES.items()),
            ("precision", narrow, "float32 with --dtype float64, whose products stay wide"),
            ("data", text, "a name or a file"),
            *((name, _texts(getattr(self, name)), "names of columns, such as zip,code") for name in COLUMNS),
            ("header", self.header in (None, True, False), "true or false"),
            *(
                (name, isinstance(getattr(self, name), str | None), "a column's name or number")
                for name in ("label", "id")
            ),
            ("hidden", widths, "widths of 1 or more, such as 256,128, or none"),
            ("epochs", _whole(self.epochs, 1, 2**31), "an integer of 1 or more"),
            ("batch_size", _whole(self.batch_size, 1, 2**31), "an integer of 1 or more"),
            ("seed", _whole(self.seed, 0, 2**64), "an integer from 0 to 2**64 - 1"),
            ("lr", _real(self.lr) and self.lr > 0, "a number above 0"),
            ("weight_decay", _real(self.weight_decay), "a number of 0 or more"),
            ("dropout", _real(self.dropout) and self.dropout < 1, "a number from 0 to below 1"),
            ("validation", _real(self.validation) and self.validation < 1, "a number from 0 to below 1"),
            ("patience", _whole(self.patience, 0, 2**31), "an integer of 0 or more"),
            (
                "members",
                _whole(self.members, 1, 2**10 if self.model == "table" else 2),
                "1, or with --model table to 1023",
            ),
        ):
            if not good and (name not in OPEN or getattr(self, name) is not None):
                found = shown(getattr(self, name))[:80]
                raise ConfigurationError(f"{option(name)} must be {expected}, got {found!r}")

    def as_metadata(self) -> dict[str, Any]:
        """Return the options as a JSON object."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def _whole(value: Any, low: int, end: int) -> bool:
    """Return True for an int from ``low`` to below ``end``."""
    return type(value) is int and low <= value < end


def _texts(value: Any) -> bool:
    """Return True for a tuple of texts."""
    return isinstance(value, tuple) and all(isinstance(text, str) and text for text in value)


def _real(value: Any) -> bool:
    """Return True for a finite float of 0 or more."""
    return type(value) is float and math.isfinite(value) and value >= 0


def resolve(given: Mapping[str, Any]) -> Config:
    """Return the options of a new run: the ``given`` ones by name, others by default."""
    data = given.get("data") or "digits"
    kind = "tables" if is_table(data) else data
    base = DEFAULTS.get(kind, {})
    own = OF_OPTIMIZER.get(given.get("optimizer") or base.get("optimizer", Config.optimizer), {})
    model = OF_MODEL.get(given.get("model") or base.get("model", Config.model), {})
    return Config(**{**base, **model, **own, "data": data, **_settings(given)})


def is_table(data: str) -> bool:
    """Return True for the name of a file that holds a table."""
    stem, end = os.path.splitext(data.lower())
    return (os.path.splitext(stem)[1] if end in PACKED else end) in TABLES


def resumed(saved: Config, given: Mapping[str, Any], done: int, path: str) -> Config:
    """Return the options of a resumed run: the saved ones, with permitted changes.

    Raises ``ConfigurationError``, naming the option, if one differs from the saved run and would change its numbers, or
    if ``--epochs`` leaves nothing to do after the ``done`` ones.
    """
    given = _settings(given)
    for name, value in given.items():
        before = getattr(saved, name)
        if name not in MOVABLE and value not in (before, "auto"):
            raise ConfigurationError(
                f"{option(name)} {shown(value)} conflicts with --resume {path}: that run has {option(name)} "
                f"{shown(before)}. Omit the option, or start a new run without --resume."
            )
    config = replace(saved, **{name: given[name] for name in MOVABLE if name in given})
    if config.epochs <= done:
        raise ConfigurationError(
            f"--resume {path}: that run has completed {done} of {saved.epochs} epochs. Pass a number above {done} "
            "with --epochs to train it further."
        )
    return config


def from_metadata(saved: Any, path: str) -> Config:
    """Return the options of a model file. Raises ``DataError`` for any other content."""
    names = {field.name for field in fields(Config)}
    if isinstance(saved, dict):  # older files do not have all options
        saved = {"header": None, "drop": [], "id": None, "members": 1, **saved}
    lists = ("hidden", *COLUMNS)
    if not isinstance(saved, dict) or set(saved) != names or not all(isinstance(saved[name], list) for name in lists):
        raise DataError(f"{path!r}: expected the options {', '.join(sorted(names))} in the header, found others")
    try:
        return Config(**{**saved, **{name: tuple(saved[name]) for name in lists}})
    except ConfigurationError as error:
        raise DataError(f"{path!r}: the options in the header are not valid: {error}") from error


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options among given ones that are not None."""
    names = [field.name for field in fields(Config)]
    return {name: given[name] for name in names if given.get(name) is not None}
