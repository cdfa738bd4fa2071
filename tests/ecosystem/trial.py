"""The trial of a call of a library's function: value and gradient against NumPy's."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import agrad
from agrad import Tensor

RELATIVE = 2e-5
"""How far a directional derivative may be from the finite difference, of the larger of the two and 1."""


@dataclasses.dataclass(frozen=True)
class Sample:
    """One call of a library's function ``name`` with ``inputs``.

    Floating inputs are differentiated.

    ``fixed``: the positions of inputs that stay constants. ``label`` tells samples of one function apart.
    """

    name: str
    call: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]
    fixed: frozenset[int] = frozenset()
    label: str = ""

    @property
    def title(self) -> str:
        """Return the row's name on the page."""
        return f"{self.name} ({self.label})" if self.label else self.name


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of a trial: "works", "constant", "refuses" or "WRONG"."""

    kind: str
    remark: str = ""


class Samples(list[Sample]):
    """A library's samples, filed by ``add``."""

    def add(
        self, name: str, call: Callable[..., Any], *inputs: Any, fixed: tuple[int, ...] = (), label: str = ""
    ) -> None:
        """File a sample; a title may stand only once."""
        sample = Sample(name, call, tuple(np.asarray(x) for x in inputs), frozenset(fixed), label)
        assert all(sample.title != other.title for other in self), f"{sample.title} is filed twice"
        self.append(sample)


def leaves(result: Any) -> list[Any]:
    """Return the arrays and numbers of a result and its containers.

    Strings, None and other objects are left out.
    """
    if isinstance(result, Mapping):
        return [leaf for key in sorted(result, key=str) for leaf in leaves(result[key])]
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    if isinstance(result, (Tensor, np.ndarray, np.generic, bool, int, float, complex)):
        return [result]
    return []


def values(leaf: Any) -> np.ndarray:
    """Return the values of a leaf."""
    return np.asarray(leaf.detach().numpy() if isinstance(leaf, Tensor) else leaf)


def call(sample: Sample, arrays: list[Any]) -> list[Any]:
    """Return the leaves of one call, without its warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return leaves(sample.call(*arrays))


def differentiated(sample: Sample) -> list[int]:
    """Return the positions of the inputs that a derivative is asked by."""
    return [i for i, x in enumerate(sample.inputs) if x.dtype.kind in "fc" and i not in sample.fixed]


def slopes(sample: Sample, direction: dict[int, np.ndarray], step: float) -> list[np.ndarray]:
    """Return central differences, of fourth order, of each leaf along a direction."""

    def at(t: float) -> list[np.ndarray]:
        moved = [np.array(x + t * direction[i]) if i in direction else np.array(x) for i, x in enumerate(sample.inputs)]
        return [values(leaf) for leaf in call(sample, moved)]

    one, two = zip(at(step), at(-step), strict=True), zip(at(2 * step), at(-2 * step), strict=True)
    out = []
    for (a, b), (c, d) in zip(one, two, strict=True):
        if a.dtype.kind not in "fc" or not a.shape == b.shape == c.shape == d.shape:
            out.append(np.zeros(a.shape))
        else:
            with np.errstate(all="ignore"):
                out.append((8 * (a - b) - (c - d)) / (12 * step))
    return out


def trial(sample: Sample, backend: str = "numpy") -> Verdict:
    """Try one sample.

    An error or a non-finite result on NumPy's own arrays is the sample's, and raised.
    """
    reference = [values(leaf) for leaf in call(sample, [x.copy() for x in sample.inputs])]
    for i, result in enumerate(reference):
        if not np.all(np.isfinite(result)):
            raise ValueError(f"result {i} is not finite; choose inputs or, in the sample, elements that are")
    asked = differentiated(sample)
    tensors = [
        agrad.asarray(agrad.to(agrad.asarray(x.copy()), backend), requires_grad=i in asked)
        for i, x in enumerate(sample.inputs)
    ]
    try:
        found = call(sample, [x + 0 if i in asked else x for i, x in enumerate(tensors)])
        got = [values(leaf) for leaf in found]
    except Exception as error:  # whatever a library raises is what the page tells of
        return Verdict("refuses", told(error))
    if len(got) != len(reference):
        return Verdict("WRONG", f"{len(got)} results instead of {len(reference)}")
    for mine, theirs in zip(got, reference, strict=True):
        if mine.shape != theirs.shape:
            return Verdict("WRONG", f"a result of shape {mine.shape} instead of {theirs.shape}")
        if not np.allclose(mine, theirs, rtol=1e-7, atol=1e-9):
            return Verdict("WRONG", f"a value off by {np.max(np.abs(mine - theirs)):.1e}")
    if not asked:
        return Verdict("constant")
    return compared(sample, tensors, found, asked)


def compared(sample: Sample, tensors: list[Tensor], found: list[Any], asked: list[int]) -> Verdict:
    """Compare the gradients of all results with finite differences, twice."""
    rng = np.random.default_rng(sum(map(ord, sample.title)))
    floating = [i for i, leaf in enumerate(found) if values(leaf).dtype.kind in "fc"]
    weights = {i: draw(rng, values(found[i])) for i in floating}
    recorded = [i for i in floating if isinstance(found[i], Tensor) and found[i].requires_grad]
    try:
        total = sum_of([(found[i], weights[i]) for i in recorded])
        if total is not None:
            with np.errstate(all="ignore"):
                total.backward()
    except Exception as error:
        return Verdict("refuses", f"in the backward pass: {told(error)}")
    moving = False
    for _ in range(2):
        direction = {i: draw(rng, sample.inputs[i]) for i in asked}
        fine, coarse = slopes(sample, direction, 1e-4), slopes(sample, direction, 3e-4)
        for i in floating:
            still = np.allclose(fine[i], 0, atol=1e-6) and np.allclose(coarse[i], 0, atol=1e-6)
            moving |= not still
            if i not in recorded and not still:
                return Verdict("WRONG", "detached")
        expected = [np.real(np.sum(np.conj(weights[i]) * part[i])) for part in (fine, coarse) for i in recorded]
        expected = [sum(expected[: len(recorded)]), sum(expected[len(recorded) :])]
        mine = sum(
            np.real(np.sum(values(tensors[i].grad) * direction[i]))  # the gradient of complex numbers is conjugate
            for i in asked
            if tensors[i].grad is not None
        )
        doubt = abs(expected[0] - expected[1])
        scale = max(1.0, abs(expected[0]))
        if not np.isfinite(mine) or not abs(mine - expected[0]) <= RELATIVE * scale + 3 * doubt:
            return Verdict("WRONG", f"a derivative of {mine:.6g} where finite differences give {expected[0]:.6g}")
        if not doubt <= 1e-2 * scale:
            return Verdict("WRONG", "finite differences that say nothing: the sample is no test")
    return Verdict("works" if moving else "constant")


def draw(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
    """Random numbers of an array's shape, complex where it is."""
    out = rng.normal(size=like.shape)
    return out + 1j * rng.normal(size=like.shape) if like.dtype.kind == "c" else out


def sum_of(parts: list[tuple[Tensor, np.ndarray]]) -> Tensor | None:
    """Return the real part of the weighted sum of all results."""
    total = None
    for result, weight in parts:
        weighted = agrad.to(agrad.asarray(np.conj(weight).astype(values(result).dtype)), result.backend) * result
        part = agrad.sum(agrad.real(weighted) if weighted.dtype.kind == "complex floating" else weighted)
        total = part if total is None else total + part
    return total


def told(error: Exception) -> str:
    """Return an error as a row of the page shows it."""
    text = " ".join(str(error).split()).replace("|", "\\|")
    return f"{type(error).__name__}: {text[:270]}{'...' if len(text) > 270 else ''}"
