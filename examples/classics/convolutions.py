"""A convolutional network on the digits of the package.

    python examples/classics/convolutions.py --backend NAME

Images of 8 x 8 pixels, each moved by up to a pixel in each step of training. The
program ends with exit code 1 where fewer than 97 % of the test images are told.
"""

import argparse
import sys
import time

import numpy as np

import agrad
from agrad import nn

LEAST = 0.97
"""The part of the test images to be told."""


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(128, 10),
    )


def moved(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the images, each moved by up to a pixel."""
    around = np.pad(images, [(0, 0), (0, 0), (1, 1), (1, 1)])
    places = np.lib.stride_tricks.sliding_window_view(
        around, images.shape[2:], axis=(2, 3)
    )
    down, right = rng.integers(0, 3, (2, len(images)))
    return places[np.arange(len(images)), :, down, right]


def main(
    backend: str = "numpy", epochs: int = 20, batch: int = 64, rate: float = 1e-2
) -> float:
    data = agrad.data.load_digits()
    images, test_images = (x.reshape(-1, 1, 8, 8) for x in (data.X_train, data.X_test))
    nn.manual_seed(0)
    rng = np.random.default_rng(0)
    with agrad.use_backend(backend):
        model = network()
        optimizer = agrad.optim.Adam(model.parameters(), lr=rate)

        @agrad.jit
        def step(x: agrad.Tensor, labels: agrad.Tensor) -> agrad.Tensor:
            loss = nn.functional.cross_entropy(model(x), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        @agrad.jit
        def classes(x: agrad.Tensor) -> agrad.Tensor:
            return agrad.argmax(model(x), axis=1)

        def placed(array: np.ndarray) -> agrad.Tensor:
            return agrad.asarray(array, backend=backend)

        start, accuracy = time.perf_counter(), 0.0
        for epoch in range(epochs):
            optimizer.lr = rate * (1 - epoch / epochs)
            order, losses = rng.permutation(len(images)), []
            for first in range(0, len(order) - batch + 1, batch):
                chosen = order[first : first + batch]
                losses.append(
                    step(
                        placed(moved(images[chosen], rng)), placed(data.y_train[chosen])
                    )
                )
            model.eval()
            accuracy = float(
                np.mean(classes(placed(test_images)).numpy() == data.y_test)
            )
            model.train()
            mean = float(np.mean([loss.item() for loss in losses]))
            print(f"epoch {epoch + 1}: loss {mean:.4f}, test accuracy {accuracy:.2%}")
        print(f"{backend}: {accuracy:.2%} after {time.perf_counter() - start:.1f} s")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="numpy", help="numpy, cupy, torch or jax")
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args()
    sys.exit(main(given.backend, given.epochs) < LEAST)
