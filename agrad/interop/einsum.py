"""``numpy.einsum`` and NumPy products of arrays, for Tensors.

Operands are multiplied two at a time, in the order of ``numpy.einsum_path``, each time by one batched matrix product.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    Promoted,
    axis_of,
    cast,
    conjugate,
    flat,
    promoted,
    rearranged,
    rejects,
    tensors,
)
from agrad.interop.table import as_written, implements

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _as_text(entries: Sequence[Any]) -> str:
    """Return letters for a list of integers and an ellipsis."""
    return "".join("..." if entry is Ellipsis else _LETTERS[int(entry)] for entry in entries)


def _subscripts(operands: tuple[Any, ...]) -> tuple[list[str], str | None, list[Any]]:
    """Return the indices of operands and result, and the operands.

    The indices of the result are None if they are implicit."""
    if isinstance(operands[0], str):
        text = operands[0].replace(" ", "")
        inputs, arrow, out = text.partition("->")
        return inputs.split(","), out if arrow else None, list(operands[1:])
    arrays, lists = list(operands[::2]), list(operands[1::2])
    out = None
    if len(arrays) > len(lists):
        out = _as_text(arrays.pop())
    return [_as_text(entry) for entry in lists], out, arrays


Shape = tuple[int, ...]


def _without_ellipsis(inputs: Sequence[str], out: str | None, shapes: Sequence[Shape]) -> tuple[list[str], str]:
    """Replace ellipses by letters; return indices of operands and result."""
    if len(inputs) != len(shapes):
        raise ValueError(f"numpy.einsum: the subscripts must describe {len(shapes)} operands, got {len(inputs)}")
    used = set("".join(inputs) + (out or ""))
    spare = [letter for letter in _LETTERS if letter not in used]
    widths = [len(shape) - len(labels.replace("...", "")) for labels, shape in zip(inputs, shapes, strict=True)]
    for labels, width, shape in zip(inputs, widths, shapes, strict=True):
        if width < 0 or (width and "..." not in labels):
            raise ValueError(f"numpy.einsum: the indices {labels!r} do not match an operand of shape {shape}")
    letters = "".join(spare[: max(widths, default=0)])
    full = [
        labels.replace("...", letters[len(letters) - width :]) for labels, width in zip(inputs, widths, strict=True)
    ]
    if out is None:
        plain = "".join(inputs).replace("...", "")
        return full, letters + "".join(sorted(c for c in set(plain) if plain.count(c) == 1))
    return full, out.replace("...", letters)


@implements("einsum")
def _einsum(*operands: Any, optimize: Any = False, dtype: Any = None, **settings: Any) -> Tensor:
    if unknown := set(settings) - {"order", "casting"}:
        raise TypeError(f"numpy.einsum: unexpected keyword arguments: {', '.join(sorted(unknown))}")
    inputs, out, given = _subscripts(operands)
    values: list[Any] = [cast(x, dtype) for x in promoted(*tensors(*given))]
    optimize = tuple(optimize) if isinstance(optimize, list) else optimize
    for function, places, fixed in _steps(tuple(inputs), out, tuple([x.shape for x in values]), optimize):
        values.append(function(*[values[i] for i in places], **fixed))
    return values[-1]


Step = tuple[Callable[..., Tensor], tuple[int, ...], dict[str, Any]]
"""A function, the indices of its operands among all operands and the results so far, and its keyword arguments."""


@functools.lru_cache(maxsize=512)
def _steps(inputs: tuple[str, ...], out: str | None, shapes: tuple[Shape, ...], optimize: Any) -> list[Step]:
    """Return the operations that compute an einsum."""
    labels, out = _without_ellipsis(inputs, out, shapes)
    if len(set(out)) != len(out) or not set(out) <= set("".join(labels)):
        raise ValueError(f"numpy.einsum: the output indices must be distinct indices of the operands, got {out!r}")
    sizes = _sizes(labels, shapes)
    plan = _Plan(len(shapes))
    terms = [plan.distinct(i, label, shape, sizes) for i, (label, shape) in enumerate(zip(labels, shapes, strict=True))]
    text = ",".join(term.label for term in terms) + "->" + out
    for step in _path(text, tuple(sizes.items()), optimize):
        chosen = [terms[i] for i in step]
        terms = [term for i, term in enumerate(terms) if i not in step]
        first = chosen[0]
        for i, second in enumerate(chosen[1:], 2):
            needed = set(out).union(*(term.label for term in (*terms, *chosen[i:])))
            first = plan.product(first, second, needed)
        terms.append(first)
    plan.ordered(plan.summed(terms[0], set(out)), list(out))
    return plan.steps


def _path(text: str, sizes: tuple[tuple[str, int], ...], optimize: Any) -> Sequence[tuple[int, ...]]:
    """Return the positions of the operands that each step multiplies."""
    count = text.count(",") + 1
    if count < 3:
        return [tuple(range(count))]
    if isinstance(optimize, tuple) and optimize and optimize[0] == "einsum_path":
        return optimize[1:]
    lengths = dict(sizes)
    stand_ins = [np.broadcast_to(0.0, tuple(lengths[c] for c in label)) for label in text.partition("->")[0].split(",")]
    return np.einsum_path(text, *stand_ins, optimize="greedy" if isinstance(optimize, bool) else optimize)[0][1:]


def _sizes(labels: Sequence[str], shapes: Sequence[Shape]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for label, shape in zip(labels, shapes, strict=True):
        for c, n in zip(label, shape, strict=True):
            if sizes.get(c, 1) != 1 and n not in (1, sizes[c]):
                raise ValueError(f"numpy.einsum: the index {c!r} must have one length, got {sizes[c]} and {n}")
            sizes[c] = n if sizes.get(c, 1) == 1 else sizes[c]
    return sizes


class _Term(NamedTuple):
    """An operand or an intermediate result: its position, its distinct indices, and its shape."""

    place: int
    label: str
    shape: Shape


class _Plan:
    """The steps of an einsum, as they are found."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.steps: list[Step] = []

    def add(self, function: Callable[..., Tensor], terms: Any, label: str, shape: Shape, /, **settings: Any) -> _Term:
        """Add a step on one term or several, and return its result."""
        terms = (terms,) if isinstance(terms, _Term) else terms
        self.steps.append((function, tuple(term.place for term in terms), settings))
        return _Term(self.count + len(self.steps) - 1, label, shape)

    def distinct(self, place: int, label: str, shape: Shape, sizes: dict[str, int]) -> _Term:
        """Return an operand with distinct indices, without axes that only broadcast.

        A repeated index is replaced by the diagonal.
        """
        once = "".join(dict.fromkeys(label))
        term = _Term(place, label, shape)
        if once != label:
            take = functools.partial(np.einsum, f"{label}->{once}")
            term = self.add(rearranged, term, once, take(np.broadcast_to(0, shape)).shape, function=take)
        stretched = tuple(i for i, c in enumerate(once) if term.shape[i] == 1 and sizes[c] != 1)
        if stretched:
            rest = [i for i in range(len(once)) if i not in stretched]
            label, shape = "".join([once[i] for i in rest]), tuple([term.shape[i] for i in rest])
            term = self.add(agrad.squeeze, term, label, shape, axis=stretched)
        return term

    def summed(self, term: _Term, needed: set[str]) -> _Term:
        """Sum a term over the indices that are not needed."""
        axes = tuple(i for i, c in enumerate(term.label) if c not in needed)
        if not axes:
            return term
        rest = [i for i in range(len(term.label)) if i not in axes]
        label, shape = "".join([term.label[i] for i in rest]), tuple([term.shape[i] for i in rest])
        return self.add(agrad.sum, term, label, shape, axis=axes)

    def shaped(self, term: _Term, shape: Shape) -> _Term:
        return term if term.shape == shape else self.add(agrad.reshape, term, term.label, shape, shape=shape)

    def ordered(self, term: _Term, order: list[str]) -> _Term:
        axes = tuple(term.label.index(c) for c in order)
        if axes == tuple(range(len(axes))):
            return term
        return self.add(agrad.permute_dims, term, "".join(order), tuple([term.shape[i] for i in axes]), axes=axes)

    def product(self, first: _Term, second: _Term, needed: set[str]) -> _Term:
        """Return the product of two terms, summed over the indices not needed later."""
        a = self.summed(first, needed | set(second.label))
        b = self.summed(second, needed | set(a.label))
        shared = [c for c in a.label if c in b.label]
        batch = [c for c in shared if c in needed]
        inner = [c for c in shared if c not in needed]
        left = [c for c in a.label if c not in shared]
        right = [c for c in b.label if c not in shared]
        size = dict(zip(a.label, a.shape, strict=True)) | dict(zip(b.label, b.shape, strict=True))
        a, b = self.ordered(a, [*batch, *left, *inner]), self.ordered(b, [*batch, *inner, *right])
        label = "".join([*batch, *left, *right])
        shape = tuple([size[c] for c in label])
        if not inner:
            a = self.shaped(a, (*a.shape, *(1,) * len(right)))
            b = self.shaped(b, (*b.shape[: len(batch)], *(1,) * len(left), *b.shape[len(batch) :]))
            return self.add(agrad.multiply, (a, b), label, shape)

        def counts(*groups: list[str]) -> Shape:
            # a matrix product of vectors requires fewer axes; in a batch all have them
            return tuple([math.prod(size[c] for c in group) for group in groups if group or batch])

        lead = counts(batch) if batch else ()
        a = self.shaped(a, (*lead, *counts(left, inner)))
        b = self.shaped(b, (*lead, *counts(inner, right)))
        product = self.add(agrad.matmul, (a, b), label, (*lead, *counts(left, right)))
        return self.shaped(product, shape)


# ------------------------------------------------------------------ products


@implements("dot")
def _dot(a: Promoted, b: Promoted) -> Tensor:
    if not a.ndim or not b.ndim:
        return a * b
    if a.ndim <= 2 and b.ndim <= 2:
        return agrad.matmul(a, b)
    return agrad.tensordot(a, b, axes=((a.ndim - 1,), (max(b.ndim - 2, 0),)))


@implements("inner")
def _inner(a: Promoted, b: Promoted) -> Tensor:
    if not a.ndim or not b.ndim:
        return a * b
    if a.ndim == b.ndim == 1:
        return agrad.matmul(a, b)
    return agrad.tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 1,)))


@implements("vdot")
def _vdot(a: Promoted, b: Promoted) -> Tensor:
    a, b = flat(a), flat(b)
    return agrad.sum(conjugate(a) * b)


@implements("outer", "linalg.outer")
def _outer(a: Promoted, b: Promoted) -> Tensor:
    return flat(a)[:, None] * flat(b)[None, :]


@implements("tensordot")
def _tensordot(a: Promoted, b: Promoted, axes: Any = 2) -> Tensor:
    if not isinstance(axes, (int, np.integer)):
        left, right = (tuple(int(i) for i in np.atleast_1d(part)) for part in axes)
        axes = (tuple(axis_of(i, a.ndim) for i in left), tuple(axis_of(i, b.ndim) for i in right))
        return agrad.tensordot(a, b, axes=axes)
    return agrad.tensordot(a, b, axes=int(axes))


as_written("linalg.matmul linalg.tensordot")


@implements("linalg.vecdot")
def _vecdot(x1: Promoted, x2: Promoted, axis: int = -1) -> Tensor:
    return agrad.vecdot(x1, x2, axis=axis)


@implements("kron")
def _kron(a: Promoted, b: Promoted) -> Tensor:
    n = max(a.ndim, b.ndim)
    a, b = (agrad.reshape(x, (*(1,) * (n - x.ndim), *x.shape)) for x in (a, b))
    product = agrad.expand_dims(a, axis=tuple(range(1, 2 * n, 2))) * agrad.expand_dims(
        b, axis=tuple(range(0, 2 * n, 2))
    )
    return agrad.reshape(product, tuple(p * q for p, q in zip(a.shape, b.shape, strict=True)))


@implements("cross", "linalg.cross")
def _cross(a: Promoted, b: Promoted, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Tensor:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = [x if x.ndim and at in (-1, x.ndim - 1) else agrad.moveaxis(x, at, -1) for x, at in ((a, axisa), (b, axisb))]
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise rejects("cross", "vectors must have length 3", "Append a 0 to vectors of length 2 with numpy.pad")
    out = agrad.linalg.cross(a, b, axis=-1)
    return out if axisc == -1 else agrad.moveaxis(out, -1, axis_of(axisc, out.ndim))


@implements("linalg.multi_dot")
def _multi_dot(arrays: Any) -> Tensor:
    parts = promoted(*tensors(*arrays))
    if len(parts) < 2:
        raise ValueError("numpy.linalg.multi_dot: arrays must have at least two elements")
    first, last = parts[0].ndim == 1, parts[-1].ndim == 1
    parts[0] = parts[0][None, :] if first else parts[0]
    parts[-1] = parts[-1][:, None] if last else parts[-1]
    if any(x.ndim != 2 for x in parts):
        raise ValueError("numpy.linalg.multi_dot: the arrays must be 2-D, and only the first and the last may be 1-D")
    sizes = [*(x.shape[0] for x in parts), parts[-1].shape[1]]

    @functools.cache
    def cheapest(i: int, j: int) -> tuple[int, int]:
        """Return the fewest multiplications of a part of the chain, and its split."""
        # dynamic programming (Cormen et al., section 15.2)
        costs = [
            (cheapest(i, k)[0] + cheapest(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
        ]
        return min(costs, default=(0, i))

    def product(i: int, j: int) -> Tensor:
        k = cheapest(i, j)[1]
        return parts[i] if i == j else agrad.matmul(product(i, k), product(k + 1, j))

    out = product(0, len(parts) - 1)
    out = out[0] if first else out
    return out[..., 0] if last else out
