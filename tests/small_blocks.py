"""Groups of NumPy's instructions in as many blocks as possible, on threads."""

import pytest

from agrad.backends import threads
from agrad.jit.compile import TARGETS
from agrad.jit.lower.numpy import groups
from agrad.jit.passes.decompose import decomposed
from agrad.jit.passes.fusion import with_groups

ANY_SIZE = {"operations written out": decomposed(1), "fusion": with_groups(1, broadcasts=True)}


def use_small_blocks(monkeypatch: pytest.MonkeyPatch, size: int = 2) -> None:
    """Until the end of the test blocks are of ``size`` elements, or one row."""
    own = tuple([(name, ANY_SIZE.get(name, run)) for name, run in TARGETS["numpy"].passes])
    assert sum(name in ANY_SIZE for name, _ in own) == len(ANY_SIZE)
    monkeypatch.setitem(TARGETS, "numpy", TARGETS["numpy"]._replace(passes=own))
    monkeypatch.setattr(groups, "BLOCK_BYTES", 1)
    monkeypatch.setattr(groups, "FEWEST", size)
    monkeypatch.setattr(threads, "THREADED", 2)
