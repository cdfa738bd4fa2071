"""The tables of the suite ``tables``, as columns by name: from installed packages, or generated.

Nothing is downloaded: scikit-learn and statsmodels contain their tables in their wheels. The names of the functions of
generated tables describe their difficulties. Linnerud's table is omitted: its test part would have four rows.
"""

import csv
import gzip
import importlib.util
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import Missing, load

Columns = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """A table: a function of its columns, the target, the task, and the origin."""

    columns: Callable[[], Columns]
    target: str
    task: str
    origin: str


def _sklearn(name: str) -> Columns:
    held = getattr(load("sklearn.datasets"), f"load_{name}")()
    names = [str(n).replace(",", "") for n in held.feature_names]
    target = held.target_names[held.target] if name == "iris" else held.target
    return {**dict(zip(names, held.data.T, strict=True)), "target": target}


def _tested(number: int, dropped: tuple[str, ...] = ()) -> Columns:
    """Return a table of OpenML from the tests of scikit-learn."""
    folder = Path(load("sklearn").__file__).parent / f"datasets/tests/data/openml/id_{number}"
    (file,) = folder.glob("*.arff.gz")
    with gzip.open(file, "rt", encoding="utf-8") as opened:
        lines = [line.strip() for line in opened]
    start = next(at for at, line in enumerate(lines) if line.lower() == "@data")
    names = [line.split()[1].strip("'") for line in lines[:start] if line.lower().startswith("@attribute")]
    rows = [[cell if cell != "?" else "" for cell in row] for row in csv.reader(lines[start + 1 :]) if len(row) > 1]
    return {
        name: list(cells) for name, cells in zip(names, zip(*rows, strict=True), strict=True) if name not in dropped
    }


def _statsmodels(name: str, *, separator: str = ",", quote: str = '"') -> Columns:
    """Return a table from the wheel of statsmodels, without importing it."""
    found = importlib.util.find_spec("statsmodels")
    if found is None or not found.submodule_search_locations:
        raise Missing("no statsmodels here")
    text = (Path(found.submodule_search_locations[0]) / f"datasets/{name}/{name}.csv").read_text(encoding="utf-8")
    names, *rows = csv.reader(io.StringIO(text), delimiter=separator, quotechar=quote)
    return {column: list(cells) for column, cells in zip(names, zip(*rows, strict=True), strict=True)}


def _schools() -> Columns:
    columns = _statsmodels("star98")
    all_, good = (np.array(columns.pop(name), np.float64) for name in ("MATHTOT", "PR50M"))
    return {**columns, "share": good / all_}


def _carbon() -> Columns:
    """Return dates and weekly measurements; some of these are missing."""
    columns = _statsmodels("co2")
    return {"date": [f"{d[:4]}-{d[4:6]}-{d[6:]}" for d in columns["date"]], "co2": columns["co2"]}


def interactions() -> Columns:
    """Return Friedman's first function of five of ten numbers, with noise."""
    rng = np.random.default_rng(1)
    X = rng.random((2000, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return {**{f"x{n}": X[:, n] for n in range(10)}, "y": y + rng.normal(size=2000)}


def missing() -> Columns:
    """Return classes of skewed numbers, a fifth missing, more often in one class."""
    rng = np.random.default_rng(2)
    X = rng.lognormal(sigma=1.0, size=(2000, 6))
    kind = rng.choice(["a", "b", "c"], 2000)
    logit = np.log(X[:, 0] * X[:, 1]) * np.where(kind == "a", 1.5, -0.5) + np.abs(np.log(X[:, 2])) - 0.6
    y = rng.random(2000) < 1 / (1 + np.exp(-2 * logit))
    gaps = rng.random(X.shape) < np.where(y, 0.28, 0.12)[:, None]
    cells = np.where(gaps, "", X.round(4).astype(str))
    columns = {f"x{n}": cells[:, n] for n in range(6)}
    return {**columns, "kind": np.where(rng.random(2000) < 0.1, "", kind), "y": np.where(y, "yes", "no")}


def categories() -> Columns:
    """Return numbers that depend on three columns of many strings, most of them rare."""
    rng = np.random.default_rng(3)
    n, columns, y = 2500, {}, rng.normal(scale=0.5, size=2500)
    for name, words in (("shop", 40), ("city", 120), ("brand", 300)):
        codes = np.minimum(rng.zipf(1.4, n) - 1, words - 1)
        columns[name] = np.array([f"{name}{code}" for code in codes])
        y = y + rng.normal(size=words)[codes]
    size = rng.gamma(2.0, size=n)
    return {**columns, "size": size, "y": y + np.log1p(size) * (1 + (columns["shop"] == "shop0"))}


def dates() -> Columns:
    """Return rentals by date and weather: a trend, seasons and working days."""
    rng = np.random.default_rng(4)
    days = rng.integers(0, 1461, 3000)
    day = np.datetime64("2021-01-01") + days
    weekday, year = (days + 4) % 7, 2 * np.pi * days / 365.25
    warm = 12 - 11 * np.cos(year) + rng.normal(scale=3, size=3000)
    sky = rng.choice(["clear", "cloud", "rain"], 3000, p=[0.5, 0.35, 0.15])
    base = 80 + 0.05 * days + 4 * warm - 0.12 * np.maximum(warm - 20, 0) ** 2
    y = base * np.where(weekday >= 5, 0.7, 1.0) * np.where(sky == "rain", 0.5, 1.0)
    return {"date": day.astype(str), "warm": warm.round(1), "sky": sky, "y": y + rng.normal(scale=12, size=3000)}


def places() -> Columns:
    """Return 20,000 prices of homes by location, age and size, with steps and products."""
    rng = np.random.default_rng(5)
    n = 20_000
    east, north = rng.normal(size=n), rng.normal(size=n)
    centers = rng.normal(scale=1.2, size=(12, 2))
    apart = np.hypot(east[:, None] - centers[:, 0], north[:, None] - centers[:, 1])
    near = (rng.uniform(0.5, 2.0, 12) * np.exp(-4 * apart**2)).sum(axis=1)
    rooms, people = rng.gamma(9, 0.6, n), rng.lognormal(1.0, 0.5, n)
    income, age = rng.gamma(4, 1.0, n), rng.integers(1, 53, n)
    price = np.exp(0.25 * income - 0.02 * income**2 + 0.9 * near + 0.3 * (age > 30) * near) * (rooms / people) ** 0.3
    price *= np.exp(rng.normal(scale=0.25, size=n))
    named = {"east": east, "north": north, "rooms": rooms, "people": people, "income": income}
    return {**{k: v.round(4) for k, v in named.items()}, "age": age, "price": np.minimum(price, 12.0).round(4)}


def rules() -> Columns:
    """Return three classes by thresholds of numbers and strings, a fifth of them noise."""
    rng = np.random.default_rng(6)
    X, word = rng.uniform(0, 10, (3000, 8)), rng.choice(list("abcdefgh"), 3000)
    first = (X[:, 0] > 6) ^ (X[:, 1] < 3) ^ np.isin(word, ["a", "c", "f"])
    second = (X[:, 2] + X[:, 3] > 11) & (X[:, 4] > 2)
    y = np.where(first, "low", np.where(second, "mid", "top"))
    y = np.where(rng.random(3000) < 0.1, rng.choice(["low", "mid", "top"], 3000), y)
    return {**{f"x{n}": X[:, n].round(3) for n in range(8)}, "word": word, "y": y}


SKLEARN, TESTS, STATSMODELS, GENERATED = "scikit-learn", "scikit-learn's tests", "statsmodels", "generated"
SOURCES: dict[str, Source] = {
    "iris": Source(lambda: _sklearn("iris"), "target", "classification", SKLEARN),
    "wine": Source(lambda: _sklearn("wine"), "target", "classification", SKLEARN),
    "breast_cancer": Source(lambda: _sklearn("breast_cancer"), "target", "classification", SKLEARN),
    "digits": Source(lambda: _sklearn("digits"), "target", "classification", SKLEARN),
    "diabetes": Source(lambda: _sklearn("diabetes"), "target", "regression", SKLEARN),
    "penguins": Source(lambda: _tested(42585), "species", "classification", TESTS),
    "titanic": Source(lambda: _tested(40945, ("boat", "body", "name")), "survived", "classification", TESTS),
    "cpu": Source(lambda: _tested(561), "class", "regression", TESTS),
    "anes96": Source(lambda: _statsmodels("anes96", separator="\t", quote="'"), "vote", "classification", STATSMODELS),
    "modechoice": Source(lambda: _statsmodels("modechoice", separator=";"), "choice", "classification", STATSMODELS),
    "star98": Source(_schools, "share", "regression", STATSMODELS),
    "co2": Source(_carbon, "co2", "regression", STATSMODELS),
    "interactions": Source(interactions, "y", "regression", GENERATED),
    "missing": Source(missing, "y", "classification", GENERATED),
    "categories": Source(categories, "y", "regression", GENERATED),
    "dates": Source(dates, "y", "regression", GENERATED),
    "rules": Source(rules, "y", "classification", GENERATED),
    "places": Source(places, "price", "regression", GENERATED),
}


def write(file: Path, source: Source, seed: int) -> None:
    """Write a table whose rows are shuffled by a seed, without rows that lack the target."""
    columns = source.columns()
    order = np.random.default_rng(seed).permutation(len(columns[source.target]))
    cells = [[str(column[row]) for column in columns.values()] for row in order]
    at = list(columns).index(source.target)
    with file.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([list(columns), *(row for row in cells if row[at] not in ("", "nan"))])


def target_of(source: Source, file: Path) -> list[str]:
    """Return the target in a written table, as text."""
    with file.open(newline="", encoding="utf-8") as opened:
        return [row[source.target] for row in csv.DictReader(opened)]
