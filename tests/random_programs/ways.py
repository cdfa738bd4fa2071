"""The ways to run a program: each transform against a reference.

References are NumPy, finite differences, a loop, or another transform.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

import agrad
from random_programs.comparing import Undecided, Wrong, apart, host, product, same, size_of, slope_is
from random_programs.plain import PLAIN
from random_programs.program import Program, Unfit

MEMBERS = 3


class Case:
    """A program with its inputs, directions, reference values and tolerances."""

    def __init__(self, program: Program, turn: int = 0) -> None:
        self.program, self.turn = program, turn
        self.inputs = program.values()
        self.function = program.function(agrad)
        self.expected = self.plain(*self.fresh())
        dtypes = program.source() + "".join(str(x.dtype) for x in [*self.inputs, *self.expected])
        self.single = "float32" in dtypes or "complex64" in dtypes
        self.exact = 1e-4 if self.single else 1e-11
        self.close = 3e-3 if self.single else 1e-8
        self.rough = 1e-2 if self.single else 1e-6
        self.moving = [i for i, y in enumerate(self.expected) if np.asarray(y).dtype.kind in "fc"]
        self.argnums = tuple(range(len(self.inputs)))
        rng = np.random.default_rng(3)
        self.along, self.across = (self._direction(rng) for _ in range(2))

    def _direction(self, rng: np.random.Generator) -> list[np.ndarray]:
        return [_noise(rng, x) for x in self.inputs]

    def fresh(self, factor: float = 1.0) -> list[np.ndarray]:
        return [np.asarray(np.array(x) * x.dtype.type(factor), dtype=x.dtype) for x in self.inputs]

    def moved(self, t: float, along: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the inputs in double precision, moved along a direction."""
        return [np.asarray(x + t * d.astype(_wide(d))) for x, d in zip(self.inputs, along, strict=True)]

    # ---------------------------------------------------------------- functions of the inputs

    def plain(self, *xs: Any, wide: bool = False, copy: bool = True) -> list[np.ndarray]:
        """Return NumPy's outputs.

        Inputs are copied, in the order of their memory, unless not ``copy``.
        """
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            given = [np.array(x, order="K") if copy else x for x in xs]
            return list(self.program.function(PLAIN, plain=True, wide=wide)(*given))

    def smooth(self, *xs: Any) -> tuple[Any, ...]:
        """Return the outputs that have derivatives."""
        ys = self.function(*xs)
        return tuple(ys[i] for i in self.moving)

    def loss(self, *xs: Any) -> Any:
        return weighted(agrad, self.smooth(*xs))

    def loss_and_values(self, *xs: Any) -> Any:
        ys = self.function(*xs)
        return weighted(agrad, [ys[i] for i in self.moving]), ys

    def wide_loss(self, *xs: Any) -> Any:
        ys = self.program.function(agrad, wide=True)(*xs)
        return weighted(agrad, [ys[i] for i in self.moving])

    def plain_loss(self, t: float, along: Sequence[np.ndarray]) -> float:
        try:
            ys = self.plain(*self.moved(t, along), wide=True)
        except Exception as error:
            raise Undecided(f"NumPy raises beside the point: {error}") from error
        if any(np.shape(ys[i]) != np.shape(self.expected[i]) for i in self.moving):
            raise Undecided("shapes change beside the point")
        return float(weighted(np, [np.asarray(ys[i]) for i in self.moving]))

    @cached_property
    def gradient(self) -> tuple[Any, ...]:
        return agrad.grad(self.loss, argnums=self.argnums)(*self.inputs)


def _wide(x: np.ndarray) -> str:
    return "complex128" if x.dtype.kind == "c" else "float64"


def _noise(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return a direction of an array's shape and dtype."""
    noise = np.asarray(rng.uniform(0.3, 1.0, x.shape) * np.where(rng.random(x.shape) < 0.5, -1, 1))
    return np.asarray(noise + 1j * noise[::-1] if x.dtype.kind == "c" and x.ndim else noise, dtype=x.dtype)


def weighted(xp: Any, ys: Sequence[Any]) -> Any:
    """Return the sum of all elements, each times a weight."""
    total: Any = 0.0
    for y in ys:
        weights = np.cos(1.0 + np.arange(int(np.prod(y.shape))).reshape(y.shape))
        if str(y.dtype).endswith(("float32", "complex64")):
            weights = weights.astype("float32")
        if "complex" in str(y.dtype):
            total = total + xp.sum(xp.real(y) * weights) + xp.sum(xp.imag(y) * (weights + 0.5))
        else:
            total = total + xp.sum(y * weights)
    return total


# ---------------------------------------------------------------- the ways


def values(case: Case) -> None:
    """Check values outside of transforms, of constant Tensors and in a gradient.

    Both orders of memory are tried.
    """
    if "A.asarray(" not in case.program.source():  # makes a Tensor, which cannot be written into a raw array
        same("outside", case.function(*case.fresh()), case.expected, case.exact)
    same("of Tensors", case.function(*map(agrad.asarray, case.fresh())), case.expected, case.exact)
    inside = agrad.value_and_grad(case.loss_and_values, argnums=case.argnums, has_aux=True)
    (_, ys), _ = inside(*case.inputs)
    same("inside a gradient", ys, case.expected, case.exact)
    columns = [np.asarray(x, order="F") for x in case.inputs]
    try:
        by_columns = case.plain(*columns)
    except ValueError as error:  # NumPy's own, of a write to a view that is for reading alone
        raise Undecided("the order of axes in memory decides what can be written to") from error
    (_, ys), _ = inside(*columns)
    try:
        same("inside a gradient, Fortran order", ys, by_columns, case.exact)
    except Wrong as error:
        if all(map(np.array_equal, by_columns, case.expected)):
            raise
        raise Undecided("the order of axes in memory, NumPy's own affair, decides what a view is") from error


def reverse(case: Case) -> None:
    """Check the gradient along two directions by finite differences of NumPy's."""
    for g, x in zip(case.gradient, case.inputs, strict=True):
        if host(g).shape != x.shape or host(g).dtype != x.dtype:
            raise Wrong(f"a gradient {host(g).dtype}{host(g).shape} of an input {x.dtype}{x.shape}")
    for along in (case.along, case.across):
        given, scale = product(case.gradient, along), size_of(case.gradient, along)
        slope_is(lambda t, d=along: case.plain_loss(t, d), given, scale, case.rough, "gradient along a direction")


def forward(case: Case) -> None:
    """Check tangents against the gradient, and the outputs against NumPy."""
    ys, tangents = agrad.jvp(case.smooth, tuple(case.inputs), tuple(case.along))
    same("value with a tangent", ys, [case.expected[i] for i in case.moving], case.exact)
    scale = size_of(case.gradient, case.along)
    given, expected = float(weighted(np, [host(t) for t in tangents])), product(case.gradient, case.along)
    if not abs(given - expected) <= case.close * scale:
        raise Wrong(f"tangent {given:.10g}, by the gradient {expected:.10g}")


def hvp(case: Case) -> None:
    """Check the Hessian's product against differences of the gradient.

    It is forward over reverse.
    """
    given = agrad.hvp(case.loss, tuple(case.inputs), tuple(case.along))

    def phi(t: float) -> float:
        gradient = agrad.grad(case.wide_loss, argnums=case.argnums)
        return product(gradient(*case.moved(t, case.along)), case.across)

    scale = size_of(given, case.across)
    slope_is(phi, product(given, case.across), scale, 10 * case.rough, "Hessian along two directions")


def reverse_twice(case: Case) -> None:
    """Check the gradient of the gradient against the Hessian's product."""
    given = agrad.hvp(case.loss, tuple(case.inputs), tuple(case.along))
    second = agrad.grad(reverse_slope(case, case.loss), argnums=case.argnums)(*case.inputs)
    same("gradient of the gradient", second, given, 10 * case.close)


Members = Callable[[int], list[Any]]


def _batch(case: Case) -> tuple[Members, list[np.ndarray], tuple[int | None, ...]]:
    """Return the members, the arrays that hold them, and the axis of each input.

    A member is a view of the array, as an index gives it: of no dimensions it is a scalar.
    """
    rows = [case.fresh(1 + 0.015625 * k) for k in range(MEMBERS)]
    if not all(_alike(case, xs) for xs in rows):
        rows = [case.fresh() for _ in range(MEMBERS)]
    axes: list[int | None] = [(0, -1, 0, 1)[(case.turn + i) % 4] if x.ndim else 0 for i, x in enumerate(case.inputs)]
    if len(axes) > 1 and case.turn % 5 == 0:
        axes[1] = None

    def stacked() -> list[np.ndarray]:
        columns = zip(zip(*rows, strict=True), axes, strict=True)
        return [np.array(xs[0]) if axis is None else np.stack(xs, axis=axis) for xs, axis in columns]

    def member(k: int) -> list[Any]:
        whole = zip(stacked(), axes, strict=True)
        return [x if axis is None else np.moveaxis(x, axis, 0)[k] for x, axis in whole]

    try:  # writes to a scalar, which NumPy takes for a copy's or refuses
        fits = map(np.array_equal, case.plain(*member(0), copy=False), case.plain(*map(np.asarray, member(0))))
        if not all(fits):
            raise Unfit
    except Exception as error:
        raise Unfit from error
    return member, stacked(), tuple(axes)


def _alike(case: Case, xs: list[Any]) -> bool:
    """Return True if NumPy gives like and finite results for other inputs."""
    try:
        ys = case.plain(*xs)
    except Exception:
        return False
    return [np.shape(y) for y in ys] == [np.shape(y) for y in case.expected] and all(np.isfinite(y).all() for y in ys)


def _stacked(rows: Sequence[Sequence[Any]]) -> list[np.ndarray]:
    return [np.stack([host(y) for y in column]) for column in zip(*rows, strict=True)]


def along(gradient: Sequence[Any], case: Case) -> Any:
    """Return the slope of a gradient along the direction of a case."""
    parts = zip(gradient, case.along, strict=True)
    return sum(agrad.sum(agrad.real(g * d) if "complex" in str(d.dtype) else g * d) for g, d in parts)


def reverse_slope(case: Case, f: Callable[..., Any]) -> Callable[..., Any]:
    """Return the derivative of a function along a direction, by its gradient."""

    def slope(*xs: Any) -> Any:
        return along(agrad.grad(f, argnums=case.argnums)(*xs), case)

    return slope


def depth_three(case: Case) -> None:
    """Check third derivatives: three gradients, forward over forward over reverse, and that in jit."""
    direction = tuple(case.along)
    slope = reverse_slope(case, reverse_slope(case, case.loss))
    three = agrad.grad(slope, argnums=case.argnums)(*case.inputs)

    def pushed(*xs: Any) -> Any:
        return agrad.jvp(lambda *ys: agrad.hvp(case.loss, ys, direction), xs, direction)[1]

    expected = [host(g) for g in three]
    same("forward over forward over reverse", pushed(*case.inputs), expected, 100 * case.close)
    same("third derivative in jit", agrad.jit(pushed)(*case.inputs), expected, 100 * case.close)


def imperative(case: Case, wrap: Callable[..., Any] = lambda f: f) -> None:
    """Check ``backward`` on recorded Tensors, and on the gradient that it records."""
    leaves = [agrad.asarray(x, requires_grad=True) for x in case.fresh()]
    recorded = [leaf * 1 for leaf in leaves]
    loss = wrap(lambda: case.loss(*(agrad.asarray(x, copy=True) for x in recorded)))()
    if not loss.requires_grad:
        return
    loss.backward(create_graph=True)
    first = [agrad.zeros_like(x.detach()) if x.grad is None else x.grad for x in leaves]
    same("backward", [g.detach() for g in first], [host(g) for g in case.gradient], case.close)
    for leaf in leaves:
        leaf.grad = None
    slope = along(first, case)
    expected = agrad.hvp(case.loss, tuple(case.inputs), tuple(case.along))
    if slope.requires_grad:
        slope.backward()
    second = [np.zeros(x.shape, x.dtype) if x.grad is None else x.grad for x in leaves]
    same("backward twice", second, [host(g) for g in expected], 10 * case.close)


def captured(case: Case) -> None:
    """Check ``backward`` of a jitted loss that captures recorded Tensors."""
    imperative(case, agrad.jit)


def vmap(case: Case) -> None:
    """Check mapped values and gradients against a loop on NumPy."""
    member, stacked, axes = _batch(case)
    mapped = agrad.vmap(case.function, in_axes=axes)(*stacked)
    same("mapped value", mapped, _stacked([case.plain(*member(k), copy=False) for k in range(MEMBERS)]), case.exact)
    gradient = agrad.grad(case.loss, argnums=case.argnums)
    one_by_one = _stacked([gradient(*member(k)) for k in range(MEMBERS)])
    same("mapped gradient", agrad.vmap(gradient, in_axes=axes)(*stacked), one_by_one, case.close)


def vmap_inside(case: Case) -> None:
    """Check the gradient of a sum over a map, and mapped tangents, by a loop."""
    member, stacked, axes = _batch(case)
    mapped = [i for i, axis in enumerate(axes) if axis is not None]
    gradient = agrad.grad(case.loss, argnums=case.argnums)
    alone = [gradient(*member(k)) for k in range(MEMBERS)]
    one_by_one = _stacked([[gs[i] for i in mapped] for gs in alone])
    total = agrad.grad(lambda *xs: agrad.sum(agrad.vmap(case.loss, in_axes=axes)(*xs)), argnums=tuple(mapped))
    in_front = [np.moveaxis(host(g), axes[i] or 0, 0) for g, i in zip(total(*stacked), mapped, strict=True)]
    same("gradient of a map", in_front, one_by_one, case.close)
    push = agrad.vmap(lambda *xs: agrad.jvp(case.smooth, xs, tuple(case.along))[1], in_axes=axes)
    alone = [agrad.jvp(case.smooth, tuple(member(k)), tuple(case.along))[1] for k in range(MEMBERS)]
    same("mapped tangent", push(*stacked), _stacked(alone), case.close)


def jit(case: Case) -> None:
    """Check a jitted value and gradient against the eager ones.

    In both orders of memory, and for other values afterwards.
    """
    eager = agrad.value_and_grad(case.loss_and_values, argnums=case.argnums, has_aux=True)
    traced = agrad.jit(eager)
    columns = [np.asarray(x, order="F") for x in case.inputs]
    for what, xs in (("", case.inputs), (", Fortran order", columns), (", other values", case.fresh(1.03125))):
        (given, ys), gradient = traced(*xs)
        (expected, eager_ys), eager_gradient = eager(*xs)
        same(f"jitted value{what}", ys, [host(y) for y in eager_ys], case.exact)
        apart(f"jitted result{what}", [*ys, *gradient], xs)
        same(f"jitted loss{what}", [given], [host(expected)], case.exact)
        same(f"jitted gradient{what}", gradient, [host(g) for g in eager_gradient], case.close)


def checkpoint(case: Case) -> None:
    """Check the gradient of the checkpointed program against the program's."""
    given = agrad.grad(agrad.checkpoint(case.loss), argnums=case.argnums)(*case.inputs)
    same("checkpointed gradient", given, [host(g) for g in case.gradient], case.close)


def linearize(case: Case) -> None:
    """Check the linearized program along a direction against its tangents."""
    _, push = agrad.linearize(case.smooth, *case.inputs)
    expected = agrad.jvp(case.smooth, tuple(case.inputs), tuple(case.along))[1]
    same("linearized", push(*case.along), [host(t) for t in expected], case.close)


def jacobian(case: Case) -> None:
    """Check Jacobians of the first output, forward and reverse, and by tangents.

    They are taken by real inputs.
    """
    if any(x.dtype.kind == "c" for x in case.inputs):
        return

    def first(*xs: Any) -> Any:
        y = case.smooth(*xs)[0]
        return agrad.real(y) + agrad.imag(y) if "complex" in str(y.dtype) else y

    backward = agrad.jacrev(first, argnums=case.argnums)(*case.inputs)
    onward = agrad.jacfwd(first, argnums=case.argnums)(*case.inputs)
    same("jacrev", [host(j).astype(float) for j in backward], [host(j).astype(float) for j in onward], case.close)
    tangent = host(agrad.jvp(first, tuple(case.inputs), tuple(case.along))[1])
    pushed = sum(np.tensordot(host(j), d, axes=d.ndim) for j, d in zip(onward, case.along, strict=True))
    same("jacfwd along a direction", [np.asarray(pushed, tangent.dtype)], [tangent], case.close)


def loop(case: Case) -> None:
    """Check scans of a program, eager and jitted, against a loop of NumPy, and their gradients.

    An output that is like an input is carried on, as it is (often a view), added, or multiplied into it. Carried values
    that are alike may change places.
    """
    rng = np.random.default_rng(case.turn)
    length, reverse, kinds = int(rng.integers(0, 5)), bool(rng.random() < 0.5), rng.integers(0, 5, 8).tolist()
    sliced = len(case.inputs) > 1 and bool(rng.random() < 0.5)
    carry, last = case.fresh(), case.inputs[-1]
    xs = np.stack([np.asarray(last * (1 + 0.1 * k), last.dtype) for k in range(length)] or [last])[:length]
    carry = carry[:-1] if sliced else carry

    writes = any(s.writes for s in case.program.steps)  # a body must not write to what it is given

    def step(xp: Any, function: Callable[..., Any], c: Any, x: Any) -> Any:
        given = (*c, x) if sliced else c
        ys = function(*[xp.asarray(v, copy=True) for v in given] if writes else given)
        new, left = [], [ys[i] for i in case.moving]
        for k, (old, kind) in enumerate(zip(c, kinds, strict=False)):
            found = [i for i, y in enumerate(left) if (y.shape, str(y.dtype)) == (old.shape, str(old.dtype))]
            y = left.pop(found[0]) if found else 0.5 * old
            other = c[k - 1] if (c[k - 1].shape, c[k - 1].dtype) == (old.shape, old.dtype) else old
            square = old.ndim == 2 and old.shape[0] == old.shape[1]
            new.append((y, 0.3 * y + old, old - y, old + 0.1 * (y @ old) if square else xp.tanh(y), other)[kind])
        return tuple(new), tuple(ys)

    def scanned(c: Any, xs: Any) -> Any:
        return agrad.scan(lambda c, x: step(agrad, case.function, c, x), c, xs, reverse=reverse)

    def by_hand(xp: Any, function: Callable[..., Any], c: Any, xs: Any) -> Any:
        rows = []
        for k in reversed(range(length)) if reverse else range(length):
            c, ys = step(xp, function, c, xs[k])
            rows.append(ys)
        return c, [
            xp.stack([xp.asarray(y) for y in column]) for column in zip(*rows[:: -1 if reverse else 1], strict=True)
        ]

    def total(run: Callable[..., Any]) -> Callable[..., Any]:
        def loss(c: Any, xs: Any) -> Any:
            last, rows = run(c, xs)
            ends = last if kinds[-1] else ()  # of some carried values nothing is differentiated
            return weighted(agrad, [*ends, *[rows[i] for i in case.moving]])

        return loss

    given = tuple(carry)
    try:
        last, rows = by_hand(np, lambda *v: case.plain(*v), given, xs)
    except Exception as error:
        raise Unfit from error
    if not all(np.isfinite(y).all() and np.abs(y).max(initial=0) < 1e6 for y in [*last, *rows]):
        raise Unfit
    jitted = agrad.jit(scanned)
    runs = [("scan", scanned), ("jitted scan", jitted), ("jitted scan again", jitted)]
    for what, run in runs:
        c, ys = run(given, xs)
        same(f"{what}: carry", c, last, case.exact)
        apart(what, [*c, *ys], [*given, xs])
        if length:
            same(f"{what}: rows", ys, rows, case.exact)
    if not length:
        return
    expected = agrad.grad(total(lambda c, xs: by_hand(agrad, case.function, c, xs)), argnums=(0, 1))(given, xs)
    if not all(np.isfinite(host(g)).all() for g in agrad.tree.leaves(expected)):
        raise Undecided("a derivative is not finite")
    for what, run in (("gradient of a scan", scanned), ("jitted gradient of a scan", scanned)):
        gradient = agrad.grad(total(run), argnums=(0, 1))
        got = (agrad.jit(gradient) if "jitted" in what else gradient)(given, xs)
        leaves = [[host(g) for g in agrad.tree.leaves(v)] for v in (got, expected)]
        same(what, *leaves, 10 * case.close)


_FIRST = (values, reverse, forward, hvp, vmap, jit, reverse_twice, vmap_inside)
_REST = (imperative, checkpoint, linearize, jacobian, depth_three, captured, loop)
WAYS: dict[str, Callable[[Case], None]] = {f.__name__: f for f in (*_FIRST, *_REST)}
