"""The standard's inspection of a namespace: ``__array_namespace_info__``."""

from typing import Any

from agrad.backends import Backend, load, selected
from agrad.dtypes import DType, as_dtype
from agrad.registry import public


class NamespaceInfo:
    """Capabilities, devices and dtypes of a backend."""

    def __init__(self, backend: str | None) -> None:
        selection = selected()
        self._backend: Backend = selection.backend if backend is None else load(backend)
        self._device = selection.device if backend is None else None

    def _info(self) -> Any:
        return self._backend.xp.__array_namespace_info__()

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities by name, and the maximum number of axes."""
        # indexing in agrad supports masks on every backend
        return {**self._info().capabilities(), "boolean indexing": True}

    def default_device(self) -> Any:
        """Return the device of new arrays."""
        return self._backend.default_device() if self._device is None else self._device

    def devices(self) -> tuple[Any, ...]:
        """Return the devices of the selected backend."""
        return tuple(self._backend.devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Return the default dtypes on ``device`` by kind."""
        native = self._info().default_dtypes(device=self._on(device))
        return {kind: as_dtype(dtype) for kind, dtype in native.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """Return the dtypes on ``device``, by name.

        ``kind``: one of the kinds of ``isdtype``, or a tuple of them.
        """
        native = self._info().dtypes(device=self._on(device), kind=kind)
        return {name: as_dtype(dtype) for name, dtype in native.items()}

    def _on(self, device: Any) -> Any:
        return self.default_device() if device is None else self._backend.device(device)


@public
def __array_namespace_info__(*, backend: str | None = None) -> NamespaceInfo:
    """Return capabilities, devices and dtypes of a backend.

    The array API standard requires this function.
    """
    return NamespaceInfo(backend)
