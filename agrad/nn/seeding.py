"""Random keys for initial values and dropout, the same on every backend.

A source is an ``agrad.random.Generator``. A NumPy generator is accepted as well: each use draws a seed from it.
"""

import secrets
from operator import index

import numpy as np

import agrad
from agrad.errors import ConfigurationError, OperandError
from agrad.random import Generator

__all__ = ["generator", "manual_seed"]

Rng = Generator | np.random.Generator | None
"""Types of a source of keys. None means the default generator."""

STREAM = [0]
"""Rank of this process. The ranks of a program draw different dropout masks from the same seed."""

_DEFAULT = Generator(secrets.randbits(128))


def manual_seed(seed: int) -> None:
    """Seed the default generator of the process.

    It determines initial values, dropout seeds and the keys of random functions.

    Parameters
    ----------
    seed : int
        Integer from 0 to 2**128 - 1.

    Examples
    --------
    >>> agrad.nn.manual_seed(1)
    >>> first = agrad.nn.Linear(3, 2).state_dict()
    >>> agrad.nn.manual_seed(1)
    >>> np.array_equal(first["weight"], agrad.nn.Linear(3, 2).state_dict()["weight"])
    True
    """
    try:
        whole = index(seed)
    except TypeError:
        whole = -1
    if not 0 <= whole < 2**128:
        raise ConfigurationError(f"manual_seed: seed must be an integer of at least 0 and below 2**128, got {seed!r}")
    _DEFAULT.load_state({"seed": whole, "calls": 0})


def generator(rng: Rng = None) -> Generator:
    """Return a source of keys.

    Parameters
    ----------
    rng : agrad.random.Generator, numpy.random.Generator or None
        Source. By default, the default generator. A NumPy generator provides a seed of 16 bytes.

    Returns
    -------
    agrad.random.Generator
        ``rng``, the default generator, or a new generator with the drawn seed.

    Examples
    --------
    >>> keys = agrad.nn.generator(np.random.default_rng(0))
    >>> a, b = agrad.nn.Linear(3, 2, rng=np.random.default_rng(0)), agrad.nn.Linear(3, 2, rng=keys)
    >>> np.array_equal(a.state_dict()["weight"], b.state_dict()["weight"])
    True
    """
    if rng is None:
        return _DEFAULT
    if isinstance(rng, np.random.Generator):
        bits = rng.bit_generator
        agrad.note_state(rng, lambda: bits.state, lambda state: setattr(bits, "state", state))
        return Generator(int.from_bytes(rng.bytes(16), "little"))
    if not isinstance(rng, Generator):
        raise OperandError(
            f"rng must be a generator, got {type(rng).__name__}. Create one with agrad.random.Generator(seed) or "
            "numpy.random.default_rng(seed)."
        )
    return rng


def draw_seed(rng: Rng = None) -> int:
    """Return an integer from 0 to 2**63 - 1, drawn with the next key of a source."""
    low, high, *_ = generator(rng).key(backend="numpy").numpy().tolist()
    return low | (high & 0x7FFFFFFF) << 32
