"""Options of optimizers: annotated attributes of a class, as in a dataclass."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter
from typing import Any, ClassVar, dataclass_transform

import agrad
from agrad.faces import complete_docstring
from agrad.nn.fields import declare_fields, initializer
from agrad.optim.checks import flag, number, pair, rate
from agrad.optim.groups import shared

Rate = float | Callable[[int], float]
"""Learning rate or schedule.

A schedule is a function from the number of steps taken to the rate of the next step.
"""

Pair = tuple[float, float]

Params = Iterable[agrad.Tensor] | Iterable[tuple[str, agrad.Tensor]] | Iterable[Mapping[str, Any]]
"""Leaf Tensors, pairs of a name and a Tensor, or groups: dictionaries with ``params`` and options."""

CHECKS: dict[Any, Callable[..., Any]] = {Rate: rate, float: number, Pair: pair, bool: flag}
"""Check of an option by its annotation: a function of class name, option name, value and bound."""


@dataclass_transform()
class Declared:
    """Base class of classes whose options are annotated attributes.

    ``__init__`` is generated from the annotated attributes with a value, except ``ClassVar``. Options of a base class
    come first, and a subclass may change their defaults. Options after ``_: KW_ONLY`` are keyword-only. A subclass
    without options inherits the ``__init__`` of its base class.

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor) or of dict
        Leaf Tensors of any shapes and floating-point dtypes, (name, Tensor) pairs, or parameter groups: dictionaries
        with ``params`` and the options of the group.
    lr : float or function
        Learning rate, or a schedule: a function from the number of steps taken to the rate.
    betas : tuple of float
        Decay rates of the first and second moments, each below 1.
    eps : float
        Term that prevents division by a small denominator.
    weight_decay : float
        Weight decay: the multiple of the parameter that is added to its gradient.
    decoupled_weight_decay : bool
        True for decoupled weight decay, as in ``AdamW``.
    momentum : float
        Momentum factor.
    maximize : bool
        True to maximize the objective instead of minimizing it.
    """

    fields: ClassVar[dict[str, Parameter]] = {}
    checks: ClassVar[dict[str, Callable[..., Any]]] = {}
    """Checks of the options that have one. All groups share these attributes."""

    bounds: ClassVar[dict[str, float]] = {"betas": 1}
    """Upper bounds of options."""

    def __init_subclass__(cls) -> None:
        fields = declare_fields(cls, cls.fields)
        declares = fields != cls.fields
        cls.fields = fields
        cls.checks = {name: CHECKS[field.annotation] for name, field in fields.items() if field.annotation in CHECKS}
        for name in cls.checks.keys() & inspect.get_annotations(cls).keys():
            setattr(cls, name, shared(name))
        maker = next(base for base in cls.__mro__ if "__init__" in vars(base))
        if maker is not cls and (declares or Declared in maker.__bases__):
            type.__setattr__(cls, "__init__", initializer(fields, params=Params))
        complete_docstring(cls, *cls.__mro__[1:-1])
