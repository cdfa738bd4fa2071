"""
Define custom operations and derivatives
========================================

You can define a derivative in three ways: one row for an elementwise operation, an
operation with a rule for each argument, and a rule for a whole function. Test each rule
before you use it.
"""

# %%
# Define an elementwise operation
# -------------------------------
#
# The rule of ``agrad.elementwise`` is the cotangent ``g`` times the partial derivative.
# It serves both modes.

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import agrad
from agrad import testing

softplus = agrad.elementwise(
    "softplus",
    lambda xp, g, x: g / (1.0 + xp.exp(-x)),
    forward=lambda xp, x, /: xp.logaddexp(x, xp.zeros_like(x)),
)
x = np.linspace(-6.0, 6.0, 101)
first = agrad.elementwise_grad(softplus)
second = agrad.elementwise_grad(first)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for f, label in (
    (softplus, "softplus"),
    (first, "first derivative"),
    (second, "second derivative"),
):
    axes.plot(x, f(x), label=label)
axes.legend()
plt.show()

# %%
# Test the rule
# -------------
#
# ``testing.check_grads`` compares the rule with finite differences, in both modes and
# to any order. For a wrong rule, the error contains the argument and both values.

testing.check_grads(softplus, (np.asarray([-1.0, 0.5]),), order=2)

wrong = agrad.elementwise(
    "wrong", lambda g, y: g * y * 1.01, forward=lambda xp, x, /: xp.exp(x)
)
try:
    testing.check_grads(wrong, (np.asarray([0.5]),))
except AssertionError as error:
    print(str(error).splitlines()[0])

# %%
# Define any other operation
# --------------------------
#
# ``agrad.primitive`` defines all other operations. The parameters of a rule say what it
# needs: ``g``, the output ``y``, arguments and keyword arguments. agrad stores only
# these values. With ``batch="axis"``, ``vmap`` calls the operation once for the whole
# batch.


@agrad.primitive(linear="x", batch="axis")
def smooth(xp: Any, x: Any, /, *, axis: int) -> Any:
    """Return the mean of each element and its neighbors, around the end."""
    return (xp.roll(x, 1, axis=axis) + x + xp.roll(x, -1, axis=axis)) / 3.0


@smooth.vjp
def smooth_vjp(g: Any, *, axis: int) -> Any:
    return smooth(g, axis=axis)  # the matrix is symmetric


testing.check_grads(
    lambda x: smooth(x, axis=0), (np.asarray([1.0, 2.0, 4.0, 8.0]),), order=2
)
print(agrad.jacobian(lambda x: smooth(x, axis=0))(np.ones(4)).round(2))

# %%
# Define the derivative of a function
# -----------------------------------
#
# ``agrad.custom_vjp`` replaces the derivative of a whole function. Here the rule clips
# the gradient on its way back, which prevents exploding gradients in a recurrence.


@agrad.custom_vjp
def gentle(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state as it is; its cotangents are clipped."""
    return state


def forward(state: dict[str, Any]) -> tuple[dict[str, Any], None]:
    return state, None


def backward(kept: None, g: dict[str, Any]) -> tuple[dict[str, Any]]:
    return ({name: agrad.clip(value, -1.0, 1.0) for name, value in g.items()},)


gentle.defvjp(forward, backward)


def recurrence(h: Any, clipped: bool) -> Any:
    """Return the end of an unstable recurrence."""
    state = {"h": h}
    for _ in range(20):
        state = gentle(state) if clipped else state
        state = {"h": 2.0 * agrad.sin(2.0 * state["h"])}
    return agrad.sum(state["h"])


h = np.asarray([0.1, 0.2])
print(agrad.grad(recurrence)(h, False), agrad.grad(recurrence)(h, True))

# %%
# Summary
# -------
#
# * Use the simplest form that fits: elementwise, primitive, or function.
# * Rules are written in the namespace ``xp`` or with agrad functions, and run on every
#   backend.
# * Test with ``testing.check_grads``, or with ``testing.PrimitiveTest`` in all modes.
#
# Next: :doc:`custom operations </docs/operations>`.
