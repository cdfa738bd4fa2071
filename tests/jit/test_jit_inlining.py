"""Groups that compute operands where they read them, and convolutions as products: values and kernels on CUDA."""

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checker import host
from jit_help import draw, same_calls
from nvcc import ptx
from test_jit_cupy import CASES, groups, program_of

import agrad
from agrad.jit.compile import PASSES, TARGETS
from agrad.jit.lower.cuda.convolutions import with_convolutions_as_products
from agrad.jit.lower.cuda.elements import has_element, packed_strides, view_in_numpy
from agrad.jit.lower.cuda.rows import Layout, RowSource
from agrad.jit.lower.cuda.source import GroupSource, Source
from agrad.jit.lower.cuda.streams import setter_text
from agrad.jit.passes.cleanup import without_dead_code
from agrad.jit.passes.fusion import Group
from agrad.jit.passes.inlining import with_operands_inlined
from agrad.jit.program import Program, interpret
from agrad.nn import functional

Function = Callable[..., Any]


def turned(x: Any) -> Any:
    """A reshape of a transpose, which would be a copy, and a broadcast of a mean."""
    flat = agrad.reshape(agrad.permute_dims(x * 2.0, (1, 0, 2)), (x.shape[1], -1))
    return agrad.sin(flat) + agrad.mean(flat, axis=0)


def moved(x: Any) -> Any:
    """Parts, in both directions, whose gradients are added at their positions."""
    return agrad.sum(agrad.sin(x[:, 1:] * x[:, :-1]) + x[::-1, ::2][:, :1] * agrad.exp(x[:1, -1:]))


def chosen(x: Any) -> Any:
    return agrad.sum(agrad.max(agrad.stack([x[0], x[1], x[1]]), axis=0)) * agrad.sum(x[0, 0] * x[-1, -1])


def pooled(x: Any) -> Any:
    return agrad.sum(functional.max_pool2d(agrad.tanh(x[:, None]), 2, stride=1) ** 2)


def averaged(x: Any) -> Any:
    return agrad.sum(functional.avg_pool2d(x[:, None] * x[:, None], (2, 3), stride=(1, 2)) ** 3)


def attended(x: Any) -> Any:
    q, k, v = x, agrad.flip(x, axis=-1), x[:, ::-1] * 2.0
    heads = [agrad.permute_dims(agrad.reshape(y, (*y.shape[:2], 2, -1)), (0, 2, 1, 3)) for y in (q, k, v)]
    scores = agrad.matmul(heads[0] * 0.3, agrad.matrix_transpose(heads[1]))
    found = agrad.matmul(agrad.exp(scores - agrad.max(scores, axis=-1, keepdims=True)), heads[2])
    return agrad.sum(agrad.reshape(agrad.permute_dims(found, (0, 2, 1, 3)), x.shape) ** 2)


def read_twice(x: Any) -> Any:
    """A sum that two groups of other shapes read, and a chain of differences that would be computed too often."""
    y = x + x[::-1]
    for _ in range(7):
        y = agrad.sin(y[..., 1:] - y[..., :-1]) if y.shape[-1] > 2 else y + y[..., ::-1]
    z = x * agrad.flip(x, axis=0)
    return agrad.sum(y), agrad.sin(z[:1]), agrad.cos(z[:, :1]) * 2.0


def overwritten(x: Any) -> Any:
    """Writes to arrays that earlier results were computed of."""
    buffer = agrad.asarray(x, copy=True)
    before = agrad.permute_dims(buffer[:, ::2] + 1.0, (1, 0, 2))
    buffer[0] = 5.0
    after = agrad.reshape(before, (-1,)) * agrad.sum(buffer)
    buffer *= 2.0
    return agrad.sin(after), buffer


def alike(x: Any) -> Any:
    """Single operations that occur twice, with operands that broadcast, and conjugates, which look like views."""
    y = agrad.sum(x, axis=0)
    for _ in range(3):
        x = agrad.multiply(agrad.sort(x), y)
    return agrad.cumulative_sum(x, axis=0), agrad.sin(agrad.conj(x * 2.0) + agrad.conj(x[::-1]))


def single_values(x: Any) -> Any:
    """Values of one element that several groups compute, of views that nothing else reads."""
    a = agrad.reshape((agrad.cumulative_sum(x, axis=0)[0, 0] * 2.0)[2:3], ())
    c = agrad.sin(a) * agrad.max(x[1])
    return agrad.sin(c + x), agrad.cos(c * x[:1]), agrad.cumulative_sum(x * c, axis=0), c


FUNCTIONS: dict[str, Function] = {
    **{f.__name__: f for f in (turned, moved, read_twice, overwritten, alike, single_values)},
    **{f"gradient of {f.__name__}": agrad.grad(f) for f in (moved, chosen, pooled, averaged, attended)},
    "second derivatives": agrad.grad(lambda x: agrad.sum(agrad.grad(moved)(x) ** 2)),
    "a map": agrad.vmap(agrad.grad(lambda x: agrad.sum(agrad.reshape(x.T, (-1,))[1:] ** 3))),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jitted_programs_compute_what_eager_ones_do(name: str, dtype: str, cupy: Any) -> None:
    rng = np.random.default_rng(4)
    digits = 1e-4 if dtype == "float32" else 1e-12
    calls = [(cupy.asarray(rng.normal(size=(3, 4, 6)).astype(dtype)),) for _ in range(4)]
    same_calls(FUNCTIONS[name], *calls, rtol=digits, atol=digits)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_pass_alone_keeps_the_values(name: str) -> None:
    x = draw("float64", 3, 4, 6)
    program = agrad.jit(FUNCTIONS[name]).lower(x).stages[0][1]
    for _, run in itertools.takewhile(
        lambda row: row[0] != "operands computed where they are read", [*PASSES, *TARGETS["cupy"].passes]
    ):
        program = run(program)
    inlined = with_operands_inlined(has_element, view_in_numpy)
    better = without_dead_code(inlined(program))
    assert ahead(program) == 0 and (ahead(better) > 0 or name == "alike")
    assert ahead(inlined(better)) >= ahead(better)
    better = inlined(better)
    for got, right in zip(interpret(better, [x]), interpret(program, [x]), strict=True):
        np.testing.assert_array_equal(host(got), host(right))


def ahead(program: Program) -> int:
    """Return how many operands groups compute."""
    return sum(len(i.operation.ahead) for i in program.instructions if isinstance(i.operation, Group))


CONVOLUTIONS = [
    ((2, 3, 5), (4, 3, 2), {}),
    ((2, 3, 5), (3, 1, 2), {"padding": 2, "groups": 3}),
    ((2, 4, 6, 5), (6, 2, 3, 2), {"stride": (2, 1), "padding": (1, 0), "groups": 2}),
    ((1, 2, 7, 6), (3, 2, 2, 3), {"dilation": (3, 2), "padding": 1}),
    ((3, 2, 4, 4), (2, 2, 1, 1), {"stride": 3}),
    ((2, 2, 3, 4, 3), (2, 2, 2, 2, 2), {"padding": 1, "stride": 2}),
]


@pytest.mark.parametrize(("x", "w", "options"), CONVOLUTIONS)
def test_convolutions_and_their_derivatives(
    x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], cupy: Any
) -> None:
    convolve = {3: functional.conv1d, 4: functional.conv2d, 5: functional.conv3d}[len(x)]
    back = {3: functional.conv_transpose1d, 4: functional.conv_transpose2d, 5: functional.conv_transpose3d}[len(x)]

    def f(x: Any, w: Any) -> Any:
        y = agrad.tanh(convolve(x, w, **options))
        return agrad.sum(back(y, w, **options) ** 2) + agrad.sum(y)

    rng = np.random.default_rng(5)
    calls = [tuple(cupy.asarray(rng.normal(size=shape)) for shape in (x, w)) for _ in range(3)]
    same_calls(lambda x, w: convolve(x, w, **options), *calls, rtol=1e-10, atol=1e-10)
    same_calls(agrad.grad(f, argnums=(0, 1)), *calls, rtol=1e-10, atol=1e-10)
    second = agrad.grad(lambda x, w: agrad.sum(agrad.grad(f)(x, w) ** 2), argnums=1)
    same_calls(second, *calls[:2], rtol=1e-10, atol=1e-10)


def kernels_of(function: Function, *given: Any) -> list[str]:
    """Return the names of the kernels of a replay."""
    import cuda_on_cpu

    fast = agrad.jit(function)
    for _ in range(3):
        fast(*given)
    found = []
    for line in cuda_on_cpu.trace(lambda: fast(*given)):
        names = line.partition(": ")[2].split(", ") if line.startswith("graphLaunch") else [line]
        found += [name.split(" ")[0] for name in names]
    return [name for name in found if not re.match("mem|D2D|set_|event|stream", name)]


@pytest.mark.needs("cuda_on_cpu")
@pytest.mark.parametrize(
    ("function", "shape", "most"),
    [
        (agrad.grad(pooled), (3, 6, 6), 1),
        (lambda x: agrad.sin(agrad.reshape(agrad.permute_dims(x * 2.0, (2, 0, 1)), (6, -1))), (3, 4, 6), 1),
        (agrad.grad(moved), (5, 8), 2),
        (agrad.grad(attended), (3, 4, 6), 12),
    ],
)
def test_kernels_of_a_replay(function: Function, shape: tuple[int, ...], most: int, cupy: Any) -> None:
    found = kernels_of(function, cupy.asarray(draw("float32", *shape)))
    assert 1 <= len(found) <= most and not [name for name in found if "copy" in name or "scatter" in name]


def convolved(x: Any) -> Any:
    return agrad.sum(functional.conv1d(agrad.sin(x), x[:2, :, :3], padding=2) ** 2)


def programs() -> Iterator[Program]:
    """Yield programs of elementwise groups, of groups with operands computed where they are read, and of rows."""
    for dtype in ("float32", "float64"):
        x = draw(dtype, 3, 4, 6)
        products = with_convolutions_as_products(agrad.jit(agrad.grad(convolved)).lower(x).stages[0][1])
        yield with_operands_inlined(has_element, view_in_numpy)(products)
        yield from (program_of(function, x) for function in FUNCTIONS.values())
        yield from (program_of(function, *make(dtype)) for function, make in CASES.values())


def test_the_text_is_cuda(tmp_path: Path) -> None:
    """The CUDA compiler accepts all kernels without a warning; those of float32 read four numbers at once."""
    made: list[Any] = []
    for group in itertools.chain.from_iterable(map(groups, programs())):
        layouts = {v: Layout(packed_strides(v.shape), True) for v in Source(group).arrays}
        made.append(RowSource(group, layouts) if group.ahead or group.split < len(group.shape) else GroupSource(group))
    assert sum(isinstance(source, RowSource) for source in made) > 20
    # one file for all: each group in a namespace of its own, and its kernels by names of their own
    texts = [re.sub(r"__global__ void (\w+)\(", rf"__global__ void of_{k}_\1(", s.text()) for k, s in enumerate(made)]
    text = "\n".join(f"namespace n{k} {{ {text} }}" for k, text in enumerate(texts)) + setter_text("fd")
    entries = ptx(text, tmp_path).split(".entry ")[1:]
    assert sum(text.startswith("set_numbers") for text in entries) == 1
    for k, source in enumerate(made):
        own = [text for text in entries if text.startswith(f"of_{k}_")]
        if isinstance(source, GroupSource):
            assert len(own) == 1 + bool(source.totals)
            floats = all(np.dtype(v.dtype) == np.float32 for v in (*source.arrays, *source.results))
            if floats and source.size >= source.pack:
                assert any("ld.global.v4" in text or "ld.global.nc.v4" in text for text in own)
