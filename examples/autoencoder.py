"""A variational autoencoder of handwritten digits
===============================================

Train a variational autoencoder that maps images of digits to points of a plane.

``python examples/autoencoder.py --backend NAME --plot FILE.png``

The encoder maps each image to a normal distribution in the plane. The decoder maps each
point of the plane to probabilities of 64 pixels (Kingma and Welling, Auto-Encoding
Variational Bayes, ICLR 2014). The gradient passes through the random sample. The images
are binary. The number is the lower bound of the log likelihood of 359 test images, in
nats per image. A model with independent pixels reaches -24.5.
"""

from typing import Any

import numpy as np

import agrad
from agrad import nn
from agrad.data import DataLoader, TensorDataset
from agrad.nn import functional as F
from common import Draw, here, run

LEAST = -20.0
EPOCHS, BATCH = 150, 64


class Autoencoder(nn.Module):
    """A code in the plane, of images as rows of 64 pixels."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 4)
        )
        self.decoder = nn.Sequential(
            nn.Linear(2, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 64),
        )

    def encode(self, images: Any) -> tuple[Any, Any]:
        """Return mean and log variance of the codes, of shape (n, 2)."""
        code = self.encoder(images)
        return code[:, :2], code[:, 2:]

    def loss(self, images: Any, key: Any) -> Any:
        """Return the bound with its sign turned, the mean over the images."""
        mean, log_variance = self.encode(images)
        code = agrad.random.normal(key, loc=mean, scale=agrad.exp(log_variance / 2))
        misfit = F.binary_cross_entropy_with_logits(
            self.decoder(code), images, reduction="sum"
        )
        divergence = agrad.sum(agrad.exp(log_variance) + mean**2 - 1 - log_variance) / 2
        return (misfit + divergence) / images.shape[0]


def main() -> tuple[float, Draw]:
    digits = agrad.data.load_digits()
    train, test = (
        np.astype(grey > 0.5, np.float32) for grey in (digits.X_train, digits.X_test)
    )
    loader = DataLoader(
        TensorDataset(here(train)), batch_size=BATCH, shuffle=True, drop_last=True
    )
    noise = agrad.random.Generator(0)
    nn.manual_seed(0)
    model = Autoencoder()
    rates = agrad.optim.Cosine(3e-3, steps=EPOCHS * len(loader))
    optimizer = agrad.optim.Adam(model.parameters(), lr=rates)

    @agrad.jit
    def step(images: agrad.Tensor) -> agrad.Tensor:
        loss = model.loss(images, noise.key())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for epoch in range(1, EPOCHS + 1):
        losses = [step(images).item() for (images,) in loader]
        if epoch % 30 == 0:
            print(
                f"epoch {epoch}: bound {-np.mean(losses):.2f} nats an image in training"
            )

    with agrad.no_grad():
        bound = -np.mean(
            [model.loss(here(test), noise.key()).item() for _ in range(20)]
        )
        places = model.encode(here(test))[0].numpy()
        side = np.linspace(-2, 2, 13, dtype=np.float32)
        grid = np.stack(np.meshgrid(side, -side), axis=-1).reshape(-1, 2)
        pictures = agrad.sigmoid(model.decoder(here(grid))).numpy()
    mean = train.mean(axis=0).clip(1e-3, 1 - 1e-3)
    independent = np.mean(np.sum(np.log(np.where(test == 1, mean, 1 - mean)), axis=1))
    print(
        f"test images: {bound:.2f} nats per image; "
        f"independent pixels: {independent:.2f}"
    )

    def draw(plt: Any) -> None:
        _, (left, right) = plt.subplots(1, 2, figsize=(12, 5.4))
        dots = left.scatter(
            *places.T, c=digits.y_test, cmap="tab10", vmin=-0.5, vmax=9.5, s=12
        )
        plt.colorbar(dots, ax=left, ticks=range(10), label="digit")
        left.set(
            title="codes of images not seen",
            xlabel="code 1",
            ylabel="code 2",
            aspect="equal",
        )
        tiles = np.pad(pictures.reshape(13, 13, 8, 8), [(0, 0), (0, 0), (2, 2), (2, 2)])
        right.imshow(
            tiles.swapaxes(1, 2).reshape(156, 156),
            cmap="gray_r",
            extent=(-2.17, 2.17, -2.17, 2.17),
        )
        right.set(
            title="what the decoder makes of the plane",
            xlabel="code 1",
            ylabel="code 2",
        )

    return float(bound), draw


if __name__ == "__main__":
    run(main, __doc__, least=LEAST)
