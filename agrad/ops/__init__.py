"""The calculus, in the standard's own sections. Importing it fills the dictionaries that the lower floors look into."""

from types import ModuleType

from agrad.errors import PrimitiveDefinitionError
from agrad.ops import (
    arrangement,
    casting,
    composites,
    creation,
    decompositions,
    determinants,
    elementwise,
    fourier,
    indexing,
    inspection,
    lengths,
    linear_algebra,
    manipulation,
    norms,
    products,
    sampling,
    searching,
    sets,
    sorting,
    statistical,
    transfer,
    updates,
)
from agrad.ops.shared import raw_of
from agrad.ops.special.sections import SPECIAL_SECTIONS
from agrad.registry import CALLS, PRIMITIVES, namespace

SECTIONS: tuple[ModuleType, ...] = (
    elementwise,
    lengths,
    statistical,
    searching,
    sorting,
    sets,
    manipulation,
    arrangement,
    indexing,
    linear_algebra,
    products,
    decompositions,
    determinants,
    norms,
    fourier,
    casting,
    creation,
    transfer,
    inspection,
    *SPECIAL_SECTIONS,
    composites,
    sampling,
    updates,
)


def _publish() -> None:
    for section in SECTIONS:
        for name in section.__all__:
            function = getattr(section, name)
            if hasattr(namespace, name):
                raise PrimitiveDefinitionError(f"two functions are named {name}")
            setattr(namespace, name, function)
            CALLS[name] = function
        for value in vars(section).values():
            made = getattr(value, "primitive", None)
            if made is not None and PRIMITIVES.setdefault(made.name, made) is not made:
                raise PrimitiveDefinitionError(f"two primitives are named {made.name}")
    for part in (linear_algebra, products, decompositions, determinants, norms):
        for name in part.LINALG:
            setattr(namespace.linalg, name, getattr(part, name))
    for name in fourier.FFT:
        setattr(namespace.fft, name, getattr(fourier, name))
    for part in SPECIAL_SECTIONS:
        for name in part.SPECIAL:
            setattr(namespace.special, name, getattr(part, name))
    # the extension words, with the signatures that the backends' own have
    namespace.getitem = indexing.getitem.bind
    namespace.setitem = indexing.setitem.bind
    namespace.scatter_add = indexing.scatter_add.bind
    namespace.from_parts = elementwise.from_parts
    namespace.arange_like = _arange_like


def _arange_like(x: object, n: int, /) -> object:
    raw = raw_of(x)
    return transfer.backend_of(raw).xp.arange_like(raw, n)


_publish()
