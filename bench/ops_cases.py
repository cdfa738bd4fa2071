"""Every function of the standard with a derivative, as called in each library.

A case is a call on arrays of n elements: ``case("sin", draw)`` is ``sin(x)`` of the library ``xp``. If PyTorch or
autograd have another name, it is passed. None means that they have no such function, ``""`` that the name is the same.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Call = Callable[..., Any]
Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Case:
    """One function, its arguments and its names."""

    name: str
    draws: tuple[Draw, ...]
    """Functions that draw the differentiated arguments."""
    agrad: Call
    numpy: Call | None
    """The NumPy forward call; None if NumPy has no single function for it."""
    torch: Call | None
    autograd: Call | None
    constants: tuple[Draw, ...] = ()
    """Arguments after the differentiated ones without a derivative: index arrays, conditions."""
    flops: Callable[[int], float] = lambda n: 0.0
    """Floating-point operations of the forward pass on matrices of side n; 0 if moving the bytes needs longer."""
    unique: bool = True
    """True if all libraries must compute the same derivative; False if a basis or an order is arbitrary."""
    free: tuple[int, ...] = ()
    """Outputs that get the cotangent 0, because PyTorch raises for one that depends on the choice of a basis."""

    @property
    def one_thread(self) -> bool:
        """Return True if all compute it on one thread, as linear algebra.

        On a few cores, the time of two threads for a matrix of side 256 varies tenfold between rounds.
        """
        return self.name.startswith("linalg.") or self.name in ("matmul", "tensordot", "vecdot")


CASES: dict[str, Case] = {}
"""The cases, by the standard's name of the function."""


# ------------------------------------------------------------------ arguments


def side(n: int) -> int:
    """Return the side of a square array of about ``n`` elements."""
    return max(1, math.isqrt(n))


def matrix_side(n: int) -> int:
    """Return the side of the matrices for ``n`` elements in linear algebra.

    It is 8, 64 and 256 for 10^2, 10^4, 10^6.
    """
    return 1 << max(1, round(3 + 5 * (math.log10(n) - 2) / 4))


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal(n)


def positive(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(0.5, 2.0, n)


def inside(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(-0.9, 0.9, n)


def above(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(1.1, 3.0, n)


def near_one(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(0.95, 1.05, (side(n), side(n)))


def square(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal((side(n), side(n)))


def complex_vector(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal(n) + 1j * rng.standard_normal(n)


def complex_square(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal((side(n), side(n))) + 1j * rng.standard_normal((side(n), side(n)))


def half_spectrum(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.fft.rfft(square(rng, n))


def half_spectrum_2d(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.fft.rfft2(square(rng, n))


def row(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal(side(n))


def one_row(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal((1, side(n)))


def with_ones(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal((side(n), 1, side(n)))


def number(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal(())


def triples(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal((max(1, n // 3), 3))


def condition(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.random(n) < 0.5


def rows_at_random(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, side(n), side(n))


def places_along(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, side(n), (side(n), side(n)))


def matrix(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return a matrix that is not close to singular, whose products neither grow nor vanish."""
    m = matrix_side(n)
    return rng.standard_normal((m, m)) / math.sqrt(m) + 2 * np.eye(m)


def definite(rng: np.random.Generator, n: int) -> np.ndarray:
    m = matrix_side(n)
    a = rng.standard_normal((m, m)) / math.sqrt(m)
    return a @ a.T + np.eye(m)


# ------------------------------------------------------------------ cases

SAME = ""


def _attribute(space: Any, path: str) -> Any:
    for part in path.split("."):
        space = getattr(space, part)
    return space


def _word(text: str) -> Call:
    return lambda xp, *arrays: _attribute(xp, text)(*arrays)


def case(
    name: str,
    draws: Draw | Sequence[Draw],
    *,
    agrad: Call | None = None,
    numpy: Call | str | None = SAME,
    torch: Call | str | None = SAME,
    autograd: Call | str | None = SAME,
    constants: Draw | Sequence[Draw] = (),
    **more: Any,
) -> None:
    """Register a case. A text is the path of a function; ``SAME`` is the call of agrad."""
    mine = agrad or _word(name)

    def call(word: Call | str | None) -> Call | None:
        if word == SAME:
            return mine
        return _word(word) if isinstance(word, str) else word

    CASES[name] = Case(
        name,
        (draws,) if callable(draws) else tuple(draws),
        mine,
        call(numpy),
        call(torch),
        call(autograd),
        (constants,) if callable(constants) else tuple(constants),
        **more,
    )


# fmt: off
# ------------------------------------------------------------------ elementwise

for _name in ("cos", "cosh", "exp", "expm1", "negative", "sin", "sinh", "square", "tan", "tanh"):
    case(_name, normal)
for _name in ("log", "log10", "log1p", "log2", "reciprocal", "sqrt"):
    case(_name, positive)
for _name, _draw, _old in (("acos", inside, "arccos"), ("acosh", above, "arccosh"), ("asin", inside, "arcsin"),
                           ("asinh", normal, "arcsinh"), ("atan", normal, "arctan"), ("atanh", inside, "arctanh")):
    case(_name, _draw, autograd=_old)
for _name in ("add", "logaddexp", "maximum", "minimum", "multiply", "subtract"):
    case(_name, (normal, normal))
case("divide", (normal, positive))
case("abs", normal)
case("positive", normal, autograd=None)
case("real", complex_vector)
case("imag", complex_vector)
case("conj", complex_vector, torch=lambda xp, x: xp.conj_physical(x))
case("sign", complex_vector, torch=lambda xp, x: xp.sgn(x), autograd=None)
case("atan2", (normal, positive), autograd="arctan2")
case("hypot", (normal, normal))
case("copysign", normal, constants=normal, autograd=None)
case("nextafter", normal, constants=normal, autograd=None)
case("pow", (positive, normal), autograd="power")
case("remainder", (normal, above))
case("clip", normal, agrad=lambda xp, x: xp.clip(x, -0.5, 0.5))
case("where", (normal, normal), agrad=lambda xp, a, b, c: xp.where(c, a, b), constants=condition)

# ------------------------------------------------------------------ statistical

def _over(word: str, **how: Any) -> Call:
    return lambda xp, x: getattr(xp, word)(x, **how)


for _name in ("mean", "prod", "sum"):
    case(_name, near_one if _name == "prod" else square, agrad=_over(_name, axis=-1), torch=_over(_name, dim=-1))
for _name in ("max", "min"):
    case(_name, square, agrad=_over(_name, axis=-1), torch=_over(f"a{_name}", dim=-1))
for _name in ("std", "var"):
    case(_name, square, agrad=_over(_name, axis=-1), torch=_over(_name, dim=-1, correction=0))
case("cumulative_sum", square, agrad=lambda xp, x: xp.cumulative_sum(x, axis=-1),
     torch=lambda xp, x: xp.cumsum(x, dim=-1), autograd=lambda xp, x: xp.cumsum(x, axis=-1))
case("cumulative_prod", near_one, agrad=lambda xp, x: xp.cumulative_prod(x, axis=-1),
     torch=lambda xp, x: xp.cumprod(x, dim=-1), autograd=None)

# ------------------------------------------------------------------ sorting, indexing

case("sort", square, agrad=lambda xp, x: xp.sort(x, axis=-1), torch=lambda xp, x: xp.sort(x, dim=-1, stable=True)[0],
     autograd=None)  # autograd sorts only 1-D arrays
case("take", square, agrad=lambda xp, x, i: xp.take(x, i, axis=0), constants=rows_at_random,
     torch=lambda xp, x, i: xp.index_select(x, 0, i), autograd=lambda xp, x, i: x[i])
case("take_along_axis", square, agrad=lambda xp, x, i: xp.take_along_axis(x, i, axis=-1), constants=places_along,
     torch=lambda xp, x, i: xp.take_along_dim(x, i, dim=-1), autograd=None)

# ------------------------------------------------------------------ manipulation

case("broadcast_arrays", (square, one_row), agrad=lambda xp, a, b: tuple(xp.broadcast_arrays(a, b)),
     torch=lambda xp, a, b: tuple(xp.broadcast_tensors(a, b)), autograd=None)
case("broadcast_to", one_row, agrad=lambda xp, x: xp.broadcast_to(x, (x.shape[1], x.shape[1])))
case("concat", (square, square), agrad=lambda xp, a, b: xp.concat([a, b], axis=0),
     torch=lambda xp, a, b: xp.cat([a, b]), autograd=lambda xp, a, b: xp.concatenate([a, b]))
case("diff", square, agrad=lambda xp, x: xp.diff(x, axis=-1), torch=lambda xp, x: xp.diff(x, dim=-1))
case("expand_dims", square, agrad=lambda xp, x: xp.expand_dims(x, axis=1), torch=lambda xp, x: xp.unsqueeze(x, 1),
     autograd=lambda xp, x: xp.expand_dims(x, 1))
case("flip", square, agrad=lambda xp, x: xp.flip(x, axis=-1), torch=lambda xp, x: xp.flip(x, (-1,)),
     autograd=lambda xp, x: xp.fliplr(x))
case("matrix_transpose", square, torch=lambda xp, x: x.mT, autograd=lambda xp, x: xp.swapaxes(x, -1, -2))
case("moveaxis", square, agrad=lambda xp, x: xp.moveaxis(x, 0, 1))
case("permute_dims", square, agrad=lambda xp, x: xp.permute_dims(x, (1, 0)), torch=lambda xp, x: xp.permute(x, (1, 0)),
     autograd=lambda xp, x: xp.transpose(x, (1, 0)))
case("repeat", square, agrad=lambda xp, x: xp.repeat(x, 3, axis=0),
     torch=lambda xp, x: xp.repeat_interleave(x, 3, dim=0))
case("reshape", square, agrad=lambda xp, x: xp.reshape(x, (-1,)))
case("roll", square, agrad=lambda xp, x: xp.roll(x, 3, axis=-1), torch=lambda xp, x: xp.roll(x, 3, -1))
case("squeeze", with_ones, agrad=lambda xp, x: xp.squeeze(x, axis=1), torch=lambda xp, x: xp.squeeze(x, 1))
case("stack", (square, square), agrad=lambda xp, a, b: xp.stack([a, b]))
case("tile", square, agrad=lambda xp, x: xp.tile(x, (2, 2)))
case("tril", square)
case("triu", square)
case("unstack", square, agrad=lambda xp, x: tuple(xp.unstack(x)), torch=lambda xp, x: tuple(xp.unbind(x)),
     autograd=None)

# ------------------------------------------------------------------ creation

case("asarray", (row, row), agrad=lambda xp, a, b: xp.asarray([a, b]), numpy=lambda xp, a, b: xp.asarray([a, b]),
     torch=lambda xp, a, b: xp.stack([a, b]), autograd=lambda xp, a, b: xp.array([a, b]))
case("astype", normal, agrad=lambda xp, x: xp.astype(x, _other(xp, x)), torch=lambda xp, x: x.to(_other(xp, x)),
     autograd=lambda xp, x: x.astype(_other(np, x)))
case("from_dlpack", normal, agrad=lambda xp, x: xp.from_dlpack(x), numpy=lambda xp, x: xp.from_dlpack(x),
     torch=None, autograd=None)
case("full", number, agrad=lambda xp, x, m: xp.full(m.shape, x), constants=square,
     torch=lambda xp, x, m: x.expand(m.shape), autograd=lambda xp, x, m: xp.full(m.shape, x))
case("full_like", number, agrad=lambda xp, x, m: xp.full_like(m, x), constants=square,
     torch=lambda xp, x, m: x.expand(m.shape), autograd=lambda xp, x, m: xp.full(m.shape, x))
case("linspace", (number, number), agrad=lambda xp, a, b, m: xp.linspace(a, b, m.shape[0]), constants=normal,
     torch=None, autograd=None)  # the PyTorch function is not differentiable with respect to its ends
case("meshgrid", (row, row), agrad=lambda xp, a, b: tuple(xp.meshgrid(a, b, indexing="ij")), autograd=None)


def _other(xp: Any, x: Any) -> Any:
    return xp.float32 if "float64" in str(x.dtype) else xp.float64


# ------------------------------------------------------------------ linear algebra
# The operations that factorizations need: Golub and Van Loan, "Matrix Computations", 4th edition, sections 3.2, 4.2,
# 5.2, 8.3 and 8.6; for eig, section 7.5.

def _linalg(name: str, draws: Any, flops: Callable[[int], float], **more: Any) -> None:
    case(name, draws, flops=flops, **more)


for _prefix in ("", "linalg."):
    _linalg(f"{_prefix}matmul", (matrix, matrix), lambda n: 2 * n**3, torch="matmul", autograd="matmul")
    case(f"{_prefix}tensordot", (matrix, matrix), flops=lambda n: 2 * n**3,
         agrad=lambda xp, a, b: xp.tensordot(a, b, axes=((1,), (0,))),
         torch=lambda xp, a, b: xp.tensordot(a, b, dims=((1,), (0,))))
    case(f"{_prefix}vecdot", (square, square), torch="linalg.vecdot", autograd=None)
case("linalg.matrix_transpose", square, torch=lambda xp, x: x.mT, autograd=lambda xp, x: xp.swapaxes(x, -1, -2))
_linalg("linalg.cholesky", definite, lambda n: n**3 / 3)
case("linalg.cross", (triples, triples), autograd=lambda xp, a, b: xp.cross(a, b))
_linalg("linalg.det", matrix, lambda n: 2 * n**3 / 3)
case("linalg.diagonal", square, autograd=lambda xp, x: xp.diagonal(x, 0, -1, -2))
_linalg("linalg.eig", matrix, lambda n: 25 * n**3, agrad=lambda xp, x: tuple(xp.linalg.eig(x)), unique=False,
        free=(1,))
_linalg("linalg.eigh", definite, lambda n: 9 * n**3, agrad=lambda xp, x: tuple(xp.linalg.eigh(x)), unique=False)
_linalg("linalg.eigvals", matrix, lambda n: 10 * n**3, autograd=None, unique=False)
_linalg("linalg.eigvalsh", definite, lambda n: 4 * n**3 / 3, autograd=None)
_linalg("linalg.inv", matrix, lambda n: 2 * n**3)
case("linalg.matrix_norm", square, autograd="linalg.norm")
_linalg("linalg.matrix_power", matrix, lambda n: 4 * n**3, agrad=lambda xp, x: xp.linalg.matrix_power(x, 3),
        autograd=lambda xp, x: xp.matmul(xp.matmul(x, x), x))
case("linalg.outer", (row, row), torch="outer", autograd="outer")
_linalg("linalg.pinv", matrix, lambda n: 22 * n**3)
_linalg("linalg.qr", matrix, lambda n: 8 * n**3 / 3, agrad=lambda xp, x: tuple(xp.linalg.qr(x)), autograd=None,
        unique=False)
_linalg("linalg.slogdet", matrix, lambda n: 2 * n**3 / 3, agrad=lambda xp, x: xp.linalg.slogdet(x)[1])
_linalg("linalg.solve", (matrix, matrix), lambda n: 8 * n**3 / 3)
_linalg("linalg.svd", matrix, lambda n: 21 * n**3, agrad=lambda xp, x: tuple(xp.linalg.svd(x, full_matrices=False)),
        unique=False)
_linalg("linalg.svdvals", matrix, lambda n: 8 * n**3 / 3, autograd=lambda xp, x: xp.linalg.svd(x, compute_uv=False))
case("linalg.trace", square, torch="trace", autograd="trace")
case("linalg.vector_norm", square, agrad=lambda xp, x: xp.linalg.vector_norm(x, axis=-1),
     torch=lambda xp, x: xp.linalg.vector_norm(x, dim=-1), autograd=lambda xp, x: xp.linalg.norm(x, axis=-1))

# ------------------------------------------------------------------ fft: the transforms of one axis along the rows

for _name, _draw in (("fft", complex_square), ("ifft", complex_square), ("rfft", square), ("irfft", half_spectrum),
                     ("hfft", half_spectrum), ("ihfft", square)):
    case(f"fft.{_name}", _draw, **({"autograd": None} if "h" in _name else {}))
for _name, _draw in (("fftn", complex_square), ("ifftn", complex_square), ("rfftn", square),
                     ("irfftn", half_spectrum_2d)):
    case(f"fft.{_name}", _draw)
case("fft.fftshift", square)
case("fft.ifftshift", square)
# fmt: on
