"""w = (x + y) + x: a value that is used twice collects the gradient of both uses.

Every result stores the operation that computed it, so you can follow the backward pass
step by step.
"""

import agrad


def main() -> dict[str, object]:
    x = agrad.asarray(3.0, requires_grad=True)
    y = agrad.asarray(4.0, requires_grad=True)
    w = (x + y) + x

    first, second = w.op.args
    print("w is made by", w.op.name, "of", first, "and", second)
    print("  the second operand is x itself:", second is x)
    print(
        "  the first one is made by",
        first.op.name,
        "of x and y:",
        first.op.args[0] is x,
        first.op.args[1] is y,
    )
    print(
        "  w.grad_fn is",
        w.grad_fn,
        "and takes 1 back to",
        [g.item() for g in w.grad_fn(agrad.asarray(1.0))],
    )

    w.backward(retain_graph=True)
    print("gradients: dw/dx =", x.grad.item(), " dw/dy =", y.grad.item())
    print(agrad.graph(w, gradients=True, names={"x": x, "y": y, "w": w}))
    return {
        "value": w.item(),
        "gradients": (x.grad.item(), y.grad.item()),
        "operations": (w.op.name, first.op.name),
        "operands_are_leaves": (
            second is x,
            first.op.args[0] is x,
            first.op.args[1] is y,
        ),
    }


if __name__ == "__main__":
    main()
