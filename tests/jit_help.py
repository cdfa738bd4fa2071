"""Shared by the tests of the jit: programs, functions and steps with and without it, threads, memory."""

import itertools
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import agrad
from agrad import nn, optim, random
from agrad.jit.api import Jitted
from agrad.jit.program import Program

Function = Callable[..., Any]


def function_of(text: str, parameter: str = "x") -> Function:
    """Return a function of one parameter: statements, and behind a bar what is returned."""
    statements, _, result = text.partition(" | ")
    space = {"agrad": agrad, "np": np}
    exec(f"def made({parameter}):\n    {statements or 'pass'}\n    return {result or None}", space)
    return space["made"]


def stages(function: Function, *args: Any, **options: Any) -> list[Program]:
    """Return the programs of a function: as it was traced, and after each pass."""
    made = agrad.jit(function, **options)
    assert isinstance(made, Jitted)
    return [program for _, program in made.lower(*args).stages]


def traced(function: Function, *args: Any) -> Program:
    return stages(function, *args)[0]


def names(program: Program) -> list[str]:
    return [i.name for i in program.instructions]


def values(out: Any) -> list[Any]:
    """Return the leaves of a result as NumPy arrays."""
    return [agrad.asarray(leaf).detach().numpy() for leaf in agrad.tree.leaves(out) if leaf is not None]


def close(got: Any, right: Any, rtol: float = 1e-12, atol: float = 0.0) -> None:
    """Compare the leaves of two results."""
    for a, b in zip(values(got), values(right), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def draw(dtype: str, *shape: int) -> np.ndarray:
    """Return numbers that depend on the rank alone."""
    return np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)


def rounded(x: np.ndarray, precision: str) -> np.ndarray:
    """Return float32 numbers as a product of that precision reads them, to the nearest, ties to even."""
    if precision == "float16":
        return x.astype(np.float16).astype(np.float32)
    dropped = 13 if precision == "tf32" else 16
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + (1 << dropped - 1) - 1 + (bits >> dropped & 1)) >> dropped << dropped
    return bits.astype(np.uint32).view(np.float32)


def same_calls(function: Function, *calls: tuple[Any, ...], rtol: float = 1e-12, atol: float = 0.0) -> Any:
    """Compare a jitted function with the function for some tuples of arguments; return the jitted one."""
    jitted = agrad.jit(function)
    for args in calls:
        close(jitted(*args), function(*args), rtol, atol)
    return jitted


def same_steps(
    make: Callable[[], Function], *args: Any, count: int = 4, rtol: float = 1e-12, atol: float = 0.0, **options: Any
) -> Any:
    """Compare calls of a jitted step with those of the step; return the jitted one.

    make: makes the step, with state of its own. args: arguments, or functions of the number of the call.
    """
    eager, jitted = make(), agrad.jit(make(), **options)
    for k in range(count):
        given = [a(k) if callable(a) else a for a in args]
        close(jitted(*given), eager(*given), rtol, atol)
    return jitted


def descent(optimizer: Any, loss_of: Function, zero: str = "last") -> Function:
    """Return a training step; ``zero`` says when gradients are set to None."""

    def step(*args: Any) -> Any:
        if zero == "first":
            optimizer.zero_grad()
        loss = loss_of(*args)
        loss.backward()
        optimizer.step()
        if zero == "last":
            optimizer.zero_grad()
        return loss

    return step


def network(*sizes: int, seed: int = 0, scale: float = 1.0) -> nn.Sequential:
    """Return linear maps of float32 with ReLU between, of the drawn parameters, on the selected backend."""
    rng = np.random.default_rng(seed)
    layers = [(nn.Linear(a, b, dtype=agrad.float32), nn.ReLU()) for a, b in itertools.pairwise(sizes)]
    model = nn.Sequential(*itertools.chain(*layers))[:-1]
    drawn = {k: rng.normal(size=v.shape).astype(np.float32) * scale for k, v in model.state_dict().items()}
    model.load_state_dict(drawn)
    return model


def regression(*sizes: int, rows: int, make: Function, zero: str = "last", jitted: bool = True) -> Any:
    """Return a step of float32 regression that ``make`` makes the optimizer of, its parameters, and four batches."""
    rng, model = np.random.default_rng(0), network(*sizes, scale=1 / 8)
    parameters, place = list(model.parameters()), agrad.zeros((1,))
    ends = (sizes[0], sizes[-1])
    drawn = [[rng.normal(size=(rows, n)).astype(np.float32) for n in ends] for _ in range(4)]
    batches = [[agrad.asarray(a, backend=place.backend, device=place.device) for a in pair] for pair in drawn]

    def loss_of(x: Any, t: Any) -> Any:
        if zero == "to zeros":
            for p in parameters:
                p.grad = agrad.zeros_like(p.detach())
        return agrad.mean((model(x) - t) ** 2)

    step = descent(make(parameters), loss_of, zero)
    return agrad.jit(step) if jitted else step, parameters, batches


def classifying(make: Function, dtype: Any = "float32", drop: float = 0.0) -> tuple[Function, Any]:
    """Return a training step of a small classifier, and its model, optimizer and generator. ``make``: the optimizer."""
    rng = random.Generator(3)
    layers = [nn.Linear(6, 5, rng=rng, dtype=dtype), nn.ReLU(), nn.Dropout(drop, rng=rng)]
    model = nn.Sequential(*layers, nn.Linear(5, 3, rng=rng, dtype=dtype))
    optimizer = make(list(model.parameters()))
    scale = optimizer if isinstance(optimizer, optim.LossScale) else lambda loss: loss

    def step(x: Any, labels: Any) -> Any:
        logits = model(x)
        loss = agrad.cross_entropy(logits, labels)
        scale(loss).backward()
        optimizer.step()
        for parameter in model.parameters():
            parameter.grad = None
        return loss, agrad.sum(agrad.astype(agrad.argmax(logits, axis=1) == labels, agrad.int64))

    return step, (model, optimizer, rng)


def same_training(
    make: Function, place: Function = np.asarray, dtype: str = "float32", drop: float = 0.3, **options: Any
) -> Any:
    """Compare steps of a small classifier and their state with and without ``jit``; return the jitted step."""
    found = []

    def made() -> Function:
        step, state = classifying(make, dtype, drop)
        found.append(state)
        return step

    rows, digits = np.random.default_rng(1).standard_normal((5, 8, 6)).astype(dtype), 2e-4 if "32" in dtype else 1e-10
    given = lambda k: place(rows[k]), lambda k: place(np.asarray([0, 1, 2, 0, 1, 2, 0, 1]))
    jitted = same_steps(made, *given, count=5, rtol=digits, atol=digits, **options)
    states = [[part.state() if isinstance(part, random.Generator) else part.state_dict() for part in s] for s in found]
    close(states[1], states[0], rtol=digits, atol=digits)
    return jitted


def in_threads(work: Callable[[int], Any], count: int) -> list[Any]:
    """Do some work in threads that start together, by the number of the thread; an error in one is raised here."""
    gate = threading.Barrier(count)

    def start(k: int) -> Any:
        gate.wait(timeout=60)
        return work(k)

    with ThreadPoolExecutor(count) as pool:
        found = list(pool.map(start, range(count)))
    assert len(found) == count
    return found


def memory_of(call: Function, *args: Any) -> tuple[int, int]:
    """Return the bytes that a call leaves behind, and the most at a time."""
    tracemalloc.start()
    try:
        call(*args)
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
