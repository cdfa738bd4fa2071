"""Programs of NumPy's arrays that XLA compiles: all that are asked for, or those that ``compiler="auto"`` chooses."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from jit_help import close
from modes import check_same
from processes import run_program
from refusals import fails
from tensors import draw

import agrad
from agrad import random
from agrad.errors import ConfigurationError

pytestmark = pytest.mark.needs("jax")
compiled = agrad.jit(compiler="jax")


def assert_same(got: Any, right: Any, single: bool = False) -> None:
    """The same structure, types, dtypes and values."""
    assert agrad.tree.structure(got) == agrad.tree.structure(right)
    for a, b in zip(agrad.tree.leaves(got), agrad.tree.leaves(right), strict=True):
        assert type(a) is type(b)
        assert host(a).dtype == host(b).dtype
        assert_close(host(a), host(b), "result", 2e-4 if single else 1e-11)


# ------------------------------------------------------------------ values


def joined(x: Any) -> Any:
    return agrad.concat([x[1:], x[:1] * 2], axis=0) + agrad.arange(x.shape[1], dtype=x.dtype), agrad.sum(x > 0) * 1.0


def scanned(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        carry = agrad.tanh(carry * 0.5 + row)
        return carry, agrad.sum(carry)

    return agrad.scan(step, agrad.zeros_like(x[0]), x)


KEYS = random.split(random.key(3), 4).numpy()


def nested(x: Any) -> Any:
    """Loops within a loop, one of them with a random number in each step."""

    def step(carry: Any, given: Any) -> Any:
        n, key = given
        small = agrad.while_loop(lambda y: agrad.max(agrad.abs(y)) > 1, lambda y: y * 0.5, carry)
        grown = agrad.fori_loop(0, 3, lambda _, y: agrad.sin(y) + 0.1, small)
        noise = random.normal(key, carry.shape, dtype=carry.dtype)
        return agrad.cond(n > 1, lambda y: agrad.where(y > 0, grown, y), lambda y: y * 2, carry), noise

    return agrad.scan(step, x, (np.arange(4), KEYS))


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "elements": lambda x: agrad.sin(x) * 2 + agrad.where(x > 0, agrad.exp(-x), x),
    "an array without axes": lambda x: agrad.reshape(agrad.sum(x), (1,))[0, ...],
    "statistics": lambda x: (agrad.mean(x, axis=0), agrad.std(x, axis=1), agrad.max(x)),
    "indices": lambda x: x[::2, 1] + x[[0, 2], [1, 1]],
    "a constant": lambda x: x @ np.arange(6, dtype=x.dtype).reshape(3, 2),
    "joined": joined,
    "hessian": lambda x: agrad.hessian(lambda row: agrad.sum(row**3))(x[0]),
    "vmap": agrad.vmap(lambda row: agrad.logsumexp(row) * row),
    "linear algebra": lambda x: agrad.linalg.solve(x.T @ x + np.eye(3, dtype=x.dtype), x[0]),
    "scan": scanned,
    "gradient of a scan": agrad.value_and_grad(lambda x: agrad.sum(scanned(x)[0] ** 2)),
    "loops in a loop": nested,
    "the argument": lambda x: (x, x, x.T),
    "other dtypes": lambda x: (agrad.astype(x, agrad.int32) + 1, agrad.argmax(x, axis=1)[0] * 1.5, x + 1j),
    "no arrays": lambda x: x.shape[0] * 2.0,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_the_uncompiled(name: str, dtype: Any) -> None:
    right, got = agrad.jit(PROGRAMS[name]), compiled(PROGRAMS[name])
    for seed in range(2):
        x = draw(4, 3, seed=seed).astype(dtype)
        given = x.copy()
        out = got(x)
        assert_same(out, right(x), dtype is np.float32)
        for part in agrad.tree.leaves(out):
            if isinstance(part, np.ndarray):
                part += 1  # an array of its own: neither read-only nor the argument's memory
        np.testing.assert_array_equal(x, given)
    assert got.cache_info()[:2] == (1, 1)


def test_numbers_may_change_and_do_not_widen() -> None:
    f = compiled(lambda x, a, n: (x * a + 1, agrad.sum(x) * a, a * 2, x[n]))
    x = draw(3).astype(np.float32)
    for a in (0.3, 2.0):
        for got, right in zip(f(x, a, 1), (x * a + 1, x.sum() * a, a * 2, x[1]), strict=True):
            assert type(got) is type(right)
            np.testing.assert_allclose(got, right, rtol=1e-6)
    assert f.cache_info()[:2] == (1, 1)


def test_arrays_of_any_layout() -> None:
    f = compiled(lambda x, y: agrad.reshape(x, (-1,)) @ y)
    base = draw(6, 8)
    for x in (base[:, ::2], base.T[::2].T, base[::-1, 1::2], np.asfortranarray(base[:, ::2])):
        np.testing.assert_allclose(f(x, np.ones(24)), x.sum())


def test_a_write_of_a_whole_array_is_no_scatter() -> None:
    """XLA ends the process where it compiles a flip of one."""
    import jax

    from agrad.backends.jax import scatter_add, setitem

    def both(x: Any, index: Any) -> Any:
        return setitem(x, 0.5, index=index), setitem(x, x[0], index=index), scatter_add(x, index=index, shape=x.shape)

    x = jax.numpy.ones((2, 3), dtype="float32")
    for index in ((), (...,), (slice(None),), (slice(None), ..., slice(None))):
        assert "scatter" not in str(jax.make_jaxpr(lambda x, index=index: both(x, index))(x))
        for got, right in zip(both(x, index), (x * 0.5, x, x), strict=True):
            assert got.dtype == x.dtype
            np.testing.assert_array_equal(got, right)
    for index in ((0, ...), (slice(None, None, -2), 1), (None, slice(1, 2))):
        part = x[tuple(index)]
        program = jax.make_jaxpr(lambda g, index=index: scatter_add(g, index=index, shape=x.shape))(part)
        assert "pad" in str(program) and "scatter" not in str(program)
        expected = np.zeros((2, 3))
        expected[index] = 1.0
        np.testing.assert_array_equal(scatter_add(part, index=index, shape=x.shape), expected)


def test_an_index_out_of_range_gives_nan_once_the_program_is_made() -> None:
    f = compiled(agrad.value_and_grad(lambda x, i: agrad.sum(x[i] * 2)))
    x, inside, outside = np.arange(4.0), np.asarray([1, 3, -4]), np.asarray([1, 4, -5])
    fails(IndexError, "out of bounds", f, x, outside)
    value, slope = f(x, inside)
    assert value == 8 and slope.tolist() == [2, 2, 0, 2]
    assert np.isnan(f(x, outside)[0])
    assert compiled(lambda x, i: x[i, 1:])(x.reshape(2, 2), np.asarray([-1])).tolist() == [[3]]


# ------------------------------------------------------------------ derivatives, and the options of jit


def cubes(x: Any, w: Any) -> Any:
    return agrad.sum(agrad.tanh(x @ w) ** 3), x * 2


def test_a_jitted_call_has_derivatives_in_every_order() -> None:
    modes = ("gradient", "reverse over reverse", "tangent", "vmap")
    check_same(compiled(cubes), cubes, (draw(4, 3), draw(3, 2, seed=1)), modes, 1e-11)


def test_a_gradient_on_the_tape_is_writable_and_kept_apart() -> None:
    weight: Any = agrad.asarray(draw(3, 2), requires_grad=True)
    loss = compiled(lambda x: agrad.sum(agrad.tanh(x @ weight) ** 2))
    for _ in range(2):
        loss(draw(4, 3)).backward()
    first = weight.grad.numpy().copy()
    weight.grad = None
    loss(draw(4, 3)).backward()
    np.testing.assert_allclose(first, 2 * weight.grad.numpy())
    assert weight.grad.raw.flags.writeable


def _aligned(values: Any) -> np.ndarray:
    """An array that XLA reads where it is."""
    raw = np.empty(values.nbytes + 64, np.uint8)
    start = -raw.__array_interface__["data"][0] % 64
    out = raw[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    out[...] = values
    return out


@pytest.mark.parametrize("size", [3, 100_000])
def test_results_share_no_memory(size: int) -> None:
    """Large results stay where XLA computed them, except for arguments, constants and equal results."""
    x, c = _aligned(np.linspace(0.0, 1.0, size)), _aligned(np.linspace(1.0, 2.0, size))

    def f(x: Any) -> Any:
        y = agrad.sin(x)
        same = agrad.reshape(agrad.asarray(c), (size,))
        return agrad.reshape(x, (size,)), y, y, agrad.reshape(y, (size,)), same, same * 1.0, y * 2.0, agrad.sum(y)

    program = compiled(f)

    def call(x: Any) -> list[Any]:
        return [getattr(v, "raw", v) for v in program(x)]

    found, right = [call(x) for _ in range(3)], [np.array(host(v)) for v in f(x)]
    results = [v for out in found for v in out[:-1]]
    for v in results:
        assert type(v) is np.ndarray and v.flags.writeable
        assert not any(np.shares_memory(v, other) for other in (x, c, *[w for w in results if w is not v]))
        v += 1.0
    for out in found:
        for v, expected in zip(out[:-1], right, strict=False):
            np.testing.assert_allclose(v, expected + 1.0)
    for v, expected in zip(call(x), right, strict=True):
        np.testing.assert_allclose(v, expected)


def test_a_result_that_the_derivative_needs_may_be_overwritten() -> None:
    x = agrad.asarray(_aligned(np.linspace(0.1, 1.0, 100_000)), requires_grad=True)
    y = compiled(agrad.exp)(x)
    z = agrad.sum(y)
    y.data[...] = 0.0
    z.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(x.detach().numpy()))


def test_static_and_donated_arguments() -> None:
    f = agrad.jit(lambda x, n: x * n, compiler="jax", static_argnums=1, donate_argnums=0)
    for n in (2, 3):
        np.testing.assert_array_equal(f(np.ones(3), n), np.full(3, n))
    assert f.cache_info().misses == 2


@pytest.mark.parametrize("precision", ["tf32", "bfloat16", "float16"])
def test_narrow_products_are_those_of_jax(precision: str) -> None:
    x, w = draw(8, 5).astype(np.float32), draw(5, 4, seed=1).astype(np.float32)
    got = agrad.jit(lambda x: x @ w, compiler="jax", precision=precision)(x)
    assert type(got) is np.ndarray and got.dtype == np.float32
    np.testing.assert_allclose(got, x @ w, atol={"tf32": 1e-5, "bfloat16": 0.05, "float16": 0.01}[precision])
    assert (np.max(np.abs(got - x @ w)) > 1e-5) is np.bool_(precision != "tf32")


def test_the_text_says_who_compiles() -> None:
    import jax

    lowered = compiled(lambda x: agrad.sin(x) * 2).lower(draw(3))
    assert lowered.code.startswith(f"# compiled by XLA (jax {jax.__version__}) for the CPU\ndef program(inputs):")
    assert "# arrays of JAX" in str(lowered)


# ------------------------------------------------------------------ JAX's own settings


def test_double_precision_is_on_inside_alone() -> None:
    """The switch of JAX is the process's. Another process shows it as it is by default."""
    code = """
import threading, numpy as np, agrad
f = agrad.jit(lambda x: agrad.exp(x) * 2, compiler="jax")
found = []
def work():
    for n in range(20):
        found.append((f(np.full(3, 1.0)), jnp.ones(3).dtype))
assert f(np.ones(3)).dtype == "float64"
import jax, jax.numpy as jnp
assert not jax.config.jax_enable_x64 and jnp.ones(3).dtype == "float32"
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
for n in range(50):
    assert jnp.ones(3).dtype == "float32"
[t.join() for t in threads]
assert len(found) == 80
for y, dtype in found:
    assert dtype == "float32" and y.dtype == "float64"
    np.testing.assert_allclose(y, 2 * np.e, rtol=1e-14)
assert not jax.config.jax_enable_x64 and agrad.get_backend() == "numpy"
"""
    run_program(code)


# ------------------------------------------------------------------ refusals


def without_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agrad.backends._loaded", {})
    monkeypatch.setitem(sys.modules, "agrad.backends.jax", None)


@pytest.mark.parametrize("library", [pytest.param("torch", marks=pytest.mark.needs("torch")), "jax"])
def test_other_arrays_are_refused(library: str) -> None:
    refusal = {"torch": "compiler='jax' compiles programs of NumPy.*arrays of torch", "jax": "arrays of jax.*JAX"}
    fails(ConfigurationError, refusal[library], compiled(lambda x: x * 2), agrad.ones(2, backend=library).data)


@agrad.primitive(name="by_hand")
def by_hand(xp: Any, x: Any, /) -> Any:
    return np.array(x) * 2  # the host's memory


@by_hand.vjp
def by_hand_vjp(xp: Any, g: Any) -> Any:
    return g * 2


def test_what_cannot_be_compiled_is_named_and_leaves_the_state() -> None:
    count = agrad.asarray(np.zeros(2), requires_grad=True)

    def f(x: Any) -> Any:
        with agrad.no_grad():
            count.assign(count + 1)
        return by_hand(x)

    jitted = compiled(f)
    for _ in range(2):
        fails(ConfigurationError, "compiler='jax' cannot compile by_hand: Tracer.*Omit compiler", jitted, np.ones(2))
    np.testing.assert_array_equal(count.detach().numpy(), np.zeros(2))


def test_dtypes_that_jax_lacks_are_refused() -> None:
    refusal = r"compiler='jax' does not support arrays of dtype\(.*Cast them, or omit"
    fails(ConfigurationError, refusal, compiled(lambda x: x * 2), np.ones(2, dtype=">f8"))


# ------------------------------------------------------------------ the choice

auto, STEPS = agrad.jit(compiler="auto"), 120
GIVEN = draw(4), draw(STEPS, 4, seed=1)


def loop(x: Any, xs: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        c = agrad.tanh(c * 0.5 + row) + agrad.sin(c) * 0.1
        return c, agrad.sum(c)

    return agrad.scan(step, x, xs)


def compiler_of(jitted: Any) -> str:
    """What the last trace says on the compiler."""
    found: str = jitted.explain().compilers[-1]
    return found


def test_a_loop_of_small_operations_is_compiled_by_jax() -> None:
    jitted = auto(loop)
    for got in (jitted(*GIVEN), jitted(*GIVEN)):
        close(got, loop(*GIVEN))
        assert {type(part) for part in got} == {np.ndarray}
    assert compiler_of(jitted) == "compiled by JAX: 840 operations of 4 elements each on average"
    assert repr(jitted.explain()).endswith("\n     " + compiler_of(jitted))
    assert "compiled by XLA" in str(jitted.lower(*GIVEN))


def of_thousands(x: Any) -> Any:
    for _ in range(2600):
        x = x * 0.5
    return x


def sines(x: Any) -> Any:
    return agrad.scan(lambda c, _: (agrad.sin(c), None), x, length=STEPS)[0]


def large(x: Any) -> Any:
    return agrad.scan(lambda c, _: (agrad.tanh(c * 0.5 + c) - c, None), x, length=150)[0]


LITTLE = "not compiled by JAX, which would gain little: "
OTHERS: dict[str, tuple[Any, Callable[[], tuple[Any, ...]], str]] = {
    "a short program": (lambda x: x * 2 + 1, lambda: (np.ones(3),), LITTLE),
    "a short loop": (lambda x: agrad.scan(lambda c, _: (c * 2, None), x, length=9)[0], lambda: (np.ones(3),), LITTLE),
    "large arrays": (large, lambda: (np.ones(200_000),), LITTLE),
    "thousands": (of_thousands, lambda: (np.ones(2),),
                  "not compiled by JAX: 2,600 operations would take minutes. Use agrad.scan for loops"),
    "dtypes": (loop, lambda: (GIVEN[0], GIVEN[1].astype(">f8")),
               "not compiled by JAX: jit: compiler='jax' does not support arrays of dtype('>f8')"),
    "torch": (sines, lambda: (agrad.ones(2, backend="torch").raw,),
              "not compiled by JAX: its arrays are not NumPy arrays"),
    "not able to run": (loop, lambda: GIVEN, "not compiled by JAX: Backend 'jax' is not available"),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.needs("torch" if n == "torch" else "jax")) for n in OTHERS]
)
def test_other_programs_run_on_their_own_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, make, expected = OTHERS[name]
    if name == "not able to run":
        without_jax(monkeypatch)
    given, jitted = make(), auto(f)
    found = jitted(*given)
    close(found, f(*given))
    assert type(agrad.tree.leaves(found)[0]) is type(given[0])
    assert compiler_of(jitted).startswith(expected)
    assert "compiled by XLA" not in str(jitted.lower(*given))


@agrad.primitive(name="by_hand_backwards")
def by_hand_backwards(xp: Any, x: Any, /) -> Any:
    return x * 2


@by_hand_backwards.vjp
def by_hand_backwards_vjp(xp: Any, g: Any) -> Any:
    return by_hand(g)


@pytest.mark.parametrize("operation", [by_hand, by_hand_backwards])
@pytest.mark.parametrize("rate", [None, 0.1])
def test_what_jax_cannot_compile_runs_on_numpy(operation: Any, rate: float | None) -> None:
    """In a program with a number of the host too, in its derivative alone, and with state."""
    w, count = agrad.asarray(draw(4), requires_grad=True), agrad.asarray(np.zeros(2), requires_grad=True)

    def f(xs: Any, rate: float | None) -> Any:
        return operation(agrad.sum(loop(w, xs)[1])) * (1.0 if rate is None else rate)

    @auto
    def counted(xs: Any, rate: float | None) -> Any:
        with agrad.no_grad():
            count.assign(count + 1)
        return f(xs, rate)

    for n in (1, 2):
        found = []
        for call in (counted, f):
            w.grad = None
            call(GIVEN[1], rate).backward()
            found.append(w.grad)
        close(*found, rtol=1e-11)
        np.testing.assert_array_equal(count.detach().numpy(), np.full(2, float(n)))
    assert compiler_of(counted).startswith("not compiled by JAX: jit: compiler='jax' cannot compile by_hand: Tracer")


def test_derivatives_of_calls_in_every_order() -> None:
    jitted = auto(lambda x: agrad.sum(loop(x, GIVEN[1])[1]))
    right = agrad.hessian(lambda x: agrad.sum(loop(x, GIVEN[1])[1]))(GIVEN[0])
    for hessian in (agrad.hessian(jitted), auto(agrad.hessian(jitted))):
        close(hessian(GIVEN[0]), right, rtol=1e-10)
