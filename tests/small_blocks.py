"""Groups of arrays of any size, in as many blocks as there can be, on threads: for tests of what NumPy's groups do."""

import pytest

from agrad.backends import threads
from agrad.jit import numpy_groups
from agrad.jit.fusion import with_groups
from agrad.jit.parts import with_early_reductions, with_parts
from agrad.jit.passes import OWN_PASSES

ANY_SIZE = {
    "operations written out": with_parts(1),
    "reductions where their operands are": with_early_reductions(1),
    "fusion": with_groups(1, broadcasts=True),
}


def use_small_blocks(monkeypatch: pytest.MonkeyPatch, size: int = 2) -> None:
    """Until the end of the test blocks are of ``size`` elements, or one row."""
    own = [(name, ANY_SIZE.get(name, run)) for name, run in OWN_PASSES["numpy"]]
    assert sum(name in ANY_SIZE for name, _ in own) == len(ANY_SIZE)
    monkeypatch.setitem(OWN_PASSES, "numpy", own)
    monkeypatch.setattr(numpy_groups, "BLOCK_BYTES", 1)
    monkeypatch.setattr(numpy_groups, "FEWEST", size)
    monkeypatch.setattr(threads, "THREADED", 2)
