"""What a backend is: a vocabulary of a dozen words over one array library, held in one plain record."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from array_api_compat import device as device_of

from agrad.errors import DeviceUnavailableError

Raw = Any
"""An array of some array library, as the library itself made it."""

Device = Any
"""A device as the array library itself names it."""


DEVICE_GUARDS: list[Any] = []
"""At most one ``cupy_devices.DeviceGuard``: filled where CuPy is loaded and has several devices."""

CONTENT = 1 << 14
"""Bytes that are compared for less than an operation costs."""


@dataclass(frozen=True, slots=True, eq=False)
class Backend:
    """One array library, as agrad speaks to it.

    ``xp`` is array-api-compat's namespace with these extension words, which derivative rules may use:

    - ``getitem(x, *indices, index)``: ``x[index]``, where ``index`` is a template whose ``ARRAY`` entries
      are filled from ``indices`` (integer or boolean arrays), by NumPy's indexing rules on every backend.
    - ``setitem(x, value, *indices, index)``: a new array equal to ``x`` but for ``value`` at the index.
    - ``arange_like(x, n)``: the integers from 0 to n - 1 on the device of ``x``.
    - ``from_parts(x1, x2)``: complex numbers of their real and imaginary parts, of one dtype.
    - ``scatter_add(g, *indices, index, shape)``: zeros of ``shape`` with ``g`` added at the index; repeated
      indices accumulate.
    """

    name: str
    xp: SimpleNamespace
    version: str
    array_types: tuple[type, ...]
    default_device: Callable[[], Device]
    devices: Callable[[], Sequence[Device]]
    find_device: Callable[[str], Device | None]
    """The device of that name (``"cpu"``, ``"cuda:1"``), or None where there is none."""
    device_of: Callable[[Raw], Device]
    to_host: Callable[[Raw], np.ndarray]
    """The array as a NumPy array; it may share memory with the raw array."""
    from_host: Callable[[np.ndarray, Device | None], Raw]
    """A copy of a NumPy array, with its dtype, on the device (None: the default one)."""
    synchronize: Callable[[], None]
    """Wait until everything asked of the devices is done."""
    computed: Callable[[Sequence[Raw]], Sequence[Raw]] = lambda arrays: arrays
    """The same arrays, worked out together where the library's are promises: one that is never kept grows with every
    operation on it, and is worked out anew by every look at it."""
    on_select: Callable[[], None] = lambda: None
    """Called when the user selects this backend: the place for a library's process-wide switches."""
    shares_memory: Callable[[Raw, Raw], bool] | None = None
    """Whether an array and one that was made from it lie in the same memory, so that a write to one is seen in the
    other. None for a library whose arrays are never written into."""
    memory: Callable[[Raw], Hashable] = lambda x: None
    """Which block of memory the array lies in, None where it cannot be written into: it is for reading alone, or its
    elements share a place. To be given where ``shares_memory`` is; arrays of different blocks do not share any."""
    apart: Callable[[Sequence[Raw]], bool] = lambda arrays: False
    """Whether it is plain, without a look at ``memory``, that the arrays can be written into and share none."""
    laid_out_like: Callable[[Raw, Raw], Raw] = lambda x, like: x
    """``x`` with its axes in memory in the order in which those of ``like`` are: which reshapes of it are views goes by
    that. To be given, as an array and not as a number, where ``shares_memory`` is."""
    strides: Callable[[Raw], tuple[int, ...]] = lambda x: ()
    """How far apart in memory neighbours along each axis are, in any unit. To be given where ``shares_memory`` is."""
    read_only: Callable[[Raw], bool] = lambda x: False
    """Whether the library refuses to write into the array."""
    content: Callable[[Raw], Callable[[], Any] | None] = lambda x: None
    """A function whose value changes where something is written into the array, and without that does not: its bytes,
    say. None where there is no cheap one (of more than ``CONTENT`` bytes), or nothing is ever written."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Subclasses of the library's arrays, by name, that mean something else by the same operations, with the remedy."""
    donatable: Callable[[Any], bool] = lambda holder: False
    """Whether the array ``holder.data`` may be overwritten: the library lets it, and nobody but ``holder`` can see it.

    ``holder`` is a Tensor, say. The array itself is not handed over, as every hand on it would be counted.
    """

    placed: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function
    """Wrap a function of arrays to run on their device, for a library that runs it on the current device."""

    def __repr__(self) -> str:
        return f"<agrad backend {self.name} {self.version}>"

    def device(self, spec: Device | str | None) -> Device:
        """The device that ``spec`` names: a name, a device object of the library, or None for the default."""
        if spec is None:
            return self.default_device()
        if not isinstance(spec, str):
            return spec
        found = self.find_device(spec)
        if found is None:
            have = ", ".join(repr(str(d)) for d in self.devices()) or "none"
            raise DeviceUnavailableError(f"backend {self.name!r} has no device {spec!r} here; its devices: {have}")
        return found


def vocabulary(module: ModuleType, **extensions: Any) -> SimpleNamespace:
    """A namespace with everything public in ``module``, its ``linalg`` and ``fft``, and the extension words."""

    def arange_like(x: Any, n: int, /) -> Any:
        return made.arange(n, device=device_of(x))

    names = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    names["__array_namespace_info__"] = module.__array_namespace_info__
    for part in ("linalg", "fft"):
        if part in names:
            inner = names[part]
            names[part] = SimpleNamespace(
                **{name: getattr(inner, name) for name in dir(inner) if not name.startswith("_")}
            )
    made = SimpleNamespace(**{**names, "arange_like": arange_like, **extensions})
    return made
