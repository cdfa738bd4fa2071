"""A table of values that a jitted function reads besides arguments: containers."""

import argparse
import array
import dataclasses
import enum
import functools
import types
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import agrad

X = np.asarray([1.0, 2.0, 4.0])


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(agrad.asarray(got).numpy(), agrad.asarray(expected).numpy(), rtol=1e-15)


class Case(NamedTuple):
    """A function of x, a change of its captured value, and a write, or None."""

    read: Callable[[Any], Any]
    change: Callable[[], Any]
    write: Callable[[Any], Any] | None = None


CASES: dict[str, Callable[[], Case]] = {}


# ------------------------------------------------------------------ containers, by a variable of the closure

Pair = namedtuple("Pair", "a b")


class Color(enum.Enum):
    RED = 2.0
    BLUE = 3.0


@dataclasses.dataclass
class Settings:
    rate: float = 2.0
    inner: Any = dataclasses.field(default_factory=dict)


class Plain:
    def __init__(self) -> None:
        self.rate: Any = 2.0


class Config(dict):  # type: ignore[type-arg]
    def __getattr__(self, name: str) -> Any:
        return self[name]


def contained(made: Any, read: Callable[[Any], Any], change: Callable[[Any], Any], write: Any = None) -> Case:
    """Return the case of one object, which a variable of the closure holds."""
    return Case(lambda x: x * read(made), lambda: change(made), None if write is None else lambda x: write(made, x))


def append(made: Any, x: Any) -> None:
    made.append(agrad.sum(x))


def put(key: Any) -> Callable[[Any, Any], None]:
    def write(made: Any, x: Any) -> None:
        made[key] = x

    return write


def grown(made: Any) -> None:
    made[1:1] = [5.0, 6.0]


CONTAINERS: dict[str, Callable[[], Case]] = {
    "list": lambda: contained([2.0, 3.0], lambda c: c[1], lambda c: put(1)(c, 3.5), append),
    "list that grows": lambda: contained([2.0, 3.0], sum, grown, lambda c, x: c.extend([1.0])),
    "list that shrinks": lambda: contained([2.0, 3.0], sum, lambda c: c.pop(), lambda c, x: c.pop()),
    "list in an order": lambda: contained([2.0, 3.0], lambda c: c[0] - c[1], lambda c: c.reverse(), append),
    "empty list": lambda: contained([], len, lambda c: c.append(1), append),
    "nested list": lambda: contained([[1.0], [2.0, [3.0]]], lambda c: c[1][1][0], lambda c: put(0)(c[1][1], 4.0)),
    "deeply nested list": lambda: contained(
        functools.reduce(lambda inner, _: [inner], range(300), [2.0]),
        lambda c: functools.reduce(lambda level, _: level[0], range(301), c),
        lambda c: functools.reduce(lambda level, _: level[0], range(300), c).append(0) or put(0)(c, [1.0]) or deepen(c),
    ),
    "type of a number": lambda: contained([2], lambda c: c[0] * np.ones(3, np.float32).dtype.itemsize / 3, floated),
    "sign of zero": lambda: contained([0.0], lambda c: 2.0 + np.signbit(c[0]), negated),
    "dict": lambda: contained({"lr": 2.0}, lambda c: c["lr"], lambda c: put("lr")(c, 5.0), put("lr")),
    "dict by get": lambda: contained({}, lambda c: c.get("lr", 3.0), lambda c: put("lr")(c, 5.0), put("new")),
    "keys of a dict": lambda: contained({"a": 1}, lambda c: len(next(iter(c))), renamed, put("b")),
    "order of a dict": lambda: contained({"a": 2.0, "b": 3.0}, lambda c: next(iter(c.values())), reordered),
    "nested dict": lambda: contained(
        {"a": {"b": {"lr": 2.0}}}, lambda c: c["a"]["b"]["lr"], lambda c: put("lr")(c["a"]["b"], 5.0)
    ),
    "list in a dict": lambda: contained({"a": [2.0]}, lambda c: c["a"][0], lambda c: put(0)(c["a"], 5.0)),
    "ordered dict": lambda: contained(OrderedDict(a=2.0), lambda c: c["a"], lambda c: put("a")(c, 5.0), put("a")),
    "default dict": lambda: contained(
        defaultdict(float, a=2.0), lambda c: c["a"], lambda c: put("a")(c, 5.0), lambda c, x: c["unseen"]
    ),
    "counter": lambda: contained(Counter(a=2), lambda c: c["a"], lambda c: c.update("aa"), lambda c, x: c.update("a")),
    "dict of attributes": lambda: contained(Config(lr=2.0), lambda c: c.lr, lambda c: put("lr")(c, 5.0), put("lr")),
    "view of a dict's values": lambda: contained(types.MappingProxyType(SHARED), lambda c: c["lr"], share),
    "set": lambda: contained({2.0, 3.0}, sum, lambda c: c.add(4.0), lambda c, x: c.add(4.0)),
    "frozen set": lambda: contained([frozenset({2.0})], lambda c: sum(c[0]), lambda c: put(0)(c, frozenset({3.0}))),
    "deque": lambda: contained(deque([2.0, 3.0], 2), lambda c: c[0], lambda c: c.append(4.0), append),
    "tuple of lists": lambda: contained(([2.0], 1.0), lambda c: c[0][0], lambda c: put(0)(c[0], 3.0)),
    "named tuple": lambda: contained(Pair([2.0], 1), lambda c: c.a[0], lambda c: put(0)(c.a, 3.0)),
    "namespace": lambda: contained(
        types.SimpleNamespace(lr=2.0),
        lambda c: c.lr,
        lambda c: setattr(c, "lr", 5.0),
        lambda c, x: vars(c).update(lr=x),
    ),
    "parsed arguments": lambda: contained(
        argparse.Namespace(lr=[2.0]), lambda c: c.lr[0], lambda c: put(0)(c.lr, 5.0), lambda c, x: setattr(c, "new", x)
    ),
    "user dict": lambda: contained(UserDict(a=2.0), lambda c: c["a"], lambda c: put("a")(c, 5.0), put("a")),
    "user list": lambda: contained(UserList([2.0]), lambda c: c[0], lambda c: put(0)(c, 5.0), append),
    "chain of dicts": lambda: contained(
        ChainMap({}, {"a": 2.0}), lambda c: c["a"], lambda c: put("a")(c, 5.0), put("a")
    ),
    "bytes": lambda: contained(bytearray(b"ab"), lambda c: c[0], lambda c: put(0)(c, 50), lambda c, x: c.append(1)),
    "array of numbers": lambda: contained(
        array.array("d", [2.0]), lambda c: c[0], lambda c: put(0)(c, 5.0), lambda c, x: c.append(1.0)
    ),
    "enum": lambda: contained([Color.RED], lambda c: c[0].value, lambda c: put(0)(c, Color.BLUE)),
    "dtype": lambda: contained({"t": np.float32}, lambda c: np.dtype(c["t"]).itemsize, lambda c: put("t")(c, np.int8)),
    "function in a dict": lambda: contained({"f": lambda: 2.0}, lambda c: c["f"](), lambda c: put("f")(c, lambda: 3.0)),
    "string": lambda: contained(
        {"mode": "a"}, lambda c: 2.0 if c["mode"] == "a" else 3.0, lambda c: put("mode")(c, "b")
    ),
    "None": lambda: contained([None], lambda c: 2.0 if c[0] is None else c[0], lambda c: put(0)(c, 7.0)),
    "tensor of one element": lambda: contained(
        {"w": agrad.asarray([2.0], requires_grad=True)}, lambda c: c["w"].detach(), replaced_and_written
    ),
    "dataclass": lambda: contained(
        Settings(), lambda c: c.rate, lambda c: setattr(c, "rate", 5.0), lambda c, x: setattr(c, "rate", x)
    ),
    "dict of a dataclass": lambda: contained(
        Settings(inner={"a": [2.0]}), lambda c: c.inner["a"][0], lambda c: put(0)(c.inner["a"], 5.0)
    ),
    "object": lambda: contained(
        Plain(), lambda c: c.rate, lambda c: setattr(c, "rate", 5.0), lambda c, x: setattr(c, "rate", x)
    ),
    "object's new attribute": lambda: contained(
        Plain(),
        lambda c: getattr(c, "other", 3.0),
        lambda c: setattr(c, "other", 5.0),
        lambda c, x: setattr(c, "other", x),
    ),
    "list of objects": lambda: contained(
        [Plain(), Plain()], lambda c: sum(o.rate for o in c), lambda c: setattr(c[1], "rate", 5.0)
    ),
    "equal object": lambda: contained([Settings()], lambda c: c[0].rate, swapped),
}
CASES |= CONTAINERS

SHARED = {"lr": 2.0}


def share(_: Any) -> None:
    SHARED["lr"] += 1.0


def deepen(made: Any) -> None:
    made[0] = functools.reduce(lambda inner, _: [inner], range(300), 3.0)


def floated(made: Any) -> None:
    made[0] = 2.5


def negated(made: Any) -> None:
    made[0] = -0.0


def renamed(made: Any) -> None:
    made["longer"] = made.pop("a")


def reordered(made: Any) -> None:
    made["a"] = made.pop("a")


def swapped(made: Any) -> None:
    """Return an equal object that replaces another one, which is changed later."""
    made[0] = Settings()
    made[0].rate = 5.0


def replaced_and_written(made: Any) -> None:
    made["w"] = agrad.asarray([2.0], requires_grad=True)
    with agrad.no_grad():
        made["w"][0] = 9.0
