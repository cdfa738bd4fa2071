"""
Differentiate solvers and ODEs
==============================

The solution of an equation can be differentiated without differentiating the steps of
the solver. agrad uses the implicit function theorem, so the steps need no memory.
"""

# %%
# Differentiate a fixed point
# ---------------------------
#
# Prices reach an equilibrium in which each price reacts to the others.
# ``agrad.fixed_point`` iterates. The gradient solves one linear equation.

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import agrad

RNG = np.random.default_rng(0)
LINKS = 0.15 * RNG.normal(size=(6, 6))


def settled(demand: Any) -> Any:
    """Return the prices that no longer change."""
    return agrad.fixed_point(lambda p: agrad.tanh(LINKS @ p + demand), np.zeros(6))


demand = np.linspace(0.1, 0.6, 6)
prices = settled(demand)
print(prices.round(3))
change_of_prices = np.tanh(LINKS @ prices + demand) - prices
print(f"largest change {np.abs(change_of_prices).max():.0e}")
jacobian = agrad.jacobian(settled)(demand)

figure, axes = plt.subplots(figsize=(4, 3.2), layout="constrained")
image = axes.imshow(jacobian, cmap="RdBu", vmin=-1, vmax=1)
axes.set(title="how prices follow demand", xlabel="demand", ylabel="price")
figure.colorbar(image)
plt.show()

# %%
# Differentiate a root
# --------------------
#
# ``agrad.root`` finds a zero of a function. How does the solution of Kepler's equation
# :math:`E - e \sin\,E = 2` depend on the eccentricity :math:`e`? The last number is the
# derivative by hand, :math:`\sin\,E / (1 - e \cos\,E)`.


def anomaly(eccentricity: Any) -> Any:
    """Return E with E - e sin E = 2."""
    return agrad.root(lambda e: e - eccentricity * agrad.sin(e) - 2.0, np.asarray(2.0))


value, derivative = agrad.value_and_grad(anomaly)(np.asarray(0.3))
print(f"{value:.6f} {derivative:.6f} {np.sin(value) / (1 - 0.3 * np.cos(value)):.6f}")

# %%
# Solve a differential equation
# -----------------------------
#
# ``agrad.odeint`` accepts a right-hand side, an initial state and times, and chooses
# its steps. The example is a model of predators and prey. You can differentiate with
# respect to the arguments of the right-hand side.


def change(state: Any, t: Any, rates: Any) -> Any:
    """Return the change of prey and predators."""
    prey, predators = state[0], state[1]
    return agrad.stack(
        [
            prey * (rates[0] - rates[1] * predators),
            predators * (rates[2] * prey - rates[3]),
        ]
    )


START, TIMES = np.asarray([1.0, 1.0]), np.linspace(0.0, 12.0, 61)


def numbers(rates: Any) -> Any:
    """Return the numbers of both at all times, (times, 2)."""
    return agrad.odeint(change, START, TIMES, rates, rtol=1e-7, atol=1e-9)


truth = np.asarray([1.1, 0.4, 0.1, 0.4]) * 1.5
seen = numbers(truth)
print(seen.shape)

# %%
# A forward pass computes how everything depends on one rate.

_, along = agrad.jvp(numbers, (truth,), (np.asarray([1.0, 0.0, 0.0, 0.0]),))
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for k, name in enumerate(("prey", "predators")):
    left.plot(TIMES, seen[:, k], label=name)
    right.plot(TIMES, along[:, k], label=name)
left.set(title="numbers", xlabel="time")
right.set(title="derivative with respect to the growth rate", xlabel="time")
left.legend()
plt.show()

# %%
# Fit the model
# -------------
#
# The gradient of a misfit needs one backward pass, whatever the number of rates. The
# Gauss-Newton method uses the Jacobian, which needs four forward passes.

rates = truth * np.asarray([0.97, 1.02, 1.03, 0.98])
for _ in range(6):
    residual = (numbers(rates) - seen).reshape(-1)
    columns = agrad.jacfwd(numbers)(rates).reshape(-1, 4)
    rates = rates - np.linalg.lstsq(columns, residual, rcond=None)[0]
print(rates.round(4), truth.round(4))

# %%
# Summary
# -------
#
# * ``fixed_point``, ``root``, ``linear_solve`` and ``odeint`` are one operation in the
#   graph.
# * They support all modes and orders, and ``vmap``.
# * ``rtol=`` and ``atol=`` set the accuracy of the solution and of the derivative.
#
# Next: :doc:`implicit differentiation </docs/transforms/implicit>`.
