"""``vmap`` sees members: what a function makes of arrays of any rank alone, or refuses, is what it does under a map."""

import importlib
import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from checker import host
from refusals import fails

import agrad
from agrad.errors import ShapeError, TracedValueError
from agrad.registry import PRIMITIVES, namespace

MEMBERS = 2
SHAPES: list[tuple[int, ...]] = [(), (3,), (3, 3), (0,), (2, 3, 3), (0, 3), (3, 0), (0, 0), (1, 0, 3)]
TAKEN = {1: 9, 2: 3, 3: 2}
"""How many of the shapes are taken for each argument, by the number of arguments; all also for all arguments alike."""
SECTIONS = (
    "", "linalg", "fft", "special", "nn.functional", "random", "scipy.fft", "scipy.integrate", "scipy.interpolate",
    "scipy.linalg", "scipy.ndimage", "scipy.signal", "scipy.spatial.distance", "scipy.special", "scipy.stats",
)  # fmt: skip
"""The modules of functions. Of ``agrad.scipy`` those without classes of distributions alone."""
LEFT_OUT = re.compile(r"nn\.functional\.(\w*dropout\w*|gumbel_softmax)|empty_like|isdtype")
"""Functions whose results differ from call to call, and one of dtypes."""
READS_VALUES = re.compile(
    r"scipy\.(spatial\.distance\.squareform|ndimage\.gaussian_\w+|ndimage\.zoom|interpolate\.make_interp_spline)"
    r"|.*_cross_entropy"
)
"""Functions that read values where they can, and then refuse more or fewer arrays; see their docstrings."""


def functions(section: str) -> Iterator[tuple[str, Callable[..., Any], int]]:
    """The public functions of a module, each with the number of arrays that it needs, from 1 to 3."""
    module = importlib.import_module(f"agrad.{section}") if section.startswith(("nn", "random", "scipy")) else agrad
    names = vars(getattr(namespace, section)) if section in vars(namespace) else getattr(module, "__all__", ())
    space = getattr(agrad, section) if section in vars(namespace) else module
    for name in sorted(names):
        f = getattr(space, name)
        if isinstance(f, type) or not callable(f) or getattr(f, "__module__", "").startswith("agrad.transforms"):
            continue
        try:
            parameters = inspect.signature(f).parameters.values()
        except (TypeError, ValueError):
            continue
        needed = sum(
            p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters
        )
        count = needed or 2 * any(p.kind is p.VAR_POSITIONAL for p in parameters)
        if 1 <= count <= 3:
            yield f"{section}.{name}".lstrip("."), f, count


def drawn(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Members from 0.2 to 0.8; square matrices are positive definite."""
    x = rng.uniform(0.2, 0.8, (MEMBERS, *shape))
    square = len(shape) > 1 and shape[-1] == shape[-2]
    return x + np.swapaxes(x, -1, -2) + 3 * np.eye(shape[-1]) if square else x


def outcome(call: Callable[[], Any]) -> Any:
    """The results, or the error."""
    try:
        return [host(part) if hasattr(part, "shape") else part for part in flat(call())]
    except Exception as error:
        return error


def flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [part for inner in value for part in flat(inner)]
    return [value]


def words(error: Exception) -> str:
    """An error's text without values; a comparison may be that of the other operand."""
    text = re.sub(r"Tensor\(.*", "", str(error), flags=re.DOTALL)
    return re.sub(r"^(less|greater)\w*: .* (must be broadcastable|do not broadcast)", "comparison", text)


def difference(f: Callable[..., Any], args: list[np.ndarray], in_axes: tuple[int | None, ...], place: Any) -> str:
    """What ``vmap`` does otherwise than the loop, in words."""
    members = [
        [agrad.asarray(place(a if axis is None else a[i])) for a, axis in zip(args, in_axes, strict=True)]
        for i in range(MEMBERS)
    ]
    alone, refused = [], None
    for at in members:
        alone.append(outcome(lambda at=at: f(*at)))
        if isinstance(alone[-1], Exception):
            refused = alone[-1]
            break
    got = outcome(lambda: agrad.vmap(f, in_axes=in_axes)(*map(place, args)))
    if refused is None and not all(isinstance(x, (np.ndarray, np.generic)) for parts in alone for x in parts):
        return ""  # its result is no array
    if isinstance(got, TracedValueError):
        return ""  # it asks for values
    if isinstance(got, Exception):
        if refused is None:
            return f"vmap raises {type(got).__name__}: {got}"
        same = type(got) is type(refused) and words(got) == words(refused)
        return "" if same else f"vmap raises {type(got).__name__}: {got}; alone {type(refused).__name__}: {refused}"
    if refused is not None:
        return f"vmap gives {[x.shape for x in got]}; alone {type(refused).__name__}: {refused}"
    for i, parts in enumerate(alone):
        if [(x.shape, x.dtype) for x in parts] != [(x.shape[1:], x.dtype) for x in got]:
            return f"vmap gives {[x.shape for x in got]}; alone {[x.shape for x in parts]}"
        if not all(np.allclose(x[i], y, 1e-9, 1e-11, equal_nan=True) for x, y in zip(got, parts, strict=True)):
            return f"vmap gives {[x[i] for x in got]}; alone {parts}"
    return ""


def ways(count: int) -> list[tuple[int | None, ...]]:
    """All arguments mapped, and of two the first alone."""
    return [(0,) * count, *([(0, None)] if count == 2 else [])]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("section", SECTIONS)
def test_every_function_of_any_rank(section: str) -> None:
    rng = np.random.default_rng(0)
    wrong, seen = [], 0
    for name, f, count in functions(section):
        if LEFT_OUT.fullmatch(name) or READS_VALUES.fullmatch(name):
            continue
        seen += 1
        # those of SciPy's names that agrad.special has too call its functions
        taken = SHAPES[:4] if section == "scipy.special" and hasattr(agrad.special, name.rpartition(".")[2]) else SHAPES
        mixed = list(itertools.product(taken[: TAKEN[count]], repeat=count))
        for shapes in dict.fromkeys([*mixed, *[(shape,) * count for shape in taken]]):
            for in_axes in ways(count)[: None if shapes in mixed else 1]:
                args = [drawn(s, rng) if a == 0 else drawn(s, rng)[0] for s, a in zip(shapes, in_axes, strict=True)]
                with np.errstate(all="ignore"):
                    if found := difference(f, args, in_axes, np.asarray):
                        wrong.append(f"{name} of {shapes} along {in_axes}: {found}")
    assert seen, "no function was tried"
    assert not wrong, "\n".join(wrong)


MATRICES = [
    name
    for name, made in PRIMITIVES.items()
    if made.core_axes == 2 and hasattr(namespace.linalg if "." in name else namespace, name.rpartition(".")[2])
]


def test_functions_of_matrices_refuse_vectors(place: Any) -> None:
    """Alone, as members, and as members of members, with one error: the batch is no matrix."""
    for name in MATRICES:
        section, _, word = name.rpartition(".")
        f = getattr(agrad.linalg if section else agrad, word)
        names = PRIMITIVES[name].arrays
        others = [place(np.eye(3))] * (len(names) - 1)
        in_axes = (0, *[None] * len(others))
        mapped = agrad.vmap(f, in_axes)
        ways = [f, mapped, agrad.jit(mapped), agrad.vmap(agrad.jit(f), in_axes), agrad.vmap(mapped, in_axes)]
        message = rf"^{word}: {names[0]} must have at least 2 axes, got shape \(3,\)(\n|$)"
        for way, shape in zip(ways, [(3,), (3, 3), (3, 3), (3, 3), (3, 3, 3)], strict=True):
            fails(ShapeError, message, way, place(np.ones(shape)), *others)


@pytest.mark.parametrize("k", [-1, 0, 1])
def test_triangles_of_numpy_make_matrices_of_vectors(k: int, place: Any) -> None:
    x = place(np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    for triangle in (np.triu, np.tril):
        mask = triangle(np.ones((3, 3)), k).sum(axis=0)
        slopes = agrad.vmap(agrad.grad(lambda v, t=triangle: agrad.sum(t(v, k) ** 2)))(x)
        np.testing.assert_allclose(host(slopes), 2 * host(x) * mask)


@agrad.primitive(name="last sum", linear="x", batch="axis")
def last_sum(xp: Any, x: Any, /, *, axis: int) -> Any:
    return xp.sum(x, axis=axis)


def test_negative_axes_of_an_operation_count_from_the_last() -> None:
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(agrad.vmap(lambda v: last_sum(v, axis=-1))(x), x.sum(axis=1))
    fails(ValueError, "axis -2 is out of bounds", lambda: agrad.vmap(lambda v: last_sum(v, axis=-2))(np.ones((3, 3))))


def test_an_operation_says_how_many_axes_it_takes() -> None:
    @agrad.primitive(name="trace of rows", batch="leading", core_axes=2)
    def trace(xp: Any, x: Any, /) -> Any:
        return xp.sum(xp.linalg.diagonal(x), axis=-1)

    fails(
        ShapeError, r"trace of rows: x must have at least 2 axes, got shape \(3,\)", agrad.vmap(trace), np.ones((3, 3))
    )
