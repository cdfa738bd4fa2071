"""A model of the characters of this project's documents, by a small transformer.

    python examples/text/transformer.py --backend numpy

It prints the bits per character of unseen text, for this and the simplest model, and a
generated text.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import agrad
from agrad import nn

sys.path.insert(0, str(Path(__file__).parent))
from characters import Text, drawn, here, run, train

LENGTH = 32


def positions(length: int, width: int) -> np.ndarray:
    """Return the sinusoidal position encoding, (length, 1, width)."""
    angles = np.arange(length)[:, None] / 10_000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, 1, width)


class Model(nn.Module):
    """The logits of the next character, from ``LENGTH`` characters at most."""

    def __init__(self, characters: int, width: int) -> None:
        self.embedding = nn.Embedding(characters, width)
        self.positions = here(positions(LENGTH, width).astype(np.float32))
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.0, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(width))
        self.head = nn.Linear(width, characters)

    def forward(self, x: Any) -> Any:
        given = self.embedding(x) + self.positions[: x.shape[0], ...]
        return self.head(self.encoder(given, is_causal=True))


def sample(text: Text, model: Model, count: int) -> str:
    """Return characters sampled from the model, with a moving window as input."""
    rng = np.random.default_rng(1)
    numbers = [text.characters.index("\n")]
    step = agrad.jit(model)
    with agrad.no_grad():
        for _ in range(count):
            # one shape: positions after the last character are not used
            window = numbers[-LENGTH:]
            padded = np.asarray(window + [0] * (LENGTH - len(window)))[:, None]
            numbers.append(drawn(rng, step(here(padded))[len(window) - 1, 0, :]))
    return text.decoded(numbers[1:])


def main(steps: int = 800, width: int = 64) -> dict[str, Any]:
    nn.manual_seed(0)
    text = Text()
    model = Model(len(text.characters), width)
    print(model)
    found = train(text, model, model, steps, size=32, length=LENGTH)
    written = sample(text, model, 300)
    print(written)
    return {**found, "text": written}


if __name__ == "__main__":
    run(main, __doc__)
