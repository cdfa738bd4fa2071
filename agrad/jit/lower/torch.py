"""Lowering for PyTorch: a graph of PyTorch operations for ``torch.compile``.

On CUDA devices, programs are compiled by default and replayed as CUDA graphs. On CPUs, compilation needs seconds, and
the plain program is the default.
"""

import contextlib
import importlib
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from agrad.jit.lower.plain import Compiled, Split, plain
from agrad.jit.passes.aliasing import without_donation
from agrad.jit.passes.precision import NarrowMatmul
from agrad.jit.program import Program


def lower_torch(program: Program) -> Compiled:
    """Lower a program by ``torch.compile`` if asked or by default, otherwise plainly."""
    asked, tensor_float = program.notes.get("torch_compile"), program.notes.get("precision") == "tf32"
    return plain(program) if asked is False and not tensor_float else TorchProgram(program, asked, tensor_float)


class TorchProgram:
    """A program as a function. Its first call decides if it is compiled.

    asked: True to compile, None to compile on CUDA devices. tensor_float: let float32 products on CUDA devices round
    their operands to TF32.
    """

    def __init__(self, program: Program, asked: bool | None, tensor_float: bool) -> None:
        self._program, self._asked = program, asked
        self._around = _tensor_float if tensor_float else contextlib.nullcontext
        self._plainly = plain(program)
        self._run: Compiled | None = self._plainly if asked is False else None
        """The compiled or the plain function; None before the first call."""
        self._lock = threading.Lock()

    @property
    def text(self) -> str:
        """The code that is run."""
        run = self._run if isinstance(self._run, _Compiled) else self._plainly
        heading = "# compiled by torch.compile\n" if isinstance(run, _Compiled) else ""
        return f"{heading}{getattr(run, 'text', '')}"

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        with self._around():
            if self._run is None:
                with self._lock:
                    if self._run is None:
                        return self._first(inputs)
            return self._run(inputs)

    def _first(self, inputs: Sequence[Any]) -> Sequence[Any]:
        torch = sys.modules["torch"]
        arrays = [x for x in inputs if isinstance(x, torch.Tensor)]
        graphs = any(x.device.type == "cuda" for x in arrays)
        run: Compiled = self._plainly
        out: Sequence[Any]
        # autograd of PyTorch would record in the plain program, and not in the compiled one
        if arrays and (self._asked or graphs) and not any(x.requires_grad for x in arrays):
            try:
                run = _Compiled(self._program, inputs, graphs)
                out = run(inputs)
            except Exception as error:
                run = self._plainly
                out = run(inputs)  # an exception of the program itself is raised here
                reason = next(iter(str(error).strip().splitlines()), "")
                warnings.warn(
                    "jit: torch.compile cannot compile this program, which runs uncompiled. Use agrad.jit(f, "
                    f"torch_compile=False) to skip the attempt. {type(error).__name__}: {reason}",
                    RuntimeWarning,
                    stacklevel=4,
                )
        else:
            out = run(inputs)
        self._run = run
        return out


@contextlib.contextmanager
def _tensor_float() -> Iterator[None]:
    """Let PyTorch round operands of float32 products to TF32, inside a ``with`` block."""
    torch = sys.modules["torch"]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class _Compiled:
    """A program compiled by ``torch.compile`` for inputs like the given ones.

    graphs: True to replay it as CUDA graphs.
    """

    def __init__(self, program: Program, inputs: Sequence[Any], graphs: bool) -> None:
        torch = sys.modules["torch"]
        make_fx = importlib.import_module("torch.fx.experimental.proxy_tensor").make_fx
        self._split = Split(without_donation(program), ahead=True)
        rest = self._split.body
        body = plain(rest)
        self.text = str(body.text)  # type: ignore[attr-defined]
        self._hosted = [i for i, v in enumerate(rest.inputs) if v.on_host]
        self._known: tuple[list[Any], list[Any]] | None = None
        """The host numbers of the last call, and the arrays created from them."""
        self._graphs = graphs
        dtypes = [v.dtype for v in rest.outputs]

        def whole(*given: Any) -> list[Any]:
            # numbers are 0-dimensional arrays of double precision here, which may widen a result
            return [x.to(dtype) for x, dtype in zip(body(given), dtypes, strict=True)]

        values = self._split.before(inputs)
        self._device = next((x.device for x in inputs if isinstance(x, torch.Tensor) and x.is_cuda), None)
        with torch.no_grad():
            given = self._given(values)
            graph = make_fx(whole, tracing_mode="fake")(*given)
            mode = "reduce-overhead" if graphs else "default"
            self._function = torch.compile(graph, fullgraph=True, dynamic=False, mode=mode)
            found = self._function(*given)
        # two results may share a buffer, and the next replay of a CUDA graph overwrites its results
        seen = [(x.data_ptr(), x.shape, x.stride()) for x in found]
        self._copied = [k for k, place in enumerate(seen) if graphs or place in seen[:k]]

    def _given(self, values: Sequence[Any]) -> list[Any]:
        """Return the arguments of the compiled function, with host numbers as arrays."""
        torch = sys.modules["torch"]
        numbers = [values[i] for i in self._hosted]
        if self._known is None or numbers != self._known[0]:
            dtypes = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}
            made = [torch.tensor(x, dtype=dtypes.get(type(x)), device=self._device) for x in numbers]
            self._known = numbers, made
        given = list(values[: self._split.count])
        for i, x in zip(self._hosted, self._known[1], strict=True):
            given[i] = x
        return given

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        torch = sys.modules["torch"]
        values = self._split.before(inputs)
        with torch.no_grad():
            if self._graphs:
                torch.compiler.cudagraph_mark_step_begin()
            found = list(self._function(*self._given(values)))
            for k in self._copied:
                found[k] = found[k].clone()
        return self._split.outputs(found, values)


# ------------------------------------------------------------------ products in a lower precision


def torch_narrow_matmul(precision: str) -> NarrowMatmul:
    """Return products of narrow matrices with results in float32.

    On CPUs, PyTorch would round the results too. There, they are products of rounded float32 matrices.
    """
    torch = sys.modules["torch"]
    dtype = getattr(torch, precision)
    widens = "dtype" in torch.ops.aten.mm.overloads()

    def narrow(x: Any) -> Any:
        x = x.to(dtype)
        return x if x.is_cuda and widens else x.float()

    def product(x: Any, weight: Any) -> Any:
        if x.dtype != dtype:
            return torch.matmul(x, weight)
        if x.ndim >= 2 and weight.ndim == 2:
            rows = torch.mm(x.reshape(-1, x.shape[-1]), weight, out_dtype=torch.float32)
            return rows.reshape(*x.shape[:-1], weight.shape[-1])
        if x.ndim == weight.ndim == 3 and x.shape[0] == weight.shape[0]:
            return torch.bmm(x, weight, out_dtype=torch.float32)
        return torch.matmul(x.float(), weight.float())

    return NarrowMatmul(narrow, product, dtype)
