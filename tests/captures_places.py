"""A table of places from which a jitted function reads captured values."""

import abc
import contextlib
import dataclasses
import enum
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from captures import CASES, Case, X, put

import agrad
from agrad import nn


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """File a case by its function's name."""
    CASES[make.__name__.replace("_", " ")] = make
    return make


RATE = 2.0
TABLE: dict[str, Any] = {"lr": [2.0]}
MODULE = types.ModuleType("settings_of_a_user")


@case
def variable_of_a_closure() -> Case:
    rate = 2.0

    def change() -> None:
        nonlocal rate
        rate = 5.0

    def write(x: Any) -> None:
        nonlocal rate
        rate = x

    return Case(lambda x: x * rate, change, write)


@case
def a_global() -> Case:
    def write(x: Any) -> None:
        global RATE
        RATE = 7.0

    return Case(lambda x: x * RATE, lambda: globals().update(RATE=RATE + 1.0), write)


@case
def a_new_global() -> Case:
    def write(x: Any) -> None:
        global LATEST
        LATEST = x  # type: ignore[name-defined]

    return Case(lambda x: x * TABLE["lr"][0], lambda: put(0)(TABLE["lr"], TABLE["lr"][0] + 1.0), write)


@case
def a_container_in_a_global() -> Case:
    return Case(
        lambda x: x * TABLE["lr"][0],
        lambda: put(0)(TABLE["lr"], TABLE["lr"][0] + 1.0),
        lambda x: TABLE["lr"].append(agrad.sum(x)),
    )


@case
def an_attribute_of_a_module() -> Case:
    MODULE.rate = {"lr": 2.0}  # type: ignore[attr-defined]
    return Case(
        lambda x: x * MODULE.rate["lr"], lambda: put("lr")(MODULE.rate, 5.0), lambda x: put("a")(MODULE.rate, x)
    )


@case
def a_default() -> Case:
    def read(x: Any, rate: float = 2.0) -> Any:
        return x * rate

    return Case(read, lambda: setattr(read, "__defaults__", (5.0,)))


@case
def a_list_that_is_a_default() -> Case:
    def read(x: Any, rates: list[float] = [2.0]) -> Any:  # noqa: B006
        return x * rates[0]

    def write(x: Any, kept: list[Any] = []) -> None:  # noqa: B006
        kept.append(x)

    return Case(read, lambda: put(0)(read.__defaults__[0], 5.0), write)  # type: ignore[index]


@case
def a_default_of_a_keyword() -> Case:
    def read(x: Any, *, rate: float = 2.0) -> Any:
        return x * rate

    return Case(read, lambda: put("rate")(read.__kwdefaults__, 5.0))


@case
def the_code_of_a_function() -> Case:
    def inner(x: Any) -> Any:
        return x * 2.0

    return Case(lambda x: inner(x), lambda: setattr(inner, "__code__", (lambda x: x * 3.0).__code__))


@case
def an_attribute_of_a_function() -> Case:
    def inner(x: Any) -> Any:
        return x * inner.rate  # type: ignore[attr-defined]

    inner.rate = 2.0  # type: ignore[attr-defined]
    return Case(lambda x: inner(x), lambda: setattr(inner, "rate", 5.0), lambda x: setattr(inner, "rate", x))


@case
def an_argument_of_a_partial() -> Case:
    rates = [2.0]
    read = functools.partial(lambda rates, x: x * rates[0], rates)
    return Case(read, lambda: put(0)(rates, 5.0), functools.partial(lambda rates, x: rates.append(x), rates))


@case
def a_keyword_of_a_partial() -> Case:
    read = functools.partial(lambda x, rate: x * rate, rate=2.0)
    return Case(lambda x: read(x), lambda: put("rate")(read.keywords, 5.0))


@case
def a_called_function() -> Case:
    cfg = {"lr": 2.0}

    def inner(x: Any) -> Any:
        return x * cfg["lr"]

    def outer(x: Any) -> Any:
        return inner(x) + inner(x)

    return Case(lambda x: outer(x), lambda: put("lr")(cfg, 5.0), lambda x: (outer(x), put("lr")(cfg, x)))


@case
def a_decorated_function() -> Case:
    cfg = {"lr": 2.0}

    def decorate(f: Any) -> Any:
        @functools.wraps(f)
        def wrapper(x: Any) -> Any:
            return f(x) + 1

        return wrapper

    @decorate
    def read(x: Any) -> Any:
        return x * cfg["lr"]

    return Case(read, lambda: put("lr")(cfg, 5.0))


@case
def a_context_manager() -> Case:
    cfg = {"lr": 2.0}

    @contextlib.contextmanager
    def rate() -> Iterator[float]:
        yield cfg["lr"]

    def read(x: Any) -> Any:
        with rate() as r:
            return x * r

    return Case(read, lambda: put("lr")(cfg, 5.0))


@case
def a_function_with_a_derivative_of_its_own() -> Case:
    cfg = {"lr": 2.0}

    @agrad.custom_vjp
    def f(x: Any) -> Any:
        return x * 1.0

    f.defvjp(lambda x: (x * 1.0, None), lambda _, g: (g * cfg["lr"],))
    return Case(agrad.grad(lambda x: agrad.sum(f(x))), lambda: put("lr")(cfg, 5.0))


@case
def a_rule_of_a_primitive() -> Case:
    cfg = {"lr": 2.0}

    @agrad.primitive(batch="loop")
    def f(xp: Any, x: Any, /) -> Any:
        return x * cfg["lr"]

    @f.vjp
    def f_vjp(xp: Any, g: Any) -> Any:
        return g * cfg["lr"]

    return Case(agrad.grad(lambda x: agrad.sum(f(x))), lambda: put("lr")(cfg, 5.0))


@case
def a_jitted_function() -> Case:
    cfg = {"lr": 2.0}
    inner = agrad.jit(lambda x: x * cfg["lr"])
    return Case(lambda x: inner(x) + 1, lambda: put("lr")(cfg, 5.0))


@case
def a_jitted_function_that_is_called_beforehand() -> Case:
    cfg = {"lr": 2.0}
    inner = agrad.jit(lambda x: x * cfg["lr"])
    inner(X)
    return Case(inner, lambda: put("lr")(cfg, 5.0))


@case
def a_bound_method() -> Case:
    rates = [2.0]
    return Case(lambda x, pop=rates.__getitem__: x * pop(0), lambda: put(0)(rates, 5.0), lambda x: rates.append(x))


class Scaled:
    factor: Any = 2.0
    shared: Any = [2.0]  # noqa: RUF012

    def __init__(self) -> None:
        self.cfg = {"a": 2.0}
        self._hidden = 2.0

    @property
    def hidden(self) -> float:
        return self._hidden

    @staticmethod
    def twice(x: Any) -> Any:
        return x * TABLE["lr"][0]

    @classmethod
    def by_class(cls, x: Any) -> Any:
        return x * cls.shared[0]

    def __getitem__(self, x: Any) -> Any:
        return x * self.cfg["a"]

    def __matmul__(self, x: Any) -> Any:
        return self.method(x)

    def method(self, x: Any) -> Any:
        return x * self._hidden


@case
def a_method() -> Case:
    made = Scaled()
    return Case(made.method, lambda: setattr(made, "_hidden", 5.0), lambda x: setattr(made, "_hidden", x))


@case
def a_property() -> Case:
    made = Scaled()
    return Case(lambda x: x * made.hidden, lambda: setattr(made, "_hidden", 5.0))


@case
def an_item_of_an_object() -> Case:
    made = Scaled()
    return Case(lambda x: made[x], lambda: put("a")(made.cfg, 5.0), lambda x: put("b")(made.cfg, x))


@case
def an_operator_of_an_object() -> Case:
    made = Scaled()
    return Case(lambda x: made @ x, lambda: setattr(made, "_hidden", 5.0))


@case
def an_attribute_of_a_class() -> Case:
    class Own(Scaled):
        factor = 2.0

    made = Own()
    return Case(lambda x: x * made.factor, lambda: setattr(Own, "factor", 5.0), lambda x: setattr(Own, "factor", x))


@case
def an_attribute_of_a_base_class() -> Case:
    class Base:
        factor = 2.0

    class Own(Base):
        pass

    return Case(lambda x: x * Own.factor, lambda: setattr(Base, "factor", 5.0), lambda x: setattr(Base, "factor", x))


@case
def an_attribute_that_comes_before_a_base_class_s() -> Case:
    class Own(Scaled):
        pass

    return Case(lambda x: x * Own.factor, lambda: setattr(Own, "factor", 5.0))


@case
def an_attribute_that_comes_before_the_class_s() -> Case:
    made = Scaled()
    return Case(lambda x: x * made.factor, lambda: setattr(made, "factor", 5.0), lambda x: setattr(made, "factor", x))


@case
def a_list_of_a_class() -> Case:
    class Own(Scaled):
        shared: Any = [2.0]  # noqa: RUF012

    return Case(lambda x: Own.by_class(x), lambda: put(0)(Own.shared, 5.0), lambda x: Own.shared.append(x))


@case
def a_method_of_a_class_that_is_replaced() -> Case:
    class Own(Scaled):
        def method(self, x: Any) -> Any:
            return x * 2.0

    made = Own()
    return Case(lambda x: made.method(x), lambda: setattr(Own, "method", lambda self, x: x * 3.0))


@case
def a_global_that_a_static_method_names() -> Case:
    return Case(lambda x: Scaled.twice(x), lambda: put(0)(TABLE["lr"], TABLE["lr"][0] + 1.0))


class Slotted:
    __slots__ = ("other", "rate")

    def __init__(self) -> None:
        self.rate: Any = 2.0


@case
def slots() -> Case:
    made = Slotted()
    return Case(lambda x: x * made.rate, lambda: setattr(made, "rate", 5.0), lambda x: setattr(made, "rate", x))


@case
def a_slot_that_is_empty() -> Case:
    made = Slotted()
    return Case(
        lambda x: x * getattr(made, "other", 3.0),
        lambda: setattr(made, "other", 5.0),
        lambda x: setattr(made, "other", x),
    )


class Layer(nn.Module):
    def __init__(self) -> None:
        self.cfg = {"a": [2.0]}
        self.rate = 2.0
        self.losses: list[float] = []

    def forward(self, x: Any) -> Any:
        return x * self.cfg["a"][0] * self.rate


@case
def a_dict_of_a_module() -> Case:
    layer = Layer()
    return Case(layer, lambda: put(0)(layer.cfg["a"], 5.0), lambda x: (layer(x), layer.cfg["a"].append(x)))


@case
def an_attribute_of_a_layer() -> Case:
    layer = Layer()
    return Case(lambda x: layer(x), lambda: setattr(layer, "rate", 5.0), lambda x: setattr(layer, "rate", x))


# ------------------------------------------------------------------ classes made at run time, and what is new later


def attribute_of(made: Any) -> Callable[[], Case]:
    """Return the case of the attribute ``rate`` of an object or a class."""
    return lambda: Case(lambda x: x * made().rate, lambda: setattr(made(), "rate", made().rate + 1.0))


class Direction(enum.Enum):
    UP = 1


class Count(int):
    """A number with an attribute."""


class Older:
    rate = 2.0

    def scaled(self, x: Any) -> Any:
        return x * self.rate


class Newer(Older):
    def scaled(self, x: Any) -> Any:
        return x * 5.0


MADE: dict[str, Any] = {
    "types.new_class": types.new_class("Made", (), {}, lambda space: space.update(rate=2.0))(),
    "a class of types.new_class": types.new_class("Made", (), {}, lambda space: space.update(rate=2.0)),
    "abc.ABCMeta": abc.ABCMeta("Made", (), {"rate": 2.0})(),
    "make_dataclass": dataclasses.make_dataclass("Made", [("rate", float)])(2.0),
    "an enum's member": Direction.UP,
    "a number": Count(3),
}
Direction.UP.rate = MADE["a number"].rate = 2.0  # type: ignore[attr-defined]
CASES.update({f"attribute of {name}": attribute_of(functools.partial(MADE.get, name)) for name in MADE})


@case
def a_global_that_is_defined_later() -> Case:
    globals().pop("LATER", None)

    def read(x: Any) -> Any:
        try:
            return x * LATER  # type: ignore[name-defined]
        except NameError:
            return x

    return Case(read, lambda: globals().update(LATER=7.0))


@case
def a_builtin_that_a_global_hides_later() -> Case:
    globals().pop("pow", None)
    return Case(lambda x: x * pow(2.0, 1.0), lambda: globals().update(pow=lambda a, b: 7.0))


@case
def an_attribute_of_a_module_that_is_defined_later() -> Case:
    module = types.ModuleType("settings_of_another_user")
    return Case(lambda x: x * getattr(module, "rate", 1.0), lambda: setattr(module, "rate", 3.0))


@case
def an_attribute_of_a_function_that_is_defined_later() -> Case:
    def helper() -> Any:
        return getattr(helper, "rate", 1.0)

    return Case(lambda x: x * helper(), lambda: setattr(helper, "rate", 3.0))


@case
def an_attribute_of_a_class_that_is_defined_later() -> Case:
    kind = type("Made", (Older,), {})
    made = kind()
    return Case(lambda x: x * getattr(made, "factor", 1.0), lambda: setattr(kind, "factor", 3.0))


@case
def a_property_that_hides_another_later() -> Case:
    first = type("First", (), {"rate": property(lambda self: 2.0)})
    second = type("Second", (first,), {})
    made: Any = second()
    return Case(lambda x: x * made.rate, lambda: setattr(second, "rate", property(lambda self: 3.0)))


@case
def a_class_that_is_replaced() -> Case:
    made = Older()
    return Case(lambda x: made.scaled(x), lambda: setattr(made, "__class__", Newer))
