"""
Move from NumPy to CuPy
=======================

Change one import of a NumPy program, and it runs on a GPU and has derivatives. This
page was built on NumPy. Set ``AGRAD_BACKEND=cupy`` to run the same program on CuPy.
agrad's tests run CuPy on an emulated CUDA; agrad has not run on a GPU yet.
"""

# %%
# Change the import
# -----------------
#
# ``agrad.numpy`` has NumPy's names. ``heat`` below is a NumPy program: it creates an
# array and writes into it.

import importlib.util
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
# Where arrays are created
# ------------------------
#
# Outside of a transform, ``np.linspace`` creates an array on the selected backend. On
# NumPy that is a NumPy array.

x = np.linspace(0.0, 1.0, 41)
start = np.exp(-(((x - 0.3) / 0.1) ** 2))
truth = 0.5 + 0.4 * np.sin(6.0 * (x[1:] + x[:-1]) / 2)
measured = heat(start, truth)
print(type(measured).__name__, measured.dtype)

# %%
# Inside a transform, ``np.zeros`` in ``heat`` creates an array where the arguments of
# the differentiated function are, and accepts traced values.
#
# Convert data from other libraries once, with ``np.asarray(data)``. An operator on
# arrays of two libraries raises ``MixedBackendsError``.
#
# Fit the conductivity
# --------------------
#
# The gradient of the misfit is computed where the arrays are. ``agrad.jit`` compiles
# the step to CUDA graphs on CuPy and to fused loops on NumPy.


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
# At the first peak and far from it no heat flows. There the measurement does not
# determine the conductivity, and the fit keeps the initial value.
#
# Run on another library
# ----------------------
#
# ``agrad.use_backend(name)`` selects a backend for a block. Here it is
# array-api-strict, the reference implementation of the standard.


def sensitivity() -> Any:
    """Return the gradient of the squared temperatures, on the selected backend."""
    start = np.exp(-(((np.linspace(0.0, 1.0, 41) - 0.3) / 0.1) ** 2))
    return agrad.grad(lambda k: np.sum(heat(start, k) ** 2))(np.full(40, 0.5))


if importlib.util.find_spec("array_api_strict"):
    with agrad.use_backend("array_api_strict"):
        other = sensitivity()
    print(other.backend, np.allclose(host(other), host(sensitivity())))

# %%
# Summary
# -------
#
# * Replace ``import numpy as np`` by ``import agrad.numpy as np``.
# * Create the arrays that you write into inside the function that is differentiated.
# * Select the backend once: ``AGRAD_BACKEND=cupy python program.py``.
#
# Libraries that accept arrays of any kind can ask the arrays for their namespace
# instead: ``xp = array_namespace(x)``.
#
# Read on: :doc:`/docs/agrad_numpy` and :doc:`choosing a backend
# </docs/howto/choose_a_backend>`.
