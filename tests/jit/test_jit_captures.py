"""What a jitted function reads besides its arguments: read, changed between calls, written inside. One table."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from captures import CASES, Layer, Plain, X, close
from refusals import fails

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, TracedValueError


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
    fails(TracedValueError, "while it was traced", lambda: agrad.jit(lambda x: (write(x), x)[1])(X))


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
        cfg.update(lr=10.0 / 4, shape=(3, 2 + 2), name="a" * len(cfg["name"]), nan=float("nan"))  # type: ignore[arg-type]
        close(jitted(X), X * 2.5)
    assert jitted.cache_info().misses == 4


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
