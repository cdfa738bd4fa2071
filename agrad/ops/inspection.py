"""What the namespace says of itself: ``__array_namespace_info__``, by the backend on which new arrays are born."""

from typing import Any

from agrad.backends import Backend, selected
from agrad.dtypes import DType, as_dtype


class NamespaceInfo:
    """The standard's inspection: capabilities, devices, and dtypes with their defaults, of the selected backend."""

    def __init__(self) -> None:
        selection = selected()
        self._backend: Backend = selection.backend
        self._device = selection.device

    def _info(self) -> Any:
        return self._backend.xp.__array_namespace_info__()

    def capabilities(self) -> dict[str, Any]:
        """Whether boolean indices and shapes that depend on values are possible, and the most axes there can be."""
        # agrad's own indexing takes masks on every backend
        return {**self._info().capabilities(), "boolean indexing": True}

    def default_device(self) -> Any:
        """The device on which new arrays are born."""
        return self._backend.default_device() if self._device is None else self._device

    def devices(self) -> tuple[Any, ...]:
        """The devices of the selected backend."""
        return tuple(self._backend.devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes that numbers of each kind get on ``device`` (None: where new arrays are born)."""
        native = self._info().default_dtypes(device=self._on(device))
        return {kind: as_dtype(dtype) for kind, dtype in native.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes there are on ``device``, by name; ``kind`` as for ``isdtype``, one or a tuple."""
        native = self._info().dtypes(device=self._on(device), kind=kind)
        return {name: as_dtype(dtype) for name, dtype in native.items()}

    def _on(self, device: Any) -> Any:
        return self.default_device() if device is None else self._backend.device(device)


def __array_namespace_info__() -> NamespaceInfo:
    """What agrad can do on the selected backend, as the array API standard asks of a namespace."""
    return NamespaceInfo()


__all__ = ["__array_namespace_info__"]
