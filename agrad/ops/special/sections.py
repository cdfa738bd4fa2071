"""The sections of ``agrad.special``, in the order in which they are published."""

from types import ModuleType

from agrad.ops.special import bessel, entropy, gamma, incomplete, normal

SPECIAL_SECTIONS: tuple[ModuleType, ...] = (normal, gamma, incomplete, bessel, entropy)
