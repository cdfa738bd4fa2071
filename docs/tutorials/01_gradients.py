"""
Differentiate array API code
============================

Write a function with array operations, and let agrad compute its gradient and its
Hessian. The example is a chain of masses and springs. The function does not import
agrad.
"""

# %%
# Define the energy of a chain
# ----------------------------
#
# Masses hang on a string between two fixed points. ``array_namespace`` returns NumPy
# for NumPy arrays, CuPy for CuPy arrays, and agrad for the Tensors inside a transform.

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from array_api_compat import array_namespace

import agrad


def energy(heights: Any, stiffness: float = 60.0, weight: float = 1.0) -> Any:
    """Return the energy of springs between neighbours, and of the masses' heights."""
    xp = array_namespace(heights)
    ends = xp.zeros_like(heights[:1])
    chain = xp.concat([ends, heights, ends])
    stretch = chain[1:] - chain[:-1]
    return 0.5 * stiffness * xp.sum(stretch**2) + weight * xp.sum(heights)


start = np.zeros(30)
print(energy(start))

# %%
# Compute the gradient
# --------------------
#
# ``agrad.grad`` returns a function with the same arguments. For a NumPy array, the
# result is a NumPy array.

slope = agrad.grad(energy)(start)
print(type(slope), slope[:3])

# %%
# Check it with finite differences: move one mass slightly in both directions.

step = np.zeros(30)
step[4] = 1e-6
print((energy(start + step) - energy(start - step)) / 2e-6, slope[4])

# %%
# Minimize the energy
# -------------------
#
# ``agrad.value_and_grad`` computes the value and the gradient in one pass. Gradient
# descent finds the shape of the chain.

descent = agrad.jit(agrad.value_and_grad(energy))
heights, values, shapes = start, [], [start]
for n in range(1500):
    value, slope = descent(heights)
    values.append(float(value))
    heights = heights - 0.008 * slope
    if n in (20, 100, 1499):
        shapes.append(heights)

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for shape, label in zip(
    shapes, ("start", "20 steps", "100 steps", "1,500 steps"), strict=True
):
    left.plot(np.concatenate([[0.0], shape, [0.0]]), ".-", label=label)
left.set(title="the chain", xlabel="mass", ylabel="height")
left.legend()
right.plot(values)
right.set(title="its energy", xlabel="step", xscale="log")
plt.show()

# %%
# The energy is quadratic, so Newton's method needs a single step. It uses the Hessian.

hessian = agrad.hessian(energy)(start)
newton = start - np.linalg.solve(hessian, agrad.grad(energy)(start))
print(
    np.abs(agrad.grad(energy)(newton)).max() < 1e-12,
    np.abs(newton - heights).max() < 0.1,
)

# %%
# Differentiate with respect to other arguments
# ---------------------------------------------
#
# How does the position of the middle depend on the stiffness? ``argnums`` accepts
# positions or names. agrad also differentiates through the solution of the
# minimization.


def sag(stiffness: Any) -> Any:
    """Return the height of the middle mass at the minimum."""
    zero = agrad.zeros_like(stiffness + np.zeros(30))
    matrix = agrad.hessian(energy)(zero, stiffness)
    return agrad.linalg.solve(matrix, -agrad.grad(energy)(zero, stiffness))[15]


stiffness = np.asarray(60.0)
print(sag(stiffness), agrad.grad(sag)(stiffness), -sag(stiffness) / stiffness)

# %%
# The last two numbers agree: the displacement is inversely proportional to the
# stiffness.
#
# Summary
# -------
#
# * ``agrad.grad``, ``agrad.value_and_grad`` and ``agrad.hessian`` accept functions that
#   do not know agrad.
# * For plain arrays, they return plain arrays.
# * Transforms nest, and differentiate through solutions.
#
# Next: :doc:`gradients, JVPs and VJPs </docs/transforms/gradients>`.
