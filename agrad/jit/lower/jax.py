"""Lowering for JAX, and for programs of NumPy arrays that XLA compiles."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from agrad.backends import load
from agrad.errors import ConfigurationError
from agrad.jit.lower.plain import Compiled, Split, evaluation, plain
from agrad.jit.passes.aliasing import without_donation
from agrad.jit.passes.precision import NarrowMatmul
from agrad.jit.program import Instruction, Program, Variable


def lower_jax(program: Program) -> Compiled:
    """Compile a program by XLA, or lower it plainly if JAX cannot trace an operation."""
    jax = sys.modules["jax"]
    precision = program.notes.get("precision")
    split = Split(program)
    compiled = jax.jit(plain(split.body))
    spare: list[Compiled] = []
    # "high" is TF32 on GPUs that have it, and float32 on CPUs
    products = partial(jax.default_matmul_precision, "high") if precision == "tf32" else nullcontext

    def run(inputs: Sequence[Any]) -> list[Any]:
        if spare:
            return list(spare[0](inputs))
        given = split.before(inputs)
        try:
            with products():
                found = compiled(given[: split.count])
        except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):
            # an operation reads values, which are unknown while JAX traces
            spare.append(plain(program))
            return list(spare[0](inputs))
        return split.outputs(found, given)

    run.text = getattr(compiled.__wrapped__, "text", "")  # type: ignore[attr-defined]
    return run


# ------------------------------------------------------------------ products in a lower precision


def jax_narrow_matmul(precision: str) -> NarrowMatmul:
    """Return products of narrow operands with float32 results, as XLA computes them."""
    jnp = sys.modules["jax.numpy"]
    dtype = getattr(jnp, precision)

    def product(x: Any, weight: Any) -> Any:
        return jnp.matmul(x, weight, preferred_element_type=jnp.float32)

    return NarrowMatmul(lambda x: x.astype(dtype), product, np.dtype(dtype))


# ------------------------------------------------------------------ programs of NumPy arrays


@contextlib.contextmanager
def _jax_on_cpu() -> Iterator[Any]:
    """Have JAX use double precision and the CPU, in this thread, inside a ``with`` block."""
    load("jax")
    jax, enable_x64 = sys.modules["jax"], sys.modules["agrad.backends.jax"].enable_x64
    with enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        yield jax


def with_arrays_of_jax(program: Program) -> Program:
    """Convert all arrays of a program of NumPy arrays to JAX arrays.

    The functions of the operations then compute on them. Constants are moved. Raises ``ConfigurationError`` for
    a dtype that JAX lacks.
    """
    kind = load("jax").array_types[0]
    table: dict[Variable, Variable] = {}
    made = [v for instruction in program.instructions for v in instruction.results]
    for v in (*program.inputs, *program.constants, *made):
        table[v] = v if v.on_host else Variable(v.shape, v.dtype, kind)
    with _jax_on_cpu() as jax:
        for dtype in {v.dtype for v in table if not v.on_host}:
            _check_dtype(jax, dtype)
        constants = {table[v]: jax.numpy.array(raw) for v, raw in program.constants.items()}
    instructions = [
        i.replaced(table).giving(*[None if v is None else table[v] for v in i.outputs]) for i in program.instructions
    ]
    outputs = [table[v] if isinstance(v, Variable) else v for v in program.outputs]
    notes = {**program.notes, "results": [v.kind if isinstance(v, Variable) else None for v in program.outputs]}
    notes.pop("donated", None)  # XLA overwrites no NumPy array
    return Program([table[v] for v in program.inputs], constants, instructions, outputs, notes)


def _check_dtype(jax: Any, dtype: Any) -> None:
    try:
        jax.numpy.asarray(np.empty(0, dtype))
    except TypeError:
        raise ConfigurationError(
            f"jit: compiler='jax' does not support arrays of {np.dtype(dtype)!r}. Cast them, or omit compiler."
        ) from None


def lower_xla(program: Program) -> Compiled:
    """Compile a program that ``with_arrays_of_jax`` returned.

    Raises ``ConfigurationError`` at the first call for an operation that JAX cannot trace.
    """
    with _jax_on_cpu() as jax:
        split = Split(without_donation(program))
        here = jax.sharding.SingleDeviceSharding(jax.local_devices(backend="cpu")[0])
        # with the device in the program, a call sets only the precision: 10 us instead of 14
        compiled = jax.jit(plain(split.body, _typed), in_shardings=here, out_shardings=here)
        kept = program.notes.get("residuals", ())
        kinds = program.notes["results"]
        # NumPy views of JAX arrays are read-only, so small results are copied
        takes = [_kept if i in kept else np.array if kind is np.ndarray else _scalar for i, kind in enumerate(kinds)]
        large = [i for i, v in enumerate(program.outputs) if takes[i] is np.array and v.nbytes >= LARGE]
        constants = list(split.body.constants.values())
        if program.notes.get("checked"):
            _check_operations(jax, compiled, split.body)
        array, ready, double = jax.Array, jax.block_until_ready, sys.modules["agrad.backends.jax"].enable_x64
    count = split.count

    def run(inputs: Sequence[Any]) -> list[Any]:
        given = split.before(inputs)
        with double(True):
            found = compiled(given[:count])
        if kept or large:
            ready(found)  # XLA reads arguments in their own memory, and the caller may write into them afterwards
        values = split.outputs(found, given)
        if large:
            others = [*given[:count], *constants, *[values[i] for i in kept]]
            used = {_address(np.asarray(x)) for x in others if isinstance(x, (np.ndarray, array))}
            for i in large:
                values[i] = _owned(values[i], used) if isinstance(values[i], array) else values[i]
        return [take(x) if isinstance(x, array) else x for take, x in zip(takes, values, strict=True)]

    text = compiled.__wrapped__.text
    run.text = f"# compiled by XLA (jax {jax.__version__}) for the CPU\n{text}"  # type: ignore[attr-defined]
    return run


def _check_operations(jax: Any, compiled: Any, program: Program) -> None:
    """Raise ``ConfigurationError`` for an operation that JAX cannot trace. A call finds the trace again."""
    jax.eval_shape(compiled, [1.0 if v.on_host else jax.ShapeDtypeStruct(v.shape, v.dtype) for v in program.inputs])


# ------------------------------------------------------------------ in the program


def _typed(instruction: Instruction) -> Callable[..., Any]:
    """Return the function of an instruction, whose results have the dtypes that NumPy would return."""
    function = evaluation(instruction)

    def run(*operands: Any, **settings: Any) -> Any:
        try:
            found = function(*operands, **settings)
        except Exception as error:
            reason = next(iter(str(error).strip().splitlines()), "")
            raise ConfigurationError(
                f"jit: compiler='jax' cannot compile {instruction.name}: {type(error).__name__}: {reason}. "
                "Omit compiler, or this operation."
            ) from error
        if instruction.operation.outputs is None:
            return _cast(found, instruction.outputs[0])
        return tuple([_cast(x, v) for x, v in zip(found, instruction.outputs, strict=True)])

    return run


def _cast(x: Any, v: Variable | None) -> Any:
    """Return an array with the dtype of its variable, which does not yield to others."""
    if v is None or v.on_host:
        return x
    return sys.modules["jax.lax"].convert_element_type(x, v.dtype)


# ------------------------------------------------------------------ results


LARGE = 1 << 16
"""Bytes from which a result remains where XLA computed it."""


class _Memory:
    """The memory of a JAX array to which nothing else refers, as NumPy reads it: it may be written into."""

    def __init__(self, array: Any, view: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = {**view.__array_interface__, "data": (_address(view), False)}


def _owned(x: Any, used: set[int]) -> np.ndarray:
    """Return a NumPy array in the memory of a JAX array, or a copy if the memory is in ``used``.

    JAX returns an argument or a constant itself if an operation does nothing, and one array for two equal outputs.
    """
    view = np.asarray(x)
    start = _address(view)
    if start in used or view.dtype.isbuiltin != 1 or not view.flags.c_contiguous:
        return np.array(view)
    used.add(start)
    return np.asarray(_Memory(x, view))


def _address(x: np.ndarray) -> int:
    return int(x.__array_interface__["data"][0])


def _scalar(x: Any) -> Any:
    return np.asarray(x)[()]


def _kept(x: Any) -> Any:
    return x
