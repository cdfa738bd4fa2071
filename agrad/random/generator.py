"""Generator: a source of keys, for code that does not pass keys around."""

import threading
from collections.abc import Mapping
from typing import Any, ClassVar

import agrad
from agrad.engine.scalars import Stateful, host_array_call, mark_state_used, refuse_trace
from agrad.errors import DataError
from agrad.ops.map_draws import key_under_maps
from agrad.random.keys import fold_in, key, number


class Generator(Stateful):
    """Source of keys: the n-th call returns ``fold_in(key(seed), n)``.

    Threads can share a generator. The order of their calls then determines which thread gets which key.

    Parameters
    ----------
    seed : int
        Integer from 0 to 2**128 - 1.

    Examples
    --------
    >>> generator = agrad.random.Generator(0)
    >>> np.round(agrad.random.normal(generator.key(), 3), 4)
    Tensor([1.1876, 1.8117, -0.742], dtype=float64, backend=numpy, device=cpu)
    >>> np.round(agrad.random.normal(generator.key(), 3), 4)
    Tensor([-1.1882, 0.8886, -0.1529], dtype=float64, backend=numpy, device=cpu)
    >>> generator.state()
    {'seed': 0, 'calls': 2}
    """

    traced_attributes: ClassVar[tuple[str, ...]] = ("_calls",)

    def __init__(self, seed: int) -> None:
        self.seed: int = number(seed, "Generator", "the seed", 2**128)
        self._calls = 0
        self._lock = threading.Lock()

    def key(self, *, backend: str | None = None, device: Any = None) -> agrad.Tensor:
        """Return the next key.

        Parameters
        ----------
        backend, device
            Backend and device of the key. By default, the selected backend and its default device.

        Returns
        -------
        Tensor
            Key of shape (4,), uint32. Inside ``vmap`` with ``randomness="different"``, each batch element has a
            different key.

        Examples
        --------
        >>> generator = agrad.random.Generator(0)
        >>> [round(agrad.random.uniform(generator.key()).item(), 4) for _ in range(3)]
        [0.6445, 0.5337, 0.9004]
        """

        def drawn() -> agrad.Tensor:
            mark_state_used(self)
            agrad.note_state(self, self.state, self.load_state)
            with self._lock:
                n = self._calls
                self._calls += 1
            return host_array_call(
                self._words,
                (n,),
                lambda words: agrad.asarray(words, dtype=agrad.uint32, backend=backend, device=device),
            )

        return key_under_maps("Generator.key", drawn)

    def _words(self, n: int) -> list[int]:
        made = fold_in(key(self.seed, backend="numpy"), n).numpy()
        return [int(word) for word in made]

    def state(self) -> dict[str, int]:
        """Return the state, for ``load_state``.

        Returns
        -------
        dict of str to int
            ``seed``, and the number of ``calls``.

        Examples
        --------
        >>> generator = agrad.random.Generator(7)
        >>> key = generator.key()
        >>> generator.state()
        {'seed': 7, 'calls': 1}
        """
        with self._lock:
            return {"seed": self.seed, "calls": self._calls}

    def load_state(self, state: Mapping[str, int]) -> None:
        """Continue from a state.

        Parameters
        ----------
        state : mapping of str to int
            State that ``state`` returned.

        Examples
        --------
        >>> generator = agrad.random.Generator(0)
        >>> state = generator.state()
        >>> first = agrad.random.uniform(generator.key()).item()
        >>> generator.load_state(state)
        >>> agrad.random.uniform(generator.key()).item() == first
        True
        """
        if set(state) != {"seed", "calls"}:
            raise DataError(f"Generator: the state must have the keys 'seed' and 'calls', got {sorted(state)}")
        seed, calls = (number(state[name], "Generator", f"the state's {name!r}", 2**128) for name in ("seed", "calls"))
        with self._lock:
            self.seed, self._calls = seed, calls

    def __getstate__(self) -> dict[str, Any]:
        refuse_trace("a copy of a Generator", "Copy it outside of the function")
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def __repr__(self) -> str:
        return f"Generator(seed={self.seed})  # {self._calls} keys given"
