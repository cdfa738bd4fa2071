"""Products joined with what follows them, and what cuBLASLt and cuBLAS are told, tried against stand-ins of both.

What the libraries do with it is for a machine that has a GPU.
"""

import ctypes
import functools
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cuda_on_cpu
import graphs_on_cpu
import numpy as np
import pytest
from graphs_on_cpu import draw, on_device

import agrad
from agrad import nn, optim
from agrad.backends.cupy_source import TO_BFLOAT16
from agrad.engine.rulecalls import RuleCall
from agrad.jit import cuda_products
from agrad.jit.cuda_products import Layout, Lt, epilogues_where_available, gemm, layout, product_function
from agrad.jit.epilogues import Joined, with_epilogues
from agrad.jit.ir import Instruction, Program, Variable, interpret
from agrad.jit.lower_cupy import graph_program
from agrad.jit.lowerings import plain
from agrad.jit.passes import PASSES, without_dead_code
from agrad.jit.precision import WAYS, NarrowProduct
from agrad.registry import PRIMITIVES

# ------------------------------------------------------------------ the pass


def step_program() -> tuple[Program, list[Any]]:
    """A training step of three layers as CuPy's programs have it, whose rule of ReLU is one instruction."""
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    values = np.random.default_rng(1)
    for p in model.parameters():
        p.data = values.normal(size=p.shape).astype(np.float32)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any, labels: Any) -> Any:
        loss = agrad.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    program = agrad.jit(step).lower(draw("float32", 7, 6), np.arange(7) % 3).stages[0][1]
    for _, run in PASSES:
        program = run(program)
    program = without_dead_code(with_rules_of_relu(program))
    rng = np.random.default_rng(0)
    flags = {i.settings["donate"] for i in program.instructions if "donate" in i.settings}
    inputs: list[Any] = []
    for v in program.inputs:
        if v.on_host:
            inputs.append(0.5 if v not in flags else False)
        elif np.dtype(v.dtype).kind == "i":
            inputs.append(np.arange(7) % 3)
        else:
            inputs.append(rng.normal(size=v.shape).astype(np.float32))
    return program, inputs


def with_rules_of_relu(program: Program) -> Program:
    """``where(y > 0, g, 0)`` as one instruction, which CuPy's kernel for the rule makes of it."""
    made = {v: i for i in program.instructions for v in i.results}
    rule = RuleCall(PRIMITIVES["relu"], PRIMITIVES["relu"].vjps["x"])
    kept = []
    for i in program.instructions:
        if i.name == "where":
            y = made[i.operands[0]].operands[0]
            i = Instruction(rule, (i.operands[1], y), {}, i.outputs)
        kept.append(i)
    return program.with_instructions(kept)


def test_a_training_step_is_joined_throughout() -> None:
    program, inputs = step_program()
    better = with_epilogues(program)
    names = [i.name for i in better.instructions]
    assert [n for n in names if n.startswith(("linear", "matmul"))] == [
        *("linear_relu_mask", "linear_relu_mask", "linear"),
        *("matmul_masked_sum", "matmul_sum", "matmul_masked_sum", "matmul", "matmul"),
    ]
    assert not {"relu", "relu.vjp:x", "sum", "linear.vjp:bias"} & set(names)
    masks = [i for i in better.instructions if i.name == "linear_relu_mask"]
    readers = [i for i in better.instructions if i.name == "matmul_masked_sum"]
    assert [i.operands[2] for i in readers] == [i.outputs[1] for i in reversed(masks)]
    for run in (plain, lambda p: lambda given: interpret(p, given)):
        for a, b in zip(run(better)(list(inputs)), plain(program)(list(inputs)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_what_else_is_read_is_not_joined() -> None:
    def f(x: Any, w: Any, b: Any, c: Any) -> Any:
        y = agrad.linear(x, w, b)
        z = agrad.linear(agrad.relu(y), c, b)
        return agrad.relu(z), z, agrad.sum(agrad.matmul(x, w), axis=0)

    args = draw("float32", 4, 3), draw("float32", 3, 3), draw("float32", 3), draw("float32", 3, 3)
    program = agrad.jit(f).lower(*args).stages[-1][1]
    better = with_epilogues(program)
    # z itself leaves, so the second map stays; and the sum is of a product, not of a factor
    assert sorted(i.name for i in better.instructions) == ["linear", "linear_relu", "matmul", "relu", "sum"]
    for a, b in zip(plain(better)(list(args)), plain(program)(list(args)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_products_of_more_axes_are_not_joined() -> None:
    def f(x: Any, w: Any, b: Any, ws: Any) -> Any:
        return agrad.relu(agrad.linear(x, w, b)), agrad.matmul(x, ws), agrad.relu(agrad.linear(x[0, 0], w, b))

    args = draw("float32", 2, 4, 3), draw("float32", 3, 5), draw("float32", 5), draw("float32", 2, 3, 4)
    program = agrad.jit(f).lower(*args).stages[0][1]
    better = with_epilogues(program)
    assert [i.name for i in better.instructions] == [i.name for i in program.instructions]
    for a, b in zip(plain(better)(list(args)), plain(program)(list(args)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("before", [True, False])
def test_a_sum_is_the_products_unless_it_is_read_before(before: bool) -> None:
    def f(x: Any, w: Any) -> Any:
        rows = agrad.sum(w, axis=(0,))
        y = agrad.matmul(x * rows if before else x, w)
        return y * rows

    args = draw("float32", 4, 3), draw("float32", 3, 3)
    program = agrad.jit(f).lower(*args).stages[0][1]
    better = with_epilogues(program)
    assert ("matmul_sum" in [i.name for i in better.instructions]) is not before
    np.testing.assert_array_equal(plain(better)(list(args))[0], plain(program)(list(args))[0])


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("backends", [{"cupy"}, {"cupy", "numpy"}])
def test_products_are_joined_where_cublaslt_computes_them(
    lt: Lt, monkeypatch: pytest.MonkeyPatch, broken: bool, backends: set[str]
) -> None:
    program, _ = step_program()
    lt.broken = "it is not there" if broken else ""
    monkeypatch.setattr(Program, "backends", lambda self: backends)
    found = {i.name for i in epilogues_where_available(program).instructions}
    assert ("linear_relu_mask" in found) == (backends == {"cupy"} and not broken)


def test_a_masked_product_does_not_let_infinities_through() -> None:
    operation = Joined(PRIMITIVES["matmul"], masked=True)
    x, w = np.array([[np.inf, 1.0]], np.float32), np.eye(2, dtype=np.float32) + 1
    with np.errstate(invalid="ignore"):
        found = operation.bind(x, w, np.array([[False, False]]))
    np.testing.assert_array_equal(found, np.zeros((1, 2), np.float32))
    assert found.dtype == np.float32


# ------------------------------------------------------------------ what cuBLASLt is told


def test_layouts() -> None:
    x = np.zeros((6, 8), np.float32)
    assert layout(x) == Layout(False, 8)
    assert layout(x.T) == Layout(True, 8)
    assert layout(x[:, 2:5]) == Layout(False, 8)
    assert layout(x[::2]) == Layout(False, 16)
    assert layout(x[:, 2:5].T) == Layout(True, 8)
    assert layout(x[:, ::2]) is None
    assert layout(x[::-1]) is None


class _Names(dict):
    def __getattr__(self, name: str) -> Any:
        return self[name]


ENDS = {
    "RELU_BIAS": 6, "BIAS": 4, "RELU_AUX_BIAS": 134, "DRELU": 136, "DRELU_BGRAD": 152, "BGRADA": 256,
}  # fmt: skip
KINDS = {0: np.float32, 1: np.float64, 2: np.float16, 14: np.uint16}


class Bindings:
    """cuBLASLt's calls on the CPU's memory, by the letter of its documentation: all matrices column by column."""

    MatmulDescAttribute = _Names(TRANSA=3, TRANSB=4, EPILOGUE=7, BIAS_POINTER=8)
    MatmulDescAttribute |= {"EPILOGUE_AUX_POINTER": 11, "EPILOGUE_AUX_LD": 12}
    Epilogue = _Names(ENDS)

    def __init__(self, refused: tuple[str, ...] = (), zero_is_positive: bool = False) -> None:
        self.things: dict[int, Any] = {}
        self.count = 100
        self.refused = {ENDS.get(name, 1) for name in refused}
        self.zero_is_positive = zero_is_positive
        self.computes: list[tuple[int, Any]] = []

    def matrix_layout_create(self, kind: int, rows: int, columns: int, leading: int) -> int:
        assert leading >= rows
        return self._add((kind, rows, columns, leading))

    def matmul_desc_create(self, compute: int, scale: int) -> int:
        return self._add({"compute": compute, "scale": scale, 3: 0, 4: 0, 7: 1})

    def _add(self, thing: Any) -> int:
        self.count += 1
        self.things[self.count] = thing
        return self.count

    def matrix_layout_destroy(self, key: int) -> None:
        del self.things[key]

    matmul_desc_destroy = matrix_layout_destroy

    def matmul_desc_set_attribute(self, key: int, name: int, address: int, size: int) -> None:
        kind = {3: np.int32, 4: np.int32, 7: np.uint32, 8: np.int64, 11: np.int64, 12: np.int64}[name]
        assert size == np.dtype(kind).itemsize
        self.things[key][name] = int(memory(address, kind, 1)[0])

    def matmul(self, *given: int) -> None:
        (_, task, alpha, a, a_, b, b_, _, c, c_, d, d_, *_) = given
        how = self.things[task]
        end = how[7]
        if end in self.refused:
            raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED")
        assert (memory(alpha, np.float64 if how["scale"] == 1 else np.float32, 1)[0], c, c_) == (1, d, d_)
        first, second = self._matrix(a, a_), self._matrix(b, b_)
        first, second = (first.T if how[3] else first), (second.T if how[4] else second)
        out = self._matrix(d, d_)
        self.computes.append((how["compute"], self.things[a_][0]))
        made = wide(first) @ wide(second)
        rows, columns = out.shape
        if end in (4, 6, 134):
            made = made + memory(how[8], out.dtype, rows)[:, None]
        if end in (134, 136, 152):
            assert how[12] % 128 == 0
            assert how[12] >= rows
            bits = memory(how[11], np.uint8, how[12] // 8 * columns).reshape(columns, -1)
        if end == 134:
            mask = np.zeros((columns, how[12]), np.uint8)
            mask[:, :rows] = (made >= 0 if self.zero_is_positive else made > 0).T
            bits[...] = np.packbits(mask, axis=1, bitorder="little")
        if end in (136, 152):
            made = np.where(np.unpackbits(bits, axis=1, bitorder="little")[:, :rows].T, made, 0)
        out[...] = np.maximum(made, 0) if end in (6, 134) else made
        if end == 152:
            memory(how[8], out.dtype, rows)[...] = out.sum(1)
        if end == 256:
            memory(how[8], out.dtype, rows)[...] = wide(first).sum(1)

    def _matrix(self, address: int, key: int) -> np.ndarray:
        kind, rows, columns, leading = self.things[key]
        return column_matrix(address, np.dtype(KINDS[kind]), rows, columns, leading)


def column_matrix(address: int, dtype: np.dtype, rows: int, columns: int, leading: int) -> np.ndarray:
    flat = memory(address, dtype, leading * (columns - 1) + rows)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (dtype.itemsize, leading * dtype.itemsize))


def wide(x: np.ndarray) -> np.ndarray:
    """Factors as they are multiplied: what is uint16 are the bits of bfloat16."""
    if x.dtype == np.uint16:
        return (x.astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.float32) if x.dtype == np.float16 else x


def memory(address: int, dtype: Any, count: int) -> np.ndarray:
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype)


def called(function: Any, *args: Any, **settings: Any) -> Any:
    return on_device(function(*args, **settings))


@pytest.fixture
def lt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lt:
    """cuBLASLt as ``Bindings`` has it, and the names of CuPy that products use."""
    fake = graphs_on_cpu.fake_cupy(tmp_path)
    stream = types.SimpleNamespace(ptr=0, is_capturing=lambda: False)
    fake.cuda.get_current_stream = lambda: stream
    fake.cuda.device = types.SimpleNamespace(get_cublas_handle=lambda: 1)
    fake.cuda.cublas = types.SimpleNamespace(gemmEx=gemm_ex)
    fake.zeros = lambda shape, dtype: on_device(np.zeros(shape, dtype))
    for name in ("matmul", "maximum", "where", "unpackbits"):
        setattr(fake, name, functools.partial(called, getattr(np, name)))
    monkeypatch.setitem(sys.modules, "cupy", fake)
    made = Lt.__new__(Lt)
    made.broken, made.handle, made.lt, made.refused, made.zeros = "", 1, Bindings(), set(), {}
    made.cublas = types.SimpleNamespace(ComputeType=_Names(COMPUTE_32F=68, COMPUTE_64F=70, COMPUTE_32F_FAST_TF32=77))
    monkeypatch.setattr(cuda_products, "lt_of", lambda device: made)
    return made


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_hand_cublaslt_each_layout(lt: Lt, dtype: str) -> None:
    for m, k, n in ((3, 4, 5), (1, 4, 5), (3, 1, 2), (6, 2, 1)):
        xs = draw(dtype, m, k), draw(dtype, k, m).T, draw(dtype, m, 2 * k)[:, ::2], draw(dtype, m, k + 2)[:, 1 : k + 1]
        ws = draw(dtype, k, n), draw(dtype, n, k).T, draw(dtype, n, k + 3)[:, 1 : k + 1].T, draw(dtype, 2 * k, n)[::2]
        bias = draw(dtype, n)
        for x in xs:
            for w in ws:
                given = on_device(x), on_device(w)
                right = x.astype(np.float64) @ w
                for (got,), expected in (
                    (lt.product(*given), right),
                    (lt.product(*given, on_device(bias)), right + bias),
                    (lt.product(*given, on_device(bias), relu=True), np.maximum(right + bias, 0)),
                ):
                    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
                    assert got.dtype == dtype
    assert not lt.lt.things


def test_masks_and_sums(lt: Lt) -> None:
    for m, k, n in ((3, 4, 5), (9, 3, 130), (1, 1, 1)):
        x, w, b = (on_device(draw("float32", *shape)) for shape in ((m, k), (k, n), (n,)))
        y, mask = lt.product(x, w, b, relu=True, mask=True)
        right = np.asarray(x) @ np.asarray(w) + b
        np.testing.assert_allclose(y, np.maximum(right, 0), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(cuda_products._truth(mask, n), right > 0)
        (g,) = lt.product(x, w, mask=mask)
        np.testing.assert_allclose(g, np.where(right > 0, right - b, 0), rtol=1e-4, atol=1e-5)
        g, total = lt.product(x, w, mask=mask, sums=True)
        np.testing.assert_allclose(total, np.where(right > 0, right - b, 0).sum(0), rtol=1e-4, atol=1e-5)
        y, total = lt.product(x, w, sums=True)
        np.testing.assert_allclose(total, np.asarray(w).sum(0), rtol=1e-5, atol=1e-6)


def run_with(program: Program) -> Callable[[list[Any]], Any]:
    """The program, its products as CuPy's programs compute them."""

    def function_of(instruction: Instruction, program: Program) -> Any:
        found = product_function(instruction) if cuda_products.is_product(instruction) else None
        if found is None:
            return cuda_products_evaluation(instruction, program)
        return lambda *args: found(*[on_device(a) for a in args])

    return plain(program, function_of)


cuda_products_evaluation = plain.__defaults__[0]  # type: ignore[index]


@pytest.mark.parametrize(
    "refused",
    [(), ("BGRADA",), ("DRELU_BGRAD",), ("DRELU",), ("RELU_AUX_BIAS",), tuple(ENDS), ("DEFAULT", *ENDS), "zero"],
    ids=str,
)
def test_a_step_by_cublaslt_and_by_what_it_refuses(lt: Lt, refused: Any) -> None:
    program, inputs = step_program()
    lt.lt = Bindings((), True) if refused == "zero" else Bindings(refused)
    run, right = run_with(with_epilogues(program)), plain(program)(list(inputs))
    for _ in range(2):
        for a, b in zip(run(list(inputs)), right, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    known = {"zero": {"RELU_AUX_BIAS"}}.get(refused, set(refused) - {"DEFAULT", "RELU_BIAS", "DRELU"})
    assert {name for name, *_ in lt.refused} <= known | {"BIAS"}
    assert bool(lt.broken) == ("DEFAULT" in refused)


def test_zero_counts_as_no_positive_result(lt: Lt) -> None:
    """Where cuBLASLt's mask says otherwise, its derivative would not be agrad's."""
    x, w, b = (Variable(shape, np.dtype("float32"), np.ndarray) for shape in ((2, 3), (3, 4), (4,)))
    outputs = Variable((2, 4), x.dtype, x.kind), Variable((2, 4), np.dtype("uint8"), x.kind)
    forward = Instruction(Joined(PRIMITIVES["linear"], relu=True, mask=True), (x, w, b), {}, outputs)
    for positive in (False, True):
        lt.lt, lt.zeros = Bindings((), positive), {}
        run = product_function(forward)
        assert run is not None
        _, mask = run(*[on_device(np.zeros(v.shape, np.float32)) for v in (x, w, b)])
        assert mask.dtype == (bool if positive else np.uint8)
        assert not mask.any()


def test_tf32_and_narrow_factors_are_asked_for(lt: Lt) -> None:
    x, w, b = (Variable(shape, np.dtype("float32"), np.ndarray) for shape in ((4, 3), (3, 5), (5,)))
    given = [on_device(draw("float32", *v.shape)) for v in (x, w, b)]
    out = Variable((4, 5), x.dtype, x.kind)
    run = product_function(Instruction(PRIMITIVES["linear"], (x, w, b), {}, (out,)), tensor_float=True)
    assert run is not None
    np.testing.assert_allclose(run(*given), np.asarray(given[0]) @ given[1] + given[2], rtol=1e-5)
    assert lt.lt.computes == [(77, 0)]
    for precision, number in (("float16", 2), ("bfloat16", 14)):
        way = WAYS["cupy"](precision)
        narrow = [as_narrow(a, precision) for a in given[:2]]
        factors = [Variable(v.shape, way.dtype, v.kind) for v in (x, w)]
        right = wide(narrow[0]) @ wide(narrow[1])
        for name, more in (("matmul", ()), ("linear", (b,))):
            product = NarrowProduct(name, way.product, precision)  # type: ignore[arg-type]
            run = product_function(Instruction(product, (*factors, *more), {}, (out,)))
            assert run is not None
            lt.lt.computes.clear()
            got = run(*narrow, *given[2 : 2 + len(more)])
            np.testing.assert_allclose(got, right + (given[2] if more else 0), rtol=1e-5, atol=1e-6)
            assert got.dtype == np.float32
            assert lt.lt.computes == [(68, number)]


@pytest.mark.parametrize(("precision", "compute"), [("tf32", 77), (None, 68)])
def test_a_lowered_program_is_captured_in_its_precision(lt: Lt, precision: Any, compute: int) -> None:
    args = draw("float32", 4, 3), draw("float32", 3, 5)
    program = agrad.jit(lambda x, w: agrad.matmul(x, w) @ w.T, precision=precision).lower(*args).stages[0][1]
    recorder = graphs_on_cpu.Recorder()
    run = graph_program(program, lambda: recorder)
    for scale in (1, 2, 3):
        (got,) = run([on_device(scale * args[0]), on_device(args[1])])
        np.testing.assert_allclose(got, scale * args[0] @ args[1] @ args[1].T, rtol=1e-4, atol=1e-5)
    assert "graph" in recorder.log
    assert set(lt.lt.computes) == {(compute, 0)}
    assert not lt.broken


# ------------------------------------------------------------------ without cuBLASLt


def gemm_ex(*given: Any) -> None:
    """CuPy's ``gemmEx`` on the CPU's memory."""
    _, ta, tb, m, n, k, alpha, a, a_, lda, b, b_, ldb, beta, c, c_, ldc, compute, algorithm = given
    assert (memory(alpha, np.float32, 1)[0], memory(beta, np.float32, 1)[0], algorithm) == (1, 0, -1)
    assert compute == (77 if a_ == 0 else 68)
    first = column_matrix(a, np.dtype(KINDS[a_]), *((k, m) if ta else (m, k)), lda)
    second = column_matrix(b, np.dtype(KINDS[b_]), *((n, k) if tb else (k, n)), ldb)
    out = column_matrix(c, np.dtype(KINDS[c_]), m, n, ldc)
    out[...] = wide(first.T if ta else first) @ wide(second.T if tb else second)


def as_narrow(x: np.ndarray, precision: str) -> Any:
    if precision == "float16":
        return on_device(x.astype(np.float16))
    bits = np.ascontiguousarray(x).view(np.uint32)
    return on_device(((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16))


@pytest.mark.usefixtures("lt")
def test_products_of_narrow_factors_by_cublas() -> None:
    for precision in ("float16", "bfloat16", "tf32"):
        x, w = draw("float32", 4, 3), draw("float32", 5, 3).T
        if precision == "tf32":
            got, right = gemm(on_device(x), on_device(w), np.dtype("float32"), True), x @ w
        else:
            factors = as_narrow(x, precision), as_narrow(w, precision)
            right = wide(factors[0]) @ wide(factors[1])
            got = WAYS["cupy"](precision).product(*factors)  # type: ignore[misc]
            batch = WAYS["cupy"](precision).product(factors[0][None], factors[1])  # type: ignore[misc]
            np.testing.assert_allclose(batch[0], right, rtol=1e-6)
        np.testing.assert_allclose(got, right, rtol=1e-6)
        assert got.dtype == np.float32


@pytest.mark.skipif(cuda_on_cpu.COMPILER is None, reason="there is no C++ compiler here to run the kernel's text with")
def test_bfloat16_is_rounded_to_the_nearest(tmp_path: Path) -> None:
    source, library = tmp_path / "round.cpp", tmp_path / "round.so"
    source.write_text(
        "typedef unsigned int uint32; typedef unsigned short uint16;\n"
        'extern "C" void run(long long n, const uint32* x_, uint16* y_) {\n'
        f"for (long long i = 0; i < n; i++) {{ uint32 x = x_[i]; uint16& y = y_[i]; {TO_BFLOAT16.body} }} }}\n"
    )
    command = [cuda_on_cpu.COMPILER, "-shared", "-fPIC", "-o", library, source]
    subprocess.run([str(part) for part in command], check=True)
    rng = np.random.default_rng(0)
    ties = (rng.integers(0, 1 << 16, 1000, dtype=np.uint32) << 16 | 0x8000).view(np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 3.4e38, 1e-45, -1e-40], np.float32)
    # a NaN whose bits below are all ones must not become an infinity, nor a zero of the other sign
    worst = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], np.uint32).view(np.float32)
    x = np.concatenate([draw("float32", 1000), ties, special, worst])
    y = np.empty(x.size, np.uint16)
    ctypes.CDLL(str(library)).run(ctypes.c_longlong(x.size), *(ctypes.c_void_p(a.ctypes.data) for a in (x, y)))
    got = wide(y)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(x))
    real = ~np.isnan(x)
    np.testing.assert_array_equal(got[real], wide(as_narrow(x, "bfloat16"))[real])
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.abs(got - x)[real & np.isfinite(got)]
        assert np.all(error <= np.maximum(np.abs(x[real & np.isfinite(got)]) * 2.0**-8, 1e-40))
