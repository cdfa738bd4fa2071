"""FunctionModule: the base class of modules that call one function."""

from collections.abc import Callable
from typing import Any, ClassVar

from agrad.nn.module import Module


class FunctionModule(Module):
    """A module that calls one function, with its attributes as keyword arguments.

    A subclass sets ``function``, and in ``__init__`` an attribute for each option.
    """

    function: ClassVar[Callable[..., Any]]
    """The function, of one array or more."""

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments of the function.

        Returns
        -------
        dict
            The attributes that ``__init__`` has set.
        """
        return {name: value for name, value in self.members() if name != "training"}

    def forward(self, *arrays: Any) -> Any:
        """Return the function's result.

        Parameters
        ----------
        *arrays : array
            The arrays that the function takes.

        Returns
        -------
        array
            Its result.
        """
        return self.function(*arrays, **self.options())

    def settings(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options().items() if value is not None)
