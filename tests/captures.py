"""A table of values that a jitted function reads besides its arguments: in containers, and in other places.

A row is text: how the values are made, what the function reads, a change between calls, and a write inside. It is run
in a namespace of its own, so that its closures and globals are as a user's.
"""

import dataclasses
import enum
import functools
from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import agrad
from agrad import nn

X = np.asarray([1.0, 2.0, 4.0])


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(agrad.asarray(got).numpy(), agrad.asarray(expected).numpy(), rtol=1e-15)


class Case(NamedTuple):
    """A function of x, a change of its captured value, and a write, or None."""

    read: Callable[[Any], Any]
    change: Callable[[], Any]
    write: Callable[[Any], Any] | None


Pair = namedtuple("Pair", "a b")


class Color(enum.Enum):
    RED = 2.0
    BLUE = 3.0


@dataclasses.dataclass
class Settings:
    rate: Any = 2.0
    inner: Any = dataclasses.field(default_factory=dict)


class Plain:
    def __init__(self) -> None:
        self.rate: Any = 2.0


class Config(dict):  # type: ignore[type-arg]
    def __getattr__(self, name: str) -> Any:
        return self[name]


class Layer(nn.Module):
    def __init__(self) -> None:
        self.cfg = {"a": [2.0]}
        self.rate = 2.0
        self.losses: list[float] = []

    def forward(self, x: Any) -> Any:
        return x * self.cfg["a"][0] * self.rate


class Slotted:
    __slots__ = ("other", "rate")

    def __init__(self) -> None:
        self.rate: Any = 2.0


class Count(int):
    """A number with an attribute."""


def nested(value: Any) -> Any:
    return functools.reduce(lambda inner, _: [inner], range(300), value)


SHARED = {"lr": 2.0}

CONTAINERS = """
list: [2.0, 3.0] | c[1] | c[1] = 3.5 | c.append(agrad.sum(x))
list that grows: [2.0, 3.0] | sum(c) | c[1:1] = [5.0, 6.0] | c.extend([1.0])
list that shrinks: [2.0, 3.0] | sum(c) | c.pop() | c.pop()
list in an order: [2.0, 3.0] | c[0] - c[1] | c.reverse() | c.append(agrad.sum(x))
empty list: [] | len(c) | c.append(1) | c.append(agrad.sum(x))
nested list: [[1.0], [2.0, [3.0]]] | c[1][1][0] | c[1][1][0] = 4.0
deeply nested list: nested([2.0]) | functools.reduce(lambda y, _: y[0], range(301), c) | c[0] = nested(3.0)
type of a number: [2] | c[0] * np.ones(3, np.float32).dtype.itemsize / 3 | c[0] = 2.5
sign of zero: [0.0] | 2.0 + np.signbit(c[0]) | c[0] = -0.0
dict: {"lr": 2.0} | c["lr"] | c["lr"] = 5.0 | c["lr"] = x
dict by get: {} | c.get("lr", 3.0) | c["lr"] = 5.0 | c["new"] = x
keys of a dict: {"a": 1} | len(next(iter(c))) | c["longer"] = c.pop("a") | c["b"] = x
order of a dict: {"a": 2.0, "b": 3.0} | next(iter(c.values())) | c["a"] = c.pop("a")
nested dict: {"a": {"b": {"lr": 2.0}}} | c["a"]["b"]["lr"] | c["a"]["b"]["lr"] = 5.0
list in a dict: {"a": [2.0]} | c["a"][0] | c["a"][0] = 5.0
ordered dict: OrderedDict(a=2.0) | c["a"] | c["a"] = 5.0 | c["a"] = x
default dict: defaultdict(float, a=2.0) | c["a"] | c["a"] = 5.0 | c["unseen"]
counter: Counter(a=2) | c["a"] | c.update("aa") | c.update("a")
dict of attributes: Config(lr=2.0) | c.lr | c["lr"] = 5.0 | c["lr"] = x
view of a dict's values: types.MappingProxyType(SHARED) | c["lr"] | SHARED["lr"] += 1.0
set: {2.0, 3.0} | sum(c) | c.add(4.0) | c.add(4.0)
frozen set: [frozenset({2.0})] | sum(c[0]) | c[0] = frozenset({3.0})
deque: deque([2.0, 3.0], 2) | c[0] | c.append(4.0) | c.append(agrad.sum(x))
tuple of lists: ([2.0], 1.0) | c[0][0] | c[0][0] = 3.0
named tuple: Pair([2.0], 1) | c.a[0] | c.a[0] = 3.0
namespace: types.SimpleNamespace(lr=2.0) | c.lr | c.lr = 5.0 | vars(c).update(lr=x)
parsed arguments: argparse.Namespace(lr=[2.0]) | c.lr[0] | c.lr[0] = 5.0 | c.new = x
user dict: UserDict(a=2.0) | c["a"] | c["a"] = 5.0 | c["a"] = x
user list: UserList([2.0]) | c[0] | c[0] = 5.0 | c.append(agrad.sum(x))
chain of dicts: ChainMap({}, {"a": 2.0}) | c["a"] | c["a"] = 5.0 | c["a"] = x
bytes: bytearray(b"ab") | c[0] | c[0] = 50 | c.append(1)
array of numbers: array.array("d", [2.0]) | c[0] | c[0] = 5.0 | c.append(1.0)
what NumPy computes of an array: np.asarray([4.0, 9.0]) | np.sqrt(c)[1] | c[1] = 25.0
number in an array: [np.asarray(1.0)] | float(c[0]) | c[0][...] = 7.0
enum: [Color.RED] | c[0].value | c[0] = Color.BLUE
dtype: {"t": np.float32} | np.dtype(c["t"]).itemsize | c["t"] = np.int8
function in a dict: {"f": lambda: 2.0} | c["f"]() | c["f"] = lambda: 3.0
string: {"mode": "a"} | 2.0 if c["mode"] == "a" else 3.0 | c["mode"] = "b"
None: [None] | 2.0 if c[0] is None else c[0] | c[0] = 7.0
tensor of one element: {"w": agrad.asarray([2.0], requires_grad=True)} | c["w"].detach() | c["w"] = agrad.asarray([9.0])
dataclass: Settings() | c.rate | c.rate = 5.0 | c.rate = x
dict of a dataclass: Settings(inner={"a": [2.0]}) | c.inner["a"][0] | c.inner["a"][0] = 5.0
object: Plain() | c.rate | c.rate = 5.0 | c.rate = x
object's new attribute: Plain() | getattr(c, "other", 3.0) | c.other = 5.0 | c.other = x
list of objects: [Plain(), Plain()] | sum(o.rate for o in c) | c[1].rate = 5.0
equal object: [Settings()] | c[0].rate | c[0] = Settings(); c[0].rate = 5.0
attribute of types.new_class: types.new_class("A", (), {}, lambda s: s.update(rate=2.0))() | c.rate | c.rate = 3.0
attribute of a class: types.new_class("Made", (), {}, lambda s: s.update(rate=2.0)) | c.rate | c.rate = 3.0
attribute of abc.ABCMeta: abc.ABCMeta("Made", (), {"rate": 2.0})() | c.rate | c.rate = 3.0
attribute of make_dataclass: dataclasses.make_dataclass("Made", [("rate", float)])(2.0) | c.rate | c.rate = 3.0
attribute of an enum's member: enum.Enum("Way", "UP").UP | getattr(c, "rate", 2.0) | c.rate = 3.0
attribute of a number: Count(3) | getattr(c, "rate", 2.0) | c.rate = 3.0
slots: Slotted() | c.rate | c.rate = 5.0 | c.rate = x
a slot that is empty: Slotted() | getattr(c, "other", 3.0) | c.other = 5.0 | c.other = x
a list of a module: Layer() | c.cfg["a"][0] | c.cfg["a"][0] = 5.0 | c.cfg["a"].append(x)
a called layer: Layer() | c(1.0) | c.rate = 5.0 | c.rate = x
a method: Scaled() | c.method(1.0) | c._hidden = 5.0 | c._hidden = x
a property: Scaled() | c.hidden | c._hidden = 5.0
an item of an object: Scaled() | c[1.0] | c.cfg["a"] = 5.0 | c.cfg["b"] = x
an operator of an object: Scaled() | c @ 1.0 | c._hidden = 5.0
an attribute of a class: type("Own", (Scaled,), {"factor": 2.0}) | c().factor | c.factor = 5.0 | c.factor = x
an attribute before the class's: Scaled() | c.factor | c.factor = 5.0 | c.factor = x
an attribute before a base class's: type("Own", (Scaled,), {}) | c.factor | c.factor = 5.0 | c.factor = x
an attribute that a class gets later: type("Made", (Scaled,), {})() | getattr(c, "new", 1.0) | type(c).new = 3.0
a list of a class: type("Own", (Scaled,), {"shared": [2.0]}) | c.by_class(1.0) | c.shared[0] = 5.0 | c.shared.append(x)
a replaced method: type("Own", (Scaled,), {})() | c.method(1.0) | type(c).method = lambda self, x: x * 3.0
a replaced class: Scaled() | c.method(1.0) | c.__class__ = Other
an attribute of a module: types.ModuleType("settings") | getattr(c, "rate", 1.0) | c.rate = 3.0 | c.rate = x
an argument of a partial: [2.0] | functools.partial(lambda r, x: x * r[0], c)(1.0) | c[0] = 5.0 | c.append(x)
a keyword of a partial: functools.partial(lambda x, rate: x * rate, rate=2.0) | c(1.0) | c.keywords["rate"] = 5.0
a bound method: [2.0].__getitem__ | c(0) | c.__self__[0] = 5.0 | c.__self__.append(x)
an attribute of a function: Scaled.method | getattr(c, "rate", 2.0) | c.rate = 5.0 | c.rate = x
"""
"""How a container is made, what is read of it, a change, and a write."""

SCALED = """
import abc, argparse, array, contextlib, enum, types
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque

class Scaled:
    factor, shared = 2.0, [2.0]

    def __init__(self):
        self.cfg, self._hidden = {"a": 2.0}, 2.0

    hidden = property(lambda self: self._hidden)

    @classmethod
    def by_class(cls, x):
        return x * cls.shared[0]

    def __getitem__(self, x):
        return x * self.cfg["a"]

    def __matmul__(self, x):
        return self.method(x)

    def method(self, x):
        return x * self._hidden

class Other(Scaled):
    def method(self, x):
        return x * 5.0
"""
PLACES: dict[str, tuple[str, str, str, str]] = {
    "variable of a closure": ("rate = 2.0", "x * rate", "nonlocal rate; rate = 5.0", "nonlocal rate; rate = x"),
    "a global": ("global RATE; RATE = 2.0", "x * RATE", "global RATE; RATE += 1.0", "global RATE; RATE = 7.0"),
    "a new global": ("global RATE; RATE = 2.0", "x * RATE", "global RATE; RATE += 1.0", "global LATEST; LATEST = x"),
    "a container in a global": ("global T; T = [2.0]", "x * T[0]", "T[0] += 1.0", "T.append(agrad.sum(x))"),
    "a global that is defined later": ("def r(x):\n try: return x * LATER\n except NameError: return x", "r(x)",
                                       "global LATER; LATER = 7.0", ""),
    "a builtin that a global hides later": ("", "x * pow(2.0, 1.0)", "globals()['pow'] = lambda a, b: 7.0", ""),
    "a default": ("def read(x, rate=2.0): return x * rate", "", "read.__defaults__ = (5.0,)", ""),
    "a list that is a default": ("def read(x, r=[2.0]): return x * r[0]\ndef w(x, kept=[]): kept.append(x)", "",
                                 "read.__defaults__[0][0] = 5.0", "w(x)"),
    "a default of a keyword": ("def read(x, *, r=2.0): return x * r", "", "read.__kwdefaults__['r'] = 5.0", ""),
    "a function's code": ("def f(x): return x * 2.0", "f(x)", "f.__code__ = (lambda x: x * 3.0).__code__", ""),
    "a function's attribute": ("def f(x): return x * f.rate\nf.rate = 2.0", "f(x)", "f.rate = 5.0", "f.rate = x"),
    "a function's new attribute": ("def f(): return getattr(f, 'rate', 1.0)", "x * f()", "f.rate = 3.0", ""),
    "a called function": ("c = {'lr': 2.0}\ndef inner(x): return x * c['lr']\ndef outer(x): return inner(x) + inner(x)",
                          "outer(x)", "c['lr'] = 5.0", "outer(x); c['lr'] = x"),
    "a decorated function": ("c = [2.0]\ndef f(x): return x * c[0]\n@functools.wraps(f)\ndef g(x): return f(x) + 1",
                             "g(x)", "c[0] = 5.0", ""),
    "a context manager": ("c = [2.0]\n@contextlib.contextmanager\ndef rate(): yield c[0]\n"
                          "def r(x):\n with rate() as y: return x * y", "r(x)", "c[0] = 5.0", ""),
    "a function with a custom derivative": (
        "c = [2.0]\nf = agrad.custom_vjp(lambda x: x * 1.0)\nf.defvjp(lambda x: (x, None), lambda _, g: (g * c[0],))",
        "agrad.grad(lambda x: agrad.sum(f(x)))(x)", "c[0] = 5.0", ""),
    "a rule of a primitive": (
        "c = [2.0]\n@agrad.primitive(batch='loop')\ndef f(xp: Any, x: Any, /) -> Any: return x * c[0]\n"
        "@f.vjp\ndef f_vjp(xp: Any, g: Any) -> Any: return g * c[0]",
        "agrad.grad(lambda x: agrad.sum(f(x)))(x)", "c[0] = 5.0", ""),
    "a jitted function": ("c = [2.0]\ninner = agrad.jit(lambda x: x * c[0])", "inner(x) + 1", "c[0] = 5.0", ""),
    "a jitted function itself": ("c = [2.0]\nread = agrad.jit(lambda x: x * c[0])\nread(X)", "", "c[0] = 5.0", ""),
    "a layer itself": ("read = Layer()", "", "read.cfg['a'][0] = 5.0", "read(x); read.cfg['a'].append(x)"),
    "a method itself": ("c = Scaled()\nread = c.method", "", "c._hidden = 5.0", "c._hidden = x"),
    "a static method's global": ("global T; T = [2.0]\nclass A:\n f = staticmethod(lambda x: x * T[0])", "A.f(x)",
                                 "T[0] = 5.0", ""),
    "a base class's attribute": ("class B: factor = 2.0\nclass A(B): pass", "x * A.factor", "B.factor = 5.0",
                                 "B.factor = x"),
    "a property that hides another later": (
        "class B: rate = property(lambda self: 2.0)\nclass A(B): pass\nmade = A()", "x * made.rate",
        "A.rate = property(lambda self: 3.0)", ""),
}  # fmt: skip
"""Statements that make the values, what is read (or "" if they define ``read``), a change, and a write."""


def made(setup: str, read: str, change: str, write: str) -> Case:
    """Return the case of a row."""
    reading = f"def read(x): return {read}" if read else ""
    body = f"{setup}\n{reading}\ndef change(): {change}\ndef write(x): {write or 'pass'}\nreturn read, change, write"
    text = SCALED + "def make():\n" + "".join(f"    {line}\n" for line in body.splitlines())
    space = dict(globals())
    exec(compile(text, "<captures>", "exec"), space)
    found = space["make"]()
    return Case(found[0], found[1], found[2] if write else None)


def of_container(row: str) -> tuple[str, Callable[[], Case]]:
    name, _, rest = row.partition(": ")
    make, read, change, *write = rest.split(" | ")
    return name, lambda: made(f"c = {make}", f"x * ({read})", change, write[0] if write else "")


CASES: dict[str, Callable[[], Case]] = {
    **dict(map(of_container, CONTAINERS.strip().splitlines())),
    **{name: functools.partial(made, *row) for name, row in PLACES.items()},
}
