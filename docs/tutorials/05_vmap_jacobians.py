"""
Maps over members, and Jacobians
================================

``agrad.vmap`` calls a function for every member of a batch at once. With derivatives inside and outside of it there are
gradients of each sample, Jacobians, and Hessians of many points.
"""

# %%
# A function of one point
# -----------------------
#
# The gravity of two bodies acts on a point of the plane. The function knows one point only.

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
# Many points
# -----------
#
# ``agrad.vmap`` makes a function of many points of it, and of its gradient. There is no loop over the points: each
# operation runs once for all of them.

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
left.quiver(x, y, *(force[:, k].reshape(shape)[some] / length for k in range(2)), color="white")
left.set(title="potential and force", aspect="equal")

# %%
# Jacobians
# ---------
#
# The Jacobian of the gradient is the Hessian. ``agrad.hessian`` nests a forward mode in a reverse mode, and a map takes
# it to all points: its trace is the Laplacian, large where matter is.

hessians = agrad.vmap(agrad.hessian(potential))(grid)
laplacian = np.trace(hessians, axis1=1, axis2=2)
print(hessians.shape)
right.contourf(axis, axis, laplacian.reshape(shape), levels=24)
right.set(title="trace of the Hessian", aspect="equal")
plt.show()

# %%
# Which way is cheaper?
# ---------------------
#
# ``agrad.jacrev`` takes a reverse pass an output, ``agrad.jacfwd`` a forward pass an input, and ``agrad.jacobian`` the
# cheaper way. All give the same numbers.


def polar(point: Any) -> Any:
    """Return radius and angle."""
    return agrad.stack([agrad.sqrt(agrad.sum(point**2)), agrad.atan2(point[1], point[0])])


at = np.asarray([3.0, 4.0])
print(agrad.jacobian(polar)(at))
print(np.allclose(agrad.jacrev(polar)(at), agrad.jacfwd(polar)(at)))

# %%
# Products without the matrix
# ---------------------------
#
# Often a Jacobian is needed only times a vector. ``agrad.jvp``, ``agrad.vjp`` and ``agrad.hvp`` compute the product
# alone, at the cost of a few calls of the function, whatever its size.

direction = np.asarray([1.0, 0.0])
_, along = agrad.jvp(polar, (at,), (direction,))
value, pullback = agrad.vjp(polar, at)
print(along, pullback(np.asarray([0.0, 1.0])))
print(agrad.hvp(potential, (at,), (direction,)))

# %%
# To remember
# -----------
#
# * Write for one member, then map: ``agrad.vmap(agrad.grad(f))``.
# * ``in_axes=(None, 0)`` keeps an argument for all members.
# * ``chunk_size=`` bounds the memory of maps and Jacobians.
#
# Read on: :doc:`maps </docs/transforms/vmap>`.
