"""The suite of layers: every library computes the same; what falls short of a goal is said."""

import numpy as np
import pytest
from refusals import fails
from test_bench import tables

from bench import conv, conv_jobs
from bench.common import Missing, Timing

MODULES = {conv_jobs.TORCH: "torch", conv_jobs.JAX: "jax", "agrad, torch": "torch"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.needs(m)) for n, m in MODULES.items()])
def test_the_libraries_compute_the_same(name: str) -> None:
    chosen = ("conv2d", "conv1d", "max_pool2d", "avg_pool2d", "layer_norm", "rms_norm", "batch_norm")
    ours, theirs = (conv_jobs.job(True, chosen, which) for which in (conv_jobs.EAGER, name))
    expected, found = ours.step(), theirs.step()
    assert len(expected) == 2 * len(conv_jobs.calls(quick=True))
    conv.check({conv_jobs.EAGER: expected, name: found})


def test_another_gradient_is_an_error() -> None:
    row = {"conv2d: forward": [[1.0, 5.0], [2.0, 9.0]]}
    conv.check({conv.EAGER: row, conv.TORCH: {"conv2d: forward": [[1.0, 5.0], [2.00001, 9.0]]}})
    other = {conv.EAGER: row, conv.TORCH: {"conv2d: forward": [[1.0, 5.0], [2.1, 9.0]]}}
    fails(Missing, "conv2d: forward: PyTorch computes", conv.check, other)
    assert conv_jobs.fingerprint(np.asarray([1.0, -2.0])) == [1 - 2 * np.cos(1), 3.0]


def test_a_missed_goal_is_said() -> None:
    row = f"{conv.SMALL}: {conv.FORWARD}"
    timings = {row: {conv.EAGER: Timing([4.0, 4.0]), conv.TORCH: Timing([1.0, 1.0])}}
    text, short = conv.table(timings)
    assert tables(text)[0][2] == [row, "4e+03 (4.00 x)", "1e+03"]
    assert short == [f"{row}: agrad needs 4.00 x the PyTorch time, goal 3"]
    timings[row][conv.EAGER] = Timing([2.0, 2.0])
    assert conv.table(timings)[1] == []
