"""Base class of modules that call one function."""

from collections.abc import Callable
from inspect import Parameter
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform, overload

from agrad.nn.fields import declare_fields, initializer
from agrad.nn.module import ArrayModule

if TYPE_CHECKING:
    from agrad import Tensor


class OfFunction(ArrayModule):
    """Base class of modules of a function, which a class statement passes."""

    function: ClassVar[Callable[..., Any]]
    """The function, of at least one array."""

    def __init_subclass__(cls, *, function: Callable[..., Any] | None = None, **options: Any) -> None:
        if function is not None:
            cls.function = staticmethod(function)
            options["otherwise"] = f"Options of ``functional.{function.__name__}``."
        super().__init_subclass__(**options)


@dataclass_transform()
class FunctionModule(OfFunction):
    """Base class of modules that call a function with attributes as keyword arguments.

    In classes of agrad, annotated attributes are these arguments, from which ``__init__`` is generated.
    """

    fields: ClassVar[dict[str, Parameter]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        if cls.__module__.startswith("agrad."):
            fields = declare_fields(cls, cls.fields, required=True)
            if fields != cls.fields and "__init__" not in vars(cls):
                type.__setattr__(cls, "__init__", initializer(fields))
            cls.fields = fields
        super().__init_subclass__(**options)

    def _begin(self, options: dict[str, Any]) -> None:
        for name, value in options.items():
            setattr(self, name, value)

    def options(self) -> dict[str, Any]:
        """Return the attributes that ``__init__`` has set, the options of the function.

        Returns
        -------
        dict
        """
        return {name: value for name, value in self.members() if name != "training"}

    def forward(self, *arrays: Any) -> Any:
        """Return the result of the function."""
        return self.function(*arrays, **self.options())

    def settings(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options().items() if value is not None)


class ArraysFunctionModule(FunctionModule):
    """Base class of modules that call a function of at least two arrays.

    It differs from ``FunctionModule`` only for type checkers.
    """

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __call__(self, x1: Tensor, x2: Any, /, *arrays: Any) -> Tensor: ...
        @overload
        def __call__(self, x1: Any, x2: Tensor, /, *arrays: Any) -> Tensor: ...
        @overload
        def __call__(self, x1: Any, x2: Any, /, *arrays: Any) -> Any: ...
        def __call__(self, x1: Any, x2: Any, /, *arrays: Any) -> Any: ...
