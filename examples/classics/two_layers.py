"""A network of two layers, written out, and a drawing of its graph.

It is trained with the mean squared error, and with cross entropy.
The task is XOR, which one layer cannot learn: is exactly one of two inputs 1?
"""

import argparse
from collections.abc import Callable

import numpy as np

import agrad

INPUTS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
CLASSES = np.array([0, 1, 1, 0])
TARGETS = np.array([[0.0], [1.0], [1.0], [0.0]])

Parameters = dict[str, agrad.Tensor]


def make_parameters(hidden: int, outputs: int) -> Parameters:
    rng = np.random.default_rng(0)
    start = {
        "W1": rng.standard_normal((2, hidden)),
        "b1": np.zeros(hidden),
        "W2": rng.standard_normal((hidden, outputs)),
        "b2": np.zeros(outputs),
    }
    return {
        name: agrad.asarray(values, requires_grad=True)
        for name, values in start.items()
    }


def network(p: Parameters, x: np.ndarray) -> agrad.Tensor:
    return agrad.tanh(x @ p["W1"] + p["b1"]) @ p["W2"] + p["b2"]


def mean_squared_error(p: Parameters) -> agrad.Tensor:
    difference = network(p, INPUTS) - TARGETS
    return agrad.mean(difference**2)


def cross_entropy(p: Parameters) -> agrad.Tensor:
    return agrad.cross_entropy(network(p, INPUTS), CLASSES)


def train(
    loss_of: Callable[[Parameters], agrad.Tensor],
    p: Parameters,
    steps: int,
    rate: float,
) -> tuple[float, float]:
    """Run gradient descent; return the first and the last loss."""
    first = loss_of(p).item()
    for _ in range(steps):
        loss = loss_of(p)
        loss.backward()
        with agrad.no_grad():
            for w in p.values():
                w -= rate * w.grad
                w.zero_grad()
    return first, loss_of(p).item()


def main(svg: str | None = None, steps: int = 500) -> dict[str, object]:
    p = make_parameters(hidden=8, outputs=1)
    drawing = agrad.graph(mean_squared_error(p), gradients=True, names=p)
    print(drawing)
    if svg is not None:
        with open(svg, "w", encoding="utf-8") as file:
            file.write(drawing.to_svg())
        print("drawn to", svg)
    squared = train(mean_squared_error, p, steps, rate=0.2)
    answers = network(p, INPUTS).detach().numpy()[:, 0]
    print(
        f"mean squared error: {squared[0]:.4f} before, {squared[1]:.2e} after; "
        f"answers {np.round(answers, 3)}"
    )

    p = make_parameters(hidden=8, outputs=2)
    entropy = train(cross_entropy, p, steps, rate=0.5)
    decided = np.argmax(network(p, INPUTS).detach().numpy(), axis=1)
    print(
        f"cross entropy:      {entropy[0]:.4f} before, {entropy[1]:.2e} after; "
        f"classes {decided}"
    )
    return {
        "mean_squared_error": squared,
        "cross_entropy": entropy,
        "answers": answers.tolist(),
        "classes": decided.tolist(),
        "operations": [row.op for row in drawing.rows],
        "dot": drawing.to_dot(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--svg", help="draw the graph to this file (needs Graphviz)")
    main(parser.parse_args().svg)
