"""
Traced once, replayed
=====================

``agrad.jit`` records what a function does at its first call, improves the program, and runs it at each call after that.
What does it do, when does it trace again, and what is gained?
"""

# %%
# A chain of operations
# ---------------------

import time
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import agrad


def wave(x: Any, rate: Any) -> Any:
    """Return a sum over a chain of operations on each element."""
    y = agrad.sin(x * rate) ** 2
    return agrad.sum(y / (1.0 + agrad.exp(-x)) + agrad.sqrt(1.0 + y))


x = np.linspace(0.0, 1.0, 1_000_000)
slope, fast = agrad.grad(wave), agrad.jit(agrad.grad(wave))
print(np.allclose(slope(x, 3.0), fast(x, 3.0)))

# %%
# The program
# -----------
#
# ``lower`` shows it after each pass. The gradient's operations are in it too; the last passes join them to one block,
# which is computed piece by piece in the processor's cache.

text = str(fast.lower(x, 3.0))
print("\n".join(text.splitlines()[:18]))

# %%
# What is gained
# --------------
#
# The times of this machine, when this page was built: the best of some calls each.


def best(f: Callable[..., Any], *args: Any) -> float:
    """Return the shortest time of five calls in milliseconds."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        f(*args)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


sizes = [100, 1_000, 10_000, 100_000, 1_000_000]
eager = [best(slope, x[:n], 3.0) for n in sizes]
jitted = []
for n in sizes:
    fast(x[:n], 3.0)  # a new shape is traced
    jitted.append(best(fast, x[:n], 3.0))

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.loglog(sizes, eager, "o-", label="eager")
axes.loglog(sizes, jitted, "o-", label="jitted")
axes.set(xlabel="elements", ylabel="ms a gradient")
axes.legend()
plt.show()

# %%
# When is it traced again?
# ------------------------
#
# For a new shape, dtype or backend, a new integer, and where a value changes that the function reads from outside. A
# new float is only another input. ``explain`` tells what differed.

counted = agrad.jit(wave)
for rate in (1.0, 2.0, 3.0):
    counted(x[:10], rate)
print(counted.cache_info())
counted(x[:20], 1.0)
print(counted.explain())

# %%
# Python in the function runs while it is traced. A branch on a value cannot be recorded: it is an error that says so.
# ``agrad.where`` chooses by element, ``agrad.cond`` between programs.


def branching(x: Any) -> Any:
    """Return the root of a positive sum."""
    total = agrad.sum(x)
    return agrad.sqrt(total) if total > 0 else total


try:
    agrad.jit(branching)(x)
except agrad.errors.TracedValueError as error:
    print(str(error).partition(";")[0])

chosen = agrad.jit(lambda x: agrad.cond(agrad.sum(x) > 0, agrad.sqrt, lambda s: s, agrad.sum(x)))
print(chosen(x), branching(x))

# %%
# To remember
# -----------
#
# * Give ``agrad.jit`` the largest function there is: a gradient, a whole training step.
# * Pass what changes as an argument.
# * ``lower`` shows the program, ``cache_info`` and ``explain`` the traces.
#
# Read on: :doc:`jit </docs/jit>`.
