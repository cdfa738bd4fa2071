"""The tape of sin(x1) * (x1 + x2) at (pi/2, 1), and its derivatives.

In reverse mode (vjp), one pass computes the derivatives with respect to both inputs. In
forward mode (jvp), one pass computes the derivative along one direction, so two are
needed. At this point both derivatives are 1:

    d/dx1 = cos(x1) * (x1 + x2) + sin(x1) = 0 + 1
    d/dx2 = sin(x1) = 1
"""

import math

import agrad


def f(x1: agrad.Tensor, x2: agrad.Tensor) -> agrad.Tensor:
    return agrad.sin(x1) * (x1 + x2)


def main() -> dict[str, object]:
    x1 = agrad.asarray(math.pi / 2, requires_grad=True)
    x2 = agrad.asarray(1.0, requires_grad=True)
    y = f(x1, x2)
    tape = agrad.graph(y, gradients=True, names={"x1": x1, "x2": x2, "y": y})
    print(tape)

    point = agrad.asarray(math.pi / 2), agrad.asarray(1.0)
    zero, one = agrad.asarray(0.0), agrad.asarray(1.0)
    value, pullback = agrad.vjp(f, *point)
    by_vjp = [g.item() for g in pullback(one)]
    print("by vjp:", by_vjp)

    _, along_x1 = agrad.jvp(f, point, (one, zero))
    _, along_x2 = agrad.jvp(f, point, (zero, one))
    by_jvp = [along_x1.item(), along_x2.item()]
    print("by jvp:", by_jvp)
    return {
        "value": value.item(),
        "operations": [row.op for row in tape.rows],
        "values": [float(row.value) for row in tape.rows],
        "gradients": [float(row.gradient) for row in tape.rows],
        "vjp": by_vjp,
        "jvp": by_jvp,
        "tape": str(tape),
    }


if __name__ == "__main__":
    main()
