"""``explain`` of a jitted function: each kind of reason for a trace, by the name of what differed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jit_help import descent
from refusals import fails

import agrad
from agrad import nn, optim


def ones(*shape: int, dtype: Any = agrad.float32) -> Any:
    return agrad.ones(shape, dtype=dtype)


def reasons(made: Any) -> list[str]:
    """What differed at the last trace."""
    found: list[str] = made.explain().reasons[-1]
    return found


def scaled(x: Any, n: Any = 1, params: Any = None, rate: Any = 0.5) -> Any:
    y = x * n if rate > 0 else x
    return y if params is None else y * agrad.sum(agrad.asarray(params["a"]))


def first_part(x: Any, n: Any, params: Any) -> Any:
    return x * n * agrad.sum(params["a"][0])


def in_sum(x: Any, *more: Any, **named: Any) -> Any:
    return x + sum(more) + sum(named.values())


def by_mode(x: Any, mode: str, *, count: Any) -> Any:
    return x * count if mode == "a" else x


def flattened(x: Any) -> Any:
    y = agrad.reshape(x, (-1,))
    y[0] = 1.0
    return x


def leaf(x: Any) -> Any:
    return agrad.asarray(x.data, requires_grad=True)


F32, LAYOUT = "Tensor float32", "the layout of an array in memory, which decides if a result is a view"
STATIC = {"static_argnames": ("mode", "count")}
Calls = Callable[[], list[tuple[Any, ...]]]
ARGUMENTS: dict[str, tuple[Callable[..., Any], dict[str, Any], Calls, list[str]]] = {
    "shape": (scaled, {}, lambda: [(ones(4, 3),), (ones(2, 3),)], [f"x: {F32}[4,3] -> {F32}[2,3]"]),
    "dtype": (scaled, {}, lambda: [(ones(3),), (ones(3, dtype=agrad.int32),)], [f"x: {F32}[3] -> Tensor int32[3]"]),
    "Tensor": (scaled, {}, lambda: [(ones(3).data,), (ones(3),)], [f"x: float32[3] -> {F32}[3]"]),
    "static": (scaled, {}, lambda: [(ones(3), 3), (ones(3), 4)], ["n (static): 3 -> 4"]),
    "number": (scaled, {}, lambda: [(ones(3), 3), (ones(3), 4.0)], ["n: 3 -> float"]),
    "gradient": (
        scaled, {}, lambda: [(ones(3),), (leaf(ones(3)),)], [f"x: {F32}[3] -> {F32}[3] that requires a gradient"],
    ),
    "new key": (
        scaled, {}, lambda: [(ones(3), 1, {"a": ones(2)}), (ones(3), 1, {"a": ones(2), "b": ones(2)})],
        ["structure of params: key 'b' new"],
    ),
    "a part": (
        first_part, {}, lambda: [(ones(3), 1, {"a": [ones(2), 1.0]}), (ones(3), 1, {"a": [ones(2), [1.0]]})],
        ["structure of params['a'][1]: an array or a value -> list"],
    ),
    "inside": (
        first_part, {}, lambda: [(ones(3), 1, {"a": [ones(2), ones(2)]}), (ones(3), 1, {"a": [ones(2), ones(1)]})],
        [f"params['a'][1]: {F32}[2] -> {F32}[1]"],
    ),
    "parts": (
        first_part, {}, lambda: [(ones(3), 1, {"a": [ones(2), ones(2)]}), (ones(3), 1, {"a": [ones(2)]})],
        ["structure of params['a']: 2 parts -> 1 parts"],
    ),
    "container": (
        first_part, {}, lambda: [(ones(3), 1, {"a": [ones(2)]}), (ones(3), 1, {"a": (ones(2),)})],
        ["structure of params['a']: list -> tuple"],
    ),
    "None": (
        scaled, {}, lambda: [(ones(3), 1, {"a": ones(2)}), (ones(3), 1, None)], ["structure of params: dict -> None"],
    ),
    "count": (scaled, {}, lambda: [(ones(3),), (ones(3), 1)], ["positional arguments: 1 -> 2"]),
    "the nearest": (
        agrad.add, {}, lambda: [(ones(2, 1), ones(2)), (ones(2, 2), ones(2)), (ones(2, 1), ones(1))],
        [f"x2: {F32}[2] -> {F32}[1]"],
    ),
    "static names": (
        by_mode, STATIC, lambda: [(ones(2), "a", {"count": 2}), (ones(2), "b", {"count": 2})],
        ["mode (static): 'a' -> 'b'"],
    ),
    "static keyword": (
        by_mode, STATIC, lambda: [(ones(2), "b", {"count": 3}), (ones(2), "b", {"count": 3.0})],
        ["count (static): 3 -> 3.0"],
    ),
    "names": (
        in_sum, {}, lambda: [(ones(2), 1.0, {"a": 1.0}), (ones(2), 1.0, {"b": 1.0})],
        ["argument a: left out", "argument b: new"],
    ),
    "further": (in_sum, {}, lambda: [(ones(2), 1.0, {}), (ones(2), 1, {})], ["argument 1: float -> 1"]),
    "one twice": (
        agrad.add, {}, lambda: [(ones(3), ones(3)), (ones(3),) * 2], ["other arguments are one and the same Tensor"],
    ),
    "removed": (
        scaled, {"cache_size": 1}, lambda: [(ones(2),), (ones(3),), (ones(2),)],
        ["its program was removed: the last 1 are kept (cache_size)"],
    ),
    "a sign": (
        scaled, {}, lambda: [(ones(3), 2, None, rate) for rate in (0.1, 0.2, -0.1)],
        ["gt(rate, 0), which the trace read: True -> False"],
    ),
    "a number read": (
        lambda x, rate: x * float(np.sin(rate)), {}, lambda: [(ones(3), 0.1), (ones(3), 0.2)],
        ["rate, which the trace read: 0.1 -> 0.2"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name: str, backend: str) -> None:
    function, options, calls, expected = ARGUMENTS[name]
    made = agrad.jit(function, **options)
    for args in calls():
        named = args[-1] if isinstance(args[-1], dict) and function in (by_mode, in_sum) else {}
        made(*(args[:-1] if args[-1] is named else args), **named)
    assert reasons(made) == expected


@pytest.mark.parametrize(
    ("function", "options", "first", "second", "expected"),
    [
        (lambda x, y: x + y, {"donate_argnums": 0}, lambda x: x, lambda x: x[:],
         "the donated leaves that may be overwritten: (0,) -> ()"),
        (lambda x, _: flattened(x), {}, agrad.asarray, lambda x: agrad.asarray(np.asfortranarray(x)), LAYOUT),
    ],
)  # fmt: skip
def test_memory_of_arguments(function: Any, options: Any, first: Any, second: Any, expected: str) -> None:
    made = agrad.jit(function, **options)
    for place in (first, second):
        made(place(np.ones((3, 4))), np.ones((3, 4)))
    assert reasons(made) == [expected]


def test_the_text_lists_all_traces() -> None:
    made = agrad.jit(scaled)
    assert str(made.explain()) == "jit(scaled) was not traced yet"
    for _ in range(2):
        made(np.ones(3))
    assert str(made.explain()) == "jit(scaled) was traced once, for x: float64[3]; programs found: 1"
    assert made.explain().reasons == [[]]
    made(np.ones(4))
    made(np.ones(4), 2)
    assert str(made.explain()).splitlines() == [
        "jit(scaled) was traced 3 times; programs found: 1",
        "1. x: float64[3]",
        "2. x: float64[4]",
        "     x: float64[3] -> float64[4]",
        "3. x: float64[4], n = 2",
        "     positional arguments: 1 -> 2",
    ]


def test_the_last_traces_are_kept_with_their_numbers() -> None:
    made = agrad.jit(lambda x, n: x + n)
    for n in range(20):
        made(np.ones(2), n)
    explained = made.explain()
    assert explained.count == 20 and len(explained.reasons) == len(explained.signatures) == 16
    assert str(explained).splitlines()[1] == "5. x: float64[2], n = 4"
    made.cache_clear()
    assert str(made.explain()).endswith("was not traced yet")


def test_many_arguments_are_shortened() -> None:
    made = agrad.jit(lambda params: agrad.sum(params["w0"]))
    made({f"w{i}": np.ones(2) for i in range(12)})
    made({f"w{i}": np.ones(3) for i in range(12)})
    assert str(made.explain()).count("and 4 more") == 3


def test_recording_and_selection() -> None:
    made = agrad.jit(lambda x: x * agrad.ones(3))
    made(np.ones(3))
    with agrad.no_grad():
        made(np.ones(3))
    assert reasons(made) == ["gradients are recorded: yes -> no"]
    with agrad.use_backend("array_api_strict"):
        pass
    made.cache_clear()
    made(3)
    with agrad.use_backend("array_api_strict"):
        made(3)
    assert reasons(made) == ["the selected backend: numpy -> array_api_strict"]


# ------------------------------------------------------------------ state


def model_step(**options: Any) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(3, 2, rng=rng), nn.ReLU(), nn.Linear(2, 1, rng=rng))
    optimizer = optim.SGD(model.parameters(), lr=0.1, **options)
    return model, optimizer, agrad.jit(descent(optimizer, lambda x: agrad.sum(model(x)), "first"))


def test_gradients_that_were_none(backend: str) -> None:
    """A step that reads its gradients has another program where there are some."""
    _, optimizer, whole = model_step()
    step = agrad.jit(lambda x: [None if p.grad is None else p.grad + 0 for p in optimizer.parameters] and whole(x))
    for _ in range(3):
        step(ones(4, 3))
    assert sorted(reasons(step)) == [f"optimizer.parameters[{i}].grad: None -> an array" for i in range(4)]


def test_captured_tensors(backend: str) -> None:
    class Net:
        def __init__(self) -> None:
            self.w = agrad.asarray(ones(3).data, requires_grad=True)

    net = Net()
    made = agrad.jit(lambda x: agrad.sum(x * net.w))

    def after(change: Callable[[], Any]) -> list[str]:
        change()
        made(ones(3))
        return reasons(made)

    made(ones(3))
    assert after(lambda: setattr(net.w, "data", ones(1).data)) == [
        "net.w: Tensor float32[3] that requires a gradient -> Tensor float32[1] that requires a gradient"
    ]
    as_int = ones(1, dtype=agrad.float64).data
    assert after(lambda: setattr(net.w, "data", as_int)) == [
        "net.w: Tensor float32[1] that requires a gradient -> Tensor float64[1] that requires a gradient"
    ]
    gradient = ones(1, dtype=agrad.float64)
    net.w.grad = gradient
    made(ones(3))
    assert made.cache_info().misses == 3  # the function does not ask for it
    assert after(lambda: setattr(net.w, "requires_grad", False)) == [
        "net.w: Tensor float64[1] that requires a gradient -> Tensor float64[1]"
    ]


def test_values_that_the_function_reads() -> None:
    table = np.arange(3.0)
    settings: dict[str, Any] = {"n": 1, "names": ["a"]}
    shift = 1

    def f(x: Any) -> Any:
        return x * settings["n"] + agrad.asarray(table) + shift + len(settings["names"])

    made = agrad.jit(f)
    made(np.ones(3))
    settings["n"] = 2
    made(np.ones(3))
    assert reasons(made) == ["settings['n']: 1 -> 2"]
    table[0] = 7
    made(np.ones(3))
    assert reasons(made) == ["table: other contents"]
    settings["names"].append("b")
    made(np.ones(3))
    assert reasons(made) == ["settings['names']: ('a',) -> ('a', 'b')"]
    shift = 2
    made(np.ones(3))
    assert reasons(made) == ["the variable shift: 1 -> 2"]


def test_attributes_of_stateful_objects() -> None:
    class Counter:
        traced_attributes = ("count",)

        def __init__(self) -> None:
            self.count: Any = 1

    counter = Counter()

    def f(x: Any) -> Any:
        counter.count = counter.count + 1
        return x * counter.count

    made = agrad.jit(f)
    made(np.ones(3))
    counter.count = 1.5
    made(np.ones(3))
    assert reasons(made) == ["counter.count: int -> float"]


def test_a_rate_that_the_trace_read() -> None:
    _, optimizer, _ = model_step()

    def read(x: Any) -> Any:
        return x * 2 if optimizer.lr > 0.05 else x

    made = agrad.jit(read)
    made(np.ones(3))
    optimizer.lr = 0.01
    made(np.ones(3))
    assert reasons(made) == ["gt(optimizer.numbers, 0.05), which the trace read: True -> False"]


def test_an_argument_that_is_a_captured_tensor() -> None:
    w = agrad.asarray(np.ones(3), requires_grad=True)
    made = agrad.jit(lambda x: agrad.sum(x * w))
    made(agrad.asarray(np.ones(3), requires_grad=True))
    made(w)
    assert reasons(made) == ["x: another Tensor -> w"]
    made(agrad.asarray(np.ones((3, 3))[0], requires_grad=True))
    assert made.cache_info().misses == 2


def test_a_trace_that_fails_is_not_counted() -> None:
    made = agrad.jit(lambda x: x if x[0] > 0 else -x)
    fails(agrad.errors.TracedValueError, "of a value inside", lambda: made(np.ones(3)))
    assert made.explain().count == 0


def test_the_signatures_of_a_method() -> None:
    class Net:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @agrad.jit
        def run(self, x: Any) -> Any:
            return x * self.factor

    two, three = Net(2.0), Net(3.0)
    for net, size in ((three, 2), (two, 2), (three, 2), (two, 3)):
        np.testing.assert_array_equal(net.run(np.ones(size)), np.full(size, net.factor))
    assert two.run.explain().reasons[-1] == ["x: float64[2] -> float64[3]"]
