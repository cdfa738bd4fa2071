"""Handwritten digits with a network 784-128-10.

    python examples/classics/mnist.py --data-dir DIRECTORY

The directory holds the four MNIST files, gzipped or not. Without one they are
downloaded once.
"""

import argparse
import math
from pathlib import Path

import numpy as np

import agrad

NEARBY = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "mnist"

Parameters = dict[str, agrad.Tensor]


def default_directory() -> Path | None:
    """Return the folder of the data next to the repository, or None."""
    return NEARBY if NEARBY.is_dir() else None


def network(p: Parameters, x: np.ndarray) -> agrad.Tensor:
    return agrad.relu(x @ p["W1"] + p["b1"]) @ p["W2"] + p["b2"]


def accuracy(p: Parameters, x: np.ndarray, labels: np.ndarray) -> float:
    with agrad.no_grad():
        return float(np.mean(np.argmax(network(p, x).numpy(), axis=1) == labels))


def main(
    data_dir: str | Path | None = None,
    epochs: int = 3,
    batch: int = 100,
    rate: float = 0.1,
) -> dict[str, object]:
    data = agrad.data.load_mnist(data_dir or default_directory(), report=print)
    one_hot = np.eye(10, dtype=np.float32)[data.y_train]
    rng = np.random.default_rng(0)

    def weights(rows: int, columns: int) -> agrad.Tensor:
        drawn = rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(
            math.sqrt(2 / rows)
        )
        return agrad.asarray(drawn, requires_grad=True)

    p = {
        "W1": weights(784, 128),
        "b1": agrad.zeros(
            128, dtype=agrad.float32, backend="numpy", requires_grad=True
        ),
        "W2": weights(128, 10),
        "b2": agrad.zeros(10, dtype=agrad.float32, backend="numpy", requires_grad=True),
    }
    losses, accuracies = [], []
    for epoch in range(epochs):
        order = rng.permutation(len(one_hot))
        total = 0.0
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            loss = agrad.cross_entropy(
                network(p, data.X_train[chosen]), one_hot[chosen]
            )
            loss.backward()
            with agrad.no_grad():
                for w in p.values():
                    w -= rate * w.grad
                    w.zero_grad()
            total += loss.item() * len(chosen)
        losses.append(total / len(order))
        accuracies.append(accuracy(p, data.X_test, data.y_test))
        print(
            f"epoch {epoch + 1}: loss {losses[-1]:.4f}, "
            f"test accuracy {accuracies[-1]:.2%}"
        )
    return {"losses": losses, "accuracies": accuracies}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", help="a directory with the four MNIST files")
    main(parser.parse_args().data_dir)
