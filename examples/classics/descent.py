"""Gradient descent on 2 x**2 + 5, by hand.

The gradient is 4 x. A step against it with rate 0.1 changes x to x - 0.1 * 4 x = 0.6 x,
so after k steps from 10 the point is 10 * 0.6**k.
"""

import agrad


def main(steps: int = 20) -> dict[str, object]:
    x = agrad.asarray(10.0, requires_grad=True)
    points = [x.item()]
    for k in range(steps):
        y = 2 * x**2 + 5
        x.zero_grad()
        y.backward()
        with agrad.no_grad():  # the step itself is not to be differentiated
            x -= 0.1 * x.grad
        points.append(x.item())
        if k < 3 or k == steps - 1:
            print(
                f"step {k + 1:2}: x = {x.item():.8f}, "
                f"and 10 * 0.6**{k + 1} = {10 * 0.6 ** (k + 1):.8f}"
            )
    return {"points": points, "minimum": (2 * x**2 + 5).item()}


if __name__ == "__main__":
    main()
