"""Random training steps, and what happens between their calls, as text and numbers."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

import agrad
from agrad import nn, optim

SHAPES = ((3,), (2, 3), (3, 3), (), (1,), (70, 30))
TERMS = (
    "agrad.sum({p} * {p}) * s",
    "agrad.mean(agrad.sin({p}) + {p})",
    "agrad.sum({p} * c) * agrad.mean(x)",
    "agrad.sum(agrad.tanh({p}.reshape((-1,))))",
    "agrad.sum(agrad.relu({p} - 0.1))",
    "agrad.sum(agrad.exp(-{p} * {p}))",
)
OPTIMIZERS = (
    "SGD(ps, lr=0.1)",
    "SGD(ps, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1)",
    "SGD(ps, lr=lambda n: 0.1 / (n + 1))",
    "SGD(ps, lr=0.1, momentum=0.5, dampening=0.3)",
    "Adam(ps, lr=0.01)",
    "AdamW(ps, lr=0.01)",
    "Adam(ps, lr=0.01, amsgrad=True)",
    "RMSprop(ps, lr=0.01)",
    "Adagrad(ps, lr=0.1)",
)
WRITES = (
    "{p} *= 0.9",
    "{p}[...] = {p} * 0.5 + 0.01",
    "{p}.assign(({p} * 0.5).bare)",
    "total[...] = total * 0.5 + agrad.mean(x)",
)
RESULTS = (
    "{p}.detach() * 1.0",
    "agrad.reshape({p}.detach(), (-1,))",
    "{p}.grad",
    "x.T",
    "[{p}.detach(), {p}.detach()]",
    "total",
    "s",
)
BETWEEN = ("hold", "drop", "write into x", "set a gradient", "no gradient", "assign", "rate", "freeze", "thaw")
BETWEEN += ("write into a result", "load the state", "an eager step", "zero", "another total")


@dataclass
class Recipe:
    """The text of some steps that share parameters, and a row of actions."""

    seed: int
    dtype: str
    shapes: list[tuple[int, ...]]
    optimizers: list[str]
    steps: list[str]
    actions: list[tuple[Any, ...]]


def recipe(seed: int) -> Recipe:
    """Return a random recipe."""
    rng = random.Random(seed)
    shapes = [rng.choice(SHAPES) for _ in range(rng.choice([1, 2, 3]))]
    optimizers = [rng.choice(OPTIMIZERS) for _ in range(rng.choice([1, 1, 2]))]
    steps = [_step(rng, len(shapes), len(optimizers)) for _ in range(rng.choice([1, 2, 3]))]
    actions: list[tuple[Any, ...]] = []
    for _ in range(rng.choice([6, 10, 16])):
        step = ("step", rng.randrange(len(steps)), rng.choice([2, 2, 5]), rng.choice([0.5, 1.0]), rng.random() < 0.6)
        actions.append(step if rng.random() < 0.6 else (rng.choice(BETWEEN), rng.randrange(6), rng.choice([0.01, 0.1])))
    return Recipe(seed, rng.choice(["float32", "float64"]), shapes, optimizers, steps, actions)


def _step(rng: random.Random, parameters: int, optimizers: int) -> str:
    """Return the body of a step."""

    def of(text: str) -> str:
        return text.format(p=f"ps[{rng.randrange(parameters)}]")

    def loss() -> str:
        terms = [rng.choice(TERMS).format(p=f"ps[{i}]") for i in range(parameters)]
        return " + ".join([term for term in terms if rng.random() < 0.85] or terms[:1])

    optimizer = f"opts[{rng.randrange(optimizers)}]"
    zero = f"{optimizer}.zero_grad({rng.choice(['', '', 'set_to_none=False'])})"
    first = rng.random() < 0.4
    lines = [zero] if first else []
    lines += [f"loss = {loss()}", "loss.backward()"]
    if rng.random() < 0.2:
        lines += [f"again = {loss()}", "again.backward()"]
    if rng.random() < 0.2:
        lines.append("optim.clip_grad_norm(ps, 0.5)")
    if rng.random() < 0.8:
        lines.append(f"{optimizer}.step()")
    if not first and rng.random() < 0.7:
        lines.append(zero)
    if rng.random() < 0.5:
        lines.append(f"with agrad.no_grad(): {of(rng.choice(WRITES))}")
    results = ", ".join(["loss.detach()", *[of(rng.choice(RESULTS)) for _ in range(rng.choice([0, 1, 2]))]])
    return "\n    ".join(["def step(x, s):", *lines, f"return {results}"]) + "\n"


class World:
    """The parameters, optimizers and steps of a recipe, eager or jitted."""

    def __init__(self, made: Recipe, jitted: bool) -> None:
        self.dtype = getattr(agrad, made.dtype)
        self.jitted = jitted
        numbers = np.random.default_rng(made.seed)
        self.numbers = np.random.default_rng(made.seed)
        self.ps = [nn.Parameter(self.array(numbers.standard_normal(shape))) for shape in made.shapes]
        space = {"agrad": agrad, "optim": optim, "ps": self.ps, "c": self.array(1.5), "total": self.array(np.zeros(3))}
        self.opts = space["opts"] = [eval(text, {**vars(optim), "ps": self.ps}) for text in made.optimizers]
        self.space = space
        self.steps = []
        for text in made.steps:
            exec(text, space)
            self.steps.append(agrad.jit(space["step"]) if jitted else space["step"])
        self.held: list[Any] = []
        self.results: list[tuple[Any, Any]] = []
        """The results of jitted steps, each with what it was."""

    def array(self, values: Any) -> agrad.Tensor:
        return agrad.asarray(np.asarray(values, np.float64).tolist(), dtype=self.dtype)

    def act(self, kind: str, i: int, *more: Any) -> Any:
        """Carry out an action, and return what the steps returned."""
        if kind == "step":
            rows, s, as_tensor = more
            self.x = self.array(self.numbers.standard_normal((rows, 3)))
            out = self.steps[i](self.x if as_tensor else self.x.data, s)
            self.results = [*self.results[-5:], (out, told(out))]
            return told(out)
        p, opt, (number,) = self.ps[i % len(self.ps)], self.opts[i % len(self.opts)], more
        if kind == "hold":
            self.held += [p.data, p.grad, p.detach().reshape((-1,))]
        elif kind == "drop":
            self.held.clear()
            self.results.clear()
        elif kind == "write into x" and hasattr(self, "x"):
            self.x[...] = 3.0
        elif kind == "set a gradient":
            p.grad = self.array(np.full(p.shape, 0.25))
        elif kind == "no gradient":
            p.grad = None
        elif kind == "assign":
            p.assign(self.array(np.full(p.shape, number)).data)
        elif kind == "rate":
            for group in opt.param_groups:
                group["lr"] = group["lr"] if callable(group["lr"]) else number
        elif kind in ("freeze", "thaw"):
            p.requires_grad = kind == "thaw"
        elif kind == "write into a result" and self.jitted and self.results:
            self._write(i)
        elif kind == "load the state":
            opt.load_state_dict(opt.state_dict())
        elif kind == "an eager step":
            step = self.steps[i % len(self.steps)]
            return told(getattr(step, "__wrapped__", step)(self.array(np.ones((2, 3))), 0.5))
        elif kind == "zero":
            opt.zero_grad()
        elif kind == "another total":
            self.space["total"] = self.array(np.full(3, number))
        return None

    def _write(self, i: int) -> None:
        """Write into one result of the last step; the others keep their values."""
        out, _ = self.results[-1]
        parts = out if isinstance(out, tuple) else (out,)
        part = parts[i % len(parts)]
        if isinstance(part, agrad.Tensor) and part.ndim:
            before = told(parts)
            part[...] = 7.0
            after = told(parts)
            for k, pair in enumerate(zip(before, after, strict=True)):
                assert k == i % len(parts) or differ(*pair, 0) is None, "a write to a result is seen in another"
            self.results[-1] = out, told(out)

    def unchanged(self) -> list[tuple[Any, Any]]:
        """Return results of earlier steps as they were and as they are."""
        return [(was, told(out)) for out, was in self.results] if self.jitted else []

    def state(self) -> Any:
        """Return all that the steps can change, as arrays of the host."""
        saved = [sorted(opt.state_dict().items()) for opt in self.opts]
        flags = [(p.requires_grad, p.is_leaf) for p in self.ps]
        return told([self.ps, [p.grad for p in self.ps], self.held, saved, self.space["total"], flags])


def told(value: Any) -> Any:
    """Return arrays of the host in the place of Tensors and raw arrays."""
    if isinstance(value, list | tuple):
        return [told(part) for part in value]
    if isinstance(value, agrad.Tensor) or hasattr(value, "shape"):
        return np.array(agrad.asarray(value).detach().numpy())
    return value


def differ(a: Any, b: Any, tolerance: float) -> str | None:
    """Return the place and values of the first difference, or None."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for k, pair in enumerate(zip(a, b, strict=True)):
            found = differ(*pair, tolerance)
            if found:
                return f"{k}.{found}"
        return None
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and (a.shape, a.dtype) == (b.shape, b.dtype):
        same = np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        return None if same else f" {a.reshape(-1)[:4]} is not {b.reshape(-1)[:4]}"
    alike = type(a) is type(b) and (a == b or abs(a - b) <= tolerance) if isinstance(a, float) else a == b
    return None if alike else f" {a!r} is not {b!r}"
