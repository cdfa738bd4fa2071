"""One neuron, its error, and the gradient of the error by each weight.

A neuron multiplies its inputs by weights, adds a bias and squeezes the sum with tanh.
How wrong it is, is the squared distance from the target. ``backward`` walks from that
error back to the weights: it says how much the error changes when a weight changes a
little.
"""

import agrad


def main() -> dict[str, object]:
    inputs = [2.3, -3.5, 3.9]
    weights = [agrad.asarray(w, requires_grad=True) for w in (-0.8, 1.8, 3.0)]
    bias = agrad.asarray(-3.2, requires_grad=True)
    target = 0.8

    total = bias
    for x, w in zip(inputs, weights, strict=True):
        total = total + x * w
    output = agrad.tanh(total)
    error = (output - target) ** 2
    error.backward()

    print(
        f"output {output.item():.6f}, target {target}, squared error {error.item():.6f}"
    )
    for i, w in enumerate(weights):
        print(
            f"  weight {i}: {w.item():5.1f}   d error / d weight = {w.grad.item():9.6f}"
        )
    print(
        f"  bias:     {bias.item():5.1f}   d error / d bias   = {bias.grad.item():9.6f}"
    )
    return {
        "error": error.item(),
        "weight_gradients": [w.grad.item() for w in weights],
        "bias_gradient": bias.grad.item(),
    }


if __name__ == "__main__":
    main()
