"""``explain`` of a jitted function: each kind of reason for a trace, by the name of what differed."""

import functools
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from jit_help import close, descent
from refusals import fails

import agrad
from agrad import nn, optim
from agrad.errors import BackendUnavailableError


def ones(*shape: int, dtype: Any = agrad.float32) -> Any:
    return agrad.ones(shape, dtype=dtype)


def reasons(made: Any) -> list[str]:
    """What differed at the last trace."""
    found: list[str] = made.explain().reasons[-1]
    return found


def scaled(x: Any, n: Any = 1, rate: Any = 0.5) -> Any:
    return x * n if rate > 0 else x


def with_a(x: Any, params: Any) -> Any:
    return x if params is None else x * agrad.sum(params["a"])


def of_a(params: Any) -> Any:
    return agrad.sum(params["a"][0])


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
ONE, SQUARE = ones(1), np.ones((3, 3))
moded = functools.partial(agrad.jit, by_mode, static_argnames=("mode", "count"))
ARGUMENTS: list[tuple[Any, Callable[[Any], Any], str]] = [
    (agrad.jit(scaled), lambda f: (f(ones(4, 3)), f(ones(2, 3))), f"x: {F32}[4,3] -> {F32}[2,3]"),
    (agrad.jit(scaled), lambda f: (f(ones(3)), f(ones(3, dtype=agrad.int32))), f"x: {F32}[3] -> Tensor int32[3]"),
    (agrad.jit(scaled), lambda f: (f(ones(3).data), f(ones(3))), f"x: float32[3] -> {F32}[3]"),
    (agrad.jit(scaled), lambda f: (f(ones(3), 3), f(ones(3), 4)), "n (static): 3 -> 4"),
    (agrad.jit(scaled), lambda f: (f(ones(3), 3), f(ones(3), 4.0)), "n: 3 -> float"),
    (agrad.jit(scaled), lambda f: (f(ones(3)), f(leaf(ones(3)))), f"x: {F32}[3] -> {F32}[3] that requires a gradient"),
    (agrad.jit(scaled), lambda f: (f(ones(3)), f(ones(3), 1)), "positional arguments: 1 -> 2"),
    (agrad.jit(with_a), lambda f: (f(ones(3), {"a": ones(2)}), f(ones(3), None)), "structure of params: dict -> None"),
    (agrad.jit(with_a), lambda f: (f(ones(3), {"a": ones(2)}), f(ones(3), {"a": ones(2), "b": ones(2)})),
     "structure of params: key 'b' new"),
    (agrad.jit(of_a), lambda f: (f({"a": [ones(2), 1.0]}), f({"a": [ones(2), [1.0]]})),
     "structure of params['a'][1]: an array or a value -> list"),
    (agrad.jit(of_a), lambda f: (f({"a": [ones(2), ones(2)]}), f({"a": [ones(2), ones(1)]})),
     f"params['a'][1]: {F32}[2] -> {F32}[1]"),
    (agrad.jit(of_a), lambda f: (f({"a": [ones(2), ones(2)]}), f({"a": [ones(2)]})),
     "structure of params['a']: 2 parts -> 1 parts"),
    (agrad.jit(of_a), lambda f: (f({"a": [ones(2)]}), f({"a": (ones(2),)})), "structure of params['a']: list -> tuple"),
    # the nearest of two
    (agrad.jit(agrad.add), lambda f: (f(ones(2, 1), ones(2)), f(ones(2, 2), ones(2)), f(ones(2, 1), ones(1))),
     f"x2: {F32}[2] -> {F32}[1]"),
    (agrad.jit(agrad.add), lambda f: (f(ones(3), ones(3)), f(*[ones(3)] * 2)),
     "other arguments are one and the same Tensor"),
    (moded(), lambda f: (f(ONE, "a", count=2), f(ONE, "b", count=2)), "mode (static): 'a' -> 'b'"),
    (moded(), lambda f: (f(ONE, "b", count=3), f(ONE, "b", count=3.0)), "count (static): 3 -> 3.0"),
    (agrad.jit(in_sum), lambda f: (f(ONE, 1.0, a=1.0), f(ONE, 1.0, b=1.0)), "argument a: left out; argument b: new"),
    (agrad.jit(in_sum), lambda f: (f(ONE, 1.0), f(ONE, 1)), "argument 1: float -> 1"),
    (agrad.jit(scaled, cache_size=1), lambda f: (f(ones(2)), f(ones(3)), f(ones(2))),
     "its program was removed: the last 1 are kept (cache_size)"),
    (agrad.jit(scaled), lambda f: [f(ones(3), 2, rate) for rate in (0.1, 0.2, -0.1)],
     "gt(rate, 0), which the trace read: True -> False"),
    (agrad.jit(lambda x, rate: x * float(np.sin(rate))), lambda f: (f(ones(3), 0.1), f(ones(3), 0.2)),
     "rate, which the trace read: 0.1 -> 0.2"),
    (agrad.jit(agrad.add, donate_argnums=0), lambda f: (f(np.ones((3, 3)), SQUARE), f(np.ones((3, 3))[:], SQUARE)),
     "the donated leaves that may be overwritten: (0,) -> ()"),
    (agrad.jit(flattened), lambda f: [f(agrad.asarray(np.ones((3, 4), order=order))) for order in ("C", "F")], LAYOUT),
]  # fmt: skip


@pytest.mark.parametrize(("made", "calls", "expected"), ARGUMENTS, ids=[row[-1] for row in ARGUMENTS])
def test_arguments(made: Any, calls: Callable[[Any], Any], expected: str, backend: str) -> None:
    made.cache_clear()
    calls(made)
    assert "; ".join(reasons(made)) == expected


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


# ------------------------------------------------------------------ state


def follows(made: Any, x: Any, *rows: tuple[Callable[[], Any], str]) -> None:
    """Check the only reason for a new trace after each of some changes."""
    made(x)
    for change, expected in rows:
        change()
        made(x)
        assert reasons(made) == [expected]


def test_recording_and_selection() -> None:
    made = agrad.jit(lambda x: x * agrad.ones(3))
    with ExitStack() as stack:
        enter = stack.enter_context
        follows(made, np.ones(3), (lambda: enter(agrad.no_grad()), "gradients are recorded: yes -> no"))
        strict = lambda: enter(agrad.use_backend("array_api_strict"))  # noqa: E731
        follows(made, 3, (strict, "the selected backend: numpy -> array_api_strict"))


def test_gradients_that_were_none(backend: str) -> None:
    """A step that reads its gradients has another program where there are some."""
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    whole = agrad.jit(descent(optimizer, lambda x: agrad.sum(model(x)), "first"))
    step = agrad.jit(lambda x: [None if p.grad is None else p.grad + 0 for p in optimizer.parameters] and whole(x))
    for _ in range(3):
        step(ones(4, 3))
    assert sorted(reasons(step)) == [f"optimizer.parameters[{i}].grad: None -> an array" for i in range(4)]


def test_captured_tensors(backend: str) -> None:
    net = type("Net", (), {})()
    net.w, asks = leaf(ones(3)), "that requires a gradient"
    made = agrad.jit(lambda x: agrad.sum(x * net.w))
    gradient = ones(1, dtype=agrad.float64)
    as_double = ones(1, dtype=agrad.float64).data
    rows = [
        (lambda: setattr(net.w, "data", ones(1).data), f"net.w: {F32}[3] {asks} -> {F32}[1] {asks}"),
        (lambda: setattr(net.w, "data", as_double), f"net.w: {F32}[1] {asks} -> Tensor float64[1] {asks}"),
        # the function does not ask for the gradient
        (lambda: setattr(net.w, "grad", gradient), f"net.w: {F32}[1] {asks} -> Tensor float64[1] {asks}"),
        (lambda: setattr(net.w, "requires_grad", False), f"net.w: Tensor float64[1] {asks} -> Tensor float64[1]"),
    ]
    follows(made, ones(3), *rows)
    assert made.cache_info().misses == 4


def test_values_that_the_function_reads() -> None:
    table, settings, shift = np.arange(3.0), dict[str, Any](n=1, names=["a"]), 1
    counter = type("Counter", (), {"traced_attributes": ("count",)})()
    counter.count = 1
    optimizer = optim.SGD([leaf(ones(3))], lr=0.1)

    def move() -> None:
        nonlocal shift
        shift = 2

    def f(x: Any) -> Any:
        counter.count = counter.count + 1
        y = x * settings["n"] + agrad.asarray(table) + shift + len(settings["names"]) + counter.count
        return y if optimizer.lr > 0.05 else -y

    follows(
        agrad.jit(f),
        np.ones(3),
        (lambda: settings.update(n=2), "settings['n']: 1 -> 2"),
        (lambda: table.fill(7.0), "table: other contents"),
        (lambda: settings["names"].append("b"), "settings['names']: ('a',) -> ('a', 'b')"),
        (move, "the variable shift: 1 -> 2"),
        (lambda: setattr(counter, "count", 1.5), "counter.count: int -> float"),
        (lambda: setattr(optimizer, "lr", 0.01), "gt(optimizer.numbers, 0.05), which the trace read: True -> False"),
    )


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


# ------------------------------------------------------------------ compilers


def looped(x: Any, xs: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        return agrad.tanh(c * 0.5 + row) + agrad.sin(c) * 0.1, agrad.sum(row)

    return agrad.scan(step, x, xs)


def test_what_a_compiler_would_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if ``auto`` asks for one that is not installed; a compiler that is asked for by its name must be."""
    monkeypatch.setattr(sys.modules["agrad.jit.compile"], "find_spec", lambda name: None)
    monkeypatch.setattr("agrad.backends._loaded", {})
    monkeypatch.setitem(sys.modules, "agrad.backends.jax", None)
    gain = "compiler='jax' would take about 1/5 of the time: 840 operations of 4 elements each on average"
    missing = "not compiled: JAX is not installed. Run pip install 'agrad[jax]' (840 op"
    given = np.linspace(0.0, 1.0, 4), np.linspace(-1.0, 1.0, 480).reshape(120, 4)
    for compiler, expected in ((None, gain), ("auto", missing)):
        jitted = agrad.jit(looped, compiler=compiler)
        close(jitted(*given), looped(*given))
        assert jitted.explain().compilers[-1].startswith(expected)
    short = agrad.jit(scaled)
    short(np.ones(2))
    assert short.explain().compilers[-1] == "" and repr(short.explain()).endswith("programs found: 0")
    by_name = agrad.jit(scaled, compiler="jax")
    fails(BackendUnavailableError, r"'jax' is not available.*pip install 'agrad\[jax\]'", by_name, np.ones(2))
