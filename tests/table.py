"""The notation of the rows of ``cases.py``: examples, drawn values, and problems.

An example is a call: the arguments, drawn from a generator that is seeded by the example's name, and the settings.
What is drawn stays inside the domain and away from kinks unless the example says otherwise.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

import agrad
import agrad.fft
import agrad.linalg
import agrad.random
import agrad.special  # with these four every operation is filed
from agrad.registry import CALLS, PRIMITIVES
from agrad.shapes import ARRAY

Draw = Callable[[np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Input:
    """An array argument: how its values are drawn, and whether it is differentiated."""

    draw: Draw
    differentiable: bool = True


@dataclass(frozen=True)
class Example:
    """One call of a primitive.

    ``call`` and ``reference`` replace the row's if they are given.

    ``kink``: the function has no derivative there, so that finite differences say nothing. ``implicit``: they say
    nothing either, as the derivative is another function's by decision, but it has one in every order.
    """

    label: str
    args: tuple[Any, ...]
    settings: dict[str, Any]
    call: Callable[..., Any] | None = None
    reference: Callable[..., Any] | None = None
    kink: bool = False
    implicit: bool = False


@dataclass(frozen=True)
class Row:
    """A primitive's examples.

    ``constant``: it has no derivative, by decision. ``slow``: take fewer of them a run.
    """

    primitive: str
    examples: tuple[Example, ...]
    call: Callable[..., Any]
    reference: Callable[..., Any]
    by_name: bool
    constant: bool = False
    note: str = ""
    slow: bool = False


@dataclass(frozen=True)
class Case:
    """One example of one row: what a test is about."""

    row: Row
    example: Example
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.row.primitive} {self.example.label}")

    @property
    def group(self) -> str:
        return self.row.primitive

    @property
    def slow(self) -> bool:
        return self.row.slow

    @property
    def is_empty(self) -> bool:
        """Return True if all arrays are empty, and so have no derivative."""
        drawn = [a for a in self.arguments() if isinstance(a, np.ndarray)]
        return bool(drawn) and not any(a.size for a in drawn)

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(self.name.encode()))

    def arguments(self, single: bool = False) -> list[Any]:
        """Return numbers and NumPy arrays in double precision, or with ``single``.

        Arrays are float64 or complex128, with ``single`` float32 or complex64.
        """
        rng = self.rng()
        drawn = [np.asarray(a.draw(rng)) if isinstance(a, Input) else a for a in self.example.args]
        narrow = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}
        if single:
            drawn = [a.astype(narrow[a.dtype]) if isinstance(a, np.ndarray) and a.dtype in narrow else a for a in drawn]
        return drawn

    @property
    def places(self) -> tuple[int, ...]:
        """Which arguments are differentiated."""
        return tuple(i for i, a in enumerate(self.example.args) if isinstance(a, Input) and a.differentiable)

    @property
    def call(self) -> Callable[..., Any]:
        """Return the function of the example, without the case, which jit would read."""
        return partial(self.example.call or self.row.call, **self.example.settings)

    def reference(self, xp: Any, *args: Any) -> Any:
        """Return the array library's own answer, on raw arrays."""
        return (self.example.reference or self.row.reference)(xp, *args, **self.example.settings)

    def problem(self, place: Callable[[np.ndarray], Any] = np.asarray, single: bool = False) -> tuple[Any, list[Any]]:
        """Return a function of the differentiated arguments, and these.

        ``place`` moves each array.
        """
        args = [place(a) if isinstance(a, np.ndarray) else a for a in self.arguments(single)]
        places, call = self.places, self.call

        def f(*xs: Any) -> Any:
            filled = list(args)
            for i, x in zip(places, xs, strict=True):
                filled[i] = x
            return call(*filled)

        return f, [args[i] for i in places]


# ---------------------------------------------------------------- what is drawn


def normal(*shape: int) -> Input:
    return Input(lambda rng: rng.standard_normal(shape))


def between(low: float, high: float) -> Callable[..., Input]:
    return lambda *shape: Input(lambda rng: rng.uniform(low, high, shape))


positive = between(0.4, 2.5)
inside = between(-0.8, 0.8)
above_one = between(1.3, 3.0)


def off_zero(*shape: int) -> Input:
    """Draw numbers of both signs, and at least 0.4 from zero."""
    return Input(lambda rng: rng.uniform(0.4, 2.5, shape) * rng.choice([-1.0, 1.0], shape))


def distinct(*shape: int) -> Input:
    """Draw elements at least 0.3 apart, which have no ties."""
    return Input(lambda rng: rng.permutation(0.3 * np.arange(np.prod(shape, dtype=int)) - 1.0).reshape(shape) + 0.05)


def offset(*shape: int) -> Input:
    """Draw elements between those of ``distinct``, none equal to one of them."""
    return Input(lambda rng: 0.3 * rng.integers(-3, 6, shape) + 0.13)


def square_matrix(*shape: int) -> Input:
    """Draw matrices far from singular."""
    return Input(lambda rng: rng.standard_normal(shape) + 4 * np.eye(shape[-1]))


def complex_normal(*shape: int) -> Input:
    return Input(lambda rng: rng.standard_normal(shape) + 1j * rng.standard_normal(shape))


def complex_small(*shape: int) -> Input:
    """Draw numbers in the first quadrant inside the unit disc, off branch cuts."""
    return Input(lambda rng: rng.uniform(0.2, 0.6, shape) + 1j * rng.uniform(0.2, 0.6, shape))


def complex_matrix(*shape: int) -> Input:
    return Input(lambda rng: rng.standard_normal(shape) + 1j * rng.standard_normal(shape) + 5 * np.eye(shape[-1]))


def values(data: Any) -> Input:
    """These very values."""
    return Input(lambda rng: np.asarray(data, dtype=np.complex128 if np.iscomplexobj(data) else np.float64))


def constant(data: Any, dtype: Any = None) -> Input:
    """Draw an array without a derivative: labels, indices, masks."""
    return Input(lambda rng: np.asarray(data, dtype=dtype), differentiable=False)


# ---------------------------------------------------------------- how rows are written

ROWS: dict[str, Row] = {}

COMPOSITES: dict[str, Row] = {}
"""Rows of public functions that are made of primitives and have no rule of their own."""


MORE: dict[str, tuple[Example, ...]] = {}
"""Examples filed by ``more`` for a row that is not filed yet."""


def ex(
    label: str,
    *args: Any,
    call: Any = None,
    reference: Any = None,
    kink: bool = False,
    implicit: bool = False,
    **settings: Any,
) -> Example:
    return Example(label, args, settings, call, reference, kink, implicit)


def named(space: Any, name: str) -> Any:
    for part in name.split("."):
        space = getattr(space, part)
    return space


def row(
    name: str, *examples: Example, call: Any = None, reference: Any = None, constant: bool = False, note: str = ""
) -> None:
    """File a row.

    ``call`` is by default agrad's function of that name, ``reference`` the array library's.
    """
    assert name not in ROWS, f"two rows for {name}"
    examples = _labelled(name, examples)

    def by_name(xp: Any, *args: Any, **settings: Any) -> Any:
        return named(xp, name)(*args, **settings)

    ROWS[name] = Row(
        name, examples, call or named(agrad, name), reference or by_name, reference is None, constant, note
    )


def composite(name: str, *examples: Example, reference: Any, call: Any = None) -> None:
    """File a row of a function that is made of primitives; it is tested as they are.

    A primitive that is made of others where a derivative is asked for has both: a constant row, and this one.
    """
    assert name not in COMPOSITES, f"two rows for {name}"
    assert name not in PRIMITIVES or ROWS[name].constant, f"{name} is a primitive with a derivative"
    COMPOSITES[name] = Row(name, _labelled(name, examples), call or named(agrad, name), reference, False)


def more(name: str, *examples: Example) -> None:
    """Further examples of a row, filed or still to be filed."""
    rows = COMPOSITES if name in COMPOSITES else ROWS
    if name in rows:
        rows[name] = replace(rows[name], examples=_labelled(name, (*rows[name].examples, *examples)))
    else:
        MORE[name] = (*MORE.get(name, ()), *examples)


def slow(*names: str) -> None:
    """Mark rows whose derivatives take long."""
    for name in names:
        ROWS[name] = replace(ROWS[name], slow=True)


def _labelled(name: str, examples: tuple[Example, ...]) -> tuple[Example, ...]:
    """Return the examples, and those of ``more``, with distinct labels."""
    examples = (*examples, *MORE.pop(name, ()))
    labels = [example.label for example in examples]
    assert len(set(labels)) == len(labels), f"{name}: two examples of one label"
    return examples


def unary(name: str, draw: Callable[..., Input], complex_draw: Callable[..., Input] | None = None, **more: Any) -> None:
    examples = [ex("matrix", draw(2, 3)), ex("0-d", draw()), ex("empty", draw(0, 2)), ex("batch", draw(2, 1, 3))]
    if complex_draw is not None:
        examples += [ex("complex", complex_draw(2, 3)), ex("complex 0-d", complex_draw())]
    row(name, *examples, **more)


def binary(
    name: str,
    left: Callable[..., Input],
    right: Callable[..., Input],
    complex_draw: Callable[..., Input] | None = None,
    extra: tuple[Example, ...] = (),
    number: float = 1.5,
) -> None:
    function = named(agrad, name)
    examples = [
        ex("matrices", left(2, 3), right(2, 3)), ex("0-d", left(), right()), ex("empty", left(0, 3), right(0, 3)),
        ex("empty broadcast", left(0, 3), right(3)), ex("broadcast left", left(3), right(2, 3)),
        ex("broadcast right", left(2, 3), right(2, 1)), ex("broadcast both", left(2, 1, 3), right(4, 1)),
        ex("0-d left", left(), right(2, 3)), ex("0-d right", left(2, 3), right()),
        ex("number left", number, right(2, 3)), ex("number right", left(2, 3), number), ex("int right", left(2, 3), 2),
        ex("number left of 0-d", number, right()), ex("constant left", constant([0.7, 1.1, 1.7]), right(2, 3)),
        ex("constant right", left(2, 3), constant([0.7, 1.1, 1.7])),
    ]  # fmt: skip
    if complex_draw is not None:
        examples += [
            ex("complex", complex_draw(2, 3), complex_draw(2, 3)),
            ex("complex broadcast", complex_draw(3), complex_draw(2, 1)),
            ex("complex and real", complex_draw(2, 3), right(2, 3)),
            ex("real and complex", left(3), complex_draw(2, 3)),
            ex("complex number right", complex_draw(2, 3), 1.5 - 0.5j),
            ex("real array, complex number right", left(2, 3), 1.5 - 0.5j, call=function),
            ex("complex number left", 1.5 - 0.5j, complex_draw(2, 3)),
        ]
    row(name, *examples, *extra)


def itself(name: str, draw: Callable[..., Input]) -> Example:
    function = named(agrad, name)
    return ex(
        "the same array twice", draw(2, 3), call=lambda x: function(x, x), reference=lambda xp, x: named(xp, name)(x, x)
    )


def reduction(name: str, draw: Callable[..., Input], *extra: Example, empty: bool = True, **more: Any) -> None:
    examples = [
        ex("all", draw(2, 3)), ex("0-d", draw()), ex("axis 0", draw(2, 3), axis=0), ex("axis -1", draw(2, 3), axis=-1),
        ex("keepdims", draw(2, 3), axis=1, keepdims=True), ex("all keepdims", draw(2, 3), keepdims=True),
        ex("several axes", draw(2, 3, 2), axis=(0, -1)),
        ex("several axes keepdims", draw(2, 3, 2), axis=(-1, 1), keepdims=True),
        ex("axis of length 1", draw(2, 1, 3), axis=1), ex("empty batch", draw(0, 3), axis=1),
    ]  # fmt: skip
    if empty:
        examples += [ex("empty", draw(0, 3)), ex("empty axis", draw(2, 0), axis=1)]
    row(name, *examples, *extra, **more)


def elementwise(f: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Return ``f`` of numbers as a function of arrays."""
    return lambda *args, **settings: np.vectorize(lambda *at: f(*at, **settings), otypes=[np.float64])(*args)


def put(xp: Any, x: Any, value: Any, index: Any) -> Any:
    out = np.array(x)
    out[index] = value
    return out


def added_at(xp: Any, *parts: Any, indices: Any, shape: Any) -> Any:
    """Return zeros of ``shape`` with each part added at its index."""
    out = np.zeros(shape, np.result_type(*parts))
    for part, index in zip(parts, indices, strict=True):
        np.add.at(out, index, part)
    return out


def indexed(
    label: str, shape: tuple[int, ...], arrays: tuple[Any, ...], index: Callable[..., Any]
) -> tuple[Example, list[Example], Example]:
    """Reading, writing and adding at one index."""
    operands = [constant(a) for a in arrays]
    picked = np.zeros(shape)[index(*map(np.asarray, arrays))].shape
    parts = index(*[ARRAY] * len(arrays))
    template = parts if isinstance(parts, tuple) else (parts,)

    def added(xp: Any, x: Any, *i: Any) -> Any:
        out = np.zeros(shape, x.dtype)
        np.add.at(out, index(*i), x)
        return out

    read = ex(
        label,
        normal(*shape),
        *operands,
        call=lambda x, *i: CALLS["getitem"](x, index(*i)),
        reference=lambda xp, x, *i: x[index(*i)],
    )
    writes = [
        ex(
            f"{label}, {kind}",
            normal(*shape),
            value,
            *operands,
            call=lambda x, v, *i: CALLS["setitem"](x, v, index(*i)),
            reference=lambda xp, x, v, *i: put(xp, x, v, index(*i)),
        )
        for kind, value in (("array", normal(*picked)), ("0-d", normal()), ("number", 2.5))
    ]
    add = ex(
        label,
        normal(*picked),
        *operands,
        call=lambda x, *i: PRIMITIVES["scatter_add"].bind(x, *i, index=template, shape=shape),
        reference=added,
    )
    return read, writes, add
