"""Jobs of a case of ``ops_cases``: forward, and both passes, by library.

agrad and autograd both compute with NumPy, and share a process with plain NumPy. With separate processes, the same
NumPy call was up to a third slower in one of them, depending on the addresses of its arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.common import Job, Missing, load
from bench.ops_cases import CASES, Case

FORWARD, GRADIENT, ALONE = "forward", "forward + backward", "NumPy's forward"


def arguments(case: Case, n: int, dtype: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return differentiated arguments and constants, the same in every process."""
    rng = np.random.default_rng(n)
    narrow = {"float64": "float32", "complex128": "complex64"} if dtype == "float32" else {}

    def drawn(draw: Any) -> np.ndarray:
        a = draw(rng, n)
        return a.astype(narrow.get(a.dtype.name, a.dtype.name))

    return [drawn(draw) for draw in case.draws], [drawn(draw) for draw in case.constants]


def cotangents(case: Case, outputs: list[Any], how: Callable[[Any], np.ndarray]) -> list[np.ndarray]:
    """Return a cotangent for each output, of its shape and dtype."""
    out = []
    for i, y in enumerate(outputs):
        like = np.asarray(how(y))
        rng = np.random.default_rng(1000 + i)
        g = rng.uniform(0.5, 1.5, like.shape)
        if i in case.free:
            g = g * 0
        out.append((g * (1 + 1j) if like.dtype.kind == "c" else g).astype(like.dtype))
    return out


def fingerprint(gradients: list[np.ndarray]) -> list[float]:
    """Return two numbers for each gradient: the sums of real parts and of magnitudes."""
    return [float(f(np.asarray(g))) for g in gradients for f in (lambda g: np.sum(g.real), lambda g: np.sum(np.abs(g)))]


def _many(y: Any) -> list[Any]:
    return list(y) if isinstance(y, (tuple, list)) else [y]


@dataclass(frozen=True)
class Steps:
    """A case in one library."""

    parts: dict[str, Callable[[], Any]]
    host: Callable[[Any], np.ndarray] = np.asarray
    """Convert a gradient to a NumPy array."""

    def fingerprint(self) -> list[float]:
        """Return the fingerprint of the gradients, the same in every library."""
        return fingerprint([self.host(g) for g in self.parts[GRADIENT]()])


def agrad(name: str, n: int, dtype: str) -> Steps:
    """Return the steps of agrad on NumPy, and of plain NumPy."""
    agrad, case = load("agrad"), CASES[name]
    raw, constants = arguments(case, n, dtype)
    xs = [agrad.asarray(a, requires_grad=True) for a in raw]
    call = case.agrad
    outputs = _many(call(agrad, *xs, *constants))
    gs = cotangents(case, outputs, lambda y: y.detach().numpy())
    several = len(outputs) > 1

    def forward() -> Any:
        return call(agrad, *xs, *constants)

    def gradient() -> Any:
        if several:
            return agrad.vjp(lambda *arrays: tuple(call(agrad, *arrays, *constants)), *raw)[1](tuple(gs))
        call(agrad, *xs, *constants).backward(gs[0])
        out = [x.grad for x in xs]
        for x in xs:
            x.zero_grad()
        return [g.data for g in out]

    alone = {} if case.numpy is None else {ALONE: lambda: case.numpy(np, *raw, *constants)}
    return Steps({FORWARD: forward, GRADIENT: gradient, **alone})


def torch(name: str, n: int, dtype: str) -> Steps:
    torch, case = load("torch"), CASES[name]
    if case.torch is None:
        raise Missing("PyTorch has none")
    call = case.torch
    raw, constants = arguments(case, n, dtype)
    xs = [torch.from_numpy(a.copy() if a.shape else a).requires_grad_() for a in map(np.asarray, raw)]
    constants = [torch.from_numpy(c) for c in constants]
    outputs = _many(call(torch, *xs, *constants))
    # PyTorch gradients, and the cotangents it accepts, are the conjugates of those of agrad
    given = cotangents(case, outputs, lambda y: y.detach().resolve_conj().numpy())
    gs = [torch.from_numpy(np.asarray(np.conj(g))) for g in given]

    def gradient() -> Any:
        return torch.autograd.grad(_many(call(torch, *xs, *constants)), xs, gs)

    parts = {FORWARD: lambda: call(torch, *xs, *constants), GRADIENT: gradient}
    return Steps(parts, lambda g: g.resolve_conj().resolve_neg().numpy())


def autograd(name: str, n: int, dtype: str) -> Steps:
    anp, make_vjp, case = load("autograd.numpy"), load("autograd").make_vjp, CASES[name]
    together = load("autograd.builtins").tuple
    if case.autograd is None:
        raise Missing("autograd has none")
    call = case.autograd
    raw, constants = arguments(case, n, dtype)
    numbers = tuple(range(len(raw)))
    outputs = call(anp, *raw, *constants)
    several = isinstance(outputs, (tuple, list))
    gs = cotangents(case, _many(outputs), np.asarray)

    def function(*xs: Any) -> Any:
        y = call(anp, *xs, *constants)
        return together(tuple(y)) if several else y

    of = make_vjp(function, numbers)

    def gradient() -> Any:
        return of(*raw)[0](tuple(gs) if several else gs[0])

    try:
        gradient()
    except (NotImplementedError, AttributeError, TypeError) as reason:
        raise Missing(f"autograd has no derivative of it: {str(reason).splitlines()[0]}") from None
    return Steps({FORWARD: lambda: of(*raw), GRADIENT: gradient})


BUILDERS: dict[str, Callable[..., Steps]] = {"agrad": agrad, "torch": torch, "autograd": autograd}


def key(library: str, part: str) -> str:
    """Return the name under which a library's part is timed."""
    return f"{library}: {part}"


def build(name: str, n: int, dtype: str, *libraries: str) -> Job:
    """Return the case in these libraries, their parts under ``key``.

    Raises ``Missing`` if the first library has no such function. A step returns the fingerprint of each library, or a
    text with the reason why it does not take part.
    """
    taking_part, absent = {}, {}
    for library in libraries:
        try:
            taking_part[library] = BUILDERS[library](name, n, dtype)
        except (Missing, ImportError) as reason:
            if library == libraries[0]:
                raise
            absent[library] = str(reason)
    parts = {key(library, part): step for library, made in taking_part.items() for part, step in made.parts.items()}
    return Job(
        lambda: {library: made.fingerprint() for library, made in taking_part.items()} | absent,
        read=lambda found: found,
        parts=parts,
    )
