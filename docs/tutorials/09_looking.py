"""
Finding a NaN, profiling, drawing graphs
========================================

Three questions about a program: where does this NaN come from, where does the time go, and what does the function do?
"""

# %%
# Where does the NaN come from?
# -----------------------------
#
# A loss is fine, and its gradient is not.

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
# Under ``agrad.detect_anomaly`` the first operation or rule that makes a NaN or an infinity stops the program and says
# which one it is.

try:
    with agrad.detect_anomaly(), np.errstate(all="ignore"):
        agrad.grad(distances)(points)
except agrad.errors.AnomalyError as error:
    print(str(error).partition(";")[0])

# %%
# The distance of a point from itself is 0, where the root has no derivative. The remedy is not to compute it: ``where``
# before the root, not after it.


def mended(points: Any) -> Any:
    """Return the sum of the distances of all pairs of different points."""
    squares = agrad.sum((points[:, None, :] - points[None, :, :]) ** 2, axis=-1)
    apart = squares > 0
    return agrad.sum(agrad.where(apart, agrad.sqrt(agrad.where(apart, squares, 1.0)), 0.0))


print(agrad.grad(mended)(points))

# %%
# What does the function do?
# --------------------------
#
# ``agrad.graph(f)`` lists the operations of a call, with shapes and values. Of a transformed function it shows those
# that the transform made.

graph = agrad.graph(mended)(points)
print(graph)

# %%
# In a notebook, and here, the graph itself is a picture. The numbers are sizes and times.

graph

# %%
# Where does the time go?
# -----------------------
#
# ``agrad.profile`` counts and times all operations, forward and backward.

many = np.random.default_rng(0).normal(size=(300, 2))
with agrad.profile() as p:
    for _ in range(5):
        agrad.grad(mended)(many)
rows = list(p.rows("name"))
print(p)

# %%
# As a picture, the times are bars on bars.

p

# %%
# The rows are plain values, so that a plot is a few lines: on the left the times, on the right the sizes of results.

labels = [f"{row.operation} ({row.direction})" for row in rows]
figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.5), sharey=True, layout="constrained")
left.barh(labels, [row.seconds * 1e3 for row in rows])
left.set(xlabel="ms in five calls")
right.barh(labels, [row.bytes / 1e6 for row in rows])
right.set(xlabel="MB of results in five calls")
plt.show()

# %%
# To remember
# -----------
#
# * ``agrad.detect_anomaly()`` names the first NaN.
# * ``agrad.graph(f)(x)`` shows operations, ``agrad.graph(tensor)`` the tape of a Tensor.
# * ``agrad.profile()`` shows time and bytes; ``lines=True`` adds the lines of the program.
#
# Read on: :doc:`inspection </docs/inspecting>`.
