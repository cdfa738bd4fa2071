"""Where the numbers of initialisers and dropout come from: the host, so that every backend gets the same ones."""

from operator import index

import numpy as np

from agrad.errors import ConfigurationError, OperandError

_default = [np.random.default_rng()]


def manual_seed(seed: int) -> None:
    """Start the default generator anew, for the whole process: initial values and dropout seeds follow from ``seed``.

    Raises ``ConfigurationError`` unless ``seed`` is an integer of 0 or more.
    """
    try:
        whole = index(seed)
    except TypeError:
        whole = -1
    if whole < 0:
        raise ConfigurationError(f"manual_seed takes an integer of 0 or more, not {seed!r}")
    _default[0] = np.random.default_rng(whole)


def generator(rng: np.random.Generator | None = None) -> np.random.Generator:
    """``rng`` itself, or the default generator where it is None."""
    if rng is None:
        return _default[0]
    if not isinstance(rng, np.random.Generator):
        raise OperandError(
            f"rng is a NumPy generator, not {type(rng).__name__}; make one with numpy.random.default_rng(seed)"
        )
    return rng
