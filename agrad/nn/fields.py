"""Options as annotated attributes of a class, as in a dataclass."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY
from inspect import Parameter, Signature
from typing import Any, ClassVar, get_origin


def declare_fields(cls: type, known: Mapping[str, Parameter], required: bool = False) -> dict[str, Parameter]:
    """Return the fields of base classes, and the annotated attributes of a class.

    They are removed from the class. ``ClassVar`` and attributes without a value, unless they are ``required`` options,
    are not fields. Fields after ``_: KW_ONLY`` are keyword-only.
    """
    fields: dict[str, Parameter] = dict(known)
    how: Any = Parameter.POSITIONAL_OR_KEYWORD
    for name, annotation in inspect.get_annotations(cls, eval_str=True).items():
        if annotation is KW_ONLY:
            how = Parameter.KEYWORD_ONLY
        elif (required or name in vars(cls)) and ClassVar not in (annotation, get_origin(annotation)):
            default = vars(cls).get(name, Parameter.empty)
            fields[name] = Parameter(name, how, default=default, annotation=annotation)
            if name in vars(cls):
                delattr(cls, name)
    return fields


def initializer(fields: Mapping[str, Parameter], **first: Any) -> Callable[..., None]:
    """Return ``__init__``, which binds arguments and calls ``_begin``.

    ``_begin`` receives the arguments of the names ``first``, whose values are annotations, and a dict of the fields.
    """
    how = Parameter.POSITIONAL_OR_KEYWORD
    before = [Parameter("self", how), *(Parameter(name, how, annotation=kind) for name, kind in first.items())]
    rest = sorted(fields.values(), key=lambda field: field.kind)  # options of a subclass before keyword-only ones
    signature = Signature([*before, *rest], return_annotation=None)

    def __init__(self: Any, *args: Any, **given: Any) -> None:
        try:
            bound = signature.bind(self, *args, **given)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        bound.apply_defaults()
        found = bound.arguments
        self._begin(*(found[name] for name in first), {name: found[name] for name in fields})

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__
