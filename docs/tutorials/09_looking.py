"""
Debug and profile
=================

Find the operation that computes a NaN, show the operations of a function, and measure
the time of each.
"""

# %%
# Find the first NaN
# ------------------
#
# In this example, the loss is finite and its gradient is not.

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import agrad


def distances(points: Any) -> Any:
    """Return the sum of the distances of all pairs."""
    differences = points[:, None, :] - points[None, :, :]
    return agrad.sum(agrad.sqrt(agrad.sum(differences**2, axis=-1)))


points = np.asarray([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
with np.errstate(all="ignore"):
    print(distances(points), agrad.grad(distances)(points), sep="\n")

# %%
# Inside ``agrad.detect_anomaly``, the first operation or rule that computes a NaN or an
# infinity raises an error with its name.

try:
    with agrad.detect_anomaly(), np.errstate(all="ignore"):
        agrad.grad(distances)(points)
except agrad.errors.AnomalyError as error:
    print(str(error).partition(";")[0])

# %%
# The distance of a point from itself is 0, at which the square root has no derivative.
# To fix this, avoid computing the root of 0: apply ``where`` before the root, not only
# after it.


def smooth_distances(points: Any) -> Any:
    """Return the sum of the distances of all pairs of different points."""
    squares = agrad.sum((points[:, None, :] - points[None, :, :]) ** 2, axis=-1)
    apart = squares > 0
    return agrad.sum(
        agrad.where(apart, agrad.sqrt(agrad.where(apart, squares, 1.0)), 0.0)
    )


print(agrad.grad(smooth_distances)(points))

# %%
# Show the operations
# -------------------
#
# ``agrad.graph(f)`` lists the operations of a call, with shapes and values. For a
# transformed function, it includes the operations of the transform.

graph = agrad.graph(smooth_distances)(points)
print(graph)

# %%
# Notebooks display the graph as a picture, with sizes and times.

graph

# %%
# Measure the time
# ----------------
#
# ``agrad.profile`` counts and times all operations, forward and backward.

many = np.random.default_rng(0).normal(size=(300, 2))
with agrad.profile() as p:
    for _ in range(5):
        agrad.grad(smooth_distances)(many)
rows = list(p.rows("name"))
print(p)

# %%
# A flame graph shows the times.

p

# %%
# The rows contain numbers, so you can plot them: on the left the times, on the right
# the sizes of the results.

labels = [f"{row.operation} ({row.direction})" for row in rows]
figure, (left, right) = plt.subplots(
    1, 2, figsize=(8.5, 3.5), sharey=True, layout="constrained"
)
left.barh(labels, [row.seconds * 1e3 for row in rows])
left.set(xlabel="ms in five calls")
right.barh(labels, [row.bytes / 1e6 for row in rows])
right.set(xlabel="MB of results in five calls")
plt.show()

# %%
# Summary
# -------
#
# * ``agrad.detect_anomaly()`` finds the first NaN.
# * ``agrad.graph(f)(x)`` shows operations, and ``agrad.graph(tensor)`` shows the graph
#   of a Tensor.
# * ``agrad.profile()`` measures time and memory; ``lines=True`` adds the source lines.
#
# Next: :doc:`debug and profile </docs/inspecting>`.
