"""Functions of data larger than memory: sums over chunks of Dask arrays.

A function of rows is computed for each chunk in one task, which runs agrad on NumPy arrays, and a tree of tasks adds
the results. Derivatives are sums over chunks too. ``Sum`` describes the function of a chunk that computes one.
"""

import functools
import itertools
import math
import uuid
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import agrad
from agrad import tree
from agrad.backends import backend_of
from agrad.errors import MissingExtraError, OperandError, ShapeError, TracedValueError

Function = Callable[..., Any]


class Part(NamedTuple):
    """A leaf of the arguments: part of the vector, chunked array, or other value."""

    kind: str
    number: int = 0
    shape: tuple[int, ...] = ()
    dtype: str = ""


class Sum:
    """The sum over chunks of a function of a vector, or of a derivative of it.

    ``steps`` are the derivatives, each with the length of the vector before it and the length of the result after it.
    "vjp" creates a function of the vector and a cotangent, concatenated, "jvp" of the vector and a tangent, and "vmap"
    of several vectors.
    """

    def __init__(self, call: "Call", steps: tuple[tuple[str, int, int], ...] = ()) -> None:
        self.call: Call = call
        self.steps: tuple[tuple[str, int, int], ...] = steps
        self.length: int = steps[-1][2] if steps else 1

    def then(self, kind: str, n: int, length: int) -> "Sum":
        """Return a derivative of this function of ``n`` numbers, with ``length`` results."""
        return Sum(self.call, (*self.steps, (kind, n, length)))

    def __call__(self, vector: np.ndarray) -> np.ndarray:
        """Return the sum over all chunks."""
        if self.call.ahead is not None and len(self.steps) == 1:
            point, gradient = self.call.ahead
            kind, n, _ = self.steps[0]
            if kind in ("vjp", "jvp") and np.array_equal(vector[:n], point):
                return gradient * vector[n] if kind == "vjp" else (gradient @ vector[n:])[None]
        if not self.steps and self.call.with_gradient:
            found = self.call.run((("value and vjp", vector.size, 1 + vector.size),), vector, 1 + vector.size)
            self.call.ahead = vector.copy(), found[1:]
            return found[:1]
        return self.call.run(self.steps, vector, self.length)

    def __repr__(self) -> str:
        return f"<sum over chunks {id(self.call)} {self.steps}>"


@agrad.primitive
def sum_p(xp: Any, x: Any, /, *, over: Sum) -> Any:
    """Return the sum over chunks of a function of a vector."""
    backend = backend_of(x)
    found = over(np.asarray(backend.to_host(x)))
    return backend.from_host(found, backend.device_of(x))


@sum_p.vjp
def _sum_vjp(xp: Any, g: Any, x: Any, *, over: Sum) -> Any:
    return sum_p(xp.concat([x, xp.astype(g, x.dtype, copy=False)]), over=over.then("vjp", x.shape[0], x.shape[0]))


@sum_p.jvp
def _sum_jvp(xp: Any, t: Any, x: Any, *, over: Sum) -> Any:
    return sum_p(xp.concat([x, t]), over=over.then("jvp", x.shape[0], over.length))


@sum_p.batch
def _sum_batch(xp: Any, x: Any, batch_size: int, *, over: Sum) -> Any:
    n, length = x.shape[1], over.length * batch_size
    return xp.reshape(sum_p(xp.reshape(x, (-1,)), over=over.then("vmap", n, length)), (batch_size, over.length))


# ------------------------------------------------------------------ in the task of a chunk

_MADE: dict[Any, Function] = {}
"""The functions of chunks that this process created, compiled by ``agrad.jit``."""
KEPT = 64
"""The number of functions that a process stores."""


def of_chunk(
    key: Any, f: Function, jit: bool, spec: Any, parts: tuple[Part, ...], others: tuple[Any, ...], steps: Any
) -> Function:
    """Return a function of a vector and the arrays of a chunk."""
    made = _MADE.get((key, steps))
    if made is None:
        plain = functools.partial(_value, f, spec, parts, others)
        for kind, n, _ in steps:
            plain = functools.partial(_DERIVATIVES[kind], plain, n)
        made = agrad.jit(plain) if jit else plain
        for old in list(_MADE)[: -KEPT + 1]:  # other threads may remove them too
            _MADE.pop(old, None)
        _MADE[key, steps] = made
    return made


def _value(f: Function, spec: Any, parts: tuple[Part, ...], others: tuple[Any, ...], vector: Any, *chunks: Any) -> Any:
    leaves: list[Any] = []
    start = 0
    for part in parts:
        if part.kind != "vector":
            leaves.append((chunks if part.kind == "chunks" else others)[part.number])
            continue
        stop = start + math.prod(part.shape)
        leaf = agrad.reshape(vector[start:stop], part.shape)
        leaves.append(agrad.astype(leaf, getattr(agrad, part.dtype), copy=False))
        start = stop
    out = f(*tree.unflatten(spec, leaves))
    if not hasattr(out, "shape") or out.shape != ():
        found = f"shape {tuple(out.shape)}" if hasattr(out, "shape") else f"a {type(out).__name__}"
        raise ShapeError(f"chunked: the function must return an array of shape (), got {found}. Sum over the rows.")
    return agrad.reshape(agrad.astype(out, vector.dtype, copy=False), (1,))


def _vjp(f: Function, n: int, vector: Any, *chunks: Any) -> Any:
    _, pullback = agrad.vjp(lambda x: f(x, *chunks), vector[:n])
    (found,) = pullback(vector[n:])
    return found


def _jvp(f: Function, n: int, vector: Any, *chunks: Any) -> Any:
    return agrad.jvp(lambda x: f(x, *chunks), (vector[:n],), (vector[n:],))[1]


def _vmap(f: Function, n: int, vector: Any, *chunks: Any) -> Any:
    return agrad.reshape(agrad.vmap(lambda x: f(x, *chunks))(agrad.reshape(vector, (-1, n))), (-1,))


def _value_and_vjp(f: Function, n: int, vector: Any, *chunks: Any) -> Any:
    value, pullback = agrad.vjp(lambda x: f(x, *chunks), vector)
    (found,) = pullback(agrad.ones_like(value))
    return agrad.concat([value, found])


_DERIVATIVES = {"vjp": _vjp, "jvp": _jvp, "vmap": _vmap, "value and vjp": _value_and_vjp}


def task(recipe: tuple[Any, ...], vector: np.ndarray, *chunks: Any) -> np.ndarray:
    """Compute a function for one chunk; the result has shape (1, length)."""
    made = of_chunk(*recipe)
    try:
        found = made(vector, *chunks)
    except TracedValueError as error:
        plain = getattr(made, "__wrapped__", None)
        if plain is None:
            raise
        warnings.warn(
            f"chunked: the function cannot be traced by agrad.jit and runs without it: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        key, *_, steps = recipe
        _MADE[key, steps] = plain
        found = plain(vector, *chunks)
    return np.asarray(found)[None]


# ------------------------------------------------------------------ calls


class Call:
    """The arguments of one call: parameters, arrays in chunks, and other values."""

    def __init__(self, key: Any, f: Function, jit: bool, args: tuple[Any, ...]) -> None:
        try:
            import dask.array as da
            from dask.base import tokenize
        except ImportError as error:
            raise MissingExtraError(f"chunked: {error}. Install Dask with: pip install 'agrad[dask]'") from error
        self._da = da
        self.with_gradient: bool = False
        self.ahead: tuple[np.ndarray, np.ndarray] | None = None
        """A vector, and the gradient there, which was computed with the value."""
        leaves, spec = tree.flatten(args)
        self.arrays: list[Any] = []
        self.values: list[Any] = []
        self.others: list[Any] = []
        parts = tuple([self._part(leaf) for leaf in leaves])
        if not self.arrays or not self.values:
            what = "one Dask array or more" if self.values else "a floating-point array of parameters"
            kinds = sorted({type(leaf).__name__ for leaf in leaves}) or ["nothing"]
            raise OperandError(f"chunked: the arguments must have {what}, got {', '.join(kinds)}")
        rows = {int(array.shape[0]) for array in self.arrays}
        if len(rows) > 1:
            raise ShapeError(f"chunked: Dask arrays must have equal numbers of rows, got {sorted(rows)}")
        chunks = self.arrays[0].chunks[0]
        self.arrays = [a.rechunk({0: chunks, **dict.fromkeys(range(1, a.ndim), -1)}) for a in self.arrays]
        # a worker that knows the key has the function, which it need not trace again
        key = (key, str(spec), parts, tokenize(self.others))
        self.recipe = (key, f, jit, spec, parts, tuple(self.others))

    def _part(self, leaf: Any) -> Part:
        raw = leaf.raw if isinstance(leaf, agrad.Tensor) else leaf
        if isinstance(raw, self._da.Array):
            if isinstance(leaf, agrad.Tensor) and leaf.requires_grad:
                raise OperandError(
                    "chunked: derivatives must be with respect to the parameters, got a Dask array that requires a "
                    "gradient. Pass the data after the arguments that are differentiated."
                )
            self.arrays.append(raw)
            return Part("chunks", len(self.arrays) - 1)
        kind = getattr(agrad.asarray(leaf).dtype, "kind", "") if hasattr(leaf, "shape") else ""
        if kind == "complex floating":
            raise OperandError("chunked: parameters must be real, got a complex array. Pass its two parts.")
        if kind != "real floating":
            self.others.append(leaf)
            return Part("other", len(self.others) - 1)
        self.values.append(leaf)
        return Part("vector", 0, tuple(leaf.shape), agrad.asarray(leaf).dtype.name)

    def run(self, steps: Any, vector: np.ndarray, length: int) -> np.ndarray:
        """Return the sum over all chunks: one task for each, and a tree of sums."""
        da = self._da
        params = da.from_array(vector, chunks=-1, name=f"parameters-{uuid.uuid4().hex}")
        rows, out, label = 0, 1, itertools.count(2)
        operands: list[Any] = [params, (next(label),)]
        for array in self.arrays:
            operands += [array, (rows, *itertools.islice(label, array.ndim - 1))]
        each = da.blockwise(
            functools.partial(task, (*self.recipe, steps)),
            (rows, out),
            *operands,
            new_axes={out: length},
            adjust_chunks={rows: 1},
            concatenate=True,
            align_arrays=False,
            dtype=vector.dtype,
            meta=np.empty((0, 0), vector.dtype),
        )
        return np.asarray(each.sum(axis=0, split_every=8).compute())


def chunked(f: Function, *, jit: bool = True) -> Function:
    """Return a function that sums ``f`` over the chunks of rows of Dask arrays.

    Use it for data larger than memory. Each chunk is one task, in which agrad computes on NumPy arrays, and a tree of
    tasks adds the results. The Dask scheduler runs the tasks, on threads or on the workers of a
    ``distributed.Client``. The result is computed at the call. It is differentiable with respect to the parameters in
    every mode. :func:`agrad.grad`, :func:`agrad.value_and_grad` and :func:`agrad.jvp` make one pass over the data, and
    :func:`agrad.hvp` makes two.

    Parameters
    ----------
    f : callable
        Function of pytrees, for example ``f(w, X, y)``, that returns an array of shape (), a sum over the rows. It
        receives the rows of a chunk as NumPy arrays.
    jit : bool, default True
        False to run ``f`` without :func:`agrad.jit`.

    Returns
    -------
    callable
        Function with the arguments of ``f``. Dask arrays must have the same number of rows, and are split as the first
        one. All other floating-point arrays are parameters. Each chunk receives them, and all other values, as a whole.

    Raises
    ------
    OperandError
        At the call, if there is no Dask array or no parameter, or a Dask array requires a gradient.

    See Also
    --------
    agrad.parallel.World.optimizer : Training on several ranks, which read their own data.

    Examples
    --------
    >>> import dask.array as da
    >>> X, y = da.ones((1000, 2), chunks=(100, 2)), da.full(1000, 3.0, chunks=100)
    >>> loss = agrad.parallel.chunked(lambda w, X, y: agrad.sum((X @ w - y) ** 2))
    >>> agrad.value_and_grad(loss)(np.array([1.0, 1.0]), X, y)
    (np.float64(1000.0), array([-2000., -2000.]))
    """
    key = uuid.uuid4().hex

    @functools.wraps(f, updated=())
    def total(*args: Any) -> Any:
        call = Call(key, f, jit, args)
        vector, _ = tree.ravel(call.values)
        # the gradient, if requested, is computed with the value
        call.with_gradient = isinstance(vector, agrad.Tensor)
        return sum_p(vector, over=Sum(call))[0]

    return total
