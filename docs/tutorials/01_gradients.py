"""
Differentiate array API code
============================

agrad computes derivatives of functions that are written for NumPy, CuPy or any other
array library, and do not import agrad. You do not change the function. The example is
the energy of a chain of masses and springs.
"""

# %%
# Define the energy of a chain
# ----------------------------
#
# Masses hang on a string between two fixed points. The energy of the heights
# :math:`h_i` with stiffness :math:`k` and weight :math:`w` is
#
# .. math:: E(h) = \frac{k}{2} \sum_i (h_{i+1} - h_i)^2 + w \sum_i h_i
#
# ``array_namespace`` returns NumPy for NumPy arrays, CuPy for CuPy arrays, and agrad
# for the Tensors inside a transform.

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from array_api_compat import array_namespace

import agrad


def energy(heights: Any, stiffness: float = 60.0, weight: float = 1.0) -> Any:
    """Return the energy of springs between neighbors, and of the heights."""
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

heights = np.linspace(0.0, 1.0, 30) ** 2
gradient = agrad.grad(energy)(heights)
print(type(gradient).__name__, gradient[:3].round(4))

# %%
# Check it with finite differences: move one mass slightly in both directions.

step = np.zeros(30)
step[4] = 1e-6
difference = (energy(heights + step) - energy(heights - step)) / 2e-6
print(f"{difference:.6f} {gradient[4]:.6f}")

# %%
# The function can also use NumPy itself. NumPy functions accept the arrays of a
# transform, and so do assignments to elements.


def energy_in_numpy(heights: Any) -> Any:
    """Return the same energy, written with NumPy."""
    chain = np.zeros_like(heights, shape=32)
    chain[1:-1] = heights
    return 30.0 * np.sum(np.diff(chain) ** 2) + np.sum(heights)


print(agrad.grad(energy_in_numpy)(heights)[:3].round(4))

# %%
# Use arrays of another library
# -----------------------------
#
# The arrays that you pass select the library. For a PyTorch tensor, PyTorch computes,
# and the gradient is a PyTorch tensor. For a CuPy array, the same call runs on the GPU.
# This site was built with array-api-strict and Dask.

for name in ("array_api_strict", "dask", "torch", "cupy"):
    if agrad.available_backends()[name].available:
        array = agrad.asarray(heights, backend=name).data
        result = agrad.grad(energy)(array)
        print(f"{name}: {type(result).__module__}, {float(result[4]):.6f}")

# %%
# Minimize the energy
# -------------------
#
# ``agrad.value_and_grad`` computes the value and the gradient in one pass. Gradient
# descent finds the shape of the chain.

descent = agrad.jit(agrad.value_and_grad(energy))
heights, values, shapes = start, [], [start]
for n in range(1500):
    value, gradient = descent(heights)
    values.append(float(value))
    heights = heights - 0.008 * gradient
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
print(f"largest force {np.abs(agrad.grad(energy)(newton)).max():.1e}")
print(f"height of the middle {newton[15]:.4f}, after descent {heights[15]:.4f}")

# %%
# Differentiate with respect to other arguments
# ---------------------------------------------
#
# How does the position of the middle depend on the stiffness? ``argnums`` accepts
# positions or names. You can also differentiate the minimum itself, with Newton's step
# inside the function.


def sag(stiffness: Any) -> Any:
    """Return the height of the middle mass at the minimum."""
    zero = agrad.zeros_like(stiffness + np.zeros(30))
    matrix = agrad.hessian(energy)(zero, stiffness)
    return agrad.linalg.solve(matrix, -agrad.grad(energy)(zero, stiffness))[15]


stiffness = np.asarray(60.0)
middle, derivative = agrad.value_and_grad(sag)(stiffness)
print(f"{middle:.6f} {derivative:.6f} {-middle / stiffness:.6f}")

# %%
# The last two numbers agree: the displacement is inversely proportional to the
# stiffness.
#
# Summary
# -------
#
# * ``agrad.grad``, ``agrad.value_and_grad`` and ``agrad.hessian`` accept functions that
#   do not know agrad.
# * The arrays that you pass select the library, and the results are arrays of it.
# * Transforms nest: ``sag`` contains a gradient and a Hessian, and has a derivative.
#
# Next: :doc:`gradients, JVPs and VJPs </docs/transforms/gradients>`.
