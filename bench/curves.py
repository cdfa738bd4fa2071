"""The loss curves for one seed on every available backend, and their difference from NumPy.

    python bench/curves.py --out bench/results/curves.md

Fifty steps of Adam on the digits, 64-128-64-10, batch 64, drawn on the host: first in float64, then in float32.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import agrad
from agrad import data, nn, optim

STEPS, BATCH = 50, 64
GOALS = {"float64": 1e-9, "float32": 1e-4}
SHOWN = (1, 2, 5, 10, 20, 30, 40, 50)


def curve(backend: str, dtype: str) -> np.ndarray:
    """Return the losses of the first steps on a backend (STEPS,)."""
    digits = data.load_digits(dtype=dtype)
    nn.manual_seed(0)
    with agrad.use_backend(backend):
        model = nn.Sequential(
            nn.Linear(64, 128, dtype=dtype),
            nn.ReLU(),
            nn.Linear(128, 64, dtype=dtype),
            nn.ReLU(),
            nn.Linear(64, 10, dtype=dtype),
        )
        optimizer = optim.Adam(model.parameters(), lr=1e-3)
        losses = []
        epoch = 0
        while len(losses) < STEPS:
            for rows in data.batches(digits.X_train.shape[0], BATCH, seed=0, epoch=epoch):
                X = agrad.asarray(digits.X_train[rows], backend=backend)
                y = agrad.asarray(digits.y_train[rows], backend=backend)
                loss = agrad.cross_entropy(model(X), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                if len(losses) == STEPS:
                    break
            epoch += 1
    return np.asarray(losses)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", metavar="FILE", help="write the table there too")
    parser.add_argument("--backends", default="numpy,array_api_strict,torch,jax,cupy", help="by name, with commas")
    given = parser.parse_args()
    reports = agrad.available_backends()
    names = [name for name in given.backends.split(",") if reports[name].available]
    lines = ["# One seed on every backend", "", __doc__.split("\n\n")[2].replace("\n", " ").strip(), ""]
    lines += [f"- {name} {reports[name].version}" for name in names]
    lines += [f"- left out, {name}: {reports[name].reason}" for name in given.backends.split(",") if name not in names]
    good = True
    for dtype, goal in GOALS.items():
        curves = {name: curve(name, dtype) for name in names}
        lines += ["", f"## {dtype}", "", "| step | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
        digits = 15 if dtype == "float64" else 8
        for step in SHOWN:
            lines.append(f"| {step} | " + " | ".join(f"{curves[n][step - 1]:.{digits}f}" for n in names) + " |")
        worst = {n: float(np.max(np.abs(curves[n] / curves[names[0]] - 1))) for n in names}
        cells = " | ".join(f"{worst[n]:.1e}" for n in names)
        lines.append(f"| largest relative difference from {names[0]} | {cells} |")
        good &= max(worst.values()) <= goal
        lines += ["", f"Goal: at most {goal:g}; {'met' if max(worst.values()) <= goal else 'NOT met'}."]
    text = "\n".join(lines) + "\n"
    print(text)
    if given.out:
        Path(given.out).write_text(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
