"""What Python asks of any object, asked of Tensors: outside, recorded, and inside of each transform.

Each cell of the table is right, in value and derivative, or refused.
"""

import copy
import dataclasses
import functools
import pickle
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from checker import assert_close
from refusals import fails

import agrad
from agrad.errors import DetachError, TracedValueError

X = np.asarray([3.0, 4.0])


@dataclasses.dataclass
class Pair:
    first: Any
    second: Any = 0.0


def by_cache(x: Any) -> Any:
    cached = functools.lru_cache(lambda x: x * 1.0)
    return cached(x) if cached(x) is cached(x) else None


def by_thread(x: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: x * 1.0).result()


OUTSIDE = ("leaf", "recorded")
GRADIENTS = ("grad", "forward", "second")
TRACED = ("vmap", "vmap of grad", "jit", "jit of grad", "grad of jit")
JITTED = ("jit", "jit of grad", "grad of jit")


def refused(*kinds: str, error: type[Exception] = TracedValueError) -> dict[str, type[Exception]]:
    return dict.fromkeys(kinds, error)


NOWHERE: dict[str, type[Exception]] = {}
NO_VALUE = refused(*TRACED)

CONTRACTS: dict[str, tuple[Callable[[Any], Any], dict[str, type[Exception]]]] = {
    "copy": (copy.copy, NOWHERE),
    "deepcopy": (copy.deepcopy, NOWHERE),
    "deepcopy in a container": (lambda x: copy.deepcopy({"a": [(x, x)]})["a"][0][1], NOWHERE),
    "copy method": (lambda x: x.copy(), NOWHERE),
    "pickle": (lambda x: pickle.loads(pickle.dumps(x)), refused("recorded", *GRADIENTS, error=DetachError) | NO_VALUE),
    "weakref": (lambda x: weakref.ref(x)(), NOWHERE),
    "hash": (lambda x: {x: x}[x] if hash(x) == hash(x) else None, NOWHERE),
    "iteration": (lambda x: agrad.stack(list(x)), NOWHERE),
    "unpacking": (lambda x: (lambda a, b: agrad.stack([a, b]))(*x), NOWHERE),
    "bool": (lambda x: x if x[0] > 1 and x[1] else None, NO_VALUE),
    "len": (lambda x: x[: len(x)], NOWHERE),
    "str": (lambda x: x if f"{x}" == repr(x) == str(x) else None, NOWHERE),
    "format": (lambda x: x if f"{x[0]:.1f}" == "3.0" else None, NO_VALUE),
    "item": (lambda x: agrad.stack([x[0].item() * x[0] / 3, x[1]]), refused(*GRADIENTS, error=DetachError) | NO_VALUE),
    "tolist": (lambda x: x * (x.tolist()[0] / 3), refused(*GRADIENTS, error=DetachError) | NO_VALUE),
    "detached item": (lambda x: x * (x[0].detach().item() / 3), NO_VALUE),
    "float": (lambda x: x * (float(x[0]) / 3), refused(*OUTSIDE, *GRADIENTS, error=DetachError) | NO_VALUE),
    "lru_cache": (by_cache, NOWHERE),
    "asdict of a dataclass": (lambda x: dataclasses.asdict(Pair(x))["first"], NOWHERE),
    "thread": (by_thread, refused(*JITTED)),
}
CUT = {"copy", "deepcopy", "deepcopy in a container", "pickle", "asdict of a dataclass"}
"""The contracts that make another leaf of a leaf."""


def of_leaf(f: Any, x: Any, kind: str) -> Any:
    t = agrad.asarray(x, requires_grad=True)
    f(t if kind == "leaf" else t * 1.0).backward()
    return t.grad


KINDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "leaf": lambda f, x, rows: of_leaf(f, x, "leaf"),
    "recorded": lambda f, x, rows: of_leaf(f, x, "recorded"),
    "grad": lambda f, x, rows: agrad.grad(f)(x),
    "forward": lambda f, x, rows: agrad.jacfwd(f)(x),
    "second": lambda f, x, rows: agrad.hessian(f)(x) @ x,
    "vmap": lambda f, x, rows: agrad.vmap(f)(rows)[1] * rows[1] / 12.5,
    "vmap of grad": lambda f, x, rows: agrad.vmap(agrad.grad(f))(rows)[1],
    "jit": lambda f, x, rows: agrad.asarray(agrad.jit(f)(x)) * agrad.asarray(x) / 12.5,
    "jit of grad": lambda f, x, rows: agrad.jit(agrad.grad(f))(x),
    "grad of jit": lambda f, x, rows: agrad.grad(agrad.jit(f))(x),
}
"""By kind: what is 2x for the sum of the squares of x."""


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_contract(contract: str, place: Any) -> None:
    function, refusals = CONTRACTS[contract]
    x = place(X)
    rows = agrad.stack([agrad.asarray(x)] * 3)
    for kind, run in KINDS.items():
        if kind in refusals:
            with pytest.raises(refusals[kind]) as caught:
                run(lambda x: agrad.sum(function(x) * x), x, rows)
            assert "detach" in str(caught.value) or refusals[kind] is TracedValueError, kind
        else:
            found = run(lambda x: agrad.sum(function(x) * x), x, rows)
            assert_close(found * (2 if contract in CUT and kind == "leaf" else 1), 2 * X, kind, 1e-12)


# ---------------------------------------------------------------- functions and generators

COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
}


@agrad.jit
def doubled(x: Any) -> Any:
    return 2 * x


def test_public_functions_pickle() -> None:
    sections = {"agrad": vars(agrad), **{name: vars(getattr(agrad, name)) for name in ("linalg", "fft", "special")}}
    functions = {
        f"{s}.{n}": f for s, names in sections.items() for n, f in names.items() if callable(f) and n[0] != "_"
    }
    assert len(functions) > 250
    for name, function in functions.items():
        assert pickle.loads(pickle.dumps(function)) is function, name
    softplus = agrad.elementwise("log", lambda g, x: g / x)
    assert softplus.__module__ == __name__


@pytest.mark.parametrize("how", COPIES)
def test_jitted_functions_are_copied(how: str) -> None:
    twin = COPIES[how](agrad.jit(agrad.sin))
    assert_close(twin(X), np.sin(X), "value", 1e-15)
    assert_close(agrad.grad(lambda x: agrad.sum(twin(x)))(X), np.cos(X), "gradient", 1e-15)
    assert_close(COPIES[how](agrad.jit(agrad.multiply, static_argnums=1))(X, 2.0), 2 * X, "options", 0.0)
    assert COPIES[how](doubled) is doubled


@pytest.mark.parametrize("how", COPIES)
def test_generators_are_copied(how: str) -> None:
    generator = agrad.random.Generator(3)
    generator.key()
    twin = COPIES[how](generator)
    layer = COPIES[how](agrad.nn.Dropout(0.5, rng=twin))
    twin = COPIES[how](generator)
    assert twin is not generator and twin.state() == {"seed": 3, "calls": 1}
    assert np.array_equal(twin.key().numpy(), generator.key().numpy())
    assert layer(agrad.ones(3)).shape == (3,)
    fails(TracedValueError, "copy of a Generator", lambda: agrad.jit(lambda x: COPIES[how](generator))(1.0))


def test_a_deep_copy_of_a_container_keeps_what_is_one_tensor() -> None:
    def product(x: Any) -> Any:
        for tree in ([x, x], {"a": x, "b": (x * 1, x)}):
            twin = copy.deepcopy(tree)
            first, second = (twin[0], twin[1]) if isinstance(twin, list) else (twin["a"], twin["b"][1])
            assert first is second and first is not x
        return first * second

    assert product(agrad.asarray(3.0, requires_grad=True)).item() == 9.0
    assert agrad.grad(product)(3.0) == 6.0
