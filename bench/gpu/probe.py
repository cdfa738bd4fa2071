"""The first questions to a GPU, one answer each. A failure does not stop the others."""

import contextlib
import ctypes
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from bench.gpu.parts import Work


def cublaslt() -> Any:
    """Return cuBLASLt as agrad uses it on the current device.

    ``absent`` is the reason why there is none, ``refused`` the functions that it does not support.
    """
    from agrad.kernels.cupy.products import lt_of

    return lt_of(0)


def libraries(word: str) -> list[str]:
    """Return the libraries in this process with a prefix, and their versions."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    found = []
    for path in sorted({line.split(maxsplit=5)[5] for line in lines if f"/{word}" in line}):
        version = getattr(ctypes.CDLL(path), "cublasLtGetVersion", None)
        found.append(Path(path).name + (f" {version()}" if version is not None else ""))
    return found


def versions() -> tuple[bool, str]:
    import cupy

    runtime = cupy.cuda.runtime
    p, nvrtc = runtime.getDeviceProperties(0), cupy.cuda.nvrtc.getVersion()
    parts = {"CuPy": cupy.__version__, "NVRTC": ".".join(map(str, nvrtc)), "NumPy": np.__version__}
    about = f"{p['name'].decode()}, {p['totalGlobalMem'] / 2**30:.0f} GiB"
    total = float(cupy.sum(cupy.arange(4.0) ** 2))
    return total == 14.0, ", ".join([about, *(f"{name} {version}" for name, version in parts.items())])


def lt() -> tuple[bool, str]:
    import cupy

    found = cublaslt()
    if getattr(found, "absent", ""):
        return False, str(found.absent)
    (ones,) = found.product(cupy.ones((16, 16), "f"), cupy.ones((16, 16), "f"))
    return float(ones.sum()) == 16.0**3, ", ".join(libraries("libcublasLt"))


def uniform() -> tuple[bool, str]:
    from agrad import random

    drawn = random.uniform(random.key(0), (100_000,)).numpy()
    low, high, mean = float(drawn.min()), float(drawn.max()), float(drawn.mean())
    return low >= 0.0 and high < 1.0 and abs(mean - 0.5) < 0.01, f"{low:.1e} to {high:.6f}, mean {mean:.4f}"


def normal() -> tuple[bool, str]:
    import agrad
    from agrad import random

    drawn = random.normal(random.key(0), (100_000,), dtype=agrad.float32).numpy()
    mean, deviation = float(drawn.mean()), float(drawn.std())
    return abs(mean) < 0.02 and abs(deviation - 1.0) < 0.02, f"mean {mean:.4f}, deviation {deviation:.4f}"


def gather() -> tuple[bool, str]:
    import cupy

    import agrad

    found = agrad.grad(lambda a: agrad.sum(a[cupy.asarray([0, 0, 2])] ** 2))(cupy.arange(1.0, 5.0))
    found = cupy.asnumpy(found).tolist()
    return found == [4.0, 0.0, 6.0, 0.0], str(found)


def solve() -> tuple[bool, str]:
    import cupy

    import agrad

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 3)) + 3 * np.eye(3), rng.normal(size=(2, 3, 2))
    found = cupy.asnumpy(agrad.linalg.solve(cupy.asarray(a), cupy.asarray(b)))
    off = float(np.max(np.abs(found - np.linalg.solve(np.broadcast_to(a, (2, 3, 3)), b))))
    return off < 1e-10, f"off by {off:.1e}"


def _product_off(x: Any, w: Any) -> float:
    (got,) = cublaslt().product(x, w)
    return float(abs(got.get() - x.get() @ w.get()).max())


def odd_alignments() -> tuple[float, str]:
    """Check products of matrices that begin 0 to 12 bytes after an alignment boundary.

    Their sides are not multiples of 4.
    """
    import cupy

    big = cupy.asarray(np.random.default_rng(0).normal(size=90_000).astype(np.float32))
    sides = ((64, 33, 7), (128, 64, 32), (100, 784, 10), (33, 17, 5))
    worst = 0.0
    for shift in range(4):
        for m, k, n in sides:
            x, w = big[shift : shift + m * k].reshape(m, k), big[shift : shift + k * n].reshape(k, n)
            worst = max(worst, _product_off(x, w))
    return worst, f"off by {worst:.1e} at most, of {4 * len(sides)} products"


def without_workspace() -> tuple[float, str]:
    """Return the same product with the usual workspace and with none."""
    import cupy

    from agrad.kernels.cupy import products

    rng = np.random.default_rng(0)
    x, w = (cupy.asarray(rng.normal(size=shape).astype(np.float32)) for shape in ((128, 784), (784, 256)))
    with_one = _product_off(x, w)
    with mock.patch.object(products, "WORKSPACE", 0), mock.patch.object(cublaslt(), "plans", {}):
        without = _product_off(x, w)
    return max(with_one, without), f"off by {without:.1e}, with {products.WORKSPACE >> 20} MiB by {with_one:.1e}"


def narrow_results() -> tuple[bool, str]:
    """Compare products with narrow results to roundings of float32 results.

    Two algorithms may add in another order, so a few numbers may differ.
    """
    import cupy

    from agrad.jit.lower.cuda.products import cupy_narrow_matmul

    found, texts, least = cublaslt(), [], 1.0
    rng = np.random.default_rng(0)
    given = [cupy.asarray(rng.normal(size=shape).astype(np.float32)) for shape in ((128, 784), (784, 256))]
    for precision in ("bfloat16", "float16"):
        way = cupy_narrow_matmul(precision)
        x, w = map(way.narrow, given)
        (wide,), (narrow,) = found.product(x, w, dtype=np.dtype("float32")), found.product(x, w, dtype=x.dtype)
        same = float((way.narrow(wide) == narrow).mean())
        adds, zero = found.adds_before_rounding(x.dtype), found.masks_zero(x.dtype, x.dtype, False)
        texts.append(f"{precision}: {same:.2%} equal, float32 bias {adds}, mask before rounding {zero}")
        least = min(least, same)
    return least > 0.95, "; ".join(texts)


QUESTIONS: dict[str, Callable[[], tuple[float | bool, str]]] = {
    "device": versions,
    "cuBLASLt": lt,
    "uniform numbers": uniform,
    "normal numbers": normal,
    "gradient of a gather": gather,
    "solve with broadcast": solve,
    "products at odd alignments": odd_alignments,
    "a product without workspace": without_workspace,
    "products with narrow results": narrow_results,
}


def brief(error: Exception) -> str:
    """Return an error in one line.

    If it quotes the traceback of another process, the line contains its beginning and that error.
    """
    lines = str(error).strip().splitlines() or [""]
    inner = [line for line in lines[1:] if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    return f"{lines[0]} {inner[-1]}" if inner else f"{type(error).__name__}: {lines[0]}"


@contextlib.contextmanager
def answering(work: Work, name: str) -> Iterator[None]:
    """Answer a question with the error that this block raises, and continue."""
    try:
        yield
    except Exception as error:
        traceback.print_exc()
        work.answers.give(name, float("nan"), "", brief(error))


def run(work: Work) -> None:
    import agrad

    agrad.set_backend("cupy")
    for name, question in QUESTIONS.items():
        with answering(work, name):
            value, measured = question()
            work.answers.give(name, value, measured, "" if value else "the answer is wrong")
