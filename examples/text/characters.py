"""What the two models of characters share: a text, batches of it, training, and a
baseline."""

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import agrad

ROOT = Path(__file__).resolve().parents[2]
TABLES = ("derivatives.md", "numpy.md", "scipy.md", "special.md")
BLOCK = 2000
"""Characters of a block; every tenth block of the text is held out."""


def corpus() -> str:
    """Return the prose of the documents of this project, without tables."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    files += sorted(
        p
        for folder in ("", "decisions", "transforms")
        for p in (ROOT / "docs" / folder).glob("*.md")
    )
    return "\n".join(
        p.read_text(encoding="utf-8") for p in files if p.name not in TABLES
    )


class Text:
    """The corpus as character indices, in a training and a test part."""

    def __init__(self) -> None:
        text = "".join(c for c in corpus() if c.isascii())
        self.characters = sorted(set(text))
        numbers = np.asarray([self.characters.index(c) for c in text])
        held = np.arange(len(numbers)) // BLOCK % 10 == 9
        self.train, self.held = numbers[~held], numbers[held]

    def batch(
        self, rng: np.random.Generator, size: int, length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return random pieces of the training text, and the next characters."""
        starts = rng.integers(0, len(self.train) - length - 1, size)
        pieces = self.train[starts + np.arange(length + 1)[:, None]]
        return pieces[:-1], pieces[1:]

    def held_out(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the held out text in pieces, as ``batch`` does."""
        count = (len(self.held) - 1) // length
        end = count * length
        return self.held[:end].reshape(count, length).T, self.held[1 : end + 1].reshape(
            count, length
        ).T

    def bigram_bits(self) -> float:
        """Return the bits per test character, predicted by counts of pairs."""
        count = len(self.characters)
        pairs = np.ones((count, count)) * 0.1
        np.add.at(pairs, (self.train[:-1], self.train[1:]), 1)
        chances = pairs / pairs.sum(axis=1, keepdims=True)
        return float(-np.mean(np.log2(chances[self.held[:-1], self.held[1:]])))

    def decoded(self, numbers: list[int]) -> str:
        return "".join(self.characters[n] for n in numbers)


def here(numbers: Any) -> agrad.Tensor:
    """Return numbers as a Tensor of the selected backend."""
    return agrad.asarray(np.asarray(numbers), backend=agrad.get_backend())


def loss_of(logits: Any, targets: Any) -> Any:
    """Return the mean cross entropy in nats."""
    return agrad.cross_entropy(logits, targets)


def train(
    text: Text,
    model: Any,
    logits_of: Callable[[Any], Any],
    steps: int,
    size: int,
    length: int,
) -> dict[str, float]:
    """Train a model. Return bits per test character, also of the baseline."""
    rng = np.random.default_rng(0)
    optimizer = agrad.optim.AdamW(
        model.parameters(), lr=agrad.optim.Cosine(1e-2, steps=steps)
    )

    @agrad.jit
    def step(x: agrad.Tensor, targets: agrad.Tensor) -> agrad.Tensor:
        loss = loss_of(logits_of(x), targets)
        loss.backward()
        agrad.optim.clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    begun, nats = time.perf_counter(), 0.0
    for i in range(1, steps + 1):
        nats += step(*map(here, text.batch(rng, size, length))).item()
        if i % (steps // 5) == 0:
            bits = nats / (steps // 5) / math.log(2)
            print(
                f"step {i}: {bits:.3f} bits a character in training, "
                f"{time.perf_counter() - begun:.0f} s"
            )
            nats = 0.0
    model.eval()
    x, targets = text.held_out(length)
    with agrad.no_grad():
        bits = loss_of(logits_of(here(x)), here(targets)).item() / math.log(2)
    baseline = text.bigram_bits()
    print(
        f"held out text: {bits:.3f} bits a character, {baseline:.3f} by counts of pairs"
    )
    return {"bits": bits, "baseline": baseline}


def drawn(rng: np.random.Generator, logits: Any) -> int:
    """Draw a character from a row of logits, a little sharpened."""
    scores = np.asarray(logits.numpy(), np.float64) / 0.7
    chances = np.exp(scores - scores.max())
    return int(rng.choice(len(chances), p=chances / chances.sum()))


def run(main: Callable[..., Any], about: str | None) -> None:
    """Run an example from the command line."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--backend", default="numpy", help="the array library, numpy by default"
    )
    parser.add_argument("--steps", type=int, default=None, help="the steps of training")
    options = parser.parse_args()
    with agrad.use_backend(options.backend):
        main(**{} if options.steps is None else {"steps": options.steps})
