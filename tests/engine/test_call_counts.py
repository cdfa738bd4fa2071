"""Paths through agrad: how many functions a call runs, and how often it goes back to a file that it had left.

The counts do not depend on the machine. A path that grows fails here; lower the bound where it gets shorter.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from call_counts import counted

import agrad
from agrad import nn, optim


def loss(x: Any) -> Any:
    return agrad.sum(x * x)


def paths() -> Iterator[tuple[str, Callable[[], Any]]]:
    raw = np.linspace(0.1, 1.0, 8)
    gradient = agrad.grad(loss)
    yield "grad(f)", lambda: gradient(raw)
    mapped, rows = agrad.vmap(agrad.grad(loss)), np.ones((4, 8))
    yield "vmap(grad(f))", lambda: mapped(rows)
    yield "jvp(f)", lambda: agrad.jvp(loss, (raw,), (raw,))
    tensor = agrad.asarray(raw)
    yield "sum(T)", lambda: agrad.sum(tensor)
    yield "T.sum()", lambda: tensor.sum()
    leaf = agrad.asarray(raw, requires_grad=True)

    def written() -> None:
        y = leaf * 1.0
        view = y[2:5]
        view[0] = 1.0

    yield "a write through a view", written
    step, batch = _step()
    yield "a step with Adam", lambda: step(*batch)
    step, batch = _step()
    jitted = agrad.jit(step)
    jitted(*batch)
    yield "a jitted step", lambda: jitted(*batch)
    step, batch = _step()
    traced = agrad.jit(step)
    yield "a first trace", lambda: (traced.cache_clear(), traced(*batch))


def _step() -> tuple[Callable[..., Any], tuple[Any, Any]]:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

    def step(x: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        found = nn.functional.cross_entropy(model(x), labels)
        found.backward()
        optimizer.step()
        return found

    return step, (np.ones((32, 8), np.float32), np.zeros(32, np.int64))


BOUNDS = {
    "grad(f)": (65, 24),
    "vmap(grad(f))": (226, 119),
    "jvp(f)": (83, 40),
    "sum(T)": (9, 1),
    "T.sum()": (12, 2),
    "a write through a view": (121, 71),
    "a step with Adam": (200, 95),
    "a jitted step": (55, 10),
    "a first trace": (4432, 1937),
}
"""Calls of agrad's functions and returns to a file, at most."""


def test_paths_do_not_grow() -> None:
    found = {}
    for name, call in paths():
        for _ in range(3):  # plans and functions by type are made at the first call
            call()
        found[name] = counted(call)[1:]
    assert found.keys() == BOUNDS.keys()
    assert not {name: counts for name, counts in found.items() if counts > BOUNDS[name] or counts[1] > BOUNDS[name][1]}
