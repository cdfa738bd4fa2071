"""
Equations and differential equations
====================================

A value may be defined by an equation and not by a formula. Its derivative then follows from the equation: the steps of
the solver are not differentiated, and not kept.
"""

# %%
# A fixed point
# -------------
#
# Prices that settle where each reacts to the others. ``agrad.fixed_point`` iterates; the gradient solves one linear
# equation, by the implicit function theorem.

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import agrad

RNG = np.random.default_rng(0)
LINKS = 0.15 * RNG.normal(size=(6, 6))


def settled(demand: Any) -> Any:
    """Return the prices at which nothing changes any more."""
    return agrad.fixed_point(lambda p: agrad.tanh(LINKS @ p + demand), np.zeros(6))


demand = np.linspace(0.1, 0.6, 6)
prices = settled(demand)
print(np.abs(np.tanh(LINKS @ prices + demand) - prices).max() < 1e-6)
jacobian = agrad.jacobian(settled)(demand)

figure, axes = plt.subplots(figsize=(4, 3.2), layout="constrained")
image = axes.imshow(jacobian, cmap="RdBu", vmin=-1, vmax=1)
axes.set(title="how prices follow demand", xlabel="demand", ylabel="price")
figure.colorbar(image)
plt.show()

# %%
# A root
# ------
#
# ``agrad.root`` finds where a function is zero. How does the solution of Kepler's equation depend on the eccentricity?


def anomaly(eccentricity: Any) -> Any:
    """Return E with E - e sin E = 2."""
    return agrad.root(lambda e: e - eccentricity * agrad.sin(e) - 2.0, np.asarray(2.0))


value, slope = agrad.value_and_grad(anomaly)(np.asarray(0.3))
print(value, slope, np.sin(value) / (1.0 - 0.3 * np.cos(value)))

# %%
# A differential equation
# -----------------------
#
# Predators and prey. ``agrad.odeint`` takes the right side, a start and times, and chooses its steps. Arguments of the
# right side are differentiated.


def change(state: Any, t: Any, rates: Any) -> Any:
    """Return the change of prey and predators."""
    prey, predators = state[0], state[1]
    return agrad.stack([prey * (rates[0] - rates[1] * predators), predators * (rates[2] * prey - rates[3])])


START, TIMES = np.asarray([1.0, 1.0]), np.linspace(0.0, 12.0, 61)


def numbers(rates: Any) -> Any:
    """Return the numbers of both at all times, (times, 2)."""
    return agrad.odeint(change, START, TIMES, rates, rtol=1e-7, atol=1e-9)


truth = np.asarray([1.1, 0.4, 0.1, 0.4]) * 1.5
seen = numbers(truth)
print(seen.shape)

# %%
# A forward pass along one rate tells how everything follows it.

_, along = agrad.jvp(numbers, (truth,), (np.asarray([1.0, 0.0, 0.0, 0.0]),))
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for k, name in enumerate(("prey", "predators")):
    left.plot(TIMES, seen[:, k], label=name)
    right.plot(TIMES, along[:, k], label=name)
left.set(title="numbers", xlabel="time")
right.set(title="derivative by the prey's growth", xlabel="time")
left.legend()
plt.show()

# %%
# A fit
# -----
#
# The gradient of a misfit needs one pass back, whatever the number of rates. Gauss and Newton's method uses the
# Jacobian, of which four forward passes make the columns.

rates = truth * np.asarray([0.97, 1.02, 1.03, 0.98])
for _ in range(6):
    residual = (numbers(rates) - seen).reshape(-1)
    columns = agrad.jacfwd(numbers)(rates).reshape(-1, 4)
    rates = rates - np.linalg.lstsq(columns, residual, rcond=None)[0]
print(np.abs(rates / truth - 1.0).max() < 1e-4)

# %%
# To remember
# -----------
#
# * ``fixed_point``, ``root``, ``linear_solve``, ``odeint``: one operation on the tape, whatever they iterate.
# * All modes and orders compose, with ``vmap`` too.
# * Tolerances of the solution are those of the derivative: ``rtol=``, ``atol=``.
#
# Read on: :doc:`equations </docs/transforms/implicit>`.
