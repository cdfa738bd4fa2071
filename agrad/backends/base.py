"""The record of a backend: one array library as agrad uses it."""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from array_api_compat import device as device_of

from agrad.backends.convolution import Steps as Steps
from agrad.backends.convolution import Windows as Windows
from agrad.backends.convolution import convolution as convolution
from agrad.errors import DeviceUnavailableError, DtypeError, MissingFunctionError
from agrad.registry import CALLS, kernel

Raw = Any
"""An array of some array library."""

Device = Any
"""A device, as an object of the array library."""


DEVICE_SCOPES: list[Any] = []
"""At most one ``DeviceScope`` of CuPy, registered if CuPy is loaded and has several devices."""

HANDOVERS: list[Callable[[], Any]] = []
"""Context managers for work that one thread does for another, registered by backends with streams. The thread that
uses the results calls ``receive()`` afterwards."""

SEPARATE: AbstractContextManager[None] = nullcontext()
"""A context in which every operation is computed when it is called."""

CONTENT = 1 << 14
"""The number of bytes whose comparison needs less time than an operation."""


@dataclass(frozen=True, slots=True, eq=False)
class Backend:
    """An array library.

    ``xp`` is the array-api-compat namespace with these additional functions, which derivative rules may use:

    - ``getitem(x, *indices, index)``: ``x[index]``. The ``ARRAY`` entries of the template ``index`` are filled from
      ``indices`` (integer or Boolean arrays), by the NumPy indexing rules on every backend.
    - ``setitem(x, value, *indices, index)``: a new array equal to ``x`` except for ``value`` at the index.
    - ``arange_like(x, n)``: the integers from 0 to n - 1 on the device of ``x``.
    - ``from_parts(x1, x2)``: complex numbers from their real and imaginary parts, of one dtype.
    - ``convolution(x, w, *, how)``: the correlation of neural networks; ``how`` is a ``Windows``.
    - ``iterate(going, step, *values)``: the values after ``values = step(*values)``, repeated while ``going(*values)``.
    - ``scatter_add(g, *indices, index, shape)``: zeros of ``shape`` with ``g`` added at the index; repeated
      indices accumulate.
    """

    name: str
    xp: SimpleNamespace
    version: str
    array_types: tuple[type, ...]
    to_host: Callable[[Raw], np.ndarray]
    """Return the array as a NumPy array, which may share its memory."""
    from_host: Callable[[np.ndarray, Device | None], Raw]
    """Return a copy of a NumPy array, with its dtype, on the device (None: the default one)."""
    default_device: Callable[[], Device] = lambda: "cpu"
    devices: Callable[[], Sequence[Device]] = lambda: ("cpu",)
    find_device: Callable[[str], Device | None] = lambda name: name if name == "cpu" else None
    """Return the device of that name (``"cpu"``, ``"cuda:1"``), or None if there is none."""
    device_of: Callable[[Raw], Device] = lambda x: x.device
    device_name: Callable[[Raw], str] = lambda x: str(x.device)
    """Return a name of the device for comparisons."""
    synchronize: Callable[[], None] = lambda: None
    """Wait until all work on the devices is done."""
    lazy: bool = False
    """True if a read of a value computes a graph."""
    computed: Callable[[Sequence[Raw]], Sequence[Raw]] = lambda arrays: arrays
    """Return the same arrays, computed together if the library is lazy. A graph that is never computed grows with
    every operation, and every read of its values computes it again."""
    accepts_numpy: bool = False
    """True if operations move NumPy arrays to this backend even if another one is selected."""
    on_select: Callable[[], None] = lambda: None
    """Set the process-wide switches of the library. Called when the user selects this backend."""
    shares_memory: Callable[[Raw, Raw], bool] | None = None
    """Return True if two arrays, one created from the other, share memory. None for a library of immutable arrays."""
    memory: Callable[[Raw], Hashable] = lambda x: None
    """Return an identifier of the memory block of an array, or None if the array is read-only or repeats elements.
    Arrays of different blocks share no memory. Required with ``shares_memory``."""
    unaliased: Callable[[Sequence[Raw]], bool] = lambda arrays: False
    """Return True if the arrays are known to be writable and to share no memory, without a call of ``memory``."""
    unfilled: Callable[[Raw, tuple[int, ...]], Raw] = lambda x, shape: x
    """Return an array of zeros with the shape, dtype and layout of a new array that uses no memory until it is
    written into, or the array itself if this is not possible."""
    laid_out_like: Callable[[Raw, Raw], Raw] = lambda x, like: x
    """Return ``x`` as an array with the memory order of ``like``. The order determines which reshapes are views.
    Required with ``shares_memory``."""
    strides: Callable[[Raw], tuple[int, ...]] = lambda x: ()
    """Return the strides of an array, in any unit. Required with ``shares_memory``."""
    row_major: Callable[[Raw], bool] = lambda x: True
    """Return True if an array is contiguous, with the last axis innermost. Required as ``strides`` is."""
    read_only: Callable[[Raw], bool] = lambda x: False
    """Return True if the library does not allow writes into the array."""
    content: Callable[[Raw], Callable[[], Any] | None] = lambda x: None
    """Return a function whose value changes if and only if the array is written into, such as its bytes. Return None
    if no such function is cheap (more than ``CONTENT`` bytes) and if arrays are immutable."""
    sparse: Callable[[Raw, Any], Any] | None = None
    """Return a sparse matrix of the library, of values and their ``rows``, ``columns``, ``indptr`` and ``shape``."""
    weak_dtypes: bool = False
    """True if operators, unlike functions, treat the dtype of a 0-D array as weak."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Fixes, by the names of array subclasses whose operations have another meaning."""
    donatable: Callable[..., list[bool]] = lambda *holders: [False] * len(holders)
    """Return True for each ``holder.data`` that may be overwritten: the library allows it, and no other reference
    exists. The arguments are Tensors, for example, since an array itself as an argument would be one more reference."""
    joint: AbstractContextManager[None] = SEPARATE
    """A context in which optimizer steps on arrays may be computed together, at its end. Their results must not be
    read before."""
    placed: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function
    """Wrap a function to run on the device of its arrays, for a library that runs it on the current device."""

    def __repr__(self) -> str:
        return f"<agrad backend {self.name} {self.version}>"

    def __reduce__(self) -> Any:
        """Pickle by name, so that another process uses its own library."""
        return _loaded, (self.name,)

    def device(self, spec: Device | str | None) -> Device:
        """Return the device of a name or a device object, or the default device for None."""
        if spec is None:
            return self.default_device()
        if not isinstance(spec, str):
            return spec
        found = self.find_device(spec)
        if found is None:
            have = ", ".join(repr(str(d)) for d in self.devices()) or "none"
            raise DeviceUnavailableError(f"Backend {self.name!r} has no device {spec!r}. Its devices: {have}")
        return found


@dataclass(frozen=True)
class DeviceSpec:
    """A backend, and one of its devices."""

    backend: Backend
    device: Device

    @property
    def device_name(self) -> str:
        """The device in the form of ``--device``."""
        return device_name(self.backend.device(self.device))


def device_name(device: Device) -> str:
    """Return a device in the form of ``--device``, such as ``cuda:0``."""
    text = str(device)
    found = re.fullmatch(r"<CUDA Device (\d+)>", text)
    if found:
        return f"cuda:{found[1]}"
    found = re.fullmatch(r".*Device\('?(.+?)'?\)", text)
    return found[1] if found else text


def _loaded(name: str) -> Backend:
    found: Backend = CALLS["load_backend"](name)
    return found


class Names(SimpleNamespace):
    """The functions of a library, or of one of its sections.

    Access to a function that the library lacks raises ``MissingFunctionError``, which names both.
    """

    def __init__(self, library: str, section: str = "", /, **functions: Any) -> None:
        super().__init__(**functions)
        self._library, self._section = library, section

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise MissingFunctionError(
            f"The array library {self._library} has no {self._section}{name}. "
            "Move the arrays to a library that has it: x.to('numpy')."
        )


WIDER: dict[type, Any] = {}
"""The namespace of each type of arrays whose numbers may have more digits than float64."""


def in_digits_of(x: Any, value: float, form: Callable[[Any, Raw], Raw]) -> Any:
    """Return a real constant of a rule in the digits of ``x``.

    It is ``value``, or ``form(xp, one)`` if ``x``, an array or a Tensor, may have more digits than float64. An array
    ``one`` has the precision of ``x``. In the rule, write the constant on the right of ``x``.
    """
    xp = WIDER.get(type(getattr(x, "raw", x))) if WIDER else None
    return value if xp is None else form(xp, xp.abs(xp.ones((), dtype=x.dtype)))


def check_digits(name: str, x: Any) -> None:
    """Raise ``DtypeError`` if ``x`` has more digits than float64.

    For functions that are computed by a formula for float64.
    """
    xp = WIDER.get(type(getattr(x, "raw", x))) if WIDER else None
    if xp is not None and bool(xp.ones(()) + 2.0**-60 > 1):
        raise DtypeError(f"{name}: the dtype must have at most the digits of float64, got {x.dtype}. Cast the array.")


def public(module: Any) -> dict[str, Any]:
    """Return the functions and other objects of a module by their names."""
    # dir() and __all__ of some packages leave functions out that the other has
    names = {*dir(module), *getattr(module, "__all__", ())}
    return {name: getattr(module, name) for name in sorted(names) if name[0] != "_" and hasattr(module, name)}


def vocabulary(module: ModuleType, **extensions: Any) -> SimpleNamespace:
    """Return a namespace of the public names of ``module`` and the extensions.

    Its ``linalg`` and ``fft`` are namespaces too.
    """

    library = module.__name__.removeprefix("array_api_compat.").partition(".")[0]
    names = public(module) | {"__array_namespace_info__": module.__array_namespace_info__, "iterate": iterate}
    for part in {"linalg", "fft"} & names.keys():
        names[part] = Names(library, f"{part}.", **public(names[part]))
    made = Names(library, **names)
    made.arange_like = lambda x, n, /: made.arange(n, device=device_of(x))
    made.convolution = partial(convolution, made)
    vars(made).update(extensions)
    return made


def broadcast_batches(xp: Any, *matrices: Raw) -> list[Raw]:
    """Return stacks of matrices, broadcast to one batch."""
    batch = np.broadcast_shapes(*[x.shape[:-2] for x in matrices])
    return [xp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in matrices]


def file_forms(backend: str, form: Callable[..., Raw]) -> None:
    """Register kernels that evaluate functions of matrices as one operation.

    Their steps depend on values. ``form(name, x, **settings)`` evaluates the generic form of the primitive.
    """
    for name in ("matrix_exp", "sqrtm", "logm"):
        kernel(backend, f"linalg.{name}", "forward", names=("x",))(partial(form, f"linalg.{name}"))


def iterate(going: Callable[..., Any], step: Callable[..., tuple[Any, ...]], *values: Any) -> tuple[Any, ...]:
    while bool(going(*values)):
        values = step(*values)
    return values
