"""Shared by the tests of programs in CUDA graphs."""

from collections.abc import Callable
from typing import Any

import jit_help
import numpy as np

import agrad
from agrad import nn, optim
from agrad.jit.lower.cuda.graphs import GraphProgram


def draw(dtype: str, *shape: int) -> Any:
    import cupy

    return cupy.asarray(jit_help.draw(dtype, *shape))


def on_gpu(*arrays: np.ndarray) -> list[Any]:
    import cupy

    return [cupy.asarray(x) for x in arrays]


def program_of(fast: Any) -> GraphProgram:
    """Return the one program of a jitted function that was called."""
    ((entry,),) = fast._entries.values()
    return entry.run


def graphs_in(fast: Any) -> tuple[list[str], list[str]]:
    """Return the names of the instructions in graphs, and of those between."""
    program = program_of(fast)
    inside = [i.name for s in program.segments if s.captured for i in s.instructions]
    return inside, [i.name for s in program.segments if not s.captured for i in s.instructions]


def mlp(optimizer: str = "sgd") -> tuple[Callable[..., Any], nn.Module]:
    model = jit_help.network(6, 5, 3, seed=5)
    ps = model.parameters()
    made = optim.AdamW(ps, lr=0.01, weight_decay=0.1) if optimizer == "adam" else optim.SGD(ps, lr=0.1, momentum=0.9)
    step = jit_help.descent(made, lambda x, labels: agrad.cross_entropy(model(x), labels))
    step.optimizer = made  # type: ignore[attr-defined]
    return step, model


def batch(k: int = 0) -> tuple[Any, Any]:
    import cupy

    return draw("float32", 4, 6) + np.float32(k), cupy.arange(4) % 3
