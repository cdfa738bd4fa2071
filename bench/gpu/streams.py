"""A jitted step on another stream, and replays on two streams in turn.

The losses must be the same as for eager steps.
"""

from typing import Any

from bench.gpu.goals import STREAM_CHECKS
from bench.gpu.parts import Work
from bench.gpu.probe import answering
from bench.gpu.steps import STEPS, batches, build, furthest, losses


def on_streams(data: list[tuple[Any, Any]], streams: list[Any]) -> list[float]:
    """Return the losses of a jitted step whose call k runs on stream k, in a cycle."""
    import agrad

    step, found = agrad.jit(build("SGD")), []
    agrad.backends.load("cupy").synchronize()  # the parameters are created on the null stream
    for k in range(STEPS):
        with streams[k % len(streams)]:
            found.append(step(*data[k % len(data)]))
    for stream in streams:  # the losses are read on the null stream, which does not wait for these
        stream.synchronize()
    return [loss.item() for loss in found]


def run(work: Work) -> None:
    import cupy

    import agrad

    agrad.set_backend("cupy")
    data = batches(16 if work.small else 128)
    right = losses(build("SGD"), data)
    cupy.cuda.Device().synchronize()
    one, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    for name, streams in zip(STREAM_CHECKS, ([one], [one, other]), strict=True):
        with answering(work, name):
            found = on_streams(data, streams)
            off = furthest(found, right)
            work.answers.give(name, off, f"off by {off:.1e} in {STEPS} steps", "the losses differ")
