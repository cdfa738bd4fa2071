"""A stand-in for CuPy that compiles generated group kernels as C++, and one for CUDA's graphs on NumPy's arrays.

Neither says how a GPU treats the text or a capture; they show what the text means, and that a program cut into graphs
computes what the plain one does, with nothing left over from the call before.
"""

import contextlib
import ctypes
import hashlib
import re
import subprocess
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cuda_on_cpu import _ON_CPU, COMPILER

import agrad
from agrad.jit.fusion import Group
from agrad.jit.ir import Program
from agrad.jit.passes import OWN_PASSES, PASSES

MATH = (
    "expm1 log1p log2 log10 sin cos tan asin acos atan sinh cosh asinh acosh atanh floor ceil trunc rint pow atan2 "
    "hypot copysign"
)
HEAD = (
    _ON_CPU
    + "#include <cstring>\n"
    + "".join(f"using std::{name};\n" for name in MATH.split())
    + """
static Three gridDim;
static float __int_as_float(int bits) { float x; std::memcpy(&x, &bits, 4); return x; }
"""
)


def program_of(function: Callable[..., Any], *args: Any) -> Program:
    """The program that CuPy's passes make of a function."""
    program = agrad.jit(function).lower(*args).stages[0][1]
    for _, run in [*PASSES, *OWN_PASSES["cupy"]]:
        program = run(program)
    return program


def groups(program: Program) -> list[Group]:
    return [i.operation for i in program.instructions if isinstance(i.operation, Group)]


def draw(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)


class Device:
    """The one device, as CuPy shows it."""

    id = 0

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *error: object) -> None:
        return None


class Array(np.ndarray):
    """A NumPy array with CuPy's ``device`` and ``data.ptr``."""

    @property
    def device(self) -> Device:
        return Device()

    @property
    def data(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(ptr=self.ctypes.data)


def on_device(x: Any) -> Any:
    return np.asarray(x).view(Array)


def in_c(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    kinds = {"d": ctypes.c_double, "f": ctypes.c_float, "L": ctypes.c_void_p}
    return kinds[argument.dtype.char](argument.item())


def fake_cupy(folder: Path) -> types.ModuleType:
    """The few names of CuPy that generated kernels are launched with; ``launches`` lists the kernels' names."""
    cupy = types.ModuleType("cupy")
    cupy.launches = []
    cupy.empty = lambda shape, dtype: on_device(np.empty(shape, dtype))
    cupy.ascontiguousarray = lambda a: on_device(np.ascontiguousarray(a))
    cupy.cuda = types.SimpleNamespace(Device=Device)

    class RawModule:
        def __init__(self, *, code: str, options: tuple[str, ...] = ()) -> None:
            assert options == ("-std=c++17",)
            launchers = ""
            for name, arguments in re.findall(r"__global__ void (\w+)\(([^)]*)\)", code):
                names = ", ".join(argument.split()[-1] for argument in arguments.split(","))
                launchers += (
                    f'extern "C" void launch_{name}(int blocks, int width, {arguments}) {{ '
                    f"gridDim = {{unsigned(blocks), 1}}; run_blocks(blocks, width, 1, [=] {{ {name}({names}); }}); }}\n"
                )
            stem = hashlib.sha256(code.encode()).hexdigest()[:16]
            source, library = folder / f"{stem}.cpp", folder / f"{stem}.so"
            if not library.exists():
                source.write_text(HEAD + code + launchers)
                command = [COMPILER, "-std=c++14", "-O0", "-shared", "-fPIC", "-o", library, source]
                done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stderr + code
            self.library = ctypes.CDLL(str(library))

        def get_function(self, name: str) -> Any:
            launch = getattr(self.library, f"launch_{name}")

            def run(grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
                launch(*grid, *block, *map(in_c, arguments))
                cupy.launches.append(name)

            return run

    cupy.RawModule = RawModule
    return cupy


def bare(x: Any) -> Any:
    """An array at the same address that does not keep the memory alive."""
    if not isinstance(x, np.ndarray) or not x.size:
        return x
    low, high = np.lib.array_utils.byte_bounds(x)
    flat = np.frombuffer((ctypes.c_char * (high - low)).from_address(low), np.uint8)
    return np.ndarray(x.shape, x.dtype, flat, x.ctypes.data - low, x.strides).view(type(x))


class Recorder:
    """CUDA's graphs by the letter: what is captured is not done, and a replay works on the very arrays captured.

    ``fail`` names operations that cannot be captured; ``log`` says what was done.
    """

    def __init__(self, fail: frozenset[str] = frozenset()) -> None:
        self.fail = fail
        self.log: list[str] = []
        self.tape: list[Callable[[], None]] | None = None
        self.pool: list[Any] = []
        """Keeps the memory that graphs work on, as CuPy's pool does."""

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        self.log.append("build")
        yield

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        self.tape = tape = []
        try:
            run()
        finally:
            self.tape = None

        def replay() -> None:
            self.log.append("graph")
            for step in tape:
                step()

        return replay

    def before_replay(self) -> None:
        self.log.append("replay")

    def serves(self, arrays: Sequence[Any]) -> bool:
        return True

    def address(self, x: Any) -> Any:
        return (np.asarray(x).ctypes.data if isinstance(x, np.ndarray) else None, np.asarray(x).strides)

    def shares_memory(self, a: Any, b: Any) -> bool:
        return np.may_share_memory(a, b)

    def buffer(self, x: Any) -> Any:
        return self._kept(np.full(x.shape, 7, x.dtype).view(type(x)))

    def _kept(self, x: Any) -> Any:
        self.pool.append(x)
        return x

    def scalar(self, dtype: Any) -> Any:
        return self._kept(np.zeros((), dtype))

    def write_numbers(self, targets: Sequence[Any], values: Sequence[float]) -> None:
        self.log.append("numbers")
        for target, value in zip(targets, values, strict=True):
            target[...] = value

    def copy(self, target: Any, source: Any) -> None:
        target[...] = source

    def fresh(self, x: Any) -> Any:
        return x.copy()

    def evaluate(self, function: Callable[..., Any], args: Sequence[Any], settings: dict[str, Any]) -> Any:
        assert self.tape is not None
        if getattr(function, "operation", "") in self.fail:
            raise RuntimeError(f"no capture of {function.operation}")
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        tried = function(*copies, **settings)
        several = isinstance(tried, tuple)
        made: list[Any] = []
        targets: list[Any] = []
        for x in tried if several else (tried,):
            same = next((a for a, copy in zip(args, copies, strict=True) if copy is x), None)
            if x is None or same is not None:
                made.append(same)
                targets.append(None)
            elif any(isinstance(c, np.ndarray) and np.may_share_memory(c, x) for c in copies) and any(
                isinstance(given, np.ndarray) and np.may_share_memory(given, function(*args, **settings))
                for given in args
            ):
                return function(*args, **settings)  # a view costs the GPU nothing
            else:
                made.append(self.buffer(np.asanyarray(x)))
                targets.append(bare(made[-1]))
        # a graph knows addresses, and keeps nothing alive
        args, settings = [bare(a) for a in args], {name: bare(a) for name, a in settings.items()}

        def step() -> None:
            out = function(*args, **settings)
            for target, x in zip(targets, out if several else (out,), strict=True):
                if target is not None:
                    target[...] = x

        self.tape.append(step)
        return tuple(made) if several else made[0]
