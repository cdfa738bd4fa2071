"""Keys of random numbers for initialisers and dropout, the same on every backend.

A source is an ``agrad.random.Generator``; a NumPy generator is one as well, of which each use draws a seed.
"""

import secrets
from operator import index

import numpy as np

import agrad
from agrad.errors import ConfigurationError, OperandError
from agrad.random import Generator

Rng = Generator | np.random.Generator | None
"""A source of keys; None for the default one."""

_default = [Generator(secrets.randbits(128))]


def manual_seed(seed: int) -> None:
    """Restart the default generator of the process.

    Initial values and dropout seeds follow from ``seed``.

    Raises ``ConfigurationError`` unless ``seed`` is an integer from 0 to 2**128 - 1.
    """
    try:
        whole = index(seed)
    except TypeError:
        whole = -1
    if not 0 <= whole < 2**128:
        raise ConfigurationError(f"manual_seed takes an integer of 0 or more and below 2**128, not {seed!r}")
    _default[0] = Generator(whole)


def generator(rng: Rng = None) -> Generator:
    """Return ``rng`` as a source of keys, or the default one where it is None."""
    if rng is None:
        return _default[0]
    if isinstance(rng, np.random.Generator):
        bits = rng.bit_generator
        agrad.note_state(rng, lambda: bits.state, lambda state: setattr(bits, "state", state))
        return Generator(int.from_bytes(rng.bytes(16), "little"))
    if not isinstance(rng, Generator):
        raise OperandError(
            f"rng is a generator, not {type(rng).__name__}; make one with agrad.random.Generator(seed) or "
            "numpy.random.default_rng(seed)"
        )
    return rng


def draw_seed(rng: Rng = None) -> int:
    """Return an integer from 0 to 2**63 - 1, from the next key of a source."""
    low, high, *_ = generator(rng).key(backend="numpy").numpy().tolist()
    return low | (high & 0x7FFFFFFF) << 32
