"""Fixtures of the tests of programs on CuPy's arrays."""

from collections.abc import Iterator

import pytest

import agrad
from agrad.jit.lower.cuda import segments as cuda_segments


@pytest.fixture
def small_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small programs be graphs."""
    monkeypatch.setattr(cuda_segments, "FEWEST", 1)


@pytest.fixture
def on_cupy() -> Iterator[None]:
    with agrad.use_backend("cupy"):
        yield
