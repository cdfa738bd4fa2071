"""Definitions of agrad's own operations, which are filed by name."""

from collections.abc import Callable
from typing import Any

from agrad.engine import notation
from agrad.engine.notation import PrimitiveFunction
from agrad.registry import file_primitive
from agrad.registry import public as publish


def primitive(forward: Callable[..., Any] | None = None, /, **how: Any) -> Any:
    """Make a function one of agrad's own operations; see ``agrad.primitive``."""

    def define(function: Callable[..., Any]) -> PrimitiveFunction:
        operation: PrimitiveFunction = notation.primitive(function, **how)
        file_primitive(operation.primitive)
        return operation

    return define if forward is None else define(forward)


def elementwise(name: str, *rules: Callable[..., Any] | None, public: bool = True, **how: Any) -> PrimitiveFunction:
    """Make and publish an operation on each element; see ``agrad.elementwise``.

    ``public=False``: do not publish it.
    """
    operation = notation.elementwise(name, *rules, **how)
    file_primitive(operation.primitive)
    return publish(operation) if public else operation
