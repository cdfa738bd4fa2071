"""Fixtures of the tests of programs on CuPy's arrays."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from checker import host

import agrad
from agrad.jit.lower.cuda import rows as cuda_rows
from agrad.jit.lower.cuda import segments as cuda_segments
from agrad.jit.lower.cuda import source as cuda_source
from agrad.jit.lower.cuda.program import group_function
from agrad.jit.passes.fusion import Group


@pytest.fixture
def small_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small programs be graphs."""
    monkeypatch.setattr(cuda_segments, "FEWEST", 1)


@pytest.fixture
def on_cupy() -> Iterator[None]:
    with agrad.use_backend("cupy"):
        yield


@pytest.fixture
def launch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, cupy: Any) -> Callable[..., Any]:
    """Run a group on CuPy's arrays. With few blocks, three or the number given, each has several turns."""
    for module in (cuda_source, cuda_rows):
        monkeypatch.setattr(module, "BLOCKS", getattr(request, "param", 3))

    def run(group: Group, *given: Any) -> list[np.ndarray]:
        on_gpu = [cupy.asarray(x) if isinstance(x, np.ndarray) else x for x in given]
        return [host(x) for x in group_function(group)(*on_gpu)]

    return run
