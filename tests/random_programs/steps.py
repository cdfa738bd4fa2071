"""Random training steps, and what happens between their calls: jitted ones do what eager ones do."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import nn, optim
from random_programs.comparing import Wrong, differ, host

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
EARLY = (
    "{p}", "agrad.sin({p})", "{p} * 1.0", "{p} / 1", "agrad.flip({p} * 1.0)", "agrad.sin({p} * 1.0)",
    "agrad.permute_dims({p}, tuple(range({p}.ndim))[::-1])", "agrad.exp(agrad.reshape({p}, (-1,))[::2]) * 0.5",
    "agrad.sin(agrad.reshape({p}, (-1,)))", "agrad.sin(agrad.permute_dims({p}, tuple(range({p}.ndim))[::-1])) * 2.0",
)  # fmt: skip
"""What is computed of a parameter before its update, which does not change it."""
RESULTS = (
    "{p}.detach() * 1.0", "agrad.reshape({p}.detach(), (-1,))", "{p}.grad", "x.T", "[{p}.detach(), {p}.detach()]",
    "total", "s",
)  # fmt: skip


def step_text(rng: random.Random, parameters: int, optimizers: int) -> str:
    """Return the text of a step."""

    def of(text: str) -> str:
        return text.format(p=f"ps[{rng.randrange(parameters)}]")

    def loss() -> str:
        terms = [rng.choice(TERMS).format(p=f"ps[{i}]") for i in range(parameters)]
        return " + ".join([term for term in terms if rng.random() < 0.85] or terms[:1])

    optimizer = f"opts[{rng.randrange(optimizers)}]"
    zero = f"{optimizer}.zero_grad({rng.choice(['', '', 'set_to_none=False'])})"
    first = rng.random() < 0.4
    lines = [zero] if first else []
    early = f"ps[{rng.randrange(parameters)}].detach()"
    lines += [f"early = {rng.choice(EARLY).format(p=early)}", f"loss = {loss()}"]
    if rng.random() < 0.3:
        lines.append(f"loss = loss + agrad.mean(early * 1.0) * agrad.sum({of('{p}')})")
    lines.append("loss.backward()")
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
    results = ", ".join(
        [
            "loss.detach()",
            *["early"] * (rng.random() < 0.5),
            *[of(rng.choice(RESULTS)) for _ in range(rng.choice([0, 1, 2]))],
        ]
    )
    return "\n    ".join(["def step(x, s):", *lines, f"return {results}"]) + "\n"


class World:
    """Parameters, optimizers and steps of a seed, eager or jitted, and the actions between calls."""

    def __init__(self, seed: int, jitted: bool) -> None:
        rng, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.dtype, self.jitted = rng.choice(["float32", "float64"]), jitted
        shapes = [rng.choice(SHAPES) for _ in range(rng.choice([1, 2, 3]))]
        self.ps = [nn.Parameter(self.array(self.numbers.standard_normal(shape))) for shape in shapes]
        space = {"agrad": agrad, "optim": optim, "ps": self.ps, "c": self.array(1.5), "total": self.array(np.zeros(3))}
        count = rng.choice([1, 1, 2])
        self.opts = space["opts"] = [eval(rng.choice(OPTIMIZERS), {**vars(optim), "ps": self.ps}) for _ in range(count)]
        self.space, self.steps = space, []
        self.texts = [step_text(rng, len(shapes), count) for _ in range(rng.choice([1, 2, 3]))]
        for text in self.texts:
            exec(text, space)
            self.steps.append(agrad.jit(space["step"]) if jitted else space["step"])
        self.rng, self.held = rng, list[Any]()
        self.results: list[tuple[Any, Any]] = []
        """The results of jitted steps, each with what it was."""

    def array(self, values: Any) -> agrad.Tensor:
        return agrad.asarray(np.asarray(values, np.float64).tolist(), dtype=getattr(agrad, self.dtype))

    def act(self) -> Any:
        """Carry out the next action, and return what a step returned."""
        if self.rng.random() < 0.6:
            i, rows, s = self.rng.randrange(len(self.steps)), self.rng.choice([2, 2, 5]), self.rng.choice([0.5, 1.0])
            self.x = self.array(self.numbers.standard_normal((rows, 3)))
            out = self.steps[i](self.x if self.rng.random() < 0.6 else self.x.data, s)
            self.results = [*self.results[-5:], (out, flat(out))]
            return out
        action, i, number = self.rng.choice(ACTIONS), self.rng.randrange(6), self.rng.choice([0.01, 0.1])
        return action(self, self.ps[i % len(self.ps)], self.opts[i % len(self.opts)], i, number)

    def state(self) -> Any:
        """Return all that the steps can change."""
        saved = [opt.state_dict() for opt in self.opts]
        flags = [(p.requires_grad, p.is_leaf) for p in self.ps]
        return self.ps, [p.grad for p in self.ps], self.held, saved, self.space["total"], flags


def hold(world: World, p: Any, opt: Any, i: int, number: float) -> None:
    world.held += [p.data, p.grad, p.detach().reshape((-1,))]


def drop(world: World, p: Any, opt: Any, i: int, number: float) -> None:
    world.held.clear()
    world.results.clear()


def write_into_x(world: World, p: Any, opt: Any, i: int, number: float) -> None:
    if hasattr(world, "x"):
        world.x[...] = 3.0


def rate(world: World, p: Any, opt: Any, i: int, number: float) -> None:
    for group in opt.param_groups:
        group["lr"] = group["lr"] if callable(group["lr"]) else number


def write_into_a_result(world: World, p: Any, opt: Any, i: int, number: float) -> None:
    """Write into one result of the last step; the others keep their values."""
    if not world.jitted or not world.results:
        return
    out, _ = world.results[-1]
    parts = out if isinstance(out, tuple) else (out,)
    part = parts[i % len(parts)]
    if isinstance(part, agrad.Tensor) and part.ndim:
        before = [flat(other) for other in parts if other is not part]
        part[...] = 7.0
        compare("a result that was not written", before, [flat(other) for other in parts if other is not part], 0.0)
        world.results[-1] = out, flat(out)


def eager(world: World, p: Any, opt: Any, i: int, number: float) -> Any:
    step = world.steps[i % len(world.steps)]
    return getattr(step, "__wrapped__", step)(world.array(np.ones((2, 3))), 0.5)


ACTIONS: tuple[Callable[..., Any], ...] = (
    hold, drop, write_into_x, rate, write_into_a_result, eager,
    lambda world, p, opt, i, number: setattr(p, "grad", world.array(np.full(p.shape, 0.25))),
    lambda world, p, opt, i, number: setattr(p, "grad", None),
    lambda world, p, opt, i, number: p.assign(world.array(np.full(p.shape, number)).data),
    lambda world, p, opt, i, number: setattr(p, "requires_grad", bool(i % 2)),
    lambda world, p, opt, i, number: opt.load_state_dict(opt.state_dict()),
    lambda world, p, opt, i, number: opt.zero_grad(),
    lambda world, p, opt, i, number: world.space.update(total=world.array(np.full(3, number))),
)  # fmt: skip


def flat(value: Any) -> list[np.ndarray]:
    """Return copies of all arrays and numbers in a value, and the text of everything else."""
    if isinstance(value, dict):
        value = sorted(value.items())
    if isinstance(value, list | tuple):
        return [np.asarray(len(value)), *[x for part in value for x in flat(part)]]
    if isinstance(value, np.ndarray):
        return [value.copy()]
    if isinstance(value, agrad.Tensor) or hasattr(value, "shape"):
        return [np.array(host(agrad.asarray(value).detach()))]
    return [np.asarray(value if isinstance(value, float) else repr(value).partition(" at 0x")[0])]


def compare(what: str, given: Any, expected: Any, tolerance: float) -> None:
    for a, b in zip(flat(given), flat(expected), strict=True):
        difference = differ(a, b, tolerance)
        if difference is not None:
            raise Wrong(f"{what}: {difference}")


def first_fault(seed: int) -> str | None:
    """Return how the jitted run of a seed differs from the eager one, or None. It ends at an error of both."""
    plain, jitted = World(seed, False), World(seed, True)
    tolerance = 1e-3 if plain.dtype == "float32" else 1e-8
    for at in range(16):
        outs, errors = [], []
        for world in (plain, jitted):
            try:
                outs.append(world.act())
            except Wrong as error:
                return f"{at}: {error}"
            except Exception as error:
                errors.append(error)
        if errors:
            same = len(errors) == 2 and type(errors[0]) is type(errors[1])
            return None if same else f"{at}: {errors}"
        try:
            compare("results", outs[1], outs[0], tolerance)
            compare("state", jitted.state(), plain.state(), tolerance)
            for out, was in jitted.results:
                compare("a result of an earlier step", flat(out), was, 0.0)
        except Wrong as error:
            return f"{at}: {error}"
    return None
