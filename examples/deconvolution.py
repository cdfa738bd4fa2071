"""Deconvolution of a photograph by total variation
================================================

Sharpen a blurred photograph by total-variation deconvolution.

``python examples/deconvolution.py --backend NAME --plot FILE.png``

The example blurs a photograph of a temple with a disk, and adds noise. It needs
scikit-learn and Pillow. The reconstruction minimizes the squared difference after the
same blur, plus the length of the image gradient (Rudin, Osher and Fatemi, Physica D 60,
1992), which is smoothed at 0. The optimizer is L-BFGS. The number is the gain of the
peak signal-to-noise ratio over the blurred image, in decibels.
"""

from typing import Any

import numpy as np
from sklearn.datasets import load_sample_image

import agrad
from agrad.scipy.signal import fftconvolve
from common import Draw, here, run

LEAST = 3.0
RADIUS = 4
NOISE = 0.005
SMOOTHNESS = 4e-4


def photograph() -> np.ndarray:
    """Return a part of the photograph in grey, from 0 to 1, at half its size."""
    grey = load_sample_image("china.jpg").mean(axis=2)[10:330, 170:490] / 255
    return grey.reshape(160, 2, 160, 2).mean(axis=(1, 3))


def disk() -> np.ndarray:
    y, x = np.mgrid[-RADIUS : RADIUS + 1, -RADIUS : RADIUS + 1]
    kernel = np.clip(RADIUS + 0.5 - np.hypot(x, y), 0, 1)
    return kernel / kernel.sum()


def decibels(image: np.ndarray, truth: np.ndarray) -> float:
    return float(-10 * np.log10(np.mean((image - truth) ** 2)))


def loss(image: Any, seen: Any, kernel: Any) -> Any:
    misfit = agrad.sum((fftconvolve(image, kernel, mode="valid") - seen) ** 2)
    down, right = agrad.diff(image, axis=0)[:, :-1], agrad.diff(image, axis=1)[:-1, :]
    return misfit + SMOOTHNESS * agrad.sum(agrad.sqrt(down**2 + right**2 + 1e-6))


def main() -> tuple[float, Draw]:
    truth, kernel = photograph(), disk()
    seen = fftconvolve(
        truth, kernel, mode="valid"
    )  # the edge of the image is only partly visible
    seen = seen + NOISE * np.random.default_rng(0).normal(size=seen.shape)
    image = agrad.asarray(here(np.pad(seen, RADIUS, mode="edge")), requires_grad=True)
    optimizer = agrad.optim.LBFGS(
        [image], max_iter=20, history_size=10, line_search_fn="strong_wolfe"
    )
    here_seen, here_kernel = here(seen), here(kernel)

    @agrad.jit
    def step() -> agrad.Tensor:
        optimizer.zero_grad()
        value = loss(image, here_seen, here_kernel)
        value.backward()
        return value

    inside = (slice(RADIUS, -RADIUS),) * 2
    before = decibels(seen, truth[inside])
    print(f"blurred: {before:.2f} dB")
    gain = 0.0
    for _ in range(5):
        value = optimizer.step(step).item()
        gain = decibels(image.detach().numpy()[inside], truth[inside]) - before
        print(
            f"{optimizer.iterations} steps: loss {value:.4f} before them, "
            f"{before + gain:.2f} dB after"
        )
    found = image.detach().numpy()[inside]

    def draw(plt: Any) -> None:
        _, axes = plt.subplots(1, 3, figsize=(13, 4.9))
        shown = {
            f"blurred, {before:.1f} dB": seen,
            f"found, {before + gain:.1f} dB": found,
            "the photograph": truth[inside],
        }
        for axis, (title, picture) in zip(axes, shown.items(), strict=True):
            axis.imshow(picture, cmap="gray", vmin=0, vmax=1)
            axis.set(title=title, xticks=[], yticks=[])

    return gain, draw


if __name__ == "__main__":
    run(main, __doc__, least=LEAST)
