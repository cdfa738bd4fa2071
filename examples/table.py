"""Rents from a table
==================

Rents, predicted from a table with missing values, words, dates and an id.

``python examples/table.py --backend NAME --plot FILE.png``

5,000 flats are made up and written to a csv file with semicolons, as people have them: 8 % of the areas and 5 % of the
energy classes are missing. Training takes 4,000 of them. Areas and dates are standardised, missing areas marked,
energy classes become marks, and districts a learned vector each. The number is R2 of the logarithm of the rent
for the 1,000 other flats; least squares on the same numbers has 0.83.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import Draw, here, run

import agrad
from agrad import nn
from agrad.data import DataLoader, Table, TensorDataset, read_csv

LEAST = 0.89
FLATS, TRAIN, EPOCHS = 5000, 4000, 40
DISTRICTS = ["Abbey", "Bridge", "Canal", "Docks", "Eastside", "Forest", "Gardens", "Harbour", "Island", "Junction"]


def write(path: Path) -> None:
    """Write the flats to a file."""
    rng = np.random.default_rng(0)
    area, district = rng.gamma(9, 8, FLATS) + 15, rng.integers(0, 10, FLATS)
    days, energy = rng.integers(-25000, 20000, FLATS), rng.integers(0, 7, FLATS)
    central, age = np.cos(district), (20000 - days) / 365
    # old houses are sought after in the centre, and not outside of it
    log_rent = 4 + 0.8 * np.log(area) + 0.25 * central - 0.04 * energy * (age > 40)
    log_rent += 0.3 * central * (age / 60 - 1) ** 2 + 0.1 * np.sin(area / 10) + 0.08 * rng.normal(size=FLATS)
    built = np.datetime64("1970-01-01") + days
    with path.open("w", encoding="utf-8") as file:
        file.write("id;area;district;built;energy;rent\n")
        for i in range(FLATS):
            size = "" if rng.random() < 0.08 else f"{area[i]:.1f}"
            letter = "" if rng.random() < 0.05 else "ABCDEFG"[energy[i]]
            file.write(f"F{i};{size};{DISTRICTS[district[i]]};{built[i]};{letter};{np.exp(log_rent[i]):.2f}\n")


def encoded(table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return numbers of shape (n, 10), districts and the logarithm of the rent; the scales are those of training."""
    columns = []
    for values in (np.log(table["area"].values), table["built"].values.astype("datetime64[D]").astype(float)):
        mean, deviation = np.nanmean(values[:TRAIN]), np.nanstd(values[:TRAIN])
        columns.append(np.nan_to_num((values - mean) / deviation))
    columns.append(table["area"].missing)
    columns += [table["energy"].values == letter for letter in "ABCDEFG"]
    numbers = np.stack(columns, axis=1).astype(np.float32)
    districts = np.searchsorted(DISTRICTS, table["district"].values.astype(str))
    return numbers, districts, np.log(table["rent"].values).astype(np.float32)


class Rents(nn.Module):
    """The standardised logarithm of the rent."""

    def __init__(self, numbers: int, width: int = 64) -> None:
        super().__init__()
        self.districts = nn.Embedding(len(DISTRICTS), 4)
        self.layers = nn.Sequential(
            nn.Linear(numbers + 4, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1)
        )

    def forward(self, numbers: Any, districts: Any) -> Any:
        return self.layers(agrad.concat([numbers, self.districts(districts)], axis=1))[:, 0]


def least_squares(numbers: np.ndarray, districts: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return what a linear model predicts for all flats."""
    columns = np.concat([numbers, np.eye(len(DISTRICTS))[districts]], axis=1)
    return columns @ np.linalg.lstsq(columns[:TRAIN], target[:TRAIN])[0]


def r2(predicted: np.ndarray, target: np.ndarray) -> float:
    """Return R2 of the flats that training has not seen."""
    rest = target[TRAIN:]
    return float(1 - np.sum((rest - predicted[TRAIN:]) ** 2) / np.sum((rest - rest.mean()) ** 2))


def main() -> tuple[float, Draw]:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "flats.csv")
        table = read_csv(Path(folder) / "flats.csv")
    print(table)
    numbers, districts, target = encoded(table)
    mean, deviation = target[:TRAIN].mean(), target[:TRAIN].std()
    train = TensorDataset(*(a[:TRAIN] for a in (numbers, districts, (target - mean) / deviation)))
    loader = DataLoader(train, batch_size=64, shuffle=True, backend=agrad.get_backend())
    nn.manual_seed(0)
    model = Rents(numbers.shape[1])
    rates = agrad.optim.Cosine(5e-3, steps=EPOCHS * len(loader))
    optimizer = agrad.optim.AdamW(model.parameters(), lr=rates)

    @agrad.jit
    def step(x: agrad.Tensor, places: agrad.Tensor, wanted: agrad.Tensor) -> agrad.Tensor:
        loss = agrad.mean((model(x, places) - wanted) ** 2)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    losses = []
    for epoch in range(1, EPOCHS + 1):
        losses.append(np.mean([step(*batch).item() for batch in loader]))
        if epoch % 10 == 0:
            print(f"epoch {epoch}: loss {losses[-1]:.4f}")
    with agrad.no_grad():
        predicted = model(here(numbers), here(districts)).numpy() * deviation + mean
    print(f"R2 of least squares: {r2(least_squares(numbers, districts, target), target):.4f}")

    def draw(plt: Any) -> None:
        _, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4))
        left.semilogy(range(1, EPOCHS + 1), losses)
        left.set(xlabel="epoch", ylabel="mean square error (standardised)", title="training")
        right.plot(np.exp(target[TRAIN:]), np.exp(predicted[TRAIN:]), ".", ms=3)
        right.axline((500, 500), slope=1, color="k", lw=0.8)
        right.set(xlabel="rent", ylabel="rent predicted", title="flats that training has not seen")

    return r2(predicted, target), draw


if __name__ == "__main__":
    run(main, __doc__, least=LEAST)
