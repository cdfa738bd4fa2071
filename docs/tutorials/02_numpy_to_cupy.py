"""
From NumPy to CuPy
==================

The arrays decide where a program runs. This program runs on NumPy when this page is built; with
``AGRAD_BACKEND=cupy`` it computes on a GPU, and nothing in it is changed. agrad's tests run the real CuPy on an
emulated CUDA; on a GPU it has not run yet.
"""

# %%
# What differs between the two libraries
# --------------------------------------
#
# Nothing in code that asks its arrays for their namespace. ``heat`` is such code.

import importlib.util
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from array_api_compat import array_namespace

import agrad


def heat(start: Any, conductivity: Any, steps: int = 60) -> Any:
    """Return the temperatures of a rod after some steps; its ends are kept."""
    xp = array_namespace(start, conductivity)
    now = start
    for _ in range(steps):
        flow = conductivity * (now[1:] - now[:-1])
        zero = xp.zeros_like(flow[:1])
        now = now + 0.4 * xp.concat([zero, flow[1:] - flow[:-1], zero])
    return now


# %%
# Where new arrays are made
# -------------------------
#
# Most arrays follow from others and are where these are. Only new ones need a place. ``agrad.linspace`` makes them on
# the selected backend: that of ``AGRAD_BACKEND``, or of ``agrad.use_backend``.

x = agrad.linspace(0.0, 1.0, 41)
start = agrad.exp(-(((x - 0.3) / 0.1) ** 2))
truth = 0.5 + 0.4 * agrad.sin(6.0 * (x[1:] + x[:-1]) / 2)
measured = heat(start, truth)
print(measured.backend, measured.device)

# %%
# Data of the host are put there by ``agrad.asarray(array, backend=...)`` or ``tensor.to("cupy")``; ``numpy()`` brings
# results back. No array moves by itself: a program that mixes libraries is an error that names both.
#
# A fit
# -----
#
# Which conductivities explain the measurement? The gradient of the misfit is computed where the arrays are. The jitted
# step becomes CUDA graphs on CuPy, and fused blocks on NumPy.


def misfit(conductivity: Any) -> Any:
    """Return the mean of the squared differences from the measurement."""
    return agrad.mean((heat(start, conductivity) - measured) ** 2)


step = agrad.jit(agrad.value_and_grad(misfit))
guess = agrad.full(40, 0.5)
losses = []
for _ in range(300):
    loss, slope = step(guess)
    losses.append(float(loss))
    guess = guess - 150.0 * slope
print(f"misfit {losses[0]:.1e} at first, {losses[-1]:.1e} at last")

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.plot(truth.numpy(), label="the truth")
left.plot(guess.numpy(), "--", label="the fit")
left.set(title="conductivity")
left.legend()
right.semilogy(losses)
right.set(title="misfit", xlabel="step")
plt.show()

# %%
# Where no heat flows, at the first peak and far from it, the measurement says nothing of the conductivity, and the
# guess stays what it was.
#
# The same on another library
# ---------------------------
#
# ``with agrad.use_backend(name)`` selects one for a block. Here it is array-api-strict, the standard's reference, which
# refuses whatever is not in the standard. It is left out where it is missing.


def sensitivity() -> Any:
    """Return how the squared temperatures follow each conductivity, on the selected backend."""
    start = agrad.exp(-(((agrad.linspace(0.0, 1.0, 41) - 0.3) / 0.1) ** 2))
    return agrad.grad(lambda k: agrad.sum(heat(start, k) ** 2))(agrad.full(40, 0.5))


if importlib.util.find_spec("array_api_strict"):
    with agrad.use_backend("array_api_strict"):
        other = sensitivity()
    print(other.backend, np.allclose(other.numpy(), sensitivity().numpy()))

# %%
# To remember
# -----------
#
# * Ask the arrays: ``xp = array_namespace(x)``.
# * Make new arrays with ``agrad.linspace`` and the like, or like others: ``xp.zeros_like(x)``.
# * Select once: ``AGRAD_BACKEND=cupy python program.py``.
#
# Read on: :doc:`choosing a backend </docs/howto/choose_a_backend>`.
