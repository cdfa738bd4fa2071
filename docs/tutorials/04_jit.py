"""
Compile a function or a training step with ``jit``
==================================================

``agrad.jit`` records the operations of a function at its first call, optimizes them,
and runs the compiled function in all later calls. It works on NumPy and CuPy arrays: on
NumPy, it computes blocks that fit in the cache; on CuPy, it creates CUDA kernels and
graphs.
"""

# %%
# Compile a gradient
# ------------------
#
# The function applies a chain of operations to each element. Compile its gradient, not
# only the function: the compiler can then combine the operations of both passes.

import textwrap
import time
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import agrad
from agrad import nn, optim


def wave(x: Any, rate: Any) -> Any:
    """Return a sum over a chain of operations on each element."""
    y = agrad.sin(x * rate) ** 2
    return agrad.sum(y / (1.0 + agrad.exp(-x)) + agrad.sqrt(1.0 + y))


x = np.linspace(0.0, 1.0, 1_000_000)
gradient, fast = agrad.grad(wave), agrad.jit(agrad.grad(wave))
print(gradient(x, 3.0)[-3:], fast(x, 3.0)[-3:])

# %%
# Show the operations
# -------------------
#
# ``lower`` shows the recorded operations after each compiler pass. The last passes
# combine them into one block, which is computed in pieces that fit in the cache of the
# processor.

text = str(fast.lower(x, 3.0))
print("\n".join(text.splitlines()[:18]))

# %%
# Measure the gain
# ----------------
#
# The times are from the machine that built this page: the best of several calls.


def best(f: Callable[..., Any], *args: Any) -> float:
    """Return the shortest time of five calls in milliseconds."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        f(*args)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


sizes = [100, 1_000, 10_000, 100_000, 1_000_000]
eager = [best(gradient, x[:n], 3.0) for n in sizes]
jitted = []
for n in sizes:
    fast(x[:n], 3.0)  # a new shape is traced
    jitted.append(best(fast, x[:n], 3.0))

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.loglog(sizes, eager, "o-", label="eager")
axes.loglog(sizes, jitted, "o-", label="compiled")
axes.set(xlabel="elements", ylabel="time of a gradient (ms)")
axes.legend()
plt.show()

# %%
# Compile a training step
# -----------------------
#
# A jitted function can call ``.backward()`` and an optimizer. agrad finds the
# parameters, their gradients and the state of the optimizer, and updates them in each
# call.

nn.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = optim.Adam(model.parameters(), lr=0.01)


def train(inputs: Any, targets: Any) -> Any:
    """Take one step of Adam, and return the loss."""
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


rng = np.random.default_rng(0)
inputs = agrad.asarray(rng.normal(size=(64, 8)).astype(np.float32))
targets = agrad.sum(inputs**2, axis=1, keepdims=True) / 8
compiled = agrad.jit(train)
print(f"loss {compiled(inputs, targets).item():.1e}")
for _ in range(400):
    loss = compiled(inputs, targets)
print(f"loss {loss.item():.1e} after 400 steps")
times = [best(step, inputs, targets) for step in (train, compiled)]
print(f"one step: {times[0]:.2f} ms eager, {times[1]:.2f} ms compiled")

# %%
# The same script trains on CuPy with ``AGRAD_BACKEND=cupy``. There, the compiled step
# is a CUDA graph, which the GPU starts with a single call.
#
# Know when a function is traced again
# ------------------------------------
#
# A new shape, dtype or backend, a new integer, or a change of a value that the function
# reads from outside causes a new trace. A new float does not. ``explain`` returns the
# reasons.

counted = agrad.jit(wave)
for rate in (1.0, 2.0, 3.0):
    counted(x[:10], rate)
print(counted.cache_info())
counted(x[:20], 1.0)
print(counted.explain())

# %%
# Python code in the function runs during the trace. A branch on a value cannot be
# recorded, so it raises an error. ``agrad.where`` selects elements, and ``agrad.cond``
# selects one of two functions.


def branching(x: Any) -> Any:
    """Return the root of a positive sum."""
    total = agrad.sum(x)
    return agrad.sqrt(total) if total > 0 else total


try:
    agrad.jit(branching)(x)
except agrad.errors.TracedValueError as error:
    print(textwrap.fill(str(error), 80))

chosen = agrad.jit(
    lambda x: agrad.cond(agrad.sum(x) > 0, agrad.sqrt, lambda s: s, agrad.sum(x))
)
print(chosen(x), branching(x))

# %%
# Summary
# -------
#
# * Compile the largest function that you have: a gradient, or a whole training step.
# * Pass everything that changes as an argument.
# * ``lower`` shows the operations, ``cache_info`` and ``explain`` show the traces.
#
# Next: :doc:`compile with agrad.jit </docs/jit>`.
