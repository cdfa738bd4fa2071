"""batch-tensorsolve: its two functions."""

import batch_tensorsolve
import numpy as np

from ecosystem.trial import Samples

SAMPLES = Samples()

rng = np.random.default_rng(0)
S = rng.normal(size=(3, 3)) + 3 * np.eye(3)
T = rng.normal(size=(2, 3, 2, 3)) + 3 * np.eye(6).reshape(2, 3, 2, 3)
M = rng.normal(size=(4, 2, 3, 2, 3)) + 3 * np.eye(6).reshape(2, 3, 2, 3)

solve = batch_tensorsolve.btensorsolve
add = SAMPLES.add
add("btensorsolve", lambda a, b: solve(a, b, num_batch_axes=0), S, S[0], label="a matrix")
add("btensorsolve", lambda a, b: solve(a, b, num_batch_axes=0), T, T[0, 0], label="two axes")
add("btensorsolve", lambda a, b: solve(a, b, num_batch_axes=1), M, M[:, 0, 0], label="a batch axis")
add("btensorsolve", lambda a, b: solve(a, b), M, M[:, 0, 0], label="a batch axis that is found")
add("btensorsolve", lambda a, b: solve(a, b, num_batch_axes=1), M, M[:1, 0, 0], label="a batch of one right side")
add("btensorsolve", lambda a, b: solve(a + 0j, b * 1j, num_batch_axes=0), S, S[0], label="complex")
add("broadcast_without_repeating", lambda a, b: list(batch_tensorsolve.broadcast_without_repeating(a, b)), S, S[0])


def public() -> list[str]:
    """Return the names of the package's public functions."""
    return list(batch_tensorsolve.__all__)
