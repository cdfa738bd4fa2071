"""The agrad namespace with new arrays on the backend of a Tensor.

Array code gets the namespace of its arguments and creates arrays with it, to combine them with the arguments.
"""

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import agrad

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


class BoundNamespace(ModuleType):
    """Namespace of agrad, or a section of it, with new arrays on one backend.

    Functions that create arrays use this backend by default. All other names are the same as in agrad. ``finish``
    converts the new Tensors. The namespace equals agrad, because many libraries compare the namespaces of their
    arguments.
    """

    def __init__(self, whole: Any, backend: str, finish: Callable[[Any], Any] = lambda made: made) -> None:
        super().__init__("agrad", f"agrad, with new arrays on the backend {backend!r}.")
        self._whole, self._backend, self._finish = whole, backend, finish

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._whole, name)
        if isinstance(found, ModuleType) and name in ("fft", "linalg", "special"):
            found = BoundNamespace(found, self._backend, self._finish)
        elif inspect.isfunction(found) and "backend" in inspect.signature(found).parameters:
            found = self._bind(found)
        setattr(self, name, found)
        return found

    def _bind(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def make(*args: Any, **settings: Any) -> Any:
            return self._finish(function(*args, **{"backend": self._backend, **settings}))

        return make

    def __eq__(self, other: object) -> bool:
        return other is self._whole or getattr(other, "_whole", None) is self._whole

    def __hash__(self) -> int:
        return object.__hash__(self._whole)

    def __dir__(self) -> list[str]:
        return dir(self._whole)

    def __repr__(self) -> str:
        return f"<agrad, with new arrays on {self._backend}>"


@functools.cache
def _on(backend: str) -> BoundNamespace:
    return BoundNamespace(agrad, backend)


def array_namespace(tensor: agrad.Tensor, api_version: str | None) -> ModuleType:
    """Return the namespace of a Tensor.

    It is the same object for all Tensors of a backend, and agrad itself for the selected backend. In a trace, the
    namespace of a Tensor that represents a plain array creates such Tensors, as the namespace of a plain array creates
    plain arrays.
    """
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(f"api_version must be a version up to {_VERSIONS[-1]}, got {api_version!r}")
    backend = tensor.backend
    if not tensor.level.is_trace:
        return agrad if backend == agrad.get_backend() else _on(backend)
    return tensor.level.namespaces.setdefault(backend, BoundNamespace(agrad, backend, tensor.level.stand_in))
