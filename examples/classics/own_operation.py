"""A custom operation: softplus, log(1 + exp(x)), without overflow.

An operation is a function of ``xp`` (the namespace of whatever array library it is
given) and of arrays. Its rules say how a cotangent ``g`` goes back and how a tangent
``t`` goes forward. A rule is given what it names, and what a rule names is what is
remembered between the two passes: here ``x``. The rules are written in the same terms
as everything else, so the second derivative needs nothing more.
"""

import math

import agrad


@agrad.primitive
def softplus(xp, x, /):
    """Return log(1 + exp(x)) of each element."""
    return xp.maximum(x, xp.zeros_like(x)) + xp.log1p(xp.exp(-xp.abs(x)))


@softplus.vjp
def softplus_vjp(xp, g, x):
    return g / (1 + xp.exp(-x))


@softplus.jvp
def softplus_jvp(xp, t, x):
    return t / (1 + xp.exp(-x))


def main() -> dict[str, object]:
    x = agrad.asarray([-1.0, 0.0, 1.0], requires_grad=True)
    y = agrad.sum(softplus(x))
    y.backward(retain_graph=True)
    print("softplus of", x.detach(), "is", softplus(x).detach())
    print("its gradient:", x.grad)
    print(agrad.graph(y, names={"x": x}))

    value, slope = agrad.jvp(softplus, (1.0,), (1.0,))
    curvature = agrad.grad(agrad.grad(softplus))(1.0)
    print(
        f"at 1: value {value:.6f}, slope by jvp {slope:.6f}, "
        f"second derivative {curvature:.6f}"
    )

    large = softplus(agrad.asarray(1000.0))
    print("and at 1000 it does not overflow:", large.item())

    sigmoid = 1 / (1 + math.exp(-1.0))
    print(
        f"on paper: slope {sigmoid:.6f}, "
        f"second derivative {sigmoid * (1 - sigmoid):.6f}"
    )
    return {
        "gradient": [float(g) for g in x.grad.numpy()],
        "value": float(value),
        "jvp": float(slope),
        "second": float(curvature),
        "large": large.item(),
    }


if __name__ == "__main__":
    main()
