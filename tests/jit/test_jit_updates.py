"""Updates of parameters as one kernel in CUDA graphs."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jit_help import close, descent, same_steps

import agrad
from agrad import optim
from agrad.jit.lower.cuda.groups import HorizontalFusion
from agrad.ops.updates import donatable, renew_p

pytestmark = pytest.mark.needs("cupy")

SHAPES = [(3,), (5, 4), (), (257,), (2, 3, 4)]
MADE: dict[str, Callable[[Any], optim.Optimizer]] = {
    "SGD": lambda ps: optim.SGD(ps, lr=0.1),
    "SGD, decay, maximize": lambda ps: optim.SGD(ps, lr=0.1, weight_decay=0.1, maximize=True),
    "momentum": lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9, dampening=0.2),
    "nesterov": lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "Adam": lambda ps: optim.Adam(ps, lr=0.1),
    "AdamW": lambda ps: optim.AdamW(ps, lr=lambda n: 0.1 / (n + 1), weight_decay=0.1),
    "two groups": lambda ps: optim.Adam([{"params": ps[:2], "lr": 0.2, "weight_decay": 0.1}, {"params": ps[2:]}]),
}


def parameters(dtypes: tuple[str, ...], shapes: list[tuple[int, ...]]) -> list[agrad.Tensor]:
    rng = np.random.default_rng(0)
    values = [rng.normal(size=shape).astype(dtypes[k % len(dtypes)]) for k, shape in enumerate(shapes)]
    return [agrad.asarray(value, backend="cupy", requires_grad=True) for value in values]


def run(made: Callable[[Any], Any], leaves: list[agrad.Tensor], jit: bool, steps: int = 6) -> Any:
    def loss_of(x: Any) -> Any:
        return sum([agrad.sum(agrad.astype(agrad.sin(p * x) ** 2, agrad.float64)) for p in leaves], 0.0)

    step = descent(made(leaves), loss_of)
    fast = agrad.jit(step) if jit else step
    for k in range(steps):
        fast(agrad.asarray(np.float64(1.0 + k % 3), backend="cupy"))
    return fast, [p.detach().numpy() for p in leaves]


def instructions(fast: Any) -> list[Any]:
    """Return the instructions of the last program: a first step without momentum is another one."""
    *_, (*_, entry) = fast._entries.values()
    return entry.run.program.instructions


def joint_updates(fast: Any) -> list[int]:
    """Return the numbers of the parameters that are updated together."""
    return [
        len(i.operation.groups)
        for i in instructions(fast)
        if isinstance(i.operation, HorizontalFusion) and i.operation.flags
    ]


MANY = [(k % 5 + 2,) for k in range(70)]
"""More parameters than a launch takes."""


@pytest.mark.parametrize(
    ("name", "dtypes", "shapes"),
    [*itertools.product(MADE, [("float32",), ("float64", "float32")], [SHAPES]), ("Adam", ("float64",), MANY)],
)
def test_a_joint_update_is_that_of_each_parameter(name: str, dtypes: tuple[str, ...], shapes: Any) -> None:
    _, right = run(MADE[name], parameters(dtypes, shapes), jit=False)
    fast, found = run(MADE[name], parameters(dtypes, shapes), jit=True)
    joint = joint_updates(fast)
    if shapes is MANY:
        assert sum(joint) == len(MANY) > max(joint)
    elif name != "two groups" or len(dtypes) == 1:
        assert sum(joint) >= 3  # those of one dtype and one group
    close(found, right, rtol=2e-6, atol=1e-7)


def test_two_steps_in_one_call_stay_in_order() -> None:
    def made() -> Callable[[], Any]:
        (p,) = parameters(("float64",), [(4,)])
        step = descent(optim.Adam([p], lr=0.1), lambda: agrad.sum(p**2))
        return lambda: (step() + step(), p.detach() + 0)

    same_steps(made, count=5)


def test_a_parameter_in_another_order_of_memory(cupy: Any) -> None:
    found = []
    for jit in (False, True):
        leaves = parameters(("float64",), SHAPES)
        leaves[1].data = cupy.asfortranarray(leaves[1].data)
        found.append(run(MADE["momentum"], leaves, jit)[1])
    close(*found)


# ------------------------------------------------------------------ memory that is read and overwritten


def element_of_itself(where: Any, p: Any, q: Any, x: Any, donate: Any) -> Any:
    """All blocks read an element that the first one overwrites."""
    return renew_p(where, p, x + p[0], donate=donate), q


def element_read_before(where: Any, p: Any, q: Any, x: Any, donate: Any) -> Any:
    """A group that was begun before the update, and is not needed before its result is."""
    early = agrad.sin(q) * p[0]
    new = renew_p(where, p, x * 2.0, donate=donate)
    return agrad.flip(new), early


def other_shape(where: Any, p: Any, q: Any, x: Any, donate: Any) -> Any:
    """Two groups of one text: the first reads what the second overwrites."""
    early = agrad.sin(agrad.reshape(p, (3, 1001))) * 2.0
    return renew_p(where, p, agrad.sin(x) * 2.0, donate=donate), agrad.sum(early, axis=0)[:5]


def made_here(where: Any, p: Any, q: Any, x: Any, donate: Any) -> Any:
    """A constant of the program, and what the program computes, are no state."""
    p = renew_p(where, p, x * 2.0, donate=donate)
    return p, renew_p(where, agrad.zeros_like(q), q, donate=donate)


@pytest.mark.parametrize("update", [element_of_itself, element_read_before, other_shape, made_here])
def test_what_an_update_overwrites_is_read_before(update: Callable[..., Any], cupy: Any) -> None:
    found: list[list[Any]] = []
    for wrap in (lambda f: f, agrad.jit):
        rng = np.random.default_rng(3)
        w, v = (agrad.asarray(cupy.asarray(rng.normal(size=n)), requires_grad=True) for n in (3003, 5))
        x = cupy.asarray(rng.normal(size=3003))

        def step(where: Any, x: Any, w: Any = w, v: Any = v) -> Any:
            donate = donatable(w)
            new, more = update(where, w.data, v.data, x, donate)
            w.assign(new)
            v.assign(more)

        run, found = wrap(step), [*found, []]
        for k in range(6):
            run(cupy.asarray(k % 3 != 1), x)
            found[-1] += [w.detach().numpy(), v.detach().numpy()]
    close(*found)


def test_groups_that_overwrite_what_others_read_are_no_joint_one(cupy: Any) -> None:
    """Blocks run in any order: that of the emulated device would not show it."""
    p, q = (agrad.asarray(cupy.ones(shape), requires_grad=True) for shape in ((4, 2), (8,)))

    @agrad.jit
    def step(where: Any, x: Any) -> None:
        old, flags = p.data, (donatable(p), donatable(q))
        q.assign(renew_p(where, q.data, agrad.reshape(old, (8,)) * 2.0, donate=flags[1]))
        p.assign(renew_p(where, old, x * 2.0, donate=flags[0]))

    for _ in range(3):
        step(cupy.asarray(True), cupy.ones((4, 2)))
    names = [i.name for i in instructions(step)]
    assert names.count("fused[multiply renew]") == 2
    assert not any(name.startswith("joint") for name in names)
