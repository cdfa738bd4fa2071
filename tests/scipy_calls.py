"""Calls of SciPy's functions, made on SciPy and on ``agrad.scipy``."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from operator import attrgetter
from typing import Any

import numpy as np
from filled import filling

try:
    MINOR = int(metadata.version("scipy").split(".")[1])
except metadata.PackageNotFoundError:
    MINOR = 99
"""The minor version of SciPy 1."""
FIRST = {"order": 1}
"""How calls are checked that have derivatives of the first order alone, or take long."""


@dataclass(frozen=True)
class Call:
    """One call of functions of a module: ``function(module, *inputs)``.

    ``module`` is SciPy's or agrad's. Floating inputs are differentiated, but for those at the positions ``fixed``.
    ``order``: of the derivatives that are checked; 0 for none. ``mapped``: try it under ``vmap``. ``traced``: try it
    under ``jit``. ``rtol``: of values against SciPy's. ``slow``: a run takes fewer of them.
    """

    module: str
    label: str
    function: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]
    fixed: tuple[int, ...] = ()
    order: int = 2
    mapped: bool = True
    traced: bool = True
    rtol: float = 1e-10
    slow: bool = False

    @property
    def name(self) -> str:
        return f"{self.module} {self.label}"

    @property
    def group(self) -> str:
        return f"{self.module}, slow" if self.slow else self.module

    @property
    def item(self) -> str:
        return f"{self.module} {self.label.split()[0]}"

    @property
    def differentiated(self) -> tuple[int, ...]:
        """Return the positions of the inputs that a derivative is asked by."""
        return tuple(i for i, x in enumerate(self.inputs) if x.dtype.kind in "fc" and i not in self.fixed)

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(self.name.encode()))


class Calls(list[Call]):
    """The calls of one module."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self.module = module

    def add(self, label: str, function: Callable[..., Any], *inputs: Any, **how: Any) -> None:
        """File a call. The label starts with the function's name; no two are alike."""
        assert all(label != other.label for other in self), f"{label} is filed twice"
        self.append(Call(self.module, label, function, tuple(np.asarray(x) for x in inputs), **how))

    def plain(
        self, names: str, label: str, *given: Any, then: Callable[[Any], Any] | None = None, how: Any = (), **named: Any
    ) -> None:
        """File a call of each function, of what is given by position and by name; the arrays in it are the inputs.

        then: what is taken of the result. how: the call is checked, pairs or a dictionary.
        """
        inputs, filled = filling(given, named)

        def call(name: str, m: Any, *xs: Any) -> Any:
            args, settings = filled(xs)
            found = attrgetter(name)(m)(*args, **settings)
            return found if then is None else then(found)

        for name in names.split():
            self.add(f"{name} {label}".strip(), partial(call, name), *inputs, **dict(how))
