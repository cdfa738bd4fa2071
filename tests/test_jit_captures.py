"""What a jitted function reads besides its arguments: read, changed between calls, written inside. One table."""

import argparse
import array
import contextlib
import dataclasses
import enum
import functools
import types
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, TracedValueError

X = np.asarray([1.0, 2.0, 4.0])


class Case(NamedTuple):
    """A function of x, what changes what it reads, and what it would write; None where nothing can be written."""

    read: Callable[[Any], Any]
    change: Callable[[], Any]
    write: Callable[[Any], Any] | None = None


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """File a case by its function's name."""
    CASES[make.__name__.replace("_", " ")] = make
    return make


# ------------------------------------------------------------------ containers, by a variable of the closure

Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - the collections' own


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
    """The case of one object, which a variable of the closure holds."""
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
        types.SimpleNamespace(lr=2.0), lambda c: c.lr, lambda c: setattr(c, "lr", 5.0), lambda c, x: vars(c).update(lr=x)
    ),
    "parsed arguments": lambda: contained(
        argparse.Namespace(lr=[2.0]), lambda c: c.lr[0], lambda c: put(0)(c.lr, 5.0), lambda c, x: setattr(c, "new", x)
    ),
    "user dict": lambda: contained(UserDict(a=2.0), lambda c: c["a"], lambda c: put("a")(c, 5.0), put("a")),
    "user list": lambda: contained(UserList([2.0]), lambda c: c[0], lambda c: put(0)(c, 5.0), append),
    "chain of dicts": lambda: contained(ChainMap({}, {"a": 2.0}), lambda c: c["a"], lambda c: put("a")(c, 5.0), put("a")),
    "bytes": lambda: contained(bytearray(b"ab"), lambda c: c[0], lambda c: put(0)(c, 50), lambda c, x: c.append(1)),
    "array of numbers": lambda: contained(
        array.array("d", [2.0]), lambda c: c[0], lambda c: put(0)(c, 5.0), lambda c, x: c.append(1.0)
    ),
    "enum": lambda: contained([Color.RED], lambda c: c[0].value, lambda c: put(0)(c, Color.BLUE)),
    "dtype": lambda: contained({"t": np.float32}, lambda c: np.dtype(c["t"]).itemsize, lambda c: put("t")(c, np.int8)),
    "function in a dict": lambda: contained({"f": lambda: 2.0}, lambda c: c["f"](), lambda c: put("f")(c, lambda: 3.0)),
    "string": lambda: contained({"mode": "a"}, lambda c: 2.0 if c["mode"] == "a" else 3.0, lambda c: put("mode")(c, "b")),
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
        Plain(), lambda c: getattr(c, "other", 3.0), lambda c: setattr(c, "other", 5.0), lambda c, x: setattr(c, "other", x)
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
    """An equal object in the place of another one, which is changed afterwards."""
    made[0] = Settings()
    made[0].rate = 5.0


def replaced_and_written(made: Any) -> None:
    made["w"] = agrad.asarray([2.0], requires_grad=True)
    with agrad.no_grad():
        made["w"][0] = 9.0


# ------------------------------------------------------------------ places

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
        global LATEST  # noqa: PLW0604 - it is not there before
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
    return Case(lambda x: x * MODULE.rate["lr"], lambda: put("lr")(MODULE.rate, 5.0), lambda x: put("a")(MODULE.rate, x))


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
    shared: Any = [2.0]

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
        lambda x: x * getattr(made, "other", 3.0), lambda: setattr(made, "other", 5.0), lambda x: setattr(made, "other", x)
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


# ------------------------------------------------------------------ the tests


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(agrad.asarray(got).numpy(), agrad.asarray(expected).numpy(), rtol=1e-15)


@pytest.mark.parametrize("name", CASES)
def test_what_changes_between_calls_is_seen(name: str) -> None:
    read, change, _ = CASES[name]()
    jitted = agrad.jit(read)
    first = read(X)
    for _ in range(3):
        close(jitted(X), first)
    assert jitted.cache_info().misses == 1
    change()
    second = read(X)
    assert not np.array_equal(agrad.asarray(first).numpy(), agrad.asarray(second).numpy())
    for _ in range(2):
        close(jitted(X), second)
    assert jitted.cache_info().misses == 2


@pytest.mark.parametrize("name", [name for name, make in CASES.items() if make().write is not None])
def test_what_is_written_inside_is_an_error(name: str) -> None:
    write = CASES[name]().write
    assert write is not None
    try:
        with pytest.raises(TracedValueError, match="while it was traced"):
            agrad.jit(lambda x: (write(x), x)[1])(X)
    finally:
        globals().pop("LATEST", None)
        globals().update(RATE=2.0, TABLE={"lr": [2.0]})


def test_a_layer_alone_sees_its_mode() -> None:
    layer = nn.Dropout(0.5)
    jitted = agrad.jit(layer)
    assert not np.array_equal(jitted(np.ones(64)), np.ones(64))
    layer.eval()
    np.testing.assert_array_equal(jitted(np.ones(64)), np.ones(64))


def test_a_log_that_no_code_names_costs_nothing() -> None:
    """A Module's list of losses is no state of the function, however long it grows."""
    layer = Layer()
    jitted = agrad.jit(layer)
    for _ in range(3):
        close(jitted(X), X * 4)
        layer.losses += [0.5] * 1000
    assert jitted.cache_info().misses == 1


def test_equal_values_are_the_same_program() -> None:
    cfg = {"lr": 2.5, "shape": (3, 4), "name": "a" * 40, "nan": float("nan")}
    jitted = agrad.jit(lambda x: x * cfg["lr"])
    for _ in range(3):
        close(jitted(X), X * 2.5)
        cfg = {"lr": 5.0 / 2, "shape": (3, 2 * 2), "name": "".join(["a"] * 40), "nan": float("nan")} | {}
    assert jitted.cache_info().misses == 3  # another dict each time
    for _ in range(3):
        cfg.update(lr=10.0 / 4, shape=tuple([3, 4]), name="a" * len(cfg["name"]), nan=float("nan"))  # type: ignore[arg-type]
        close(jitted(X), X * 2.5)
    assert jitted.cache_info().misses == 4


# ------------------------------------------------------------------ arrays

ARRAYS: dict[str, tuple[Callable[[int], Any], Callable[[Any, Any], Any]]] = {
    "itself": (np.ones, lambda c, x: x * c[:3]),
    "of several values": (lambda n: np.arange(1.0, n + 1), lambda c, x: x * c[:3]),
    "zeros": (np.zeros, lambda c, x: x + c[:3]),
    "in another operation": (np.ones, lambda c, x: x * agrad.sin(c)[:3]),
    "its sum": (np.ones, lambda c, x: x * agrad.sum(c)),
    "as a tensor": (np.ones, lambda c, x: agrad.asarray(x) * agrad.sum(agrad.asarray(c)[:3])),
    "differentiated": (np.ones, lambda c, x: x * agrad.grad(lambda y: agrad.sum(y**3))(c)[:3]),
}


@pytest.mark.parametrize("size", [3, 5000])
@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_is_captured(name: str, size: int, backend: str, place: Any) -> None:
    """It is read at each call, or guarded: also one that is filled with one value, and of which constants are made."""
    if backend == "jax":
        pytest.skip("arrays that nothing can write into")
    make, use = ARRAYS[name]
    captured, x = place(make(size)), place(X)
    cfg = {"a": [captured]}
    jitted = agrad.jit(lambda x: use(captured, x) + use(cfg["a"][0], x))
    for value in (2.0, 3.0, 3.0):
        for _ in range(2):
            close(jitted(x), 2 * agrad.asarray(use(captured, x)))
        captured[0] = value
    close(jitted(x), 2 * agrad.asarray(use(captured, x)))
    # what tells of a write may be its bytes, or a number that counts writes
    assert jitted.cache_info().misses == (4 if backend in ("torch", "dask") else 1 if size == 5000 else 3)


@pytest.mark.parametrize("size", [3, 5000])
def test_a_write_to_a_captured_array(size: int, backend: str, place: Any) -> None:
    if backend in ("jax", "cupy"):
        pytest.skip("arrays that nothing can write into, or whose content is not looked at")
    captured = place(np.ones(size))

    def f(x: Any) -> Any:
        captured[0] = 2.0
        return x

    with pytest.raises(TracedValueError, match="changed captured while it was traced"):
        agrad.jit(f)(place(X))


def test_what_numpy_computes_of_a_small_array_is_guarded() -> None:
    scale, offsets = np.asarray([4.0, 9.0, 16.0]), [np.asarray(1.0)]

    def f(x: Any) -> Any:
        return x * np.sqrt(scale) + float(offsets[0])

    jitted = agrad.jit(f)
    close(jitted(X), f(X))
    scale[1] = 25.0
    close(jitted(X), f(X))
    offsets[0][...] = 7.0
    close(jitted(X), f(X))


def test_a_derivative_reads_captured_arrays_anew() -> None:
    scale = np.ones(5000)
    w = agrad.asarray(np.ones(5000), requires_grad=True)
    forward = agrad.jit(lambda: agrad.sum(w * w * scale))
    for value in (1.0, 3.0):
        scale[...] = value
        w.grad = None
        forward().backward()
        np.testing.assert_array_equal(w.grad.numpy(), np.full(5000, 2 * value))
    assert forward.cache_info().misses == 1


# ------------------------------------------------------------------ the limit

LIMITED: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], str]] = {
    "list": (lambda: {"layers": [1.0] * 1001}, lambda c: c["layers"][3], r"cfg\['layers'\]"),
    "dict": (lambda: {str(i): i for i in range(2000)}, lambda c: c["3"], "reaches cfg,"),
    "nested": (lambda: [{"a": [i, i]} for i in range(600)], lambda c: c[3]["a"][0], r"cfg\[\d+\]"),
    "objects": (lambda: [Plain() for _ in range(1100)], lambda c: c[3].rate, r"cfg\[\d+\]"),
    "arrays": (lambda: [np.ones(2) for _ in range(1100)], lambda c: c[3][0], r"cfg\[\d+\]"),
}


@pytest.mark.parametrize("name", LIMITED)
def test_more_than_can_be_compared_is_refused(name: str) -> None:
    make, read, named = LIMITED[name]
    cfg = make()
    with pytest.raises(ConfigurationError, match=rf"jit\(f\) .*{named}.* more than 1,000 .*pass it as an argument"):

        @agrad.jit
        def f(x: Any) -> Any:
            return x * read(cfg)

        f(X)


def test_tuples_and_layers_are_not_counted() -> None:
    numbers = tuple(range(5000))
    layers = [nn.ReLU() for _ in range(1500)]
    tensors = {str(i): agrad.asarray(float(i)) for i in range(1200)}
    jitted = agrad.jit(lambda x: layers[3](x) * numbers[4000] * tensors["3"])
    close(jitted(X), X * 12000.0)
    with agrad.no_grad():
        tensors["3"][...] = 5.0
    close(jitted(X), X * 20000.0)


def test_a_static_argument_is_looked_at() -> None:
    settings = Plain()
    f = agrad.jit(lambda x, settings: x * settings.rate, static_argnums=1)
    close(f(X, settings), X * 2.0)
    settings.rate = 5.0
    close(f(X, settings), X * 5.0)
