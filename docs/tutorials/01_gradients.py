"""
Gradients of array API code
===========================

A function that asks its arrays for their namespace runs on any array library. Here such a function, a chain of springs,
gets its gradient, its minimum and its Hessian, without a change to it.
"""

# %%
# The energy of a chain
# ---------------------
#
# Masses hang on a string between two fixed points. ``array_namespace`` gives NumPy for NumPy's arrays, CuPy for
# CuPy's, and agrad where agrad differentiates.

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
# Its gradient
# ------------
#
# ``agrad.grad`` returns a function with the same arguments. The result is a NumPy array, as the argument is one.

slope = agrad.grad(energy)(start)
print(type(slope), slope[:3])

# %%
# A check by finite differences: move one mass a little to each side.

step = np.zeros(30)
step[4] = 1e-6
print((energy(start + step) - energy(start - step)) / 2e-6, slope[4])

# %%
# Downhill
# --------
#
# ``agrad.value_and_grad`` computes both in one pass. Gradient descent lets the chain sag.

descent = agrad.jit(agrad.value_and_grad(energy))
heights, values, shapes = start, [], [start]
for n in range(1500):
    value, slope = descent(heights)
    values.append(float(value))
    heights = heights - 0.008 * slope
    if n in (20, 100, 1499):
        shapes.append(heights)

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for shape, label in zip(shapes, ("start", "20 steps", "100 steps", "1,500 steps"), strict=True):
    left.plot(np.concatenate([[0.0], shape, [0.0]]), ".-", label=label)
left.set(title="the chain", xlabel="mass", ylabel="height")
left.legend()
right.plot(values)
right.set(title="its energy", xlabel="step", xscale="log")
plt.show()

# %%
# The energy is quadratic, so Newton's method needs a single step: the Hessian is a derivative of a derivative.

hessian = agrad.hessian(energy)(start)
newton = start - np.linalg.solve(hessian, agrad.grad(energy)(start))
print(np.abs(agrad.grad(energy)(newton)).max() < 1e-12, np.abs(newton - heights).max() < 0.1)

# %%
# Derivatives by other arguments
# ------------------------------
#
# How does the sag of the middle depend on the stiffness? ``argnums`` takes positions or names; the solution of the
# minimum is differentiated like all other code.


def sag(stiffness: Any) -> Any:
    """Return the height of the middle mass at the minimum."""
    zero = agrad.zeros_like(stiffness + np.zeros(30))
    matrix = agrad.hessian(energy)(zero, stiffness)
    return agrad.linalg.solve(matrix, -agrad.grad(energy)(zero, stiffness))[15]


stiffness = np.asarray(60.0)
print(sag(stiffness), agrad.grad(sag)(stiffness), -sag(stiffness) / stiffness)

# %%
# The last two agree: the sag is inversely proportional to the stiffness.
#
# To remember
# -----------
#
# * Functions stay as they are; ``agrad.grad``, ``agrad.value_and_grad`` and ``agrad.hessian`` take them.
# * Raw arrays in, raw arrays out.
# * Transforms nest, and differentiate through solutions.
#
# Read on: :doc:`all transforms </docs/transforms/README>`.
