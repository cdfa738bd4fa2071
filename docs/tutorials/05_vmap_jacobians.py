"""
Batch with ``vmap`` and compute Jacobians
=========================================

``agrad.vmap`` evaluates a function for all elements of a batch at once. Combined with
derivatives, it computes one gradient per sample, Jacobians, and Hessians at many
points.
"""

# %%
# Write a function of one point
# -----------------------------
#
# Two bodies attract a point in the plane by gravity. Body :math:`i` with mass
# :math:`m_i` at :math:`b_i` adds the potential
# :math:`-m_i / \sqrt{|b_i - x|^2 + 0.05}`. The function accepts a single point.

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import agrad

BODIES = np.asarray([[-1.0, 0.0], [1.0, 0.0]])
MASSES = np.asarray([1.0, 0.5])


def potential(point: Any) -> Any:
    """Return the potential at a point."""
    distance = agrad.sqrt(agrad.sum((BODIES - point) ** 2, axis=1) + 0.05)
    return -agrad.sum(MASSES / distance)


print(potential(np.asarray([0.0, 1.0])), agrad.grad(potential)(np.asarray([0.0, 1.0])))

# %%
# Evaluate it at many points
# --------------------------
#
# ``agrad.vmap`` makes it a function of many points, and does the same for its gradient.
# Each operation runs once for all points.

axis = np.linspace(-2.0, 2.0, 41)
grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
values = agrad.vmap(potential)(grid)
force = -agrad.vmap(agrad.grad(potential))(grid)
print(values.shape, force.shape)

figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.6), layout="constrained")
shape = (41, 41)
left.contourf(axis, axis, values.reshape(shape), levels=24)
some = (slice(None, None, 3), slice(None, None, 3))
x, y = (grid[:, k].reshape(shape)[some] for k in range(2))
length = np.hypot(*force.T).reshape(shape)[some]
left.quiver(
    x, y, *(force[:, k].reshape(shape)[some] / length for k in range(2)), color="white"
)
left.set(title="potential and force", aspect="equal")

# %%
# Compute Jacobians
# -----------------
#
# The Jacobian of the gradient is the Hessian. ``agrad.hessian`` uses forward mode over
# reverse mode, and ``vmap`` computes it at all points. Its trace is the Laplacian,
# which is large near the bodies.

hessians = agrad.vmap(agrad.hessian(potential))(grid)
laplacian = np.trace(hessians, axis1=1, axis2=2)
print(hessians.shape)
right.contourf(axis, axis, laplacian.reshape(shape), levels=24)
right.set(title="trace of the Hessian", aspect="equal")
plt.show()

# %%
# Choose the cheaper mode
# -----------------------
#
# ``agrad.jacrev`` needs one reverse pass per output, and ``agrad.jacfwd`` one forward
# pass per input. ``agrad.jacobian`` chooses the cheaper mode. All return the same
# matrix.


def polar(point: Any) -> Any:
    """Return radius and angle."""
    return agrad.stack(
        [agrad.sqrt(agrad.sum(point**2)), agrad.atan2(point[1], point[0])]
    )


at = np.asarray([3.0, 4.0])
for jacobian in (agrad.jacrev, agrad.jacfwd):
    print(jacobian(polar)(at))

# %%
# Compute products without the matrix
# -----------------------------------
#
# Often you need only the product of a Jacobian with a vector. ``agrad.jvp``,
# ``agrad.vjp`` and ``agrad.hvp`` compute it at the cost of a few calls of the function.

direction = np.asarray([1.0, 0.0])
_, along = agrad.jvp(polar, (at,), (direction,))
value, pullback = agrad.vjp(polar, at)
print(along, pullback(np.asarray([0.0, 1.0])))
print(agrad.hvp(potential, (at,), (direction,)))

# %%
# Summary
# -------
#
# * Write a function for one example, then batch it: ``agrad.vmap(agrad.grad(f))``.
# * ``in_axes=(None, 0)`` shares the first argument between all batch elements.
# * ``chunk_size=`` limits the memory of ``vmap`` and Jacobians.
#
# Next: :doc:`batch with vmap </docs/transforms/vmap>`.
