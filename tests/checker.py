"""What the tests check derivatives with: ``agrad.testing``'s checks, and one that looks inside the engine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import agrad
from agrad.engine.backward import backward_pass
from agrad.testing.checks import (
    check_adjoint as check_adjoint,
)
from agrad.testing.checks import (
    check_faces as check_faces,
)
from agrad.testing.checks import (
    check_jvp as check_jvp,
)
from agrad.testing.checks import (
    check_read_only as check_read_only,
)
from agrad.testing.checks import (
    check_recorded as check_recorded,
)
from agrad.testing.checks import (
    check_same_gradients as check_same_gradients,
)
from agrad.testing.checks import (
    check_second as check_second,
)
from agrad.testing.checks import (
    check_second_elsewhere as check_second_elsewhere,
)
from agrad.testing.checks import (
    check_vjp as check_vjp,
)
from agrad.testing.numerics import (
    Arrays as Arrays,
)
from agrad.testing.numerics import (
    Function as Function,
)
from agrad.testing.numerics import (
    assert_close as assert_close,
)
from agrad.testing.numerics import (
    check_like as check_like,
)
from agrad.testing.numerics import (
    cotangents as cotangents,
)
from agrad.testing.numerics import (
    differences as differences,
)
from agrad.testing.numerics import (
    gradients as gradients,
)
from agrad.testing.numerics import (
    host as host,
)
from agrad.testing.numerics import (
    outputs as outputs,
)
from agrad.testing.numerics import (
    random_like as random_like,
)
from agrad.testing.numerics import (
    raw as raw,
)
from agrad.testing.numerics import (
    scattered as scattered,
)
from agrad.testing.numerics import (
    weighted as weighted,
)


@contextmanager
def counting_tensors() -> Iterator[list[int]]:
    """Counts the Tensors made inside, in the one place through which each must come: the class's ``__new__``."""
    count = [0]

    def new(cls: type) -> Any:
        count[0] += 1
        return object.__new__(cls)

    agrad.Tensor.__new__ = new  # type: ignore[method-assign]
    try:
        yield count
    finally:
        del agrad.Tensor.__new__


def check_makes_no_tensor(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """An ordinary backward pass is plain array code: it makes no Tensor at all."""
    leaves = [agrad.asarray(x, requires_grad=True) for x in xs]
    ys = [part for part in outputs(f(*leaves)) if part.requires_grad]
    gs = random_like(ys, rng)
    starts = {y.node: g for y, g in zip(ys, gs, strict=True) if y.node.parents}
    with counting_tensors() as count:
        found = backward_pass(starts, retain=True)
    assert count == [0], f"the backward pass made {count[0]} Tensors"
    assert not any(isinstance(g, agrad.Tensor) for g in found.values())


EXACT: tuple[Callable[[Function, Arrays, np.random.Generator], Any], ...] = (
    check_adjoint,
    check_recorded,
    check_faces,
    check_read_only,
    check_makes_no_tensor,
)
"""Checks that hold on kinks too."""

DIFFERENTIAL: tuple[Callable[[Function, Arrays, np.random.Generator], Any], ...] = (
    check_vjp,
    check_jvp,
    check_second,
)
"""Checks against finite differences, away from kinks."""


def check_all(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """Every check, for a function of float64 or complex128 NumPy arrays at a point where it is smooth."""
    for check in (*DIFFERENTIAL, *EXACT):
        check(f, xs, rng)
