"""
Move from NumPy to CuPy
=======================

Change one import of a NumPy script, and it has derivatives and runs on any backend. You
select the backend with one variable: ``AGRAD_BACKEND=cupy python script.py`` runs it on
a GPU. This page was built on NumPy. The tests run CuPy on an emulated CUDA; agrad has
not run on a GPU yet.
"""

# %%
# Change the import
# -----------------
#
# ``agrad.numpy`` has the NumPy names. ``heat`` below is NumPy code: it creates an array
# and writes into it.

from typing import Any

import matplotlib.pyplot as plt

import agrad
import agrad.numpy as np  # instead of: import numpy as np


def heat(start: Any, conductivity: Any, steps: int = 60) -> Any:
    """Return the temperatures of a rod after some steps, with fixed ends."""
    now = start
    for _ in range(steps):
        flow = conductivity * (now[1:] - now[:-1])
        change = np.zeros(now.shape)
        change[1:-1] = flow[1:] - flow[:-1]
        now = now + 0.4 * change
    return now


# %%
# Create arrays
# -------------
#
# Outside of a transform, ``np.linspace`` creates an array on the selected backend. On
# NumPy, the result is a NumPy array.

x = np.linspace(0.0, 1.0, 41)
start = np.exp(-(((x - 0.3) / 0.1) ** 2))
truth = 0.5 + 0.4 * np.sin(6.0 * (x[1:] + x[:-1]) / 2)
measured = heat(start, truth)
print(type(measured).__name__, measured.dtype)

# %%
# Inside a transform, ``np.zeros`` in ``heat`` uses the backend of the arguments of the
# differentiated function, and the new array accepts traced values.
#
# Convert data from other libraries once, with ``np.asarray(data)``. An operator on
# arrays of two libraries raises ``MixedBackendsError``.
#
# Fit the conductivity
# --------------------
#
# ``agrad.jit`` compiles the step: to CUDA graphs on CuPy, and to fused loops on NumPy.


def misfit(conductivity: Any) -> Any:
    """Return the mean squared difference from the measurement."""
    return np.mean((heat(start, conductivity) - measured) ** 2)


step = agrad.jit(agrad.value_and_grad(misfit))
guess = np.full(40, 0.5)
losses = []
for _ in range(300):
    loss, gradient = step(guess)
    losses.append(float(loss))
    guess = guess - 150.0 * gradient
print(f"misfit {losses[0]:.1e} before the fit, {losses[-1]:.1e} after it")


def host(array: Any) -> Any:
    """Return a NumPy array for the plot."""
    return agrad.asarray(array).numpy()


figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.plot(host(truth), label="true")
left.plot(host(guess), "--", label="fitted")
left.set(title="conductivity")
left.legend()
right.semilogy(losses)
right.set(title="misfit", xlabel="step")
plt.show()

# %%
# No heat flows at the first peak and far from it. There the measurement does not
# determine the conductivity, and the fit keeps the initial value.
#
# Run on another backend
# ----------------------
#
# ``AGRAD_BACKEND`` selects the backend of a whole script. In a script,
# ``agrad.use_backend(name)`` selects it for a block. The function below creates all of
# its arrays, so it runs on each backend.


def sensitivity() -> Any:
    """Return the gradient of the squared temperatures, on the selected backend."""
    start = np.exp(-(((np.linspace(0.0, 1.0, 41) - 0.3) / 0.1) ** 2))
    return agrad.grad(lambda k: np.sum(heat(start, k, 20) ** 2))(np.full(40, 0.5))


for name in ("numpy", "cupy", "torch", "array_api_strict", "dask"):
    if not agrad.available_backends()[name].available:
        print(f"{name:16} not installed on this machine")
        continue
    with agrad.use_backend(name):
        result = agrad.asarray(sensitivity())
    print(f"{name:16} {type(result.data).__module__:34} {host(result)[:2]}")

# %%
# The second column is the module of the arrays that the backend computes with.
#
# Summary
# -------
#
# * Replace ``import numpy as np`` by ``import agrad.numpy as np``.
# * Create the arrays that you write into inside the function that is differentiated.
# * Select the backend once: ``AGRAD_BACKEND=cupy python script.py``.
#
# Code for arrays of any library can ask the arrays for their namespace instead, with
# ``array_namespace``: :doc:`01_gradients`.
#
# Next: :doc:`/docs/agrad_numpy` and :doc:`choosing a backend
# </docs/howto/choose_a_backend>`.
