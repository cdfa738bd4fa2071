"""The trial of a call of a library's function: value and gradient against NumPy's."""

import dataclasses
import functools
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from filled import filling

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
    """The result of a trial: "works", "constant", "raises" or "wrong"."""

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

    def of(self, place: Any, module: str, names: str, *given: Any, then: Any = None, **named: Any) -> None:
        """File a sample of each function of a package's module, of what is given; the arrays in it are the inputs.

        then: what is taken of the result. ``fixed`` and ``label`` are of the sample.
        """
        how = {key: named.pop(key) for key in ("fixed", "label") if key in named}
        inputs, filled = filling(given, named)

        def call(function: Callable[..., Any], *arrays: Any) -> Any:
            args, settings = filled(arrays)
            found = function(*args, **settings)
            return found if then is None else then(found)

        for name in names.split():
            title = f"{module}.{name}" if module else name
            self.add(title, functools.partial(call, operator.attrgetter(title)(place)), *inputs, **how)


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


def trial(sample: Sample, backend: str = "numpy", way: str = "Tensors") -> Verdict:
    """Try one sample in one of the ``WAYS``.

    An error or a non-finite result on NumPy's own arrays is the sample's, and raised.
    """
    reference = [values(leaf) for leaf in call(sample, [x.copy() for x in sample.inputs])]
    for i, result in enumerate(reference):
        if not np.all(np.isfinite(result)):
            raise ValueError(f"result {i} is not finite; choose inputs or, in the sample, elements that are")
    asked = differentiated(sample) if way == "Tensors" else differentiated(sample)[:1]
    rng = np.random.default_rng(sum(map(ord, sample.title)))
    weights = {i: draw(rng, result) for i, result in enumerate(reference) if result.dtype.kind in "fc"}
    given = [agrad.to(agrad.asarray(x.copy()), backend) for x in sample.inputs]
    try:
        found, recorded, gradients = WAYS[way](sample, given, asked, weights)
        got = [values(leaf) for leaf in found]
    except BackwardRefused as error:
        return Verdict("raises", f"in the backward pass: {error}")
    except Exception as error:  # whatever a library raises is what the page tells of
        return Verdict("raises", told(error))
    if len(got) != len(reference):
        return Verdict("wrong", f"{len(got)} results instead of {len(reference)}")
    for mine, theirs in zip(got, reference, strict=True):
        if mine.shape != theirs.shape:
            return Verdict("wrong", f"a result of shape {mine.shape} instead of {theirs.shape}")
        if not np.allclose(mine, theirs, rtol=1e-7, atol=1e-9):
            return Verdict("wrong", f"a value off by {np.max(np.abs(mine - theirs)):.1e}")
    return compared(sample, rng, weights, recorded, gradients) if asked else Verdict("constant")


class BackwardRefused(Exception):
    """An error of the backward pass, in words."""


Result = tuple[list[Any], list[int], dict[int, Any]]
"""The leaves of a call; the places of those with a gradient; the gradients of the inputs by place, None for zero."""


def weighted(found: list[Any], weights: dict[int, np.ndarray]) -> tuple[list[int], Tensor | None]:
    """Return the places of the results with a gradient, and the weighted sum of these."""
    recorded = [i for i in weights if i < len(found) and isinstance(found[i], Tensor) and found[i].requires_grad]
    return recorded, sum_of([(found[i], weights[i]) for i in recorded])


def by_backward(
    sample: Sample, given: list[Tensor], asked: list[int], weights: dict[int, np.ndarray], raw: bool = False
) -> Result:
    """Call with Tensors, and walk the tape; ``raw``: all inputs that are not asked for are the library's own arrays."""
    leaf = {i: agrad.asarray(given[i], requires_grad=True) for i in asked}
    found = call(sample, [leaf[i] + 0 if i in leaf else x.raw if raw else x for i, x in enumerate(given)])
    recorded, total = weighted(found, weights)
    if total is not None:
        try:
            with np.errstate(all="ignore"):
                total.backward()
        except Exception as error:
            raise BackwardRefused(told(error)) from error
    return found, recorded, {i: tensor.grad for i, tensor in leaf.items()}


def beside_raw(sample: Sample, given: list[Tensor], asked: list[int], weights: dict[int, np.ndarray]) -> Result:
    """Call with one Tensor; all other inputs are the library's own arrays."""
    return by_backward(sample, given, asked, weights, raw=True)


def in_grad(sample: Sample, given: list[Tensor], asked: list[int], weights: dict[int, np.ndarray]) -> Result:
    """Call within ``agrad.grad``, which is given the library's own arrays alone."""
    recorded: list[int] = []

    def function(*arrays: Any) -> Any:
        found = call(sample, list(arrays))
        recorded[:], total = weighted(found, weights)
        return 0.0 * agrad.sum(agrad.real(arrays[asked[0]])) if total is None else total, found

    with np.errstate(all="ignore"):
        gradient, found = agrad.grad(function, argnums=asked[0], has_aux=True)(*[x.raw for x in given])
    return [agrad.asarray(leaf) for leaf in found], recorded, {asked[0]: agrad.asarray(gradient)}


WAYS = {"Tensors": by_backward, "beside raw arrays": beside_raw, "in grad": in_grad}
"""All inputs Tensors; one Tensor and raw arrays; raw arrays alone, handed to ``agrad.grad``."""


def is_mixed(sample: Sample) -> bool:
    """Return True for a call that can have a Tensor and raw arrays."""
    return len(sample.inputs) > 1 and bool(differentiated(sample))


def compared(
    sample: Sample, rng: np.random.Generator, weights: dict[int, np.ndarray], recorded: list[int], got: dict[int, Any]
) -> Verdict:
    """Compare the gradients of all results with finite differences, twice."""
    moving = False
    for _ in range(2):
        direction = {i: draw(rng, sample.inputs[i]) for i in got}
        fine, coarse = slopes(sample, direction, 1e-4), slopes(sample, direction, 3e-4)
        for i in weights:
            still = np.allclose(fine[i], 0, atol=1e-6) and np.allclose(coarse[i], 0, atol=1e-6)
            moving |= not still
            if i not in recorded and not still:
                return Verdict("wrong", "detached")
        expected = [sum(np.real(np.sum(np.conj(weights[i]) * part[i])) for i in recorded) for part in (fine, coarse)]
        mine = sum(
            np.real(np.sum(values(gradient) * direction[i]))  # the gradient of complex numbers is conjugate
            for i, gradient in got.items()
            if gradient is not None
        )
        doubt = abs(expected[0] - expected[1])
        scale = max(1.0, abs(expected[0]))
        if not np.isfinite(mine) or not abs(mine - expected[0]) <= RELATIVE * scale + 3 * doubt:
            return Verdict("wrong", f"a derivative of {mine:.6g} where finite differences give {expected[0]:.6g}")
        if not doubt <= 1e-2 * scale:
            return Verdict("wrong", "finite differences that say nothing: the sample is no test")
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


def told(error: BaseException) -> str:
    """Return an error, or the one that caused it, as a row of the page shows it."""
    seen = {error}
    while error.__cause__ is not None and error.__cause__ not in seen:
        error = error.__cause__
        seen.add(error)
    text = re.sub(r"(<module '[^']*') from '[^']*'", r"\1", " ".join(str(error).split())).replace("|", "\\|")
    return f"{type(error).__name__}: {text[:270]}{'...' if len(text) > 270 else ''}"
