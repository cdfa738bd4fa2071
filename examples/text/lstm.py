"""A model of the characters of this project's documents, by an LSTM.

    python examples/text/lstm.py --backend numpy

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


class Model(nn.Module):
    """The logits of the next character, from all characters before it."""

    def __init__(self, characters: int, width: int) -> None:
        self.embedding = nn.Embedding(characters, width // 2)
        self.lstm = nn.LSTM(width // 2, width)
        self.head = nn.Linear(width, characters)

    def forward(self, x: Any, state: Any = None) -> tuple[Any, Any]:
        out, state = self.lstm(self.embedding(x), state)
        return self.head(out), state


def sample(text: Text, model: Model, count: int) -> str:
    """Return characters, each drawn from the model and then passed to it."""
    rng = np.random.default_rng(1)
    numbers, state = [text.characters.index("\n")], None
    step = agrad.jit(model)
    with agrad.no_grad():
        for _ in range(count):
            logits, state = step(here([[numbers[-1]]]), state)
            numbers.append(drawn(rng, logits[0, 0, :]))
    return text.decoded(numbers[1:])


def main(steps: int = 400, width: int = 128) -> dict[str, Any]:
    nn.manual_seed(0)
    text = Text()
    model = Model(len(text.characters), width)
    print(model)
    found = train(text, model, lambda x: model(x)[0], steps, size=32, length=32)
    written = sample(text, model, 300)
    print(written)
    return {**found, "text": written}


if __name__ == "__main__":
    run(main, __doc__)
